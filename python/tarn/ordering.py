"""What an order is given: its arguments, checked, and the numbers that fields of samples say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _tarn
from .arguments import whole, word
from .errors import UsageError

SHARES = ("uneven", "drop", "pad")
_NUMBERS = ("batch", "block", "chunk", "draws", "mix", "outer", "pool", "rank", "rounds", "window",
            "world")
_ARRAYS = {"buckets": ("Q", "whole numbers from 0 on"), "classes": ("q", "whole numbers"),
           "lengths": ("Q", "whole numbers from 0 on"), "weights": ("d", "numbers")}


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `Dataset.order`, as what an Order takes."""
    out = dict(options)
    for name, value in options.items():
        if name in ("epoch", "state"):
            raise TypeError(f"order() has no argument {name!r}; see set_epoch, load_state_dict")
        if name in _NUMBERS and value is not None:
            out[name] = whole(name, value)
        if name in _ARRAYS and value is not None:
            out[name] = _kept(name, value)
    if out.get("share") is not None:
        word("share", out["share"], SHARES)
    return out


def _kept(name: str, values: Any) -> Any:
    """The caller's numbers as an array of the dataset's own: he may change his, and arrays of NumPy
    cannot be compared."""
    from array import array

    code, what = _ARRAYS[name]
    plain = {"Q": "uint64", "q": "int64", "d": "float64"}[code]  # not of another byte order
    out = array(code)
    try:
        if str(getattr(values, "dtype", "")) == plain and values.ndim == 1:
            out.frombytes(values.tobytes())
        else:
            out.extend(values.tolist() if hasattr(values, "tolist") else list(values))
    except (OverflowError, TypeError, ValueError):
        raise UsageError(f"{name} is a list or an array of one dimension, of {what}") from None
    return out


def arrays_of(handle: _tarn._Handle, ordering: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an Order: what a field says is read from the samples."""
    out = {name: value for name, value in ordering.items() if value is not None}
    by = out.pop("by", None)
    kind = out.get("kind")
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
        raise UsageError(f"order: {kind!r} is by no field")
    return out
