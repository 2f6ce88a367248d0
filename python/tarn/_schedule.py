"""Which batch of a loader has a sample, and which samples a batch has: the division among ranks
is the loader's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ._group import ALONE, process_group
from ._loader import _divided
from ._ordering import Uneven

if TYPE_CHECKING:
    from ._dataset import Dataset


class Turn(NamedTuple):
    """When a sample is delivered: its batch is number `step` of a rank in an epoch, and `place` is its
    place in the batch. `position` is its position in the epoch, counted over all ranks."""

    epoch: int
    step: int
    rank: int
    place: int
    position: int


def divided(dataset: Dataset, rank: int | None, world_size: int | None, uneven: Uneven | None,
            equal_batches: bool | None) -> tuple[Any, bool]:
    """Returns the dataset, of the same class, as `Dataset.loader` divides it among ranks, and whether
    all of them have the same number of batches."""
    dataset, division, equal = _divided(dataset, rank, world_size, uneven)
    if division is not None:  # divided among the process group
        group = process_group()
        equal = division in ("drop", "pad") or group != ALONE
        if equal:
            dataset = dataset.shard(*group, uneven=division)
    return dataset, bool(equal if equal_batches is None else equal_batches)
