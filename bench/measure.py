"""Tools for benchmarks: control of the page cache, processes timed
in turns, and tables. Knows nothing about tar or the data sets.

Three things distort naive timings on a small virtual machine, and are handled here:
memory given back to the host is slow when first touched again, so an untimed pass comes right
before each timed one; a file written in small pieces is slow to map and read afterwards, so
files are evicted and re-read before a warm run; and the disk is noisy, so contestants take
turns, the median counts, and results are ratios.
"""
import dataclasses
import os
import shutil
import statistics
import subprocess
import time
from typing import Callable

READ_SIZE = 8 << 20
PYTHON_WRITE_SIZE = 10240


def run(argv, output="/dev/null"):
    """Runs one command and appends its output to a file; returns seconds from start to end."""
    argv = [str(a) for a in argv]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    to_file = [(os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o666)]
    start = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=to_file)
    _, status = os.waitpid(pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"failed with status {os.waitstatus_to_exitcode(status)}: "
                         + " ".join(argv)[:200])
    return seconds


def peak_rss(argv, scratch):
    """Peak resident bytes of a command, or None without GNU time.

    Not getrusage from here: a child's figure starts at its parent's when it was
    spawned, and this Python process may use more memory than the child ever does.
    """
    timer = shutil.which("time")
    if not timer:
        return None
    run([timer, "-f", "%M", "-o", scratch, *argv])
    kib = int(scratch.read_text().split()[-1])
    scratch.unlink()
    return kib * 1024


def evict(paths):
    """Drops files from the page cache; dirty pages stay, hence the sync."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def resident(paths):
    """Bytes of these files in the page cache, or None without util-linux's fincore."""
    if not shutil.which("fincore"):
        return None
    argv = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, paths)]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return sum(map(int, out.split()))


def read_all(paths):
    """Reads files from start to end into one buffer."""
    buffer = bytearray(READ_SIZE)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def warm_in_order(paths):
    """Reads files into the page cache as a sequential read does, in large folios."""
    evict(paths)
    read_all(paths)


def warm_as_written(paths):
    """Reads files into the page cache as Python's tarfile does, in pieces of 10 KB."""
    buffer = memoryview(bytearray(PYTHON_WRITE_SIZE))
    for path in paths:
        copy = path.with_suffix(".part")
        with open(path, "rb") as source, open(copy, "wb", buffering=0) as target:
            while size := source.readinto(buffer):
                target.write(buffer[:size])
            os.fsync(target.fileno())
        os.replace(copy, path)


@dataclasses.dataclass
class Contestant:
    """One way to do a job.

    commands gives the command lines of a pass, which run in order; before runs untimed before each pass; a slow
    contestant takes part in the first round only; target is what its ratio should reach, in words. What it prints goes
    to output.
    """
    name: str
    commands: Callable[[], list]
    before: Callable[[], None] = lambda: None
    slow: bool = False
    target: str = ""
    output: str = "/dev/null"
    times: list = dataclasses.field(default_factory=list)

    def once(self):
        self.before()
        return sum(run(argv, self.output) for argv in self.commands())

    @property
    def median(self):
        return statistics.median(self.times)


def take_turns(contestants, rounds, prime=True):
    """Measures all contestants. prime: an untimed pass right before each timed one."""
    if not prime:
        for c in contestants:
            c.once()
    for turn in range(rounds):
        for c in contestants:
            if c.slow and turn > 0:
                continue
            if prime:
                c.once()
            c.times.append(c.once())


def in_turns(calls, rounds, untimed=0):
    """The results of each call in N rounds, {name: values}: each once, then all again. The first
    untimed rounds fill the caches; their results are dropped."""
    found = {name: [] for name in calls}
    for turn in range(untimed + rounds):
        for name, call in calls.items():
            value = call()
            if turn >= untimed:
                found[name].append(value)
    return found


def medians(found):
    return {name: statistics.median(values) for name, values in found.items()}


def with_unit(value):
    """Three digits and a prefix: 717 k, 5.97 M."""
    for factor, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:.3g}{prefix}"
    return f"{value:.3g}"


def seconds(value):
    """Three digits and a unit: 1.17 s, 14.9 ms, 65.2 µs."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor * (1 - 1e-9):  # a power of ten may compare below itself in floating point
            return f"{value / factor:.0f} {unit}" if value >= 1000 * factor else f"{value / factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


@dataclasses.dataclass
class Report:
    """Prints tables and keeps every row, to write them as JSON."""
    rows: list = dataclasses.field(default_factory=list)

    def title(self, text):
        print(f"\n{text}", flush=True)

    def table(self, bench, data, contestants, work, unit, reference, inverse=False):
        """One line per contestant: median, range, rate and ratio to the contestant named reference.

        work is what one pass does, in units. The ratio is of speed, or with inverse of time.
        """
        base = next(c.median for c in contestants if c.name == reference)
        print(f"  {'':<26}{'median':>11}{'fastest':>11}{'slowest':>11}{unit:>14}"
              f"  {'vs ' + reference:<18}target")
        for c in contestants:
            ratio = c.median / base if inverse else base / c.median
            rate = work / c.median
            print(f"  {c.name:<26}{seconds(c.median):>11}{seconds(min(c.times)):>11}"
                  f"{seconds(max(c.times)):>11}{with_unit(rate):>14}  {f'{ratio:.2f}x':<18}"
                  f"{c.target}", flush=True)
            self.keep(bench, data, c.name, median_s=c.median, times_s=c.times, rate=rate,
                      unit=unit, ratio=ratio, reference=reference, target=c.target)

    def keep(self, bench, data, name, **values):
        self.rows.append({"bench": bench, "data": data, "contestant": name, **values})
