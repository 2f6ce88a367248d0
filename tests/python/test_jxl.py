"""JPEG XL: fields of datasets, through the loader and its steps, the writer's options, and files that are
truncated, damaged, or unusual. tests/peers compares the pixels with imagecodecs."""
import base64
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tarn
from conftest import ROOT
from tarn import _tarn

sys.path.insert(0, str(ROOT / "fuzz"))
from corpus_jxl import FILES  # noqa: E402

SAMPLES = {name: base64.b64decode(text) for name, text in FILES.items()}


def writes_floats():
    """Whether libjxl is new enough to store 32-bit floats without loss."""
    try:
        return bool(_tarn.jxl_encode(np.zeros((2, 2), "f4"), True, 1.0, 1, False))
    except tarn.UnsupportedError:
        return False


FLOATS = writes_floats()
SHAPES = [(13, 17), (13, 17, 2), (13, 17, 3), (13, 17, 4)]


def pack(tmp_path, samples, **options):
    path = tmp_path / "x.tar"
    with tarn.TarWriter(path, overwrite=True, **options) as out:
        for i, sample in enumerate(samples):
            out.write({"__key__": f"s{i}", **sample})
    return path


def picture(height, width):
    down, right = np.mgrid[:height, :width]
    return np.stack([down * 3, right * 2, down + right], axis=2).astype("u1")


def pixels(shape, dtype):
    count = np.arange(np.prod(shape)).reshape(shape)
    return (count % 251 / 251).astype(dtype) if dtype[0] == "f" else (count * 257 % np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f2", "f4"])
def test_lossless_images_are_the_same_alone_and_in_batches(tmp_path, dtype):
    for shape in SHAPES:
        image = pixels(shape, dtype)
        if dtype == "f4" and not FLOATS:
            with pytest.raises(tarn.UnsupportedError, match="libjxl 0.* cannot write f4 without loss; use libjxl 0.10"):
                _tarn.jxl_encode(image, True, 1.0, 1, False)
            continue
        ds = tarn.open(pack(tmp_path, [{"jxl": image}] * 3, jxl_lossless=True, jxl_effort=1))
        for found in (ds[1]["jxl"], next(iter(ds))["jxl"], next(iter(ds.loader(3)))["jxl"][2]):
            assert found.dtype == image.dtype and found.shape == shape and (found == image).all()


def test_the_options_of_the_writer_have_an_effect(tmp_path):
    image = picture(60, 80)

    def size(**options):
        return len(tarn.open(pack(tmp_path, [{"jxl": image}], **options), decode="bytes")[0]["jxl"])
    assert size(jxl_distance=8.0) < size() < size(jxl_distance=0.1)
    assert size(jxl_lossless=True, jxl_effort=1) != size(jxl_lossless=True, jxl_effort=7)
    for options, message in [({"jxl_distance": 26.0}, "distance 26 is not from 0 to 25"),
                             ({"jxl_distance": float("nan")}, "distance nan is not from 0 to 25"),
                             ({"jxl_effort": 11}, "effort 11 is not from 1 to 10")]:
        with pytest.raises(tarn.UsageError, match=message):
            size(**options)
    with pytest.raises(tarn.UnsupportedError, match="field .jxl takes pixels of type u1 or u2, or f2 and f4"):
        pack(tmp_path, [{"jxl": np.zeros((2, 2))}])


def test_images_of_all_types_and_sizes_are_written():
    """libjxl 0.7 ends the process for some; the library must not let it."""
    for dtype in ("u1", "u2", "f2", "f4"):
        for shape in [(1, 1), (1, 2), (2, 1, 2), (1, 1, 4), (300, 2, 3)]:
            image = pixels(shape, dtype)
            for lossless in (False, True)[:1 if dtype == "f4" and not FLOATS else 2]:
                for effort in (1, 7, 8, 9, 10)[:3 if image.size > 10 else 5]:
                    found = _tarn.decode("jxl", _tarn.jxl_encode(image, lossless, 1.0, effort, False))
                    assert found.shape == shape and found.dtype == dtype
                    assert not lossless or (found == image).all()


@pytest.mark.parametrize("options", [dict(resize=16), dict(resize=(9, 12), fit="random", flip=0.5),
                                     dict(resize=8, fit="center", dtype="float32", layout="CHW"),
                                     dict(resize=16, channels=1), dict(resize=16, channels=4)])
def test_image_steps_give_what_they_give_for_the_same_png(tmp_path, options):
    images = [picture(40 + i, 50) for i in range(4)]
    path = pack(tmp_path, [{"png": image, "jxl": image} for image in images], jxl_lossless=True, jxl_effort=1)
    for threads in (0, 3):
        batch = next(iter(tarn.open(path).loader(4, threads=threads, **options)))
        a, b = batch["png"], batch["jxl"]
        assert a.dtype == b.dtype and (a == b).all()


def test_the_header_decides_channels_type_and_orientation():
    for name, shape, dtype in [("grey", (12, 17), "u1"), ("rgb", (12, 17, 3), "u1"), ("rgba_lossy", (12, 17, 4), "u1"),
                               ("container", (12, 17, 3), "u1"), ("deep", (4, 5), "u2"), ("half", (12, 17), "f2"),
                               ("single", (12, 17), "f4"), ("three_extra", (2, 3), "u1")]:
        image = _tarn.decode("jxl", SAMPLES[name])
        assert image.shape == shape and image.dtype == dtype, name
    assert _tarn.decode("jxl", SAMPLES["turned"])[:, :, 0].tolist() == [[120, 0], [160, 40], [200, 80]]
    # It stores colours of 64, multiplied by an alpha of 128 / 255.
    assert np.isin(_tarn.decode("jxl", SAMPLES["premultiplied"])[:, :, :3], (127, 128)).all()
    # Like other images, it is recognised by its first bytes.
    assert _tarn.decode("png", SAMPLES["turned"]).shape == (3, 2, 3)


def test_images_that_cannot_be_decoded_are_errors_with_the_reason(tmp_path):
    lossy = SAMPLES["rgb_lossy"]
    for data, kind, message in [
            (SAMPLES["animation"], tarn.UnsupportedError, "JPEG XL: animations are not supported"),
            (SAMPLES["deep_24"], tarn.UnsupportedError, "integers of 24 bits; at most 16"),
            (SAMPLES["extra_channels"], tarn.LimitError, "9 channels besides colours; the limit is 8"),
            (lossy[:4], tarn.TruncatedError, "truncated: all 4 bytes were read, and the header is not complete"),
            (lossy[:-9], tarn.TruncatedError, f"all {len(lossy) - 9} bytes were read, and the image is not"),
            (b"\xff\x0a" + bytes(100), tarn.FormatError, "JPEG XL: (damaged|truncated)"),
            (lossy[:40] + bytes(len(lossy) - 40), tarn.FormatError, f"damaged image, at byte .* of {len(lossy)}")]:
        path = pack(tmp_path, [{"jxl": data}])
        with pytest.raises(kind, match="sample .*: field jxl: .*" + message):
            tarn.open(path)[0]
        with pytest.raises(kind, match=message):
            next(iter(tarn.open(path).loader(1)))


def test_every_truncation_is_an_error():
    for name in ("grey", "rgb_lossy", "container"):
        data = SAMPLES[name]
        for size in range(len(data) - 1):
            with pytest.raises(tarn.FormatError):
                _tarn.decode("jxl", data[:size])


CHILD = """
import sys, tarn
from tarn import _tarn
assert _tarn.decode("cls", b"7") == 7 and not any("libjxl" in line for line in open("/proc/self/maps"))
for call in (lambda: _tarn.decode("jxl", b"\\xff\\x0a"), lambda: tarn.iac.JxlCodec().encode(memoryview(bytes(16)).cast("B", (4, 4)))):
    try:
        call()
    except tarn.UnsupportedError as error:
        print(error)
"""


@pytest.mark.parametrize("contents, reason", [(b"no library", "invalid ELF header|file too short"),
                                              (None, "it lacks the function JxlDecoderVersion")])
def test_without_libjxl_the_error_names_the_package(tmp_path, contents, reason):
    """The library is loaded for the first image, not before; here it is replaced by something else."""
    compiler = shutil.which("cc")
    if contents is None and not compiler:
        pytest.skip("no compiler")
    for version in range(7, 12):
        file = tmp_path / f"libjxl.so.0.{version}"
        if contents:
            file.write_bytes(contents)
        else:
            subprocess.run([compiler, "-shared", "-o", file, "-x", "c", "/dev/null"], check=True)
    run = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True,
                         env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    lines = run.stdout.splitlines()
    assert len(lines) == 2, run.stderr
    for line in lines:
        assert "JPEG XL needs libjxl 0.7 to 0.11, which cannot be used: " in line
        assert "install it (Debian 12: libjxl0.7, Debian 13: libjxl0.11)" in line
        assert any(word in line for word in reason.split("|")), line


def test_fields_of_images_accept_it_among_other_formats(tmp_path):
    path = pack(tmp_path, [{"jxl": picture(8, 9)}, {"png": picture(8, 9)}], jxl_lossless=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = tarn.open(path, fields=["img=jxl;png"])
    assert (ds[0]["img"] == ds[1]["img"]).all()
    assert next(iter(ds.loader(2, resize=4)))["img"].shape == (2, 4, 4, 3)
