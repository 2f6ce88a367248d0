#!/usr/bin/env python3
"""Every call on the disk that a command makes fails once, in each way it can; and the tool is
    killed before and after each.

After a failure: the command reports the path and the reason, or succeeded; each target is in its
old or its new state; the sources are unchanged; running the command again completes the work and
leaves no hidden files. Interrupted and short transfers are not failures.

  test_calls.py [--full] [SCENARIO...]     without --full a sample of the calls
"""
import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import SCENARIOS, SHIM, shimmed, ways  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
SLOW = "asan" in SHIM
SAMPLE = 8 if SLOW else 24  # trials of each scenario in the short form, and as many kills
KILLED_EVERYWHERE = {"pack after a fold", "commit a new fold", "commit after a fold", "commit over a fold", "commit an index"}
# Scenarios in which an error was found once: every call, in the short form too.
FOUND = {("convert to a new fold", "stat"), ("repair an array file", "access"),
         ("repair a fold", "fstat"), ("pack new arrays", "fstat"), ("append rows", "fstat")}
# Every failed sync in one scenario of each format, in the short form too.
SYNCED = {"pack after a fold", "pack new arrays", "pack a new pack"}
JOBS = 2
CHANGES = {"create", "write", "pwrite", "fsync", "rename", "link", "unlink", "ftruncate",
           "fallocate", "mkdir", "copy_file_range"}


def calls_of(scenario, home, trace):
    scenario.reset(home)
    done = shimmed(scenario.command(home), home, trace=trace)
    assert done.returncode == 0, done.stderr
    out, counts = [], collections.Counter()
    for line in pathlib.Path(trace).read_text(errors="replace").splitlines():
        call = line.split(" ", 2)[1]
        counts[call] += 1
        out.append((counts[call], call))
    assert len(out) > 10, out
    return out


def trials_of(calls):
    for number, call in calls:
        for name, how, passes in ways(call):
            yield number, call, name, how, passes


def kills_of(calls):
    for number, call in calls:
        yield number, call, "killed before", "kill", False
        if call in CHANGES:
            yield number, call, "killed after", "after", False


def sample(trials, size, seed):
    """Some of every kind of call, those that change the disk first."""
    trials = list(trials)
    if FULL or len(trials) <= size:
        return trials
    found = [trial for trial in trials if (seed, trial[1]) in FOUND and trial[3] != "kill" or
             seed in SYNCED and trial[1:3] == ("fsync", "EIO")]
    return found + sample_others([t for t in trials if t not in found], size, seed)


def sample_others(trials, size, seed):
    rng = random.Random(seed)
    kinds = collections.defaultdict(list)
    for trial in trials:
        kinds[trial[1], trial[2]].append(trial)
    order = sorted(kinds, key=lambda kind: (kind[0] not in CHANGES, rng.random()))
    chosen = [rng.choice(kinds[kind]) for kind in order[:size * 3 // 4]]
    return chosen + rng.sample(trials, size - len(chosen))


def told(done, home, call, reason):
    """A failure message has a path and the system's reason; but if the type of a file could not be
    determined, the message may say that the type is wrong."""
    assert done.returncode == 1, f"exit status {done.returncode}: {done.stderr}{done.stdout}"
    assert str(home) in done.stderr + done.stdout, f"no path: {done.stderr}{done.stdout}"
    assert call in ("stat", "access") or reason in done.stderr + done.stdout, f"no reason: {done.stderr}{done.stdout}"


def attempt(scenario, home, trial):
    number, call, _, how, passes = trial
    scenario.reset(home)
    before = scenario.kept(home)
    done = shimmed(scenario.command(home), home, call=call, at=number, how=how)
    assert "Sanitizer" not in done.stderr, done.stderr
    if how in ("kill", "after"):
        # Threads may make one call fewer than in the run that was counted.
        assert done.returncode in (-9, 0), f"not killed: {done}"
    elif done.returncode:
        assert not passes, f"should have gone on: {done.stderr}"
        told(done, home, call, os.strerror(int(how.split()[1])))
    seen = scenario.check_between(home)
    if done.returncode == 0:
        assert seen == scenario.new, f"said to be done, but a reader sees {seen}"
        assert call != "fsync" or how in ("kill", "after"), "a failed sync is not reported"
    assert scenario.kept(home) == before, "the sources have changed"
    if done.returncode:
        scenario.complete(home)
        assert scenario.kept(home) == before, "the sources have changed"


def try_all(scenario, trials, homes):
    """The problems, and how many trials there were."""
    def work(job):
        found = []
        for trial in trials[job::JOBS]:
            try:
                attempt(scenario, homes[job], trial)
            except (AssertionError, OSError) as problem:
                number, call, name, _, _ = trial
                found.append(f"{call} {number}, {name}: {problem}")
        return found
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        found = pool.map(work, range(JOBS))
    return [problem for part in found for problem in part], len(trials)


def short_everywhere(scenario, homes):
    """All transfers move at most 7 bytes, or one block where a write is direct."""
    home = homes[0]
    scenario.reset(home)
    done = shimmed(scenario.command(home), home, short=7)
    if done.returncode:
        return [f"short transfers: {done.stderr}"], 1
    seen = scenario.look(home)
    return [] if seen == scenario.new else [f"short transfers: {seen}"], 1


def main():
    only = [word for word in sys.argv[1:] if word != "--full"]
    chosen = [s for s in SCENARIOS if not only or s.name in only]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    failed = number = places = 0
    scratch = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TARN_SCRATCH", memory)))
    print(f"1..{2 * len(chosen)}")
    for scenario in chosen:
        homes = [scratch / f"home{job}" for job in range(JOBS)]
        scenario.prepare(scratch / "template", homes[0])
        calls = calls_of(scenario, homes[0], scratch / "trace")
        everywhere = scenario.name in KILLED_EVERYWHERE and not SLOW
        kills = list(kills_of(calls))
        for title, trials in (
                ("refused", sample(trials_of(calls), SAMPLE, scenario.name)),
                ("killed", kills if everywhere else sample(kills, SAMPLE // 2, scenario.name))):
            number += 1
            problems, count = try_all(scenario, trials, homes)
            if title == "refused":
                more = short_everywhere(scenario, homes)
                problems, count = problems + more[0], count + more[1]
            places += count
            failed += bool(problems)
            print(f"{'not ok' if problems else 'ok'} {number} - {scenario.name}, {title} "
                  f"({count} trials over {len(calls)} calls)", flush=True)
            for problem in problems[:400 if FULL else 12]:
                print("# " + problem.replace("\n", "\n# "))
    shutil.rmtree(scratch)
    print(f"# figure: {places} calls refused, short or killed in {len(chosen)} scenarios")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
