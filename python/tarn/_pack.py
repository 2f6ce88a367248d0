"""Packing files, folders, manifests and tar streams into shards, as `tarn pack` does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from . import _tarn
from ._arguments import whole, word
from .errors import UsageError
from ._write import Written

__all__ = ["Packed", "pack"]

Source = Union[str, "os.PathLike[str]"]

_KEYS = ("base", "path")
_CODECS = ("none", "brotli", "zstd", "gzip")


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
            "header": None if header is None else json.dumps(dict(header)),
            "version": whole("version", version, 1, 2)}


def pack(sources: Source | Iterable[Source], out: Source | None, *, fold: str | None = None,
         val: float | None = None, test: float | None = None, seed: int = 0,
         shuffle: int | None = None, keys: Literal["base", "path"] = "base",
         class_from_dir: bool = False, max_count: int = 100_000, max_size: int = 3_000_000_000,
         append: bool = False, resume: bool = False, overwrite: bool = False,
         sync: bool = True, pax: bool = False, level: int = 0, threads: int = 0,
         lenient: bool = False, allow_pipe: bool = False,
         codec: Literal["none", "brotli", "zstd", "gzip"] | None = None,
         header: Mapping[str, Any] | None = None, version: Literal[1, 2] = 2,
         dry_run: bool = False,
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

    sources: one or several folders, files, manifests (.csv, .tsv, .jsonl), tar archives, or URLs
        and patterns of archives. The name of a file up to its first dot is the key of its sample,
        and the rest is the field.
    out: a folder for folds ("DIR" or "DIR:FOLD"), "x_%06d.tar" for shards without an index,
        "x.tar" or "x.tar.gz" for one archive, "x.iac" for a record pack. None in a dry run.
    fold: the fold to write, "train" by default. `val` and `test` are the fractions of samples that
        go into folds of these names. `seed` and the keys determine which samples these are.
    shuffle: a seed; the samples are written in an order that depends on it and on the keys.
    keys: "path" to make keys from the path below the given folder, with "-" for each slash.
    class_from_dir: add a field "cls", the number of the sub-folder in classes.txt.
    max_count, max_size: maximum samples and bytes in a shard; 0 for no limit.
    append, resume, overwrite: add to an existing fold, continue an interrupted run of the command,
        or replace existing files.
    sync: False to not wait for the disk.
    pax: in folds, allow names of more than 100 bytes and files of more than 8 GiB.
    level: compression level. threads: number of reader threads, 0 for one per core.
    lenient: skip damage in archives. allow_pipe: let a source "pipe:COMMAND" run that command.
    codec, header, version: settings of an .iac file.
    dry_run: write nothing.
    progress: called from time to time, and at the end, with the number of samples written, the
        total number of samples (0 if unknown) and their bytes. If it raises before the end, no
        files of this call are left.
    """
    if progress is not None and not callable(progress):
        raise UsageError(f"progress must be a function, not {progress!r}")
    target = None if out is None else os.fsdecode(out)
    found, files, values, skipped, classes, notices = _tarn.pack(
        _paths(sources), target, fold=fold, splits=_splits(val, test), seed=whole("seed", seed),
        shuffle=None if shuffle is None else whole("shuffle", shuffle),
        keys=_KEYS.index(word("keys", keys, _KEYS)), class_from_dir=class_from_dir,
        max_count=whole("max_count", max_count), max_size=whole("max_size", max_size),
        append=append, resume=resume, overwrite=overwrite, no_sync=not sync, pax=pax,
        level=whole("level", level, 0, 1000), threads=whole("threads", threads, 0, 1_000_000),
        lenient=lenient, allow_pipe=allow_pipe, dry_run=dry_run, progress=progress,
        **_records(target, codec, header, version))
    folds = {name or "": Written(*numbers) for name, numbers in found}
    return Packed(folds, files, values, skipped, classes, tuple(notices))
