"""Shared by the interop tests: TAP lines, and running the tool."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.path.abspath(os.environ.get("TARN", ROOT / "build/tarn"))


class Checks:
    """Numbers checks and prints their results."""

    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, ok, detail=""):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        print(f"{'ok' if ok else 'not ok'} {self.passed + self.failed} - {name}", flush=True)
        if not ok:
            print(f"# {str(detail)[:2000]}")

    def end(self):
        """Prints the plan; returns the exit status."""
        print(f"1..{self.passed + self.failed}")
        return 1 if self.failed else 0


check = Checks()


def run_all(tests):
    """Runs functions that assert, one check each, named after them; returns the exit status."""
    for test in tests:
        try:
            test()
            check(test.__name__, True)
        except AssertionError as e:
            check(test.__name__, False, e)
    return check.end()


def tarn(*args, ok=True, stdin=None):
    """Runs the tool; unless ok is False, it has to succeed."""
    done = subprocess.run([TARN, *map(str, args)], capture_output=True, check=False, input=stdin)
    if ok and done.returncode:
        raise SystemExit(f"tarn {' '.join(map(str, args))}: {done.stderr.decode()}")
    return done
