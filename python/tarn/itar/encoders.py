"""Encoding and decoding of iTar fields, by extension.

>>> JSON.encoder()([1, None]), CLS.decoder()(b" 7")
(b'[1, null]', 7)

`DEFAULT_ENCODERS` and `DEFAULT_DECODERS` hold an object for each extension. A program can add its
own formats to them; writers and datasets that are created later use them:

>>> from tarn.itar.encoders import DEFAULT_DECODERS, DEFAULT_ENCODERS
>>> class Upper(EncoderDecoder):
...     def _encode(self, obj):
...         return obj.upper().encode()
...     def _decode(self, data):
...         return data.decode().lower()
>>> DEFAULT_ENCODERS["up"], DEFAULT_DECODERS["up"] = Upper.encoder(), Upper.decoder()
>>> decoder_for("caption.up")(encoder_for("up")("kea"))
'kea'

The library encodes and decodes arrays, run lengths and label images. As in glzn, encoders are
chosen by the whole extension, and decoders by its last part. Pickles can be written, but they are
read only if the program allows it: decoders={"pkl": "pickle"}, or TARN_ALLOW_PICKLE=1 in the
environment.
"""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from .. import _tarn
from .._policy import pickles_allowed
from ..errors import FormatError, TruncatedError
from .itar.fold import PSEUDO, iTarFold
from .itar.utils import stripext

if TYPE_CHECKING:
    from typing import Self

    DEFAULT_DECODERS: dict[str, Callable[[Any], Any]]
    DEFAULT_ENCODERS: dict[str, Callable[[Any], Any]]

__all__ = ["CLS", "DEFAULT_DECODERS", "DEFAULT_ENCODERS", "JSON", "MAT", "NPY", "PIL", "PKL", "RLE",
           "SEG16", "SEG24", "SEG32", "SEG8", "TXT", "EncoderDecoder", "PseudoExtension",
           "decoder_for", "encoder_for", "iTarFold", "stripext"]


def spelled(extension: str) -> str:
    """Returns an extension in the form that the library takes, which drops one leading dot."""
    return "." + extension if extension.startswith(".") else extension


class EncoderDecoder:
    """Base class of the formats: a function that encodes objects or decodes bytes, by its mode.

    Subclasses define `_encode`, `_decode` and, for `supports`, `supported_extensions`, a
    collection of extensions with their dots.

    mode: "encode" or "decode"; the methods `encoder` and `decoder` create such an object.
    """

    def __init__(self, mode: str, default_to_identity: bool = False) -> None:
        if mode not in ("encode", "decode"):
            raise AssertionError(f"mode must be 'encode' or 'decode' (found {mode!r})")
        self.supported_extensions: Collection[str] | None = None
        self._mode = mode
        self._bit8, self._bit16, self._bit24 = 2**8, 2**16, 2**24
        self._default_tv: str | None = None
        self._default_to_identity = default_to_identity

    def supports(self, filepath: str) -> bool:
        """Whether the extension of a path is one of supported_extensions; there need not be a
        file.

        >>> NPY.decoder().supports("birds/auk.npy"), NPY.decoder().supports("auk.txt")
        (True, False)
        """
        if self.supported_extensions is None:
            raise AssertionError(f"{type(self).__name__} has no supported_extensions")
        return os.path.splitext(filepath)[1] in self.supported_extensions

    def _encode(self, obj: Any) -> bytes:
        raise NotImplementedError(f"{type(self).__name__} does not define _encode")

    def _decode(self, data: bytes) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _decode")

    def __call__(self, x: Any) -> Any:
        return self._encode(x) if self._mode == "encode" else self._decode(x)

    @classmethod
    def encoder(cls) -> Self:
        """Returns an object that encodes."""
        return cls("encode")

    @classmethod
    def decoder(cls) -> Self:
        """Returns an object that decodes."""
        return cls("decode")


class _Format(EncoderDecoder):
    """A format with fixed extensions."""

    _extensions: dict[str, str] = {}
    _kind = "other"
    _identity = False

    def __init__(self, mode: str) -> None:
        super().__init__(mode, self._identity)
        self.supported_extensions = dict(self._extensions)
        self._default_tv = self._kind


class PIL(EncoderDecoder):
    """Pillow images, saved in their own format. Decoding returns the mode convert_to, RGB if it is
    not given, and with None the mode of the file."""

    def __init__(self, mode: str, convert_to: str | None = "RGB") -> None:
        import PIL.Image

        super().__init__(mode)
        self.supported_extensions = PIL.Image.registered_extensions()
        self.convert_to = convert_to
        self._default_tv = "image"

    def _encode(self, obj: Any) -> bytes:
        if getattr(obj, "format", None) is None:
            raise AssertionError("PIL: needs an image whose format is set")
        with io.BytesIO() as out:
            obj.save(out, format=obj.format)
            return out.getvalue()

    def _decode(self, data: bytes) -> Any:
        import PIL.Image

        image = PIL.Image.open(io.BytesIO(data))
        return image if self.convert_to is None else image.convert(self.convert_to)


class CLS(_Format):
    """A number as text."""

    _extensions = {".cls": "number of a class"}
    _identity = True

    def _encode(self, obj: Any) -> bytes:
        return f"{obj}".encode()

    def _decode(self, data: bytes) -> int:
        return int(data)


class TXT(_Format):
    """Text as UTF-8."""

    _extensions = {".txt": "text in UTF-8"}
    _identity = True

    def _encode(self, obj: Any) -> bytes:
        if not isinstance(obj, str):
            raise AssertionError(f"TXT: needs a str, not {type(obj).__name__}")
        return obj.encode("utf-8")

    def _decode(self, data: bytes) -> str:
        return data.decode("utf-8")


class JSON(_Format):
    """Values that JSON can represent."""

    _extensions = {".json": "JSON"}

    def _encode(self, obj: Any) -> bytes:
        return json.dumps(obj).encode("utf-8")

    def _decode(self, data: bytes) -> Any:
        return json.loads(data)


class NPY(_Format):
    """Arrays as .npy files. Arrays of objects can be written, but not read."""

    _extensions = {".npy": "NumPy array"}

    def _encode(self, obj: Any) -> bytes:
        import numpy

        array = numpy.asanyarray(obj)
        if array.dtype.kind in "biufcSU" and array.dtype.char not in "gG":
            return _tarn.encode("npy", array)
        with io.BytesIO() as out:
            numpy.save(out, array)
            return out.getvalue()

    def _decode(self, data: bytes) -> Any:
        import numpy

        return numpy.load(io.BytesIO(data), allow_pickle=False)


def _encode_array(name: str, obj: Any) -> bytes:
    """Encodes an array with the library, which would write text unchanged."""
    if isinstance(obj, str):
        raise TypeError(f"field .{name} needs an array, not str")
    return _tarn.encode(name, obj)


class RLE(_Format):
    """Integer arrays of any shape as run lengths."""

    _extensions = {".rle": "run lengths"}
    _kind = "mask"

    def _encode(self, obj: Any) -> bytes:
        return _encode_array("rle", obj)

    def _decode(self, data: bytes) -> Any:
        return _tarn.decode("rle", data)


class _Labels(_Format):
    """Labels [height, width] in a PNG. Pillow reads and converts any other image."""

    _name = ""
    _dtype = "uint32"
    _kind = "mask"
    _mode_of_pillow = ""

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.supported_extensions = {f".{self._name}": f"labels of {self._name[3:]} bits in a PNG"}

    def _encode(self, obj: Any) -> bytes:
        dtype = getattr(obj, "dtype", None)
        if dtype is not None and dtype != self._dtype:
            raise AssertionError(f"{type(self).__name__}: needs an array of {self._dtype}, not "
                                 f"{dtype}")
        return _encode_array(self._name, obj)

    def _decode(self, data: bytes) -> Any:
        try:
            return _tarn.decode(self._name, data)
        except TruncatedError:
            raise
        except FormatError as error:
            return self._converted(data, error)

    def _converted(self, data: bytes, error: FormatError) -> Any:
        import numpy

        try:
            import PIL.Image
        except ImportError:
            raise error from None
        with PIL.Image.open(io.BytesIO(data)) as image:
            pixels = numpy.array(image.convert(self._mode_of_pillow))
        if pixels.ndim == 2:
            return pixels
        labels = pixels[..., 0].astype(self._dtype)
        for channel in range(1, pixels.shape[2]):
            labels = labels << 8 | pixels[..., channel]
        return labels


class SEG8(_Labels):
    """Labels of 8 bits."""

    _name, _dtype, _mode_of_pillow = "seg8", "uint8", "L"


class SEG16(_Labels):
    """Labels of 16 bits."""

    _name, _dtype, _mode_of_pillow = "seg16", "uint16", "I;16"


class SEG24(_Labels):
    """Labels of 24 bits, as uint32."""

    _name, _mode_of_pillow = "seg24", "RGB"


class SEG32(_Labels):
    """Labels of 32 bits."""

    _name, _mode_of_pillow = "seg32", "RGBA"


class MAT(_Format):
    """Dicts as MATLAB files, with SciPy."""

    _extensions = {".mat": "MATLAB file"}

    def _encode(self, obj: Any) -> bytes:
        from scipy.io import savemat  # type: ignore[import-not-found,import-untyped,unused-ignore]

        with io.BytesIO() as out:
            savemat(out, obj)
            return out.getvalue()

    def _decode(self, data: bytes) -> Any:
        from scipy.io import loadmat  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return loadmat(io.BytesIO(data))


class PKL(_Format):
    """Any object. Reading a pickle can run code, so the program must allow it."""

    _extensions = {".pkl": "pickled object"}

    def _encode(self, obj: Any) -> bytes:
        return pickle.dumps(obj)

    def _decode(self, data: bytes) -> Any:
        if not pickles_allowed():
            raise ValueError("reading a pickle can run code; if you trust the data, pass "
                             "decoders={'pkl': 'pickle'} to the dataset, or set "
                             "TARN_ALLOW_PICKLE=1 for the whole program")
        return pickle.loads(data)


class PseudoExtension(_Format):
    """Pseudo extensions `_idx`, `_name`, `_stem` and `_fid`, which have no bytes in the files."""

    _valid_pseudo_extensions = PSEUDO
    _extensions = {"_idx": "number of the sample", "_name": "stem of the sample",
                   "_stem": "stem of the sample", "_fid": "number of the shard"}
    _identity = True

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        if mode == "encode":
            raise ValueError("PseudoExtension: pseudo extensions are not stored in the files")


# --- Tables -------------------------------------------------------------------------------------

_FORMATS: tuple[type[_Format], ...] = (CLS, PseudoExtension, RLE, SEG8, SEG16, SEG24, SEG32, JSON,
                                       NPY, MAT, PKL, TXT)
_MODES = {"DEFAULT_DECODERS": "decode", "DEFAULT_ENCODERS": "encode"}


def _formats(mode: str) -> dict[str, EncoderDecoder]:
    made = [each(mode) for each in _FORMATS if mode == "decode" or each is not PseudoExtension]
    return {stripext(name): each for each in made for name in each.supported_extensions or ()}


_PLAIN = {mode: _formats(mode) for mode in _MODES.values()}


def __getattr__(name: str) -> Any:
    """Makes the tables when they are first used, because they need Pillow's formats."""
    if name not in _MODES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    mode = _MODES[name]
    table: dict[str, EncoderDecoder] = {}
    try:
        images = PIL(mode)
    except ImportError:  # there is no Pillow, and so there are no images
        pass
    else:
        table.update(dict.fromkeys(map(stripext, images.supported_extensions or ()), images))
    table.update(_PLAIN[mode])
    globals()[name] = table
    return table


def _found(name: str, extension: str) -> Callable[[Any], Any]:
    table = globals().get(name)
    if table is None:
        plain = _PLAIN[_MODES[name]].get(extension)
        table = {extension: plain} if plain else __getattr__(name)
    if extension not in table:
        verb = _MODES[name].removesuffix("e") + "er"
        raise KeyError(f"there is no {verb} for the extension {extension!r}; add one to {name}")
    coder: Callable[[Any], Any] = table[extension]
    return coder


def is_plain(coder: Callable[[Any], Any]) -> bool:
    """Whether an encoder is one of this module."""
    return type(coder) is PIL or type(coder) in _FORMATS


def encoder_for(extension: str) -> Callable[[Any], bytes]:
    """Returns the encoder of a whole extension; raises KeyError if there is none."""
    return _found("DEFAULT_ENCODERS", extension)


def decoder_for(extension: str) -> Callable[[bytes], Any]:
    """Returns the decoder of an extension, by its last dotted part; raises KeyError if there is
    none.

    >>> decoder_for("caption.txt")(b"a bird")
    'a bird'
    """
    return _found("DEFAULT_DECODERS", extension.rpartition(".")[2])
