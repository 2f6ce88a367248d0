#!/usr/bin/env python3
"""Compares the Python package with the packages it replaces, on the same files in one run.

  python.py [--build DIR] [--rounds N] [--scale S] [--only random|iterate|loader|import]

  random   samples of d1 (1 KB) and d2 (91 KB) in random order: wids, and tarn as dicts of
           memoryviews, dicts of bytes, and batches in one buffer, by one thread and by two (the
           latter by wall-clock time)
  iterate  all samples of d1 in order: WebDataset; tarn with an index, the second time or the first
           (when headers are compared with the index); tarn scanning the shards first
  loader   JPEGs to 224 x 224 batches: torch's DataLoader with Pillow and two workers, tarn with two
           threads
  import   `import tarn` without NumPy, and Python alone

DIR is a build folder (default build). Needs the .venv that scripts/setup.sh makes for the tests and the .venv-wids of
its group bench: wids is part of webdataset 0.2, and was removed in 1.0. Contestants take turns, each pass in a separate
process with an untimed pass before it; medians. Rates are samples per second of CPU time, so that they are per core
even on a busy machine; the loader, which uses several cores, is measured by wall-clock time.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import measure

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = ROOT / ".venv/bin/python"
SIDE = 224
JPEGS = 512


# --- One contestant, in a separate process ------------------------------------------------------


def timed(function, count, clock=time.process_time):
    """Samples per second of the second of two passes."""
    function()
    began = clock()
    function()
    return count / (clock() - began)


def indices(length, count):
    import random
    rng = random.Random(5)
    return [rng.randrange(length) for _ in range(count)]


def random_wids(folder, fields, count):
    import tarn
    import wids
    paths = sorted(map(str, pathlib.Path(folder).glob("*.tar")))
    total = len(tarn.open(folder, fields=fields))
    shards = [{"url": path, "nsamples": total // len(paths)} for path in paths]
    data = wids.ShardListDataset(shards, transformations=[], localname=lambda url: url)  # do not copy it
    order = indices(total, count)
    for path in range(len(paths)):  # the first sample builds its index of each shard
        data[path * (total // len(paths))]

    def loop():
        for i in order:
            data[i]
    return timed(loop, count)


def random_tarn(folder, fields, count, decode):
    import tarn
    data = tarn.open(folder, fields=fields, decode=decode)
    order = indices(len(data), count)

    def loop():
        for i in order:
            data[i]
    return timed(loop, count)


def random_batches(folder, fields, count, size):
    import numpy
    import tarn
    data = tarn.open(folder, fields=fields)
    order = numpy.array(indices(len(data), count // size * size)).reshape(-1, size)

    def loop():
        batch = None
        for row in order:
            batch = data.batch(row, out=batch)
    return timed(loop, order.size)


def random_batches_by_two(folder, fields, count, size):
    """Two threads, each with its own buffer."""
    import concurrent.futures

    import numpy
    import tarn
    data = tarn.open(folder, fields=fields)
    order = numpy.array(indices(len(data), count // size * size)).reshape(-1, size)

    def half(which):
        batch = None
        for row in order[which::2]:
            batch = data.batch(row, out=batch)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return timed(lambda: list(pool.map(half, (0, 1))), order.size, time.perf_counter)


def iterate_webdataset(folder, fields, count):
    import webdataset
    paths = sorted(map(str, pathlib.Path(folder).glob("*.tar")))

    def loop():
        for i, _ in enumerate(webdataset.WebDataset(paths, shardshuffle=False)):
            if i + 1 == count:
                break
    return timed(loop, count)


def iterate_tarn(folder, fields, how):
    """how: "open" reads a dataset that stays open; "opened" and "scanned" open it again in each
    pass, with its index and without."""
    import tarn
    there = tarn.open(folder, fields=fields, decode=False)
    shards = sorted(pathlib.Path(folder).glob("*.tar"))

    def loop():
        if how == "open":
            sources = [there]
        else:
            sources = (tarn.open(path, fields=fields, decode=False)
                       for path in ([folder] if how == "opened" else shards))
        for source in sources:
            for _ in source:
                pass
    return timed(loop, len(there))


def make_jpegs(folder):
    """Pictures of 500 x 375 with detail at every scale."""
    import io
    import tarfile

    import numpy as np
    import PIL.Image
    import pictures
    rng = np.random.default_rng(3)
    with tarfile.open(pathlib.Path(folder) / "train_0.tar", "w") as out:
        for i in range(JPEGS):
            image = PIL.Image.fromarray(pictures.picture(rng))
            for name, data in ((f"p{i:04d}.jpg", jpeg(image)),
                               (f"p{i:04d}.cls", b"%d" % (i % 10))):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))


def jpeg(image):
    import io
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()


class PillowDataset:
    """The code that a user writes for torch's DataLoader: samples by tarn, images by Pillow."""

    def __init__(self, folder):
        import tarn
        self.data = tarn.open(folder, fields=["jpg", "cls"], decode=False)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        import io

        import numpy as np
        import PIL.Image
        sample = self.data[i]
        image = PIL.Image.open(io.BytesIO(sample["jpg"])).convert("RGB")
        image = image.resize((SIDE, SIDE), PIL.Image.Resampling.BILINEAR)
        return np.asarray(image), int(bytes(sample["cls"]))


def loader_torch(folder):
    import torch.utils.data
    loader = torch.utils.data.DataLoader(PillowDataset(folder), batch_size=64, num_workers=2,
                                         persistent_workers=True)
    return timed(lambda: sum(len(batch[1]) for batch in loader), JPEGS,
                 time.perf_counter)


def loader_tarn(folder, reduce):
    import tarn
    loader = tarn.open(folder, fields=["jpg", "cls"]).loader(64, threads=2, resize=SIDE,
                                                             reduce=reduce)
    return timed(lambda: sum(len(batch["cls"]) for batch in loader), JPEGS,
                 time.perf_counter)


# --- Alternating contestants ---------------------------------------------------------------------


def race(title, contestants, rounds, first):
    """contestants: name -> function that returns a rate. Prints medians and ratios to the first."""
    rates = measure.medians(measure.in_turns(contestants, rounds))
    print(title)
    for name, rate in rates.items():
        print(f"  {name:34} {rate:12,.0f}/s  {rate / rates[first]:7.1f} x")
    sys.stdout.flush()


def child(args, call, wids=False):
    """Runs one contestant's function in .venv's Python, with the package of the build."""
    paths = [str(args.build / "python"), str(HERE)]
    if wids:
        paths.insert(0, str(next((ROOT / ".venv-wids/lib").glob("python3*")) / "site-packages"))
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    done = subprocess.run([PYTHON, __file__, "--call", json.dumps(call)], env=env, check=True,
                          capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def races(args):
    data = HERE / "data"

    def of(*call, wids=False):
        return lambda: child(args, call, wids)

    small, large = int(200_000 * args.scale), int(20_000 * args.scale)
    if args.only in (None, "random"):
        for name, fields, count, size in (("d1", ["bin", "cls"], small, 256),
                                          ("d2", ["jpg", "json"], large, 64)):
            folder = str(data / name)
            race(f"random, {name}", {
                "wids": of("random_wids", folder, fields, count // 10, wids=True),
                "tarn, views": of("random_tarn", folder, fields, count, False),
                "tarn, bytes": of("random_tarn", folder, fields, count, "bytes"),
                f"tarn, batches of {size}": of("random_batches", folder, fields, count, size),
                f"tarn, batches of {size}, 2 threads": of("random_batches_by_two", folder, fields,
                                                          count, size),
            }, args.rounds, "wids")
    if args.only in (None, "iterate"):
        folder = str(data / "d1")
        race("iterate, d1", {
            "WebDataset": of("iterate_webdataset", folder, None, small // 10),
            "tarn, indexed": of("iterate_tarn", folder, ["bin", "cls"], "open"),
            "tarn, indexed, opened each time": of("iterate_tarn", folder, ["bin", "cls"], "opened"),
            "tarn, scanned each time": of("iterate_tarn", folder, ["bin", "cls"], "scanned"),
        }, args.rounds, "WebDataset")
    if args.only in (None, "loader"):
        folder = data / "python_jpegs"
        if not folder.exists():
            part = data / "python_jpegs.part"
            part.mkdir(parents=True, exist_ok=True)
            child(args, ["make_jpegs", str(part)])
            part.rename(folder)
        race(f"JPEG to {SIDE} x {SIDE}", {
            "DataLoader and Pillow, 2 workers": of("loader_torch", str(folder)),
            "tarn, 2 threads, whole JPEGs": of("loader_tarn", str(folder), 0.0),
            "tarn, 2 threads": of("loader_tarn", str(folder), 1.0),
        }, args.rounds, "DataLoader and Pillow, 2 workers")
    if args.only in (None, "import"):
        imports(args)


def imports(args):
    """Milliseconds, best of many: the rest is noise."""
    def best(code):
        env = dict(os.environ, PYTHONPATH=str(args.build / "python"))
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        times = []
        for _ in range(20):
            began = time.perf_counter()
            subprocess.run([PYTHON, "-c", code], env=env, check=True)
            times.append(time.perf_counter() - began)
        return min(times) * 1000
    alone, tarn = best("pass"), best("import tarn")
    print(f"import tarn: {tarn - alone:.1f} ms over Python's {alone:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5, help="timed passes (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of reads (default 1)")
    parser.add_argument("--only", choices=["random", "iterate", "loader", "import"])
    parser.add_argument("--call", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.call:
        name, *arguments = json.loads(args.call)
        print(globals()[name](*arguments) or 0)
        return 0
    args.build = args.build.resolve()
    if args.only in (None, "random", "iterate"):
        subprocess.run([sys.executable, HERE / "make_data.py", "d1", "d2"], check=True,
                       stdout=subprocess.DEVNULL)
        for name in ("d1", "d2"):
            if not (HERE / "data" / name / "train.taridx").exists():
                subprocess.run([args.build / "tarn", "index", HERE / "data" / name], check=True,
                               stdout=subprocess.DEVNULL)
    races(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
