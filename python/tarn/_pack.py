"""Packing files, folders, manifests and tar streams into shards, as `tarn pack` does."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Union

from . import _parquet, _tarn
from ._arguments import task_of, whole, word
from .errors import Error, UsageError
from ._write import Written

__all__ = ["Committed", "Packed", "commit", "pack"]

Source = Union[str, "os.PathLike[str]"]

_KEYS = ("base", "path")
_IMAGES = ("png", "jpeg", "jxl", "jpeg2000", "jpegls")
_CODECS = ("none", "brotli", "zstd", "gzip", *_IMAGES)


@dataclass(frozen=True)
class Packed:
    """What `tarn.pack` wrote or, in a dry run, would write.

    >>> packed = Packed({"train": Written(9, 18, 500, 20480, 1),
    ...                  "val": Written(1, 2, 60, 10240, 1)}, skipped=2)
    >>> packed.samples, packed.shards, packed.folds["val"].samples
    (10, 2, 1)
    """

    folds: dict[str, Written]  #: by name; the name is "" if the target is not a folder
    files: int = 0  #: read as fields
    values: int = 0  #: of manifests, and classes
    skipped: int = 0  #  files, lines and members that belong to no sample
    classes: int = 0
    notices: tuple[str, ...] = field(default=(), repr=False)  #: why they were skipped
    bad: int = 0  #: fields that could not be decoded, with check="skip"
    existed: bool = False  #: the part of this task was complete before; nothing was written

    def _sum(self, name: str) -> int:
        return sum(getattr(written, name) for written in self.folds.values())

    @property
    def samples(self) -> int:
        """Number of samples in all folds, or of records in an .iac file."""
        return self._sum("samples")

    @property
    def members(self) -> int:
        """Number of fields in all samples."""
        return self._sum("members")

    @property
    def payload(self) -> int:
        """Number of bytes in all fields."""
        return self._sum("payload")

    @property
    def bytes(self) -> int:
        """Number of bytes in all archives, before compression."""
        return self._sum("bytes")

    @property
    def shards(self) -> int:
        """Number of archives written."""
        return self._sum("shards")


def _paths(sources: Source | Iterable[Source]) -> list[str]:
    if isinstance(sources, (str, bytes, os.PathLike)):
        sources = [sources]
    return [os.fsdecode(source) for source in sources]


def _splits(val: float | None, test: float | None) -> dict[str, float]:
    splits = {}
    for name, fraction in (("val", val), ("test", test)):
        if fraction is None:
            continue
        if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise UsageError(f"{name} must be a fraction such as 0.1, not {fraction!r}")
        splits[name] = float(fraction)
    return splits


def _records(out: str | None, codec: str | None, header: Mapping[str, Any] | None,
             version: int) -> dict[str, Any]:
    """Returns the options that apply only to an .iac target."""
    if not (out or "").lower().endswith(".iac") and (codec, header, version) != (None, None, 2):
        raise UsageError("codec, header and version need an .iac target")
    return {"codec": None if codec is None else word("codec", codec, _CODECS),
            "encoded": codec in _IMAGES,
            "header": None if header is None else json.dumps(dict(header)),
            "version": whole("version", version, 1, 2)}


def _patterns(name: str, patterns: str | Iterable[str]) -> list[str]:
    listed = [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in listed:
        if not isinstance(pattern, str):
            raise UsageError(f"{name} takes patterns such as '*.jpg', not {pattern!r}")
    return listed


def _pairs(name: str, given: Mapping[str, str] | None) -> list[str]:
    """Returns a mapping as a flat list."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"{name} takes a dict, not {given!r}")
    flat = [text for pair in (given or {}).items() for text in pair]
    if not all(isinstance(text, str) for text in flat):
        raise UsageError(f"{name} takes a dict of texts, not {given!r}")
    return flat


def _check(check: Any) -> int:
    if check not in (False, True, "skip"):
        raise UsageError(f"check must be False, True or 'skip', not {check!r}")
    return 2 if check == "skip" else int(check)


def _folder(sources: list[str]) -> str:
    """Returns the one folder of Parquet files and other manifests: the library knows only the
    folder of the JSON lines that are made from them."""
    endings = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")
    folders = {os.path.dirname(source) or "." for source in sources
               if source.lower().endswith(endings) and not os.path.isdir(source)}
    if len(folders) > 1:
        raise UsageError("Parquet files and other manifests of one call must be in one folder, or "
                         "root must say where relative paths start")
    return folders.pop()


def _packed(result: tuple[Any, ...]) -> Packed:
    found, files, values, skipped, classes, notices, bad, existed = result
    folds = {name or "": Written(*numbers) for name, numbers in found}
    return Packed(folds, files, values, skipped, classes, tuple(notices), bad, existed)


def _pack_parquet(sources: list[str], target: str | None, root: str | None,
                  types: dict[str, str], options: dict[str, Any]) -> Packed:
    """Packs sources of which some are Parquet files."""
    records = (target or "").lower().endswith(".iac")
    with tempfile.TemporaryDirectory(prefix="tarn-") as scratch:
        made = {}
        for source in filter(_parquet.is_parquet, sources):
            made[source] = os.path.join(scratch, os.path.basename(source) + ".jsonl")
            if records:
                types = {**_parquet.column_types(source), **types}
            _parquet.write_lines(source, made[source])
        try:
            packed = _packed(_tarn.pack(
                [made.get(source, source) for source in sources], target,
                root=_folder(sources) if root is None else root, types=_pairs("types", types),
                **options))
        except Error as error:
            for source, path in made.items():
                error.args = tuple(arg.replace(path, source) if isinstance(arg, str) else arg
                                   for arg in error.args)
                error.path = source if error.path == path else error.path
            raise
    notices = packed.notices
    for source, path in made.items():
        notices = tuple(notice.replace(path, source) for notice in notices)
    return replace(packed, notices=notices)


def pack(sources: Source | Iterable[Source], out: Source | None, *, fold: str | None = None,
         val: float | None = None, test: float | None = None, seed: int = 0,
         shuffle: int | None = None, keys: Literal["base", "path"] = "base",
         class_from_dir: bool = False, class_level: int | None = None,
         include: str | Iterable[str] = (), exclude: str | Iterable[str] = (),
         rename: Mapping[str, str] | None = None, check: bool | Literal["skip"] = False,
         root: Source | None = None, max_count: int = 100_000, max_size: int = 3_000_000_000,
         append: bool = False, resume: bool = False, overwrite: bool = False,
         sync: bool = True, pax: bool = False, level: int = 0, threads: int = 0,
         lenient: bool = False, allow_pipe: bool = False,
         codec: Literal["none", "brotli", "zstd", "gzip", "png", "jpeg", "jxl", "jpeg2000",
                        "jpegls"] | None = None,
         header: Mapping[str, Any] | None = None, version: Literal[1, 2] = 2,
         types: Mapping[str, Literal["text", "int", "float", "bool", "timestamp"]] | None = None,
         dry_run: bool = False, task: tuple[int, int] | None = None,
         progress: Callable[[int, int, int], object] | None = None) -> Packed:
    """Packs files, folders, manifests or tar streams into shards, in C, as `tarn pack` does.

    >>> import pathlib, tarn, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     birds = pathlib.Path(folder, "birds")
    ...     for name in ("kiwi", "emu"):
    ...         (birds / name).mkdir(parents=True)
    ...         for i in range(5):
    ...             size = (birds / name / f"{name}{i}.txt").write_text(f"{name} number {i}")
    ...     packed = tarn.pack(birds, f"{folder}/data", class_from_dir=True, val=0.2, seed=7)
    ...     ds = tarn.open(f"{folder}/data", fold="train")
    ...     print(packed.samples, len(ds), ds["kiwi3"])
    10 8 {'__key__': 'kiwi3', 'cls': 1, 'txt': 'kiwi number 3'}

    sources: one or several folders, files, manifests (.csv, .tsv, .jsonl and, with pyarrow,
        .parquet), tar archives, or URLs and patterns of archives. The name of a file up to its first dot is the key of its sample,
        and the rest is the field.
    out: a folder for folds ("DIR" or "DIR:FOLD"), "x_%06d.tar" for shards without an index,
        "x.tar" or "x.tar.gz" for one archive, "x.iac" for a record pack. None in a dry run.
    fold: the fold to write, "train" by default. `val` and `test` are the fractions of samples that
        go into folds of these names. `seed` and the keys determine which samples these are.
    shuffle: a seed; the samples are written in an order that depends on it and on the keys.
    keys: "path" to make keys from the path below the given folder, with "-" for each slash.
    class_from_dir: add a field "cls", the number of the sub-folder in classes.txt. Files that are
        in no sub-folder are skipped. class_level=2 takes the sub-folders of the sub-folders.
    include, exclude: patterns such as "*.jpg". A pattern without a slash is matched with the name
        of the file and of each folder above it, a pattern with a slash with the path below the
        source.
    rename: new names of fields: {"jpg": "img", "jpeg": "img", "png": "img"}.
    check: True to decode every field first, and to pack nothing if some are bad: the exception has
        a note for each. "skip" to leave out their samples, with a notice for each.
    root: the folder where relative paths in manifests start; by default that of the manifest.
    max_count, max_size: maximum samples and bytes in a shard; 0 for no limit.
    append, resume, overwrite: add to an existing fold, continue an interrupted run of the command,
        or replace existing files. Give resume in addition to append if the interrupted run had it.
    sync: False to not wait for the disk.
    pax: in folds, allow names of more than 100 bytes and files of more than 8 GiB.
    level: compression level. threads: number of reader threads, 0 for one per core.
    lenient: skip damage in archives. allow_pipe: let a source "pipe:COMMAND" run that command.
    codec, header, version: settings of an .iac file. The codecs of images say what the payloads
        are, which stay unchanged.
    types: types of columns of an .iac file that is made from a manifest. By default they are those
        of the values in JSON lines and Parquet, and text in CSV and TSV.
    dry_run: write nothing.
    task: (i, n) to pack only part i of n. Nothing appears before `tarn.commit`. All tasks need
        the same sources; StaleError if these have changed since the existing parts were written.
    progress: called from time to time, and at the end, with the number of samples written, the
        total number of samples (0 if unknown) and their bytes. If it raises before the end, no
        files of this call are left.
    """
    if progress is not None and not callable(progress):
        raise UsageError(f"progress must be a function, not {progress!r}")
    target = None if out is None else os.fsdecode(out)
    paths = _paths(sources)
    options = dict(
        fold=fold, splits=_splits(val, test), seed=whole("seed", seed),
        shuffle=None if shuffle is None else whole("shuffle", shuffle),
        keys=_KEYS.index(word("keys", keys, _KEYS)),
        class_from_dir=class_from_dir or class_level is not None,
        class_level=0 if class_level is None else whole("class_level", class_level, 1, 1000),
        include=_patterns("include", include), exclude=_patterns("exclude", exclude),
        renames=_pairs("rename", rename), check=_check(check),
        max_count=whole("max_count", max_count), max_size=whole("max_size", max_size),
        append=append, resume=resume, overwrite=overwrite, no_sync=not sync, pax=pax,
        level=whole("level", level, 0, 1000), threads=whole("threads", threads, 0, 1_000_000),
        lenient=lenient, allow_pipe=allow_pipe, dry_run=dry_run, progress=progress,
        **task_of(task, None),
        **_records(target, codec, header, version))
    given = None if root is None else os.fsdecode(root)
    _pairs("types", types)
    if any(map(_parquet.is_parquet, paths)):
        return _pack_parquet(paths, target, given, dict(types or {}), options)
    return _packed(_tarn.pack(paths, target, root=given, types=_pairs("types", types), **options))


@dataclass(frozen=True)
class Committed:
    """What `tarn.commit` published: counts of the folds as they are now.

    >>> Committed(tasks=2, folds=1, shards=4, samples=10, members=20)
    Committed(tasks=2, folds=1, shards=4, samples=10, members=20, existed=False)
    """

    tasks: int  #: whose parts were published, or discarded
    folds: int
    shards: int
    samples: int
    members: int
    existed: bool = False  #: there was nothing to commit, and the fold is complete


def commit(path: Source, *, append: bool = False, overwrite: bool = False, discard: bool = False,
           sync: bool = True, threads: int = 0, tasks: int | None = None) -> Committed:
    """Publishes the parts that tasks have written, as `tarn commit` does.

    >>> import pathlib, tarn, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(10):
    ...         size = pathlib.Path(folder, f"{i}.txt").write_text(f"text {i}")
    ...     for i in range(3):
    ...         packed = tarn.pack(folder, f"{folder}/data", include="*.txt", task=(i, 3))
    ...     done = tarn.commit(f"{folder}/data")
    ...     print(done.tasks, done.samples, len(tarn.open(f"{folder}/data")))
    3 10 10

    path: the target of the tasks: a folder, or "folder:fold"; the folder may be `s3://bucket/folder`.
    append, overwrite: what happens to an existing fold. Without them it is an error.
    discard: remove all parts and publish nothing.
    sync: False to not wait for the disk. threads: for sorting, 0 for one per core.
    tasks: how many tasks there were, if they were written with task=(i, None).

    Raises NotFoundError if tasks are missing, and names them; ExistsError if a key is in two parts;
    StaleError if the sources changed between tasks.
    A commit that was interrupted is completed by the next call.
    """
    return Committed(*_tarn.commit(os.fsdecode(path), append, overwrite, discard, not sync,
                                   whole("threads", threads, 0, 1_000_000),
                                   0 if tasks is None else whole("tasks", tasks, 1, 99_999)))
