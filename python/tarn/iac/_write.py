"""Writing record packs: the builders of iatro-base-iac, and a writer that takes payloads one by
one. A file gets its name when it is complete; if writing fails, no file is left."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Union

from .. import _tarn
from .._published import Published
from ..errors import shown

Path = Union[str, "os.PathLike[str]"]
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Names that iatro-base-iac's own examples use for these arguments.
_OTHER_NAMES = {"filepath": "output_path", "header": "header_json"}


def _other_names(function: _Function) -> _Function:
    """Also accepts the keyword names that iatro-base-iac's examples use."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name, real in _OTHER_NAMES.items():
            if name in named:
                if real in named:
                    raise TypeError(f"{function.__name__}() got both {name!r} and {real!r}")
                named[real] = named.pop(name)
        return function(*args, **named)

    return call  # type: ignore[return-value]


# --- Tables and options ----------------------------------------------------------------------


def _kind(name: str, values: list[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return "text"
    if kinds <= {int}:
        return "int"
    raise TypeError(f"column {name!r} must be all str or all int; pass an Arrow table instead")


def _table(table: Any) -> Any:
    """Returns the argument that the extension takes for a table: any Arrow object, or lists by
    name."""
    if not isinstance(table, Mapping):
        return table
    columns = {str(name): list(values) for name, values in table.items()}
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("the columns of the table have different lengths")
    specs = [f"{_kind(name, values)}:{name}" for name, values in columns.items()]
    return _tarn.iac_rows(specs, tuple(zip(*columns.values())))


def _header_text(header: Mapping[str, Any]) -> str:
    return json.dumps(dict(header), sort_keys=True)


def _options(overwrite: bool, *, version: int = 2, codec: str = "none", level: int = 0,
             encoded: bool = False, sync: bool = True) -> tuple[Any, ...]:
    return version, codec, level, encoded, overwrite, sync


def _target(path: Path, header: Mapping[str, Any], slides: Any, index: Any,
            overwrite: bool) -> tuple[Any, ...]:
    """Returns the first argument of the extension's builders."""
    path = pathlib.Path(path)
    text = _header_text(header)
    if path.exists() and not overwrite:
        raise FileExistsError(f"pack already exists: {shown(path)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    place = os.path.join(os.getcwd(), path)  # the program may change its directory
    return place, text, _table(slides), _table(index), _options(overwrite)


# --- The iatro-base-iac interface ------------------------------------------------------------


@_other_names
def build_pack(output_path: Path, header_json: dict[str, Any], slide_table: Any, index_table: Any,
               payloads: Iterable[bytes], *, overwrite: bool = False) -> None:
    """Writes a record pack of payloads that are in memory.

    The columns offset, length and crc32 are added to the index table. A table is any object with
    the Arrow PyCapsule interface (pyarrow, polars, pandas, ...) or a dict of lists of str or int.

    >>> import tarn.iac
    >>> tarn.iac.build_pack("p.iac", {"codec": "none"}, {"slide_id": ["s0"]},
    ...                     {"item_id": ["a", "b"]}, [b"first", b"second"], overwrite=True)
    >>> list(tarn.iac.iter_payloads("p.iac"))
    [b'first', b'second']
    """
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    _tarn.iac_build(target, tuple(payloads))


@_other_names
def build_pack_streaming(output_path: Path, header_json: dict[str, Any], slide_table: Any,
                         index_table: Any, payloads: Iterable[bytes], *,
                         overwrite: bool = False) -> None:
    """Like build_pack, with payloads from an iterator; each one is written directly to its place
    in the file."""
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    with PackWriter(_tarn.iac_write(*target)) as writer:
        for payload in payloads:
            writer.add(payload)


@_other_names
def build_pack_data_segment(output_path: Path, header_json: dict[str, Any], slide_table: Any,
                            index_table: Any, data: Any, *, overwrite: bool = False) -> None:
    """Writes a record pack with a data segment made by the caller; the index is written
    unchanged."""
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    _tarn.iac_build_segment(target, data)


@_other_names
def build_pack_data_segment_from_file(output_path: Path, header_json: dict[str, Any],
                                      slide_table: Any, index_table: Any, data_path: Path, *,
                                      data_length: int, overwrite: bool = False) -> None:
    """Like build_pack_data_segment, with the data segment from a file, which must have exactly
    `data_length` bytes."""
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    _tarn.iac_build_segment_file(target, data_path, int(data_length))


# --- Additions -------------------------------------------------------------------------------


class PackWriter(Published):
    """Writes a record pack one payload at a time; made by `create`. Use it in a `with` statement:
    the file gets its name at the end of the block. After an exception no file is left, or an
    existing file is unchanged."""

    def __init__(self, writer: _tarn.PackWriter) -> None:
        self._writer = writer

    def add(self, payload: Any) -> None:
        """Adds the payload of the next row: any object with the buffer protocol."""
        self._writer.add(payload)

    def finish(self) -> None:
        """Publishes the file. The index table must have as many rows as there are payloads."""
        self._writer.finish()

    close = finish

    def abandon(self) -> None:
        """Discards everything; no file is left."""
        self._writer.abandon()


def create(path: Path, index: Any, slides: Any = None, *, header: Mapping[str, Any] | None = None,
           codec: str = "none", level: int = 0, encoded: bool = False, version: int = 2,
           overwrite: bool = False, sync: bool = True) -> PackWriter:
    """Creates a writer for a new record pack with this index table. Payloads are compressed with
    `codec` (none, brotli, zstd, gzip), which the header names. Set `encoded` if they are already
    compressed.

    >>> import tarn.iac
    >>> with tarn.iac.create("z.iac", {"name": ["a", "b"]}, codec="zstd", overwrite=True) as out:
    ...     for payload in (b"first" * 100, b"second" * 100):
    ...         out.add(payload)
    >>> pack = tarn.iac.open("z.iac")
    >>> pack.decode(1) == b"second" * 100, len(pack.read_payload(1)) < 50
    (True, True)
    """
    if slides is None:
        slides = _tarn.iac_rows(["u8:slide_idx", "text:slide_id", "text:patient_id"], ())
    text = None if header is None else _header_text(header)
    options = _options(overwrite, version=version, codec=codec, level=level, encoded=encoded,
                       sync=sync)
    place = os.path.join(os.getcwd(), os.fsdecode(path))  # the program may change its directory
    return PackWriter(_tarn.iac_write(place, text, _table(slides), _table(index), options))


def rewrite(source: Path, target: Path, *, header: Mapping[str, Any] | None = None,
            codec: str = "none", level: int = 0, encoded: bool = False, version: int = 2,
            overwrite: bool = False, sync: bool = True) -> None:
    """Rewrites a record pack with another codec, level or version. `header`, if given, replaces
    the caller's fields; `encoded` copies payloads and codec unchanged."""
    text = None if header is None else _header_text(header)
    _tarn.iac_rewrite(source, target, text,
                      _options(overwrite, version=version, codec=codec, level=level,
                               encoded=encoded, sync=sync), False)


def upgrade(source: Path, target: Path | None = None, *, overwrite: bool = False) -> None:
    """Converts a version 1 record pack to version 2, by default in place."""
    _tarn.iac_rewrite(source, source if target is None else target, None,
                      _options(overwrite or target is None), True)
