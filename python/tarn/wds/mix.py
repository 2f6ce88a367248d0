"""Mixing samples of several datasets, in turn or at random."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .pipeline import IterableSource


def round_robin_shortest(*sources: Iterator[Any]) -> Iterator[Any]:
    """Takes one sample of each iterator in turn, until one ends."""
    for source in itertools.cycle(sources):
        try:
            yield next(source)
        except StopIteration:
            return


def round_robin_longest(*sources: Iterator[Any]) -> Iterator[Any]:
    """Takes one sample of each iterator in turn, until the last one ends."""
    remaining, place = list(sources), 0
    while remaining:
        place %= len(remaining)
        try:
            sample = next(remaining[place])
        except StopIteration:
            del remaining[place]
            continue
        place += 1
        yield sample


def random_samples(sources: Sequence[Iterator[Any]], probs: Sequence[float] | None = None,
                   longest: bool = False) -> Iterator[Any]:
    """Draws samples from iterators, with Python's global random numbers, as webdataset does."""
    remaining = list(sources)
    weights = [1.0] * len(remaining) if probs is None else list(probs)
    while remaining:
        total = sum(weights)
        bounds = list(itertools.accumulate(weight / total for weight in weights))
        place = min(bisect.bisect_left(bounds, random.random()), len(remaining) - 1)
        try:
            sample = next(remaining[place])
        except StopIteration:
            if not longest:
                return
            del remaining[place], weights[place]
            continue
        yield sample


class RoundRobin(IterableSource):
    """Takes one sample of each dataset in turn, until the first (with longest: the last) dataset
    ends.

    >>> list(RoundRobin([[1, 2, 3], "ab"], longest=True))
    [1, 'a', 2, 'b', 3]
    """

    def __init__(self, datasets: Sequence[Iterable[Any]], longest: bool = False) -> None:
        super().__init__()
        self.datasets, self.longest = datasets, longest

    def __iter__(self) -> Iterator[Any]:
        sources = [iter(dataset) for dataset in self.datasets]
        return round_robin_longest(*sources) if self.longest else round_robin_shortest(*sources)


class RandomMix(IterableSource):
    """Draws samples from datasets with given probabilities, until the first (with longest: the
    last) dataset ends."""

    def __init__(self, datasets: Sequence[Iterable[Any]], probs: Sequence[float] | None = None,
                 longest: bool = False) -> None:
        super().__init__()
        self.datasets, self.probs, self.longest = datasets, probs, longest

    def __iter__(self) -> Iterator[Any]:
        return random_samples([iter(dataset) for dataset in self.datasets], self.probs,
                              longest=self.longest)
