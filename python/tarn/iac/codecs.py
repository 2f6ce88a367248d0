"""Codecs for payloads: from object to bytes and back. `VariableRecordPack` uses the codec that the
header names."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from .. import _tarn

# A payload may expand to this many times its size, or to this many bytes if that is more.
_EXPANSION = 10_000
_FREE_BYTES = 16 << 20


def positive(workers: int | None) -> int | None:
    """Returns a number of threads after checking it; None stands for the default."""
    if workers is None:
        return None
    if isinstance(workers, bool) or not hasattr(workers, "__index__"):
        raise TypeError("workers must be a positive integer or None")
    if operator.index(workers) <= 0:
        raise ValueError("workers must be a positive integer or None")
    return operator.index(workers)


def in_threads(work: Callable[[Any], Any], things: Iterable[Any], workers: int) -> list[Any]:
    """Returns the results in order; with more than one worker, threads do the work."""
    if workers == 1:
        return [work(thing) for thing in things]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(work, things))


class _Kind(type):
    """Makes every object with a name, `encode` and `decode` an instance of `Codec`."""

    def __instancecheck__(cls, thing: Any) -> bool:
        if cls is not Codec:
            return super().__instancecheck__(thing)
        return (isinstance(getattr(thing, "name", None), str) and
                callable(getattr(thing, "encode", None)) and
                callable(getattr(thing, "decode", None)))


class Codec(metaclass=_Kind):
    """Base class and registry of codecs. Objects with a `name`, `encode` and `decode` are
    instances, too.

    A custom codec has a `name`, `encode` and `decode`, and `parameters` if the header must store
    some. `Codec.register(name, factory)` makes it available to record packs.

    >>> from tarn.iac import Codec
    >>> codec = Codec.create(Codec.ZSTD, level=3)
    >>> codec.decode(codec.encode(b"some text")), codec.parameters()
    (b'some text', {'level': 3})
    """

    NONE = "none"
    BROTLI = "brotli"
    ZSTD = "zstd"
    GZIP = "gzip"
    JXL = "jxl"
    JPEG = "jpeg"
    JPEG2000 = "jpeg2000"
    JPEGLS = "jpegls"
    name: str = ""

    _registered: ClassVar[dict[str, Callable[[dict[str, Any]], Any]]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def create(cls, name: str, /, **params: Any) -> Any:
        """Returns the codec with this name and the parameters of a header. Codecs for bytes and
        JPEG XL ignore unknown parameters, because headers of other writers may have more."""
        name = str(name)
        if name in _BUILT_IN:
            make, known = _BUILT_IN[name]
            return make(**{key: value for key, value in params.items() if key in known})
        if name in _IMAGES:
            return _images().create(name, params)
        with Codec._lock:
            factory = Codec._registered.get(name)
        if factory is None:
            raise ValueError(f"unknown codec: {name!r}")
        codec = factory(dict(params))
        if not isinstance(codec, Codec):
            raise TypeError(f"the factory of codec {name!r} returned {type(codec).__name__}, which "
                            "is not a codec; it needs name, encode and decode")
        if codec.name != name:
            raise ValueError(f"the factory of codec {name!r} returned a codec named {codec.name!r}")
        return codec

    @classmethod
    def register(cls, name: str, factory: Callable[[dict[str, Any]], Any], *,
                 replace: bool = False) -> None:
        """Registers a codec; `factory(params)` returns it."""
        name = str(name)
        if not name:
            raise ValueError("codec name must not be empty")
        if name in _BUILT_IN or name in _IMAGES:
            raise ValueError(f"cannot replace native codec: {name!r}")
        if not callable(factory):
            raise TypeError("codec factory must be callable")
        with Codec._lock:
            if name in Codec._registered and not replace:
                raise ValueError(f"codec is already registered: {name!r}")
            Codec._registered[name] = factory

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters that the header stores to create the codec again."""
        return {}

    def encode(self, obj: Any) -> bytes:
        raise NotImplementedError

    def decode(self, payload: Any) -> Any:
        raise NotImplementedError

    def encode_many(self, objects: Iterable[Any]) -> list[bytes]:
        return [self.encode(obj) for obj in objects]

    def decode_many(self, payloads: Iterable[Any]) -> list[Any]:
        return [self.decode(payload) for payload in payloads]


class _Bytes(Codec):
    """A codec of bytes, which decodes without the GIL."""

    def decode_many(self, payloads: Iterable[Any], *, workers: int | None = None) -> list[bytes]:
        """Decodes in order, with several threads if there are more than one `workers`."""
        return in_threads(self.decode, payloads, positive(workers) or 1)


class RawCodec(_Bytes):
    """Stores bytes unchanged."""

    name = "none"

    def encode(self, obj: Any) -> bytes:
        if not isinstance(obj, (bytes, bytearray, memoryview)):
            raise TypeError(f"RawCodec expects bytes, got {type(obj).__name__}")
        return bytes(obj)

    def decode(self, payload: Any) -> bytes:
        return bytes(payload)


class _Compressing(_Bytes):
    def decode(self, payload: Any) -> bytes:
        limit = max(len(payload) * _EXPANSION, _FREE_BYTES)
        return _tarn.iac_decode(self.name, payload, limit)


class BrotliCodec(_Compressing):
    """Brotli, with a quality from 0 to 11 and a window from 10 to 24."""

    name = "brotli"

    def __init__(self, quality: int = 11, lgwin: int = 24) -> None:
        self.quality = int(quality)
        self.lgwin = int(lgwin)
        if not 0 <= self.quality <= 11:
            raise ValueError(f"brotli quality must be in 0..=11, got {quality}")
        if not 10 <= self.lgwin <= 24:
            raise ValueError(f"brotli lgwin must be in 10..=24, got {lgwin}")

    def encode(self, obj: Any) -> bytes:
        return _tarn.iac_encode_brotli(self.quality, self.lgwin, obj)

    def parameters(self) -> dict[str, Any]:
        return {"quality": self.quality, "lgwin": self.lgwin}


class ZstdCodec(_Compressing):
    """Zstandard."""

    name = "zstd"

    def __init__(self, level: int = 19) -> None:
        self.level = int(level)

    def encode(self, obj: Any) -> bytes:
        return _tarn.iac_encode(self.name, self.level, obj)

    def parameters(self) -> dict[str, Any]:
        return {"level": self.level}


class GzipCodec(ZstdCodec):
    """gzip, which iatro-base-iac does not support."""

    name = "gzip"

    def __init__(self, level: int = 6) -> None:
        super().__init__(level)


_BUILT_IN: dict[str, tuple[Callable[..., Codec], tuple[str, ...]]] = {
    "none": (RawCodec, ()),
    "brotli": (BrotliCodec, ("quality", "lgwin")),
    "zstd": (ZstdCodec, ("level",)),
    "gzip": (GzipCodec, ("level",)),
}
_IMAGES = (Codec.JXL, Codec.JPEG, Codec.JPEG2000, Codec.JPEGLS)


def _images() -> Any:
    from . import _images  # which derives from Codec

    return _images


class JxlCodec(Codec):
    """JPEG XL as iatro-base-iac 0.0.2 has it: decoding always gives three channels. Grey images
    get three equal ones, and alpha is dropped. `Codec.create("jxl")` decodes what is stored. Both
    need libjxl (Debian 12: libjxl0.7, Debian 13: libjxl0.11).

    >>> import numpy as np
    >>> import tarn.iac
    >>> codec = tarn.iac.JxlCodec(lossless=True)
    >>> codec.decode(codec.encode(np.zeros((4, 5), "u1"))).shape
    (4, 5, 3)
    """

    name = "jxl"

    def __init__(self, lossless: bool = False, distance: float | None = 1.0,
                 effort: int | None = 7) -> None:
        self.lossless = bool(lossless)
        self.distance = distance
        self.effort = effort

    def parameters(self) -> dict[str, Any]:
        return {"lossless": self.lossless, "distance": self.distance, "effort": self.effort}

    def encode(self, arr: Any) -> bytes:
        encoded: bytes = _images().encode_jxl(arr, self.lossless, self.distance, self.effort)
        return encoded

    def decode(self, payload: Any) -> Any:
        return _images().three_channels(_images().decode_jxl(payload))


def get_codec(name: str, params: Mapping[str, Any] | None = None) -> Any:
    """Returns the codec for a header's name and parameters; raises ValueError if it is unknown.
    For JPEG XL that is a `JxlCodec`."""
    params = params or {}
    if name == JxlCodec.name:
        return JxlCodec(params.get("lossless", False), params.get("distance", 1.0),
                        params.get("effort", 7))
    return Codec.create(name, **params)


def header_of(codec: Any) -> dict[str, Any]:
    """Returns the header fields that name a codec."""
    if callable(getattr(codec, "parameters", None)):
        params = dict(codec.parameters())
    else:
        params = {k: v for k, v in vars(codec).items() if not k.startswith("_")}
    fields: dict[str, Any] = {"codec": codec.name}
    if params:
        fields["codec_params"] = params
    return fields
