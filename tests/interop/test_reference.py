#!/usr/bin/env python3
"""The content of glzn's data sets according to glzn, compared with tarn.

tests/data has shards and indexes that glzn wrote, with manifests of every row: shard, offset, size,
field, key, SHA-256 of the payload. tarn must report the same from glzn's own index, from an index
of its own, and without any index.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"
TARN = os.environ.get("TARN", str(ROOT / "build/tarn"))
GETS = 12  # payloads fetched through the tool for each fold


def tarn(*arguments):
    done = subprocess.run([TARN, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def listed(path, *options):
    rows = set()
    for line in tarn("ls", "--json", *options, path).decode().split("\n")[:-1]:
        sample = json.loads(line)
        for one in sample["members"]:
            rows.add((one["shard"], one["offset"], one["size"], sample["key"], one["field"]))
    return rows


def expected(manifest):
    names = manifest["shards_in_fid_order"]
    return {(names[r["fid"]], r["offset"], r["size"], r["stem"], r["ext"])
            for r in manifest["rows"]}


def check_payloads(path, manifest):
    step = max(1, len(manifest["rows"]) // GETS)
    for row in manifest["rows"][::step]:
        payload = tarn("get", path, row["stem"], row["ext"])
        assert hashlib.sha256(payload).hexdigest() == row["payload_sha256"], row


def check_fold(folder, fold, manifest):
    path = f"{folder}:{fold}"
    want = expected(manifest)
    assert listed(path) == want, "with glzn's index"
    check_payloads(path, manifest)
    index = folder / f"{fold}.taridx"
    os.unlink(index)
    assert listed(path) == want, "without an index"
    tarn("index", "--sums", path)
    assert hashlib.sha256(index.read_bytes()).hexdigest() == \
        hashlib.sha256((DATA / folder.name / index.name).read_bytes()).hexdigest()
    assert listed(path) == want, "with an index made by tarn"
    check_payloads(path, manifest)
    tarn("verify", path)


def folds():
    for manifest in sorted(DATA.glob("*/manifest.*.json")):
        fold = manifest.name.split(".")[1]
        if manifest.name != f"manifest.{fold}.json" or "weakhash" in str(manifest):
            continue
        # Names without a key cannot be looked up, and a duplicate name is ambiguous.
        if "empty_ext" in str(manifest):
            continue
        yield manifest.parent.name, fold, json.loads(manifest.read_text(encoding="utf-8"))


def field_filters(folder):
    """The rows that remain after selecting fields."""
    vectors = json.loads((DATA / "lookup_vectors.json").read_text(encoding="utf-8"))
    for case in vectors["fold_filter_extensions"]:
        wanted = [f for f in case["required"] if not f.startswith("_")]
        if "offsets" not in case or not wanted:
            continue
        names = [f"train_{i:04}.tar" for i in range(3)]
        rows = listed(f"{folder}:train", "--fields", ",".join(wanted))
        got = {(shard, offset) for shard, offset, *_ in rows}
        assert got == {(names[fid], offset) for fid, offset in case["offsets"]}, wanted


def main():
    failed = number = 0
    with tempfile.TemporaryDirectory() as scratch:
        tests = []
        for name, fold, manifest in folds():
            folder = pathlib.Path(scratch) / name
            if not folder.exists():
                shutil.copytree(DATA / name, folder)
                for path in [folder, *folder.iterdir()]:
                    path.chmod(path.stat().st_mode | 0o200)
            tests.append((f"{name}:{fold}", lambda a=folder, b=fold, c=manifest:
                          check_fold(a, b, c)))
        tests.append(("fields required", lambda: field_filters(DATA / "01_basic")))
        for title, test in tests:
            number += 1
            try:
                test()
                print(f"ok {number} - {title}")
            except AssertionError as problem:
                failed += 1
                print(f"not ok {number} - {title}\n# {problem}")
    print(f"1..{number}")
    return 1 if failed or number < 7 else 0


sys.exit(main())
