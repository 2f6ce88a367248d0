"""Options for fields whose values have different shapes: padded arrays and ragged arrays."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ._arguments import names, whole, word
from .errors import UsageError

if TYPE_CHECKING:
    from ._tarn import _Form


@dataclass(frozen=True)
class Pad:
    """How the arrays of a field are padded to one shape: `ds.loader(8, pad={"tokens": tarn.Pad(0)})`.

    value: the number that fills the rest. It must be a value of the type of the arrays.
    side: "right" adds it after the elements, "left" before them.
    axes: the padded axes of one sample's array, an int or several; None pads all.
    length: the lengths of the padded axes, one for all or one for each; None uses those of the
        longest sample in the batch.
    multiple: without length, round lengths up to a multiple of this.
    truncate: with length, keep the first elements of longer arrays. Otherwise such a sample
        cannot be used, and `on_error` decides.
    mask: batches also have the field NAME_mask, of bool: True where the values are the sample's.
    lengths: batches also have the field NAME_lengths, of int64: the lengths before padding.

    >>> loader = ds.map(lambda s: {"x": [1] * (1 + s["cls"])}).loader(2, pad={"x": tarn.Pad(-1, mask=True)})
    >>> batch = next(iter(loader))
    >>> batch["x"].tolist(), batch["x_mask"].tolist()
    ([[1, -1], [1, 1]], [[True, False], [True, True]])
    """

    value: float = 0
    side: Literal["right", "left"] = "right"
    axes: int | Sequence[int] | None = None
    length: int | Sequence[int] | None = None
    multiple: int = 1
    truncate: bool = False
    mask: bool = False
    lengths: bool = False

    def __post_init__(self) -> None:
        _number("Pad: value", self.value)
        word("Pad: side", self.side, ("right", "left"))
        if self.axes is not None and not _several("Pad: axes", self.axes, -63):
            raise UsageError("Pad: axes is empty; None pads all axes")
        whole("Pad: multiple", self.multiple, 1, 2**62)
        if self.length is None:
            if self.truncate:
                raise UsageError("Pad: truncate has no effect without length")
        elif not _several("Pad: length", self.length, 0):
            raise UsageError("Pad: length is empty")
        elif self.multiple != 1:
            raise UsageError("Pad: pass length or multiple, not both")

    def _form(self) -> _Form:
        return (_number("value", self.value),
                () if self.axes is None else _several("axes", self.axes, -63),
                () if self.length is None else _several("length", self.length, 0),
                int(self.multiple), self.side == "left", bool(self.truncate), bool(self.mask),
                bool(self.lengths))

    def _extras(self, field: str) -> list[str]:
        """Returns the names of the fields that are added to a batch."""
        return [f"{field}_mask"] * self.mask + [f"{field}_lengths"] * self.lengths


class Ragged(NamedTuple):
    """A field of a batch whose arrays are joined along their first axis. The array of sample i is
    `values[offsets[i]:offsets[i + 1]]`.

    >>> loader = ds.map(lambda s: {"x": [s["cls"]] * s["cls"]}).loader(3, ragged=["x"])
    >>> values, offsets = next(iter(loader))["x"]
    >>> values.tolist(), offsets.tolist()
    ([1, 2, 2], [0, 0, 1, 3])
    """

    values: Any  #: an array, or a tensor
    offsets: Any  #: int64, one more than samples


#: How a field becomes one array; None is ragged.
Forms = Mapping[str, Pad | None]


def _number(name: str, value: Any) -> float:
    """Returns an int or a float; also for bool and numbers of NumPy."""
    try:
        number = operator.index(value)
    except TypeError:
        if isinstance(value, str) or not hasattr(value, "__float__"):
            raise UsageError(f"{name} must be a number, not {value!r}") from None
        return float(value)
    if not -2**63 <= number < 2**63:
        raise UsageError(f"{name} must fit in 64 bits (found {number})")
    return number


def _several(name: str, value: Any, least: int) -> tuple[int, ...]:
    """Returns the whole numbers of one or several."""
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    out = []
    for one in given:
        try:
            number = operator.index(one)
        except TypeError:
            raise UsageError(f"{name} must be whole numbers, not {value!r}") from None
        if not least <= number < (64 if least < 0 else 2**62):
            raise UsageError(f"{name}: {number} is out of range")
        out.append(number)
    if len(out) > 63:
        raise UsageError(f"{name}: an array has at most 63 axes to pad (found {len(out)})")
    return tuple(out)


def forms_of(pad: Any, ragged: Any) -> dict[str, Pad | None]:
    """Returns the forms that the options of a loader give to fields."""
    out: dict[str, Pad | None] = {}
    if pad is not None and not isinstance(pad, Mapping):
        raise UsageError(f"pad must be a dict from fields to numbers or tarn.Pad, not {pad!r}")
    for field, form in (pad or {}).items():
        if not isinstance(field, str):
            raise UsageError(f"pad: {field!r} is not the name of a field")
        out[field] = form if isinstance(form, Pad) else Pad(_number(f"pad[{field!r}]", form))
    for field in names("ragged", ragged):
        if field in out:
            raise UsageError(f"{field} cannot be both padded and ragged")
        out[field] = None
    return out


def native_form(form: Pad | None) -> _Form:
    """Returns a form for the extension."""
    return () if form is None else form._form()
