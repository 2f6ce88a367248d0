#!/usr/bin/env python3
"""Files that are truncated, replaced or removed while a reader has them open.

For folds, single archives, array files and IAC files, mapped and read, and for the loader: copied
data is right or there is an error, and no signal ends the process. Datasets that tarn overwrites
are not mixed with the old ones. First with every step in order,
then with another process that truncates and restores the file as fast as it can. (Views are left
out: they trust the file, see docs/security.md.)
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bombs import tar_header  # noqa: E402
from cost import BUILD, SANITIZED, TARN  # noqa: E402
from checks import check, tarn  # noqa: E402

SAMPLES, SIZE, RUNS = 200, 9000, 50
TURNS = 400 if os.environ.get("TARN_FULL") else 150

READER = r"""
import select, sys, tarn
path, how, mode = sys.argv[1:4]
ERRORS = (OSError, ValueError, KeyError, RuntimeError, tarn.Error)
def payload(i):
    return (b"%07d" % i) * (9000 // 7)
def say(*words):
    print(*words, flush=True)
def open_one(decode="bytes"):
    if path.endswith((".gnz", ".iac")):
        return tarn.open(path, decode=decode)
    return tarn.open(path, io=mode, decode=decode)
right = wrong = failed = 0
def look(i, data):
    global right, wrong
    if bytes(data)[:len(payload(i))] == payload(i):
        right += 1
    else:
        wrong += 1
def copies(ds):
    global failed
    field = "bin" if "bin" in ds.fields else ds.fields[-1]
    for i in range(0, len(ds), 7):
        try:
            look(i, ds.batch([i], [field]).data)
        except ERRORS:
            failed += 1
def judge(key, data):
    global right, wrong
    if len(key) == 7 and key.isdigit() and bytes(data) == payload(int(key)):
        right += 1
    else:
        wrong += 1
def loads(ds):
    # Batches of a loader, and samples, with what is decoded on the way.
    global failed
    for i in range(0, 0 if path.endswith(".gnz") else len(ds), 13):  # there they are views
        try:
            sample = ds[i]
            judge(sample["__key__"], sample["bin"])
        except ERRORS:
            failed += 1
    for on_error in ("raise", "skip"):
        try:
            for batch in ds.loader(batch_size=8, threads=2, on_error=on_error):
                for key, data, row in zip(batch["__key__"], batch["bin"], batch["npy"],
                                          strict=True):
                    judge(key, data)
                    judge(key, bytes(row))
        except ERRORS:
            failed += 1
ds, decoded = open_one(), open_one(True)
copies(ds)
loads(decoded)
if wrong or failed or right < 2 * len(ds):
    sys.exit(f"a sound file gives {wrong} {failed} {right}")
say("ready")
if how == "steps":
    for line in sys.stdin:
        right = wrong = failed = 0
        copies(ds)
        loads(decoded)
        say(right, wrong, failed)
else:
    while not select.select([sys.stdin], [], [], 0)[0]:  # its end says that it is enough
        try:
            ds, decoded = open_one(), open_one(True)
        except ERRORS:
            failed += 1
            continue
        for _ in range(20):
            copies(ds)
        loads(decoded)
    say(right, wrong, failed)
"""


def npy(data):
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(data)},), }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def make_tar(path):
    with open(path, "wb") as out:
        for i in range(SAMPLES):
            data = (b"%07d" % i) * (SIZE // 7)
            for name, content in ((b"%07d.bin" % i, data), (b"%07d.npy" % i, npy(data))):
                out.write(tar_header(name, len(content)) + content +
                          bytes(-len(content) % 512))
        out.write(bytes(1024))


def reader(path, how, mode="auto"):
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    # pylint: disable-next=consider-using-with
    return subprocess.Popen([sys.executable, "-c", READER, str(path), how, mode],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=env, text=True)


def targets(folder):
    """(title, what is opened, the file that is changed)"""
    shards = folder / "fold"
    shards.mkdir()
    make_tar(shards / "f-0.tar")
    tarn("index", "--sums", shards)
    single = folder / "single.tar"
    make_tar(single)
    arrays, pack = folder / "a.gnz", folder / "p.iac"
    tarn("convert", single, arrays)
    tarn("convert", single, pack)
    yield "a fold's shard, mapped", shards, shards / "f-0.tar", "map"
    yield "a fold's shard, read", shards, shards / "f-0.tar", "read"
    yield "a fold's index", shards, shards / "f.taridx", "auto"
    yield "a fold's sums", shards, shards / "f.tarsum", "auto"
    yield "an archive", single, single, "auto"
    yield "an array file", arrays, arrays, "auto"
    yield "an IAC file", pack, pack, "auto"


# --- In order ------------------------------------------------------------------------------


def changes(victim, sound):
    """Each leaves the file changed; the reader has it open."""
    for size in (0, 1, 511, 4096, 4097, len(sound) // 2, len(sound) - 1):
        yield f"cut to {size}", lambda size=size: os.truncate(victim, size)
    yield "restored in place", lambda: victim.write_bytes(sound)
    yield "longer", lambda: victim.write_bytes(sound + b"more" * 300)
    yield "removed", victim.unlink
    yield "another file", lambda: replace(victim, bytes(reversed(sound)))
    yield "a shorter file", lambda: replace(victim, sound[:1000])
    yield "itself again", lambda: replace(victim, sound)


def replace(path, data):
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    os.rename(fresh, path)


def step_check(title, path, victim, mode):
    sound = victim.read_bytes()
    child = reader(path, "steps", mode)
    bad, total = [], 0
    line = child.stdout.readline()
    if line.strip() != "ready":
        check(f"{title}: changed under an open reader", False, child.communicate()[1])
        return
    for what, change in changes(victim, sound):
        try:
            change()
            child.stdin.write("go\n")
            child.stdin.flush()
            right, wrong, failed = map(int, child.stdout.readline().split())
        except (ValueError, OSError):
            bad.append((what, "the reader died"))
            break
        total += right + failed
        if wrong:
            bad.append((what, right, wrong, failed))
    _, err = child.communicate()
    replace(victim, sound)
    check(f"{title}: changed under an open reader, {total} reads", not bad and
          child.returncode == 0, (bad, child.returncode, err[-2000:]))


# --- Concurrently ---------------------------------------------------------------------------


def race_check(title, path, victim, mode):
    sound = victim.read_bytes()
    child = reader(path, "race", mode)
    child.stdout.readline()
    turns, sizes = 0, (0, 4096, len(sound) // 3, len(sound) - 600)
    while child.poll() is None and turns < TURNS:
        os.truncate(victim, sizes[turns % len(sizes)])
        time.sleep(0.0005 * (turns % 3))
        replace(victim, sound)  # changed in place, it would be another file of that length: see the docs
        time.sleep(0.001 * (turns % 4))
        turns += 1
    out, err = child.communicate()
    victim.write_bytes(sound)
    died = child.returncode < 0 and signal.Signals(-child.returncode).name
    numbers = [int(n) for n in out.split()] if out.strip() else [0, 1, 0]
    check(f"{title}: truncated {turns} times while it is read: {numbers[0]} right, "
          f"{numbers[2]} errors, {numbers[1]} wrong",
          child.returncode == 0 and numbers[1] == 0, (died, out, err[-2000:]))


# --- Replaced by tarn ------------------------------------------------------------------------

GENERATIONS = r"""
import resource, sys, tarn
folder, mode, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
N, KEYS = 60, [f"k{i:02}" for i in range(60)]
def samples(generation):
    return [{"__key__": key, "txt": f"gen{generation}-{key}", "cls": generation} for key in KEYS]
def write(generation, **options):
    with tarn.DatasetWriter(folder, "train", max_count=3, sync=False, **options) as out:
        for sample in samples(generation):
            out.write(sample)
def seen(items):
    # The generations of what is returned, and the names of errors.
    out = set()
    while True:
        try:
            text = next(items, None)
        except tarn.Error as error:
            out.add(type(error).__name__)
            if type(error) is not tarn.StaleError:
                print(error)
            return out
        if text is None:
            return out
        assert text[5:] in KEYS, text
        out.add(text[:4])
def one_by_one(ds):
    for i in range(N):
        try:
            yield ds[i]["txt"]
        except tarn.StaleError:
            yield "stal-" + KEYS[i]
def by_loader(loader):
    for batch in loader:
        yield from batch["txt"]
for check in (False, True):
    for threads in (0, 2):
        write(0, overwrite=True)
        ds = tarn.open(folder, io=mode, check=check)
        assert ds[0]["txt"] == "gen0-k00"
        loading = by_loader(ds.loader(5, threads=threads))
        first = next(loading)
        append = tarn.DatasetWriter(folder, "train", max_count=3, sync=False, append=True)
        append.write({"__key__": "later", "txt": "later"})
        append.close()
        assert seen(one_by_one(tarn.open(folder, io=mode)[:N])) == {"gen0"}
        if limit:
            assert seen(one_by_one(ds)) == {"gen0"}, "an append is harmless"
        write(1, overwrite=True)
        found = seen(one_by_one(ds)), seen(loading), seen(by_loader(ds.loader(5, threads=threads)))
        for what in found:
            assert what <= {"gen0", "stal", "StaleError"}, found
        assert any("StaleError" in what or "stal" in what for what in found), "nothing was stale"
        assert seen(one_by_one(tarn.open(folder, io=mode, check=check))) == {"gen1"}
print("same")
"""


def generations(folder):
    """Same names, keys and sizes, other values. With few descriptors, shards are opened again."""
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    for mode in ("auto", "map", "read"):
        for limit in (0, 40):
            done = subprocess.run([sys.executable, "-c", GENERATIONS, folder / f"g{mode}{limit}", mode,
                                   str(limit)], capture_output=True, env=env, text=True, check=False)
            check(f"a dataset that is overwritten under an open one is not mixed with it, io={mode}, "
                  f"{limit or 'many'} descriptors", done.stdout == "same\n",
                  done.stdout + done.stderr[-2000:])


SINGLE = r"""
import os, sys, tarn
old, new, path = sys.argv[1:4]
def look(ds):
    out = set()
    for i in range(len(ds)):
        try:
            out.add(str(ds[i]["cls"]))
        except tarn.StaleError:
            out.add("stale")
    return out
def lay(source):
    os.link(source, path + ".new")
    os.rename(path + ".new", path)
for touched in (False, True):
    lay(old)
    ds = tarn.open(path)
    if touched:
        ds[0]
    lay(new)
    assert look(ds) in ({"0"}, {"stale"}), look(ds)
    assert look(tarn.open(path)) == {"1"}
print("same")
"""


def single_files(folder):
    """The same for files that are replaced by name."""
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    for ending in (".tar", ".gnz", ".iac"):
        for generation in "01":
            values = folder / f"values{generation}"
            values.mkdir(exist_ok=True)
            for i in range(4):
                (values / f"{i}.cls").write_text(generation)
            tarn("pack", "-q", values, "-o", folder / f"single{generation}.tar", "--overwrite")
            if ending != ".tar":
                tarn("convert", "-q", folder / f"single{generation}.tar",
                     folder / f"single{generation}{ending}")
        done = subprocess.run([sys.executable, "-c", SINGLE, folder / f"single0{ending}",
                               folder / f"single1{ending}", folder / f"replaced{ending}"],
                              capture_output=True, env=env, text=True, check=False)
        check(f"a {ending} that is replaced while it is open is not mixed with the new one",
              done.stdout == "same\n", done.stdout + done.stderr[-2000:])


def tool_race(folder):
    """The same with the tool, whose verification reads through maps."""
    for name in ("single.tar", "p.iac", "a.gnz"):
        victim = folder / name
        sound = victim.read_bytes()
        codes = set()
        for _ in range(RUNS):
            child = subprocess.Popen([TARN, "verify", str(victim)], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            time.sleep(0.001)
            os.truncate(victim, len(sound) // 2)
            codes.add(child.wait())
            victim.write_bytes(sound)
        check(f"tarn verify {name} while it is truncated: never a signal",
              codes <= {0, 1}, codes)


def tool_writes(folder):
    """A field is written to a pipe that is not read until the shard is truncated inside the field."""
    data = folder / "large"
    data.mkdir()
    (data / "a.bin").write_bytes(b"x" * 300_000)
    tarn("pack", data, "-q", "-o", folder / "cut")
    victim = next((folder / "cut").glob("*.tar"))
    sound = victim.read_bytes()
    with subprocess.Popen([TARN, "get", folder / "cut", "a", "bin"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        first = child.stdout.read(1)  # it has started
        os.truncate(victim, 512 + 300_000 - 100)
        rest, err = child.communicate()
    check("tarn get of a field that is cut meanwhile is an error",
          child.returncode == 1 and b"bytes" in err and len(first + rest) <= 300_000,
          (child.returncode, err))
    victim.write_bytes(sound)
    told = subprocess.run([TARN, "get", folder / "cut", "a", "bin"], capture_output=True,
                          check=True)
    check("and is whole again with the shard", told.stdout == b"x" * 300_000)


def main():
    with tempfile.TemporaryDirectory(prefix="tarn-changed-") as scratch:
        folder = pathlib.Path(scratch)
        every = list(targets(folder))
        if not SANITIZED:
            for target in every:
                step_check(*target)
            for target in every:
                race_check(*target)
            generations(folder)
            single_files(folder)
        tool_race(folder)
        tool_writes(folder)
    return check.end()


if __name__ == "__main__":
    sys.exit(main())
