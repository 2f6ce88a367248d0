"""Decoding of fields: which Python object a field becomes, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from . import _tarn
from ._images import FOREIGN, Fallback, How, Native, need_pillow
from .errors import UsageError

__all__ = ["DECODERS", "Decoder", "Reading"]

Decoder = Callable[[bytes], Any]
Plan = Union[str, Decoder]

IMAGES = frozenset({"image", "img", "jpeg", "jpg", "jxl", "pgm", "png", "ppm", "webp"})
LABELS = frozenset({"seg8", "seg16", "seg24", "seg32"})
# : Names of native codecs, which `decoders=` accepts as well.
CODECS = IMAGES | LABELS | {
    "class", "cls", "cls2", "count", "htm", "html", "id", "index", "inx", "jsn", "json", "npy",
    "npz", "rle", "tb", "ten", "tenbin", "text", "transcript", "txt"}


def extension(field: str) -> str:
    """Returns the part of a field's name that determines its type: the last one before a
    compression suffix."""
    parts = field.lower().split(".")
    while len(parts) > 1 and parts[-1] in ("gz", "zst"):
        parts.pop()
    return parts[-1]


# --- Decoders that need Python; used only if the caller names them, never by default ---


def _pickle(data: bytes) -> Any:
    import pickle

    return pickle.loads(data)


def _torch(data: bytes) -> Any:
    import io

    import torch

    return torch.load(io.BytesIO(data), weights_only=True)


def _msgpack(data: bytes) -> Any:
    import msgpack  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return msgpack.unpackb(data)


def _cbor(data: bytes) -> Any:
    import cbor2  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return cbor2.loads(data)


def _mat(data: bytes) -> Any:
    import io

    import scipy.io  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return scipy.io.loadmat(io.BytesIO(data))


def _pil(data: bytes) -> Any:
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(data))
    image.load()
    return image


# : Names that `decoders=` accepts instead of a function. "pickle" runs code in the data.
DECODERS: dict[str, Decoder] = {
    "bytes": bytes,
    "cbor": _cbor,
    "mat": _mat,
    "msgpack": _msgpack,
    "pickle": _pickle,
    "pil": _pil,
    "torch": _torch,
}


# --- Conversion of decoded values ---------------------------------------------------------


def to_pil(value: Any) -> Any:
    """Converts a decoded image to a PIL.Image of mode L, RGB or RGBA, or I;16. Pillow has no mode
    for 16-bit colour. It reads only the high bytes of such files, and so does this function."""
    from PIL import Image

    if getattr(value, "ndim", 0) == 3 and value.dtype.itemsize == 2 and value.shape[2] > 1:
        value = (value >> 8).astype("u1")
    if getattr(value, "ndim", 0) == 3 and value.shape[2] == 1:
        value = value[:, :, 0]
    return Image.fromarray(value)


def to_torch(value: Any) -> Any:
    """Converts arrays to tensors over the same memory. An array inside a mapped file is copied
    first, because tensors are always writable."""
    import numpy
    import torch

    if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
        if not value.flags.writeable or not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        return torch.from_numpy(value)
    if isinstance(value, dict):
        return {name: to_torch(item) for name, item in value.items()}
    if isinstance(value, list):
        return [to_torch(item) for item in value]
    return value


def stored_names(handle: _tarn._Handle, names: Sequence[str]) -> list[list[str]]:
    """Returns the names in the file of each field, or of the fields that a template may stand for:
    those with its ending."""
    stored = dict(zip(handle.fields(), handle.stored()))
    out = []
    for name in names:
        ending = name.rpartition(".")[2]
        alike = [one for field in stored if field.rpartition(".")[2] == ending
                 for one in stored[field]]
        out.append(stored.get(name) or list(dict.fromkeys(alike)) or [name])
    return out


class Reading:
    """How the fields of a dataset are read: the reading arguments of `tarn.open`."""

    __slots__ = ("array_type", "decode", "decoders", "exif", "fallback", "images")

    def __init__(self, decode: bool | str = True, images: str = "numpy", array_type: str = "numpy",
                 decoders: Mapping[str, Decoder | str] | None = None, exif: bool = False,
                 fallback: How | None = None) -> None:
        if not isinstance(decode, bool) and decode != "bytes":
            raise UsageError(f'decode must be True, False or "bytes", not {decode!r}')
        if images not in ("numpy", "pil"):
            raise UsageError(f'images must be "numpy" or "pil", not {images!r}')
        if array_type not in ("numpy", "torch"):
            raise UsageError(f'array_type must be "numpy" or "torch", not {array_type!r}')
        if decoders is not None and not isinstance(decoders, Mapping):
            raise UsageError(f"decoders must be a dict of functions by field, not {decoders!r}")
        for name, decoder in (decoders or {}).items():
            if not callable(decoder) and decoder not in (*DECODERS, *CODECS):
                raise UsageError(f"decoders[{name!r}] must be a function, one of "
                                 + ", ".join(DECODERS) + ", or the name of a codec such as "
                                 f'"png" (found {decoder!r})')
        if fallback is not None and fallback != "pillow" and not callable(fallback):
            raise UsageError(f'fallback must be "pillow" or a function, not {fallback!r}')
        if fallback == "pillow":
            need_pillow()
        for option, given in (("exif", exif), ("fallback", fallback)):
            if given and decode is not True and not decoders:
                raise UsageError(f"{option} has no effect with decode={decode!r}, because images "
                                 "are not decoded")
        self.decode = decode
        self.images = images
        self.array_type = array_type
        self.decoders = dict(decoders or {})
        self.exif = bool(exif)
        self.fallback = fallback

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash((self.decode, self.images, self.array_type, self.exif))

    def __reduce__(self) -> tuple[Any, ...]:
        return Reading, self.parts()

    def parts(self) -> tuple[Any, ...]:
        return (self.decode, self.images, self.array_type, self.decoders, self.exif,
                self.fallback)

    def check(self, handle: _tarn._Handle, shown: str) -> None:
        """Raises UsageError if decoders has a name that no field of the file can have. Templates
        of groups are fields only later."""
        import difflib

        fields = list(dict.fromkeys((*handle.file_fields(), *handle.fields())))
        known = {*fields, *(name for stored in handle.stored() for name in stored)}
        known |= {extension(name) for name in known}
        for name in self.decoders if fields else ():
            if name not in known and "{" not in name:
                near = difflib.get_close_matches(name, sorted(known), 1)
                text = f"{shown}: no field {name} for decoders[{name!r}]"
                text += f"; did you mean {near[0]}?" if near else ""
                more = f" and {len(fields) - 10} more" if len(fields) > 10 else ""
                raise UsageError(f"{text}; the fields are {', '.join(fields[:10])}{more}")

    # In the following, stored is the list of names that a field has in the file, several if it has
    # alternatives.

    def _named(self, field: str, name: str) -> Decoder | str | None:
        for one in (field, name, extension(name)):
            if one in self.decoders:
                return self.decoders[one]
        return None

    def _unlike(self, field: str, stored: Sequence[str]) -> UsageError:
        return UsageError(f"field {field} is read from {' or '.join(stored)}, which are decoded "
                          "differently; give one function for them: "
                          f"decoders={{{field!r}: function}}")

    def decoder(self, field: str, stored: Sequence[str]) -> Decoder | str | None:
        """Returns the Python decoder of a field, if it has one."""
        named = [self._named(field, name) for name in stored]
        found = [None if isinstance(one, str) and one not in DECODERS else one for one in named]
        if any(one != found[0] for one in found):
            raise self._unlike(field, stored)
        return found[0]

    def codec(self, field: str, stored: Sequence[str]) -> str | None:
        """Returns the native codec of a field if it is not that of its name."""
        foreign = self.fallback is not None and self.decode is True
        found: list[str | None] = []
        for name in stored:
            named = self._named(field, name)
            if named is None and foreign and extension(name) in FOREIGN:
                named = "image"
            found.append(named if isinstance(named, str) and named not in DECODERS else None)
        if all(one == found[0] for one in found):
            return found[0]
        if all(one == "image" or extension(name) in IMAGES for one, name in zip(found, stored)):
            return "image"
        raise self._unlike(field, stored)

    def is_image(self, field: str, stored: Sequence[str]) -> bool:
        """Whether a field is decoded natively as an image."""
        codec = self.codec(field, stored)
        if codec is not None:
            return codec in IMAGES
        return (self.decode is True and self.decoder(field, stored) is None
                and all(extension(name) in IMAGES for name in stored))

    def plan(self, field: str, stored: Sequence[str]) -> Plan:
        """Returns how a field is decoded."""
        decoder, codec = self.decoder(field, stored), self.codec(field, stored)
        if decoder is not None:
            return DECODERS[decoder] if isinstance(decoder, str) else decoder
        image = self.is_image(field, stored)
        if codec is not None or (image and self.fallback is not None):
            fallback = None
            if image and self.fallback is not None:
                fallback = Fallback(self.fallback, self.exif)
            return Native(field, codec or stored[0], self.exif and image, fallback)
        if self.decode is False:
            return "view"
        if self.decode == "bytes":
            return "bytes"
        if not image and self.images == "pil" and any(extension(name) in IMAGES for name in stored):
            raise self._unlike(field, stored)
        return ("upright" if self.exif else "image") if image else "decode"

    def finish(self, field: str, stored: Sequence[str], plan: Plan) -> Callable[[Any], Any] | None:
        """Returns the last conversion of a field's value."""
        if plan in ("view", "bytes"):
            return None
        if self.images == "pil" and self.is_image(field, stored):
            return to_pil
        return to_torch if self.array_type == "torch" else None

