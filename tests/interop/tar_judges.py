"""The four programs, what each finds in an archive, and the rule they must follow.

GNU tar, bsdtar and Python's tarfile are the judges. tarn refuses an archive (exit 1, a
message that names the file), or it finds exactly the regular members that all three find:
the same names in the same order, the same sizes, the same bytes. A judge that refuses what
tarn accepts breaks the rule too.
"""
import collections
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import tarfile
import unicodedata
import zlib

from tar_by_hand import BLOCK

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARN = os.environ.get("TARN", str(ROOT / "build" / "tarn"))
ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
ENV.update((k, v) for k, v in os.environ.items() if k.endswith("SAN_OPTIONS"))

Member = collections.namedtuple("Member", "name data")
Row = collections.namedtuple("Row", "key field size offset")


class Broken(Exception):
    """The rule is broken."""


class Refused(Exception):
    """A program refused the archive, or complained; then `members` is what it read anyway, if
    anything."""

    def __init__(self, why, members=None):
        super().__init__(why)
        self.members = members


def ask_python(path, _scratch):
    members = []
    try:
        with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
            for info in tar:
                if not info.isreg():
                    continue
                data = tar.extractfile(info).read()
                if len(data) != info.size:
                    raise Refused(f"{len(data)} bytes of {info.size}")
                members.append(Member(info.name.encode("utf-8", "surrogateescape"), data))
    except Exception as e:  # tarfile raises many kinds
        raise Refused(f"{type(e).__name__}: {e}") from None
    return members


ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f",
           b"v": b"\v"}


def unescaped(text):
    def one(match):
        code = match[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else ESCAPED.get(code, code)
    return ESCAPE.sub(one, text)


# A listing pads its dates to the longest one so far (GNU tar) or not at all (bsdtar).
GNU_LINE = re.compile(rb"^(?P<type>\S)\S{9,10} -?\d+/-?\d+ +(?P<size>[\d,]+) "
                      rb"(?P<date>-?\d+-\d\d-\d\d \d\d:\d\d|-?\d+) (?P<rest>.*)$", re.MULTILINE)
BSD_LINE = re.compile(rb"^(?:x )?(?P<type>\S)\S{9,10} +-?\d+ +\S+ +\S+ +(?P<size>-?[\d,]+) "
                      rb"(?P<date>[A-Z][a-z]{2} [ \d]\d (?:\d\d:\d\d| -?\d+)) (?P<rest>.*)$",
                      re.MULTILINE)


def listed(text, line):
    """(name, size) of the regular members in a listing."""
    width = len("YYYY-MM-DD HH:MM") if line is GNU_LINE else 0
    for match in line.finditer(text):
        if line is GNU_LINE:
            width = max(width, len(match["date"]))
        if match["type"] in (b"-", b"C"):
            name = match["rest"][max(width - len(match["date"]), 0):]
            yield unescaped(name), int(match["size"])


def ask_program(command, line, path, scratch):
    """Members as `tar -xvvO` prints them: a listing on stderr, the payloads on stdout."""
    done = subprocess.run([*command, "-xvvOP", "--numeric-owner", "-f", str(path)], env=ENV,
                          cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=300)
    members, at = [], 0
    for name, size in listed(done.stderr, line):
        members.append(Member(name, done.stdout[at:at + size]))
        at += size
    if at != len(done.stdout):
        raise Refused(f"{len(done.stdout)} bytes for members of {at}")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-6000:]
        raise Refused(f"exit {done.returncode}: {said}", members)
    return members


def ask_gnu(path, scratch):
    return ask_program(["tar", "--quoting-style=escape"], GNU_LINE, path, scratch)


def ask_bsd(path, scratch):
    try:
        return ask_program(["bsdtar"], BSD_LINE, path, scratch)
    except Refused as e:
        if f"exit {-signal.SIGSEGV}:" not in str(e):
            raise
        return ask_bsd_for_cpio(path, scratch)


def ask_bsd_for_cpio(path, scratch):
    """bsdtar crashes when it lists a year outside the calendar. As a converter it prints no date."""
    done = subprocess.run(["bsdtar", "-cPf", "-", "--format=newc", f"@{path}"], env=ENV,
                          cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=300)
    members, at, rest = [], 0, done.stdout
    while rest[at:at + 6] == b"070701":
        mode, size, length = (int(rest[at + i:at + i + 8], 16) for i in (14, 54, 94))
        name = rest[at + 110:at + 110 + length - 1]
        at += (110 + length + 3) & ~3
        if stat.S_ISREG(mode):
            members.append(Member(name, rest[at:at + size]))
        at += (size + 3) & ~3
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-6000:]
        raise Refused(f"exit {done.returncode}: {said}", members)
    return members


JUDGES = {"tarfile": ask_python, "GNU tar": ask_gnu, "bsdtar": ask_bsd}


def ask_tarn(path, *options):
    """The rows that tarn finds, in the order of the archive."""
    done = subprocess.run([TARN, "ls", "--members", "--json", *options, str(path)], env=ENV,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    said = done.stderr.decode("utf-8", "replace")
    if "Sanitizer" in said or "runtime error:" in said:
        raise Broken(f"sanitizer report:\n{said[:4000]}")
    if done.returncode == 1:
        if path.name not in said:
            raise Broken(f"tarn refuses without naming the file: {said!r}")
        raise Refused(said.strip())
    if done.returncode:
        raise Broken(f"tarn exits with {done.returncode}: {said.strip()[-600:]}")
    rows = []
    for line in filter(None, done.stdout.decode("utf-8").split("\n")):
        sample = json.loads(line)
        rows += [Row(sample["key"], m["field"], m["size"], m["offset"])
                 for m in sample["members"]]
    return sorted(rows, key=lambda row: row.offset)


# Complaints that end in a failing exit, although the judge reads every member. The members are
# compared as usual.
BENIGN = [
    ("bsdtar", "(Pathname|Linkname|Uname|Gname) can't be converted from UTF-8",
     "GNU tar writes names that are not UTF-8 into pax records as they are, and so must a "
     "reader take them; bsdtar does so too, after complaining"),
    ("GNU tar", r"^Archive .*is out of (uid_t|gid_t|time_t) range|"
                r"^Extended header (uid|gid|[acm]time)=.* is out of range",
     "an owner or a time that is a number, but not one of this machine's types"),
]

# First bytes that make bsdtar (and GNU tar too, if the header is an old one) mistake a tar for
# something else. If they then refuse it, that proves nothing.
SNIFFED = (b"BZh91AY&SY", b"!<arch>\n")

# Complaints of GNU tar that leave its exit status at 0.
WARNING = re.compile("A lone zero block|Ignoring unknown extended header keyword|"
                     ".* previous errors")


def as_bsdtar_shows(name):
    """bsdtar composes the Unicode in the path of a pax record (e and an accent become é), and skips
    all but the last of several leading slashes."""
    text = re.sub(r"^/+", "/", name.decode("utf-8", "surrogateescape"))
    return unicodedata.normalize("NFC", text).encode("utf-8", "surrogateescape")


def same_names(members, others):
    """What bsdtar found, with the names as other programs show them if its habits explain the
    difference."""
    if len(members) != len(others):
        return members
    return [m._replace(name=o.name) if m.name == as_bsdtar_shows(o.name) else m
            for m, o in zip(members, others)]


def is_benign(judge, refusal):
    """Whether all complaints of a judge are benign."""
    if refusal.members is None:
        return False
    said = re.sub(r"^exit \d+: ", "", str(refusal))
    said = re.findall(r"^(?:bsd)?tar: (.*)$", said, re.MULTILINE)
    said = [line for line in said if not WARNING.match(line)]
    return bool(said) and all(
        any(judge == who and re.search(what, line) for who, what, _ in BENIGN)
        for line in said)


def base_split(name):
    stem, _, field = name.rpartition(b"/")[2].partition(b".")
    return stem.decode("utf-8", "replace"), field.decode("utf-8", "replace").lower()


def path_split(name):
    """Key and field by the path rule; None for names that do not belong to a sample."""
    folder, slash, base = name.rpartition(b"/")
    stem, dot, field = base.partition(b".")
    if not dot or not stem or re.match(rb"__[^/]*__(/|$)", name):
        return None
    key = (folder + slash + stem).decode("utf-8", "replace")
    return key, field.decode("utf-8", "replace").lower()


def shown(members):
    if isinstance(members, str):
        return "refuses: " + members
    names = ", ".join(f"{m.name.decode('utf-8', 'backslashreplace')[:120]!r} "
                      f"({len(m.data)} bytes, crc {zlib.crc32(m.data):08x})" for m in members)
    return f"{len(members)} members: {names}"


def compare(path, scratch):
    """Checks the rule with one archive. Returns the members, or None if tarn refused."""
    try:
        rows = ask_tarn(path)
    except Refused:
        return None
    content = path.read_bytes()
    mine = [content[r.offset + BLOCK:r.offset + BLOCK + r.size] for r in rows]
    said = {}
    for judge, ask in JUDGES.items():
        try:
            said[judge] = ask(path, scratch)
        except Refused as e:
            if judge == "tarfile" or not content.startswith(SNIFFED):
                said[judge] = e.members if is_benign(judge, e) else str(e)
    if isinstance(said.get("bsdtar"), list) and isinstance(said["tarfile"], list):
        said["bsdtar"] = same_names(said["bsdtar"], said["tarfile"])
    names = {tuple(m.name for m in ms) if isinstance(ms, list) else ms for ms in said.values()}
    if len(names) > 1 or not all(agrees(rows, mine, ms) for ms in said.values()):
        own = [Member(f"{r.key} . {r.field}".encode(), d) for r, d in zip(rows, mine)]
        raise Broken("\n".join(["tarn accepts what the judges see otherwise",
                                f"tarn: {shown(own)}",
                                *(f"{j}: {shown(m)}" for j, m in said.items())]))
    check_paths(path, said["tarfile"])
    return said["tarfile"]


def agrees(rows, mine, members):
    return (isinstance(members, list) and len(rows) == len(members) and
            all((row.key, row.field, row.size) == (*base_split(m.name), len(m.data)) and
                data == m.data for row, data, m in zip(rows, mine, members)))


def check_paths(path, members):
    """Folders are part of the key only by the path rule."""
    if not any(b"/" in m.name for m in members):
        return
    try:
        rows = ask_tarn(path, "--keys", "path")
    except Refused as e:
        if "control character" in str(e):
            return
        raise Broken(f"refused only with --keys path: {e}") from None
    got = [(row.key, row.field) for row in rows]
    want = [split for split in (path_split(m.name) for m in members) if split]
    if got != want:
        raise Broken(f"--keys path gives {got}, the judges' names give {want}")
