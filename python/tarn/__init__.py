"""tarn keeps training data on disk and feeds it to training.

Tar shards with an index, array files (.gnz) and record packs (.iac), all behind one interface.
"""

from __future__ import annotations

import importlib as _importlib

from . import _tarn
from . import errors
from ._tarn import Batch, Order
from .dataset import Dataset, mix, open
from .errors import *  # noqa: F403

__version__: str = _tarn.__version__

# Modules that are imported when they are first asked for: `import tarn` stays quick.
_LAZY = frozenset({"gnz", "iac", "itar", "torch", "wds"})

__all__ = [*errors.__all__, "Batch", "Dataset", "Order", "errors", "mix", "open"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'tarn' has no attribute {name!r}")
    return _importlib.import_module("." + name, __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
