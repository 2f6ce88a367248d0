#!/usr/bin/env python3
"""Runs the tests of the Python package with pytest and prints TAP.

It tests the package in $TARN_BUILD/python. Arguments are passed to pytest; without any, all tests
run. A build with AddressSanitizer needs its runtime preloaded, so the script starts itself again
with it.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain")).resolve()


def sanitizer():
    """Returns the runtime to preload, or None."""
    extension = BUILD / "python/tarn/_tarn.abi3.so"
    if b"__asan_init" not in extension.read_bytes():
        return None
    asked = subprocess.run(["clang-14", "-print-file-name=libclang_rt.asan-x86_64.so"],
                           capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def start_again():
    env = dict(os.environ, TARN_PYTHON_STARTED="1", PYTHONPATH=str(BUILD / "python"),
               TARN_BUILD=str(BUILD), TARN=str(BUILD / "tarn"),
               TARN_DATA=str(ROOT / "tests/data"))
    runtime = sanitizer()
    if runtime:
        # The interpreter frees much of its memory only at exit, so leaks are tested in
        # test_limits.py.
        env.update(LD_PRELOAD=runtime, TARN_SANITIZED="1",
                   ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "").replace(
                       "detect_leaks=1:", ""))
    os.execve(sys.executable, [sys.executable, *sys.argv], env)


class Tap:
    """Prints one line for each test, followed by the output of a failed one."""

    skipped_a_file = False

    def pytest_runtest_logreport(self, report):
        if report.failed:
            print(f"\nnot ok - {report.nodeid} ({report.when})")
            print(report.longreprtext)
        elif report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.wasxfail
            print(f"ok - {report.nodeid} # SKIP {why}")
        elif report.when == "call":
            print(f"ok - {report.nodeid}")
        sys.stdout.flush()

    def pytest_collectreport(self, report):
        if report.failed:
            print(f"not ok - {report.nodeid} (collect)\n{report.longreprtext}")
        elif report.skipped:
            print(f"ok - {report.nodeid} # SKIP {report.longrepr[2]}")
            self.skipped_a_file = True


def main():
    if "TARN_PYTHON_STARTED" not in os.environ:
        start_again()
    import pytest
    arguments = sys.argv[1:] or [str(HERE)]
    tap = Tap()
    status = pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", "-s",
                          "--rootdir", str(ROOT), *arguments], plugins=[tap])
    # A file that is skipped as a whole has no tests, which pytest takes for a mistake.
    nothing = status == pytest.ExitCode.NO_TESTS_COLLECTED
    return 0 if nothing and tap.skipped_a_file else status


if __name__ == "__main__":
    sys.exit(main())
