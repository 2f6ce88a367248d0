"""The same dataset in PyTorch's DataLoader, and as native batches.

    python torch_loaders.py [PATH]
"""

import sys

import torch.utils.data

import tarn
import tarn.torch

ds = tarn.open(sys.argv[1] if len(sys.argv) > 1 else "birds", fields=["cls"])

for batch in torch.utils.data.DataLoader(ds, batch_size=2, num_workers=0):  # type: ignore[arg-type]
    print("DataLoader", batch["__key__"], batch["cls"])

batches = tarn.torch.loader_for(ds, rank=0, world_size=2, batch_size=2, shuffle=True, seed=1)
for batch in batches:
    print("native", batch["__key__"], batch["cls"])
