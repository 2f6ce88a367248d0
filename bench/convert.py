#!/usr/bin/env python3
"""The cost of convert, split and merge, compared with writing the same samples from memory and with
copying the shards.

  convert.py [--build DIR] [--samples N] [--bytes N]

DIR is a build folder with libtarn.so (default build). Nothing waits for the disk. Medians of
five, contestants in turns; peak memory is from one extra run each. Mapped shards count as memory.
"""
import argparse
import functools
import pathlib
import shutil
import subprocess
import tempfile
import time

from measure import in_turns, medians, peak_rss

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 5


def contestants(build, writer, home, args):
    tarn, fold, out = build / "tarn", home / "fold", home / "out"
    quick = ["--no-sync", "-q"]
    return {
        "write": [writer, out, args.samples, args.bytes, "unsynced"],
        "convert": [tarn, "convert", fold, out, *quick],
        "--shuffle": [tarn, "convert", fold, out, "--shuffle", "1", *quick],
        "--check": [tarn, "convert", fold, out, "--check", *quick],
        "split": [tarn, "split", fold, "--into", "a,b=0.1", "-o", out, *quick],
        "by shards": [tarn, "split", fold, "--into", "a=0.5,b=0.5", "--by", "shards", "-o", out,
                      *quick],
        "merge": [tarn, "merge", fold, "-o", out, *quick],
        "cp -r": ["cp", "-r", fold, out],
    }


def once(out, command):
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--samples", type=int, default=200000)
    parser.add_argument("--bytes", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=ROOT) as scratch:
        home = pathlib.Path(scratch)
        writer = home / "write_fold"
        subprocess.run(["cc", "-O2", ROOT / "bench/write_fold.c", "-o", writer,
                        f"-I{ROOT}/include", f"-I{args.build}/include", f"-L{args.build}", "-ltarn",
                        f"-Wl,-rpath,{args.build.resolve()}"], check=True)
        once(home / "fold", [writer, home / "fold", args.samples, args.bytes, "unsynced"])
        runners = contestants(args.build.resolve(), writer, home, args)
        times = medians(in_turns({name: functools.partial(once, home / "out", command)
                                  for name, command in runners.items()}, ROUNDS, untimed=1))
        first = times["write"]
        print(f"{args.samples} samples of {args.bytes} bytes and a class")
        for name, command in runners.items():
            seconds = times[name]
            shutil.rmtree(home / "out", ignore_errors=True)
            peak = peak_rss(list(map(str, command)), home / "peak")
            memory = f"{peak / 1e6:7.1f} MB" if peak else ""
            print(f"{name:10} {args.samples / seconds / 1e3:9.1f} k samples/s   "
                  f"{seconds / first:5.2f} x the time of writing   {memory}")


main()
