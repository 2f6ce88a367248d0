"""How results become the arrays of a batch without being copied twice: a layout says at which place
of the batch's memory each result goes, so that the thread or process that computes it writes it there.

A layout is taken from a batch that was made without one. It only affects speed: results that do not
fit it are put together by `_collate`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy

from . import _tarn

ALIGN = 64
_SHAPE = operator.attrgetter("shape")
_DTYPE = operator.attrgetter("dtype")


def aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


class Column(NamedTuple):
    """Values that become one array."""

    kind: type  # of each value: numpy.ndarray, a number, or torch.Tensor
    dtype: Any
    shape: tuple[int, ...]  # of one value

    @property
    def bytes(self) -> int:
        return int(self.dtype.itemsize) * math.prod(self.shape)

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether the values may be put here; `put` raises for arrays that differ in other ways."""
        if set(map(type, values)) != {self.kind}:
            return False
        if self.kind in (bool, int, float):
            return True
        if self.kind is numpy.ndarray and self.shape:
            return set(map(len, values)) == {self.shape[0]}
        if set(map(_SHAPE, values)) != {self.shape}:
            return False
        dtypes = set(map(_DTYPE, values))
        if self.kind is numpy.ndarray or issubclass(self.kind, numpy.generic):
            return dtypes == {self.dtype}
        return len(dtypes) == 1 and all(map(_plain, values)) and _numpy_dtype(values[0]) == self.dtype

    def put(self, values: Sequence[Any], out: Any) -> None:
        if self.kind is numpy.ndarray and self.shape:
            numpy.concatenate(values, out=out.reshape(-1, *self.shape[1:]), casting="no")
        elif self.kind is numpy.ndarray or not issubclass(self.kind, (bool, int, float, numpy.generic)):
            for i, value in enumerate(values):
                out[i] = value
        else:
            out[:] = values

    def of(self, array: Any) -> Any:
        """Returns an array of the batch as the type that the batch has."""
        if issubclass(self.kind, (bool, int, float, numpy.generic, numpy.ndarray)):
            return array
        import torch

        return torch.from_numpy(array)

    def one(self, array: Any, i: int) -> Any:
        """Returns value i, as it was put."""
        value = array[i]
        if issubclass(self.kind, (bool, int, float)):
            return value.item()
        return value if issubclass(self.kind, (numpy.generic, numpy.ndarray)) else self.of(value)


def is_tensor(value: Any) -> bool:
    return type(value).__module__ == "torch" and type(value).__name__ == "Tensor"


def _plain(tensor: Any) -> bool:
    """Whether a tensor can be one of NumPy's arrays."""
    return bool(tensor.device.type == "cpu" and tensor.layout.__repr__() == "torch.strided"
                and not tensor.requires_grad and not tensor.is_conj() and not tensor.is_neg())


def _numpy_dtype(tensor: Any) -> Any:
    try:
        return tensor.detach().numpy().dtype
    except TypeError:  # bfloat16
        return None


class Layout(NamedTuple):
    """names are those of the fields of a dict, the length of a tuple, or None for one value."""

    names: tuple[Any, ...] | int | None
    columns: tuple[Column | None, ...]  # None: the values are sent as they are

    def offsets(self, count: int) -> tuple[list[int], int]:
        """Returns where the columns of a batch of count samples are, and their size."""
        out, at = [], 0
        for column in self.columns:
            out.append(at)
            at += 0 if column is None else aligned(column.bytes * count)
        return out, at

    def array(self, number: int, memory: Any, count: int) -> Any:
        """Returns a column of the batch in a buffer."""
        column = self.columns[number]
        assert column is not None
        offset = self.offsets(count)[0][number]
        return _view(memory, column, offset, count)


def _view(memory: Any, column: Column, offset: int, count: int) -> Any:
    flat = numpy.frombuffer(memory, numpy.uint8, column.bytes * count, offset)
    return flat.view(column.dtype).reshape(count, *column.shape)


def _columns_of(names: tuple[Any, ...] | int | None, values: Sequence[Any]) -> list[list[Any]] | None:
    """Returns the values of each field; None if the results do not all have these fields."""
    if names is None:
        return [list(values)]
    if isinstance(names, int):
        if any(type(value) is not tuple or len(value) != names for value in values):
            return None
        return [list(column) for column in zip(*values)]
    return _tarn.columns_of(list(values), names)


def store(layout: Layout, values: Sequence[Any], memory: Any, first: int,
          count: int) -> dict[int, list[Any]] | None:
    """Writes results first, first + 1, ... of a batch of count samples to its memory. Returns the
    values of the columns that are sent as they are, or None if the results do not fit."""
    columns = _columns_of(layout.names, values)
    if columns is None:
        return None
    pairs = list(zip(layout.columns, columns))
    offsets, _ = layout.offsets(count)
    try:
        if not all(column is None or column.fits(found) for column, found in pairs):
            return None
        for offset, (column, found) in zip(offsets, pairs):
            if column is not None:
                column.put(found, _view(memory, column, offset, count)[first:first + len(values)])
    except (OverflowError, TypeError, ValueError):  # an int of more than 64 bits, another type or shape
        return None
    return {i: found for i, (column, found) in enumerate(pairs) if column is None}


def restore(layout: Layout, memory: Any, first: int, size: int, count: int,
            rest: dict[int, list[Any]]) -> list[Any]:
    """Returns the results that were stored."""
    columns = []
    for i, column in enumerate(layout.columns):
        if column is None:
            columns.append(rest[i])
        else:
            array = layout.array(i, memory, count)
            columns.append([column.one(array, j) for j in range(first, first + size)])
    if layout.names is None:
        return columns[0]
    rows = list(zip(*columns))
    return rows if isinstance(layout.names, int) else [dict(zip(layout.names, row)) for row in rows]


def assemble(layout: Layout, memory: Any, count: int, rest: dict[int, list[Any]],
             join: Callable[[Sequence[Any]], Any]) -> Any:
    """Returns the batch of count results, all of which are stored. join makes one of the rest."""
    arrays = [None if column is None else column.of(layout.array(i, memory, count))
              for i, column in enumerate(layout.columns)]
    if layout.names is None:
        return arrays[0] if layout.columns[0] is not None else join(rest[0])
    if isinstance(layout.names, int):
        made = join(list(zip(*rest.values()))) if rest else ()
        others = iter(made)
        return tuple(next(others) if array is None else array for array in arrays)
    names = layout.names
    lists = {names[i]: values for i, values in rest.items()}
    made = join([dict(zip(lists, row)) for row in zip(*lists.values())]) if lists else {}
    out = {name: made[name] if array is None else array for name, array in zip(names, arrays)}
    return {**out, **{name: value for name, value in made.items() if name not in out}}


def layout_of(values: Sequence[Any], batch: Any, without: Collection[str] = ()) -> Layout | None:
    """Returns the layout of results of which a batch was made; None if it cannot have one. The
    fields in without have no place in it; they may add fields to the batch."""
    first = values[0]
    names: tuple[Any, ...] | int | None = None
    made = [batch]
    if type(first) is dict:
        names = tuple(first)
        if type(batch) is not dict or tuple(batch)[:len(names)] != names:
            return None
        if len(batch) != len(names) and not without:
            return None
        made = [None if name in without else batch[name] for name in names]
    elif type(first) is tuple:
        names = len(first)
        if type(batch) is not tuple or len(batch) != names:
            return None
        made = list(batch)
    columns = _columns_of(names, values)
    if columns is None:
        return None
    found = tuple(map(_column, columns, made))
    return Layout(names, found) if any(column is not None for column in found) else None


def _column(values: Sequence[Any], made: Any) -> Column | None:
    kind = type(values[0])
    if is_tensor(values[0]):
        if not is_tensor(made) or not _plain(values[0]) or _numpy_dtype(values[0]) is None:
            return None
        made = made.detach().numpy()
    elif kind not in (bool, int, float, numpy.ndarray) and not issubclass(kind, numpy.generic):
        return None
    shape = tuple(getattr(values[0], "shape", ()))
    if (not isinstance(made, numpy.ndarray) or made.dtype.hasobject or made.dtype.kind not in "biufc"
            or made.shape != (len(values), *shape)):
        return None
    column = Column(kind, made.dtype, shape)
    return column if column.bytes and column.fits(values) else None
