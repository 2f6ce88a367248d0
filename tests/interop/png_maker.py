"""PNGs of every kind, made by hand: any colour type, depth, interlace and filter, and their pixels,
computed without a decoder."""
import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
SAMPLES = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
KINDS = [(GREY, 1), (GREY, 2), (GREY, 4), (GREY, 8), (GREY, 16), (RGB, 8), (RGB, 16), (PALETTE, 1), (PALETTE, 2),
         (PALETTE, 4), (PALETTE, 8), (GREY_ALPHA, 8), (GREY_ALPHA, 16), (RGBA, 8), (RGBA, 16)]
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
ROTATING = 5


def chunk(name, data=b"", crc=None):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) if crc is None else crc)


def header(width, height, colour, depth, interlaced=0, rest=(0, 0)):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, *rest, interlaced))


def packed_row(row, depth):
    """Samples as the bytes of a row."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype("u1").tobytes()
    bits = (row[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.astype("u1").ravel()).tobytes()


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def filtered(row, above, step, kind):
    out = bytearray([kind])
    for i, v in enumerate(row):
        a = row[i - step] if i >= step else 0
        b = above[i]
        c = above[i - step] if i >= step else 0
        out.append((v - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) & 255)
    return bytes(out)


def rows_of(samples, depth, kind):
    height, width, count = samples.shape
    step = max(1, count * depth // 8)
    above = bytes((width * count * depth + 7) // 8)
    out = []
    for y in range(height):
        row = packed_row(samples[y].ravel(), depth)
        out.append(filtered(row, above, step, y % 5 if kind == ROTATING else kind))
        above = row
    return b"".join(out)


def raw_of(samples, depth, interlaced, kind):
    if not interlaced:
        return rows_of(samples, depth, kind)
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in PASSES]
    return b"".join(rows_of(p, depth, kind) for p in parts if p.size)


def make(samples, colour, depth, interlaced=0, kind=ROTATING, before=(), pieces=1, raw=None, after=()):
    """The file; before and after: chunks around the pixels, which are split into that many IDATs."""
    height, width = samples.shape[:2]
    data = zlib.compress(raw_of(samples, depth, interlaced, kind) if raw is None else raw)
    size = -(-len(data) // pieces)
    idats = [chunk(b"IDAT", data[i:i + size]) for i in range(0, len(data), size)]
    return b"".join([SIGNATURE, header(width, height, colour, depth, interlaced), *before, *idats, *after,
                     chunk(b"IEND")])


def to_8(samples, depth):
    return (samples >> 8 if depth == 16 else samples * (255 // ((1 << depth) - 1))).astype("u1")


def rgba(samples, colour, depth, palette=None, alphas=(), key=None):
    """The pixels that all decoders should see."""
    out = np.full(samples.shape[:2] + (4,), 255, "u1")
    if colour == PALETTE:
        table = np.zeros((256, 4), "u1")
        table[:, 3] = 255
        table[:len(palette), :3] = palette
        table[:len(alphas), 3] = alphas
        return table[samples[..., 0]]
    values = to_8(samples, depth)
    colours = 3 if colour in (RGB, RGBA) else 1
    out[..., :3] = values[..., :colours]
    if colour in (GREY_ALPHA, RGBA):
        out[..., 3] = values[..., -1]
    elif key is not None:
        out[np.all(samples == np.array(key), axis=2), 3] = 0
    return out
