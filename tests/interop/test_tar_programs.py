#!/usr/bin/env python3
"""Differential test of the tar reader, with GNU tar, bsdtar and Python's tarfile as judges.

The rule is in tar_judges.py. Archives come in three kinds:

  ordinary   made by the programs themselves, or by hand to look like theirs; tarn must
             accept these, and find their content
  odd        one trick each, by hand (tar_odd.py), or features that are not used for data; tarn
             refuses them or agrees with the judges
  mutated    generated from a seed and then damaged (tar_mutated.py); likewise

  test_tar_programs.py [--save DIR] [PATTERN...]

runs the tests whose names contain a PATTERN, and saves the archives that break the rule.
The environment: TARN (the tool), TARN_INTEROP_COUNT (mutated archives), TARN_INTEROP_SEED
(of the first one).
"""
import argparse
import concurrent.futures
import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True

from tar_by_hand import (BLOCK, END, GNU, INSIDE, V7, B, archive, base256, gnu_long, header,
                         member, pax, pax_global, ramp)
from tar_judges import (BSD_LINE, ENV, GNU_LINE, Broken, Member, Refused, ask_tarn, base_split,
                        compare, listed, shown)
from tar_mutated import Generator
from tar_odd import all_odd

COUNT = int(os.environ.get("TARN_INTEROP_COUNT", "500"))
SEED = int(os.environ.get("TARN_INTEROP_SEED", "1"))
CHUNK = 50  # mutated archives in one test


# ---- Ordinary archives: made by the programs ----


def long_name(length):
    """A path of that many bytes, in folders of 40."""
    name = (b"f" * 39 + b"/") * (length // 40 + 1)
    return name[:length - 8].rstrip(b"/").ljust(length - 8, b"g") + b"last.txt"


PLAIN = {b"a.txt": b"hello\n", b"b.JPG": ramp(3000), b"empty.cls": b"", b"s511.bin": ramp(511),
         b"s512.bin": ramp(512), b"s513.bin": ramp(513), b"multi.seg.png": b"png", b"noext": b"n",
         b"sub": None, b"sub/c.txt": b"in a folder", b"sub/.hidden.txt": b"h",
         b"link": "a.txt", b"hard": "a.txt", b"z.end": b"z"}
SPECIAL = {b"before.txt": b"1", b"pipe": stat.S_IFIFO, b"after.txt": b"2"}
LONG = {long_name(n): b"%d" % n for n in (98, 99, 100, 101, 155, 156, 200, 219)}
LONG[b"p" * 77 + b"/" + b"q" * 77 + b"/" + b"n" * 95 + b".txt"] = b"all a ustar header can hold"
VERY_LONG = {long_name(n): b"%d" % n for n in (256, 257, 300, 512, 900)}
VERY_LONG[b"w" * 180 + b".txt"] = b"one long word"
FOREIGN = {"é.txt".encode(): b"1", "日本/語.TXT".encode(): b"2", "ÀÉÎ.ÕÜ".encode(): b"3",
           ("ß" * 40 + ".txt").encode(): b"4"}
RAW = {b"\xff\xfe.bin": b"1", b"caf\xe9/x.txt": b"2", b"ok.txt": b"3", b"\xe2\x82.\xc3": b"4"}
SETS = {"plain files": PLAIN, "fifos": SPECIAL, "long names": LONG,
        "very long names": VERY_LONG, "foreign names": FOREIGN, "raw names": RAW}
SAMPLES = {b"%04d.%s" % (i, ext): ramp(i * 37 % 1300) for i in range(40)
           for ext in (b"jpg", b"json", b"cls")}


def plant(folder, files):
    """Makes the files, folders, links and fifos of a set."""
    for name, what in files.items():
        path = os.path.join(os.fsencode(folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if what is None:
            os.mkdir(path)
        elif what == stat.S_IFIFO:
            os.mkfifo(path)
        elif name == b"link":
            os.symlink(what, path)
        elif name == b"hard":
            os.link(os.path.join(os.fsencode(folder), os.fsencode(what)), path)
        else:
            with open(path, "wb") as f:
                f.write(what)
            os.utime(path, ns=(10**18, 10**18 + 123456789))


def regular(files):
    return [Member(name, what) for name, what in files.items() if isinstance(what, bytes)]


def by_program(*command, files=PLAIN, then=None, gone=None):
    """An archive written by a program from files on disk. `then` runs one more command, in which
    ARCHIVE is replaced by its path."""
    def make(scratch):
        tree = scratch / "tree"
        tree.mkdir()
        plant(tree, files)
        out = scratch / "made.tar"
        flag = "--no-recursion" if command[0] == "tar" else "-n"
        run = [*command, flag, "-cf", str(out), "-C", str(tree), "--", *files]
        subprocess.run(run, env=ENV, check=True, capture_output=True)
        if then:
            run = [str(out) if word == "ARCHIVE" else word for word in then]
            subprocess.run(run, env=ENV, check=True, capture_output=True, cwd=tree)
        return out, [m for m in regular(files) if m.name != gone]
    return make


def python_infos(files):
    for name, what in files.items():
        info = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
        info.mtime, info.mode = 1700000000, 0o444
        info.uname = info.gname = "bigdata"
        if what is None:
            info.type = tarfile.DIRTYPE
        elif what == stat.S_IFIFO:
            info.type = tarfile.FIFOTYPE
        elif isinstance(what, str):
            info.type = tarfile.LNKTYPE if name == b"hard" else tarfile.SYMTYPE
            info.linkname = what
        else:
            info.size = len(what)
        yield info, what


def by_python(kind, files=PLAIN, mode="w:", change=None, **options):
    """An archive written by tarfile; change(info) sees every member first."""
    def make(scratch):
        out = scratch / "made.tar"
        with tarfile.open(out, mode, format=kind, encoding="utf-8", errors="surrogateescape",
                          **options) as tar:
            for info, what in python_infos(files):
                if change:
                    change(info)
                tar.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
        return out, regular(files)
    return make


def by_hand(data, *names):
    """Bytes, and the names that must be found in them."""
    def make(scratch):
        out = scratch / "made.tar"
        out.write_bytes(data)
        return out, [Member(name, None) for name in names]
    return make


def setting(**values):
    """A change for by_python that sets attributes."""
    def change(info):
        for key, value in values.items():
            setattr(info, key, value)
    return change


def ordinary_by_programs():
    tar = {"v7": ("plain files", "foreign names", "raw names")}
    tar["ustar"] = (*tar["v7"], "fifos", "long names")
    tar["posix"] = tar["gnu"] = tar["oldgnu"] = (*tar["ustar"], "very long names")
    for kind, sets in tar.items():
        for what in sets:
            yield f"GNU tar {kind}: {what}", by_program("tar", f"--format={kind}",
                                                        files=SETS[what])
    bsd = {"v7tar": tar["v7"], "ustar": tar["ustar"], "gnutar": tar["gnu"],
           "paxr": tar["posix"], "pax": tar["posix"]}
    for kind, sets in bsd.items():
        for what in sets:
            yield f"bsdtar {kind}: {what}", by_program("bsdtar", "--format", kind,
                                                       files=SETS[what])
    py = {"USTAR_FORMAT": tar["ustar"], "GNU_FORMAT": tar["gnu"], "PAX_FORMAT": tar["posix"]}
    for kind, sets in py.items():
        for what in sets:
            yield f"tarfile {kind}: {what}", by_python(getattr(tarfile, kind), SETS[what])


def ordinary_with_options():
    for words in ("--format=gnu -b1", "--format=posix -b1", "--format=ustar -b2",
                  "--format=gnu -b200", "--format=gnu --mtime=@-5", "--format=posix --mtime=@-5",
                  "--format=gnu --mtime=@99999999999", "--format=posix --mtime=@99999999999",
                  "--format=gnu --owner=+3000000 --group=+4000000",
                  "--format=posix --owner=+3000000 --group=+4000000",
                  "--format=posix --pax-option=comment=made",
                  "--format=posix --pax-option=delete=?time",
                  "--format=posix --pax-option=mtime:=1.5,comment:=x",
                  "--format=posix --pax-option=exthdr.name=%d/x.%p/%f",
                  "--format=gnu --mode=07777 --owner=someone:1 --group=them:2"):
        yield f"GNU tar {words}", by_program("tar", *words.split())
    for kind in ("gnu", "posix", "ustar"):
        yield f"GNU tar {kind}: 120 samples", by_program("tar", f"--format={kind}", files=SAMPLES)
    yield "GNU tar: members appended", appended("gnu")
    yield "GNU tar: archives concatenated with -A", concatenated("posix")
    yield "GNU tar: a member deleted", by_program(
        "tar", "--format=gnu", files={**PLAIN, b"gone.bin": ramp(2000), b"more.bin": ramp(2000)},
        then=["tar", "--delete", "-f", "ARCHIVE", "gone.bin"], gone=b"gone.bin")


def appended(kind):
    more = {b"more.txt": b"more", b"more.bin": ramp(700)}

    def make(scratch):
        plant(scratch, more)
        then = ["tar", f"--format={kind}", "-rf", "ARCHIVE", "-C", str(scratch),
                "more.txt", "more.bin"]
        out, members = by_program("tar", f"--format={kind}", then=then)(scratch)
        return out, members + regular(more)
    return make


def concatenated(kind):
    def make(scratch):
        (scratch / "second").mkdir()
        other, more = by_program("tar", f"--format={kind}", files=LONG)(scratch / "second")
        then = ["tar", "-Af", "ARCHIVE", str(other)]
        out, members = by_program("tar", f"--format={kind}", then=then)(scratch)
        return out, members + more
    return make


def ordinary_by_tarfile():
    pax_kind, gnu_kind = tarfile.PAX_FORMAT, tarfile.GNU_FORMAT
    yield "tarfile pax: float times", by_python(pax_kind, SAMPLES, "w|",
                                                setting(mtime=1794730006.9241323))
    yield "tarfile pax: a whole float time", by_python(pax_kind, change=setting(mtime=1.0))
    yield "tarfile pax: negative times", by_python(pax_kind, change=setting(mtime=-3))
    yield "tarfile gnu: negative times", by_python(gnu_kind, change=setting(mtime=-3))
    yield "tarfile pax: large owners", by_python(pax_kind, change=setting(uid=2**31, gid=2**24))
    yield "tarfile gnu: large owners", by_python(gnu_kind, change=setting(uid=2**31, gid=2**24))
    yield "tarfile pax: foreign owners", by_python(pax_kind, change=setting(uname="Ünïcode",
                                                                            gname="gré"))
    yield "tarfile pax: a global comment", by_python(pax_kind,
                                                     pax_headers={"comment": "all of it"})
    yield "tarfile pax: records of its own", by_python(
        pax_kind, change=setting(pax_headers={"VENDOR.note": "\n=\n", "comment": "é"}))
    yield "tarfile: the old regular type", by_python(
        gnu_kind, {b"a.txt": b"1", b"b.bin": ramp(600)}, change=setting(type=tarfile.AREGTYPE))
    yield "tarfile: the contiguous type", by_python(
        gnu_kind, {b"a.txt": b"1", b"b.bin": ramp(600)}, change=setting(type=tarfile.CONTTYPE))
    yield "tarfile: no member", by_python(pax_kind, {})
    yield "tarfile: devices between files", by_python(pax_kind, SPECIAL, change=make_device)


def make_device(info):
    if info.type == tarfile.FIFOTYPE:
        info.type, info.devmajor, info.devminor = tarfile.CHRTYPE, 1, 3


def ordinary_by_hand():
    a = member()
    commit = pax_global((b"comment", b"0123456789" * 4), mtime=b"14532601234")
    yield "the global comment of git archive", by_hand(archive(commit, a), b"a.txt", b"b.txt")
    yield "one zero block at the end", by_hand(a + bytes(BLOCK), b"a.txt")
    yield "zeros up to a record of 10240 bytes", by_hand((a + END).ljust(10240, b"\0"), b"a.txt")
    yield "100 blocks of zeros", by_hand(a + bytes(100 * BLOCK), b"a.txt")
    yield "nothing but zeros", by_hand(bytes(10240))
    yield "base-256 size", by_hand(archive(member(size=base256(6))), b"a.txt", b"b.txt")
    yield "numbers ended by blanks", by_hand(
        archive(member(mode=b"000644 ", uid=b"000001 ", size=b"00000000006 ",
                       mtime=b"14532601234 ", magic=V7)), b"a.txt", b"b.txt")
    yield "numbers led by blanks", by_hand(
        archive(member(mode=b"   644 ", uid=b"     1 ", size=b"          6 ", magic=V7,
                       mtime=b"14532601234 ")), b"a.txt", b"b.txt")
    yield "a size of twelve digits", by_hand(archive(member(size=b"000000000006")),
                                            b"a.txt", b"b.txt")
    yield "pax size in place of 0", by_hand(
        archive(pax((b"size", b"1024")), member(b"a.txt", INSIDE, size=0)), b"a.txt", b"b.txt")
    yield "pax path over prefix and name", by_hand(
        archive(pax((b"path", b"new/p.txt")), member(b"old.txt", b"1", prefix=b"dir")),
        b"new/p.txt", b"b.txt")
    yield "prefix and name", by_hand(archive(member(b"n.txt", b"1", prefix=b"p" * 155)),
                                     b"p" * 155 + b"/n.txt", b"b.txt")
    yield "a tar in a tar", by_hand(archive(member(b"in.tar", INSIDE + END)), b"in.tar", b"b.txt")
    yield "checksum of signed bytes", by_hand(
        archive(member("é.txt".encode(), signed=True)), "é.txt".encode(), b"b.txt")
    yield "a name twice", by_hand(archive(member(), member(data=b"again\n")),
                                  b"a.txt", b"a.txt", b"b.txt")
    for block in range(507, 513):  # of 512: readers tend to look at 256 KiB at a time
        fill = member(b"fill.bin", ramp((block - 1) * BLOCK))
        yield f"a long name that begins in block {block}", by_hand(
            archive(fill, gnu_long(b"l" * 900 + b".txt"), a), b"fill.bin", b"l" * 900 + b".txt",
            b"b.txt")
        yield f"an extended header that begins in block {block}", by_hand(
            archive(fill, pax((b"comment", b"c" * 700), (b"path", b"p.txt")), a), b"fill.bin",
            b"p.txt", b"b.txt")
    yield "a decomposed name", by_hand(archive(member("e\u0301.txt".encode())),
                                       "e\u0301.txt".encode(), b"b.txt")
    yield "a decomposed name in a pax record", by_hand(
        archive(pax((b"path", "e\u0301.txt".encode())), a), "e\u0301.txt".encode(), b"b.txt")
    yield "an extended header of 300 KB", by_hand(
        archive(pax((b"comment", b"c" * 300000), (b"path", b"p.txt")), a), b"p.txt", b"b.txt")


def check_ordinary(make):
    def check(scratch, saved):
        path, expected = make(scratch)
        saved.append(path)
        members = compare(path, scratch)
        if members is None:
            try:
                ask_tarn(path)
            except Refused as e:
                raise Broken(f"tarn refuses an ordinary archive: {e}") from None
        same = [m.name for m in members] == [m.name for m in expected] and all(
            want.data in (None, got.data) for got, want in zip(members, expected))
        if not same:
            raise Broken(f"found {shown(members)}\nnot what was put in: "
                         f"{[m.name for m in expected]}")
    return check


# ---- Members larger than 8 GiB, in a file with holes ----


HUGE = 9 << 30


def check_huge(first):
    """Only listed: no program extracts the 9 GiB."""
    def check(scratch, saved):
        path = scratch / "huge.tar"
        try:
            with open(path, "wb") as f:
                f.write(first)
                f.seek(HUGE, os.SEEK_CUR)
                f.write(B + END)
        except OSError as e:
            return f"SKIP no file of 9 GiB here: {e.strerror}"
        rows = ask_tarn(path)
        want = [("huge", "bin", HUGE), ("b", "txt", 7)]
        if [row[:3] for row in rows] != want:
            raise Broken(f"tarn lists {rows}")
        with tarfile.open(path, "r:") as tar:
            infos = [(*base_split(i.name.encode()), i.size) for i in tar]
            data = [i.offset_data for i in tar]
        if infos != want or data != [row.offset + BLOCK for row in rows]:
            raise Broken(f"tarfile lists {infos} at {data}, tarn {rows}")
        for program, line in (("tar", GNU_LINE), ("bsdtar", BSD_LINE)):
            done = subprocess.run([program, "--numeric-owner", "-tvvf", str(path)], env=ENV,
                                  capture_output=True, timeout=300)
            got = [(*base_split(name), size) for name, size in listed(done.stdout, line)]
            if done.returncode or got != want:
                raise Broken(f"{program} lists {got}, {done.stderr[-300:]}")
        return None
    return check


def huge_archives():
    name = b"huge.bin"
    yield "pax size", pax((b"size", b"%d" % HUGE)) + header(name, 0)
    yield "pax size, and the same in base 256", (
        pax((b"size", b"%d" % HUGE)) + header(name, base256(HUGE)))
    yield "base-256 size", header(name, base256(HUGE), magic=GNU)
    yield "twelve octal digits", header(name, b"%012o" % HUGE)


# ---- Odd and mutated archives ----


def hold(path, saved, what, broken, scratch):
    """Checks the rule with one of many archives. Returns whether tarn accepted it."""
    try:
        return compare(path, scratch) is not None
    except Broken as e:
        saved.append(path)
        broken.append(f"{what}: {e}")
        return False


def check_odd(data):
    """One archive, or {variant: archive}."""
    def check(scratch, saved):
        broken = []
        for number, (variant, content) in enumerate(
                data.items() if isinstance(data, dict) else [("archive", data)]):
            path = scratch / f"odd{number}.tar"
            path.write_bytes(content)
            hold(path, saved, variant, broken, scratch)
        if broken:
            raise Broken("\n".join(broken))
    return check


def holes(scratch):
    """A sparse file."""
    path = scratch / "holes.bin"
    with open(path, "wb") as f:
        for at in (0, 300000, 600000):
            f.seek(at)
            f.write(ramp(5000))
        f.truncate(900000)
    return path


def check_feature(*command):
    """An archive of a program with a special feature: tarn may refuse any of them."""
    def check(scratch, saved):
        path = holes(scratch)
        (scratch / "plain.txt").write_bytes(b"plain\n")
        out = scratch / "made.tar"
        subprocess.run([*command, "-cf", str(out), "-C", str(scratch), path.name, "plain.txt"],
                       env=ENV, check=True, capture_output=True)
        saved.append(out)
        compare(out, scratch)
    return check


def features():
    for kind in ("gnu", "oldgnu", "posix --sparse-version=0.0", "posix --sparse-version=0.1",
                 "posix --sparse-version=1.0"):
        yield f"GNU tar {kind}: holes", ["tar", *f"--format={kind} --sparse".split()]
    for kind in ("gnutar", "pax", "ustar"):
        yield f"bsdtar {kind}: holes", ["bsdtar", "--format", kind]
        yield f"bsdtar {kind}: holes read", ["bsdtar", "--no-read-sparse", "--format", kind]
    for kind in ("gnu", "posix"):
        yield f"GNU tar {kind}: label", ["tar", f"--format={kind}", "--label=name"]
        yield f"GNU tar {kind}: incremental", ["tar", f"--format={kind}", "--incremental"]


ACCEPTED = []


def check_mutated(seeds):
    def check(scratch, saved):
        broken = []
        for seed in seeds:
            generator = Generator(seed)
            path = scratch / f"seed{seed}.tar"
            path.write_bytes(generator.build())
            what = f"seed {seed} ({'; '.join(generator.story)})"
            if hold(path, saved, what, broken, scratch):
                ACCEPTED.append(seed)
        if broken:
            raise Broken("\n".join(broken))
    return check


def check_share():
    """A generator whose archives are all refused would prove nothing."""
    if len(ACCEPTED) * 5 < COUNT:
        return f"tarn accepts only {len(ACCEPTED)} of {COUNT} mutated archives"
    return None


# ---- Running ----


def all_tests():
    for part in (ordinary_by_programs, ordinary_with_options, ordinary_by_tarfile,
                 ordinary_by_hand):
        for name, make in part():
            yield f"ordinary, {name}", check_ordinary(make)
    for name, first in huge_archives():
        yield f"ordinary, member of 9 GiB, {name}", check_huge(first)
    for name, command in features():
        yield f"odd, {name}", check_feature(*command)
    for name, data in all_odd():
        yield f"odd, {name}", check_odd(data)
    for first in range(SEED, SEED + COUNT, CHUNK):
        seeds = range(first, min(first + CHUNK, SEED + COUNT))
        yield f"mutated, seeds {seeds[0]} to {seeds[-1]}", check_mutated(seeds)


def run_one(check, keep, number):
    """Returns None, the reason for a failure, or SKIP and its reason."""
    with tempfile.TemporaryDirectory(prefix="tarn-interop-") as scratch:
        saved = []
        try:
            return check(pathlib.Path(scratch), saved)
        except (Broken, Refused) as e:
            for path in saved if keep else ():
                shutil.copy(path, keep / f"{number}-{path.name}")
            return str(e)
        except (subprocess.SubprocessError, OSError) as e:
            return f"{type(e).__name__}: {e} {getattr(e, 'stderr', None) or ''}"


def missing():
    for program, text in (("tar", "GNU tar"), ("bsdtar", "bsdtar")):
        try:
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        except OSError:
            return f"no {text} here"
        if text not in said:
            return f"{program} is not {text}"
    return None


def report(number, name, why):
    """Prints a result; returns whether it is a failure."""
    if why and why.startswith("SKIP"):
        print(f"ok {number} - {name} # {why}")
        return False
    print(f"{'not ok' if why else 'ok'} {number} - {name}")
    if why:
        print("\n".join("#   " + line for line in why.splitlines()), flush=True)
    return bool(why)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("patterns", nargs="*")
    args = parser.parse_args()
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
    if why := missing():
        print(f"1..1\nok 1 - tar programs agree # SKIP {why}")
        return 0
    tests = [(name, check) for name, check in all_tests()
             if not args.patterns or any(p in name for p in args.patterns)]
    all_of_them = not args.patterns and COUNT > 0
    print(f"1..{len(tests) + all_of_them}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        runs = [pool.submit(run_one, check, args.save, number)
                for number, (_, check) in enumerate(tests, 1)]
        for number, ((name, _), run) in enumerate(zip(tests, runs), 1):
            failed += report(number, name, run.result())
    if all_of_them:
        failed += report(len(tests) + 1, "mutated, enough of them accepted", check_share())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
