"""What a stage is: a function with all arguments bound except the first; and how stages name fields."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import shown


class FilterFunction:
    """A function with all arguments bound except the first; picklable if they are."""

    def __init__(self, f: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Any) -> Any:
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        return shown(f"<{self.f.__name__.lstrip('_')} {self.args} {self.kw}>", False)


class RestCurried:
    """Wraps a function; calling it with the other arguments returns a stage."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        return FilterFunction(self.f, *args, **kw)


def pipelinefilter(f: Callable[..., Any]) -> RestCurried:
    """Turns a function whose first argument is an iterator into a stage factory.

    >>> @pipelinefilter
    ... def doubled(data, times=2):
    ...     return (times * item for item in data)
    >>> list(doubled(times=3)([1, 2]))
    [3, 6]
    """
    result = RestCurried(f)
    functools.update_wrapper(result, f)
    return result


def compose2(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function x -> g(f(x))."""
    return lambda x: g(f(x))


def compose(*args: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function that applies functions from left to right."""
    return functools.reduce(compose2, args)


def pipeline(source: Any, *args: Callable[[Any], Any]) -> Any:
    """Applies stages to a source."""
    return functools.reduce(lambda data, stage: stage(data), args, source)


def getfirst(a: Mapping[str, Any], keys: str | Sequence[str], default: Any = None,
             missing_is_error: bool = True) -> Any:
    """Returns the value of the first key that exists; in a string, keys are separated by ";".

    >>> getfirst({"png": 1}, "jpg;png")
    1
    """
    if isinstance(keys, str):
        assert " " not in keys, keys
        keys = keys.split(";")
    for key in keys:
        if key in a:
            return a[key]
    if missing_is_error:
        raise ValueError(f"didn't find {keys} in {list(a.keys())}")
    return default


def alternatives(value: Any) -> Any:
    """Splits names or patterns that are separated by ";"."""
    return value.split(";") if isinstance(value, str) else value


def parse_field_spec(fields: str | Sequence[str]) -> list[list[str]]:
    """Splits a space-separated list of fields, each with alternatives separated by ";"."""
    names = fields.split() if isinstance(fields, str) else fields
    return [name.split(";") for name in names]


def transform_with(sample: Sequence[Any], transformers: Sequence[Any] | None) -> Sequence[Any]:
    """Applies one function to each value. None or a missing function leaves the value
    unchanged."""
    if not transformers:
        return sample
    assert len(transformers) <= len(sample)
    result = list(sample)
    for place, function in enumerate(transformers):
        if function is not None:
            result[place] = function(sample[place])
    return result
