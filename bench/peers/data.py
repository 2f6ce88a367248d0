"""The samples of all contestants, generated from seeds and the same every time.

  d1    {bin 1 KB, cls 2 B}; bin begins with the number of the sample
  small d1 in shards of 20 samples
  d2    {jpg, mean 91 KB, 500 x 375 pixels; json, some 40 B}; each jpg differs in a comment
  tiny  {bin 16 B}, for large numbers of samples
  pack  {bin 1 KB}, records
  rows  {x 256 B}, rows of 64 floats
"""
import dataclasses
import functools
import json
import pathlib
import random

FIELDS = {"d1": ("bin", "cls"), "small": ("bin", "cls"), "d2": ("jpg", "json"), "tiny": ("bin",), "pack": ("bin",),
          "rows": ("x",)}
BATCH = {"d1": 256, "small": 256, "d2": 64, "tiny": 256, "pack": 256, "rows": 256}
POOL = 1 << 22
SHARDS = 4
SMALL_SHARD = 20


@dataclasses.dataclass(frozen=True)
class Data:
    kind: str
    samples: int
    pictures: str = ""  # the folder of drawn JPEGs, for d2

    @property
    def fields(self):
        return FIELDS[self.kind]

    @property
    def batch(self):
        return BATCH[self.kind]

    @property
    def members(self):
        return self.samples * len(self.fields)

    @property
    def per_shard(self):
        return SMALL_SHARD if self.kind == "small" else -(-self.samples // SHARDS)

    def sample(self, number):
        """Key and fields of one sample."""
        return f"{number:09d}", MAKERS[self.kind](self, number)

    def some(self, first, last):
        return [self.sample(i) for i in range(first, last)]

    def payload(self, first, last):
        """Total bytes of the fields of these samples."""
        if self.kind != "d2":
            size = sum(len(v) for v in self.sample(0)[1].values())
            return size * (last - first)
        return sum(len(v) for i in range(first, last) for v in self.sample(i)[1].values())


@functools.cache
def noise():
    return random.Random(11).randbytes(POOL)


def block(number, size):
    """The number, and pseudorandom bytes."""
    at = number * 7919 % (POOL - size)
    return number.to_bytes(8, "little") + noise()[at: at + size - 8]


@functools.cache
def drawn(folder):
    return [path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.jpg"))]


def photograph(data, number):
    """A drawn JPEG with the number as a comment after its first marker."""
    jpg = drawn(data.pictures)
    jpg = jpg[number % len(jpg)]
    comment = b"\xff\xfe\x00\x0a" + number.to_bytes(8, "little")
    label = json.dumps({"id": number, "label": number % 1000}).encode()
    return {"jpg": jpg[:2] + comment + jpg[2:], "json": label}


MAKERS = {
    "d1": lambda data, i: {"bin": block(i, 1024), "cls": b"%02d" % (i % 100)},
    "small": lambda data, i: MAKERS["d1"](data, i),
    "d2": photograph,
    "tiny": lambda data, i: {"bin": block(i, 16)},
    "pack": lambda data, i: {"bin": block(i, 1024)},
    "rows": lambda data, i: {"x": block(i, 256)},
}


def draw(folder, count):
    """The JPEGs of d2, drawn once and kept; needs NumPy and the tarn package, whose encoder writes them."""
    import numpy as np
    import pictures
    import tarn
    rng = np.random.default_rng(3)
    part = folder.with_name(folder.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    with tarn.DatasetWriter(part / "all", overwrite=True, jpeg_quality=90, sync=False) as out:
        for i in range(count):
            out.write({"__key__": f"{i:05d}", "jpg": pictures.picture(rng)})
    for sample in tarn.open(part / "all", decode=False):
        (part / f"{sample['__key__']}.jpg").write_bytes(sample["jpg"])
    part.rename(folder)
