#!/usr/bin/env python3
"""Compares two checkouts: is anything slower than before?

  before.py BASE [--rounds N] [--only dataset|order|python]

BASE is another checkout of tarn, built like this one (`make`, a release build in its folder build).
Runs the rows of dataset.py, order.py and python.py that measure tarn, each checkout with its own
programs and package on the same data, in turns. Prints the median of each, in seconds, and the ratio:
above 1 means slower than BASE. Rounds of one row are interleaved, so that a busy moment slows both.
Uses the data of this checkout's bench/data, which make_data.py makes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import make_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"
ORDERS = ["identity", "shuffle", "blocks", "feistel", "buckets", "weighted", "weighted-once", "balanced",
          "lengths"]
COUNT = 10_000_000


def compiled(checkout, scratch, name):
    """A program of bench/, built with the headers and the library of its own checkout."""
    program = pathlib.Path(scratch) / f"{name}-{len(list(pathlib.Path(scratch).iterdir()))}"
    build = checkout / "build"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{checkout}/include", f"-I{build}/include",
                    checkout / f"bench/{name}.c", "-o", program, f"-L{build}", "-ltarn",
                    f"-Wl,-rpath,{build}"], check=True)
    return program


def output(*argv, **more):
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True, **more).stdout


def race(title, sides, rounds):
    """sides: two functions that return {row: seconds}. Prints a line for each row."""
    taken = [{}, {}]
    for turn in range(rounds):
        for side in ((0, 1), (1, 0))[turn % 2]:
            for row, seconds in sides[side]().items():
                taken[side].setdefault(row, []).append(seconds)
    for row in taken[0]:
        before, now = (statistics.median(t[row]) for t in taken)
        print(f"{title + row:48} {before:12.4g} {now:12.4g} {now / before:8.2f}", flush=True)


def dataset_rows(checkouts, scratch, rounds):
    data = make_data.DATA
    programs = [compiled(c, scratch, "dataset_work") for c in checkouts]

    def side(program, *argv):
        def figures():
            lines = map(str.split, output(program, *argv).splitlines())
            return {name: float(value) for name, value in lines if name not in ("kept", "pieces", "memcpy", "map+sum")}
        return figures
    for argv in (("open", data / "d10m", data / "d10m/train.taridx"), ("open", data / "d10f", data / "d10f/train.taridx"),
                 ("filter", data / "d10f", "c"), ("filter", data / "d10f", "a", "b", "c"),
                 ("batch", data / "d1", "bin", 256)):
        race(f"dataset: {argv[1].name} {'+'.join(map(str, argv[2:] if argv[0] == 'filter' else ()))} ",
             [side(p, *argv) for p in programs], max(3, rounds // 3))  # each is already a median


def order_rows(checkouts, scratch, rounds):
    programs = [compiled(c, scratch, "order_rate") for c in checkouts]

    def side(program, *argv):
        return lambda: {" ".join(argv[:2]): float(output(program, *argv))}
    rows = [("at", "shuffle", COUNT, 1_000_000), ("at", "feistel", COUNT, 1_000_000)]
    rows += [(what, kind, COUNT, COUNT) for what in ("fill", "open") for kind in ORDERS]
    for argv in rows:
        race("order: ", [side(p, *map(str, argv)) for p in programs], rounds)


def python_rows(checkouts, _scratch, rounds):
    data = make_data.DATA

    def child(checkout, call):
        paths = os.pathsep.join([str(checkout / "build/python"), str(checkout / "bench")])
        # NumPy's BLAS starts threads that spin for a while, which counts as time of the process.
        return output(PYTHON, checkout / "bench/python.py", "--call", json.dumps(call),
                      env=dict(os.environ, PYTHONPATH=paths, OPENBLAS_NUM_THREADS="1"))

    def side(checkout, call):
        return lambda: {"": 1 / float(child(checkout, call).split()[-1])}
    rows = []
    for name, fields, count, size in (("d1", ["bin", "cls"], 200_000, 256), ("d2", ["jpg", "json"], 20_000, 64)):
        folder = str(data / name)
        rows += [(f"random {name} views", ["random_tarn", folder, fields, count, False]),
                 (f"random {name} bytes", ["random_tarn", folder, fields, count, "bytes"]),
                 (f"random {name} batches", ["random_batches", folder, fields, count, size])]
    folder = str(data / "d1")
    rows += [(f"iterate {how}", ["iterate_tarn", folder, ["bin", "cls"], how]) for how in ("open", "opened", "scanned")]
    jpegs = data / "python_jpegs"
    if not jpegs.exists():
        part = data / "python_jpegs.part"
        part.mkdir(exist_ok=True)
        child(checkouts[1], ["make_jpegs", str(part)])
        part.rename(jpegs)
    rows += [("loader, whole JPEGs", ["loader_tarn", str(jpegs), 0.0]), ("loader", ["loader_tarn", str(jpegs), 1.0])]
    for name, call in rows:
        race("python: " + name, [side(c, call) for c in checkouts], rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=["dataset", "order", "python"])
    args = parser.parse_args()
    checkouts = [args.base.resolve(), ROOT]
    for name in ("d1", "d2", "d10m", "d10f"):
        folder = make_data.make(name).folder
        if not (folder / "train.taridx").exists():
            output(ROOT / "build/tarn", "index", folder)
    print(f"{'':48} {'before':>12} {'now':>12} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        for name, rows in (("dataset", dataset_rows), ("order", order_rows), ("python", python_rows)):
            if args.only in (None, name):
                rows(checkouts, scratch, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
