"""Datasets: samples 0 to n - 1 with named fields, whatever they lie in."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _tarn
from .arguments import integer, names, real, reals, whole, word
from .errors import StaleError, UsageError
from .ordering import SHARES, arrays_of, checked
from .reading import Decoder, Reading
from .recipe import MixRecipe, Recipe, same

if TYPE_CHECKING:
    from typing import Self

    from .loader import Loader

__all__ = ["Dataset", "mix", "open"]

Sample = dict[str, Any]
PathLike = Union[str, "os.PathLike[str]"]

_VIEWS_SEED = 0x0BAD5EED


# --- Functions that samples go through ------------------------------------------------------
# Objects of these classes and not closures, so that a dataset with a map can be pickled.


class _Map:
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = object.__hash__


class _MapFields(_Map):
    def __init__(self, functions: Mapping[str, Callable[[Any], Any]]) -> None:
        self.functions = dict(functions)

    def __call__(self, sample: Sample) -> Sample:
        for field, function in self.functions.items():
            if field in sample:
                sample[field] = function(sample[field])
        return sample


class _MapAll(_Map):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, sample: Sample) -> Sample:
        for field in sample:
            if field != "__key__":
                sample[field] = self.function(sample[field])
        return sample


class _MapGroup(_Map):
    def __init__(self, function: Callable[..., Sequence[Any]], fields: Sequence[str]) -> None:
        self.function = function
        self.fields = tuple(fields)

    def __call__(self, sample: Sample) -> Sample:
        values = tuple(self.function(*(sample[field] for field in self.fields)))
        if len(values) != len(self.fields):
            raise UsageError(f"map_group: {len(self.fields)} fields went in and {len(values)} "
                             "values came out; as many must come out")
        sample.update(zip(self.fields, values))
        return sample


# --- Dataset ---------------------------------------------------------------------------------


class Dataset(_tarn.Dataset):
    """Samples with named fields: what `tarn.open` and `tarn.mix` give.

    A sample is a dict of its fields, with its key as "__key__". A dataset never changes (but for
    `set_epoch` and `load_state_dict`): filters, orders and maps make another one over the same
    files, which costs next to nothing. It can be indexed by position and by key, sliced, iterated,
    pickled, and given to torch's DataLoader.

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
    """

    _recipe: Recipe
    _reading: Reading
    _ordering: dict[str, Any] | None
    _grouping: tuple[tuple[str, ...], bool, int] | None
    _chosen: _tarn._Indices | None  # all samples chosen by position; _order has what is left
    _start: int  # how many of them a state that was loaded left out

    # --- Making ---

    @classmethod
    def _make(cls, recipe: Recipe, handle: _tarn._Handle, reading: Reading,
              maps: tuple[Callable[[Any], Any], ...] = (),
              ordering: dict[str, Any] | _tarn._Indices | None = None,
              grouping: tuple[tuple[str, ...], bool, int] | None = None,
              epoch: int = 0) -> Self:
        names = handle.fields()
        views = None
        if grouping is not None:
            names = grouping[0]
            views = _tarn.views(handle, *grouping)
        plans = tuple(reading.plan(name) for name in names)
        finish = tuple(reading.finish(name, plan) for name, plan in zip(names, plans))
        order: _tarn.Order | _tarn._Indices | None
        if isinstance(ordering, dict):
            order = _tarn.Order(len(handle), epoch=epoch, **arrays_of(handle, ordering))
        else:
            order = ordering
        self = cls.__new__(cls, handle, names, plans, finish, maps, order, views, epoch)
        self._recipe = recipe
        self._reading = reading
        self._ordering = ordering if isinstance(ordering, dict) else None
        self._grouping = grouping
        self._chosen = ordering if isinstance(ordering, _tarn._Indices) else None
        self._start = 0
        return self

    def _with(self, **changes: Any) -> Self:
        """A dataset like this one but for some parts."""
        parts: dict[str, Any] = {
            "recipe": self._recipe, "handle": self._handle, "reading": self._reading,
            "maps": self._maps, "grouping": self._grouping, "epoch": self._epoch,
            "ordering": self._chosen if self._ordering is None else self._ordering,
        }
        parts.update(changes)
        made = self._make(**parts)
        state = None if "ordering" in changes else self._state_if_resumed()
        if state is not None:
            made.load_state_dict(state)
        return made

    # --- What it is ---

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of its samples."""
        return self._names

    @property
    def kind(self) -> str:
        """What it lies in: "fold", "gnz", "iac" or "mix"."""
        return str(self._handle.info()["kind"])

    @property
    def epoch(self) -> int:
        """The epoch its order and its groups are of."""
        return self._epoch

    @property
    def info(self) -> dict[str, Any]:
        """Counts: samples, samples in the file, shards, samples dropped at opening.

        >>> ds.info["samples"], ds.info["in_file"], ds.info["shards"]
        (4, 4, 1)
        """
        return self._handle.info()

    def keys(self, indices: Sequence[int] | None = None) -> list[str]:
        """The keys of all samples, or of those at some positions.

        >>> ds.keys()
        ['auk', 'jay', 'kiwi', 'owl']
        """
        return self._handle.keys(self._numbers(range(len(self)) if indices is None else indices))

    def shard_of(self, index: int) -> tuple[int, str]:
        """The number and the path of the file that a sample lies in."""
        return self._handle.shard(memoryview(self._numbers([index]))[0])

    def sizes(self, field: str) -> Any:
        """How many bytes a field has, for all samples: an array, in the order of the file."""
        return self._handle.sizes(field)

    def integers(self, field: str) -> Any:
        """The integers of a field of text such as cls, for all samples: an array, in the order of
        the file. Without reading samples one by one.

        >>> ds.integers("cls").tolist()
        [0, 1, 2, 3]
        """
        return self._handle.integers(field)

    def field_sets(self) -> list[tuple[tuple[str, ...], int, int]]:
        """Which fields samples have, as (fields, samples, of which have one twice)."""
        return self._handle.field_sets()

    def __contains__(self, key: object) -> bool:
        number = self._handle.lookup([key])[0] if isinstance(key, str) else None
        if number is None or not isinstance(self._order, _tarn._Indices):
            return number is not None
        return number in memoryview(self._order)

    def lookup(self, keys: Iterable[str]) -> list[int | None]:
        """Positions of the samples with these keys, None for each that is not there.

        >>> ds.lookup(["owl", "emu"])
        [3, None]
        """
        if self._order is not None:
            raise UsageError("lookup: positions are those of the file; look keys up before the "
                             "dataset is given an order")
        return self._handle.lookup(names("keys", keys))

    # --- Choosing samples ---

    def _subscript(self, index: Any) -> Any:
        """What the extension does not do itself: slices, lists and arrays of indices."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1 and self._order is None:
                return self._filtered("keep_ranges", [(start, max(start, stop))])
            return self.select(range(start, stop, step))
        if getattr(index, "ndim", 1) == 0:
            return self[operator.index(index)]
        if isinstance(index, (bytes, bytearray)) or not isinstance(index, Iterable):
            raise TypeError("a position, a key, a slice or a list of positions is expected, "
                            f"not {index!r}")
        mask = _mask(index)
        if mask is None:
            return self.select(index)  # type: ignore[arg-type]
        if len(mask) != len(self):
            raise IndexError(f"a mask of {len(mask)} for {len(self)} samples")
        return self.select([i for i, wanted in enumerate(mask) if wanted])

    def select(self, indices: Sequence[int]) -> Self:
        """The samples at these positions, in this order; one may come several times.

        `ds[[3, 1]]`, `ds[10:20]` and `ds[array]` are the same.

        >>> ds.select([3, 1]).keys()
        ['owl', 'jay']
        >>> ds[1:3].keys()
        ['jay', 'kiwi']
        """
        return self._with(ordering=self._numbers(indices))

    def _filtered(self, method: str, *arguments: Any) -> Self:
        if isinstance(self._order, _tarn._Indices):
            raise UsageError("filter before choosing samples by their positions")
        if self._state_if_resumed() is not None:
            raise UsageError("filter before load_state_dict: the state is of the samples as they are")
        recipe, handle, _ = self._recipe.then(self._handle, (method, arguments))
        return self._with(recipe=recipe, handle=handle)

    def filter(self, predicate: Callable[[Sample], Any] | None = None, *,
               keys: Iterable[str] | None = None, json: PathLike | None = None,
               ranges: Iterable[tuple[int, int]] | None = None,
               having: Iterable[str] | None = None, lacking: Iterable[str] | None = None,
               size: Mapping[str, tuple[int, int | None]] | None = None,
               column: Mapping[str, Iterable[Any]] | None = None,
               between: Mapping[str, tuple[float, float]] | None = None,
               missing: str = "error") -> Self:
        """The samples that fit all that is asked, in the order of the file.

        keys, json: those with these keys, or with the names in a JSON list; one that is not there
            is an error, unless missing="ignore".
        ranges: those with these numbers, (first, end) each, before all else.
        having, lacking: those with all of some fields; those with none of some.
        size: {field: (least, most)} bytes; most may be None.
        column, between: records of a pack with one of some values, or a number in a range.
        predicate: a function of the sample, asked last, for each sample that is left.

        >>> ds.filter(keys=["kiwi", "owl"]).keys()
        ['kiwi', 'owl']
        >>> ds.filter(lambda sample: sample["cls"] > 1, size={"txt": (7, 7)}).keys()
        ['kiwi', 'owl']
        """
        if missing not in ("error", "ignore"):
            raise UsageError(f'missing is "error" or "ignore", not {missing!r}')
        ignore = missing == "ignore"
        out = self
        if ranges is not None:
            out = out._filtered("keep_ranges", [
                (whole("ranges", first), whole("ranges", end)) for first, end in _pairs("ranges", ranges)])
        if keys is not None:
            out = out._filtered("keep_keys", names("keys", keys), ignore)
        if json is not None:
            out = out._filtered("keep_json", os.path.abspath(os.fspath(json)), ignore)
        if having is not None:
            out = out._filtered("keep_having", names("having", having))
        for field in names("lacking", lacking or ()):
            out = out._filtered("keep_lacking", field)
        for field, (least, most) in _by_name("size", size):
            out = out._filtered("keep_size", field, whole("size", least),
                                2**64 - 1 if most is None else whole("size", most))
        if column is not None and not isinstance(column, Mapping):
            raise UsageError(f"column is a dict with values for each name, not {column!r}")
        for name, values in (column or {}).items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                values = [values]
            out = out._filtered("keep_column", name, [str(value) for value in values])
        for name, (low, high) in _by_name("between", between):
            out = out._filtered("keep_between", name, real("between", low), real("between", high))
        return out if predicate is None else out._keep_if(predicate)

    def _keep_if(self, predicate: Callable[[Sample], Any]) -> Self:
        from array import array

        plain = self._with(ordering=None)
        kept = array("Q", (i for i, sample in enumerate(plain) if predicate(sample)))
        return self._filtered("keep_samples", _tarn.indices(kept))

    # --- Functions over samples ---

    def map(self, function: Callable[[Any], Any] | None = None,
            **fields: Callable[[Any], Any]) -> Self:
        """Each sample goes through a function, and fields through functions of their own.

        >>> ds.map(lambda sample: sample["cls"] + 1)[0]
        1
        >>> ds.map(txt=str.upper)[0]["txt"]
        'AN AUK.'
        """
        for name in fields:
            if name not in self.fields and not self._maps:  # which may have made it
                raise UsageError(f"map: there is no field {name}; there are " + ", ".join(self.fields))
        more: list[Callable[[Any], Any]] = [_MapFields(fields)] if fields else []
        if function is not None:
            more.append(function)
        return self._with(maps=(*self._maps, *more))

    def map_all(self, function: Callable[[Any], Any]) -> Self:
        """Every field of every sample goes through the function.

        >>> ds.map_all(str)[1]
        {'__key__': 'jay', 'txt': 'A jay.', 'cls': '1'}
        """
        return self._with(maps=(*self._maps, _MapAll(function)))

    def map_tuple(self, *functions: Callable[[Any], Any]) -> Self:
        """One function for each field, in the order of `fields`.

        >>> ds.map_tuple(len, float)[1]
        {'__key__': 'jay', 'txt': 6, 'cls': 1.0}
        """
        if len(functions) != len(self.fields):
            raise UsageError(f"map_tuple: {len(functions)} functions for {len(self.fields)} fields")
        return self._with(maps=(*self._maps, _MapFields(dict(zip(self.fields, functions)))))

    def map_group(self, function: Callable[..., Sequence[Any]], fields: Sequence[str]) -> Self:
        """A function of several fields together, which gives as many values.

        >>> ds.map_group(lambda txt, cls: (txt * cls, cls * 2), ["txt", "cls"])[1]
        {'__key__': 'jay', 'txt': 'A jay.', 'cls': 2}
        """
        return self._with(maps=(*self._maps, _MapGroup(function, names("fields", fields))))

    def group(self, *templates: str, replace: bool = False, seed: int = 0) -> Self:
        """One of several views of each sample, another one each epoch.

        Of samples with the fields f0.jpg, f0.cls, f1.jpg, f1.cls, `ds.group("{0}.jpg", "{0}.cls")`
        takes f0 or f1, and `ds.group("{0}.jpg", "{1}.jpg")` both in random order. The choice is
        computed from the seed, the epoch and the sample.
        """
        number = (integer("seed", seed) ^ _VIEWS_SEED) & (2**64 - 1)
        chosen = (tuple(names("templates", templates)), bool(replace), number)
        return self._with(grouping=chosen)

    # --- Order ---

    def order(self, kind: str = "shuffle", *, seed: int = 0, by: str | None = None,
              **options: Any) -> Self:
        """The same samples in another order.

        kind is "shuffle", "blocks", "lengths", "balanced", "weighted", "weighted-once", "identity",
        "feistel" or "buckets"; docs/guides/order.md says when to take which. by is the field with the
        lengths (its sizes), classes or weights, which may also be given as lists: lengths=, classes=,
        weights=. Other options are those of tarn/order.h: block, window, chunk, pool, draws, rounds,
        mix, rank, world, share, batch, equal_batches.

        >>> ds.order("lengths", by="txt", chunk=2).keys()
        ['jay', 'kiwi', 'auk', 'owl']
        """
        if isinstance(self._order, _tarn._Indices):
            raise UsageError("order: samples were chosen by their positions, which is an order "
                             "already; give it before, or use filter(ranges=...)")
        if self._state_if_resumed() is not None:
            raise UsageError("order: give it before load_state_dict, or begin an epoch by set_epoch")
        if not isinstance(kind, str):
            raise UsageError(f'order: kind is a name such as "shuffle", not {kind!r}')
        options = checked(options)
        seed = integer("seed", seed)
        kept = {name: value for name, value in (self._ordering or {}).items()
                if name in ("rank", "world", "share", "batch", "equal_batches")}
        return self._with(ordering={**kept, "kind": kind, "seed": seed, "by": by, **options})

    def shuffle(self, seed: int = 0, **options: Any) -> Self:
        """All samples in a random order that the seed and the epoch say; no memory per sample.

        >>> ds.shuffle(seed=7).keys() == ds.shuffle(seed=7).keys() != ds.keys()
        True
        """
        return self.order("shuffle", seed=seed, **options)

    def shard(self, rank: int, world: int, *, share: str = "uneven") -> Self:
        """The part of one of several processes: every world-th sample, from the rank-th on.

        share says what happens where the samples cannot be shared out evenly: "uneven", "drop" the
        last few, or "pad" with the first few.

        >>> ds.shard(0, 2).keys(), ds.shard(1, 2).keys()
        (['auk', 'kiwi'], ['jay', 'owl'])
        """
        world = whole("world", world, 1)
        rank = whole("rank", rank, 0, world - 1)
        word("share", share, SHARES)
        if isinstance(self._order, _tarn._Indices):
            part = _tarn.Order(len(self), rank=rank, world=world, share=share)
            return self.select(part.fill(0, len(part)))  # type: ignore[arg-type]
        ordering = dict(self._ordering or {"kind": "identity"})
        ordering.update(rank=rank, world=world, share=share)
        made = self._with(ordering=ordering)
        state = self._state_if_resumed()
        if state is not None:
            made.load_state_dict(state)
        return made

    def set_epoch(self, epoch: int) -> None:
        """Begins another epoch: the order and the groups are that epoch's."""
        epoch = whole("epoch", epoch)
        if self._ordering is not None:
            self._order = _tarn.Order(len(self._handle), epoch=epoch,
                                      **arrays_of(self._handle, self._ordering))
        elif self._start:
            self._order = self._chosen
            self._start = 0
        self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the last iteration stands, in a dict of plain values.

        >>> shuffled = ds.shuffle(seed=7)
        >>> first = next(iter(shuffled))["__key__"]
        >>> state = shuffled.state_dict()
        >>> again = ds.shuffle(seed=7)
        >>> again.load_state_dict(state)
        >>> [sample["__key__"] for sample in again] == shuffled.keys()[1:]
        True
        """
        order = self._order
        if isinstance(order, _tarn._Indices):
            return {"version": 1, "epoch": self._epoch, "position": self._start + self._position}
        if order is None:
            order = _tarn.Order(len(self._handle), epoch=self._epoch)
        return {"version": 1, "epoch": self._epoch, "order": order.state(self._position)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state: what is left of that epoch is what the dataset then has, until
        `set_epoch`. The number of ranks may be another one than when the state was made."""
        if not isinstance(state, Mapping) or state.get("version") != 1:
            raise UsageError("load_state_dict: this is no state of a tarn dataset")
        epoch, order, position = (state.get(name) for name in ("epoch", "order", "position"))
        if (type(epoch) is not int or not 0 <= epoch < 2**64
                or not (isinstance(order, str) and position is None
                        or type(position) is int and order is None)):
            raise UsageError("load_state_dict: this is no state of a tarn dataset")
        if isinstance(order, str):
            if self._chosen is not None:
                raise UsageError("load_state_dict: the state is not of samples chosen by position")
            ordering = self._ordering or {"kind": "identity"}
            made = _tarn.Order(len(self._handle), state=order,
                               **arrays_of(self._handle, ordering))
            if made.info()["epoch"] != epoch:
                raise UsageError("load_state_dict: the state is of two epochs: it was changed")
            self._ordering, self._order = ordering, made
        else:
            if self._chosen is None:
                raise UsageError("load_state_dict: the state is of samples chosen by position")
            start: int = position or 0
            if not 0 <= start <= len(self._chosen):
                raise StaleError(f"load_state_dict: the state is at position {start} of "
                                 f"{len(self._chosen)} samples")
            self._order = _tarn.indices(bytes(memoryview(self._chosen)[start:]))
            self._start = start
        self._epoch = epoch

    # --- Batches ---

    def batch(self, indices: Sequence[int], fields: Sequence[str] | None = None,
              out: _tarn.Batch | None = None) -> _tarn.Batch:
        """The bytes of many samples in one buffer, in one call without the GIL.

        out is a batch read before whose memory is used again.

        >>> batch = ds.batch([2, 0], ["txt"])
        >>> bytes(batch.data), batch.offsets.tolist(), bytes(batch[1]["txt"])
        (b'A kiwi.An auk.', [0, 7, 14], b'An auk.')
        """
        if self._order is not None:
            indices = self._numbers(indices)  # type: ignore[assignment]
        wanted = self._handle.fields() if fields is None else tuple(names("fields", fields))
        return self._handle.read_batch(indices, wanted, out)

    def loader(self, batch_size: int, *, threads: int | None = None, shuffle: bool = False,
               seed: int = 0, resize: int | tuple[int, int] | None = None,
               on_error: str | int = "raise", drop_last: bool = False, depth: int = 0,
               epochs: int = 0, keys: bool = True, staged: bool = False,
               integers: Sequence[str] = (), as_: str | None = None, pin: bool | None = None,
               **steps: Any) -> Loader:
        """Batches of samples, read and decoded ahead by native threads.

        threads: as many as there are cores if None; 0 does the work when a batch is asked for.
        shuffle, seed: the same as `self.shuffle(seed)` before; other orders are given to the dataset.
            What is random in images is the seed's, too.
        resize: images become arrays of that side, or (height, width). With it: fit "stretch",
            "centre" (with shorter=), "random" (with scale=, ratio=) or "exact"; flip= how often left
            and right are exchanged; channels 1, 3 or 4; dtype "uint8", "float32" or "float16";
            layout "HWC" or "CHW"; mean=, std= for floats; reduce=, see tarn/image.h.
        on_error: what happens to a sample that cannot be read or decoded: "raise", "skip", or a number
            of such samples, in all epochs together, after which it is raised; `Loader.skipped` lists
            them. What a function in decoders= raises is raised by the loop, and that batch is passed
            over.
        drop_last: all batches are full. depth: batches made ahead.
        epochs: after so many nothing comes, counted from where the loader begins, and anew from
            load_state_dict and set_epoch: `Loader.epoch` says when a run has had them all. 0: no end.
        keys: whether batches have "__key__". integers: fields of text that are integers whatever their
            name. staged: reads batches in the order of the file, for data that is not in memory.
        as_: "numpy" or "torch", as for `tarn.open`. pin: tensors in pinned memory; None: with CUDA.

        >>> [batch["cls"].tolist() for batch in ds.loader(batch_size=2, threads=2)]
        [[0, 1], [2, 3]]
        """
        from .loader import loader_of

        return loader_of(self, batch_size, threads=threads, shuffle=shuffle, seed=seed,
                         resize=resize, on_error=on_error, drop_last=drop_last, depth=depth,
                         epochs=epochs, keys=keys, staged=staged, integers=integers, as_=as_,
                         pin=pin, steps=steps)

    def _in_file_order(self) -> Self:
        """The samples that were chosen by position as a filter, if they stand in the file's order."""
        numbers = memoryview(self._chosen).tolist()  # type: ignore[arg-type]
        if any(one >= other for one, other in zip(numbers, numbers[1:])):
            raise UsageError("loader: samples were chosen by position and not in the order of the "
                             "file; filter them, and give an order by order() or shuffle()")
        made = self._with(ordering=None)._filtered("keep_samples", self._chosen)
        if self._start:
            order = _tarn.Order(len(numbers), epoch=self._epoch)
            made.load_state_dict({"version": 1, "epoch": self._epoch,
                                  "order": order.state(self._start)})
        return made

    # --- As an object ---

    def _reduced(self) -> tuple[Any, ...]:
        ordering = self._chosen if self._ordering is None else self._ordering
        return (self._recipe, self._reading, self._maps, ordering, self._grouping, self._epoch)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), *self._reduced()), self._state_if_resumed()

    def _state_if_resumed(self) -> dict[str, Any] | None:
        if isinstance(self._order, _tarn.Order) and self._order.info()["start"]:
            return {"version": 1, "epoch": self._epoch, "order": self._order.state(0)}
        if self._start:
            return {"version": 1, "epoch": self._epoch, "position": self._start}
        return None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.load_state_dict(state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return (same(self._reduced(), other._reduced())
                and self._state_if_resumed() == other._state_if_resumed())

    def __hash__(self) -> int:
        return hash((self._recipe, self._reading, self._epoch))

    def __repr__(self) -> str:
        told = [f"{len(self)} sample" + "s" * (len(self) != 1)]
        names = self.fields
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        told.append("fields " + " ".join(names[:8]) + more)
        if self._reading.decode is not True:
            told.append(f"decode={self._reading.decode!r}")
        ordering = self._ordering or {}
        if ordering and ordering.get("kind") != "identity":
            told.append(f"{ordering['kind']} seed {ordering['seed']} epoch {self._epoch}")
        if "world" in ordering:
            told.append(f"rank {ordering['rank']}/{ordering['world']}")
        if isinstance(self._order, _tarn._Indices):
            told.append("chosen by position")
        if self._maps:
            told.append(f"{len(self._maps)} map" + "s" * (len(self._maps) != 1))
        return f"<tarn.Dataset {self._recipe.name()}: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        from .html import dataset_html

        return dataset_html(self)


def _reopen(cls: type[Dataset], recipe: Recipe, reading: Reading,
            maps: tuple[Callable[[Any], Any], ...], ordering: Any,
            grouping: Any, epoch: int) -> Dataset:
    return cls._make(recipe, recipe.open(), reading, maps, ordering, grouping, epoch)


def _mask(index: Iterable[Any]) -> list[bool] | None:
    """What says of each sample whether it is wanted, if index is such a thing: an array, a tensor
    or a list of bool."""
    dtype = getattr(index, "dtype", None)
    if dtype is None:
        is_mask = isinstance(index, list) and index != [] and all(type(i) is bool for i in index)
        return index if is_mask else None  # type: ignore[return-value]
    if getattr(dtype, "kind", None) != "b" and str(dtype) != "torch.bool":
        return None
    if index.ndim != 1:  # type: ignore[attr-defined]
        raise IndexError("a mask has one dimension")
    return index.tolist()  # type: ignore[attr-defined, no-any-return]


def _pairs(name: str, values: Any) -> list[tuple[Any, Any]]:
    """Values that are pairs."""
    try:
        return [(one, other) for one, other in values]
    except (TypeError, ValueError):
        raise UsageError(f"{name}: pairs are expected, not {values!r}") from None


def _by_name(name: str, values: Any) -> list[tuple[str, tuple[Any, Any]]]:
    """{name: pair} as a list."""
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise UsageError(f"{name} is a dict with a pair for each name, not {values!r}")
    return list(zip(values, _pairs(name, values.values())))


def _once(fields: Iterable[str]) -> list[str]:
    """Each field once, without the dot that may lead it."""
    given = names("fields", fields)
    return list(dict.fromkeys(name[1:] if name[:1] == "." else name for name in given))


# --- Opening ---------------------------------------------------------------------------------


def open(path: PathLike, fold: str | None = None, fields: Iterable[str] | None = None,
         decode: bool | str = True, *, images: str = "numpy", as_: str = "numpy",
         decoders: Mapping[str, Decoder | str] | None = None, io: str = "auto",
         check: bool = False, cold: bool = False, scan: bool = True, drop_twice: bool = False,
         keys: str = "base", lenient: bool = False, threads: int = 0, by_hash: bool = False,
         key_column: str | None = None, stored: bool = False,
         cache: PathLike | None = None) -> Dataset:
    """Opens a dataset: a folder of shards, one fold of it, a tar, an array file or a pack.

    path: "DIR", "DIR:FOLD", a .taridx, .tar, .gnz or .iac.
    fold: one of several folds of a folder.
    fields: the fields samples shall have; only samples with all of them are in the dataset. None
        takes all samples and fields. "_idx", "_key", "_shard", "_fid" are there in any file.
    decode: True gives values by the names of the fields (docs/guides/fields.md); False gives
        read-only memoryviews into the file, valid as long as they live; "bytes" gives bytes.
    images: "numpy" or "pil". as_: "numpy" or "torch", for decoded arrays.
    decoders: functions of bytes by field or extension, which come before all else, or the names of
        some: {"pyd": "pickle"}. Nothing in a file is run unless it is named here.
    io: "map", "read", or "auto", which maps files on local file systems.
    check: compares what is read with its checksum. cold: tells the system about whole batches
        before they are read. scan: makes an index in memory where there is none on disk.
    keys: "base" or "path", when scanning: whether a member's folder is part of the key.
    lenient: passes over damage, when scanning. drop_twice: leaves out samples with a field twice.
    key_column: of a pack, the column with the keys. stored: payloads of a pack as they are stored.
    cache: where copies of archives are kept whose path is a URL (http, https, s3, with braces for
        several shards); they are fetched once.

    >>> import tarn
    >>> tarn.open(birds)[0]["txt"]
    'An auk.'
    >>> bytes(tarn.open(birds, decode=False)[0]["txt"])
    b'An auk.'
    """
    where = shown = os.fspath(path)
    if not isinstance(where, str) or not where:
        raise UsageError(f"path is a str or a pathlib.Path, and not empty; it is {path!r}")
    if "://" in where:  # what it takes to fetch something is imported when it is needed
        from .remote import is_url, local

        if is_url(where):
            where = local(where, cache)
    if fold is not None:
        where, shown = f"{where}:{fold}", f"{shown}:{fold}"
    options: dict[str, Any] = {
        "fields": None if fields is None else _once(fields),
        "io": word("io", io, ("auto", "map", "read")), "check": check, "cold": cold, "scan": scan,
        "drop_twice": drop_twice, "keys": word("keys", keys, ("base", "path")),
        "lenient": lenient, "threads": whole("threads", threads, 0, 2**32 - 1), "by_hash": by_hash,
        "key_column": key_column, "stored": stored,
    }
    recipe = Recipe(os.path.abspath(where), options, shown=shown)
    reading = Reading(decode, images, as_, decoders)
    return Dataset._make(recipe, recipe.open(), reading)


def mix(*datasets: Dataset, weights: Sequence[float] | None = None,
        counts: Sequence[int] | None = None, total: int | None = None, end: str = "first",
        fields: Iterable[str] | None = None) -> Dataset:
    """Several datasets as one, evenly interleaved.

    weights: how often each comes; counts: or how many samples of each. total: samples in all, with
    weights; otherwise it ends, as end says, when the "first" source has no more samples for its
    weight, or when "all" have been seen. fields: those every source must have; None takes the names
    of all. The sources' filters count. They have no orders and maps, which are the mix's, and are
    opened alike, as decode, images, as_ and decoders go.

    >>> both = tarn.mix(ds, ds[:2], weights=[2, 1])
    >>> both.keys()
    ['auk', 'auk', 'jay', 'kiwi', 'jay', 'owl']
    """
    if not datasets:
        raise UsageError("mix: no datasets")
    if end not in ("first", "all"):
        raise UsageError(f'mix: end is "first" or "all", not {end!r}')
    many = (len(datasets), len(datasets))
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise UsageError(f"mix: {type(dataset).__name__} is not a dataset; "
                             "what is in a list is given as mix(*datasets)")
        if dataset._order is not None or dataset._maps or dataset._grouping:
            raise UsageError("mix: give orders, groups and maps to the mix, not to its sources")
        if dataset._reading != datasets[0]._reading:
            raise UsageError("mix: its sources are opened with different decode, images, as_ or "
                             "decoders; open them alike")
    if total is not None and weights is None:
        raise UsageError("mix: total needs weights")
    arguments = (None if weights is None else reals("weights", weights, *many),
                 None if counts is None else _counts(counts, len(datasets)),
                 0 if total is None else whole("total", total, 1), end == "all",
                 None if fields is None else tuple(names("fields", fields)))
    recipe = MixRecipe(tuple(dataset._recipe for dataset in datasets), arguments)
    handle = _tarn.mix(tuple(dataset._handle for dataset in datasets), *arguments)
    return Dataset._make(recipe, handle, datasets[0]._reading)


def _counts(counts: Sequence[int], sources: int) -> tuple[int, ...]:
    out = tuple(whole("counts", count) for count in counts)
    if len(out) != sources:
        raise UsageError(f"counts is a list of {sources} numbers, not of {len(out)}")
    return out
