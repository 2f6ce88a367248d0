"""The index of a fold as an array of rows: `iTarState`, and `parse_tar`, which builds one.

>>> state = parse_tar(birds + "/train_0.tar").finalize()
>>> state.ext2id, state.n_stems, state.is_contiguous, len(state.arr)
({'txt': 0, 'cls': 1, 'json': 2}, 4, True, 12)
>>> int(state.arr[0]["offset"]), int(state.arr[1]["size"])
(0, 1)

The library scans all shards of a state together. The rows need NumPy.
"""

from __future__ import annotations

import os
import struct
import tempfile
from typing import TYPE_CHECKING, Any, Union

from .. import _tarn

if TYPE_CHECKING:
    from typing import Self

__all__ = ["iTarState", "parse_tar"]

PathLike = Union[str, "os.PathLike[str]"]

BLOCK = _BLK = 512
_HEADER = struct.Struct("<8sHHHHQQIIQQB7x")
_FIELDS = {
    "ARR_DT": [("fid", "<u2"), ("offset", "<u8"), ("size", "<u8"), ("extid", "<u2"),
               ("crashid", "<u4"), ("keyhash", "<u8")],
    "HDR_DT": [("magic", "S8"), ("major", "<u2"), ("minor", "<u2"), ("rec_size", "<u2"),
               ("hdr_size", "<u2"), ("n_stems", "<u8"), ("n_rows", "<u8"), ("n_ext", "<u4"),
               ("n_crash", "<u4"), ("off_crash", "<u8"), ("off_arr", "<u8"), ("flags", "u1"),
               ("reserved", "V7")],
}


def __getattr__(name: str) -> Any:
    if name.lstrip("_") not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import numpy

    return numpy.dtype(_FIELDS[name.lstrip("_")])


def rows_array(data: bytes) -> Any:
    """Returns rows of 32 bytes as a structured array."""
    import numpy

    return numpy.frombuffer(data, dtype=_FIELDS["ARR_DT"])


def _write(path: str, parts: list[bytes]) -> None:
    """Replaces a file atomically. The checksums of the old index are removed first, because they
    do not match the new one."""
    folder, name = os.path.split(os.path.abspath(path))
    handle, made = tempfile.mkstemp(prefix="." + name, dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(parts)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(made, 0o644)
        try:
            os.unlink(path.removesuffix(".taridx") + ".tarsum")
        except FileNotFoundError:
            pass
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def _names(block: bytes, count: int) -> list[str]:
    """Splits a block into names; one of them may be empty."""
    names = block.decode("utf-8", "surrogateescape").split("\n") if count or block else []
    if len(names) != count:
        raise ValueError(f"found {len(names)} names, expected {count}")
    return names


class iTarState:
    """The contents of a `.taridx`: rows, extensions and colliding stems.

    To build a state, call `empty()`, then `parse_tar` for each shard in the order of the suffixes,
    then `finalize()`. `load()` reads a state from a file.

    arr: one row for each member: fid, offset (of its header), size, extid, crashid, keyhash.
    ext2id: extensions and their numbers. crashstem: stems whose hash collides with an earlier one,
    and their numbers. n_stems, is_contiguous: the number of samples, and whether the rows of each
    sample are contiguous. hashinfo, seen_stems: always empty, because the library keeps this
    information during a scan.
    """

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._index: _tarn._Index | None = None  # of the shards in _paths, or loaded
        self._arr: Any = None
        self._ext2id: dict[str, int] = {}
        self._crashstem: dict[str, int] = {}
        self._n_stems = 0
        self._contiguous = True
        self.finalized = False
        self.hashinfo: dict[int, str] = {}
        self.seen_stems: set[str] = set()

    # --- Building ---

    @classmethod
    def empty(cls, *_: Any, **__: Any) -> Self:
        """Returns a state without rows. The capacity has no effect."""
        return cls()

    def parse_tar(self, path: PathLike, bufsize: int | None = None) -> Self:
        """Adds a shard, which gets the next fid, even if it has no members. Raises ValueError if
        it is damaged. bufsize has no effect."""
        if self.finalized:
            raise ValueError("parse_tar: the state is already finalized")
        name = os.fspath(path)
        _tarn.build_index([name])
        self._paths.append(name)
        self._index = None
        return self

    def _take(self, index: _tarn._Index) -> None:
        info = index.info()
        self._index, self._arr = index, None
        self._ext2id = {name: number for number, name in enumerate(index.fields())}
        self._crashstem = {stem: number for number, stem in enumerate(index.crashes(), 1)}
        self._n_stems, self._contiguous = info["samples"], info["contiguous"]

    def _scanned(self) -> None:
        """Scans all shards together; hash collisions are known only then."""
        if self._index is None and self._paths:
            self._take(_tarn.build_index(self._paths))

    def finalize(self) -> Self:
        """Completes the state, so that it can be saved.

        >>> iTarState.empty().finalize().n_stems
        0
        """
        self._scanned()
        self.finalized = True
        return self

    finalise = finalize

    @classmethod
    def _of(cls, index: _tarn._Index) -> Self:
        self = cls()
        self._take(index)
        self.finalized = True
        return self

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Reads a `.taridx`, even if its rows were sorted or filtered before saving. Raises
        ValueError if it is damaged."""
        name = os.fspath(path)
        with open(name, "rb") as file:
            data = file.read()
        try:
            return cls._parsed(data)
        except (ValueError, struct.error) as error:
            raise ValueError(f"{name}: {error}") from None

    @classmethod
    def _parsed(cls, data: bytes) -> Self:
        (magic, major, _, row_size, head_size, n_stems, n_rows, n_ext, n_crash, crash_at, rows_at,
         flags) = _HEADER.unpack_from(data)
        if magic.rstrip(b"\0") != b"TARIDX":
            raise ValueError("not an iTar index")
        if (major, row_size, head_size) != (1, 32, _HEADER.size):
            raise ValueError(f"unsupported index version {major} with rows of {row_size} bytes")
        if not _HEADER.size <= crash_at <= rows_at or rows_at + 32 * n_rows != len(data):
            raise ValueError(f"{n_rows} rows do not match a file of {len(data)} bytes")
        self = cls()
        extensions = _names(data[_HEADER.size:crash_at], n_ext)
        crashes = _names(data[crash_at:rows_at], n_crash)
        self.arr = rows_array(data[rows_at:])
        self._ext2id = {name: number for number, name in enumerate(extensions)}
        self._crashstem = {stem: number for number, stem in enumerate(crashes, 1)}
        self._n_stems, self._contiguous, self.finalized = n_stems, bool(flags & 1), True
        if n_rows and (self.arr["extid"].max() >= n_ext or self.arr["crashid"].max() > n_crash):
            raise ValueError("a row has an extension or crash number that is not listed")
        return self

    def save(self, path: PathLike) -> None:
        """Writes a `.taridx` atomically.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parse_tar(birds + "/train_0.tar").finalize().save(folder + "/train.taridx")
        ...     os.path.getsize(folder + "/train.taridx") - 12 * 32
        76
        """
        if not self.finalized:
            raise ValueError("save: the state is not finalized; call finalize() first")
        name = os.fspath(path)
        if self._index is not None and self._paths:
            self._index.save(name)
            return
        extensions = "\n".join(self._ext2id).encode("utf-8", "surrogateescape")
        crashes = "\n".join(self._crashstem).encode("utf-8", "surrogateescape")
        crash_at = _HEADER.size + len(extensions)
        arr = self.arr
        header = _HEADER.pack(b"TARIDX", 1, 0, 32, _HEADER.size, self._n_stems, len(arr),
                              len(self._ext2id), len(self._crashstem), crash_at,
                              crash_at + len(crashes), int(self._contiguous))
        _write(name, [header, extensions, crashes, arr.tobytes()])

    # --- Contents ---

    @property
    def arr(self) -> Any:
        """The rows, as a structured array in the layout of the file."""
        self._scanned()
        if self._arr is None:
            self._arr = rows_array(b"" if self._index is None else self._index.rows())
        return self._arr

    @arr.setter
    def arr(self, rows: Any) -> None:
        self._arr = rows
        self._index = None
        self._paths = []

    @property
    def ext2id(self) -> dict[str, int]:
        """Extensions, without their dot, and their numbers."""
        self._scanned()
        return self._ext2id

    @property
    def id2ext(self) -> dict[int, str]:
        """Inverse of ext2id."""
        return {number: name for name, number in self.ext2id.items()}

    @property
    def crashstem(self) -> dict[str, int]:
        """Stems whose hash collides with an earlier stem, and their numbers, starting at 1."""
        self._scanned()
        return self._crashstem

    @property
    def n_stems(self) -> int:
        """Number of samples in the index; filters do not change it."""
        self._scanned()
        return self._n_stems

    @property
    def is_contiguous(self) -> bool:
        """Whether the rows of each sample are contiguous."""
        self._scanned()
        return self._contiguous

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.arr)

    def __len__(self) -> int:
        return self.n_rows

    def enforce_contiguous(self) -> Self:
        """Sorts the rows by (keyhash, crashid) in memory, unless the rows of each sample are
        already contiguous."""
        if not self.is_contiguous:
            import numpy

            arr = self.arr
            self.arr = arr[numpy.lexsort((arr["crashid"], arr["keyhash"]))]
            self._contiguous = True
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.arr, self.ext2id, self.crashstem, self.n_stems, self.is_contiguous,
                 self.finalized)
        return _restored, (type(self), *parts)

    def __repr__(self) -> str:
        return (f"<iTarState: {self.n_rows} rows, {self.n_stems} stems, extensions "
                f"{' '.join(self.ext2id)}>")


def _restored(cls: type[iTarState], arr: Any, ext2id: dict[str, int], crashstem: dict[str, int],
              n_stems: int, contiguous: bool, finalized: bool) -> iTarState:
    self = cls()
    self.arr = arr
    self._ext2id, self._crashstem = ext2id, crashstem
    self._n_stems, self._contiguous, self.finalized = n_stems, contiguous, finalized
    return self


def parse_tar(path: PathLike | iTarState, state: iTarState | PathLike | None = None,
              bufsize: int | None = None) -> iTarState:
    """Adds a shard to a state and returns the state. None creates a new one. The two arguments may
    come in any order."""
    if isinstance(path, iTarState):
        path, state = state, path  # type: ignore[assignment]
    if isinstance(path, iTarState) or path is None:
        raise TypeError("parse_tar: needs a path and a state")
    if state is None:
        state = iTarState.empty()
    if not isinstance(state, iTarState):
        raise TypeError(f"parse_tar: needs a state, not {type(state).__name__}")
    return state.parse_tar(path, bufsize)
