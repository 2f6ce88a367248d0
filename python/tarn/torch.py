"""The native loader as an IterableDataset for torch.

A `tarn.Dataset` is already a map-style dataset: it works with torch's DataLoader, its samplers and
torchdata's StatefulDataLoader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._dataset import Dataset
from ._ordering import Uneven
from .errors import UsageError, shown

if TYPE_CHECKING:
    from typing import Unpack

    from ._functions import Skipped
    from ._loader import Loader
    from ._workers import Workers

__all__ = ["Batches", "loader_for"]


class LoaderOptions(TypedDict, total=False):
    """The options that `loader_for` passes to `Dataset.loader`."""

    threads: int | None
    workers: Workers
    timeout: float | None
    collate: Callable[[list[Any]], Any] | None
    prefetch: int
    epochs: int
    drop_last: bool
    equal_batches: bool | None
    on_error: Literal["raise", "skip", "replace"]
    max_errors: int | None
    keys: bool
    integers: Sequence[str]
    array_type: Literal["numpy", "torch"] | None
    pin_memory: bool | None
    resize: int | Sequence[int] | None
    fit: Literal["stretch", "center", "centre", "random", "exact"] | None
    shorter: int | None
    scale: tuple[float, float] | None
    ratio: tuple[float, float] | None
    flip: float | None
    channels: Literal[1, 3, 4] | None
    dtype: Literal["uint8", "float32", "float16"] | None
    layout: Literal["HWC", "CHW"] | None
    mean: Sequence[float] | None
    std: Sequence[float] | None
    reduce: float | None
    masks: Sequence[str]


class Batches(IterableDataset[dict[str, Any]]):
    """The batches of one rank, as tensors. All ranks have the same number of batches.

    Iterate over it directly, or through `DataLoader(batches, batch_size=None)` with at most one
    worker, because the loader has its own threads. This process does not see the progress of a
    worker: with a worker, use persistent_workers=True or call `set_epoch` before each epoch,
    otherwise all epochs are the same, and save states only in a loop without a worker or in
    torchdata's StatefulDataLoader.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise UsageError("tarn.torch: the loader has its own threads; use num_workers=0 or 1")
        return iter(self.loader)

    def __getstate__(self) -> dict[str, Any]:
        return {"loader": self.loader, "begun": self.loader._begun}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A spawned worker starts an epoch where a forked one does: after one that has begun, the
        next."""
        self.loader = state["loader"]
        self.loader._begun = state["begun"]

    def __len__(self) -> int:
        return len(self.loader)

    def __repr__(self) -> str:
        return shown(f"<tarn.torch.Batches of {self.loader!r}>", is_url=False)

    @property
    def epoch(self) -> int:
        return self.loader.epoch

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state)

    def stats(self) -> dict[str, Any]:
        return self.loader.stats()

    def skipped(self) -> list[Skipped]:
        return self.loader.skipped()


def loader_for(dataset: Dataset, rank: int | None = None, world_size: int | None = None,
               batch_size: int = 64, *, uneven: Uneven | None = None, shuffle: bool = False,
               seed: int = 0, **options: Unpack[LoaderOptions]) -> Batches:
    """Returns native batches of a dataset for one of several processes; options are those of
    `Dataset.loader`. shuffle and seed shuffle all samples before they are divided among the ranks.

    rank and world_size default to those of the process group, as in `Dataset.loader`, unless the
    dataset has a shard. Every rank gets the same number of batches, and batch sizes differ by at
    most one. With uneven="drop" all batches are full, and the last few samples are left out of an
    epoch. With uneven="pad" the first few samples are repeated.

    >>> batches = tarn.torch.loader_for(ds, rank=0, world_size=2, batch_size=2)
    >>> [batch["cls"].tolist() for batch in batches]
    [[0, 2]]
    """
    if not isinstance(dataset, Dataset):
        raise UsageError(f"loader_for: expected a dataset, not {type(dataset).__name__}")
    if (rank is None) != (world_size is None):
        raise UsageError("loader_for: pass both rank and world_size, or neither to use those of the "
                         "process group")
    if shuffle:
        dataset = dataset.shuffle(seed)
    options.setdefault("array_type", "torch")
    return Batches(dataset.loader(batch_size, seed=seed, rank=rank, world_size=world_size,
                                  uneven=uneven, **options))
