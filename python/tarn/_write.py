"""Writers for archives, shards and datasets. A sample is a dict.

>>> import tarn, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with tarn.DatasetWriter(folder, "train") as out:
...         size = out.write({"__key__": "kiwi", "txt": "a bird", "cls": 3})
...     print(out.written.samples, size)
1 7

All writers are context managers. Nothing gets its final name before it is complete: leaving the
`with` block publishes, and after an exception nothing is left (except the finished shards of a
`ShardWriter`). The last part of a field's name determines how its value becomes bytes, in C and
without the GIL. bytes and str are stored unchanged; numbers, JSON values, NumPy arrays, torch
tensors and PIL images (as pixels), and dicts of arrays (as npz) are encoded; a `pathlib.Path`
stands for the bytes of that file. docs/python/writing.md has the table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import IO, Any, NamedTuple, TypedDict, Union

from . import _tarn
from ._arguments import settled, task_of, whole
from .errors import ExistsError, PartExistsError, UsageError, shown
from ._published import Published

if sys.version_info >= (3, 11):
    from typing import Unpack

__all__ = ["DatasetWriter", "ShardWriter", "TarWriter", "WriterOptions", "Written"]

_TAR, _SHARDS, _FOLD = range(3)
_BYTES, _TARN, _WDS = range(3)

FILTERS = {"auto": 0, None: 0, False: 1, "none": 1, True: 2, "gz": 2, "gzip": 2, "bz2": 3,
           "bzip2": 3, "xz": 4, "zst": 5, "zstd": 5}
_SUBSAMPLING = {"4:2:0": 0, "4:2:2": 1, "4:4:4": 2}

Progress = Union[bool, Callable[[int, int], object]]
Target = Union[str, "os.PathLike[str]"]


class Written(NamedTuple):
    """The amount written so far; `bytes` counts finished archives."""

    samples: int
    members: int
    payload: int
    bytes: int
    shards: int


class WriterOptions(TypedDict, total=False):
    """Options of all writers.

    encode: False if all values are already bytes.
    encoders: functions from a value to bytes, by field or extension. They take precedence over the
        library's encoders, but are not used for values that are bytes or str.
    progress: called from time to time with the number of samples and of bytes; True uses tqdm.
    sync: False to not wait for the disk.
    sort: False to keep the fields in the order of the dict.
    mtime: seconds since 1970 for every member; the default is SOURCE_DATE_EPOCH, or 0.
    """

    encode: bool
    encoders: Mapping[str, Callable[[Any], bytes]]
    progress: Progress
    sync: bool
    sort: bool
    mtime: float
    user: str
    group: str
    uid: int
    gid: int
    mode: int
    jpeg_quality: int
    subsampling: str
    webp_quality: int
    webp_lossless: bool
    jxl_distance: float
    jxl_lossless: bool
    jxl_effort: int
    png_level: int
    gzip_level: int
    zstd_level: int
    npz_stored: bool


def filter_number(compress: bool | str | None) -> int:
    """Returns the number of a compression filter by name. None chooses by suffix, and False is no
    filter."""
    try:
        return FILTERS[compress]
    except (KeyError, TypeError):
        known = ", ".join(sorted({name for name in FILTERS if isinstance(name, str)}))
        raise ValueError(f"unknown compression {compress!r}; available: {known}") from None


def mtime_settings(mtime: float) -> dict[str, Any]:
    """Returns a time as the header stores it and, if it has a fraction, also as text."""
    if not isinstance(mtime, float):
        return {"mtime": whole("mtime", mtime, -2**63, 2**63 - 1)}
    if mtime != mtime or abs(mtime) == float("inf"):
        raise UsageError(f"mtime must be a number of seconds, not {mtime!r}")
    near = round(mtime)
    return {"mtime": near if 0 <= near < 8 ** 11 and mtime >= 0 else 0, "mtime_text": str(mtime)}


def _tqdm() -> Callable[[int, int], object]:
    from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]

    bar = tqdm(unit=" samples", unit_scale=True)

    def show(samples: int, size: int) -> None:
        bar.update(samples - bar.n)
        bar.set_postfix_str(f"{size / 1e6:.0f} MB", refresh=False)

    return show


_PLAIN = ("user", "group", "uid", "gid", "mode", "jpeg_quality", "webp_quality", "webp_lossless",
          "jxl_distance", "jxl_lossless", "jxl_effort", "png_level", "gzip_level", "zstd_level",
          "npz_stored")
_LARGEST = {"uid": 2**32 - 1, "gid": 2**32 - 1, "mode": 0o7777}


def _settings(options: WriterOptions) -> dict[str, Any]:
    """Returns the options in the form that the extension takes."""
    rest: dict[str, Any] = dict(options)
    made = {name: rest.pop(name) for name in _PLAIN if name in rest}
    for name, value in made.items():
        if name in ("user", "group"):
            if not isinstance(value, str):
                raise UsageError(f"{name} must be a str, not {value!r}")
        elif name in _LARGEST:
            made[name] = whole(name, value, 0, _LARGEST[name])
        elif name not in ("npz_stored", "webp_lossless", "jxl_lossless", "jxl_distance"):
            made[name] = whole(name, value, -2**31, 2**31 - 1)
    made["flavour"] = _TARN if rest.pop("encode", True) else _BYTES
    encoders = rest.pop("encoders", None)
    if encoders is not None and not (isinstance(encoders, Mapping)
                                     and all(map(callable, encoders.values()))):
        raise UsageError(f"encoders must be a dict of functions by field, not {encoders!r}")
    made["encoders"] = dict(encoders) if encoders else None
    progress = rest.pop("progress", None)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise UsageError(f"progress must be a function or a bool, not {progress!r}")
    made["progress"] = _tqdm() if progress is True else progress or None
    made["no_sync"] = not rest.pop("sync", True)
    made["keep_order"] = not rest.pop("sort", True)
    if "mtime" in rest:
        made.update(mtime_settings(rest.pop("mtime")))
    if "subsampling" in rest:
        name = rest.pop("subsampling")
        if name not in _SUBSAMPLING:
            raise ValueError(f"subsampling must be one of {', '.join(_SUBSAMPLING)}, not {name!r}")
        made["subsampling"] = _SUBSAMPLING[name]
    if rest:
        raise TypeError(f"unknown writer option {next(iter(rest))!r}")
    return made


class _Writer(_tarn.Writer, Published):
    """Base class of the writers."""

    _shown: str = "closed"

    @property
    def written(self) -> Written:
        """The amount written so far."""
        return Written(*self._written[:5])

    def close(self) -> None:
        """Completes and publishes. Has no effect on a closed writer."""
        if not self.closed:
            self._finish()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<{type(self).__name__} {self._shown!r}: {self.written.samples:,} samples, {state}>"


class TarWriter(_Writer):
    """Writes one archive to a path, a URL (`s3://`, `http://`, `-`, ...) or a file object.

    >>> import io, tarfile
    >>> file = io.BytesIO()
    >>> with TarWriter(file) as out:
    ...     size = out.write({"__key__": "a", "json": {"x": [1, 2]}, "txt": "hello"})
    >>> tarfile.open(fileobj=io.BytesIO(file.getvalue())).getnames()
    ['a.json', 'a.txt']

    compress: "gz", "bz2", "xz", "zst", False, or None to choose by the suffix of the name.
    overwrite: replace an existing file, at the end.
    names: "pax" for names of any length, "plain" for 100 bytes and no extended headers.
    strict: False to allow names that do not read back as the same key and field.
    allow_pipe: let a URL "pipe:COMMAND" run that command.
    """

    def __init__(self, target: Target | IO[bytes], *, compress: bool | str | None = None,
                 level: int = 0, overwrite: bool = False, names: str = "pax",
                 strict: bool = True, allow_pipe: bool = False,
                 **options: Unpack[WriterOptions]) -> None:
        settings = _settings(options)
        if isinstance(target, (str, os.PathLike)):
            place: Target = settled("target", target)
            self._shown = shown(os.fsdecode(target))
        elif not callable(getattr(target, "write", None)):
            raise UsageError(f"target must be a path, a URL or a file object, not {target!r}")
        else:
            place = str(getattr(target, "name", None) or "a file object")
            settings["stream"] = target
            compress = False if compress is None else compress
            self._shown = place
        self._open(_TAR, place, filter=filter_number(compress), level=_level(level),
                   overwrite=overwrite, names=_names(names), rules=0 if strict else 1, allow_pipe=allow_pipe,
                   **settings)

    def member(self, name: str, data: bytes) -> None:
        """Adds one member with any name."""
        self._member(name, data)


class _Told:
    """Calls on_shard with the names that the caller's pattern gives."""

    def __init__(self, function: Callable[[str, int, int], object], folder: str) -> None:
        self.function = function
        self.folder = folder

    def __call__(self, name: str, samples: int, size: int) -> object:
        return self.function(name.removeprefix(self.folder), samples, size)


class ShardWriter(_Writer):
    """Writes a series of archives. The pattern has one `%d` or `%06d` for their number.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardWriter(folder + "/x-%03d.tar", max_count=2) as out:
    ...         size = out.write_many({"__key__": f"k{i}", "cls": i} for i in range(5))
    ...     print(sorted(os.listdir(folder)))
    ['x-000.tar', 'x-001.tar', 'x-002.tar']

    max_count: samples in a shard; max_size: bytes of its file, including headers and end
    of archive. None means no limit.
    on_shard: called with the name, the samples and the bytes of each finished shard.
    The other options are those of `TarWriter`. Finished shards keep their names, even if the writer
    is abandoned.
    """

    def __init__(self, pattern: Target, *, max_count: int | None = 100_000,
                 max_size: int | None = 3_000_000_000, start: int = 0,
                 on_shard: Callable[[str, int, int], object] | None = None,
                 compress: bool | str | None = None, level: int = 0, overwrite: bool = False,
                 names: str = "pax", strict: bool = True, allow_pipe: bool = False,
                 **options: Unpack[WriterOptions]) -> None:
        given = os.fsdecode(pattern)
        self._shown = shown(given)
        place = settled("pattern", pattern)
        folder = place[:-len(given)]
        if "%" in folder:  # the folder is not part of the pattern
            place, folder = given, ""
        if on_shard is not None and not callable(on_shard):
            raise UsageError(f"on_shard must be a function, not {on_shard!r}")
        self._open(_SHARDS, place, max_count=_limit("max_count", max_count),
                   max_size=_limit("max_size", max_size), start=whole("start", start),
                   hook=on_shard and _Told(on_shard, folder),
                   filter=filter_number(compress), level=_level(level), overwrite=overwrite,
                   names=_names(names), rules=0 if strict else 1, allow_pipe=allow_pipe,
                   **_settings(options))

    def next_shard(self) -> None:
        """Finishes the current shard; the next sample opens a new one."""
        self._next_shard()


class DatasetWriter(_Writer):
    """Writes a fold of a dataset: shards, their index and checksums, ready for `tarn.open`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with DatasetWriter(folder, "val", max_count=1000) as out:
    ...         size = out.write({"__key__": "owl", "cls": 4})
    ...         print("owl" in out, "emu" in out)
    True False

    append: add new shards after those of the existing fold.
    resume: the same, and also after the shards that an interrupted writer finished. An exception
        in the `with` block then keeps the finished shards for the next run.
    overwrite: replace an existing fold, at the end.
    start, digits: the number of the first shard, and the width of the numbers.
    names: "plain" is what glzn's reader needs; "pax" allows names of more than 100 bytes.
    task: (i, n) to write only part i of n, for `tarn.commit`; a complete part raises
        PartExistsError.
        n may be None if it is not known yet. With a task, folder may be `s3://bucket/folder`.
        job is a text that distinguishes jobs with the same folder; all tasks of one have the same.

    A key must be unique and must not contain a dot or slash. Until the end, the folder holds
    finished shards only under hidden names. A fold without samples has one empty shard, and its
    dataset has length 0.
    """

    def __init__(self, folder: Target, fold: str = "train", *, append: bool = False,
                 resume: bool = False, overwrite: bool = False, start: int = 0, digits: int = 4,
                 max_count: int | None = 100_000, max_size: int | None = 3_000_000_000,
                 names: str = "plain", threads: int = 0, task: tuple[int, int | None] | None = None,
                 job: str | None = None, **options: Unpack[WriterOptions]) -> None:
        if not isinstance(fold, str):
            raise UsageError(f"fold must be a str, not {fold!r}")
        self._shown = shown(f"{os.fsdecode(folder)}:{fold}")
        self._resume = resume
        try:
            self._open(_FOLD, settled("folder", folder), fold, append=append, resume=resume, overwrite=overwrite,
                       start=whole("start", start), digits=whole("digits", digits, 1, 9),
                       max_count=_limit("max_count", max_count), max_size=_limit("max_size", max_size),
                       names=_names(names), threads=whole("threads", threads, 0, 1024),
                       **task_of(task, job), **_settings(options))
        except ExistsError as error:
            if task is not None and str(error).endswith("is complete"):
                error.__class__ = PartExistsError  # path, code and errno stay
            raise

    def __contains__(self, key: str) -> bool:
        return self._has(key)

    def adopt(self, dataset: Target, shards: Iterable[int] | None = None, *,
              copy: bool = False) -> None:
        """Adds whole shards of another fold ("folder:fold"), by number, as the next shards.

        They are linked or, with `copy`, copied; no payload is rewritten. Raises FileExistsError if
        a key already exists; after an error nothing of the call is left.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for fold in "ab":
        ...         with DatasetWriter(folder, fold) as out:
        ...             size = out.write({"__key__": "of " + fold, "cls": 1})
        ...     with DatasetWriter(folder, "both") as out:
        ...         out.adopt(folder + ":a")
        ...         out.adopt(folder + ":b", [0])
        ...         print("of a" in out, "of b" in out)
        True True
        """
        numbers = [] if shards is None else [int(number) for number in shards]
        if shards is None or numbers:
            self._adopt(dataset, numbers, copy)

    def suspend(self) -> None:
        """Stops and keeps the finished shards for `resume`."""
        self._suspend()

    def __exit__(self, kind: type[BaseException] | None = None,
                 error: BaseException | None = None, trace: TracebackType | None = None) -> None:
        if kind is not None and self._resume:
            self.suspend()
        else:
            super().__exit__(kind, error, trace)


def _limit(name: str, limit: int | None) -> int:
    return 0 if limit is None else whole(name, limit, 1)


def _level(level: int) -> int:
    return whole("level", level, -2**31, 2**31 - 1)


def _names(style: str) -> int:
    try:
        return {"pax": 1, "plain": 2}[style]
    except KeyError:
        raise ValueError(f"names must be 'pax' or 'plain', not {style!r}") from None
