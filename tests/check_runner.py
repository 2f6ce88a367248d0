#!/usr/bin/env python3
"""The runner counts every way in which a job can fail, and its lists name suites that exist: exits
with 0 if so."""
import sys
import tempfile

sys.dont_write_bytecode = True

import run  # noqa: E402
import suites  # noqa: E402
from schedule import Job, Runner  # noqa: E402


def sh(name, script, *more):
    return Job(name, ["sh", "-c", script], *more)


JOBS = [
    sh("build", "exit 1", "build"), sh("needs it", "echo ok 1 - x", "suite", {}, ("build",)),
    sh("dies", "echo ok 1 - x; exit 3"), sh("silent", ":"), sh("fails", "echo not ok 1 - y; exit 1"),
    sh("skips", "echo ok 1 - a; echo 'ok 2 - b # SKIP why'; echo 'not ok 3 # SKIP c'"),
    Job("missing", ["/nonexistent"]), sh("hangs", "echo ok 1 - z; sleep 100 & wait"),
    sh("bad", "exit 1", "test"), sh("good", ":", "test"),
]
FAILED = {"build", "needs it", "dies", "silent", "fails", "missing", "hangs", "bad"}


def unknown():
    """Names in the lists of suites.py that no suite has."""
    known = {name for kind in suites.KINDS for name, _ in suites.commands(suites.ROOT, kind)}
    listed = {*suites.LONG, *suites.NOT_ASAN, *suites.NOT_TSAN, *suites.NOT_QEMU, *suites.NOT_QUICK}
    return sorted(listed - known)


def main():
    with tempfile.NamedTemporaryFile() as file:
        log = run.Log(file.name)
        for job, result in Runner("/", 2, 5).run(JOBS):
            run.report(log, job, result)
        rows = list(log.rows())
        status = run.total(log)
    failed = {text.split(":")[0] for outcome, text in rows if outcome == "failed"}
    counts = {word: sum(outcome == word for outcome, _ in rows) for word in ("passed", "skipped")}
    matched = [job.name for job in run.chosen(JOBS, "it")]
    good = failed == FAILED and status == 1 and counts == {"passed": 4, "skipped": 2} and matched == ["build", "needs it"]
    print("as expected" if good else f"found {failed}, {status}, {counts}, {matched}")
    if unknown():
        print(f"no such suites, see tests/suites.py: {', '.join(unknown())}")
    return 0 if good and not unknown() else 1


sys.exit(main())
