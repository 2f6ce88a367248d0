#!/usr/bin/env python3
"""convert between every two kinds of dataset, in any order: NumPy, tarfile and the real
iatro-base-iac find the content of the sources in the results, and converting back is exact."""
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
from PIL import Image

import checks
from checks import check
from test_dataset import make_gnz, make_tar
from test_gnz import same, spec_read

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"
JUDGE = ROOT / "tests/interop/iac_judge.py"


def tarn(*args, ok=True):
    done = checks.tarn(*args, ok=ok)
    return done.stdout.decode() if ok else (done.returncode, done.stderr.decode())


def judge(*args):
    """The real package 0.0.2, with its own Arrow."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([str(ROOT / ".venv-iac1/bin/python"), str(JUDGE), *map(str, args)],
                          capture_output=True, check=False, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def dump(path):
    lines = [json.loads(x) for x in judge("dump", path).splitlines()]
    return lines[0], lines[1], [(bytes.fromhex(p), c) for p, c in lines[2:]]


def members(*paths):
    """[(key, {field: bytes})] in the order of the archive, with each sample's fields in their
    order."""
    found = []
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, field = member.name.partition(".")
                if not found or found[-1][0] != key:
                    found.append((key, {}))
                found[-1][1][field] = tar.extractfile(member).read()
    return found


def fold_members(folder, fold="train"):
    return members(*sorted(folder.glob(f"{fold}_*.tar")))


def order_of(path, *options):
    return tarn("ls", "-1", *options, path).split("\n")[:-1]


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def arrays(n, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "f2": rng.standard_normal((n, 3)).astype("<f2"),
        "big": rng.integers(-9, 9, (n, 2, 2)).astype(">i4"),
        "c": (rng.random(n) + 1j * rng.random(n)).astype("<c16"),
        "flag": rng.random(n) < 0.5,
        "ids": rng.permutation(n).astype("<u8"),
        "name": np.array(["é中%d" % (i % 7) for i in range(n)], "<U5"),
        "raw": np.array([b"x" * (i % 4) for i in range(n)], "|S4"),
        "none": np.zeros((n, 0, 3), "<f4"),
    }


def gnz_and_folds(folder):
    want = arrays(50)
    make_gnz(folder / "a.gnz", want)
    tarn("convert", folder / "a.gnz", folder / "fold", "-q")
    got = fold_members(folder / "fold")
    check("rows of arrays are samples", [k for k, _ in got] == ["%09d" % i for i in range(50)])
    check("whose fields are what np.save writes",
          all(fields == {f"{n}.npy": npy(a[i, ...]) for n, a in want.items()}
              for i, (_, fields) in enumerate(got)))
    tarn("convert", folder / "fold", folder / "back.gnz", "-q", "--checksums")
    header, found = spec_read(folder / "back.gnz")
    check("and back: the same arrays", found.keys() == want.keys()
          and all(same(found[n], want[n]) for n in want), header)
    tarn("verify", folder / "back.gnz")
    tarn("convert", folder / "a.gnz", folder / "mixed.gnz", "--order", "shuffle", "--seed", 5, "-q")
    order = [int(x) for x in order_of(folder / "a.gnz", "--order", "shuffle", "--seed", 5)]
    _, found = spec_read(folder / "mixed.gnz")
    keys = found.pop("_key")
    check("rows shuffled as ls says", sorted(order) == list(range(50)) and order != sorted(order)
          and all(same(found[n], want[n][order]) for n in want))
    check("with their old numbers as keys", keys.tolist() == ["%09d" % i for i in order])
    tarn("convert", folder / "mixed.gnz", folder / "sorted", "--order", "identity", "-q",
         "--samples", "000000007,000000003", "--fields", "ids,f2")
    got = fold_members(folder / "sorted")
    check("which are found again", [k for k, _ in got] == [k for k in keys.tolist()
          if k in ("000000007", "000000003")] and all(list(f) == ["f2.npy", "ids.npy"]
          or list(f) == ["ids.npy", "f2.npy"] for _, f in got), got)
    tarn("convert", folder / "a.gnz", folder / "part_%02d.gnz", "--max-count", 20, "-q",
         "--range", "5:50", "--fields", "ids,big", "--as", "ids=<i2")
    parts = [spec_read(p)[1] for p in sorted(folder.glob("part_*.gnz"))]
    check("sharded, cut and cast", [len(p["ids"]) for p in parts] == [20, 20, 5]
          and same(np.concatenate([p["ids"] for p in parts]), want["ids"][5:].astype("<i2"))
          and all(p["big"].dtype == ">i4" for p in parts)
          and np.array_equal(np.concatenate([p["big"] for p in parts]), want["big"][5:]))


def folds_and_gnz(folder):
    rng = np.random.default_rng(2)
    samples = []
    for i in range(30):
        x = rng.random((3, 4)).astype("<f4")
        samples.append((f"größe-{i * 7 % 30}", [
            ("x.npy", npy(np.asfortranarray(x) if i % 3 == 0 else x)), ("cls", b"%d" % (i % 5)),
            ("caption.txt", f"tall, {'ü' * (i % 6)}".encode())]))
    make_tar(folder / "t.tar", samples)
    tarn("convert", folder / "t.tar", folder / "t.gnz", "-q", "--order", "shuffle", "--seed", 3)
    keys = order_of(folder / "t.tar", "--order", "shuffle", "--seed", 3)
    _, got = spec_read(folder / "t.gnz")
    by_key = {k: dict(f) for k, f in samples}
    check("a tar into arrays, shuffled: the keys", got["_key"].tolist() == keys
          and sorted(keys) == sorted(by_key))
    check("npy fields as they are, in whatever order they were stored", same(
        got["x"], np.stack([np.load(io.BytesIO(by_key[k]["x.npy"])) for k in keys])))
    check("integers", same(got["cls"], np.array([int(by_key[k]["cls"]) for k in keys], "<i8")))
    check("texts", got["caption.txt"].tolist() == [by_key[k]["caption.txt"].decode() for k in keys])
    tarn("convert", folder / "t.gnz", folder / "t2", "-q", "--fields", "x")
    back = fold_members(folder / "t2")
    check("and back: keys, order and values", [k for k, _ in back] == keys and all(
        same(np.load(io.BytesIO(f["x.npy"])), np.load(io.BytesIO(by_key[k]["x.npy"])))
        for k, f in back))
    samples[11][1][0] = ("x.npy", npy(np.zeros((3, 5), "<f4")))
    make_tar(folder / "odd.tar", samples)
    code, why = tarn("convert", folder / "odd.tar", folder / "odd.gnz", ok=False)
    check("a shape that differs names the sample", code == 1 and samples[11][0] in why
          and "(3, 5)" in why and "(3, 4)" in why and "--fields" in why, why)
    check("and leaves nothing", not list(folder.glob("*odd.gnz*")))
    samples[11][1][0] = ("y.npy", npy(np.zeros((3, 4), "<f4")))
    make_tar(folder / "lack.tar", samples)
    code, why = tarn("convert", folder / "lack.tar", folder / "lack.gnz", ok=False)
    check("so does a field that is not there", code == 1 and samples[11][0] in why, why)
    pixels = rng.integers(0, 256, (3, 5, 7, 3), np.uint8)
    images = [(f"i{k}", [("png", png(pixels[k]))]) for k in range(3)]
    make_tar(folder / "i.tar", images)
    tarn("convert", folder / "i.tar", folder / "i.gnz", "-q")
    check("images as pixels", same(spec_read(folder / "i.gnz")[1]["png"], pixels))
    make_tar(folder / "j.tar", images[:2] + [("i2", [("png", png(pixels[2, 1:]))])])
    code, why = tarn("convert", folder / "j.tar", folder / "j.gnz", ok=False)
    check("and one of another size", code == 1 and "sample i2" in why and "(4, 7, 3)" in why
          and "(5, 7, 3)" in why and not list(folder.glob("*j.gnz*")), why)


def folds_and_packs(folder):
    source = f"{DATA}/01_basic:train"
    want = dict(fold_members(DATA / "01_basic"))
    for name, options in (("as it is", []), ("shuffled", ["--order", "shuffle", "--seed", "9"]),
                          ("by class", ["--order", "balanced", "--by", "cls", "--number"]),
                          ("in pairs", ["--order", "lengths", "--by", "json", "--chunk", "2"])):
        pack, back = folder / f"{name}.iac", folder / name
        tarn("convert", source, pack, "-q", *options)
        keys = order_of(source, *[x for x in options if x != "--number"] or ["--order", "identity"])
        _, types, records = dump(pack)
        names = ["%09d" % i for i in range(len(keys))] if "--number" in options else keys
        got = {}
        for payload, columns in records:
            got.setdefault(columns["key"], {})[columns["field"]] = payload
        check(f"a fold into an IAC file, {name}: the package finds every member", types["key"] == "string"
              and list(got) == names and list(got.values()) == [want[k] for k in keys])
        check(f"in the order they had, {name}", all(
            list(f) == list(want[k]) for f, k in zip(got.values(), keys)))
        tarn("verify", pack)
        tarn("convert", pack, back, "-q")
        again = fold_members(back)
        check(f"and back, {name}: the same members in the same order", again == [
            (n, want[k]) for n, k in zip(names, keys)])
    pack = folder / "as it is.iac"
    check("an IAC file of members has the samples it was made from",
          order_of(pack, "--order", "shuffle", "--seed", 1) ==
          order_of(source, "--order", "shuffle", "--seed", 1))
    info = [json.loads(tarn("info", "--json", x))[0]["sets"] for x in (source, pack)]
    key = lambda s: (s["samples"], sorted(s["fields"]), s["twice"])  # noqa: E731
    check("with the same sets of fields", sorted(map(key, info[0])) == sorted(map(key, info[1])))
    tarn("convert", pack, folder / "few.tar", "-q", "--fields", "npy,jpg", "--samples",
         "train-00004,train-00001", "--order", "shuffle")
    check("some fields and keys of an IAC file", sorted(members(folder / "few.tar")) == [
        (k, {f: want[k][f] for f in ("jpg", "npy")}) for k in ("train-00001", "train-00004")])
    tarn("convert", source, folder / "rec.iac", "-q", "--payload", "jpg", "--fields",
         "jpg,cls,txt", "--order", "shuffle", "--codec", "zstd")
    head, types, records = dump(folder / "rec.iac")
    keys = order_of(source, "--fields", "jpg,cls,txt", "--order", "shuffle")
    check("a record for each sample", types["cls"] == "int64" and types["txt"] == "string"
          and head["payload_type"] == "jpg" and [c for _, c in records] == [
              {"key": k, "cls": int(want[k]["cls"]), "txt": want[k]["txt"].decode()}
              if list(c) else c for k, (_, c) in zip(keys, records)],
          (types, records[:1] and records[0][1]))
    tarn("convert", folder / "rec.iac", folder / "rec", "-q", "--key", "key")
    check("whose payloads come back", [(k, f["bin"]) for k, f in fold_members(folder / "rec")]
          == [(k, want[k]["jpg"]) for k in keys])


def packs_and_gnz(folder):
    want = {k: v for k, v in arrays(40, 4).items() if k not in ("c", "none")}
    make_gnz(folder / "a.gnz", want)
    tarn("convert", folder / "a.gnz", folder / "a.iac", "-q", "--codec", "gzip")
    _, _, records = dump(folder / "a.iac")
    check("arrays into an IAC file: each row of each", len(records) == 40 * len(want)
          and {c["field"] for _, c in records} == {f"{n}.npy" for n in want})
    tarn("convert", folder / "a.iac", folder / "b.gnz", "-q")
    _, got = spec_read(folder / "b.gnz")
    check("and back: the same arrays", got.keys() == want.keys()
          and all(same(got[n], want[n]) for n in want), got.keys())
    some = {k: want[k] for k in ("f2", "ids", "flag", "name")}
    make_gnz(folder / "s.gnz", some)
    tarn("convert", folder / "s.gnz", folder / "s.iac", "-q", "--payload", "f2", "--order",
         "shuffle", "--fields", "f2,ids,flag")
    order = [int(x) for x in order_of(folder / "s.gnz", "--order", "shuffle")]
    _, types, records = dump(folder / "s.iac")
    check("a record for each row", [(p, c["key"], c["ids"], c["flag"]) for p, c in records] == [
        (npy(some["f2"][i]), "%09d" % i, int(some["ids"][i]), int(some["flag"][i])) for i in order])
    tarn("convert", folder / "s.iac", folder / "t.gnz", "-q", "--key", "key", "--fields", "ids,flag")
    _, got = spec_read(folder / "t.gnz")
    check("its columns as arrays", same(got["ids"], some["ids"][order].astype("<i8"))
          and got["_key"].tolist() == ["%09d" % i for i in order])
    source = DATA / "iac/pairs_by_0.1.4.iac"
    tarn("convert", source, folder / "p.gnz", "-q", "--fields", "patient_id,num_docs")
    _, got = spec_read(folder / "p.gnz")
    columns = [c for _, c in dump(source)[2]]
    check("a foreign pack's columns as arrays",
          got["patient_id"].tolist() == [c["patient_id"] for c in columns]
          and got["num_docs"].tolist() == [c["num_docs"] for c in columns])
    fixed = DATA / "iac/fixed_by_0.1.4.iac"
    tarn("convert", fixed, folder / "f.gnz", "-q", "--fields", "payload")
    _, got = spec_read(folder / "f.gnz")
    check("payloads of one size as rows of bytes", got["payload"].dtype == np.uint8
          and got["payload"].shape == (3, 16), got)
    tarn("convert", fixed, folder / "f.iac", "--order", "shuffle", "--seed", 2)


def packs_in_order(folder):
    made = folder / "made"
    made.mkdir()
    judge("make", made, 11, 24)
    rng, done, refused = random.Random(4), 0, 0
    for path in sorted(made.glob("*.iac")):
        records = json.loads(tarn("info", "--json", path))[0]["records"]
        to = path.with_suffix(".taken.iac")
        seed = rng.randrange(1000)
        result = checks.tarn("convert", path, to, "--order", "shuffle", "--seed", seed,
                             "--range", f"0:{max(records - 1, 1)}", "-q", ok=False)
        if result.returncode:
            assert b"column runs has a type whose rows cannot be" in result.stderr, result.stderr
            refused += 1
            continue
        rows = order_of(path, "--order", "shuffle", "--seed", seed)[:max(records - 1, 1)]
        judge("taken", path, to, ",".join(rows))
        done += 1
    check("records in another order keep every column as it was", done >= 15 > refused,
          (done, refused))
    source = DATA / "iac/pairs_by_0.1.4.iac"
    tarn("convert", source, folder / "r.iac", "--range", "1:2", "-q")
    judge("taken", source, folder / "r.iac", "1")
    check("a range of an IAC file", True)


def several(folder):
    rng = np.random.default_rng(8)
    x = rng.random((10, 3)).astype("<f4")
    make_gnz(folder / "a.gnz", {"x": x, "cls": np.arange(10)})
    make_tar(folder / "b.tar", [(f"b{i}", [("x.npy", npy(x[i] * 2)), ("cls.npy", npy(np.int64(i)))])
                                for i in range(6)])
    make_tar(folder / "c.tar", [(f"c{i}", [("x.npy", npy(x[i] * 3)), ("cls.npy", npy(np.int64(i)))])
                                for i in range(4)])
    tarn("convert", folder / "c.tar", folder / "c.iac", "-q")
    sources = [folder / "a.gnz", folder / "b.tar", folder / "c.iac"]
    rows = [x, x[:6] * 2, x[:4] * 3]
    keys = [["0-%09d" % i for i in range(10)], [f"b{i}" for i in range(6)], [f"c{i}" for i in range(4)]]
    tarn("convert", *sources, folder / "all", "-q")
    got = fold_members(folder / "all")
    check("an array file, a tar and an IAC file, in order", [k for k, _ in got] == sum(keys, [])
          and all(f["x.npy"] == npy(r) for (_, f), r in zip(got, np.concatenate(rows))))
    tarn("convert", *sources, folder / "sh.tar", "-q", "--order", "shuffle", "--seed", 6)
    mixed = members(folder / "sh.tar")
    check("shuffled together", sorted(mixed) == sorted(got) and mixed != got)
    ranks = []
    for r in range(3):
        tarn("convert", *sources, folder / f"r{r}.tar", "-q", "--order", "shuffle", "--seed", 6,
             "--rank", f"{r}/3")
        ranks.append(members(folder / f"r{r}.tar"))
    check("dealt out to ranks", [ranks[i % 3][i // 3] for i in range(20)] == mixed)
    tarn("convert", *sources, folder / "w.tar", "-q", "--weights", "3,2,1", "--number")
    weighted = [np.load(io.BytesIO(f["x.npy"])) for _, f in members(folder / "w.tar")]
    counts = [sum(any(np.array_equal(w, r) for r in part) for w in weighted) for part in rows]
    check("mixed by weights", counts[0] == 9 and counts[1] == 6 and counts[2] == 3, counts)
    tarn("convert", sources[1], sources[2], folder / "both.iac", "-q")
    tarn("convert", folder / "both.iac", folder / "both.tar", "-q")
    check("into one IAC file", members(folder / "both.tar") == got[10:])
    code, why = tarn("convert", sources[2], sources[2], folder / "twice.tar", ok=False)
    check("a duplicate key is reported", code == 1 and "c0" in why and "--number" in why
          and not (folder / "twice.tar").exists(), why)
    tarn("convert", sources[2], sources[2], folder / "twice", "-q", "--number")
    check("and numbers help", [k for k, _ in fold_members(folder / "twice")] ==
          ["%09d" % i for i in range(8)])


def main():
    for part in (gnz_and_folds, folds_and_gnz, folds_and_packs, packs_and_gnz, packs_in_order,
                 several):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                part(pathlib.Path(scratch))
            except AssertionError as e:
                check(part.__name__, False, e)
    return check.end()


sys.exit(main())
