#!/usr/bin/env python3
"""IAC files compared with the real packages: iatro-base-iac 0.0.2, and 0.1.4 with its adapters.

Each package makes IAC files with odd tables; tarn reads them through the Arrow C interface and
writes them again; both packages must find the same tables and payloads in tarn's files. A file that
0.0.2 writes in one batch is rewritten by tarn to the same bytes.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.environ.get("TARN", str(ROOT / "build/tarn"))
TOOL = str(pathlib.Path(TARN).parent / "tests/iac_tool")
JUDGE = str(ROOT / "tests/interop/iac_judge.py")
PACKAGES = {"0.0.2": ROOT / ".venv-iac1/bin/python", "0.1.4": ROOT / ".venv-iac2/bin/python"}
COUNT = 30  # IAC files with odd tables from each package


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **more)
    assert done.returncode == 0, (command[:3], done.stderr.decode(errors="replace")[-3000:])
    return done.stdout.decode()


def judge(package, *arguments):
    # The judges are not built with sanitizers, and must not inherit their preloads.
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return run(PACKAGES[package], JUDGE, *arguments, env=env)


def packs(folder, package):
    made = folder / package
    made.mkdir()
    judge(package, "make", made, 7, COUNT)
    return sorted(made.glob("*.iac"))


def copies(paths, suffix, *arguments, env=None):
    out = []
    for path in paths:
        to = path.with_suffix(suffix)
        run(TOOL, "copy", path, to, *arguments, env=env)
        out += [path, to]
    return out


def odd_tables(folder):
    for package in PACKAGES:
        paths = packs(folder, package)
        pairs = copies(paths, ".copy")
        for reader in PACKAGES:
            judge(reader, "same", *pairs)
        for path in paths:
            run(TARN, "verify", path)


def without_maps(folder):
    paths = packs(folder, "0.1.4")[:10]
    judge("0.0.2", "same", *copies(paths, ".read", env={**os.environ, "NO_MAP": "1"}))


def same_bytes(folder):
    source = folder / "one.py"
    source.write_text("""
import sys, pyarrow as pa
sys.argv = ["x", "none"]
exec(open(%r).read().replace("\\nmain()\\n", ""))
slides = pa.table({"slide_idx": pa.array([0], pa.uint8()), "slide_id": ["s0"], "patient_id": ["p0"]})
index = pa.table({"item_id": ["item_a", "item_b", "c"], "t": pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
                  "n": pa.array([1, None, 3], pa.int16()), "d": pa.array(["x", "y", "x"]).dictionary_encode(),
                  "l": [[1], [], [2, 3]]}, metadata={"k": "v"})
header = {"payload_type": "raw", "codec": "none", "nan": float("nan"), "文": "é", "n": [1, 2.5, {"b": 1, "a": []}]}
iac.build_pack(%r, header, slides, index, [b"first", b"", b"third" * 99])
""" % (JUDGE, str(folder / "a.iac")))
    run(PACKAGES["0.0.2"], source)
    run(TOOL, "copy", folder / "a.iac", folder / "b.iac")
    assert (folder / "a.iac").read_bytes() == (folder / "b.iac").read_bytes()


def versions(folder):
    """Version 1 is known from its specification only: neither package reads it. A file that tarn
    wrote, read and upgraded must be what the packages expect."""
    path = packs(folder, "0.0.2")[-1]
    first, second = folder / "v1.iac", folder / "v2.iac"
    run(TOOL, "copy", path, first, 1)
    raw = first.read_bytes()
    length, version = struct.unpack("<II", raw[8:16])
    header = json.loads(raw[16:16 + length])
    assert raw[:8] == b"IATROC\0\1" and version == 1 and header["version"] == 1
    assert "record_table_offset" in header and "index_table_offset" not in header
    for package in PACKAGES:
        judge(package, "refuses", first)
    assert run(TOOL, "read", first) == run(TOOL, "read", path)
    run(TOOL, "upgrade", first, second)
    for package in PACKAGES:
        judge(package, "same", path, second)
    assert second.read_bytes()[65536:] == raw[65536:]


def text_pairs(folder):
    for package, style in (("0.0.2", "00"), ("0.1.4", "01")):
        made = folder / package
        made.mkdir()
        judge(package, "pairs", made, 3)
        source, ours = made / "pairs.iac", made / "ours.iac"
        run(TOOL, "pairs", source, ours, style)
        judge(package, "patients", source, ours)
        run(TARN, "verify", ours)
        if package == "0.0.2":  # 0.1.4 has another Brotli encoder
            assert source.read_bytes() == ours.read_bytes()
    judge("0.0.2", "patients", folder / "0.1.4/pairs.iac", folder / "0.1.4/ours.iac")


def lookups(folder):
    source = folder / "find.py"
    source.write_text("""
import sys
sys.argv = ["x", "none"]
exec(open(%r).read().replace("\\nmain()\\n", ""))
index = pa.table({"name": ["a", "é", "a", None, ""], "small": pa.array([-1, 2, 3, None, -128], pa.int8()),
                  "big": pa.array([2 ** 64 - 1, 0, 5, 5, None], pa.uint64()),
                  "word": pa.array(["x", "y", "x", None, "y"]).dictionary_encode(),
                  "view": pa.array(["x" * 20, "y", "x" * 20, None, ""], pa.string_view())})
iac.build_pack(%r, {}, pa.table({"slide_id": ["s"]}), index, [b"0", b"1", b"2", b"3", b"4"])
""" % (JUDGE, str(folder / "f.iac")))
    run(PACKAGES["0.1.4"], source)
    for column, value, rows in (("name", "a", "0 2"), ("name", "é", "1"), ("name", "", "4"),
                                ("small", "-1", "0"), ("small", "-128", "4"), ("small", "3", "2"),
                                ("big", str(2 ** 64 - 1), "0"), ("big", "5", "2 3"), ("big", "0", "1"),
                                ("word", "y", "1 4"), ("view", "x" * 20, "0 2"), ("view", "", "4")):
        assert run(TOOL, "find", folder / "f.iac", column, value).split() == rows.split(), column
    for column, value in (("name", "b"), ("small", "255"), ("big", "-1"), ("big", "x"), ("none", "a")):
        done = subprocess.run([TOOL, "find", folder / "f.iac", column, value],
                              stderr=subprocess.PIPE, check=False)
        kind = b"no-field" if column == "none" else b"no-sample"
        assert done.returncode == 1 and kind in done.stderr, (column, value, done.stderr)


def c_data_interface(folder):
    library = pathlib.Path(TARN).parent / "libtarn.so"
    symbols = subprocess.run(["nm", "-D", library], stdout=subprocess.PIPE, check=True).stdout
    if b"__asan_init" in symbols or b"__tsan_init" in symbols:
        return "SKIP a library with sanitizers cannot be loaded by Python"
    judge("0.1.4", "exchange", library, folder / "to.iac", *packs(folder, "0.1.4"))
    return None


def typed_columns(folder):
    """Columns of a manifest have their types, and the header names the images, in both packages."""
    png = b"\x89PNG\r\n\x1a\n not decoded"
    (folder / "a.png").write_bytes(png)
    rows = [{"file": "a.png", "n": -5, "f": 0.5, "b": True, "t": "é", "l": ["x", ""], "r": [1, 0.5],
             "at": "2024-05-31T12:00:00.25+02:00"},
            {"file": "a.png", "n": 2 ** 62, "f": 3, "b": False, "t": None, "l": [], "at": None}]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(TARN, "pack", folder / "m.jsonl", "-q", "-o", folder / "m.iac", "--types", "at=timestamp",
        "--codec", "png")
    run(TARN, "convert", folder / "m.iac", folder / "copy.iac", "-q", "--range", "0:2")
    types = {"n": "int64", "f": "double", "b": "bool", "t": "string", "l": "list<item: string>",
             "r": "list<item: double>", "at": "timestamp[us, tz=UTC]"}
    values = [{"n": -5, "f": 0.5, "b": True, "t": "é", "l": ["x", ""], "r": [1.0, 0.5],
               "at": "2024-05-31 10:00:00.250000+00:00"},
              {"n": 2 ** 62, "f": 3.0, "b": False, "t": None, "l": [], "r": None, "at": None}]
    for package in PACKAGES:
        for path in (folder / "m.iac", folder / "copy.iac"):
            header, schema, *found = map(json.loads, judge(package, "dump", path).splitlines())
            assert header["codec"] == "png", header
            assert {name: schema[name] for name in types} == types, schema
            assert found == [[png.hex(), row] for row in values], found


TESTS = [typed_columns, c_data_interface, odd_tables, without_maps, same_bytes, versions, text_pairs, lookups]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                skipped = test(pathlib.Path(folder))
                print(f"ok {number} - {test.__name__}" + (f" # {skipped}" if skipped else ""))
            except AssertionError as e:
                failed += 1
                print(f"not ok {number} - {test.__name__}\n  {e}")
        sys.stdout.flush()
    return 1 if failed else 0


sys.exit(main())
