"""A record pack: built from an Arrow table, queried, and read in batches.

    python examples/python/iac_arrow.py FOLDER
"""

import pathlib
import sys

import pyarrow as pa
import pyarrow.compute as pc

import tarn.iac

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
path = folder / "tiles.iac"

index = pa.table({
    "tile_id": [f"t_{i:04}" for i in range(1000)],
    "slide": pa.array([i % 3 for i in range(1000)], pa.uint8()),
})
slides = {"slide_id": ["a", "b", "c"]}  # small tables may be dicts of lists

# Payloads are written directly to their place, compressed one by one; the file gets its name at the
# end.
with tarn.iac.create(path, index, slides, header={"payload_type": "tile"}, codec="zstd",
                     overwrite=True) as out:
    for i in range(1000):
        out.add(f"the pixels of tile {i} ".encode() * 50)

with tarn.iac.open(path, check=True) as pack:
    print(pack, pack.info["codec"])
    row = pack.find("tile_id", "t_0042")
    print(row, pack.decode(row)[:24])

    # The table is pyarrow's, without a copy; polars, pandas and duckdb accept pack.index as well.
    table = pack.index_table
    rows = pc.indices_nonzero(pc.equal(table["slide"], 2))
    batch = pack.batch(rows.to_numpy())  # one C call, one buffer
    print(f"{len(batch)} tiles of slide 2, {len(batch.buffer)} bytes; the first has "
          f"{len(batch[0])}")
    largest = pc.max(table["length"]).as_py()
    print("the largest payload has", largest, "bytes")
