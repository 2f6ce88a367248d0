#!/usr/bin/env python3
"""Datasets compared with Python's own reading of the same files: every kind of dataset, every way of
reading, chained filters, and mixes of a fold, an IAC file and an array file. The results recorded from
glzn are in test_dataset_reference.py."""
import fractions
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

from dataset_tool import DATA, TARN, Refused, members, refused, run_all

# --- Every kind of dataset -----------------------------------------------------------------


def make_gnz(path, arrays):
    tool = subprocess.Popen([TARN.parent / "tests/gnz_tool"], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(*words):
        tool.stdin.write("\t".join(map(str, words)) + "\n")
        tool.stdin.flush()
        answer = tool.stdout.readline()
        assert answer.startswith("ok"), answer

    say("new", path, 1, 0, 1)
    for i, (name, array) in enumerate(arrays.items()):
        values = pathlib.Path(f"{path}.{i}")
        values.write_bytes(array.tobytes())
        say("add", name.encode().hex(), values, 0, array.dtype.str,
            ",".join(map(str, array.shape)), ",".join(map(str, array.strides)), "-")
    say("begin")
    say("finish")
    tool.stdin.close()
    tool.wait()


def make_tar(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, fields in samples:
            for field, data in fields:
                info = tarfile.TarInfo(f"{key}.{field}")
                info.size = len(data)
                with tempfile.TemporaryFile() as f:
                    f.write(data)
                    f.seek(0)
                    tar.addfile(info, f)


def folds_and_tars_have_the_members_bytes(tool):
    for flags in "-", "read":
        for name, fold in [("01_basic", "train"), ("01_basic", "val"), ("02_multidot", None),
                           ("03_noncontiguous", "train"), ("05_zero_length", None)]:
            shards = [x for x in (DATA / name).glob("*.tar")
                      if not fold or x.name.startswith(fold)]
            want = members(shards)
            n = tool.open(DATA / name if not fold else f"{DATA / name}:{fold}", None, flags)
            fields = tool("fields", n)
            keys = tool.keys(n)
            assert sorted(keys) == sorted(want), name
            for key, row in zip(keys, tool.rows(n)):
                assert {f: x for f, x in zip(fields, row) if x is not None} == want[key], key
            for i, key in enumerate(keys):
                assert int(tool("find", n, key)[0]) == i
            order = list(range(len(keys)))
            random.Random(1).shuffle(order)
            for f, field in enumerate(fields):
                some = [i for i in order + order[:3] if field in want[keys[i]]]
                got = tool("batch", n, ",".join(map(str, some)), f)
                assert [bytes.fromhex(x) for x in got] == [want[keys[i]][field] for i in some]
        n = tool.open(DATA / "01_basic/train_0001.tar", ["cls"], flags)
        want = members([DATA / "01_basic/train_0001.tar"])
        assert {k: r[0] for k, r in zip(tool.keys(n), tool.rows(n))} == {
            k: v["cls"] for k, v in want.items()}


def sets_of_fields_are_counted(tool):
    want = members((DATA / "01_basic").glob("train*.tar"))
    counts = {}
    for fields in want.values():
        key = frozenset(fields)
        counts[key] = counts.get(key, 0) + 1
    n = tool.open(DATA / "01_basic:train")
    got = [x.split(":") for x in tool("sets", n)]
    assert {frozenset(f.split(",")): int(c) for c, _, f in got} == counts
    assert [int(c) for c, _, _ in got] == sorted(counts.values(), reverse=True)
    n = tool.new("lacking", n, "npy")
    assert sum(int(x.split(":")[0]) for x in tool("sets", n)) == \
        sum("npy" not in f for f in want.values())


def repeated_and_pseudo_fields_are_served(tool):
    fields = ["cls", ".cls", "_idx", "_key", "_name", "_stem", "_fid", "_shard", "json", "cls"]
    n = tool.open(DATA / "01_basic:train", fields)
    n = tool.new("samples", n, "3,20,44")
    for row, (i, number) in zip(tool.rows(n), enumerate([3, 20, 44])):
        key = f"train-{number:05}".encode()
        shard = [0, 1, 2][i]
        assert row[:8] == (str(number).encode(),) * 2 + (
            str(i).encode(), key, key, key, str(shard).encode(),
            f"train_{shard:04}.tar".encode()), row
        assert row[9] == row[0] and json.loads(row[8])["i"] == number
    batch = tool("batch", n, "2,0", "-")
    assert [bytes.fromhex(x) for x in batch] == list(tool.rows(n)[2] + tool.rows(n)[0])
    refused("usage", "at least one", tool.open, DATA / "01_basic:train", ["_key", "_idx"])
    refused("no-field", "no field CLS; the fields are jpg, cls", tool.open, DATA / "01_basic:train",
            ["CLS"])


def a_duplicate_field_names_the_sample(tool, scratch):
    path = scratch / "twice.tar"
    make_tar(path, [("a", [("x", b"1"), ("y", b"2")]), ("b", [("x", b"3"), ("x", b"4")]),
                    ("c", [("x", b"5"), ("y", b"6"), ("y", b"7")]), ("d", [("y", b"8")])])
    refused("ambiguous", "sample b (row 2) has field x twice", tool.open, path, ["x", "y"])
    refused("ambiguous", "sample c (row 4) has field y twice", tool.open, path, ["y"])
    n = tool.open(path, ["x", "y"], "drop_ambiguous")
    assert tool.keys(n) == ["a"]
    n = tool.open(path)
    got = {x.split(":")[2]: x.split(":")[:2] for x in tool("sets", n)}
    assert got == {"x,y": ["2", "1"], "x": ["1", "1"], "y": ["1", "0"]}, got
    refused("ambiguous", "twice", tool, "get", n, 1, 0)
    refused("no-field", "sample d has no field x", tool, "get", n, 3, 0)
    refused("no-field", "sample d has no field x", tool, "batch", n, "0,3", "0")


def samples_are_measured(tool, scratch):
    want = members((DATA / "01_basic").glob("train*.tar"))
    n = tool.open(DATA / "01_basic:train", ["json", "cls", "_key"])
    n = tool.new("slice", n, 3, 1, 37)
    keys = tool.keys(n)
    assert [int(x) for x in tool("sizes", n, 0)] == [len(want[k]["json"]) for k in keys]
    assert [int(x) for x in tool("sizes", n, 2)] == [len(k) for k in keys]
    assert [int(x) for x in tool("integers", n, 1)] == [int(want[k]["cls"]) for k in keys]
    refused("format", "field json of sample train-00003 is not an integer", tool, "integers", n, 0)
    many = scratch / "many.tar"
    make_tar(many, [(f"k{i}", [("cls", b" %d\n" % (-7 * i))]) for i in range(2500)])
    n = tool.open(many, ["cls"])
    assert [int(x) for x in tool("integers", n, 0)] == [-7 * i for i in range(2500)]
    assert [float(x) for x in tool("numbers", n, 0)] == [-7.0 * i for i in range(2500)]
    types = ["<i1", "<i2", "<i4", "<i8", ">i1", ">i2", ">i4", ">i8", "|b1", "<u1", "<u2", ">u4", "<u8"]
    values = [0, 1, -1, 127, -128, 5]
    arrays = {t: np.array(values).astype(t) for t in types}
    arrays |= {"one": np.array(values).reshape(6, 1, 1), "two": np.ones((6, 2), int),
               "f2": np.array([.5, 1, -2, 3, 4, np.inf], ">f2"), "f8": np.arange(6.) / 3,
               "text": np.array(list("abcdef"))}
    arrays["<u8"] = np.abs(values).astype("<u8")
    arrays["<u8"][2] = 2 ** 63 - 1
    make_gnz(scratch / "m.gnz", arrays)
    n = tool.open(scratch / "m.gnz")
    fields = tool("fields", n)
    for name in types + ["one"]:
        want = [int(x) for x in arrays[name].reshape(6)]
        assert [int(x) for x in tool("integers", n, fields.index(name))] == want, name
        got = [float(x) for x in tool("numbers", n, fields.index(name))]
        assert got == [float(x) for x in want], name
    for name in "f2", "f8":
        assert [float(x) for x in tool("numbers", n, fields.index(name))] == arrays[name].tolist()
        refused("format", f"field {name} of sample 0 is not an integer", tool, "integers", n,
                fields.index(name))
    for name in "two", "text":
        refused("format", "is not an integer", tool, "integers", n, fields.index(name))
        refused("format", "is not a number", tool, "numbers", n, fields.index(name))
    make_gnz(scratch / "u.gnz", {"u": np.array([1, 2 ** 63], "<u8")})
    refused("format", "sample 1 is not an integer of at most 64 bits", tool, "integers",
            tool.open(scratch / "u.gnz"), 0)
    a = tool.open(many, ["cls"])
    make_gnz(scratch / "c.gnz", {"cls": np.arange(4, dtype=">i2")})
    m = tool.new("mix", f"{a},{tool.open(scratch / 'c.gnz')}", "-", "3,4", 0, 0, "-")
    kinds = [k for k, _ in mixed([3, 4])]
    turns = [t for _, t in mixed([3, 4])]
    assert [int(x) for x in tool("integers", m, 0)] == [
        -7 * t if k == 0 else t for k, t in zip(kinds, turns)]


def stem_filters_are_the_references(tool, scratch):
    """04a: eighteen stems, some in both shards, n11 in both with the same fields."""
    vector = json.loads((DATA / "04a_crash_weakhash/filter_results.json").read_text())
    want, rows = {}, vector["filter_stems verify=True"]
    for row in rows:
        stem, _, field = row.partition(".")
        want.setdefault(stem, []).append(field)
    for shard in (DATA / "04a_crash_weakhash").glob("*.tar"):  # without the weak index
        (scratch / shard.name).write_bytes(shard.read_bytes())
    n = tool.open(scratch)
    kept = tool.new("keys", n, *reversed(list(want)))
    assert tool.keys(kept) == list(want)
    fields = tool("fields", kept)
    found = {k: [] for k in want}
    for i, key in enumerate(want):
        for f, field in enumerate(fields):
            try:
                tool("where", kept, i, f)
                found[key].append(field)
            except Refused as e:
                assert str(e).startswith("!ambiguous"), e
                found[key] += [field] * 2
    assert {k: sorted(v) for k, v in found.items()} == {k: sorted(v) for k, v in want.items()}
    # Duplicates are dropped, as glzn's filter of extensions does it.
    one = tool.open(scratch, ["cls", "txt"], "drop_ambiguous")
    once = tool.new("keys?", one, *want)
    assert tool.keys(once) == [k for k in want if len(want[k]) == 2]
    # Without checking names, glzn also keeps n02; tarn never does.
    assert "n02.cls" in vector["filter_stems verify=False"] and "n02" not in tool.keys(kept)
    for case in json.loads((DATA / "order_vectors.json").read_text()):
        if case["filter_stems"]:
            n = tool.open(f"{DATA / case['dataset']}:{case['fold']}", case["extensions"])
            assert tool.keys(tool.new("keys", n, *case["filter_stems"])) == case["filter_stems"]


def required_fields_that_are_not_there_are_refused(tool):
    """The vectors of fold_filter_extensions that have errors, and those without real fields."""
    for case in json.loads((DATA / "lookup_vectors.json").read_text())["fold_filter_extensions"]:
        real = [x for x in case["required"] if not x.startswith("_")]
        if "error" in case:
            try:
                tool.open(DATA / "01_basic:train", case["required"])
            except Refused:
                continue
            raise AssertionError(case)
        if not real:  # no condition: everything stays
            n = tool.open(DATA / "01_basic:train")
            rows = sum(x is not None for row in tool.rows(n) for x in row)
            assert rows == case["n_rows"], case["required"]


def bytes_have_a_form_and_a_place(tool, scratch):
    make_gnz(scratch / "a.gnz", {"x": np.zeros((4, 2, 3), ">f4"), "n": np.arange(4)})
    g = tool.open(scratch / "a.gnz", ["x", "n", "_key"])
    assert tool("form", g, 0, 0) == ["6", ">f4", "2", "3"] and tool("form", g, 0, 1) == ["6", "<i8"]
    assert tool("form", g, 3, 2) == ["2", "txt"]
    path, offset = tool("where", g, 3, 1)
    data = pathlib.Path(path).read_bytes()
    assert struct.unpack_from("<q", data, int(offset)) == (3,)
    assert tool("where", g, 3, 2)[1] == "-1"
    f = tool.open(DATA / "01_basic:train", ["cls", "jpg"])
    assert tool("form", f, 0, 1) == ["0", "jpg"]
    index = json.loads((DATA / "01_basic/manifest.train.json").read_text())
    at = {(r["stem"], r["ext"]): (index["shards_in_fid_order"][r["fid"]], str(r["offset"]))
          for r in index["rows"]}
    for i, key in enumerate(tool.keys(f)):
        for k, field in enumerate(["cls", "jpg"]):
            path, offset = tool("where", f, i, k)
            assert (pathlib.Path(path).name, offset) == at[key, field]
    p = tool.open(DATA / "iac/pairs_by_0.1.4.iac", ["payload", "num_docs"], "stored")
    assert tool("form", p, 0, 0) == ["1", "bin"] and tool("form", p, 0, 1) == ["4", "json"]
    for i in range(3):
        path, offset = tool("where", p, i, 0)
        payload = tool.get(p, i, 0)
        assert pathlib.Path(path).read_bytes()[int(offset):][:len(payload)] == payload
    m = tool.new("mix", f"{g},{p}", "-", "-", 0, 0, "-")
    names = tool("fields", m)
    for i, (k, turn) in enumerate(mixed([4, 3])):
        field = names.index("x" if k == 0 else "payload")
        part = g if k == 0 else p
        assert tool("form", m, i, field) == tool("form", part, turn, 0)
        assert tool("where", m, i, field) == tool("where", part, turn, 0)


def arrays_hold_keys(tool, scratch):
    keys = ["é", "b", "中文", "", "b", "last one"]
    arrays = {"_key": np.array(keys), "id": np.array([5, -6, 7, 8, 9, 10]), "x": np.arange(6.)}
    for order, name in ("<", "l.gnz"), (">", "b.gnz"):
        make_gnz(scratch / name, arrays | {"_key": np.array(keys).astype(order + "U8")})
        for flags in "-", "read":
            n = tool.open(scratch / name, None, flags)
            assert tool("fields", n) == ["id", "x"] and tool.keys(n) == keys
            assert [int(tool("find", n, k)[0]) for k in keys] == [0, 1, 2, 3, 1, 5]
            assert tool.keys(tool.new("keys", n, "b", "é")) == ["é", "b", "b"]
            refused("no-sample", "no sample has the key 0", tool, "find", n, "0")
            n = tool.open(scratch / name, ["x", "_key"], flags)
            assert [r[1].decode() for r in tool.rows(n)] == keys
    n = tool.open(scratch / "l.gnz", None, "key=id")
    assert tool.keys(n) == ["5", "-6", "7", "8", "9", "10"] and tool("find", n, "-6") == ["1"]
    assert tool("fields", n) == ["_key", "id", "x"]
    refused("usage", "array x cannot be used as keys", tool.open, scratch / "l.gnz", None, "key=x")
    refused("no-field", "nope", tool.open, scratch / "l.gnz", None, "key=nope")
    make_gnz(scratch / "s.gnz", arrays | {"_key": np.array([k.encode() for k in keys])})
    assert tool.keys(tool.open(scratch / "s.gnz")) == keys
    make_gnz(scratch / "w.gnz", {"_key": np.array([[1]] * 6), "x": np.arange(6.)})
    assert tool.keys(tool.open(scratch / "w.gnz")) == list("012345")
    assert tool("fields", tool.open(scratch / "w.gnz")) == ["_key", "x"]
    bad = np.array(["ok", "x"]).astype("<U2")
    bad.view("<u4")[2] = 0xd800
    make_gnz(scratch / "bad.gnz", {"_key": bad, "x": np.arange(2)})
    n = tool.open(scratch / "bad.gnz")
    refused("format", "0xd800 is not a Unicode character", tool, "key", n, 1)


def packs_of_members_are_samples(tool, scratch):
    want = members((DATA / "01_basic").glob("train*.tar"))
    for codec in "none", "zstd":
        path = scratch / f"{codec}.iac"
        subprocess.run([TARN, "convert", f"{DATA}/01_basic:train", path, "-q", "--codec", codec],
                       check=True)
        for flags in "-", "read", "check":
            n = tool.open(path, None, flags)
            fields = tool("fields", n)
            assert tool.keys(n) == list(want)
            for key, row in zip(want, tool.rows(n)):
                assert {f: x for f, x in zip(fields, row) if x is not None} == want[key]
            for i, key in enumerate(want):
                assert tool("find", n, key) == [str(i)]
        n = tool.open(path, ["npy", "cls"])
        some = [k for k in want if "npy" in want[k]]
        assert tool.keys(n) == some
        got = tool("batch", n, ",".join(map(str, reversed(range(len(some))))), "-")
        assert [bytes.fromhex(x) for x in got] == [want[k][f] for k in reversed(some)
                                                   for f in ("npy", "cls")]
        assert [int(x) for x in tool("integers", n, 1)] == [int(want[k]["cls"]) for k in some]
        n = tool.open(path)
        assert tool.keys(tool.new("lacking", n, "jpg")) == [k for k in want if "jpg" not in want[k]]
        assert tool.keys(tool.new("keys", n, "train-00007", "train-00001")) == [
            "train-00001", "train-00007"]
        refused("no-field", "sample train-00003 has no field npy", tool, "get", n, 3,
                tool("fields", n).index("npy"))
        refused("usage", "open it with records", tool, "column", 61, n, "field", "cls")
        n = tool.open(path, None, "records")
        assert tool.count(n) == sum(map(len, want.values()))
        assert tool.count(tool.new("column", n, "field", "cls")) == len(want)
        assert tool("fields", n) == ["payload", "key", "field"]
    sets = {}
    for fields in want.values():
        sets[frozenset(fields)] = sets.get(frozenset(fields), 0) + 1
    got = [x.split(":") for x in tool("sets", tool.open(path))]
    assert {frozenset(f.split(",")): int(c) for c, _, f in got} == sets
    make_tar(scratch / "t.tar", [("a", [("x", b"1")]), ("b", [("y", b"2")])])
    subprocess.run([TARN, "convert", scratch / "t.tar", scratch / "t.tar", scratch / "t.iac", "-q"],
                   check=True)
    n = tool.open(scratch / "t.iac")
    assert tool.keys(n) == ["a", "b", "a", "b"]
    assert tool.count(tool.new("keys", n, "a")) == 2, "keys that come again are several samples"
    m = tool.new("mix", f"{n},{n}", "-", "-", 0, 0, "-")
    assert tool.count(tool.new("keys", m, "b")) == 4, "and all of them are found in a mix"


def filters_compose(tool, scratch):
    want = members((DATA / "01_basic").glob("train*.tar"))
    n = tool.open(DATA / "01_basic:train")
    keys = tool.keys(n)
    a = tool.new("having", n, "npy")
    b = tool.new("lacking", a, "jpg")
    c = tool.new("samples", b, "4,0,1,0")
    expect = [k for k in keys if "npy" in want[k]]
    assert tool.keys(a) == expect
    expect = [k for k in expect if "jpg" not in want[k]]
    assert tool.keys(b) == expect
    assert tool.keys(c) == [expect[i] for i in (4, 0, 1, 0)]
    assert tool.keys(n) == keys, "the first dataset has changed"
    assert tool.keys(tool.new("having", n, "npy", "jpg", "npy")) == [
        k for k in keys if "npy" in want[k] and "jpg" in want[k]]
    sizes = {k: len(want[k]["json"]) for k in keys}
    low, high = sorted(sizes.values())[10], sorted(sizes.values())[30]
    d = tool.new("size", a, "json", low, high)
    assert tool.keys(d) == [k for k in tool.keys(a) if low <= sizes[k] <= high]
    for i, k in enumerate(tool.keys(d)):
        assert int(tool("find", d, k)[0]) == i
    hidden = next(k for k in keys if "npy" not in want[k])
    refused("no-sample", "was not selected", tool, "find", a, hidden)
    tool("close", n)
    tool("close", a)
    assert tool.keys(c) == [expect[i] for i in (4, 0, 1, 0)], "the files went with the first dataset"
    assert tool.keys(tool.new("slice", c, 3, -2, 2)) == [expect[0]] * 2
    refused("usage", "is out of range for 4 samples", tool, "slice", 61, c, 2, 1, 3)
    refused("usage", "is out of range for 4 samples", tool, "slice", 61, c, 2, -1, 4)
    refused("no-sample", "no sample 4; the dataset has 4", tool, "samples", 61, c, "2,4")
    refused("usage", "only IAC files", tool, "column", 61, c, "x", "1")


def missing_keys_are_reported(tool, scratch):
    n = tool.open(DATA / "01_basic:train", ["cls"])
    some = ["train-00007", "train-00002", "train-00040"]
    a = tool.new("keys", n, *some)
    assert tool.keys(a) == sorted(some)
    refused("no-sample", "7 of 9 keys are not in the dataset: n0, n1, n2, n3, n4, ...", tool,
            "keys", 61, n, *some[:2], *(f"n{i}" for i in range(7)))
    b = tool.new("keys?", n, *some, "nope")
    assert tool.keys(b) == sorted(some)
    assert tool.count(tool.new("keys?", n, "nope")) == 0, "nothing found is not everything"
    path = scratch / "keys.json"
    path.write_text(json.dumps(["x/y/train-00003.jpg", "train-00009"]))
    assert tool.keys(tool.new("json", n, path)) == ["train-00003", "train-00009"]
    refused("no-sample", "1 of 2", tool, "json", 61, a, _write(scratch, ["train-00002", "q"]))
    refused("format", "list of keys", tool, "json", 61, n, _write(scratch, {"a": 1}))
    refused("format", "element 1", tool, "json", 61, n, _write(scratch, ["a", 1]))
    refused("no-file", "", tool, "json", 61, n, scratch / "none.json")


def _write(scratch, value):
    path = scratch / "written.json"
    path.write_text(json.dumps(value))
    return path


def arrays_are_rows(tool, scratch):
    rng = np.random.default_rng(3)
    arrays = {"ids": np.arange(50, dtype="<i8"), "x": rng.random((50, 4)).astype("<f4"),
              "other": np.arange(7)}
    path = scratch / "a.gnz"
    make_gnz(path, arrays)
    for flags in "-", "read":
        n = tool.open(path, None, flags)
        assert tool("fields", n) == ["ids", "x"] and tool.count(n) == 50
        assert tool.rows(n) == [(arrays["ids"][i].tobytes(), arrays["x"][i].tobytes())
                                for i in range(50)]
        got = tool("batch", n, "49,0,7,7", "1,0")
        assert [bytes.fromhex(x) for x in got] == [
            arrays[f][i].tobytes() for i in (49, 0, 7, 7) for f in ("x", "ids")]
        assert tool("find", n, "17") == ["17"] and tool("key", n, 17) == ["17"]
        refused("no-sample", "no row 017", tool, "find", n, "017")
        refused("no-sample", "no row 50", tool, "find", n, "50")
    n = tool.open(path, ["other", "_key"])
    assert tool.rows(n) == [(arrays["other"][i].tobytes(), str(i).encode()) for i in range(7)]
    assert tool.count(tool.new("lacking", n, "other")) == 0


def packs_are_records(tool):
    pack = sorted((DATA / "iac").glob("**/*.iac"))
    assert pack
    done = 0
    for path in pack:
        try:
            n = tool.open(path)
        except Refused:
            continue
        fields = tool("fields", n)
        assert fields[0] == "payload" and not {"offset", "length"} & set(fields)
        if tool.count(n) == 0:
            continue
        s = tool.open(path, ["payload"] + fields[1:2] + ["_key"], "stored")
        rows = tool.rows(s)
        order = list(range(len(rows)))[::-1]
        got = tool("batch", s, ",".join(map(str, order)), "0,2")
        assert [bytes.fromhex(x) for x in got] == [x for i in order for x in
                                                   (rows[i][0], rows[i][-1])]
        assert [r[-1] for r in rows] == [str(i).encode() for i in range(len(rows))]
        if len(fields) > 1:
            done += columns_filter(tool, path, s, fields[1:], rows)
    assert done, "no pack had a column to filter by"


def columns_filter(tool, path, n, columns, rows):
    """By the first column that can be searched: text or integers."""
    for column in columns:
        c = tool.open(path, [column])
        values = [json.loads(r[0]) for r in tool.rows(c)]
        if not all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values):
            continue
        wanted = values[len(values) // 2]
        f = tool.new("column", c, column, wanted)
        assert [json.loads(r[0]) for r in tool.rows(f)] == [v for v in values if v == wanted]
        k = tool.open(path, [column], f"key={column}")
        assert tool.keys(k) == [str(v) for v in values]
        assert int(tool("find", k, wanted)[0]) == values.index(wanted)
        assert tool.keys(tool.new("keys", k, wanted)) == [str(v) for v in values if v == wanted]
        if isinstance(wanted, int):
            low, high = min(values), wanted
            b = tool.new("between", c, column, low, high)
            assert tool.count(b) == sum(low <= v <= high for v in values)
        return 1
    return 0


# --- Mixes ---------------------------------------------------------------------------------


def mixed(counts):
    """All (source, turn) in order, by sorting exact fractions."""
    return sorted(((k, j) for k, n in enumerate(counts) for j in range(n)),
                  key=lambda x: (fractions.Fraction(2 * x[1] + 1, counts[x[0]]), x[0]))


def mixes_interleave_evenly(tool):
    rng = random.Random(8)
    n = tool.open(DATA / "01_basic:train", ["cls"])
    for _ in range(40):
        counts = [rng.choice([0, 1, 2, 3, 7, 45, rng.randint(1, 200)])
                  for _ in range(rng.randint(1, 7))]
        if not sum(counts):
            continue
        m = tool.new("mix", ",".join([str(n)] * len(counts)), "-",
                     ",".join(map(str, counts)), 0, 0, "-")
        want = mixed(counts)
        assert tool.count(m) == len(want)
        for p in rng.sample(range(len(want)), min(len(want), 60)) + [0, len(want) - 1]:
            k, turn = want[p]
            assert [int(x) for x in tool("at", m, p)] == [k, turn, turn % 45], (counts, p)
            assert int(tool("position", m, k, turn)[0]) == p
    big = 2**60
    m = tool.new("mix", f"{n},{n},{n}", "-", f"{big},{big // 3},5", 0, 0, "-")
    for p in [0, 1, 12345678901234567, big, big + big // 3 + 4]:
        k, turn, _ = (int(x) for x in tool("at", m, p))
        assert int(tool("position", m, k, turn)[0]) == p


def weights_become_counts(tool):
    a = tool.open(DATA / "01_basic:train", ["cls"])
    b = tool.new("slice", a, 0, 1, 10)

    def counts(weights, total, end):
        m = tool.new("mix", f"{a},{b}", weights, "-", total, end, "-")
        found = [0, 0]
        for p in range(tool.count(m)):
            found[int(tool("at", m, p)[0])] += 1
        return found

    assert counts("3,1", 100, 0) == [75, 25]
    assert counts("0.5,0.25", 10, 0) == [7, 3]
    assert counts("1,1", 0, 0) == [10, 10]
    assert counts("1,1", 0, 1) == [45, 45]
    assert counts("9,2", 0, 0) == [45, 10]
    found = counts("0.7,0.3", 0, 1)
    assert found[0] >= 45 and found[1] >= 10 and abs(found[0] * 3 - found[1] * 7) < 10
    for weights in "0,1", "-1,1", "nan,1", "inf,1", "1e-300,1":
        refused("usage", "weight", tool, "mix", 61, f"{a},{b}", weights, "-", 0, 0, "-")
    empty = tool.new("keys?", a, "nope")
    refused("usage", "no samples", tool, "mix", 61, f"{a},{empty}", "1,1", "-", 0, 0, "-")


def a_mix_of_three_kinds_has_their_bytes(tool, scratch):
    path = scratch / "mix.gnz"
    arrays = {"cls": np.arange(30, dtype="<i4"), "z": np.arange(30, dtype="<f8")}
    make_gnz(path, arrays)
    fold = tool.open(DATA / "01_basic:train", ["cls", "json"])
    gnz = tool.open(path)
    packs = [p for p in sorted((DATA / "iac").glob("**/*.iac"))]
    for p in packs:
        try:
            pack = tool.open(p, ["payload"], "stored")
            if tool.count(pack) > 1:
                break
        except Refused:
            continue
    parts = [fold, gnz, pack]
    rows = [tool.rows(x) for x in parts]
    fields = [tool("fields", x) for x in parts]
    m = tool.new("mix", ",".join(map(str, parts)), "-", "50,30,9", 0, 0, "-")
    names = tool("fields", m)
    assert names == ["cls", "json", "z", "payload"], names
    want = []
    for k, turn in mixed([50, 30, 9]):
        row = dict(zip(fields[k], rows[k][turn % len(rows[k])]))
        want.append(tuple(row.get(x) for x in names))
    for x in parts:
        tool("close", x)
    assert tool.rows(m) == want
    have = [i for i, row in enumerate(want) if row[0] is not None]
    random.Random(2).shuffle(have)
    got = tool("batch", m, ",".join(map(str, have)), "0")
    assert [bytes.fromhex(x) for x in got] == [want[i][0] for i in have]
    h = tool.new("lacking", m, "cls")
    assert tool.rows(h) == [row for row in want if row[0] is None]
    key = tool("key", m, 60)[0]
    first = int(tool("find", m, key)[0])
    assert tool("key", m, first)[0] == key and first <= 60
    refused("no-field", "has no field", tool, "batch", m, "0,1,2,3,4,5,6,7", "3")
    keys = tool.keys(m)
    assert tool.keys(tool.new("keys", m, key)) == [k for k in keys if k == key]
    again = keys[[k for k, _ in mixed([50, 30, 9])].index(0)]
    assert keys.count(again) == 2, "the fold's first samples come twice"
    assert tool.count(tool.new("keys", m, again)) == 2
    nested = tool.new("mix", f"{m},{m}", "-", "89,89", 0, 0, "-")
    assert tool.rows(nested) == [row for row in want for _ in range(2)]
    got = tool("batch", nested, ",".join(str(2 * i) for i in have), "0")
    assert [bytes.fromhex(x) for x in got] == [want[i][0] for i in have]
    s = tool.open(DATA / "01_basic:train", ["cls"])
    refused("no-field", "source 1 of the mix has no field json", tool, "mix", 61,
            f"{tool.open(DATA / '01_basic:train', ['cls', 'json'])},{s}", "-", "-", 0, 0, "json")


def wrong_paths_are_refused(tool, scratch):
    (scratch / "junk.gnz").write_bytes(b"GNZ1" + b"\xff" * 5000)
    (scratch / "junk.iac").write_bytes(b"\0" * 100)
    (scratch / "junk.tar").write_bytes(b"\x01" * 10240)
    for name in "junk.gnz", "junk.iac", "junk.tar", "nowhere", "nowhere.gnz", "nowhere.iac":
        try:
            tool.open(scratch / name)
        except Refused as e:
            assert name in str(e), e
        else:
            raise AssertionError(f"{name} was opened")
    n = tool.open(DATA / "01_basic:train", ["cls"])
    refused("no-sample", "no sample 45; the dataset has 45", tool, "get", n, 45, 0)
    refused("no-field", "no field number 1; the dataset has 1", tool, "get", n, 0, 1)
    refused("no-sample", "no sample 45; the dataset has 45", tool, "batch", n, "0,45", "-")


def a_changed_shard_is_an_error_in_a_batch(tool, scratch):
    """One whose header changes before its row is used, and one whose length changes after."""
    folder = scratch / "changed"
    folder.mkdir()
    path = folder / "t_0.tar"
    make_tar(path, [(f"k{i}", [("x", b"%d" % i)]) for i in range(20)])
    subprocess.run([TARN, "index", folder], check=True, capture_output=True)
    data = bytearray(path.read_bytes())
    struct.pack_into("2s", data, 1024 * 5, b"zz")
    n = tool.open(folder, ["x"])
    tool("batch", n, "0,1,2", "-")
    mtime = path.stat().st_mtime_ns
    with path.open("r+b") as f:
        f.write(data)
    os.utime(path, ns=(mtime, mtime))
    refused("stale", "offset 5120", tool, "batch", n, "1,5", "-")
    assert tool("batch", n, "0,1,2", "-") == [x.hex() for x in (b"0", b"1", b"2")]
    with path.open("ab") as f:
        f.write(b"\0" * 512)
    refused("stale", "t_0.tar", tool, "batch", n, "0,1", "-")


TESTS = [folds_and_tars_have_the_members_bytes, sets_of_fields_are_counted,
         repeated_and_pseudo_fields_are_served, a_duplicate_field_names_the_sample,
         samples_are_measured, stem_filters_are_the_references,
         required_fields_that_are_not_there_are_refused, bytes_have_a_form_and_a_place,
         arrays_hold_keys, packs_of_members_are_samples, filters_compose,
         missing_keys_are_reported, arrays_are_rows, packs_are_records, mixes_interleave_evenly,
         weights_become_counts, a_mix_of_three_kinds_has_their_bytes,
         wrong_paths_are_refused, a_changed_shard_is_an_error_in_a_batch]

sys.exit(run_all(TESTS))
