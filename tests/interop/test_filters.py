#!/usr/bin/env python3
"""Filters compared with the programs and modules of the formats, in both directions.

tarn reads the output of Python's gzip, bz2 and lzma and of the gzip, bzip2, xz and zstd programs,
in all their forms; they unpack what tarn writes. Truncated files are never accepted as complete.
"""
import bz2
import gzip
import lzma
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib

from url_support import Tap, bad, expect, good, noise, read, write


def text(size, seed=1):
    rng = random.Random(seed)
    words = [rng.randbytes(rng.randint(2, 9)) for _ in range(400)]
    out = b""
    while len(out) < size:
        out += b"".join(rng.choices(words, k=2000))
    return out[:size]


TEXT = text(400_000)
SMALL = text(700, 2)


def program(*args, data):
    return subprocess.run(args, input=data, stdout=subprocess.PIPE, check=True).stdout


def named_gzip(data):
    """All the optional header fields: extra, name, comment, header CRC."""
    head = b"\x1f\x8b\x08\x1e" + struct.pack("<IBB", 1700000000, 2, 3)
    head += struct.pack("<H", 6) + b"BC\2\0\1\2" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xffff)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    return head + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xffffffff)


def stored_gzip(data):
    deflate = zlib.compressobj(0, zlib.DEFLATED, 31)
    return deflate.compress(data) + deflate.flush()


def flushed_gzip(data):
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    out = b"".join(deflate.compress(data[i:i + 9999]) + deflate.flush(zlib.Z_FULL_FLUSH)
                   for i in range(0, len(data), 9999))
    return out + deflate.flush()


def xz(data, **more):
    return lzma.compress(data, **more)


def alone(data):
    return lzma.compress(data, format=lzma.FORMAT_ALONE)


def zstd(data, *options):
    return program("zstd", "-q", "-c", *options, data=data)


def cases(data):
    yield "gzip.gz", gzip.compress(data)
    yield "gzip-1.gz", gzip.compress(data, 1)
    yield "gzip-program.gz", program("gzip", "-c", data=data)
    yield "gzip-fields.gz", named_gzip(data)
    yield "gzip-stored.gz", stored_gzip(data)
    yield "gzip-flushed.gz", flushed_gzip(data)
    half = len(data) // 2
    yield "gzip-members.gz", gzip.compress(data[:half]) + gzip.compress(b"") + gzip.compress(
        data[half:])
    yield "gzip-many.gz", b"".join(gzip.compress(data[i:i + 5000])
                                   for i in range(0, len(data) or 1, 5000))
    yield "gzip-padded.gz", gzip.compress(data) + bytes(511)
    yield "bzip2.bz2", bz2.compress(data)
    yield "bzip2-1.bz2", bz2.compress(data, 1)
    yield "bzip2-joined.bz2", bz2.compress(data[:half]) + bz2.compress(data[half:])
    yield "xz.xz", xz(data)
    yield "xz-crc32.xz", xz(data, check=lzma.CHECK_CRC32)
    yield "xz-sha256.xz", xz(data, check=lzma.CHECK_SHA256)
    yield "xz-none.xz", xz(data, check=lzma.CHECK_NONE)
    yield "xz-blocks.xz", program("xz", "-c", "--block-size=65536", "-T2", data=data)
    yield "xz-joined.xz", xz(data[:half]) + bytes(8) + xz(data[half:]) + bytes(4)
    yield "lzma.lzma", alone(data)
    yield "lzma-sized.lzma", program("xz", "--format=lzma", "-c", data=data)
    yield "zstd.zst", zstd(data)
    yield "zstd-19.zst", zstd(data, "-19")
    yield "zstd-long.zst", zstd(data, "--long=27")
    yield "zstd-unchecked.zst", zstd(data, "--no-check")
    yield "zstd-frames.zst", zstd(data[:half]) + b"\x50\x2a\x4d\x18\4\0\0\0skip" + zstd(data[half:])
    yield "zstd-threads.zst", zstd(data, "-T2", "-B65536")


def checks(folder):
    def reads():
        """all forms of all formats are read, in pieces of any size"""
        for data, pieces in ((TEXT, (4096, 262144)), (SMALL, (7,)), (b"", (262144,))):
            for name, packed in cases(data):
                path = folder / name
                path.write_bytes(packed)
                for piece in pieces:
                    outcome = read(str(path), f"piece={piece}")
                    expect(outcome.code == 0 and outcome.out == data, name, len(data), outcome)

    def writes():
        """the formats' own tools unpack written files"""
        judges = {".gz": gzip.decompress, ".bz2": bz2.decompress,
                  ".xz": lzma.decompress, ".zst": lambda d: program("zstd", "-dqc", data=d)}
        for suffix, judge in judges.items():
            for data in (TEXT, SMALL, b""):
                for level in (0, 1, 9):
                    path = folder / f"written{suffix}"
                    good(write(str(path), data, "overwrite=1", "no_sync=1", f"level={level}"))
                    expect(judge(path.read_bytes()) == data, suffix, level)

    def programs():
        """the programs find no error in written files"""
        for suffix, test in ((".gz", ["gzip", "-t"]), (".bz2", ["bzip2", "-t"]),
                             (".xz", ["xz", "-t"]), (".zst", ["zstd", "-tq"])):
            path = folder / f"tested{suffix}"
            good(write(str(path), TEXT, "no_sync=1"))
            subprocess.run([*test, str(path)], check=True)

    def reproducible():
        """gzip output has neither time nor name"""
        path = folder / "time.gz"
        good(write(str(path), SMALL, "no_sync=1"))
        expect(path.read_bytes()[:9] == b"\x1f\x8b\x08\0\0\0\0\0\0", path.read_bytes()[:10])

    def cut():
        """a truncated file is an error wherever it ends"""
        rng = random.Random(4)
        for name, packed in cases(SMALL):
            # An end between two members, or inside padding, is not a truncation.
            if "joined" in name or "members" in name or "frames" in name or "padded" in name:
                continue
            for at in sorted({0, 2, len(packed) - 1, len(packed) - 4,
                              *rng.sample(range(len(packed)), 4)}):
                path = folder / ("cut" + pathlib.Path(name).suffix)
                path.write_bytes(packed[:at])
                outcome = read(str(path))
                if name.startswith("lzma") and at < 14:
                    continue  # the format has no magic number; too short a file cannot be recognised
                bad(outcome, "truncated")

    def windows():
        """a window of any size that memory allows is accepted"""
        data = noise(1000) + TEXT
        path = folder / "window.zst"
        path.write_bytes(zstd(data, "--long=31", "--ultra", f"--stream-size={len(data)}"))
        good(read(str(path)), data)
        path.write_bytes(program("zstd", "-q", "-c", "--long=31", "--ultra", data=b"") +
                         b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")
        bad(read(str(path)), "limit", "max_memory")
        good(read(str(path), f"max_memory={1 << 31}"), b"")

    return [reads, writes, programs, reproducible, cut, windows]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        tap.run(checks(pathlib.Path(folder)))
    return tap.end()


sys.exit(main())
