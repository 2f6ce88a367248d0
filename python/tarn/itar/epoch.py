"""The epoch of a dataset, shared between processes: one sets it, and copies in its workers read
it."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["checked_epoch", "is_spawning", "shared_number"]


def shared_number(value: int) -> Any:
    """Returns a 64-bit number, in `.value`, that is shared with processes started from this
    one."""
    from multiprocessing.sharedctypes import RawValue

    return RawValue("q", value)


def is_spawning() -> bool:
    """Whether the object being pickled goes to a process that is being started. Only then can a
    shared number be pickled."""
    from multiprocessing.context import get_spawning_popen

    return get_spawning_popen() is not None


def checked_epoch(epoch: int) -> int:
    """Returns the epoch as an int; raises ValueError if it is negative or too large."""
    epoch = operator.index(epoch)
    if not 0 <= epoch < 2**63:
        raise ValueError(f"epoch must be from 0 to 2**63 - 1 (found {epoch})")
    return epoch
