#!/usr/bin/env python3
"""Writes the seeds of fuzz_iac: small tables of every type. Needs pyarrow, so it is run by hand:

  .venv-iac1/bin/python fuzz/make_iac_corpus.py
"""
import importlib.util
import json
import pathlib
import random
import struct
import sys
import zlib

import pyarrow as pa

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import corpus  # noqa: E402

RAW, FIRST, NO_MAP, CHECKED, CODEC = 1, 2, 4, 8, 16


def judge():
    """The functions that make odd columns are those of the interop test."""
    path = ROOT / "tests/interop/iac_judge.py"
    module = {"__name__": "judge"}
    exec(compile(path.read_text().replace("\nmain()\n", "\n"), str(path), "exec"), module)  # noqa: S102
    return module


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=options.pop("chunk", 3) if "chunk" in options else None)
    return sink.getvalue().to_pybytes()


def located(table, payloads):
    at = 0
    offsets = []
    for one in payloads:
        offsets.append(at)
        at += len(one)
    return (table.append_column("offset", pa.array(offsets, pa.uint64()))
            .append_column("length", pa.array([len(p) for p in payloads], pa.uint32()))
            .append_column("crc32", pa.array([zlib.crc32(p) for p in payloads], pa.uint32())))


def seed(options, slides, index, data):
    assert len(slides) < 1 << 24 and len(index) < 1 << 24
    return (bytes([options]) + struct.pack("<I", len(slides))[:3] + struct.pack("<I", len(index))[:3] +
            slides + index + data)


def main():
    make = judge()
    rng = random.Random(1)
    out = corpus.read("iac")
    slides = stream(pa.table({"slide_id": ["s"]}))
    payloads = [b"a", b"", b"ccc"]
    tables = {k: pa.table({k: make["column"](rng, k, 3)}) for k in make["plain_columns"]()}
    tables |= {k: pa.table({k: v}) for k, v in make["odd_columns"](rng, 3)}
    for name, table in tables.items():
        data = seed(CHECKED, slides, stream(located(table, payloads)), b"".join(payloads))
        out[name.replace(" ", "_")] = data
    names = pa.table({"name": ["a", "b", "a"], "n": [7, None, -1]})
    for codec in ("lz4", "zstd"):
        body = stream(located(names, payloads), compression=codec)
        out[codec] = seed(NO_MAP | CHECKED, slides, body, b"".join(payloads))
    out["fixed"] = seed(0, slides, stream(names), b"aaabbbccc")
    out["version1"] = seed(FIRST, slides, stream(located(names, payloads)), b"accc")
    out["no_rows"] = seed(0, slides, stream(located(names.slice(0, 0), [])), b"")
    packed = zlib.compressobj(wbits=31)
    gz = packed.compress(b"hello") + packed.flush()
    out["gzip"] = seed(CODEC * 3, slides, stream(located(names.slice(0, 1), [gz])), gz)
    layout = {"format": "IatroCache", "version": 2, "header_bytes": 65536, "slide_table_offset": 65536,
              "slide_table_length": len(slides), "index_table_offset": 65536 + len(slides),
              "index_table_length": len(slides), "data_offset": 65536 + 2 * len(slides), "data_length": 0,
              "num_slides": 1, "num_records": 1}
    out["header"] = seed(RAW, json.dumps(layout).encode(), b"", slides + slides)
    corpus.write("iac", out)


sys.exit(main())
