"""Arrays in one file: written in blocks by threads, read in place, extended later.

    python examples/python/gnz.py FOLDER
"""

import concurrent.futures
import pathlib
import sys

import numpy as np

import tarn.gnz

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
path = folder / "features.gnz"

# Reserves space for all rows, which threads then fill in any order. The file appears under its name
# at the end of the block. After an exception in the block, nothing is written.
with tarn.gnz.create(path, overwrite=True, checksums=True, header_pages=2) as out:
    out.metadata["model"] = "v2"
    out.add("ids", np.arange(1000))
    features = out.reserve("features", (1000, 64), "float16")

    def compute(start: int) -> None:
        block = np.random.default_rng(start).normal(size=(100, 64))
        features[start : start + 100] = block  # cast to float16, written without the GIL

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(compute, range(0, 1000, 100)))

with tarn.gnz.open(path) as f:
    print(f)
    print("mean", f"{f.stats('features').mean:.3f}", "of", f["features"].shape)
    sample = f.rows[42]  # {"ids": ..., "features": ...}, views into the file
    print("row", sample["ids"], "begins with", sample["features"][:3])

# More arrays can be added as long as the header has room (header_pages).
with tarn.gnz.update(path, checksums=True) as more:
    more.add("labels", np.zeros(1000, "u1"))

report = tarn.gnz.verify(path)
print(f"{report.arrays} arrays, {report.checksummed} compared, {report.problems} problems")
