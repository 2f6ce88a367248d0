#!/usr/bin/env python3
"""Measures orders on one core: positions per second of each kind, compared with NumPy's permutation
(which must be complete before use) and with glzn's iTar algorithm in Python; the cost of opening
an order; and the reads that the order by blocks saves on a cold disk.

  shuffle  1 million random positions, one call each, and in batches
  kinds    10 million positions of each kind in batches, and its opening
  trade    loads of a cache of 16 blocks, and the number of blocks in a batch

Contestants run alternately; figures are medians. Each contestant times itself, without the start of its process.
Needs NumPy: run it with .venv/bin/python, which scripts/setup.sh build test creates.
"""
import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys

from make_data import DATA
from measure import Contestant, Report, take_turns

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
COUNT = 10_000_000
KINDS = ["identity", "shuffle", "blocks", "feistel", "buckets", "weighted", "weighted-once",
         "balanced", "lengths"]

NUMPY = """
import sys, time
import numpy
began = time.perf_counter()
numpy.random.default_rng(7).permutation(int(sys.argv[1]))
print(time.perf_counter() - began)
"""

# The iTar sampler as its documentation describes it: one position at a time, in Python.
REFERENCE = """
import random, sys, time
n, asked, total = map(int, sys.argv[1:])
h = ((n - 1).bit_length() + 1) // 2
m = (1 << h) - 1
rng = random.Random(7)
keys = [rng.getrandbits(h) for _ in range(3)]
at = [random.randrange(n) for _ in range(asked)]
began = time.perf_counter()
for x in at:
    while True:
        left, right = x >> h, x & m
        for key in keys:
            left, right = right, left ^ ((right * 0x9E3779B97F4A7C15 + key) & 0xFFFFFFFFFFFFFFFF & m)
        x = left << h | right
        if x < n:
            break
print((time.perf_counter() - began) * total / asked)
"""


@dataclasses.dataclass
class Timed(Contestant):
    """A contestant whose command prints its own seconds."""

    def once(self):
        out = [subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True)
               for argv in self.commands()]
        return sum(float(o.stdout) for o in out)


def timed(name, *argv, **more):
    return Timed(name, lambda: [argv], **more)


def build(args):
    program = DATA / "order_rate"
    DATA.mkdir(exist_ok=True)
    library = pathlib.Path(args.build).resolve()
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-I", ROOT / "include", "-o", program,
                    HERE / "order_rate.c", "-L", library, "-ltarn", f"-Wl,-rpath,{library}"],
                   check=True)
    return program


def shuffle(args, report, program):
    asked = 1_000_000
    contestants = [
        timed("tarn, one by one", program, "at", "shuffle", COUNT, asked, target="< 50 ms"),
        timed("tarn, batches", program, "fill", "shuffle", COUNT, asked, target="< 50 ms"),
        timed("tarn, of 2^62", program, "fill", "shuffle", 2**62, asked),
        timed("tarn, reference's", program, "at", "feistel", COUNT, asked),
        timed("reference in Python", sys.executable, "-c", REFERENCE, COUNT, 100_000, asked,
              slow=True)]
    take_turns(contestants, args.rounds)
    report.title(f"{asked:,} positions of {COUNT:,}")
    report.table("shuffle", "", contestants, asked, "positions/s", "reference in Python")
    whole = [timed("NumPy permutation", sys.executable, "-c", NUMPY, COUNT),
             timed("tarn, all positions", program, "fill", "shuffle", COUNT, COUNT,
                   target=">= 20 M/s")]
    take_turns(whole, args.rounds)
    report.title(f"all of {COUNT:,} (NumPy keeps 80 MB, tarn nothing)")
    report.table("whole", "", whole, COUNT, "positions/s", "NumPy permutation")


def kinds(args, report, program):
    for what in ("fill", "open"):
        contestants = [timed(kind, program, what, kind, COUNT, COUNT) for kind in KINDS]
        take_turns(contestants, max(1, args.rounds // 2), prime=False)
        report.title(f"{what} {COUNT:,}")
        report.table(what, "", contestants, COUNT, "positions/s", "shuffle")


def trade(args, report, program):
    report.title("a cache of 16 blocks of 1,024: loads per block, blocks in a batch of 256")
    for kind in ("identity", "blocks", "shuffle"):
        out = subprocess.run([program, "trade", kind, str(COUNT), "1000000"], check=True,
                             capture_output=True, text=True).stdout.split()
        print(f"  {kind:<12}{out[0]:>12}{out[1]:>12}")
        report.keep("trade", "", kind, loads_per_block=float(out[0]), blocks=float(out[1]))


BENCHES = {"shuffle": shuffle, "kinds": kinds, "trade": trade}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=BENCHES, metavar="NAME",
                        help="one benchmark; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="timed passes (default 5)")
    parser.add_argument("--build", default=str(ROOT / "build"), help="folder of libtarn.so")
    args = parser.parse_args()
    program, report = build(args), Report()
    for name in args.only or BENCHES:
        BENCHES[name](args, report, program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
