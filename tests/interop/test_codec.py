#!/usr/bin/env python3
"""Field codecs compared with the programs whose files they make: WebDataset's encoders, NumPy,
    Pillow, gzip, and files of glzn. The bytes are equal where the other side is exact; otherwise
    the pixels are equal when Pillow decodes them. tarn decodes what these programs write."""
import gzip
import hashlib
import io
import json
import math
import random
import sys

import numpy as np
import PIL.Image
import webdataset.tenbin as tenbin
from webdataset.writer import default_handlers, encode_based_on_extension1

from checks import check
from codec_tool import ROOT, Json, Refused, decode, decode_all, encode, encode_all

rng = np.random.default_rng(7)


def webdataset(field, value):
    return bytes(encode_based_on_extension1(value, field, default_handlers))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def differs(cases, got, want):
    for case, g, w in zip(cases, got, want):
        if isinstance(g, Refused) or g != w:
            return f"{str(case)[:200]}: {str(g)[:300]}, wanted {str(w)[:300]}"
    return None


def refused(cases, status, part="", **options):
    for case, got in zip(cases, encode_all(cases, **options)):
        if not isinstance(got, Refused) or got.status != status or part not in str(got):
            return f"{str(case)[:200]}: {str(got)[:300]}"
    return None


def not_decoded(cases, statuses, **limits):
    for case, got in zip(cases, decode_all(cases, **limits)):
        if not isinstance(got, Refused) or got.status not in statuses:
            return f"{str(case)[:200]}: {str(got)[:300]}"
    return None


# --- Text, numbers, JSON ---------------------------------------------------------------


def text_and_numbers():
    cases = [(f, v) for f in ("txt", "text", "transcript", "html", "htm", "a.b.TXT", "jpg", "none")
             for v in ("", "plain", "é😀\0\n", b"\xff\0raw", b"")]
    for field in ("cls", "cls2", "class", "count", "index", "inx", "id", "x.CLS"):
        cases += [(field, v) for v in (0, 7, -3, 10 ** 12, 2 ** 63 - 1, -2 ** 63, 0.5, -0.0, 1e22,
                                       math.nan, -math.inf, "text", b"\1\2")]
    problem = differs(cases, encode_all(cases), [webdataset(f, v) for f, v in cases])
    if problem:
        return problem
    numbers = [(f"cls", t.encode()) for t in ("7", " 12\n", "-3", "+4", "1_000", "007", "-0")]
    problem = differs(numbers, decode_all(numbers), [int(d) for _, d in numbers])
    if problem:
        return problem
    bad = ["", " ", "-", "1.5", "1e3", "0x10", "1__0", "_1", "1_", "7 8", "9223372036854775808",
           "seven", "٣"]
    return (not_decoded([("cls", t.encode()) for t in bad], ["format"]) or
            not_decoded([("txt", b"\xff"), ("html", b"a\xed\xa0\x80")], ["format"]) or
            differs([1, 2], decode_all([("txt", "é\0".encode()), ("bin", b"\xff")]), ["é\0", b"\xff"]))


def json_fields():
    values = [None, 0, 1.0, "é\u2028", [1, [2, {}]], {"b": 1, "a": [math.nan, -math.inf, 1e-5]}]
    cases = [(f, Json(json.dumps(v, ensure_ascii=False, indent=3))) for v in values
             for f in ("json", "jsn", "x.JSON")] + [("json", 5), ("json", 1e16), ("json", math.inf)]
    want = [json.dumps(v).encode() for v in values for _ in range(3)] + [b"5", b"1e+16", b"Infinity"]
    problem = differs(cases, encode_all(cases), want)
    if problem:
        return problem
    if encode("json", "as it is") != webdataset("json", "as it is"):
        return "text under json is not written as it is"
    got = decode_all([("json", b' {"a":1,"a":2}'), ("jsn", b"null")])
    return (differs([1, 2], got, [Json(' {"a":1,"a":2}'), Json("null")]) or
            refused([("json", Json("[1,")), ("json", Json('{"a":1,"a":2}'))], "format") or
            not_decoded([("json", b"[1,"), ("json", b"\xff"), ("json", b"")], ["format"]))


# --- NumPy -------------------------------------------------------------------------------

TYPES = ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8",
         "<c16", ">i2", ">u4", ">f8", ">c16", "|S5", "|S1", "<U3", ">U2"]
SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 5), (0,), (3, 0, 2), (1, 4, 1), (2,) * 12, (10000,)]


def random_array(kind, shape):
    dtype = np.dtype(kind)
    if dtype.kind in "SU":
        words = np.array(["", "a", "bcd", "xyzzy"])
        return rng.choice(words, size=shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return np.asarray(rng.integers(-100, 100, shape) * 1.5).astype(dtype)


def arrays():
    for kind in TYPES:
        for shape in SHAPES:
            a = np.asarray(random_array(kind, shape))
            yield a
            if a.ndim >= 2:
                yield np.asfortranarray(a)
                yield a[::-1]
                yield a[..., ::2]
                yield a.T
    yield np.broadcast_to(np.int32(5), (3, 4))
    yield np.zeros((0,), "|S0") if np.__version__ < "1" else np.zeros((2,), "<U0")


def npy():
    cases = [("npy", a) for a in arrays()]
    got = encode_all(cases)
    problem = differs(cases, got, [webdataset("npy", a) for _, a in cases])
    if problem:
        return problem
    for (_, a), back in zip(cases, decode_all([("npy", d) for d in got])):
        if isinstance(back, Refused) or not same(np.ascontiguousarray(a).reshape(a.shape), back):
            return f"{a.dtype} {a.shape}: {back}"
    return None


def npy_headers():
    """Versions and spellings that NumPy reads too, and others that should be refused."""
    data = np.arange(6, dtype="<f4").tobytes()

    def file(text, version=1, payload=data):
        text = text.encode()
        size = len(text).to_bytes(2 if version == 1 else 4, "little")
        return b"\x93NUMPY" + bytes([version, 0]) + size + text + payload
    good = [file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"),
            file("{'shape': (2,3), 'descr': '<f4','fortran_order': False}"),
            file('{"descr": "<f4", "fortran_order": True, "shape": (2, 3,)}   \n', 2),
            file("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", 3),
            file("{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3, 1)}")]
    for raw, got in zip(good, decode_all([("npy", g) for g in good])):
        if isinstance(got, Refused) or not same(np.load(io.BytesIO(raw)).copy(order="C"), got):
            return f"{raw}: {got}"
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), "
    bad = [b"", b"\x93NUMPY", good[0][:20], good[0][:-1], good[0] + b"x", file(head), file(head + "'x': 1}"),
           file(head + "'descr': '<f4'}"), file("{}"), file("{'descr': '<f4'}"), file(head + "} x"),
           file("__import__('os')"), file(head.replace("(2, 3)", "(6)")), file(head.replace("2,", "-2,")),
           file(head.replace("2, 3", "99999999999999999999,") + "}"),
           file(head.replace("2, 3", "4294967296, 4294967296, 4294967296") + "}"),
           file(head.replace("2, 3", "1, " * 70) + "}"), file(head + "}", 4), file(head + "}", 0)]
    objects = [file(head.replace("<f4", "|O") + "}"), file(head.replace("'<f4'", "[('a', '<f4')]") + "}"),
               file(head.replace("<f4", "<f16") + "}")]
    huge = b"\x93NUMPY\2\0" + (1 << 20).to_bytes(4, "little") + b" " * (1 << 20)
    return (not_decoded([("npy", b) for b in bad], ["format", "truncated", "limit", "unsupported"]) or
            not_decoded([("npy", b) for b in objects], ["unsupported", "format"]) or
            not_decoded([("npy", huge)], ["limit"]))


def saved(function, *args, **named):
    stream = io.BytesIO()
    function(stream, *args, **named)
    return stream.getvalue()


def npz():
    sets = [{"a": np.arange(5), "é": np.zeros((2, 3), "<f4"), "long" * 30: np.array("x")},
            {"one": np.asfortranarray(np.ones((30, 40)))}, {"empty": np.zeros(0)}, {},
            {f"n{i}": np.full(i, i) for i in range(50)}]
    stored = encode_all([("npz", s) for s in sets], npz_stored=1)
    problem = differs(sets, stored, [saved(np.savez, **s) for s in sets])
    if problem:
        return "stored: " + problem
    if encode("npz", np.arange(3), npz_stored=1) != saved(np.savez, np.arange(3)):
        return "one array has no name"
    squeezed = encode_all([("npz", s) for s in sets])
    for want, raw in zip(sets, squeezed):
        back = np.load(io.BytesIO(raw))
        if sorted(back.files) != sorted(want) or not all(same(back[n], want[n]) for n in want):
            return f"NumPy does not read {list(want)}"
    theirs = [saved(np.savez_compressed, **s) for s in sets] + [webdataset("npz", s) for s in sets]
    files = stored + squeezed + theirs
    for i, got in enumerate(decode_all([("npz", f) for f in files])):
        want = sets[i % len(sets)]
        if isinstance(got, Refused):
            return str(got)
        if want and (list(got) != list(want) or not all(same(np.ascontiguousarray(want[n]), got[n])
                                                        or same(want[n], got[n]) for n in want)):
            return f"{list(want)} comes back as {got}"
    return None


def npz_damage():
    rand = random.Random(1)
    raw = [encode("npz", {"a": np.arange(50), "b": np.ones(3)}, npz_stored=s) for s in (0, 1)]
    cut = [("npz", r[:n]) for r in raw for n in range(0, len(r), 7)]
    problem = not_decoded(cut, ["format", "truncated"])
    if problem:
        return problem
    flipped = []
    for r in raw:
        for _ in range(600):
            at = rand.randrange(len(r))
            flipped.append(("npz", r[:at] + bytes([r[at] ^ 1 << rand.randrange(8)]) + r[at + 1:]))
    want = {"a": np.arange(50), "b": np.ones(3)}
    for case, got in zip(flipped, decode_all(flipped)):
        if not isinstance(got, Refused) and not all(same(a, b) for a, b in zip(got.values(), want.values())):
            return "a flipped bit gives other values"
    bomb = encode("npz", {"zeros": np.zeros(10 ** 7, "u1")})
    return (not_decoded([("npz", bomb)], ["limit"], max_size=10 ** 6) or
            refused([("npz", "t") for _ in ()], "unsupported") or
            refused([("npz", [np.ones(1), np.ones(1)]), ("npz", 5)], "unsupported"))


# --- Images --------------------------------------------------------------------------------


def pictures():
    y, x = np.mgrid[0:37, 0:53]
    smooth = np.stack([x * 4 % 256, y * 6 % 256, (x + y) * 2 % 256], 2).astype("u1")
    yield smooth
    yield rng.integers(0, 256, (16, 16, 3), dtype="u1")
    yield smooth[:, :, 0].copy()
    yield smooth[::-1, ::2]
    yield np.asfortranarray(smooth)
    yield smooth[:1, :1]


def pixels(data):
    return np.asarray(PIL.Image.open(io.BytesIO(data)))


def lossless_images():
    images = list(pictures()) + [rng.integers(0, 65536, (9, 7), dtype="u2"), rng.random((8, 9, 3)),
                                 rng.random((8, 9)).astype("f4"), np.array([[0, 1, -0.0005, 1.0005]])]
    alpha = rng.integers(0, 256, (11, 13, 4), dtype="u1")
    for a in images:
        ours, theirs = encode("png", a), webdataset("png", a)
        if isinstance(ours, Refused):
            return f"{a.dtype} {a.shape}: {ours}"
        if not same(pixels(ours), pixels(theirs)):
            return f"png {a.dtype} {a.shape}: other pixels than WebDataset's"
        if not same(pixels(theirs), decode("png", theirs)) or not same(pixels(ours), decode("img", ours)):
            return f"png {a.dtype} {a.shape}: decoded to other pixels than Pillow's"
    for a in images[:6] + images[7:]:
        ours, theirs = encode("ppm", a), webdataset("ppm", a)
        if ours != theirs:
            return f"ppm {a.dtype} {a.shape} differs from WebDataset's"
        if not same(pixels(theirs), decode("ppm", theirs)):
            return "ppm: decoded to other pixels"
    for kind in ("png", "webp"):
        ours = encode(kind, alpha, webp_lossless=1)
        if not same(pixels(ours), alpha) or not same(decode(kind, ours), alpha):
            return f"{kind} with alpha: other pixels"
    big = np.asarray(rng.integers(0, 65536, (5, 6), dtype="u2")).astype(">u2")
    if not same(decode("png", encode("png", big)), big.astype("<u2")) or \
            not same(decode("ppm", encode("pgm", big)), big.astype("<u2")):
        return "big-endian 16 bit: other pixels"
    for a in pictures():
        rgb = a if a.ndim == 3 else np.stack([a] * 3, 2)
        ours = encode("webp", a, webp_lossless=1)
        if not same(pixels(ours), np.ascontiguousarray(rgb)) or not same(decode("webp", ours), pixels(ours)):
            return "lossless webp: other pixels"
    return None


def png_kinds():
    """Every kind of PNG that Pillow makes, unchanged and as 1, 3 and 4 channels."""
    rgb = PIL.Image.fromarray(next(pictures()))
    kinds = {m: rgb.convert(m) for m in ("L", "LA", "RGB", "RGBA", "P", "1")}
    for mode, image in kinds.items():
        raw = saved(lambda f: image.save(f, "PNG"))
        want = {1: "L", 3: "RGB", 4: "RGBA"}
        for channels, to in want.items():
            got = decode("png", raw, channels=channels)
            if isinstance(got, Refused) or not same(got, np.asarray(image.convert(to))):
                return f"{mode} as {to}: {got}"
        as_it_is = decode("png", raw)
        plain = np.asarray(image.convert({"P": "RGB", "1": "L"}.get(mode, mode)))
        if not same(as_it_is, plain):
            return f"{mode} as it is: {as_it_is.shape}"
    for image in (rgb, rgb.convert("L")):
        raw = saved(lambda f: image.save(f, "PPM"))
        for channels, to in want.items():
            if not same(decode("ppm", raw, channels=channels), np.asarray(image.convert(to))):
                return f"PPM as {to}"
    deep = rng.integers(0, 65536, (4, 5, 3), dtype="u2")
    if not same(decode("ppm", encode("ppm", deep), channels=3), (deep >> 8).astype("u1")):
        return "deep PPM as RGB"
    trns = rgb.quantize(16)
    raw = saved(lambda f: trns.save(f, "PNG", transparency=3))
    got = decode("png", raw)
    return None if got.shape[2] == 4 and same(got, np.asarray(PIL.Image.open(io.BytesIO(raw)).convert("RGBA"))) \
        else "palette with transparency"


def jpeg():
    def apart(a, b):
        return int(np.abs(a.astype(int) - b.astype(int)).max())
    for a in pictures():
        ours, theirs = encode("jpg", a), webdataset("jpg", a)
        if isinstance(ours, Refused):
            return str(ours)
        if apart(pixels(ours), pixels(theirs)) > 1:
            return f"{a.shape}: {apart(pixels(ours), pixels(theirs))} away from WebDataset's pixels"
        back = decode("jpeg", theirs)
        if back.shape != pixels(theirs).shape or apart(back, pixels(theirs)) > 2:
            return f"{a.shape}: decoded to other pixels than Pillow's"
        grey = decode("jpg", ours, channels=1)
        if grey.shape != a.shape[:2] or decode("jpg", ours, channels=4).shape != a.shape[:2] + (4,):
            return "channels"
    a = next(pictures())
    small, large = encode("img", a, jpeg_quality=20), encode("image", a)
    sampled = [PIL.Image.open(io.BytesIO(encode("jpg", a, subsampling=s))).layer[0][1:3] for s in range(3)]
    if sampled != [(2, 2), (2, 1), (1, 1)]:
        return f"subsampling {sampled}"
    mean = float(np.abs(pixels(encode("jpg", a, subsampling=2)).astype(int) - a).mean())
    if mean > 1 or len(small) * 2 > len(large):
        return f"quality: mean difference {mean}, {len(small)} and {len(large)} bytes"
    lossy = encode("webp", a)
    return None if np.abs(pixels(lossy).astype(int) - a).mean() < 12 and \
        len(encode("webp", a, webp_quality=10)) < len(lossy) else "lossy webp"


def image_refusals():
    rgb = next(pictures())
    bad = [("jpg", rgb.astype("i4")), ("jpg", np.zeros((3, 3, 4), "u1")), ("jpg", rgb.astype("u2")),
           ("jpg", np.zeros((0, 3), "u1")), ("jpg", np.zeros(3, "u1")), ("jpg", np.zeros((2, 2, 0), "u1")),
           ("png", np.zeros((3, 3, 5), "u1")), ("png", np.array([[2.0]])), ("png", np.array([[np.nan]])),
           ("png", np.array([[-0.002]])), ("png", 5), ("png", Json("1")), ("webp", np.zeros((1, 20000), "u1")),
           ("jpg", np.zeros((1, 70000), "u1")), ("ppm", np.zeros((2, 2, 4), "u1")), ("png", rgb.astype("f2"))]
    wrong = [("jpg", rgb[:2, :2])]
    raw = {k: encode(k, rgb) for k in ("jpg", "png", "webp", "ppm")}
    cut = [(k, r[:len(r) * n // 10]) for k, r in raw.items() for n in range(10)]
    return (refused(bad, "unsupported") or refused(wrong, "usage", jpeg_quality=101) or
            refused(wrong, "usage", jpeg_quality=0) or
            refused([("webp", rgb)], "usage", webp_quality=101) or
            refused([("png", rgb)], "usage", png_level=10) or
            not_decoded(cut, ["format", "truncated"]) or
            not_decoded(list(raw.items()), ["limit"], max_pixels=1000) or
            not_decoded(list(raw.items()), ["limit"], max_size=1000) or
            not_decoded([("png", b"GIF89a"), ("jpg", b"")], ["format"]))


# --- glzn's and WebDataset's own types --------------------------------------------------------


def reference_files():
    folder = ROOT / "tests/data/08_encoders"
    manifest = json.loads((folder / "manifest.json").read_text())
    tried = 0
    for item in manifest["items"]:
        ext, name, thing = item["ext"], item["file"], item["object"]
        raw = (folder / name).read_bytes()
        if isinstance(thing, dict) and "dtype" in thing and thing.get("values") is None:
            value = decode(ext, raw)
            if hashlib.sha256(value.tobytes()).hexdigest() != thing["data_sha256"]:
                return f"{name}: decoded to other values"
        elif isinstance(thing, dict) and "dtype" in thing:
            value = np.array(thing["values"]).astype(thing["dtype"]).reshape(thing["shape"])
        elif ext == "cls":
            value = int(raw)
        elif ext == "txt":
            value = raw.decode()
        elif ext == "json":
            value = Json(raw.decode())
        else:
            continue
        if ext == "npy" and b"'fortran_order': True" in raw[:100]:
            value = np.asfortranarray(value)
        tried += 1
        ours = encode(ext, value)
        if isinstance(ours, Refused):
            return f"{name}: {ours}"
        exact = ext in ("rle", "npy", "cls", "txt", "json")
        if exact and ours != raw:
            return f"{name}: other bytes than glzn's"
        if not exact and not same(pixels(ours), pixels(raw)):
            return f"{name}: other pixels than glzn's"
        back = decode(ext, raw)
        good = same(back, np.asarray(value, order="C")) if isinstance(value, np.ndarray) else back == value
        if not good:
            return f"{name}: comes back as {back}"
    return None if tried >= 30 else f"only {tried} files were tried"


def rle_model(a):
    """The format, implemented again from its specification."""
    flat = np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).reshape(-1)
    table, index = np.unique(flat, return_inverse=True)
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))
    lengths = np.diff(np.append(starts, flat.size))
    unit = np.min_scalar_type(max(len(table), int(lengths.max())))
    code = (a.dtype.itemsize.bit_length() - 1) * 2 + (a.dtype.kind == "i")
    shape = np.array(a.shape, "<u8").tobytes()
    return (bytes([code << 4 | unit.itemsize.bit_length() - 1]) + len(shape).to_bytes(8, "big") +
            table.nbytes.to_bytes(8, "big") + shape + table.tobytes() +
            index.reshape(-1)[starts].astype(unit).tobytes() + lengths.astype(unit).tobytes())


def rle():
    cases = []
    for kind in ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", ">i2", ">u8"):
        info = np.iinfo(kind)
        ends = [info.min, info.min + 1, info.max, 0, 1]
        for shape in ((1,), (), (40,), (6, 7), (2, 3, 4), (1000,), (70000,)):
            a = rng.choice(np.array(ends, dtype=kind), size=shape)
            cases.append(("rle", np.repeat(a, 2, 0) if a.ndim else np.asarray(a)))
            cases.append(("rle", np.sort(cases[-1][1].reshape(-1))))
    cases += [("rle", np.zeros(n, "u1")) for n in (255, 256, 65535, 65536)]
    cases += [("rle", np.arange(n, dtype="u4")) for n in (255, 256, 65535, 65536)]
    got = encode_all(cases)
    problem = differs([(c[1].dtype, c[1].shape) for c in cases], got, [rle_model(a) for _, a in cases])
    if problem:
        return problem
    for (_, a), back in zip(cases, decode_all([("rle", g) for g in got])):
        if isinstance(back, Refused) or not same(back, a.astype(a.dtype.newbyteorder("<"))):
            return f"{a.dtype} {a.shape}: {back}"
    raw = encode("rle", np.array([[1, 1, 5], [5, 5, -3]], "<i2"))
    bad = [raw[:n] for n in range(len(raw))] + [raw + b"\0", raw + b"\0\0", b"\xf0" + raw[1:], b"\x34" + raw[1:],
                                               raw[:1] + b"\xff" * 8 + raw[9:], raw[:9] + b"\xff" * 8 + raw[17:]]
    huge = raw[:17] + (1 << 62).to_bytes(8, "little") + raw[25:]
    return (not_decoded([("rle", b) for b in bad], ["format", "truncated", "limit"]) or
            not_decoded([("rle", huge)], ["limit"]) or
            refused([("rle", np.zeros(0, "u1")), ("rle", np.zeros(2, "f4")), ("rle", np.zeros(2, "?")),
                     ("rle", 3)], "unsupported"))


def seg():
    cases = [("seg8", rng.integers(0, 256, (7, 9), dtype="u1"), "L"),
             ("seg16", rng.integers(0, 65536, (7, 9), dtype="u2"), "I;16"),
             ("seg24", rng.integers(0, 1 << 24, (7, 9), dtype="u4"), "RGB"),
             ("seg32", rng.integers(0, 1 << 32, (7, 9), dtype="u4"), "RGBA"),
             ("seg32", rng.integers(0, 1 << 32, (5, 3), dtype="u4").astype(">u4").T, "RGBA")]
    for field, labels, mode in cases:
        raw = encode(field, labels)
        image = PIL.Image.open(io.BytesIO(raw))
        p = np.asarray(image).astype(np.uint64)
        want = p if p.ndim == 2 else sum(p[..., i] << 8 * (p.shape[2] - 1 - i) for i in range(p.shape[2]))
        if image.mode != mode or not (want == labels).all():
            return f"{field}: Pillow sees other labels in a {image.mode}"
        if not same(decode(field, raw), np.ascontiguousarray(labels).astype(labels.dtype.newbyteorder("<"))):
            return f"{field} comes back differently"
    bad = [("seg24", np.full((2, 2), 1 << 24, "u4")), ("seg8", np.zeros((2, 2), "u2")), ("seg8", np.zeros(4, "u1")),
           ("seg16", np.zeros((2, 2), "i2")), ("seg32", np.zeros((2, 2, 1), "u4")), ("seg8", "x" and 4)]
    swapped = [("seg8", encode("seg24", np.zeros((2, 2), "u4"))), ("seg32", encode("seg24", np.zeros((2, 2), "u4"))),
               ("seg16", encode("seg8", np.zeros((2, 2), "u1")))]
    return refused(bad, "unsupported") or not_decoded(swapped, ["format"])


def tenbin_fields():
    singles = [random_array(k, s) for k in ("<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u8")
               for s in ((), (1,), (3, 4), (0, 2), (64,), (1,) * 9)]
    cases = [(f, np.asarray(a)) for a in singles for f in ("ten", "tb", "x.TENBIN")]
    got = encode_all(cases)
    problem = differs(cases, got, [webdataset(f.lower(), a) for f, a in cases])
    if problem:
        return problem
    several = [np.asarray(a) for a in singles[:9]]
    if encode("ten", several) != webdataset("ten", several):
        return "a list of arrays differs"
    for a, raw in zip((a for _, a in cases), got):
        back = decode("ten", raw)
        if isinstance(back, Refused) or len(back) != 1 or not same(back[0], a):
            return f"{a.dtype} {a.shape}: {back}"
    back = decode("tb", encode("ten", several))
    if not all(same(a, b) for a, b in zip(several, back)):
        return "a list comes back differently"
    turned = np.arange(6, dtype=">f4").reshape(2, 3).T
    if not same(tenbin.decode_buffer(encode("ten", turned))[0], turned.astype("<f4").copy()):
        return "big-endian, transposed"
    raw = encode("ten", several[2])
    bad = [raw[:n] for n in range(1, len(raw), 9)] + [raw[:80], raw[:16] + b"\xff" + raw[17:], raw + b"x"]
    return (not_decoded([("ten", b) for b in bad], ["format", "unsupported", "limit"]) or
            refused([("ten", np.zeros(2, "<u4")), ("ten", np.zeros(2, "?")), ("ten", np.zeros((1,) * 10)),
                     ("ten", 3)], "unsupported"))


# --- Compression and names -------------------------------------------------------------------


def compression():
    array = np.arange(1000)
    text = "text " * 1000
    for field, value in (("npy.gz", array), ("txt.gz", text), ("x.JSON.GZ", Json('{"a": 1}')), ("bin.gz", b"raw"),
                         ("cls.gz", 5), ("txt.gz", "")):
        plain = encode(field[:-3], value)
        raw = encode(field, value)
        if gzip.decompress(raw) != plain or raw[4:8] != b"\0\0\0\0":
            return f"{field}: {raw[:20]}"
    if not same(decode("npy.gz", webdataset("npy.gz", array)), array):
        return "WebDataset's npy.gz"
    both = gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"two")
    if decode("txt.gz", both) != "onetwo":
        return "members in a row"
    zst = encode("npy.zst", array)
    if not same(decode("npy.ZST", zst), array) or zst[:4] != b"\x28\xb5\x2f\xfd":
        return "zstd"
    if decode("txt.zst", encode("txt.zst", "a") + encode("txt.zst", "b")) != "ab":
        return "frames in a row"
    if encode("gz", b"as it is") != b"as it is" or encode("zst", b"x") != b"x":
        return "a field named gz is compressed"
    bombs = [("bin.gz", encode("bin.gz", bytes(1 << 22))), ("bin.zst", encode("bin.zst", bytes(1 << 22)))]
    for limit in ((1 << 22) - 1, 1000, 0):
        problem = not_decoded(bombs, ["limit"], max_size=limit)
        if problem:
            return f"{limit}: {problem}"
    if any(isinstance(v, Refused) for v in decode_all(bombs, max_size=1 << 22)):
        return "refused at the limit"
    cut = [(f, d[:n]) for f, d in (("bin.gz", gzip.compress(b"x" * 1000)), ("bin.zst", encode("bin.zst", b"x" * 1000)))
           for n in range(len(d))]
    return not_decoded(cut, ["truncated", "format"])


def names():
    python = "pickle pyd pkl pth pt msgpack mp msg cbor mat tiff tif".split()
    problem = refused([(f, 5) for f in python], "unsupported", "only Python") or \
        refused([(f"x.{f.upper()}.gz", np.ones(2)) for f in python], "unsupported", "only Python")
    if problem:
        return problem
    cases = [(f, b"\x80\x04.") for f in python + ["mp4", "", "a.b.c", "x" * 200, "é"]]
    problem = differs(cases, encode_all(cases), [d for _, d in cases]) or \
        differs(cases, decode_all(cases), [d for _, d in cases])
    if problem:
        return problem
    ours = {f: encode(f, {"npz": {"a": np.ones(1)}, "ten": np.ones(1)}.get(f, np.ones((2, 2), "u1"))) for f in
            default_handlers if f not in python}
    unknown = [f for f, got in ours.items() if isinstance(got, Refused) and "no codec" in str(got)]
    return (refused([("mp4", 5), ("", 5), ("x" * 200, 1.5)], "unsupported", "no codec") or
            (f"WebDataset has {unknown}" if unknown != ["pbm"] else None))


def same_twice():
    cases = [("a.json.gz", Json("[1]")), ("npz", {"a": np.ones(9)}), ("jpg", next(pictures())), ("png.zst", next(pictures())),
             ("webp", next(pictures()))]
    return differs(cases, encode_all(cases), encode_all(cases))


def main():
    tests = [("text and numbers are WebDataset's", text_and_numbers),
             ("JSON is Python's", json_fields),
             ("npy is NumPy's byte for byte, both ways", npy),
             ("npy headers: what NumPy reads, and what is refused", npy_headers),
             ("npz is NumPy's, both ways", npz),
             ("damaged npz never gives other values", npz_damage),
             ("png, ppm and lossless webp have Pillow's pixels", lossless_images),
             ("every kind of png is decoded as Pillow does", png_kinds),
             ("jpeg and webp are near, with quality and subsampling as asked", jpeg),
             ("images that cannot be are refused", image_refusals),
             ("glzn's files", reference_files),
             ("rle byte for byte, both ways", rle),
             ("seg8, seg16, seg24, seg32", seg),
             ("tenbin byte for byte, both ways", tenbin_fields),
             ("gzip and zstd, with limits", compression),
             ("names: case, unknown ones, what only Python encodes", names),
             ("the same bytes every time", same_twice)]
    for title, test in tests:
        problem = test()
        check(title, problem is None, problem)
    return check.end()


sys.exit(main())
