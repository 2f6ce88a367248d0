"""Images that need more than the native decoder: other formats, and the checks of image
options."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Union

import numpy

from . import _tarn
from ._arguments import real, reals, whole, word
from .errors import FormatError, UnsupportedError, UsageError

__all__ = ["Fallback", "Native", "image_steps"]

How = Union[Literal["pillow"], Callable[[bytes], Any]]

FITS = ("stretch", "center", "centre", "random", "exact")
TYPES = ("uint8", "float32", "float16")
LAYOUTS = ("HWC", "CHW")

# : Extensions of formats that only a fallback decodes.
FOREIGN = frozenset({"avif", "bmp", "dib", "gif", "heic", "heif", "ico", "j2k", "jp2", "pbm",
                     "pcx", "pnm", "tga", "tif", "tiff"})


# --- Options of a loader ------------------------------------------------------------------


def _sides(resize: Any) -> tuple[int, int]:
    """Returns (height, width)."""
    sides: list[Any] = []
    try:
        sides = [operator.index(resize)] * 2
    except TypeError:
        if isinstance(resize, Iterable) and not isinstance(resize, str):
            sides = list(resize)
    if len(sides) != 2:
        raise UsageError(f"resize must be a side or (height, width), not {resize!r}")
    height, width = (whole("resize", side, 1, 131072) for side in sides)
    return height, width


def image_steps(resize: int | Sequence[int] | None, **given: Any) -> dict[str, Any] | None:
    """Returns the image options; resize is the side, or (height, width)."""
    steps = {name: value for name, value in given.items() if value is not None}
    if resize is None:
        if steps:
            raise UsageError(f"{', '.join(sorted(steps))}: only with resized images (resize=); for "
                             'images that all have the same size: resize=that size, fit="exact"')
        return None
    height, width = _sides(resize)
    out: dict[str, Any] = {"width": width, "height": height, **steps}
    fit = word("fit", steps.get("fit", "stretch"), FITS)
    fit = out["fit"] = "centre" if fit == "center" else fit
    dtype = out["dtype"] = word("dtype", steps.get("dtype", "uint8"), TYPES)
    out["layout"] = word("layout", steps.get("layout", "HWC"), LAYOUTS)
    for name, needed, there in (("scale", 'fit="random"', fit == "random"),
                                ("ratio", 'fit="random"', fit == "random"),
                                ("shorter", 'fit="center"', fit == "centre"),
                                ("mean", 'dtype="float32" or "float16"', dtype != "uint8"),
                                ("std", 'dtype="float32" or "float16"', dtype != "uint8")):
        if name in steps and not there:
            raise UsageError(f"{name}: only with {needed}")
    for name in ("channels", "shorter"):
        if name in steps:
            out[name] = whole(name, steps[name], 0, 131072)
    for name in ("flip", "reduce"):
        if name in steps:
            out[name] = real(name, steps[name])
    for name in ("scale", "ratio"):
        if name in steps:
            out[name] = reals(name, steps[name], 2, 2)
    for name, rest in (("mean", 0.0), ("std", 1.0)):
        if name in steps:
            values = reals(name, steps[name], 1, 4)
            out[name] = values + (rest,) * (4 - len(values))
    return out


# --- Other formats ------------------------------------------------------------------------


def _pillow(data: bytes, upright: bool) -> Any:
    import io

    from PIL import Image, ImageOps

    image = Image.open(io.BytesIO(data))
    return ImageOps.exif_transpose(image) if upright else image


def _pixels_of(image: Any) -> Any:
    """Returns the pixels of a PIL.Image: grey, RGB or RGBA, of 8 bits; grey ones also of 16."""
    mode = image.mode
    if mode.startswith("I;16"):
        return numpy.asarray(image).astype("=u2")
    if mode in ("I", "F"):
        raise UnsupportedError(f"images of mode {mode} (32 bits per pixel) have no fixed range; "
                               "pass a function as fallback that returns uint8 or uint16")
    if mode == "P":
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif mode in ("LA", "La", "PA", "RGBa"):
        image = image.convert("RGBA")
    elif mode == "1":
        image = image.convert("L")
    elif mode not in ("L", "RGB", "RGBA"):
        image = image.convert("RGB")
    return numpy.asarray(image)


class Fallback:
    """Decodes images of formats that the native decoder does not know: with Pillow, or with a
    function of the bytes that returns an array or a PIL.Image."""

    def __init__(self, how: How, upright: bool, masks: frozenset[str] = frozenset()) -> None:
        self.how = how
        self.upright = upright
        self.masks = masks  # fields whose labels are kept

    def __call__(self, field: str, data: bytes) -> Any:
        mask = field in self.masks
        if callable(self.how):
            value = self.how(data)
        else:
            value = _pillow(data, self.upright and not mask)
        if hasattr(value, "mode") and hasattr(value, "getbbox"):  # a PIL.Image
            value = numpy.asarray(value) if mask else _pixels_of(value)
        value = numpy.ascontiguousarray(value)
        if value.dtype == bool:
            value = value.view("u1")
        return value.astype(value.dtype.newbyteorder("="), copy=False)


class Native:
    """Decodes a field with a named codec, and if its format is unknown with a fallback."""

    def __init__(self, field: str, codec: str, upright: bool, fallback: Fallback | None) -> None:
        self.field = field
        self.codec = codec
        self.upright = upright
        self.fallback = fallback

    def __call__(self, data: bytes) -> Any:
        try:
            return _tarn.decode(self.codec, data, self.upright)
        except (FormatError, UnsupportedError):
            if self.fallback is None or _tarn.image_known(data):
                raise
        try:
            return self.fallback(self.field, data)
        except Exception as error:  # the same error as in a loader
            made = FormatError(f"fallback: {error!r}")
            made.code = "format"
            raise made from error


@functools.cache
def need_pillow() -> None:
    """Raises an error if Pillow is not installed."""
    import importlib.util

    if importlib.util.find_spec("PIL") is None:
        raise UsageError('fallback="pillow" needs the package Pillow: pip install pillow')
