"""Arguments of orders: checks them, and reads the numbers that come from sample fields."""

from __future__ import annotations

from typing import Any, Literal

import numpy

from . import _tarn
from ._arguments import whole
from .errors import UsageError

Kind = Literal["shuffle", "blocks", "lengths", "balanced", "weighted", "weighted-once", "identity",
               "feistel", "buckets"]
Uneven = Literal["keep", "drop", "pad"]
UNEVEN = ("keep", "drop", "pad")

_ARRAYS = {"buckets": (numpy.uint64, "non-negative whole numbers"),
           "classes": (numpy.int64, "whole numbers"),
           "lengths": (numpy.uint64, "non-negative whole numbers"),
           "weights": (numpy.float64, "numbers")}


# The options of each kind, besides kind and seed.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "shuffle": (), "identity": (), "blocks": ("block", "window"),
    "lengths": ("chunk", "pool", "lengths"), "balanced": ("draws", "classes"),
    "weighted": ("draws", "weights"), "weighted-once": ("draws", "weights"),
    "feistel": ("rounds",), "buckets": ("rounds", "mix", "buckets"),
}


def order_arguments(handle: _tarn._Handle, by: str | None,
                    options: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an order: the given ones, and those read from a field."""
    out = {name: value for name, value in options.items() if value is not None}
    kind = out["kind"]
    for name in out:
        if kind in _OPTIONS and name not in ("kind", "seed", *_OPTIONS[kind]):
            raise UsageError(f"order: {name} is not an option of {kind!r}")
    for name, value in out.items():
        if name in _ARRAYS:
            out[name] = _numbers(name, value)
        elif name not in ("kind", "seed"):
            out[name] = whole(name, value)
    if kind == "buckets" and "buckets" not in out:
        out["buckets"] = handle.shard_counts()
    if by is None:
        return out
    if kind == "lengths":
        out["lengths"] = handle.sizes(by)
    elif kind == "balanced":
        out["classes"] = handle.integers(by)
    elif kind in ("weighted", "weighted-once"):
        out["weights"] = handle.numbers(by)
    else:
        raise UsageError(f'order: by= is only for "lengths", "balanced", "weighted" and '
                         f'"weighted-once", not for {kind!r}')
    return out


def _numbers(name: str, values: Any) -> Any:
    """Copies the caller's numbers into a new array."""
    dtype, what = _ARRAYS[name]
    try:
        given = numpy.asarray(values.tolist() if hasattr(values, "tolist") else list(values))
        if given.size == 0:
            given = given.astype(dtype)
        if given.ndim != 1 or given.dtype.kind not in ("iuf" if dtype is numpy.float64 else "iu"):
            raise TypeError
        if dtype is numpy.uint64 and given.dtype.kind == "i" and given.size and given.min() < 0:
            raise ValueError
        return given.astype(dtype)
    except (OverflowError, TypeError, ValueError):
        raise UsageError(f"{name} must be a list or a one-dimensional array of {what}") from None
