"""The API of glzn's iTar datasets on top of tarn's folds.

>>> import tempfile
>>> from tarn.itar import iTarDataset, iTarDatasetWriter
>>> with tempfile.TemporaryDirectory() as loc:
...     with iTarDatasetWriter("birds", loc, folds=["train", "val"]) as w:
...         w.fold("train").write("kiwi", {"txt": "a bird", "cls": 3})
...     iTarDataset("birds", loc, "train", ["txt", "cls", "_stem"])[0]
('a bird', 3, 'kiwi')

Its modules have the names of glzn's: `glzn.data` in a program is replaced by `tarn.itar`.
docs/compat.md lists the differences from glzn.
"""

from __future__ import annotations

from .dataset import iTarDataset
from .encoders import EncoderDecoder, decoder_for, encoder_for
from .imgbrowser import Browser, BrowserWrapper, browse_dataset
from .itar.entry import iTarState, parse_tar
from .itar.fold import iTarDirectory, iTarFold, iTarRetriever
from .loader import build_dataloader, move_to_device
from .maptrafo import Map, MapAll, MapGrouped, MapTuple
from .sampler import FeistelSampler, IdentitySampler, MultiFeistelSampler, Sampler
from .writer import iTarDatasetWriter, iTarFoldWriter

__all__ = ["Browser", "BrowserWrapper", "EncoderDecoder", "FeistelSampler", "IdentitySampler",
           "Map", "MapAll", "MapGrouped", "MapTuple", "MultiFeistelSampler", "Sampler",
           "browse_dataset", "build_dataloader", "decoder_for", "encoder_for", "iTarDataset",
           "iTarDatasetWriter", "iTarDirectory", "iTarFold", "iTarFoldWriter", "iTarRetriever",
           "iTarState", "move_to_device", "parse_tar"]
