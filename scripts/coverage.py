#!/usr/bin/env python3
"""Reads the report of llvm-cov: lines and branches by folder, and each parser separately.

  coverage.py REPORT EXPORT MISSED     exits with 1 if the branch coverage of the parsers is below the goal;
                                       writes the branches that were not taken, with their lines, to MISSED
"""
import collections
import json
import pathlib
import sys

GOAL = 95.0
# The parsers of untrusted files and messages.
PARSERS = """src/base/json_read.c src/base/number.c src/base/utf8.c src/tar/header.c src/tar/pax.c
src/tar/reader.c src/tar/keys.c src/tar/recover.c src/itar/index.c src/itar/sums.c
src/itar/regular.c src/itar/locate.c src/itar/journal.c src/io/manifest.c src/gnz/parse.c
src/gnz/reader.c src/gnz/journal.c src/iac/header.c src/iac/ipc_read.c src/iac/ipc_schema.c
src/iac/table.c src/iac/validate.c src/iac/file.c src/iac/textpair.c src/codec/npy.c
src/codec/npz.c src/codec/png_read.c src/codec/rle.c src/codec/tenbin.c src/codec/seg.c
src/io/url.c src/io/urls.c src/io/filter_gzip.c src/io/filter_zstd.c src/io/filter_xz.c
src/io/filter_bzip2.c src/dataset/state.c""".split()


def rows(report):
    """(file, lines, lines missed, branches, branches missed)"""
    for line in pathlib.Path(report).read_text(encoding="utf-8").splitlines():
        parts = line.split()
        if len(parts) < 13 or not parts[1].isdigit() or parts[0] == "TOTAL":
            continue
        name = parts[0]
        name = name[name.index("src/"):] if "src/" in name else "src/" + name
        yield name, int(parts[7]), int(parts[8]), int(parts[10]), int(parts[11])


def percent(all_of_them, missed):
    return 100.0 * (all_of_them - missed) / all_of_them if all_of_them else 100.0


def show(name, count):
    lines, no_line, branches, no_branch = count
    print(f"{name:28} {percent(lines, no_line):6.1f} % of {lines:6} lines "
          f"{percent(branches, no_branch):6.1f} % of {branches:6} branches")


def missed(export):
    """(file, line, whether it was never true or never false, the condition) in the parsers"""
    for file in json.loads(pathlib.Path(export).read_text(encoding="utf-8"))["data"][0]["files"]:
        name = next((p for p in PARSERS if file["filename"].endswith("/" + p)), None)
        lines = name and pathlib.Path(name).read_text(encoding="utf-8").splitlines()
        for line, column, last, end, true, false, *_ in file["branches"] if name else ():
            text = lines[line - 1][column - 1:end - 1 if last == line else None]
            if not true:
                yield name, line, "true", text
            if not false:
                yield name, line, "false", text


def main():
    folders = collections.defaultdict(lambda: [0] * 4)
    parsers, together = {}, [0] * 4
    for name, *count in rows(sys.argv[1]):
        if not pathlib.Path(name).exists():  # compiled in, but third-party code
            continue
        for target in ([folders["/".join(name.split("/")[:2])], folders["all"]] +
                       ([together] if name in PARSERS else [])):
            for i, n in enumerate(count):
                target[i] += n
        if name in PARSERS:
            parsers[name] = count
    for name, count in sorted(folders.items()):
        show(name, count)
    print()
    pathlib.Path(sys.argv[3]).write_text("".join(
        f"{name}:{line}: never {side}: {text}\n" for name, line, side, text in missed(sys.argv[2])),
        encoding="utf-8")
    for name, count in sorted(parsers.items(), key=lambda p: percent(*p[1][2:])):
        show(name, count)
    show("parsers together", together)
    missing = set(PARSERS) - set(parsers)
    if missing:
        print("not in the report:", *sorted(missing))
    return 1 if missing or percent(*together[2:]) < GOAL else 0


sys.exit(main())
