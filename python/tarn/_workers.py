"""Who runs the functions of a loader: the caller, threads, or worker processes (`_processes`).

A pool gets jobs (batches), cuts them into chunks, and has a result for each chunk when `wait`
returns. The results do not depend on the pool. docs/internals/workers.md describes all of it.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Union

import numpy

from . import _results
from ._arguments import whole
from ._results import Layout
from ._work import Failure, Part, Results, Work
from .errors import UsageError

Kind = Literal["caller", "threads", "processes"]
Workers = Union[int, Literal["threads", "processes"], tuple[Literal["threads", "processes"], int]]

MOST = 1024  # workers
LIGHT = 0.004  # seconds that a chunk takes, about, if it has several samples
LEAST = 0.00025  # the same at least, if the batch takes longer
PIECES = 256  # chunks of a batch
TASKS = 2048  # chunks in progress


def kind_of(workers: Any) -> tuple[Kind, int]:
    """Returns the kind and number of workers of the option.

    >>> kind_of(0), kind_of(4), kind_of(("threads", 2))
    (('caller', 0), ('processes', 4), ('threads', 2))
    """
    given = workers if isinstance(workers, tuple) else (workers,)
    if len(given) == 1 and not isinstance(workers, str):
        count = whole("workers", given[0], 0, MOST)
        return ("processes", count) if count else ("caller", 0)
    if given[0] not in ("threads", "processes") or len(given) > 2:
        raise UsageError('workers must be a number of processes, "threads", "processes" or such as '
                         f'("threads", 4), not {workers!r}')
    count = len(os.sched_getaffinity(0)) if len(given) == 1 else whole("workers", given[1], 1, MOST)
    return given[0], count


class Chunk:
    """Consecutive samples of a job, for one worker."""

    __slots__ = ("end", "first", "given", "job", "results", "stored", "task", "tries")

    def __init__(self, job: Job, first: int, end: int) -> None:
        self.job = job
        self.first = first
        self.end = end
        self.given: dict[int, Failure] = {}  # samples that ended their worker
        self.tries: dict[int, int] = {}
        self.task: Any = None  # of the pool, while it is in progress
        self.results: Results | None = None
        # If the values are in the job's memory: those of the columns without a place there.
        self.stored: dict[int, list[Any]] | None = None

    def values(self) -> list[Any]:
        """Returns one result for each sample."""
        if self.stored is None:
            assert self.results is not None
            return list(self.results.values)
        job = self.job
        assert job.layout is not None
        return _results.restore(job.layout, job.memory, self.first, self.end - self.first,
                                len(job.part), self.stored)


class Job:
    """A batch on its way through the functions."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.layout: Layout | None = None
        self.packed = b""  # its pickle, for processes
        self.memory: Any = None  # with a layout, for its arrays
        self.turn = 0  # of a pool of threads, in which it was given out
        self.chunks: list[Chunk] = []

    def end(self) -> None:
        """Lets the memory go as soon as no worker uses it: chunks refer to their job."""
        self.chunks = []

    def retry(self) -> None:
        """Forgets failed results, so that they are computed again."""
        for chunk in self.chunks:
            if chunk.results is not None and chunk.results.failures:
                chunk.results = chunk.stored = None
                chunk.given, chunk.tries = {}, {}


class Pool:
    """Runs chunks. This one does so in the caller's thread, when the batch is requested."""

    count = 0
    prefetch = 0  # batches; 0 is as many as the workers need
    memory: Any = None  # where the native loader should decode

    def __init__(self, work: Work) -> None:
        self.work = work
        self.pid = os.getpid()
        self.per_sample = 0.0  # seconds, a moving average
        self.layout: Layout | None = None

    def cut(self, part: Part) -> Iterator[tuple[int, int]]:
        """Returns the samples of each chunk. Chunks are small, so that workers end together, but not
        so small that giving them out takes longer than they do."""
        chunks = 1.0
        if self.count and not self.work.whole:
            chunks = fair = 2 * self.count
            if self.per_sample:
                seconds = len(part) * self.per_sample
                chunks = min(max(fair, seconds / LIGHT), seconds / LEAST)
            if self.prefetch:  # few batches must be enough for all workers
                chunks = max(chunks, fair / self.prefetch)
        size = max(1, -(-len(part) // max(1, min(PIECES, round(chunks)))))
        for first in range(0, len(part), size):
            yield first, min(first + size, len(part))

    def took(self, samples: int, seconds: float) -> None:
        if samples:
            now = seconds / samples
            self.per_sample = now if not self.per_sample else 0.8 * self.per_sample + 0.2 * now

    def depth(self, jobs: Sequence[Job]) -> bool:
        """Whether another batch should be prepared."""
        return not jobs

    def submit(self, job: Job) -> None:
        job.chunks = [Chunk(job, first, end) for first, end in self.cut(job.part)]

    def wait(self, job: Job) -> None:
        """Returns when every chunk has results, or one has failed and failures are raised."""
        for chunk in job.chunks:
            if chunk.results is None:
                chunk.results = self.work.run(job.part.between(chunk.first, chunk.end), None,
                                              "restore", {})
                if chunk.results.failures and self.work.policy == "raise":
                    return

    def forget(self, jobs: Sequence[Job]) -> None:
        """Drops jobs that nobody waits for."""

    def learn(self, values: Sequence[Any], batch: Any) -> None:
        """Takes the layout of the next batches from one."""
        if self.count and not self.work.whole:
            self.layout = _results.layout_of(values, batch, self.work.forms)

    def close(self) -> None:
        """Ends the workers."""


def _outstanding(jobs: Sequence[Job]) -> int:
    return sum(chunk.results is None for job in jobs for chunk in job.chunks)


class Busy(Pool):
    """A pool that works while the caller does something else."""

    def __init__(self, work: Work, count: int, prefetch: int) -> None:
        super().__init__(work)
        self.count = count
        self.prefetch = prefetch

    def depth(self, jobs: Sequence[Job]) -> bool:
        if _outstanding(jobs) >= TASKS // 2:
            return False
        if self.prefetch:
            return len(jobs) < self.prefetch
        # Enough for all workers while the caller uses one batch, and for those that are done early.
        return len(jobs) < 2 or (_outstanding(jobs) < 4 * self.count and len(jobs) < 4 * self.count + 2)


def _thread(work: Work, tasks: queue.SimpleQueue[Any]) -> None:
    while True:
        task = tasks.get()
        if task is None:
            return
        chunk, done = task
        job, began = chunk.job, time.perf_counter()
        stored = None
        results: Any
        try:
            part: Any = job.part.between(chunk.first, chunk.end)
            results = work.run(part, None, "leave", {})
            if job.layout is not None and not results.failures and not results.whole:
                stored = _results.store(job.layout, results.values, job.memory, chunk.first, len(job.part))
        except BaseException as error:  # raised in the caller
            results = error
        done.put((chunk, results, stored, time.perf_counter() - began))
        del task, chunk, done, job, results, stored
        part = None


class Threads(Busy):
    """Runs chunks in threads of this process, for functions that release the GIL."""

    def __init__(self, work: Work, count: int, prefetch: int) -> None:
        super().__init__(work, count, prefetch)
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._started = False
        self._turn = 0  # interrupts so far
        # The threads keep the queue alive, not the pool, so that it can be collected.
        self._end = weakref.finalize(self, _end_threads, self._tasks, count, os.getpid())

    def _start(self) -> None:
        self._started = True
        for number in range(self.count):
            threading.Thread(target=_thread, args=(self.work, self._tasks), daemon=True,
                             name=f"tarn worker {number}").start()

    def submit(self, job: Job) -> None:
        if not self._started:
            self._start()
        super().submit(job)
        job.turn = self._turn
        job.layout = self.layout
        if job.layout is not None:
            job.memory = numpy.empty(job.layout.offsets(len(job.part))[1], numpy.uint8)
        self._give(job)

    def _give(self, job: Job) -> None:
        for chunk in job.chunks:
            if chunk.results is None and chunk.task is None:
                chunk.task = object()
                self._tasks.put((chunk, self._done))

    def wait(self, job: Job) -> None:
        """After an interrupt, which may have lost results, all jobs start again with new memory: threads
        may still write to the old."""
        if job.turn != self._turn:
            self.submit(job)
        self._give(job)
        while any(chunk.results is None for chunk in job.chunks):
            chunk, results, stored, seconds = self._collected()
            chunk.task = None
            if isinstance(results, BaseException):
                if chunk.job is job:
                    raise results
                chunk.results = Results(None, {-1: Failure(results)})
                continue
            chunk.results, chunk.stored = results, stored
            self.took(chunk.end - chunk.first, seconds)

    def _collected(self) -> Any:
        try:
            return self._done.get()
        except BaseException:
            self._turn += 1
            self._done = queue.SimpleQueue()
            raise

    def close(self) -> None:
        self._end()


def _end_threads(tasks: queue.SimpleQueue[Any], count: int, pid: int) -> None:
    if os.getpid() == pid:
        try:
            while True:
                tasks.get_nowait()
        except queue.Empty:
            pass
        for _ in range(count):
            tasks.put(None)
