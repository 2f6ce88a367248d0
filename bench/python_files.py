#!/usr/bin/env python3
"""Compares record packs and array files from Python with what people use now, in one run.

  bench/python_files.py [--build DIR] [--quick]

Needs `scripts/setup.sh build test` (the packages) and a build with the Python package (`make`). Runs
in the environment of iatro-base-iac 0.0.2, so that both readers are in one process; 0.1.4 runs in a
separate process. Contestants take turns; each figure is the median of the turns, in nanoseconds of
CPU time per record or row, everything in the page cache. Data goes to bench/data/python_files.
"""
import argparse
import functools
import os
import pathlib
import random
import subprocess
import sys
import time
import types

import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "bench/data/python_files"
PYTHONS = {"0.0.2": ROOT / ".venv-iac1/bin/python", "0.1.4": ROOT / ".venv-iac2/bin/python"}
SIZES = ((64, 200_000), (1000, 100_000), (91_000, 2_000))  # bytes per record, records
READS = 100_000


def started_in(version, build, quick):
    """Runs this program again with the interpreter of another package."""
    env = dict(os.environ, PYTHONPATH=str(build / "python"), BENCH_PACKAGE=version)
    command = [PYTHONS[version], __file__, "--build", str(build)] + ["--quick"] * quick
    subprocess.run([str(c) for c in command], env=env, check=True)


def real_package():
    """iatro.iac; 0.0.2 imports image packages that it does not declare."""
    for name in ("PIL", "PIL.Image", "imagecodecs", "tqdm"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["PIL"].Image = sys.modules["PIL.Image"]
    sys.modules["PIL.Image"].Image = object
    sys.modules["tqdm"].tqdm = iter
    from iatro import iac
    return iac


def clock(call, count):
    began = time.process_time_ns()
    call()
    return (time.process_time_ns() - began) / count


def contest(title, contestants, count, turns):
    """contestants: {name: call}, the first is the baseline."""
    calls = {name: functools.partial(clock, call, count) for name, call in contestants.items()}
    medians = measure.medians(measure.in_turns(calls, turns, untimed=1))
    reference = next(iter(medians.values()))
    print(f"\n{title}")
    for name, taken in medians.items():
        print(f"  {name:34} {taken:9.0f} ns   {reference / taken:6.1f} x")


def one_by_one(function, rows):
    def run():
        for row in rows:
            function(row)
    return run


def in_groups(function, rows, size=256):
    def run():
        for i in range(0, len(rows), size):
            function(rows[i:i + size])
    return run


def packs(version, quick, turns):
    import tarn.iac
    iac = real_package()
    rng = random.Random(1)
    for size, records in SIZES:
        records, reads = (records // 10, READS // 10) if quick else (records, READS)
        reads = min(reads, 200_000_000 // size)
        path = DATA / f"{size}.iac"
        made = [rng.randbytes(size) for _ in range(min(records, 1000))]
        tarn.iac.build_pack_streaming(path, {"codec": "none"}, {"slide_id": ["s"]},
                                      {"i": list(range(records))},
                                      (made[i % len(made)] for i in range(records)),
                                      overwrite=True)
        theirs, mine = iac.PackReader(path), tarn.iac.PackReader(path)
        theirs.read_payload(0)
        for kind, rows in (("at random", [rng.randrange(records) for _ in range(reads)]),
                           ("in order", [i % records for i in range(reads)])):
            contest(f"{size} byte records {kind}, {records} of them", {
                f"{version} read_payload": one_by_one(theirs.read_payload, rows),
                "tarn read_payload": one_by_one(mine.read_payload, rows),
                "tarn view": one_by_one(mine.view, rows),
                f"{version} read_payloads": in_groups(theirs.read_payloads, rows),
                "tarn read_payloads": in_groups(mine.read_payloads, rows),
                "tarn read_payload_views": in_groups(mine.read_payload_views, rows),
                "tarn batch": in_groups(mine.batch, rows),
            }, len(rows), turns)
        path.unlink()


def arrays(quick, turns):
    import numpy as np

    import tarn.gnz
    path = DATA / "rows.gnz"
    count = 20_000 if quick else 200_000
    tarn.gnz.save(path, x=np.arange(count * 64, dtype="f4").reshape(count, 64),
                  ids=np.arange(count))
    f = tarn.gnz.open(path)
    info = f.info("x")
    memmap = np.memmap(path, info.dtype, "r", info.offset, info.shape)
    rng = random.Random(2)
    rows = [rng.randrange(count) for _ in range(READS // 10 if quick else READS)]
    x, same, samples = f["x"], f.get_array("x"), f.rows
    contest(f"rows of 64 floats at random, {count} of them", {
        "numpy.memmap": one_by_one(memmap.__getitem__, rows),
        "tarn array": one_by_one(x.__getitem__, rows),
        "tarn get_array (a memmap)": one_by_one(same.__getitem__, rows),
        "tarn rows (all fields)": one_by_one(samples.__getitem__, rows),
        "numpy.memmap, 256 rows": in_groups(memmap.__getitem__, rows),
        "tarn array, 256 rows": in_groups(x.__getitem__, rows),
    }, len(rows), turns)
    contest("an array from an open file", {
        "numpy.memmap(path, ...)": lambda: [
            np.memmap(path, info.dtype, "r", info.offset, info.shape) for _ in range(500)],
        "tarn reader[name]": lambda: [f["x"] for _ in range(500)],
        "tarn reader.get_array(name)": lambda: [f.get_array("x") for _ in range(500)],
    }, 500, turns)
    path.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, three turns")
    args = parser.parse_args()
    build = args.build.resolve()
    version = os.environ.get("BENCH_PACKAGE")
    if version is None:
        assert (build / "python/tarn/_tarn.abi3.so").exists(), "run make first"
        for name, python in PYTHONS.items():
            assert python.exists(), f"run scripts/setup.sh build test first ({name})"
            started_in(name, build, args.quick)
        return
    DATA.mkdir(parents=True, exist_ok=True)
    turns = 3 if args.quick else 5
    print(f"\n--- iatro-base-iac {version}, Python {sys.version.split()[0]}")
    packs(version, args.quick, turns)
    if version == "0.0.2":
        arrays(args.quick, turns)


main()
