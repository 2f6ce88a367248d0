#!/usr/bin/env python3
"""The fold writer: glzn's bytes, the index that a scan would make, and what a reader finds after
append, resume, overwrite and abandon."""
import json
import pathlib
import shutil
import struct
import sys
import tempfile

import checks
from checks import check
from folds import digests, read_fold, same_as_scan
from writing import ABANDON, ROOT, odd_samples, write

DATA = ROOT / "tests/data"
SUSPEND = struct.pack("<I", 0xfffffffe)


def tarn(*args, ok=True):
    return checks.tarn(*args, ok=ok).stdout.decode()


def flat_samples(seed, count, start=0):
    """Samples whose names are valid in a fold."""
    out = []
    for number, (_, fields) in enumerate(odd_samples(seed, count), start):
        key = ["s%05d", "größe%05d", "中文%05d", "with blank %05d"][number % 4] % number
        out.append((key, {name: data for name, data in fields.items()}))
    return out


def reference_bytes(folder):
    fixture = DATA / "09a_writer_maxfiles"
    manifest = json.loads((fixture / "manifest.train.json").read_text())
    samples = [(item["key"], {name: text.encode() for name, text in item["members"]})
               for item in manifest["inputs_in_order"]]
    out = folder / "fixture"
    write("fold", [out, "train"], samples, "keep_order", "user=fixture", "group=defaultgroup",
          "mtime=1700000000", "max_count=4", "roll=2")
    for name in sorted(p.name for p in fixture.glob("train*") if p.suffix != ".json"):
        check(f"glzn's writer: {name} byte for byte",
              (fixture / name).read_bytes() == (out / name).read_bytes())


def plain(folder):
    out = folder / "plain"
    samples = flat_samples(1, 300)
    write("fold", [out, "train"], samples, "max_count=70")
    names = sorted(p.name for p in out.iterdir())
    check("five shards, index and sums", names == [
        "train.taridx", "train.tarsum", *(f"train_{i:04d}.tar" for i in range(5))], names)
    check("WebDataset reads them", read_fold(out) ==
          [(k, dict(sorted(f.items()))) for k, f in samples])
    same_as_scan(out, "a new fold")
    again = folder / "again"
    write("fold", [again, "train"], samples, "max_count=70")
    check("the same input gives the same shards",
          {k: v for k, v in digests(out).items() if k.endswith(".tar")} ==
          {k: v for k, v in digests(again).items() if k.endswith(".tar")})
    text = write("fold", [out, "train"], samples[:1], ok=False)
    check("an existing fold is not overwritten", "exists" in text and "append" in text, text)


def appended(folder):
    out = folder / "appended"
    first, second, third = (flat_samples(s, 50, 100 * s) for s in (1, 2, 3))
    write("fold", [out, "train"], first, "max_count=20")
    before = digests(out)
    write("fold", [out, "train"], second, "append", "max_count=20")
    after = digests(out)
    check("append leaves the old shards alone", all(
        after[k] == v for k, v in before.items() if k.endswith(".tar")))
    same_as_scan(out, "after an append")
    write("fold", [out, "train"], third, "append")
    want = [(k, dict(sorted(f.items()))) for k, f in first + second + third]
    check("both appends are there, in order", read_fold(out) == want)
    same_as_scan(out, "after a second append")
    text = write("fold", [out, "train"], [first[3]], "append", ok=False)
    check("a key of the old fold is refused", "exists" in text and "already" in text, text)
    (out / "train.tarsum").unlink()
    write("fold", [out, "train"], flat_samples(4, 10, 900), "append")
    tarn("verify", f"{out}:train")
    check("append to a fold without sums", len(read_fold(out)) == 160)


def interrupted(folder):
    out = folder / "interrupted"
    samples = flat_samples(5, 100)
    write("fold", [out, "train"], samples[:65], "max_count=20", end=SUSPEND)
    names = sorted(p.name for p in out.iterdir())
    check("suspended: three finished shards without a name", names == [
        f".train_{i:04d}.tar.part" for i in range(3)], names)
    text = tarn("ls", f"{out}:train", ok=False)
    check("a reader sees no fold", text == "", text)
    text = write("fold", [out, "train"], samples, ok=False)
    check("a new writer says what is there", "3 finished shards" in text and "resume" in text,
          text)
    write("fold", [out, "train"], samples, "resume", "skip", "max_count=20")
    whole = folder / "whole"
    write("fold", [whole, "train"], samples, "max_count=20")
    check("resumed: the shards of a writer that was not interrupted",
          {k: v for k, v in digests(out).items() if k.endswith((".tar", ".taridx"))} ==
          {k: v for k, v in digests(whole).items() if k.endswith((".tar", ".taridx"))})
    same_as_scan(out, "after a resume")
    write("fold", [out, "train"], samples, "resume", "skip")
    check("resuming what is complete changes nothing", len(read_fold(out)) == 100)
    write("fold", [out, "train"], flat_samples(6, 60, 500), "append", "max_count=20",
          end=SUSPEND)
    check("an append that stops: the old fold is readable", len(
        tarn("ls", f"{out}:train").splitlines()) == 100)
    write("fold", [out, "train"], flat_samples(7, 30), "overwrite", "max_count=10")
    check("overwritten", read_fold(out) == [(k, dict(sorted(f.items())))
                                           for k, f in flat_samples(7, 30)])
    same_as_scan(out, "after an overwrite")
    gone = folder / "gone"
    write("fold", [gone, "train"], samples, "max_count=20", end=ABANDON)
    check("abandoned: nothing is left", not any(gone.iterdir()))
    write("fold", [gone, "train"], [])
    check("no sample: an empty fold", tarn("ls", f"{gone}:train") == "" and len(list(gone.iterdir())) == 3)


def refused(folder):
    out = folder / "refused"
    bad = [("a.b", {"txt": b"1"}), ("a/b", {"txt": b"1"}), ("a\\b", {"txt": b"1"}),
           ("", {"txt": b"1"}), ("a\nb", {"txt": b"1"}), ("a", {"": b"1"}), ("a", {}),
           ("a", {"x/y": b"1"}), ("a", {"t\tx": b"1"}), ("a", {"_idx": b"1"}),
           ("a", {"TXT": b"1", "txt": b"2"}), ("a", {".txt": b"1", "txt": b"2"}),
           ("k" * 97, {"txt": b"1"}), ("ä" * 49, {"txt": b"1"}), ("a\udcff", {"txt": b"1"})]
    for number, sample in enumerate(bad):
        text = write("fold", [out, "train"], [("good", {"txt": b"x"}), sample,
                                              ("last", {"txt": b"y"})], "overwrite", ok=False)
        check(f"refused, and nothing of it is written: {sample!r}"[:110],
              text.count("\n") == 1 and read_fold(out) ==
              [("good", {"txt": b"x"}), ("last", {"txt": b"y"})], text)
    text = write("fold", [out, "train"], [("a", {"x": b""}), ("a", {"y": b""})], "overwrite",
                 ok=False)
    check("refused: a key twice", "already" in text, text)
    for fold in ("my_train", "a/b", "", "a.b"):
        text = write("fold", [out, fold], [("a", {"x": b""})], ok=False)
        check(f"refused: fold {fold!r}", "usage" in text, text)
    write("fold", [out, "Train"], [("a", {"JPG": b"1", ".Seg.PNG": b"2"})])
    check("fields are written in lower case", read_fold(out, "Train") ==
          [("a", {"jpg": b"1", "seg.png": b"2"})], read_fold(out, "Train"))


def limits(folder):
    out = folder / "limits"
    samples = [(f"k{i:03d}", {"bin": bytes(1000 + 37 * i)}) for i in range(80)]
    write("fold", [out, "train"], samples, "max_size=30720")
    sizes = [p.stat().st_size for p in sorted(out.glob("*.tar"))]
    check("no file is larger than max_size", max(sizes) <= 30720 and len(sizes) > 3, sizes)
    check("and no smaller than needed", all(s > 30720 - 10240 for s in sizes[:-1]), sizes)
    text = write("fold", [out, "train"], [("big", {"bin": bytes(40000)})], "overwrite",
                 "max_size=30720", ok=False)
    check("a sample that fits no shard is an error", "limit" in text and "big" in text, text)
    many = [(f"k{i}", {"x": b""}) for i in range(12)]
    text = write("fold", [out, "few"], many, "digits=1", "max_count=1", ok=False)
    check("numbers that would not sort are refused", "more than 1 digits" in text, text)


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        for part in (reference_bytes, plain, appended, interrupted, refused, limits):
            part(folder)
    finally:
        shutil.rmtree(folder)
    return check.end()


sys.exit(main())
