"""Which samples of a dataset are in another one: selections, slices and filters."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy

from . import _tarn
from ._arguments import names, real, whole, word
from ._lazy import LazySample
from .errors import UsageError

if TYPE_CHECKING:
    from typing import Self

Sample = dict[str, Any]
PathLike = Union[str, "os.PathLike[str]"]


class Choosing(_tarn.Dataset):
    """The methods of `tarn.Dataset` that choose samples. Each adds a step to its recipe."""

    if TYPE_CHECKING:
        def _with(self, **changes: Any) -> Self: ...
        def _step(self, method: str, *arguments: Any) -> Self: ...
        def _overrides_getitem(self) -> bool: ...

    def _subscript(self, index: Any) -> Any:
        """Handles what the extension does not: slices, lists, arrays and masks."""
        if isinstance(index, slice):
            return self._slice(range(len(self))[index])
        if getattr(index, "ndim", 1) == 0:
            return self[operator.index(index)]
        if isinstance(index, (bytes, bytearray)) or not isinstance(index, Iterable):
            raise TypeError("expected a position, a key, a slice or a list of positions, "
                            f"not {index!r}")
        return self.select(index)

    def select(self, indices: Iterable[int] | Iterable[bool]) -> Self:
        """Returns the samples at these positions, in this order; positions may repeat.

        `indices` is any sequence or array of positions, or a mask with one bool for each sample.
        `ds[[3, 1]]`, `ds[10:20]` and `ds[array]` do the same. A selection is fixed:
        `ds.shuffle(1)[:100]` has the same 100 samples in every epoch.

        >>> ds.select([3, 1]).keys()
        ['owl', 'jay']
        >>> ds[1:3].keys(), ds[::-1].keys(), ds[[True, False, False, True]].keys()
        (['jay', 'kiwi'], ['owl', 'kiwi', 'jay', 'auk'], ['auk', 'owl'])
        """
        if isinstance(indices, range) and (not indices or 0 <= min(indices)):
            if indices and max(indices) >= len(self):
                raise IndexError(f"{indices} is out of range for {len(self)} samples")
            return self._slice(indices)
        mask = _mask(indices)
        if mask is None:
            return self._step("select", _positions(indices, len(self)))
        if len(mask) != len(self):
            raise IndexError(f"the mask has {len(mask)} values for {len(self)} samples")
        return self._step("select", _positions(numpy.flatnonzero(mask), len(self)))

    def _slice(self, chosen: range) -> Self:
        """Returns the samples at existing positions; the step matters only for two or more."""
        step = chosen.step if len(chosen) > 1 else 1
        return self._step("slice", chosen.start if chosen else 0, step, len(chosen))

    def filter(self, predicate: Callable[[Sample], Any] | None = None, *,
               keys: Iterable[str] | None = None, without: Iterable[str] | None = None,
               json: PathLike | None = None,
               ranges: Iterable[tuple[int, int]] | None = None,
               having: Iterable[str] | None = None, lacking: Iterable[str] | None = None,
               size: Mapping[str, tuple[int, int | None]] | None = None,
               column: Mapping[str, Iterable[Any]] | None = None,
               between: Mapping[str, tuple[float, float]] | None = None,
               missing: Literal["error", "ignore"] = "error") -> Self:
        """Returns the samples that match all conditions, in the same order.

        keys, json: samples with these keys, or with the names in a JSON list. without: samples
            with other keys. A missing one is an error, unless missing="ignore".
        ranges: samples with these numbers, (first, end) each.
        having, lacking: samples that have all of these fields; samples that have none of them.
            "jpg;png" stands for either.
        size: {field: (least, most)} in bytes; most may be None.
        column, between: records with one of some values in a column, or with a number in a range.
        predicate: a function of the sample, called last, for each remaining sample. Only the
            fields that it uses are decoded. After `map` it gets the results of the maps.

        `ds.shuffle(1).filter(f)` is the same as `ds.filter(f).shuffle(1)` and changes with the
        epoch. After a slice, a selection or a shard of an order, a filter keeps the samples in
        their current order and fixes them.

        >>> ds.filter(keys=["kiwi", "owl"]).keys()
        ['kiwi', 'owl']
        >>> ds.filter(without=["kiwi"]).keys()
        ['auk', 'jay', 'owl']
        >>> ds.filter(lambda sample: sample["cls"] > 1, size={"txt": (7, 7)}).keys()
        ['kiwi', 'owl']
        """
        word("missing", missing, ("error", "ignore"))
        ignore = missing == "ignore"
        out = self
        if ranges is not None:
            out = out._step("keep", _ranges(out, ranges))
        if keys is not None:
            out = out._keep("keys", names=names("keys", keys), ignore=ignore)
        if without is not None:
            out = out._keep("without", names=names("without", without), ignore=ignore)
        if json is not None:
            out = out._keep("json", os.path.abspath(os.fspath(json)), ignore=ignore)
        if having is not None:
            out = out._keep("having", names=names("having", having))
        for field in names("lacking", lacking or ()):
            out = out._keep("lacking", field)
        for field, (least, most) in _by_name("size", size):
            out = out._keep("size", field, least=whole("size", least),
                            most=2**64 if most is None else whole("size", most))
        if column is not None and not isinstance(column, Mapping):
            raise UsageError(f"column must be a dict with values for each name, not {column!r}")
        for name, values in (column or {}).items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                values = [values]
            given = list(values)
            out = out._keep("column", name, [str(value) for value in given],
                            numeric=not all(isinstance(value, str) for value in given))
        for name, (low, high) in _by_name("between", between):
            if not real("between", low) <= real("between", high):
                raise UsageError(f"between: the range from {low!r} to {high!r} is empty ({name})")
            out = out._keep("between", name, least=real("between", low), most=real("between", high))
        return out if predicate is None else out._keep_if(predicate)

    def _keep(self, kind: str, name: str | None = None, names: list[str] | None = None, *,
              least: float = 0, most: float = 0, ignore: bool = False,
              numeric: bool = False) -> Self:
        return self._step("filter", kind, name, names, least, most, ignore, numeric)

    def _keep_if(self, predicate: Callable[[Sample], Any]) -> Self:
        judged = self._with(handle=self._handle.judged())
        samples: Iterable[Sample] = judged
        if not (self._maps or self._parts or self._overrides_getitem()):
            samples = _lazy_samples(judged)
        return self._step("keep", bytes(bool(predicate(sample)) for sample in samples))


def _lazy_samples(dataset: Choosing) -> Iterator[Sample]:
    """Returns the samples of a dataset, which decode a field when it is used first."""
    for first in range(0, len(dataset), 1024):
        count = min(1024, len(dataset) - first)
        for number in numpy.asarray(dataset._handle.sequence(first, count)).tolist():
            yield LazySample(dataset, number)


def _positions(indices: Iterable[Any], count: int) -> Any:
    """Returns positions of count samples, in 4 bytes each if possible. A recipe stores them in
    addition to the copy in the chain."""
    found = numpy.asarray(_tarn.positions(indices, count))
    return found.astype(numpy.uint32) if count <= 2**32 else found


def _mask(index: Iterable[Any]) -> list[bool] | None:
    """Returns a mask if index is one (an array, tensor or list of bool), with one bool for each
    sample."""
    dtype = getattr(index, "dtype", None)
    if dtype is None:
        is_mask = (isinstance(index, (list, tuple)) and len(index) > 0
                   and all(type(i) is bool for i in index))
        return index if is_mask else None  # type: ignore[return-value]
    if getattr(dtype, "kind", None) != "b" and str(dtype) != "torch.bool":
        return None
    if index.ndim != 1:  # type: ignore[attr-defined]
        raise IndexError("a mask must have one dimension")
    return index.tolist()  # type: ignore[attr-defined, no-any-return]


def _pairs(name: str, values: Any) -> list[tuple[Any, Any]]:
    """Checks that values are pairs."""
    try:
        return [(one, other) for one, other in values]
    except (TypeError, ValueError):
        raise UsageError(f"{name}: expected pairs, not {values!r}") from None


def _ranges(dataset: Choosing, ranges: Iterable[tuple[int, int]]) -> bytes:
    """Returns a mask of the samples with these numbers."""
    mask = numpy.zeros(len(dataset._handle.judged()), bool)
    for first, end in _pairs("ranges", ranges):
        first, end = whole("ranges", first), whole("ranges", end)
        if not first <= end <= len(mask):
            raise UsageError(f"ranges: ({first}, {end}) is not within {len(mask)} samples")
        mask[first:end] = True
    return mask.tobytes()


def _by_name(name: str, values: Any) -> list[tuple[str, tuple[Any, Any]]]:
    """Returns {name: pair} as a list."""
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise UsageError(f"{name} must be a dict with a pair for each name, not {values!r}")
    return list(zip(values, _pairs(name, values.values())))
