#!/usr/bin/env python3
"""Processes with a live loader: forked, ended and interrupted at any moment, in C and in Python.

Nothing hangs (a watchdog kills hanging processes), nothing crashes, every sample in parent and
child is right, and an interrupt is handled. The time this takes is printed but not tested, because
it depends on the machine. An interrupted command exits with 130, and the next run removes
everything it leaves.

  test_processes.py [--full]     1,000 of each; without --full 50
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import BUILD, ROOT, TARN, files, hidden, sure, view  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
SANITIZED = "asan" in str(BUILD)
COUNT = 1000 if FULL else 10 if SANITIZED else 50
TOOL = str(BUILD / "tests/live_loader")
WATCHDOG = 300  # seconds; only a hanging process takes this long
RNG = random.Random(9)

# Prints a line when it is working, and one when it was interrupted; each number is checked.
PYTHON_WAITS = """
import sys, tarn
ds = tarn.open(sys.argv[1], fields=["cls"])
loader = ds.loader(8, threads=4, shuffle=True, on_error="skip")
for turn in range(int(sys.argv[2])):
    try:
        first = True
        while True:
            for batch in loader:
                if first:
                    print("ready", flush=True)
                    first = False
                for key, cls in zip(batch["__key__"], batch["cls"]):
                    assert int(key[1:]) == int(cls), (key, cls)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""
PYTHON_FORKS = """
import os, signal, sys, tarn
ds = tarn.open(sys.argv[1], fields=["cls"])
loader = ds.loader(8, threads=4, shuffle=True, on_error="skip")
def take(count):
    for batch in loader:
        for key, cls in zip(batch["__key__"], batch["cls"]):
            assert int(key[1:]) == int(cls), (key, cls)
        count -= 1
        if count <= 0:
            return
for turn in range(int(sys.argv[2])):
    signal.alarm(300)
    take(turn % 4)
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        take(1 + turn % 5)
        if turn % 10 == 0:
            sys.exit(0)
        os._exit(0)
    take(turn % 2)
    assert os.waitpid(child, 0)[1] == 0, turn
"""
PYTHON_EXITS = """
import sys, tarn
seed = int(sys.argv[2])
ds = tarn.open(sys.argv[1], fields=["bin"])
loader = ds.loader(8, threads=1 + seed % 8, shuffle=True)
batches = iter(loader)
for _ in range(seed % 6):
    next(batches)
if seed % 3 == 0:
    raise SystemExit(0)
if seed % 3 == 1:
    kept = [loader, batches]
    kept.append(kept)
"""


def python(code, *arguments, **how):
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def finished(process, want=0):
    try:
        out, told = process.communicate(timeout=WATCHDOG * (20 if FULL else 2))
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("it hangs") from None
    assert process.returncode == want, f"ended with {process.returncode}: {told}{out}"
    return told


def slowest(times):
    return f"slowest {max(times) * 1000:.0f} ms"


def forks(data):
    finished(subprocess.Popen([TOOL, "fork", data, str(COUNT)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True))


def exits(data):
    for seed in range(COUNT):
        finished(subprocess.Popen([TOOL, "exit", data, str(seed)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True))


def interrupts(data):
    times = []
    for _ in range(COUNT):
        process = subprocess.Popen([TOOL, "wait", data], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(RNG.random() * 0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(WATCHDOG)
        times.append(time.monotonic() - began)
        finished(process, 130)
    return slowest(times)


def command_interrupts(data):
    """tarn pack interrupted at any moment: it exits with 130 and the fold is as it was, or it had
    already finished."""
    home = pathlib.Path(data) / "pack"
    shutil.rmtree(home, ignore_errors=True)
    source = files(home, "n", 300, size=2000)
    began = time.monotonic()
    sure("pack", source, "-o", home / "t", "-q", "--max-count", "20")
    span, times, stopped = time.monotonic() - began, [], 0
    for _ in range(COUNT):
        shutil.rmtree(home / "t", ignore_errors=True)
        process = subprocess.Popen([TARN, "pack", str(source), "-o", str(home / "t"), "-q",
                                    "--max-count", "20"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(RNG.random() * span)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(WATCHDOG)
        times.append(time.monotonic() - began)
        out, told = process.communicate()
        # Before main starts, the signal's default action ends the process.
        assert process.returncode in (0, 130, -signal.SIGINT), \
            f"ended with {process.returncode}: {told}{out}"
        stopped += process.returncode == 130
        seen = view(home, "t") if (home / "t").exists() else None
        assert (seen is not None) == (process.returncode == 0), f"a reader sees {seen}"
        if process.returncode:
            sure("pack", source, "-o", home / "t", "-q", "--max-count", "20", "--resume",
                 "--no-sync")
        seen = view(home, "t")
        assert seen.endswith("\n600 payloads checked\n") and not hidden(home), (seen[-99:], hidden(home))
    return f"{stopped} of {COUNT} were stopped, {slowest(times)}"


def python_forks(data):
    finished(python(PYTHON_FORKS, f"{data}/fold", COUNT))


def python_exits(data):
    for seed in range(COUNT):
        told = finished(python(PYTHON_EXITS, f"{data}/fold", seed))
        assert not told, told


def python_interrupts(data):
    process, times = python(PYTHON_WAITS, f"{data}/fold", COUNT), []
    for _ in range(COUNT):
        assert process.stdout.readline() == "ready\n", process.communicate()
        time.sleep(RNG.random() * 0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n", process.communicate()
        times.append(time.monotonic() - began)
    finished(process)
    return slowest(times)


TESTS = [("forks with a live loader", forks), ("ends with a live loader", exits),
         ("interrupts of a loader", interrupts), ("interrupts of tarn pack", command_interrupts)]
PYTHON_TESTS = [("Python: forks with a live loader", python_forks),
                ("Python: ends with a live loader", python_exits),
                ("Python: interrupts of a loader", python_interrupts)]


def main():
    # tests/python/run.py covers the interpreter under a sanitizer, and a child of a process with
    # threads finds AddressSanitizer's allocator locked.
    tests = TESTS[1:] if SANITIZED else TESTS + PYTHON_TESTS
    failed = 0
    assert ROOT.exists()
    print(f"1..{len(tests)}")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as data:
        subprocess.run([TOOL, "make", data], check=True)
        for number, (title, test) in enumerate(tests, 1):
            began = time.monotonic()
            try:
                more = test(data)
                figure = f"{COUNT} {title}{', ' + more if more else ''}"
                print(f"ok {number} - {figure}\n# figure: {figure} "
                      f"({time.monotonic() - began:.1f} s)", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                failed += 1
                print(f"not ok {number} - {title}\n# {problem}", flush=True)
    return 1 if failed else 0


sys.exit(main())
