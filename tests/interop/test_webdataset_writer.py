#!/usr/bin/env python3
"""The writers compared with the real WebDataset: the same bytes, and the same samples read back."""
import io
import pathlib
import shutil
import sys
import tempfile

import webdataset as wds

from checks import check
from folds import digests, read_real
from writing import odd_samples, write


def theirs(samples, **options):
    out = io.BytesIO()
    writer = wds.TarWriter(out, encoder=False, **options)
    for key, fields in samples:
        writer.write({"__key__": key, **fields})
    writer.close()
    return out.getvalue()


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"{len(a)} and {len(b)} bytes, differ at {at}: {a[at:at+80]!r} {b[at:at+80]!r}"


def same_bytes(folder, name, samples, settings=(), **options):
    path = folder / "x.tar"
    write("tar", [path], samples, "verbatim", "overwrite", *settings)
    ours, real = path.read_bytes(), theirs(samples, **options)
    check(name, ours == real, first_difference(ours, real))


def bytes_are_equal(folder):
    for seed in range(6):
        same_bytes(folder, f"300 odd samples, seed {seed}: the bytes of TarWriter(mtime=0)",
                   odd_samples(seed, 300), mtime=0)
    one = [("a", {"txt": b"x"})]
    same_bytes(folder, "no sample at all", [], mtime=0)
    same_bytes(folder, "a time", one, ["mtime=1700000000"], mtime=1700000000)
    same_bytes(folder, "a time before 1970", one, ["mtime=-5"], mtime=-5)
    same_bytes(folder, "a time past eleven octal digits", one, ["mtime=8589934592"],
               mtime=8589934592)
    same_bytes(folder, "user, group and mode", one, ["user=me", "group=us", "mode=644"],
               mtime=0, user="me", group="us", mode=0o100644)
    same_bytes(folder, "a user that is not ASCII", odd_samples(7, 20), ["user=jürgen"],
               mtime=0, user="jürgen")
    same_bytes(folder, "a user of 33 characters", one, ["user=" + "u" * 33], mtime=0,
               user="u" * 33)
    same_bytes(folder, "a user of 32 characters, and an odd time", odd_samples(8, 20),
               ["user=" + "u" * 32, "group=" + "ü" * 3, "mtime=-1"], mtime=-1,
               user="u" * 32, group="ü" * 3)
    for length in (98, 99, 100, 101):
        same_bytes(folder, f"a name of {length} bytes",
                   [("k" * (length - 4), {"txt": b"1"})], mtime=0)
    many = [("m", {f"f{i}": b"%d" % i for i in range(3000)})]
    same_bytes(folder, "3,000 fields", many, mtime=0)
    upper = [("u", {"a.b": b"1", "B": b"2", "a-b": b"3", "a": b"4"})]
    same_bytes(folder, "fields are sorted by code point", upper, mtime=0)


def samples_come_back(folder):
    # Keys with odd folders and surrogates are the verbatim case; these are all keys that the rules
    # accept.
    samples = [(key, fields) for key, fields in odd_samples(50, 400)]
    for suffix in ("tar", "tar.gz", "tar.bz2", "tar.xz"):
        path = folder / f"back.{suffix}"
        write("tar", [path], samples)
        got = read_real(path)
        want = [(key, dict(sorted(fields.items()))) for key, fields in samples]
        check(f"WebDataset reads our {suffix}: same samples, same order, same bytes",
              got == want, f"{len(got)} samples of {len(want)}")
    rolled = folder / "rolled"
    rolled.mkdir()
    write("shards", [rolled / "s-%06d.tar"], samples, "max_count=37")
    names = sorted(rolled.iterdir())
    check("shards of 37 samples", [p.name for p in names] ==
          [f"s-{i:06d}.tar" for i in range(11)], names)
    check("WebDataset reads our shards in order", read_real(*names) ==
          [(key, dict(sorted(fields.items()))) for key, fields in samples])


def shards_as_theirs(folder):
    """WebDataset's rule for starting a new shard: the same shards, byte for byte."""
    for seed, (count, size) in enumerate([(10, 10**9), (1000, 20000), (7, 30000), (1, 1)]):
        a, b = folder / f"ours{seed}", folder / f"theirs{seed}"
        a.mkdir(), b.mkdir()
        samples = odd_samples(100 + seed, 120)
        write("shards", [a / "x%04d.tar"], samples, "verbatim", "roll=1",
              f"max_count={count}", f"max_size={size}")
        with wds.ShardWriter(str(b / "x%04d.tar"), maxcount=count, maxsize=size, verbose=0,
                             encoder=False, mtime=0) as writer:
            for key, fields in samples:
                writer.write({"__key__": key, **fields})
        ours, real = digests(a), digests(b)
        check(f"ShardWriter(maxcount={count}, maxsize={size}): the same {len(real)} shards",
              ours == real, (ours, real))


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        bytes_are_equal(folder)
        samples_come_back(folder)
        shards_as_theirs(folder)
    finally:
        shutil.rmtree(folder)
    return check.end()


sys.exit(main())
