#!/usr/bin/env python3
"""The Python package out of memory: each request of the extension fails once, or all from there
    on; and each request of the interpreter fails once while the extension is working.

Nothing crashes, the only exception is MemoryError, and the same call works afterwards.

  test_python_memory.py [--full]     every request; without --full a sample
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import BUILD  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
STEP = 1 if FULL else 7
SHIM = str(BUILD / "tests/libnomem.so")
TOOL = str(BUILD / "tests/live_loader")


def cases(data):
    """Name and call; each opens and closes what it uses."""
    import tarn  # pylint: disable=import-outside-toplevel
    from tarn import gnz, iac  # pylint: disable=import-outside-toplevel
    fold = tarn.open(f"{data}/fold", fields=["bin", "cls"])
    samples = [{"__key__": f"k{i}", "txt": "hello", "cls": i} for i in range(4)]

    def write():
        with tarn.TarWriter(f"{data}/written.tar", overwrite=True) as out:
            for sample in samples:
                out.write(sample)

    yield "open", lambda: tarn.open(f"{data}/fold")[5]["bin"]
    yield "samples", lambda: [fold[i]["bin"] for i in (3, 50, 7)]
    yield "filter", lambda: len(fold[10:40].shuffle(3))
    yield "loader", lambda: [len(b["__key__"]) for b, _ in zip(
        fold.loader(16, threads=0, on_error="skip"), range(3))]
    yield "loader with threads", lambda: [len(b["__key__"]) for b, _ in zip(
        fold.loader(16, threads=2, on_error="skip"), range(3))]
    yield "writer", write
    yield "array file", lambda: gnz.open(f"{data}/a.gnz")["cls"]
    yield "pack", lambda: iac.open(f"{data}/p.iac")[3]


class Extension:
    """Requests of the extension."""

    def __init__(self):
        self.lib = ctypes.CDLL(SHIM)
        self.lib.nomem_fail.argtypes = [ctypes.c_long, ctypes.c_int]
        assert self.lib.nomem_module(b"_tarn")

    def begin(self, number, forever):
        self.lib.nomem_fail(number, forever)

    def end(self):
        return self.lib.nomem_stop()

    def may_be(self, error):
        return isinstance(error, MemoryError)


class Interpreter:
    """Requests of the interpreter, by its own test functions. Its standard library turns some of
    them into other errors."""

    def __init__(self):
        import _testcapi  # pylint: disable=import-outside-toplevel
        self.api = _testcapi

    def begin(self, number, forever):
        del forever
        self.api.set_nomemory(number, number + 1)

    def end(self):
        self.api.remove_mem_hooks()
        return None  # unknown

    def may_be(self, error):
        return isinstance(error, (MemoryError, ImportError, TypeError))


def failed_at(source, call, number, forever):
    """How many requests failed, or None; any exception but MemoryError is a problem."""
    source.begin(number, forever)
    try:
        call()
    except Exception as error:  # pylint: disable=broad-exception-caught
        failed = source.end()
        if not source.may_be(error):
            raise
        return max(failed or 0, 1)
    return source.end()


def torture(source, call, most):
    """How many requests there were; the call works before and after."""
    call()
    places = 0
    for forever in (0, 1) if most is None else (0,):
        number = 0
        while most is None or number < most:
            failed = failed_at(source, call, number, forever)
            places += bool(failed)
            if failed == 0:
                break
            number += STEP
    call()
    return places


def inside(data):
    number = total = 0
    import tarn  # pylint: disable=import-outside-toplevel
    assert tarn.open
    sources = [("", Extension(), None)]
    try:
        sources.append((", interpreter", Interpreter(), 300))
    except ImportError:
        print("# this interpreter has no _testcapi")
    for kind, source, most in sources:
        for name, call in cases(data):
            number += 1
            print(f"# {name}{kind}", flush=True)
            places = torture(source, call, most)
            total += places
            print(f"ok {number} - {name}{kind} ({places} places)", flush=True)
    print(f"# figure: {total} requests for memory failed in {number} calls of the Python package")
    print(f"1..{number}")
    return 0


def main():
    if "--inside" in sys.argv:
        return inside(sys.argv[-1])
    if "asan" in str(BUILD):
        print("1..1\nok 1 - memory # SKIP a sanitizer has an allocator of its own")
        return 0
    with tempfile.TemporaryDirectory() as data:
        subprocess.run([TOOL, "make", data], check=True)
        env = dict(os.environ, PYTHONPATH=str(BUILD / "python"), LD_PRELOAD=SHIM,
                   TARN_FULL="1" if FULL else "")
        done = subprocess.run([sys.executable, "-X", "faulthandler", __file__, "--inside", data],
                              env=env, check=False, timeout=1200)
    return 1 if done.returncode else 0


sys.exit(main())
