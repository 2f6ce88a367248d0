"""Decoding of sample fields by their names.

Pickles, which can run code when they are read, are decoded only if they are named
(`.decode("pickle")`, `.decode("torch_load")`, or a custom handler) or allowed for the whole program.
Torch files are read with weights_only=True otherwise.
"""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import utils
from .. import _tarn
from .._policy import NotAllowedError, pickles_allowed
from ..errors import shown

FieldHandler = Callable[[str, Any], Any]

pytorch_weights_only = os.environ.get("WDS_PYTORCH_WEIGHTS_ONLY", "0") == "1"

IMAGE_EXTENSIONS = (
    "blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib h5 hdf png "
    "apng jp2 j2k jpc jpf jpx j2c icns ico im iim tif tiff jfif jpe jpg jpeg mpg mpeg msp pcd "
    "pxr pbm pgm ppm pnm psd bw rgb rgba sgi ras tga icb vda vst webp wmf emf xbm xpm").split()


_ALLOW = "tarn.wds.allow_pickles() or TARN_ALLOW_PICKLE=1"


class _Nothing:
    """Returned by a decoder whose value is None (JSON null); None itself means "not handled"."""


class Continue:
    """Returned by a handler to continue decoding with another name and other bytes."""

    def __init__(self, key: str, data: Any) -> None:
        self.key, self.data = key, data


class DecodingError(Exception):
    """A field that could not be decoded; `__cause__` is the original exception."""

    def __init__(self, url: Any = None, key: Any = None, k: Any = None,
                 sample: Any = None) -> None:
        super().__init__(None if url is None else shown(url), key, k)
        self.url, self.key, self.k, self.sample = url, key, k, sample

    def __str__(self) -> str:
        why = f": {self.__cause__}" if self.__cause__ is not None else ""
        return f"{self.args[0]}: sample {self.key}: field {self.k}{why}"


def _extension(key: str) -> str:
    return key.rpartition(".")[2]


# --- Basic fields ---------------------------------------------------------------------------


def torch_loads(data: bytes) -> Any:
    """Loads bytes with torch.load, which may run code unless WDS_PYTORCH_WEIGHTS_ONLY=1."""
    if utils.enforce_security:
        raise NotAllowedError("torch.loads is not allowed for security reasons when "
                              "enforce_security is set (WDS_SECURE)")
    import torch

    return torch.load(io.BytesIO(data), weights_only=pytorch_weights_only, map_location="cpu")


def _weights_loads(data: bytes) -> Any:
    """Loads a .pth field without running code, unless the program allows pickles."""
    if utils.enforce_security or pickles_allowed():
        return torch_loads(data)
    import torch

    try:
        return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        if "GLOBAL" not in str(error):
            raise
        raise NotAllowedError(f"the .pth field needs code to be read; if you trust the data, use "
                              f"decode('torch_load') or {_ALLOW} ({error})") from None


def unpickle_loads(data: bytes) -> Any:
    """Unpickles bytes; this may run code."""
    if utils.enforce_security:
        raise NotAllowedError("Unpickling is not allowed for security reasons when "
                              "enforce_security is set (WDS_SECURE)")
    return pickle.loads(data)


def tenbin_loads(data: bytes) -> Any:
    """Returns the arrays of a tenbin field as a list."""
    found = _tarn.decode("ten", data)
    return found if isinstance(found, list) else [found]


def msgpack_loads(data: bytes) -> Any:
    """Decodes bytes with msgpack.unpackb."""
    import msgpack  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return msgpack.unpackb(data)


def cbor_loads(data: bytes) -> Any:
    """Decodes bytes with cbor.loads."""
    import cbor  # type: ignore[import-not-found,unused-ignore]

    return cbor.loads(data)


def npy_loads(data: bytes) -> Any:
    """Returns the array of an .npy file; pickled objects are refused."""
    import numpy.lib.format

    return numpy.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def npz_loads(data: bytes) -> dict[str, Any]:
    """Returns the arrays of an .npz file."""
    import numpy

    return dict(numpy.load(io.BytesIO(data)))


def _text(data: bytes) -> str:
    return data.decode("utf-8")


decoders: dict[str, Callable[[bytes], Any]] = {
    "txt": _text, "text": _text, "transcript": _text, "cls": int, "cls2": int, "index": int,
    "inx": int, "id": int, "json": json.loads, "jsn": json.loads, "ten": tenbin_loads,
    "pkl": unpickle_loads, "pickle": unpickle_loads, "pyd": unpickle_loads, "pth": _weights_loads,
    "tb": tenbin_loads, "mp": msgpack_loads, "msg": msgpack_loads, "npy": npy_loads,
    "npz": npz_loads, "cbor": cbor_loads,
}


def basichandlers(key: str, data: bytes) -> Any:
    """Decodes text, numbers, JSON and arrays. For pickles, raises an error that says how to allow
    them."""
    extension = _extension(key)
    decoder = decoders.get(extension)
    if decoder is None:
        return None
    if decoder is unpickle_loads and not pickles_allowed():
        raise NotAllowedError(f"reading a .{extension} field can run code; if you trust the data, "
                              f"use decode('pickle') or {_ALLOW}")
    value = decoder(data)
    return _Nothing if value is None else value


# --- Handlers by extension --------------------------------------------------------------------


def call_extension_handler(key: str, data: Any, f: Callable[[Any], Any],
                           extensions: Iterable[str]) -> Any:
    """Returns f(data) if the name ends in one of the extensions, else None."""
    parts = key.lower().split(".")
    for extension in extensions:
        wanted = extension.split(".")
        if parts[-len(wanted):] == wanted:
            return f(data)
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> FieldHandler:
    """Returns a handler for space-separated extensions; "seg.png" matches only that full ending.

    >>> handle_extension("csv tsv", bytes.split)(".csv", b"a b")
    [b'a', b'b']
    """
    return functools.partial(call_extension_handler, f=f, extensions=extensions.lower().split())


unpickle = handle_extension("pkl pickle pyd", unpickle_loads)
torch_load = handle_extension("pth", torch_loads)


def gzfilter(key: str, data: bytes) -> Continue | None:
    """Decompresses .gz fields and continues with the contents."""
    if not key.endswith(".gz"):
        return None
    import gzip

    return Continue(key[:-3], gzip.decompress(data))


# --- Images ---------------------------------------------------------------------------------

imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{mode + "8": ("numpy", "uint8", mode) for mode in ("l", "rgb", "rgba")},
    **{mode: ("numpy", "float", mode) for mode in ("l", "rgb", "rgba")},
    **{f"torch{mode}8": ("torch", "uint8", mode) for mode in ("l", "rgb", "rgba")},
    **{f"torch{mode}": ("torch", "float", mode) for mode in ("l", "rgb", "rgba")},
    "torch": ("torch", "float", "rgb"),
    **{f"pil{mode}": ("pil", None, mode) for mode in ("l", "rgb", "rgba")},
    "pil": ("pil", None, "rgb"),
}


class ImageHandler:
    """Decodes images. The spec is "pil", "pilrgba", "rgb8" (NumPy, uint8), "rgb" (NumPy, floats
    from 0 to 1), "torchrgb" (channels first), or the same with l or rgba."""

    def __init__(self, imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> None:
        if imagespec not in imagespecs:
            raise ValueError(f"Unknown imagespec: {imagespec}")
        self.imagespec = imagespec
        self.extensions = set(extensions)

    def __call__(self, key: str, data: bytes) -> Any:
        if _extension(key).lower() not in self.extensions:
            return None
        import PIL.Image

        library, kind, mode = imagespecs[self.imagespec]
        with PIL.Image.open(io.BytesIO(data)) as opened:
            image = opened.convert(mode.upper())
        if library == "pil":
            return image
        import numpy as np

        pixels: Any = np.asarray(image)
        if kind == "float":
            pixels = pixels.astype(np.float32) / 255.0
        if library == "numpy":
            return pixels
        import torch

        return torch.from_numpy((pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels).copy())


def imagehandler(imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> ImageHandler:
    """Returns the handler for an image spec."""
    return ImageHandler(imagespec, extensions)


def named_handler(name: str) -> FieldHandler:
    """Returns the handler for a string given to decode(): an image spec, "pickle" or
    "torch_load"."""
    special = {"pickle": unpickle, "torch_load": torch_load}
    return special[name] if name in special else ImageHandler(name)


# --- Audio and video --------------------------------------------------------------------------


def _through_a_file(extension: str, data: bytes, load: Callable[[str], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file." + extension)
        with open(path, "wb") as file:
            file.write(data)
        return load(path)


def torch_video(key: str, data: bytes) -> Any:
    """Decodes videos with torchvision."""
    if _extension(key) not in "mp4 ogv mjpeg avi mov h264 mpg webm wmv".split():
        return None
    import torchvision.io  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return _through_a_file(_extension(key), data,
                           lambda path: torchvision.io.read_video(path, pts_unit="sec"))


def torch_audio(key: str, data: bytes) -> Any:
    """Decodes audio with torchaudio."""
    if _extension(key) not in "flac mp3 sox wav m4a ogg wma".split():
        return None
    import torchaudio  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return _through_a_file(_extension(key), data, torchaudio.load)


# --- Whole samples ----------------------------------------------------------------------------

def _metadata(value: Any) -> Any:
    """Decodes bytes as UTF-8 text if possible."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


default_pre_handlers: list[FieldHandler] = [gzfilter]
default_post_handlers: list[FieldHandler] = [basichandlers]


class Decoder:
    """Decodes the fields of a sample with the first handler that returns a value.

    >>> Decoder([])({"__key__": "a", "cls": b"3", "x.json": b"null", "bin": b"?"})
    {'__key__': 'a', 'cls': 3, 'x.json': None, 'bin': b'?'}

    only: the fields to decode, as a list or a space-separated string; the others stay bytes.
    partial: leave values that are not bytes unchanged.
    """

    def __init__(self, handlers: Sequence[FieldHandler], pre: Sequence[FieldHandler] | None = None,
                 post: Sequence[FieldHandler] | None = None,
                 only: str | Iterable[str] | None = None, partial: bool = False) -> None:
        assert isinstance(handlers, list), f"handlers = {handlers} must be a list"
        self.only = None if only is None else set(only.split() if isinstance(only, str) else only)
        pre = default_pre_handlers if pre is None else pre
        post = default_post_handlers if post is None else post
        self.handlers = [*pre, *handlers, *post]
        assert all(map(callable, self.handlers)), f"one of {self.handlers} not callable"
        self.partial = partial

    def decode1(self, key: str, data: Any) -> Any:
        """Decodes one field."""
        key = "." + key
        for handler in self.handlers:
            result = handler(key, data)
            if isinstance(result, Continue):
                key, data = result.key, result.data
            elif result is _Nothing:
                return None
            elif result is not None:
                return result
        return data

    def _field(self, name: str, value: Any) -> Any:
        if name[:2] == "__":
            return _metadata(value)
        if self.only is not None and name not in self.only:
            return value
        if not isinstance(value, bytes):
            assert self.partial and value is not None, f"k,v = {name}, {value}"
            return value
        return self.decode1(name, value)

    def decode(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Decodes all fields; raises DecodingError for the first one that fails."""
        assert isinstance(sample, dict), sample
        result = {}
        for name, value in sample.items():
            try:
                result[name] = self._field(name, value)
            except Exception as error:
                raise DecodingError(url=sample.get("__url__"), key=sample.get("__key__"), k=name,
                                    sample=sample) from error
        return result

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        return self.decode(sample)


default_decoder = Decoder(default_pre_handlers + default_post_handlers)
