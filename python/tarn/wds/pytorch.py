"""Torch's classes under the names of webdataset. Importing this module loads torch, if there is
one; the rest of the package does not."""

from __future__ import annotations

from typing import Any

__all__ = ["DataLoader", "IterableDataset", "TorchTensor"]

DataLoader: Any
IterableDataset: Any
TorchTensor: Any

try:
    from torch import Tensor as TorchTensor
    from torch.utils.data import DataLoader, IterableDataset
except ModuleNotFoundError:
    IterableDataset = type("IterableDataset", (), {"__doc__": "Base class without torch."})
    DataLoader = type("DataLoader", (), {"__doc__": "Base class without torch."})
    TorchTensor = type("TorchTensor", (), {"__doc__": "Base class without torch."})
