"""Pipelines: a source followed by stages, each a function from an iterator to an iterator."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from .utils import PipelineStage
from ..errors import shown

if TYPE_CHECKING:
    from typing import Self

_registered: set[type] = set()


def _register(cls: type) -> None:
    """Registers the class as an IterableDataset of torch, if torch is already imported. A program
    that passes a pipeline to a DataLoader has imported it."""
    data = sys.modules.get("torch.utils.data")
    if data is not None and cls not in _registered and hasattr(data, "IterableDataset"):
        data.IterableDataset.register(cls)
        _registered.add(cls)


class IterableSource:
    """Base class of pipeline sources. They are IterableDatasets of torch as soon as torch is
    imported."""

    def __init__(self) -> None:
        _register(IterableSource)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Read by isinstance, which so finds pipelines that were made before torch was imported."""
        _register(IterableSource)
        return type(self)


def _is_source(stage: object) -> bool:
    data = sys.modules.get("torch.utils.data")
    kinds: tuple[type, ...] = (IterableSource,)
    if data is not None:
        kinds += (data.IterableDataset, data.DataLoader)
    return isinstance(stage, kinds)


class DataPipeline(IterableSource, PipelineStage):
    """A source and the stages that follow it.

    >>> from tarn import wds
    >>> source = wds.MockDataset({"x": 1}, 3)
    >>> list(DataPipeline(source, wds.to_tuple("x"), wds.listed(2)))
    [[(1,), (1,)], [(1,)]]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.pipeline: list[Any] = []
        self.length = -1
        self.repetitions = 1
        self.nsamples = -1
        self.size: int | None = None
        for stage in args:
            if isinstance(stage, list):
                self.pipeline.extend(stage)
            elif stage is not None:
                self.pipeline.append(stage)

    def close(self) -> None:
        """Closes the stages that can be closed and removes all stages."""
        for stage in self.pipeline:
            if hasattr(stage, "close"):
                stage.close()
        self.pipeline = []

    def invoke(self, f: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Applies a stage to the output of the stages before it."""
        if not args and _is_source(f):
            return iter(f)
        if isinstance(f, PipelineStage):
            return f.run(*args, **kwargs)  # type: ignore[no-any-return]
        if isinstance(f, list):
            return iter(f)
        if callable(f):
            return f(*args, **kwargs)  # type: ignore[no-any-return]
        raise ValueError(f"{shown(f, False)}: not a valid pipeline stage")

    def iterator1(self) -> Iterator[Any]:
        """Iterates over one epoch."""
        if not self.pipeline:
            raise ValueError("the pipeline is empty or closed")
        source = self.invoke(self.pipeline[0])
        for stage in self.pipeline[1:]:
            source = self.invoke(stage, source)
        return source

    def iterator(self) -> Iterator[Any]:
        """Iterates over the requested number of epochs; stops after an empty one."""
        for _ in range(self.repetitions):
            empty = True
            for sample in self.iterator1():
                empty = False
                yield sample
            if empty:
                return

    def __iter__(self) -> Iterator[Any]:
        if self.repetitions == 1:
            return iter(self.iterator1())
        return islice(self.iterator(), self.nsamples) if self.nsamples > 0 else self.iterator()

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError(f"object of type '{type(self).__name__}' has no len(); "
                            "set one with with_length")
        return self.size

    def __bool__(self) -> bool:
        return True

    def stage(self, i: int) -> Any:
        """Returns stage i."""
        return self.pipeline[i]

    def append(self, f: Any) -> None:
        """Adds a stage to this pipeline."""
        self.pipeline.append(f)

    def compose(self, *args: Any) -> Self:
        """Returns a copy of the pipeline with more stages."""
        result = copy.copy(self)
        result.pipeline = [*self.pipeline, *args]
        return result

    def with_length(self, n: int, silent: bool = False) -> Self:
        """Sets the value of len() and changes nothing else."""
        if not silent:
            warnings.warn(".with_length() only sets the value of __len__ for compatibility with "
                          "some training environments. It does not change the number of samples "
                          "in an epoch.", stacklevel=2)
        self.size = n
        return self

    def with_epoch(self, nsamples: int = -1, nbatches: int = -1) -> Self:
        """Makes an epoch this many samples (or batches), repeating the data as needed."""
        self.repetitions = sys.maxsize
        self.nsamples = max(nsamples, nbatches)
        return self

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> Self:
        """Repeats the data this many times, or forever, and stops after nbatches items in
        total."""
        self.repetitions = nepochs if nepochs > 0 else sys.maxsize
        self.nsamples = nbatches
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.pipeline)} stages>"


Stage = Callable[[Iterator[Any]], Iterator[Any]]
