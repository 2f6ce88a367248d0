#!/usr/bin/env python3
"""Limits on the cost of hostile or merely large input.

  shards     10,000 of them are read with 256 descriptors, with the same result
  names      100,000 that collide under XXH64 take at most three times as long as others
  files      any file of at most 1 MiB takes at most 64 MiB and one second; compressed
             streams, whose cost depends on their expanded size, 192 MiB and 8 seconds
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bombs import tar_header  # noqa: E402
from cost import BUILD, MEMORY, ROOT, SANITIZED, least, run, tarn  # noqa: E402
from checks import check  # noqa: E402

SHARDS, FILES = 10_000, 256
NAMES, RATIO, FLOOR = 100_000, 3, 0.1  # shorter times (in seconds) are not compared
CORPUS = pathlib.Path(os.environ.get("TARN_CORPUS", ROOT / "build-corpus"))
MOST_MEMORY, MOST_SECONDS = 64, 1.0
SLOWER = 20 if SANITIZED else 1  # the slowdown by the sanitizers


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


# --- Shards -----------------------------------------------------------------------------


def make_shards(folder, count):
    for i in range(count):
        text = b"sample %05d" % i
        (folder / f"s-{i:06}.tar").write_bytes(
            tar_header(b"%05d.txt" % i, len(text)) + text.ljust(512, b"\0") + bytes(1024))


READ_ALL = """
import sys, tarn
ds = tarn.open(sys.argv[1])
print(len(ds), sum(len(s["txt"]) for s in ds))
for i in range(0, len(ds), 7):
    at = (i * 7919) % len(ds)
    assert ds[at]["txt"] == "sample %05d" % at, at
print(ds["09999"]["txt"])
"""


def python(code, *args, limit=None):
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    env.pop("LD_PRELOAD", None)
    return run(sys.executable, "-c", code, *args, limit=limit, env=env)


def shard_checks(scratch):
    count = SHARDS // 5 if SANITIZED else SHARDS
    folder = scratch / "shards"
    folder.mkdir()
    make_shards(folder, count)
    last = f"{count - 1:05}"
    for args in (("index", "--sums", folder), ("ls", folder), ("verify", folder),
                 ("get", folder, last, "txt"), ("info", folder)):
        few, many = tarn(*args, limit=few_files), None
        if args[0] != "index":
            many = tarn(*args)
        check(f"{count} shards with {FILES} descriptors: {args[0]}",
              few.code == 0 and (many is None or (few.code, few.out) == (many.code, many.out)),
              few)
    if not SANITIZED:
        few, many = python(READ_ALL, folder, limit=few_files), python(READ_ALL, folder)
        check(f"{count} shards with {FILES} descriptors: all of it from Python",
              few.code == 0 and few.out == many.out and b"sample 09999" in few.out, few)


# --- Names ------------------------------------------------------------------------------


MAKE_NAMES = """
import sys
sys.path.insert(0, sys.argv[1])
import bombs, collisions
names = getattr(collisions, sys.argv[2])(int(sys.argv[3]))
with open(sys.argv[4], "wb") as out:
    for name in names:
        size = int(sys.argv[6])
        out.write(bombs.tar_header(name + b".x", size) + (name * 16)[:-(-size // 512) * 512])
    out.write(bytes(1024))
with open(sys.argv[5], "wb") as out:
    out.write(b"\\n".join(names))
"""

LOOK_UP = """
import sys, tarn
ds = tarn.open(sys.argv[1])
keys = open(sys.argv[2]).read().split("\\n")
found = ds.lookup(keys)
assert list(found) == list(range(len(keys)))
for key in keys[::50]:
    assert ds[key] is not None
"""


def name_checks(scratch):
    compare_names(scratch / "full", 1000)
    compare_names(scratch / "empty", 0)


def make_names(scratch, kind, count, size):
    """A folder with a shard of these names, and a file that lists them."""
    folder, names = scratch / kind, scratch / f"{kind}.txt"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", MAKE_NAMES, ROOT / "tests/hostile", kind, str(count),
                    folder / "s-0.tar", names, str(size)], check=True)
    return folder, names


def compare_names(scratch, size):
    """With payloads, and without, where the names are all the work."""
    scratch.mkdir()
    count = NAMES // 10 if SANITIZED else NAMES
    plain, colliding = (dict(name_commands(*make_names(scratch, kind, count, size),
                                           scratch / f"{kind}.out", count))
                        for kind in ("plain_names", "colliding_names"))
    for title, command in plain.items():
        if size == 0 and title not in ("index", "ls", "verify"):
            continue
        usual = min((command() for _ in range(3)), key=lambda cost: cost.seconds)
        most = RATIO * max(usual.seconds, FLOOR)
        hostile = least(colliding[title], most)
        check(f"{count} names with one XXH64, {size} bytes each: {title}: {hostile.seconds:.2f} s, "
              f"{usual.seconds:.2f} s for others",
              usual.code == 0 and hostile.code == 0 and hostile.seconds <= most, (usual, hostile))


def name_commands(folder, names, out, count):
    middle = names.read_text(encoding="ascii").split("\n")[count // 2]
    yield "index", lambda: tarn("index", "--sums", folder)
    yield "ls", lambda: tarn("ls", folder)
    yield "verify", lambda: tarn("verify", folder)
    yield "get", lambda: tarn("get", folder, middle, "x")
    yield "convert", lambda: tarn("convert", "--overwrite", folder, out)
    if not SANITIZED:
        yield "lookup of all from Python", lambda: python(LOOK_UP, folder, names)


# --- Files ------------------------------------------------------------------------------


def corpus_files(folder):
    """Files as they would be on a disk, from the fuzz corpus."""
    for target, front, ending in (("tar", 0, "tar"), ("samples", 2, "tar"), ("gnz", 2, "gnz"),
                                  ("filter", 1, "tar")):
        for path in sorted((CORPUS / target).iterdir()):
            made = folder / f"{target}-{path.name}.{ending}"
            made.write_bytes(path.read_bytes()[front:])
            yield made


MAKE_BOMBS = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import bombs
for maker in sys.argv[3:]:
    for name, data in getattr(bombs, maker)():
        assert len(data) <= bombs.MOST, name
        (pathlib.Path(sys.argv[2]) / name).write_bytes(data)
"""


def bomb_files(folder, *makers):
    """Made by another process: the measuring process stays small."""
    folder = folder / makers[0]
    folder.mkdir()
    subprocess.run([sys.executable, "-c", MAKE_BOMBS, ROOT / "tests/hostile", folder, *makers],
                   check=True)
    return sorted(folder.iterdir())


def file_commands(path):
    what = {".gnz": ("a",), ".iac": ("0",)}.get(path.suffix, ("a", "x"))
    yield from (("info", path), ("ls", path), ("verify", path), ("get", path, *what))


def file_check(title, paths, memory=MOST_MEMORY, seconds=MOST_SECONDS):
    """One line for all; files over the limit are reported."""
    over, count, peak, slowest = [], 0, 0, 0
    for path in paths:
        for args in file_commands(path):
            cost = least(lambda args=args: tarn(*args), seconds * SLOWER)
            count += 1
            peak, slowest = max(peak, cost.peak), max(slowest, cost.seconds)
            if cost.code not in (0, 1) or cost.seconds > seconds * SLOWER or (
                    not SANITIZED and cost.peak > memory) or (
                    b"Sanitizer" in cost.err):
                over.append(cost)
    check(f"{title}: {count} commands, at most {peak:.0f} MiB and {slowest:.2f} s",
          not over, over)


def file_checks(scratch):
    file_check("files of the fuzz corpus", list(corpus_files(scratch))[::8 if SANITIZED else 1])
    file_check("archives that ask for much", bomb_files(scratch, "tars"))
    file_check("array files and packs that ask for much",
               bomb_files(scratch, "array_files", "packs", "tables"))
    file_check("streams that expand", bomb_files(scratch, "streams"), memory=192, seconds=8)


def main():
    parts = {"shards": shard_checks, "names": name_checks, "files": file_checks}
    for name, part in parts.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory(prefix="tarn-limits-", dir=MEMORY) as scratch:
            part(pathlib.Path(scratch))
    return check.end()


if __name__ == "__main__":
    sys.exit(main())
