"""Opens a dataset and looks at it from several sides.

    python first_samples.py [PATH]
"""

import sys

import tarn

ds = tarn.open(sys.argv[1] if len(sys.argv) > 1 else "birds")
print(ds)
for sample in ds[:2]:
    print(sample["__key__"], sorted(sample))

# Bytes where they lie in the file, without a copy.
views = tarn.open(sys.argv[1] if len(sys.argv) > 1 else "birds", decode=False)
first = views[0]
print({name: len(value) for name, value in first.items()})

# Another order costs no memory, and any process can take its part of it.
print(ds.shuffle(seed=7).shard(rank=0, world=2).keys())
