"""Array files (.gnz): named, page-aligned arrays in one file, memory-mapped and used in place.

    import numpy as np
    import tarn.gnz

    with tarn.gnz.create("features.gnz") as out:            # gets its name when it is complete
        out.metadata["model"] = "v2"
        out.add("ids", np.arange(3))
        x = out.reserve("x", (3, 4), "<f4")
        for i in range(3):
            x[i:i + 1] = np.full((1, 4), i)
    with tarn.gnz.open("features.gnz") as f:
        f["x"]              # a NumPy array into the file; nothing is read before it is used
        f.rows[2]           # {"ids": ..., "x": ...}: arrays of equal length are samples

`GnzWriter` and `GnzReader` have the names, arguments and results of the original package, and
write the same bytes. Without NumPy, arrays are memoryviews.
"""

from __future__ import annotations

import json as _json
import os as _os
import pathlib as _pathlib
import threading as _threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from . import _tarn
from ._arguments import whole as _whole
from ._published import Published as _Published
from .errors import FormatError as _FormatError
from .errors import KeyNotFoundError as _KeyNotFoundError
from .errors import UsageError as _UsageError
from .errors import shown as _shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ArrayInfo", "GnzReader", "GnzWriter", "Report", "Reserved", "Rows", "Stats", "Writer",
           "create", "open", "save", "update", "verify"]

GNZ_MAGIC = b"GNZ1"
ALIGNMENT = 4096

Path = Union[str, "_os.PathLike[str]"]

# The long names of np.memmap's modes.
_MODES = {"readonly": "r", "readwrite": "r+", "copyonwrite": "c"}
_ADVICE = {"normal": 0, "sequential": 1, "random": 2, "will_need": 3, "dont_need": 4}


class ArrayInfo(NamedTuple):
    """The header's entry for an array."""

    name: str
    dtype: str  # NumPy's array-protocol string, such as "<f4"
    shape: tuple[int, ...]
    offset: int  # in the file
    nbytes: int
    order: str  # "C" or "F"
    reserved: int  # reserved number of rows
    checksum: int | None  # CRC-32C of the values, if the file has one


class Stats(NamedTuple):
    """The result of `GnzReader.stats`. NaN values are counted but otherwise ignored; the bins hold
    finite values."""

    values: int
    nans: int
    infinities: int
    min: float
    max: float
    mean: float
    low: float
    high: float
    bins: list[int]


class Report(NamedTuple):
    """The result of `verify`; `texts` has the first thousand problems."""

    arrays: int
    bytes: int
    checksummed: int
    problems: int
    repairs: int
    texts: list[str]


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _typestr(dtype: Any) -> str:
    """Returns the array-protocol string of anything NumPy accepts as a dtype; without NumPy, only
    such strings are accepted."""
    np = _numpy()
    if np is not None:
        return str(np.dtype(dtype).str)
    if isinstance(dtype, str):
        return dtype
    raise TypeError(f"without NumPy a dtype must be a string such as '<f4', not {dtype!r}")


def _values(data: Any) -> Any:
    """Returns an object with the buffer protocol."""
    np = _numpy()
    if np is not None:
        return np.asarray(data)
    return data


def _castable(values: Any, dtype: str | None) -> Any:
    """Returns values that the library can write as dtype; NumPy does the casts that the library
    does not."""
    np = _numpy()
    if np is None or dtype is None:
        return values
    numbers = "biufc"
    if values.dtype.kind in numbers and np.dtype(dtype).kind in numbers:
        return values
    return values.astype(dtype)


# --- Reading ---------------------------------------------------------------------------------


class GnzReader(Mapping[str, Any]):
    """An array file, open for reading.

    It is a mapping from names to arrays. The whole header is checked when the file is opened,
    before anything is mapped. Arrays stay valid after `close`. Any number of threads may read.

    >>> import numpy as np, tarn.gnz
    >>> tarn.gnz.save("some.gnz", ids=np.arange(3), x=np.ones((3, 2), "f4"))
    >>> f = tarn.gnz.GnzReader("some.gnz")
    >>> f.keys()
    ['ids', 'x']
    >>> f["x"].sum()
    np.float32(6.0)
    >>> f.get_array("ids", mode="c")
    memmap([0, 1, 2])
    """

    fpath: _pathlib.Path
    header: dict[str, Any]
    metadata: dict[str, Any]
    arrays_info: dict[str, dict[str, Any]]

    def __init__(self, fpath: Path, *, mapped: bool = True) -> None:
        """`mapped=False` copies arrays into memory instead of mapping them. This is safe even if
        other processes shorten the file in the meantime."""
        self.fpath = _pathlib.Path(fpath)
        self._mapped = mapped
        self._resolved = self.fpath.resolve()
        self._rows: Rows | None = None
        self._checked: set[str] = set()
        self._file: _tarn.GnzFile | None = _tarn.gnz_open(self.fpath, mapped)
        entries = self._file.entries()
        self._infos = {entry[0]: ArrayInfo(*entry[:8]) for entry in entries}
        self._fields = [entry[0] for entry in entries if entry[8]]
        self._numbers = {name: number for number, name in enumerate(self._infos)}
        self.metadata = _json.loads(self._file.metadata())
        self.arrays_info = {
            i.name: {"offset": i.offset, "shape": list(i.shape), "dtype": i.dtype,
                     "order": i.order}
            for i in self._infos.values()}
        self.header = {"version": 1, "metadata": self.metadata, "arrays": self.arrays_info}

    def _open(self) -> _tarn.GnzFile:
        if self._file is None:
            raise ValueError(f"{self.fpath}: the file is closed")
        return self._file

    def _number(self, name: str) -> int:
        try:
            return self._numbers[name]
        except KeyError:
            raise KeyError(f"Array '{name}' not found in GNZ file") from None

    # -- the original interface --

    def keys(self) -> list[str]:  # type: ignore[override]
        """Returns the names of the arrays, in the order of the header."""
        return list(self._infos)

    def get_array(self, name: str, mode: str = "r") -> np.memmap[Any, Any]:
        """Returns an array as a `numpy.memmap`. Mode "r" is read-only, "r+" writes to the file,
        and "c" writes to memory only."""
        np = _numpy()
        if np is None:
            raise ImportError("get_array returns a numpy.memmap; use reader[name] without NumPy")
        mode = _MODES.get(mode, mode)
        self._check_text(name)
        memory = self._open().view(self._number(name), mode)
        info = self._infos[name]
        array = np.ndarray.__new__(np.memmap, info.shape, np.dtype(info.dtype), memory, 0, None,
                                   info.order)
        array._mmap = memory
        array.filename = self._resolved
        array.offset = info.offset
        array.mode = mode
        return array  # type: ignore[no-any-return]

    # -- additions --

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self._infos)

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
        return self._open().sizes()[2]

    def __len__(self) -> int:
        return len(self._infos)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __getitem__(self, name: str) -> Any:
        """Returns the array as a read-only NumPy array into the file."""
        return self.array(name)

    def array(self, name: str, mode: str = "r") -> npt.NDArray[Any]:
        """Returns an array, in one of the modes of `get_array`, as a plain NumPy array. Its rows
        are faster to access than those of a memmap. Without NumPy it is a memoryview."""
        self._check_text(name)
        array = self._open().array(self._number(name), _MODES.get(mode, mode))
        return array  # type: ignore[no-any-return]

    def _check_text(self, name: str) -> None:
        """Checks once that a text array has only characters that Python can represent: NumPy
        fails with a `SystemError` on others."""
        np = _numpy()
        if np is None or name in self._checked or self.info(name).dtype[1:2] != "U":
            return
        self._refuse_bad_text(name, self._open().array(self._number(name), "r"))
        self._checked.add(name)

    def _refuse_bad_text(self, name: str, array: npt.NDArray[Any]) -> None:
        if array.dtype.kind != "U" or not array.nbytes:
            return
        codes = array.ravel("K").view(f"{array.dtype.str[0]}u4")
        if codes.max() > 0x10ffff:
            row = int(codes.argmax()) // (array.dtype.itemsize // 4)
            raise _FormatError(f"{self.fpath}: array {name!r}: {int(codes.max()):#x} is not a "
                               f"Unicode character (element {row}); the file is damaged")

    def read(self, name: str, first: int = 0, rows: int | None = None) -> Any:
        """Returns a copy of an array, or of some of its rows, read without mapping.

        >>> import numpy as np, tarn.gnz
        >>> tarn.gnz.save("some.gnz", x=np.arange(10))
        >>> tarn.gnz.open("some.gnz").read("x", 3, 2)
        array([3, 4])
        """
        info = self.info(name)
        count = info.shape[0] if info.shape else 1
        first = first + count if first < 0 else first
        end = count if rows is None else first + _whole("rows", rows)
        first, end = (min(max(place, 0), count) for place in (first, end))
        if not info.shape and end - first != 1:
            raise IndexError(f"array {name!r} has no rows, because it is a single value")
        shape = (end - first, *info.shape[1:]) if info.shape else ()
        np = _numpy()
        if np is not None:
            out: Any = np.empty(shape, info.dtype)
            room = out.reshape(-1).view("u1") if out.nbytes else bytearray()
        else:
            out = room = bytearray(info.nbytes // max(count, 1) * (end - first))
        self._open().read_into(self._number(name), first, end - first, room)
        if np is not None:
            self._refuse_bad_text(name, out)
        return out

    def info(self, name: str) -> ArrayInfo:
        """Returns the header's entry for an array."""
        self._number(name)
        return self._infos[name]

    def stats(self, name: str) -> Stats:
        """Returns the minimum, maximum and mean, and a histogram; for numeric arrays only."""
        return Stats(*self._open().stats(self._number(name)))

    def advise(self, name: str, advice: str, first: int = 0, rows: int | None = None) -> None:
        """Announces to the system how rows will be used: "normal", "sequential", "random", "will_need"
        (start reading them), "dont_need"."""
        if advice not in _ADVICE:
            raise ValueError(f"advice must be one of {', '.join(_ADVICE)}, not {advice!r}")
        count = (self.info(name).shape or (1,))[0]
        self._open().advise(self._number(name), first, count - first if rows is None else rows,
                            _ADVICE[advice])

    @property
    def rows(self) -> Rows:
        """The samples of the file: row i of all arrays of equal length."""
        self._open()
        if self._rows is None:
            self._rows = Rows(self)
        return self._rows

    def samples(self, names: Sequence[str] | None = None) -> Rows:
        """Returns the samples of the named arrays, which must have the same length."""
        return Rows(self, names)

    def verify(self) -> Report:
        """Checks every checksum and all bytes between arrays; see `tarn.gnz.verify`."""
        return verify(self._resolved)

    def close(self) -> None:
        """Closes the file. Arrays obtained from it stay valid."""
        self._file = self._rows = None

    @property
    def closed(self) -> bool:
        return self._file is None

    def __enter__(self) -> GnzReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.fpath, self._mapped)

    def __repr__(self) -> str:
        shown = ", ".join(f"{i.name}: {i.dtype}{list(i.shape)}"
                          for i in list(self._infos.values())[:6])
        more = ", ..." if len(self._infos) > 6 else ""
        state = " (closed)" if self.closed else ""
        return f"<{type(self).__name__} {_shown(self.fpath)!r}{state}: {shown}{more}>"


def _reopen(kind: type[GnzReader], fpath: Path, mapped: bool) -> GnzReader:
    return kind(fpath, mapped=mapped)


def _row(array: Any, i: int) -> Any:
    """Returns row i of a memoryview, which Python cannot index without NumPy."""
    if array.ndim < 2:
        return array[i]
    if not -len(array) <= i < len(array):
        raise IndexError(f"index {i} is out of range for {len(array)} rows")
    size = array.nbytes // len(array)
    start = i % len(array) * size
    return array.cast("B")[start:start + size].cast(array.format, array.shape[1:])


class Rows(Sequence[Any]):
    """The samples of an array file.

    >>> import numpy as np, tarn.gnz
    >>> tarn.gnz.save("some.gnz", ids=np.arange(3), x=np.zeros((3, 2)), note=np.array(5))
    >>> rows = tarn.gnz.open("some.gnz").rows
    >>> len(rows), rows[-1]
    (3, {'ids': np.int64(2), 'x': array([0., 0.])})
    """

    def __init__(self, reader: GnzReader, names: Sequence[str] | None = None) -> None:
        reader._open()
        infos = [reader.info(name) for name in (reader._fields if names is None else names)]
        if not infos:
            raise _KeyNotFoundError(f"{reader.fpath}: no array has rows")
        for info in infos:
            if not info.shape:
                raise _UsageError(f"{reader.fpath}: array {info.name!r} has no rows: it has no "
                                  "dimension")
            if info.shape[0] != infos[0].shape[0]:
                raise _UsageError(f"{reader.fpath}: arrays {infos[0].name!r} and {info.name!r} do "
                                  f"not have equally many rows: {infos[0].shape[0]} and "
                                  f"{info.shape[0]}")
        self._count = infos[0].shape[0]
        self._arrays = {info.name: reader.array(info.name) for info in infos}

    @property
    def fields(self) -> list[str]:
        return list(self._arrays)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: Any) -> Any:
        """Returns one sample, or the samples of a slice or index array, as a dict of arrays."""
        try:
            return {name: array[i] for name, array in self._arrays.items()}
        except NotImplementedError:  # of memoryviews with more than one dimension
            return {name: _row(array, i) for name, array in self._arrays.items()}

    def __repr__(self) -> str:
        return f"<Rows: {self._count} of {', '.join(self._arrays)}>"


def open(path: Path, *, mapped: bool = True) -> GnzReader:
    """Opens an array file; see `GnzReader`."""
    return GnzReader(path, mapped=mapped)


def verify(path: Path, *, repair: bool = False) -> Report:
    """Checks the header, every checksum, and that all bytes between arrays are zero. `repair`
    completes or rolls back an interrupted update.

    >>> import numpy as np, tarn.gnz
    >>> tarn.gnz.save("some.gnz", x=np.arange(10))
    >>> tarn.gnz.verify("some.gnz").problems
    0
    """
    return Report(*_tarn.verify(path, True, repair, 0))


# --- Writing ---------------------------------------------------------------------------------


class Reserved:
    """An array that is filled after its space was reserved. Threads may fill different parts at
    the same time, without the GIL. Items are those of `shape`; rows that were reserved after them
    are written with `append`."""

    def __init__(self, writer: Writer, name: str, dtype: str, shape: tuple[int, ...],
                 rows: int = 0) -> None:
        self._writer = writer
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self._grows = bool(shape) and rows > shape[0]

    def append(self, rows: Any) -> None:
        """Writes the next rows, cast to the array's type."""
        self._writer._begin()
        self._writer._file.fill(self.name, None, _castable(_values(rows), self.dtype))

    def fill(self, start: Sequence[int], values: Any) -> None:
        """Writes a block, which has as many dimensions as the array, starting at index `start`."""
        self._writer._begin()
        self._writer._file.fill(self.name, start, _castable(_values(values), self.dtype))

    def __setitem__(self, where: Any, values: Any) -> None:
        """Assigns to `array[i]`, `array[i:j]`, `array[i:j, k:l]` or `array[...]` values of that
        shape, or values that NumPy can broadcast to it."""
        np = _numpy()
        if np is None:
            raise TypeError("item assignment needs NumPy; use fill(start, values)")
        first = where[0] if isinstance(where, tuple) and where else where
        if self._grows and isinstance(first, slice) and \
                max(first.start or 0, first.stop or 0) > self.shape[0]:
            raise IndexError(f"{first} goes past the {self.shape[0]} rows of {self.name!r}; write "
                             "rows that were reserved after them with append")
        start, block = _region(where, self.shape)
        spread = np.broadcast_to(np.asarray(values), [n for n, kept in block if kept])
        self.fill(start, spread.reshape([n for n, _ in block]))

    def __repr__(self) -> str:
        return f"<Reserved {self.name!r}: {self.dtype}{list(self.shape)}>"


def _region(where: Any, shape: tuple[int, ...]) -> tuple[list[int], list[tuple[int, bool]]]:
    """Returns the start of an index and, for each dimension, its length and whether it is kept."""
    parts = list(where) if isinstance(where, tuple) else [where]
    if parts.count(Ellipsis) > 1 or len(parts) - parts.count(Ellipsis) > len(shape):
        raise IndexError(f"too many indices for an array of {len(shape)} dimensions")
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    missing = len(shape) - (len(parts) - parts.count(Ellipsis))
    parts[at:at + 1] = [slice(None)] * missing
    start, block = [], []
    for part, count in zip(parts, shape):
        if isinstance(part, slice):
            first, end, step = part.indices(count)
            if step != 1:
                raise IndexError("a slice with a step cannot be filled")
            start.append(first)
            block.append((max(end - first, 0), True))
        else:
            index = part.__index__()
            if not -count <= index < count:
                raise IndexError(f"index {index} is out of range for {count}")
            start.append(index % count)
            block.append((1, False))
    return start, block


class Writer(_Published):
    """Writes an array file. Use it in a `with` statement: the file gets its name at the end of the
    block. After an exception no file is left, or an existing file is unchanged.

    `metadata` is a dict that may be changed until the layout is fixed.
    """

    def __init__(self, file: _tarn.GnzWriter, path: Path, metadata: dict[str, Any] | None) -> None:
        self._file = file
        self._begun = False
        self._lock = _threading.Lock()
        self.path = _pathlib.Path(path)
        self._place = _pathlib.Path(_os.getcwd(), path)  # the program may change its directory
        self.metadata: dict[str, Any] = {} if metadata is None else dict(metadata)

    def add(self, name: str, values: Any, dtype: Any = None) -> None:
        """Adds a whole array; numbers are cast to `dtype` as `astype` does. The values are read
        when the layout is fixed (`begin`, the first `append` or `fill`, or the end), so do not
        change them before that."""
        typestr = None if dtype is None else _typestr(dtype)
        self._file.add(name, _castable(_values(values), typestr), typestr)

    __setitem__ = add

    def reserve(self, name: str, shape: Sequence[int], dtype: Any, *,
                rows: int = 0) -> Reserved:
        """Reserves space for an array that is filled later; parts that are never filled are zero.
        If `rows` is more than `shape[0]`, there is space for that many rows, and `append`
        continues after `shape[0]`, now or in a later `update`."""
        typestr = _typestr(dtype)
        self._file.reserve(name, typestr, shape, rows)
        return Reserved(self, name, typestr, tuple(shape), rows)

    def reserved(self, name: str) -> Reserved:
        """Returns an array of the file being updated, to append to."""
        with GnzReader(self._place) as reader:
            info = reader.info(name)
        return Reserved(self, name, info.dtype, info.shape)

    def begin(self) -> None:
        """Fixes the layout: allocates the disk space and writes the whole arrays. The first use of
        a reserved array does this automatically."""
        self._begin()

    def _begin(self) -> None:
        if self._begun:
            return
        with self._lock:
            if not self._begun:
                self._file.metadata(_json.dumps(self.metadata, sort_keys=True))
                self._file.begin()
                self._begun = True

    def finish(self) -> None:
        """Publishes the file under its name."""
        self._begin()
        self._file.finish()

    close = finish

    def abandon(self) -> None:
        """Discards everything; an existing file is unchanged."""
        self._file.abandon()


def create(path: Path, *, overwrite: bool = False, metadata: dict[str, Any] | None = None,
           checksums: bool = False, header_pages: int = 0, sync: bool = True) -> Writer:
    """Creates a writer for a new file.

    `checksums` stores a CRC-32C of each array, and `header_pages` reserves space for later
    updates. Without them the file equals the output of the original package byte for byte.
    `sync=False` does not wait for the disk.

    >>> import numpy as np, tarn.gnz
    >>> with tarn.gnz.create("grown.gnz", metadata={"unit": "mm"}) as out:
    ...     x = out.reserve("x", (0, 2), "f4", rows=100)
    ...     x.append(np.ones((3, 2)))
    >>> tarn.gnz.open("grown.gnz")["x"].shape
    (3, 2)
    """
    place = _os.path.join(_os.getcwd(), _os.fsdecode(path))  # the program may change its directory
    return Writer(_tarn.gnz_write(place, False, overwrite, checksums, header_pages, sync), path,
                  metadata)


def update(path: Path, *, checksums: bool = False) -> Writer:
    """Opens a writer that adds to an existing file in place: new arrays, as long as the header has
    space, and rows, if they were reserved. Readers see the old file until the update is finished.
    `metadata` starts with the metadata of the file."""
    with GnzReader(path) as reader:
        metadata = reader.metadata
    place = _os.path.join(_os.getcwd(), _os.fsdecode(path))
    return Writer(_tarn.gnz_write(place, True, False, checksums, 0, True), path, metadata)


def save(path: Path, /, **arrays: Any) -> None:
    """Writes arrays by name. An existing file is replaced, as with `numpy.savez`."""
    with create(path, overwrite=True) as writer:
        for name, values in arrays.items():
            writer.add(name, values)


class GnzWriter:
    """The writer of the original package: call `add_array` and `init_streaming_array`, then
    `write`, then fill the streaming arrays through `get_array_writable`.

    `write` publishes the file, so streaming arrays are filled after it has its name. If this is a
    problem, use `tarn.gnz.create`.

    >>> import numpy as np
    >>> from tarn.gnz import GnzReader, GnzWriter
    >>> w = GnzWriter("old.gnz", overwrite=True)
    >>> w.metadata["unit"] = "mm"
    >>> w.add_array("ids", np.arange(4), dtype="uint32")
    >>> w.init_streaming_array("x", (4, 2), np.int8)
    >>> w.write()
    >>> w.get_array_writable("x")[:2] = 1
    >>> GnzReader("old.gnz").get_array("x").sum()
    np.int64(4)
    """

    def __init__(self, fpath: Path, overwrite: bool = False) -> None:
        self.fpath = _pathlib.Path(fpath)
        if self.fpath.exists() and not overwrite:
            raise FileExistsError(f"File exists: {_shown(self.fpath)}")
        self._overwrite = overwrite
        self.metadata: dict[str, Any] = {}
        self.arrays_info: dict[str, dict[str, Any]] = {}
        self._pending_arrays: dict[str, tuple[Any, Any]] = {}
        self._streaming_arrays: dict[str, tuple[tuple[int, ...], Any]] = {}

    def add_array(self, name: str, data: npt.NDArray[Any], dtype: Any = None) -> None:
        """Adds a whole array, which `write` writes."""
        self._pending_arrays[name] = (data, dtype or data.dtype)

    def init_streaming_array(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Reserves space for an array that is filled after `write`."""
        import numpy as np

        self._streaming_arrays[name] = (shape, np.dtype(dtype))

    def write(self) -> None:
        """Lays out and writes the file."""
        with create(self.fpath, overwrite=self._overwrite, metadata=self.metadata) as out:
            for name, (data, dtype) in self._pending_arrays.items():
                if name in self._streaming_arrays:
                    data, dtype = self._beginning(name)
                out.add(name, data, dtype)
            for name, (shape, dtype) in self._streaming_arrays.items():
                if name not in self._pending_arrays:
                    out.reserve(name, shape, dtype)
        self._overwrite = True  # a second write replaces the first
        with GnzReader(self.fpath) as reader:
            self.arrays_info.clear()
            for info in sorted(map(reader.info, reader), key=lambda i: i.offset):
                shape, _ = self._streaming_arrays.get(info.name, (info.shape, None))
                self.arrays_info[info.name] = {**reader.arrays_info[info.name], "shape": shape}

    def _beginning(self, name: str) -> tuple[Any, Any]:
        """Writes the values of a streaming array that was also added as a whole; they come first
        in it."""
        import numpy as np

        data, kind = self._pending_arrays[name]
        shape, dtype = self._streaming_arrays[name]
        return np.broadcast_to(data.astype(kind), shape), dtype

    def get_array_writable(self, name: str) -> np.memmap[Any, Any]:
        """Returns an array of the written file, in mode "r+"."""
        if name not in self.arrays_info:
            raise KeyError(f"Array '{name}' not found. Call write() first to finalize layout.")
        return GnzReader(self.fpath).get_array(name, mode="r+")
