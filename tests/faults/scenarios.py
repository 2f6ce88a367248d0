"""The scenarios of the fault tests: for each, the state of the disk before, one command that
    changes it, what a reader may see, and what a user does after a failure.

A scenario's disk is made once and copied for every trial. A reader sees a target as the list of its
members or rows, or None if it does not exist; an existing target has to verify.
"""
import errno
import io
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain"))
TARN = str(BUILD / "tarn")
SHIM = str(BUILD / "tests/libfaults.so")
ENV = dict(os.environ, SOURCE_DATE_EPOCH="0")
# Messages that a reader may get for a fold that is being made, replaced or indexed.
ABSENT = re.compile("no shard|resume it|No such file|tarn index|no index|no .tar files found")
# And for an array file, beside its journal.
UNFINISHED = re.compile("was interrupted: verify with repair fixes the file")
# Of a fold: what a writer protected stays protected.
CHECKED = re.compile(r"(\d+) payloads? checked")
# A lock that no process holds does not matter; the shards of a killed writer remain for resuming.
WAITING = re.compile(r"\.tarn-lock$")


def run(command, env=None):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, env={**ENV, **(env or {})}, text=True,
                          errors="replace", check=False)


def tarn(*arguments):
    return run([TARN, *arguments])


def sure(*arguments):
    done = tarn(*arguments)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}: {done.stderr}{done.stdout}"
    return done.stdout


def shimmed(command, home, **settings):
    """Runs a command on a system that fails as the settings say."""
    env = {"LD_PRELOAD": SHIM, "FAULT_HOME": str(home)}
    env.update({f"FAULT_{name.upper()}": str(value) for name, value in settings.items()})
    return run(command, env)


def view(home, target, absent=ABSENT, whole=False):
    """What a reader sees of a target, and how many of its payloads have checksums; None if the
    reader reports that it does not exist."""
    path = f"{home}/{target}"
    if target.endswith((".gnz", ".iac", ".tar", ".npz")) and not os.path.exists(path):
        return None
    if target.endswith(".npz"):
        return pathlib.Path(path).read_bytes()
    done = tarn("ls", *(["--stats"] if target.endswith(".gnz") else []), path)
    if done.returncode:
        assert absent.search(done.stderr), f"a reader of {target} gets: {done.stderr}"
        return None
    verified = tarn("verify", path)
    # Beside a journal that verify --repair must finish, a file may look unfinished.
    waits = not whole and "was interrupted" in verified.stdout
    assert verified.returncode == 0 or waits, f"verify {target}: {verified.stdout}{verified.stderr}"
    checked = CHECKED.findall(verified.stdout)
    return done.stdout + "".join(f"{count} payloads checked\n" for count in checked)


def check_archives(home):
    """Another program confirms that every archive with a final name is complete."""
    for path in home.rglob("*.tar"):
        if path.name.startswith(".") or path.name == "torn_1.tar":
            continue
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    archive.extractfile(member).read()
        assert path.stat().st_size % 512 == 0, f"{path.name} has no end"


def sorted_lines(seen):
    return {target: text and sorted(text.splitlines()) for target, text in seen.items()}


def hidden(home):
    return sorted(str(p.relative_to(home)) for p in home.rglob(".*")
                  if not WAITING.search(p.name))


def digest(paths):
    return {str(p): p.read_bytes() for top in paths
            for p in sorted(top.rglob("*")) if p.is_file()}


class Scenario:
    """A command: prepare makes the disk, targets are the paths it changes, sources the paths it
    must not change.

    again are the options a user adds to run the command again; the plain command is tried first
    where the disk is unchanged. loses: during a replacement there may be nothing to read. repair:
    verify --repair finishes a journal first.
    """

    def __init__(self, name, words, targets, prepare, again=(), sources=(), loses=False,
                 repair=False, drop=(), finish=None, absent=ABSENT):
        self.name, self.words, self.targets, self.make = name, words, targets, prepare
        self.again, self.sources, self.loses, self.repair = again, sources, loses, repair
        self.drop, self.finish, self.absent = drop, finish, absent
        self.template = self.old = self.new = None

    def command(self, home):
        return [TARN, *(w.replace("HOME", str(home)) for w in self.words)]

    def reset(self, home):
        if home.exists():
            shutil.rmtree(home)
        shutil.copytree(self.template, home, symlinks=True)

    def prepare(self, template, home):
        """Makes the disk, and records what is visible before and after."""
        self.template = template
        if template.exists():
            shutil.rmtree(template)
        template.mkdir(parents=True)
        self.make(template)
        self.reset(home)
        self.old = self.look(home)
        done = run(self.command(home))
        assert done.returncode == 0, f"{self.name}: {done.stderr}"
        self.new = self.look(home, True)
        assert self.old != self.new or self.loses, f"{self.name} changes nothing"
        assert not hidden(home), f"{self.name} leaves {hidden(home)}"

    def look(self, home, whole=False):
        check_archives(home)
        return {target: view(home, target, self.absent, whole) for target in self.targets}

    def kept(self, home):
        return digest(home / name for name in self.sources)

    def check_between(self, home, may_lose=False):
        """Each target is in its old or its new state; or missing, where it is being replaced."""
        seen = self.look(home)
        for target, what in seen.items():
            assert what in (self.old[target], self.new[target]) or \
                what is None and (self.loses or may_lose), \
                f"a reader of {target} sees {what!r}"
        return seen

    def complete(self, home, in_order=True):
        """Does what a user does after a failure. Afterwards the disk is in the new state, or at
        least has all samples in some order."""
        if self.repair:
            for target in self.targets:
                if os.path.exists(home / target):
                    sure("verify", "-q", "--repair", home / target)
        seen = self.look(home)
        words = self.command(home)[1:]
        if self.finish:
            self.finish(self, home, seen)
        elif seen == self.old or not self.again:
            done = tarn(*words)
            if done.returncode:
                assert self.again, f"a second run fails: {done.stderr}"
                sure(*(w for w in words if w not in self.drop), *self.again)
        elif self.again != ("stop",):
            sure(*(w for w in words if w not in self.drop), *self.again)
        seen = self.look(home, True)
        if not in_order:
            assert sorted_lines(seen) == sorted_lines(self.new), f"after another run: {seen}"
        assert seen == self.new or not in_order, f"after another run a reader sees {seen}"
        assert not hidden(home), f"files left: {hidden(home)}"


# --- Disks ------------------------------------------------------------------------------------


def files(home, prefix, count, size=200):
    folder = home / f"{prefix}.files"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{prefix}{number}.bin").write_bytes(b"%d" % number * size)
        (folder / f"{prefix}{number}.cls").write_bytes(b"%d" % number)
    return folder


def fold(home, name, prefix, count, per_shard=2):
    folder = files(home, prefix, count)
    sure("pack", folder, "-o", home / name, "--max-count", per_shard, "--no-sync", "-q", "-j1")
    shutil.rmtree(folder)


def npy(path, rows, dtype="<i4"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({rows}, 4), }}"
    text = header.ljust(117) + "\n"
    size = int(dtype[2:])
    data = b"".join((n * 7 % 251).to_bytes(size, "little") for n in range(rows * 4))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)


def shard(path, first, count=5):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for number in range(first, first + count):
            info = tarfile.TarInfo(f"k{number:02}.txt")
            info.size = 6
            out.addfile(info, io.BytesIO(b"%06d" % number))


def disk(*steps):
    def make(home):
        for step in steps:
            step(home)
    return make


def with_files(prefix, count, size=200):
    return lambda home: files(home, prefix, count, size)


def with_fold(name, prefix, count, per_shard=2):
    return lambda home: fold(home, name, prefix, count, per_shard)


def with_arrays(home):
    npy(home / "x.npy", 9)
    npy(home / "ids.npy", 5, "<i8")


def with_gnz(*words):
    def make(home):
        with_arrays(home)
        sure("pack", "-q", *(w.replace("HOME", str(home)) for w in words), "--checksums",
             "-o", home / "t.gnz")
    return make


def with_iac(prefix, count, name):
    def make(home):
        folder = files(home, prefix, count)
        sure("pack", "-q", folder, "-o", home / name, "--no-sync")
        shutil.rmtree(folder)
    return make


def with_parts(name, prefix, count, tasks, size=200):
    """The complete parts of a job."""
    def make(home):
        folder = files(home, prefix, count, size)
        for task in range(tasks):
            sure("pack", folder, "-o", home / name, "--max-count", 2, "--no-sync", *Q, "--task", f"{task}/{tasks}")
        shutil.rmtree(folder)
    return make


def with_index_parts(home):
    """A fold with an index and one shard more, and the parts of a new index."""
    half_indexed(home)
    for task in range(2):
        sure("index", "-q", "--sums", "-j1", home / "t", "--task", f"{task}/2")


def half_indexed(home):
    """A fold of one shard with its index, to which a second shard was added."""
    (home / "t").mkdir()
    shard(home / "t/f_0.tar", 0)
    sure("index", "-q", "--sums", home / "t")
    shard(home / "t/f_1.tar", 5)


def without_sums(home):
    """A fold with an index, but without checksums of payloads."""
    (home / "t").mkdir()
    shard(home / "t/f_0.tar", 0)
    sure("index", "-q", home / "t")


def torn(home):
    """A fold with an index and a truncated shard."""
    (home / "t").mkdir()
    shard(home / "t/f_0.tar", 0)
    shard(home / "t/torn_1.tar", 5)
    path = home / "t/torn_1.tar"
    path.write_bytes(path.read_bytes()[:512 * 7 + 100])


def journalled(home):
    """An array file whose rows were being appended when the process was killed."""
    with_gnz("HOME/x.npy", "--reserve", "20")(home)
    words = [TARN, "pack", "-q", home / "x.npy", "--append", "-o", home / "t.gnz"]
    before = (home / "t.gnz").read_bytes()
    for number in range(1, 200):
        (home / "t.gnz").write_bytes(before)
        shimmed(words, home, at=number, how="kill")
        left = [p for p in home.iterdir() if p.name not in ("x.npy", "ids.npy", "t.gnz")]
        if (home / ".t.gnz.journal") in left and (home / "t.gnz").read_bytes() != before:
            return
        for path in left:
            path.unlink()
    raise AssertionError("no call leaves a journal")


# --- Scenarios --------------------------------------------------------------------------------


def after_in_place(scenario, home, seen):
    """The source is being replaced: half of it is published, not converted again."""
    if seen["t"] is None:
        sure("merge", "--resume", "-o", f"{home}/t:train", "-q")
    else:
        sure(*scenario.command(home)[1:])


def after_append(scenario, home, seen):
    """The existing part needs nothing but cleaning up."""
    if seen == scenario.new:
        sure("merge", "--resume", "-o", f"{home}/t:train", "-q")
        return
    words = scenario.command(home)[1:]
    if tarn(*words).returncode:
        sure(*words, "--resume")


Q = ("-q", "-j1")
SCENARIOS = [
    Scenario("pack a new fold", ["pack", "HOME/a.files", "-o", "HOME/t", "--max-count", "2", *Q],
             ["t"], with_files("a", 4), ("--resume",), ["a.files"]),
    Scenario("pack after a fold", ["pack", "HOME/a.files", "-o", "HOME/t", "--max-count", "2",
                                    "--append", *Q],
             ["t"], disk(with_fold("t", "o", 3), with_files("a", 3)), ("--resume",), ["a.files"],
             finish=after_append),
    Scenario("pack over a fold", ["pack", "HOME/a.files", "-o", "HOME/t", "--max-count", "2",
                                  "--overwrite", *Q],
             ["t"], disk(with_fold("t", "o", 5), with_files("a", 3)), ("--overwrite",),
             ["a.files"], loses=True, drop=("--overwrite",)),
    Scenario("index", ["index", "-q", "--sums", "-j1", "HOME/t"], ["t"], half_indexed,
             loses=True),
    Scenario("add checksums", ["index", "-q", "--sums", "-j1", "HOME/t"], ["t"], without_sums),
    Scenario("repair a fold", ["verify", "--repair", *Q, "HOME/t"], ["t:f", "t:torn"], torn,
             loses=True, absent=re.compile("the file ends|no index|tarn index")),
    Scenario("repair an array file", ["verify", "--repair", "-q", "HOME/t.gnz"], ["t.gnz"],
             journalled, loses=True, absent=UNFINISHED),
    Scenario("convert to a new fold", ["convert", "HOME/a", "HOME/t", "--max-count", "1", *Q],
             ["t"], with_fold("a", "a", 4), ("--resume",), ["a"]),
    Scenario("convert over another fold", ["convert", "HOME/a", "HOME/t", "--max-count", "3",
                                           "--overwrite", *Q],
             ["t"], disk(with_fold("a", "a", 4), with_fold("t", "o", 3)), ("--overwrite",), ["a"],
             loses=True, drop=("--overwrite",)),
    Scenario("convert in place", ["convert", "HOME/t", "HOME/t", "--max-count", "3",
                                  "--overwrite", *Q],
             ["t"], with_fold("t", "a", 4), loses=True, finish=after_in_place),
    Scenario("convert to an archive", ["convert", "HOME/a", "HOME/t.tar", "--overwrite", *Q],
             ["t.tar"], disk(with_fold("a", "a", 3),
                             lambda home: shard(home / "t.tar", 0)), sources=["a"]),
    Scenario("convert to arrays", ["convert", "HOME/a", "HOME/t.gnz", "--fields", "cls",
                                   "--overwrite", "-q"],
             ["t.gnz"], disk(with_fold("a", "a", 5), with_gnz("HOME/ids.npy")), sources=["a"]),
    Scenario("convert to an IAC file", ["convert", "HOME/a", "HOME/t.iac", "--overwrite", "-q"],
             ["t.iac"], disk(with_fold("a", "a", 4), with_iac("o", 2, "t.iac")), sources=["a"]),
    Scenario("convert from an IAC file", ["convert", "HOME/s.iac", "HOME/t.iac", "--codec", "zstd",
                                     "--overwrite", "-q"],
             ["t.iac"], disk(with_iac("a", 4, "s.iac"), with_iac("o", 2, "t.iac"))),
    Scenario("pack a new pack", ["pack", "HOME/a.files", "-o", "HOME/t.iac", "-q"],
             ["t.iac"], with_files("a", 4), ("--overwrite",), ["a.files"]),
    Scenario("pack new arrays", ["pack", "-q", "HOME/x.npy", "-o", "HOME/t.gnz"], ["t.gnz"],
             with_arrays, ("--overwrite",)),
    Scenario("convert to NumPy", ["convert", "-q", "HOME/x.npy", "HOME/t.npz"], ["t.npz"],
             with_arrays, ("--overwrite",)),
    Scenario("pack over arrays", ["pack", "-q", "HOME/x.npy", "--overwrite", "--checksums", "-o",
                                  "HOME/t.gnz"],
             ["t.gnz"], with_gnz("HOME/ids.npy")),
    Scenario("append rows", ["pack", "-q", "HOME/x.npy", "--append", "-o", "HOME/t.gnz"],
             ["t.gnz"], with_gnz("HOME/x.npy", "--reserve", "20"), ("stop",), repair=True, loses=True,
             absent=UNFINISHED),
    Scenario("add an array", ["pack", "-q", "HOME/ids.npy", "--add", "--checksums", "-o",
                              "HOME/t.gnz"],
             ["t.gnz"], with_gnz("HOME/x.npy"), ("stop",), repair=True, loses=True,
             absent=UNFINISHED),
    Scenario("merge into a new fold", ["merge", "HOME/a", "HOME/b", "-o", "HOME/t", *Q],
             ["t"], disk(with_fold("a", "a", 4), with_fold("b", "b", 3)), ("--resume",),
             ["a", "b"]),
    Scenario("merge copies", ["merge", "HOME/a", "HOME/b", "-o", "HOME/t", "--copy", *Q],
             ["t"], disk(with_fold("a", "a", 4), with_fold("b", "b", 3)), ("--resume",),
             ["a", "b"]),
    Scenario("merge after a fold", ["merge", "HOME/b", "-o", "HOME/t", "--append", *Q],
             ["t"], disk(with_fold("b", "b", 3), with_fold("t", "o", 3)), ("--resume",), ["b"]),
    Scenario("merge over a fold", ["merge", "HOME/b", "HOME/a", "-o", "HOME/t", "--overwrite",
                                   *Q],
             ["t"], disk(with_fold("a", "a", 4), with_fold("b", "b", 3), with_fold("t", "o", 3)),
             ("--overwrite",), ["a", "b"], loses=True, drop=("--overwrite",)),
    Scenario("commit a new fold", ["commit", "HOME/t", *Q], ["t"], with_parts("t", "a", 5, 3)),
    Scenario("commit after a fold", ["commit", "HOME/t", "--append", *Q], ["t"],
             disk(with_fold("t", "o", 3), with_parts("t", "a", 4, 2))),
    Scenario("commit over a fold", ["commit", "HOME/t", "--overwrite", *Q], ["t"],
             disk(with_fold("t", "o", 5), with_parts("t", "a", 4, 2)), loses=True),
    Scenario("commit an index", ["commit", "HOME/t", *Q], ["t"], with_index_parts, loses=True),
    Scenario("split by shards", ["split", "HOME/a", "--into", "x=0.5,y=0.5", "--by", "shards",
                                 "--seed", "1", "-o", "HOME/t", *Q],
             ["t:x", "t:y"], with_fold("a", "a", 4), ("--resume",), ["a"]),
]

# Possible errors of each call. Those in PASSES are not failures: the work continues.
ERRNOS = {
    "create": ["EACCES", "ENOSPC", "EMFILE", "EIO"], "open": ["EACCES", "EMFILE", "EIO"],
    "opendir": ["EACCES", "EMFILE"], "readdir": ["EIO"],
    "read": ["EIO", "ESTALE", "EINTR"], "pread": ["EIO", "ESTALE", "EINTR"],
    "write": ["ENOSPC", "EIO", "EDQUOT", "EINTR"], "pwrite": ["ENOSPC", "EIO", "EINVAL", "EINTR"],
    "copy_file_range": ["EXDEV", "EINVAL", "EIO", "ENOSPC", "EINTR"],
    "fsync": ["EIO", "ENOSPC"], "close": ["EIO", "EINTR"],
    "rename": ["EIO", "EACCES", "ENOSPC", "EINVAL"],
    "link": ["EXDEV", "EMLINK", "EPERM", "EIO"], "unlink": ["EIO", "EACCES"], "rmdir": ["EIO"],
    "mmap": ["ENOMEM", "ENODEV"], "ftruncate": ["EIO", "ENOSPC"],
    "fallocate": ["ENOSPC", "EOPNOTSUPP", "EIO"], "stat": ["EIO", "EACCES"],
    "fstat": ["EIO", "ESTALE"], "fstatfs": ["EIO"], "access": ["EACCES"],
    "flock": ["ENOLCK"], "mkdir": ["EACCES", "ENOSPC"], "realpath": ["EIO"], "utimens": ["EPERM"],
}
TRANSFERS = {"read", "pread", "write", "pwrite", "copy_file_range"}


def ways(call):
    """How a call is made to fail, and whether the command must succeed anyway."""
    for name in ERRNOS[call]:
        number = getattr(errno, name)
        yield name, f"errno {number}", name == "EINTR" and call in TRANSFERS
    if call in TRANSFERS:
        yield "short", "short", True
