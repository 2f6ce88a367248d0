"""TarWriter and ShardWriter as in webdataset, on top of the library's writers.

With the same `mtime` (an int or a float), the output equals webdataset's byte for byte. Without
`mtime`, members get the current time in whole seconds, and no extended header for the fraction.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import pickle
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from . import gopen as _gopen
from .utils import as_theirs
from .. import _tarn
from .._arguments import settled
from ..errors import UnsupportedError, shown
from .._policy import pipes_allowed
from .._published import Published
from .._write import _BYTES, _SHARDS, _TAR, _WDS, filter_number, mtime_settings

__all__ = ["ShardWriter", "TarWriter", "default_handlers", "encode_based_on_extension",
           "encode_based_on_extension1", "imageencoder", "make_encoder", "numpy_dumps",
           "numpy_npz_dumps", "tenbin_dumps", "torch_dumps"]

# --- Encoders -------------------------------------------------------------------------------

# Field names that Pillow does not know.
_NAMES = {"pgm": "PPM", "pbm": "PPM", "tif": "TIFF"}
_NUMBERS = "cls cls2 class count index inx id"
_NATIVE_MODES = {"jpg": {"L", "RGB"}, "png": {"L", "RGB", "RGBA", "LA"}, "ppm": {"L", "RGB"},
                 "pgm": {"L"}}


def _check_pixels(image: Any) -> None:
    import numpy as np

    if image.dtype in (np.dtype("f"), np.dtype("d")):
        low, high = np.amin(image), np.amax(image)
        if low <= -0.001 or high >= 1.001:
            raise ValueError(f"image values out of range {low} {high}")
    assert image.ndim in (2, 3), image.shape
    if image.ndim == 3:
        assert image.shape[2] in (1, 3), image.shape


def _save(image: Any, format: str) -> bytes:
    """Saves with Pillow what the library cannot write."""
    options = {"quality": 100} if format in ("JPEG", "tiff") else {}
    name = format.lower()
    if name == "pbm":
        image = image.convert("1")
    elif name == "pgm":
        image = image.convert("L")
    with io.BytesIO() as out:
        image.save(out, format=_NAMES.get(name, format), **options)
        return out.getvalue()


def imageencoder(image: Any, format: str = "PNG") -> bytes:
    """Encodes a Pillow image or an array of pixels (uint8, or floats from 0 to 1) as an image
    file, in any format that Pillow writes.

    >>> import numpy
    >>> imageencoder(numpy.zeros((4, 4), "uint8"), "ppm")[:11]
    b'P5\\n4 4\\n255\\n'
    """
    if format.upper() == "JPG":
        format = "JPEG"
    elif format.upper() in ("IMG", "IMAGE"):
        format = "PPM"
    # Only the spelling "jpg" means quality 100, written by the library; "jpeg" has Pillow's
    # default quality.
    native = "jpg" if format == "JPEG" else format.lower()
    if hasattr(image, "__array__") and hasattr(image, "dtype"):
        _check_pixels(image)
        if image.ndim == 3 and image.shape[2] == 1:
            image = image[:, :, 0]
        if native in _NATIVE_MODES and image.dtype.kind in "uf" and (
                native != "pgm" or image.ndim == 2):
            return _tarn.encode(native, image)
        import numpy as np
        import PIL.Image

        if image.dtype.kind == "f":
            image = np.array(np.clip(image, 0.0, 1.0) * 255.0, "uint8")
        image = PIL.Image.fromarray(image)
    import PIL.Image

    assert isinstance(image, PIL.Image.Image), type(image)
    if image.mode in _NATIVE_MODES.get(native, ()):
        import numpy as np

        return _tarn.encode(native, np.asarray(image))
    return _save(image, format)


def bytestr(data: Any) -> bytes:
    """Returns bytes unchanged and the text of anything else as ASCII."""
    return data if isinstance(data, bytes) else str(data).encode("ascii")


def torch_dumps(data: Any) -> bytes:
    """Returns the bytes that torch.save writes."""
    import torch

    out = io.BytesIO()
    torch.save(data, out)
    return out.getvalue()


def _is_plain(array: Any) -> bool:
    """Whether the library can write an array; NumPy writes the others."""
    return array.dtype.kind in "biufcSU" and array.dtype.char not in "gG"


def numpy_dumps(data: Any) -> bytes:
    """Encodes an array as an .npy file."""
    import numpy

    if isinstance(data, numpy.ndarray) and _is_plain(data):
        return _tarn.encode("npy", data)
    out = io.BytesIO()
    numpy.lib.format.write_array(out, data)
    return out.getvalue()


def numpy_npz_dumps(data: Any) -> bytes:
    """Encodes a dict of arrays as a compressed .npz file."""
    import numpy

    assert isinstance(data, dict), type(data)
    for name, array in data.items():
        assert isinstance(name, str) and isinstance(array, numpy.ndarray), name
    if all(map(_is_plain, data.values())):
        return _tarn.encode("npz", data)
    out = io.BytesIO()
    numpy.savez_compressed(out, **data)
    return out.getvalue()


def tenbin_dumps(x: Any) -> bytes:
    """Encodes an array or a list of arrays as tenbin."""
    return _tarn.encode("ten", x if isinstance(x, list) else [x])


def cbor_dumps(x: Any) -> bytes:
    """Encodes a value with cbor.dumps."""
    import cbor  # type: ignore[import-not-found,unused-ignore]

    return bytes(cbor.dumps(x))


def mp_dumps(x: Any) -> bytes:
    """Encodes a value with msgpack.packb."""
    import msgpack  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return bytes(msgpack.packb(x))


def _text(data: Any) -> bytes:
    encoded: bytes = data.encode("utf-8")
    return encoded


def _number(data: Any) -> bytes:
    return str(data).encode("ascii")


def _json(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8")


def _image(extension: str) -> Callable[[Any], bytes]:
    def encode(data: Any) -> bytes:
        return imageencoder(data, extension)

    return encode


def add_handlers(d: dict[str, Any], keys: Any, value: Any) -> None:
    """Registers one function under several names."""
    for key in keys.split() if isinstance(keys, str) else keys:
        d[key] = value


def make_handlers() -> dict[str, Callable[[Any], Any]]:
    """Returns the encoders by extension."""
    handlers: dict[str, Callable[[Any], Any]] = {}
    add_handlers(handlers, _NUMBERS, _number)
    add_handlers(handlers, "txt text transcript html htm", _text)
    add_handlers(handlers, "pyd pickle", pickle.dumps)
    add_handlers(handlers, "pth", torch_dumps)
    add_handlers(handlers, "npy", numpy_dumps)
    add_handlers(handlers, "npz", numpy_npz_dumps)
    add_handlers(handlers, "ten tenbin tb", tenbin_dumps)
    add_handlers(handlers, "json jsn", _json)
    add_handlers(handlers, "mp msgpack msg", mp_dumps)
    add_handlers(handlers, "cbor", cbor_dumps)
    for names, extension in (("jpg jpeg img image", "jpg"), ("png", "png"), ("pbm", "pbm"),
                             ("pgm", "pgm"), ("ppm", "ppm"), ("tiff tif", "tiff")):
        add_handlers(handlers, names, _image(extension))
    return handlers


default_handlers = make_handlers()


def _extension(name: str) -> str:
    name = name[:-3] if name.endswith(".gz") else name
    return name.rpartition(".")[2].lower()


def _finder(handlers: dict[str, Callable[[Any], Any]]) -> Callable[[str, Any], Any]:
    """Returns the function that encodes values that are neither bytes nor text."""

    def encode(name: str, value: Any) -> Any:
        extension = _extension(name)
        handler = handlers.get(extension)
        if handler is None:
            raise ValueError(f"no handler found for {extension}")
        return handler(value)

    return encode


def encode_based_on_extension1(data: Any, tname: str, handlers: dict[str, Any]) -> Any:
    """Encodes one value as bytes; metadata (names that begin with "_") is returned unchanged."""
    if tname[0] == "_":
        if not isinstance(data, str):
            raise ValueError("the values of metadata must be of string type")
        return data
    if isinstance(data, str):
        data = data.encode("utf-8")
    if not isinstance(data, bytes):
        data = _finder(handlers)(tname, data)
    return _tarn.encode("bin.gz", bytes(data)) if tname.endswith(".gz") else data


def encode_based_on_extension(sample: dict[str, Any], handlers: dict[str, Any]) -> dict[str, Any]:
    """Encodes all values of a sample as bytes."""
    return {name: encode_based_on_extension1(value, name, handlers)
            for name, value in sample.items()}


def make_encoder(spec: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns the function that an `encoder` argument stands for, from sample to sample."""
    if spec is False or spec is None:
        return lambda sample: sample
    if callable(spec):
        return spec  # type: ignore[no-any-return]
    if spec is True or isinstance(spec, dict):
        handlers = default_handlers if spec is True else spec
        return lambda sample: encode_based_on_extension(sample, handlers)
    raise ValueError(f"{spec}: unknown decoder spec")


def _encoder_settings(spec: Any) -> dict[str, Any]:
    if spec is False or spec is None:
        return {"flavour": _BYTES}
    if spec is True and all(default_handlers.get(name) is _number for name in _NUMBERS.split()):
        return {"flavour": _WDS, "fallback": _finder(default_handlers)}
    # The webdataset flavour would encode integers without calling the encoder.
    return {"flavour": _BYTES, "encoder": make_encoder(spec)}


# --- Writers --------------------------------------------------------------------------------


def _filter(name: str, compress: bool | str | None) -> dict[str, int]:
    """Chooses the compression by the end of the name, as webdataset does; zst is an addition."""
    if compress is None:
        ends = [suffix for suffix in ("gz", "bz2", "xz", "zst") if name.endswith(suffix)]
        compress = ends[0] if ends else False
    number = filter_number(compress)
    return {"filter": number, "level": 9 if number == filter_number("gz") else 0}


def _tar_settings(user: str = "bigdata", group: str = "bigdata", mode: int = 0o444,
                  compress: bool | str | None = None, encoder: Any = True,
                  keep_meta: bool = False, mtime: float | None = None, format: Any = None, *,
                  sync: bool = True, allow_pipe: bool | None = None) -> dict[str, Any]:
    """Returns the arguments of TarWriter as the extension takes them; `format` has no effect."""
    return {"user": user, "group": group, "mode": mode, "keep_meta": keep_meta, "rules": 1,
            "overwrite": True, "no_sync": not sync, "allow_pipe": pipes_allowed(allow_pipe),
            **mtime_settings(int(time.time()) if mtime is None else mtime),
            **_encoder_settings(encoder)}


class _TarStream:
    """Adds members to the archive of a TarWriter, with its owner, mode and time."""

    def __init__(self, writer: TarWriter) -> None:
        self._writer = writer

    def addfile(self, tarinfo: Any, fileobj: Any = None) -> None:
        """Adds a file: its name and size are those of a TarInfo, its bytes are read from
        fileobj."""
        if not tarinfo.isreg():
            raise ValueError(f"{tarinfo.name}: only regular files can be added")
        data = fileobj.read(tarinfo.size) if fileobj is not None else b""
        if len(data) != tarinfo.size:
            raise OSError(f"{tarinfo.name}: unexpected end of data (found {len(data)} bytes, "
                          f"expected {tarinfo.size})")
        self._writer._member(tarinfo.name, data)


class TarWriter(_tarn.Writer, Published):
    """Writes samples into one archive: a path, a URL, or a file object, which stays open.

    >>> import io
    >>> stream = io.BytesIO()
    >>> with TarWriter(stream, mtime=0) as writer:
    ...     writer.write({"__key__": "a/b", "cls": 3, "json": [1, None]})
    10
    >>> len(stream.getvalue())
    10240

    Leaving the `with` block, or `close`, publishes the archive. After an exception a file is
    removed, and a file object holds an archive without an end marker. sync=False does not wait for
    the disk.
    """

    def __init__(self, fileobj: Any, user: str = "bigdata", group: str = "bigdata",
                 mode: int = 0o444, compress: bool | str | None = None, encoder: Any = True,
                 keep_meta: bool = False, mtime: float | None = None, format: Any = None, *,
                 sync: bool = True, allow_pipe: bool | None = None) -> None:
        self.user, self.group, self.mode = user, group, mode
        self.compress, self.encoder, self.keep_meta = compress, encoder, keep_meta
        self.mtime = mtime
        self.own_fileobj: Any = None
        settings = _tar_settings(user, group, mode, compress, encoder, keep_meta, mtime, format,
                                 sync=sync, allow_pipe=allow_pipe)
        if isinstance(fileobj, (str, os.PathLike)):
            name = os.fspath(fileobj)
            if not name:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            settings |= _filter(name, compress)
            fileobj = self._stream_for(name, allow_pipe)
            name = _gopen.rewrite_url(name)
            if fileobj is None:
                name = settled("fileobj", name)
        else:
            name = str(getattr(fileobj, "name", None) or "a file object")
            settings |= _filter("", compress)
        self.stream = fileobj
        try:
            self._open(_TAR, name, stream=fileobj, **settings)
        except UnsupportedError as error:
            raise as_theirs(error) from None

    @property
    def tarstream(self) -> _TarStream:
        """An object with `addfile`, to add members that are not fields of a sample."""
        return _TarStream(self)

    @staticmethod
    def tarmode(fileobj: Any, compress: bool | str | None = None) -> str:
        """Returns the mode in which tarfile would open the archive."""
        chosen = _filter(fileobj if isinstance(fileobj, str) else "", compress)["filter"]
        names = {filter_number(name): name for name in ("gz", "bz2", "xz", "zst")}
        return "w|" + names.get(chosen, "")

    def _stream_for(self, url: str, allow_pipe: bool | None) -> Any:
        if url == "-":
            return sys.stdout.buffer
        place = _gopen.rewrite_url(url)
        _gopen.check_pipe(place, allow_pipe)
        if _gopen.is_native(place):
            return None
        self.own_fileobj = _gopen.gopen(url, "wb", allow_pipe=allow_pipe)
        return self.own_fileobj

    def close(self) -> None:
        """Completes and publishes the archive."""
        if not self.closed:
            try:
                self._finish()
            except BaseException:
                self._drop()
                raise
        if self.own_fileobj is not None:
            stream, self.own_fileobj = self.own_fileobj, None
            stream.close()

    def _drop(self) -> None:
        stream, self.own_fileobj = self.own_fileobj, None
        if stream is not None:
            getattr(stream, "abandon", stream.close)()

    def abandon(self) -> None:
        """Discards the archive."""
        super().abandon()
        self._drop()


def _limits(maxcount: float, maxsize: float) -> dict[str, int]:
    """Returns the limits of a shard. A shard accepts a sample while it has fewer than maxcount
    samples and less than maxsize bytes."""
    if maxcount <= 0 or maxsize <= 0:
        return {"max_count": 1, "max_size": 0}
    return {"max_count": 0 if math.isinf(maxcount) else math.ceil(maxcount),
            "max_size": 0 if math.isinf(maxsize) else math.ceil(maxsize)}


def _pattern(pattern: str, number: int) -> str:
    """Checks the pattern and returns it in the form that the library takes."""
    pattern % number  # raises the usual TypeError or ValueError
    plain = re.sub(r"%(0\d+)?[iu]", lambda found: f"%{found[1] or ''}d", pattern)
    if not re.fullmatch(r"(?:[^%]|%%)*%(?:0\d+)?d(?:[^%]|%%)*", plain):
        raise ValueError(f"{shown(pattern)!r}: the pattern must have exactly one shard number, %d or %06d")
    return plain


class ShardWriter(_tarn.Writer, Published):
    """Writes samples into a series of shards, named by a pattern with `%06d`.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardWriter(folder + "/x%d.tar", maxcount=1, verbose=0, mtime=0) as sink:
    ...         for i in range(2):
    ...             sink.write({"__key__": str(i), "txt": "x"})
    ...     print(sorted(os.listdir(folder)))
    ['x0.tar', 'x1.tar']

    A shard gets its final name when it is complete. The first sample creates the first shard.
    `post` is called with the name of each finished shard; `opener` returns the file objects to
    write into. The other arguments are those of TarWriter. `write_many` takes an iterable of
    samples and is faster.
    """

    def __init__(self, pattern: str, maxcount: float = 100000, maxsize: float = 3e9,
                 post: Callable[[str], object] | None = None, start_shard: int = 0,
                 verbose: int = 1, opener: Callable[[str], Any] | None = None,
                 **kw: Any) -> None:
        self.pattern, self.maxcount, self.maxsize = os.fspath(pattern), maxcount, maxsize
        self.post, self.verbose, self.opener, self.kw = post, verbose, opener, kw
        self._start, self._closing = start_shard, False
        self._owned: Any = None
        self._folder = ""
        self._ended: tuple[int, ...] | None = None
        settings = _tar_settings(**kw)
        compress = kw.get("compress")
        if opener is None:
            settings |= _filter(self.pattern, compress)
            _gopen.check_pipe(self.pattern, kw.get("allow_pipe"))
            if "GOPEN_REWRITE" in os.environ or not _gopen.is_native(self.pattern):
                opener = self._gopen
        else:
            settings |= _filter("", compress)
            opener = self._opened
        place = _pattern(self.pattern, start_shard)
        if opener is None:
            folder = settled("pattern", place)[:-len(place)]
            self._folder = "" if "%" in folder else folder  # the folder is not part of the pattern
            place = self._folder + place
        self._open(_SHARDS, place, start=start_shard, roll=1, opener=opener,
                   hook=self._shard_done, silent=True, **_limits(maxcount, maxsize), **settings)
        self._tell()

    def _gopen(self, name: str) -> Any:
        """Opens a shard whose URL is rewritten or needs a program."""
        url, allow_pipe = _gopen.rewrite_url(name), self.kw.get("allow_pipe")
        if _gopen.is_native(url):
            self._owned = _gopen.gopen_native(url, "wb", allow_pipe=allow_pipe)
        else:
            self._owned = _gopen.gopen(name, "wb", allow_pipe=allow_pipe)
        return self._owned

    def _opened(self, name: str) -> Any:
        """Returns a file from the caller's opener, which stays open. Tarn's own files must be
        closed, because they are complete only then."""
        stream = self.opener(name)  # type: ignore[misc]
        self._owned = stream if isinstance(stream, Published) else None
        return stream

    def _tell(self) -> None:
        """Prints the name of the next shard and the size of the previous one."""
        if self.verbose:
            print("# writing", shown(self.fname), self.count, "%.1f GB" % (self.size / 1e9), self.total)

    def _shard_done(self, name: str, samples: int, size: int) -> None:
        if self._owned is not None:
            stream, self._owned = self._owned, None
            stream.close()
        if callable(self.post):
            self.post(name.removeprefix(self._folder))
        if not self._closing:
            self._tell()

    @property
    def _now(self) -> tuple[int, ...]:
        """The counters of the writer. After `finish` they describe the finished shard, until
        another one begins."""
        written = self._written
        return self._ended if self._ended is not None and self._ended[0] == written[0] else written

    @property
    def total(self) -> int:
        """Number of samples in all shards."""
        return self._written[0]

    @property
    def count(self) -> int:
        """Number of samples in the current shard."""
        return self._now[5]

    @property
    def size(self) -> int:
        """Number of bytes in the fields of the current shard."""
        return self._now[6]

    @property
    def shard(self) -> int:
        """The number of the next shard."""
        return self._start + self._now[4] + 1

    @property
    def fname(self) -> str:
        """The name of the current shard."""
        return self.pattern % (self.shard - 1)

    def next_stream(self) -> None:
        """Finishes the current shard; the next sample opens a new one."""
        self._next_shard()

    def finish(self) -> None:
        """Finishes the current shard."""
        self._closing, self._ended = True, self._now
        try:
            self._next_shard()
        finally:
            self._closing = False

    def close(self) -> None:
        """Completes and publishes the last shard."""
        self._closing = True
        if not self.closed:
            self._finish()

    def abandon(self) -> None:
        """Discards the current shard; earlier shards stay."""
        super().abandon()
        if self._owned is not None:
            stream, self._owned = self._owned, None
            getattr(stream, "abandon", stream.close)()
