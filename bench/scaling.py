#!/usr/bin/env python3
"""How the loader and the indexer grow with threads, and how well a GPU is fed.

  scaling.py [--threads 1,2,4,8,16] [--images N] [--samples N] [--seconds S] [--folder DIR]

Needs the tarn package on its path, NumPy, and for the last part torch with CUDA. Makes its own data with tarn: JPEGs of
500 x 375 pixels with detail at every scale, and samples of 1 KB. Prints a table; rates are medians of three.
"""
import argparse
import itertools
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import pictures
import tarn

NOISE = 10.5  # JPEGs of 72 KB


def make(folder, images, samples):
    rng = np.random.default_rng(3)
    drawn = [pictures.picture(rng, noise=NOISE) for _ in range(64)]
    with tarn.DatasetWriter(folder / "pictures", "train", jpeg_quality=90) as out:
        for i in range(images):
            out.write({"__key__": f"p{i:06}", "jpg": drawn[i % len(drawn)], "cls": i % 1000})
    block = rng.bytes(1024)
    with tarn.DatasetWriter(folder / "small", "train") as out:
        for first in range(0, samples, 1000):
            out.write_many([{"__key__": f"s{i:08}", "bin": block, "cls": i % 1000} for i in range(first, first + 1000)])


def endless(loader):
    """The batches of one epoch after the other, behind the first: with it everything is warm."""
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    next(batches)
    return batches


def rate(dataset, seconds, **options):
    """Samples per second of a warm loader."""
    found = []
    for _ in range(3):
        batches = endless(dataset.loader(shuffle=True, seed=7, **options))
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            count += len(next(batches)["cls"])
        found.append(count / (time.perf_counter() - start))
        del batches
    return statistics.median(found)


def index_rate(folder, threads, members):
    found = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tarn", "index", "-q", "-j", str(threads), str(folder)], check=True,
                       stdout=subprocess.DEVNULL)
        found.append(members / (time.perf_counter() - start))
    return statistics.median(found)


def feed_gpu(dataset, threads, seconds):
    """Images/s into the GPU with a step of its own on each batch, and how long it stood still."""
    import torch
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                                torch.nn.Flatten(), torch.nn.Linear(64, 1000)).cuda().bfloat16()
    loader = dataset.loader(256, threads=threads, shuffle=True, seed=7, resize=224, fit="random", flip=0.5, layout="CHW",
                            as_="torch")
    batches = endless(loader)
    count, busy, start = 0, 0.0, time.perf_counter()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    while time.perf_counter() - start < seconds:
        batch = next(batches)
        begin.record()
        images = batch["jpg"].cuda(non_blocking=True).bfloat16().div_(255)
        loss = torch.nn.functional.cross_entropy(model(images).float(), batch["cls"].cuda(non_blocking=True))
        loss.backward()
        end.record()
        end.synchronize()
        busy += begin.elapsed_time(end) / 1000
        count += len(images)
    taken = time.perf_counter() - start
    pinned = batch["jpg"].is_pinned()
    return count / taken, 1 - busy / taken, pinned, loader.stats()["bottleneck"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", default="1,2,4,8,16")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--folder", type=pathlib.Path)
    args = parser.parse_args()
    counts = [int(n) for n in args.threads.split(",")]
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        folder = pathlib.Path(scratch)
        make(folder, args.images, args.samples)
        photographs, small = tarn.open(folder / "pictures"), tarn.open(folder / "small")
        size = sum(len(s["jpg"]) for s in tarn.open(folder / "pictures", decode=False)[:64]) / 64
        print(f"tarn {tarn.__version__}, JPEGs of {size / 1000:.0f} KB\n")
        print("| threads | JPEG to 224 x 224, images/s | JPEG to RGB, images/s | 1 KB in batches of 256, samples/s | index, members/s |")
        print("| ---: | ---: | ---: | ---: | ---: |")
        first = None
        for n in counts:
            row = (rate(photographs, args.seconds, batch_size=256, threads=n, resize=224, fit="random", flip=0.5),
                   rate(photographs, args.seconds, batch_size=64, threads=n),
                   rate(small, args.seconds, batch_size=256, threads=n, keys=False),
                   index_rate(folder / "small", n, 2 * args.samples))
            first = first or row
            print(f"| {n} | " + " | ".join(f"{r:,.0f} ({r / f:.1f} x)" for r, f in zip(row, first)) + " |", flush=True)
        try:
            import torch
            cuda = torch.cuda.is_available()
        except ImportError:
            cuda = False
        if not cuda:
            print("\nno CUDA here: the GPU's part is left out")
            return
        print(f"\n{torch.cuda.get_device_name()}: a step on each batch of 256\n")
        print("| threads | images/s | GPU idle | pinned | slow |\n| ---: | ---: | ---: | --- | --- |")
        for n in counts:
            images, idle, pinned, slow = feed_gpu(photographs, n, args.seconds)
            print(f"| {n} | {images:,.0f} | {idle:.0%} | {'yes' if pinned else 'no'} | {slow} |", flush=True)


if __name__ == "__main__":
    main()
