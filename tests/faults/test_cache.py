#!/usr/bin/env python3
"""A cache of remote files on a system that fails: at each call an error, a short transfer or a kill;
on a disk that is full, and on one that is read-only.

Afterwards every block that the cache says it has is right, nothing is claimed any more, and the
cache can be filled. A full disk is a notice, not an error.

  test_cache.py [--full]      every kind of failure at each call; without --full one kind
"""
import errno
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenarios import BUILD, run, shimmed  # noqa: E402

FULL = "--full" in sys.argv or bool(os.environ.get("TARN_FULL"))
STEP = 5 if "asan" in str(BUILD) else 1
TOOL = str(BUILD / "tests/cache_tool")
URL, SIZE = "https://host/birds/a.tar", 12 * 4096 + 100
HOW = (f"errno {errno.ENOSPC}", f"errno {errno.EIO}", "short", "kill", "after")


def tool(what, folder, etag="1", size=SIZE):
    return [TOOL, what, str(folder), "birds", URL, etag, size]


def sure(*arguments, **settings):
    done = run(tool(*arguments, **settings))
    assert done.returncode == 0, f"{arguments[0]}: {done.returncode} {done.stderr}"
    return done.stdout


def check_after(folder):
    for etag in ("1", "other"):
        sure("check", folder, etag)
        assert "notice" not in sure("fill", folder, etag)
        assert "complete" in sure("check", folder, etag), f"{etag} is not complete"


def every_call_may_fail(scratch):
    home, trace = scratch / "home", scratch / "trace"
    home.mkdir()
    shimmed(tool("story", home / "c"), home, trace=trace)
    calls = len(trace.read_text().splitlines())
    assert calls > 100, calls
    tried = 0
    for call in range(1, calls + 1, STEP):
        for how in HOW if FULL else (HOW[call // STEP % len(HOW)],):
            shutil.rmtree(home)
            home.mkdir()
            done = shimmed(tool("story", home / "c"), home, at=call, how=how)
            assert done.returncode in (0, 1, -9), f"{call} {how}: {done}"
            assert "Sanitizer" not in done.stderr, done.stderr
            try:
                check_after(home / "c")
            except AssertionError as problem:
                raise AssertionError(f"call {call}, {how}: {problem}") from problem
            tried += 1
    print(f"# {tried} failures at {calls} calls")


def mounted(folder, options):
    """A small disk, or None where mounting is not allowed."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
                          capture_output=True, check=False)
    return done.returncode == 0


def a_full_disk_is_a_notice(scratch):
    disk = scratch / "disk"
    disk.mkdir()
    for pages in (8, 11, 40, 70, 90):
        assert mounted(disk, f"size={pages * 4096}")
        try:
            done = run(tool("fill", disk / "c", size=400_000))
            assert done.returncode == 0, f"{pages}: {done.stderr}"
            assert done.stdout.count("notice") <= 1, done.stdout
            assert "notice" not in done.stdout or "No space" in done.stdout, done.stdout
            there = int(sure("check", disk / "c", size=400_000).split()[0])
            assert there < 98, there
            subprocess.run(["mount", "-o", f"remount,size={400 * 4096}", str(disk)], check=True)
            sure("fill", disk / "c", size=400_000)
            assert "98 complete" in sure("check", disk / "c", size=400_000)
        finally:
            subprocess.run(["umount", str(disk)], check=True)


def a_read_only_disk_is_read(scratch):
    disk = scratch / "still"
    disk.mkdir()
    assert mounted(disk, "size=4M")
    try:
        sure("fill", disk / "c")
        sure("story", disk / "d")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert "13 complete" in sure("check", disk / "c")
        assert "13 complete" in sure("check", disk / "d", "other")
        sure("fill", disk / "c", "new version")
        assert sure("check", disk / "c", "new version").split() == ["0"]
        done = run(tool("check", disk / "new"))
        assert done.returncode == 1 and "Read-only" in done.stderr, done.stderr
    finally:
        subprocess.run(["umount", str(disk)], check=True)


READER = """
import sys, tarn
far, near = tarn.open(sys.argv[1], cache=sys.argv[3], decode="bytes"), tarn.open(sys.argv[2], decode="bytes")
for _ in range(2):
    with far.shuffle(seed=1).loader(3, threads=2, epochs=1) as one, near.shuffle(seed=1).loader(3, epochs=1) as other:
        for a, b in zip(one, other, strict=True):
            assert all(list(a[name]) == list(b[name]) for name in b)
"""


def a_dataset_is_read_with_a_full_disk(scratch):
    """The disk becomes full while the cache is filled, or has no room for the index."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
    import remote_support

    disk, folder = scratch / "disk", remote_support.make_shards(scratch / "birds", samples=6, size=30_000)
    disk.mkdir()
    assert remote_support.tarn("index", folder, "--sums").code == 0
    store = remote_support.Store()
    store.put_folder(folder)
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"), no_proxy="*")
    for pages in (2, 12, 30, 60):
        assert mounted(disk, f"size={pages * 4096}")
        try:
            done = subprocess.run([sys.executable, "-c", READER, f"{store.url}/birds:train", folder, disk / "c"], env=env,
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{pages} pages: {done.stderr}"
        finally:
            subprocess.run(["umount", str(disk)], check=True)


def can_mount():
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return shutil.which("unshare") and \
        subprocess.run(probe, capture_output=True, check=False).returncode == 0


def main():
    inside = "inside" in sys.argv
    if not inside and can_mount():
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv, "inside"])
    mounting = "" if inside else "mounting needs root"
    plain = "the interpreter has another runtime of the sanitizer" if "asan" in str(BUILD) else mounting
    tests = [(every_call_may_fail, ""), (a_full_disk_is_a_notice, mounting), (a_read_only_disk_is_read, mounting),
             (a_dataset_is_read_with_a_full_disk, plain)]
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, (test, impossible) in enumerate(tests, 1):
        name = test.__name__
        scratch = pathlib.Path(tempfile.mkdtemp())
        try:
            if not impossible:
                test(scratch)
            print(f"ok {number} - {name}" + (f" # SKIP {impossible}" if impossible else ""))
        except AssertionError as problem:
            failed += 1
            print(f"not ok {number} - {name}\n# " + str(problem).replace("\n", "\n# "))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
