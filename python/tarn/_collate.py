"""Batches of function results, by the rules of native fields: C makes one array of arrays that
have one shape, or that are padded or ragged; other values become a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from . import _tarn
from ._pad import Forms, Pad, Ragged, native_form
from .errors import FormatError, UsageError

_NUMBERS = (bool, int, float, numpy.generic)


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "data_ptr")


# --- Stacking ------------------------------------------------------------------------------


def stacked(values: Sequence[Any]) -> Any:
    """Returns numbers, and arrays or tensors of one type and shape, as one array; otherwise a list.

    >>> stacked([1, 2]), stacked([{"x": 1}, {"x": 2}])
    (array([1, 2]), [{'x': 1}, {'x': 2}])
    """
    first: Any = values[0] if values else None
    if isinstance(first, _NUMBERS):
        if all(isinstance(value, _NUMBERS) for value in values):
            return numpy.asarray(values)
    if isinstance(first, numpy.ndarray):
        if all(isinstance(value, numpy.ndarray) and value.shape == first.shape
               and value.dtype == first.dtype for value in values):
            if not _is_known(first.dtype):
                return numpy.stack(list(values))
            result = _tarn.collate(list(values), None, "")
            return list(values) if result is None else result[0]
    if _is_tensor(first) and all(_is_tensor(value) and value.shape == first.shape
                                 and value.dtype == first.dtype for value in values):
        import torch

        return torch.stack(list(values))
    return list(values)


def _is_known(dtype: numpy.dtype[Any]) -> bool:
    """Whether the library has this type of elements: not times, objects and long doubles."""
    return dtype.kind in "biuSU" or (dtype.kind == "f" and dtype.itemsize <= 8) or (
        dtype.kind == "c" and dtype.itemsize <= 16)


def collate(values: Sequence[Any], forms: Forms = {}) -> Any:
    """Also combines dicts and tuples, field by field. forms are for the fields of a dict.

    >>> collate([1, 2]), collate(["a", "b"]), collate([(1, "a"), (2, "b")])
    (array([1, 2]), ['a', 'b'], (array([1, 2]), ['a', 'b']))
    >>> collate([{"x": 1.5}, {"x": 2.5}])
    {'x': array([1.5, 2.5])}
    >>> collate([{"x": [1]}, {"x": [2, 3]}], {"x": Pad(0)})
    {'x': array([[1, 0],
           [2, 3]])}
    """
    first: Any = values[0] if values else None
    if isinstance(first, Mapping) and all(isinstance(value, Mapping) for value in values):
        for value in values:
            if set(value) != set(first):
                raise UsageError("the samples of a batch have different fields: "
                                 f"{sorted(map(str, value))} and {sorted(map(str, first))}")
        return with_forms({name: [value[name] for value in values] if name in forms
                           else _nested([value[name] for value in values]) for name in first}, forms)
    if forms:
        raise UsageError("pad and ragged are for the fields of samples, but a function returned "
                         f"{type(first).__name__}; return a dict")
    if isinstance(first, tuple) and all(isinstance(value, tuple) and len(value) == len(first)
                                        for value in values):
        return tuple(_nested([value[i] for value in values]) for i in range(len(first)))
    return stacked(values)


def _nested(values: Sequence[Any]) -> Any:
    """Returns the values of a field. Dicts that do not all have the same names stay a list."""
    first: Any = values[0] if values else None
    if isinstance(first, Mapping) and not all(
            isinstance(value, Mapping) and set(value) == set(first) for value in values):
        return list(values)
    return collate(values)


# --- Padded and ragged ---------------------------------------------------------------------


def with_forms(batch: dict[str, Any], forms: Forms) -> dict[str, Any]:
    """Replaces the values of fields, which are lists, by padded or ragged arrays, and adds masks
    and lengths."""
    for name, form in forms.items():
        if name not in batch:
            raise UsageError(f"{'ragged' if form is None else 'pad'}: the samples have no field "
                             f"{name}; available: " + ", ".join(map(str, batch)))
    extras: dict[str, Any] = {}
    for name, form in forms.items():
        batch[name], more = _shaped(batch[name], form, name)
        extras |= more
    for name in extras:
        if name in batch:
            raise UsageError(f"pad: {name} is also a field of the samples; give that field "
                             "another name")
    return batch | extras


def check(sample: Any, forms: Forms) -> None:
    """Raises an error if a value of a sample cannot be padded or ragged, whatever the values of
    the other samples are."""
    for name, form in forms.items():
        if isinstance(sample, Mapping) and name in sample:
            try:
                _tarn.collate_check(_as_array(sample[name]), native_form(form))
            except Exception as error:
                error.add_note(f"field {name}")
                raise


def _as_array(value: Any) -> Any:
    """Returns a value as an array: also lists of numbers, and tensors in main memory."""
    if _is_tensor(value):
        try:
            return value.detach().numpy()
        except (TypeError, RuntimeError) as error:
            raise FormatError(f"a tensor of {value.dtype} on {value.device} cannot be padded or "
                              "joined; convert it to a type of NumPy in main memory") from error
    if isinstance(value, (list, tuple)):
        try:
            value = numpy.asarray(value)
        except ValueError as error:
            raise FormatError(f"a nested list cannot be padded or joined: {error}") from error
    if isinstance(value, (numpy.ndarray, *_NUMBERS)) and _is_known(numpy.asarray(value).dtype):
        return numpy.asarray(value)
    what = f"an array of {value.dtype}" if isinstance(value, numpy.ndarray) else (
        f"a value of type {type(value).__name__}")
    raise FormatError(f"{what} cannot be padded or joined; arrays and lists of numbers can")


def _as_arrays(values: Sequence[Any]) -> tuple[list[Any], bool]:
    """Returns values as arrays, and whether some are tensors."""
    if set(map(type, values)) == {numpy.ndarray} and all(map(_is_known, {value.dtype for value in values})):
        return list(values), False
    arrays = list(map(_as_array, values))
    untyped = [isinstance(value, (list, tuple)) and array.size == 0
               for value, array in zip(values, arrays)]
    types = [array.dtype for array, empty in zip(arrays, untyped) if not empty]
    # An empty list has the type of the others.
    return [array.astype(types[0]) if empty and types else array
            for array, empty in zip(arrays, untyped)], any(map(_is_tensor, values))


def _shaped(values: Sequence[Any], form: Pad | None, field: str) -> tuple[Any, dict[str, Any]]:
    """Returns the value of a field, and the fields that are added."""
    arrays, tensors = _as_arrays(values)
    result = _tarn.collate(arrays, native_form(form), field)
    assert result is not None
    out, mask, lengths, offsets = result
    if tensors:
        import torch

        out = torch.from_numpy(out)
    if form is None:
        return Ragged(out, offsets), {}
    return out, {name: value for name, value in ((f"{field}_mask", mask), (f"{field}_lengths", lengths))
                 if value is not None}
