"""Encoding and decoding of iTar fields, by extension.

>>> encoder_for("json")([1, None]), decoder_for("cls")(b" 7")
(b'[1, null]', 7)

The library encodes and decodes arrays, run lengths and label images. As in glzn, encoders are
chosen by the whole extension, and decoders by its last part. Pickles can be written, but they are
read only with `PickleCodec(trusted=True)`.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from typing import Any

from .. import _tarn
from ..errors import FormatError

__all__ = ["ClassCodec", "Codec", "ImageCodec", "JsonCodec", "LabelCodec", "MatlabCodec",
           "NumpyCodec", "PickleCodec", "PseudoCodec", "RunLengthCodec", "TextCodec", "decoder_for",
           "encoder_for"]

PSEUDO = ("_idx", "_name", "_stem", "_fid")


def spelled(extension: str) -> str:
    """Returns an extension in the form that the library takes, which drops one leading dot."""
    return "." + extension if extension.startswith(".") else extension


class Codec:
    """Encoder and decoder of one kind of field."""

    def encode(self, obj: Any) -> bytes:
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError


class ImageCodec(Codec):
    """Pillow images, saved in their own format; decoding returns RGB."""

    def encode(self, obj: Any) -> bytes:
        assert getattr(obj, "format", None), "needs an image whose format is set"
        with io.BytesIO() as out:
            obj.save(out, format=obj.format)
            return out.getvalue()

    def decode(self, data: bytes) -> Any:
        import PIL.Image

        with PIL.Image.open(io.BytesIO(data)) as image:
            return image.convert("RGB")


class ClassCodec(Codec):
    """A number as text."""

    def encode(self, obj: Any) -> bytes:
        return str(obj).encode("utf-8")

    def decode(self, data: bytes) -> int:
        return int(bytes(data).decode("utf-8"))


class TextCodec(Codec):
    """Text as UTF-8."""

    def encode(self, obj: Any) -> bytes:
        assert isinstance(obj, str), f"needs a str, not {type(obj).__name__}"
        return obj.encode("utf-8")

    def decode(self, data: bytes) -> str:
        return bytes(data).decode("utf-8")


class JsonCodec(Codec):
    """Values that JSON can represent."""

    def encode(self, obj: Any) -> bytes:
        return json.dumps(obj).encode("utf-8")

    def decode(self, data: bytes) -> Any:
        return json.loads(bytes(data))


class NumpyCodec(Codec):
    """Arrays as .npy files. Arrays of objects can be written, but not read."""

    def encode(self, obj: Any) -> bytes:
        import numpy

        array = numpy.asanyarray(obj)
        if array.dtype.kind in "biufcSU" and array.dtype.char not in "gG":
            return _tarn.encode("npy", array)
        with io.BytesIO() as out:
            numpy.save(out, array)
            return out.getvalue()

    def decode(self, data: bytes) -> Any:
        import numpy

        return numpy.load(io.BytesIO(data), allow_pickle=False)


def _encode_array(name: str, obj: Any) -> bytes:
    """Encodes an array with the library, which would write text unchanged."""
    if isinstance(obj, str):
        raise TypeError(f"field .{name} needs an array, not str")
    return _tarn.encode(name, obj)


class RunLengthCodec(Codec):
    """Integer arrays of any shape as run lengths."""

    def encode(self, obj: Any) -> bytes:
        return _encode_array("rle", obj)

    def decode(self, data: bytes) -> Any:
        return _tarn.decode("rle", bytes(data))


class LabelCodec(Codec):
    """Labels [height, width] in a PNG with 8, 16, 24 or 32 bits. With 8 bits any image can be
    read; Pillow converts it to grey if necessary."""

    def __init__(self, bits: int) -> None:
        self.name = f"seg{bits}"

    def encode(self, obj: Any) -> bytes:
        return _encode_array(self.name, obj)

    def decode(self, data: bytes) -> Any:
        try:
            return _tarn.decode(self.name, bytes(data))
        except FormatError as error:
            if self.name != "seg8":
                raise
            return _grey(data, error)


def _grey(data: bytes, error: FormatError) -> Any:
    import numpy

    try:
        import PIL.Image

        with PIL.Image.open(io.BytesIO(data)) as image:
            return numpy.array(image.convert("L"))
    except (ImportError, OSError, SyntaxError):
        raise error from None


class MatlabCodec(Codec):
    """Dicts as MATLAB files, with SciPy."""

    def encode(self, obj: Any) -> bytes:
        from scipy.io import savemat  # type: ignore[import-not-found,import-untyped,unused-ignore]

        with io.BytesIO() as out:
            savemat(out, obj)
            return out.getvalue()

    def decode(self, data: bytes) -> Any:
        from scipy.io import loadmat  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return loadmat(io.BytesIO(data))


class PickleCodec(Codec):
    """Any object. Reading a pickle can run code, so it must be marked as trusted."""

    def __init__(self, trusted: bool = False) -> None:
        self.trusted = trusted

    def encode(self, obj: Any) -> bytes:
        return pickle.dumps(obj)

    def decode(self, data: bytes) -> Any:
        if not self.trusted:
            raise ValueError("reading a pickle can run code; if you trust the data, pass "
                             "decoders={'pkl': 'pickle'}, or use PickleCodec(trusted=True)")
        return pickle.loads(data)


class PseudoCodec(Codec):
    """Pseudo extensions `_idx`, `_name`, `_stem` and `_fid`, which have no bytes in the files."""

    def encode(self, obj: Any) -> bytes:
        raise TypeError("pseudo extensions are not stored in the files")

    def decode(self, data: bytes) -> Any:
        raise TypeError("pseudo extensions are not stored in the files")


CODECS: dict[str, Codec] = {
    "cls": ClassCodec(), "txt": TextCodec(), "json": JsonCodec(), "npy": NumpyCodec(),
    "rle": RunLengthCodec(), "mat": MatlabCodec(), "pkl": PickleCodec(),
    **{f"seg{bits}": LabelCodec(bits) for bits in (8, 16, 24, 32)},
    **dict.fromkeys(PSEUDO, PseudoCodec()),
}


def is_image(extension: str) -> bool:
    try:
        import PIL.Image
    except ImportError:
        return False
    return "." + extension in PIL.Image.registered_extensions()


def _codec(extension: str) -> Codec:
    codec = CODECS.get(extension)
    if codec is None and is_image(extension):
        codec = CODECS.setdefault(extension, ImageCodec())
    if codec is None:
        raise KeyError(extension)
    return codec


def encoder_for(extension: str) -> Callable[[Any], bytes]:
    """Returns the encoder of a whole extension; raises KeyError if there is none."""
    if extension in PSEUDO:
        raise KeyError(extension)
    return _codec(extension).encode


def decoder_for(extension: str) -> Callable[[bytes], Any]:
    """Returns the decoder of an extension, by its last dotted part; raises KeyError if there is
    none.

    >>> decoder_for("caption.txt")(b"a bird")
    'a bird'
    """
    return _codec(extension.rpartition(".")[2]).decode
