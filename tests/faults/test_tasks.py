#!/usr/bin/env python3
"""A task that is killed at any system call, and is then run again, leaves the same part; so does one that runs
twice at the same time. Readers see nothing before the commit."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import SHIM, TARN, files, run, shimmed, sure, tarn  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
SLOW = "asan" in SHIM
TASKS = 3


def words(home, task):
    return ["pack", home / "a.files", "-o", home / "t", "--max-count", "2", "-q", "-j1", "--task", f"{task}/{TASKS}"]


def published(home):
    """The names in the folder, and the bytes of the shards and the index."""
    return {p.name: p.read_bytes() if p.suffix in (".tar", ".taridx") else b"" for p in (home / "t").iterdir()}


def start(home):
    if home.exists():
        shutil.rmtree(home)
    home.mkdir()
    files(home, "a", 11)


def complete(home, tasks=range(TASKS)):
    for task in tasks:
        sure(*words(home, task))
    sure("commit", "-q", home / "t")
    return published(home)


def kills(home, trace):
    start(home)
    done = shimmed([TARN, *words(home, 1)], home, trace=trace)
    assert done.returncode == 0, done.stderr
    calls = {}
    for line in pathlib.Path(trace).read_text(errors="replace").splitlines():
        call = line.split(" ", 2)[1]
        calls[call] = calls.get(call, 0) + 1
        yield calls[call], call


def a_task_killed_at_any_call_is_run_again(home, scratch, want):
    all_calls = list(kills(home, scratch / "trace"))
    trials = [(number, call, how) for number, call in all_calls for how in ("kill", "after")]
    if not FULL:
        trials = random.Random(1).sample(trials, 10 if SLOW else 60)
    for number, call, how in trials:
        start(home)
        sure(*words(home, 0))
        done = shimmed([TARN, *words(home, 1)], home, call=call, at=number, how=how)
        assert done.returncode in (-9, 0), (call, number, how, done.stderr)
        assert tarn("ls", home / "t").returncode == 1, (call, number, how, "a reader sees a part")
        parts = [p.name for p in (home / "t/.train.tasks").glob("*/[0-9]*")]
        assert "00000-of-00003" in parts and set(parts) <= {"00000-of-00003", "00001-of-00003"}, parts
        got = complete(home)
        assert got == want, (call, number, how, sorted(got))
    return f"{len(trials)} of {2 * len(all_calls)} kills"


def tasks_that_run_twice_at_once_leave_one_part(home, _, want):
    rounds = 100 if FULL else 5
    for _ in range(rounds):
        start(home)
        started = [subprocess.Popen([TARN, *map(str, words(home, task))]) for task in (0, 1, 2, 1, 0, 2)]
        assert [p.wait() for p in started] == [0] * len(started)
        sure("commit", "-q", home / "t")
        got = published(home)
        assert got == want, sorted(got)
    return f"{rounds} rounds"


def commits_at_the_same_time_publish_once(home, _, want):
    rounds = 100 if FULL else 5
    for _ in range(rounds):
        start(home)
        for task in range(TASKS):
            sure(*words(home, task))
        started = [subprocess.Popen([TARN, "commit", "-q", str(home / "t")], stderr=subprocess.DEVNULL)
                   for _ in range(3)]
        assert 0 in [p.wait() for p in started]
        assert run([TARN, "commit", "-q", home / "t"]).returncode == 0
        got = published(home)
        assert got == want, sorted(got)
    return f"{rounds} rounds"


def main():
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    scratch = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TARN_SCRATCH", memory)))
    home = scratch / "home"
    start(home)
    want = complete(home)
    tests = [a_task_killed_at_any_call_is_run_again, tasks_that_run_twice_at_once_leave_one_part,
             commits_at_the_same_time_publish_once]
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            print(f"ok {number} - {test.__name__} ({test(home, scratch, want)})", flush=True)
        except AssertionError as problem:
            failed += 1
            print(f"not ok {number} - {test.__name__}\n# {problem}", flush=True)
    shutil.rmtree(scratch)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
