"""The index of a fold as an array of rows: `iTarState`, and `parse_tar`, which builds one.

>>> state = parse_tar(birds + "/train_0.tar").finalize()
>>> state.ext2id, state.n_stems, state.is_contiguous, len(state.arr)
({'txt': 0, 'cls': 1, 'json': 2}, 4, True, 12)
>>> int(state.arr[0]["offset"]), int(state.arr[1]["size"])
(0, 1)

The library scans the shards. The rows need NumPy.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from ... import _tarn
from ...errors import LimitError, UsageError
from .utils import StemHelper

if TYPE_CHECKING:
    from typing import Self

__all__ = ["StemHelper", "iTarState", "parse_tar"]

PathLike = Union[str, "os.PathLike[str]"]

BLOCK = _BLK = 512
_SHARDS = 2**16  # a fid has 16 bits
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


def _write(path: str, data: bytes) -> None:
    """Replaces a file atomically. The checksums of the old index are removed first, because they
    do not match the new one."""
    folder, name = os.path.split(os.path.abspath(path))
    handle, made = tempfile.mkstemp(prefix="." + name, dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
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


class _Fields(NamedTuple):
    arr: Any
    pos: int
    ext2id: dict[str, int]
    crashstem: dict[str, int]
    hashinfo: dict[int, str]
    next_crash: int
    n_stems: int | None
    seen_stems: set[str]
    is_contiguous: bool | None


class iTarState(_Fields):
    """The contents of a `.taridx`, as a named tuple: rows, extensions and colliding stems.

    To build a state, call `parse_tar` for each shard in the order of the suffixes, with the state
    that it returned before, then `finalize()`. `load()` reads a state from a file. Methods return
    a new state.

    arr: one row for each member: fid, offset (of its header), size, extid, crashid, keyhash. Rows
    from `pos` on are unused. ext2id: extensions and their numbers. crashstem: stems whose hash
    collides with an earlier one, and their numbers, up to next_crash. n_stems, is_contiguous: the
    number of samples, and whether the rows of each sample are contiguous; None before
    `finalize()`. hashinfo, seen_stems: the first stem with each hash, and all stems; only filled
    before `finalize()`.
    """

    _shards = 0  # which may be more than the fids say, because some have no rows

    def _replace(self, **changes: Any) -> Self:
        new = super()._replace(**changes)
        new._shards = self._shards
        return new

    # --- Building ---

    @classmethod
    def empty(cls, initial_rows: int = 1 << 20) -> Self:
        """Returns a state without rows, with room for some.

        >>> iTarState.empty(2).finalize().n_stems
        0
        """
        import numpy

        arr = numpy.empty(initial_rows, dtype=_FIELDS["ARR_DT"])
        return cls(arr, 0, {}, {}, {}, 0, None, set(), None)

    @property
    def next_fid(self) -> int:
        """The number of the next shard; 0 if there is none yet."""
        last = int(self.arr["fid"][self.pos - 1]) + 1 if self.pos else 0
        return max(last, self._shards)

    def ensure(self, need: int) -> Self:
        """Returns a state with room for more than `need` rows."""
        room = len(self.arr)
        if need < room:
            return self
        import numpy

        arr = numpy.empty(max(2 * room, need + 1), dtype=_FIELDS["ARR_DT"])
        arr[:self.pos] = self.arr[:self.pos]
        return self._replace(arr=arr)

    def parse_tar(self, path: PathLike) -> Self:
        """Returns the state with one more shard, which gets the next fid, even if it has no
        members. Raises ValueError if it is damaged."""
        if self.n_stems is not None:
            raise ValueError("parse_tar: the state is already finalized")
        name, fid = os.fspath(path), self.next_fid
        if fid >= _SHARDS:
            raise LimitError(f"{name}: a fold has at most {_SHARDS} shards")
        if "://" in name:  # the library reads URLs, but keys are read from a map
            raise UsageError(f"{name}: parse_tar reads local files")
        index = _tarn.build_index([name])
        rows = rows_array(index.rows()).copy()
        extensions = [self.ext2id.setdefault(each, len(self.ext2id)) for each in index.fields()]
        if len(rows):
            rows["fid"] = fid
            rows["extid"] = _taken(extensions, rows["extid"])
            rows["crashid"] = self._crashes(name, rows, index.crashes())
        new = self.ensure(self.pos + len(rows))
        new.arr[self.pos:self.pos + len(rows)] = rows
        new = new._replace(pos=self.pos + len(rows), next_crash=len(self.crashstem))
        new._shards = fid + 1
        return new

    def _crashes(self, name: str, rows: Any, known: list[str]) -> Any:
        """Returns the crashid of each row of a shard, and keeps the stems of its samples."""
        import numpy

        _, first, sample = numpy.unique(rows[["keyhash", "crashid"]], return_index=True,
                                        return_inverse=True)
        out = numpy.zeros(len(first), dtype=numpy.uint32)
        with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for at in numpy.argsort(first).tolist():
                _, offset, _, _, crashid, key = rows[first[at]].tolist()
                stem = (known[crashid - 1] if crashid
                        else StemHelper.from_hdr(data[offset:offset + 100]).stem)
                self.seen_stems.add(stem)
                if self.hashinfo.setdefault(key, stem) != stem:
                    out[at] = self.crashstem.setdefault(stem, len(self.crashstem) + 1)
        return out[sample]

    def finalize(self) -> Self:
        """Returns the complete state, without unused rows, so that it can be saved."""
        if self.n_stems is not None:
            return self
        import numpy

        arr = self.arr[:self.pos].copy()
        samples = arr[["keyhash", "crashid"]]
        count = len(numpy.unique(samples))
        runs = int((samples[1:] != samples[:-1]).sum()) + 1 if len(arr) else 0
        return self._replace(arr=arr, hashinfo={}, n_stems=count, seen_stems=set(),
                             is_contiguous=runs == count)

    finalise = finalize

    @classmethod
    def _of(cls, index: _tarn._Index) -> Self:
        info, crashes = index.info(), index.crashes()
        arr = rows_array(index.rows())
        return cls(arr, len(arr), {name: number for number, name in enumerate(index.fields())},
                   {stem: number for number, stem in enumerate(crashes, 1)}, {}, len(crashes),
                   info["samples"], set(), info["contiguous"])

    def enforce_contiguous(self) -> Self:
        """Returns a state whose rows are sorted by (keyhash, crashid), unless the rows of each
        sample are already contiguous."""
        if self.is_contiguous:
            return self
        import numpy

        order = numpy.lexsort((self.arr["crashid"], self.arr["keyhash"]))
        return self._replace(arr=self.arr[order], is_contiguous=True)

    # --- Files ---

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
        extensions = _names(data[_HEADER.size:crash_at], n_ext)
        crashes = _names(data[crash_at:rows_at], n_crash)
        arr = rows_array(data[rows_at:])
        if n_rows and (arr["extid"].max() >= n_ext or arr["crashid"].max() > n_crash):
            raise ValueError("a row has an extension or crash number that is not listed")
        return cls(arr, len(arr), {name: number for number, name in enumerate(extensions)},
                   {stem: number for number, stem in enumerate(crashes, 1)}, {}, n_crash, n_stems,
                   set(), bool(flags & 1))

    def __bytes__(self) -> bytes:
        if self.n_stems is None:
            raise ValueError("save: the state is not finalized; call finalize() first")
        extensions, crashes = ("\n".join(sorted(names, key=names.__getitem__))
                               .encode("utf-8", "surrogateescape")
                               for names in (self.ext2id, self.crashstem))
        crash_at = _HEADER.size + len(extensions)
        header = _HEADER.pack(b"TARIDX", 1, 0, 32, _HEADER.size, self.n_stems, len(self.arr),
                              len(self.ext2id), len(self.crashstem), crash_at,
                              crash_at + len(crashes), bool(self.is_contiguous))
        return b"".join((header, extensions, crashes, self.arr.tobytes()))

    def save(self, path: PathLike) -> None:
        """Writes a `.taridx` atomically.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parse_tar(birds + "/train_0.tar").finalize().save(folder + "/train.taridx")
        ...     os.path.getsize(folder + "/train.taridx") - 12 * 32
        76
        """
        _write(os.fspath(path), bytes(self))

    # --- Contents ---

    @property
    def id2ext(self) -> dict[int, str]:
        """Inverse of ext2id."""
        return {number: name for name, number in self.ext2id.items()}

    @property
    def n_rows(self) -> int:
        """Number of rows in use."""
        return self.pos

    def __repr__(self) -> str:
        stems = len(self.seen_stems) if self.n_stems is None else self.n_stems
        return (f"<iTarState: {self.n_rows} rows, {stems} stems, extensions "
                f"{' '.join(self.ext2id)}>")


def _taken(numbers: list[int], positions: Any) -> Any:
    import numpy

    return numpy.array(numbers, dtype=numpy.uint16)[positions]


def parse_tar(path: PathLike, *, state: iTarState | None = None,
              bufsize: int = 8 << 20) -> iTarState:
    """Returns a state with one more shard; None begins a new one. bufsize has no effect, because
    the library chooses how it reads."""
    return (iTarState.empty() if state is None else state).parse_tar(path)
