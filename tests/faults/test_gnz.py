#!/usr/bin/env python3
"""tarn pack killed, or refused by the system, at every call that changes the disk.

A new array file, one that replaces another, rows appended in place and an array added in place:
after each the file is as it was or as it is meant to be, at the latest once tarn verify --repair
has finished what the journal tells; a failure is told; no temporary file outlives the next run.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.environ.get("TARN", str(ROOT / "build/tarn"))
DATA = ROOT / "tests/data/gnz"
CALLS = ["write", "pwrite64", "fsync", "rename", "renameat2", "unlink", "fallocate", "ftruncate"]
ERRORS = {"write": "ENOSPC", "pwrite64": "ENOSPC", "fsync": "EIO", "rename": "EIO",
          "renameat2": "EIO", "unlink": "EIO", "fallocate": "ENOSPC", "pread64": "EIO"}
ENV = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # leaks cannot be looked for under ptrace


def tarn(*arguments):
    return subprocess.run([TARN, *map(str, arguments)], stdout=subprocess.PIPE, env=ENV,
                          stderr=subprocess.PIPE, text=True, check=False)


def good(*arguments):
    done = tarn(*arguments)
    assert done.returncode == 0, (arguments, done.stderr, done.stdout)
    return done.stdout


def injected(what, arguments):
    call = what.split(":")[0]
    return subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                           "-e", f"inject={what}", TARN, *map(str, arguments)], env=ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class Job:
    """A command that changes x.gnz, and the two states it may be found in."""

    def __init__(self, name, folder, before, arguments):
        self.name, self.folder, self.before = name, folder, before
        self.path = folder / "x.gnz"
        self.arguments = ["pack", "-q", *arguments, "-o", self.path]
        self.prepare()
        self.old = self.state()
        good(*self.arguments)
        self.new = self.state()
        assert self.old != self.new

    def prepare(self):
        for path in self.folder.iterdir():
            if "x.gnz" in path.name:
                path.unlink()
        if self.before:
            good("pack", "-q", *self.before, "--checksums", "-o", self.path)

    def state(self):
        """What a reader sees; None if there is no file."""
        return good("ls", "--stats", self.path) if self.path.exists() else None

    def check(self, done, killed):
        seen = self.state()
        assert seen in (self.old, self.new), f"a reader sees {seen}"
        if not killed and done.returncode == 0:
            assert seen == self.new, "done, but it cannot be seen"
        if not killed and done.returncode:
            assert done.returncode == 1 and done.stderr.startswith("tarn: "), done
        if seen is not None:
            good("verify", "-q", "--repair", self.path)
            seen = self.state()
            assert seen in (self.old, self.new), f"after repair a reader sees {seen}"
        if seen == self.old:
            good(*self.arguments)
        elif self.before is None or "--overwrite" in self.arguments:
            good(*self.arguments, "--overwrite")
        assert self.state() == self.new
        good("verify", "-q", self.path)
        left = [p.name for p in self.folder.iterdir() if ".tmp-" in p.name]
        assert not left, left


def jobs(folder):
    shutil.copy(DATA / "basic.gnz", folder / "in.gnz")
    good("get", folder / "in.gnz", "x", "-o", folder / "x.npy")
    good("get", folder / "in.gnz", "ids", "-o", folder / "ids.npy")
    x, ids = folder / "x.npy", folder / "ids.npy"
    yield Job("new", folder, None, [x])
    yield Job("overwrite", folder, [ids], [x, "--overwrite", "--checksums"])
    yield Job("append", folder, [x, "--reserve", "9"], [x, "--append"])
    yield Job("add", folder, [x], [ids, "--add", "--checksums"])


def sweep(job, call, how):
    """Every N until a run is not touched any more; the number of runs that were."""
    for number in range(1, 400):
        job.prepare()
        done = injected(f"{call}:{how}:when={number}", job.arguments)
        # Calls of the dynamic loader count too; a tool that cannot start is not tarn's doing.
        if "error while loading shared libraries" in done.stderr:
            continue
        job.check(done, done.returncode in (-9, 137))
        if done.returncode == 0:
            return number - 1
    return number


def main():
    if not shutil.which("strace"):
        print("1..1\nok 1 - faults # SKIP strace is not installed")
        return 0
    ways = [(f"killed at each {call}", call, "signal=KILL") for call in CALLS]
    ways += [(f"{error} at each {call}", call, f"error={error}")
             for call, error in ERRORS.items()]
    failed = number = 0
    with tempfile.TemporaryDirectory() as scratch:
        for job in jobs(pathlib.Path(scratch)):
            places = 0
            for title, call, how in ways:
                try:
                    places += sweep(job, call, how)
                except AssertionError as problem:
                    failed += 1
                    number += 1
                    print(f"not ok {number} - {job.name}, {title}\n# {problem}")
            number += 1
            good_job = places > 5
            failed += not good_job
            print(f"{'ok' if good_job else 'not ok'} {number} - {job.name} ({places} places)")
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())
