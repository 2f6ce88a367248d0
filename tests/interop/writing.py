"""Shared by the tests of the writers: samples of every kind, and the program that writes them."""
import os
import pathlib
import random
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain"))
TOOL = BUILD / "tests/write_samples"
ABANDON = struct.pack("<I", 0xffffffff)

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_-"
ODD = "äßΩ中文字😀é\u0301"


def as_bytes(name):
    return name.encode("utf-8", "surrogateescape")


def frame(samples):
    """Samples, pairs of key and {field: data}, as write_samples reads them."""
    out = bytearray()
    for key, fields in samples:
        out += struct.pack("<I", len(fields))
        for text in (as_bytes(key), *(t for f, d in fields.items() for t in (as_bytes(f), d))):
            out += struct.pack("<I", len(text)) + text
    return bytes(out)


def write(kind, target, samples, *settings, end=b"", env=None, ok=True):
    """Runs write_samples and returns what it printed."""
    done = subprocess.run([str(TOOL), kind, *map(str, target), *settings],
                          input=frame(samples) + end, stdout=subprocess.PIPE,
                          env={**os.environ, **(env or {})}, check=False)
    text = done.stdout.decode("utf-8", "surrogateescape")
    if ok and (done.returncode != 0 or any(": " in line for line in text.splitlines())):
        raise SystemExit(f"write_samples failed: {text}")
    return text


def word(rng, letters, low, high):
    return "".join(rng.choice(letters) for _ in range(rng.randint(low, high)))


def odd_key(rng, number):
    kind = rng.randrange(6)
    if kind == 0:
        return f"{number}" + word(rng, LETTERS, 85, 140)
    if kind == 1:
        return f"{number}" + word(rng, ODD + LETTERS, 1, 60)
    if kind == 2:
        return f"{word(rng, LETTERS, 1, 8)}/{word(rng, LETTERS + '.', 1, 8)}x/{number}"
    if kind == 3:
        return f"{number} blank {word(rng, LETTERS, 0, 5)}"
    if kind == 4:  # bytes that are not UTF-8, as Python represents them in file names
        return f"{number}\udcff\udc80" + word(rng, LETTERS, 0, 4)
    return f"sample{number:06d}"


def odd_samples(seed, count):
    """Long, non-ASCII and odd keys, empty and uneven payloads, one to many fields."""
    rng = random.Random(seed)
    samples = []
    for number in range(count):
        names = {word(rng, LETTERS[:26], 1, 5) for _ in range(rng.choice([1, 2, 2, 3, 20]))}
        if rng.random() < 0.3:
            names |= {"seg.png", "caption.en.txt", "x-y", "ünïcode"}
        sizes = [0, 1, 511, 512, 513, 1000, rng.randrange(9000)]
        fields = {name: rng.randbytes(rng.choice(sizes)) for name in sorted(names)}
        samples.append((odd_key(rng, number), fields))
    return samples
