#!/usr/bin/env python3
"""Nothing in a data file is ever executed.

The tool and the Python package read shards of pickles, object arrays, links, names that are
commands and lists with pipe: in them, under strace: the only program that is started is the
reader itself, and pickle is never imported.
"""
import json
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bombs import tar_header  # noqa: E402
from cost import BUILD, SANITIZED, TARN  # noqa: E402
from checks import check  # noqa: E402


class Run:
    """The value of a pickle when it is loaded."""

    def __reduce__(self):
        return os.system, (f"touch {MARK}",)


MARK = f"/tmp/tarn-hostile-mark-{os.getpid()}"  # names of files and commands contain it


def object_npy():
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + pickle.dumps([Run()])


def hostile_fields():
    """Thirty fields, most of which some existing reader executes."""
    bomb = pickle.dumps(Run())
    for name in ("pyd", "pkl", "pickle", "pth", "pt", "ckpt", "joblib", "dill", "npy.pkl", "pyc",
                 "so", "sh", "py", "mp", "msgpack", "bin", "npz.pkl"):
        yield name, bomb
    yield "npy", object_npy()
    yield "object.npy", object_npy()
    yield "npz", bomb
    yield "json", json.dumps({"__reduce__": ["os.system", f"touch {MARK}"]}).encode()
    yield "yaml", f"!!python/object/apply:os.system ['touch {MARK}']\n".encode()
    yield "yml", f"!!python/object/apply:os.system ['touch {MARK}']\n".encode()
    yield "txt", f"$(touch {MARK}) `touch {MARK}` | touch {MARK}".encode()
    yield "cls", f"__import__('os').system('touch {MARK}')".encode()
    yield "svg", f"<svg onload=\"touch {MARK}\"/>".encode()
    yield "html", b"<script>1</script>"
    yield "ten", bomb
    yield "jpg", bomb
    yield "xml", b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]><x>&e;</x>'


def hostile_shard(path):
    members = []
    for name, data in hostile_fields():
        members.append((b"a." + name.encode(), data, b"0", b""))
    members.append((f"$(touch {MARK}).txt".encode(), b"x", b"0", b""))
    members.append((b"b.txt", b"", b"2", b"/etc/passwd"))
    members.append((b"c.txt", b"", b"1", b"../../etc/passwd"))
    with open(path, "wb") as out:
        for name, data, kind, _ in members:
            out.write(tar_header(name[:99], len(data), kind) + data + bytes(-len(data) % 512))
        out.write(bytes(1024))


def started(command, env=None):
    """The programs that a command and all its children start, and how it ended."""
    with tempfile.NamedTemporaryFile() as trace:
        # LeakSanitizer cannot check a traced process.
        env = dict(env or os.environ, ASAN_OPTIONS="detect_leaks=0")
        done = subprocess.run(["strace", "-f", "-qq", "-e", "trace=execve,execveat", "-o",
                               trace.name, *map(str, command)], capture_output=True, env=env,
                              check=False, timeout=300)
        lines = pathlib.Path(trace.name).read_text(errors="replace").splitlines()
    return [line for line in lines if re.search(r"execve(at)?\(", line)], done


def only_itself(title, command, codes=(0, 1), env=None):
    programs, done = started(command, env)
    check(f"{title}: starts nothing", len(programs) == 1 and done.returncode in codes and
          not os.path.exists(MARK), (programs, done.returncode, done.stderr[-500:]))
    return done


def tool_checks(folder, shard):
    out = folder / "out"
    for args in (("info", shard), ("ls", shard), ("verify", shard), ("index", "--sums", folder),
                 ("verify", folder), ("get", folder, "a", "pkl"), ("extract", folder, "-o", out),
                 ("convert", folder, folder / "again"), ("bench", folder)):
        only_itself(f"tarn {args[0]}", [TARN, *args])
    check("pickles come out as bytes", (out / "a.pkl").read_bytes() == pickle.dumps(Run()))
    for url in (f"pipe:touch {MARK}", f"pipe:touch {MARK} |", f"a.tar::pipe:touch {MARK}",
                f"{{pipe:touch {MARK},b}}", f"http://127.0.0.1:1/$(touch {MARK})",
                f"file:$(touch {MARK})", f"|touch {MARK}", f"`touch {MARK}`.tar"):
        only_itself(f"tarn ls {url[:12]}...", [TARN, "ls", url], codes=(1, 2))
    manifest = folder / "m.jsonl"
    manifest.write_text(json.dumps({"key": "k", "bin": f"pipe:touch {MARK}"}) + "\n")
    only_itself("a manifest with pipe:", [TARN, "pack", manifest, "-o", folder / "packed"],
                codes=(1, 2))


READ = """
import sys
import numpy  # which imports pickle
import pickle
def refuse(*a, **k):
    raise SystemExit("a pickle was loaded")
pickle.load = pickle.loads = pickle.Unpickler = refuse
import _pickle
_pickle.load = _pickle.loads = refuse
import tarn
kept = tarn.open(sys.argv[1], decode="bytes")
for sample in kept:
    for name in sample:
        bytes(sample[name]) if not isinstance(sample[name], str) else sample[name]
refused = 0
for decode in (True, False):
    ds = tarn.open(sys.argv[1], decode=decode)
    for i in range(len(ds)):
        try:
            sample = ds[i]
            for name in sample:
                try:
                    sample[name]
                except Exception as error:
                    refused += 1
        except Exception as error:
            refused += 1
assert refused, "nothing was refused"
for name in ("marshal_loads", "shelve", "subprocess"):
    assert name not in sys.modules, name
print("read", refused)
"""


def python_checks(folder):
    if SANITIZED:
        return
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    done = only_itself("Python", [sys.executable, "-X", "frozen_modules=on", "-c", READ, folder],
                       codes=(0,), env=env)
    check("Python: reads the shard and loads no pickle", done.stdout.startswith(b"read"),
          done.stderr[-1000:])


def main():
    if os.path.exists(MARK):
        os.unlink(MARK)
    with tempfile.TemporaryDirectory(prefix="tarn-execution-") as scratch:
        folder = pathlib.Path(scratch)
        shard = folder / "h-0.tar"
        hostile_shard(shard)
        tool_checks(folder, shard)
        python_checks(f"{folder}:h")
    return check.end()


if __name__ == "__main__":
    sys.exit(main())
