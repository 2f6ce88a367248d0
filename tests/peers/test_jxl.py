#!/usr/bin/env python3
"""JPEG XL against imagecodecs and against the codec of iatro-base-iac 0.1.4: each reads what the others write."""
import os
import pathlib
import subprocess
import sys

import peer

peer.needs("imagecodecs", "numpy")

import imagecodecs  # noqa: E402
import numpy as np  # noqa: E402

import tarn  # noqa: E402
from tarn import _tarn  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TYPES = ("u1", "u2", "f2", "f4")
# How far lossy pixels may differ from those of another version of libjxl, as a part of the range.
NEAR = {"u1": 1 / 255, "u2": 2 / 65535, "f2": 1e-3, "f4": 2e-5}

CHILD = """
import sys, numpy as np
from iatro.iac import Codec
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        np.save(path + ".npy", Codec.create("jxl").decode(file.read()))
    image = np.load(path + ".image.npy")
    with open(path + ".theirs", "wb") as file:
        file.write(Codec.create("jxl", lossless="lossless" in path, effort=3).encode(image))
"""


def images():
    """(type, image) with smooth and with noisy parts."""
    random = np.random.default_rng(5)
    down, right = np.mgrid[:61, :47]
    for dtype in TYPES:
        for channels in (1, 2, 3, 4):
            waves = [(np.sin(right / 7 + k) + np.cos(down / 9 * (k + 1))) / 4 + .5 for k in range(channels)]
            image = np.stack(waves, axis=-1)
            image[40:] = random.random(image[40:].shape)
            image = image * {"u": 256 ** int(dtype[1]) - 1}.get(dtype[0], 1)
            yield dtype, np.ascontiguousarray(image[..., 0] if channels == 1 else image).astype(dtype)


def encoded(image, lossless):
    """None if the libjxl of the system cannot store the image."""
    try:
        return _tarn.jxl_encode(image, lossless, 1.0, 3, False)
    except tarn.UnsupportedError as refused:
        assert image.dtype == "f4" and lossless and "use libjxl 0.10" in str(refused)
        return None


def far(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    most = 256 ** a.dtype.itemsize - 1 if a.dtype.kind == "u" else 1
    return float(np.abs(a.astype("f8") - b.astype("f8")).max()) / most


def lossless_images_have_the_same_samples_in_both_directions(folder):
    for _, image in images():
        theirs = imagecodecs.jpegxl_encode(image, lossless=True, effort=3)
        assert (_tarn.decode("jxl", theirs) == image).all()
        ours = encoded(image, True)
        if ours is not None:
            assert (imagecodecs.jpegxl_decode(ours) == image).all() and (_tarn.decode("jxl", ours) == image).all()


def lossy_images_are_decoded_to_nearly_the_same_samples(folder):
    for dtype, image in images():
        for data in (imagecodecs.jpegxl_encode(image, lossless=False, distance=1.0, effort=3), encoded(image, False)):
            difference = far(_tarn.decode("jxl", data), imagecodecs.jpegxl_decode(data))
            assert difference <= NEAR[dtype], (dtype, image.shape, difference)
        # The quality is the same, too: of the smooth part, whose samples are not noise.
        ours, theirs = (far(imagecodecs.jpegxl_decode(d)[:36], image[:36]) for d in (
            encoded(image, False), imagecodecs.jpegxl_encode(image, lossless=False, distance=1.0, effort=3)))
        assert ours <= 2 * theirs + 0.02, (dtype, image.shape, ours, theirs)


def the_codec_of_0_1_4_reads_and_writes_the_same(folder):
    with peer.folder() as name:
        paths = []
        for number, (dtype, image) in enumerate(images()):
            for lossless in (False, True):
                data = encoded(image, lossless)
                if data is None:
                    continue
                path = pathlib.Path(name) / f"{number}-{'lossless' if lossless else 'lossy'}-{dtype}"
                path.write_bytes(data)
                np.save(f"{path}.image.npy", image)
                paths.append(str(path))
        [real] = (ROOT / ".venv-iac2").glob("lib/python3*/site-packages")
        subprocess.run([sys.executable, "-c", CHILD, *paths], check=True, env={**os.environ, "PYTHONPATH": str(real)})
        assert len(paths) >= 28
        for path in paths:
            dtype, exact = path[-2:], "lossless" in path
            read, written = np.load(f"{path}.npy"), pathlib.Path(f"{path}.theirs").read_bytes()
            assert far(read, _tarn.decode("jxl", pathlib.Path(path).read_bytes())) <= (0 if exact else NEAR[dtype]), path
            found = _tarn.decode("jxl", written)
            if exact:
                assert (found == np.load(f"{path}.image.npy")).all(), path
            else:
                assert far(found, imagecodecs.jpegxl_decode(written)) <= NEAR[dtype], path


peer.run(lossless_images_have_the_same_samples_in_both_directions, lossy_images_are_decoded_to_nearly_the_same_samples,
         the_codec_of_0_1_4_reads_and_writes_the_same)
