"""iTarDataset: samples of a fold as tuples, in glzn's orders, read by the library."""

from __future__ import annotations

import contextlib
import inspect
import json
import operator
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _tarn
from .._reading import DECODERS, Decoder
from ..errors import shown
from . import encoders
from .encoders import PIL, PseudoExtension, decoder_for, is_plain, spelled
from .epoch import is_spawning, shared_number
from .imgbrowser import Browser, BrowserWrapper, browse_dataset
from .itar.entry import PathLike
from .itar.fold import (
    PSEUDO,
    check_grouped,
    iTarDirectory,
    iTarFold,
    iTarRetriever,
    stems_of,
)
from .itar.utils import StemHelper, stripext
from .maptrafo import Map, MapAll, MapGrouped, MapTuple
from .ordered import Ordered, shard_counts
from .sampler import IdentitySampler, MultiFeistelSampler

if TYPE_CHECKING:
    from typing import Self

    DEFAULT_DECODERS: dict[str, Callable[[Any], Any]]
    USE_TV_TENSOR: bool

__all__ = ["DEFAULT_DECODERS", "IdentitySampler", "Map", "MapAll", "MapGrouped", "MapTuple",
           "MultiFeistelSampler", "PIL", "PseudoExtension", "StemHelper", "USE_TV_TENSOR",
           "browse_dataset", "iTarDataset", "iTarFold", "iTarRetriever", "stripext"]

_GROUPING_SEED = 0x0BAD5EED


def _stems_in(path: PathLike) -> list[str]:
    """Returns the stems of a JSON list of names."""
    with open(path, encoding="utf-8") as file:
        names = json.load(file)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{shown(path)}: not a JSON list of strings")
    return [StemHelper(name).stem for name in names]


def __getattr__(name: str) -> Any:
    if name == "DEFAULT_DECODERS":
        return encoders.DEFAULT_DECODERS
    if name == "USE_TV_TENSOR":
        return iTarDataset.supports_tv_tensor()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Decoders(dict[int, Decoder]):
    """The decoders of a dataset by the number of their extension. A change applies to the
    dataset."""

    def __init__(self, dataset: iTarDataset) -> None:
        super().__init__()
        for number, name in dataset._names_by_id.items():
            with contextlib.suppress(KeyError):  # another extension, which needs no decoder
                super().__setitem__(number, dataset._decoder(name))
        self._dataset = dataset

    def __setitem__(self, extid: int, decoder: Decoder) -> None:
        self._dataset._set_decoders({extid: decoder})
        super().__setitem__(extid, decoder)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for extid, decoder in dict(*args, **kwargs).items():
            self[extid] = decoder


class iTarDataset(Ordered):
    """The samples of one fold of the folder loc/dataset, as tuples of decoded fields.

    >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls", "_stem"])
    >>> len(ds), ds[0], ds[-1]
    (4, ('An auk.', 0, 'auk'), ('An owl.', 3, 'owl'))
    >>> [stem for _, _, stem in ds.set_shuffle(rounds=4).set_epoch(1)]
    ['auk', 'owl', 'jay', 'kiwi']
    >>> ds.map(lambda txt, cls, stem: {"text": txt, "label": cls})[0]
    {'text': 'An auk.', 'label': 0}

    extensions: the fields of a sample, in this order. The dataset holds only samples that have all
        of them. None means all extensions of the index. There are also pseudo extensions: `_idx`,
        the number of the sample in file order, `_name` and `_stem`, its stem, and `_fid`, the
        number of its shard.
    parse_if_missing, serialize: build a missing index, and write it to disk.
    internal_seed, buckets_per_shard: settings of the order, see `set_shuffle`.
    enforce_contiguous: if the members of samples are not contiguous in the shards, use the samples
        in the order of their hashes. Without it, several extensions of such a fold are a
        ValueError.
    decoders: functions of bytes by extension, or names of decoders: {"pkl": "pickle"}. No code in
        a file is run unless it is named here.
    delimiter, extension, verbose, bufsize: as in `iTarFold`, also for unknown options.

    loc, dataset, root: the folder. extensions: the fields of a sample before any transform or
    grouping.

    A dataset can be passed to torch's DataLoader; once torch is imported, it is an instance of
    torch.utils.data.Dataset. Copies in its workers follow `set_epoch` of this object. A subclass
    may override `__getitem__`: iteration and DataLoader then call it for each sample.
    """

    def __init__(self, dataset: str, loc: PathLike, fold: str,
                 extensions: Iterable[str] | None = None, parse_if_missing: bool = False,
                 serialize: bool = True, idxext: str = "taridx", prefer_mmap: bool = False,
                 internal_seed: int = 0, buckets_per_shard: int = 2,
                 enforce_contiguous: bool = False, *,
                 decoders: Mapping[str, Decoder | str] | None = None, delimiter: str = "_",
                 extension: str = "tar", verbose: bool = True, bufsize: int = 8 << 20,
                 **kwargs: Any) -> None:
        self.loc = pathlib.Path(loc)
        self.root = self.loc / dataset
        self._folder = pathlib.Path(os.path.abspath(self.root))  # the program may leave its folder
        if not self.root.exists():
            raise FileExistsError(f"{shown(self.root)}: no such folder")
        self.dataset, self._fold_name, self._idxext = dataset, fold, idxext
        self._seed = operator.index(internal_seed)
        self.buckets_per_shard = max(1, operator.index(buckets_per_shard))
        self._grouping_seed = self._seed ^ _GROUPING_SEED
        self._rank, self._world_size, self._drop_last = 0, 1, False
        self._shuffle_enabled, self._shuffle_shard_mixing, self._shuffle_rounds = False, False, 3
        self._prefer_mmap, self._enforced = prefer_mmap, enforce_contiguous
        self._naming = (delimiter, extension)
        self._decoders = dict(decoders or {})
        self._override = None
        self._grouping = None
        self._maps = []
        self.transforms: list[Callable[[Any], Any]] = []  # in the order in which they are applied
        self._stem_filters: list[list[str]] = []
        self._had: list[str] = []  # extensions that samples must also have
        self._epoch = 0
        self._shared = shared_number(0)
        folder = iTarDirectory(self._folder, delimiter, extension)
        self._scan = folder._prepare(fold, idxext, parse_if_missing, serialize, verbose, kwargs)
        self._locate(folder)
        self._known, self._flag = self._look()
        self._extensions = self._check_extensions(self._known if extensions is None
                                                  else extensions)
        self._open()

    # --- Opening ---

    def _locate(self, folder: iTarDirectory) -> None:
        self._shards = folder.shards_of(self._fold_name)
        self._index_path = folder.index_path(self._fold_name, self._idxext)
        self._retriever: iTarRetriever | None = None

    def _look(self) -> tuple[list[str], bool]:
        """Returns the extensions of the index and whether it marks its samples as contiguous."""
        index = _tarn.open_dataset(self._index_path, shards=self._shards,
                                   scan=self._scan).index()
        return index.fields(), bool(index.info()["contiguous"])

    def _check_extensions(self, extensions: Iterable[str]) -> list[str]:
        if isinstance(extensions, str):
            raise TypeError("extensions must be a list of strings, not a string")
        names = [stripext(name) for name in extensions]
        unknown = sorted({name for name in names if name not in PSEUDO} - set(self._known))
        if unknown:
            raise ValueError(f"unknown extension {', '.join(map(repr, unknown))}; available: "
                             + ", ".join(self._known))
        if not set(names) - set(PSEUDO):
            raise ValueError("At least one real extension must be provided; found: "
                             + ", ".join(names or ["none"]))
        return names

    @property
    def _real(self) -> list[str]:
        """The extensions of the files, without duplicates."""
        return list(dict.fromkeys(name for name in self._extensions if name not in PSEUDO))

    def _open(self) -> None:
        """Opens the files for the extensions, with all filters. If this fails, nothing changes."""
        real = self._real
        numbers = {name for name in self._extensions if name in ("_idx", "_fid")}
        decoders = {name: self._decoder(name) for name in real}
        handle = _tarn.open_dataset(
            self._index_path, shards=self._shards, scan=self._scan, drop_ambiguous=True,
            fields=[spelled(name) for name in real] + sorted(numbers), by_hash=self._enforced,
            io="map" if self._prefer_mmap else "read")
        if self._had:
            handle = handle.filter("having", None, self._had, 0, 0, False)
        if not len(handle):
            raise RuntimeError(f"no sample has all of {', '.join(real)}")
        if len(real) > 1 and not self._is_contiguous:
            check_grouped(self._rows(), len(real))
        for stems in self._stem_filters:
            handle = self._with_stems(handle, stems)
        self._use(handle)
        self._decode = decoders

    def _rows(self) -> Any:
        return self._make_fold(False).state

    def _make_fold(self, enforced: bool) -> iTarFold:
        fold = iTarFold(self._folder, self._fold_name, *self._naming, parse_if_missing=self._scan,
                        serialize=False, idxext=self._idxext, enforce_contiguous=enforced)
        for required in (self._had, self._real):
            fold.filter_extensions(required)
        return fold

    def _decoder(self, extension: str) -> Decoder:
        last = extension.rpartition(".")[2]
        given = self._decoders.get(extension, self._decoders.get(last))
        if given is None:
            return decoder_for(extension)
        return DECODERS[given] if isinstance(given, str) else given

    @property
    def _names_by_id(self) -> dict[int, str]:
        return dict(enumerate(self._known))

    def _set_decoders(self, changes: Mapping[int, Decoder]) -> None:
        names = self._names_by_id
        for extid in changes:
            if extid not in names:
                raise KeyError(f"no extension has the number {extid}; found: {names}")
        self._change(_decoders={**self._decoders,
                                **{names[extid]: made for extid, made in changes.items()}})
        self._decode = {name: self._decoder(name) for name in self._real}

    @property
    def decoders(self) -> dict[int, Decoder]:
        """The functions that decode the extensions, by their numbers in the index
        (`fold.state.ext2id`). Other functions can be assigned.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.decoders[ds.fold.state.ext2id["txt"]] = len
        >>> ds[3]
        (7, 3)
        """
        return _Decoders(self)

    @decoders.setter
    def decoders(self, decoders: Mapping[int, Decoder]) -> None:
        self._set_decoders(decoders)

    def _with_stems(self, handle: _tarn._Handle, stems: list[str]) -> _tarn._Handle:
        kept = handle.filter("keys", None, stems, 0, 0, True)
        if not len(kept):
            raise RuntimeError(f"none of the {len(stems)} stems is in the dataset")
        return kept

    def _use(self, handle: _tarn._Handle) -> None:
        reader = self._make_reader(handle)
        self._handle, self._reader = handle, reader
        self._fold: iTarFold | None = None

    # --- Reading ---

    @property
    def extensions(self) -> list[str]:
        """The fields of a sample before any transform or grouping."""
        return list(self._extensions)

    def __len__(self) -> int:
        return len(self._follow())

    def __getitem__(self, idx: int) -> Any:
        return self._follow()[operator.index(idx)]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if self._overrides_getitem():
            return [self[index] for index in indices]
        return self._follow().__getitems__(indices)

    def __iter__(self) -> Iterator[Any]:
        if self._overrides_getitem() or type(self).__len__ is not iTarDataset.__len__:
            return map(self.__getitem__, range(len(self)))
        return iter(self._follow())

    def _overrides_getitem(self) -> bool:
        return type(self).__getitem__ is not iTarDataset.__getitem__

    # --- Transforms ---

    def _count(self) -> int:
        return len(self._grouping[0] if self._grouping else self._extensions)

    def _add(self, transform: Callable[[Any], Any]) -> Self:
        self._change(_maps=[*self._maps, transform])
        self.transforms.append(transform)
        return self

    def _check_mapping(self, caller: str, *functions: Any) -> None:
        for function in functions:
            if not callable(function):
                raise TypeError(f"{caller}: the mapping is not callable "
                                f"(found {type(function).__name__})")
        if self._maps and isinstance(self._maps[-1], Map):
            raise RuntimeError(f"{caller} cannot be attached after map(), whose result is the "
                               "sample; add other transforms before it")

    def map(self, mapping: Callable[..., Any]) -> Self:
        """Applies a function to all fields; its result is the sample. This must be the last
        transform."""
        self._check_mapping("map()", mapping)
        taken, count = _positional(mapping), self._count()
        if taken not in (None, count):
            raise TypeError(f"Mapping function for map() must accept {count} positional "
                            f"arguments, but got {taken}: samples have {count} fields")
        return self._add(Map(mapping))

    def map_all(self, mapping: Callable[[Any], Any]) -> Self:
        """Applies one function to each field.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.map_all(str)[3]
        ('An owl.', '3')
        """
        self._check_mapping("map_all()", mapping)
        return self._add(MapAll(mapping))

    def map_tuple(self, *maps: Callable[[Any], Any]) -> Self:
        """Applies a different function to each field.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.map_tuple(len, float)[3]
        (7, 3.0)
        """
        self._check_mapping("map_tuple()", *maps)
        if len(maps) != self._count():
            raise ValueError("Incorrect number of transforms provided. Expected "
                             f"{self._count()}, got {len(maps)}.")
        return self._add(MapTuple(maps))

    def map_group(self, mapping: Callable[..., Any], indices: Sequence[int]) -> Self:
        """Applies a function to the fields at some positions; it must return as many values.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls", "_stem"])
        >>> ds.map_group(lambda txt, stem: (stem, len(txt)), [0, 2])[3]
        ('owl', 3, 7)
        """
        self._check_mapping("map_group()", mapping)
        chosen, count = tuple(indices), self._count()
        if not chosen:
            raise ValueError("map_group() requires at least one index")
        for index in chosen:
            if not 0 <= index < count:
                raise IndexError(f"map_group() index {index} is out of range for samples of "
                                 f"{count} fields")
        return self._add(MapGrouped(mapping, chosen))

    # --- Filters ---

    def _set_extensions(self, names: list[str]) -> None:
        before = (self._extensions, self._had, self._stem_filters)
        dropped = set(self._real) - set(names)
        if self._handle.info()["dropped"] and dropped:
            # Samples with a duplicate of one of these are not in the dataset and stay out.
            self._stem_filters = [*self._stem_filters,
                                  self._handle.keys(range(len(self._handle)))]
        self._had = list(dict.fromkeys([*self._had, *self._real]))
        self._extensions = names
        try:
            self._open()
        except BaseException:
            self._extensions, self._had, self._stem_filters = before
            raise

    def filter_extensions(self, extensions: Sequence[str]) -> Self:
        """Changes the extensions to these, which must exist. Not allowed after a transform or
        grouping.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.filter_extensions(["_idx", "cls"])[2]
        (2, 2)
        """
        if self._maps or self._grouping:
            raise RuntimeError("filter_extensions must come before transforms and groupings")
        names = self._check_extensions(extensions)
        gone = sorted(set(names) - set(PSEUDO) - set(self._real))
        if gone:
            raise RuntimeError(f"no sample has {', '.join(gone)}, which is not among the "
                               f"dataset's extensions: {', '.join(self._extensions)}")
        self._set_extensions(names)
        return self

    def filter_stems(self, stems: Sequence[str]) -> Self:
        """Keeps the samples with these stems. An empty list keeps all samples. Raises RuntimeError
        if none of the stems exists.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["cls"])
        >>> [cls for cls, in ds.filter_stems(["owl", "jay", "emu"])]
        [1, 3]
        """
        wanted = stems_of(stems)
        if wanted:
            self._follow()
            self._use(self._with_stems(self._handle, wanted))
            self._stem_filters = [*self._stem_filters, wanted]
        return self

    def filter_stems_by_json(self, path: PathLike) -> Self:
        """Like filter_stems, with a JSON file that has a list of names. Folders and extensions are
        removed from the names. Not allowed after a grouping."""
        if self._grouping:
            raise RuntimeError("filter_stems_by_json must come before groupings")
        return self.filter_stems(_stems_in(path))

    def lookup_stems(self, stems: Sequence[str] | PathLike,
                     extensions: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """Returns the decoded fields of samples by stem: {stem: {extension: value}}, without
        missing fields. stems is a list of names, whose folders and extensions are removed, or the
        path of a JSON list of names.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.lookup_stems(["owl", "emu"], extensions=["cls"])
        {'owl': {'cls': 3}, 'emu': {}}
        """
        if isinstance(stems, (str, os.PathLike)):
            wanted = _stems_in(stems)
        elif isinstance(stems, Sequence):
            wanted = [StemHelper(name).stem for name in stems_of(stems)]
        else:
            raise TypeError(f"stems must be a list of stems or a path, not {type(stems).__name__}")
        wanted = list(dict.fromkeys(wanted))
        names = self._looked_up(extensions)
        found = [(stem, number) for stem, number in zip(wanted, self._handle.lookup(wanted))
                 if number is not None]
        out: dict[str, dict[str, Any]] = {stem: {} for stem in wanted}
        if not names or not found:
            return out
        batch = self._handle.read_batch([number for _, number in found], tuple(names), None)
        for at, (stem, _) in enumerate(found):
            fields = batch[at]
            out[stem] = {name: self._decode[name](bytes(fields[name])) for name in names}
        return out

    def _looked_up(self, extensions: Iterable[str] | None) -> list[str]:
        """Returns the requested fields of the dataset, in the order of the index."""
        if extensions is None:
            return sorted(self._real, key=self._known.index)
        if isinstance(extensions, str):
            raise TypeError("extensions must be a list of strings, not a string")
        asked = [stripext(name).lower() for name in extensions]
        unknown = sorted(set(asked) - set(self._known))
        if unknown:
            raise ValueError(f"unknown extension {', '.join(map(repr, unknown))}; available: "
                             + ", ".join(self._known))
        return [name for name in self._known if name in asked and name in self._real]

    # --- Grouping ---

    def add_grouping(self, grouping: Sequence[str], grouping_replace: bool = False,
                     grouping_seed: int | None = None) -> Self:
        """Chooses one of several views of each sample, a different one each epoch. For samples
        with f0.jpg, f0.cls, f1.jpg, f1.cls, `["{0}.jpg", "{0}.cls"]` takes f0 or f1, and
        `["{0}.jpg", "{1}.jpg"]` takes both in random order. If the seed is None, it is derived
        from internal_seed."""
        if self._maps:
            raise RuntimeError("add_grouping must come before transforms")
        if isinstance(grouping, str):
            raise TypeError("grouping must be a list of strings, not a string")
        if set(self._extensions) & set(PSEUDO):
            raise ValueError("groups cannot be combined with pseudo extensions")
        seed = self._grouping_seed if grouping_seed is None else operator.index(grouping_seed)
        return self._change(_grouping=(tuple(grouping), bool(grouping_replace)), _grouping_seed=seed)

    @property
    def grouping(self) -> tuple[str, ...] | None:
        """The templates of `add_grouping`; None without it."""
        return self._grouping[0] if self._grouping else None

    @property
    def grouping_replace(self) -> bool:
        """Whether a sample may take the same view twice."""
        return self._grouping[1] if self._grouping else False

    # --- Fold and shards ---

    @property
    def fold(self) -> iTarFold:
        """The rows of this dataset's samples; a filter makes a new object."""
        if self._fold is None:
            fold = self._make_fold(self._enforced)
            for stems in self._stem_filters:
                fold.filter_stems(stems)
            self._fold = fold
        return self._fold

    @property
    def shard_bincount(self) -> Any:
        """The number of samples in each shard, up to the last shard that has any, as an array."""
        import numpy

        return numpy.array(shard_counts(self._handle), dtype=numpy.intp)

    @property
    def retriever(self) -> iTarRetriever:
        """The bytes of the dataset's shards."""
        if self._retriever is None:
            self._retriever = iTarRetriever(self._shards, self._prefer_mmap)
        return self._retriever

    @staticmethod
    def supports_tv_tensor() -> bool:
        """Whether there is a torchvision with tv_tensors, which came with version 0.16."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("torchvision").split(".")[:2]
        except PackageNotFoundError:
            return False
        return tuple(map(int, found)) >= (0, 16)

    def browse(self, img_ext: str = "jpg", lab_ext: str = "cls",
               labeldict: Mapping[Any, Any] | None = None, page_size: int = 24, cols: int = 6,
               width: int = 128) -> Browser:
        """Returns the dataset's images with their labels, in pages; see `browse_dataset`. A
        notebook shows the first page."""
        return browse_dataset(BrowserWrapper(self, img_ext, lab_ext, labeldict),
                              page_size=page_size, cols=cols, width=width)

    # --- Object protocol ---

    def __getstate__(self) -> dict[str, Any]:
        self._follow()
        state = {name: value for name, value in vars(self).items()
                 if name not in ("_handle", "_reader", "_shards", "_fold", "_retriever")}
        # The decoders too, because the program may have changed the tables. Those of this module
        # are found again.
        own = {name: decoder for name, decoder in state.pop("_decode").items()
               if not is_plain(decoder) and name not in self._decoders}
        state["_decoders"] = {**own, **self._decoders}
        if not is_spawning():
            del state["_shared"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "_shared" not in state:
            self._shared = shared_number(self._epoch)
        self._locate(iTarDirectory(self._folder, *self._naming))
        self._open()

    def __repr__(self) -> str:
        told = [f"{len(self)} samples", "extensions " + " ".join(self._extensions)]
        if self._shuffle_enabled:
            told.append(f"shuffled, seed {self._seed} epoch {self._now}")
        if self._world_size > 1:
            told.append(f"rank {self._rank}/{self._world_size}")
        return f"<iTarDataset {shown(self.root)!r} {self._fold_name}: {', '.join(told)}>"


def _positional(function: Callable[..., Any]) -> int | None:
    """Returns how many positional arguments a function takes; None for any number."""
    kinds = inspect.Parameter
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is kinds.VAR_POSITIONAL for each in parameters):
        return None
    return sum(each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
               for each in parameters)
