#!/usr/bin/env python3
"""tarn pack compared with Python: os.walk lists the files, csv and json read the manifests, and the
real WebDataset reads the results."""
import csv
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

from checks import TARN, check, tarn
from folds import read_real

SHIM = pathlib.Path(TARN).parent / "tests/libfaults.so"  # kills the tool at a chosen call


def read_back(paths):
    samples = read_real(*sorted(paths))
    assert len(dict(samples)) == len(samples)
    return dict(samples)


def make_tree(folder, seed, count=200):
    """Files in class folders, and the samples that a packer should make from them, by key."""
    rng = random.Random(seed)
    want, classes = {}, sorted({rng.choice("abcdefgh") * 3 for _ in range(6)})
    for number in range(count):
        key = rng.choice(["x", "größe", "with blank", "UPPER"]) + f"{number:04d}"
        name = rng.choice(classes)
        place = folder / name / rng.choice(["", "deep/er"])
        place.mkdir(parents=True, exist_ok=True)
        fields = {"cls": str(classes.index(name)).encode()}
        for field in rng.sample(["jpg", "JSON", "seg.png", "txt", "bin"], rng.randint(1, 4)):
            size = 300000 if number % 40 == 0 else rng.choice([0, 1, 511, 512, 513, 5000])
            data = rng.randbytes(size)
            (place / f"{key}.{field}").write_bytes(data)
            fields[field.lower()] = data
        want[key] = fields
    return want, classes


def folders(scratch):
    tree, out = scratch / "tree", scratch / "out"
    want, classes = make_tree(tree, 1)
    for threads in (1, 3):
        tarn("pack", tree, "-o", out, "--class-from-dir", "--max-count", 50, "-j", threads,
             "--overwrite")
        got = read_back(out.glob("train_*.tar"))
        check(f"a tree of class folders, {threads} threads: every file, and the class",
              got == want, [k for k in want if want[k] != got.get(k)])
        shards = {p.name: p.read_bytes() for p in out.glob("train_*.tar")}
        check("threads do not change the bytes", threads == 1 or shards == first)
        first = shards
    check("classes.txt", (out / "classes.txt").read_text().split() == classes)
    check("verify", tarn("verify", out).returncode == 0)
    plain = {k: {f: d for f, d in v.items() if f != "cls"} for k, v in want.items()}
    tarn("pack", tree, "-o", scratch / "three", "--val", 0.25, "--test", 0.1, "--seed", 5)
    parts = {f: read_back((scratch / "three").glob(f"{f}_*.tar")) for f in ("train", "val", "test")}
    check("exact parts", [len(parts[f]) for f in ("train", "val", "test")] == [130, 50, 20],
          {f: len(p) for f, p in parts.items()})
    joined = {k: v for part in parts.values() for k, v in part.items()}
    check("nothing lost, nothing twice", joined == plain)
    tarn("pack", tree, "-o", scratch / "again", "--val", 0.25, "--test", 0.1, "--seed", 5,
         "--shuffle", 9)
    again = {f: read_back((scratch / "again").glob(f"{f}_*.tar")) for f in parts}
    check("the parts depend on seed and keys alone", again == parts)
    check("shuffled: another order", [list(again["train"])] != [list(parts["train"])])
    other = tarn("pack", tree, "-o", scratch / "other", "--val", 0.25, "--seed", 6)
    val = read_back((scratch / "other").glob("val_*.tar"))
    check("another seed: other parts", set(val) != set(parts["val"]), other.stdout)
    done = tarn("pack", tree, tree, "-o", scratch / "never", ok=False)
    check("the same files twice are an error with both names",
          done.returncode == 1 and b"twice" in done.stderr and not (scratch / "never").exists(),
          done.stderr)


def same_names(scratch):
    for name in ("cat", "dog"):
        (scratch / "pets" / name).mkdir(parents=True)
        for i in range(3):
            (scratch / "pets" / name / f"{i}.jpg").write_bytes(name.encode())
    done = tarn("pack", scratch / "pets", "-o", scratch / "p1", ok=False)
    check("duplicate base names: reported, with a solution",
          done.returncode == 1 and b"--keys path" in done.stderr, done.stderr)
    tarn("pack", scratch / "pets", "-o", scratch / "p1", "--keys", "path")
    check("keys made of the path", sorted(read_back((scratch / "p1").glob("*.tar"))) ==
          [f"{n}-{i}" for n in ("cat", "dog") for i in range(3)])


def manifests(scratch):
    rng = random.Random(3)
    folder = scratch / "manifest"
    (folder / "files").mkdir(parents=True)
    rows, want = [], {}
    for number in range(150):
        data = rng.randbytes(rng.randrange(3000))
        (folder / "files" / f"{number}.bin").write_bytes(data)
        text = "".join(rng.choice('ab ,"\n\r;é@中') for _ in range(rng.randrange(12)))
        text = text.replace("\r", "") if text.strip("@") else ""
        row = {"key": f"k{number}", "jpg": f"files/{number}.bin", "txt": text,
               "cls": str(rng.randrange(10)), "json": f"@files/{number}.bin"}
        rows.append(row)
        want[row["key"]] = {"jpg": data, "cls": row["cls"].encode(), "json": data}
        if text.startswith("@") and not text.startswith("@@"):
            row["txt"] = "@" + text
        elif text.startswith("@@"):
            text = text[1:]
        if row["txt"]:
            want[row["key"]]["txt"] = text.encode()
    for name, dialect in (("m.csv", "excel"), ("m.tsv", "excel-tab"), ("u.csv", "unix")):
        with open(folder / name, "w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]), dialect=dialect)
            writer.writeheader()
            writer.writerows(rows)
        tarn("pack", folder / name, "-o", scratch / "csv", "--overwrite")
        got = read_back((scratch / "csv").glob("*.tar"))
        check(f"{name} as Python's csv wrote it ({dialect})", got == want,
              [(k, want[k].get("txt"), got.get(k, {}).get("txt")) for k in want
               if got.get(k) != want[k]][:3])
    values = [None, 0, -1, 2.5, 1e300, True, [1, {"a": "é"}], {"z": 1, "a": [None]}, "text", ""]
    with open(folder / "m.jsonl", "w", encoding="utf-8") as out:
        for number, value in enumerate(values):
            json.dump({"key": number, "json": value, "jpg": f"files/{number}.bin"}, out,
                      ensure_ascii=bool(number % 2))
            out.write("\n")
    tarn("pack", folder / "m.jsonl", "-o", scratch / "jsonl")
    got = read_back((scratch / "jsonl").glob("*.tar"))
    for number, value in enumerate(values):
        text = got[str(number)].get("json")
        expect = None if value is None else value.encode() if isinstance(value, str) else \
            json.dumps(value).encode()
        check(f"JSON lines: {json.dumps(value)}", text == expect, text)
    bad = {"no_key.csv": "a,b\n1,2\n", "cells.csv": "key,txt\na,b,c\n", "quote.csv": 'key,txt\na,"b\n',
           "gone.csv": "key,jpg\na,nothere.jpg\n", "twice.csv": "key,txt\na,1\na,2\n",
           "empty_key.csv": "key,txt\n,1\n", "list.jsonl": "[1]\n", "cut.jsonl": '{"key": "a", \n',
           "dup.jsonl": '{"key": "a", "txt": "1", "txt": "2"}\n', "nul.csv": "key,txt\na,\0\n"}
    for name, text in bad.items():
        (folder / name).write_text(text)
        done = tarn("pack", folder / name, "-o", scratch / "bad", ok=False)
        check(f"refused: {name}", done.returncode == 1 and done.stderr.startswith(b"tarn: ")
              and not list((scratch / "bad").glob("*")), done.stderr)


def interrupted(scratch):
    """Killed in the middle, then resumed: the same shards as without a kill."""
    tree = scratch / "many"
    tree.mkdir()
    for number in range(1200):
        (tree / f"{number:05d}.bin").write_bytes(random.Random(number).randbytes(900))
        (tree / f"{number:05d}.cls").write_text(str(number))
    tarn("pack", tree, "-o", scratch / "whole", "--max-count", 100)
    want = {p.name: p.read_bytes() for p in (scratch / "whole").glob("*.tar")}
    out, parts = scratch / "killed", []
    out.mkdir()
    for _ in range(3):
        # Each finished shard is renamed once.
        env = dict(os.environ, LD_PRELOAD=str(SHIM), FAULT_HOME=str(out), FAULT_CALL="rename",
                   FAULT_AT="3", FAULT_HOW="after")
        run = subprocess.run([TARN, "pack", str(tree), "-o", str(out), "--max-count", "100",
                              "--resume"], env=env, capture_output=True, check=False)
        assert run.returncode == -signal.SIGKILL, run
        parts.append(len(list(out.glob(".*.part"))))
        assert tarn("ls", out, ok=False).returncode, "an unfinished fold is listed"
    tarn("pack", tree, "-o", out, "--max-count", 100, "--resume")
    got = {p.name: p.read_bytes() for p in out.glob("*.tar")}
    check("killed after each three shards and resumed: the shards of an undisturbed run",
          parts == [3, 6, 9] and got == want, (parts, len(got), len(want)))
    check("nothing hidden is left", not list(out.glob(".*")), list(out.glob(".*")))
    check("verify after it", tarn("verify", out).returncode == 0)


def streams(scratch):
    tree = scratch / "tree"
    listing = sorted(str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file())
    subprocess.run(["tar", "cf", scratch / "t.tar", "--no-recursion", *listing], cwd=tree, check=True)
    for tool, suffix in (("gzip", "gz"), ("zstd", "zst"), ("xz", "xz"), ("bzip2", "bz2")):
        packed = subprocess.run([tool, "-c", scratch / "t.tar"], check=True, capture_output=True).stdout
        tarn("pack", "-", "-o", scratch / "stream", "--overwrite", stdin=packed)
        got = read_back((scratch / "stream").glob("*.tar"))
        plain = {k: {f: d for f, d in v.items() if f != "cls"} for k, v in want_of(tree).items()}
        check(f"a tar stream packed by {tool}", got == plain, len(got))
        (scratch / f"t.tar.{suffix}").write_bytes(packed)
    names = [scratch / f"out.tar{s}" for s in ("", ".gz", ".bz2", ".xz")]
    for name in names:
        tarn("pack", tree, "-o", name)
        check(f"-o {name.name}", read_back([name]) == plain)
    done = tarn("pack", tree, "-q", "-o", "-")
    (scratch / "piped.tar").write_bytes(done.stdout)
    check("-o -", read_back([scratch / "piped.tar"]) == plain)
    tarn("pack", tree, "-o", scratch / "roll_%03d.tar", "--max-count", 30)
    check("-o roll_%03d.tar", len(list(scratch.glob("roll_*.tar"))) == 7 and
          read_back(scratch.glob("roll_*.tar")) == plain)


def want_of(tree):
    out = {}
    for path in tree.rglob("*"):
        if path.is_file():
            key, _, field = path.name.partition(".")
            out.setdefault(key, {})[field.lower()] = path.read_bytes()
    return out


def main():
    scratch = pathlib.Path(tempfile.mkdtemp())
    try:
        for part in (folders, same_names, manifests, interrupted, streams):
            part(scratch)
    finally:
        shutil.rmtree(scratch)
    return check.end()


sys.exit(main())
