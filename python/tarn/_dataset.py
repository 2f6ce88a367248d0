"""Datasets: samples 0 to n - 1 with named fields, independent of the storage. `_open` makes the first
one of a program; what chooses samples is in `_choosing`."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _tarn
from ._arguments import integer, names, whole, word
from ._choosing import Choosing
from ._maps import BatchMap, MapAll, MapFields, MapGroup, MixParts
from ._random import prepared
from ._ordering import UNEVEN, Kind, Uneven, order_arguments
from ._reading import Reading, stored_names
from ._recipe import Recipe, Step, run, same
from .errors import UsageError

if TYPE_CHECKING:
    from typing import Self

    from ._browse import Page, Sheet
    from ._loader import Loader
    from ._pad import Pad
    from ._schedule import Turn
    from ._workers import Workers

Grouping = tuple[tuple[str, ...], bool, int]

_VIEWS_SEED = 0x0BAD5EED
_SHARD_FIRST = (
    "an order after shard() mixes only the samples of this rank, which are the same in every epoch. "
    "To divide all samples among the ranks in a new order each epoch, use "
    "ds.shuffle(seed).shard(rank, world_size). If you do want a fixed part for each rank, select "
    "it first: ds.shard(rank, world_size)[:].shuffle(seed)")


class Dataset(Choosing):
    """Samples with named fields: the result of `tarn.open` and `tarn.mix`.

    A sample is a dict of its fields, with its key as "__key__". Slices, selections, filters,
    orders, shards, groups and maps each return another dataset over the same files, at almost no
    cost. They can be combined in any sequence, and each acts on the result of the one before. Only
    `set_epoch` and `load_state_dict` change a dataset. It can be indexed by position and by key,
    iterated, pickled, and passed to torch's DataLoader.

    >>> import tarn
    >>> ds = tarn.open(birds, fields=["txt", "cls"])
    >>> ds
    <tarn.Dataset 'birds:train': 4 samples, fields txt cls>
    >>> ds[0]
    {'__key__': 'auk', 'txt': 'An auk.', 'cls': 0}
    >>> ds["owl"]["cls"], len(ds), "owl" in ds, ds.fields
    (3, 4, True, ('txt', 'cls'))
    >>> [sample["__key__"] for sample in ds.shuffle(seed=7)]
    ['kiwi', 'auk', 'jay', 'owl']
    >>> ds.shuffle(seed=7)[:2].keys(), ds[:2].shuffle(seed=7).keys()
    (['kiwi', 'auk'], ['jay', 'auk'])

    A subclass can be made of a dataset. If it overrides `__getitem__`, iteration, DataLoader,
    `filter` and `mix` call it for each sample, after the functions given to `map`; `loader` is an
    error, because its threads read the files themselves.

    >>> class Lengths(tarn.Dataset):
    ...     def __getitem__(self, index):
    ...         return len(super().__getitem__(index)["txt"])
    >>> list(Lengths(ds))
    [7, 6, 7, 7]
    """

    _recipe: Recipe
    _reading: Reading
    _grouping: Grouping | None
    _moment: tuple[Step, ...]  # a state and an epoch set after the last step of the recipe

    # --- Construction ---

    def __new__(cls, dataset: Dataset, *args: Any, **kwargs: Any) -> Self:
        if not isinstance(dataset, Dataset):
            raise UsageError(f"{cls.__name__} is made of a dataset, not of "
                             f"{type(dataset).__name__}; tarn.open opens files")
        return cls._make(**dataset._contents())

    def __init__(self, dataset: Dataset) -> None:
        """Makes a subclass of an existing dataset; `tarn.open` opens files."""

    @classmethod
    def _make(cls, recipe: Recipe, handle: _tarn._Handle, reading: Reading,
              maps: tuple[Callable[[Any], Any], ...] = (), grouping: Grouping | None = None,
              parts: MixParts | None = None, moment: tuple[Step, ...] = ()) -> Self:
        names = handle.fields()
        views = None
        if parts is not None:
            fields = dict.fromkeys(name for part in parts.datasets for name in part.fields)
            names = tuple(fields) if parts.fields is None else parts.fields
        if grouping is not None:
            names = grouping[0]
            views = _tarn.views(handle, *grouping)
        stored = ([[name] for name in names] if parts is not None
                  else stored_names(handle, names))
        plans = tuple(map(reading.plan, names, stored))
        finish = tuple(map(reading.finish, names, stored, plans))
        self = super().__new__(cls, handle, names, plans, finish, maps, parts, views,
                           handle.info()["epoch"])
        self._recipe = recipe
        self._reading = reading
        self._grouping = grouping
        self._moment = moment
        return self

    def _contents(self) -> dict[str, Any]:
        return {"recipe": self._recipe, "handle": self._handle, "reading": self._reading,
                "maps": self._maps, "grouping": self._grouping, "parts": self._parts,
                "moment": self._moment}

    def _with(self, **changes: Any) -> Self:
        """Returns a copy of this dataset with some parts replaced."""
        made = self._make(**{**self._contents(), **changes})
        vars(made).update(self._attributes() or {})
        return made

    def _attributes(self) -> dict[str, Any] | None:
        """Returns the attributes of a subclass."""
        if type(self) is Dataset:
            return None
        return {name: value for name, value in vars(self).items()
                if name not in Dataset.__annotations__}

    def _overrides_getitem(self) -> bool:
        return type(self).__getitem__ is not Dataset.__getitem__

    def _recipe_now(self) -> Recipe:
        return self._recipe.then(*self._moment) if self._moment else self._recipe

    def _step(self, method: str, *arguments: Any) -> Self:
        """Returns the dataset with one more selection or order."""
        step = (method, arguments)
        return self._with(handle=run(self._handle, step), recipe=self._recipe_now().then(step),
                          moment=())

    def _at_epoch(self, epoch: int) -> Self:
        """Returns a copy in another epoch."""
        return self._with(handle=self._handle.at_epoch(epoch), moment=self._moment_at(epoch))

    def _moment_at(self, epoch: int) -> tuple[Step, ...]:
        """Keeps a state, because the sources of a mix with other weights continue from it."""
        states = tuple(step for step in self._moment if step[0] == "resume")
        return (*states, ("at_epoch", (epoch,)))

    # --- Properties ---

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return self._names

    @property
    def kind(self) -> str:
        """The kind of storage: "fold", "gnz", "iac" or "mix"."""
        return str(self._handle.info()["kind"])

    @property
    def epoch(self) -> int:
        """The epoch of the order and the groups."""
        return self._epoch

    @property
    def info(self) -> dict[str, Any]:
        """Counts: samples, samples in the file, shards; epoch, seed and rank. "left_out" counts the
        samples that are not in the dataset because they lack a listed field, and "lacking" has,
        for each such field, how many samples of the file lack it. "dropped" counts those left out
        by drop_ambiguous.

        >>> ds.info["samples"], ds.info["in_file"], ds.info["shards"]
        (4, 4, 1)
        >>> ds.info["left_out"], ds.info["lacking"]
        (0, {})
        """
        return self._handle.info()

    def keys(self, indices: Sequence[int] | None = None) -> list[str]:
        """Returns the keys of all samples, or of those at the positions `indices`.

        >>> ds.keys()
        ['auk', 'jay', 'kiwi', 'owl']
        """
        return self._handle.keys(range(len(self)) if indices is None else indices)

    def shard_of(self, index: int) -> tuple[int, str]:
        """Returns the number and the path of the file that holds the sample at position
        `index`."""
        return self._handle.shard(range(len(self))[operator.index(index)])

    def sizes(self, field: str) -> Any:
        """Returns the size of a field in bytes: an array with one number for each sample."""
        return self._handle.sizes(field)

    def integers(self, field: str) -> Any:
        """Returns the integers of a text field such as cls: an array with one number for each
        sample. Does not read samples one by one.

        >>> ds.integers("cls").tolist()
        [0, 1, 2, 3]
        """
        return self._handle.integers(field)

    def field_sets(self) -> list[tuple[tuple[str, ...], int, int]]:
        """Returns which fields samples have, as (fields, number of samples, how many of them have
        a field twice)."""
        return self._handle.field_sets()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._handle.has(key)

    def lookup(self, keys: Iterable[str]) -> list[int | None]:
        """Returns the positions of the samples with these keys, and None for each missing one.

        >>> ds.lookup(["owl", "emu"]), ds.shuffle(seed=7).lookup(["owl"])
        ([3, None], [3])
        """
        return self._handle.lookup(names("keys", keys))

    # --- Functions over samples ---

    def map(self, function: Callable[[Any], Any] | None = None,
            **fields: Callable[[Any], Any]) -> Self:
        """Applies a function to each sample, and separate functions to fields.

        A function with a parameter named rng gets a `numpy.random.Generator`. In a loader it depends
        only on the seed, the epoch and the position in the epoch; elsewhere it is new each time.

        >>> ds.map(lambda sample: sample["cls"] + 1)[0]
        1
        >>> ds.map(txt=str.upper)[0]["txt"]
        'AN AUK.'
        """
        for name in fields:
            if name not in self.fields and not (self._maps or self._parts):  # these may add it
                raise UsageError(f"map: no field {name}; available: " + ", ".join(self.fields))
        more: list[Callable[[Any], Any]] = []
        if fields:
            more.append(MapFields({name: prepared(each) for name, each in fields.items()}))
        if function is not None:
            more.append(prepared(function))
        return self._mapped("map", *more)

    def _mapped(self, method: str, *functions: Callable[[Any], Any]) -> Self:
        if self._maps and isinstance(self._maps[-1], BatchMap) and method != "batch_map":
            raise UsageError(f"{method}: functions of samples come before those of batches (batch_map)")
        return self._with(maps=(*self._maps, *functions))

    def map_all(self, function: Callable[[Any], Any]) -> Self:
        """Applies the function to every field of every sample.

        >>> ds.map_all(str)[1]
        {'__key__': 'jay', 'txt': 'A jay.', 'cls': '1'}
        """
        return self._mapped("map_all", MapAll(prepared(function)))

    def map_tuple(self, *functions: Callable[[Any], Any]) -> Self:
        """Applies one of `functions` to each field, in the order of `fields`.

        >>> ds.map_tuple(len, float)[1]
        {'__key__': 'jay', 'txt': 6, 'cls': 1.0}
        """
        if len(functions) != len(self.fields):
            raise UsageError(f"map_tuple: {len(functions)} functions for {len(self.fields)} fields")
        prepare = map(prepared, functions)
        return self._mapped("map_tuple", MapFields(dict(zip(self.fields, prepare))))

    def map_group(self, function: Callable[..., Sequence[Any]], fields: Sequence[str]) -> Self:
        """Applies a function to several fields together; it must return as many values.

        >>> ds.map_group(lambda txt, cls: (txt * cls, cls * 2), ["txt", "cls"])[1]
        {'__key__': 'jay', 'txt': 'A jay.', 'cls': 2}
        """
        return self._mapped("map_group", MapGroup(prepared(function), names("fields", fields)))

    def batch_map(self, function: Callable[[Any], Any]) -> Self:
        """Applies a function to each batch of a loader. It gets the batch as the loader would return
        it and returns any batch, also with another number of samples. Such a dataset has no single
        samples.

        >>> counted = ds.batch_map(lambda batch: {"n": len(batch["cls"]), "sum": batch["cls"].sum()})
        >>> [batch["n"] for batch in counted.loader(3)]
        [3, 1]
        """
        return self._mapped("batch_map", BatchMap(prepared(function)))

    def group(self, *templates: str, replace: bool = False, seed: int = 0) -> Self:
        """Chooses one of several views of each sample, a different one each epoch.

        For samples with the fields f0.jpg, f0.cls, f1.jpg, f1.cls, `ds.group("{0}.jpg",
        "{0}.cls")` takes f0 or f1, and `ds.group("{0}.jpg", "{1}.jpg")` takes both in random
        order. The choice is computed from the seed, the epoch and the sample.

        templates: the fields of the new samples; {0}, {1}, ... stand for views of the sample.
        replace: whether {0} and {1} may be the same view.
        """
        if self._grouping is not None or self._parts is not None:
            raise UsageError("group: the fields of this dataset are already groups, or come from the "
                             "sources of a mix; group the dataset that has the fields")
        number = (integer("seed", seed) ^ _VIEWS_SEED) & (2**64 - 1)
        chosen = (tuple(names("templates", templates)), bool(replace), number)
        return self._with(grouping=chosen)

    # --- Order ---

    def order(self, kind: Kind = "shuffle", *, seed: int = 0, by: str | None = None,
              block: int | None = None, window: int | None = None, chunk: int | None = None,
              pool: int | None = None, draws: int | None = None, rounds: int | None = None,
              mix: int | None = None, lengths: Sequence[int] | None = None,
              classes: Sequence[int] | None = None, weights: Sequence[float] | None = None,
              buckets: Sequence[int] | None = None) -> Self:
        """Returns the samples in another order, which changes with the epoch.

        kind: "shuffle", "blocks", "lengths", "balanced", "weighted", "weighted-once", "identity",
            "feistel" or "buckets"; docs/guides/order.md says when to use which.
        seed: another seed gives another order, and so does each epoch.
        by: the field with the lengths (its sizes), classes or weights. They can also be given as
            lists: lengths=, classes=, weights=.
        block, window: for "blocks": samples in a block, and blocks that are mixed together.
        chunk, pool: for "lengths": samples that stay together, and chunks that are sorted together.
        draws: for "weighted", "weighted-once" and "balanced": samples in an epoch.
        rounds, mix, buckets: for "feistel" and "buckets", the orders of glzn.

        An order after `shard` mixes only the samples of this rank and issues a `UserWarning`:
        shuffle first, then shard.

        >>> ds.order("lengths", by="txt", chunk=2).keys()
        ['jay', 'kiwi', 'auk', 'owl']
        """
        if not isinstance(kind, str):
            raise UsageError(f'order: kind must be a name such as "shuffle", not {kind!r}')
        if kind != "identity":
            self._warn_of_shard()
        options = {"kind": kind, "seed": integer("seed", seed), "block": block, "window": window,
                   "chunk": chunk, "pool": pool, "draws": draws, "rounds": rounds, "mix": mix,
                   "lengths": lengths, "classes": classes, "weights": weights,
                   "buckets": buckets}
        return self._step("order", order_arguments(self._handle, by, options))

    def _warn_of_shard(self) -> None:
        """Warns about a line of the caller that orders the samples of one rank. Python shows the
        warning once for each such line."""
        if self._handle.info()["world_size"] > 1:
            warnings.warn(_SHARD_FIRST, stacklevel=3)

    def shuffle(self, seed: int = 0) -> Self:
        """Returns all samples in a random order that depends on the seed and the epoch; needs no
        memory per sample. Shuffle first, then shard: see `order`.

        >>> ds.shuffle(seed=7).keys() == ds.shuffle(seed=7).keys() != ds.keys()
        True
        """
        self._warn_of_shard()
        return self._shuffled(seed)

    def _shuffled(self, seed: int) -> Self:
        options = {"kind": "shuffle", "seed": integer("seed", seed)}
        return self._step("order", order_arguments(self._handle, None, options))

    def shard(self, rank: int, world_size: int, *, uneven: Uneven = "keep") -> Self:
        """Returns the samples of one of several processes: every world_size-th sample, starting at
        `rank`.

        `uneven` says what happens if the samples cannot be divided evenly: "keep" gives the first
        ranks one more, "drop" leaves out the last few, "pad" repeats the first few.

        >>> ds.shard(0, 2).keys(), ds.shard(1, 2).keys()
        (['auk', 'kiwi'], ['jay', 'owl'])
        """
        world_size = whole("world_size", world_size, 1)
        rank = whole("rank", rank, 0, world_size - 1)
        return self._step("split", rank, world_size, word("uneven", uneven, UNEVEN))

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the order and the groups."""
        epoch = whole("epoch", epoch)
        self._handle = self._handle.at_epoch(epoch)
        self._moment = self._moment_at(epoch)
        self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the last iteration, as a dict of plain values.

        >>> shuffled = ds.shuffle(seed=7)
        >>> first = next(iter(shuffled))["__key__"]
        >>> state = shuffled.state_dict()
        >>> again = ds.shuffle(seed=7)
        >>> again.load_state_dict(state)
        >>> [sample["__key__"] for sample in again] == shuffled.keys()[1:]
        True
        """
        return {"version": 2, "dataset": self._handle.state(self._position)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a state: the dataset is then the rest of that epoch, until `set_epoch`. The
        number of ranks may differ from the run that made the state. A state of other data,
        selections or orders raises a `StaleError` that gives the reason."""
        if (not isinstance(state, Mapping) or state.get("version") != 2
                or not isinstance(state.get("dataset"), str)):
            raise UsageError("load_state_dict: not a state of a tarn dataset")
        self._handle = self._handle.resume(state["dataset"])
        self._moment = (("resume", (state["dataset"],)),)
        self._epoch = self._handle.info()["epoch"]

    # --- Batches ---

    def batch(self, indices: Sequence[int], fields: Sequence[str] | None = None,
              out: _tarn.Batch | None = None) -> _tarn.Batch:
        """Reads the bytes of many samples into one buffer, in one call without the GIL.

        indices: the positions of the samples. fields: the fields to read; None reads all. out: a
        batch read before, whose memory is reused.

        >>> batch = ds.batch([2, 0], ["txt"])
        >>> bytes(batch.data), batch.offsets.tolist(), bytes(batch[1]["txt"])
        (b'A kiwi.An auk.', [0, 7, 14], b'An auk.')
        """
        wanted = self._handle.fields() if fields is None else tuple(names("fields", fields))
        return self._handle.read_batch(indices, wanted, out)

    def loader(self, batch_size: int, *, shuffle: bool = False, seed: int = 0,
               threads: int | None = None, workers: Workers = 0, timeout: float | None = None,
               collate: Callable[[list[Any]], Any] | None = None, prefetch: int = 0, epochs: int = 0,
               rank: int | None = None, world_size: int | None = None, uneven: Uneven | None = None,
               drop_last: bool = False, equal_batches: bool | None = None,
               on_error: Literal["raise", "skip", "replace"] = "raise",
               max_errors: int | None = None, keys: bool = True, integers: Sequence[str] = (),
               array_type: Literal["numpy", "torch"] | None = None,
               pin_memory: bool | None = None, resize: int | Sequence[int] | None = None,
               fit: Literal["stretch", "center", "centre", "random", "exact"] | None = None,
               shorter: int | None = None, scale: tuple[float, float] | None = None,
               ratio: tuple[float, float] | None = None, flip: float | None = None,
               channels: Literal[1, 3, 4] | None = None,
               dtype: Literal["uint8", "float32", "float16"] | None = None,
               layout: Literal["HWC", "CHW"] | None = None,
               mean: Sequence[float] | None = None, std: Sequence[float] | None = None,
               reduce: float | None = None, masks: Sequence[str] = (),
               pad: Mapping[str, float | Pad] | None = None,
               ragged: Sequence[str] = ()) -> Loader:
        """Returns batches of samples, which native threads read and decode in advance.

        batch_size: samples in a batch. Batch k of a rank always has the same positions in the
            epoch.
        shuffle, seed: the same as calling `self.shuffle(seed)` before. Image augmentation uses the
            same seed.
        threads: number of threads; None uses one per core, 0 does the work in the calling thread.
        workers: where Python functions run (those of map, batch_map, collate and decoders): 0 in
            the caller's thread, 4 in four processes, "processes" or "threads" with one per core,
            ("threads", 4) in four threads. The batches are the same. docs/guides/transforms.md says
            which to choose.
        timeout: seconds that a function may take for a sample, in processes. After that its process
            is ended, and the sample cannot be used. With workers=0 it has no effect.
        collate: a function of the list of samples, which returns the batch.
        prefetch: batches prepared in advance; 0 chooses enough to keep the threads and workers busy.
        epochs: the total number of epochs; 0 means no limit.
        rank, world_size, uneven: the same as calling `self.shard(rank, world_size, uneven=uneven)`
            before. Without rank and world_size, and if the dataset has no shard, they are those of
            the process group: of torch.distributed, or RANK and WORLD_SIZE in the environment.
            world_size=1 returns all samples on each rank.
        drop_last: only full batches, the same number on every rank. equal_batches: the same number of
            batches on every rank; batch sizes differ by at most one. None does so if the loader
            divides the samples among ranks, and not if `shard` did.
        on_error: what happens to a sample that cannot be read or decoded, or for which a function
            given to `map` raises or returns None. "raise" raises the error, "skip" makes the batch
            smaller, and "replace" uses the next usable sample of the batch instead. More than
            max_errors such samples raise an error. `Loader.skipped` lists them.
        keys: whether batches have "__key__". integers: text fields that are integers whatever their
            name.
        array_type: "numpy" or "torch", as for `tarn.open`. pin_memory: put tensors in pinned memory;
            None does so if there is CUDA.
        resize: make images arrays with this side, or (height, width). With it: fit "stretch",
            "center" (with shorter), "random" (with scale, ratio) or "exact"; flip: the probability
            of a left-right flip; channels; dtype; layout; mean and std for floats; reduce: how far a
            JPEG may be reduced while it is decoded.
        masks: fields with labels that follow the image of their sample: the same crop, resize and
            flip, with the nearest label. Label maps (seg8, seg16, seg24, seg32) always do.

        pad: fields whose arrays have different shapes, each with the number that fills them up to
            the longest of the batch, or with a `tarn.Pad`. ragged: fields whose arrays are joined
            along their first axis; their values in a batch are a `tarn.Ragged`. Both are also for
            the results of functions.

        Functions get samples that the native threads have decoded, as `ds[i]` returns them.

        >>> [batch["cls"].tolist() for batch in ds.loader(batch_size=2, threads=2)]
        [[0, 1], [2, 3]]
        >>> [batch["txt"] for batch in ds.map(txt=str.upper).loader(2)][1]
        ['A KIWI.', 'AN OWL.']
        """
        from ._images import image_steps
        from ._loader import loader_of

        if self._overrides_getitem():
            raise UsageError(f"loader: {type(self).__name__} overrides __getitem__, but the "
                             "loader's threads read the files themselves; pass the function to "
                             "map(), or use torch's DataLoader")
        image = image_steps(resize, fit=fit, shorter=shorter, scale=scale, ratio=ratio, flip=flip,
                            channels=channels, dtype=dtype, layout=layout, mean=mean, std=std,
                            reduce=reduce)
        if shuffle:
            self._warn_of_shard()
        return loader_of(self._shuffled(seed) if shuffle else self, batch_size, seed=seed,
                         threads=threads, workers=workers, timeout=timeout, collate=collate,
                         prefetch=prefetch, epochs=epochs, rank=rank,
                         world_size=world_size, uneven=uneven, drop_last=drop_last,
                         equal_batches=equal_batches, on_error=on_error, max_errors=max_errors,
                         keys=keys, integers=integers, array_type=array_type,
                         pin_memory=pin_memory, pad=pad, ragged=ragged, image=image,
                         masks=masks)

    def browse(self, *, serve: bool = True, count: int = 120,
               problems: Iterable[Any] | None = None) -> Page | Sheet:
        """Shows the dataset as a page: a grid of samples, all fields of a sample, search, histograms,
        filters, and a selection that can be exported for `filter`. See docs/guides/browse.md.

        serve: start a server on this machine, whose page a notebook shows in a frame. The result has
            `url` and `close()`. False returns a contact sheet instead, the HTML of the first samples,
            which needs no server: `ds.browse(serve=False).save("page.html")`.
        count: samples in a contact sheet.
        problems: samples to mark: keys, (key, reason) pairs, or `Loader.skipped()`.

        The page shows fields as they are stored, without functions given to `map`.

        >>> with ds.browse() as page:
        ...     page.url.startswith("http://127.0.0.1:")
        True
        >>> ds.browse(serve=False).count("<figure>")
        4
        """
        from ._browse import browse

        return browse(self, bool(serve), whole("count", count, 1, 10000), problems)

    # --- Batches of a run ---

    def when(self, key: str, batch_size: int, *, epochs: int = 1, rank: int | None = None,
             world_size: int | None = None, uneven: Uneven | None = None, drop_last: bool = False,
             equal_batches: bool | None = None) -> list[Turn]:
        """Returns when a loader with these arguments delivers the sample with this key: a list of
        `Turn(epoch, step, rank, place, position)`, for all ranks. It has several turns per epoch if
        the order repeats samples, and none if the epoch omits this one.

        epochs: how many epochs to search, starting with that of the dataset. The other arguments
        are those of `loader`; rank does not matter, because all ranks are searched. Positions are
        computed, without going through the epoch, and counted from 0.

        >>> ds.shuffle(seed=7).when("jay", 2)
        [Turn(epoch=0, step=1, rank=0, place=0, position=2)]
        >>> [turn.step for turn in ds.shuffle(seed=7).when("jay", 1, world_size=2, epochs=3)]
        [1, 1, 1]
        """
        from ._schedule import Turn, divided

        if rank is None and world_size is not None:
            rank = 0
        ranks, equal = divided(self, rank, world_size, uneven, equal_batches)
        found = ranks._handle.when(names("key", [key])[0],
                                   whole("batch_size", batch_size, 1, 2**24), equal,
                                   bool(drop_last), whole("epochs", epochs))
        return [Turn(*numbers) for numbers in found]

    def at(self, step: int, batch_size: int, *, rank: int | None = None,
           world_size: int | None = None, uneven: Uneven | None = None, drop_last: bool = False,
           equal_batches: bool | None = None) -> Self:
        """Returns the samples of batch number `step` of a loader with these arguments, as a dataset.

        Steps are counted from 0, from the beginning of the dataset's epoch, and continue in the
        next epochs. The arguments are those of `loader`.

        >>> ds.shuffle(seed=7).at(1, 2).keys()
        ['jay', 'owl']
        >>> [batch["__key__"] for batch in ds.shuffle(seed=7).loader(2)][1]
        ['jay', 'owl']
        """
        from ._schedule import divided

        ranks, equal = divided(self, rank, world_size, uneven, equal_batches)
        made: Self = ranks._step("step", whole("step", step, 0, 2**64 - 1),
                                 whole("batch_size", batch_size, 1, 2**24), equal, bool(drop_last))
        return made

    # --- Object protocol ---

    def _reduced(self) -> tuple[Any, ...]:
        return (self._recipe, self._reading, self._maps, self._grouping, self._parts, self._moment)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), *self._reduced()), self._attributes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return same(self._reduced(), other._reduced())

    def __hash__(self) -> int:
        return hash((self._recipe, self._reading, self._epoch))

    def __repr__(self) -> str:
        parts = [f"{len(self)} sample" + "s" * (len(self) != 1)]
        shown = self.fields
        more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
        parts.append("fields " + " ".join(shown[:8]) + more)
        if self._reading.decode is not True:
            parts.append(f"decode={self._reading.decode!r}")
        last = next((step for step in reversed(self._recipe.steps) if step[0] == "order"), None)
        if last is not None:
            options = last[1][0]
            parts.append(f"{options['kind']} seed {options['seed']} epoch {self._epoch}")
        info = self._handle.info()
        if info["world_size"] > 1:
            parts.append(f"rank {info['rank']}/{info['world_size']}")
        if self._maps:
            parts.append(f"{len(self._maps)} map" + "s" * (len(self._maps) != 1))
        return f"<tarn.Dataset {self._recipe.name()}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from ._html import dataset_html

        return dataset_html(self)


def _reopen(cls: type[Dataset], recipe: Recipe, reading: Reading,
            maps: tuple[Callable[[Any], Any], ...], grouping: Grouping | None,
            parts: MixParts | None, moment: tuple[Step, ...]) -> Dataset:
    handle = recipe.open()
    for step in moment:
        handle = run(handle, step)
    return cls._make(recipe, handle, reading, maps, grouping, parts, moment)
