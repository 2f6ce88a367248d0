"""A training loop that can stop at any batch and resume exactly there.

    python training.py [PATH]
"""

import json
import sys

import tarn

ds = tarn.open(sys.argv[1] if len(sys.argv) > 1 else "birds", fields=["cls"])


def train(loader: tarn.Loader, most: int) -> list[str]:
    seen: list[str] = []
    for number, batch in enumerate(loader):
        seen += batch["__key__"]
        if number + 1 == most:
            break
    return seen


loader = ds.loader(batch_size=1, shuffle=True, seed=7, threads=2)
before = train(loader, most=3)
checkpoint = json.dumps(loader.state_dict())

again = ds.loader(batch_size=1, shuffle=True, seed=7, threads=2)
again.load_state_dict(json.loads(checkpoint))
after = train(again, most=10**9)
print(before, after, loader.stats()["bottleneck"])
assert sorted(before + after) == sorted(ds.keys())
