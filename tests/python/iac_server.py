#!/usr/bin/env python3
"""Runs inside the environment of a real package (iatro-base-iac 0.0.2 or 0.1.4) and executes
requests: one JSON object per line in, one out. Tables are sent as Arrow IPC streams, bytes as hex.

  {"do": "build", "how": ..., "path": ..., "header": ..., "slides": ..., "index": ...,
   "payloads": [...] | "data": ... | "data_path": ..., "overwrite": ...}
                                     the header may be the text of a Python literal
  {"do": "read", "path": ...}        header, tables, payloads, tried through every way of reading
  {"do": "pairs", "path": ..., "patients": ..., "quality": ...}
  {"do": "patients", "path": ...}
  {"do": "texts", "path": ..., "patients": ...}           builds a record pack of single texts
  {"do": "read_texts", "path": ...}
  {"do": "grid", "kind": "tiles" or "features", "path": ..., "records": ..., "data": ..., ...}   builds
  {"do": "tiles", "path": ...}       the records that the adapters find
  {"do": "names"}                    public names of all modules, with the signatures of functions
  {"do": "variable", "path": ..., "codec": ..., "objects": [...], "index": ...}   builds
  {"do": "records", "path": ...}     the records of a VariableRecordPack, decoded
  {"do": "fixed", "path": ..., "matrix": ..., "dtype": ..., "index": ...}         builds
  {"do": "matrix", "path": ...}      the rows of a FixedRecordPack
An answer is {"ok": ...} or {"error": [names of the exception's classes], "text": ...}.
"""
import ast
import dataclasses
import importlib
import inspect
import json
import pathlib
import sys
import types

for name in ("PIL", "PIL.Image", "imagecodecs", "tqdm"):  # 0.0.2 imports them only for images
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["PIL"].Image = sys.modules["PIL.Image"]
sys.modules["PIL.Image"].Image = object
sys.modules["tqdm"].tqdm = iter

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from iatro import iac  # noqa: E402
from iatro.iac.adapters import features, text, text_pair, tiles  # noqa: E402

MODULES = ("", "._core", ".codecs", ".packs", ".manifests", ".validate", ".adapters", ".adapters.text_pair",
           ".adapters.text", ".adapters.features", ".adapters.tiles", ".adapters.manifests", ".adapters.validate")


def table_in(text):
    return pa.ipc.open_stream(pa.py_buffer(bytes.fromhex(text))).read_all()


def table_out(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes().hex()


def build(how, path, header, slides, index, overwrite=False, **more):
    function = getattr(iac, how)
    if isinstance(header, str):
        header = ast.literal_eval(header)
    if "payloads" in more:
        last = [bytes.fromhex(p) for p in more.pop("payloads")]
    elif "data" in more:
        last = bytes.fromhex(more.pop("data"))
    else:
        last = more.pop("data_path")
    return function(path, header, table_in(slides), table_in(index), last, overwrite=overwrite,
                    **more)


def read(path):
    header, slides, index = iac.read_tables(path)
    assert iac.read_header(path) == header
    reader = iac.PackReader(path)
    assert reader.header == header and reader.index_table.equals(index)
    out = {"header": header, "slides": table_out(slides), "index": table_out(index),
           "data": reader.read_data_span(0, header["data_length"]).hex()}
    if "offset" in index.column_names:
        rows = range(len(index))
        payloads = [reader.read_payload(row) for row in rows]
        assert [bytes(p) for p in reader.read_payloads(rows)] == payloads
        assert list(iac.iter_payloads(path)) == payloads
        out["payloads"] = [p.hex() for p in payloads]
    return out


def codec_named(name):
    return iac.get_codec(name) if hasattr(iac, "get_codec") else iac.Codec.create(name)


def variable(path, codec, objects, index):
    iac.VariableRecordPack.build(path, payload_type="test", slide_table=pa.table({"slide_id": ["s"]}),
                                 index_table=table_in(index), codec=codec_named(codec),
                                 objects=[bytes.fromhex(o) for o in objects], overwrite=True)


def records(path):
    pack = iac.VariableRecordPack(path)
    rows = list(range(pack.record_count))
    found = [pack.read(row) for row in rows]
    assert pack.read_many(rows) == found
    return {"header": pack.header, "records": [bytes(f).hex() for f in found]}


def fixed(path, matrix, dtype, index):
    iac.FixedRecordPack.build(path, payload_type="test", slide_table=pa.table({"slide_id": ["s"]}),
                              index_table=table_in(index), matrix=np.array(matrix, dtype),
                              overwrite=True)


def matrix(path):
    pack = iac.FixedRecordPack(path)
    rows = list(range(pack.record_count))
    return {"header": pack.header, "rows": [pack.read(row).tolist() for row in rows],
            "many": [row.tolist() for row in pack.read_many(rows)]}


def doc(fields):
    known = {f.name for f in dataclasses.fields(text_pair.ClinicalTextPairDoc)}
    return text_pair.ClinicalTextPairDoc(**{k: v for k, v in fields.items() if k in known})


def pairs(path, patients, **more):
    made = [text_pair.PatientTextPairs(p["patient_id"], p["institution"],
                                       [doc(d) for d in p["docs"]]) for p in patients]
    text_pair.build_clinical_text_pair_pack(path, made, **more)


def patients(path):
    reader = text_pair.ClinicalTextPairReader(path)
    return {"ids": reader.patient_ids, "count": reader.record_count,
            "rows": [dataclasses.asdict(reader.read_patient_at(i))
                     for i in range(reader.record_count)],
            "by_id": [dataclasses.asdict(reader.read_patient(i)) for i in reader.patient_ids]}


def texts(path, patients):
    text.build_clinical_text_pack(path, [
        text.PatientText(p["patient_id"], p["institution"], [text.ClinicalDoc(**d) for d in p["docs"]])
        for p in patients])


def read_texts(path):
    reader = text.ClinicalTextReader(path)
    return [dataclasses.asdict(reader.read_patient(name)) for name in reader.patient_ids]


def grid(kind, path, records, data, **more):
    made = [tiles.TileRecord(**{**r, "tile_path": pathlib.Path(r["tile_path"])}) for r in records]
    if kind == "tiles":
        tiles.build_tile_package_from_records(made, [bytes.fromhex(d) for d in data], path, **more)
    else:
        features.build_teacher_feature_package(made, [np.array(d) for d in data], path, **more)


def read_grid(path):
    kind = iac.read_header(path)["payload_type"]
    found = (tiles.read_package_manifest if kind == "image_tiles" else features.read_feature_package_records)(path)
    rows = []
    if kind != "image_tiles":
        reader = features.FeatureCacheReader(path)
        rows = [reader.read_feature(r.tile_id).tolist() for r in found]
    return [[{k: str(v) if k == "tile_path" else v for k, v in vars(r).items()} for r in found], rows]


def parameters(thing):
    """[name, kind, default] of each parameter, or None for what has no signature."""
    try:
        return [[p.name, p.kind.name, None if p.default is p.empty else repr(p.default)]
                for p in inspect.signature(thing).parameters.values()]
    except (TypeError, ValueError):
        return None


def members(thing):
    if not inspect.isclass(thing):
        return {}
    return {name: parameters(value) if callable(value) else None for name, value in vars(thing).items()
            if not name.startswith("_") and not isinstance(value, staticmethod)}


def names():
    """{module: {name: [parameters, {member: parameters}]}} of what the package itself defines."""
    out = {}
    for suffix in MODULES:
        try:
            module = importlib.import_module("iatro.iac" + suffix)
        except ImportError:
            continue
        out[suffix] = {
            name: [parameters(value) if callable(value) else None, members(value)]
            for name, value in vars(module).items() if not name.startswith("_") and
            not inspect.ismodule(value) and
            (suffix in ("", "._core", ".packs") or getattr(value, "__module__", module.__name__) == module.__name__)
            and name not in ("annotations", "np", "pa", "dataclass") and
            getattr(value, "__module__", "iatro.").startswith("iatro.") and type(value).__module__ != "__future__"}
    return out


def main():
    doings = {"build": build, "read": read, "pairs": pairs, "patients": patients,
              "variable": variable, "records": records, "fixed": fixed, "matrix": matrix,
              "texts": texts, "read_texts": read_texts, "grid": grid, "tiles": read_grid, "names": names}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"ok": doings[asked.pop("do")](**asked)}
        except Exception as error:
            answer = {"error": [c.__name__ for c in type(error).__mro__], "text": str(error)}
        print(json.dumps(answer), flush=True)


main()
