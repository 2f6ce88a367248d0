#!/usr/bin/env python3
"""How the loader and the indexer scale with threads, and how well they keep a GPU busy, compared with torch's
    DataLoader and Pillow.

  scaling.py [--threads 1,2,4,8,16] [--images N] [--samples N] [--seconds S] [--folder DIR] [--json FILE]
  scaling.py --from-json FILE     writes docs/benchmarks/scaling.md and its plot from a run on another machine

Needs the tarn package on its path and NumPy; the DataLoader needs torch and Pillow, the last part a GPU. Makes its own
data with tarn: JPEGs of 500 x 375 pixels with detail at every scale, and samples of 1 KB. Rates are medians of three.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from peers import images, svg

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/benchmarks/scaling.md"

NOISE = 10.5  # JPEGs of 72 KB


def make(folder, count, samples):
    import numpy as np
    import pictures
    import tarn
    rng = np.random.default_rng(3)
    drawn = [pictures.picture(rng, noise=NOISE) for _ in range(64)]
    with tarn.DatasetWriter(folder / "pictures", "train", jpeg_quality=90) as out:
        for i in range(count):
            out.write({"__key__": f"p{i:06}", "jpg": drawn[i % len(drawn)], "cls": i % 1000})
    block = rng.bytes(1024)
    with tarn.DatasetWriter(folder / "small", "train") as out:
        for first in range(0, samples, 1000):
            out.write_many([{"__key__": f"s{i:08}", "bin": block, "cls": i % 1000} for i in range(first, first + 1000)])


def endless(loader):
    """The batches of consecutive epochs after the first epoch, which warms everything up."""
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    next(batches)
    return batches


def rate(dataset, seconds, **options):
    """Samples per second of a warm loader."""
    return paced(lambda: dataset.loader(shuffle=True, seed=7, **options), lambda batch: len(batch["cls"]), seconds)


def paced(make_loader, size, seconds):
    found = []
    for _ in range(3):
        batches = endless(make_loader())
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            count += size(next(batches))
        found.append(count / (time.perf_counter() - start))
        del batches
    return statistics.median(found)


class Pillow:
    """The same samples for torch's DataLoader."""

    def __init__(self, folder):
        import tarn
        self.data = tarn.open(folder, fields=["jpg", "cls"], decode="bytes")

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        sample = self.data[i]
        return images.decode(sample["jpg"]), int(sample["cls"])


def as_tensors(pairs):
    import numpy as np
    import torch
    pixels = np.stack([p[0] for p in pairs]).transpose(0, 3, 1, 2)
    return {"jpg": torch.from_numpy(np.ascontiguousarray(pixels)), "cls": torch.tensor([p[1] for p in pairs])}


def torch_loader(folder, workers, **more):
    return images.loader(Pillow(folder), 256, workers, collate_fn=as_tensors, **more)


def index_rate(folder, threads, members):
    found = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tarn", "index", "-q", "-j", str(threads), str(folder)], check=True,
                       stdout=subprocess.DEVNULL)
        found.append(members / (time.perf_counter() - start))
    return statistics.median(found)


def feed_gpu(loader, seconds):
    """Images/s into the GPU with a step on each batch, how much of the time the GPU was idle, and whether memory was
    pinned."""
    import torch
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                                torch.nn.Flatten(), torch.nn.Linear(64, 1000)).cuda().bfloat16()
    batches, under_way = endless(loader), collections.deque()
    count, busy, start = 0, 0.0, None

    def wait():
        """Waits until the oldest step is done; its batch is needed until then."""
        began, ended, batch = under_way.popleft()
        ended.synchronize()
        return began.elapsed_time(ended) / 1000, len(batch["cls"])

    while start is None or time.perf_counter() - start < seconds:
        batch = next(batches)
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        pixels = batch["jpg"].cuda(non_blocking=True).bfloat16().div_(255)
        loss = torch.nn.functional.cross_entropy(model(pixels).float(), batch["cls"].cuda(non_blocking=True))
        loss.backward()
        ended.record()
        under_way.append((began, ended, batch))
        if start is None:  # the first has warmed everything up
            wait()
            start = time.perf_counter()
        elif len(under_way) > 2:
            took, size = wait()
            busy, count = busy + took, count + size
    while under_way:
        took, size = wait()
        busy, count = busy + took, count + size
    taken = time.perf_counter() - start
    return {"images": count / taken, "idle": 1 - busy / taken, "pinned": batch["jpg"].is_pinned()}


def torch_is_there():
    """Whether torch and Pillow are available, and the name of the GPU or None."""
    try:
        import PIL
        import torch
    except ImportError:
        return False, None
    return bool(PIL), torch.cuda.get_device_name() if torch.cuda.is_available() else None


def measure(args, folder):
    import tarn
    make(folder, args.images, args.samples)
    photographs, small = tarn.open(folder / "pictures"), tarn.open(folder / "small")
    size = sum(len(s["jpg"]) for s in tarn.open(folder / "pictures", decode=False)[:64]) / 64
    has_torch, gpu = torch_is_there()
    found = {"cores": os.cpu_count(), "gpu": gpu, "jpeg_bytes": size, "images": args.images, "samples": args.samples,
             "seconds": args.seconds, "loader": [], "fed": []}
    shape = {"batch_size": 256, "resize": 224, "fit": "random", "flip": 0.5}
    rate(photographs, args.seconds, threads=max(args.threads), **shape)  # untimed: memory that is new
    rate(small, args.seconds, batch_size=256, threads=max(args.threads), keys=False)
    for n in args.threads:
        row = {"threads": n, "resized": rate(photographs, args.seconds, threads=n, **shape),
               "whole": rate(photographs, args.seconds, batch_size=64, threads=n),
               "small": rate(small, args.seconds, batch_size=256, threads=n, keys=False),
               "index": index_rate(folder / "small", n, 2 * args.samples)}
        if has_torch:
            row["torch"] = paced(lambda n=n: torch_loader(folder / "pictures", n), lambda batch: len(batch["cls"]), args.seconds)
        print(row, flush=True)
        found["loader"].append(row)
    for n in args.threads if gpu else ():
        loader = photographs.loader(threads=n, shuffle=True, seed=7, layout="CHW", array_type="torch", **shape)
        row = {"threads": n, "tarn": feed_gpu(loader, args.seconds), "slow": loader.stats()["bottleneck"],
               "torch": feed_gpu(torch_loader(folder / "pictures", n, pin_memory=True), args.seconds)}
        print(row, flush=True)
        found["fed"].append(row)
    return found


def table(rows):
    head, *rest = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---:"] * len(head), *rest))


def page(found):
    """The page of a run with a GPU. The page says that memory was pinned, so this is required."""
    rows = found["loader"]
    assert all(r[who]["pinned"] for r in found["fed"] for who in ("tarn", "torch"))
    first, last = rows[0], rows[-1]
    best = max(r["small"] for r in rows)
    enough = next(r for r in rows if r["small"] > 0.7 * best)

    def cell(row, name):
        return f"{row[name]:,.0f} ({row[name] / first[name]:.1f} ×)"
    loader = table([["threads", "JPEG to 224 × 224, images/s", "`DataLoader` with Pillow, as many workers", "tarn is", "JPEG to RGB, images/s",
                     "1 KB in batches of 256, samples/s", "index, members/s"]]
                   + [[str(r["threads"]), cell(r, "resized"), cell(r, "torch"), f"{r['resized'] / r['torch']:.1f} ×", cell(r, "whole"), cell(r, "small"),
                       cell(r, "index")] for r in rows])
    fed = table([["threads or workers", "tarn, images/s", "GPU idle", "loader's bottleneck", "`DataLoader`, images/s", "GPU idle", "tarn is"]]
                + [[str(r["threads"]), f"{r['tarn']['images']:,.0f}", f"{r['tarn']['idle']:.0%}", r["slow"], f"{r['torch']['images']:,.0f}",
                    f"{r['torch']['idle']:.0%}", f"{r['tarn']['images'] / r['torch']['images']:.1f} ×"] for r in found["fed"]])
    return f"""# More than two cores

Written by `bench/scaling.py` from a run on a virtual machine with {found['cores']} cores and an {found['gpu']}: {found['images']:,} JPEGs of 500 × 375 pixels
and {found['jpeg_bytes'] / 1000:.0f} KB, {found['samples']:,} samples of 1 KB, all in memory, medians of three times {found['seconds']:g} s. Brackets show the ratio to the first
row. One Python thread requests batches, and the loader's threads make them. The `DataLoader` has the same number of worker processes, reads the same
shards, and decodes and resizes with Pillow.

![Images per second, by threads](scaling.svg)

{loader}

- From {first['threads']} to {last['threads']} threads, decoding becomes {last['resized'] / first['resized']:.1f} times as fast, and Pillow's {last['torch'] / first['torch']:.1f} times.
- Small samples reach {best / 1e6:.1f} million per second, and {enough['small'] / 1e6:.1f} million with only {enough['threads']} threads: beyond that, one Python caller cannot
  take batches fast enough, and more threads wake each other up.
- The index is a whole process that starts, scans, writes and syncs; its sort and its write do not scale with the threads.

## GPU utilisation

A small network processes each batch of 256, forwards and backwards, in bfloat16. Batches are in pinned memory (by `array_type="torch"`, and by
`pin_memory`) and copied asynchronously: while the GPU works on a batch, the next is fetched.

{fed}

*Idle* is the share of time in which the GPU neither copied nor computed. The training step is small, so that loading dominates: with either loader,
a GPU of this size waits for JPEGs to be decoded.
"""


def plot(found):
    series = {"tarn": [(r["threads"], r["resized"]) for r in found["loader"]],
              "DataLoader, Pillow": [(r["threads"], r["torch"]) for r in found["loader"]]}
    return svg.lines("JPEG to 224 × 224, by threads", "images/s, more is better; both axes are logarithmic", "threads or worker processes",
                     series, dict(zip(series, svg.COLOURS)), lambda v: f"{v:,.0f}", ticks=[r["threads"] for r in found["loader"]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4, 8, 16])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--from-json", type=pathlib.Path)
    args = parser.parse_args()
    if args.from_json:
        found = json.loads(args.from_json.read_text())
        PAGE.write_text(page(found))
        PAGE.with_suffix(".svg").write_text(plot(found))
        PAGE.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        found = measure(args, pathlib.Path(scratch))
    if args.json:
        args.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
