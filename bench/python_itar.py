#!/usr/bin/env python3
"""Compares iTarDataset with tarn.open on the same fold, and measures the functions for which glzn documents times.

  open     a dataset of N samples of 1,000 bytes, with index and checksums
  items    random samples: iTarDataset by reading and by map, in file order and shuffled; tarn.open's bytes
  rows     random payloads by iTarRetriever.from_row, by map and by reading
  order    FeistelSampler one by one, and its whole permutation
  filter   lookup_stems of one stem, filter_stems of 2,000
  scan     iTarDirectory.parse_folder

The best of three passes counts; every line is the time of one item unless it says otherwise. glzn itself is not
measured.

  python_itar.py [--build DIR] [--count N]
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"


def best(work, each=1):
    """Microseconds."""
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return min(took) / each * 1e6


def show(name, microseconds):
    print(f"{name:42s} {microseconds:12.2f} us", flush=True)


def write(root, count):
    from tarn.itar import iTarFoldWriter

    with iTarFoldWriter(root, "train", shard_maxfiles=count // 4) as out:
        for number in range(count):
            out.write(f"s{number:09d}", {"txt": "x" * 1000})


def items(loc, picks, count):
    import tarn
    from tarn.itar import iTarDataset

    show("open", best(lambda: iTarDataset("d", loc, "train", ["txt"])))
    for mapped in (False, True):
        ds = iTarDataset("d", loc, "train", ["txt"], prefer_mmap=mapped)
        how = "map" if mapped else "read"
        show(f"items, {how}", best(lambda: [ds[pick] for pick in picks], len(picks)))
        ds.set_shuffle()
        show(f"items, {how}, shuffled", best(lambda: [ds[pick] for pick in picks], len(picks)))
    plain = tarn.open(os.path.join(loc, "d"), fields=["txt"], decode="bytes", io="map")
    show("items, tarn.open, map", best(lambda: [plain[pick] for pick in picks], len(picks)))
    show("filter: lookup_stems of 1", best(lambda: ds.lookup_stems([f"s{count // 2:09d}"])))
    some = [f"s{number:09d}" for number in range(0, count, max(1, count // 2000))]
    show("filter: open and filter_stems of 2,000",
         best(lambda: iTarDataset("d", loc, "train", ["txt"]).filter_stems(some)))


def parts(root, picks, count):
    from tarn.itar import FeistelSampler, iTarDirectory, iTarFold, iTarRetriever

    fold = iTarFold(root)
    rows = [fold.state.arr[pick] for pick in picks]
    for mapped in (True, False):
        reader = iTarRetriever(fold.full_paths, mapped)
        show(f"rows, {'map' if mapped else 'read'}",
             best(lambda: [reader.from_row(row) for row in rows], len(rows)))
    sampler = FeistelSampler(count)
    show("order, one by one", best(lambda: [sampler[pick] for pick in picks], len(picks)))
    show("order, all", best(sampler.randperm, count))
    show("scan, for each member", best(lambda: iTarDirectory(root).parse_folder(), count))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--count", type=int, default=100_000)
    given = parser.parse_args()
    if "TARN_BENCH_STARTED" not in os.environ:
        env = dict(os.environ, TARN_BENCH_STARTED="1",
                   PYTHONPATH=str(pathlib.Path(given.build).resolve() / "python"))
        return subprocess.run([PYTHON, *sys.argv], env=env, check=False).returncode
    picks = [random.Random(1).randrange(given.count) for _ in range(20_000)]
    with tempfile.TemporaryDirectory() as loc:
        root = os.path.join(loc, "d")
        write(root, given.count)
        items(loc, picks, given.count)
        parts(root, picks, given.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
