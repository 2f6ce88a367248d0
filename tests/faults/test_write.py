#!/usr/bin/env python3
"""The fold writer is killed, or gets an error, at every call that changes the disk.

An undisturbed run is traced first; then, for each of its calls on the folder, strace stops a fresh
run there, with SIGKILL or with an error. After each, a reader sees the fold in its old or its new
state or, where a fold is being replaced, gets an error that says to resume. Every file with its
final name is a complete archive, a failure is reported, and writing again gives the complete fold
without hidden files beside it.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from writing import ROOT, TOOL, frame  # noqa: E402

TARN = os.environ.get("TARN", str(ROOT / "build-plain/tarn"))
ENV = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # leaks cannot be detected under ptrace
SLOW = "build-asan" in str(TOOL)
SUSPEND = b"\xfe\xff\xff\xff"
# All calls that publish, and some of the others, because each call takes five programs.
ALWAYS = {"rename", "renameat2", "unlink", "fsync"}
CALLS = ["mkdir", "openat", "flock", "fallocate", "pwrite64", "write", "ftruncate", "fsync",
         "rename", "renameat2", "unlink"]
ERRORS = {"mkdir": ["EACCES"], "openat": ["EMFILE"], "flock": ["ENOLCK"],
          "fallocate": ["ENOSPC"], "pwrite64": ["ENOSPC", "EIO"], "write": ["ENOSPC", "EIO"],
          "ftruncate": ["EIO"], "fsync": ["EIO"], "rename": ["EIO"], "renameat2": ["EIO"],
          "unlink": ["EIO"]}


def samples(prefix, count, size=300):
    return [(f"{prefix}{i:02}", {"bin": bytes([i]) * size, "cls": b"%d" % i})
            for i in range(count)]


def run(command, data=b""):
    return subprocess.run(list(map(str, command)), input=data, stdout=subprocess.PIPE, env=ENV,
                          stderr=subprocess.PIPE, check=False)


def write(folder, data, *settings, wrap=()):
    # One thread, so that the N-th call is the same one in every run.
    done = run([*wrap, TOOL, "fold", folder, "train", "threads=1", *settings], data)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode()


def sure(folder, data, *settings):
    code, text, _ = write(folder, data, *settings)
    assert code == 0 and not text, f"{settings}: {text}"


class Scenario:
    """One task of a writer: the folder before, the action, and the result."""

    def __init__(self, name, old, new, settings, prepare, again):
        self.name, self.old, self.new = name, old, new
        self.settings, self.prepare, self.again = settings, prepare, again
        self.data = frame(new)
        self.replaces = "overwrite" in settings

    def reset(self, folder):
        if folder.parent.exists():
            shutil.rmtree(folder.parent)
        self.prepare(folder)

    def state(self, seen):
        whole = self.new if self.replaces else self.old + self.new
        for name, want in (("old", self.old), ("new", whole)):
            if seen == sorted(k for k, _ in want):
                return name
        return None


def nothing(folder):
    del folder


def old_fold(count):
    def prepare(folder):
        sure(folder, frame(samples("a", count)), "max_count=2", "no_sync")
    return prepare


def suspended(folder):
    sure(folder, frame(samples("n", 5)) + SUSPEND, "max_count=2", "no_sync")


def appended_and_suspended(folder):
    old_fold(3)(folder)
    sure(folder, frame(samples("n", 5)) + SUSPEND, "max_count=2", "no_sync", "append")


def half_replaced(folder):
    """An overwrite that was killed after one of two shards got its name."""
    old_fold(5)(folder)
    code, _, _ = write(folder, frame(samples("n", 4)), "overwrite", "max_count=2", wrap=[
        "strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat2:signal=KILL:when=2"])
    assert code in (-9, 137) and (folder / "train_0000.tar").exists()
    assert (folder / ".train_0001.tar.part").exists()


RESUME = ["resume", "skip", "max_count=2"]
BIG = [("big", {"bin": os.urandom(21 << 20)}), ("small", {"bin": b"1"})]
SCENARIOS = [
    Scenario("a new fold", [], samples("n", 6), ["max_count=2"], nothing, RESUME),
    Scenario("an append", samples("a", 3), samples("n", 3), ["append", "max_count=2"],
             old_fold(3), RESUME),
    Scenario("an overwrite", samples("a", 5), samples("n", 4), ["overwrite", "max_count=2"],
             old_fold(5), RESUME),
    Scenario("a resume", [], samples("n", 6), RESUME, suspended, RESUME),
    Scenario("a resumed append", samples("a", 3), samples("n", 6), RESUME,
             appended_and_suspended, RESUME),
    Scenario("a resumed overwrite", [], samples("n", 4), RESUME, half_replaced, RESUME),
    Scenario("a large shard", [], BIG, ["max_count=1"], nothing, ["resume", "skip", "max_count=1"]),
]


def places(scenario, folder, trace):
    """For each call of an undisturbed run on the folder: its numbers (from 1, per thread)."""
    scenario.reset(folder)
    code, text, _ = write(folder, scenario.data, *scenario.settings, wrap=[
        "strace", "-f", "-qq", "-y", "-o", trace, "-e", "trace=" + ",".join(CALLS)])
    assert code == 0, text
    counts, found = {}, {call: set() for call in CALLS}
    for line in pathlib.Path(trace).read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if not match:
            continue
        thread, call, rest = match.groups()
        number = counts[thread, call] = counts.get((thread, call), 0) + 1
        if str(folder) in rest:
            found[call].add(number)
    return {call: sorted(numbers) for call, numbers in found.items()}


def reader(folder):
    """The keys a reader sees; None if the reader reports that the fold does not exist."""
    done = run([TARN, "ls", "-1", f"{folder}:train"])
    if done.returncode:
        told = done.stderr.decode()
        assert re.search("no shard|resume it|No such file", told), told
        return None
    verified = run([TARN, "verify", "-q", f"{folder}:train"])
    assert verified.returncode == 0, verified.stdout.decode() + verified.stderr.decode()
    return sorted(done.stdout.decode().split())


def check_files(folder):
    """Every file with a final name is a complete archive, and so is every finished shard."""
    for path in folder.iterdir() if folder.exists() else ():
        if not path.name.endswith((".tar", ".tar.part")):
            continue
        with tarfile.open(path) as archive:
            for member in archive:
                archive.extractfile(member).read()
        assert path.stat().st_size % 10240 == 0, f"{path.name} has no end"


def contents(folder):
    out = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                out[member.name] = hashlib.sha1(archive.extractfile(member).read()).digest()
    return out


def check_complete(scenario, folder):
    assert scenario.state(reader(folder)) == "new", "the fold is not complete"
    whole = scenario.new if scenario.replaces else scenario.old + scenario.new
    want = {f"{key}.{name}": hashlib.sha1(data).digest()
            for key, fields in whole for name, data in fields.items()}
    assert contents(folder) == want, "the shards hold something else"
    left = sorted(os.listdir(folder))
    assert not [name for name in left if name.startswith(".")], left
    assert "train.tarsum" in left and "train.taridx" in left, left


def write_again(scenario, folder, seen):
    """Resumes; what should have been replaced but still exists is replaced again."""
    if scenario.replaces and seen == "old":
        code, text, _ = write(folder, scenario.data, *scenario.again)
        if any(".part" in name for name in os.listdir(folder)):
            assert code and "overwrite" in text, text
            assert scenario.state(reader(folder)) == "old", "resume changed the old fold"
        else:  # only the old fold exists: resume added to it
            scenario.reset(folder)
        sure(folder, scenario.data, *scenario.settings)
    else:
        sure(folder, scenario.data, *scenario.again)


def disturb(scenario, folder, call, number, how):
    scenario.reset(folder)
    code, text, told = write(folder, scenario.data, *scenario.settings, "stop", wrap=[
        "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
        "-e", f"inject={call}:{how}:when={number}"])
    killed = "signal" in how
    assert not killed or code in (-9, 137), f"not killed: {code} {text}"
    assert "Sanitizer" not in told and code in (0, 1, -9, 137), (code, text, told)
    seen = reader(folder)
    state = "old" if seen is None and not scenario.old else scenario.state(seen)
    assert state or (seen is None and scenario.replaces), f"a reader sees {seen}"
    check_files(folder)
    if not killed:
        assert (code == 0) == (not text), (code, text)
        assert code == 0 or re.match(r"[a-z-]+: /", text), f"unclear message: {text}"
        assert code or state == "new", "said to be done, but is not"
    write_again(scenario, folder, state)
    check_complete(scenario, folder)


def chosen(scenario, call, numbers):
    if call in ALWAYS and scenario.name != "a large shard":
        return numbers[::3] if SLOW else numbers
    step = 8 if SLOW else 4 if scenario.name == "a large shard" else 2
    return numbers[::step]


def sweep(scenario, folder, kinds, where):
    """Disturbs every call in every way; returns the problems, and how many calls there were."""
    problems, count = [], 0
    for call in CALLS:
        for how in kinds(call):
            for number in chosen(scenario, call, where[call]):
                count += 1
                try:
                    disturb(scenario, folder, call, number, how)
                except AssertionError as problem:
                    problems.append(f"{call} {number} {how}: {problem}")
    return problems, count


def refused_and_abandoned(folder):
    """Whatever made a sample fail, abandoning leaves no files."""
    data, count = frame(samples("n", 6)), 0
    for call, error in (("fsync", "EIO"), ("rename", "EIO"), ("pwrite64", "ENOSPC"),
                        ("ftruncate", "EIO"), ("openat", "EMFILE")):
        for number in range(1, 40 if call == "openat" else 8):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            code, text, told = write(folder, data, "max_count=1", "drop", wrap=[
                "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                "-e", f"inject={call}:error={error}:when={number}"])
            assert "Sanitizer" not in told, told
            if code != 3:
                continue
            count += 1
            left = os.listdir(folder)
            assert not left, f"{call} {number}: {text}{left}"
    return count


def shards_killed(folder, where):
    """The shard writer: each shard gets its name when it is complete, and not before."""
    data, count = frame(samples("n", 6)), 0
    target = ["shards", folder / "x_%04d.tar", "max_count=2", "overwrite"]
    for call in ("pwrite64", "ftruncate", "fsync", "rename", "renameat2", "openat"):
        for number in where[call]:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            done = run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                        f"inject={call}:signal=KILL:when={number}", TOOL, *target], data)
            if done.returncode == 0:
                continue
            count += 1
            check_files(folder)
            done = run([TOOL, *target], data)
            assert done.returncode == 0, done.stdout
            names = sorted(os.listdir(folder))
            assert names == [f"x_{i:04}.tar" for i in range(3)], f"{call} {number}: {names}"
    return count


def everywhere(folder):
    return shards_killed(folder, {
        call: range(3, 30) if call == "openat" else range(1, 10) for call in CALLS})


def test_counted(number, title, test, folder):
    try:
        count = test(folder)
        assert count >= 15, f"only {count} places"
        print(f"ok {number} - {title} in {count} places")
        return 0
    except AssertionError as problem:
        print(f"not ok {number} - {title}\n# {problem}")
        return 1


def main():
    if not shutil.which("strace"):
        print("1..1\nok 1 - faults # SKIP strace is not installed")
        return 0
    only = sys.argv[1:]
    scenarios = [s for s in SCENARIOS if not only or s.name in only]
    failed, number = 0, 0
    print(f"1..{2 * len(scenarios) + 2}")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir=memory) as fast:
        for scenario in scenarios:
            # The large one writes files with direct I/O, which needs a disk.
            scratch = disk if scenario.name == "a large shard" else fast
            folder = pathlib.Path(scratch) / "new/fold"
            where = places(scenario, folder, f"{scratch}/trace")
            for title, kinds in (("killed", lambda call: ["signal=KILL"]),
                                 ("refused", lambda call: [f"error={e}" for e in ERRORS[call]])):
                number += 1
                problems, count = sweep(scenario, folder, kinds, where)
                failed += bool(problems)
                print(f"{'not ok' if problems else 'ok'} {number} - {scenario.name}, {title} "
                      f"in {count} places", flush=True)
                for problem in problems:
                    print("# " + problem.replace("\n", "\n# "))
        folder = pathlib.Path(fast) / "other"
        failed += test_counted(number + 1, "shards without an index, killed", everywhere, folder)
        failed += test_counted(number + 2, "a fold that fails and is abandoned, refused",
                               refused_and_abandoned, folder)
    return 1 if failed else 0


sys.exit(main())
