"""tarn keeps training data on disk and feeds it to training.

Tar shards with an index, array files (.gnz) and record packs (.iac), all behind one interface.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

from . import _tarn
from . import errors
from .errors import *  # noqa: F403

__version__: str = _tarn.__version__

# What is imported when it is first asked for, and from where: `import tarn` stays quick. A
# name that stands for itself is a module.
_LAZY = {
    "DatasetWriter": "write",
    "ShardWriter": "write",
    "TarWriter": "write",
    "Written": "write",
    "expand_urls": "source",
    "gnz": "gnz",
    "gopen": "source",
    "iac": "iac",
    "itar": "itar",
    "open_source": "source",
    "torch": "torch",
    "wds": "wds",
}

__all__ = [*errors.__all__, "errors"]


def __getattr__(name: str) -> object:
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module 'tarn' has no attribute {name!r}")
    module = _importlib.import_module("." + home, __name__)
    value = module if home == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
