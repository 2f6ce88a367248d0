#!/usr/bin/env python3
"""PNGs of every colour type, depth, interlace and filter compared with libpng, Pillow and pixels
that were computed by hand, to the bit; and every kind of damage, which is refused or changes no
pixel."""
import io
import pathlib
import struct
import subprocess
import sys
import zlib

import numpy as np
import PIL.Image

from checks import TARN, check
from codec_tool import Refused, decode
from image_tool import decode_all, probe_all
from png_maker import (GREY, KINDS, PALETTE, RGB, RGBA, GREY_ALPHA, ROTATING, SAMPLES, SIGNATURE, chunk, header, make,
                       raw_of, rgba)

LIBPNG = pathlib.Path(TARN).parent / "tests/libpng_tool"
rng = np.random.default_rng(5)


def libpng_all(datas):
    """RGBA of each, or None where libpng refuses."""
    done = subprocess.run([LIBPNG], input=b"".join(struct.pack("<Q", len(d)) + d for d in datas),
                          stdout=subprocess.PIPE, check=True).stdout
    out, at = [], 0
    for _ in datas:
        good, at = done[at], at + 1
        if not good:
            out.append(None)
            continue
        width, height = struct.unpack_from("<II", done, at)
        out.append(np.frombuffer(done, "u1", width * height * 4, at + 8).reshape(height, width, 4))
        at += 8 + width * height * 4
    return out


def random_samples(width, height, colour, depth):
    shape = (height, width, SAMPLES[colour])
    noise = rng.integers(0, 1 << depth, shape)
    if rng.random() < 0.5:
        return noise
    # Smooth, so that filters have small numbers and ties.
    ramp = np.add.outer(np.arange(height) * 3, np.arange(width))[..., None] + np.arange(shape[2])
    return (ramp * (1 << depth) // 97 + noise // 16) % (1 << depth)


def transparency(samples, colour, depth):
    """(palette, alphas, key, chunks)"""
    if colour == PALETTE:
        palette = rng.integers(0, 256, (1 << depth, 3)).astype("u1")
        alphas = rng.integers(0, 256, rng.integers(1, len(palette) + 1)).astype("u1")
        return palette, alphas, None, [chunk(b"PLTE", palette.tobytes()), chunk(b"tRNS", alphas.tobytes())]
    if colour in (GREY, RGB):
        key = samples[0, 0]
        # Bits beyond the depth have no meaning.
        stored = [int(k) | (0xff00 if depth <= 8 else 0) for k in key]
        return None, (), key, [chunk(b"tRNS", struct.pack(f">{len(stored)}H", *stored))]
    return None, (), None, []


def corpus():
    """(what, file, samples, colour, depth, pixels)"""
    for colour, depth in KINDS:
        for width, height in ((1, 1), (2, 3), (5, 8), (9, 7), (17, 13), (33, 11)):
            for interlaced in (0, 1):
                for kind in range(6) if (width, height) == (17, 13) else (ROTATING,):
                    for clear in (False, True):
                        samples = random_samples(width, height, colour, depth)
                        palette, alphas, key, before = transparency(samples, colour, depth)
                        if not clear:
                            alphas, key, before = (), None, before[:1] if colour == PALETTE else []
                        data = make(samples, colour, depth, interlaced, kind, before, int(rng.integers(1, 4)))
                        yield (f"{colour} {depth} {width}x{height} interlaced {interlaced} filter {kind} {clear}", data,
                               samples, colour, depth, rgba(samples, colour, depth, palette, alphas, key))


def luma(pixels):
    r, g, b = (pixels[..., c].astype("u4") for c in range(3))
    return ((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16).astype("u1")


def equal(got, want):
    return not isinstance(got, Refused) and got.dtype == want.dtype and got.shape == want.shape and \
        np.array_equal(got, want)


def pillow_agrees(data, colour, depth, pixels):
    """In Pillow, grey of 16 bits is another mode with its own conversions; a transparent colour is
    compared with all 16 bits."""
    if colour in (GREY, GREY_ALPHA) and depth == 16 or colour in (GREY, RGB) and b"tRNS" in data:
        return True
    return np.array_equal(np.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGBA")), pixels)


def every_kind():
    cases = list(corpus())
    datas = [c[1] for c in cases]
    ours = {n: decode_all(datas, n) for n in (1, 3, 4)}
    for i, ((what, data, samples, colour, depth, pixels), judge) in enumerate(zip(cases, libpng_all(datas))):
        if judge is None or not np.array_equal(judge, pixels):
            return f"{what}: libpng sees something else than the test"
        if not pillow_agrees(data, colour, depth, pixels):
            return f"{what}: Pillow sees something else than the test"
        if not equal(ours[4][i], pixels) or not equal(ours[3][i], np.ascontiguousarray(pixels[..., :3])):
            return f"{what}: {ours[4][i]} for {pixels}"
        if not equal(ours[1][i], luma(pixels)[..., None]):
            return f"{what}: grey"
    return None


def as_they_are():
    """Without requested channels: 16 bits stay, palettes become colours."""
    for what, data, samples, colour, depth, pixels in corpus():
        if colour == PALETTE:
            want = pixels if "True" in what else np.ascontiguousarray(pixels[..., :3])
        elif depth == 16:
            want = samples.astype("<u2")
        else:
            want = (samples * (255 // ((1 << depth) - 1))).astype("u1")
        if want.shape[2] == 1:
            want = want[..., 0]
        got = decode("png", data)
        if not equal(got, want):
            return f"{what}: {got}"
    return None


def probed():
    for what, data, samples, colour, depth, pixels in corpus():
        has_alpha = colour in (GREY_ALPHA, RGBA) or "True" in what
        want = (2, samples.shape[1], samples.shape[0], 4 if has_alpha else 1 if colour == GREY else 3)
        if probe_all([data])[0] != want:
            return f"{what}: {probe_all([data])[0]}, wanted {want}"
        if not decode_all([data], 0)[0].shape == (want[2], want[1], want[3]):
            return f"{what}: other channels than the header's"
        if samples.shape[1] > 9:
            break
    return None


# --- Accepted files --------------------------------------------------------------------------


def tolerated():
    """Files that libpng accepts, too: the pixels are the same."""
    samples = random_samples(12, 9, RGB, 8)
    indices = rng.integers(0, 4, (9, 12, 1))
    plain = rgba(samples, RGB, 8)
    raw = raw_of(samples, 8, 0, ROTATING)
    colours = rng.integers(0, 256, (3, 3)).astype("u1")
    more = rng.integers(0, 256, (200, 3)).astype("u1")
    trns = chunk(b"tRNS", b"\0\0\0\0\0\0")
    cases = [("an unknown ancillary chunk", make(samples, RGB, 8, before=[chunk(b"abCd", b"x" * 999)]), plain),
             ("chunks after the pixels", make(samples, RGB, 8, after=[chunk(b"tEXt", b"a\0b"), chunk(b"eXIf", b"MM")]), plain),
             ("bytes after the end", make(samples, RGB, 8) + b"more", plain),
             ("more pixels than the header says", make(samples, RGB, 8, raw=raw + bytes(5000)), plain),
             ("a palette that is a proposal", make(samples, RGB, 8, before=[chunk(b"PLTE", b"abc")]), plain),
             ("empty IDATs", make(samples, RGB, 8, before=[chunk(b"IDAT")], after=[chunk(b"IDAT")]), plain),
             ("many IDATs", make(samples, RGB, 8, pieces=1000), plain),
             ("an index past the palette", make(indices, PALETTE, 8, before=[chunk(b"PLTE", colours.tobytes())]),
              rgba(indices, PALETTE, 8, colours)),
             ("more colours than indices", make(indices, PALETTE, 2, before=[chunk(b"PLTE", more.tobytes())]),
              rgba(indices, PALETTE, 2, more)),
             ("tRNS with alpha", make(random_samples(3, 3, RGBA, 8) * 0, RGBA, 8, before=[trns]), np.zeros((3, 3, 4), "u1"))]
    datas = [c[1] for c in cases]
    for (what, data, want), ours, judge in zip(cases, decode_all(datas, 4), libpng_all(datas)):
        if judge is None or not np.array_equal(judge, want):
            return f"{what}: libpng {'refuses it' if judge is None else 'sees something else'}"
        if not equal(ours, want):
            return f"{what}: {ours}"
    return None


# --- Refused files ---------------------------------------------------------------------------


def bad_files():
    """(what, file, statuses)"""
    samples = random_samples(12, 9, RGB, 8)
    raw = raw_of(samples, 8, 0, ROTATING)
    good = make(samples, RGB, 8)
    body = good[8 + 25:]
    palette = rng.integers(0, 4, (5, 5, 1))
    plte = chunk(b"PLTE", b"abcdefghijkl")
    for at, name in ((8 + 8 + 13, "IHDR"), (len(good) - 13, "IDAT"), (len(good) - 1, "IEND")):
        flipped = bytearray(good)
        flipped[at] ^= 1
        yield f"checksum of {name}", bytes(flipped), ["format"]
    for filter_byte in (5, 255):
        yield f"filter {filter_byte}", make(samples, RGB, 8, raw=bytes([filter_byte]) + raw[1:]), ["format"]
    yield "a row too few", make(samples, RGB, 8, raw=raw[:-37]), ["truncated"]
    yield "a byte too few", make(samples, RGB, 8, raw=raw[:-1]), ["truncated"]
    yield "no pixels", make(samples, RGB, 8, raw=b""), ["truncated"]
    for width, height in ((0, 5), (5, 0), (0, 0), (0x80000000, 1), (1, 0xffffffff)):
        yield f"{width} x {height}", SIGNATURE + header(width, height, RGB, 8) + body, ["format"]
    yield "2^31 - 1 squared", SIGNATURE + header(0x7fffffff, 0x7fffffff, RGBA, 16) + body, ["limit"]
    yield "a bomb's header", SIGNATURE + header(16000, 16000, RGB, 8) + body, ["truncated"]
    for colour, depth in ((RGB, 4), (PALETTE, 16), (RGBA, 2), (GREY_ALPHA, 4), (1, 8), (5, 8), (7, 8), (GREY, 3),
                          (GREY, 0), (GREY, 32), (255, 8)):
        yield f"colour {colour}, depth {depth}", SIGNATURE + header(12, 9, colour, depth) + body, ["format"]
    for rest in ((1, 0), (0, 1)):
        yield f"methods {rest}", SIGNATURE + header(12, 9, RGB, 8, 0, rest) + body, ["format"]
    yield "interlace 2", SIGNATURE + header(12, 9, RGB, 8, 2) + body, ["format"]
    yield "no IHDR", SIGNATURE + body, ["format"]
    yield "two IHDRs", SIGNATURE + header(12, 9, RGB, 8) * 2 + body, ["format"]
    yield "an unknown critical chunk", make(samples, RGB, 8, before=[chunk(b"ABCD", b"x")]), ["format"]
    yield "one after the pixels", make(samples, RGB, 8, after=[chunk(b"ABCD", b"x")]), ["format"]
    yield "a chunk without a name", make(samples, RGB, 8, before=[chunk(b"\0\0\0\0", b"x")]), ["format"]
    yield "IDATs apart", make(samples, RGB, 8, after=[chunk(b"tEXt", b"a\0"), chunk(b"IDAT", b"x")]), ["format"]
    yield "no palette", make(palette, PALETTE, 8), ["format"]
    yield "a palette of 4 bytes", make(palette, PALETTE, 8, before=[chunk(b"PLTE", b"abcd")]), ["format"]
    yield "an empty palette", make(palette, PALETTE, 8, before=[chunk(b"PLTE")]), ["format"]
    yield "257 colours", make(palette, PALETTE, 8, before=[chunk(b"PLTE", bytes(771))]), ["format"]
    yield "two palettes", make(palette, PALETTE, 8, before=[plte, plte]), ["format"]
    yield "tRNS before the palette", make(palette, PALETTE, 8, before=[chunk(b"tRNS", b"a"), plte]), ["format"]
    yield "257 alphas", make(palette, PALETTE, 8, before=[plte, chunk(b"tRNS", bytes(257))]), ["format"]
    yield "tRNS of 5 bytes", make(samples, RGB, 8, before=[chunk(b"tRNS", bytes(5))]), ["format"]
    yield "two tRNS", make(samples, RGB, 8, before=[chunk(b"tRNS", bytes(6))] * 2), ["format"]
    yield "a checksum of tRNS", make(samples, RGB, 8, before=[chunk(b"tRNS", bytes(6), 1)]), ["format"]
    yield "a checksum of tEXt", make(samples, RGB, 8, before=[chunk(b"tEXt", b"a\0b", 1)]), ["format"]
    yield "one after the pixels", make(samples, RGB, 8, after=[chunk(b"tEXt", b"a\0b", 1)]), ["format"]
    yield "no zlib", SIGNATURE + header(12, 9, RGB, 8) + chunk(b"IDAT", bytes(100)) + chunk(b"IEND"), ["format"]
    packed = zlib.compress(raw)
    wrong_sum = packed[:-1] + bytes([packed[-1] ^ 1])
    yield "the stream's own sum", SIGNATURE + header(12, 9, RGB, 8) + chunk(b"IDAT", wrong_sum) + chunk(b"IEND"), ["format"]
    yield "a length past the end", good[:33] + b"\x7f\xff\xff\xff" + good[37:], ["truncated"]
    yield "a length past 2^31", good[:33] + b"\xff\xff\xff\xff" + good[37:], ["truncated"]
    for cut in range(len(good)):
        yield f"{cut} bytes of {len(good)}", good[:cut], ["truncated", "format"]


def refused():
    cases = list(bad_files())
    for channels in (3, 4):
        for (what, data, statuses), got in zip(cases, decode_all([c[1] for c in cases], channels)):
            if not isinstance(got, Refused) or got.status not in statuses:
                return f"{what}: {got if isinstance(got, Refused) else 'taken'}, wanted {statuses}"
    for what, data, statuses in cases:
        got = decode("png", data)
        if not isinstance(got, Refused) or got.status not in statuses:
            return f"as a field: {what}: {got if isinstance(got, Refused) else 'taken'}, wanted {statuses}"
    return None


def flipped_bits():
    """One bit anywhere: refused, or the pixels are the same."""
    kinds = ((RGB, 8, 0), (PALETTE, 4, 1), (RGBA, 16, 0))
    for colour, depth, interlaced in kinds:
        samples = random_samples(7, 6, colour, depth)
        palette, alphas, key, before = transparency(samples, colour, depth)
        data = make(samples, colour, depth, interlaced, before=[*before, chunk(b"tEXt", b"about\0it")])
        want = rgba(samples, colour, depth, palette, alphas, key)
        damaged = []
        for at in range(8, len(data)):
            broken = bytearray(data)
            broken[at] ^= 1 << int(rng.integers(0, 8))
            damaged.append(bytes(broken))
        for at, got in enumerate(decode_all(damaged, 4), 8):
            if not isinstance(got, Refused) and not equal(got, want):
                return f"{colour} {depth}: byte {at} changed, other pixels"
    return None


def main():
    tests = [("every colour type, depth, interlace and filter is libpng's and Pillow's to the bit", every_kind),
             ("as they are: 16 bits stay", as_they_are),
             ("the header says what decoding gives", probed),
             ("what libpng tolerates is tolerated", tolerated),
             ("every kind of damage is refused", refused),
             ("a flipped bit is refused or changes no pixel", flipped_bits)]
    for title, test in tests:
        problem = test()
        check(title, problem is None, problem)
    return check.end()


sys.exit(main())
