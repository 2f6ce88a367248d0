"""Array files and record packs do not leak: memory stays constant over many calls of every
function."""
import gc
import os
import sys

import numpy as np
import pyarrow as pa
import pytest

import tarn
import tarn.gnz
import tarn.iac
from tarn.iac.adapters import text_pair

SANITIZED = "TARN_SANITIZED" in os.environ
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * PAGE


def flat(call, rounds, slack=4 << 20):
    """Calls a function often enough to detect a leak of slack / rounds bytes per round."""
    for _ in range(rounds // 10 + 3):
        call()
    if SANITIZED:
        return  # it keeps freed memory and checks every access instead
    gc.collect()
    before, blocks = resident(), sys.getallocatedblocks()
    for _ in range(rounds):
        call()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < rounds / 20 + 200
    assert resident() - before < slack


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    path = tmp_path_factory.mktemp("leaks") / "p.iac"
    rows = 1000
    tarn.iac.build_pack(path, {"codec": "none"}, {"slide_id": ["s"]},
                        {"name": [f"n{i}" for i in range(rows)]}, [bytes(1000)] * rows)
    return path


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    path = tmp_path_factory.mktemp("leaks") / "a.gnz"
    tarn.gnz.save(path, ids=np.arange(1000), x=np.ones((1000, 8), "f4"))
    return path


def test_a_million_reads(pack):
    reader = tarn.iac.open(pack)
    rows = list(range(1000))

    def round_():
        for row in rows:
            reader.read_payload(row)

    flat(round_, 1000)


def test_views_batches_and_lookups(pack):
    reader = tarn.iac.open(pack)
    rows = np.arange(0, 1000, 7)

    def round_():
        reader.read_payload_views(rows)
        reader.read_payloads([1, 2, 3])
        reader.batch(rows)
        reader.view(5)
        reader.locate(5)
        reader.decode(5)
        reader.find("name", "n500")
        reader.info, reader.header

    flat(round_, 3000)


def test_tables(pack):
    reader = tarn.iac.open(pack)

    def round_():
        pa.table(reader.index)
        pa.record_batch(reader.index.batches()[0])
        reader.index.__arrow_c_stream__()
        reader.slides.__arrow_c_schema__()
        reader.slides["slide_id"]

    flat(round_, 1000)


def test_opening_pickling_and_errors(pack):
    def round_():
        with tarn.iac.open(pack) as reader:
            reader.slide_table
            for wrong in (lambda: reader.read_payload(10**6), lambda: reader.read_payload("x"),
                          lambda: reader.read_payloads([0, 10**6]),
                          lambda: reader.batch([10**6]), lambda: reader.find("name", "nobody"),
                          lambda: reader.read_data_span(0, 2**60),
                          lambda: tarn.iac.open(pack / "nothing")):
                try:
                    wrong()
                except (LookupError, TypeError, ValueError, OSError):
                    continue
                raise AssertionError("not refused")

    flat(round_, 600)


def test_building(tmp_path):
    index = pa.table({"name": [f"n{i}" for i in range(100)]})
    patients = [text_pair.PatientTextPairs("p", docs=[text_pair.ClinicalTextPairDoc("d", "s", "c")])]

    def round_():
        path = tmp_path / "b.iac"
        with tarn.iac.create(path, index, overwrite=True, sync=False) as out:
            for i in range(100):
                out.add(bytes(i))
        try:
            with tarn.iac.create(path, {"a": [1, 2]}, overwrite=True, sync=False) as out:
                out.add(b"one of two")
        except tarn.UsageError:
            pass
        out = tarn.iac.create(path, index, overwrite=True)
        del out  # abandoned

    flat(round_, 300)

    def pairs():
        text_pair.build_clinical_text_pair_pack(tmp_path / "t.iac", patients, overwrite=True,
                                                quality=1)
        with text_pair.ClinicalTextPairReader(tmp_path / "t.iac") as reader:
            reader.read_patient("p")

    flat(pairs, 60)


def test_arrays(arrays):
    f = tarn.gnz.open(arrays)

    def round_():
        f["x"][5], f.get_array("x")[1:3], f.array("ids", "c")[0], f.read("x", 3, 2)
        f.rows[3], f.stats("x"), f.info("x")
        try:
            f["nothing"]
        except KeyError:
            pass

    flat(round_, 2000)


def test_opening_and_writing_arrays(arrays, tmp_path):
    values = np.ones((100, 4))

    def round_():
        with tarn.gnz.open(arrays) as f:
            f.metadata, f["x"]
        with tarn.gnz.create(tmp_path / "w.gnz", overwrite=True, sync=False) as out:
            out.add("x", values, "f2")
            out.reserve("y", (100, 4), "f4")[:50] = values[:50]
        out = tarn.gnz.create(tmp_path / "w.gnz", overwrite=True)
        out.add("x", values)
        del out  # abandoned, with a buffer held
        try:
            tarn.gnz.open(__file__)
        except tarn.FormatError:
            pass

    flat(round_, 400)


def held(path):
    """Whether this process still has the file open or mapped."""
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
              if os.path.lexists(f"/proc/self/fd/{fd}")]
    with open("/proc/self/maps") as f:
        return str(path) in opened or str(path) in f.read()


def tried(*calls):
    for call in calls:
        try:
            call()
        except (LookupError, TypeError, ValueError, OSError):
            pass


def test_the_file_of_a_pack_is_let_go(pack):
    reader = tarn.iac.open(pack)
    reads = [reader.read_payload, reader.view, reader.decode, reader.locate,
             lambda row: reader.read_payloads([row]), lambda row: reader.read_payload_views([row]),
             lambda row: reader.batch([row]), lambda row: text_pair._tarn.textpair_read(reader, row),
             lambda row: reader.read_data_span(row, row), lambda row: reader.find("name", row),
             lambda row: reader.find(str(row), row)]
    for read in reads:
        tried(lambda: read(5), lambda: read(10**6), lambda: read(-10**6), lambda: read("x"))
    tried(lambda: pa.table(reader.index), lambda: reader.index["nothing"],
          lambda: reader.index.batches(), lambda: reader.index._table._batch(7),
          lambda: reader.slides.to_pydict(), lambda: reader.info, lambda: reader.header)
    view = reader.view(5)
    assert held(pack)
    del reader, reads, read
    assert held(pack) and bytes(view) == bytes(1000)
    del view
    gc.collect()
    assert not held(pack)


def test_the_file_of_arrays_is_let_go(arrays):
    f = tarn.gnz.open(arrays)
    for mode in ("r", "r+", "c", "w"):
        tried(lambda: f.get_array("x", mode), lambda: f["x"], lambda: f.array("ids", mode),
              lambda: f.rows[5], lambda: f.rows[5000], lambda: f.stats("x"), lambda: f.read("x"),
              lambda: f.samples(["nothing"]), lambda: f.read("x", 5000, 2))
    array = f["x"][3]
    assert held(arrays)
    del f
    assert held(arrays) and array.sum() == 8
    del array
    gc.collect()
    assert not held(arrays)


def test_buffers_are_given_back(tmp_path):
    values = np.ones((100, 4))
    before = sys.getrefcount(values)
    with tarn.gnz.create(tmp_path / "w.gnz") as out:
        out.add("x", values)
        out.begin()
        assert sys.getrefcount(values) == before
    payload = b"x" * 100
    before = sys.getrefcount(payload)
    tarn.iac.build_pack(tmp_path / "w.iac", {}, {"s": ["s"]}, {"n": [1]}, [payload])
    assert sys.getrefcount(payload) == before
