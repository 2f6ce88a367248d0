#!/usr/bin/env python3
"""Keys and fields compared with Python, which defines them.

glzn decodes a name's bytes as UTF-8 with replacement, and splits and lower-cases it with Python's
own string functions. So Python is the judge here: an archive gets names of every kind, and `tarn
ls` must show the keys and fields that Python derives from them. WebDataset's rule is its regular
expression, with the exceptions that tarn documents.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from checks import ROOT, TARN, check
WEBDATASET = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.S)


def header(name, size=0, kind=b"0"):
    block = bytearray(512)
    block[:len(name)] = name
    block[100:148] = (b"0000644\0" b"0000000\0" b"0000000\0"
                      + b"%011o\0" % size + b"00000000000\0")
    block[156:157] = kind
    block[257:265] = b"ustar\0" b"00"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def member(name):
    """An empty member; a long name is stored in a GNU long-name header."""
    if len(name) <= 100:
        return header(name)
    data = name + b"\0"
    padded = data + bytes(-len(data) % 512)
    return header(b"././@LongLink", len(data), b"L") + padded + header(name[:100])


def base_rule(name):
    text = name.decode("utf-8", "replace").rsplit("/", 1)[-1]
    stem, _, field = text.partition(".")
    return stem, field.lower()


def path_rule(name):
    text = name.decode("utf-8", "replace")
    base = text.rsplit("/", 1)[-1]
    top = text.split("/", 1)[0]
    if len(top) >= 4 and top.startswith("__") and top.endswith("__"):
        return None
    match = WEBDATASET.match(text)
    # "d/.h.jpg" has the key "d/" by the expression; tarn skips it like similar names.
    if not match or base.startswith("."):
        return None
    return match.group(1), match.group(2).lower()


def listing(archive, rule):
    done = subprocess.run([TARN, "ls", "--json", "--keys", rule, archive], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = {}
    for line in done.stdout.decode("utf-8").split("\n")[:-1]:
        sample = json.loads(line)
        for one in sample["members"]:
            found[one["offset"]] = (sample["key"], one["field"])
    return found


def random_name(rng):
    """Bytes without NUL, newline or other control characters, and not ending in a slash."""
    pieces = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        if kind < 0.4:
            pieces.append(bytes([rng.choice(b"abcXYZ0189_- \\,")]))
        elif kind < 0.55:
            pieces.append(rng.choice([b".", b"/", b"..", b"./", b"__"]))
        elif kind < 0.85:
            code = rng.choice([rng.randrange(0xA0, 0x600), rng.randrange(0x1E00, 0x2000),
                               0x130, 0x3A3, 0x3C3, 0x345, 0xB7, 0x2BC, 0xAD,
                               rng.randrange(0x2C00, 0x2D30), rng.randrange(0xA640, 0xA7CA),
                               rng.randrange(0x10400, 0x104D4), rng.randrange(0x1F600, 0x1F64F)])
            pieces.append(chr(code).encode())
        else:
            pieces.append(bytes(rng.randrange(0x80, 0x100) for _ in range(rng.randint(1, 3))))
    name = b"".join(pieces)
    return name if not name.endswith(b"/") else name + b"x"


def compare(names, rule, expect):
    """None if all names agree, otherwise the first difference. Each sample has its own archive."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = os.path.join(scratch, "names.tar")
        offsets, at = [], 0
        with open(archive, "wb") as out:
            for name in names:
                data = member(name)
                out.write(data)
                at += len(data)
                offsets.append(at - 512)
            out.write(bytes(1024))
        found = listing(archive, rule)
    for name, offset in zip(names, offsets):
        want = expect(name)
        if found.get(offset) != want:
            return f"{name!r}: {found.get(offset)!r}, and Python says {want!r}"
    return None


def vectors():
    with open(ROOT / "tests/data/name_vectors.json", encoding="utf-8") as f:
        cases = json.load(f)["names"]
    names = [bytes.fromhex(c["name_field_hex"]) for c in cases]
    truth = {bytes.fromhex(c["name_field_hex"]): (c["stem"], c["ext"]) for c in cases}
    usable = [n for n in names if n and not n.endswith(b"/") and
              not any(b < 0x20 or b == 0x7F for b in n)]
    assert len(usable) > 20
    return compare(usable, "base", truth.__getitem__)


def every_lower_case():
    """Every code point that str.lower changes, alone and between letters."""
    names = []
    for code in range(0x80, 0x110000):
        if 0xD800 <= code <= 0xDFFF or chr(code).lower() == chr(code):
            continue
        names.append(f"k{code}.A{chr(code)}b{chr(code)}".encode())
    return compare(names, "base", base_rule)


def main():
    rng = random.Random(7)
    names = [random_name(rng) for _ in range(20000)]
    tests = [("glzn's own vectors", vectors),
             ("every code point with a lower case", every_lower_case),
             ("20000 random names by the base rule",
              lambda: compare(names, "base", base_rule)),
             ("20000 random names by the path rule",
              lambda: compare(names, "path", path_rule))]
    for title, test in tests:
        problem = test()
        check(title, problem is None, problem)
    return check.end()


sys.exit(main())
