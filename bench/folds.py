#!/usr/bin/env python3
"""Compares a dataset over three folds of 40,000 shards, more than one index can have, with the same samples in one
fold of few shards: opening, the memory that stays in use, and an exact shuffle of all samples.

    folds.py [--shards 40000] [--folder DIR]

Each shard has two samples. The folder needs 10 KB for each shard. The memory is that of the process without the
pages of mapped files (RssAnon).
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDS, OF_SHARD, ROUNDS = "abc", 2, 3
LOOK = """
import sys, time
import tarn

def memory():
    return [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("RssAnon")][0]

before, began = memory(), time.perf_counter()
folds = [tarn.open(path, fields=["cls"]) for path in sys.argv[1:]]
ds = tarn.mix(*folds) if len(folds) > 1 else folds[0]
opened, used = time.perf_counter() - began, memory() - before
began = time.perf_counter()
seen = sum(len(batch["cls"]) for batch in ds.shuffle(seed=7).loader(256, epochs=1))
print(len(ds), opened, used, time.perf_counter() - began, memory() - before)
assert seen == len(ds)
"""


def write(folder, shards, tarn):
    """The folds, and one fold of the same samples."""
    def samples(folds):
        return ({"__key__": f"{fold}{i:06}", "cls": i % 10} for fold in folds for i in range(shards * OF_SHARD))

    for fold in FOLDS:
        with tarn.DatasetWriter(folder / "many", fold, sync=False, max_count=OF_SHARD, digits=5) as out:
            out.write_many(samples(fold))
    with tarn.DatasetWriter(folder / "one", sync=False) as out:
        out.write_many(samples(FOLDS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=40_000)
    parser.add_argument("--folder")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "build-plain/python"))
    import tarn
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        write(folder, options.shards, tarn)
        rivals = {f"{len(FOLDS)} folds of {options.shards} shards": [f"{folder}/many:{fold}" for fold in FOLDS],
                  "one fold of few shards": [f"{folder}/one:train"]}
        for _ in range(ROUNDS):
            for rival, paths in rivals.items():
                done = subprocess.run([sys.executable, "-c", LOOK, *paths], check=True, stdout=subprocess.PIPE, text=True,
                                      env={"PYTHONPATH": f"{ROOT}/build-plain/python", "PATH": "/usr/bin:/bin"})
                count, opened, used, epoch, after = map(float, done.stdout.split())
                print(f"{rival}: {count:,.0f} samples; open {opened * 1e3:.1f} ms, {used / 1e6:.1f} MB; epoch {epoch:.2f} s, "
                      f"then {after / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
