#!/usr/bin/env python3
"""The fold writer on a disk that is full, out of inodes, or read-only.

Each disk is a small tmpfs, made again with one more page each time, so that space runs out at every
possible point. Each failure is reported, a reader sees the fold as it was, and once there is space,
writing again gives the complete fold. Mounts are in a separate namespace and disappear with it.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from writing import ROOT, TOOL, frame  # noqa: E402

TARN = os.environ.get("TARN", str(ROOT / "build-plain/tarn"))
RESUME = ["resume", "skip", "max_count=2"]
SKIPPED = "mounting needs root and a mount namespace"


def samples(prefix, count, size=300):
    return [(f"{prefix}{i:02}", {"bin": bytes([i]) * size}) for i in range(count)]


OLD, NEW, OTHER = samples("a", 4), samples("n", 5), samples("b", 3)


def write(folder, what, *settings, **how):
    done = subprocess.run([str(TOOL), "fold", str(folder), "train", "stop", *settings],
                          input=frame(what), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False, **how)
    assert b"Sanitizer" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout.decode()


def sure(folder, what, *settings):
    code, text = write(folder, what, *settings)
    assert code == 0 and not text, text


def keys(what):
    return sorted(key for key, _ in what)


def reader(folder):
    """The keys a reader sees; none if the reader reports that the fold does not exist."""
    path = f"{folder}:train"
    done = subprocess.run([TARN, "ls", "-1", path], capture_output=True, text=True, check=False)
    if done.returncode:
        assert re.search("no shard|resume it|No such file", done.stderr), done.stderr
        return []
    verified = subprocess.run([TARN, "verify", "-q", path], capture_output=True, text=True,
                              check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return sorted(done.stdout.split())


def mount(disk, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)


def remount(disk, options):
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def unmount(disk):
    subprocess.run(["umount", str(disk)], check=True)


def used(disk, inodes):
    """Pages, or files, that are used on a disk."""
    st = os.statvfs(disk)
    return st.f_files - st.f_ffree if inodes else st.f_blocks - st.f_bfree


def run_out(disk, old, new, settings, again, inodes):
    """Writes with one more page (or inode) each time, until there are enough."""
    option, large = ("nr_inodes", 1000) if inodes else ("nr_blocks", 10000)
    whole = new if "overwrite" in settings else old + new
    failures = 0
    for more in range(1, 200):
        mount(disk, f"size=64m,{option}={large}" if inodes else f"{option}={large}")
        try:
            folder = disk / "fold"
            folder.mkdir()
            if old:
                sure(folder, old, "max_count=2")
            remount(disk, f"{option}={used(disk, inodes) + more}")
            code, text = write(folder, new, *settings)
            seen = reader(folder)
            if code == 0:
                assert seen == keys(whole), f"done, but a reader sees {seen}"
                return failures
            failures += 1
            assert "No space left" in text and re.match("io: /", text), text
            assert seen == keys(old), f"a reader sees {seen}"
            remount(disk, f"{option}={large}")
            sure(folder, new, *again)
            assert reader(folder) == keys(whole)
            left = [name for name in os.listdir(folder) if name.startswith(".")]
            assert not left, left
        finally:
            unmount(disk)
    raise AssertionError("never enough space")


def runs_out(old, new, settings, again, inodes=False):
    def test(disk):
        failures = run_out(disk, old, new, settings, again, inodes)
        assert failures >= 3, f"only {failures} places"
        return f"{failures} places"
    return test


def large_shard(disk):
    """A shard that the thread writes: a failed write is reported, and the file is removed."""
    mount(disk, "size=16m")
    try:
        code, text = write(disk / "fold", [("big", {"bin": bytes(30 << 20)})])
        assert code == 1 and "No space left" in text, text
        assert not os.listdir(disk / "fold")
        remount(disk, "size=80m")
        sure(disk / "fold", [("big", {"bin": bytes(30 << 20)})])
        assert reader(disk / "fold") == ["big"]
    finally:
        unmount(disk)


def read_only(disk):
    mount(disk, "size=16m")
    try:
        folder = disk / "fold"
        sure(folder, OLD, "max_count=2")
        before = sorted(os.listdir(folder))
        remount(disk, "ro")
        for target, settings in ((folder, ["append"]), (folder, ["overwrite"]),
                                 (folder, ["resume"]), (disk / "other", [])):
            code, text = write(target, NEW, *settings)
            assert code == 1 and "Read-only file system" in text, text
        assert reader(folder) == keys(OLD) and sorted(os.listdir(folder)) == before
        remount(disk, "rw")
        sure(folder, NEW, "append")
        assert reader(folder) == keys(OLD + NEW)
    finally:
        unmount(disk)


def no_permission(disk):
    """Another user, on a folder that only its owner may change."""
    mount(disk, "size=64m,mode=755")
    try:
        folder, tool = disk / "fold", disk / "tool"
        shutil.copy(TOOL, tool)
        sure(folder, OLD, "max_count=2")
        for settings in (["append"], ["overwrite"]):
            done = subprocess.run([str(tool), "fold", str(folder), "train", *settings],
                                  input=frame(NEW), stdout=subprocess.PIPE, check=False,
                                  user=65534, group=65534, extra_groups=[])
            assert done.returncode == 1 and b"Permission denied" in done.stdout, done.stdout
        assert reader(folder) == keys(OLD)
    finally:
        unmount(disk)


TESTS = [
    ("space runs out in a new fold", runs_out([], NEW, ["max_count=2"], RESUME)),
    ("space runs out in an append", runs_out(OLD, NEW, ["append", "max_count=2"], RESUME)),
    ("space runs out in an overwrite", runs_out(OLD, OTHER, ["overwrite", "max_count=2"],
                                                ["overwrite", "max_count=2"])),
    ("inodes run out in a new fold", runs_out([], NEW, ["max_count=2"], RESUME, True)),
    ("inodes run out in an append", runs_out(OLD, NEW, ["append", "max_count=2"], RESUME, True)),
    ("space runs out after the buffer", large_shard),
    ("a read-only disk", read_only),
    ("a folder of someone else", no_permission),
]


def inside():
    failed = 0
    print(f"1..{len(TESTS)}")
    disk = pathlib.Path(tempfile.mkdtemp())
    os.chmod(disk, 0o755)
    for number, (title, test) in enumerate(TESTS, 1):
        try:
            note = test(disk)
            print(f"ok {number} - {title}" + (f" ({note})" if note else ""), flush=True)
        except AssertionError as problem:
            failed += 1
            print(f"not ok {number} - {title}\n# " + str(problem).replace("\n", "\n# "),
                  flush=True)
    os.rmdir(disk)
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["inside"]:
        return inside()
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    if not shutil.which("unshare") or subprocess.run(
            probe, stderr=subprocess.DEVNULL, check=False).returncode:
        print("\n".join(["1..8"] + [f"ok {number} - {title} # SKIP {SKIPPED}"
                                    for number, (title, _) in enumerate(TESTS, 1)]))
        return 0
    os.execvp("unshare", ["unshare", "-m", sys.executable, __file__, "inside"])


sys.exit(main())
