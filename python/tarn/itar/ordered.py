"""The order of an iTarDataset's samples: shuffling, ranks, epochs and their state; and the object
that reads samples in this order."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _tarn
from .._reading import Decoder
from .encoders import is_plain
from .epoch import checked_epoch
from .itar.fold import PSEUDO
from .maptrafo import Map
from .sampler import order_seed
from .torchkind import TorchKind

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Ordered"]

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


class Ordered(TorchKind):
    """Base of iTarDataset, which opens the handle."""

    buckets_per_shard: int
    _handle: _tarn._Handle
    _reader: _tarn.Dataset
    _extensions: list[str]
    _maps: list[Callable[[Any], Any]]
    _grouping: tuple[tuple[str, ...], bool] | None
    _flag: bool  # whether the index says that samples are contiguous
    _enforced: bool
    _override: tuple[int | None, bool, int] | None
    _seed: int
    _grouping_seed: int
    _rank: int
    _world_size: int
    _drop_last: bool
    _shuffle_enabled: bool
    _shuffle_shard_mixing: bool
    _shuffle_rounds: int
    _epoch: int
    _shared: Any  # the epoch that some process has set

    def _decoder(self, extension: str) -> Decoder:
        raise NotImplementedError

    @property
    def _is_contiguous(self) -> bool:
        """Whether the members of each sample are contiguous, or were sorted to be."""
        return self._flag or self._enforced

    def _buckets(self, handle: _tarn._Handle, mixing: bool) -> list[int]:
        counts = shard_counts(handle)
        if not mixing:
            return [count for count in counts if count]
        if not self._is_contiguous:
            raise ValueError("shard_mixing needs contiguous samples; "
                             "enforce_contiguous=True sorts them")
        total = len(handle)
        size = max(1, round(total / (len(counts) * self.buckets_per_shard)))
        return [size] * (total // size) + [total % size] * (total % size > 0)

    def _ordered(self, handle: _tarn._Handle) -> _tarn._Handle:
        """Returns the samples in the current order, restricted to this rank."""
        uneven = "drop" if self._drop_last else "keep"
        shuffled = (None, self._shuffle_shard_mixing, self._shuffle_rounds)
        seed, mixing, rounds = self._override or shuffled
        if self._override or self._shuffle_enabled:
            return handle.order(
                kind="buckets", buckets=self._buckets(handle, mixing), rounds=rounds,
                seed=order_seed(self._seed + self._epoch if seed is None else seed),
                rank=self._rank, world_size=self._world_size, uneven=uneven)
        if self._world_size == 1:
            return handle
        return handle.split(self._rank, self._world_size, uneven)

    def _make_reader(self, handle: _tarn._Handle) -> _tarn.Dataset:
        """Returns the object that reads samples and makes tuples of them."""
        names, views, maps = handle.fields(), None, tuple(self._maps)
        shown: Sequence[str] = self._extensions
        if self._grouping:
            shown = names = self._grouping[0]
            views = _tarn.views(handle, *self._grouping, self._grouping_seed % _WORD)
        first = _Tuple([_SHOWN.get(name, name) for name in shown])
        if maps and not isinstance(maps[-1], Map):
            maps = (*maps, tuple)
        plans = tuple(self._plan(name) for name in names)
        return _tarn.Dataset(self._ordered(handle), names, plans, (None,) * len(names),
                             (first, *maps), None, views, self._epoch)

    def _plan(self, name: str) -> Any:
        if name in PSEUDO:
            return "decode"
        decoder: Any = self._decoder(name)
        # Saves one call for each field.
        return decoder._decode if is_plain(decoder) and decoder._mode == "decode" else decoder

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
        check_rounds(rounds)
        return self._change(_shuffle_enabled=bool(enabled), _shuffle_rounds=int(rounds),
                            _shuffle_shard_mixing=bool(shard_mixing))

    def set_distributed(self, rank: int, world_size: int, drop_last: bool = False) -> Self:
        """Selects the samples of one of several processes: every world_size-th sample, starting at
        `rank`. Without drop_last the first ranks may have one sample more."""
        rank, world_size = operator.index(rank), operator.index(world_size)
        if world_size < 1 or not 0 <= rank < world_size:
            raise ValueError(f"rank must be from 0 to world_size - 1 (found rank {rank}, "
                             f"world_size {world_size})")
        return self._change(_rank=rank, _world_size=world_size, _drop_last=bool(drop_last))

    def set_epoch(self, epoch: int) -> Self:
        """Sets the epoch, here and in workers that have a copy of this dataset."""
        self._shared.value = checked_epoch(epoch)
        self._follow()
        return self

    @property
    def _now(self) -> int:
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
        >>> [number for number, _ in ds], ds.state_dict()["epoch"]
        ([0, 1, 2, 3], 1)
        """
        check_rounds(rounds)
        before = self._override
        self._change(_override=(seed, bool(shard_mixing), rounds))
        try:
            yield self
        finally:
            self._change(_override=before)
            self.set_epoch(self._now + 1)

    def state_dict(self) -> dict[str, Any]:
        """Returns the epoch, seeds and order settings, without rank and world size.

        >>> ds = iTarDataset("birds", os.path.dirname(birds), "train", internal_seed=7)
        >>> state = ds.set_epoch(3).state_dict()
        >>> state["epoch"], state["seed"]
        (3, 7)
        """
        return {"epoch": self._now, "seed": self._seed,
                "grouping_seed": self._grouping_seed, "shuffle_enabled": self._shuffle_enabled,
                "shuffle_shard_mixing": self._shuffle_shard_mixing,
                "shuffle_rounds": self._shuffle_rounds,
                "buckets_per_shard": self.buckets_per_shard}

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Restores the settings found in a state; other keys are ignored."""
        epoch = checked_epoch(state.get("epoch", self._now))
        rounds = int(state.get("shuffle_rounds", self._shuffle_rounds))
        check_rounds(rounds)
        buckets = int(state.get("buckets_per_shard", self.buckets_per_shard))
        self._change(
            _seed=int(state.get("seed", self._seed)), buckets_per_shard=max(1, buckets),
            _grouping_seed=int(state.get("grouping_seed", self._grouping_seed)),
            _shuffle_enabled=bool(state.get("shuffle_enabled", self._shuffle_enabled)),
            _shuffle_shard_mixing=bool(state.get("shuffle_shard_mixing",
                                                 self._shuffle_shard_mixing)),
            _shuffle_rounds=rounds)
        return self.set_epoch(epoch)


def check_rounds(rounds: int) -> None:
    if operator.index(rounds) < 1:
        raise ValueError(f"rounds must be at least 1 (found {rounds})")


def shard_counts(handle: _tarn._Handle) -> list[int]:
    """Returns the number of samples in each shard, up to the last one that has any."""
    counts: list[int] = memoryview(handle.shard_counts()).tolist()
    while counts and not counts[-1]:
        counts.pop()
    return counts
