"""The container's functions under the name of the module that has them in iatro-base-iac."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from ._cache import HeaderCache, Path
from ._read import PackReader, iter_payloads, read_payload, read_tables
from ._write import (build_pack, build_pack_data_segment, build_pack_data_segment_from_file,
                     build_pack_streaming)

HEADER_BYTES = 65536
FORMAT_VERSION = 2
MAGIC = b"IATROC\x00\x02"
DEFAULT_HEADER_CACHE_MAX_ENTRIES = 4096
DEFAULT_HEADER_CACHE_MAX_BYTES = 64 << 20


_headers = HeaderCache(DEFAULT_HEADER_CACHE_MAX_ENTRIES, DEFAULT_HEADER_CACHE_MAX_BYTES)


def configure_cache(*, header_enabled: bool = True,
                    header_max_entries: int = DEFAULT_HEADER_CACHE_MAX_ENTRIES,
                    header_max_bytes: int = DEFAULT_HEADER_CACHE_MAX_BYTES) -> None:
    """Sets how many headers, and how many characters of them, `read_header` keeps in this process;
    and forgets those that it has. Readers always read the header of the file that they opened.

    >>> import tarn.iac
    >>> tarn.iac.configure_cache(header_max_entries=100)
    """
    if not isinstance(header_enabled, bool):
        raise TypeError("header_enabled must be bool")
    for name, number in (("header_max_entries", header_max_entries),
                         ("header_max_bytes", header_max_bytes)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name} must be int")
        if number <= 0:
            raise ValueError(f"{name} must be positive")
    _headers.configure(header_enabled, header_max_entries, header_max_bytes)


def clear_caches() -> None:
    """Forgets the headers that `read_header` keeps."""
    _headers.clear()


def read_header(package_path: Path) -> dict[str, Any]:
    """Returns the header of a record pack. Headers are kept, and read again if the file has another
    inode, size or time."""
    header: dict[str, Any] = json.loads(_headers.get(package_path, lambda: _load(package_path)))
    return header


def _load(package_path: Path) -> str:
    native = _NativePackReader(os.fspath(package_path))
    try:
        return native.header_json()
    finally:
        native.close()


class _NativePackReader:
    """Reads by position, as the class with this name of iatro-base-iac, which programs and tests
    replace to count what is opened. It opens the file immediately, and not again after `close`."""

    def __init__(self, path: Path) -> None:
        self._pack = PackReader(path)
        self._pack._open()
        self._closed = False

    def _open(self) -> PackReader:
        if self._closed:
            raise RuntimeError("the native reader is closed")
        return self._pack

    def header_json(self) -> str:
        return self._open()._header_text()

    def read_span(self, start: int, length: int) -> bytes:
        """Returns bytes of the data segment; start is the position in the file."""
        pack = self._open()
        return pack.read_data_span(start - pack.header["data_offset"], length)

    def read_data_spans_contiguous(self, spans: Iterable[tuple[int, int]]) -> bytes:
        pack = self._open()
        length, spans = pack.header["data_length"], list(spans)
        for offset, size in spans:
            if offset < 0 or size < 0 or offset + size > length:
                raise ValueError(f"{size} bytes at {offset}: outside data segment of {length} bytes")
        return pack.read_data_spans(spans)

    def read_fixed_rows_contiguous(self, rows: Iterable[int], record_bytes: int) -> bytes:
        if record_bytes <= 0:
            raise ValueError(f"record_bytes must be positive, not {record_bytes}")
        pack = self._open()
        length = pack.header["data_length"]
        if length % record_bytes:
            raise ValueError(f"the data segment of {length} bytes is not divisible into records of "
                             f"{record_bytes}")
        return self.read_data_spans_contiguous((row * record_bytes, record_bytes) for row in rows)

    def read_row(self, row: int) -> bytes:
        return self._open().read_payload(row)

    def read_rows(self, rows: Iterable[int]) -> list[bytes]:
        return self._open().read_payloads(rows)

    def read_rows_contiguous(self, rows: Iterable[int]) -> tuple[memoryview, memoryview]:
        return self._open()._read_payloads_contiguous(rows)

    def close(self) -> None:
        self._closed = True
        self._pack.close()


__all__ = [
    "DEFAULT_HEADER_CACHE_MAX_BYTES", "DEFAULT_HEADER_CACHE_MAX_ENTRIES", "FORMAT_VERSION",
    "HEADER_BYTES", "MAGIC", "PackReader", "build_pack", "build_pack_data_segment",
    "build_pack_data_segment_from_file", "build_pack_streaming", "clear_caches", "configure_cache",
    "iter_payloads", "read_header", "read_payload", "read_tables",
]
