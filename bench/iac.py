#!/usr/bin/env python3
"""Compares record packs with iatro-base-iac 0.0.2 and 0.1.4, in one run.

  bench/iac.py [--verify-gb N] [--keep]

Needs `scripts/setup.sh build test` (the packages) and `make` (build/). Data goes to bench/data/iac.
Contestants take turns; each figure is the median of five. Everything is in the page cache. Times
are CPU time of the process, opening not counted, except for verify, which is wall-clock time.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "bench/data/iac"
WORK = DATA / "iac_work"
PYTHONS = {"0.0.2": ROOT / ".venv-iac1/bin/python", "0.1.4": ROOT / ".venv-iac2/bin/python"}
TURNS = 5

PACKAGE = r"""
import random, sys, time, types
for name in ("PIL", "PIL.Image", "imagecodecs", "tqdm"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["PIL"].Image = sys.modules["PIL.Image"]; sys.modules["PIL.Image"].Image = object
sys.modules["tqdm"].tqdm = iter
import pyarrow as pa
from iatro import iac
what, path, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = random.Random(1)
if what in ("read", "batch"):
    reader = iac.PackReader(path)
    count = reader.header["num_records"]
    rows = [rng.randrange(count) for _ in range(n)]
    reader.read_payload(0)
    began = time.process_time()
    if what == "read":
        for row in rows:
            reader.read_payload(row)
    else:
        for i in range(0, n, 256):
            [bytes(x) for x in reader.read_payloads(rows[i:i + 256])]
    took = time.process_time() - began
elif what == "tables":
    began = time.process_time()
    for _ in range(n):
        header = iac.read_header(path)
        with pa.memory_map(path) as f:
            for k in ("slide_table", "index_table"):
                f.seek(header[k + "_offset"])
                pa.ipc.open_stream(f.read_buffer(header[k + "_length"])).read_all()
    took = (time.process_time() - began) / n
elif what == "build":
    size = int(sys.argv[4])
    base = rng.randbytes(size - 8)
    slides = pa.table({"slide_id": ["s"]})
    index = pa.table({"item_id": ["item_%08d" % i for i in range(n)]})
    began = time.process_time()
    iac.build_pack_streaming(path, {}, slides, index, (i.to_bytes(8, "little") + base for i in range(n)), overwrite=True)
    took = time.process_time() - began
print(took)
"""


def compile_work():
    build = ROOT / "build"
    assert (build / "libtarn.so").exists(), "run make first"
    subprocess.run(["cc", "-O2", "-o", WORK, ROOT / "bench/iac_work.c", f"-I{ROOT}/include",
                    f"-I{build}/include", f"-L{build}", "-ltarn", f"-Wl,-rpath,{build}", "-lpthread"], check=True)


def seconds(command):
    return float(subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True).stdout)


def work(*arguments):
    return lambda: seconds([WORK, *arguments])


def package(version, *arguments):
    return lambda: seconds([PYTHONS[version], "-c", PACKAGE, *arguments])


def turns(**contestants):
    """Medians of runs that take turns; the first round is discarded."""
    return measure.medians(measure.in_turns(contestants, TURNS, untimed=1))


def show(title, result, base, scale=1.0, unit="s"):
    parts = [f"{name} {took * scale:.3g} {unit}" + (f" ({result[base] / took:.1f} x)" if name != base else "")
             for name, took in result.items()]
    print(f"{title}: " + ", ".join(parts), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--verify-gb", type=float, default=4)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    compile_work()
    threads = len(os.sched_getaffinity(0))
    for size, count, reads in ((1024, 200_000, 100_000), (102_400, 5_000, 20_000)):
        pack = DATA / f"{size}.iac"
        seconds([WORK, "build", pack, count, size])
        result = turns(**{"0.0.2": package("0.0.2", "read", pack, reads),
                          "0.1.4": package("0.1.4", "read", pack, reads),
                          "tarn read": work("read", pack, reads), "tarn view": work("view", pack, reads),
                          "tarn view, not read": work("hand", pack, reads)})
        show(f"random records of {size} bytes", result, "0.0.2", 1e6 / reads, "us")
        result = turns(**{"0.0.2": package("0.0.2", "batch", pack, reads),
                          "0.1.4": package("0.1.4", "batch", pack, reads),
                          "tarn": work("batch", pack, reads)})
        show(f"batches of 256 of {size} bytes", result, "0.0.2", 1e6 / reads, "us a record")
    many = DATA / "many.iac"
    seconds([WORK, "build", many, 1_000_000, 16])
    result = turns(pyarrow=package("0.0.2", "tables", many, 5), tarn=work("open", many, 20))
    show("open with a million rows, all tables validated", result, "pyarrow", 1e3, "ms")
    result = turns(**{"0.0.2": package("0.0.2", "build", DATA / "built.iac", 100_000, 1024),
                      "0.1.4": package("0.1.4", "build", DATA / "built.iac", 100_000, 1024),
                      "tarn": work("build", DATA / "built.iac", 100_000, 1024)})
    show("build 100,000 records of 1024 bytes from an iterator, not synced", result, "0.0.2", 1e3, "ms")
    big = DATA / "big.iac"
    count = int(options.verify_gb * 1e9 / 102_400)
    seconds([WORK, "build", big, count, 102_400])
    for n in sorted({1, threads}):
        result = turns(memory=work("sum", big, n), tarn=work("verify", big, n))
        rates = {k: count * 102_400 / v / 1e9 for k, v in result.items()}
        print(f"verify {options.verify_gb:g} GB, {n} threads: {rates['tarn']:.1f} GB/s, reading the bytes "
              f"{rates['memory']:.1f} GB/s ({100 * rates['tarn'] / rates['memory']:.0f} %)", flush=True)
    if not options.keep:
        shutil.rmtree(DATA)


sys.exit(main())
