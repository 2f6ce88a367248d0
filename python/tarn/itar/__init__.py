"""The names of glzn's iTar datasets, on tarn's folds.

>>> import tempfile, tarn
>>> from tarn.itar import iTarDatasetWriter
>>> with tempfile.TemporaryDirectory() as loc:
...     with iTarDatasetWriter("birds", loc, folds=["train", "val"]) as w:
...         w.fold("train").write("kiwi", {"txt": "a bird", "cls": 3})
...     print(tarn.open(loc + "/birds", fold="train")[0]["cls"])
3
"""

from __future__ import annotations

from .encoders import decoder_for, encoder_for
from .writer import iTarDatasetWriter, iTarFoldWriter

__all__ = ["decoder_for", "encoder_for", "iTarDatasetWriter", "iTarFoldWriter"]
