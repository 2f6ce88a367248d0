"""Sample transforms as objects, created by `iTarDataset.map` and related methods.

>>> MapGrouped(lambda a, b: (b, a), [0, 2])(("x", 1, "y"))
('y', 1, 'x')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["DefaultIdentity", "Map", "MapAll", "MapGrouped", "MapTuple"]

Fields = Sequence[Any]


def _callable(name: str, *functions: Any) -> None:
    for function in functions:
        if not callable(function):
            raise AssertionError(f"{name}: needs a function, not {type(function).__name__}")


class Map:
    """A function of all fields; its result is the sample.

    >>> Map(lambda a, b: {"sum": a + b})((1, 2))
    {'sum': 3}
    """

    def __init__(self, mapping: Callable[..., Any]) -> None:
        _callable("Map", mapping)
        self.mapping = mapping

    def __call__(self, y: Fields) -> Any:
        return self.mapping(*y)


class MapTuple:
    """One function for each field.

    >>> MapTuple([len, abs])(("four", -1))
    [4, 1]
    """

    def __init__(self, maps: Sequence[Callable[[Any], Any]]) -> None:
        _callable("MapTuple", *maps)
        self.maps = maps

    def fnapply(self, fn: Callable[[Any], Any], x: Any) -> Any:
        """Applies a function to a field; a subclass may do something else."""
        return fn(x)

    def __call__(self, y: Fields) -> list[Any]:
        apply = self.fnapply
        return [apply(function, field) for function, field in zip(self.maps, y)]


class MapAll:
    """One function that is applied to each field.

    >>> MapAll(str)((1, None))
    ['1', 'None']
    """

    def __init__(self, mapping: Callable[[Any], Any]) -> None:
        _callable("MapAll", mapping)
        self.mapping = mapping

    def __call__(self, y: Fields) -> list[Any]:
        return [self.mapping(field) for field in y]


class MapGrouped:
    """A function of some fields, which returns as many values; a result that is not a tuple counts
    as one value."""

    def __init__(self, mapping: Callable[..., Any], indices: Sequence[int]) -> None:
        _callable("MapGrouped", mapping)
        if not all(isinstance(index, int) for index in indices):
            raise AssertionError(f"MapGrouped: indices must be integers (found {indices!r})")
        self.mapping = mapping
        self.indices = tuple(indices)

    def __call__(self, y: Fields) -> tuple[Any, ...]:
        values = self.mapping(*(y[index] for index in self.indices))
        if not isinstance(values, tuple):
            values = (values,)
        if len(values) != len(self.indices):
            raise ValueError(f"map_group expected {len(self.indices)} outputs for the fields "
                             f"{self.indices}, got {len(values)}; return as many as fields")
        out = list(y)
        for index, value in zip(self.indices, values):
            out[index] = value
        return tuple(out)


class DefaultIdentity:
    """Returns its argument, or a tuple if it has several.

    >>> DefaultIdentity()(1), DefaultIdentity()(1, 2)
    (1, (1, 2))
    """

    def __call__(self, *args: Any) -> Any:
        return args[0] if len(args) == 1 else args
