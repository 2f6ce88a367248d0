"""The API of glzn's iTar datasets on top of tarn's folds.

>>> import tempfile
>>> from tarn.itar import iTarDataset, iTarDatasetWriter
>>> with tempfile.TemporaryDirectory() as loc:
...     with iTarDatasetWriter("birds", loc, folds=["train", "val"]) as w:
...         w.fold("train").write("kiwi", {"txt": "a bird", "cls": 3})
...     iTarDataset("birds", loc, "train", ["txt", "cls", "_stem"])[0]
('a bird', 3, 'kiwi')

docs/compat.md lists the differences from glzn.
"""

from __future__ import annotations

from .browser import BrowserWrapper
from .dataset import iTarDataset
from .encoders import decoder_for, encoder_for
from .entry import iTarState, parse_tar
from .fold import iTarDirectory, iTarFold, iTarRetriever
from .maptrafo import Map, MapAll, MapGroup, MapTuple
from .sampler import (
    Feistel,
    FeistelSampler,
    Identity,
    IdentitySampler,
    MultiFeistel,
    MultiFeistelSampler,
    Sampler,
)
from .utils import build_dataloader, move_to_device
from .writer import iTarDatasetWriter, iTarFoldWriter

__all__ = ["BrowserWrapper", "Feistel", "FeistelSampler", "Identity", "IdentitySampler", "Map",
           "MapAll", "MapGroup", "MapTuple", "MultiFeistel", "MultiFeistelSampler", "Sampler",
           "build_dataloader", "decoder_for", "encoder_for", "iTarDataset", "iTarDatasetWriter",
           "iTarDirectory", "iTarFold", "iTarFoldWriter", "iTarRetriever", "iTarState",
           "move_to_device", "parse_tar"]
