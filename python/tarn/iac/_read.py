"""Reading record packs: PackReader on top of the extension's Pack, tables, and the functions of
iatro-base-iac. The frequent calls (read_payload, views, batches) are methods of the extension."""

from __future__ import annotations

import json
import operator
import os
import pathlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _tarn
from ..errors import shown
from ._cache import Path

if TYPE_CHECKING:
    import pyarrow as pa
    from typing import Self


class Report(NamedTuple):
    """The result of `verify`; `texts` has the first thousand problems."""

    records: int
    checksummed: int
    bytes: int
    problems: int
    texts: list[str]


# --- Tables ----------------------------------------------------------------------------------


class Table:
    """A table of a record pack. Any Arrow library can use it without a copy (`pyarrow.table(t)`,
    `polars.DataFrame(t)`, `pandas.DataFrame.from_arrow(t)`, duckdb queries). It points into the
    file, which stays mapped as long as it is needed.

    >>> import tarn.iac
    >>> tarn.iac.build_pack("t.iac", {}, {"slide_id": ["s"]}, {"name": ["a", "b"], "n": [1, 2]},
    ...                     [b"x", b"yz"], overwrite=True)
    >>> table = tarn.iac.open("t.iac").index
    >>> table.column_names
    ['name', 'n', 'offset', 'length', 'crc32']
    >>> table["name"], table["length"]
    (['a', 'b'], [1, 2])
    >>> import pyarrow
    >>> pyarrow.table(table).num_rows
    2
    """

    def __init__(self, table: _tarn.PackTable) -> None:
        self._table = table
        self._rows: list[int] | None = None
        self.types: dict[str, str] = dict(table._columns())

    @property
    def column_names(self) -> list[str]:
        return [name for name, _ in self._table._columns()]

    @property
    def batch_rows(self) -> list[int]:
        """Number of rows in each record batch."""
        if self._rows is None:
            self._rows = self._table._batches()
        return self._rows

    @property
    def num_rows(self) -> int:
        return sum(self.batch_rows)

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, name: str) -> list[Any]:
        """Returns the values of a column as Python objects: text, numbers, lists, dicts. Binary
        values and decimals are hexadecimal digits, and times are the stored numbers. An Arrow
        library supports more types and is faster."""
        names = self.column_names
        if name not in names:
            raise KeyError(f"no column {name!r}; available: {', '.join(names)}")
        values = json.loads(self._table._values(names.index(name), 0, self.num_rows))
        return values  # type: ignore[no-any-return]

    def to_pydict(self) -> dict[str, list[Any]]:
        return {name: self[name] for name in self.column_names}

    def to_pyarrow(self) -> pa.Table:
        """Converts to a pyarrow.Table, without a copy."""
        import pyarrow

        return pyarrow.table(self)

    def batches(self) -> list[RecordBatch]:
        """The record batches, each with `__arrow_c_array__`."""
        return [RecordBatch(self._table, i, rows) for i, rows in enumerate(self.batch_rows)]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {kind}" for name, kind in self._table._columns())
        return f"<Table of {self.num_rows} rows: {shown}>"


class RecordBatch:
    """One batch of a table, for `pyarrow.record_batch` and similar functions."""

    def __init__(self, table: _tarn.PackTable, number: int, rows: int) -> None:
        self._table = table
        self._number = number
        self.num_rows = rows

    def __len__(self) -> int:
        return self.num_rows

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._table._batch(self._number)

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()


def _as_table(table: Table) -> Any:
    """Returns a pyarrow.Table, as iatro-base-iac does, if pyarrow is installed."""
    try:
        return table.to_pyarrow()
    except ImportError:
        return table


# --- Payloads --------------------------------------------------------------------------------


class Batch(Sequence[memoryview]):
    """Several records in one buffer: record i is `buffer[offsets[i]:offsets[i + 1]]`."""

    buffer: memoryview
    """The bytes of all records, read-only."""
    offsets_buffer: memoryview
    """Unsigned 64-bit numbers, one more than there are records."""

    def __init__(self, data: bytes, offsets: Iterable[int]) -> None:
        try:
            places = array("Q", offsets)
        except OverflowError:
            raise ValueError("offsets must be numbers from 0 to 2^64 - 1") from None
        if not places or places[0] != 0:
            raise ValueError("offsets must start at zero")
        if any(left > right for left, right in zip(places, places[1:])):
            raise ValueError("offsets must be nondecreasing")
        if places[-1] != len(data):
            raise ValueError("final offset must equal the buffer length")
        self.buffer = memoryview(bytes(data))
        self.offsets_buffer = memoryview(places.tobytes()).cast("Q")
        self._offsets: tuple[int, ...] | None = None

    @classmethod
    def _from_offsets_buffer(cls, data: bytes | memoryview,
                             offsets_buffer: bytes | memoryview) -> Batch:
        """Wraps the result of the extension, whose offsets need no second check."""
        if memoryview(offsets_buffer).nbytes % 8:
            raise ValueError("offsets buffer length must be divisible by 8")
        batch = cls.__new__(cls)
        batch.buffer = memoryview(data)
        batch.offsets_buffer = memoryview(offsets_buffer).cast("Q")
        batch._offsets = None
        return batch

    @property
    def offsets(self) -> tuple[int, ...]:
        if self._offsets is None:
            self._offsets = tuple(self.offsets_buffer)
        return self._offsets

    @property
    def lengths(self) -> tuple[int, ...]:
        at = self.offsets_buffer
        return tuple(end - begin for begin, end in zip(at, at[1:]))

    @property
    def record_count(self) -> int:
        return len(self.offsets_buffer) - 1

    def view(self, row: int) -> memoryview:
        """Returns one record without a copy; negative rows count from the end."""
        if isinstance(row, bool):
            raise TypeError("a row must be an integer, not a bool")
        row = operator.index(row)
        if row < 0:
            row += self.record_count
        if not 0 <= row < self.record_count:
            raise IndexError(f"row {row} is out of range for {self.record_count} records")
        return self.buffer[self.offsets_buffer[row]:self.offsets_buffer[row + 1]]

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self.view(i) for i in range(*row.indices(self.record_count))]
        return self.view(row)

    def __len__(self) -> int:
        return self.record_count

    def __repr__(self) -> str:
        return f"<Batch of {self.record_count} records, {len(self.buffer)} bytes>"


class PackReader(_tarn.Pack):
    """A record pack, open for reading.

    As in iatro-base-iac, the file is opened on first use, and again after `close`; `open` opens it
    immediately. Any number of threads may read without locks. Tables and views stay valid after
    `close`. Readers can be pickled; the other process opens the file itself.

    `check=True` compares each payload with its CRC before returning it; `mapped=False` reads
    instead of mapping.

    >>> import tarn.iac
    >>> tarn.iac.build_pack("t.iac", {"codec": "none"}, {"slide_id": ["s"]},
    ...                     {"name": ["a", "b"]}, [b"one", b"two"], overwrite=True)
    >>> reader = tarn.iac.PackReader("t.iac")
    >>> reader.read_payload(1), reader.read_payloads([-1, 0])
    (b'two', [b'two', b'one'])
    >>> reader.header["num_records"], len(reader)
    (2, 2)
    >>> bytes(reader.view(0)), reader.find("name", "b")
    (b'one', 1)
    >>> reader.close()
    """

    package_path: pathlib.Path
    # Programs ask iatro-base-iac for `_mmap`, `_native_reader` and `_read_payloads_contiguous`.
    _mmap = None  # the library maps

    def __init__(self, package_path: Path, *, check: bool = False, mapped: bool = True) -> None:
        super().__init__(package_path, check=check, mapped=mapped)
        self.package_path = pathlib.Path(package_path)
        self._options = {"check": check, "mapped": mapped}
        self._header: dict[str, Any] | None = None
        self._slides: Any = None
        self._records: Any = None

    # -- the iatro-base-iac interface --

    @property
    def header(self) -> dict[str, Any]:
        """The JSON object in the header: the caller's fields, and the layout of the file."""
        if self._header is None:
            self._header = json.loads(self._header_text())
        return self._header

    @property
    def slide_table(self) -> pa.Table:
        """The table of slides as a pyarrow.Table (without pyarrow, as a `Table`)."""
        if self._slides is None:
            self._slides = _as_table(self.slides)
        return self._slides

    @property
    def index_table(self) -> pa.Table:
        """The table with one row for each record, as a pyarrow.Table or `Table`."""
        if self._records is None:
            self._records = _as_table(self.index)
        return self._records

    @property
    def record_table(self) -> pa.Table:
        """Alias of `index_table`."""
        return self.index_table

    def read_data_span(self, offset: int, length: int) -> bytes:
        """Returns bytes of the data segment, independently of the index."""
        try:
            return self._span(offset, length)
        except OverflowError:
            raise ValueError(f"{length} bytes at {offset} are outside the data segment") from None

    def read_data_spans(self, spans: Iterable[tuple[int, int]]) -> bytes:
        """Returns several spans (offset, length), concatenated."""
        return b"".join([self.read_data_span(offset, length) for offset, length in spans])

    def _read_payloads_contiguous(self, rows: Iterable[int]) -> tuple[memoryview, memoryview]:
        return self._batch(rows)

    @property
    def _native_reader(self) -> Any:
        return self if self.opened else None

    @property
    def mmap_enabled(self) -> bool:
        """Whether views point into a memory map of the file."""
        return bool(self._info()["mapped"])

    def close(self) -> None:
        """Closes the file. Views and tables stay valid; the next use opens the file again."""
        super().close()
        self._header = self._slides = self._records = None

    # -- additions --

    @property
    def slides(self) -> Table:
        """The table of slides, for any Arrow library."""
        return Table(self._table(0))

    @property
    def index(self) -> Table:
        """The table with one row for each record, for any Arrow library."""
        return Table(self._table(1))

    @property
    def info(self) -> dict[str, Any]:
        """Version, counts, sizes, codec, and what the index stores about the records."""
        return self._info()

    def batch(self, rows: Iterable[int]) -> Batch:
        """Reads several records in one C call, without the GIL. They are returned in the requested
        order in one new buffer, but read in file order."""
        return Batch._from_offsets_buffer(*self._batch(rows))

    def find(self, column: str, value: str | int, start: int = 0) -> int:
        """Returns the first row, starting at `start`, whose column has the value; raises KeyError
        if there is none. Works for text and integer columns. The first lookup builds an index in
        memory."""
        return self._find(column, str(value), start, False)

    def verify(self, *, threads: int = 0) -> Report:
        """Checks the whole file; see `tarn.iac.verify`."""
        return verify(self.package_path, threads=threads)

    def __getitem__(self, row: Any) -> Any:
        """Returns the bytes of a record, or a list of them for a slice."""
        if isinstance(row, slice):
            return self.read_payloads(range(*row.indices(len(self))))
        return self.read_payload(row)

    def __iter__(self) -> Iterator[bytes]:
        for row in range(len(self)):
            yield self.read_payload(row)

    def __enter__(self) -> PackReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.package_path, self._options)

    def __repr__(self) -> str:
        state = f"{len(self)} records" if self.opened else "not open"
        return f"<{type(self).__name__} {shown(self.package_path)!r}: {state}>"


def _reopen(kind: type[PackReader], path: Path, options: dict[str, bool]) -> PackReader:
    return kind(path, **options)


def open(path: Path, *, check: bool = False, mapped: bool = True) -> PackReader:
    """Opens a record pack immediately, so that errors are raised here; see `PackReader`."""
    reader = PackReader(path, check=check, mapped=mapped)
    reader._open()
    return reader


class Wrapped:
    """Base class of what reads one kind of record pack: with a `PackReader`, or with another class
    derived from this one."""

    _open: Callable[[Path], Any] = PackReader

    def __init__(self, package_path: Path) -> None:
        self._reader = type(self)._open(package_path)

    @property
    def package_path(self) -> pathlib.Path:
        path: pathlib.Path = self._reader.package_path
        return path

    @property
    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = self._reader.header
        return header

    @property
    def index_table(self) -> pa.Table:
        return self._reader.index_table

    @property
    def record_count(self) -> int:
        return len(self._reader)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package_path,)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.package_path)!r}>"


# --- Functions -------------------------------------------------------------------------------


def is_pack(path: Path) -> bool:
    """Whether a file starts like a record pack. False if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.pread(file, 7, 0) == b"IATROC\0"
    except OSError:
        return False
    finally:
        os.close(file)


def verify(path: Path, *, threads: int = 0) -> Report:
    """Checks the header, both tables, every span and every CRC, on all cores.

    >>> import tarn.iac
    >>> tarn.iac.build_pack("t.iac", {}, {"slide_id": ["s"]}, {"name": ["a"]}, [b"one"],
    ...                     overwrite=True)
    >>> tarn.iac.verify("t.iac").problems
    0
    """
    records, size, checksummed, problems, _, texts = _tarn.verify(path, False, False, threads)
    return Report(records, checksummed, size, problems, texts)


def read_tables(package_path: Path) -> tuple[dict[str, Any], pa.Table, pa.Table]:
    """Returns (header, slide table, index table) of a record pack."""
    with PackReader(package_path) as reader:
        return reader.header, reader.slide_table, reader.index_table


def read_payload(package_path: Path, header: dict[str, Any], offset: int, length: int) -> bytes:
    """Reads one span of the data segment that the header describes. For more than one, a
    `PackReader` is faster."""
    if offset < 0 or length < 0 or offset + length > int(header["data_length"]):
        raise ValueError(f"payload span outside data segment: offset={offset} length={length}")
    at = int(header["data_offset"]) + offset
    fd = os.open(package_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        have = max(os.fstat(fd).st_size - at, 0)
        if have < length:
            raise ValueError(f"short payload read at offset={offset}: expected={length} "
                             f"got={have}")
        data = os.pread(fd, length, at)
        while len(data) < length:  # one read returns at most 2 GB
            more = os.pread(fd, length - len(data), at + len(data))
            if not more:
                raise ValueError(f"short payload read at offset={offset}: expected={length} "
                                 f"got={len(data)}")
            data += more
        return data
    finally:
        os.close(fd)


def iter_payloads(package_path: Path) -> Iterator[bytes]:
    """Yields all payloads, in the order of the index table."""
    with PackReader(package_path) as reader:
        yield from reader
