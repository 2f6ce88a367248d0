"""Samplers: sequences of sample numbers in exactly glzn's orders.

>>> FeistelSampler(16)[4], list(FeistelSampler(5, rounds=3, init_seed=0))
(12, [0, 3, 2, 1, 4])
>>> MultiFeistelSampler([5, 7, 3]).randperm().tolist()
[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 13]

Orders are computed, not stored. If a run does not have to match older ones, `tarn.Dataset.shuffle`
is a better permutation: with three rounds, this one leaves the lowest bit unchanged, and small
buckets have few different orders.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Sequence
from typing import Any

from .. import _tarn

__all__ = ["FeistelSampler", "IdentitySampler", "MultiFeistelSampler", "Sampler", "feistel",
           "feistelvec"]

_SEEDS = 2**64
_CHUNK = 65536  # numbers that an iteration computes at once
_MULTIPLIER = 0x9E3779B97F4A7C15


def order_seed(seed: int) -> int:
    """Returns the seed without its sign, which glzn's generator drops."""
    size = abs(operator.index(seed))
    if size >= _SEEDS:
        raise ValueError(f"seed {seed} has more than 64 bits")
    return size


# --- The network --------------------------------------------------------------------------------


def _half(N: int) -> int:
    """Returns the bits of half a word that holds 0 to N - 1."""
    return ((N - 1).bit_length() + 1) // 2


def _drawn(seed: int, halves: Sequence[int], rounds: int) -> list[list[int]]:
    """Returns the keys of each round: one for each bucket."""
    draw = random.Random(seed)
    return [[draw.getrandbits(half) for half in halves] for _ in range(rounds)]


def feistel(i: int, N: int, half: int, mask: int, keys: Any) -> int:
    """Returns the number at position i of a permutation of 0 to N - 1 with these keys.

    The network permutes the words of 2 * half bits, so positions from N on may lead to a number
    too; raises IndexError for others, and OverflowError if the position is negative.

    >>> sampler = FeistelSampler(5, rounds=3, init_seed=0)
    >>> [feistel(i, 5, sampler.half, sampler.mask, sampler.keys) for i in range(5)]
    [0, 3, 2, 1, 4]
    """
    word, N, half, mask = map(operator.index, (i, N, half, mask))
    position = word
    if word < 0:
        raise OverflowError(f"position {word} is negative; positions are from 0 to {N - 1}")
    if word > mask << half | mask or N < 1:
        raise IndexError(f"position {word} is out of range for {N}")
    steps = [int(key) for key in keys]
    while True:
        left, right = word >> half, word & mask
        for key in steps:
            left, right = right, left ^ (right * _MULTIPLIER + key) % _SEEDS & mask
        word = left << half | right
        if word < N:
            return word
        if word == position:
            raise IndexError(f"position {position} is out of range for {N}")


def feistelvec(a: Any, N: int, half: int, mask: int, keys: Any) -> Any:
    """Returns the numbers at an array of positions, as an array of uint64; see `feistel`.

    >>> sampler = FeistelSampler(5, rounds=3, init_seed=0)
    >>> feistelvec(numpy.arange(5), 5, sampler.half, sampler.mask, sampler.keys).tolist()
    [0, 3, 2, 1, 4]
    """
    import numpy

    words = numpy.array(a).astype(numpy.uint64)
    if words.size and int(words.max()) > int(mask) << int(half) | int(mask):
        raise IndexError(f"position {words.max()} is out of range for {N}")
    bits, ones, factor = (numpy.uint64(number) for number in (half, mask, _MULTIPLIER))
    todo = numpy.ones(words.shape, dtype=bool)
    begun = words.copy()
    while todo.any():
        left, right = words[todo] >> bits, words[todo] & ones
        for key in keys:
            left, right = right, left ^ (right * factor + numpy.uint64(key) & ones)
        words[todo] = left << bits | right
        todo &= words >= numpy.uint64(N)
        lost = words[todo & (words == begun)]
        if lost.size:
            raise IndexError(f"position {lost[0]} is out of range for {N}")
    return words


# --- Samplers -----------------------------------------------------------------------------------


class Sampler:
    """A sequence of numbers: `sampler[i]` and `sampler(i)` are the sample at position i."""

    _order: Any

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, i: int) -> int:
        """Returns the number at a position; raises IndexError outside 0 to len - 1."""
        position = operator.index(i)
        if position < 0:
            raise IndexError(f"position {position} is out of range for {len(self)}")
        return int(self._order[position])

    def __call__(self, i: int) -> int:
        return self[i]

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self), _CHUNK):
            count = min(_CHUNK, len(self) - start)
            yield from memoryview(self._order.fill(start, count)).tolist()

    def randperm(self) -> Any:
        """Returns all numbers as an array of uint64."""
        import numpy

        return numpy.asarray(self._order.fill(0, len(self)))

    def refesh_keys(self, seed: int) -> None:
        """Changes the seed, in place. The name is glzn's."""
        raise NotImplementedError


class IdentitySampler(Sampler):
    """The numbers 0 to N - 1 in order.

    >>> IdentitySampler(3)[2], len(IdentitySampler(3))
    (2, 3)
    """

    def __init__(self, N: int) -> None:
        if N <= 0:
            raise AssertionError(f"N must be positive (found {N})")
        self._order = _tarn.Order(N)
        self.N = len(self)

    def refesh_keys(self, seed: int) -> None:
        """Does nothing, because this order has no keys."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.N,)

    def __repr__(self) -> str:
        return f"IdentitySampler({self.N})"


class FeistelSampler(Sampler):
    """A permutation of 0 to N - 1 by a Feistel network; any integer is a valid seed.

    half, mask: bits of half a word, and a number with these bits set. keys: one for each round.

    >>> list(FeistelSampler(3, rounds=3, init_seed=1))
    [2, 1, 0]
    >>> sampler = FeistelSampler(50, init_seed=9)
    >>> sampler.half, sampler.mask, sampler.keys.tolist()
    (3, 7, [3, 4, 2])
    >>> sampler.refesh_keys(0)
    >>> list(sampler) == list(FeistelSampler(50))
    True
    """

    def __init__(self, N: int, rounds: int = 3, init_seed: int = 0) -> None:
        if N <= 0:
            raise AssertionError(f"N must be positive (found {N})")
        self.N, self.rounds = map(operator.index, (N, rounds))
        self.half = _half(self.N)
        self.mask = (1 << self.half) - 1
        self.refesh_keys(init_seed)

    def refesh_keys(self, seed: int) -> None:
        """Changes the seed, in place. The name is glzn's."""
        self._order = (_tarn.Order(self.N, kind="feistel", seed=order_seed(seed),
                                   rounds=self.rounds) if self.rounds else _tarn.Order(self.N))
        self._seed = operator.index(seed)

    @property
    def keys(self) -> Any:
        """The keys, as an array of uint64."""
        import numpy

        drawn = _drawn(self._seed, [self.half], self.rounds)
        return numpy.array([key for key, in drawn], dtype=numpy.uint64)

    def __getitem__(self, i: int) -> int:
        """Returns the number at a position. Positions from N on may give numbers again, as in
        `feistel`; others raise IndexError, and those before 0 OverflowError."""
        position = operator.index(i)
        if 0 <= position < self.N:
            return int(self._order[position])
        return feistel(position, self.N, self.half, self.mask, self.keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.N, self.rounds, self._seed)

    def __repr__(self) -> str:
        return f"FeistelSampler({self.N}, rounds={self.rounds}, init_seed={self._seed})"


class MultiFeistelSampler(Sampler):
    """Consecutive buckets of sizes Ns, each with its own permutation.

    With shuffle_outer the order of the buckets is shuffled too, by `bucket_order`. `sampler[i]` is
    `randperm()[i]` even if the buckets have different sizes. cums: the ends of the buckets. half,
    mask, keys: as in `FeistelSampler`, for each bucket.

    >>> list(MultiFeistelSampler([2, 2, 2], init_seed=1, shuffle_outer=True))
    [0, 1, 3, 2, 4, 5]
    """

    bucket_order: FeistelSampler | IdentitySampler

    def __init__(self, Ns: Sequence[int], rounds: int = 3, init_seed: int = 0,
                 shuffle_outer: bool = False) -> None:
        self._sizes = [operator.index(size) for size in Ns]
        if not self._sizes or min(self._sizes) <= 0:
            raise AssertionError("needs at least one bucket, and all sizes must be positive")
        self.Ns, self.num_Ns = Ns, len(self._sizes)
        self.rounds = operator.index(rounds)
        self._outer = bool(shuffle_outer)
        self.bucket_order = (FeistelSampler(self.num_Ns, rounds, 0) if shuffle_outer
                             else IdentitySampler(self.num_Ns))
        self.refesh_keys(init_seed)

    def refesh_keys(self, seed: int) -> None:
        """Changes the seed, in place. The name is glzn's."""
        size = order_seed(seed)
        # The order of the buckets uses seed + 1, so here the sign matters.
        signed = operator.index(seed) if self._outer else size
        total = sum(self._sizes)
        self._order = (_tarn.Order(total, kind="buckets", seed=signed, rounds=self.rounds,
                                   buckets=self._sizes, outer=2 * self._outer)
                       if self.rounds else _tarn.Order(total))
        self._seed = operator.index(seed)
        self.bucket_order.refesh_keys(self._seed + 1)

    @property
    def cums(self) -> Any:
        """The ends of the buckets, as an array of uint64."""
        import numpy

        return numpy.cumsum(self._sizes, dtype=numpy.uint64)

    @property
    def half(self) -> Any:
        """The bits of half a word of each bucket."""
        import numpy

        return numpy.array([_half(size) for size in self._sizes], dtype=numpy.uint64)

    @property
    def mask(self) -> Any:
        """The mask of half a word of each bucket."""
        import numpy

        return numpy.array([(1 << _half(size)) - 1 for size in self._sizes], dtype=numpy.uint64)

    @property
    def keys(self) -> Any:
        """The keys [rounds, buckets], as an array of uint64."""
        import numpy

        halves = [_half(size) for size in self._sizes]
        return numpy.array(_drawn(self._seed, halves, self.rounds), dtype=numpy.uint64)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._sizes, self.rounds, self._seed, self._outer)

    def __repr__(self) -> str:
        return (f"MultiFeistelSampler({self.num_Ns} buckets, rounds={self.rounds}, "
                f"init_seed={self._seed}, shuffle_outer={self._outer})")
