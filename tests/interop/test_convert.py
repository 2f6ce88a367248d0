#!/usr/bin/env python3
"""convert, split and merge: a round trip loses nothing, the real WebDataset reads the results,
random choices depend only on seed and keys, and the sources stay unchanged."""
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

import checks
from checks import check
from folds import digests, read_fold, read_real, same_as_scan
from writing import odd_samples, write


def tarn(*args, ok=True, stdin=None):
    done = checks.tarn(*args, ok=ok, stdin=stdin.read() if stdin else None)
    return done.stdout if ok else done.stderr.decode()


def flat_samples(seed, count):
    """Samples whose names are valid in a fold, in the order of their keys."""
    return [("%05d" % n + ["", "größe", "中文", " with blank"][n % 4], dict(sorted(fields.items())))
            for n, (_, fields) in enumerate(odd_samples(seed, count))]


def round_trip(folder):
    samples = flat_samples(1, 250)
    first = folder / "first"
    write("fold", [first, "train"], samples, "max_count=40")
    before = digests(first)
    (folder / "shards").mkdir()
    tarn("convert", first, folder / "shards/x_%03d.tar", "--max-count", 33)
    shards = sorted((folder / "shards").iterdir())
    check("a fold into shards: eight of them", len(shards) == 8, shards)
    check("and WebDataset reads the same samples in the same order", read_real(*shards) == samples)
    tarn("convert", *shards, folder / "second:train", "--max-size", 300_000)
    check("no shard is larger than --max-size",
          max(p.stat().st_size for p in (folder / "second").glob("*.tar")) <= 300_000)
    check("shards into a fold", read_fold(folder / "second") == samples)
    same_as_scan(folder / "second", "shards into a fold")
    tarn("convert", folder / "second", folder / "files", "--files")
    found = {p.name: p.read_bytes() for p in (folder / "files").iterdir()}
    check("a fold into files", found == {f"{k}.{f}": d for k, fs in samples
                                         for f, d in fs.items()})
    tarn("convert", folder / "files", folder / "third:train", "--max-count", 40)
    check("files into a fold", read_fold(folder / "third") == samples)
    check("all the way round: the same bytes",
          {k: v for k, v in digests(folder / "third").items() if k.endswith(".tar")} ==
          {k: v for k, v in before.items() if k.endswith(".tar")})
    with open(shards[0], "rb") as stream:
        out = tarn("convert", "-", "-", stdin=stream)
    (folder / "piped.tar").write_bytes(out)
    check("standard input to standard output", read_real(folder / "piped.tar") == samples[:33])
    check("the source is as it was", digests(first) == before)


def compressed(folder):
    samples = flat_samples(2, 60)
    write("fold", [folder / "source", "train"], samples, "max_count=25")
    for ending in ("gz", "bz2", "xz", "zst"):
        pattern = folder / f"c_%d.tar.{ending}"
        tarn("convert", folder / "source", pattern, "--max-count", 20, "--level", 4)
        made = sorted(folder.glob(f"c_*.tar.{ending}"))
        if ending == "zst":
            listed = subprocess.run(["sh", "-c", f"zstd -dc {made[1]} | tar -tf -"],
                                    capture_output=True, text=True, check=True).stdout
        else:
            with tarfile.open(made[1]) as tar:
                listed = "\n".join(tar.getnames())
        check(f"{ending}: the second of three has the samples it should",
              len(made) == 3 and listed.split("\n")[0].startswith(samples[20][0]), listed[:80])
        tarn("convert", "::".join(map(str, made)), folder / f"fold_{ending}:train")
        check(f"{ending}: and back", read_fold(folder / f"fold_{ending}") == samples)


def subsets(folder):
    samples = flat_samples(3, 120)
    for number, (_, fields) in enumerate(samples):
        if number % 3:
            fields["cls"] = b"%d" % number
            fields["json"] = b"{}"
    samples = [(k, dict(sorted(f.items()))) for k, f in samples]
    write("fold", [folder / "source", "train"], samples, "max_count=25")
    chosen = random.Random(5).sample([k for k, _ in samples], 40)
    (folder / "keys").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    want = [(k, {f: d for f, d in fs.items() if f in ("cls", "json")}) for k, fs in samples
            if k in chosen and "cls" in fs]
    for source in (folder / "source", folder / "source.tar"):
        if source.suffix:
            tarn("convert", folder / "source", source)
        out = folder / f"subset{source.suffix}.tar"
        tarn("convert", source, out, "--fields", "cls,json", "--samples", f"@{folder}/keys")
        check(f"fields and samples out of {source.name}", read_real(out) == want)
        tarn("convert", source, out, "--range", "10:31", "--overwrite")
        check(f"a range out of {source.name}", read_real(out) == samples[10:31])
    (folder / "keys").write_text("nobody\n", encoding="utf-8")
    why = tarn("convert", folder / "source", folder / "no", "--samples", f"@{folder}/keys", ok=False)
    check("a key that is not there is an error", "nobody" in why and not (folder / "no").exists(),
          why)


def shuffled(folder):
    samples = flat_samples(4, 300)
    write("fold", [folder / "a", "train"], samples, "max_count=70")
    write("fold", [folder / "b", "val"], samples, "max_count=11")
    orders = {}
    for name, source, seed in (("a", "a", 9), ("b", "b", 9), ("other", "a", 10)):
        tarn("convert", folder / source, folder / f"{name}.tar", "--shuffle", seed)
        orders[name] = read_real(folder / f"{name}.tar")
    keys = {name: [k for k, _ in order] for name, order in orders.items()}
    check("a shuffle is a permutation", sorted(keys["a"]) == [k for k, _ in samples]
          and keys["a"] != [k for k, _ in samples])
    check("with all bytes", dict(orders["a"]) == dict(samples))
    check("the same for the same seed, whatever the shards", orders["a"] == orders["b"])
    tarn("convert", folder / "a", folder / "long.tar", "--order", "shuffle", "--seed", 9)
    check("--shuffle is --order shuffle", read_real(folder / "long.tar") == orders["a"])
    check("another for another seed", keys["a"] != keys["other"])
    # Neighbours stay neighbours one time in 300: a much higher rate would mean that nothing was
    # shuffled.
    order = {k: n for n, (k, _) in enumerate(samples)}
    near = sum(abs(order[x] - order[y]) == 1 for x, y in zip(keys["a"], keys["a"][1:]))
    check("neighbours are parted", near < 12, near)
    tarn("convert", folder / "a", folder / "few.tar", "--shuffle", 9, "--range", ":50")
    check("its first fifty are a sample by chance", read_real(folder / "few.tar") == orders["a"][:50])


def parted(folder):
    samples = flat_samples(6, 200)
    source = folder / "source"
    write("fold", [source, "train"], samples, "max_count=10")
    before = digests(source)
    tarn("split", source, "--into", "train,val=0.1,test=0.25", "--seed", 2, "-o", folder / "s")
    parts = {f: read_fold(folder / "s", f) for f in ("train", "val", "test")}
    check("split by samples: as many as asked for",
          [len(p) for p in parts.values()] == [130, 20, 50])
    check("each sample once, whole, and in its old order",
          all(p == [s for s in samples if s in p] for p in parts.values())
          and sorted(k for p in parts.values() for k, _ in p) == [k for k, _ in samples])
    tarn("split", source, "--into", "train=0.75,val=0.25", "--by", "shards", "-o", folder / "w")
    parts = {f: read_fold(folder / "w", f) for f in ("train", "val")}
    check("split by shards", [len(p) for p in parts.values()] == [150, 50]
          and sorted(k for p in parts.values() for k, _ in p) == [k for k, _ in samples])
    for fold in parts:
        same_as_scan(folder / "w", f"split by shards, {fold}", fold)
    tarn("merge", f"{folder}/w:train", f"{folder}/w:val", "-o", f"{folder}/m:all")
    check("merged again: all samples, those of the first fold first",
          read_fold(folder / "m", "all") == parts["train"] + parts["val"])
    same_as_scan(folder / "m", "a merged fold", "all")
    linked = {p.stat().st_ino for p in (folder / "m").glob("*.tar")}
    check("without a copy of any shard",
          linked == {p.stat().st_ino for p in source.glob("*.tar")})
    tarn("convert", f"{folder}/m:all", folder / "sorted.tar")
    check("and can be converted", len(read_real(folder / "sorted.tar")) == 200)
    check("the source is as it was", digests(source) == before)


def main():
    for part in (round_trip, compressed, subsets, shuffled, parted):
        with tempfile.TemporaryDirectory() as scratch:
            part(pathlib.Path(scratch))
    return check.end()


sys.exit(main())
