#!/usr/bin/env python3
"""Writing and streaming from Python: tarn.wds compared with the real webdataset, in separate
    processes.

  write   samples of {1 KB, 2 B} into shards by ShardWriter with mtime=0 (the faster of
          webdataset's settings), from a list of dicts made before, and with dicts made in the
          loop; write() for each sample, write_many() for all; not synced, and durable
  fold    the same by tarn.DatasetWriter, index and checksums included, by write_many() and write()
  images  320 x 240 pixels as JPEG, by both writers' encoders
  stream  all samples of un-indexed shards as dicts of bytes, by WebDataset(url)

Each contestant measures its own work, after one pass that is not counted; contestants take turns and medians count.
webdataset does a tenth of the samples, because it is slow. Only the ratios are meaningful.

  python_write.py [--build DIR] [--rounds N] [--scale X] [--only write ...]

DIR is a build folder with python/tarn (default build). Needs the .venv of the tests.
"""
import argparse
import functools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"

COMMON = """
import os, shutil, sys, time, warnings
folder, count = sys.argv[1], int(sys.argv[2])
warnings.simplefilter("ignore")
noise = os.urandom(4 << 20)
def samples():
    for i in range(count):
        at = i * 1024 % (len(noise) - 1024)
        yield {"__key__": f"s{i:09d}", "bin": noise[at:at + 1024], "cls": b"%02d" % (i % 100)}
def measured(work):
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        begin = time.perf_counter()
        work()
        took = time.perf_counter() - begin
    print(count / took)
pattern = folder + "/x-%06d.tar"
""".replace("{", "{{").replace("}", "}}")

WRITE = COMMON + """
import {module} as wds
made = list(samples()) if {before} else None
def work():
    with wds.ShardWriter(pattern, verbose=0, mtime=0, encoder={encoder}{more}) as out:
        some = made if made is not None else samples()
        if {many}:
            out.write_many(some)
        else:
            for sample in some:
                out.write(sample)
measured(work)
"""

FOLD = COMMON + """
import tarn
made = list(samples())
def work():
    with tarn.DatasetWriter(folder + "/d", sync={sync}) as out:
        if {many}:
            out.write_many(made)
        else:
            for sample in made:
                out.write(sample)
measured(work)
"""

IMAGES = COMMON + """
import numpy as np
import {module} as wds
rng = np.random.default_rng(1)
smooth = [np.clip(np.cumsum(rng.integers(-3, 4, (240, 320, 3)), 1) + 128, 0, 255).astype("u1")
          for _ in range(8)]
def work():
    with wds.ShardWriter(pattern, verbose=0, mtime=0) as out:
        for i in range(count):
            out.write({{"__key__": f"s{{i:09d}}", "jpg": smooth[i % 8], "cls": i}})
measured(work)
"""

STREAM = """
import sys, time, warnings
warnings.simplefilter("ignore")
import {module} as wds
urls, count = sys.argv[1], int(sys.argv[2])
for _ in range(2):
    begin, seen = time.perf_counter(), 0
    for sample in wds.WebDataset(urls, shardshuffle=False){stages}:
        seen += 1
        if seen == count:
            break
    took = time.perf_counter() - begin
print(seen / took)
"""


def rate(args, code, place, count):
    env = dict(os.environ, PYTHONPATH=str(args.build / "python"))
    done = subprocess.run([PYTHON, "-c", code, str(place), str(count)], env=env, text=True,
                          capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def race(args, title, contestants):
    """Contestants are name, code, place, count, aim; the others are compared with the first."""
    rates = measure.in_turns({name: functools.partial(rate, args, code, place, count)
                              for name, code, place, count, _ in contestants}, args.rounds)
    base = statistics.median(rates[contestants[0][0]])
    print(f"\n{title}\n  {'':<44}{'median':>12}{'slowest':>12}{'fastest':>12}{'ratio':>9}  aim")
    for name, _, _, _, aim in contestants:
        median = statistics.median(rates[name])
        print(f"  {name:<44}{median:>10,.0f}/s{min(rates[name]):>10,.0f}/s"
              f"{max(rates[name]):>10,.0f}/s{median / base:>8.1f}x  {aim}", flush=True)


def write(args, folder):
    count = int(200_000 * args.scale)
    for before in (True, False):
        def code(module, many, more, encoder="False"):
            return WRITE.format(module=module, before=before, many=many, more=more,
                                encoder=encoder)
        race(args, f"ShardWriter, {count:,} samples of 1 KB and 2 B, dicts made "
             + ("before" if before else "on the way"), [
                 ("webdataset", code("webdataset", False, ""), folder, count // 10, ""),
                 ("tarn.wds write, not synced", code("tarn.wds", False, ", sync=False"), folder,
                  count, ">= 40x"),
                 ("tarn.wds write_many, not synced", code("tarn.wds", True, ", sync=False"),
                  folder, count, ">= 40x"),
                 ("tarn.wds write, durable", code("tarn.wds", False, ""), folder, count, ">= 45x"),
                 ("tarn.wds write_many, durable", code("tarn.wds", True, ""), folder, count,
                  ">= 25x"),
                 ("tarn.wds write, encoder=True, not synced",
                  code("tarn.wds", False, ", sync=False", "True"), folder, count, "")])


def fold(args, folder):
    count = int(200_000 * args.scale)
    theirs = WRITE.format(module="webdataset", before=True, many=False, more="", encoder="False")
    race(args, f"DatasetWriter, {count:,} samples, index and sums included", [
        ("webdataset ShardWriter", theirs, folder, count // 10, ""),
        ("write_many, not synced", FOLD.format(sync=False, many=True), folder, count, ">= 40x"),
        ("write_many, durable", FOLD.format(sync=True, many=True), folder, count, ">= 45x"),
        ("write, durable", FOLD.format(sync=True, many=False), folder, count, ">= 45x")])


def images(args, folder):
    count = int(2_000 * args.scale)
    race(args, f"{count:,} images of 320 x 240 as JPEG, quality 100", [
        ("webdataset", IMAGES.format(module="webdataset"), folder, count, ""),
        ("tarn.wds", IMAGES.format(module="tarn.wds"), folder, count, "")])


def stream(args, folder):
    count = int(200_000 * args.scale)
    rate(args, WRITE.format(module="tarn.wds", before=False, many=True, encoder="False",
                            more=f", maxcount={max(1, count // 4)}, sync=False"), folder, count)
    urls = f"{folder}/x-{{000000..000003}}.tar"
    for stages in ("", ".to_tuple('bin', 'cls')", ".decode()"):
        race(args, f"WebDataset(url){stages}, {count:,} samples of 1 KB and 2 B", [
            ("webdataset", STREAM.format(module="webdataset", stages=stages), urls, count // 10, ""),
            ("tarn.wds", STREAM.format(module="tarn.wds", stages=stages), urls, count,
             "" if stages else ">= 20x")])


BENCHES = {"write": write, "fold": fold, "images": images, "stream": stream}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", action="append", choices=BENCHES)
    parser.add_argument("--scratch", help="a folder on the disk to measure on")
    args = parser.parse_args()
    args.build = args.build.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(dir=args.scratch)) / "x"
    try:
        for name in args.only or BENCHES:
            BENCHES[name](args, folder)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder.parent)


if __name__ == "__main__":
    sys.exit(main())
