"""One measurement: one contestant, one workload, in a separate process. Takes a task as JSON and
    prints the result as JSON, as its last line.

  python -m peers.work TASK

Warm workloads first run untimed for a third of their time, then until the time is up. A result states the
amount of work, so that rates of different contestants can be compared.
"""
import itertools
import json
import os
import pathlib
import pickle
import random
import resource
import shutil
import statistics
import sys
import time

from peers import load
from peers.data import Data

CHUNK = 512
READS = 1 << 15
TICK = os.sysconf("SC_CLK_TCK")


def descendants(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in path.read_text().split():
                found += [child, *descendants(child)]
        except OSError:
            pass
    return found


def processor_seconds():
    """CPU seconds of this process, of its children that have ended, and of those that are alive."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for pid in descendants(os.getpid()):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / TICK
    return total


class Clock:
    """Wall-clock seconds and CPU seconds from here."""

    def __init__(self):
        self.cpu, self.wall = processor_seconds(), time.perf_counter()

    def found(self, count, **more):
        wall = time.perf_counter() - self.wall
        return {"count": count, "seconds": wall, "cpu": processor_seconds() - self.cpu, **more}


def until(step, seconds):
    """Repeats a step, which returns how much it did, until the time is up."""
    count, end = 0, time.perf_counter() + seconds
    while True:
        count += step()
        if time.perf_counter() >= end:
            return count


def measured(step, task, opened):
    """Warm: an untimed pass first. Cold: a number of samples, read for the first time, with the clock
    started before opening: a contestant that reads all headers then has most of the data in memory."""
    if task.get("reads"):
        clock, count = opened, 0
        while count < task["reads"]:
            count += step()
        return clock.found(count)
    until(step, task["seconds"] / 3)
    clock = Clock()
    return clock.found(until(step, task["seconds"]))


def numbers(task, data):
    """Random sample numbers, different in each round, the same for all contestants."""
    rng = random.Random(task["round"])
    return [rng.randrange(data.samples) for _ in range(READS)]


def sequential(peer, task, data):
    opened = Clock()
    handle = peer.open(task["folder"], data)
    each = data.batch if peer.way == "batches" else 1
    rest = iter(())

    def step():
        nonlocal rest
        count = 0
        for _ in itertools.islice(rest, CHUNK):
            count += each
        if not count:
            rest = iter(peer.iterate(handle))
        return count
    return measured(step, task, opened)


def at_random(peer, task, data):
    opened = Clock()
    handle = peer.open(task["folder"], data)
    get = peer.getter(handle)
    order = itertools.cycle(numbers(task, data))

    def step():
        for i in itertools.islice(order, 64):
            get(i)
        return 64
    return measured(step, task, opened)


def batches(peer, task, data):
    import numpy as np
    opened = Clock()
    handle = peer.open(task["folder"], data)
    get = peer.batcher(handle)
    order = np.array(numbers(task, data)).reshape(-1, data.batch)
    rows = itertools.cycle(order)

    def step():
        get(next(rows))
        return data.batch
    return measured(step, task, opened)


def write(peer, task, data):
    """Once untimed, then three times in a row, of which the fastest counts: newly allocated memory is ten times
    slower where a host has to provide it, and which contestant gets it is random."""
    folder = pathlib.Path(task["scratch"])
    samples = data.some(0, data.samples)
    passes = []
    for _ in range(4):
        shutil.rmtree(folder, ignore_errors=True)
        clock = Clock()
        peer.write(str(folder), samples, data)
        passes.append(clock.found(data.samples))
    shutil.rmtree(folder)
    return min(passes[1:], key=lambda found: found["seconds"])


def fill(peer, task, data):
    """Not a measurement: writes the contestant's own files of all samples."""
    part = pathlib.Path(task["folder"] + ".part")
    shutil.rmtree(part, ignore_errors=True)
    peer.write(str(part), (data.sample(i) for i in range(data.samples)), data)
    size = sum(p.stat().st_size for p in part.rglob("*") if p.is_file())
    extra = peer.index_bytes(str(part))
    payload = data.payload(0, data.samples)
    part.rename(task["folder"])
    return {"count": data.samples, "size": size, "index_bytes": extra, "payload": payload}


def opening(peer, task, data):
    """Time to the first sample: the first in this process, and the median of five more."""
    times = []
    for turn in range(6):
        if turn == 1:
            clock = Clock()
        began = time.perf_counter()
        handle = peer.open(task["folder"], data)
        if peer.does("getter"):
            peer.getter(handle)(data.samples // 2)
        else:
            next(iter(peer.iterate(handle)))
        times.append(time.perf_counter() - began)
        peer.close(handle)
        del handle
    found = clock.found(5, first=times[0])
    found["seconds"] = statistics.median(times[1:])
    found["count"] = 1
    found["cpu"] /= 5
    return found


def growth(peer, task, data):
    """Opening, then random samples."""
    found = opening(peer, task, data)
    rate = at_random(peer, task, data) if peer.does("getter") else None
    return {**found, "random": rate and rate["count"] / rate["seconds"]}


def epoch(peer, task, data):
    """The second epoch: workers have started, files are open."""
    loader = peer.epoch(task["folder"], data, data.batch, 2)
    for turn in range(2):
        clock, count = Clock(), 0
        for images, labels in loader:
            assert tuple(images.shape[1:]) == (224, 224, 3) and len(labels) == len(images)
            count += len(images)
        assert count >= data.samples // data.batch * data.batch, f"only {count} samples"
        found = clock.found(count)
    return found


def begin(peer, task, data):
    steps = data.samples // data.batch // 2
    ids, state = peer.begin(task["folder"], data, data.batch, steps)
    pathlib.Path(task["state"]).write_bytes(pickle.dumps((list(ids), state)))
    return {"count": len(ids), "seconds": 0, "cpu": 0}


def resume(peer, task, data):
    """In another process than begin: time to the first batch, and whether every sample comes once."""
    seen, state = pickle.loads(pathlib.Path(task["state"]).read_bytes())
    clock = Clock()
    rest = iter(peer.resume(task["folder"], data, data.batch, state))
    ids = list(next(rest))
    found = clock.found(1)
    for more in rest:
        ids += more
    both = sorted(map(int, [*seen, *ids]))
    missing = data.samples - len(set(both))
    found.update(lost=missing, repeated=len(both) - len(set(both)),
                 exact=both == list(range(data.samples)))
    return found


def repeated(function, count):
    """Runs it once untimed, and then again."""
    def run(peer, task, data):
        for _ in range(2):
            clock = Clock()
            getattr(peer, function)(task["folder"], data)
            found = clock.found(count(task, data))
        return found
    return run


def tree_bytes(task, _):
    return sum(p.stat().st_size for p in pathlib.Path(task["folder"]).rglob("*") if p.is_file())


def check(peer, task, data):
    """Whether every way of reading returns the samples that were written."""
    handle = peer.open(task["folder"], data)
    expected = [tuple(data.sample(i)[1][f] for f in data.fields) for i in range(data.samples)]
    wrong = []
    if peer.does("iterate") and [peer.plain(s, data) for s in peer.iterate(handle)] != expected:
        wrong.append("iterate")
    some = numbers(task, data)[: data.batch]
    if peer.does("getter") and [peer.plain(peer.getter(handle)(i), data) for i in some] != [expected[i] for i in some]:
        wrong.append("getter")
    if peer.does("batcher"):
        import numpy as np
        found = peer.plain_batch(peer.batcher(handle)(np.array(some)), data)
        if found != [expected[i] for i in some]:
            wrong.append("batcher")
    return {"count": data.samples, "seconds": 0, "cpu": 0, "wrong": wrong}


WORK = {"sequential": sequential, "random": at_random, "batches": batches, "write": write, "fill": fill,
        "open": opening, "growth": growth, "epoch": epoch, "begin": begin, "resume": resume,
        "index": repeated("index", lambda task, data: data.members),
        "verify": repeated("verify", tree_bytes), "check": check}


def perform(task):
    data = Data(task["kind"], task["samples"], task.get("pictures", ""))
    return WORK[task["workload"]](load(task["peer"], task.get("way", "")), task, data)


def main():
    print("\n" + json.dumps(perform(json.loads(sys.argv[1]))), flush=True)
    os._exit(0)  # background work that packages leave at exit does not count


if __name__ == "__main__":
    main()
