#!/usr/bin/env python3
"""Compares the loader with the machine's limits: batches of bytes with memcpy of the same samples on as many threads,
JPEGs to RGB and to 224 x 224 with TurboJPEG alone; also measures the time to the first batch of a large fold, and
what a label of two bytes costs beside 1 KB, from Python.

  loader.py [--build DIR] [--threads N] [--seconds S] [--rounds N] [--only bytes,labels,images,first]

DIR is a build folder with libtarn.so and the tool (default build). Uses d1, d2 and d10m of make_data.py, and JPEGs
of 500 x 375 pixels that bench/images.py draws with the .venv of the tests. Figures are medians; contestants run
alternately in one process. Everything is in the page cache.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import dataset
import make_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIES = 10  # copies of each picture, so that batches do not come from the CPU cache


def build_work(build, scratch):
    program = pathlib.Path(scratch) / "loader_work"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}/include", ROOT / "bench/loader_work.c", "-o", program,
                    f"-I{build}/include", f"-L{build}", "-ltarn", "-lturbojpeg", "-lpthread", f"-Wl,-rpath,{build}"], check=True)
    return program


def pictures(build):
    """Folds of JPEGs: {name: path}; light ones have about 41 KB, small ones about 85 KB."""
    folders = {}
    for kind in "light", "small":
        folder = ROOT / "bench/data/jpegs" / kind
        folders[kind] = folder
        if (folder / "train.taridx").exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            drawn = pathlib.Path(scratch) / "drawn"
            drawn.mkdir()
            code = f"import sys, pathlib; sys.path.insert(0, {str(ROOT / 'bench')!r}); import images; images.make(pathlib.Path({str(drawn)!r}), 100)"
            subprocess.run([dataset.PYTHON, "-c", code], check=True)
            files = pathlib.Path(scratch) / "files"
            files.mkdir()
            for copy in range(COPIES):
                for path in sorted(drawn.glob(f"{kind}_*.jpg")):
                    (files / f"{copy:02}_{path.name}").hardlink_to(path)
            folder.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([build / "tarn", "pack", "-q", files, "-o", folder, "--fold", "train"], check=True)
    return folders


def measure(program, path, field, way, batch, args):
    done = subprocess.run([program, path, field, way, str(batch), str(args.threads), str(args.seconds), str(args.rounds)],
                          check=True, stdout=subprocess.PIPE, text=True)
    figures = {}
    for line in done.stdout.splitlines():
        name, value = line.split()
        figures.setdefault(name, []).append(float(value))
    return figures


def compare(what, program, path, field, way, batch, aim, args):
    f = measure(program, path, field, way, batch, args)
    ratios = sorted(a / b for a, b in zip(f["loader"], f["limit"]))
    print(f"{what:44} {statistics.median(f['loader']):>12,.0f} {statistics.median(f['limit']):>12,.0f} "
          f"{statistics.median(ratios):7.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})  {aim}", flush=True)


def labels(folder, args):
    """The rates of epochs from Python, with and without a label, alternately."""
    code = """
import sys, time, tarn
folder, threads, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
loaders = [tarn.open(folder, fields=f).loader(256, shuffle=True, seed=1, threads=threads) for f in (["bin"], ["bin", "cls"])]
for turn in range(rounds + 1):  # the first is not counted
    for name, loader in zip(("bin", "both"), loaders):
        start, count = time.perf_counter(), 0
        for batch in loader:
            count += len(batch["__key__"])
        if turn:
            print(name, count / (time.perf_counter() - start))
"""
    done = subprocess.run([dataset.PYTHON, "-c", code, str(folder), str(args.threads), str(args.rounds)], check=True,
                          stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=str(args.build / "python")))
    rates = {name: [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(name + " ")]
             for name in ("bin", "both")}
    ratios = sorted(a / b for a, b in zip(rates["both"], rates["bin"]))
    print(f"{'1 KB with a label, compared with 1 KB alone':44} {statistics.median(rates['both']):>12,.0f} "
          f"{statistics.median(rates['bin']):>12,.0f} {statistics.median(ratios):7.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})  aim 0.55",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="bytes,labels,images,first")
    args = parser.parse_args()
    args.build = args.build.resolve()
    only = args.only.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        program = build_work(args.build, scratch)
        print(f"{args.threads} threads\n{'samples/s':44} {'loader':>12} {'limit':>12} {'ratio':>7}")
        if "bytes" in only:
            d1, _ = dataset.indexed("d1", args.build)
            d2, _ = dataset.indexed("d2", args.build)
            compare("1 KB, batches of 256, compared with memcpy", program, d1, "bin", "bytes", 256, "aim 0.60", args)
            compare("91 KB, batches of 64, compared with memcpy", program, d2, "jpg", "bytes", 64, "aim 0.70", args)
        if "labels" in only:
            labels(dataset.indexed("d1", args.build)[0], args)
        if "images" in only:
            for kind, folder in pictures(args.build).items():
                compare(f"{kind} JPEG to RGB, compared with TurboJPEG", program, folder, "jpg", "rgb", 64, "aim 0.95", args)
                compare(f"{kind} JPEG to 224 x 224", program, folder, "jpg", "224", 64, "aim 0.85", args)
                compare(f"{kind} JPEG to 224 x 224 float planes", program, folder, "jpg", "float", 64, "", args)
        if "first" in only:
            d10m, _ = dataset.indexed("d10m", args.build)
            f = measure(program, d10m, "x", "first", 256, args)
            print(f"first batch of 10 M rows: {statistics.median(f['first']):.1f} ms after opening, which takes "
                  f"{statistics.median(f['open']):.1f} ms; aim 100 ms")


if __name__ == "__main__":
    sys.exit(main())
