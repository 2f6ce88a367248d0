"""Codecs for images. JPEG XL is part of the extension; the others work through the package
imagecodecs, which is imported when the first image is encoded or decoded."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .. import _tarn
from ..errors import Error, FormatError, UnsupportedError, UsageError
from .codecs import Codec, positive

if TYPE_CHECKING:
    import numpy.typing as npt


def library() -> Any:
    """Returns the package imagecodecs."""
    try:
        return importlib.import_module("imagecodecs")
    except ImportError as error:
        raise ImportError("images of record packs, except JPEG XL, need the package imagecodecs "
                          "(pip install imagecodecs)") from error


def pillow() -> Any:
    """Returns the module PIL.Image."""
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ImportError("image files and progressive JPEG need the package Pillow "
                          "(pip install Pillow)") from error


_JXL = (b"\xff\n", b"\0\0\0\x0cJXL \r\n\x87\n")


def decode_jxl(payload: Any) -> npt.NDArray[Any]:
    """Returns the image that JPEG XL data stores, with its channels and type."""
    if not bytes(payload[:12]).startswith(_JXL):
        raise FormatError(f"JPEG XL: {len(payload)} bytes that do not begin like a JPEG XL image")
    array: npt.NDArray[Any] = _tarn.decode("jxl", payload)
    return array


def encode_jxl(array: Any, lossless: bool, distance: float | None, effort: int | None) -> bytes:
    """Encodes an array, with the defaults and limits that imagecodecs has."""
    import numpy as np

    distance = 1.0 if distance is None else min(max(float(distance), 0.0), 25.0)
    effort = 5 if effort is None else min(max(int(effort), 1), 10)
    return _tarn.jxl_encode(np.asarray(array), lossless, distance, effort, False)


def three_channels(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an image with three channels: grey is repeated, alpha dropped."""
    import numpy as np

    if array.ndim == 2:
        return np.stack([array] * 3, axis=-1)
    return np.ascontiguousarray(array[:, :, :3]) if array.shape[2] > 3 else array


# --- Parameters ------------------------------------------------------------------------------


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} must be a bool, not {value!r}")
    return value


def _whole(what: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high}, not {value!r}")
    return value


def _word(what: str, value: Any, words: tuple[str, ...]) -> str:
    if value not in words or not isinstance(value, str):
        raise ValueError(f"{what} must be one of {', '.join(words)}, not {value!r}")
    return value


# --- Codecs ----------------------------------------------------------------------------------


class ImageCodec(Codec):
    """Base class of the codecs whose objects are arrays: height x width, or height x width x
    channels."""

    title: ClassVar[str]
    types: ClassVar[tuple[str, ...]] = ("uint8", "uint16")
    known: ClassVar[tuple[str, ...]]

    def __init__(self, params: Mapping[str, Any]) -> None:
        for name in params:
            if name not in self.known:
                raise ValueError(f"unknown {self.title} parameter: {name} (known: "
                                 f"{', '.join(self.known)})")
        self._params = self._checked(dict(params))

    def _checked(self, params: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _encode(self, array: npt.NDArray[Any]) -> Any:
        raise NotImplementedError

    def _decode(self, payload: bytes) -> Any:
        raise NotImplementedError

    def _run(self, verb: str, work: Callable[[Any], Any], thing: Any) -> Any:
        try:
            return work(thing)
        except (RuntimeError, ValueError, TypeError) as error:
            if isinstance(error, Error):
                raise
            kind = FormatError if verb == "decode" else UsageError
            raise kind(f"{self.title} {verb} failed: {error}") from error

    def parameters(self) -> dict[str, Any]:
        return dict(self._params)

    def encode(self, obj: Any) -> bytes:
        import numpy as np

        array = np.asarray(obj)
        if array.dtype.name not in self.types:
            raise ValueError(f"{self.title} input must have dtype {', '.join(self.types)}, not "
                             f"{array.dtype}")
        return bytes(self._run("encode", self._encode, array))

    def decode(self, payload: Any) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = self._run("decode", self._decode, bytes(payload))
        return array

    def decode_many(self, payloads: Iterable[Any], *,
                    workers: int | None = None) -> list[npt.NDArray[Any]]:
        """Decodes one image after the other; `workers` may only be 1."""
        if (positive(workers) or 1) != 1:
            raise ValueError(f"parallel batch decode is not supported for {self.title}; use "
                             "workers=1, or one thread for each image")
        return [self.decode(payload) for payload in payloads]


class _Jxl(ImageCodec):
    name = "jxl"
    title = "JPEG XL"
    types = ("uint8", "uint16", "float16", "float32")
    known = ("lossless", "distance", "effort", "usecontainer")

    def __init__(self, params: Mapping[str, Any]) -> None:
        # Headers of record packs with tiles have more than the codec's own parameters.
        super().__init__({name: params[name] for name in params if name in self.known})

    def _checked(self, params: dict[str, Any]) -> dict[str, Any]:
        distance, effort = params.get("distance"), params.get("effort")
        container = params.get("usecontainer")
        distance = 1.0 if distance is None else distance
        if isinstance(distance, bool) or not isinstance(distance, (int, float)) or \
                not math.isfinite(distance):
            raise ValueError(f"JPEG XL distance must be a number, not {distance!r}")
        return {"lossless": _flag("JPEG XL lossless", params.get("lossless", False)),
                "distance": float(distance),
                "effort": 7 if effort is None else _whole("JPEG XL effort", effort, -99, 99),
                "usecontainer": None if container is None else
                _flag("JPEG XL usecontainer", container)}

    def _encode(self, array: npt.NDArray[Any]) -> Any:
        p = self._params
        if not p["lossless"] and not 0 < p["distance"] <= 25:
            raise UsageError(f"JPEG XL distance {p['distance']} is not above 0 and at most 25")
        distance = 1.0 if p["lossless"] else p["distance"]
        return _tarn.jxl_encode(array, p["lossless"], distance, p["effort"],
                                bool(p["usecontainer"]))

    def _decode(self, payload: bytes) -> Any:
        return decode_jxl(payload)


def _progressive(array: npt.NDArray[Any], quality: int, subsampling: str) -> bytes:
    if array.dtype != "uint8":
        raise UnsupportedError(f"progressive JPEG is written for uint8 only, not {array.dtype}")
    out = io.BytesIO()
    pillow().fromarray(array).save(out, "JPEG", quality=quality, progressive=True,
                                   subsampling=":".join(subsampling))
    return out.getvalue()


class _Jpeg(ImageCodec):
    name = "jpeg"
    title = "JPEG"
    known = ("quality", "lossless", "progressive", "subsampling")

    def _checked(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"quality": _whole("JPEG quality", params.get("quality", 90), 1, 100),
                "lossless": _flag("JPEG lossless", params.get("lossless", False)),
                "progressive": _flag("JPEG progressive", params.get("progressive", False)),
                "subsampling": _word("JPEG subsampling", params.get("subsampling", "420"),
                                     ("444", "422", "420"))}

    def _encode(self, array: npt.NDArray[Any]) -> Any:
        p = self._params
        if p["lossless"]:
            return library().jpeg_encode(array, lossless=True)
        if p["progressive"]:
            return _progressive(array, p["quality"], p["subsampling"])
        return library().jpeg_encode(array, p["quality"], subsampling=p["subsampling"])

    def _decode(self, payload: bytes) -> Any:
        return library().jpeg_decode(payload)


class _Jpeg2000(ImageCodec):
    name = "jpeg2000"
    title = "JPEG 2000"
    known = ("profile", "container", "codestream", "lossless")

    def _checked(self, params: dict[str, Any]) -> dict[str, Any]:
        container = params.get("container", params.get("codestream", "j2k"))
        if params.get("codestream", container) != container:
            raise ValueError(f"JPEG 2000 container is {container!r}, but codestream "
                             f"{params['codestream']!r}; give one")
        return {"profile": _word("JPEG 2000 profile", params.get("profile", "classic"),
                                 ("classic", "ht")),
                "container": _word("JPEG 2000 container", container, ("j2k", "jp2")),
                "lossless": _flag("JPEG 2000 lossless", params.get("lossless", True))}

    def _encode(self, array: npt.NDArray[Any]) -> Any:
        p = self._params
        if p["profile"] == "ht":
            if p["container"] != "j2k":
                raise UnsupportedError("high-throughput JPEG 2000 is written as j2k only")
            return library().htj2k_encode(array, reversible=p["lossless"])
        return library().jpeg2k_encode(array, codecformat=p["container"].upper(), numthreads=1,
                                       reversible=p["lossless"],
                                       **({} if p["lossless"] else {"level": 40}))

    def _decode(self, payload: bytes) -> Any:
        import numpy as np

        if self._params["profile"] == "ht":
            return np.ascontiguousarray(library().htj2k_decode(payload))
        return library().jpeg2k_decode(payload, numthreads=1)


class _JpegLs(ImageCodec):
    name = "jpegls"
    title = "JPEG-LS"
    known = ("near_lossless", "bits_per_sample")

    def _checked(self, params: dict[str, Any]) -> dict[str, Any]:
        bits = params.get("bits_per_sample")
        return {"near_lossless": _whole("JPEG-LS near_lossless", params.get("near_lossless", 0),
                                        0, 255),
                "bits_per_sample": None if bits is None else
                _whole("JPEG-LS bits_per_sample", bits, 2, 16)}

    def _encode(self, array: npt.NDArray[Any]) -> Any:
        bits = self._params["bits_per_sample"]
        if bits is not None and bits != array.dtype.itemsize * 8:
            raise UnsupportedError(f"JPEG-LS with {bits} bits per sample cannot be written; "
                                   f"{array.dtype} has {array.dtype.itemsize * 8}")
        return library().jpegls_encode(array, self._params["near_lossless"])

    def _decode(self, payload: bytes) -> Any:
        return library().jpegls_decode(payload)


_KINDS: dict[str, type[ImageCodec]] = {kind.name: kind
                                       for kind in (_Jxl, _Jpeg, _Jpeg2000, _JpegLs)}


def create(name: str, params: Mapping[str, Any]) -> ImageCodec:
    """Returns the image codec with this name; for `Codec.create`."""
    return _KINDS[name](params)
