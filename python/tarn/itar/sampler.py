"""Samplers: sequences of sample numbers in exactly glzn's orders.

>>> FeistelSampler(16)[4], list(FeistelSampler(5, rounds=3, seed=0))
(12, [0, 3, 2, 1, 4])
>>> MultiFeistelSampler([5, 7, 3]).randperm().tolist()
[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 13]

Orders are computed, not stored. If a run does not have to match older ones, `tarn.Dataset.shuffle`
is a better permutation: with three rounds, this one leaves the lowest bit unchanged, and small
buckets have few different orders.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

from .. import _tarn

__all__ = ["Feistel", "FeistelSampler", "Identity", "IdentitySampler", "MultiFeistel",
           "MultiFeistelSampler", "Sampler"]

_SEEDS = 2**64
_CHUNK = 65536  # numbers that an iteration computes at once


def order_seed(seed: int) -> int:
    """Returns the seed without its sign, which glzn's generator drops."""
    size = abs(operator.index(seed))
    if size >= _SEEDS:
        raise ValueError(f"seed {seed} has more than 64 bits")
    return size


class Sampler:
    """A sequence of numbers: `sampler[i]` is the sample at position i."""

    _order: Any

    def __init__(self, order: Any) -> None:
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> int:
        """Returns the number at a position; raises IndexError outside 0 to len - 1."""
        position = operator.index(index)
        if position < 0:
            raise IndexError(f"position {position} is out of range for {len(self)}")
        return int(self._order[position])

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self), _CHUNK):
            count = min(_CHUNK, len(self) - start)
            yield from memoryview(self._order.fill(start, count)).tolist()

    def randperm(self) -> Any:
        """Returns all numbers as an array of uint64."""
        import numpy

        return numpy.asarray(self._order.fill(0, len(self)))


class IdentitySampler(Sampler):
    """The numbers 0 to N - 1 in order.

    >>> IdentitySampler(3)[2], len(IdentitySampler(3))
    (2, 3)
    """

    def __init__(self, N: int) -> None:
        if N < 0:
            raise AssertionError(f"N must not be negative (found {N})")
        super().__init__(_tarn.Order(N))
        self.N = len(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.N,)

    def __repr__(self) -> str:
        return f"IdentitySampler({self.N})"


class FeistelSampler(Sampler):
    """A permutation of 0 to N - 1 by a Feistel network; any integer is a valid seed.

    >>> list(FeistelSampler(3, rounds=3, seed=1))
    [2, 1, 0]
    """

    def __init__(self, N: int, rounds: int = 3, seed: int = 0) -> None:
        if N <= 0:
            raise AssertionError(f"N must be positive (found {N})")
        self.N, self.rounds, self.seed = map(operator.index, (N, rounds, seed))
        size = order_seed(seed)
        super().__init__(_tarn.Order(N, kind="feistel", seed=size, rounds=rounds) if rounds
                         else _tarn.Order(N))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.N, self.rounds, self.seed)

    def __repr__(self) -> str:
        return f"FeistelSampler({self.N}, rounds={self.rounds}, seed={self.seed})"


class MultiFeistelSampler(Sampler):
    """Consecutive buckets, each with its own permutation.

    With shuffle_outer the order of the buckets is shuffled too. `sampler[i]` is `randperm()[i]`
    even if the buckets have different sizes.

    >>> list(MultiFeistelSampler([2, 2, 2], seed=1, shuffle_outer=True))
    [0, 1, 3, 2, 4, 5]
    """

    def __init__(self, sizes: Iterable[int], rounds: int = 3, seed: int = 0,
                 shuffle_outer: bool = False) -> None:
        self.sizes = [operator.index(size) for size in sizes]
        if not self.sizes or min(self.sizes) <= 0:
            raise AssertionError("needs at least one bucket, and all sizes must be positive")
        self.rounds, self.seed = map(operator.index, (rounds, seed))
        self.shuffle_outer = bool(shuffle_outer)
        size = order_seed(seed)
        # The order of the buckets uses seed + 1, so here the sign matters.
        signed = self.seed if shuffle_outer else size
        super().__init__(_tarn.Order(sum(self.sizes), kind="buckets", seed=signed, rounds=rounds,
                                     buckets=self.sizes, outer=2 * self.shuffle_outer) if rounds
                         else _tarn.Order(sum(self.sizes)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sizes, self.rounds, self.seed, self.shuffle_outer)

    def __repr__(self) -> str:
        return (f"MultiFeistelSampler({len(self.sizes)} buckets, rounds={self.rounds}, "
                f"seed={self.seed}, shuffle_outer={self.shuffle_outer})")


Feistel, Identity, MultiFeistel = FeistelSampler, IdentitySampler, MultiFeistelSampler
