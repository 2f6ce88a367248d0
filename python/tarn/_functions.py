"""The Python part of a loader: batches on their way through functions, and samples that fail there.

Batches of the native loader become jobs of a pool, in order. The caller's thread does everything
here; docs/internals/workers.md describes the rules.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from . import _tarn
from ._pad import Ragged
from ._results import assemble
from ._work import Failure, Part, kept_of, taken
from ._workers import Job, Pool
from .errors import Error, FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._dataset import Dataset

Batch = dict[str, Any]

# : Counts of the native loader that include batches the caller has not received.
COUNTS = ("batches", "samples", "skipped", "bytes", "fallbacks")


class Skipped(NamedTuple):
    """A sample that on_error left out or replaced."""

    epoch: int
    number: int  #: of the sample in the dataset, whatever the order is
    key: str
    reason: str


class _Taken(Job):
    """A batch of the native loader."""

    def __init__(self, batch: Batch, part: Part, before: Mapping[str, Any]) -> None:
        super().__init__(part)
        self.batch = batch
        self.before = before  # counts of the native loader before it
        self.faults: dict[int, Skipped] = {}  # of the native loader, by place


def ragged_of(options: Mapping[str, Any]) -> list[str]:
    """Returns the fields that the native loader makes ragged."""
    return [name for name, form in options["forms"].items() if form == ()]


def with_ragged(batch: Batch, names: Sequence[str]) -> Batch:
    """Gives ragged fields of a native batch their type."""
    for name in names:
        if isinstance(batch[name], tuple):  # not if no sample was ever loaded
            batch[name] = Ragged(*batch[name])
    return batch


class Functions:
    """Batches of the results of the caller's functions.

    The native loader decodes. Its batches are requested before the caller needs them, as many as
    the pool wants, so the position that counts is the one before the first of them.
    """

    def __init__(self, dataset: Dataset, pool: Pool, options: Mapping[str, Any]) -> None:
        self.dataset = dataset
        self.ragged = ragged_of(options)
        self.pool = pool
        self.work = pool.work
        self.pid = os.getpid()
        self.limit = options["error_limit"]
        self.skipped: list[Skipped] = []  # those of all kinds, of the batches that were received
        self.failed = 0  # of these, in Python
        self._jobs: deque[_Taken] = deque()
        self._failure: BaseException | None = None  # of the native loader, after the jobs
        self._native_listed = 0  # of its list of skipped samples
        self._lost = dict.fromkeys(COUNTS, 0)  # counts of batches that were dropped
        self._waited = 0.0  # seconds that the caller waited
        self._ran = 0.0  # of these, for the functions

    @property
    def ahead(self) -> int:
        """How many batches of the native loader the caller has not received."""
        return len(self._jobs)

    def drop(self, native: _tarn.Loader) -> None:
        """Forgets the batches in progress, because the position changes."""
        if self._jobs:
            before, now = self._jobs[0].before, native.stats()
            for name in COUNTS:
                self._lost[name] += now[name] - before[name]
            self.pool.forget(self._jobs)
            for job in self._jobs:
                job.end()
            self._jobs.clear()
        self._failure = None

    def counts(self, native: _tarn.Loader) -> dict[str, Any]:
        """Returns the statistics of the native loader, for the batches that were received."""
        stats = native.stats()
        now = self._jobs[0].before if self._jobs else stats
        counted = {name: now[name] - self._lost[name] for name in COUNTS}
        counted["skipped"] += self.failed
        return {**stats, **counted, "waited": self._waited, "bottleneck": self._bottleneck(stats)}

    def _bottleneck(self, stats: Mapping[str, Any]) -> str:
        """What limits the rate. Threads of the native loader wait if functions are slow, and the
        caller of the native loader does not."""
        if stats["batches"] == 0:
            return "none"
        if self._waited < stats["seconds"] / 20:
            return "caller"
        if 2 * self._ran > self._waited:
            return "functions"
        return "decode" if stats["decode"] > stats["read"] else "read"

    # --- Batches ---

    def next(self, native: _tarn.Loader) -> Any:
        """Returns the next batch, and None for one without samples. After a failure the next call
        tries the same batch again."""
        began = time.perf_counter()
        try:
            return self._next(native)
        finally:
            self._waited += time.perf_counter() - began

    def _next(self, native: _tarn.Loader) -> Any:
        self._fill(native)
        if not self._jobs:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            next(native)  # the end of the epoch
            raise RuntimeError("the loader has more batches than it said")
        job = self._jobs[0]
        if job.part.planned:
            began = time.perf_counter()
            try:
                self.pool.wait(job)
            finally:
                self._ran += time.perf_counter() - began
        batch = self._finished(job, native)
        self._jobs.popleft().end()
        return batch

    def _fill(self, native: _tarn.Loader) -> None:
        while self._failure is None and self.pool.depth(self._jobs) and native.info()["left"]:
            before = native.stats()
            try:
                batch = next(native)
            except Exception as error:
                if not self._jobs:
                    raise
                self._failure = error  # raised when the caller gets there
                return
            self._jobs.append(job := self._job(batch, before, native))
            if job.part.planned:
                self.pool.submit(job)

    def _job(self, batch: Batch, before: Mapping[str, Any], native: _tarn.Loader) -> _Taken:
        numbers, places, positions, planned, epoch = with_ragged(batch, self.ragged).pop("__about__")
        columns = self.work.columns(batch)
        if self.work.policy == "replace" and len(set(places)) < len(places):
            own = [i for i, place in enumerate(places) if place == i]
            columns, batch = taken(columns, own), taken(batch, own)
            numbers, positions, places = ([each[i] for i in own] for each in (numbers, positions, places))
        part = Part(columns, numbers, positions, places, planned, epoch)
        job = _Taken(batch, part, before)
        skipped = native.stats()["skipped"] - before["skipped"]
        if skipped:
            holes = sorted(set(range(planned)).difference(part.slots))
            listed = native.skipped()[self._native_listed:]
            self._native_listed += len(listed)
            job.faults = dict(zip(holes, map(Skipped._make, listed)))
        return job

    def _finished(self, job: _Taken, native: _tarn.Loader) -> Any:
        part, policy = job.part, self.work.policy
        if not part.planned:
            return None
        failures: dict[int, Failure] = {}
        for chunk in job.chunks:
            if chunk.results is not None:
                failures.update({chunk.first + i if i >= 0 else i: failure
                                 for i, failure in chunk.results.failures.items()})
        if -1 in failures:
            job.retry()
            self._raise_of_batch(job, failures[-1])
        if failures and policy == "raise":
            job.retry()
            self._raise(job, min(failures), failures[min(failures)])
        faults = {part.slots[i]: self._skipped(job, i, failure) for i, failure in failures.items()}
        faults.update(job.faults)
        found = [fault for _, fault in sorted(faults.items())]
        before = job.before["skipped"] - self._lost["skipped"] + self.failed
        holes = part.planned - len(part) + len(failures)
        if before + holes > self.limit:
            self._give_up(f"more than {self.limit} samples cannot be used, which is the limit "
                          f"(max_errors); the last one: {found[-1].reason}", failures)
        kept = kept_of(part.slots, failures, part.planned, policy)
        if not kept:
            self._give_up(f"no sample of a batch of epoch {part.epoch} can be used: {found[-1].reason}", failures)
        try:
            batch = self._made(job, kept)
        except Exception as error:
            self._note_batch(job, error)
            raise
        self.skipped += found
        self.failed += len(failures)
        return batch

    def _made(self, job: _Taken, kept: Sequence[int]) -> Any:
        work, part = self.work, job.part
        if work.whole:
            results = job.chunks[0].results
            assert results is not None
            return results.values
        everything = kept == range(len(part))
        if everything and job.layout is not None and all(chunk.stored is not None for chunk in job.chunks):
            rest: dict[int, list[Any]] = {i: [] for i, column in enumerate(job.layout.columns)
                                          if column is None}
            for chunk in job.chunks:
                for i, values in (chunk.stored or {}).items():
                    rest[i] += values
            made = assemble(job.layout, job.memory, len(part), rest, work.join)
        else:
            values = [value for chunk in job.chunks for value in chunk.values()]
            made = work.join([values[i] for i in kept])
            if everything:
                self.pool.learn(values, made)
        if work.by_sample:
            return made
        whole = Part(job.batch, part.numbers, part.positions, part.slots, part.planned, part.epoch)
        return work.complete(whole, kept, made)

    # --- Failures ---

    def _key(self, job: _Taken, i: int) -> str:
        """Returns the key of a sample, also for batches without keys."""
        if "__key__" in job.batch:
            return str(job.batch["__key__"][i])
        return self.dataset._handle.unordered().keys([job.part.numbers[i]])[0]

    def _skipped(self, job: _Taken, i: int, failure: Failure) -> Skipped:
        key = self._key(job, i)
        return Skipped(job.part.epoch, job.part.numbers[i], key, f"sample {key}{failure.reason}")

    @staticmethod
    def _give_up(reason: str, failures: Mapping[int, Failure]) -> NoReturn:
        """Ends on_error. The last exception of a function is the cause."""
        if not failures:
            raise FormatError(reason)
        last = failures[max(failures)]
        _note_trace(last)
        raise FormatError(reason) from last.error

    def _raise(self, job: _Taken, i: int, failure: Failure) -> NoReturn:
        error = failure.error
        error.add_note(f"sample {self._key(job, i)}{failure.where}")
        try:
            error.add_note(f"shard {self.dataset._handle.unordered().shard(job.part.numbers[i])[1]}")
        except Error:  # a kind of dataset without shards
            pass
        _note_trace(failure)
        raise error

    def _raise_of_batch(self, job: _Taken, failure: Failure) -> NoReturn:
        self._note_batch(job, failure.error)
        _note_trace(failure)
        raise failure.error

    def _note_batch(self, job: _Taken, error: BaseException) -> None:
        first, last = self._key(job, 0), self._key(job, len(job.part) - 1)
        error.add_note(f"batch of {len(job.part)} samples, from {first} to {last}")


def _note_trace(failure: Failure) -> None:
    note = f"in a worker process:\n{failure.trace}"
    if failure.trace and note not in getattr(failure.error, "__notes__", ()):  # the batch may be tried again
        failure.error.add_note(note)
