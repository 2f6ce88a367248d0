#!/usr/bin/env python3
"""Compares two tasks at the same time, and their commit, with one run of the whole job. Each process has one
thread, and nothing waits for the disk: it is about the work that can be divided.

  convert  a fold of 1,000,000 samples of 700 bytes, in random order
  pack     40,000 files of 30 KB; every task lists all files

Contestants take turns, and every other round begins with the other one. The first round is not counted. The ratio
is the median of those of the rounds; the smallest and the largest show how much it varies.

    tasks.py [FOLDER]      where the data is created; the default is that for temporary files
"""
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARN = ROOT / "build-plain/tarn"
ROUNDS = 8


def timed(target, *commands):
    """Seconds of the commands, and of all with the commit."""
    shutil.rmtree(target, ignore_errors=True)
    began = time.perf_counter()
    started = [subprocess.Popen([TARN, *map(str, words)]) for words in commands]
    assert not any([p.wait() for p in started])
    tasks = time.perf_counter() - began
    if len(commands) > 1:
        subprocess.run([TARN, "commit", "-q", "--no-sync", target], check=True)
    return tasks, time.perf_counter() - began


def compare(name, target, words):
    rivals = {"one": [words], "two": [[*words, "--task", f"{i}/2"] for i in range(2)]}
    rounds = []
    for number in range(ROUNDS + 1):
        order = ("one", "two") if number % 2 else ("two", "one")
        rounds.append({rival: timed(target, *rivals[rival]) for rival in order})
    one = [times["one"][0] for times in rounds[1:]]
    print(f"{name}: one process {statistics.median(one):.2f} s")
    for part, what in enumerate(("two tasks", "two tasks and their commit")):
        two = [times["two"][part] for times in rounds[1:]]
        ratios = sorted(a / b for a, b in zip(one, two))
        print(f"  {what} {statistics.median(two):.2f} s: {statistics.median(ratios):.2f} x ({ratios[0]:.2f} to {ratios[-1]:.2f})",
              flush=True)


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = pathlib.Path(name)
        files = folder / "files"
        files.mkdir()
        for i in range(40_000):
            (files / f"f{i:05}.bin").write_bytes(b"%05d" % i * 6000)
        sys.path.insert(0, str(ROOT / "build-plain/python"))
        import tarn
        with tarn.DatasetWriter(folder / "fold", sync=False, max_count=20_000) as out:
            out.write_many({"__key__": f"s{i:06}", "bin": b"%07d" % i * 100} for i in range(1_000_000))
        quick = ["--no-sync", "-q", "-j1", "--max-count", "20000"]
        compare("convert", folder / "t", ["convert", folder / "fold", folder / "t", "--shuffle", "7", *quick])
        compare("pack", folder / "t", ["pack", files, "-o", folder / "t", *quick])


if __name__ == "__main__":
    main()
