#!/usr/bin/env python3
"""Runs test suites and counts what they say.

A suite is a program that prints TAP lines (ok / not ok / ok # SKIP why). Results are added
to a log, so that several runs (flavours) end in one total.

  run.py --log FILE --build DIR [--only unit|fuzz|cli|interop|faults|hostile|docs|python]
         [--wrap CMD]
         [--match TEXT]                           only suites with TEXT in their names
  run.py --log FILE --name NAME -- COMMAND...     one test: passes if COMMAND exits 0
  run.py --log FILE --suite NAME -- COMMAND...    a suite: COMMAND prints TAP lines
  run.py --log FILE --total                       prints "N passed, N failed, N skipped"
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"  # has the real packages the interop tests run against
LIMIT = 3600  # seconds; a suite that takes longer hangs, however busy the machine is (not in the full forms)
LINE = re.compile(r"^\s*(not ok|ok)\b\s*\d*\s*-?\s*(.*)$")


def record(log, outcome, name):
    with open(log, "a", encoding="utf-8") as f:
        f.write(f"{outcome}\t{name}\n")


def kill(suite):
    """Ends a suite with all it started, if it still runs."""
    if suite.poll() is None:
        os.killpg(suite.pid, signal.SIGKILL)


def run_suite(command, env, running=None):
    """Runs one TAP program: what came of it, and the seconds it took. running lists it meanwhile."""
    began = time.time()
    suite = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=env, cwd=ROOT, text=True, errors="replace", process_group=0)
    if running is not None:
        running.append(suite)
    try:
        out, _ = suite.communicate(timeout=None if "TARN_FULL" in os.environ else LIMIT)
    except subprocess.TimeoutExpired:
        kill(suite)
        out = suite.communicate()[0] + f"\nnot ok - ended after {LIMIT} seconds: it hangs\n"
    except KeyboardInterrupt:
        kill(suite)
        raise
    return subprocess.CompletedProcess(command, suite.returncode, out), time.time() - began


def run_suites(jobs, env):
    """(name, what run_suite says) of each, in order. Interop tests wait for programs and servers
    most of the time, and have nothing in common: two at a time. The others are alone."""
    running = []
    run = (lambda job: run_suite(job[1], env, running))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        try:
            for together, some in itertools.groupby(jobs, lambda job: job[0].startswith("interop/")):
                some = list(some)
                for job, result in zip(some, (pool.map if together else map)(run, some)):
                    yield job[0], result
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for suite in running:
                kill(suite)
            raise


def tell_suite(log, name, done, seconds):
    """Counts and tells; a program that dies or says nothing is a failure of its own."""
    passed = failed = skipped = 0
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        what, title = match.groups()
        # cmocka says "not ok 3 # SKIP name".
        if title.lower().startswith("# skip") or (what == "ok" and "# skip" in title.lower()):
            skipped += 1
            record(log, "skipped", f"{name}: {title}")
            print(f"  skipped: {name}: {title}")
        elif what == "ok":
            passed += 1
            record(log, "passed", f"{name}: {title}")
        else:
            failed += 1
            record(log, "failed", f"{name}: {title}")
    if done.returncode and not failed:
        failed += 1
        record(log, "failed", f"{name}: exited with {done.returncode}")
    if passed + failed + skipped == 0:
        failed += 1
        record(log, "failed", f"{name}: ran no test")
    print(f"  {name}: {passed} passed, {failed} failed, {skipped} skipped "
          f"({seconds:.1f} s)")
    for line in done.stdout.splitlines():
        if line.startswith("# figure: "):
            print(f"    {line[10:]}")
    if failed:
        told = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
        print("\n".join(told)[-20000:])
    sys.stdout.flush()


def suites(build, only, wrap):
    wrap = shlex.split(wrap) if wrap else []
    if only in (None, "unit"):
        for program in sorted((build / "tests").glob("test_*")):
            if program.is_file() and os.access(program, os.X_OK):
                yield program.name, [*wrap, str(program)]
    if only in (None, "fuzz"):
        for program in sorted((build / "tests").glob("replay_*")):
            if program.is_file() and os.access(program, os.X_OK):
                target = program.name.removeprefix("replay_")
                yield program.name, [*wrap, str(program), str(ROOT / "build-corpus" / target)]
    if only in (None, "cli"):
        yield "cli", [str(PYTHON), str(ROOT / "tests/cli/run.py")]
    if only in (None, "interop"):
        for script in sorted((ROOT / "tests/interop").glob("test_*.py")):
            yield f"interop/{script.stem}", [str(PYTHON), str(script)]
    if only in (None, "faults"):
        for script in sorted((ROOT / "tests/faults").glob("test_*.py")):
            yield f"faults/{script.stem}", [str(PYTHON), str(script)]
    if only in (None, "hostile"):
        for script in sorted((ROOT / "tests/hostile").glob("test_*.py")):
            yield f"hostile/{script.stem}", [str(PYTHON), str(script)]
    if only in (None, "python"):
        yield "python", [str(PYTHON), str(ROOT / "tests/python/run.py")]
    if only in (None, "docs"):
        for script in sorted((ROOT / "tests/docs").glob("test_*.py")):
            yield f"docs/{script.stem}", [str(PYTHON), str(script)]


def total(log):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failures = []
    for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines():
        outcome, name = line.split("\t", 1)
        counts[outcome] += 1
        if outcome == "failed":
            failures.append(name)
    for name in failures:
        print(f"FAILED: {name}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--only")
    parser.add_argument("--wrap")
    parser.add_argument("--match", default="")
    parser.add_argument("--name")
    parser.add_argument("--suite")
    parser.add_argument("--total", action="store_true")
    parser.add_argument("command", nargs="*")
    args = parser.parse_args()
    # Who starts a run in the background has interrupts ignored, and every child would have, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.total:
        return total(args.log)
    if args.suite:
        tell_suite(args.log, args.suite, *run_suite(args.command, None))
        return 0
    if args.name:
        done = subprocess.run(args.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=ROOT, text=True, errors="replace")
        record(args.log, "failed" if done.returncode else "passed", args.name)
        print(f"  {args.name}: {'failed' if done.returncode else 'passed'}")
        if done.returncode:
            print(done.stdout[-20000:])
        return 0
    subprocess.run([ROOT / "scripts/corpus.py", "unpack"], check=True)
    build = args.build.resolve()
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", TARN=str(build / "tarn"),
               TARN_BUILD=str(build), TARN_DATA=str(ROOT / "tests/data"), TARN_CORPUS=str(ROOT / "build-corpus"))
    jobs = [job for job in suites(build, args.only, args.wrap) if args.match in job[0]]
    for name, result in run_suites(jobs, env):
        tell_suite(args.log, name, *result)
    return 0


sys.exit(main())
