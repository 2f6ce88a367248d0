"""A worker process of a loader: takes tasks until there are no more."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import signal
import time
from typing import Any

from . import _results, _tarn
from ._transfer import Inputs, packed, portable
from ._work import Failure, Part, Work
from .errors import UsageError


class Sent:
    """A descriptor that is given to a new process, whatever its start method is."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        from multiprocessing import reduction

        return _received, (reduction.DupFd(self.fd),)


def _received(handle: Any) -> Sent:
    return Sent(handle.detach())


def main(owner: int, number: int, memory: Any, size: int, connection: Any, given: Any) -> None:
    """Runs a worker. memory is the shared memory, or its descriptor in a process that does not
    inherit it; given is the work, or its pickle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _tarn.end_with(owner)
    if isinstance(memory, Sent):
        fd = memory.fd
        memory = _tarn._Memory(size, fd)
        os.close(fd)
    else:
        gc.freeze()  # what a fork inherited, such as memory of a GPU, is not freed here
    try:
        work = pickle.loads(given) if isinstance(given, bytes) else given
    except BaseException as error:
        connection.send_bytes(pickle.dumps(portable(Failure(_unusable(error)))))
        return
    connection.send_bytes(pickle.dumps(None))
    while (task := memory.take(number)) is not None:
        try:
            answer = _done(work, memory, *task)
        except BaseException as error:  # also SystemExit: the loop ends only with the loader
            answer = (task[0], False, pickle.dumps({-1: portable(Failure(error))}), pickle.dumps(None),
                      [], 0, False, 0.0)
        connection.send_bytes(pickle.dumps(answer, 5))


def _unusable(error: BaseException) -> UsageError:
    import multiprocessing

    return UsageError(
        f"workers: the functions cannot be loaded in a worker process ({type(error).__name__}: {error}). "
        f"With the start method {multiprocessing.get_start_method()!r}, they must be in a module that "
        "can be imported: put functions of a notebook or of a prompt into a file, or use "
        'workers="threads"')


@functools.lru_cache(maxsize=2)
def _layout(data: bytes) -> Any:
    return pickle.loads(data)


def _done(work: Work, memory: Any, task: int, offset: int, size: int) -> tuple[Any, ...]:
    """Returns (task, whether results are stored, failures, pickle, ranges, room needed, whether it
    is one batch, seconds)."""
    began = time.perf_counter()
    inputs = Inputs(memory, offset, size)
    rest, first, count, packed_layout, out, room, given = inputs.about
    layout = _layout(packed_layout)
    part = Part(inputs.columns, *rest)
    inputs.columns = None
    results = work.run(part, (memory, task), "set", given)
    stored = None
    if layout is not None and not results.failures and not results.whole:
        stored = _results.store(layout, results.values, memory.view(*out), first, count)
    fits, whole = stored is not None, results.whole
    try:
        data, ranges, needed = packed(memory, stored if fits else results.values, room)
    except Exception as error:
        raise UsageError("the result of a function cannot be pickled, so a worker process cannot return it: "
                         f"{error}") from error
    failures = {i: failure if i in given else portable(failure)
                for i, failure in results.failures.items()}
    del part, results, stored
    inputs.release()
    return (task, fits, pickle.dumps(failures) if failures else b"", data, ranges, needed, whole,
            time.perf_counter() - began)
