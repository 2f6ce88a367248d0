"""tarn.iac next to the real packages: both write, both read, and the bytes are the same."""
import dataclasses
import importlib
import inspect
import json
import os
import pathlib
import pickle
import subprocess
import tempfile
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tarn.iac
from tarn.iac import TileRecord
from tarn.iac.adapters import text, text_pair

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHONS = {"0.0.2": ROOT / ".venv-iac1/bin/python", "0.1.4": ROOT / ".venv-iac2/bin/python"}
SETTINGS = dict(max_examples=25, deadline=None, derandomize=True,
                suppress_health_check=list(HealthCheck))


class Refused(Exception):
    pass


class Package:
    """One of the real packages, in a separate process."""

    def __init__(self, version):
        self.version = version
        env = {k: v for k, v in os.environ.items()
               if k not in ("LD_PRELOAD", "PYTHONPATH", "ASAN_OPTIONS")}
        self.process = subprocess.Popen([PYTHONS[version], HERE / "iac_server.py"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def __call__(self, do, **more):
        self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            error = Refused(answer["text"])
            error.classes = answer["error"]
            raise error
        return answer["ok"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module", params=PYTHONS)
def real(request):
    if not PYTHONS[request.param].exists():
        pytest.skip(f"iatro-base-iac {request.param} is not installed")
    package = Package(request.param)
    yield package
    package.close()


def hexed(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes().hex()


def unhexed(text):
    return pa.ipc.open_stream(pa.py_buffer(bytes.fromhex(text))).read_all()


@pytest.fixture
def tmp_path():
    """In memory if possible, because these tests sync several hundred files."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield pathlib.Path(folder)


SLIDES = pa.table({"slide_idx": pa.array([0, 1], pa.uint8()), "slide_id": ["s0", "s1"],
                   "patient_id": ["p0", None]})

# --- Random tables and headers ---------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
COLUMNS = {
    "string": (pa.string(), TEXT),
    "large_string": (pa.large_string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=6)),
    "i8": (pa.int8(), st.integers(-128, 127)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "f64": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.integers(0, 10**15)),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(-9, 9), max_size=3)),
    "struct": (pa.struct([("a", pa.int16()), ("b", pa.string())]),
               st.fixed_dictionaries({"a": st.integers(-9, 9), "b": TEXT})),
    "offset": (pa.int64(), st.integers(-9, 9)),  # is replaced in place
    "crc32": (pa.string(), TEXT),
}


@st.composite
def tables(draw, rows):
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5, unique=True))
    arrays = []
    for name in names:
        kind, values = COLUMNS[name]
        column = draw(st.lists(values | st.none(), min_size=rows, max_size=rows))
        arrays.append(pa.array(column, kind))
    table = pa.table(arrays, names=names)
    if draw(st.booleans()):
        table = table.replace_schema_metadata({"who": "测试"})
    return table


def headers(numbers):
    values = st.recursive(st.none() | st.booleans() | TEXT | numbers,
                          lambda inner: st.lists(inner, max_size=3) |
                          st.dictionaries(TEXT, inner, max_size=3), max_leaves=6)
    names = TEXT | st.sampled_from(["version", "format", "num_records", "record_table_offset"])
    return st.builds(lambda free, codec: {**free, **codec}, st.dictionaries(names, values, max_size=4),
                     st.fixed_dictionaries({}, optional={"codec": TEXT, "payload_type": TEXT}))


# 0.1.4 reads floats with one digit less precision, and converts long integers to floats.
HEADERS = {
    "0.0.2": headers(st.integers(-2**70, 2**70) | st.floats(allow_nan=False, allow_infinity=False)),
    "0.1.4": headers(st.integers(-2**63, 2**63 - 1) | st.integers(-999, 999).map(lambda n: n / 8)),
}
PACKS = st.integers(0, 6).flatmap(lambda n: st.tuples(
    tables(n), st.lists(st.binary(max_size=40), min_size=n, max_size=n)))


@settings(**SETTINGS)
@given(data=st.data(), pack=PACKS, streaming=st.booleans())
def test_what_tarn_builds_the_package_reads_and_would_have_built(real, tmp_path, data, pack,
                                                                 streaming):
    index, payloads = pack
    header = data.draw(HEADERS[real.version])
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    how = "build_pack_streaming" if streaming else "build_pack"
    getattr(tarn.iac, how)(mine, header, SLIDES, index, iter(payloads) if streaming else payloads,
                           overwrite=True)
    found = real("read", path=str(mine))
    assert found["payloads"] == [p.hex() for p in payloads]
    got = unhexed(found["index"])
    got.validate(full=True)
    assert got["length"].to_pylist() == [len(p) for p in payloads]
    assert got["crc32"].to_pylist() == [zlib.crc32(p) for p in payloads]
    real("build", how=how, path=str(theirs), header=header, slides=hexed(SLIDES),
         index=hexed(index), payloads=[p.hex() for p in payloads], overwrite=True)
    assert real("read", path=str(theirs)) == found
    if real.version == "0.0.2":
        assert mine.read_bytes() == theirs.read_bytes()


@settings(**SETTINGS)
@given(data=st.data(), pack=PACKS)
def test_what_the_package_builds_tarn_reads(real, tmp_path, data, pack):
    index, payloads = pack
    header = data.draw(HEADERS[real.version])
    path = tmp_path / "theirs.iac"
    real("build", how="build_pack", path=str(path), header=header, slides=hexed(SLIDES),
         index=hexed(index), payloads=[p.hex() for p in payloads], overwrite=True)
    found = real("read", path=str(path))
    assert tarn.iac.read_header(path) == found["header"]
    told, slides, records = tarn.iac.read_tables(path)
    assert told == found["header"]
    for mine, theirs in ((slides, found["slides"]), (records, found["index"])):
        mine.validate(full=True)
        theirs = unhexed(theirs)
        assert mine.schema.equals(theirs.schema, check_metadata=True)
        assert mine.to_pydict() == theirs.to_pydict()
    with tarn.iac.open(path, check=True) as reader:
        rows = list(range(len(payloads)))
        assert [reader.read_payload(row) for row in rows] == payloads
        assert list(map(bytes, reader.read_payload_views(rows))) == payloads
        assert list(map(bytes, reader.batch(rows))) == payloads
        assert reader.read_payloads(rows[::-1]) == payloads[::-1]
    assert list(tarn.iac.iter_payloads(path)) == payloads
    for i, payload in enumerate(payloads):
        span = records["offset"][i].as_py(), records["length"][i].as_py()
        assert tarn.iac.read_payload(path, told, *span) == payload
    assert tarn.iac.verify(path).problems == 0


@settings(**SETTINGS)
@given(more=st.data(), index=st.integers(0, 5).flatmap(tables), data=st.binary(max_size=200))
def test_segments_are_the_same_both_ways(real, tmp_path, more, index, data):
    header = more.draw(HEADERS[real.version])
    # The packages interpret a column named offset as the positions of records.
    index = index.rename_columns([n.replace("offset", "at") for n in index.column_names])
    mine, filed, theirs = (tmp_path / n for n in ("mine.iac", "filed.iac", "theirs.iac"))
    raw = tmp_path / "raw"
    raw.write_bytes(data)
    tarn.iac.build_pack_data_segment(mine, header, SLIDES, index, data, overwrite=True)
    tarn.iac.build_pack_data_segment_from_file(filed, header, SLIDES, index, raw,
                                               data_length=len(data), overwrite=True)
    real("build", how="build_pack_data_segment", path=str(theirs), header=header,
         slides=hexed(SLIDES), index=hexed(index), data=data.hex(), overwrite=True)
    assert filed.read_bytes() == mine.read_bytes()
    assert real("read", path=str(mine)) == real("read", path=str(theirs))
    if real.version == "0.0.2":
        assert mine.read_bytes() == theirs.read_bytes()
    with tarn.iac.open(theirs) as reader:
        assert reader.read_data_span(0, len(data)) == data
        assert reader.read_data_spans([(0, len(data) // 2), (0, 0)]) == data[:len(data) // 2]


@pytest.mark.parametrize("columns", [{"a": pa.nulls(3)}, {"a": pa.nulls(3), "b": pa.nulls(3)},
                                     {"a": pa.nulls(3), "b": [1, 2, 3]}, {}],
                         ids=["one", "two", "mixed", "none"])
def test_columns_of_nulls_alone_are_the_same_bytes(real, tmp_path, columns):
    table = pa.table(columns)
    for slides, index in ((table, SLIDES), (SLIDES, table)):
        mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
        tarn.iac.build_pack_data_segment(mine, {}, slides, index, b"x", overwrite=True)
        real("build", how="build_pack_data_segment", path=str(theirs), header={},
             slides=hexed(slides), index=hexed(index), data="78", overwrite=True)
        assert mine.read_bytes() == theirs.read_bytes()


def test_keys_inside_fields_are_sorted_as_what_they_are(real, tmp_path):
    header = {"x": {10: {"b": 1, "a": 2}, 2: 1}, "w": [{True: 1, False: 2}], "f": {10.5: 1, 9.5: 2}}
    index = pa.table({"n": [1]})
    mine, theirs, again = (tmp_path / n for n in ("mine.iac", "theirs.iac", "again.iac"))
    tarn.iac.build_pack(mine, header, SLIDES, index, [b"x"])
    real("build", how="build_pack", path=str(theirs), header=repr(header), slides=hexed(SLIDES),
         index=hexed(index), payloads=["78"])
    tarn.iac.rewrite(theirs, again, encoded=True)
    assert again.read_bytes() == theirs.read_bytes()
    if real.version == "0.0.2":  # 0.1 sorts them as text
        assert mine.read_bytes() == theirs.read_bytes()


def test_fields_named_like_version_1s_are_the_callers(real, tmp_path):
    header = {"record_table_offset": 3, "record_table_length": [4]}
    index = pa.table({"n": [1]})
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    tarn.iac.build_pack(mine, header, SLIDES, index, [b"x"])
    real("build", how="build_pack", path=str(theirs), header=header, slides=hexed(SLIDES),
         index=hexed(index), payloads=["78"])
    assert mine.read_bytes() == theirs.read_bytes()
    assert tarn.iac.read_header(mine)["record_table_length"] == [4]


@pytest.mark.parametrize("how", ["build_pack", "build_pack_streaming", "build_pack_data_segment"])
def test_headers_are_written_up_to_the_last_byte_of_their_room(real, tmp_path, how):
    index, data = pa.table({"n": [1]}), b"x" * 1000
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    given = {"data": data.hex()} if how.endswith("segment") else {"payloads": [data.hex()]}

    def build(free):
        header = {"x": "y" * free}
        getattr(tarn.iac, how)(mine, header, SLIDES, index, data if "data" in given else [data],
                               overwrite=True)
        real("build", how=how, path=str(theirs), header=header, slides=hexed(SLIDES),
             index=hexed(index), overwrite=True, **given)
        return mine.read_bytes()

    used = int.from_bytes(build(0)[8:12], "little")
    room = 65536 - 16 - used
    for free in (room - 60, room):
        assert build(free) == theirs.read_bytes()
    before = mine.read_bytes()
    with pytest.raises(tarn.LimitError, match="the limit is 65520"):
        build(room + 1)
    assert mine.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["mine.iac", "theirs.iac"]


def test_tables_of_several_batches_are_read_in_the_same_way(real, tmp_path):
    whole = pa.table({"name": [f"n{i}" for i in range(10)], "x": range(10)})
    index = pa.concat_tables([whole.slice(0, 3), whole.slice(3, 7)])
    payloads = [bytes([i]) * i for i in range(10)]
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    tarn.iac.build_pack(mine, {}, SLIDES, index, payloads)
    real("build", how="build_pack", path=str(theirs), header={}, slides=hexed(SLIDES),
         index=hexed(index), payloads=[p.hex() for p in payloads])
    a, b = real("read", path=str(mine)), real("read", path=str(theirs))
    assert a["payloads"] == b["payloads"] == [p.hex() for p in payloads]
    assert unhexed(a["index"]).equals(unhexed(b["index"]))
    with tarn.iac.open(theirs) as reader:
        assert [bytes(v) for v in reader] == payloads
        assert reader.index_table["name"].to_pylist() == whole["name"].to_pylist()


@settings(**SETTINGS)
@given(objects=st.lists(st.binary(max_size=60), max_size=5), data=st.data())
def test_records_with_codecs_round_trip(real, tmp_path, objects, data):
    codec = data.draw(st.sampled_from(["none", "brotli", "zstd"][:2 if real.version == "0.0.2" else 3]))
    index = pa.table({"n": pa.array(range(len(objects)), pa.int64())})
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    tarn.iac.VariableRecordPack.build(mine, payload_type="test", slide_table={"slide_id": ["s"]},
                                      index_table=index, objects=objects, overwrite=True,
                                      codec=tarn.iac.Codec.create(codec),
                                      streaming=data.draw(st.booleans()))
    real("variable", path=str(theirs), codec=codec, objects=[o.hex() for o in objects],
         index=hexed(index))
    found, other = real("records", path=str(mine)), real("records", path=str(theirs))
    assert found["records"] == other["records"] == [o.hex() for o in objects]
    for key in ("codec", "codec_params", "payload_type"):
        assert found["header"].get(key) == other["header"].get(key)
    for path in (mine, theirs):
        with tarn.iac.VariableRecordPack(path) as pack:
            rows = range(len(objects))
            assert pack.record_count == len(objects) and pack.codec.name == codec
            assert [pack.read(i) for i in rows] == objects
            assert pack.read_many(rows, workers=3) == objects
            batch = pack.read_many_contiguous(rows)
            assert list(map(bytes, batch)) == objects and len(batch.buffer) == sum(map(len, objects))


@settings(**SETTINGS)
@given(values=st.integers(0, 4).flatmap(lambda n: st.lists(
           st.lists(st.integers(-99, 99), min_size=3, max_size=3), min_size=n, max_size=n)),
       dtype=st.sampled_from(["float16", "float32", "int8", "int64"]))
def test_rows_of_matrices_go_both_ways(real, tmp_path, values, dtype):
    matrix = np.array(values, dtype).reshape(len(values), 3)
    index = pa.table({"n": pa.array(range(len(values)), pa.int64())})
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    tarn.iac.FixedRecordPack.build(mine, payload_type="test", slide_table={"slide_id": ["s"]},
                                   index_table=index, matrix=matrix, overwrite=True)
    if values:
        real("fixed", path=str(theirs), matrix=matrix.tolist(), dtype=dtype, index=hexed(index))
    for path in (mine, theirs) if values else (mine,):
        found = real("matrix", path=str(path))
        assert found["rows"] == found["many"] == matrix.tolist()
        with tarn.iac.FixedRecordPack(path) as pack:
            rows = range(len(values))
            assert [pack.read(i).tolist() for i in rows] == matrix.tolist()
            assert [r.dtype.name for r in pack.read_many(rows)] == ["float32"] * len(values)
            got = pack.read_matrix(rows)
            assert got.dtype.name == dtype and got.tolist() == matrix.tolist()
            assert got.flags.writeable and pickle.loads(pickle.dumps(pack)).record_count == len(values)


@pytest.mark.parametrize("columns", [
    {"offset": [0.5, 1.5], "length": [1.0, 2.0]},
    {"offset": ["a", "b"], "length": [1, 2]},
    {"offset": pa.array([None, 1], pa.int64()), "length": [1, 2]},
    {"offset": [0, 8], "length": [8, 8], "crc32": [0.5, 1.5]},
], ids=["reals", "text", "nulls", "crc32"])
def test_columns_named_like_spans_do_not_hinder_other_reading(real, tmp_path, columns):
    index, path, rows = pa.table(columns), tmp_path / "theirs.iac", [[1, 2], [3, 4]]
    real("fixed", path=str(path), matrix=rows, dtype="float32", index=hexed(index))
    if real.version == "0.0.2":  # 0.1 refuses its own file
        found = real("matrix", path=str(path))
        assert tarn.iac.read_header(path) == found["header"] and found["rows"] == rows
    assert tarn.iac.read_tables(path)[2].to_pydict() == index.to_pydict()
    with tarn.iac.FixedRecordPack(path) as pack:
        assert [pack.read(i).tolist() for i in range(2)] == rows
        assert pack.read_matrix([1, 0]).tolist() == rows[::-1]
    reader = tarn.iac.open(path, check=True)
    with pytest.raises(tarn.FormatError, match="theirs.iac: .*does not hold integers, or has nulls"):
        reader.read_payload(1)


# --- Refused input -----------------------------------------------------------------------------


@pytest.mark.parametrize("what, path, more", [
    ("build", "there.iac", {}),
    ("build", "few.iac", {"payloads": ["00"]}),
    ("build", "many.iac", {"payloads": ["00"] * 3}),
    ("build", "large.iac", {"header": {"x": "y" * 70000}}),
    ("read", "nothing.iac", None),
    ("read", ".", None),
    ("read", "empty.iac", None),
    ("read", "short.iac", None),
    ("read", "magic.iac", None),
    ("read", "counts.iac", None),
    ("read", "json.iac", None),
])
def test_both_refuse_with_the_same_kind_of_exception(real, tmp_path, monkeypatch, what, path, more):
    monkeypatch.chdir(tmp_path)
    index = pa.table({"item_id": ["a", "b"]})
    tarn.iac.build_pack("there.iac", {}, SLIDES, index, [b"a", b"b"])
    good = pathlib.Path("there.iac").read_bytes()
    broken = {"empty.iac": b"", "short.iac": good[:-1], "magic.iac": b"x" + good[1:],
              "counts.iac": good.replace(b'"num_records": 2', b'"num_records": 3'),
              "json.iac": good[:16] + b"\0" + good[17:]}
    for name, data in broken.items():
        pathlib.Path(name).write_bytes(data)
    path = str(tmp_path / path)
    arguments = {"header": {}, "payloads": ["00", "01"], **(more or {})}
    with pytest.raises(Refused) as theirs:
        if what == "read":
            real("read", path=path)
        else:
            real("build", how="build_pack", path=path, slides=hexed(SLIDES), index=hexed(index),
                 **arguments)
    with pytest.raises(Exception) as mine:
        if what == "read":
            tarn.iac.read_tables(path)
        else:
            tarn.iac.build_pack(path, arguments["header"], SLIDES, index,
                                [bytes.fromhex(p) for p in arguments["payloads"]])
    for kind in (FileExistsError, FileNotFoundError, IsADirectoryError, ValueError, TypeError):
        assert isinstance(mine.value, kind) == (kind.__name__ in theirs.value.classes), kind


# --- Text pairs --------------------------------------------------------------------------------

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
DOCS = st.builds(text_pair.ClinicalTextPairDoc, doc_id=PLAIN, source_text=TEXT,
                 compressed_text=TEXT, doc_type=PLAIN, encounter=PLAIN, source=PLAIN,
                 doc_timestamp=PLAIN, episode_index=st.integers(-1, 9), old_doc_id=PLAIN)
PATIENTS = st.lists(st.builds(text_pair.PatientTextPairs, patient_id=PLAIN, institution=PLAIN,
                              docs=st.lists(DOCS, max_size=3)), min_size=1, max_size=4)
OLD = ("old_doc_id", "old_doc_type", "old_encounter", "old_source")


def told(patient, version):
    """Returns a patient as the package reads it: 0.1 does not support some fields."""
    out = dataclasses.asdict(patient)
    for doc in out["docs"]:
        for name in OLD if version != "0.0.2" else ():
            del doc[name]
    return out


@settings(**SETTINGS)
@given(patients=PATIENTS, quality=st.integers(0, 11))
def test_patients_go_both_ways(real, tmp_path, patients, quality):
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    style = "0.0.2" if real.version == "0.0.2" else "0.1"
    text_pair.build_clinical_text_pair_pack(mine, patients, quality=quality, overwrite=True,
                                            style=style)
    as_json = [dataclasses.asdict(p) for p in patients]
    real("pairs", path=str(theirs), patients=as_json, quality=quality, overwrite=True)
    expected = [told(p, real.version) for p in patients]
    found = real("patients", path=str(mine))
    assert found == real("patients", path=str(theirs))
    assert found["rows"] == expected
    for path in (mine, theirs):
        with text_pair.ClinicalTextPairReader(path) as reader:
            assert reader.patient_ids == found["ids"] and reader.record_count == len(patients)
            rows = [reader.read_patient_at(i) for i in range(len(patients))]
            assert [told(p, real.version) for p in rows] == expected
            assert [told(reader.read_patient(i), real.version)
                    for i in reader.patient_ids] == found["by_id"]
    if real.version == "0.0.2" and quality:
        a, b = tarn.iac.read_header(mine), tarn.iac.read_header(theirs)
        for layout in ("data_length",):  # the number of bytes depends on the version of Brotli
            del a[layout], b[layout]
        assert a == b


@pytest.mark.parametrize("more", [{"x": 1, "é": "ü𝄞\x7f\u2028\n\""}, {"n": {"文": [{"b": 1, "a": "é"}]}}])
def test_more_fields_of_patients_headers_are_the_same_bytes(real, tmp_path, more):
    mine, theirs = tmp_path / "mine.iac", tmp_path / "theirs.iac"
    docs = [text_pair.ClinicalTextPairDoc("d", "the source é", "c", doc_category="x")]
    patients = [text_pair.PatientTextPairs("p", "医", docs)]
    style = "0.0.2" if real.version == "0.0.2" else "0.1"
    text_pair.build_clinical_text_pair_pack(mine, patients, extra_header=more, style=style)
    real("pairs", path=str(theirs), patients=[dataclasses.asdict(p) for p in patients],
         extra_header=more)
    assert mine.read_bytes() == theirs.read_bytes()


# --- Adapters --------------------------------------------------------------------------------


STYLES = {"0.0.2": "0.0.2", "0.1.4": "0.1"}
TILES = [TileRecord(f"tile {i}", f"p{i % 2}", f"slide {i % 2}", pathlib.Path(f"a/{i}.png"),
                    x, y, "train" if i % 3 else "")
         for i, (x, y) in enumerate([(0, 0), (16, 8), (32, 0), (48, 24), (0, 40)])]


def as_json(records):
    return [{**vars(r), "tile_path": str(r.tile_path)} for r in records]


@pytest.mark.parametrize("more", [{}, {"stride_x": 8, "stride_y": 4, "lossless": True, "distance": 0.0},
                                  {"extra_header": {"created_by": "me", "stain": "H&E"}, "effort": None}])
def test_tiles_have_the_bytes_of_the_real_package(real, tmp_path, more):
    payloads = [bytes([i]) * i for i in range(len(TILES))]
    size = {"tile_width": 16, "tile_height": 8}
    real("grid", kind="tiles", path=str(tmp_path / "a"), records=as_json(TILES),
         data=[p.hex() for p in payloads], **size, **more)
    tarn.iac.build_tile_package_from_records(TILES, payloads, tmp_path / "b", **size, **more,
                                             style=STYLES[real.version])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = tarn.iac.read_package_manifest(tmp_path / "a")
    assert [as_json(found), []] == real("tiles", path=str(tmp_path / "b"))
    assert [r.x for r in found] == [t.x for t in TILES]


@pytest.mark.parametrize("more", [{}, {"dtype": "float16", "tile_width": 9, "stride_x": 4, "feature_dim": 3}])
def test_features_have_the_bytes_of_the_real_package(real, tmp_path, more):
    rows = np.random.default_rng(0).normal(size=(len(TILES), 3)).tolist()
    real("grid", kind="features", path=str(tmp_path / "a"), records=as_json(TILES), data=rows,
         teacher_name="model", **more)
    tarn.iac.build_teacher_feature_package(TILES, rows, tmp_path / "b", "model", **more,
                                           style=STYLES[real.version])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with tarn.iac.FeatureCacheReader(tmp_path / "a") as reader:
        ours = [reader.read_feature(tile.tile_id).tolist() for tile in TILES]
    records = as_json(tarn.iac.read_feature_package_records(tmp_path / "a"))
    assert [records, ours] == real("tiles", path=str(tmp_path / "b"))


def test_single_texts_have_the_bytes_of_the_real_package(real, tmp_path):
    times = ["20200110", "20200101", "", "20200102120000", "no time", "20200109"]
    docs = [text.ClinicalDoc(f"d{i}", f"病程 {i} 𝄞 " * i, "type", "", "category", "a\"b", time, i)
            for i, time in enumerate(times)]
    patients = [text.PatientText("p1", "inst", docs), text.PatientText("p2"),
                text.PatientText("p1", docs=docs[:1])]
    asked = [dataclasses.asdict(patient) for patient in patients]
    real("texts", path=str(tmp_path / "a"), patients=asked)
    text.build_clinical_text_pack(tmp_path / "b", patients, style=STYLES[real.version])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with text.ClinicalTextReader(tmp_path / "a") as reader:
        ours = [dataclasses.asdict(reader.read_patient(name)) for name in reader.patient_ids]
    assert ours == real("read_texts", path=str(tmp_path / "b"))


# --- Names -----------------------------------------------------------------------------------


# What has other parameters than in the real package, and why.
OTHER = {
    "ClinicalTextPairDoc": "0.1 has fewer fields and no default category; ours are those of 0.0.2",
    "ClinicalDoc": "0.1 has no default category; ours are those of 0.0.2",
    "Codec": "a Protocol in 0.0.2",
}
FIELDS = {"buffer", "offsets_buffer"}  # members of objects, not of their class


def iac_parameters(thing):
    try:
        return [[p.name, p.kind.name, None if p.default is p.empty else repr(p.default)]
                for p in inspect.signature(thing).parameters.values()]
    except (TypeError, ValueError):
        return None


def fits(theirs, ours):
    """Whether every call that suits the real signature suits ours, with the same defaults."""
    if theirs is None or ours is None:
        return True
    theirs, ours = ([p for p in s if p[0] != "self"] for s in (theirs, ours))
    named = {p[0]: p for p in ours}
    places = [[p[0] for p in s if p[1] == "POSITIONAL_OR_KEYWORD"] for s in (theirs, ours)]
    return (all(p[0] in named and p[2] == named[p[0]][2] for p in theirs) and
            places[1][:len(places[0])] == places[0] and
            all(p[2] is not None for p in ours if p[0] not in {t[0] for t in theirs}))


def test_every_public_name_is_there_with_a_signature_that_fits(real):
    wrong = []
    for suffix, names in real("names").items():
        module = importlib.import_module("tarn.iac" + suffix)
        for name, (theirs, members) in names.items():
            if not hasattr(module, name):
                wrong.append(f"tarn.iac{suffix} has no {name}")
                continue
            ours = getattr(module, name)
            if name not in OTHER and callable(ours) and not fits(theirs, iac_parameters(ours)):
                wrong.append(f"tarn.iac{suffix}.{name}: {iac_parameters(ours)}, not {theirs}")
            for member, one in members.items():
                if not hasattr(ours, member) and member not in FIELDS:
                    wrong.append(f"tarn.iac{suffix}.{name} has no {member}")
                elif one and hasattr(ours, member) and \
                        not fits(one, iac_parameters(getattr(ours, member))):
                    wrong.append(f"tarn.iac{suffix}.{name}.{member}: "
                                 f"{iac_parameters(getattr(ours, member))}, not {one}")
    assert not wrong, "\n".join(wrong)
