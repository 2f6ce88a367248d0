#!/usr/bin/env python3
"""Compares array files with plain writes and with NumPy.

  write  one array of --gb gigabytes, compared with write(2) of the same buffer, each with and
         without waiting for the disk
  open   a file of 10,000 arrays, and a view of each, compared with json and np.memmap of each
  rows   random rows of 16 floats from C, compared with a bare pointer, and with np.memmap
         indexing in Python

Contestants run alternately; figures are medians. Each contestant times itself, without the start of its process.
Needs NumPy: run it with .venv/bin/python, which scripts/setup.sh build test creates.
"""
import argparse
import dataclasses
import os
import pathlib
import platform
import subprocess
import sys

try:
    import numpy
except ImportError:
    raise SystemExit("NumPy is not installed: scripts/setup.sh build test, then .venv/bin/python "
                     "bench/gnz.py") from None

from make_data import DATA
from measure import Contestant, Report, take_turns, warm_in_order

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
ARRAYS, ROWS, LOOKUPS = 10000, 1 << 20, 1 << 22

OPEN_NUMPY = """
import json, struct, sys, time
import numpy as np
began = time.perf_counter()
with open(sys.argv[1], "rb") as f:
    f.read(4)
    header = json.loads(f.read(struct.unpack("<I", f.read(4))[0]))
arrays = {name: np.memmap(sys.argv[1], dtype=np.dtype(e["dtype"]), mode="r", offset=e["offset"],
                          shape=tuple(e["shape"])) for name, e in header["arrays"].items()}
print(time.perf_counter() - began)
"""

ROWS_NUMPY = """
import random, sys, time
import numpy as np
rows, count, total = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
array = np.memmap(sys.argv[1], dtype="<f4", mode="r", offset=4096, shape=(rows, 16))
order = [random.randrange(rows) for _ in range(count)]
began = time.perf_counter()
for i in order:
    array[i]
print((time.perf_counter() - began) * total / count)
"""


@dataclasses.dataclass
class Timed(Contestant):
    """A contestant whose command prints its own seconds."""

    def once(self):
        self.before()
        total = 0.0
        for argv in self.commands():
            out = subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True)
            total += float(out.stdout)
        return total


def timed(name, *argv, target="", **more):
    return Timed(name, lambda: [argv], target=target, **more)


def build(args):
    """Compiles the C program with the library that is measured."""
    program = DATA / "gnz"
    DATA.mkdir(exist_ok=True)
    library = pathlib.Path(args.build).resolve()
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-I", ROOT / "include", "-o", program,
                    HERE / "gnz.c", "-L", library, "-ltarn", f"-Wl,-rpath,{library}"], check=True)
    return program


def write(args, report, program):
    size = int(args.gb * 2**30) // 64 * 64
    path = DATA / "write.gnz"
    for sync, how in ((0, "not synced"), (1, "synced")):
        contestants = [timed("write(2)", program, "write", path, size, sync),
                       timed("tarn", program, "tarn", path, size, sync, target=">= 0.80x")]
        take_turns(contestants, args.rounds, prime=False)
        report.title(f"write {size:,} bytes as one array, {how}")
        report.table(f"write, {how}", "", contestants, size, "bytes/s", "write(2)")
    path.unlink()


def pack(args, path, arrays):
    """Makes a .gnz file with the command."""
    npz = path.with_suffix(".npz")
    numpy.savez(npz, **arrays)
    subprocess.run([args.tarn, "convert", "-q", "-f", npz, path], check=True)
    npz.unlink()


def open_many(args, report, program):
    path = DATA / "many.gnz"
    pack(args, path, {f"array{i:05}": numpy.full((4, 4), i, "<f4") for i in range(ARRAYS)})
    warm_in_order([path])
    contestants = [timed("json + np.memmap", sys.executable, "-c", OPEN_NUMPY, path, slow=True),
                   timed("tarn, and every view", program, "open", path, 5, target=">= 20x")]
    take_turns(contestants, args.rounds)
    report.title(f"open a file of {ARRAYS:,} arrays")
    report.table("open", "", contestants, ARRAYS, "arrays/s", "json + np.memmap")
    path.unlink()


def rows(args, report, program):
    path = DATA / "rows.gnz"
    pack(args, path, {"x": numpy.arange(ROWS * 16, dtype="<f4").reshape(ROWS, 16)})
    warm_in_order([path])
    contestants = [timed("bare pointer", program, "bare", path, LOOKUPS),
                   timed("tarn_gnz_row", program, "rows", path, LOOKUPS, target="about 1x"),
                   timed("np.memmap[i]", sys.executable, "-c", ROWS_NUMPY, path, ROWS, 200000,
                         LOOKUPS)]
    take_turns(contestants, args.rounds)
    report.title(f"random rows of 16 floats among {ROWS:,}")
    report.table("rows", "", contestants, LOOKUPS, "rows/s", "bare pointer")
    path.unlink()


BENCHES = {"write": write, "open": open_many, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=BENCHES, metavar="NAME",
                        help="one benchmark; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="timed passes (default 5)")
    parser.add_argument("--gb", type=float, default=4, help="size of the array that is written")
    parser.add_argument("--build", default=ROOT / "build", metavar="DIR",
                        help="folder of the library and the command (default build)")
    args = parser.parse_args()
    args.tarn = pathlib.Path(args.build) / "tarn"
    if not os.access(args.tarn, os.X_OK):
        raise SystemExit(f"{args.tarn} does not exist: build it first, with make")
    print(f"{os.cpu_count()} cores, Linux {platform.release()}; medians of {args.rounds}")
    program, report = build(args), Report()
    for name in args.only or BENCHES:
        BENCHES[name](args, report, program)


if __name__ == "__main__":
    main()
