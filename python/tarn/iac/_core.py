"""The container's functions under the name of the module that has them in iatro-base-iac."""

from __future__ import annotations

from ._read import PackReader, iter_payloads, read_header, read_payload, read_tables
from ._write import (build_pack, build_pack_data_segment, build_pack_data_segment_from_file,
                     build_pack_streaming)

HEADER_BYTES = 65536
FORMAT_VERSION = 2
MAGIC = b"IATROC\x00\x02"
DEFAULT_HEADER_CACHE_MAX_ENTRIES = 4096
DEFAULT_HEADER_CACHE_MAX_BYTES = 64 << 20


def configure_cache(*, header_enabled: bool = True,
                    header_max_entries: int = DEFAULT_HEADER_CACHE_MAX_ENTRIES,
                    header_max_bytes: int = DEFAULT_HEADER_CACHE_MAX_BYTES) -> None:
    """Checks its arguments. There is nothing to configure: opening a record pack is cheap, and
    nothing is kept from one reader to the next.

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


def clear_caches() -> None:
    """Does nothing, because nothing is kept from one reader to the next."""


__all__ = [
    "DEFAULT_HEADER_CACHE_MAX_BYTES", "DEFAULT_HEADER_CACHE_MAX_ENTRIES", "FORMAT_VERSION",
    "HEADER_BYTES", "MAGIC", "PackReader", "build_pack", "build_pack_data_segment",
    "build_pack_data_segment_from_file", "build_pack_streaming", "clear_caches", "configure_cache",
    "iter_payloads", "read_header", "read_payload", "read_tables",
]
