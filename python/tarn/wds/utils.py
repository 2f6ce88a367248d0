"""Helpers that several parts of the pipeline share: worker numbers, seeds, stages."""

from __future__ import annotations

import errno
import functools
import glob
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from typing import Any

from .. import _tarn
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


# Characters that mean something in lists of URLs, and nothing in braces.
_HIDE = {ord(c): 0xF0000 + ord(c) for c in ":*?[]"}
_SHOW = {hidden: c for c, hidden in _HIDE.items()}


def expand_braces(pattern: str) -> list[str]:
    """Expands braces and nothing else.

    >>> expand_braces("*.{tar,tgz}")
    ['*.tar', '*.tgz']
    """
    return [text.translate(_SHOW) for text in _tarn.expand_urls(pattern.translate(_HIDE))]


def glob_with_braces(pattern: str) -> list[str]:
    """Returns the files that match a pattern with braces."""
    return [path for each in expand_braces(pattern) for path in glob.glob(each)]


def fnmatch_with_braces(filename: str, pattern: str) -> bool:
    """Whether a name matches a pattern with braces."""
    return any(fnmatch(filename, each) for each in expand_braces(pattern))


def make_seed(*args: object) -> int:
    """Returns a 31-bit number that depends on all arguments."""
    seed = 0
    for part in args:
        seed = (31 * seed + hash(part)) & 0x7FFFFFFF
    return seed


def as_theirs(error: Exception) -> Exception:
    """Returns IsADirectoryError, as open() would raise, if the error is about a folder."""
    path = error.path if isinstance(error, UnsupportedError) else None
    if path is None or not os.path.isdir(path):
        return error
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def compute_sample_weights(n_w_pairs: Iterable[tuple[float, float]]) -> Any:
    """Returns number times weight of each pair, as an array whose largest value is 1."""
    import numpy as np

    weighted = np.array([number * weight for number, weight in n_w_pairs])
    return weighted / np.amax(weighted)


def repeatedly0(loader: Iterable[Any], nepochs: int = sys.maxsize,
                nbatches: int = sys.maxsize) -> Iterator[Any]:
    """Repeats the first nbatches items of a source."""
    for _ in range(nepochs):
        yield from itertools.islice(loader, nbatches)


class ObsoleteException(Exception):
    """An obsolete function was called; ALLOW_OBSOLETE=1 in the environment permits it."""


def obsolete(func: Any = None, *, reason: str | None = None) -> Any:
    """Decorates a function that may only be called with ALLOW_OBSOLETE=1."""
    if func is None:
        return functools.partial(obsolete, reason=reason)

    @functools.wraps(func)
    def checked(*args: Any, **kw: Any) -> Any:
        if not int(os.environ.get("ALLOW_OBSOLETE", "0")):
            why = f" Reason: {reason}" if reason is not None else ""
            raise ObsoleteException(f"Call to obsolete function {func.__name__}. "
                                    f"Set env ALLOW_OBSOLETE=1 to permit.{why}")
        return func(*args, **kw)

    return checked


def deprecated(arg: Any = None) -> Any:
    """Decorates a function that warns when it is called; `arg` is the function or a reason."""
    if not callable(arg):
        return functools.partial(_deprecated, reason=arg)
    return _deprecated(arg)


def _deprecated(func: Callable[..., Any], reason: str | None = None) -> Callable[..., Any]:
    @functools.wraps(func)
    def warning(*args: Any, **kw: Any) -> Any:
        why = f" Reason: {reason}" if reason is not None else ""
        warnings.warn(f"Call to deprecated function {func.__name__}.{why}",
                      category=DeprecationWarning, stacklevel=2)
        return func(*args, **kw)

    return warning


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
