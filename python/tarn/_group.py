"""The process group of distributed training: the rank of this process and the number of ranks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ._arguments import whole
from .errors import UsageError

Group = tuple[int, int]  # rank, number of ranks

ALONE: Group = (0, 1)
_reported = False


def process_group() -> Group:
    """Returns the rank and the number of ranks: those of torch.distributed if it is initialized,
    otherwise those that a launcher put into the environment.

    Never imports torch: without an import, no process group can be initialized.
    """
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return int(torch.get_rank()), int(torch.get_world_size())
    return _launched(os.environ)


def _launched(env: Mapping[str, str]) -> Group:
    """
    >>> _launched({"RANK": "1", "WORLD_SIZE": "4"}), _launched({"RANK": "1"})
    ((1, 4), (0, 1))
    """
    rank, world_size = env.get("RANK"), env.get("WORLD_SIZE")
    if not rank or not world_size:
        return ALONE
    try:
        ranks = whole("WORLD_SIZE", int(world_size), 1)
        return whole("RANK", int(rank), 0, ranks - 1), ranks
    except ValueError as error:
        raise UsageError(f"RANK={rank!r} and WORLD_SIZE={world_size!r} in the environment are not "
                         f"those of a process group ({error}); unset them, or pass world_size=1 to "
                         "the loader") from None


def report(group: Group) -> None:
    """Logs on rank 0, once in a process, that loaders divide their samples among the ranks."""
    global _reported
    rank, world_size = group
    if world_size == 1 or _reported:
        return
    _reported = True
    if rank == 0:
        import logging

        logging.getLogger("tarn").warning(
            "tarn: this process is rank 0 of %d, so each loader returns the samples of its rank only; "
            "pass world_size=1 to a loader for all samples", world_size)
