#!/usr/bin/env python3
"""Python functions per sample in the loader, compared with torch's DataLoader and SPDL with the same functions.

  functions.py [--workers N] [--images N] [--samples N] [--rows N] [--seconds S] [--only PART,...] [--folder DIR]
               [--json FILE]
  functions.py --from-json FILE     writes docs/benchmarks/functions.md and .json

PART is augment, cores, trivial, overhead, start or memory; cores only on request, for --workers as many as the machine
has cores. Each part is one run, with what it is compared to, and says which
versions it used: --json replaces the parts of FILE that were run and keeps the others. Needs the packages of
tests/peers/requirements.txt (albumentations with OpenCV, Pillow, SPDL) and torch. Makes its own data with tarn: JPEGs of
500 x 375 pixels, samples of 1 KB, arrays of 150 KB. Methods take turns, and figures are medians of three.
"""
import argparse
import io
import itertools
import json
import multiprocessing
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np

import tarn

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/benchmarks/functions.md"
PARTS = ("augment", "cores", "trivial", "overhead", "start", "memory")
SHOWN = (0, 4, 9, 14, 19)  # epochs


# --- Functions, the same for all ------------------------------------------------------------


class Augment:
    """Crop, flip, colour, normalise; the numbers come from the library's own generator."""

    def __init__(self):
        import albumentations as A
        import cv2
        cv2.setNumThreads(0)
        self.steps = A.Compose([A.RandomResizedCrop((224, 224)), A.HorizontalFlip(p=0.5),
                                A.ColorJitter(p=1.0), A.Normalize()])

    def image(self, pixels):
        return self.steps(image=pixels)["image"]

    def __call__(self, sample):
        return {"image": self.image(sample["jpg"]), "cls": sample["cls"]}


def trivial(sample):
    return {"x": np.frombuffer(sample["bin"], np.uint8), "cls": sample["cls"]}


def same(sample):
    return {"x": sample["npy"], "cls": sample["cls"]}


class Files:
    """A map-style dataset of files, decoded by OpenCV or Pillow."""

    def __init__(self, folder, count, decoder):
        self.folder, self.count, self.decoder = folder, count, decoder
        self.augment = Augment()

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        data = (self.folder / f"{i:06}.jpg").read_bytes()
        return {"image": self.augment.image(decode(data, self.decoder)), "cls": i % 1000}


class Small:
    """A map-style dataset of one file per sample."""

    def __init__(self, folder, count):
        self.folder, self.count = str(folder), count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        with open(f"{self.folder}/{i:06}.bin", "rb") as file:
            return trivial({"bin": file.read(), "cls": i % 1000})


def decode(data, decoder):
    if decoder == "cv2":
        import cv2
        return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    from PIL import Image
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


# --- Measuring --------------------------------------------------------------------------------


def rate(make, count, seconds):
    """Samples per second, after one batch; count returns how many samples a batch has."""
    loader = make()
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    next(batches)
    began, seen = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        seen += count(next(batches))
    took = time.perf_counter() - began
    if hasattr(loader, "close"):
        loader.close()
    return seen / took


def in_turns(methods, measure):
    """Three figures of each method, measured in turns, each in a process of its own."""
    found = {name: [] for name in methods}
    for _ in range(3):
        for name, make in methods.items():
            found[name].append(apart(measure, make))
    return found


def apart(function, *arguments):
    ours, theirs = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(
        target=lambda: theirs.send(function(*arguments)))
    process.start()
    theirs.close()
    value = ours.recv()
    process.join()
    return value


def medians(found):
    return {name: statistics.median(values) for name, values in found.items()}


def show(title, found, reference):
    print(f"\n{title}")
    rates = medians(found)
    for name, value in rates.items():
        print(f"  {name:32} {value:12,.0f}/s   {value / rates[reference]:6.2f} x")


# --- Parts ------------------------------------------------------------------------------------


def spdl_loader(folder, count, workers, batch):
    from spdl.pipeline import PipelineBuilder
    augment = Augment()

    def one(i):
        return augment.image(decode((folder / f"{i:06}.jpg").read_bytes(), "cv2")), i % 1000

    def joined(rows):
        return {"image": np.stack([image for image, _ in rows]), "cls": np.array([cls for _, cls in rows])}

    class Loader:
        def __iter__(self):
            pipeline = (PipelineBuilder().add_source(range(count)).pipe(one, concurrency=workers, output_order="input")
                        .aggregate(batch, drop_last=True).pipe(joined).add_sink(3)
                        .build(num_threads=workers))
            with pipeline.auto_stop():
                yield from pipeline

    return Loader()


def make_pictures(folder, o):
    """Returns a dataset of JPEGs and a folder with the same files."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import pictures
    rng = np.random.default_rng(3)
    drawn = [pictures.picture(rng, noise=10.5) for _ in range(64)]
    files = folder / "files"
    files.mkdir()
    with tarn.DatasetWriter(folder / "pictures", "train", jpeg_quality=90) as out:
        for i in range(o.images):
            out.write({"__key__": f"{i:06}", "jpg": drawn[i % 64], "cls": i % 1000})
    for sample in tarn.open(folder / "pictures", decode="bytes"):
        (files / f"{sample['__key__']}.jpg").write_bytes(sample["jpg"])
    return tarn.open(folder / "pictures"), files


def augment(folder, o):
    from torch.utils.data import DataLoader
    ds, files = make_pictures(folder, o)
    ds.map(Augment()).loader(8).close()
    batch = 64
    methods = {f"tarn, {o.workers} processes": lambda: ds.map(Augment()).loader(batch, workers=o.workers),
               f"tarn, {o.workers} threads": lambda: ds.map(Augment()).loader(batch, workers=("threads", o.workers),
                                                                              threads=o.workers)}
    for decoder in ("cv2", "pillow"):
        methods[f"DataLoader, {decoder}"] = lambda decoder=decoder: DataLoader(
            Files(files, o.images, decoder), batch, num_workers=o.workers, persistent_workers=True)
    try:
        import spdl.pipeline  # noqa: F401
        methods["SPDL, cv2, threads"] = lambda: spdl_loader(files, o.images, o.workers, batch)
    except ImportError:
        print("SPDL is not installed")
    found = in_turns(methods, lambda make: rate(make, lambda b: len(b["cls"]), o.seconds))
    show(f"JPEG decoding and albumentations, {o.workers} workers, samples", found, "DataLoader, cv2")
    return found


def side_by_side(count, make, seconds):
    """Samples per second of count processes together, each with a loader of its own."""
    ready = multiprocessing.Barrier(count)

    def one(pipe):
        loader = make()
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        next(batches)
        ready.wait()
        began, seen = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            seen += len(next(batches)["cls"])
        pipe.send(seen / (time.perf_counter() - began))
        loader.close()

    pipes = [multiprocessing.Pipe(False) for _ in range(count)]
    children = [multiprocessing.get_context("fork").Process(target=one, args=(theirs,)) for _, theirs in pipes]
    for child in children:
        child.start()
    total = sum(ours.recv() for ours, _ in pipes)
    for child in children:
        child.join()
    return total


def cores(folder, o):
    from torch.utils.data import DataLoader
    ds, files = make_pictures(folder, o)
    mapped, batch = ds.map(Augment()), 64
    mapped.loader(8).close()

    def measure(loader):
        return rate(loader, lambda b: len(b["cls"]), o.seconds)

    methods = {
        f"tarn, {o.workers} processes": lambda: measure(lambda: mapped.loader(batch, workers=o.workers)),
        f"{o.workers} loaders of tarn, 1 process each": lambda: side_by_side(
            o.workers, lambda: mapped.loader(batch, workers=1, threads=1), o.seconds),
        **{f"DataLoader, {decoder}": lambda decoder=decoder: measure(lambda: DataLoader(
            Files(files, o.images, decoder), batch, num_workers=o.workers, persistent_workers=True))
           for decoder in ("cv2", "pillow")}}
    found = in_turns(methods, lambda work: work())
    show(f"JPEG decoding and albumentations, {o.workers} workers on {os.cpu_count()} cores, samples", found, "DataLoader, cv2")
    return found


def trivial_part(folder, o):
    from torch.utils.data import DataLoader
    block = np.random.default_rng(0).bytes(1024)
    with tarn.DatasetWriter(folder / "small", "train") as out:
        out.write_many({"__key__": f"s{i:08}", "bin": block, "cls": i % 1000} for i in range(o.samples))
    (folder / "files").mkdir(exist_ok=True)
    for i in range(5000):
        (folder / "files" / f"{i:06}.bin").write_bytes(block)
    ds = tarn.open(folder / "small").map(trivial)
    methods = {"tarn, processes": lambda: ds.loader(256, workers=o.workers, keys=False),
               "tarn, caller": lambda: ds.loader(256, workers=0, keys=False),
               "DataLoader of the tarn dataset": lambda: DataLoader(ds, 256, num_workers=o.workers,
                                                                    persistent_workers=True),
               "DataLoader of files": lambda: DataLoader(Small(folder / "files", 5000), 256, num_workers=o.workers,
                                                         persistent_workers=True)}
    found = in_turns(methods, lambda make: rate(make, lambda b: len(b["cls"]), o.seconds))
    show(f"a trivial function, 1 KB samples, {o.workers} workers", found, "DataLoader of files")
    return found


def processor_time():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def cost(ds, workers, epochs):
    with ds.loader(64, workers=workers, threads=1) as loader:
        list_length(loader)
        began = processor_time()
        if workers:  # children count when they have ended, so their start is measured alone, below
            began = time.process_time() + children(loader)
        for _ in range(epochs):
            list_length(loader)
        if workers:
            return time.process_time() + children(loader) - began
        return processor_time() - began


def children(loader):
    """Processor time of the workers."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0.0
    for pid in {worker.process.pid for worker in loader._pool._team.workers.values()}:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def list_length(loader):
    return sum(len(batch["cls"]) for batch in loader)


def arrays(folder):
    if not (folder / "arrays").exists():
        with tarn.DatasetWriter(folder / "arrays", "train") as out:
            out.write_many({"__key__": f"s{i:05}", "npy": np.full((224, 224, 3), i % 256, np.uint8), "cls": i}
                           for i in range(2000))
    return tarn.open(folder / "arrays").map(same)


def overhead(folder, o):
    ds = arrays(folder)
    found = in_turns({"caller": 0, "1 process": 1, "2 processes": 2},
                     lambda workers: cost(ds, workers, 10) / 20_000 * 1e6)
    print("\nprocessor time for an array of 150 KB, with a function that returns it")
    times = medians(found)
    for name, value in times.items():
        print(f"  {name:32} {value:8.1f} us   {value - times['caller']:+6.1f}")
    return found


def first_batch(make):
    began = time.perf_counter()
    loader = make()
    next(iter(loader))
    took = time.perf_counter() - began
    if hasattr(loader, "close"):
        loader.close()
    return took


def first_with(method, make):
    multiprocessing.set_start_method(method, force=True)
    if method == "forkserver":
        multiprocessing.set_forkserver_preload(["numpy", "tarn", "functions"])
        make().close()
        first_batch(make)  # starts the server, which imports the modules
    return first_batch(make)


def identity(sample):
    return sample["x"]


class Listed:
    """A dataset with a list of its samples, as many are written."""

    def __init__(self, count):
        self.names = [f"sample {i}" for i in range(count)]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        return len(self.names[i])


def start(folder, o):
    from torch.utils.data import DataLoader
    with tarn.gnz.create(folder / "rows.gnz") as out:
        out.add("x", np.zeros((o.rows, 4), np.uint8))
    ds = tarn.open(folder / "rows.gnz").map(identity)
    methods = {f"tarn, {way}": lambda way=way: first_with(way, lambda: ds.loader(64, workers=8))
               for way in ("fork", "forkserver", "spawn")}
    methods["DataLoader of a list, fork"] = lambda: first_with(
        "fork", lambda: DataLoader(Listed(o.rows), 64, num_workers=8))
    found = in_turns(methods, lambda work: work())
    found["DataLoader of a tenth of it, spawn"] = [apart(lambda: first_with(
        "spawn", lambda: DataLoader(Listed(o.rows // 10), 64, num_workers=8)))]
    print(f"\nseconds to the first batch, 8 workers, {o.rows:,} samples (spawn imports all modules in each worker)")
    for name, value in medians(found).items():
        print(f"  {name:32} {value:8.3f} s")
    return found


def resident():
    import re
    text = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"Pss:\s+(\d+)", text)[1]) / 1024


def memory(folder, o):
    ds = arrays(folder)

    def sizes():
        out = []
        with ds.loader(64, workers=2) as loader:
            for _ in range(20):
                list_length(loader)
                out.append(resident() + sum(
                    int(line.split()[1]) / 1024 for pid in {w.process.pid for w in loader._pool._team.workers.values()}
                    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:")))
        return out

    found = apart(sizes)
    print("\nMiB of the program and its workers after epochs 1, 5, 10, 15 and 20: "
          + ", ".join(f"{found[i]:.0f}" for i in SHOWN))
    return {"after each epoch": found}


# --- The page ---------------------------------------------------------------------------------


def rates_table(found, reference):
    rates = medians(found)
    rows = [f"| {name} | {value:,.0f}/s | {min(found[name]):,.0f} – {max(found[name]):,.0f} | {value / rates[reference]:.2f} |"
            for name, value in rates.items()]
    return "\n".join([f"| | samples | least – most | × {reference} |", "| --- | ---: | ---: | ---: |", *rows])


def page(found):
    """Returns docs/benchmarks/functions.md."""
    out = ["# Python functions in the loader", """Written by `bench/functions.py --from-json`; do not edit. The same functions in tarn's loader, torch's `DataLoader` and SPDL.
Methods take turns, each in a process of its own; figures are medians of three. Each table is one run. Two cores of a virtual machine,
if nothing else is said: compare the ratios.""", used(found)]
    workers = {part: one["workers"] for part, one in found.items()}
    found = {part: one["found"] for part, one in found.items()}
    if "augment" in found:
        out += ["## JPEG decoding and albumentations", """JPEGs of 500 × 375 pixels and 72 KB: random crop to 224 × 224, flip, colour, normalise, in batches of 64 as float32, with two workers.
tarn decodes in native threads, the others in the workers with the named library. SPDL runs threads, in the order of its input.""",
                rates_table(found["augment"], "DataLoader, cv2")]
    if "cores" in found:
        out += [f"## The same on {workers['cores']} cores", f"""On a virtual machine with {workers['cores']} cores, with as many workers. The loaders side by side share nothing, so they show what the
machine can do.""", rates_table(found["cores"], "DataLoader, cv2")]
    if "trivial" in found:
        out += ["## A trivial function", """`numpy.frombuffer` of samples of 1 KB, in batches of 256, with two workers. *Of files* opens one file per sample.""",
                rates_table(found["trivial"], "DataLoader of files")]
    if "overhead" in found:
        times = medians(found["overhead"])
        rows = [f"| {name} | {value:.1f} µs | {value - times['caller']:+.1f} µs |" for name, value in times.items()]
        out += ["## Processor time of handing over a sample", """An array of 150 KB is read, goes through a function that returns it, and becomes part of a batch of 64. Processor time of all
processes for one sample.""", "\n".join(["| functions run in | in all | more |", "| --- | ---: | ---: |", *rows])]
    if "start" in found:
        rows = [f"| {name} | {value:.3f} s |" for name, value in medians(found["start"]).items()]
        out += ["## Start", """Time to the first batch, with 8 workers on two cores and 10 million samples. *forkserver* has imported the modules of the function
before; *spawn* imports Python, NumPy, tarn (torch for the `DataLoader`) in each worker. The list has one string per sample, as many
datasets do.""", "\n".join(["| | |", "| --- | ---: |", *rows])]
    if "memory" in found:
        sizes = found["memory"]["after each epoch"]
        shown = ", ".join(f"{sizes[i]:.0f}" for i in SHOWN)
        out += ["## Memory", f"""The program and two workers together, after epochs 1, 5, 10, 15 and 20 over 2,000 arrays of 150 KB: {shown} MiB (proportional set
size, which includes mapped files)."""]
    return "\n\n".join(out) + "\n"


def used(found):
    """Returns the versions of the packages, and which parts used them."""
    parts = {}
    for part in PARTS:
        if part in found:
            parts.setdefault(found[part]["versions"], []).append(part)
    if len(parts) == 1:
        return f"Versions: {min(parts)}."
    return "Versions:\n\n" + "\n".join(f"- {', '.join(names)}: {text}" for text, names in parts.items())


def write(found, folder=PAGE.parent):
    (folder / "functions.md").write_text(page(found))
    (folder / "functions.json").write_text(json.dumps(found, indent=1) + "\n")


def versions():
    import importlib.metadata
    names = ["albumentations", "numpy", "opencv-python-headless", "pillow", "spdl", "torch"]
    out = []
    for name in names:
        try:
            out.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join([*out, f"Python {sys.version.split()[0]}"])


def main():
    warnings.filterwarnings("ignore", "This DataLoader will create")
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default=",".join(part for part in PARTS if part != "cores"))
    parser.add_argument("--folder")
    parser.add_argument("--json")
    parser.add_argument("--from-json")
    o = parser.parse_args()
    if o.from_json:
        write(json.loads(pathlib.Path(o.from_json).read_text()))
        return
    found = {}
    with tempfile.TemporaryDirectory(dir=o.folder) as made:
        for part in o.only.split(","):
            work = {"augment": augment, "cores": cores, "trivial": trivial_part, "overhead": overhead, "start": start, "memory": memory}[part]
            found[part] = {"versions": versions(), "workers": o.workers, "found": work(pathlib.Path(made), o)}
    if o.json:
        file = pathlib.Path(o.json)
        before = json.loads(file.read_text()) if file.exists() else {}
        together = {**before, **found}
        file.write_text(json.dumps({part: together[part] for part in PARTS if part in together}, indent=1) + "\n")


if __name__ == "__main__":
    main()
