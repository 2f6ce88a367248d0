"""The epoch of a dataset as processes share it: one sets it, the copies in its workers look."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["checked_epoch", "is_spawning", "shared_number"]


def shared_number(value: int) -> Any:
    """A number of 64 bits, in `.value`, that processes made from this one see too."""
    from multiprocessing.sharedctypes import RawValue

    return RawValue("q", value)


def is_spawning() -> bool:
    """Whether what is pickled now goes to a process that is being started: a shared number can
    be pickled only then."""
    from multiprocessing.context import get_spawning_popen

    return get_spawning_popen() is not None


def checked_epoch(epoch: int) -> int:
    """The epoch as an int; ValueError for one that is negative or does not fit."""
    epoch = operator.index(epoch)
    if not 0 <= epoch < 2**63:
        raise ValueError(f"epoch {epoch}")
    return epoch
