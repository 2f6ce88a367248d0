"""Runs jobs side by side: a job starts when a place is free and what it needs has ended well.

A job is a build, a suite (a program that prints TAP lines) or a single test (a command that must
exit with 0). Jobs start in the order of the list, so the long ones belong to its front. Jobs know
nothing of each other: each has its own scratch folders and asks the system for free ports.
"""
import dataclasses
import os
import queue
import signal
import subprocess
import threading
import time


@dataclasses.dataclass
class Job:
    """A command and what must be built first. kind is "build", "suite" or "test"."""
    name: str
    command: list
    kind: str = "suite"
    env: dict = dataclasses.field(default_factory=dict)
    needs: tuple = ()


@dataclasses.dataclass
class Result:
    """How a job ended: its output, exit status, seconds on the clock and of the processor."""
    output: str
    status: int
    wall: float
    cpu: float


class Runner:
    """Runs jobs in `root`, `places` at a time; no job may take longer than `limit` seconds."""

    def __init__(self, root, places, limit=None):
        self.root, self.places, self.limit = root, places, limit
        self.running = {}
        self.ended = queue.Queue()

    def run(self, jobs):
        """Yields (job, Result) as they end. A job whose needs failed has no Result but None."""
        waiting, good, bad = list(jobs), set(), set()
        try:
            while waiting or self.running:
                for job in [job for job in waiting if bad & set(job.needs)]:
                    waiting.remove(job)
                    bad.add(job.name)
                    yield job, None
                self._start(waiting, good)
                if not self.running:
                    continue
                job, result = self.ended.get()
                del self.running[job.name]
                (bad if result.status else good).add(job.name)
                yield job, result
        finally:
            for child in list(self.running.values()):
                kill(child)

    def _start(self, waiting, good):
        for job in list(waiting):
            if len(self.running) >= self.places:
                return
            if good >= set(job.needs):
                waiting.remove(job)
                self._begin(job)
        if not self.running and waiting:
            raise ValueError(f"jobs that wait for each other: {[job.name for job in waiting]}")

    def _begin(self, job):
        try:
            child = subprocess.Popen(job.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, env={**os.environ, **job.env},
                                     cwd=self.root, text=True, errors="replace", process_group=0)
        except OSError as failure:
            self.running[job.name] = None
            self.ended.put((job, Result(str(failure), 127, 0, 0)))
            return
        self.running[job.name] = child
        threading.Thread(target=self._watch, args=(job, child), daemon=True).start()

    def _watch(self, job, child):
        began = time.monotonic()
        over = threading.Event()
        timer = threading.Timer(self.limit or threading.TIMEOUT_MAX, lambda: (over.set(), kill(child)))
        timer.daemon = True
        timer.start()
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        if over.is_set():
            output += f"\nnot ok - ended after {self.limit} seconds: it hangs\n"
        self.ended.put((job, Result(output, child.returncode, time.monotonic() - began,
                                    usage.ru_utime + usage.ru_stime)))


def kill(child):
    """Ends a job with all that it started."""
    if child and child.returncode is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
