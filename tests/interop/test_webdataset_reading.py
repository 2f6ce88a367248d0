#!/usr/bin/env python3
"""The stream reader compared with the real WebDataset: the same samples from the same archives.

Archives come from WebDataset's own writer in all its compressions, from Python's tarfile in its
three formats, and from GNU tar and bsdtar; with odd names and sizes. Keys, fields, their order and
their bytes must be the same. Where WebDataset silently loses data, the test shows that it does, and
that tarn reports it.
"""
import bz2
import gzip
import io
import lzma
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import warnings

import webdataset as wds

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", str(ROOT / "build-plain")))
DUMP = BUILD / "tests/dump_samples"
OWN = {"__key__", "__url__", "__local_path__"}
warnings.simplefilter("ignore")


def raw(text):
    return text.encode("utf-8", "surrogateescape")


def theirs(*paths):
    """What WebDataset reads: [(key, [(field, bytes)])]."""
    out = []
    for s in wds.WebDataset([str(p) for p in paths], shardshuffle=False, empty_check=False):
        out.append((raw(s["__key__"]), [(raw(k), v) for k, v in s.items() if k not in OWN]))
    return out


class Ours:
    def __init__(self, *paths, options=()):
        done = subprocess.run([str(DUMP), *options, *map(str, paths)], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.samples, self.notices, self.end, self.damaged = [], [], None, []
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            word, rest = (line + " ").split(" ", 1)
            if word == "sample":
                _, damaged, key = rest[:-1].split(" ")
                self.samples.append((bytes.fromhex(key), []))
                self.damaged.append(damaged == "1")
            elif word == "field":
                _, name, data = rest[:-1].split(" ")
                self.samples[-1][1].append((bytes.fromhex(name), bytes.fromhex(data)))
            elif word == "notice":
                self.notices.append(rest)
            else:
                self.end = line


# --- Archives -----------------------------------------------------------------------------

SIZES = [0, 1, 2, 511, 512, 513, 1023, 1024, 1025, 5000, 70000, 300000]


def some_bytes(rng):
    return rng.randbytes(rng.choice(SIZES[:10] if rng.random() < 0.95 else SIZES))


def some_key(rng, number):
    part = rng.choice(["s", "Sample", "ü", "日本", "with space", "a" * 120, "k-1_2", "'q\"",
                       "n" * 99, "back\\slash"])
    folder = rng.choice(["", "", "", "d/", "./", "d.e/", "../", "ä/b/", "x" * 160 + "/", "/abs/"])
    return f"{folder}{part}{number}"


def some_samples(rng, count):
    fields = ["jpg", "txt", "cls", "seg.png", "JSON", "a.B.c", "x", "éÉ", "ΟΔΟΣ", "İ", "0", "n" * 90]
    for number in range(count):
        chosen = rng.sample(fields, rng.randint(1, 6))
        yield {"__key__": some_key(rng, number), **{f: some_bytes(rng) for f in chosen}}


def by_webdataset(path, samples, **options):
    with wds.TarWriter(str(path), encoder=False, **options) as writer:
        for sample in samples:
            writer.write(sample)


def by_tarfile(path, samples, fmt):
    with tarfile.open(path, "w", format=fmt) as tar:
        for sample in samples:
            for field, data in sample.items():
                if field == "__key__":
                    continue
                info = tarfile.TarInfo(f"{sample['__key__']}.{field}")
                info.size = len(data)
                try:
                    tar.addfile(info, io.BytesIO(data))
                except ValueError:  # no ustar header can hold the name
                    continue


def add(tar, name, data=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    tar.addfile(info, io.BytesIO(data))


def plain(path, *members, fmt=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=fmt) as tar:
        for member in members:
            add(tar, *member)
    return path


# --- Agreement ----------------------------------------------------------------------------

def agrees(folder, path):
    ours, want = Ours(path), theirs(path)
    assert ours.end == "end", ours.end
    assert ours.samples == want, first_difference(ours.samples, want)
    return len(want)


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return i, x[0], y[0], [f for f, _ in x[1]], [f for f, _ in y[1]]
    return len(a), len(b)


def what_its_writer_writes(folder):
    for seed, (name, options) in enumerate([
            ("a.tar", {}), ("b.tar", {"mtime": 0}), ("c.tar", {"mtime": -1.5}), ("d.tar.gz", {}),
            ("e.tgz", {"mtime": 0}), ("f.tar.bz2", {}), ("g.tar.xz", {}), ("h.tar", {"compress": True}),
            ("i.tar", {"compress": "xz"}), ("j.tar", {"user": "é" * 20, "group": "g" * 40})]):
        path = folder / name
        by_webdataset(path, some_samples(random.Random(seed), 60), **options)
        assert agrees(folder, path) == 60, name


def what_tarfile_writes(folder):
    for fmt in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = folder / f"t{fmt}.tar"
        by_tarfile(path, some_samples(random.Random(fmt + 50), 80), fmt)
        assert agrees(folder, path) > 20


def what_tar_programs_write(folder):
    source = folder / "source"
    for sample in some_samples(random.Random(7), 40):
        for field, data in sample.items():
            key = sample["__key__"].replace("../", "up/").lstrip("/")
            if field != "__key__":
                file = source / f"{key}.{field}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
    os.symlink("nowhere", source / "link.jpg")
    (source / "README").write_text("no extension")
    (source / "__meta__").mkdir()
    (source / "__meta__/x.txt").write_text("metadata")
    for name, command in {"gnu": ["tar", "--format=gnu"], "posix": ["tar", "--format=posix"],
                          "oldgnu": ["tar", "--format=oldgnu"], "bsd": ["bsdtar"],
                          "bsdpax": ["bsdtar", "--format=pax"],
                          "z": ["tar", "-z"], "j": ["tar", "-j"], "J": ["tar", "-J"]}.items():
        path = folder / f"{name}.tar"
        subprocess.run([*command, "-cf", path, "-C", source, "."], check=True,
                       stderr=subprocess.DEVNULL, env=dict(os.environ, LC_ALL="C.UTF-8"))
        agrees(folder, path)
        notices = Ours(path).notices
        assert any("README" in n for n in notices) and any("1 link:" in n for n in notices), notices


def names_of_every_kind(folder):
    """One member each, including raw bytes; WebDataset's rule is a regular expression."""
    rng = random.Random(3)
    pieces = ["a", "b", ".", ".", "/", "/", "__", "\n", "É", "Σ", "\udcff", "\udcc3", " ", "x.y", "日", "\x7f"]
    names = {"".join(rng.choice(pieces) for _ in range(rng.randint(1, 9))) for _ in range(4000)}
    names |= {"./a.jpg", "d/.h.jpg", "./d/.h.jpg", "d.e/.h.jpg", ".h.jpg", "./.h.jpg", "a.", "a..jpg", "//.h",
              "/.h", "__a.b__", "__a.b__\n", "__", "___", "__a__/b.c", "__a__b.c", "x\ny/z.jpg", "x.y\nd/c.jpg"}
    names = sorted(n for n in names if not n.endswith("/") and n.strip("/"))
    path = folder / "names.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for i, name in enumerate(names):
            # a sample in between, so that two names with one key are two samples
            add(tar, name, b"%d" % i)
            add(tar, f"between{i}.txt")
    agrees(folder, path)


def several_archives(folder):
    paths = [plain(folder / f"m{i}.tar", ("same.a", b"%d" % i), ("same.b", b"x")) for i in range(3)]
    assert Ours(*paths).samples == theirs(*paths) and len(theirs(*paths)) == 3


def members_in_between_do_not_end_a_sample(folder):
    path = plain(folder / "between.tar", ("a.1", b"1"), ("README", b"r"), ("__x__", b"m"),
                 ("d", b"", tarfile.DIRTYPE), ("l", b"", tarfile.SYMTYPE, "a.1"), ("a.2", b"2"),
                 ("b.1", b"3"))
    agrees(folder, path)
    assert len(theirs(path)) == 2


def a_bad_mark_drops_a_sample_and_is_reported(folder):
    path = plain(folder / "bad.tar", ("a.txt", b"1"), ("a.__bad__", b"x"), ("b.txt", b"2"),
                 ("c.__bad__", b""))
    agrees(folder, path)
    assert any("__bad__" in n for n in Ours(path).notices)


# --- Where WebDataset is silent -------------------------------------------------------------

def three(folder, name="three.tar"):
    return plain(folder / name, ("a.bin", b"\0\1" * 300), ("a.cls", b"1"),
                 ("b.bin", b"\0\2" * 300), ("b.cls", b"2"), ("c.bin", b"\0\3" * 300), ("c.cls", b"3"))


def silent(path):
    """WebDataset continues without an exception and returns fewer samples or fields."""
    return sum(len(fields) for _, fields in theirs(path))


def a_damaged_header_is_an_error(folder):
    data = bytearray(three(folder).read_bytes())
    data[2560 + 10] ^= 0x40  # in the header of b.bin
    path = folder / "damaged.tar"
    path.write_bytes(data)
    assert silent(path) == 2
    ours = Ours(path)
    assert ours.end.startswith("error format 2560 ") and ours.samples == []
    ours = Ours(path, options=["--lenient"])
    assert ours.end == "end" and [k for k, _ in ours.samples] == [b"a", b"b", b"c"]
    assert ours.damaged == [True, True, False] and len(ours.notices) == 1


def a_cut_archive_is_an_error(folder):
    whole = three(folder).read_bytes()
    for size in range(512, 7168, 512):
        path = folder / "cut.tar"
        path.write_bytes(whole[:size])
        for url in (path, f"file:{path}"):
            ours = Ours(url)
            assert ours.end.startswith("error truncated"), (size, ours.end)
            full = [s for s in theirs(three(folder))]
            assert ours.samples == full[:len(ours.samples)], size  # never a short sample
    path.write_bytes(whole[:2560])
    assert silent(path) == 2


def what_follows_the_end_is_an_error(folder):
    whole = three(folder).read_bytes()
    path = folder / "after.tar"
    path.write_bytes(whole + whole)
    assert silent(path) == 6
    assert "follow the end" in Ours(path).end
    assert len(Ours(path, options=["--lenient"]).samples) == 6


def all_members_of_a_gzip_file_are_read(folder):
    whole = three(folder).read_bytes()
    path = folder / "members.tar.gz"
    path.write_bytes(gzip.compress(whole[:2560]) + gzip.compress(whole[2560:]))
    assert silent(path) == 2
    ours = Ours(path)
    assert ours.end == "end" and ours.samples == theirs(three(folder))


def a_cut_compressed_archive_is_an_error(folder):
    whole = three(folder).read_bytes()
    for name, packed in {"gz": gzip.compress(whole), "bz2": bz2.compress(whole),
                         "xz": lzma.compress(whole)}.items():
        path = folder / f"cut.tar.{name}"
        path.write_bytes(packed[:-5])
        assert Ours(path).end.startswith("error truncated"), (name, Ours(path).end)
        assert Ours(path, options=["--lenient"]).end == "end"


def a_duplicate_field_is_an_error_or_reported(folder):
    path = plain(folder / "twice.tar", ("a.txt", b"1"), ("a.TXT", b"2"), ("b.txt", b"3"))
    try:
        theirs(path)
        assert False
    except ValueError:
        pass
    assert "already has this field" in Ours(path).end and Ours(path).end.startswith("error format 1024")
    ours = Ours(path, options=["--keep-first"])
    assert ours.samples == [(b"a", [(b"txt", b"1")]), (b"b", [(b"txt", b"3")])]
    assert len(ours.notices) == 1


def its_own_field_names_are_an_error(folder):
    for field in ("__key__", "__url__"):
        path = plain(folder / "own.tar", (f"a.{field}", b"1"))
        try:
            theirs(path)
            assert False
        except ValueError:
            pass
        assert "reserves this field name" in Ours(path).end


def scattered_samples_are_reported(folder):
    path = plain(folder / "scattered.tar", ("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3"))
    agrees(folder, path)
    assert len(theirs(path)) == 3
    notices = Ours(path).notices
    assert len(notices) == 1 and notices[0].startswith("ambiguous 2048 a was"), notices


def a_command_that_fails_is_an_error(folder):
    path = three(folder)
    ours = Ours(f"pipe:cat {path}; exit 1")
    assert ours.end.startswith("error io") and "exit status 1" in ours.end, ours.end


def main():
    tests = [what_its_writer_writes, what_tarfile_writes, what_tar_programs_write,
             names_of_every_kind, several_archives, members_in_between_do_not_end_a_sample,
             a_bad_mark_drops_a_sample_and_is_reported, a_damaged_header_is_an_error,
             a_cut_archive_is_an_error, what_follows_the_end_is_an_error,
             all_members_of_a_gzip_file_are_read, a_cut_compressed_archive_is_an_error,
             a_duplicate_field_is_an_error_or_reported, its_own_field_names_are_an_error,
             scattered_samples_are_reported, a_command_that_fails_is_an_error]
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
                print(f"ok {number} - {test.__name__}")
            except Exception as why:  # pylint: disable=broad-except
                failed += 1
                line = sys.exc_info()[2]
                while line.tb_next and line.tb_next.tb_frame.f_code.co_filename == __file__:
                    line = line.tb_next
                print(f"not ok {number} - {test.__name__}")
                print(f"# line {line.tb_lineno}: {type(why).__name__}: {why!r}"[:2000])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
