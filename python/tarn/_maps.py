"""Functions applied to samples: the objects that `Dataset.map` and related methods create.

They are classes and not closures, so that a dataset with a map can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from ._dataset import Dataset

Sample = dict[str, Any]


class Map:
    """The functions of a dataset are equal if what they apply is."""

    def inside(self) -> list[Callable[..., Any]]:
        """Returns the functions that it applies."""
        found = vars(self).get("functions")
        return list(found.values()) if found is not None else [vars(self)["function"]]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = object.__hash__


class MapFields(Map):
    """Applies a separate function to each of some fields."""

    def __init__(self, functions: Mapping[str, Callable[[Any], Any]]) -> None:
        self.functions = dict(functions)

    def __call__(self, sample: Sample) -> Sample:
        for field, function in self.functions.items():
            if field in sample:
                sample[field] = function(sample[field])
        return sample


class MapAll(Map):
    """Applies one function to all fields."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, sample: Sample) -> Sample:
        for field in sample:
            if field != "__key__":
                sample[field] = self.function(sample[field])
        return sample


class MapGroup(Map):
    """Applies one function to several fields together."""

    def __init__(self, function: Callable[..., Sequence[Any]], fields: Sequence[str]) -> None:
        self.function = function
        self.fields = tuple(fields)

    def __call__(self, sample: Sample) -> Sample:
        values = tuple(self.function(*(sample[field] for field in self.fields)))
        if len(values) != len(self.fields):
            raise UsageError(f"map_group: the function returned {len(values)} values for "
                             f"{len(self.fields)} fields; return as many values as fields")
        sample.update(zip(self.fields, values))
        return sample


class BatchMap(Map):
    """Applies a function to whole batches, which only a loader has."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, sample: Sample) -> Sample:
        raise UsageError("batch_map: this dataset has a function of batches, so it has no single samples; "
                         "use loader(), or read samples from the dataset before batch_map")


class MixParts:
    """The samples of a mix whose sources have their own functions, groups or decoders."""

    KEPT = 64  # epochs of sources

    def __init__(self, datasets: Sequence[Dataset], fields: tuple[str, ...] | None) -> None:
        self.datasets = tuple(datasets)
        self.fields = fields
        self._epochs: dict[tuple[int, int], Dataset] = {}

    def __call__(self, source: int, epoch: int, position: int) -> Any:
        """Returns the sample at a position in an epoch of a source."""
        dataset = self._epochs.get((source, epoch))
        if dataset is None:
            if len(self._epochs) >= self.KEPT:
                self._epochs.clear()
            dataset = self._epochs[source, epoch] = self.datasets[source]._at_epoch(epoch)
        sample = dataset[position]
        if self.fields is None or not isinstance(sample, dict):
            return sample
        return {name: sample[name] for name in ("__key__", *self.fields) if name in sample}

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, MixParts) and self.datasets == other.datasets
                and self.fields == other.fields)

    def __hash__(self) -> int:
        return hash(self.datasets)

    def __reduce__(self) -> tuple[Any, ...]:
        return MixParts, (self.datasets, self.fields)
