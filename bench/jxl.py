#!/usr/bin/env python3
"""JPEG XL of one tile: tarn, with the libjxl of the system, and imagecodecs, with its own. One thread.

  PYTHONPATH=build-plain/python .venv-peers/bin/python bench/jxl.py [SIDE]

Milliseconds, medians of nine, in turns. To compare the same version of libjxl, put a folder with a link
libjxl.so.0.11 to that of imagecodecs, and the folder of its libraries, into LD_LIBRARY_PATH.
"""
import statistics
import sys
import time

import imagecodecs
import numpy as np

from tarn import _tarn

ROUNDS = 9
SIDE = int(sys.argv[1]) if len(sys.argv) > 1 else 512


def picture():
    down, right = np.mgrid[:SIDE, :SIDE]
    noise = np.random.default_rng(1).normal(0, 6, (SIDE, SIDE, 3))
    waves = np.stack([128 + 60 * np.sin(right / (20 + 7 * c)) + 50 * np.cos(down / (31 - 5 * c)) for c in range(3)], -1)
    return np.clip(waves + noise, 0, 255).astype("u1")


def medians(calls):
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: 1000 * statistics.median(all_of) for name, all_of in times.items()}


def main():
    image = picture()
    print(f"{SIDE} x {SIDE} RGB; imagecodecs has {imagecodecs.jpegxl_version()}")
    for name, lossless, effort in (("lossless, effort 1", True, 1), ("lossless, effort 7", True, 7),
                                   ("distance 1, effort 7", False, 7)):
        data = imagecodecs.jpegxl_encode(image, lossless=lossless, distance=1.0, effort=effort)
        found = medians({
            "decode tarn": lambda: _tarn.decode("jxl", data),  # noqa: B023
            "decode imagecodecs": lambda: imagecodecs.jpegxl_decode(data, numthreads=1),  # noqa: B023
            "encode tarn": lambda: _tarn.jxl_encode(image, lossless, 1.0, effort, False),  # noqa: B023
            "encode imagecodecs": lambda: imagecodecs.jpegxl_encode(  # noqa: B023
                image, lossless=lossless, distance=1.0, effort=effort, numthreads=1)})
        print(f"{name:22}", "   ".join(f"{what} {ms:.1f}" for what, ms in found.items()))


main()
