#!/usr/bin/env python3
"""The power fails at every moment of every scenario, and the disk keeps any part of the
    unsynced changes.

A run is recorded by the preloaded library: every write, truncation, rename and sync. From the
record, the test makes disks as a power failure may leave them: at any moment, a write that no fsync
has covered is present, lost or torn, and a change of names is present or lost. In each such state
every target is in its old or its new state, every file with a final name verifies, and everything
that a finished command acknowledged exists. Some states are then completed as a user would.

  test_power.py [--full] [SCENARIO...]     at least 10,000 states; without --full 500
"""
import concurrent.futures
import hashlib
import os
import pathlib
import random
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import SCENARIOS, SHIM, shimmed  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
SLOW = "asan" in SHIM
STATES = 800 if FULL else 4 if SLOW else 23  # of each scenario
JOBS = 2
SECTOR = 512
COMPLETED = 6  # one state in N is completed
NAMES = ("create", "mkdir", "rename", "link", "unlink")
BYTES = ("write", "truncate", "extend")


class Change:
    """One line of the record."""

    def __init__(self, line, data, home):
        self.call, path, other, inode, at, _ = line.split("\t")
        self.path, self.data = path[len(home):], data
        self.inode, self.at = int(inode), int(at)
        self.to = other[len(home):] if other.startswith(home) else None
        self.time = int(other) if other.isdigit() else 0
        self.file = None  # which file's bytes or name it changes


def recorded(path, home):
    out, raw, at = [], path.read_bytes(), 0
    while at < len(raw):
        end = raw.index(b"\n", at)
        line = raw[at:end].decode(errors="surrogateescape")
        size = int(line.rsplit("\t", 1)[1])
        out.append(Change(line, raw[end + 1:end + 1 + size], str(home)))
        at = end + 1 + size
    return out


class Disk:
    """A folder before the run, and the run's changes with the files they affect."""

    def __init__(self, home):
        self.names, self.folders, self.bytes, self.times = {}, {""}, {}, {}
        self.by_inode = {}
        for path in sorted(home.rglob("*")):
            name = str(path)[len(str(home)):]
            if path.is_dir():
                self.folders.add(name)
                continue
            file = len(self.bytes)
            self.names[name], self.by_inode[path.stat().st_ino] = file, file
            self.bytes[file], self.times[file] = path.read_bytes(), path.stat().st_mtime_ns
        self.files = len(self.bytes)

    def resolve(self, changes):
        """Determines which file each change affects; inode numbers are reused."""
        names, inodes = dict(self.names), dict(self.by_inode)
        for change in changes:
            if change.call == "create":
                change.file = names[change.path] = inodes[change.inode] = self.files
                self.files += 1
            elif change.call in ("rename", "link"):
                change.file = names[change.to] = names[change.path]
                if change.call == "rename":
                    del names[change.path]
            elif change.call == "unlink":
                names.pop(change.path, None)
            elif change.call in BYTES:
                change.file = inodes[change.inode]
            elif change.call == "fsync":
                change.file = inodes.get(change.inode)  # none: a folder


def before_cleaning(disk, changes):
    """A commit ends by renaming a folder of parts and removing it, which no reader sees."""
    for number, change in enumerate(changes):
        if change.call == "rename" and change.path in disk.folders:
            return changes[:number]
    return changes


def folders_of(change):
    """Names that a change affects: a link leaves the old name as it is."""
    names = (change.to,) if change.call == "link" else (change.path, change.to)
    return {name.rpartition("/")[0] for name in names if name is not None}


def pending(changes):
    """The numbers of the changes that no sync has covered."""
    out = set()
    for number, change in enumerate(changes):
        if change.call == "fsync" and change.file is not None:
            out -= {n for n in out if changes[n].call in BYTES and changes[n].file == change.file}
        elif change.call == "fsync":
            out -= {n for n in out if changes[n].call in NAMES
                    and change.path in folders_of(changes[n])}
        else:
            out.add(number)
    return out


def torn(rng, change):
    """Some sectors of a write."""
    sectors = range(0, len(change.data), SECTOR)
    if len(sectors) < 2:
        return [(0, change.data[:rng.randrange(len(change.data) + 1)])]
    kept = [at for at in sectors if rng.random() < 0.5]
    return [(at, change.data[at:at + SECTOR]) for at in kept]


def change_bytes(file, change, pieces):
    if change.call == "write":
        for at, data in pieces:
            at += change.at
            if len(file) < at + len(data):
                file.extend(bytes(at + len(data) - len(file)))
            file[at:at + len(data)] = data
    elif change.call == "truncate" and len(file) > change.at:
        del file[change.at:]
    elif len(file) < change.at:
        file.extend(bytes(change.at - len(file)))


def change_names(names, folders, change):
    if change.call == "mkdir":
        folders.add(change.path)
    elif change.call == "create":
        names[change.path] = change.file
    elif change.call == "unlink":
        names.pop(change.path, None)
        folders.discard(change.path)
    else:
        names[change.to] = change.file
        if change.call == "rename" and names.get(change.path) == change.file:
            del names[change.path]


def state_after(disk, changes, lost, ripped, rng):
    """Names, folders, bytes and times when those changes are lost and these writes torn."""
    names, folders = dict(disk.names), set(disk.folders)
    files = {file: bytearray(data) for file, data in disk.bytes.items()}
    times = dict(disk.times)
    for number, change in enumerate(changes):
        if number in lost or change.call == "fsync":
            continue
        if change.call in NAMES:
            change_names(names, folders, change)
        else:
            file = files.setdefault(change.file, bytearray())
            pieces = torn(rng, change) if number in ripped else [(0, change.data)]
            change_bytes(file, change, pieces)
            times[change.file] = change.time
    whole = {name for name in names if name.rpartition("/")[0] in folders}
    return {name: (bytes(files.get(names[name], b"")), times.get(names[name], 0))
            for name in whole}, folders


def ordered_losses(rng, changes, open_changes):
    """Names change in order within a folder, as in journaling file systems."""
    lost = set()
    names = sorted(n for n in open_changes if changes[n].call in NAMES)
    for folder in {f for n in names for f in folders_of(changes[n])}:
        mine = [n for n in names if folder in folders_of(changes[n])]
        lost.update(mine[rng.randrange(len(mine) + 1):])
    return lost


def losses(rng, changes, kind):
    """Which changes are lost and which are torn in one power failure."""
    open_changes = pending(changes)
    if kind == "all":
        return open_changes, set()
    if kind == "bytes":
        return {n for n in open_changes if changes[n].call in BYTES}, set()
    if kind == "names":
        return {n for n in open_changes if changes[n].call in NAMES}, set()
    if kind == "none":
        return set(), set()
    writes = sorted(n for n in open_changes if changes[n].call in BYTES)
    lost = {n for n in writes if rng.random() < 0.5}
    ripped = {n for n in writes if changes[n].call == "write" and rng.random() < 0.4}
    if kind == "ordered":
        return lost | ordered_losses(rng, changes, open_changes), ripped
    names = {n for n in open_changes if changes[n].call in NAMES and rng.random() < 0.5}
    return lost | names, ripped


def states(disk, changes, most, rng):
    """Different states, each with whether the run had finished when the power failed."""
    seen = set()
    moments = [(moment, kind) for moment in range(len(changes) + 1)
               for kind in ("all", "bytes", "names", "none")]
    rng.shuffle(moments)
    moments.sort(key=lambda m: m[0] != len(changes))  # what was acknowledged comes first
    more = ((rng.randrange(len(changes) + 1), rng.choice(("ordered", "any")))
            for _ in range(20 * most))
    for moment, kind in [*moments[:max(most // 2, 8)], *more]:
        if len(seen) >= most:
            return
        lost, ripped = losses(rng, changes[:moment], kind)
        files, folders = state_after(disk, changes[:moment], lost, ripped, rng)
        mark = hashlib.sha1(repr((sorted(files.items()), sorted(folders),
                                  moment == len(changes))).encode()).digest()
        if mark not in seen:
            seen.add(mark)
            yield f"at {moment} of {len(changes)}, {kind} lost", files, folders, \
                moment == len(changes)


def materialise(home, files, folders):
    shutil.rmtree(home, ignore_errors=True)
    for folder in sorted(folders):
        os.makedirs(f"{home}{folder}", exist_ok=True)
    for name, (data, when) in files.items():
        path = pathlib.Path(f"{home}{name}")
        path.write_bytes(data)
        os.utime(path, ns=(when, when))


def attempt(scenario, home, number, state):
    where, files, folders, finished = state
    materialise(home, files, folders)
    try:
        seen = scenario.check_between(home)
        assert not finished or seen == scenario.new, f"was acknowledged, but is gone: {seen}"
        if None in seen.values() or number % COMPLETED == 0:
            scenario.complete(home, "any" not in where)
    except AssertionError as problem:
        return [f"{where}: {problem}"]
    return []


def try_all(scenario, scratch):
    homes = [scratch / f"home{job}" for job in range(JOBS)]
    scenario.prepare(scratch / "template", homes[0])
    scenario.reset(homes[0])
    disk = Disk(homes[0])
    done = shimmed(scenario.command(homes[0]), homes[0], record=scratch / "record")
    assert done.returncode == 0, done.stderr
    changes = recorded(scratch / "record", homes[0])
    changes = before_cleaning(disk, changes)
    disk.resolve(changes)
    assert any(change.call == "fsync" for change in changes), "nothing is synced"
    chosen = list(enumerate(states(disk, changes, STATES, random.Random(scenario.name))))

    def work(job):
        return [problem for number, state in chosen[job::JOBS]
                for problem in attempt(scenario, homes[job], number, state)]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        problems = [p for part in pool.map(work, range(JOBS)) for p in part]
    return problems, len(chosen), len(changes)


def main():
    only = [word for word in sys.argv[1:] if word != "--full"]
    chosen = [s for s in SCENARIOS if not only or s.name in only]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    failed = total = 0
    scratch = pathlib.Path(tempfile.mkdtemp(dir=memory))
    print(f"1..{len(chosen)}")
    for number, scenario in enumerate(chosen, 1):
        problems, count, changes = try_all(scenario, scratch)
        total += count
        failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {number} - {scenario.name} "
              f"({count} states after {changes} changes)", flush=True)
        for problem in problems[:10]:
            print("# " + problem.replace("\n", "\n# "))
    shutil.rmtree(scratch)
    print(f"# figure: {total} states of a disk after a power failure in {len(chosen)} scenarios")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
