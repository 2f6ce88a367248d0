#!/usr/bin/env python3
"""The power fails while a cache of remote files is used: no wrong block is believed.

The states of the disk are those of test_power.py: a write that no sync has covered is present, lost
or torn, and a change of names is present or lost. In each, a cache opens, every block that it says
it has is right, and it can be filled again.

  test_power_cache.py [--full]
"""
import pathlib
import random
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import BUILD, run, shimmed  # noqa: E402
from test_power import (BYTES, FULL, Disk, materialise, pending, recorded,  # noqa: E402
                        state_after, states)

TOOL = str(BUILD / "tests/cache_tool")
STATES = 1500 if FULL else 60
URL, SIZE = "https://host/birds/a.tar", 12 * 4096 + 100


def tool(what, home, etag="1"):
    return [TOOL, what, f"{home}/c", "birds", URL, etag, SIZE]


def without_data(disk, changes, rng):
    """At every moment, the map with all entries, and of the data what was synced, or half of it."""
    for moment in range(1, len(changes) + 1):
        writes = {n for n in pending(changes[:moment])
                  if changes[n].call in BYTES and not changes[n].path.endswith(".blocks")}
        ripped = {n for n in writes if rng.random() < 0.5 and changes[n].call == "write"}
        lost = {n for n in writes - ripped if changes[n].call == "write"}
        files, folders = state_after(disk, changes[:moment], lost, ripped, rng)
        yield f"at {moment} of {len(changes)}, data lost", files, folders, False


def attempt(home, number, state):
    where, files, folders, _ = state
    problems, there = [], set()
    materialise(home, files, folders)
    for etag in ("1", "other"):
        done = run(tool("check", home, etag))
        if done.returncode:
            problems.append(f"{where}: {etag}: {done.stderr}")
            continue
        there.add(int(done.stdout.split()[0]))
        if number % 4 == 0:
            run(tool("fill", home, etag))
            done = run(tool("check", home, etag))
            if "complete" not in done.stdout:
                problems.append(f"{where}: {etag} cannot be filled: {done.stdout}{done.stderr}")
    return problems, there


def main():
    scratch = pathlib.Path(tempfile.mkdtemp())
    home = scratch / "home"
    home.mkdir()
    disk = Disk(home)
    done = shimmed(tool("story", home), home, record=scratch / "record")
    assert done.returncode == 0, done.stderr
    changes = recorded(scratch / "record", home)
    disk.resolve(changes)
    assert any(change.call == "fsync" for change in changes), "nothing is synced"
    problems, some = [], 0
    rng = random.Random("cache")
    chosen = [*without_data(disk, changes, rng), *states(disk, changes, STATES, rng)]
    for number, state in enumerate(chosen):
        found, there = attempt(home, number, state)
        problems += found
        some += any(0 < count < SIZE // 4096 for count in there)
    shutil.rmtree(scratch)
    if not some:
        problems.append("no state has a part of an object")
    print(f"1..1\n{'not ok' if problems else 'ok'} 1 - cache "
          f"({len(chosen)} states after {len(changes)} changes, {some} with a part)")
    for problem in problems[:10]:
        print("# " + problem.replace("\n", "\n# "))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
