"""Writing packs: the builders of the originals, and a writer for payloads one by one. A pack
has its name when all of it is written, and nothing is left where that fails."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Union

from .. import _tarn
from .._published import Published

Path = Union[str, "os.PathLike[str]"]
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Names under which the original's own examples give the arguments.
_OTHER_NAMES = {"filepath": "output_path", "header": "header_json"}


def _other_names(function: _Function) -> _Function:
    """Takes keywords under the names of the originals' examples, too."""

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
    raise TypeError(f"column {name!r} is not of str or of int alone; give an Arrow table")


def _table(table: Any) -> Any:
    """What the extension takes for a table: anything that speaks Arrow, or lists by name."""
    if not isinstance(table, Mapping):
        return table
    columns = {str(name): list(values) for name, values in table.items()}
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("the columns of the table are not equally long")
    specs = [f"{_kind(name, values)}:{name}" for name, values in columns.items()]
    return _tarn.iac_rows(specs, tuple(zip(*columns.values())))


def _header_text(header: Mapping[str, Any]) -> str:
    return json.dumps(dict(header), sort_keys=True)


def _options(overwrite: bool, *, version: int = 2, codec: str = "none", level: int = 0,
             encoded: bool = False, sync: bool = True) -> tuple[Any, ...]:
    return version, codec, level, encoded, overwrite, sync


def _target(path: Path, header: Mapping[str, Any], slides: Any, index: Any,
            overwrite: bool) -> tuple[Any, ...]:
    """The first argument of the extension's builders."""
    path = pathlib.Path(path)
    text = _header_text(header)
    if path.exists() and not overwrite:
        raise FileExistsError(f"pack already exists: {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    place = os.path.join(os.getcwd(), path)  # the program may go elsewhere
    return place, text, _table(slides), _table(index), _options(overwrite)


# --- As the originals ------------------------------------------------------------------------


@_other_names
def build_pack(output_path: Path, header_json: dict[str, Any], slide_table: Any, index_table: Any,
               payloads: Iterable[bytes], *, overwrite: bool = False) -> None:
    """A pack of payloads that are in memory.

    The index table gets the columns offset, length and crc32. Tables are anything with the
    Arrow PyCapsule interface (pyarrow, polars, pandas, ...) or a dict of lists of str or int.

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
    """The same with payloads from an iterator; each goes straight to its place in the file."""
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    with PackWriter(_tarn.iac_write(*target)) as writer:
        for payload in payloads:
            writer.add(payload)


@_other_names
def build_pack_data_segment(output_path: Path, header_json: dict[str, Any], slide_table: Any,
                            index_table: Any, data: Any, *, overwrite: bool = False) -> None:
    """A pack with a data segment of the caller's own making; the index is written as it is."""
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    _tarn.iac_build_segment(target, data)


@_other_names
def build_pack_data_segment_from_file(output_path: Path, header_json: dict[str, Any],
                                      slide_table: Any, index_table: Any, data_path: Path, *,
                                      data_length: int, overwrite: bool = False) -> None:
    """The same with the data segment from a file, which has exactly `data_length` bytes."""
    target = _target(output_path, header_json, slide_table, index_table, overwrite)
    _tarn.iac_build_segment_file(target, data_path, int(data_length))


# --- As tarn does ----------------------------------------------------------------------------


class PackWriter(Published):
    """Writes a pack payload by payload; made by `create`. In a `with` statement the pack has
    its name when the block has ended; after an exception there is nothing, or what was there
    before."""

    def __init__(self, writer: _tarn.PackWriter) -> None:
        self._writer = writer

    def add(self, payload: Any) -> None:
        """The payload of the next row: anything with the buffer protocol."""
        self._writer.add(payload)

    def finish(self) -> None:
        """Publish. The index table must have as many rows as payloads were added."""
        self._writer.finish()

    close = finish

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.abandon()


def create(path: Path, index: Any, slides: Any = None, *, header: Mapping[str, Any] | None = None,
           codec: str = "none", level: int = 0, encoded: bool = False, version: int = 2,
           overwrite: bool = False, sync: bool = True) -> PackWriter:
    """A writer for a new pack with this index table. Payloads are compressed with `codec` (none,
    brotli, zstd, gzip), which the header says, unless `encoded` says that they are already.

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
    place = os.path.join(os.getcwd(), os.fsdecode(path))  # the program may go elsewhere
    return PackWriter(_tarn.iac_write(place, text, _table(slides), _table(index), options))


def rewrite(source: Path, target: Path, *, header: Mapping[str, Any] | None = None,
            codec: str = "none", level: int = 0, encoded: bool = False, version: int = 2,
            overwrite: bool = False, sync: bool = True) -> None:
    """Write a pack again with another codec, level or version. `header`, if given, replaces the
    caller's fields; `encoded` takes payloads and codec over as they are."""
    text = None if header is None else _header_text(header)
    _tarn.iac_rewrite(source, target, text,
                      _options(overwrite, version=version, codec=codec, level=level,
                               encoded=encoded, sync=sync), False)


def upgrade(source: Path, target: Path | None = None, *, overwrite: bool = False) -> None:
    """Make a version 2 pack of a version 1 pack, by default in its place."""
    _tarn.iac_rewrite(source, source if target is None else target, None,
                      _options(overwrite or target is None), True)
