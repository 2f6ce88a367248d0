"""Mixing samples of several datasets, in turn or at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .pipeline import IterableSource


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
        place = 0
        while sources:
            place %= len(sources)
            try:
                sample = next(sources[place])
            except StopIteration:
                if not self.longest:
                    return
                del sources[place]
                continue
            place += 1
            yield sample


class RandomMix(IterableSource):
    """Draws samples from datasets with given probabilities, until the first (with longest: the
    last) dataset ends."""

    def __init__(self, datasets: Sequence[Iterable[Any]], probs: Sequence[float] | None = None,
                 longest: bool = False) -> None:
        super().__init__()
        self.datasets, self.probs, self.longest = datasets, probs, longest

    def __iter__(self) -> Iterator[Any]:
        sources = [iter(dataset) for dataset in self.datasets]
        weights = [1.0] * len(sources) if self.probs is None else list(self.probs)
        while sources:
            place = random.choices(range(len(sources)), weights)[0]
            try:
                sample = next(sources[place])
            except StopIteration:
                if not self.longest:
                    return
                del sources[place], weights[place]
                continue
            yield sample
