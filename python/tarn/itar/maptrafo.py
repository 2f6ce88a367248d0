"""Sample transforms as objects, created by `iTarDataset.map` and related methods.

>>> MapGroup(lambda a, b: (b, a), [0, 2], 3)(("x", 1, "y"))
('y', 1, 'x')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Map", "MapAll", "MapGroup", "MapTuple"]

Fields = tuple[Any, ...]


def _callable(function: Any, what: str) -> None:
    if not callable(function):
        raise TypeError(f"{what}: needs a function, not {type(function).__name__}")


def _check_arity(function: Callable[..., Any], count: int) -> None:
    kinds = inspect.Parameter
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is kinds.VAR_POSITIONAL for each in parameters):
        return
    taken = sum(each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
                for each in parameters)
    if taken != count:
        raise ValueError(f"map: the function takes {taken} arguments, but samples have {count} "
                         "fields")


class Map:
    """A function of all fields; its result is the sample.

    >>> Map(lambda a, b: {"sum": a + b}, 2)((1, 2))
    {'sum': 3}
    """

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        _callable(function, "map")
        _check_arity(function, count)
        self.function = function

    def __call__(self, fields: Fields) -> Any:
        return self.function(*fields)


class MapAll:
    """One function that is applied to each field.

    >>> MapAll(str)((1, None))
    ('1', 'None')
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        _callable(function, "map_all")
        self.function = function

    def __call__(self, fields: Fields) -> Fields:
        return tuple(map(self.function, fields))


class MapTuple:
    """One function for each field.

    >>> MapTuple([len, abs], 2)(("four", -1))
    (4, 1)
    """

    def __init__(self, functions: Sequence[Callable[[Any], Any]], count: int) -> None:
        for function in functions:
            _callable(function, "map_tuple")
        if len(functions) != count:
            raise ValueError(f"map_tuple: {len(functions)} functions for {count} fields")
        self.functions = tuple(functions)

    def __call__(self, fields: Fields) -> Fields:
        return tuple(function(field) for function, field in zip(self.functions, fields))


class MapGroup:
    """A function of some fields, which returns as many values; a result that is not a tuple counts
    as one value."""

    def __init__(self, function: Callable[..., Any], indices: Sequence[int], count: int) -> None:
        _callable(function, "map_group")
        self.function = function
        self.indices = tuple(indices)
        if not self.indices:
            raise ValueError("map_group: no fields")
        for index in self.indices:
            if not 0 <= index < count:
                raise ValueError(f"map_group: no field {index}; samples have {count}")

    def __call__(self, fields: Fields) -> Fields:
        values = self.function(*(fields[index] for index in self.indices))
        if not isinstance(values, tuple):
            values = (values,)
        if len(values) != len(self.indices):
            raise ValueError(f"map_group: the function returned {len(values)} values for "
                             f"{len(self.indices)} fields; return as many values as fields")
        out = list(fields)
        for index, value in zip(self.indices, values):
            out[index] = value
        return tuple(out)
