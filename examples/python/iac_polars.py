"""Selects records of an IAC file with polars, and reads only those.

    python examples/python/iac_polars.py FOLDER
"""

import pathlib
import sys

import polars as pl

import tarn
import tarn.iac

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
path = folder / "notes.iac"

# Tables may come from polars, too: any object with the Arrow PyCapsule interface works.
index = pl.DataFrame({
    "note_id": [f"n_{i:03}" for i in range(300)],
    "patient": [i // 10 for i in range(300)],
    "year": [2020 + i % 5 for i in range(300)],
})
with tarn.iac.create(path, index, {"slide_id": ["none"]}, header={"payload_type": "note"}, codec="zstd",
                     overwrite=True) as out:
    for i in range(300):
        out.add(f"The text of note {i}. ".encode() * 20)

with tarn.iac.open(path) as pack:
    notes = pl.DataFrame(pack.index).with_row_index("row")  # points into the file, nothing is copied
    newest = notes.sort("year", descending=True).group_by("patient", maintain_order=True).first()
    rows = newest["row"].to_list()
    print(f"{len(notes)} notes, the newest of each of {len(rows)} patients:")
    for row in rows[:3]:
        print(notes["note_id"][row], notes["year"][row], pack.decode(row)[:21].decode())

# The same file is a dataset; columns select records without Python checking each one.
ds = tarn.open(path).filter(between={"year": (2024, 2024)})
print(f"{len(ds)} notes of 2024")
