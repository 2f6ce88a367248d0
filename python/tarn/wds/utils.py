"""Helpers that several parts of the pipeline share: worker numbers, seeds, stages."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..errors import UnsupportedError


def _secure() -> bool:
    try:
        return bool(int(os.environ.get("WDS_SECURE", "0")))
    except ValueError:
        return True  # any other non-empty value also turns it on


# As in webdataset: gopen refuses local files, pipes and URL rewriting, and pickles are refused.
enforce_security: bool = _secure()


class PipelineStage:
    """A pipeline stage with a method `run(source)`."""

    def invoke(self, *args: Any, **kw: Any) -> Any:
        raise NotImplementedError

    def run(self, *args: Any, **kw: Any) -> Any:
        return self.invoke(*args, **kw)


def identity(x: Any) -> Any:
    """Returns its argument."""
    return x


def is_iterable(obj: object) -> bool:
    """Whether the object is iterable and not a string."""
    return isinstance(obj, Iterable) and not isinstance(obj, (str, bytes))


def make_seed(*parts: object) -> int:
    """Returns a 31-bit number that depends on all parts."""
    seed = 0
    for part in parts:
        seed = (31 * seed + hash(part)) & 0x7FFFFFFF
    return seed


def as_theirs(error: Exception) -> Exception:
    """Returns IsADirectoryError, as open() would raise, if the error is about a folder."""
    path = error.path if isinstance(error, UnsupportedError) else None
    if path is None or not os.path.isdir(path):
        return error
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _environment(number: str, of: str) -> tuple[int, int] | None:
    if number in os.environ and of in os.environ:
        return int(os.environ[number]), int(os.environ[of])
    return None


def _torch_rank(group: Any) -> tuple[int, int]:
    torch = sys.modules.get("torch")  # if torch is not imported, there is no process group
    if torch is None or not hasattr(torch, "distributed"):
        return 0, 1
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    group = group or distributed.group.WORLD
    return distributed.get_rank(group=group), distributed.get_world_size(group=group)


def _torch_worker() -> tuple[int, int]:
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (info.id, info.num_workers) if info is not None else (0, 1)


def pytorch_worker_info(group: Any = None) -> tuple[int, int, int, int]:
    """Returns rank, number of ranks, worker and number of workers, from the environment or torch.

    >>> pytorch_worker_info()
    (0, 1, 0, 1)
    """
    rank = _environment("RANK", "WORLD_SIZE") or _torch_rank(group)
    worker = _environment("WORKER", "NUM_WORKERS") or _torch_worker()
    return (*rank, *worker)


def pytorch_worker_seed(group: Any = None) -> int:
    """Returns a seed that is unique to this rank and worker."""
    rank, _, worker, _ = pytorch_worker_info(group=group)
    return rank * 1000 + worker


def guess_batchsize(batch: Any) -> int:
    """Returns the number of samples in a batch, determined from its first column."""
    return len(batch[0])


def repeatedly(source: Iterable[Any], nepochs: int | None = None, nbatches: int | None = None,
               nsamples: int | None = None,
               batchsize: Callable[[Any], int] = guess_batchsize) -> Iterator[Any]:
    """Repeats a source until one of the limits is reached.

    >>> list(repeatedly([1, 2, 3], nbatches=5))
    [1, 2, 3, 1, 2]
    """
    epoch = batches = samples = 0
    while True:
        for batch in source:
            yield batch
            batches += 1
            if nbatches is not None and batches >= nbatches:
                return
            if nsamples is not None:
                samples += batchsize(batch)
                if samples >= nsamples:
                    return
        epoch += 1
        if nepochs is not None and epoch >= nepochs:
            return
