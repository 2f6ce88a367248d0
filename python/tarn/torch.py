"""With torch: the native loader as an IterableDataset.

A `tarn.Dataset` is a map-style dataset already: torch's DataLoader, its samplers and torchdata's
StatefulDataLoader take it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from .dataset import Dataset
from .errors import UsageError

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["Batches", "loader_for"]


class Batches(IterableDataset[dict[str, Any]]):
    """The batches of one rank, as tensors. All ranks have the same number of them.

    It is iterated itself, or by `DataLoader(batches, batch_size=None)`, with at most one worker: the
    loader's threads do what workers would. What a worker takes is not known here: call `set_epoch`
    before each epoch then, or all are the same one, and take states from a loop without a worker.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise UsageError("tarn.torch: the loader has threads of its own; use num_workers=0 or 1")
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state)

    def stats(self) -> dict[str, Any]:
        return self.loader.stats()


def loader_for(dataset: Dataset, rank: int | None = None, world: int | None = None,
               batch_size: int = 64, **options: Any) -> Batches:
    """Native batches for one of several processes; options are those of `Dataset.loader`.

    rank and world are torch.distributed's if they are not given. Every rank gets the same number of
    batches, whose sizes differ by one at most; with share="drop" all are full and the last few samples
    are left out of an epoch, with share="pad" the first few come again. on_error="skip" is not for
    ranks that wait for each other: one that skips samples has fewer batches than the others.

    >>> batches = tarn.torch.loader_for(ds, rank=0, world=2, batch_size=2)
    >>> [batch["cls"].tolist() for batch in batches]
    [[0, 2]]
    """
    share = options.pop("share", "uneven")
    if not isinstance(dataset, Dataset):
        raise UsageError(f"loader_for: {type(dataset).__name__} is not a dataset")
    if rank is None or world is None:
        there = torch.distributed.is_available() and torch.distributed.is_initialized()
        if not there and (rank is not None or world is not None):
            raise UsageError("loader_for: give rank and world, or neither: there is no "
                             "torch.distributed to ask for the other")
        if rank is None:
            rank = torch.distributed.get_rank() if there else 0
        if world is None:
            world = torch.distributed.get_world_size() if there else 1
    if options.pop("shuffle", False):
        dataset = dataset.shuffle(options.pop("seed", 0))
    elif dataset._chosen is not None:
        dataset = dataset._in_file_order()
    part = dataset.shard(rank, world, share=share)
    options.setdefault("as_", "torch")
    ordering = {**(part._ordering or {}), "batch": batch_size, "equal_batches": True}
    even, state = part._with(ordering=ordering), part._state_if_resumed()
    if state is not None:
        even.load_state_dict(state)
    return Batches(even.loader(batch_size, **options))
