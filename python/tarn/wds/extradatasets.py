"""Sources that stand for others: a repeated sample, an epoch of a given length, a length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import utils
from .pipeline import IterableSource
from .utils import PipelineStage


class repeatedly(IterableSource, PipelineStage):
    """Repeats a source, up to a number of epochs or of items.

    >>> list(repeatedly([1, 2, 3], nbatches=5))
    [1, 2, 3, 1, 2]
    """

    def __init__(self, source: Any, nepochs: int | None = None, nbatches: int | None = None,
                 length: int | None = None) -> None:
        super().__init__()
        self.source, self.nepochs, self.nbatches = source, nepochs, nbatches
        self.length = length

    def invoke(self, source: Any) -> Iterator[Any]:
        """Returns an iterator that repeats another source."""
        return utils.repeatedly(source, nepochs=self.nepochs, nbatches=self.nbatches)

    def __iter__(self) -> Iterator[Any]:
        return self.invoke(self.source)


class MockDataset(IterableSource):
    """Yields the same sample `length` times.

    >>> list(MockDataset("x", 2))
    ['x', 'x']
    """

    def __init__(self, sample: Any, length: int) -> None:
        super().__init__()
        self.sample, self.length = sample, length

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.length):
            yield self.sample


class with_epoch(IterableSource):
    """Epochs of `length` samples over a dataset that is repeated as needed. Each epoch starts
    where the previous one ended."""

    def __init__(self, dataset: Any, length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length
        self.source: Iterator[Any] | None = None

    def invoke(self, dataset: Any) -> Iterator[Any]:
        """Returns an epoch of another dataset."""
        return iter(type(self)(dataset, self.length))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.length):
            for _attempt in range(2):
                self.source = iter(self.dataset) if self.source is None else self.source
                try:
                    sample = next(self.source)
                    break
                except StopIteration:
                    self.source = None
            else:
                return
            yield sample


class with_length(IterableSource, PipelineStage):
    """A dataset with a given len()."""

    def __init__(self, dataset: Any, length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)

    def invoke(self, dataset: Any) -> Iterator[Any]:
        """Returns an iterator over another dataset."""
        return iter(dataset)

    def __len__(self) -> int:
        return self.length
