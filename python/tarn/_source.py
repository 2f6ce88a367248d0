"""Bytes by URL as file objects: paths, `file:`, `-`, `http(s)://`, `s3://`, and `pipe:` if
allowed.

>>> import tarn, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with tarn.open_source(folder + "/x.txt.gz", "wb") as out:
...         n = out.write(b"hello")
...     with tarn.open_source(folder + "/x.txt.gz") as file:
...         print(file.read())
b'hello'

When reading, compression is detected from the first bytes; when writing, it is chosen by the
suffix. Incomplete data (a lost connection, a failed command, a truncated stream) raises an
exception and never looks like the end of the data.
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, Literal, Union, cast, overload

from . import _tarn
from ._arguments import settled, whole
from ._published import Published
from ._write import filter_number
from .errors import UsageError, shown

__all__ = ["SinkFile", "SourceFile", "expand_urls", "gopen", "open_source"]

Url = Union[str, "os.PathLike[str]"]
_BUFFER = 256 << 10


class SourceFile(io.RawIOBase):
    """A source as a raw file for sequential reading."""

    _source: _tarn.Source | None = None

    def __init__(self, url: Url, **options: Any) -> None:
        self.name = shown(os.fsdecode(url))  # printed by repr, also by that of a BufferedReader
        self._source = _tarn.Source(url, **options)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._source is None:
            raise ValueError("I/O operation on closed file.")
        return self._source.readinto(buffer)

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()
        super().close()

    def __repr__(self) -> str:
        return f"<SourceFile {self.name!r}>"


class SinkFile(Published, io.RawIOBase):
    """A sink as a raw file. `close` publishes. `abandon`, an exception in a `with` block, or
    garbage collection discards what was written."""

    _sink: _tarn.Sink | None = None

    def __init__(self, url: Url, **options: Any) -> None:
        self.name = shown(os.fsdecode(url))  # printed by repr, also by that of a BufferedReader
        self._sink = _tarn.Sink(settled("url", url), **options)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._sink is None:
            raise ValueError("I/O operation on closed file.")
        return self._sink.write(data)

    def close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.finish()
            finally:
                super().close()

    def abandon(self) -> None:
        """Discards what was written."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.abandon()
        super().close()

    def __del__(self) -> None:
        self.abandon()

    def __repr__(self) -> str:
        return f"<SinkFile {self.name!r}>"


@overload
def open_source(url: Url, mode: Literal["rb", "r"] = ..., *, compress: bool | str | None = ...,
                level: int = ..., overwrite: bool = ..., sync: bool = ...,
                allow_pipe: bool = ..., retries: int = ...) -> BinaryIO: ...
@overload
def open_source(url: Url, mode: Literal["wb", "w"], *, compress: bool | str | None = ...,
                level: int = ..., overwrite: bool = ..., sync: bool = ...,
                allow_pipe: bool = ..., retries: int = ...) -> SinkFile: ...
def open_source(url: Url, mode: str = "rb", *, compress: bool | str | None = None, level: int = 0,
                overwrite: bool = False, sync: bool = True, allow_pipe: bool = False,
                retries: int = 5) -> BinaryIO | SinkFile:
    """Opens a URL for reading ("rb") or writing ("wb"), always as bytes.

    A written file gets its name only when it is closed. When reading, `compress=False` returns
    the bytes unchanged; when writing, "gz", "bz2", "xz" and "zst" override the suffix. An
    existing file is an error unless `overwrite` is set. `sync=False` does not wait for the disk.

    >>> open_source("pipe:echo hello")
    Traceback (most recent call last):
    tarn.errors.UnsupportedError: pipe:echo...: pipe: URLs run a shell command, which is not \
allowed (allow_pipe)
    """
    number = filter_number(compress)
    retries = whole("retries", retries, 0, 2**32 - 1)
    level = whole("level", level, -2**31, 2**31 - 1)
    if mode in ("rb", "r"):
        raw = SourceFile(url, filter=number, allow_pipe=allow_pipe, retries=retries)
        return cast(BinaryIO, io.BufferedReader(raw, _BUFFER))
    if mode in ("wb", "w"):
        return SinkFile(url, filter=number, level=level, allow_pipe=allow_pipe,
                        overwrite=overwrite, no_sync=not sync, retries=retries)
    raise UsageError(f"mode must be 'rb' or 'wb', not {mode!r}")


gopen = open_source


def expand_urls(text: Url) -> list[str]:
    """Expands a list of URLs: braces, `::` between URLs, patterns for local files.

    >>> expand_urls("s3://b/x-{000..002}.tar::y.tar")
    ['s3://b/x-000.tar', 's3://b/x-001.tar', 's3://b/x-002.tar', 'y.tar']
    """
    return _tarn.expand_urls(text)
