"""The cost of a command: its CPU time and its peak resident size.

A child process has its parent's size until it runs its own program, so the measuring process must
be small: nothing large is imported here.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.path.abspath(os.environ.get("TARN", ROOT / "build-plain/tarn"))
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain")).resolve()
SANITIZED = b"__asan_init" in pathlib.Path(TARN).read_bytes()
HANG = 600  # seconds; only a hanging process takes this long, however busy the machine is
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

sys.path.insert(0, str(ROOT / "tests/interop"))
sys.dont_write_bytecode = True


class Cost:
    """How a command ended, and its cost."""

    def __init__(self, args, status, usage, out, err):
        self.args, self.out, self.err = args, out, err
        self.code = os.waitstatus_to_exitcode(status)
        self.seconds = usage.ru_utime + usage.ru_stime
        self.peak = usage.ru_maxrss / 1024

    def __repr__(self):
        words = " ".join(str(a)[-60:] for a in self.args[1:])
        return (f"{words}: exit {self.code}, {self.seconds:.2f} s, {self.peak:.0f} MiB, "
                f"{self.err[-300:].decode(errors='replace')}")


def run(*args, limit=None, **options):
    """Runs a command; limit is called in the child first. A command that hangs is killed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # pylint: disable-next=consider-using-with
        child = subprocess.Popen([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=err, preexec_fn=limit, **options)
        timer = threading.Timer(HANG, lambda: os.kill(child.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Cost(args, status, usage, out.read(1 << 20), err.read(1 << 20))


def tarn(*args, **options):
    return run(TARN, *args, **options)


def least(command, most):
    """The cheapest of up to ten runs of a command: on a busy machine it takes more CPU time than it
    needs. Stops at the first run that takes at most the given number of seconds."""
    costs = []
    while len(costs) < 10:
        costs.append(command())
        if costs[-1].seconds <= most or costs[-1].code not in (0, 1):
            return costs[-1]
    return min(costs, key=lambda cost: cost.seconds)
