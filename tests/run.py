#!/usr/bin/env python3
"""Runs test suites side by side and counts what they report.

A suite is a program that prints TAP lines (ok / not ok / ok # SKIP why). Results are added to a
log, so that several runs can end in one total.

  run.py [--log FILE] [--match TEXT] FLAVOUR...     builds and runs flavours, or those of their
                                          suites with TEXT in their names, then prints the total
      check      what `make check` runs: format, words, and the fast suites of a plain build
      format     clang-format finds nothing to change; this program counts failures
      words      the prose has no banned phrase
      plain      warnings are errors; all suites
      asan       AddressSanitizer and UndefinedBehaviorSanitizer; the suites they can see
      tsan       ThreadSanitizer; the unit tests that use threads
      fuzz       100,000 runs of every fuzz target, the same every time
      docs       the documentation site is built, and no link or anchor of it leads nowhere
      install    installs into a scratch folder and builds against that; builds and uses a wheel
      clang      a plain build by clang; unit tests
      arm64      a build for arm64; unit tests under qemu
      peers      how it works with large packages; what is not installed is skipped
      valgrind   unit tests under memcheck
      hostile    the suite of that name alone, in full
      faults     memory, system calls, kills, power, threads and processes in full (an hour)
  run.py --log FILE --build DIR [--only unit|fuzz|cli|interop|faults|hostile|docs|python]
         [--wrap CMD] [--match TEXT]      the suites of one build folder
  run.py --log FILE --name NAME -- COMMAND...     one test: passes if COMMAND exits with 0
  run.py --log FILE --suite NAME -- COMMAND...    a suite: COMMAND prints TAP lines
  run.py --log FILE --total                       prints "N passed, N failed, N skipped"

TARN_JOBS is how many jobs run at once; unset, one more than there are processors, because many
suites wait for programs and servers.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from flavours import FLAVOURS, jobs_of  # noqa: E402
from schedule import Job, Runner  # noqa: E402
from suites import KINDS, ROOT, suites  # noqa: E402

LIMIT = 3600  # seconds; a suite that takes longer hangs, however busy the machine is (not in the full forms)
LINE = re.compile(r"^\s*(not ok|ok)\b\s*\d*\s*-?\s*(.*)$")


class Log:
    """A file with one line for each test: outcome, TAB, name; and one for the time of each job."""

    def __init__(self, path):
        self.path = path

    def add(self, outcome, text):
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(f"{outcome}\t{text}\n")

    def rows(self):
        for line in pathlib.Path(self.path).read_text(encoding="utf-8").splitlines():
            yield line.split("\t", 1)


def outcomes(name, result):
    """(outcome, title) of every test of a suite. A suite that dies or reports nothing is a failure."""
    out = []
    for line in result.output.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        what, title = match.groups()
        # cmocka writes "not ok 3 # SKIP name".
        skipped = title.lower().startswith("# skip") or (what == "ok" and "# skip" in title.lower())
        out.append(("skipped" if skipped else "passed" if what == "ok" else "failed", title))
    if result.status and all(outcome != "failed" for outcome, _ in out):
        out.append(("failed", f"exited with {result.status}"))
    return out or [("failed", "ran no test")]


def report(log, job, result):
    """Writes what a job did to the log and to the terminal."""
    if result is None:
        log.add("failed", f"{job.name}: not run, because a build failed")
        return
    took = f"({result.wall:.1f} s, {result.cpu:.1f} s of the processor)"
    log.add("time", f"{result.wall:.1f}\t{result.cpu:.1f}\t{job.name}")
    if job.kind == "suite":
        found = outcomes(job.name, result)
        count = {word: sum(outcome == word for outcome, _ in found) for word in ("passed", "failed", "skipped")}
        for outcome, title in found:
            log.add(outcome, f"{job.name}: {title}")
            if outcome == "skipped":
                print(f"  skipped: {job.name}: {title}")
        print(f"  {job.name}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped {took}")
        failed = count["failed"]
    else:
        failed = result.status != 0
        if failed or job.kind == "test":
            log.add("failed" if failed else "passed", job.name)
        print(f"  {job.name}: {'failed' if failed else 'done' if job.kind == 'build' else 'passed'} {took}")
    for line in result.output.splitlines():
        if line.startswith("# figure: "):
            print(f"    {line[10:]}")
    if failed:
        print("\n".join(line for line in result.output.splitlines() if not line.startswith("ok "))[-20000:])
    sys.stdout.flush()


def run(log, jobs):
    """Runs jobs; None of what they print is lost when one fails."""
    places = int(os.environ.get("TARN_JOBS") or (os.cpu_count() or 1) + 1)
    runner = Runner(ROOT, places, None if "TARN_FULL" in os.environ else LIMIT)
    began = time.monotonic()
    for job, result in runner.run(jobs):
        report(log, job, result)
    log.add("took", f"{time.monotonic() - began:.0f}")


def slowest(log):
    """The ten jobs that took longest, and how busy the processors were."""
    rows = list(log.rows())
    times = sorted((tuple(text.split("\t")) for what, text in rows if what == "time"),
                   key=lambda row: -float(row[0]))
    took = sum(int(text) for what, text in rows if what == "took")
    if len(times) < 10 or not took:
        return
    print(f"{took} s, {sum(float(cpu) for _, cpu, _ in times) / took:.1f} processors busy. Slowest:")
    for wall, cpu, name in times[:10]:
        print(f"  {wall:>6} s  {cpu:>6} s of the processor  {name}")


def total(log):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for outcome, name in log.rows():
        if outcome in counts:
            counts[outcome] += 1
        if outcome == "failed":
            print(f"FAILED: {name}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--log")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--wrap", default="")
    parser.add_argument("--match", default="")
    parser.add_argument("--name")
    parser.add_argument("--suite")
    parser.add_argument("--total", action="store_true")
    parser.add_argument("command", nargs="*")
    args = parser.parse_args()
    wrong = set() if args.name or args.suite else set(args.command) - set(FLAVOURS)
    if wrong or not (args.log or args.command):
        parser.error(f"no flavour {', '.join(wrong)}" if wrong else "give a flavour, or --log")
    return args


def unpack_corpus():
    subprocess.run([ROOT / "scripts/corpus.py", "unpack"], check=True)


def chosen(jobs, match):
    """All builds, and the jobs whose names contain match."""
    return [job for job in jobs if job.kind == "build" or match in job.name]


def one_folder(log, args):
    jobs = suites(args.build.resolve(), [args.only] if args.only else KINDS, args.wrap)
    run(log, chosen(jobs, args.match))
    return 0


def main():
    args = arguments()
    # A run that was started in the background has interrupts ignored, and every child would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.NamedTemporaryFile() as own:
        log = Log(args.log or own.name)
        if args.total:
            return total(log)
        if args.suite or args.name:
            run(log, [Job(args.suite or args.name, args.command, "suite" if args.suite else "test")])
            return 0
        unpack_corpus()
        if args.build:
            return one_folder(log, args)
        run(log, chosen(jobs_of(args.command), args.match))
        slowest(log)
        return total(log)


if __name__ == "__main__":
    sys.exit(main())
