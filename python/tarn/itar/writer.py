"""iTarFoldWriter and iTarDatasetWriter, with glzn's arguments and output.

Shards and index are identical to glzn's. The differences (docs/compat.md): after an exception no
files are left, a duplicate key is refused immediately, an existing fold is replaced as a whole,
and bytes are written unchanged under any name.
"""

from __future__ import annotations

import errno
import getpass
import math
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import _tarn
from .._published import Published
from .._write import _BYTES, _FOLD
from ..errors import shown
from . import encoders
from .encoders import encoder_for, is_plain
from .itar.entry import iTarState
from .itar.utils import stripext

if TYPE_CHECKING:
    DEFAULT_ENCODERS: dict[str, Callable[[Any], Any]]

__all__ = ["DEFAULT_ENCODERS", "iTarDatasetWriter", "iTarFoldWriter", "iTarState", "stripext"]

Encoder = Callable[[Any], bytes]

_NO_LIMIT = 2**62


def __getattr__(name: str) -> Any:
    if name != "DEFAULT_ENCODERS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return encoders.DEFAULT_ENCODERS


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _check_names(fold: str, pattern: str, delimiter: str, start: int) -> None:
    if len(delimiter) != 1:
        raise ValueError(f"the delimiter must be one character, not {delimiter!r}")
    for bad in (delimiter, "/", "\\"):
        if bad in fold:
            raise ValueError(f"the fold name {fold!r} must not contain {bad!r}")
    if delimiter in "/\\":
        raise ValueError(f"the delimiter must not be a folder separator (found {delimiter!r})")
    for bad in (delimiter, "/", "\\"):
        if bad in pattern % start:
            raise ValueError(f"the shard number {pattern!r} must not contain {bad!r}")


def _limit(number: float) -> int:
    """Returns the limit of samples or bytes in a shard, at least 1: glzn checks the limit before
    it writes, so that each shard gets a sample."""
    return max(1, math.ceil(min(number, _NO_LIMIT)))


def _normalized(ext: str) -> str:
    name = stripext(ext).lower()
    if not name:
        raise ValueError("Extension cannot be empty.")
    return name


class iTarFoldWriter(Published):
    """Writes one fold: `<fold>_0000.tar` and so on, and `<fold>.taridx`.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with iTarFoldWriter(root, "train", shard_maxfiles=1) as w:
    ...         w.write("a", {"cls": 1})
    ...         w.write({"__key__": "b", "cls": 2})
    ...     print(sorted(os.listdir(root)))
    ['train.taridx', 'train.tarsum', 'train_0000.tar', 'train_0001.tar']

    shard_maxfiles counts samples. override_encoders are pairs of an extension and a function from
    an object to bytes. With enforce_contiguous=False a key may be written again, with other fields
    of its sample. Leaving the `with` block publishes the fold; after an exception no files are
    left.
    """

    def __init__(self, root: str | os.PathLike[str], fold: str, *, shard_pattern: str = "%04d",
                 delimiter: str = "_", shard_maxfiles: int = 100_000, shard_maxsize: float = 3e9,
                 start: int = 0, username: str | None = None, groupname: str = "defaultgroup",
                 mode: int = 0o444,
                 override_encoders: Iterable[tuple[str, Encoder]] | None = None,
                 enforce_contiguous: bool = True) -> None:
        _check_names(fold, shard_pattern, delimiter, start)
        self.root, self.fold = pathlib.Path(root), fold
        self._folder = pathlib.Path(os.getcwd(), root)  # the program may change its directory
        self.shard_pattern, self.delimiter, self.start = shard_pattern, delimiter, start
        self._folder.mkdir(parents=True, exist_ok=True)
        self._check_shards()
        self.shard_maxfiles, self.shard_maxsize = shard_maxfiles, shard_maxsize
        self.username = _login_name() if username is None else username
        self.groupname, self.mode, self.enforce_contiguous = groupname, mode, enforce_contiguous
        self.total_count = 0
        self._overrides: dict[str, Encoder] = {}
        self._encoders: dict[str, Encoder] | None = None  # once a program has looked at them
        for ext, encoder in override_encoders or ():
            if not callable(encoder):
                raise TypeError(f"Encoder for {ext!r} is not callable.")
            self._overrides[_normalized(ext)] = encoder
        # The library's own fold names must not contain these characters, and its shard numbers are
        # never negative.
        named = (delimiter == "_" and start >= 0
                 and (fold[:1] in "." or not set(".:") & set(fold)))
        plain = re.fullmatch(r"%0(\d)d", shard_pattern) if named else None
        self._process = os.getpid()
        self._scratch = None if plain else tempfile.mkdtemp(prefix=".itar-", dir=self._folder)
        self._writer = _tarn.Writer()
        try:
            self._writer._open(
                _FOLD, self._scratch or self._folder, fold if plain else "fold", overwrite=True,
                start=start if plain else 0, digits=int(plain[1]) if plain else 5, roll=2,
                max_count=_limit(shard_maxfiles), max_size=_limit(shard_maxsize),
                user=self.username, group=groupname, mode=mode,
                mtime=int(time.time()), keep_order=True, flavour=_BYTES,
                repeat_keys=not enforce_contiguous, exact_fields=True)
        except BaseException:
            self._drop()
            raise

    _scratch: str | None = None

    def _drop(self) -> None:
        scratch, self._scratch = self._scratch, None
        if scratch is not None and self._process == os.getpid():  # not in a forked child
            shutil.rmtree(scratch, ignore_errors=True)

    def __del__(self) -> None:
        vars(self).pop("_writer", None)  # which warns and discards its files
        self._drop()

    @property
    def encoders(self) -> dict[str, Encoder]:
        """The functions from objects to bytes by extension; others can be added."""
        if self._encoders is None:
            self._encoders = {**encoders.DEFAULT_ENCODERS, **self._overrides}
        return self._encoders

    @property
    def taridx_path(self) -> pathlib.Path:
        """The path of the index, which is there after `close`."""
        return self.root / f"{self.fold}.taridx"

    @property
    def state(self) -> iTarState:
        """The index, which is complete after `close`; raises RuntimeError before."""
        if not self._writer.closed:
            raise RuntimeError("iTarFoldWriter.state is known after close()")
        if not self.total_count:
            return iTarState.empty()
        return iTarState.load(self._folder / f"{self.fold}.taridx")

    def _encoder(self, extension: str) -> Encoder:
        if self._encoders is None:
            return self._overrides.get(extension) or encoder_for(extension)
        return self._encoders[extension]

    def _encode(self, extension: str, obj: Any) -> bytes:
        try:
            encoder = self._encoder(extension)
        except KeyError:
            if isinstance(obj, bytes):
                return obj
            raise KeyError(f"No encoder registered for extension '.{extension}'; use "
                           "override_encoders, or pass bytes") from None
        if isinstance(obj, bytes) and is_plain(encoder):
            return obj
        data = encoder(obj)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"the encoder of {extension} returned {type(data).__name__}, "
                            "not bytes")
        return bytes(data)

    def write(self, key: str | Mapping[str, Any], sample: Mapping[str, Any] | None = None) -> None:
        """Writes a sample: `write(key, {ext: obj})`, or a dict with the key as "__key__"."""
        if self._writer.closed:
            raise RuntimeError("iTarFoldWriter is already closed.")
        if isinstance(key, Mapping):
            if sample is not None:
                raise ValueError("write() needs a key and a sample, or one dict with __key__; "
                                 "found two dicts")
            if "__key__" not in key:
                raise ValueError("Sample dict must include '__key__'.")
            stem, payload = str(key["__key__"]), {ext: key[ext] for ext in key if ext != "__key__"}
        elif sample is None:
            raise ValueError("Sample payload dict is required.")
        elif not isinstance(key, str):
            raise TypeError(f"a key must be a string (found {type(key).__name__})")
        else:
            stem, payload = key, dict(sample)
        self._write(stem, payload)
        self.total_count += 1

    def _write(self, key: str, payload: dict[str, Any]) -> None:
        if not key or any(c in key for c in "/\\."):
            raise ValueError(f"a key must be a string without '/', '\\' and '.', not {key!r}")
        if not payload:
            raise ValueError(f"sample {key!r} has no fields")
        sample: dict[str, Any] = {"__key__": key}
        for ext, obj in payload.items():
            extension = _normalized(ext)
            data = self._encode(extension, obj)
            if extension.startswith("_"):
                raise ValueError(f"sample {key!r}: field names that begin with _ are reserved "
                                 f"for readers (found {extension!r})")
            if extension in sample:
                raise ValueError(f"sample {key!r} has field {extension!r} twice")
            sample[extension] = data
        try:
            self._writer.write(sample)
        except FileExistsError as error:
            raise RuntimeError(f"{error}; enforce_contiguous=False accepts fields of a sample in "
                               "several parts") from error

    def _names(self, count: int) -> list[str]:
        """Returns the names of `count` shards."""
        return [f"{self.fold}{self.delimiter}{self.shard_pattern % (self.start + number)}.tar"
                for number in range(count)]

    def _shards(self) -> list[str]:
        """Returns the files that readers would treat as shards of the fold."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            parts = name.removesuffix(".tar").split(self.delimiter)
            if name.endswith(".tar") and len(parts) == 2 and parts[0] == self.fold:
                found.append(name)
        return found

    def _check_shards(self) -> None:
        """Checks the existing files. A new fold replaces an earlier one with the same naming
        pattern. Other files may be unrelated data, and would prevent readers from opening the
        fold."""
        around = re.split(r"%[^a-z]*[a-z]", self.shard_pattern, maxsplit=1)
        mine = re.compile("(?:" + r"[-+ ]*\w+".join(map(re.escape, around)) + r"|\d+)\.tar")
        for name in self._shards():
            if not mine.fullmatch(name[len(self.fold) + 1:]):
                raise FileExistsError(errno.EEXIST,
                                      f"would be read as a shard of fold {self.fold!r}; "
                                      "move it elsewhere or rename the fold",
                                      str(self.root / name))

    def _publish(self) -> None:
        """Moves the finished shards to their final names."""
        assert self._scratch is not None
        shards = sorted(pathlib.Path(self._scratch).glob("fold_*.tar"))
        names = self._names(len(shards))
        if names != sorted(names) or len(set(names)) != len(names):
            raise RuntimeError(f"names of {len(names)} shards by {self.shard_pattern!r} do not "
                               "sort in the order of their numbers; use a wider pattern")
        if not shards:
            return
        # The index is removed first and written last, so that it never points into shards of
        # another run.
        for ending in ("taridx", "tarsum"):
            (self._folder / f"{self.fold}.{ending}").unlink(missing_ok=True)
        for old in self._shards():
            (self._folder / old).unlink()
        for shard, name in zip(shards, names):
            os.replace(shard, self._folder / name)
        os.replace(pathlib.Path(self._scratch) / "fold.taridx",
                   self._folder / f"{self.fold}.taridx")

    def close(self) -> None:
        """Completes and publishes shards and index. Without any sample, no files are written."""
        try:
            if not self._writer.closed and self._writer._written[0] == 0:
                self._writer.abandon()
            elif not self._writer.closed:
                self._writer._finish()
                if self._scratch is not None:
                    self._publish()
        finally:
            self._drop()

    def abandon(self) -> None:
        """Discards everything; no files are left."""
        self._writer.abandon()
        self._drop()

    def __repr__(self) -> str:
        state = "closed" if self._writer.closed else "open"
        return f"<iTarFoldWriter {self.fold!r} in {shown(self.root)!r}: {state}>"


class iTarDatasetWriter(Published):
    """Writes the folds of a dataset into the folder loc/dataset_name; `fold` returns the writer of
    one fold.

    folds: the folds to begin with; `fold` begins others. The other arguments are those of
    `iTarFoldWriter`. A fold without samples leaves no files.
    """

    def __init__(self, dataset_name: str, loc: str | os.PathLike[str], *, folds: Iterable[str],
                 shard_pattern: str = "%04d", delimiter: str = "_", shard_maxfiles: int = 100_000,
                 shard_maxsize: float = 3e9, start: int = 0, username: str | None = None,
                 groupname: str = "defaultgroup", mode: int = 0o444,
                 override_encoders: Iterable[tuple[str, Encoder]] | None = None,
                 enforce_contiguous: bool = True) -> None:
        self.dataset_name, self.loc = dataset_name, pathlib.Path(loc)
        if not self.loc.is_dir():
            raise FileExistsError(f"Location does not exist: {shown(self.loc)}.")
        self.root = self.loc / dataset_name
        self._folder = pathlib.Path(os.getcwd(), self.root)  # the program may change its directory
        self.shard_pattern, self.delimiter, self.start = shard_pattern, delimiter, start
        self.shard_maxfiles, self.shard_maxsize = shard_maxfiles, shard_maxsize
        self.username, self.groupname, self.mode = username, groupname, mode
        if isinstance(override_encoders, Iterator):  # each fold needs them
            override_encoders = list(override_encoders)
        self.override_encoders = override_encoders
        self.enforce_contiguous = enforce_contiguous
        self._writers: dict[str, iTarFoldWriter] = {}
        self._closed = False
        try:
            for name in folds:
                self.fold(name)
        except BaseException:
            self.abandon()
            raise

    def fold(self, name: str) -> iTarFoldWriter:
        """Returns the writer of a fold; the first call creates it."""
        if self._closed:
            raise RuntimeError("iTarDatasetWriter is already closed.")
        if name not in self._writers:
            self._writers[name] = iTarFoldWriter(
                self._folder, name, shard_pattern=self.shard_pattern, delimiter=self.delimiter,
                shard_maxfiles=self.shard_maxfiles, shard_maxsize=self.shard_maxsize,
                start=self.start, username=self.username, groupname=self.groupname,
                mode=self.mode, override_encoders=self.override_encoders,
                enforce_contiguous=self.enforce_contiguous)
        return self._writers[name]

    @property
    def folds(self) -> tuple[str, ...]:
        """The folds, in the order in which they were created."""
        return tuple(self._writers)

    def close(self) -> None:
        """Publishes all folds. If one fails, those not yet published are discarded."""
        self._closed = True
        writers = list(self._writers.values())
        try:
            for writer in writers:
                writer.close()
        finally:
            for writer in writers:
                writer.abandon()

    def abandon(self) -> None:
        """Discards all folds."""
        self._closed = True
        for writer in self._writers.values():
            writer.abandon()

    def __repr__(self) -> str:
        return f"<iTarDatasetWriter {shown(self.root)!r}: {', '.join(self._writers) or 'empty'}>"
