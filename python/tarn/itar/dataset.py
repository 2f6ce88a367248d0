"""iTarDataset: samples of a fold as tuples, in glzn's orders, read by the library."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _tarn
from .._reading import DECODERS, Decoder
from ..errors import shown
from .encoders import PSEUDO, decoder_for, spelled
from .entry import PathLike
from .epoch import checked_epoch, is_spawning, shared_number
from .fold import check_grouped, iTarDirectory, iTarFold, iTarRetriever, stem_of, stems_of
from .maptrafo import Map, MapAll, MapGroup, MapTuple
from .sampler import order_seed

if TYPE_CHECKING:
    from typing import Self

    from .browser import BrowserWrapper

__all__ = ["iTarDataset"]

_GROUPING_SEED = 0x0BAD5EED
_WORD = 2**64

# The key in a sample's dict for each pseudo extension.
_SHOWN = {"_name": "__key__", "_stem": "__key__"}


class _Tuple:
    """Turns a sample's dict into a tuple in the order of the extensions."""

    def __new__(cls, names: Sequence[str]) -> Any:
        if len(names) > 1:
            return operator.itemgetter(*names)
        return super().__new__(cls)

    def __init__(self, names: Sequence[str]) -> None:
        self.name = names[0]

    def __call__(self, sample: Mapping[str, Any]) -> tuple[Any, ...]:
        return (sample[self.name],)


def _stems_in(path: PathLike) -> list[str]:
    """Returns the stems of a JSON list of names."""
    with open(path, encoding="utf-8") as file:
        names = json.load(file)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{shown(path)}: not a JSON list of strings")
    return [stem_of(name) for name in names]


class iTarDataset:
    """The samples of one fold of the folder loc/dataset, as tuples of decoded fields.

    >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls", "_stem"])
    >>> len(ds), ds[0], ds[-1]
    (4, ('An auk.', 0, 'auk'), ('An owl.', 3, 'owl'))
    >>> ds.set_shuffle(rounds=4).set_epoch(1)
    >>> [stem for _, _, stem in ds]
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
    delimiter, extension, verbose, bufsize: as in `iTarFold`.

    A dataset can be passed to torch's DataLoader. Copies in its workers follow `set_epoch` of this
    object.
    """

    def __init__(self, dataset: str, loc: PathLike, fold: str,
                 extensions: Iterable[str] | None = None, parse_if_missing: bool = False,
                 serialize: bool = True, idxext: str = "taridx", prefer_mmap: bool = False,
                 internal_seed: int = 0, buckets_per_shard: int = 2,
                 enforce_contiguous: bool = False, *,
                 decoders: Mapping[str, Decoder | str] | None = None, delimiter: str = "_",
                 extension: str = "tar", verbose: bool = True,
                 bufsize: int | None = None) -> None:
        self.root = pathlib.Path(os.path.abspath(pathlib.Path(loc) / dataset))
        if not self.root.exists():
            raise FileExistsError(f"{shown(self.root)}: no such folder")
        self.dataset, self.fold_name, self.idxext = dataset, fold, idxext
        self.internal_seed = operator.index(internal_seed)
        self.buckets_per_shard = max(1, operator.index(buckets_per_shard))
        self.grouping_seed = self.internal_seed ^ _GROUPING_SEED
        self.rank, self.world_size, self.drop_last = 0, 1, False
        self.shuffle_enabled, self.shuffle_shard_mixing, self.shuffle_rounds = False, False, 3
        self._prefer_mmap, self._enforced = prefer_mmap, enforce_contiguous
        self._naming = (delimiter, extension)
        self._decoders = dict(decoders or {})
        self._override: tuple[int | None, bool, int] | None = None
        self._grouping: tuple[tuple[str, ...], bool] | None = None
        self._maps: list[Callable[[Any], Any]] = []
        self._stem_filters: list[list[str]] = []
        self._had: list[str] = []  # extensions that samples must also have
        self._epoch = 0
        self._shared = shared_number(0)
        folder = iTarDirectory(self.root, delimiter, extension)
        self._scan = folder._prepare(fold, idxext, parse_if_missing, serialize, verbose)
        self._locate(folder)
        self._known, self._flag = self._look()
        self._extensions = self._check_extensions(self._known if extensions is None
                                                  else extensions)
        self._open()

    # --- Opening ---

    def _locate(self, folder: iTarDirectory) -> None:
        self._shards = folder.get_fold(self.fold_name)
        self._index_path = folder.index_path(self.fold_name, self.idxext)

    def _look(self) -> tuple[list[str], bool]:
        """Returns the extensions of the index and whether it marks its samples as contiguous."""
        index = _tarn.open_dataset(self._index_path, shards=self._shards,
                                   scan=self._scan).index()
        return index.fields(), bool(index.info()["contiguous"])

    def _check_extensions(self, extensions: Iterable[str]) -> list[str]:
        if isinstance(extensions, str):
            raise TypeError("extensions must be a list of strings, not a string")
        names = [name.removeprefix(".") for name in extensions]
        unknown = sorted({name for name in names if name not in PSEUDO} - set(self._known))
        if unknown:
            raise ValueError(f"unknown extension {', '.join(map(repr, unknown))}; available: "
                             + ", ".join(self._known))
        if not set(names) - set(PSEUDO):
            raise ValueError("needs at least one extension that is in the files; found: "
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
        if len(real) > 1 and not self.is_contiguous:
            check_grouped(self._rows(), len(real))
        for stems in self._stem_filters:
            handle = self._with_stems(handle, stems)
        self._use(handle)
        self._decode = decoders

    def _rows(self) -> Any:
        fold = iTarFold(self.root, self.fold_name, *self._naming, parse_if_missing=self._scan,
                        serialize=False, idxext=self.idxext)
        for required in (self._had, self._real):
            fold.filter_extensions(required)
        return fold.state

    def _decoder(self, extension: str) -> Decoder:
        last = extension.rpartition(".")[2]
        given = self._decoders.get(extension, self._decoders.get(last))
        if given is None:
            return decoder_for(extension)
        return DECODERS[given] if isinstance(given, str) else given

    def _with_stems(self, handle: _tarn._Handle, stems: list[str]) -> _tarn._Handle:
        kept = handle.filter("keys", None, stems, 0, 0, True)
        if not len(kept):
            raise RuntimeError(f"none of the {len(stems)} stems is in the dataset")
        return kept

    def _use(self, handle: _tarn._Handle) -> None:
        reader = self._make_reader(handle)
        self._handle, self._reader = handle, reader

    # --- Order ---

    @property
    def is_contiguous(self) -> bool:
        """Whether the members of each sample are contiguous, or were sorted to be."""
        return self._flag or self._enforced

    def _buckets(self, handle: _tarn._Handle, mixing: bool) -> list[int]:
        counts: list[int] = memoryview(handle.shard_counts()).tolist()
        while counts and not counts[-1]:
            counts.pop()
        if not mixing:
            return [count for count in counts if count]
        if not self.is_contiguous:
            raise ValueError("shard_mixing needs contiguous samples; "
                             "enforce_contiguous=True sorts them")
        total = len(handle)
        size = max(1, round(total / (len(counts) * self.buckets_per_shard)))
        return [size] * (total // size) + [total % size] * (total % size > 0)

    def _ordered(self, handle: _tarn._Handle) -> _tarn._Handle:
        """Returns the samples in the current order, restricted to this rank."""
        uneven = "drop" if self.drop_last else "keep"
        shuffled = (None, self.shuffle_shard_mixing, self.shuffle_rounds)
        seed, mixing, rounds = self._override or shuffled
        if self._override or self.shuffle_enabled:
            return handle.order(
                kind="buckets", buckets=self._buckets(handle, mixing), rounds=rounds,
                seed=order_seed(self.internal_seed + self._epoch if seed is None else seed),
                rank=self.rank, world_size=self.world_size, uneven=uneven)
        return handle if self.world_size == 1 else handle.split(self.rank, self.world_size, uneven)

    def _make_reader(self, handle: _tarn._Handle, plain: bool = False) -> _tarn.Dataset:
        """Returns the object that reads samples and makes tuples of them; plain: without
        transforms and groupings."""
        names, views, maps = handle.fields(), None, tuple(self._maps)
        shown: Sequence[str] = self._extensions
        if self._grouping and not plain:
            shown = names = self._grouping[0]
            views = _tarn.views(handle, *self._grouping, self.grouping_seed % _WORD)
        first = _Tuple([_SHOWN.get(name, name) for name in shown])
        plans = tuple(self._plan(name) for name in names)
        return _tarn.Dataset(self._ordered(handle), names, plans, (None,) * len(names),
                             (first,) if plain else (first, *maps), None, views, self._epoch)

    def _plan(self, name: str) -> Any:
        return "decode" if name in PSEUDO else self._decoder(name)

    def _follow(self) -> _tarn.Dataset:
        """Returns the reader for the current epoch, which any of the processes may have set."""
        epoch = self._shared.value
        if epoch != self._epoch:
            self._epoch = epoch
            self._reader = self._make_reader(self._handle)
        return self._reader

    def _change(self, **settings: Any) -> Self:
        """Sets attributes and rebuilds the order. If this fails, nothing changes."""
        self._follow()
        before = {name: getattr(self, name) for name in settings}
        vars(self).update(settings)
        try:
            self._reader = self._make_reader(self._handle)
        except BaseException:
            vars(self).update(before)
            raise
        return self

    def set_shuffle(self, enabled: bool = True, *, shard_mixing: bool = False,
                    rounds: int = 3) -> Self:
        """Turns the random order on or off. Its seed is internal_seed + epoch. Shards come in file
        order, and the samples within each shard in random order. With shard_mixing, equal parts of
        the whole fold take the place of shards, buckets_per_shard for each shard.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["_stem", "cls"])
        >>> [stem for stem, _ in ds.set_shuffle(rounds=4)]
        ['owl', 'auk', 'kiwi', 'jay']
        """
        _check_rounds(rounds)
        return self._change(shuffle_enabled=bool(enabled), shuffle_rounds=int(rounds),
                            shuffle_shard_mixing=bool(shard_mixing))

    def set_distributed(self, rank: int, world_size: int, drop_last: bool = False) -> Self:
        """Selects the samples of one of several processes: every world_size-th sample, starting at
        `rank`. Without drop_last the first ranks may have one sample more."""
        rank, world_size = operator.index(rank), operator.index(world_size)
        if world_size < 1 or not 0 <= rank < world_size:
            raise ValueError(f"rank must be from 0 to world_size - 1 (found rank {rank}, "
                             f"world_size {world_size})")
        return self._change(rank=rank, world_size=world_size, drop_last=bool(drop_last))

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, here and in workers that have a copy of this dataset."""
        self._shared.value = checked_epoch(epoch)
        self._follow()

    @property
    def epoch(self) -> int:
        """The epoch of the current order and groups."""
        return int(self._shared.value)

    @contextlib.contextmanager
    def shufflecontext(self, seed: int | None = None, shard_mixing: bool = False,
                       rounds: int = 3) -> Iterator[Self]:
        """Uses a random order inside a `with` block. Afterwards the previous order is restored,
        one epoch later. If the seed is None, it is internal_seed + epoch.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["_idx", "cls"])
        >>> with ds.shufflecontext(rounds=4):
        ...     [number for number, _ in ds]
        [3, 0, 2, 1]
        >>> [number for number, _ in ds], ds.epoch
        ([0, 1, 2, 3], 1)
        """
        _check_rounds(rounds)
        before = self._override
        self._change(_override=(seed, bool(shard_mixing), rounds))
        try:
            yield self
        finally:
            self._change(_override=before)
            self.set_epoch(self.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """Returns the epoch, seeds and order settings, without rank and world size.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", internal_seed=7)
        >>> ds.set_epoch(3)
        >>> state = ds.state_dict()
        >>> state["epoch"], state["seed"]
        (3, 7)
        """
        return {"epoch": self.epoch, "seed": self.internal_seed,
                "grouping_seed": self.grouping_seed, "shuffle_enabled": self.shuffle_enabled,
                "shuffle_shard_mixing": self.shuffle_shard_mixing,
                "shuffle_rounds": self.shuffle_rounds,
                "buckets_per_shard": self.buckets_per_shard}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the settings found in a state; other keys are ignored."""
        epoch = checked_epoch(state.get("epoch", self.epoch))
        _check_rounds(state.get("shuffle_rounds", self.shuffle_rounds))
        settings = {name: state[name] for name in (
            "grouping_seed", "shuffle_enabled", "shuffle_shard_mixing", "shuffle_rounds")
            if name in state}
        settings["internal_seed"] = state.get("seed", self.internal_seed)
        settings["buckets_per_shard"] = max(1, state.get("buckets_per_shard",
                                                         self.buckets_per_shard))
        self._change(**settings)
        self.set_epoch(epoch)

    # --- Reading ---

    @property
    def extensions(self) -> list[str]:
        """The fields of a sample before any transform or grouping."""
        return list(self._extensions)

    def __len__(self) -> int:
        return len(self._follow())

    def __getitem__(self, index: int) -> Any:
        return self._follow()[operator.index(index)]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return self._follow().__getitems__(indices)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._follow())

    # --- Transforms ---

    def _count(self) -> int:
        return len(self._grouping[0] if self._grouping else self._extensions)

    def _add(self, make: Callable[[], Callable[[Any], Any]]) -> Self:
        if self._maps and isinstance(self._maps[-1], Map):
            raise RuntimeError("map must be the last transform; add other transforms before it")
        return self._change(_maps=[*self._maps, make()])

    def map(self, function: Callable[..., Any]) -> Self:
        """Applies a function to all fields; its result is the sample. This must be the last
        transform."""
        return self._add(lambda: Map(function, self._count()))

    def map_all(self, function: Callable[[Any], Any]) -> Self:
        """Applies one function to each field.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.map_all(str)[3]
        ('An owl.', '3')
        """
        return self._add(lambda: MapAll(function))

    def map_tuple(self, *functions: Callable[[Any], Any]) -> Self:
        """Applies a different function to each field.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.map_tuple(len, float)[3]
        (7, 3.0)
        """
        return self._add(lambda: MapTuple(functions, self._count()))

    def map_group(self, function: Callable[..., Any], indices: Sequence[int]) -> Self:
        """Applies a function to the fields at some positions; it must return as many values.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls", "_stem"])
        >>> ds.map_group(lambda txt, stem: (stem, len(txt)), [0, 2])[3]
        ('owl', 3, 7)
        """
        return self._add(lambda: MapGroup(function, indices, self._count()))

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

    def filter_extensions(self, required: Iterable[str] | None) -> Self:
        """Changes the extensions to these, which must exist. Not allowed after a transform or
        grouping.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", ["txt", "cls"])
        >>> ds.filter_extensions(["_idx", "cls"])[2]
        (2, 2)
        """
        if self._maps or self._grouping:
            raise RuntimeError("filter_extensions must come before transforms and groupings")
        names = list(required or ())
        if not names:
            return self
        names = self._check_extensions(names)
        gone = sorted(set(names) - set(PSEUDO) - set(self._real))
        if gone:
            raise RuntimeError(f"no sample has {', '.join(gone)}, which is not among the "
                               f"dataset's extensions: {', '.join(self._extensions)}")
        self._set_extensions(names)
        return self

    def filter_stems(self, stems: Sequence[str], verify: bool = True,
                     strict: bool = False) -> Self:
        """Keeps the samples with these stems. An empty list keeps all samples. Raises RuntimeError
        if none of the stems exists. verify and strict have no effect.

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
            wanted = [stem_of(name) for name in stems_of(stems)]
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
        """Returns the requested fields of the dataset."""
        if extensions is None:
            return self._real
        if isinstance(extensions, str):
            raise TypeError("extensions must be a list of strings, not a string")
        asked = [name.removeprefix(".").lower() for name in extensions]
        unknown = sorted(set(asked) - set(self._known))
        if unknown:
            raise ValueError(f"unknown extension {', '.join(map(repr, unknown))}; available: "
                             + ", ".join(self._known))
        return [name for name in dict.fromkeys(asked) if name in self._real]

    # --- Grouping ---

    def add_grouping(self, specs: Sequence[str], grouping_replace: bool = False,
                     grouping_seed: int | None = None) -> Self:
        """Chooses one of several views of each sample, a different one each epoch. For samples
        with f0.jpg, f0.cls, f1.jpg, f1.cls, `["{0}.jpg", "{0}.cls"]` takes f0 or f1, and
        `["{0}.jpg", "{1}.jpg"]` takes both in random order. If the seed is None, it is derived
        from internal_seed."""
        if self._maps:
            raise RuntimeError("add_grouping must come before transforms")
        if isinstance(specs, str):
            raise TypeError("specs must be a list of strings, not a string")
        if set(self._extensions) & set(PSEUDO):
            raise ValueError("groups cannot be combined with pseudo extensions")
        seed = self.grouping_seed if grouping_seed is None else operator.index(grouping_seed)
        return self._change(_grouping=(tuple(specs), bool(grouping_replace)), grouping_seed=seed)

    # --- Fold and shards ---

    @property
    def fold(self) -> iTarFold:
        """The rows of this dataset's samples; each access returns a new object."""
        fold = iTarFold(self.root, self.fold_name, *self._naming, parse_if_missing=self._scan,
                        serialize=False, idxext=self.idxext,
                        enforce_contiguous=self._enforced)
        for required in (self._had, self._real):
            fold.filter_extensions(required)
        for stems in self._stem_filters:
            fold.filter_stems(stems)
        return fold

    @property
    def retriever(self) -> iTarRetriever:
        """The bytes of the dataset's shards."""
        return iTarRetriever(self._shards, self._prefer_mmap)

    def browse(self, img_ext: str = "jpg", lab_ext: str = "cls",
               labeldict: Mapping[Any, Any] | None = None, page_size: int = 24, cols: int = 6,
               width: int = 128) -> BrowserWrapper:
        """Returns the dataset's images with their labels, in pages; see `BrowserWrapper`."""
        from .browser import BrowserWrapper

        return BrowserWrapper(self, img_ext, lab_ext, labeldict, page_size, cols, width)

    # --- Object protocol ---

    def __getstate__(self) -> dict[str, Any]:
        self._follow()
        state = {name: value for name, value in vars(self).items()
                 if name not in ("_handle", "_reader", "_decode", "_shards")}
        if not is_spawning():
            del state["_shared"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "_shared" not in state:
            self._shared = shared_number(self._epoch)
        self._locate(iTarDirectory(self.root, *self._naming))
        self._open()

    def __repr__(self) -> str:
        told = [f"{len(self)} samples", "extensions " + " ".join(self._extensions)]
        if self.shuffle_enabled:
            told.append(f"shuffled, seed {self.internal_seed} epoch {self.epoch}")
        if self.world_size > 1:
            told.append(f"rank {self.rank}/{self.world_size}")
        return f"<iTarDataset {shown(self.root)!r} {self.fold_name}: {', '.join(told)}>"


def _check_rounds(rounds: int) -> None:
    if operator.index(rounds) < 1:
        raise ValueError(f"rounds must be at least 1 (found {rounds})")
