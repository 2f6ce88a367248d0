"""Draws training pictures: six shapes in random colours, sizes and places, with one folder for each shape.

    python draw.py FOLDER [COUNT]

Each picture is a JPEG of 64 x 64 pixels, with a JSON file next to it that describes it. The same COUNT
gives the same pictures.
"""

import json
import math
import pathlib
import random
import sys

from PIL import Image, ImageDraw

SIDE = 64
SHAPES = ["circle", "cross", "ring", "square", "star", "triangle"]
Points = list[tuple[float, float]]


def corners(count: int, x: float, y: float, radius: float, turn: float, inner: float = 1) -> Points:
    """A polygon around (x, y); every other corner is only inner times as far out."""
    return [(x + math.cos(turn + 2 * math.pi * i / count) * radius * (inner if i % 2 else 1),
             y + math.sin(turn + 2 * math.pi * i / count) * radius * (inner if i % 2 else 1))
            for i in range(count)]


def colour(rng: random.Random, low: int, high: int) -> tuple[int, int, int]:
    return rng.randint(low, high), rng.randint(low, high), rng.randint(low, high)


def draw(shape: str, rng: random.Random) -> tuple[Image.Image, dict[str, object]]:
    picture = Image.new("RGB", (SIDE, SIDE), colour(rng, 150, 255))
    pen = ImageDraw.Draw(picture)
    for _ in range(12):  # specks, so that a single pixel is not enough
        x, y = rng.uniform(0, SIDE), rng.uniform(0, SIDE)
        pen.ellipse((x, y, x + 3, y + 3), fill=colour(rng, 0, 255))
    x, y = rng.uniform(20, SIDE - 20), rng.uniform(20, SIDE - 20)
    radius, turn, ink = rng.uniform(10, 19), rng.uniform(0, math.pi), colour(rng, 0, 140)
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        pen.ellipse(box, fill=ink)
    elif shape == "ring":
        pen.ellipse(box, outline=ink, width=int(radius * 0.35))
    elif shape == "cross":
        for angle in (turn, turn + math.pi / 2):
            dx, dy = radius * math.cos(angle), radius * math.sin(angle)
            pen.line((x - dx, y - dy, x + dx, y + dy), fill=ink, width=int(radius * 0.45))
    elif shape == "star":
        pen.polygon(corners(10, x, y, radius * 1.1, turn, inner=0.45), fill=ink)
    else:
        pen.polygon(corners(4 if shape == "square" else 3, x, y, radius, turn), fill=ink)
    return picture, {"shape": shape, "colour": ink, "radius": round(radius, 1)}


def main(folder: pathlib.Path, count: int = 2400) -> None:
    rng = random.Random(7)
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        shape = SHAPES[number % len(SHAPES)]
        picture, about = draw(shape, rng)
        stem = folder / shape / f"{shape}_{number // len(SHAPES):04d}"
        picture.save(stem.with_suffix(".jpg"), quality=90)
        stem.with_suffix(".json").write_text(json.dumps(about))
    print(f"{count} pictures of {len(SHAPES)} shapes in {folder}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))
