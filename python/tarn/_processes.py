"""Worker processes of a loader: started once, replaced when they die, ended with the loader.

The shared memory, the tasks in it and the rules for both are in python/ext/arena.c and tasks.c;
what travels is in `_transfer`, and what a worker does in `_worker`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import time
import weakref
from collections.abc import Sequence
from typing import Any

from . import _tarn, _transfer, _worker
from ._results import Layout, aligned
from ._work import Failure, Results, Work
from ._workers import Busy, Chunk, Job
from .errors import UsageError, WorkerError

DEATHS = 3  # of workers at one sample, after which the sample is the reason
STARTS = 20  # consecutive workers that were killed before they were ready
GRACE = 0.3  # seconds for a function to return when the loader is closed


class _Worker:
    """One process."""

    def __init__(self, number: int, process: Any, connection: Any) -> None:
        self.number = number
        self.process = process
        self.connection = connection
        self.ready = False
        try:
            self.ended = os.pidfd_open(process.pid)
        except OSError:  # Linux before 5.3
            self.ended = os.dup(process.sentinel)

    def describe_end(self) -> str:
        self.process.kill()  # it may have closed its connection without ending
        self.process.join()
        code = self.process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def close(self) -> None:
        self.connection.close()
        os.close(self.ended)
        self.process.join()
        self.process.close()


class _Team:
    """The processes of a pool, without the pool, so that it can be collected and end them."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.pid = os.getpid()
        self.workers: dict[int, _Worker] = {}  # by both of their descriptors
        self.poll = select.epoll()

    def add(self, worker: _Worker) -> None:
        for fd in (worker.connection.fileno(), worker.ended):
            self.workers[fd] = worker
            self.poll.register(fd, select.EPOLLIN)

    def remove(self, worker: _Worker) -> None:
        for fd in (worker.connection.fileno(), worker.ended):
            del self.workers[fd]
            self.poll.unregister(fd)
        worker.close()

    def end(self) -> None:
        """Ends all workers: those in a function after a moment, because they keep nothing."""
        if self.pid != os.getpid():
            return
        self.memory.stop()
        until = time.monotonic() + GRACE
        workers = set(self.workers.values())
        for worker in workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
        for worker in workers:
            self.remove(worker)


class _Task:
    """A chunk that was given out, and the memory that its worker uses."""

    def __init__(self, chunk: Chunk, block: Any, kept: Any, room: tuple[int, int]) -> None:
        self.chunk = chunk
        self.block = block
        self.kept = kept
        self.room = room


class Processes(Busy):
    """Runs chunks in processes."""

    def __init__(self, work: Work, count: int, prefetch: int, timeout: float | None) -> None:
        super().__init__(work, count, prefetch)
        self.memory = _tarn._Memory(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        self.timeout = timeout
        self._room = 0.0  # bytes of results per sample that have no place in a layout
        self._tasks: dict[int, _Task] = {}
        self._late: set[int] = set()  # workers that were ended because of the timeout
        self._failed_starts = 0
        self._given: Any = None
        self._packed: tuple[Layout | None, bytes] = (None, pickle.dumps(None))  # a layout and its pickle
        self._team = _Team(self.memory)
        self._end = weakref.finalize(self, self._team.end)

    # --- Processes ---

    def _start(self) -> None:
        self.memory.start()
        for number in range(self.count):
            self._spawn(number)

    def _spawn(self, number: int) -> None:
        context: Any = multiprocessing.get_context()
        forks = context.get_start_method() == "fork"
        given: Any = self.work
        if not forks:
            if self._given is None:
                self._given = _pickled(self.work, context.get_start_method())
            given = self._given
        ours, theirs = context.Pipe(duplex=False)
        memory = self.memory if forks else _worker.Sent(self.memory.fd)
        process = context.Process(target=_worker.main, daemon=True, name=f"tarn worker {number}", args=(
            os.getpid(), number, memory, self.memory.size, theirs, given))
        try:
            process.start()
        except AssertionError as error:
            raise UsageError("workers: a daemonic process, such as a worker of a DataLoader, cannot start "
                             f'processes; use workers="threads" or workers=0 ({error})') from None
        finally:
            theirs.close()
        self._team.add(_Worker(number, process, ours))

    def _stop(self) -> None:
        """Ends all processes; chunks in progress are given out again later."""
        self._team.end()
        for number, task in self._tasks.items():
            task.chunk.task = None
            self.memory.done(number)
        self._tasks.clear()

    def close(self) -> None:
        if self.pid == os.getpid():
            self._stop()

    # --- Tasks ---

    def submit(self, job: Job) -> None:
        super().submit(job)
        if self.layout is not self._packed[0]:
            self._packed = (self.layout, pickle.dumps(self.layout, 5))
        job.layout, job.packed = self._packed
        self._give(job)

    def _give(self, job: Job) -> None:
        """Gives out the chunks without results."""
        chunks = [chunk for chunk in job.chunks if chunk.results is None and chunk.task is None]
        if not chunks:
            return
        if not self._team.workers:
            self._start()
        if len(chunks) == len(job.chunks):
            arrays = job.layout.offsets(len(job.part))[1] if job.layout is not None else 0
            rooms = [aligned(int(1.25 * self._room * (chunk.end - chunk.first))) for chunk in chunks]
            job.memory = self.memory.allocate(arrays + sum(rooms))
            at = job.memory.offset + arrays
        else:  # some were tried before: without room
            at, rooms = job.memory.offset, [0] * len(chunks)
        for chunk, room in zip(chunks, rooms):
            block, kept = self._message(chunk, (at, room))
            chunk.task = self.memory.put(block.offset, len(block))
            self._tasks[chunk.task] = _Task(chunk, block, kept, (at, room))
            at += room

    def _message(self, chunk: Chunk, room: tuple[int, int]) -> tuple[Any, Any]:
        job = chunk.job
        part = job.part.between(chunk.first, chunk.end)
        out = (job.memory.offset, len(job.memory))
        about = ((part.numbers, part.positions, part.slots, part.planned, part.epoch), chunk.first,
                 len(job.part), job.packed, out, room, chunk.given)
        return _transfer.message(self.memory, about, part.columns)

    def depth(self, jobs: Sequence[Job]) -> bool:
        return super().depth(jobs) and not (jobs and self.memory.used > self.memory.size // 4)

    def forget(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            for chunk in job.chunks:
                if chunk.task is not None and self.memory.cancel(chunk.task):
                    del self._tasks[chunk.task]

    def wait(self, job: Job) -> None:
        """Also collects the results of other jobs. After any exception the processes are ended, and
        the next call starts them again: an interrupt may have lost a message."""
        try:
            self._give(job)
            while any(chunk.results is None for chunk in job.chunks):
                pause = -1 if self.timeout is None else max(0.01, min(1.0, self.timeout / 4))
                for fd, _ in self._team.poll.poll(pause):
                    worker = self._team.workers[fd]
                    if not self._attend(worker, fd == worker.ended):
                        break  # its descriptors may be those of another one now
                if self.timeout is not None:
                    self._end_late(self.timeout)
        except BaseException:
            self._stop()
            raise

    def _attend(self, worker: _Worker, ended: bool) -> bool:
        """Takes the messages of a worker; replaces it if it has ended, and returns False."""
        while not ended or worker.connection.poll():
            try:
                message = worker.connection.recv_bytes()
            except (EOFError, OSError):  # also in the middle of a message
                break
            self._take(worker, message)
            if not ended:
                return True
        self._bury(worker)
        return False

    def _take(self, worker: _Worker, message: bytes) -> None:
        answer = pickle.loads(message)
        if not worker.ready:
            if isinstance(answer, Failure):
                raise answer.error
            worker.ready = True
            self._failed_starts = 0
            return
        number, fits, failures, data, ranges, needed, whole, seconds = answer
        task = self._tasks[number]
        chunk = task.chunk
        value = _transfer.results(data, ranges, chunk.job.memory, task.room)
        found = pickle.loads(failures) if failures else {}
        if fits:
            _check_stored(chunk, value)
            chunk.stored = value
        elif not whole and -1 not in found and (type(value) is not list or len(value) != chunk.end - chunk.first):
            raise WorkerError("a worker sent results of other samples")
        chunk.results = Results(None if fits else value, found, whole)
        chunk.task = None
        del self._tasks[number]
        self.memory.done(number)
        samples = chunk.end - chunk.first
        self.took(samples, seconds)
        self._room = max(0.98 * self._room, needed / samples)

    # --- Deaths ---

    def _bury(self, worker: _Worker) -> None:
        """Replaces a worker that has ended, and gives its task out again."""
        why = worker.describe_end()
        late = worker.number in self._late
        self._late.discard(worker.number)
        code = worker.process.exitcode
        self._team.remove(worker)
        if not worker.ready:
            self._failed_starts += 1
            if code is None or code >= 0 or self._failed_starts == STARTS:
                raise WorkerError(
                    f"a worker process ended before it was ready ({why}); its output may say why. With "
                    'the start methods "spawn" and "forkserver", a script must create the loader in a '
                    'function that is called after if __name__ == "__main__":')
        for number, task in list(self._tasks.items()):
            holder, at, _ = self.memory.progress(number)
            if holder == worker.number:
                self._again(number, task, at, why, late)
        self._spawn(worker.number)

    def _again(self, number: int, task: _Task, at: int, why: str, late: bool) -> None:
        chunk = task.chunk
        size = chunk.end - chunk.first
        at = min(at, size)
        if not late:
            chunk.tries[at] = chunk.tries.get(at, 0) + 1
            if chunk.tries[at] == DEATHS:
                chunk.given[at] = Failure(WorkerError(
                    f"the function ended its worker process {DEATHS} times ({why})"))
        if at == size and at in chunk.given:  # a function of the whole batch
            chunk.results = Results(None, {-1: chunk.given.pop(at)})
            chunk.task = None
            del self._tasks[number]
            self.memory.done(number)
            return
        task.block, task.kept = self._message(chunk, task.room)
        self.memory.again(number, task.block.offset, len(task.block))

    def _end_late(self, timeout: float) -> None:
        """Ends workers that have been at one sample for too long."""
        for number, task in self._tasks.items():
            holder, at, seconds = self.memory.progress(number)
            if holder < 0 or seconds <= timeout or holder in self._late:
                continue
            chunk = task.chunk
            chunk.given[min(at, chunk.end - chunk.first)] = Failure(TimeoutError(
                f"the function took longer than {timeout:g} s (timeout)"))
            for worker in set(self._team.workers.values()):
                if worker.number == holder:
                    self._late.add(holder)
                    worker.process.kill()


def _check_stored(chunk: Chunk, value: Any) -> None:
    layout = chunk.job.layout
    size = chunk.end - chunk.first
    expected = None if layout is None else [i for i, column in enumerate(layout.columns) if column is None]
    if type(value) is not dict or list(value) != expected or any(
            type(values) is not list or len(values) != size for values in value.values()):
        raise WorkerError("a worker sent results of other samples")


def _pickled(work: Work, method: str) -> bytes:
    try:
        return pickle.dumps(work)
    except Exception as error:
        raise UsageError(
            f"workers: the functions cannot be sent to a worker process ({type(error).__name__}: {error}); "
            f"with the start method {method!r} they must be defined at the top of a module: no lambda, no "
            'function in a function. Or use multiprocessing.set_start_method("fork"), or '
            'workers="threads"') from error
