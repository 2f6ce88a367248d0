#!/usr/bin/env python3
"""The command out of memory: each of its requests fails once, or all from there on, in each
    scenario.

It ends with a message, never by a signal; each target is in its old or its new state, and running
the command again completes the work.

  test_command_memory.py [--full] [SCENARIO...]     without --full some of the requests
"""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import BUILD, SCENARIOS, run  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
SHIM = str(BUILD / "tests/libnomem.so")
PLACES = 100000 if FULL else 5  # of each scenario, evenly spread


def without_memory(scenario, home, number, forever):
    env = {"LD_PRELOAD": SHIM, "NOMEM_AT": str(number)}
    if forever:
        env["NOMEM_FOREVER"] = "1"
    return run(scenario.command(home), env)


def requests_of(scenario, home):
    """About how many there are: after the last, a failure changes nothing."""
    low, high = 0, 1
    while True:
        scenario.reset(home)
        if without_memory(scenario, home, high, True).returncode == 0:
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        scenario.reset(home)
        if without_memory(scenario, home, middle, True).returncode == 0:
            high = middle
        else:
            low = middle
    return high


def attempt(scenario, home, number, forever):
    scenario.reset(home)
    done = without_memory(scenario, home, number, forever)
    assert done.returncode in (0, 1), f"ended with {done.returncode}: {done.stderr}"
    assert done.returncode == 0 or "memory" in done.stderr + done.stdout, \
        f"unexpected message: {done.stderr}{done.stdout}"
    seen = scenario.check_between(home)
    if done.returncode == 0:
        assert seen == scenario.new, f"said to be done, but a reader sees {seen}"
    else:
        scenario.complete(home)


def torture(scenario, home):
    problems, count = [], requests_of(scenario, home)
    step = max(1, count // PLACES)
    for number in range(0, count, step):
        for forever in (False, True):
            try:
                attempt(scenario, home, number, forever)
            except AssertionError as problem:
                problems.append(f"request {number}{' and on' if forever else ''}: {problem}")
    return problems, 2 * len(range(0, count, step))


def main():
    if "asan" in str(BUILD):
        print("1..1\nok 1 - memory # SKIP a sanitizer has an allocator of its own")
        return 0
    only = [word for word in sys.argv[1:] if word != "--full"]
    chosen = [s for s in SCENARIOS if not only or s.name in only]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    scratch = pathlib.Path(tempfile.mkdtemp(dir=memory))
    failed = total = 0
    print(f"1..{len(chosen)}")
    for number, scenario in enumerate(chosen, 1):
        scenario.prepare(scratch / "template", scratch / "home")
        problems, count = torture(scenario, scratch / "home")
        total += count
        failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {number} - {scenario.name} ({count} requests)",
              flush=True)
        for problem in problems[:10]:
            print("# " + problem.replace("\n", "\n# "))
    shutil.rmtree(scratch)
    print(f"# figure: {total} requests for memory failed in {len(chosen)} commands")
    return 1 if failed else 0


sys.exit(main())
