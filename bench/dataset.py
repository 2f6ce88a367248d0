#!/usr/bin/env python3
"""Datasets over folds of ten million rows: opening, compared with mapping the index and summing it;
selecting by fields, compared with NumPy; and random fields in one call, compared with memcpy.

  dataset.py [--build DIR] [--only open,filter,batch]

DIR is a build folder with libtarn.so and the tool (default build). Uses d1, d10m and d10f of
make_data.py, which are made and indexed if they do not exist (5 GB each for the large ones).
NumPy comes from the .venv that scripts/setup.sh makes for the tests. Medians, contestants in turns, in
one process each; everything is in the page cache.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import make_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"

# A NumPy user's version: group rows by key, count the wanted ones, keep full groups.
NUMPY = """
import statistics, sys, time
import numpy as np
path, fields = sys.argv[1], sys.argv[2:]
row = np.dtype([("fid", "<u2"), ("offset", "<u8"), ("size", "<u8"), ("ext", "<u2"),
                ("crash", "<u4"), ("hash", "<u8")])
head = np.fromfile(path, "u1", 64)
n_rows = int(head[24:32].view("<u8")[0])
off_crash, off_arr = (int(x) for x in head[40:56].view("<u8"))
with open(path, "rb") as f:
    names = f.read(off_crash)[64:].decode().split("\\n")
rows = np.fromfile(path, row, n_rows, offset=off_arr)
ids = [names.index(f) for f in fields]
taken = []
for _ in range(3):
    start = time.perf_counter()
    new = np.empty(n_rows, bool)
    new[0] = True
    new[1:] = (rows["hash"][1:] != rows["hash"][:-1]) | (rows["crash"][1:] != rows["crash"][:-1])
    starts = np.flatnonzero(new)
    wanted = np.isin(rows["ext"], ids)
    kept = np.flatnonzero(np.add.reduceat(wanted, starts, dtype="i4") == len(ids))
    taken.append(time.perf_counter() - start)
print("kept", len(kept))
print("numpy", statistics.median(taken))
"""


def build_work(build, scratch):
    program = pathlib.Path(scratch) / "dataset_work"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}/include",
                    ROOT / "bench/dataset_work.c", "-o", program, f"-I{build}/include", f"-L{build}", "-ltarn",
                    f"-Wl,-rpath,{build}"], check=True)
    return program


def figures(*argv):
    """The output lines of a program: {name: number}."""
    done = subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, text=True)
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def indexed(name, build):
    """A data set with its index, with the whole index in the page cache."""
    data = make_data.make(name)
    index = data.folder / "train.taridx"
    if not index.exists():
        subprocess.run([build / "tarn", "index", data.folder], check=True)
    for path in index, index.with_suffix(".tarsum"):
        path.read_bytes()
    return data.folder, index


def show(what, ours, theirs, ratio, aim):
    print(f"{what:44} {ours:>14} {theirs:>14}   {ratio:6.2f}  {aim}", flush=True)


def seconds(value):
    return f"{value * 1e3:.1f} ms"


def bench_open(work, build):
    for name in "d10m", "d10f":
        folder, index = indexed(name, build)
        got = figures(work, "open", folder, index)
        show(f"open {name}, compared with map + sum", seconds(got["open"]), seconds(got["map+sum"]),
             got["open"] / got["map+sum"], "at most 2")


def bench_filter(work, build):
    folder, index = indexed("d10f", build)
    for fields in (["c"], ["a", "b", "c"]):
        ours = figures(work, "filter", folder, *fields)
        theirs = figures(PYTHON, "-c", NUMPY, index, *fields)
        assert ours["kept"] == theirs["kept"], (ours, theirs)
        words = "+".join(fields)
        show(f"filter d10f by {words}, compared with NumPy", seconds(ours["filter"]),
             seconds(theirs["numpy"]), theirs["numpy"] / ours["filter"], "at least 20")
        show(f"open d10f with {words}, compared with NumPy", seconds(ours["open-with-fields"]),
             seconds(theirs["numpy"]), theirs["numpy"] / ours["open-with-fields"], "")


def bench_batch(work, build):
    folder, _ = indexed("d1", build)
    for shard in folder.glob("*.tar"):
        shard.read_bytes()
    got = figures(work, "batch", folder, "bin", 256)
    for name, aim in (("read_batch", "at least 0.60"), ("read_batch-first-use", "")):
        show(f"256 x 1 KB, {name}, compared with memcpy", f"{got[name] / got['pieces'] * 1e9:.0f} ns",
             f"{got['memcpy'] / got['pieces'] * 1e9:.0f} ns", got["memcpy"] / got[name], aim)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default="open,filter,batch")
    args = parser.parse_args()
    build = args.build.resolve()
    print(f"{'':44} {'tarn':>14} {'other':>14}   {'ratio':>6}  aim")
    with tempfile.TemporaryDirectory() as scratch:
        work = build_work(build, scratch)
        for name in args.only.split(","):
            {"open": bench_open, "filter": bench_filter, "batch": bench_batch}[name](work, build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
