"""Batches of function results: one array if the values have the same shape, otherwise a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from .errors import UsageError


def _mappings(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(values[0])
    for value in values:
        if set(value) != set(names):
            raise UsageError("the samples of a batch have different fields: "
                             f"{sorted(map(str, value))} and {sorted(map(str, names))}")
    return {name: collate([value[name] for value in values]) for name in names}


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "data_ptr")


def stacked(values: Sequence[Any]) -> Any:
    """Returns numbers, and arrays or tensors of one type and shape, as one array; otherwise a list.

    >>> stacked([1, 2]), stacked([{"x": 1}, {"x": 2}])
    (array([1, 2]), [{'x': 1}, {'x': 2}])
    """
    first: Any = values[0] if values else None
    if isinstance(first, (bool, int, float, numpy.generic)):
        if all(isinstance(value, (bool, int, float, numpy.generic)) for value in values):
            return numpy.asarray(values)
    if isinstance(first, numpy.ndarray):
        if all(isinstance(value, numpy.ndarray) and value.shape == first.shape
               and value.dtype == first.dtype for value in values):
            return numpy.stack(list(values))
    if _is_tensor(first) and all(_is_tensor(value) and value.shape == first.shape
                                 and value.dtype == first.dtype for value in values):
        import torch

        return torch.stack(list(values))
    return list(values)


def collate(values: Sequence[Any]) -> Any:
    """Also combines dicts and tuples, field by field.

    >>> collate([1, 2]), collate(["a", "b"]), collate([(1, "a"), (2, "b")])
    (array([1, 2]), ['a', 'b'], (array([1, 2]), ['a', 'b']))
    >>> collate([{"x": 1.5}, {"x": 2.5}])
    {'x': array([1.5, 2.5])}
    """
    first: Any = values[0] if values else None
    if isinstance(first, Mapping) and all(isinstance(value, Mapping) for value in values):
        return _mappings(values)
    if isinstance(first, tuple) and all(isinstance(value, tuple) and len(value) == len(first)
                                        for value in values):
        return tuple(collate([value[i] for value in values]) for i in range(len(first)))
    return stacked(values)
