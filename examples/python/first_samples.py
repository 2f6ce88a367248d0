"""Opens a dataset and reads it in several ways.

    python first_samples.py [PATH]
"""

import sys

import tarn

ds = tarn.open(sys.argv[1] if len(sys.argv) > 1 else "birds")
print(ds)
for sample in ds[:2]:
    print(sample["__key__"], sorted(sample))

# Views into the file, without copying.
views = tarn.open(sys.argv[1] if len(sys.argv) > 1 else "birds", decode=False)
first = views[0]
print({name: len(value) for name, value in first.items()})

# Selections and orders can be combined in any sequence. Each applies to the result of the previous one.
print(ds.shuffle(seed=7).shard(rank=0, world_size=2).keys())
print(ds.shuffle(seed=7)[:2].keys(), ds[:2].shuffle(seed=7).keys(), ds[::-1].keys())
