#!/usr/bin/env python3
"""Creates the datasets of the benchmarks under bench/data, each only if it is missing.

  d1    200,000 samples {bin 1 KB, cls 2 B}, 4 ustar shards, 512 MB
  d1p   the same with a pax header before every member, as WebDataset's writer produces by
        default because it stores a fractional time in members, 922 MB
  d2    20,000 samples {jpg, mean 91 KB; json, about 200 B}, 4 ustar shards, 1.86 GB
  d10m  10,000,000 samples of one empty field, 8 shards, 5.1 GB: many rows in the smallest
        possible archive (2,000,000 rows where less than 20 GB of disk is free)
  d10f  4,000,000 samples of two empty fields, every other one with a third: as many rows,
        of samples with different fields; made only when named

The "jpg" payloads are random bytes: nothing measured here decodes them. All contents are
seeded and the same every time. A scale other than 1 makes smaller sets in separate folders
(bench/data/d1@0.02). A folder is written under a temporary name and renamed when complete.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import shutil
import sys
import tarfile

DATA = pathlib.Path(__file__).resolve().parent / "data"
MTIME = 1700000000
BLOCK = 512
RECORD = 10240
WRITE_SIZE = 8 << 20
MANY_ROWS = 10_000_000
FEWER_ROWS = 2_000_000
SAMPLES = {"d1": 200_000, "d1p": 200_000, "d2": 20_000, "d10m": MANY_ROWS,
           "d10f": 4_000_000}
FIELDS = {"d1": ("bin", "cls"), "d1p": ("bin", "cls"), "d2": ("jpg", "json"), "d10m": ("x",),
          "d10f": ("a", "b", "c")}
SHARDS = {"d1": 4, "d1p": 4, "d2": 4, "d10m": 8, "d10f": 8}
DISK_WANTED = 20 << 30
JPG_MEAN, JPG_SPREAD, JPG_RANGE = 91_000, 25_000, (20_000, 250_000)
NOTHING = b"\0" * BLOCK


def template(mtime):
    """All blocks that tarfile writes for an empty member with an empty name."""
    info = tarfile.TarInfo("")
    info.mode, info.uname, info.gname, info.mtime = 0o444, "bigdata", "bigdata", mtime
    form = tarfile.PAX_FORMAT if isinstance(mtime, float) else tarfile.USTAR_FORMAT
    return info.tobuf(form)


HEADER = template(MTIME)
OWNER, TIME, REST = HEADER[100:124], HEADER[136:148], HEADER[156:]
FIXED_SUM = sum(OWNER) + sum(TIME) + sum(REST) + 8 * ord(" ")
SIZE_FIELDS = {}


def size_field(size):
    """The size as stored in a header, and its part of the checksum; cached."""
    if size not in SIZE_FIELDS:
        field = b"%011o\0" % size
        SIZE_FIELDS[size] = OWNER + field + TIME, FIXED_SUM + sum(field)
    return SIZE_FIELDS[size]


def header(name, size):
    """One ustar header. Only the name and the size vary, so only they are summed."""
    middle, partial = size_field(size)
    return b"%b%b%06o\0 %b" % (name.ljust(100, b"\0"), middle, partial + sum(name), REST)


def pax_headers():
    """Extended headers that contain only a fractional time, some dozens of different ones."""
    rng = random.Random(3)
    return [template(MTIME + rng.random())[: 2 * BLOCK] for _ in range(61)]


class ShardWriter:
    """One tar file, written in pieces of 8 MB so that the page cache stores it in large folios."""

    def __init__(self, path):
        self.file = open(path, "wb", buffering=0)
        self.parts, self.held, self.total = [], 0, 0

    def add(self, *parts):
        self.parts += parts
        self.held += sum(map(len, parts))
        if self.held >= WRITE_SIZE:
            self.flush()

    def flush(self):
        data = memoryview(b"".join(self.parts))
        self.total += len(data)
        while data:
            data = data[self.file.write(data):]
        self.parts, self.held = [], 0

    def close(self):
        """Ends the archive as tar programs do: two empty blocks, padded to a record."""
        size = self.total + self.held
        self.add(bytes(2 * BLOCK + -(size + 2 * BLOCK) % RECORD))
        self.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def padding(size):
    return NOTHING[: -size % BLOCK]


def small_samples(first, last, seed, before=None):
    """D1 and D1p: one list of parts per sample. before: blocks before each header."""
    rng = random.Random(seed)
    pool = memoryview(rng.randbytes(1 << 22))
    before = before or [b""]
    for i in range(first, last):
        at = rng.randrange(len(pool) - 1024)
        extra = before[i % len(before)]
        yield [extra, header(b"%09d.bin" % i, 1024), pool[at: at + 1024],
               extra, header(b"%09d.cls" % i, 2), b"%02d" % (i % 100), padding(2)]


def image_samples(first, last, seed):
    """D2: payloads with the sizes of photographs, and the content of a caption file."""
    rng = random.Random(seed)
    pool = memoryview(rng.randbytes(1 << 24))
    low, high = JPG_RANGE
    for i in range(first, last):
        size = min(max(int(rng.gauss(JPG_MEAN, JPG_SPREAD)), low), high)
        at = rng.randrange(len(pool) - size)
        text = caption(i, rng)
        yield [header(b"%09d.jpg" % i, size), pool[at: at + size], padding(size),
               header(b"%09d.json" % i, len(text)), text, padding(len(text))]


def caption(i, rng):
    words = ["bird", "lake", "morning", "reed", "snow", "stone", "tarn", "wind"]
    text = " ".join(rng.choices(words, k=25))
    return json.dumps({"id": i, "label": i % 1000, "size": [500, 375], "caption": text}).encode()


def empty_samples(first, last, _seed):
    """Headers only, a thousand in a part."""
    for start in range(first, last, 1000):
        rows = range(start, min(start + 1000, last))
        yield [b"".join([header(b"%09d.x" % i, 0) for i in rows])]


def uneven_samples(first, last, _seed):
    """The same with two fields, and a third for every other sample."""
    for start in range(first, last, 1000):
        rows = range(start, min(start + 1000, last))
        yield [b"".join([header(b"%09d.%c" % (i, f), 0) for i in rows
                         for f in (b"abc" if i % 2 else b"ab")])]


def pax_samples(first, last, seed):
    return small_samples(first, last, seed, pax_headers())


MAKERS = {"d1": small_samples, "d1p": pax_samples, "d2": image_samples, "d10m": empty_samples,
          "d10f": uneven_samples}


def key_of(i):
    """The key of sample i, in every dataset."""
    return f"{i:09d}"


def write_shards(folder, name, samples):
    shards = SHARDS[name]
    for s in range(shards):
        first, last = samples * s // shards, samples * (s + 1) // shards
        shard = ShardWriter(folder / f"train_{s:04d}.tar")
        for parts in MAKERS[name](first, last, 1000 + s):
            shard.add(*parts)
        shard.close()


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A folder of shards of the fold "train", and how much it contains."""
    name: str
    folder: pathlib.Path
    samples: int

    @property
    def fields(self):
        return FIELDS[self.name]

    @property
    def members(self):
        if self.name == "d10f":
            return self.samples * 2 + self.samples // 2
        return self.samples * len(self.fields)

    @property
    def shards(self):
        return sorted(self.folder.glob("train_*.tar"))

    @property
    def size(self):
        return sum(path.stat().st_size for path in self.shards)


def default_rows():
    """Ten million, or two million where the disk is nearly full."""
    if (DATA / "d10m").exists():
        return MANY_ROWS
    here = DATA if DATA.exists() else DATA.parent
    return MANY_ROWS if shutil.disk_usage(here).free > DISK_WANTED else FEWER_ROWS


def describe(name, scale=1.0, rows=None):
    """The data set of these sizes, existing or not; the usual sizes have the plain names."""
    usual = SAMPLES[name]
    full = (rows or default_rows()) if name == "d10m" else usual
    mark = f"-{full}" if full != usual else ""
    mark += f"@{scale:g}" if scale != 1.0 else ""
    return DataSet(name, DATA / (name + mark), max(SHARDS[name], round(full * scale)))


def make(name, scale=1.0, rows=None):
    """A data set, which is made first if it does not exist."""
    data = describe(name, scale, rows)
    if data.folder.exists():
        return data
    print(f"making {data.folder.name}: {data.samples:,} samples", file=sys.stderr)
    part = data.folder.with_name(data.folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    write_shards(part, name, data.samples)
    part.rename(data.folder)
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0],
                                     epilog="Without NAME: d1, d1p, d2 and d10m.")
    parser.add_argument("name", nargs="*", metavar="NAME", help="d1, d1p, d2, d10m or d10f")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the samples")
    parser.add_argument("--rows", type=int, help="samples of d10m before scaling")
    args = parser.parse_args()
    unknown = set(args.name) - set(MAKERS)
    if unknown:
        parser.error(f"no such data set: {', '.join(sorted(unknown))}")
    for name in args.name or [n for n in MAKERS if n != "d10f"]:
        print(make(name, args.scale, args.rows).folder)


if __name__ == "__main__":
    main()
