#!/usr/bin/env python3
"""Writes src/base/unicode_tables.h: the lower-case mapping of the running Python.

Field names are lower-cased like Python's str.lower, because the index format was defined that way.
The tables are computed with str.lower itself, so they contain exactly its mapping, including the
final-sigma rule. Usage: unicode_tables.py > FILE
"""
import unicodedata

LAST = 0x110000
SIGMA = "\u03a3"


def scalars():
    return (c for c in range(LAST) if not 0xD800 <= c <= 0xDFFF)


def lower_runs():
    """(first, last, stride, delta) over the code points whose lower case is one other code point."""
    runs = []
    for c in scalars():
        low = chr(c).lower()
        if len(low) != 1 or ord(low) == c or chr(c) == SIGMA:
            continue
        delta = ord(low) - c
        if runs:
            first, last, stride, d = runs[-1]
            step = c - last
            if d == delta and step <= 2 and (stride in (0, step)):
                runs[-1] = (first, c, step, d)
                continue
        runs.append((c, c, 0, delta))
    return [(f, l, s or 1, d) for f, l, s, d in runs]


def ranges(wanted):
    out = []
    for c in scalars():
        if not wanted(chr(c)):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def is_cased(ch):
    return (ch + SIGMA).lower().endswith("\u03c2")


def is_ignorable(ch):
    return not is_cased(ch) and ("A" + ch + SIGMA).lower().endswith("\u03c2")


def emit_ranges(name, rows):
    print(f"static const tarn__code_range {name}[] = {{")
    line = "   "
    for a, b in rows:
        cell = f" {{0x{a:x}, 0x{b:x}}},"
        if len(line) + len(cell) > 88:
            print(line)
            line = "   "
        line += cell
    print(line)
    print("};\n")


def main():
    multi = [c for c in scalars() if len(chr(c).lower()) > 1]
    assert multi == [0x130], multi
    print("/* Made by scripts/unicode_tables.py from Unicode "
          f"{unicodedata.unidata_version}; not edited by hand. */")
    print("/* clang-format off */")
    print("static const tarn__lower_run lower_runs[] = {")
    for first, last, stride, delta in lower_runs():
        print(f"    {{0x{first:x}, 0x{last:x}, {stride}, {delta}}},")
    print("};\n")
    emit_ranges("cased", ranges(is_cased))
    emit_ranges("case_ignorable", ranges(is_ignorable))
    print("/* clang-format on */")


main()
