#!/usr/bin/env python3
"""Datasets compared with results recorded from glzn: samples by their fields, lookups, filters,
choices of views."""
import json
import random
import sys

import numpy as np

from dataset_tool import DATA, refused, run_all


def decode(field, data):
    return {"cls": int, "json": json.loads, "txt": lambda b: b.decode()}[
        field.rsplit(".")[-1]](data)


def lookups_are_the_references(tool):
    for case in json.loads((DATA / "lookup_vectors.json").read_text())["lookup_stems"]:
        n = tool.open(DATA / "01_basic:train", case["open_extensions"])
        fields = tool("fields", n)
        wanted = fields if case["extensions"] is None else [
            x.lstrip(".").lower() for x in case["extensions"]]
        got = {}
        for found in (tool("lookup", n, *case["query"])[1:] if case["query"] else []):
            key, _, sample = found.rpartition("=")
            got[key] = {x: decode(x, tool.get(n, sample, fields.index(x)))
                        for x in wanted if x in fields and sample != "-1"}
        assert got == case["result"], (got, case)


def field_filters_are_the_references(tool):
    """The remaining rows, by their shard and payload."""
    index = json.loads((DATA / "01_basic/manifest.train.json").read_text())
    at = {(r["fid"], r["offset"]): (r["stem"], r["ext"]) for r in index["rows"]}
    done = 0
    for case in json.loads((DATA / "lookup_vectors.json").read_text())["fold_filter_extensions"]:
        if "offsets" not in case or all(x.startswith("_") for x in case["required"]):
            continue
        n = tool.open(DATA / "01_basic:train", case["required"])
        real = {x for x in case["required"] if not x.startswith("_")}
        want = {at[tuple(x)] for x in case["offsets"]}
        assert {(k, x) for k in tool.keys(n) for x in real} == want, case["required"]
        assert case["n_rows"] == tool.count(n) * len(real)
        done += 1
    assert done >= 4, done


def non_contiguous_folds_give_the_references_samples(tool):
    results = json.loads((DATA / "03_noncontiguous/dataset_results.json").read_text())
    done = 0
    for name, result in results.items():
        fields, enforce = name.split(" enforce=")
        fields = fields.split(",") if "," in fields else fields.split("+")
        if "ok" not in result:
            continue
        n = tool.open(DATA / "03_noncontiguous", fields + ["_stem", "_fid"],
                      "by_hash" if enforce == "True" else "-")
        got = [[str(decode(f, x)) for f, x in zip(fields, row)] + [row[-2].decode(),
                int(row[-1])] for row in tool.rows(n)]
        want = [[str(x) for x in row[:-1]] + row[-1:] for row in result["ok"]]
        assert got == want, f"{name}: {got[:3]}, not {want[:3]}"
        done += 1
    assert done >= 2, done


def order_vectors_have_the_datasets_samples(tool):
    """Which samples a configuration has, in which shards; the order itself is tested elsewhere."""
    done = 0
    for case in json.loads((DATA / "order_vectors.json").read_text()):
        if case["world_size"] != 1 or "stems" not in case:
            continue
        path = DATA / case["dataset"]
        fold = f":{case['fold']}" if case.get("fold") else ""
        n = tool.open(f"{path}{fold}", case["extensions"],
                      "by_hash" if case["enforce_contiguous"] else "-")
        if case["filter_stems"]:
            n = tool.new("keys?", n, *case["filter_stems"])
        assert tool.count(n) == case["global_len"], case
        counts = [int(x) for x in tool("shards", n)]
        assert counts[:len(case["shard_bincount"])] == case["shard_bincount"], case
        assert not any(counts[len(case["shard_bincount"]):])
        keys = tool.keys(n)
        for stem, idx, fid in zip(case["stems"], case["idx"], case["fid"]):
            assert keys[idx] == stem, (case, idx)
            assert int(tool("shard", n, idx)[0]) == fid
        done += 1
    assert done >= 5, done


def views_are_the_references(tool):
    vectors = json.loads((DATA / "grouping_vectors.json").read_text())
    for case in vectors["datasets"]:
        n = tool.open(DATA / case["dataset"], case["extensions"])
        tool("views", n, int(case["grouping_replace"]), case["effective_grouping_seed"],
             *case["grouping"])
        fields = tool("fields", n)
        assert tool.count(n) == len(case["chosen"])
        for i, (chosen, values) in enumerate(zip(case["chosen"], case["values"])):
            got = [int(x) for x in tool("choose", case["epoch"], i)]
            assert [fields[x] for x in got] == chosen, (case["grouping"], i)
            assert [decode(fields[x], tool.get(n, i, x)) for x in got] == values
        default = case["internal_seed"] ^ 0x0BAD5EED
        assert case["grouping_seed_arg"] is not None or \
            case["effective_grouping_seed"] == default


def views_are_numpys_choice(tool):
    rng = random.Random(5)
    fields = [f"f{i}.{x}" for i in range(3) for x in ("txt", "cls")]
    n = tool.open(DATA / "02_multidot", fields)
    names = tool("fields", n)
    for _ in range(300):
        replace, k = rng.random() < 0.5, rng.randint(1, 3)
        k = k if not replace else rng.randint(1, 6)
        seed, epoch = rng.getrandbits(64), rng.getrandbits(20)
        i = rng.randrange(tool.count(n))
        tool("views", n, int(replace), seed, *(f"{{{s}}}.txt" for s in range(k)))
        want = np.random.default_rng((seed + epoch + i) % 2**64).choice(
            ["f0", "f1", "f2"], k, replace=replace)
        got = [names[int(x)] for x in tool("choose", epoch, i)]
        assert got == [f"{x}.txt" for x in want], (seed, epoch, i)


def wrong_views_are_refused(tool):
    fields = [f"f{i}.{x}" for i in range(3) for x in ("txt", "cls")]
    n = tool.open(DATA / "02_multidot", fields)
    for templates, part in [
            (["txt"], "one dot"), (["{0}.a.b"], "one dot"), (["x.txt"], "no slot"),
            (["{}.txt"], "number"), (["{x}.txt"], "number"), (["{0.txt"], "number"),
            (["0}.txt"], "brace"), (["x.{0}"], "before the dot"), (["{1}.txt"], "no template"),
            (["{0}.txt", "{1}.cls"], "other suffixes"), (["{0}.jpg"], "0 prefixes"),
            (["{9999999999}.txt"], "too high"),
            ([f"{{{i}}}.txt" for i in range(4)], "4 slots")]:
        refused("usage", part, tool, "views", n, 0, 1, *templates)
    tool("views", n, 1, 1, "{0}{0}.txt")
    refused("usage", "does not have", tool, "choose", 0, 0)
    n = tool.open(DATA / "01_basic:train", ["cls"])
    refused("usage", "one dot", tool, "views", n, 0, 1, "{0}.cls")


TESTS = [lookups_are_the_references, field_filters_are_the_references,
         non_contiguous_folds_give_the_references_samples,
         order_vectors_have_the_datasets_samples, views_are_the_references,
         views_are_numpys_choice, wrong_views_are_refused]

sys.exit(run_all(TESTS))
