#!/usr/bin/env python3
"""convert, split and merge killed, or refused by the system, at every call that publishes.

A run that nobody disturbs is traced first; then, for each of its calls on the target, strace stops
a fresh run there. After each: a reader sees the target as it was or as it will be, or, where a fold
is being replaced, is told to resume; whatever has its final name is a whole archive; the sources
are as they were; and the command again leads to the complete result with nothing hidden beside it.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.environ.get("TARN", str(ROOT / "build-plain/tarn"))
SLOW = "asan" in TARN
ENV = dict(os.environ, ASAN_OPTIONS="detect_leaks=0", SOURCE_DATE_EPOCH="0")
CALLS = ["openat", "write", "pwrite64", "copy_file_range", "linkat", "fsync", "rename",
         "renameat2", "unlink"]
ALWAYS = {"linkat", "rename", "renameat2", "unlink", "fsync"}  # of the others some places
# EXDEV: shards on another file system cannot be linked, so they are copied.
ERRORS = {"linkat": "EXDEV", "fsync": "EIO", "rename": "EIO", "renameat2": "EIO", "unlink": "EIO",
          "pwrite64": "ENOSPC", "copy_file_range": "EIO"}


def run(*command):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, env=ENV,
                          stderr=subprocess.PIPE, text=True, check=False)


def sure(*arguments):
    done = run(TARN, *arguments)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"


def make_fold(path, prefix, count, per_shard=2):
    """A fold, from files that go again."""
    files = path.parent / f"{prefix}.files"
    files.mkdir(parents=True)
    for number in range(count):
        (files / f"{prefix}{number}.bin").write_bytes(b"%d" % number * 200)
    sure("pack", files, "-o", path, "--max-count", per_shard, "--no-sync", "-q", "-j1")
    shutil.rmtree(files)


def keys(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


class Scenario:
    """A command: what it finds and makes, by fold. again is tried first, and then once more."""

    def __init__(self, name, arguments, old, new, again, in_place=False):
        self.name, self.arguments, self.again, self.in_place = name, arguments, again, in_place
        self.old, self.new = old, new

    def prepare(self, home):
        if home.exists():
            shutil.rmtree(home)
        home.mkdir()
        make_fold(home / "a", "a", 4)
        make_fold(home / "b", "b", 3)
        if self.in_place:
            make_fold(home / "t", "a", 4)
        elif self.old:
            make_fold(home / "t", "o", len(self.old["train"]))

    def command(self, home, more=()):
        words = [w.replace("HOME", str(home)) for w in self.arguments]
        return [TARN, *words, "-q", "-j1", *more]

    def finish(self, home):
        """The command once more, as its user would."""
        again = self.again
        if self.in_place and reader(home, "train") is None:
            sure("merge", "--resume", "-o", f"{home}/t:train", "-q")
            return
        words = [w for w in self.command(home)[1:] if w not in ("--append", "--overwrite")]
        sure(*words, again)


def reader(home, fold):
    """The keys a reader sees; None if it is told that there is no fold."""
    done = run(TARN, "ls", "-1", f"{home}/t:{fold}")
    if done.returncode:
        assert re.search("no shard|resume it|No such file", done.stderr), done.stderr
        return None
    verified = run(TARN, "verify", "-q", f"{home}/t:{fold}")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return done.stdout.split()


def contents(folder):
    """What the shards hold: read to the end by a program that is not ours."""
    out = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                out[path.name, member.name] = archive.extractfile(member).read()
        assert path.stat().st_size % 10240 == 0, f"{path.name} has no end"
    return out


def sources(home):
    return {path: hashlib.sha1(path.read_bytes()).hexdigest()
            for name in "ab" for path in sorted((home / name).iterdir())}


def check_state(scenario, home, complete):
    target = home / "t"
    if not target.exists():
        assert not complete and not scenario.old, "nothing is there"
        return
    contents(target)
    for fold, new in scenario.new.items():
        seen, old = reader(home, fold), scenario.old.get(fold)
        replaced = "--overwrite" in scenario.arguments
        good = seen == new or not complete and (seen == old or seen is None and replaced)
        assert good, f"a reader sees {seen} in {fold}"
    # A lock that nobody holds is in nobody's way.
    left = sorted(name for name in os.listdir(target)
                  if name.startswith(".") and not name.endswith(".tarn-lock"))
    assert not complete or not left, f"left behind: {left}"


def places(scenario, home, trace):
    scenario.prepare(home)
    done = run("strace", "-f", "-qq", "-y", "-o", trace, "-e", "trace=" + ",".join(CALLS),
               *scenario.command(home))
    assert done.returncode == 0, done.stderr
    check_state(scenario, home, True)
    counts, found = {}, {call: [] for call in CALLS}
    for line in pathlib.Path(trace).read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if not match:
            continue
        thread, call, rest = match.groups()
        number = counts[thread, call] = counts.get((thread, call), 0) + 1
        if f"{home}/t" in rest and number not in found[call]:
            found[call].append(number)
    step = 12 if SLOW else 5
    return {call: numbers if call in ALWAYS and not SLOW else numbers[::step]
            for call, numbers in found.items()}


def disturb(scenario, home, call, number, how):
    scenario.prepare(home)
    before = sources(home)
    done = run("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
               "-e", f"inject={call}:{how}:when={number}", *scenario.command(home))
    killed = "signal" in how
    assert not killed or done.returncode in (-9, 137), f"not killed: {done}"
    assert "Sanitizer" not in done.stderr, done.stderr
    if not killed and done.returncode:
        assert done.returncode == 1 and done.stderr.startswith("tarn: "), done
    check_state(scenario, home, not killed and done.returncode == 0)
    assert sources(home) == before, "the sources have changed"
    if killed or done.returncode:
        scenario.finish(home)
    check_state(scenario, home, True)
    assert sources(home) == before, "the sources have changed"


A, B, O = keys("a", 4), keys("b", 3), keys("o", 3)
SCENARIOS = [
    Scenario("convert to a new fold", ["convert", "HOME/a", "HOME/t", "--max-count", "1"],
             {}, {"train": A}, "--resume"),
    Scenario("convert over another fold", ["convert", "HOME/a", "HOME/t", "--max-count", "3",
                                           "--overwrite"],
             {"train": O}, {"train": A}, "--overwrite"),
    Scenario("convert in place", ["convert", "HOME/t", "HOME/t", "--max-count", "3",
                                  "--overwrite"],
             {"train": A}, {"train": A}, "--overwrite", in_place=True),
    Scenario("merge into a new fold", ["merge", "HOME/a", "HOME/b", "-o", "HOME/t"],
             {}, {"train": A + B}, "--resume"),
    Scenario("merge copies", ["merge", "HOME/a", "HOME/b", "-o", "HOME/t", "--copy"],
             {}, {"train": A + B}, "--resume"),
    Scenario("merge behind a fold", ["merge", "HOME/b", "-o", "HOME/t", "--append"],
             {"train": O}, {"train": O + B}, "--resume"),
    Scenario("merge over a fold", ["merge", "HOME/b", "HOME/a", "-o", "HOME/t", "--overwrite"],
             {"train": O}, {"train": B + A}, "--overwrite"),
    Scenario("split by shards", ["split", "HOME/a", "--into", "x=0.5,y=0.5", "--by", "shards",
                                 "--seed", "1", "-o", "HOME/t"],
             {}, {"x": A[2:], "y": A[:2]}, "--resume"),
]


def sweep(scenario, home, where, ways):
    problems, count = [], 0
    for call in CALLS:
        for number in where[call] if ways(call) else ():
            count += 1
            try:
                disturb(scenario, home, call, number, ways(call))
            except AssertionError as problem:
                problems.append(f"{call} {number} {ways(call)}: {problem}")
    return problems, count


def main():
    if not shutil.which("strace"):
        print("1..1\nok 1 - faults # SKIP strace is not installed")
        return 0
    failed = number = 0
    print(f"1..{2 * len(SCENARIOS)}")
    with tempfile.TemporaryDirectory() as scratch:
        home = pathlib.Path(scratch) / "home"
        for scenario in SCENARIOS:
            where = places(scenario, home, f"{scratch}/trace")
            for title, ways in (
                    ("killed", lambda call: "signal=KILL"),
                    ("refused", lambda call: ERRORS.get(call) and f"error={ERRORS[call]}")):
                number += 1
                problems, count = sweep(scenario, home, where, ways)
                failed += bool(problems) or not count
                print(f"{'not ok' if problems or not count else 'ok'} {number} - "
                      f"{scenario.name}, {title} ({count} places)")
                for problem in problems[:5]:
                    print(f"# {problem}")
                sys.stdout.flush()
    return 1 if failed else 0


sys.exit(main())
