"""Writes a small dataset of pictures and labels, and reads it back.

  write.py [FOLDER [COUNT]]

Without a folder, it uses a scratch one. It writes two folds, train and val. Run it again: existing folds are refused,
unless you add overwrite=True, append=True or resume=True to the call.
"""
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import tarn

NAMES = ["circle", "square"]


def picture(rng: np.random.Generator, kind: int, side: int = 64) -> npt.NDArray[np.uint8]:
    """A circle or a square of one colour, at a random position."""
    y, x = np.mgrid[:side, :side]
    cy, cx = rng.integers(16, side - 16, 2)
    inside = (x - cx) ** 2 + (y - cy) ** 2 < 144 if kind == 0 else (
        np.maximum(abs(x - cx), abs(y - cy)) < 12)
    pixels = np.full((side, side, 3), 240, np.uint8)
    pixels[inside] = rng.integers(0, 200, 3)
    return pixels


def samples(fold: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for number in range(count):
        kind = int(rng.integers(2))
        yield {
            "__key__": f"{fold}{number:06d}",
            "jpg": picture(rng, kind),           # pixels become a JPEG
            "cls": kind,                         # a number becomes text
            "json": {"name": NAMES[kind]},       # what JSON can represent becomes JSON
        }


def main(folder: str, count: int = 200) -> None:
    for fold, share, seed in (("train", 0.8, 1), ("val", 0.2, 2)):
        with tarn.DatasetWriter(folder, fold, jpeg_quality=90) as out:
            out.write_many(samples(fold, int(count * share), seed))
        print(f"{fold}: {out.written.samples} samples, {out.written.payload:,} bytes")
    dataset = tarn.open(folder, fold="val")
    print(dataset[0]["json"]["name"], dataset[0]["jpg"].shape)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1], *map(int, sys.argv[2:]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(scratch)
