#!/usr/bin/env python3
"""Counts the instructions that the loader executes for each sample, with this build and that of another version.

  instructions.py BEFORE [--build DIR] [--batches 64,256] [--threads 1,2]

BEFORE and DIR are build folders with the package in DIR/python. Each reads shuffled epochs of samples of 1 KB with a label from
Python, in valgrind's callgrind, which counts the instructions of all threads: those of three epochs minus those of one, divided
by the samples of two epochs, so that starting and opening are not counted. Python's lists and objects are. callgrind runs one
thread at a time, so the counts say how much work there is, not how long threads wait for each other (bench/scaling.py) or for
memory (bench/loader.py). Prints a table in Markdown.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import make_data
from before import PYTHON, ROOT, output

SCALE = 0.05
EPOCHS = """
import sys, tarn
folder, batch, threads, epochs = sys.argv[1], *map(int, sys.argv[2:])
loader = tarn.open(folder, fields=["bin", "cls"]).loader(batch, shuffle=True, seed=7, threads=threads, keys=False)
print(sum(len(batch["bin"]) for _ in range(epochs) for batch in loader))
"""


def executed(build, *argv):
    """Samples, and instructions of the whole process."""
    environment = {**os.environ, "PYTHONPATH": str(build / "python"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
                   "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out", PYTHON, "-c", EPOCHS,
                               *map(str, argv)], check=True, capture_output=True, text=True, env=environment)
    return int(done.stdout), int(re.search(r"Collected : (\d+)", done.stderr)[1])


def for_each_sample(build, folder, batch, threads):
    few, many = (executed(build, folder, batch, threads, epochs) for epochs in (1, 3))
    return (many[1] - few[1]) / (many[0] - few[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--batches", default="64,256")
    parser.add_argument("--threads", default="1,2")
    args = parser.parse_args()
    folder = make_data.make("d1", SCALE).folder
    if not (folder / "train.taridx").exists():
        output(args.build / "tarn", "index", folder)
    print("| batches of | threads | before | now | ratio |\n| ---: | ---: | ---: | ---: | ---: |")
    for batch in args.batches.split(","):
        for threads in args.threads.split(","):
            before, now = (for_each_sample(build.resolve(), folder, batch, threads) for build in (args.before, args.build))
            print(f"| {batch} | {threads} | {before:,.0f} | {now:,.0f} | {now / before:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
