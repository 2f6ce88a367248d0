#!/usr/bin/env python3
"""Decoding images: tarn compared with TurboJPEG or libpng alone and with Pillow, on generated JPEGs and PNGs.

  images.py [--build DIR] [--count N] [--seconds S] [--rounds N] [--threads N]

  decode   to RGB
  steps    to 224 x 224 float planes: a random crop, resized, flipped at random. Once with JPEGs
           decoded at 1/2, 1/4 or 1/8 where that is enough, once always at full size,
           which is what the others do. The ratio to TurboJPEG depends on the bytes per pixel: resizing
           costs the same for a small JPEG, but decoding costs less, hence two kinds
  stretch  the whole image to 224 x 224, bytes
  centre   the shorter side to 256, the centre 224 x 224, float planes

DIR is a build folder with libtarn.so (default build). Needs the .venv that scripts/setup.sh makes for
the tests. Medians, contestants in turns, images already in memory. Rates are images per second of
CPU time, so that they are per core even on a busy machine, summed over threads (for Pillow, over
processes).
"""
import argparse
import concurrent.futures
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = ROOT / ".venv/bin/python"
SIDE = 224


# --- In .venv ------------------------------------------------------------------------------------


def make(folder, count):
    """Pictures with detail at every scale. Noise decides the size of the JPEG: small ones have
    nearly the 91 KB of data set d2, light ones half of that, and large ones have more pixels."""
    import numpy as np
    import PIL.Image
    import pictures
    rng = np.random.default_rng(3)
    for kind, (width, height), noise, number in (("light", (500, 375), 3, count), ("small", (500, 375), pictures.NOISE, count),
                                                 ("large", (1600, 1200), pictures.NOISE, count // 4)):
        for i in range(max(1, number)):
            picture = PIL.Image.fromarray(pictures.picture(rng, width, height, noise))
            picture.save(folder / f"{kind}_{i:03}.jpg", quality=90)
            if kind != "large":
                picture.save(folder / f"{kind}_{i:03}.png", compress_level=6)


def pillow(way, seconds, paths):
    """Images per second of this process."""
    import math
    import random
    import numpy as np
    import PIL.Image
    files = [pathlib.Path(p).read_bytes() for p in paths]
    rng = random.Random(7)

    def part(width, height):
        for _ in range(10):
            area = width * height * rng.uniform(0.08, 1)
            shape = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                left, top = rng.randint(0, width - w), rng.randint(0, height - h)
                return left, top, left + w, top + h
        return 0, 0, width, height

    def one(data):
        image = PIL.Image.open(io.BytesIO(data)).convert("RGB")
        if way == "decode":
            image.load()
            return
        image = image.crop(part(*image.size)).resize((SIDE, SIDE), PIL.Image.Resampling.BILINEAR)
        if rng.random() < 0.5:
            image = image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
        np.ascontiguousarray((np.asarray(image).astype("f4") / np.float32(255)).transpose(2, 0, 1))

    begin, done = time.process_time(), 0
    while time.process_time() - begin < seconds:
        for data in files:
            one(data)
            done += 1
    print(done / (time.process_time() - begin))


# --- The comparison ------------------------------------------------------------------------------


def compiled(build, folder):
    program = folder / "images_work"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", f"-I{ROOT}/include", "-o", program, HERE / "images_work.c",
                    f"-I{build}/include", f"-L{build}", f"-Wl,-rpath,{build}", "-ltarn", "-lturbojpeg", "-lpng", "-lpthread"], check=True)
    return program


def rate_of(argv):
    return float(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)


def race(title, contestants, rounds, base):
    middle = measure.medians(measure.in_turns(contestants, rounds))
    print(f"\n{title}")
    for name, rate in middle.items():
        print(f"  {name:<34}{rate:>10.0f} images/s   {rate / middle[base]:6.2f} x {base}", flush=True)


def contestants(program, args, paths, threads, ways):
    def ours(way):
        return lambda: rate_of([program, way, str(threads), str(args.seconds), *paths])

    def theirs(way):
        argv = [PYTHON, __file__, "--pillow", way, "--seconds", str(args.seconds), *paths]

        def call():
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                return sum(pool.map(rate_of, [argv] * threads))
        return call
    return {name: theirs(way) if name.startswith("Pillow") else ours(way) for name, way in ways}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=48, help="number of pictures (default 48)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each timed pass (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="timed passes (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each contestant (default 1)")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--pillow", help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        return make(pathlib.Path(args.make), args.count)
    if args.pillow:
        return pillow(args.pillow, args.seconds, args.paths)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        subprocess.run([PYTHON, __file__, "--make", folder, "--count", str(args.count)], check=True)
        program = compiled(args.build.resolve(), folder)
        print(f"{args.threads} threads, medians of {args.rounds} x {args.seconds:g} s")
        for kind in ("light", "small", "large"):
            paths = sorted(map(str, folder.glob(f"{kind}_*.jpg")))
            mean = sum(os.path.getsize(p) for p in paths) / len(paths) / 1000
            size = "1600 x 1200" if kind == "large" else "500 x 375"
            ways = [("TurboJPEG", "turbo"), ("Pillow, RGB", "decode"), ("tarn, RGB", "decode"),
                    (f"Pillow, {SIDE} x {SIDE} floats", "steps"), (f"tarn, {SIDE} x {SIDE} floats, at 1/1", "exact"),
                    (f"tarn, {SIDE} x {SIDE} floats", "steps"), (f"tarn, {SIDE} x {SIDE} bytes", "bytes"),
                    (f"tarn, all to {SIDE} x {SIDE} bytes", "stretch"), (f"tarn, the middle {SIDE} x {SIDE}", "centre")]
            race(f"JPEG {size}, {mean:.0f} KB", contestants(program, args, paths, args.threads, ways), args.rounds,
                 "TurboJPEG")
        for kind in ("light", "small"):
            paths = sorted(map(str, folder.glob(f"{kind}_*.png")))
            mean = sum(os.path.getsize(p) for p in paths) / len(paths) / 1000
            race(f"PNG 500 x 375, {mean:.0f} KB", contestants(program, args, paths, args.threads, [
                ("libpng", "libpng"), ("Pillow, RGB", "decode"), ("tarn, RGB", "decode"),
                (f"tarn, {SIDE} x {SIDE} floats", "steps")]), args.rounds, "libpng")
    return 0


if __name__ == "__main__":
    sys.exit(main())
