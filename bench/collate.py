#!/usr/bin/env python3
"""Padding: batches of arrays of random lengths made one array by tarn, by torch's pad_sequence and by a NumPy loop, in
turns in one process; and a loader that pads, compared with the same loader that returns lists which the loop pads.

  collate.py [--build DIR] [--rounds N]

DIR is a build folder with the Python package (default build). Needs the .venv of the tests. Figures are medians.
"""
import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

CODE = r"""
import statistics, sys, tempfile, time
import numpy as np, torch, tarn
from tarn._collate import with_forms

rounds = int(sys.argv[1])
rng = np.random.default_rng(1)
torch.set_num_threads(1)


def loop(arrays):
    out = np.zeros((len(arrays), max(map(len, arrays))) + arrays[0].shape[1:], arrays[0].dtype)
    for i, array in enumerate(arrays):
        out[i, :len(array)] = array
    return out


def race(name, contestants, count):
    times = {who: [] for who in contestants}
    for turn in range(rounds + 1):
        for who, work in contestants.items():
            start = time.perf_counter()
            for _ in range(count):
                work()
            if turn:
                times[who].append((time.perf_counter() - start) / count)
    ours = statistics.median(times["tarn"])
    for who in contestants:
        median = statistics.median(times[who])
        print(f"{name:44} {who:14} {median * 1e6:10.1f} us {median / ours:7.2f} x tarn's time", flush=True)


for what, shape, dtype, count in (("64 lists of 16 to 512 tokens, int64", (), "i8", 400),
                                  ("64 sounds of 16 to 512 frames of 80, float32", (80,), "f4", 20)):
    arrays = [rng.integers(1, 999, (n, *shape)).astype(dtype) for n in rng.integers(16, 512, 64)]
    tensors = [torch.from_numpy(array) for array in arrays]
    pad = {"x": tarn.Pad(0)}
    ours = with_forms({"x": arrays}, pad)["x"]
    assert (ours == loop(arrays)).all() and (ours == torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True).numpy()).all()
    race(what, {"tarn": lambda: with_forms({"x": arrays}, pad),
                "pad_sequence": lambda: torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True),
                "NumPy loop": lambda: loop(arrays)}, count)

with tempfile.TemporaryDirectory() as folder:
    with tarn.DatasetWriter(folder, "train") as out:
        for i, n in enumerate(rng.integers(16, 512, 20000)):
            out.write({"__key__": f"{i:06}", "x.npy": rng.integers(1, 999, n)})
    ds = tarn.open(folder)
    padded = ds.loader(64, shuffle=True, threads=2, pad={"x.npy": 0})
    lists = ds.loader(64, shuffle=True, threads=2)
    race("an epoch of 20,000 samples, 2 threads", {"tarn": lambda: [batch["x.npy"] for batch in padded],
         "NumPy loop": lambda: [loop(batch["x.npy"]) for batch in lists]}, 1)
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    done = subprocess.run([ROOT / ".venv/bin/python", "-c", CODE, str(args.rounds)],
                          env=dict(os.environ, PYTHONPATH=str(args.build.resolve() / "python")))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
