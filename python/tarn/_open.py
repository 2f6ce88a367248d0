"""`open` and `mix`: the first datasets of a program, from files and from other datasets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from . import _tarn
from ._arguments import names, reals, whole, word
from ._dataset import Dataset
from ._maps import MixParts
from ._reading import IMAGES, Decoder, Reading, extension
from ._recipe import MixRecipe, Recipe
from .errors import UsageError, shown as shown_text

PathLike = Union[str, "os.PathLike[str]"]


def _once(fields: Iterable[str]) -> list[str]:
    """Returns the fields without duplicates and without a leading dot."""
    given = names("fields", fields)
    return list(dict.fromkeys(name[1:] if name[:1] == "." else name for name in given))


def _warn_of_left_out(handle: _tarn._Handle) -> None:
    """Warns about samples that are not in the dataset because they lack a listed field."""
    info = handle.info()
    if not info["left_out"]:
        return
    stored = dict(zip(handle.fields(), handle.stored()))
    missing = {name: f'no field "{";".join(stored[name])}"' for name in info["lacking"]}
    where = f"{info['left_out']} of {info['in_file']} samples"
    if len(missing) == 1:
        text = f"{where} have {missing.popitem()[1]} and are left out"
    else:
        counts = (f"{info['lacking'][name]} have {text}" for name, text in missing.items())
        text = f"{where} are left out: {', '.join(counts)}"
    for name in info["lacking"]:
        others = [one for one in handle.file_fields() if extension(one) in IMAGES]
        several = list(dict.fromkeys(stored[name] + others))
        if extension(stored[name][0]) in IMAGES and len(several) > len(stored[name]):
            entry = ";".join(several) if name == several[0] else f'{name}={";".join(several)}'
            text += f'; to take the first of several fields, write fields=["{entry}"]'
            break
    warnings.warn(text, stacklevel=3)


def _warn_of_cache(handle: _tarn._Handle) -> None:
    """Warns about a cache that can store nothing."""
    problem = handle.info()["cache_problem"]
    if problem:
        warnings.warn(problem, stacklevel=3)


def open(path: PathLike, fold: str | None = None, fields: Iterable[str] | None = None,
         decode: bool | Literal["bytes"] = True, *, images: Literal["numpy", "pil"] = "numpy",
         array_type: Literal["numpy", "torch"] = "numpy",
         decoders: Mapping[str, Decoder | str] | None = None, exif: bool = False,
         fallback: Literal["pillow"] | Decoder | None = None,
         io: Literal["auto", "map", "read"] = "auto", check: bool = False, cold: bool = False,
         scan: bool = True, drop_ambiguous: bool = False, keys: Literal["base", "path"] = "base",
         lenient: bool = False, threads: int = 0, by_hash: bool = False,
         key_column: str | None = None, decompress: bool = True,
         cache: PathLike | None = None, cache_limit: int = 0,
         index: PathLike | None = None) -> Dataset:
    """Opens a dataset: a folder of shards, one of its folds, a tar, an array file or a record
    pack.

    path: "DIR", "DIR:FOLD", a .taridx, .tar, .gnz or .iac; or a URL of one of them
        ("s3://bucket/birds:train"), or of shards ("https://host/birds/train-{000..099}.tar").
        Then only the index is fetched, and samples when they are read.
    fold: one of several folds of a folder.
    fields: the fields of the samples; the dataset has only samples with all of them, and a
        `UserWarning` says how many others the file has. "jpg;png" takes the first of these fields
        that a sample has, and names it jpg; "img=jpg;png" names it img. None takes all samples and
        fields. "_idx", "_key", "_shard" and "_fid" exist for any file.
    decode: True decodes values by the names of the fields (docs/guides/fields.md); False returns
        read-only memoryviews into the file, valid as long as they exist; "bytes" returns bytes.
    images: "numpy" or "pil". array_type: "numpy" or "torch", for decoded arrays.
    decoders: functions of bytes by field or extension, which take precedence, or names of decoders:
        {"pyd": "pickle"}, or of codecs: {"payload": "png"}. No code in a file is run unless it is
        named here. Names that no field of the file has are an error.
    exif: turn images upright, as the orientation in their EXIF data says, before anything else.
    fallback: decodes images of formats that tarn does not know (BMP, GIF, TIFF, ...): "pillow", or a
        function of bytes that returns an array or a PIL.Image. It runs in the thread that asks for
        the sample or the batch.
    io: "map", "read", or "auto", which maps files on local file systems.
    check: compare the data with its checksums. cold: the data is not in memory and not worth
        keeping there. scan: build an index in memory if there is none on disk.
    keys: "base" or "path", when scanning: whether a member's folder is part of the key.
    threads: for scanning; 0 uses one per core.
    by_hash: if the members of samples are not contiguous, order the samples by the hashes of their
        keys, as in glzn, instead of by their first members.
    lenient: skip damage when scanning. drop_ambiguous: leave out samples that have a field twice.
    key_column: in a record pack, the column with the keys. decompress: whether to decompress the
        payloads of a record pack.
    cache: for a URL, a folder for what is fetched; any number of processes and datasets may share
        it. None takes that of the environment variable TARN_CACHE; without it, and with "", nothing
        is kept. Compressed archives need it: they are copied there once, decompressed.
    cache_limit: the bytes that the cache may take on disk; 0 means no limit.
    index: for the URL of a fold, a local index of its shards, used instead of the one beside them.

    >>> import tarn
    >>> tarn.open(birds)[0]["txt"]
    'An auk.'
    >>> bytes(tarn.open(birds, decode=False)[0]["txt"])
    b'An auk.'
    """
    where = shown = os.fspath(path)
    if not isinstance(where, str) or not where:
        raise UsageError(f"path must be a non-empty str or pathlib.Path, not {path!r}")
    if "://" in where:  # download code is imported only when it is needed
        from ._remote import is_url, place

        if is_url(where):
            where = place(where, cache)
    if fold is not None:
        where, shown = f"{where}:{fold}", f"{shown}:{fold}"
    options: dict[str, Any] = {
        "fields": None if fields is None else _once(fields),
        "io": word("io", io, ("auto", "map", "read")), "check": check, "cold": cold, "scan": scan,
        "drop_ambiguous": drop_ambiguous, "keys": word("keys", keys, ("base", "path")),
        "lenient": lenient, "threads": whole("threads", threads, 0, 2**32 - 1), "by_hash": by_hash,
        "key_column": key_column, "decompress": decompress,
    }
    if "://" in where:
        folder = None if cache is None else os.fspath(cache)
        options["cache"] = os.path.abspath(folder) if folder else folder
        options["cache_limit"] = whole("cache_limit", cache_limit, 0, 2**64 - 1)
        options["index"] = None if index is None else os.path.abspath(os.fspath(index))
    else:
        if index is not None:
            raise UsageError("index is for URLs; open the .taridx itself, or its folder")
        where = os.path.abspath(where)
    recipe = Recipe(where, options, shown=shown_text(shown))
    reading = Reading(decode, images, array_type, decoders, exif, fallback)
    handle = recipe.open()
    if reading.decoders:
        reading.check(handle, recipe.shown)
    _warn_of_left_out(handle)
    _warn_of_cache(handle)
    return Dataset._make(recipe, handle, reading)


def mix(*datasets: Dataset, weights: Sequence[float] | None = None,
        counts: Sequence[int] | None = None, total: int | None = None,
        end: Literal["first", "all"] = "first", fields: Iterable[str] | None = None) -> Dataset:
    """Combines several datasets into one, evenly interleaved.

    weights: how often each source comes. counts: alternatively, the number of samples of each.
        Without either, all samples of all sources.
    total: samples in an epoch, with weights.
    end: with weights and without total, when an epoch ends: "first" when a source has no more
        samples for its weight, "all" when all samples have been seen.
    fields: the fields that every source must have. None takes the names of all.

    Each source keeps its own selections, order, maps and groups, and continues from one epoch of
    the mix to the next: with a weight of 10 %, all its samples have been seen after ten epochs. A
    slice of a mix is fixed, as with any dataset.

    >>> both = tarn.mix(ds, ds[:2], weights=[2, 1])
    >>> both.keys()
    ['auk', 'auk', 'jay', 'kiwi', 'jay', 'owl']
    >>> tarn.mix(ds.shuffle(seed=7), ds[:2].map(cls=float), weights=[2, 1])[1]
    {'__key__': 'auk', 'txt': 'An auk.', 'cls': 0.0}
    """
    if not datasets:
        raise UsageError("mix: no datasets")
    word("end", end, ("first", "all"))
    many = (len(datasets), len(datasets))
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise UsageError(f"mix: {type(dataset).__name__} is not a dataset; "
                             "pass a list as mix(*datasets)")
    if total is not None and weights is None:
        raise UsageError("mix: total needs weights")
    listed = None if fields is None else tuple(names("fields", fields))
    arguments = (None if weights is None else reals("weights", weights, *many),
                 None if counts is None else _counts(counts, len(datasets)),
                 0 if total is None else whole("total", total, 1), end == "all", listed)
    plain = all(not (dataset._maps or dataset._grouping or dataset._parts
                     or dataset._overrides_getitem())
                and dataset._reading == datasets[0]._reading for dataset in datasets)
    if not plain:
        for number, dataset in enumerate(datasets):
            for name in listed or ():
                if name in dataset.fields:
                    continue
                if ";" in name or "=" in name:
                    raise UsageError(f'mix: "{name}": the sources have their own functions; choose '
                                     "and name fields when you open them")
                raise UsageError(f"mix: source {number} has no field {name}")
        arguments = (*arguments[:-1], None)
    recipe = MixRecipe(tuple(dataset._recipe_now() for dataset in datasets), arguments)
    handle = _tarn.mix(tuple(dataset._handle for dataset in datasets), *arguments)
    return Dataset._make(recipe, handle, datasets[0]._reading,
                         parts=None if plain else MixParts(datasets, listed))


def _counts(counts: Sequence[int], sources: int) -> tuple[int, ...]:
    out = tuple(whole("counts", count) for count in counts)
    if len(out) != sources:
        raise UsageError(f"counts must be a list of {sources} numbers (found {len(out)})")
    return out
