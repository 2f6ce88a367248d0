#!/usr/bin/env python3
"""tarn killed, or refused by the system, at every call that changes the disk.

strace stops the tool at the N-th call of a kind, with SIGKILL or with an error, for every N until
the tool gets through. After each: the fold is as it was before or as it is meant to be, never
something else; a failure is told; the same command again succeeds and leaves no temporary file.
"""
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.environ.get("TARN", str(ROOT / "build/tarn"))
CALLS = ["write", "pwrite64", "fsync", "rename", "unlink"]
ERRORS = {"write": "ENOSPC", "pwrite64": "ENOSPC", "fsync": "EIO", "rename": "EIO",
          "unlink": "EIO", "pread64": "EIO"}
ENV = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # leaks cannot be looked for under ptrace


def shard(path, first):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for number in range(first, first + 5):
            info = tarfile.TarInfo(f"k{number:02}.txt")
            info.size = 6
            out.addfile(info, io.BytesIO(b"%06d" % number))


def tarn(*arguments):
    return subprocess.run([TARN, *map(str, arguments)], stdout=subprocess.PIPE, env=ENV,
                          stderr=subprocess.PIPE, text=True, check=False)


def injected(what, arguments):
    call = what.split(":")[0]
    done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                           "-e", f"inject={what}", TARN, *map(str, arguments)], env=ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done


def keys(folder):
    """What a reader sees: the keys, or None if it is told that the index is old."""
    done = tarn("ls", "-1", folder)
    if done.returncode:
        assert "tarn index" in done.stderr, done.stderr
        return None
    return done.stdout.split()


def prepare(folder):
    """An indexed fold of one shard, to which a second one was added."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    shard(folder / "f_0.tar", 0)
    assert tarn("index", "-q", "--sums", folder).returncode == 0
    shard(folder / "f_1.tar", 5)


def check_after(folder, done, killed):
    seen = keys(folder)
    new = [f"k{n:02}" for n in range(10)]
    assert seen in (None, new), f"a reader sees {seen}"
    if not killed and done.returncode == 0:
        assert seen == new, "done, but the new index is not there"
    if not killed and done.returncode:
        assert done.returncode == 1 and done.stderr.startswith("tarn: "), done
    again = tarn("index", "-q", "--sums", folder)
    assert again.returncode == 0, again.stderr
    assert keys(folder) == new
    left = sorted(f for f in os.listdir(folder) if ".tmp-" in f)
    assert not left, left
    verified = tarn("verify", "-q", folder)
    assert verified.returncode == 0, verified.stdout


def sweep(folder, call, how):
    """Every N until a run is not touched any more; the number of runs that were."""
    for number in range(1, 400):
        prepare(folder)
        done = injected(f"{call}:{how}:when={number}", ["index", "-q", "--sums", "-j1", folder])
        killed = done.returncode in (-9, 137)
        # Calls of the dynamic loader count too; a tool that cannot start is not tarn's doing.
        if "error while loading shared libraries" in done.stderr:
            continue
        check_after(folder, done, killed)
        if done.returncode == 0:
            return number - 1
    return number


def main():
    if not shutil.which("strace"):
        print("1..1\nok 1 - faults # SKIP strace is not installed")
        return 0
    tests = [(f"killed at each {call}", call, "signal=KILL") for call in CALLS]
    tests += [(f"{error} at each {call}", call, f"error={error}")
              for call, error in ERRORS.items()]
    failed = 0
    print(f"1..{len(tests)}")
    with tempfile.TemporaryDirectory() as scratch:
        for number, (title, call, how) in enumerate(tests, 1):
            try:
                runs = sweep(pathlib.Path(scratch) / "fold", call, how)
                print(f"ok {number} - {title} ({runs} places)")
            except AssertionError as problem:
                failed += 1
                print(f"not ok {number} - {title}\n# {problem}")
    return 1 if failed else 0


sys.exit(main())
