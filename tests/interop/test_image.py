#!/usr/bin/env python3
"""Images compared with Pillow: decoding, resizing, and the steps as torchvision describes them.
Images resized from the same pixels must be identical to the bit. So must the pixels of a JPEG,
although Pillow has its own libjpeg-turbo; only a JPEG that was decoded at a smaller size is merely
similar."""
import functools
import io
import math
import sys

import numpy as np
import PIL.Image
import PIL.ImageOps
from PIL.Image import Resampling

from checks import check
from image_tool import (CENTRE, CHW, EXACT, F16, F32, HWC, RANDOM, STRETCH, STEPS, U8, Refused, choose_all, decode_all,
                        probe_all, resize_all, run_all, run_masks)

rng = np.random.default_rng(11)
JPEG_TOLERANCE = 0
# A JPEG decoded at a smaller size, compared with resizing the same crop of the full image: the
# documented difference.
REDUCED_MEAN, REDUCED_MOST = 2.0, 20
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
JPEG, PNG, WEBP, PPM = range(1, 5)


def noise(width, height, channels):
    return rng.integers(0, 256, (height, width, channels)).astype("u1")


def photo(width, height, channels=3):
    """Smooth shapes with edges and a little noise, like photographs."""
    y, x = np.mgrid[0:height, 0:width].astype("f8")
    planes = []
    for c in range(channels):
        plane = 128 + 80 * np.sin(x / (9 + 5 * c) + c) * np.cos(y / (13 - 2 * c))
        plane += 60 * ((x - width / 2) ** 2 + (y - height / 3) ** 2 < (min(width, height) / 4 + 1) ** 2)
        planes.append(plane + rng.normal(0, 4, plane.shape))
    return np.clip(np.stack(planes, -1), 0, 255).astype("u1")


def picture(pixels):
    return PIL.Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def array(image):
    out = np.asarray(image)
    return out[..., None] if out.ndim == 2 else out


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg(width, height, channels=3, **options):
    return saved(picture(photo(width, height, channels)), "JPEG", **{"quality": 90, **options})


def opened(data, mode="RGB"):
    return PIL.Image.open(io.BytesIO(data)).convert(mode)


def same(got, want, what, most=0):
    if isinstance(got, Refused):
        return f"{what}: {got}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{what}: {got.shape} {got.dtype}, wanted {want.shape} {want.dtype}"
    apart = np.abs(got.astype("f8") - want.astype("f8"))
    return f"{what}: differs by up to {apart.max()}, {np.mean(apart > most):.2%} of it" if apart.max() > most else None


def first(problems):
    return next((p for p in problems if p), None)


# --- Decoding --------------------------------------------------------------------------------


def four_inks():
    """CMYK, and YCCK made of it: Adobe's marker says whether the inks are transformed."""
    for options in ({"quality": 95}, {"subsampling": 2}, {"progressive": True}, {"restart_marker_blocks": 2}):
        data = saved(PIL.Image.frombytes("CMYK", (61, 43), noise(61, 43, 4).tobytes()), "JPEG", **options)
        at = data.index(b"Adobe") + 11
        yield f"CMYK {options}", data
        yield f"YCCK {options}", data[:at] + b"\2" + data[at + 1:]
        yield f"without Adobe's marker {options}", data[:at - 15] + data[at + 1:]


def files():
    """(name, bytes, format, channels, exact)"""
    for channels in (1, 3):
        pixels = picture(photo(61, 43, channels))
        for options in ({}, {"subsampling": 0}, {"progressive": True}, {"quality": 30}, {"restart_marker_blocks": 2}):
            yield f"jpeg {channels} {options}", saved(pixels, "JPEG", **options), JPEG, channels, False
        yield f"ppm {channels}", saved(pixels, "PPM"), PPM, channels, True
    for kind, data in four_inks():
        yield f"jpeg of four inks {kind}", data, JPEG, 3, True
    for channels in (1, 3, 4):
        pixels = picture(noise(33, 27, channels))
        yield f"png {channels}", saved(pixels, "PNG"), PNG, channels, True
        yield f"webp {channels}", saved(pixels.convert("RGBA" if channels == 4 else "RGB"), "WEBP",
                                        lossless=True, exact=True), WEBP, max(3, channels), True
    yield "png palette", saved(picture(photo(20, 20)).convert("P"), "PNG"), PNG, 3, True
    yield "png palette with alpha", saved(picture(photo(20, 20)).convert("P"), "PNG", transparency=3), PNG, 4, True
    yield "png bits", saved(picture(photo(19, 5, 1)).convert("1"), "PNG"), PNG, 1, True
    yield "png grey and alpha", saved(picture(noise(9, 9, 4)).convert("LA"), "PNG"), PNG, 4, True


def decoding():
    all_files = list(files())
    for name, data, kind, channels, exact in all_files:
        info = probe_all([data])[0]
        want = PIL.Image.open(io.BytesIO(data))
        if info != (kind, *want.size, channels):
            return f"{name}: {info}"
    datas = [f[1] for f in all_files]
    for wanted in (0, 1, 3, 4):
        for (name, data, kind, channels, exact), got in zip(all_files, decode_all(datas, wanted)):
            mode = MODES[wanted or channels]
            if kind == JPEG and mode == "L" and channels == 3 and "inks" not in name:
                want = PIL.Image.open(io.BytesIO(data))
                want.draft("L", want.size)
            else:
                want = opened(data, mode)
            problem = same(got, array(want), f"{name} as {wanted}", 0 if exact else JPEG_TOLERANCE)
            if problem:
                return problem
    return None


def reduced_jpegs():
    """1/2, 1/4, 1/8: the smallest that is large enough, in Pillow's pixels."""
    for width, height in ((640, 480), (333, 257), (17, 9), (8, 8), (1, 1), (1, 90)):
        data = jpeg(width, height)
        for least in ((1, 1), (40, 30), (41, 33), (80, 60), (81, 60), (320, 240), (640, 480), (641, 1), (0, 100)):
            got = decode_all([data], 3, least)[0]
            by = 1
            while by < 8 and -(-width // (2 * by)) >= least[0] and -(-height // (2 * by)) >= least[1]:
                by *= 2
            size = (-(-width // by), -(-height // by))
            if isinstance(got, Refused) or got.shape != (size[1], size[0], 3):
                return f"{width} x {height}, at least {least}: {got if isinstance(got, Refused) else got.shape}"
            want = PIL.Image.open(io.BytesIO(data))
            want.draft("RGB", (max(1, width // by), max(1, height // by)))
            if want.size == size:
                problem = same(got, array(want), f"{width} x {height} by {by}", JPEG_TOLERANCE)
                if problem:
                    return problem
    return None


# --- Resizing --------------------------------------------------------------------------------

SIZES = [(1, 1), (2, 3), (7, 5), (16, 16), (31, 33), (64, 48), (100, 1), (1, 77), (224, 224), (257, 129), (500, 375)]


def against_pillow(cases):
    want = [array(picture(p).resize(size, Resampling.BILINEAR, box)) for p, size, box in cases]
    for loops in range(3):  # plain, AVX2 and AVX-512, as far as the machine has them
        problem = first(same(g, w, f"{p.shape} to {s}, box {b}, loops {loops}")
                        for g, w, (p, s, b) in zip(resize_all(cases, loops), want, cases))
        if problem:
            return problem
    return None


def sizes():
    return against_pillow([(make(*a, channels), b, None) for a in SIZES for b in SIZES for channels in (1, 3, 4)
                           for make in ((noise,) if a[0] > 64 else (noise, photo))])


def boxes():
    cases = []
    for _ in range(400):
        width, height = (int(v) for v in rng.integers(1, 300, 2))
        channels = int(rng.choice([1, 3, 4]))
        x, y = np.sort(rng.uniform(0, width, 2)), np.sort(rng.uniform(0, height, 2))
        if rng.random() < 0.5:
            x, y = np.array([math.floor(x[0]), math.ceil(x[1])]), np.array([math.floor(y[0]), math.ceil(y[1])])
        if x[1] - x[0] < 1e-3 or y[1] - y[0] < 1e-3:
            continue
        size = tuple(int(v) for v in rng.integers(1, 260, 2))
        cases.append((noise(width, height, channels), size, (float(x[0]), float(y[0]), float(x[1]), float(y[1]))))
    return against_pillow(cases)


def extremes():
    """All white stays white, whatever the weights; very long images; a box of a thousandth of a pixel."""
    white = [(np.full((h, w, c), 255, "u1"), s, None) for c in (1, 3, 4) for w, h, s in
             ((3000, 2, (7, 1)), (9001, 1, (1, 1)), (13, 777, (224, 3)), (5, 5, (999, 999)))]
    thin = [(noise(50, 40, c), (9, 9), (10.25, 3.5, 10.251, 3.501)) for c in (1, 3, 4)]
    return against_pillow(white + thin + [(noise(30000, 3, 3), (40, 40), None), (noise(3, 20000, 1), (2, 17), None)])


# --- Steps -----------------------------------------------------------------------------------


def words(seed, epoch, sample, number, what):
    """NumPy's Philox increments its counter before it draws, hence the 1."""
    counter = sample + (number << 64) + (what << 128) - 1
    return np.random.Philox(key=seed + (epoch << 64), counter=counter % (1 << 256)).random_raw(4).tolist()


def fraction(word):
    return (word >> 11) * 2.0 ** -53


def random_part(draw, width, height, scale, ratio):
    """RandomResizedCrop.get_params, with its draws from Philox: left, top, width, height."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for number in range(10):
        w4 = words(*draw, number, 0)
        area = width * height * (scale[0] + (scale[1] - scale[0]) * fraction(w4[0]))
        shape = math.exp(low + (high - low) * fraction(w4[1]))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            return w4[3] * (width - w + 1) >> 64, w4[2] * (height - h + 1) >> 64, w, h
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    w, h = max(w, 1), max(h, 1)
    return (width - w) // 2, (height - h) // 2, w, h


def choices():
    cases = [(int(rng.integers(0, 2 ** 63)), int(e), int(rng.integers(0, 2 ** 63)), int(w), int(h))
             for e in range(4) for w, h in rng.integers(1, 4000, (400, 2))]
    cases += [(0, 0, s, w, h) for s in range(40) for w, h in ((1, 1000), (1000, 1), (1, 1), (3, 2), (131072, 7))]
    cases += [(2 ** 64 - 1,) * 3 + (640, 480), (0, 0, 2 ** 64 - 1, 640, 480)]
    for scale, ratio in (((0.08, 1.0), (3 / 4, 4 / 3)), ((0.5, 0.5), (1.0, 1.0)), ((0.9, 1.0), (0.1, 0.2))):
        got = choose_all(cases, width=10, height=10, fit=RANDOM, scale=scale, ratio=ratio, flip=0.3)
        for case, g in zip(cases, got):
            want = (*random_part(case[:3], *case[3:], scale, ratio), fraction(words(*case[:3], 0, 1)[0]) < 0.3)
            if isinstance(g, Refused) or tuple(g) != want:
                return f"{case}: {g}, wanted {want}"
    flips = sum(g[4] for g in choose_all([(5, 0, i, 9, 9) for i in range(4000)], width=1, height=1, flip=0.3))
    return None if 1080 < flips < 1320 else f"{flips} flips of 4000 at 0.3"


def transformed(image, draw, s):
    """The result of torchvision's transforms with Pillow."""
    size = (s["width"], s["height"])
    if s["fit"] == STRETCH:
        image = image.resize(size, Resampling.BILINEAR)
    elif s["fit"] == CENTRE:
        w, h = image.size
        if s["shorter"]:
            short, long = min(w, h), int(s["shorter"] * max(w, h) / min(w, h))
            w, h = (s["shorter"], long) if w <= h else (long, s["shorter"])
            image = image.resize((w, h), Resampling.BILINEAR)
        left, top = int(round((w - size[0]) / 2.0)), int(round((h - size[1]) / 2.0))
        image = image.crop((left, top, left + size[0], top + size[1]))
    elif s["fit"] == RANDOM:
        left, top, w, h = random_part(draw, *image.size, s["scale"], s["ratio"])
        image = image.crop((left, top, left + w, top + h)).resize(size, Resampling.BILINEAR)
    if fraction(words(*draw, 0, 1)[0]) < s["flip"]:
        image = image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
    out = array(image)
    if s["type"] != U8:
        mean, std = (np.array(s[k][:s["channels"]], "f4") for k in ("mean", "std"))
        out = (out.astype("f4") / np.float32(255) - mean) / std
        assert out.dtype == np.float32
    if s["type"] == F16:
        out = out.astype("f2")
    return np.ascontiguousarray(out.transpose(2, 0, 1) if s["layout"] == CHW else out)


def steps():
    """Every combination, on lossless images of many shapes; identical to the bit."""
    norm = {"mean": (0.485, 0.456, 0.406, 0.5), "std": (0.229, 0.224, 0.225, 0.25)}
    shapes = ((300, 200), (200, 300), (64, 64), (65, 64), (97, 64), (900, 80))
    for channels in (1, 3, 4):
        images = [picture((noise if i % 2 else photo)(*shape, channels)) for i, shape in enumerate(shapes)]
        cases = [(3, 1, i, saved(im, "PNG", compress_level=1)) for i, im in enumerate(images)]
        for fit, more in ((STRETCH, {}), (CENTRE, {"shorter": 71}), (CENTRE, {"shorter": 64}), (CENTRE, {}),
                          (RANDOM, {}), (RANDOM, {"scale": (0.01, 0.1), "ratio": (0.5, 2.0)})):
            for kind in (U8, F32, F16):
                for layout in (HWC, CHW):
                    asked = {**STEPS, "width": 64, "height": 60, "channels": channels, "fit": fit, "type": kind,
                             "layout": layout, "flip": 0.5, **norm, **more}
                    for case, image, got in zip(cases, images, run_all(cases, **asked)):
                        problem = same(got, transformed(image, case[:3], asked), f"{image.size} {image.mode} {asked}")
                        if problem:
                            return problem
    return None


def jpeg_steps():
    """Without reduce, within the difference of the decoded pixels; with it, similar."""
    shapes = ((640, 480), (480, 640), (1000, 333), (300, 300), (2000, 1500))
    cases = [(9, 0, i, jpeg(*shape, subsampling=i % 2 * 2)) for i, shape in enumerate(shapes)]
    cases += [(9, 1, *c[2:]) for c in cases]
    for fit, more in ((STRETCH, {}), (CENTRE, {"shorter": 128}), (RANDOM, {})):
        for reduce in (0.0, 1.0, 2.0):
            asked = {**STEPS, "width": 112, "height": 112, "fit": fit, "flip": 0.5, "reduce": reduce, **more}
            for case, got in zip(cases, run_all(cases, **asked)):
                want = transformed(opened(case[3]), case[:3], asked)
                problem = same(got, want, f"{case[:3]} {asked}", REDUCED_MOST if reduce else JPEG_TOLERANCE)
                apart = np.abs(got.astype("f8") - want).mean() if not problem else 0
                if problem or apart > REDUCED_MEAN:
                    return problem or f"{case[:3]} {asked}: {apart} apart in the mean"
    return None


def reduced_parts():
    """A JPEG at 1/by, then the crop's box in it: Pillow gives the same for the same input."""
    asked = {**STEPS, "width": 50, "height": 40, "fit": RANDOM, "scale": (0.3, 1.0)}
    cases = [(1, 2, i, jpeg(900 + 7 * i, 640 + 3 * i)) for i in range(12)]
    seen = set()
    for case, got in zip(cases, run_all(cases, **asked)):
        whole = PIL.Image.open(io.BytesIO(case[3]))
        left, top, w, h = random_part(case[:3], *whole.size, asked["scale"], asked["ratio"])
        by = max(b for b in (1, 2, 4, 8) if w / b >= 50 and h / b >= 40)
        size = whole.size
        whole.draft("RGB", (size[0] // by, size[1] // by))
        assert whole.size == tuple(-(-v // by) for v in size), (whole.size, by)
        x, y = left // by, top // by
        part = whole.crop((x, y, -(-(left + w) // by), -(-(top + h) // by)))
        box = (left / by - x, top / by - y, (left + w) / by - x, (top + h) / by - y)
        problem = same(got, array(part.resize((50, 40), Resampling.BILINEAR, box)), f"{case[:3]} by {by}",
                       JPEG_TOLERANCE)
        if problem:
            return problem
        seen.add(by)
    return None if {4, 8} <= seen else f"only {seen} were tried"


def parts_of_jpegs():
    """Only the crop is decoded, and it has the pixels of the full image: every sampling, baseline and
    progressive, restart markers, at 1/1 to 1/8; crops at every offset, so that edges occur everywhere in
    a block."""
    kinds = [{"subsampling": s, "progressive": p} for s in ("4:4:4", "4:2:2", "4:2:0") for p in (False, True)]
    kinds += [{"subsampling": "4:2:0", "restart_marker_blocks": 3}, {"subsampling": "4:2:2", "quality": 20}]
    files = [jpeg(w, h, c, **k) for k in kinds for c in (1, 3) for w, h in ((97, 75), (64, 64), (41, 230), (7, 5))]
    files += [data for _, data in four_inks()]
    files += [tall_sampling(jpeg(96, 80, subsampling="4:2:2"))]
    wide = {**STEPS, "width": 16, "height": 12, "fit": RANDOM, "flip": 0.5, "scale": (0.05, 0.9), "ratio": (0.3, 3.0)}
    centre = {**STEPS, "width": 20, "height": 20, "fit": CENTRE, "shorter": 40}
    seen = set()
    for asked in (wide, {**wide, "reduce": 0.0}, {**wide, "reduce": 0.0, "channels": 1}, {**wide, "channels": 4},
                  centre, {**centre, "shorter": 0}, {**centre, "reduce": 0.0}, {**centre, "width": 40, "height": 8}):
        cases = [(4, e, i, f) for i, f in enumerate(files) for e in range(6)
                 if asked["fit"] == RANDOM or asked["shorter"] or min(PIL.Image.open(io.BytesIO(f)).size) >= 20]
        for case, got in zip(cases, run_all(cases, **asked)):
            want, by = part_of_whole(case, asked)
            seen.add(by)
            problem = same(got, want, f"file {case[2]}, epoch {case[1]}, 1/{by}, {asked}")
            if problem:
                return problem
    return None if seen == {1, 2, 4} else f"only 1/{seen} were tried"


def tall_sampling(data):
    """4:2:2 rotated, which Pillow does not write: the factors of the luma exchanged."""
    at = data.index(b"\xff\xc0") + 11
    assert data[at] == 0x21
    size = data[at - 6:at - 2]
    # Blocks are now paired vertically; the picture is nonsense, but the same for all decoders.
    return data[:at - 6] + size[2:] + size[:2] + data[at - 2:at] + b"\x12" + data[at + 1:]


@functools.lru_cache(None)
def whole_image(data, channels, least):
    return decode_all([data], channels, least)[0]


def part_of_whole(case, s):
    """The result for the whole image, decoded by tarn itself (which other tests compare with Pillow)."""
    width, height = PIL.Image.open(io.BytesIO(case[3])).size
    part, full, window = (0, 0, width, height), (s["width"], s["height"]), (0, 0)
    if s["fit"] == RANDOM:
        part = random_part(case[:3], width, height, s["scale"], s["ratio"])
    elif s["shorter"]:
        long = int(s["shorter"] * max(width, height) / min(width, height))
        full = (s["shorter"], long) if width <= height else (long, s["shorter"])
        window = tuple(int(round((full[i] - (s["width"], s["height"])[i]) / 2.0)) for i in range(2))
    else:
        part = (int(round((width - s["width"]) / 2.0)), int(round((height - s["height"]) / 2.0)), *full)
    left, top, w, h = part
    by = max(b for b in (1, 2, 4, 8) if b == 1 or s["reduce"] and w / b >= full[0] and h / b >= full[1])
    least = (-(-width // by), -(-height // by))
    whole = whole_image(case[3], s["channels"], least if by > 1 else (0, 0))
    assert whole.shape[:2] == least[::-1], (whole.shape, least)
    x, y = left // by, top // by
    pixels = whole[y:-(-(top + h) // by), x:-(-(left + w) // by)]
    box = (left / by - x, top / by - y, (left + w) / by - x, (top + h) / by - y)
    image = picture(np.ascontiguousarray(pixels)).resize(full, Resampling.BILINEAR, box)
    image = image.crop((*window, window[0] + s["width"], window[1] + s["height"]))
    if fraction(words(*case[:3], 0, 1)[0]) < s["flip"]:
        image = image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
    return array(image), by


# --- Masks ---------------------------------------------------------------------------------------


def nearest(mask, draw, s):
    """The steps with Pillow's NEAREST."""
    size = (s["width"], s["height"])
    image = PIL.Image.fromarray(mask.astype("i4"))
    if s["fit"] == STRETCH:
        image = image.resize(size, Resampling.NEAREST)
    elif s["fit"] == CENTRE:
        w, h = image.size
        if s["shorter"]:
            long = int(s["shorter"] * max(w, h) / min(w, h))
            w, h = (s["shorter"], long) if w <= h else (long, s["shorter"])
            image = image.resize((w, h), Resampling.NEAREST)
        left, top = int(round((w - size[0]) / 2.0)), int(round((h - size[1]) / 2.0))
        image = image.crop((left, top, left + size[0], top + size[1]))
    elif s["fit"] == RANDOM:
        left, top, w, h = random_part(draw, *image.size, s["scale"], s["ratio"])
        image = image.crop((left, top, left + w, top + h)).resize(size, Resampling.NEAREST)
    if fraction(words(*draw, 0, 1)[0]) < s["flip"]:
        image = image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image).astype(mask.dtype)


def masks():
    """Every fit, and sizes at which positions fall between two labels."""
    shapes = [(300, 200), (65, 64), (97, 71), (900, 80), (64, 1000), (640, 480)] + SIZES[7:]
    for i, (width, height) in enumerate(((64, 60), (7, 9), (224, 224), (1, 1), (333, 101))):
        for fit, more in ((STRETCH, {}), (CENTRE, {"shorter": 350}), (RANDOM, {}), (RANDOM, {"scale": (0.001, 0.01)})):
            asked = {**STEPS, "width": width, "height": height, "fit": fit, "flip": 0.5, **more}
            dtype = ("u1", "u2", "u4")[i % 3]
            cases = [(3, i, k, rng.integers(0, 200, shape[::-1]).astype(dtype)) for k, shape in enumerate(shapes)]
            for case, got in zip(cases, run_masks(cases, **asked)):
                problem = same(got, nearest(case[3], case[:3], asked), f"{case[3].shape} {asked}")
                if problem:
                    return problem
    return None


# --- Orientation ---------------------------------------------------------------------------------


def oriented(image, orientation, kind, **options):
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    return saved(image, kind, exif=exif, **options)


def orientations():
    """The steps on the image that exif_transpose makes; a JPEG decoded at a smaller size is similar."""
    for kind, reduce, options in (("PNG", 0.0, {}), ("WEBP", 0.0, {"lossless": True}), ("JPEG", 0.0, {}),
                                  ("JPEG", 1.0, {})):
        data = [oriented(picture(photo(403, 301)), o, kind, **options) for o in range(1, 9)]
        cases = [(5, 0, i, d) for i, d in enumerate(data)]
        for fit, more in ((STRETCH, {}), (CENTRE, {"shorter": 90}), (CENTRE, {}), (RANDOM, {})):
            asked = {**STEPS, "width": 80, "height": 72, "fit": fit, "flip": 0.5, "reduce": reduce, **more}
            for case, got in zip(cases, run_all(cases, upright=True, **asked)):
                upright = PIL.ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(case[3]))).convert("RGB")
                want = transformed(upright, case[:3], asked)
                problem = same(got, want, f"{kind} {case[2] + 1} {asked}", REDUCED_MOST if reduce else 0)
                apart = np.abs(got.astype("f8") - want).mean() if not problem else 0
                if problem or apart > REDUCED_MEAN:
                    return problem or f"{kind} {case[2] + 1} {asked}: {apart} apart in the mean"
    return None


def damaged_exif():
    """EXIF data that cannot be read counts as none, wherever it is cut or changed."""
    whole = oriented(picture(photo(40, 30)), 6, "JPEG")
    at = whole.index(b"Exif\0\0") + 6
    size = int.from_bytes(whole[at - 8:at - 6], "big")
    cases = [whole]
    for cut in range(8, size - 8):
        cases.append(whole[:at - 8] + (cut + 2).to_bytes(2, "big") + whole[at - 6:at - 6 + cut] + whole[at - 8 + size:])
    for i in range(at, at - 8 + size):
        cases += [whole[:i] + bytes([v]) + whole[i + 1:] for v in (0, 1, 0x7f, 0xff)]
    got = run_all([(0, 0, 0, d) for d in cases], upright=True, width=8, height=6)
    kept = run_all([(0, 0, 0, whole)], width=8, height=6)[0]
    turned = sum(not isinstance(g, Refused) and not np.array_equal(g, kept) for g in got)
    refused = [g for g in got if isinstance(g, Refused)]
    return f"refused: {refused[0]}" if refused else None if 0 < turned < len(got) / 2 else f"{turned} turned"


# --- Refused images --------------------------------------------------------------------------


def refusals():
    whole = {"jpeg": jpeg(80, 60), "png": saved(picture(noise(40, 30, 3)), "PNG"), "ppm": saved(picture(noise(9, 9, 3)), "PPM"),
             "webp": saved(picture(noise(40, 30, 3)), "WEBP")}
    cases = [(n, d[:cut]) for n, d in whole.items() for cut in {0, 1, 2, 3, 11, 20, 30, len(d) // 2, len(d) - 30}]
    cases += [("noise", rng.bytes(200))]
    wide = bytearray(whole["png"])
    wide[16:24] = b"\x7f\xff\xff\xff" * 2
    huge = bytearray(whole["jpeg"])
    at = huge.index(b"\xff\xc0")
    huge[at + 5:at + 9] = b"\xff\xdc\xff\xdc"
    cases += [("wide png", bytes(wide)), ("huge jpeg", bytes(huge))]
    frames = [picture(noise(9, 9, 3)) for _ in range(2)]
    cases.append(("animation", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:])))
    datas = [d for _, d in cases]
    for got in (decode_all(datas, 3), run_all([(0, 0, 0, d) for d in datas], width=8, height=8)):
        for (name, data), g in zip(cases, got):
            want = {"animation": ["unsupported"], "huge jpeg": ["limit"]}.get(
                name, ["format", "truncated"])
            if not isinstance(g, Refused) or g.status not in want:
                return f"{name}, {len(data)} bytes: {g if isinstance(g, Refused) else 'taken'}"
    exact = run_all([(0, 0, 0, whole["png"]), (0, 0, 0, whole["jpeg"])], width=40, height=30, fit=EXACT)
    small = run_all([(0, 0, 0, whole["png"])], width=41, height=30, fit=CENTRE)
    if isinstance(exact[0], Refused) or not isinstance(exact[1], Refused) or not isinstance(small[0], Refused):
        return f"sizes: {exact}, {small}"
    return None


def damage_outside():
    """Truncation anywhere and a missing segment are errors, whichever crop is decoded."""
    data = jpeg(320, 240, restart_marker_blocks=20)
    marks = [i for i in range(len(data) - 1) if data[i] == 0xff and 0xd0 <= data[i + 1] <= 0xd7]
    cut = [data[:at] for at in (len(data) // 3, len(data) // 2, len(data) * 9 // 10, len(data) - 2)]
    thin = [data[:a + 8] + data[b:] for a, b in zip(marks[1::3], marks[2::3])]
    for damaged in cut + thin:
        got = run_all([(1, e, 0, damaged) for e in range(12)], width=32, height=32, fit=RANDOM, scale=(0.05, 0.2))
        taken = [g for g in got if not isinstance(g, Refused)]
        if taken:
            return f"{len(damaged)} of {len(data)} bytes: {len(taken)} of 12 parts were taken"
    return None


def main():
    tests = [("every kind of image is decoded as Pillow does", decoding),
             ("jpegs at 1/2, 1/4 and 1/8", reduced_jpegs),
             ("resizing up and down is Pillow's to the bit", sizes),
             ("boxes with fractions are Pillow's to the bit", boxes),
             ("long, thin, white", extremes),
             ("random parts and flips are torchvision's formulas over NumPy's Philox", choices),
             ("all steps to the bit on lossless images", steps),
             ("steps on jpegs, whole and reduced", jpeg_steps),
             ("a part of a reduced jpeg", reduced_parts),
             ("a part of a jpeg has the pixels of the whole", parts_of_jpegs),
             ("damage outside of the part is found", damage_outside),
             ("a mask gets the nearest labels of the same part, as in Pillow", masks),
             ("the steps on an upright image, as exif_transpose makes it", orientations),
             ("EXIF data that cannot be read counts as none", damaged_exif),
             ("damage, limits, animations, sizes", refusals)]
    for title, test in tests:
        problem = test()
        check(title, problem is None, problem)
    return check.end()


sys.exit(main())
