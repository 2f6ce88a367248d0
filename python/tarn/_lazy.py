"""Samples that decode a field when it is used first: what `Dataset.filter` passes to a function."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from . import _tarn

_MISSING = object()


class LazySample(dict[str, Any]):
    """A sample of a dataset without maps, by its number. It behaves as the dict that the dataset returns. Names
    and single fields do not decode other fields; everything else decodes all."""

    __slots__ = ("_dataset", "_number")

    def __init__(self, dataset: _tarn.Dataset, number: int) -> None:
        super().__init__()
        self._dataset: _tarn.Dataset | None = dataset  # None once all fields are decoded
        self._number = number

    def _all(self) -> LazySample:
        """Decodes the fields that are not decoded yet, and puts all in their order."""
        if self._dataset is not None:
            values = {name: self[name] for name in self._names()}
            self._dataset = None
            super().clear()
            super().update(values)
        return self

    def _names(self) -> list[str]:
        """The names of the fields, without decoding them."""
        dataset = self._dataset
        if dataset is None:
            return list(super().keys())
        names = [name for name in dataset._names
                 if super(LazySample, self).__contains__(name)
                 or dataset._has_field(self._number, name)]
        return list(dict.fromkeys(["__key__", *names, *super().keys()]))

    def __missing__(self, name: str) -> Any:
        dataset = self._dataset
        if dataset is None:
            raise KeyError(name)
        value = dataset._field(self._number, name)
        super().__setitem__(name, value)
        return value

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        dataset = self._dataset
        return dataset is not None and isinstance(name, str) and (
            name == "__key__" or dataset._has_field(self._number, name))

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        return dict.fromkeys(self._names()).keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        return dict.values(self._all())

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        return dict.items(self._all())

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self._all(), other)

    def __ne__(self, other: object) -> bool:
        return dict.__ne__(self._all(), other)

    __hash__ = None

    def __repr__(self) -> str:
        return dict.__repr__(self._all())

    def __or__(self, other: Any) -> Any:
        return dict(self._all()) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self._all())

    def copy(self) -> dict[str, Any]:
        return dict(self._all())

    def __delitem__(self, name: str) -> None:
        dict.__delitem__(self._all(), name)

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        self._all()
        return super().pop(name) if default is _MISSING else super().pop(name, default)

    def popitem(self) -> tuple[str, Any]:
        self._all()
        return super().popitem()

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def clear(self) -> None:
        self._dataset = None
        super().clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self._all()),)
