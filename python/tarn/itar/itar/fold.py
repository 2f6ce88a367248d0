"""Folders of shards (`iTarDirectory`), the rows and filters of one fold (`iTarFold`), and bytes by
row (`iTarRetriever`).

>>> fold = iTarFold(birds, "train", filter_extensions=["cls"])
>>> len(fold.state.arr), fold.bincount.tolist()
(4, [4])
>>> reader = iTarRetriever(fold.full_paths)
>>> row = fold.state.arr[2]
>>> reader.hdrname(row), bytes(reader.from_row(row))
('kiwi', b'2')
"""

from __future__ import annotations

import mmap
import os
import pathlib
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import _tarn
from ...errors import TruncatedError, shown
from .entry import BLOCK, PathLike, iTarState, parse_tar
from .utils import StemHelper

if TYPE_CHECKING:
    from typing import Self

__all__ = ["StemHelper", "iTarDirectory", "iTarFold", "iTarRetriever", "iTarState", "parse_tar"]

PSEUDO = ("_idx", "_name", "_stem", "_fid")

_MAPS = 128  # files that a retriever keeps open


class iTarDirectory:
    """The folds of a folder: every `<fold>_<suffix>.tar` in it.

    The shards of a fold are sorted by suffix, as text; the fid is the position in this list. A
    name that does not have two parts raises ValueError. Names that begin with a dot are skipped.

    >>> folder = iTarDirectory(birds)
    >>> folder.folds, folder.get_fold("train"), folder.get_fold("val")
    (['train'], ['train_0'], [])
    >>> folder.has_taridx("taridx")
    True
    """

    def __init__(self, root: PathLike, delimiter: str = "_", extension: str = "tar") -> None:
        self.root = root
        self._folder = pathlib.Path(root)
        self.delimiter = delimiter
        self.extension = extension.removeprefix(".")
        self._suffixes: dict[str, list[str]] = {}
        try:
            names = sorted(os.listdir(self._folder))
        except OSError as error:  # a URL given by mistake may hold a password
            raise type(error)(error.errno, error.strerror, shown(self.root)) from None
        for name in names:
            if name.startswith(".") or not name.endswith("." + self.extension):
                continue
            parts = name.removesuffix("." + self.extension).split(delimiter)
            if len(parts) != 2:
                raise ValueError(f"{shown(self._folder / name)}: the name of a shard must be "
                                 f"<fold>{delimiter}<suffix>.{self.extension}; move it elsewhere")
            self._suffixes.setdefault(parts[0], []).append(parts[1])

    @property
    def folds(self) -> list[str]:
        """The names of the folds, sorted."""
        return list(self._suffixes)

    @property
    def nfolds(self) -> int:
        """Number of shards in all folds; the name is glzn's."""
        return sum(map(len, self._suffixes.values()))

    def get_fold(self, fold: str) -> list[str]:
        """Returns the names of a fold's shards, without folder and extension, in the order of their
        fids; empty for an unknown fold."""
        return [f"{fold}{self.delimiter}{suffix}"
                for suffix in sorted(self._suffixes.get(fold, ()))]

    def shards_of(self, fold: str) -> list[str]:
        """Returns the paths of a fold's shards in the order of their fids."""
        return [os.fspath(self._folder / f"{name}.{self.extension}") for name in self.get_fold(fold)]

    def index_path(self, fold: str, idxext: str = "taridx") -> str:
        """Returns the path of a fold's index, which may not exist."""
        return os.fspath(self._folder / f"{fold}.{idxext.removeprefix('.')}")

    def has_taridx(self, idxext: str) -> bool:
        """Whether every fold has an index."""
        return all(os.path.exists(self.index_path(fold, idxext)) for fold in self._suffixes)

    def parse_fold(self, fold: str, verbose: bool = False, serialize: bool = False,
                   idxext: str = "taridx") -> iTarState:
        """Indexes one fold, and writes the index if serialize."""
        shards = self.shards_of(fold)
        begun = time.perf_counter()
        index = _tarn.build_index(shards, self.index_path(fold, idxext) if serialize else None)
        if verbose:
            info = index.info()
            print(f"{fold}: {len(shards)} shards, {info['rows']} members, {info['samples']} "
                  f"samples in {time.perf_counter() - begun:.2f} s", flush=True)
        return iTarState._of(index)

    def parse_folder(self, bufsize: int = 8 << 20, verbose: bool = False,
                     serialize: bool = False, idxext: str = "taridx") -> dict[str, iTarState]:
        """Indexes every fold. Returns the states by fold or, with serialize, writes the files and
        returns {}.

        bufsize has no effect; verbose prints a line for each fold.
        """
        states = {fold: self.parse_fold(fold, verbose, serialize, idxext)
                  for fold in self._suffixes}
        return {} if serialize else states

    def _check_fold(self, fold: str) -> None:
        if fold not in self._suffixes:
            raise ValueError(f"{shown(self.root)}: no fold {fold!r}; available: "
                             + (", ".join(self._suffixes) or "none"))

    def _prepare(self, fold: str, idxext: str, parse_if_missing: bool, serialize: bool,
                 verbose: bool, unknown: Mapping[str, Any]) -> bool:
        """Makes sure that a fold has an index. Returns whether it must be built in memory."""
        self._check_fold(fold)
        path = self.index_path(fold, idxext)
        options = ", ".join(unknown)
        if os.path.exists(path):
            if unknown:
                warnings.warn(f"unknown options have no effect: {options}", stacklevel=3)
            return False
        if unknown:
            raise TypeError(f"unknown options: {options}")
        if not parse_if_missing:
            raise ValueError(f"{shown(path)}: no such index; parse_if_missing=True builds it")
        if serialize:
            self.parse_fold(fold, verbose, True, idxext)
        return not serialize

    def __repr__(self) -> str:
        return f"<iTarDirectory {shown(self.root)!r}: {', '.join(self._suffixes) or 'empty'}>"


def groups_of(arr: Any, contiguous: bool | None) -> Any:
    """Returns the sample number of each row."""
    import numpy

    order = None if contiguous else numpy.lexsort((arr["crashid"], arr["keyhash"]))
    rows = arr if order is None else arr[order]
    begins = numpy.ones(len(rows), dtype=numpy.intp)
    begins[1:] = ((rows["keyhash"][1:] != rows["keyhash"][:-1])
                  | (rows["crashid"][1:] != rows["crashid"][:-1]))
    begins[:1] = 0
    numbers = numpy.cumsum(begins)
    if order is None:
        return numbers
    out = numpy.empty_like(numbers)
    out[order] = numbers
    return out


def check_grouped(state: iTarState, count: int) -> None:
    """Raises ValueError unless every `count` rows are one sample with each extension once."""
    import numpy

    arr = state.arr
    if len(arr) % count:
        raise ValueError(f"{len(arr)} rows cannot be split into samples of {count} extensions each")
    sets = arr.reshape(-1, count)
    mixed = ((sets["keyhash"] != sets["keyhash"][:, :1])
             | (sets["crashid"] != sets["crashid"][:, :1])).any(axis=1)
    twice = (numpy.diff(numpy.sort(sets["extid"], axis=1), axis=1) == 0).any(axis=1)
    if mixed.any() or twice.any():
        first = int(numpy.argmax(mixed | twice)) * count
        raise ValueError(f"the rows from {first} on are not one sample with each extension once; "
                         "enforce_contiguous=True sorts them")


class iTarFold:
    """One fold: its shards, and its index as rows that can be filtered.

    A missing index is an error unless parse_if_missing is set; serialize then writes it.
    filter_extensions and enforce_contiguous do the same as the methods, in this order. bufsize and
    verbose are passed to `iTarDirectory.parse_folder`; other options are a TypeError if an index
    is built, and a warning otherwise.

    state: the `iTarState`. full_paths: the shards in the order of their fids.
    """

    _pseudoextensions = list(PSEUDO)

    def __init__(self, root: PathLike, fold: str = "train", delimiter: str = "_",
                 extension: str = "tar", parse_if_missing: bool = False, serialize: bool = True,
                 idxext: str = "taridx", filter_extensions: Sequence[str] | None = None,
                 enforce_contiguous: bool = False, *, verbose: bool = False,
                 bufsize: int = 8 << 20, **kwargs: Any) -> None:
        self._dir = iTarDirectory(root, delimiter, extension)
        self.root, self.fold, self.idxext = root, fold, idxext
        self.delimiter, self.extension = delimiter, extension
        scan = self._dir._prepare(fold, idxext, parse_if_missing, serialize, verbose, kwargs)
        self._paths = self._dir.get_fold(fold)
        self._opened = (self._dir.index_path(fold, idxext), self._dir.shards_of(fold),
                        scan)
        self._handle = self._open()
        self.state = iTarState._of(self._handle.index())
        self._numbers: Any = None  # of the remaining rows, in the index
        self.filter_extensions(filter_extensions)
        if enforce_contiguous:
            self.enforce_contiguous()

    @property
    def full_paths(self) -> list[pathlib.Path]:
        """The paths of the shards in the order of their fids."""
        return [self.path_from_idx(fid) for fid in range(len(self._paths))]

    def path_from_idx(self, idx: int) -> pathlib.Path:
        """Returns the path of a shard by its fid.

        >>> iTarFold(birds).path_from_idx(0).name
        'train_0.tar'
        """
        return pathlib.Path(self.root) / f"{self._paths[idx]}.{self._dir.extension}"

    def _open(self) -> _tarn._Handle:
        path, shards, scan = self._opened
        return _tarn.open_dataset(path, shards=shards, scan=scan)

    @property
    def bincount(self) -> Any:
        """The number of rows in each shard, up to the last shard that has any."""
        import numpy

        return numpy.bincount(self.state.arr["fid"])

    def _keep(self, mask_or_order: Any) -> None:
        if self._numbers is None:
            import numpy

            self._numbers = numpy.arange(len(self.state.arr))
        self._numbers = self._numbers[mask_or_order]
        arr = self.state.arr[mask_or_order]
        self.state = self.state._replace(arr=arr, pos=len(arr))

    def enforce_contiguous(self) -> None:
        """Sorts the rows by (keyhash, crashid) unless the rows of each sample are contiguous."""
        if self.state.is_contiguous:
            return
        import numpy

        arr = self.state.arr
        self._keep(numpy.lexsort((arr["crashid"], arr["keyhash"])))
        self.state = self.state._replace(is_contiguous=True)

    def filter_extensions(self, required: Sequence[str] | None) -> Self:
        """Keeps the samples that have all these extensions, and only these fields. Samples that
        have an extension twice are dropped. Raises RuntimeError if none is left.

        >>> len(iTarFold(birds).filter_extensions(["cls", "txt"]).state.arr)
        8
        """
        import numpy

        wanted = {name for name in required or () if name not in PSEUDO}
        unknown = wanted - self.state.ext2id.keys()
        if unknown:
            raise ValueError(f"unknown extension {', '.join(map(repr, sorted(unknown)))}; available: "
                             + ", ".join(self.state.ext2id))
        if not wanted:
            return self
        arr = self.state.arr
        here = numpy.isin(arr["extid"], [self.state.ext2id[name] for name in wanted])
        groups = groups_of(arr, self.state.is_contiguous)
        counts = numpy.bincount(groups[here], minlength=len(arr) and int(groups.max()) + 1)
        kept = here & (counts == len(wanted))[groups]
        if not kept.any():
            raise RuntimeError(f"{self.fold}: no stem has all of {', '.join(sorted(wanted))}")
        self._keep(kept)
        return self

    def filter_stems(self, stems: Sequence[str], verify: bool = True,
                     strict: bool = False) -> Self:
        """Keeps the samples with these stems, compared by name. An empty list keeps all samples.
        Raises RuntimeError if none of the stems exists. verify and strict have no effect.

        >>> len(iTarFold(birds).filter_stems(["owl", "emu"]).state.arr)
        3
        """
        wanted = stems_of(stems)
        if not wanted:
            return self
        import numpy

        rows = numpy.asarray(self._handle.rows(wanted))
        numbers = (numpy.arange(len(self.state.arr)) if self._numbers is None
                   else self._numbers)
        kept = numpy.isin(numbers, rows)
        if not kept.any():
            raise RuntimeError(f"none of the {len(wanted)} stems is in fold {self.fold}")
        self._keep(kept)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_handle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._handle = self._open()

    def __repr__(self) -> str:
        return (f"<iTarFold {self.fold!r} of {shown(self.root)!r}: {len(self._paths)} "
                f"shards, {self.state.n_rows} rows>")


def stems_of(stems: Sequence[str]) -> list[str]:
    """Returns the stems as a list; raises TypeError for a string, which would be a list of
    letters."""
    if isinstance(stems, (str, bytes)) or not isinstance(stems, Iterable):
        raise TypeError(f"stems must be a list, not {type(stems).__name__}")
    out = list(stems)
    for stem in out:
        if not isinstance(stem, str):
            raise TypeError(f"a stem must be a string, not {type(stem).__name__}")
    return out


class _File:
    """An open shard and its memory map."""

    def __init__(self, path: str, prefer_mmap: bool) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.map: mmap.mmap | None = None
        if prefer_mmap and os.fstat(self.fd).st_size:
            try:
                self.map = mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                pass  # this file system does not support mmap

    def read(self, offset: int, size: int) -> memoryview:
        end = offset + size
        there = os.fstat(self.fd).st_size
        if end <= there:
            if self.map is not None and end <= len(self.map):
                return memoryview(self.map)[offset:end]
            data = os.pread(self.fd, size, offset)
            while len(data) < size:  # one read returns at most 2 GB
                more = os.pread(self.fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
            if len(data) == size:
                return memoryview(data)
        raise TruncatedError(f"{self.path}: offset {offset}: cannot read {size} bytes, because the "
                             f"file has only {there}")

    def __del__(self) -> None:
        # Existing views keep the map open.
        os.close(self.fd)


class iTarRetriever:
    """Bytes of shards by (fid, offset, size), as memoryviews.

    With prefer_mmap these are views into the file, otherwise copies. If a shard ends before the
    bytes do, EOFError is raised. Rows are those of `iTarState.arr`.
    """

    def __init__(self, paths: Sequence[PathLike], prefer_mmap: bool = True) -> None:
        self._paths = [os.fspath(path) for path in paths]
        for path in self._paths:
            if not os.path.exists(path):
                raise ValueError(f"{shown(path)}: no such shard")
        self._prefer_mmap = prefer_mmap
        self._files: OrderedDict[int, _File] = OrderedDict()

    def _file(self, fid: int) -> _File:
        file = self._files.get(fid)
        if file is None:
            if fid < 0:
                raise IndexError(f"no shard with fid {fid}")
            file = self._files[fid] = _File(self._paths[fid], self._prefer_mmap)
            while len(self._files) > _MAPS:
                self._files.popitem(last=False)
        return file

    def get(self, fid: int, offset: int, size: int) -> memoryview:
        """Returns bytes of a shard."""
        fid, offset, size = int(fid), int(offset), int(size)
        if offset < 0 or size < 0:
            raise ValueError("offset and size must not be negative "
                             f"(found offset {offset}, size {size})")
        return self._file(fid).read(offset, size)

    def from_row(self, row: Any) -> memoryview:
        """Returns the payload of a row."""
        return self.get(row["fid"], int(row["offset"]) + BLOCK, row["size"])

    def hdrname(self, row: Any) -> str:
        """Returns the stem in the header of a row, which holds at most 100 bytes of a name."""
        return StemHelper.from_hdr(self.get(row["fid"], row["offset"], 100)).stem

    def __getstate__(self) -> dict[str, Any]:
        return {"_paths": self._paths, "_prefer_mmap": self._prefer_mmap}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _files=OrderedDict())

    def __repr__(self) -> str:
        return f"<iTarRetriever of {len(self._paths)} shards>"
