#!/usr/bin/env python3
"""How the loader and the indexer scale with threads, before and after a change, and how well they keep a GPU busy,
compared with torch's DataLoader and Pillow.

  scaling.py [--build DIR] [--before DIR] [--threads 1,2,4,8,12,16] [--images N] [--samples N] [--seconds S]
             [--folder DIR] [--json FILE]
  scaling.py --from-json FILE     writes docs/benchmarks/scaling.md and its plots from a run on another machine

DIR is a build folder (with the command, and the package in DIR/python); --before is that of another version, which takes
turns with it. Needs NumPy; the DataLoader needs torch and Pillow, the last part a GPU. Makes its own data with tarn: JPEGs of
500 x 375 pixels with detail at every scale, and samples of 1 KB with a label in 64 shards. Rates are medians of three.
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

HERE = pathlib.Path(__file__).resolve()
PAGE = HERE.parent.parent / "docs/benchmarks/scaling.md"

NOISE = 10.5  # JPEGs of 72 KB
SHARDS = 64
SIZES = (64, 256, 4096)
CROPS = {"batch_size": 256, "resize": 224, "fit": "random", "flip": 0.5}


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
    with tarn.DatasetWriter(folder / "small", "train", max_count=-(-samples // SHARDS)) as out:
        for first in range(0, samples, 1000):
            out.write_many([{"__key__": f"s{i:08}", "bin": block, "cls": i % 1000} for i in range(first, first + 1000)])


def endless(loader):
    """The batches of consecutive epochs after the first epoch, which warms everything up."""
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    next(batches)
    return batches


def rate(dataset, seconds, **options):
    """Samples per second of a warm loader."""
    return paced(lambda: dataset.loader(shuffle=True, seed=7, **options),
                 lambda batch: len(next(iter(batch.values()))), seconds)


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


# --- In a process of its own, with the package of one build -----------------------------


def rows(folder, threads, seconds):
    """Prints the rates of one number of threads."""
    import tarn
    photographs, small = tarn.open(folder / "pictures", fields=["jpg", "cls"]), tarn.open(folder / "small", fields=["bin", "cls"])
    stored = tarn.open(folder / "pictures", fields=["jpg"], decode=False)
    for dataset, more in ((small, {"keys": False}), (stored, {})):  # all pages are mapped
        for _ in dataset.loader(batch_size=4096, threads=threads, **more):
            pass
    found = {"resized": rate(photographs, seconds, threads=threads, **CROPS),
             "whole": rate(photographs, seconds, batch_size=64, threads=threads),
             "views": rate(stored, seconds, batch_size=64, threads=threads, keys=False)}
    for size in SIZES:
        found[f"small_{size}"] = rate(small, seconds, batch_size=size, threads=threads, keys=False)
    print(json.dumps(found))


def alone(folder, seconds):
    """One of several processes that decode at the same time, each in its only thread."""
    import tarn
    batches = endless(tarn.open(folder / "pictures", fields=["jpg", "cls"]).loader(shuffle=True, seed=7, threads=0, **CROPS))
    print("ready", flush=True)
    sys.stdin.readline()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        count += len(next(batches)["cls"])
    print(count / (time.perf_counter() - start))


def process(build, *argv):
    return subprocess.Popen([sys.executable, HERE, *map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(build / "python")})


def answer(child):
    text = child.communicate()[0]
    if child.returncode:
        raise SystemExit("a process failed")
    return json.loads(text.splitlines()[-1])


def rates(build, folder, threads, seconds):
    return answer(process(build, "--rows", folder, "--threads", threads, "--seconds", seconds))


def independent(build, folder, count, seconds):
    """Images per second of count processes with one thread each, together."""
    children = [process(build, "--alone", folder, "--seconds", 3 * seconds) for _ in range(count)]
    for child in children:
        child.stdout.readline()
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    return sum(answer(child) for child in children)


# --- Contestants --------------------------------------------------------------------------


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


def index_rate(build, folder, threads, members):
    found = []
    for _ in range(3):
        for path in (folder / "train.taridx", folder / "train.tarsum"):
            path.unlink(missing_ok=True)
        start = time.perf_counter()
        subprocess.run([build / "tarn", "index", "-q", "-j", str(threads), folder], check=True, stdout=subprocess.DEVNULL)
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
    sys.path.insert(0, str(args.build / "python"))
    import tarn
    make(folder, args.images, args.samples)
    size = sum(len(s["jpg"]) for s in tarn.open(folder / "pictures", decode=False)[:64]) / 64
    has_torch, gpu = torch_is_there()
    found = {"cores": os.cpu_count(), "gpu": gpu, "jpeg_bytes": size, "images": args.images, "samples": args.samples,
             "seconds": args.seconds, "version": tarn.__version__, "loader": [], "before": [], "fed": []}
    rates(args.build, folder, max(args.threads), 0.2)  # untimed: memory that is new
    builds = {"loader": args.build} | ({"before": args.before} if args.before else {})
    for n in args.threads:
        for name, build in builds.items():
            row = {"threads": n, **rates(build, folder, n, args.seconds),
                   "index": index_rate(build, folder / "small", n, 2 * args.samples)}
            found[name].append(row)
        row = found["loader"][-1]
        row["independent"] = independent(args.build, folder, n, args.seconds)
        if has_torch:
            row["torch"] = paced(lambda n=n: torch_loader(folder / "pictures", n), lambda batch: len(batch["cls"]), args.seconds)
        print(row, found["before"][-1:], flush=True)
    photographs = tarn.open(folder / "pictures")
    for n in args.threads if gpu else ():
        loader = photographs.loader(threads=n, shuffle=True, seed=7, layout="CHW", array_type="torch", **CROPS)
        row = {"threads": n, "tarn": feed_gpu(loader, args.seconds), "slow": loader.stats()["bottleneck"],
               "torch": feed_gpu(torch_loader(folder / "pictures", n, pin_memory=True), args.seconds)}
        print(row, flush=True)
        found["fed"].append(row)
    return found


def table(rows):
    head, *rest = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---:"] * len(head), *rest))


def million(value):
    return f"{value / 1e6:.2f} M"


def ladder(found, name, show):
    """The rows of one figure by threads: before, now, and now compared with one thread."""
    now = [row[name] for row in found["loader"]]
    before = [row[name] for row in found["before"]]
    lines = ([("before", [show(v) for v in before])] if before else []) + [("tarn", [show(v) for v in now])]
    return lines + [("compared with one thread", [f"{v / now[0]:.1f} ×" for v in now])]


FIGURES = (("small_64", "1 KB and a label, batches of 64, samples/s", million),
           ("small_256", "1 KB and a label, batches of 256, samples/s", million),
           ("small_4096", "1 KB and a label, batches of 4,096, samples/s", million),
           ("views", "undecoded JPEGs as views, batches of 64, samples/s", million),
           ("resized", "JPEG to 224 × 224, images/s", lambda v: f"{v:,.0f}"),
           ("whole", "JPEG to RGB, batches of 64, images/s", lambda v: f"{v:,.0f}"),
           ("index", "index, members/s", million))


def scaling_table(found):
    """All figures that the run has; one of an earlier version has fewer."""
    loader = found["loader"]
    rows_ = [["", "threads:"] + [str(row["threads"]) for row in loader]]
    for name, title, show in FIGURES:
        if name not in loader[0]:
            continue
        for i, (what, cells) in enumerate(ladder(found, name, show)):
            rows_.append([title if i == 0 else "", what, *cells])
        if name == "resized":
            if "independent" in loader[0]:
                rows_.append(["", "as many processes with one thread", *(f"{r['independent']:,.0f}" for r in loader)])
                rows_.append(["", "compared with these", *(f"{r['resized'] / r['independent']:.2f} ×" for r in loader)])
            rows_.append(["", "`DataLoader` with Pillow, as many workers", *(f"{r['torch']:,.0f}" for r in loader)])
    return table(rows_)


def share_of_processes(last):
    """How a loader with many threads compares with processes of one thread each."""
    if "independent" not in last:
        return ""
    return f" {last['threads']} threads of one loader\n  reach {last['resized'] / last['independent']:.0%} of {last['threads']} independent processes."


def versions(found):
    """Which versions the run has measured."""
    if found["before"]:
        return "*Before* is version 0.1, which took turns with this version."
    return f"The run is of version {found['version']}; a later version has not been measured on such a machine."


def page(found):
    """The page of a run with a GPU. The page says that memory was pinned, so this is required."""
    loader = found["loader"]
    assert all(r[who]["pinned"] for r in found["fed"] for who in ("tarn", "torch"))
    first, last = loader[0], loader[-1]
    fed = table([["threads or workers", "tarn, images/s", "GPU idle", "loader's bottleneck", "`DataLoader`, images/s", "GPU idle", "tarn is"]]
                + [[str(r["threads"]), f"{r['tarn']['images']:,.0f}", f"{r['tarn']['idle']:.0%}", r["slow"], f"{r['torch']['images']:,.0f}",
                    f"{r['torch']['idle']:.0%}", f"{r['tarn']['images'] / r['torch']['images']:.1f} ×"] for r in found["fed"]])
    best = max(row["small_256"] for row in loader)
    return f"""# More than two cores

Written by `bench/scaling.py` from a run on a virtual machine with {found['cores']} cores and an {found['gpu']}: {found['images']:,} JPEGs of 500 × 375 pixels
and {found['jpeg_bytes'] / 1000:.0f} KB, {found['samples']:,} samples of 1 KB with a label, all in memory, medians of three times {found['seconds']:g} s. One Python thread
requests batches in shuffled order, and the loader's threads make them. The `DataLoader` has the same number of worker processes, reads the
same shards, and decodes and resizes with Pillow. {versions(found)}

![Images per second, by threads](scaling.svg)

![Small samples per second, by threads](scaling-small.svg)

{scaling_table(found)}

- From {first['threads']} to {last['threads']} threads, decoding becomes {last['resized'] / first['resized']:.1f} times as fast, and Pillow's {last['torch'] / first['torch']:.1f} times.{share_of_processes(last)}
- Small samples reach {best / 1e6:.1f} million per second. One Python caller, which makes a `bytes` object of each sample, cannot use many more.
- The index is a whole process that starts, scans, writes and syncs. One thread reads a shard, so a fold needs as many shards as threads.

## GPU utilisation

A small network processes each batch of 256, forwards and backwards, in bfloat16. Batches are in pinned memory (by `array_type="torch"`, and by
`pin_memory`) and copied asynchronously: while the GPU works on a batch, the next is fetched.

{fed}

*Idle* is the share of time in which the GPU neither copied nor computed. The training step is small, so that loading dominates: with either loader,
a GPU of this size waits for JPEGs to be decoded.
"""


def plot(title, subtitle, found, series):
    return svg.lines(title, subtitle, "threads or worker processes", series, dict(zip(series, svg.COLOURS)), lambda v: f"{v:,.0f}",
                     ticks=[r["threads"] for r in found["loader"]])


def curve(rows_, name):
    return [(row["threads"], row[name]) for row in rows_]


def plots(found):
    """The plots of the page, by the names of their files."""
    now, before = found["loader"], found["before"]
    alone_ = {"processes": curve(now, "independent")} if "independent" in now[0] else {}
    older = {"tarn 0.1": curve(before, "small_256")} if before else {}
    return {
        "scaling.svg": plot("JPEG to 224 × 224, by threads", "images/s, more is better; both axes are logarithmic", found,
                            {"tarn": curve(now, "resized"), **alone_, "DataLoader, Pillow": curve(now, "torch")}),
        "scaling-small.svg": plot("Samples of 1 KB with a label, by threads",
                                  "batches of 256, samples/s, more is better; both axes are logarithmic", found,
                                  {"tarn": curve(now, "small_256"), **older})}


def write(found, folder=PAGE.parent):
    (folder / PAGE.name).write_text(page(found))
    for name, drawing in plots(found).items():
        (folder / name).write_text(drawing)
    (folder / "scaling.json").write_text(json.dumps(found, indent=1) + "\n")


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--threads", type=numbers, default=[1, 2, 4, 8, 12, 16])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1)
    for name in ("--folder", "--json", "--from-json", "--rows", "--alone"):
        parser.add_argument(name, type=pathlib.Path)
    args = parser.parse_args()
    if args.rows:
        return rows(args.rows, args.threads[0], args.seconds)
    if args.alone:
        return alone(args.alone, args.seconds)
    if args.from_json:
        return write(json.loads(args.from_json.read_text()))
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        found = measure(args, pathlib.Path(scratch))
    if args.json:
        args.json.write_text(json.dumps(found))
    return None


if __name__ == "__main__":
    main()
