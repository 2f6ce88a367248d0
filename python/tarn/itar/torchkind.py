"""TorchKind: a base class whose objects are torch datasets once torch is imported."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

__all__ = ["TorchKind"]


@lru_cache(maxsize=None)
def _combined(cls: type, base: type) -> type:
    if issubclass(cls, base):
        return cls
    return type(cls.__name__, (cls, base), {"__module__": cls.__module__,
                                            "__qualname__": cls.__qualname__})


class TorchKind:
    """Base of map-style datasets. `isinstance(x, torch.utils.data.Dataset)` is true if torch is
    imported, also if that happens after the object is made. Torch is never imported here, except
    for `a + b`, which is torch's ConcatDataset.
    """

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        # isinstance asks for it if type() is not enough.
        data = sys.modules.get("torch.utils.data")
        base = getattr(data, "Dataset", None)  # None while torch is being imported
        return type(self) if base is None else _combined(type(self), base)  # type: ignore[arg-type]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # By default pickle refuses objects whose __class__ is not their type().
        return _blank, (type(self),), self.__getstate__()

    def __add__(self, other: Any) -> Any:
        from torch.utils.data import ConcatDataset, Dataset

        both: list[Dataset[Any]] = [self, other]  # type: ignore[list-item]
        return ConcatDataset(both)


def _blank(cls: type) -> Any:
    return object.__new__(cls)
