"""Decoding of fields: which Python object a field becomes, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from . import _tarn
from .errors import UsageError

__all__ = ["DECODERS", "Decoder", "Reading"]

Decoder = Callable[[bytes], Any]
Plan = Union[str, Decoder]

IMAGES = frozenset({"image", "img", "jpeg", "jpg", "pgm", "png", "ppm", "webp"})


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

    __slots__ = ("array_type", "decode", "decoders", "images")

    def __init__(self, decode: bool | str = True, images: str = "numpy", array_type: str = "numpy",
                 decoders: Mapping[str, Decoder | str] | None = None) -> None:
        if not isinstance(decode, bool) and decode != "bytes":
            raise UsageError(f'decode must be True, False or "bytes", not {decode!r}')
        if images not in ("numpy", "pil"):
            raise UsageError(f'images must be "numpy" or "pil", not {images!r}')
        if array_type not in ("numpy", "torch"):
            raise UsageError(f'array_type must be "numpy" or "torch", not {array_type!r}')
        if decoders is not None and not isinstance(decoders, Mapping):
            raise UsageError(f"decoders must be a dict of functions by field, not {decoders!r}")
        for name, decoder in (decoders or {}).items():
            if not callable(decoder) and decoder not in tuple(DECODERS):
                raise UsageError(f"decoders[{name!r}] must be a function or one of "
                                 + ", ".join(DECODERS))
        self.decode = decode
        self.images = images
        self.array_type = array_type
        self.decoders = dict(decoders or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash((self.decode, self.images, self.array_type))

    def __reduce__(self) -> tuple[Any, ...]:
        return Reading, self.parts()

    def parts(self) -> tuple[Any, ...]:
        return self.decode, self.images, self.array_type, self.decoders

    def plan(self, field: str, stored: Sequence[str]) -> Plan:
        """Returns how a field is decoded. stored: its names in the file, several if it has
        alternatives."""
        given = self.decoders.get(field)
        plans = [self._plan_of(name) if given is None else given for name in stored]
        plan = plans[0]
        if any(other != plan for other in plans):
            if self.images == "pil" or any(other not in ("image", "decode") for other in plans):
                raise UsageError(f"field {field} is read from {' or '.join(stored)}, which are decoded "
                                 "differently; give one function for them: "
                                 f"decoders={{{field!r}: function}}")
            plan = "decode"
        if isinstance(plan, str) and given is not None:
            return DECODERS[plan]
        return plan

    def _plan_of(self, name: str) -> Plan:
        """Returns how a field of the file is decoded, by its name."""
        last = extension(name)
        decoder = self.decoders.get(name, self.decoders.get(last))
        if decoder is not None:
            return DECODERS[decoder] if isinstance(decoder, str) else decoder
        if self.decode is False:
            return "view"
        if self.decode == "bytes":
            return "bytes"
        return "image" if last in IMAGES else "decode"

    def finish(self, field: str, plan: Plan) -> Callable[[Any], Any] | None:
        """Returns the last conversion of a field's value."""
        if plan in ("view", "bytes"):
            return None
        if plan == "image" and self.images == "pil":
            return to_pil
        return to_torch if self.array_type == "torch" else None

