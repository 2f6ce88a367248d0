#!/usr/bin/env python3
"""Measures a commit of 1,000 parts without payloads: seconds, and the peak of the memory, for a growing number
of members; then opening the fold, a lookup, and an exact shuffle of all positions. The memory is that of the
process without the pages of mapped files, which the system takes back at any time (RssAnon). For comparison,
`tarn index` would keep 36 bytes or more for each member, and `cp` of the parts' indexes moves the same bytes.

    commit.py [--members 1000000,10000000] [--parts 1000] [--folder DIR]
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOOK = """
import sys, time
import tarn
folder = sys.argv[1]
began = time.perf_counter()
ds = tarn.open(folder, fields=["jpg"])
count = len(ds)
opened = time.perf_counter() - began
began = time.perf_counter()
for i in range(1000):
    assert f"no such key {i}" not in ds
find = (time.perf_counter() - began) / 1000
order = tarn.Order(count, kind="shuffle", seed=7)
began = time.perf_counter()
taken = order.fill(0, min(count, 1000000))
shuffled = (time.perf_counter() - began) / len(taken)
print(count, opened, find, shuffled)
"""


def watched(words):
    """Seconds, and the largest RssAnon in bytes."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def watch():
        nonlocal peak
        while process.poll() is None:
            try:
                for line in open(f"/proc/{process.pid}/status"):
                    if line.startswith("RssAnon"):
                        peak = max(peak, int(line.split()[1]) * 1024)
            except (OSError, ProcessLookupError):
                pass
            time.sleep(0.02)
    thread = threading.Thread(target=watch)
    thread.start()
    code = process.wait()
    seconds = time.perf_counter() - began
    thread.join()
    assert code == 0, words
    return seconds, peak


def measure(build, folder, parts, members):
    target = folder / "fold"
    subprocess.run([build / "tests/synthetic_parts", target, str(parts), str(members // parts)], check=True)
    job = target / ".train.tasks/0123456789abcdef"
    seconds_cp, _ = watched(["sh", "-c", f"cat {job}/*/train.taridx {job}/*/train.tarsum > {folder}/copy"])
    (folder / "copy").unlink()
    seconds, peak = watched([build / "tarn", "commit", "-q", target])
    looked = subprocess.run([sys.executable, "-c", LOOK, target], check=True, stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, PYTHONPATH=str(build / "python"))).stdout.split()
    assert int(looked[0]) == members // parts * parts, looked
    shutil.rmtree(target)
    opened, find, shuffled = map(float, looked[1:])
    print(f"{members:>13,} members in {parts} parts: commit {seconds:7.2f} s ({seconds / members * 1e9:5.0f} ns each, "
          f"{seconds / seconds_cp:.1f} x cat), {peak / 1e6:6.0f} MB; open {opened * 1e3:.1f} ms, lookup "
          f"{find * 1e6:.1f} us, shuffled position {shuffled * 1e9:.0f} ns", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", default="1000000,10000000")
    parser.add_argument("--parts", type=int, default=1000)
    parser.add_argument("--folder")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-plain")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for members in options.members.split(","):
            measure(options.build, pathlib.Path(folder), options.parts, int(members))


if __name__ == "__main__":
    main()
