"""tarn stores training data on disk and feeds it to training.

One interface to tar shards with an index, array files (.gnz) and record packs (.iac):

>>> import tarn
>>> ds = tarn.open("birds", fields=["txt", "cls"])
>>> ds[0]
{'__key__': 'auk', 'txt': 'An auk.', 'cls': 0}
>>> for batch in ds.loader(batch_size=2, shuffle=True, seed=7):
...     print(batch["__key__"], batch["cls"])
['kiwi', 'auk'] [2 0]
['jay', 'owl'] [1 3]

open            a dataset: samples by position and key, filters, orders, batches
mix             several datasets as one
Dataset         the result of both; see help(tarn.Dataset)
Loader          batches prepared by native threads: Dataset.loader
Pad             how values of different shapes are padded in a batch; Ragged joins them
pack            packs files, folders, manifests and tar streams
commit          publishes what several processes have packed or written
DatasetWriter   writes a dataset; ShardWriter and TarWriter write shards and one archive
open_source     bytes by URL, as a file
Error           base class; subclasses are also KeyError, FileNotFoundError, ValueError ...
tarn.torch      for several processes with torch
tarn.ray        reads and writes with Ray Data
tarn.wds        webdataset's API; tarn.itar, tarn.gnz and tarn.iac are those of other packages

`python -m tarn` runs the command.
"""

from __future__ import annotations

import importlib as _importlib

from . import _tarn
from . import errors
from ._tarn import Batch, Order
from ._dataset import Dataset
from ._loader import Loader
from ._open import mix, open
from ._pad import Pad, Ragged
from .errors import *  # noqa: F403

__version__: str = _tarn.__version__

# Modules that are imported on first use, to keep `import tarn` fast.
_LAZY = frozenset({"gnz", "iac", "itar", "ray", "torch", "wds"})

# Names that are imported on first use, with their modules.
_NAMES = {
    "DatasetWriter": "_write", "ShardWriter": "_write", "TarWriter": "_write", "Written": "_write",
    "Committed": "_pack", "Packed": "_pack", "Turn": "_schedule", "commit": "_pack", "pack": "_pack",
    "expand_urls": "_source", "gopen": "_source", "open_source": "_source",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._pack import Committed, Packed, commit, pack
    from ._schedule import Turn
    from ._source import expand_urls, gopen, open_source
    from ._write import DatasetWriter, ShardWriter, TarWriter, Written

__all__ = [*errors.__all__, "Batch", "Committed", "Dataset", "DatasetWriter", "Loader", "Order",
           "Packed", "Pad", "Ragged", "ShardWriter", "TarWriter", "Turn", "Written", "commit",
           "errors", "expand_urls", "gopen", "mix", "open", "open_source", "pack"]


def __getattr__(name: str) -> object:
    if name in _NAMES:
        return getattr(_importlib.import_module("." + _NAMES[name], __name__), name)
    if name not in _LAZY:
        raise AttributeError(f"module 'tarn' has no attribute {name!r}")
    return _importlib.import_module("." + name, __name__)


def __dir__() -> list[str]:
    """Returns only names that can be imported: help(tarn) gets all of them."""
    from importlib.util import find_spec

    missing = {"torch"} if find_spec("torch") is None else set()
    return sorted({*__all__, *_LAZY, "__version__"} - missing)
