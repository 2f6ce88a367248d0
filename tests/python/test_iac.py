"""tarn.iac: record packs as bytes, views, batches and Arrow tables."""
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from tool import tool

import tarn
import tarn.iac
from tarn import _tarn
from tarn.iac import _core
from tarn.iac.adapters import text_pair

SLIDES = {"slide_id": ["s0"], "patient_id": ["p0"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pack(folder):
    """100 records: row i is i bytes of value i; columns name (n0...) and group (i % 7)."""
    index = pa.table({"name": [f"n{i}" for i in range(100)],
                      "group": pa.array([i % 7 for i in range(100)], pa.uint8())})
    tarn.iac.build_pack("p.iac", {"codec": "none", "payload_type": "test", "mine": [1.5, None]},
                        SLIDES, index, [bytes([i]) * i for i in range(100)])
    return folder / "p.iac"


# --- Payloads --------------------------------------------------------------------------------


def test_payloads_as_bytes_views_and_batches(pack):
    with tarn.iac.open(pack) as reader:
        assert len(reader) == 100
        assert reader.read_payload(7) == reader[7] == reader[-93] == bytes([7]) * 7
        assert reader.read_payload(np.int64(3)) == b"\3\3\3"
        assert type(reader.read_payload(5)) is bytes
        view = reader.view(9)
        assert isinstance(view, memoryview) and view.readonly and bytes(view) == bytes([9]) * 9
        rows = [5, 0, -1, 5]
        expected = [bytes([5]) * 5, b"", bytes([99]) * 99, bytes([5]) * 5]
        for given in (rows, iter(rows), np.array(rows), np.array(rows, "i1"), tuple(rows)):
            assert reader.read_payloads(given) == expected
            if given is not None and not hasattr(given, "__next__"):
                assert list(map(bytes, reader.read_payload_views(given))) == expected
                assert list(map(bytes, reader.batch(given))) == expected
        assert reader.read_payloads([]) == [] and len(reader.batch([])) == 0
        assert reader[2:5] == [b"\2\2", b"\3\3\3", b"\4\4\4\4"]
        assert sum(map(len, reader)) == 4950
        assert reader.locate(3)[:2] == (3, 3)


def test_arguments_have_the_originals_names(pack):
    reader = tarn.iac.PackReader(package_path=pack)
    assert reader.read_payload(row=2) == bytes(reader.view(row=2)) == reader.decode(row=2)
    assert reader.read_payloads(rows=[2]) == [bytes(v) for v in reader.read_payload_views(rows=[2])]
    assert reader.read_data_span(offset=0, length=1) == b"\1"
    for wrong in ({}, {"number": 2}, {"row": 2, "x": 1}):
        with pytest.raises(TypeError):
            reader.read_payload(**wrong)
    with pytest.raises(TypeError):
        reader.read_payload(1, row=1)


def test_batches_have_the_ways_of_the_contiguous_record_batch(pack):
    batch = tarn.iac.open(pack).batch([3, 0, 2])
    assert batch.offsets == (0, 3, 3, 5) and batch.lengths == (3, 0, 2)
    assert batch.record_count == len(batch) == 3
    assert bytes(batch.buffer) == b"\3\3\3\2\2" and batch.buffer.readonly
    assert np.frombuffer(batch.offsets_buffer, "u8").tolist() == [0, 3, 3, 5]
    assert bytes(batch.view(-1)) == b"\2\2" and bytes(batch[0]) == b"\3\3\3"
    with pytest.raises(IndexError):
        batch[3]


def test_rows_out_of_range_are_index_errors(pack):
    reader = tarn.iac.open(pack)
    for row in (100, -101, 2**70, -2**70):
        for read in (reader.read_payload, reader.view, reader.decode, reader.locate):
            with pytest.raises(IndexError):
                read(row)
    for rows in ([0, 100], np.array([-101]), [2**70]):
        for read in (reader.read_payloads, reader.read_payload_views, reader.batch):
            with pytest.raises((IndexError, OverflowError)):
                read(rows)
    with pytest.raises(TypeError):
        reader.read_payload("a")
    with pytest.raises(TypeError):
        reader.read_payloads(5)


def test_spans(pack):
    reader = tarn.iac.open(pack)
    assert reader.read_data_span(0, 3) == b"\1\2\2"
    assert reader.read_data_spans([(0, 1), (3, 3)]) == b"\1\3\3\3"
    for span in ((-1, 1), (0, -1), (0, 4951), (4950, 1), (2**62, 2**62), (2**64, 1)):
        with pytest.raises(ValueError):
            reader.read_data_span(*span)
    header = reader.header
    assert tarn.iac.read_payload(pack, header, 3, 3) == b"\3\3\3"
    with pytest.raises(ValueError, match="payload span outside data segment"):
        tarn.iac.read_payload(pack, header, 0, 4951)
    with pytest.raises(ValueError, match="short payload read"):
        tarn.iac.read_payload(pack, {**header, "data_length": 2**40}, 0, 2**39)


def test_readers_open_late_and_again_after_close(folder, pack):
    reader = tarn.iac.PackReader("late.iac")
    assert not reader.opened and "not open" in repr(reader)
    with pytest.raises(FileNotFoundError):
        reader.header
    with pytest.raises(FileNotFoundError):
        tarn.iac.open("late.iac")
    os.rename(pack, "late.iac")
    assert reader.read_payload(2) == b"\2\2" and reader.opened
    view, table, batch = reader.view(3), reader.index, reader.batch([1])
    header = reader.header
    assert reader.header is header and reader.index_table is reader.record_table
    reader.close()
    reader.close()
    assert not reader.opened
    assert bytes(view) == b"\3\3\3" and table.num_rows == 100 and bytes(batch[0]) == b"\1"
    assert reader.read_payload(1) == b"\1"
    assert reader.package_path == pathlib.Path("late.iac")


def test_views_keep_the_file(pack):
    reader = tarn.iac.open(pack)
    views = reader.read_payload_views(range(100))
    os.unlink(pack)
    del reader
    assert [bytes(v) for v in views] == [bytes([i]) * i for i in range(100)]


def test_crcs_are_compared_when_asked(pack):
    data = bytearray(pack.read_bytes())
    at = tarn.iac.read_header(pack)["data_offset"]
    data[at + 3] ^= 1
    pack.write_bytes(data)
    assert tarn.iac.open(pack).read_payload(3) != b"\3\3\3"
    checked = tarn.iac.open(pack, check=True)
    assert checked.read_payload(4) == b"\4" * 4
    for read in (checked.read_payload, checked.view, lambda i: checked.read_payloads([i]),
                 lambda i: checked.batch([i])):
        with pytest.raises(tarn.ChecksumError) as caught:
            read(3)
        assert caught.value.offset == at + 3 and isinstance(caught.value, ValueError)
    report = tarn.iac.verify(pack)
    assert (report.records, report.problems) == (100, 1) and "record 3" in report.texts[0]


def short_view(data, padding=b""):
    return len(data).to_bytes(4, "little") + (data + padding).ljust(12, b"\0")


def long_view(data, offset, prefix=None):
    return (len(data).to_bytes(4, "little") + (prefix or data[:4]) + bytes(4) +
            offset.to_bytes(4, "little"))


LONG, ACCENT = b"thirteen byte", "a text with \u00e9".encode()


@pytest.mark.parametrize(("kind", "buffers", "good"), [
    (pa.string(), [b"\0\0\0\0\2\0\0\0\4\0\0\0", "\u00e9\u00e9".encode()], True),
    (pa.string(), [b"\0\0\0\0\1\0\0\0\4\0\0\0", "\u00e9\u00e9".encode()], False),
    (pa.string(), [b"\0\0\0\0\2\0\0\0\4\0\0\0", b"ab\xff\xfe"], False),
    (pa.binary(), [b"\0\0\0\0\2\0\0\0\4\0\0\0", b"ab\xff\xfe"], True),
    (pa.string_view(), [short_view(b"abc") + long_view(LONG, 1), b"-" + LONG], True),
    (pa.string_view(), [short_view(b"abc", b"x") + short_view(b"")], False),
    (pa.string_view(), [short_view(b"ab\xff") + short_view(b"")], False),
    (pa.string_view(), [short_view(b"") + long_view(LONG, 0, b"thix"), LONG], False),
    (pa.string_view(), [short_view(b"") + long_view(ACCENT, 0), ACCENT + b"."], True),
    (pa.string_view(), [short_view(b"") + long_view(ACCENT[:-1], 0), ACCENT], False),
    (pa.string_view(), [short_view(b"") + long_view(ACCENT[-1:] + LONG, 13), ACCENT + LONG], False),
    (pa.string_view(), [short_view(b"") + long_view(LONG, 1), b"\xff" + LONG], True),
    (pa.string_view(), [short_view(b"") + long_view(b"\xff" + LONG, 0), b"\xff" + LONG], False),
    (pa.binary_view(), [short_view(b"\xff") + long_view(LONG, 1), b"\xff" + LONG], True),
])
def test_verify_refuses_the_tables_that_arrow_refuses(folder, kind, buffers, good):
    column = pa.Array.from_buffers(kind, 2, [None, *map(pa.py_buffer, buffers)])
    table = pa.table({"x": column, "nested": pa.StructArray.from_arrays([column], ["x"])})
    if good:
        table.validate(full=True)
    else:
        with pytest.raises(pa.ArrowInvalid):
            table.validate(full=True)
    tarn.iac.build_pack("v.iac", {"codec": "none", "payload_type": "test"}, SLIDES, table, [b"1", b"2"])
    assert tarn.iac.verify("v.iac").problems == (0 if good else 1)


def test_without_a_map_the_bytes_are_the_same(pack):
    mapped, read = tarn.iac.open(pack), tarn.iac.open(pack, mapped=False)
    assert mapped.mmap_enabled and not read.mmap_enabled
    assert read[:] == mapped[:] and [bytes(v) for v in read.read_payload_views([3])] == [b"\3" * 3]
    assert read.index.to_pydict() == mapped.index.to_pydict()


def test_header_and_info(pack):
    reader = tarn.iac.open(pack)
    assert reader.header["mine"] == [1.5, None] and reader.header["num_records"] == 100
    assert tarn.iac.read_header(pack) == reader.header
    info = reader.info
    assert (info["version"], info["records"], info["slides"], info["codec"], info["payload_type"],
            info["has_checksums"]) == (2, 100, 1, "none", "test", True)
    assert tarn.iac.is_pack(pack) and not tarn.iac.is_pack(pack.parent)
    assert (tarn.iac.HEADER_BYTES, tarn.iac.FORMAT_VERSION, tarn.iac.MAGIC) == (
        65536, 2, b"IATROC\0\2")


def test_lookups(pack):
    reader = tarn.iac.open(pack)
    assert reader.find("name", "n42") == 42
    assert reader.find("group", 3) == 3 and reader.find("group", 3, 4) == 10
    for column, value in (("name", "n100"), ("nothing", "x")):
        with pytest.raises(KeyError):
            reader.find(column, value)


# --- Tables ----------------------------------------------------------------------------------


def test_tables_go_to_every_arrow_library(pack):
    reader = tarn.iac.open(pack)
    expected = reader.index_table.to_pydict()
    assert isinstance(reader.index_table, pa.Table) and isinstance(reader.slide_table, pa.Table)
    assert pa.table(reader.index).to_pydict() == expected
    assert pa.schema(reader.index) == reader.index_table.schema
    [batch] = reader.index.batches()
    assert pa.record_batch(batch).to_pydict() == expected
    assert pa.RecordBatchReader.from_stream(reader.index).read_all().to_pydict() == expected
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(reader.index).to_dict(as_series=False) == expected
    pandas = pytest.importorskip("pandas")
    assert pandas.DataFrame.from_arrow(reader.index).to_dict("list") == expected
    duckdb = pytest.importorskip("duckdb")
    records = reader.index  # noqa: F841 (found by its name)
    assert duckdb.sql("select sum(length), count(*) from records").fetchall() == [(4950, 100)]


def test_tables_outlive_everything_and_are_not_copied(pack):
    reader = tarn.iac.open(pack)
    before = pa.total_allocated_bytes()
    table = reader.index_table
    assert pa.total_allocated_bytes() == before
    reader.close()
    os.unlink(pack)
    del reader
    table.validate(full=True)
    assert table["name"].to_pylist()[99] == "n99"


def test_tables_are_read_without_an_arrow_library(pack):
    table = tarn.iac.open(pack).index
    assert table.column_names == ["name", "group", "offset", "length", "crc32"]
    assert table.types["group"] == "uint8" and len(table) == table.num_rows == 100
    assert table["group"][:3] == [0, 1, 2] and table.to_pydict()["name"][5] == "n5"
    assert "100 rows" in repr(table)
    with pytest.raises(KeyError, match="available: name, group"):
        table["nothing"]


def test_capsules_are_used_once(pack):
    table = tarn.iac.open(pack).index
    capsule = table.__arrow_c_stream__()
    options = (2, "none", 0, True, True, True)
    slides = _tarn.iac_rows(["text:slide_id"], ())
    writer = _tarn.iac_write("again.iac", None, slides, capsule, options)
    with pytest.raises(ValueError, match="already consumed"):
        _tarn.iac_write("again.iac", None, table, capsule, options)
    writer.abandon()
    del capsule
    assert os.listdir() == ["p.iac"]


def test_rows_of_batches_with_dictionaries_of_their_own_are_reordered(folder):
    """Each dictionary is stored once; eight of them would not fit into 8-bit indices."""
    count, rows = 8, 50
    chunks = [pa.DictionaryArray.from_arrays(pa.array([i % 5 for i in range(rows)], pa.int8()),
                                             [f"batch {b} value {i}" for i in range(5)])
              for b in range(count)]
    index = pa.table({"name": pa.chunked_array(chunks)})
    tarn.iac.build_pack("p.iac", {}, SLIDES, index, [b"%d" % i for i in range(count * rows)])
    tool("convert", "p.iac", "shuffled.iac", "-q", "--order", "shuffle", "--seed", 3)
    want = index["name"].to_pylist()
    with tarn.iac.open("shuffled.iac") as reader:
        order = [int(bytes(reader[i])) for i in range(count * rows)]
        assert sorted(order) == list(range(count * rows)) != order
        assert pa.table(reader.index)["name"].to_pylist() == [want[i] for i in order]


def test_tables_come_from_every_arrow_library(folder):
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    whole = pa.table({"name": ["a", "b"]})
    streams = [whole, whole.to_batches()[0], whole.to_reader(), polars.DataFrame(whole),
               pandas.DataFrame({"name": ["a", "b"]}), {"name": ["a", "b"]}]
    for i, index in enumerate(streams):
        tarn.iac.build_pack(f"{i}.iac", {}, SLIDES, index, [b"x", b"yy"])
        with tarn.iac.open(f"{i}.iac") as reader:
            assert reader.index["name"] == ["a", "b"] and reader[1] == b"yy"
        tarn.iac.build_pack(f"again{i}.iac", {}, reader.slides, reader.index, [b"x", b"yy"])
        assert pathlib.Path(f"again{i}.iac").read_bytes() == pathlib.Path(f"{i}.iac").read_bytes()
    for bad in (5, "table", [1], {"name": [1.5]}, {"name": ["a", 1]}):
        with pytest.raises(TypeError):
            tarn.iac.build_pack("bad.iac", {}, SLIDES, bad, [])
    with pytest.raises(ValueError, match="different lengths"):
        tarn.iac.build_pack("bad.iac", {}, SLIDES, {"a": [1], "b": []}, [])
    assert not os.path.exists("bad.iac")


def test_a_pack_stays_in_its_folder_when_the_payloads_leave_it(folder, monkeypatch):
    def payloads():
        yield b"one"
        monkeypatch.chdir(folder / "there")
        yield b"two"

    (folder / "there").mkdir()
    tarn.iac.build_pack_streaming("x.iac", {}, {"slide_id": ["s"]}, {"name": ["a", "b"]}, payloads())
    assert os.listdir() == [] and list(tarn.iac.iter_payloads(folder / "x.iac")) == [b"one", b"two"]



def failing_batches(table):
    yield table.to_batches()[0]
    raise RuntimeError("the producer broke")


def test_broken_and_invalid_tables_are_refused(folder):
    whole = pa.table({"name": ["a", "b"]})
    used = whole.to_reader()
    used.read_all()
    tarn.iac.build_pack("none.iac", {}, SLIDES, used, [])  # a reader can be read only once

    def broken():
        return pa.RecordBatchReader.from_batches(whole.schema, failing_batches(whole))

    for bad in (broken, lambda: pa.array([1, 2]), lambda: pa.chunked_array([[1], [2]])):
        for tables in ((SLIDES, bad()), (bad(), whole)):
            with pytest.raises(tarn.UsageError, match="table"):
                tarn.iac.build_pack("bad.iac", {}, *tables, [b"x", b"y"])
    with pytest.raises(tarn.UsageError, match="the producer broke"):
        tarn.iac.build_pack("bad.iac", {}, SLIDES, broken(), [b"x", b"y"])
    assert os.listdir() == ["none.iac"]


def test_tables_made_as_they_are_read(folder):
    """A producer that needs the GIL is called without holding it."""
    whole = pa.table({"name": [f"n{i}" for i in range(10)]})
    lazy = pa.RecordBatchReader.from_batches(whole.schema,
                                             (b for b in whole.to_batches(max_chunksize=3)))
    tarn.iac.build_pack("lazy.iac", {}, SLIDES, lazy, [bytes(i) for i in range(10)])
    with tarn.iac.open("lazy.iac") as reader:
        assert reader.index.batch_rows == [3, 3, 3, 1] and len(reader.index.batches()) == 4
        assert pa.record_batch(reader.index.batches()[3])["name"].to_pylist() == ["n9"]
        assert reader.index["name"] == whole["name"].to_pylist()
    duckdb = pytest.importorskip("duckdb")
    query = duckdb.sql("select 'n' || i as name, i from range(5) t(i)")
    tarn.iac.build_pack("query.iac", {}, SLIDES, query, [b""] * 5)
    assert tarn.iac.open("query.iac").index["i"] == [0, 1, 2, 3, 4]


def test_values_of_types_that_json_does_not_know(folder):
    import datetime
    import decimal
    index = pa.table({"binary": [b"\0\xff", None], "list": [[1, None], []],
                      "struct": [{"a": 1}, None], "date": [datetime.date(1970, 1, 3)] * 2,
                      "decimal": [decimal.Decimal("1.50"), None], "f": [float("inf"), None],
                      "text": ["q\"\n", "中"]})
    tarn.iac.build_pack("t.iac", {}, SLIDES, index, [b"", b""])
    table = tarn.iac.open("t.iac").index
    assert table["binary"] == ["00ff", None] and table["list"] == [[1, None], []]
    assert table["struct"] == [{"a": 1}, None] and table["date"] == [2, 2]
    assert table["f"] == [float("inf"), None] and table["text"] == ["q\"\n", "中"]
    assert table.to_pyarrow()["decimal"].to_pylist() == [decimal.Decimal("1.50"), None]
    assert table["decimal"] == ["96" + "00" * 15, None]


# --- Writing ---------------------------------------------------------------------------------


def test_an_index_with_a_duplicate_layout_column_is_refused(folder):
    """It could be written, but not opened."""
    index = pa.table([pa.array([7]), pa.array([8]), pa.array(["a"])], ["offset", "offset", "name"])
    with pytest.raises(tarn.Error, match="two columns named offset"):
        tarn.iac.build_pack("t.iac", {}, SLIDES, index, [b"x"])
    assert not os.path.exists("t.iac")
    tarn.iac.build_pack("t.iac", {}, SLIDES, pa.table({"name": ["a"]}), [b"x"])
    assert tarn.iac.open("t.iac").index["offset"] == [0]


def broken_payloads():
    yield b"x"
    raise RuntimeError("no more")


def test_nothing_is_left_after_an_exception(pack):
    before = pack.read_bytes()
    index = {"name": ["a", "b"]}
    with pytest.raises(RuntimeError):
        tarn.iac.build_pack_streaming("p.iac", {}, SLIDES, index, broken_payloads(),
                                      overwrite=True)
    with pytest.raises(ValueError):
        tarn.iac.build_pack_streaming("p.iac", {}, SLIDES, index, [b"x"] * 3, overwrite=True)
    with pytest.raises(TypeError):
        tarn.iac.build_pack("p.iac", {}, SLIDES, index, [b"x", "y"], overwrite=True)
    with pytest.raises(FileExistsError):
        tarn.iac.build_pack("p.iac", {}, SLIDES, index, [b"x", b"y"])
    with pytest.raises(ValueError):
        with tarn.iac.create("p.iac", index, overwrite=True) as out:
            out.add(b"one of two")
    with pytest.raises(RuntimeError):
        with tarn.iac.create("new.iac", index) as out:
            out.add(b"x")
            assert not os.path.exists("new.iac")
            raise RuntimeError
    with pytest.raises(FileNotFoundError):
        tarn.iac.build_pack_data_segment_from_file("s.iac", {}, SLIDES, index, "nothing",
                                                   data_length=1)
    pathlib.Path("raw").write_bytes(b"abc")
    with pytest.raises(ValueError):
        tarn.iac.build_pack_data_segment_from_file("s.iac", {}, SLIDES, index, "raw",
                                                   data_length=4)
    assert sorted(os.listdir()) == ["p.iac", "raw"] and pack.read_bytes() == before


UNFINISHED = """
import tarn.gnz, tarn.iac
out = tarn.iac.create("u.iac", {"a": [1, 2]})
out.add(b"x" * 100000)
arrays = tarn.gnz.create("u.gnz")
place = arrays.reserve("x", (1000,), "<f8")
arrays.begin()
"""


def test_writers_that_are_alive_at_the_end_of_the_process_leave_nothing(folder):
    subprocess.run([sys.executable, "-c", UNFINISHED], check=True)
    assert os.listdir() == []


def test_folders_are_made_and_other_names_taken(folder):
    tarn.iac.build_pack(filepath="a/b/c.iac", header={"k": 1}, slide_table=SLIDES,
                        index_table={"n": [1]}, payloads=(p for p in [b"x"]))
    assert tarn.iac.read_header("a/b/c.iac")["k"] == 1
    with pytest.raises(TypeError, match="both"):
        tarn.iac.build_pack(filepath="a", output_path="b", header={}, slide_table=SLIDES,
                            index_table={}, payloads=[])
    with pytest.raises(TypeError):
        tarn.iac.build_pack("a.iac", {}, SLIDES)


def test_codecs_and_versions(folder):
    payloads = [b"some text " * i for i in range(20)]
    index = {"n": list(range(20))}
    for codec in ("none", "brotli", "zstd", "gzip"):
        with tarn.iac.create(f"{codec}.iac", index, codec=codec, version=2) as out:
            for payload in payloads:
                out.add(payload)
        reader = tarn.iac.open(f"{codec}.iac", check=True)
        assert [reader.decode(i) for i in range(20)] == payloads
        assert (reader.read_payload(19) == payloads[19]) == (codec == "none")
    with tarn.iac.create("one.iac", index, version=1, header={"mine": 5}) as out:
        for payload in payloads:
            out.add(memoryview(payload))
    assert tarn.iac.open("one.iac").info["version"] == 1
    assert "record_table_offset" in tarn.iac.read_header("one.iac")
    tarn.iac.upgrade("one.iac", "two.iac")
    tarn.iac.upgrade("one.iac")
    assert pathlib.Path("one.iac").read_bytes() == pathlib.Path("two.iac").read_bytes()
    assert tarn.iac.open("one.iac")[:] == payloads
    tarn.iac.rewrite("two.iac", "three.iac", codec="zstd", level=3)
    three = tarn.iac.open("three.iac")
    assert three.decode(7) == payloads[7] and three.info["codec"] == "zstd"
    assert three.header["mine"] == 5
    with pytest.raises(ValueError):
        tarn.iac.create("bad.iac", index, version=3)
    with pytest.raises(ValueError):
        tarn.iac.create("bad.iac", index, codec="jpeg")


def test_fixed_records_have_no_spans(folder):
    matrix = np.arange(12, dtype="<f4").reshape(3, 4)
    tarn.iac.build_pack_data_segment("f.iac", {"feature_record_bytes": 16}, SLIDES,
                                     {"tile": ["a", "b", "c"]}, matrix)
    reader = tarn.iac.open("f.iac")
    assert np.frombuffer(reader.view(1), "<f4").tolist() == [4, 5, 6, 7]
    assert np.frombuffer(reader.batch([2, 0]).buffer, "<f4").tolist() == [8, 9, 10, 11, 0, 1, 2, 3]
    tarn.iac.build_pack_data_segment("g.iac", {}, SLIDES, {"tile": ["a"]}, b"data")
    with pytest.raises(ValueError, match="spans"):
        tarn.iac.open("g.iac").read_payload(0)


class Reversed:
    name = "reversed"

    def encode(self, obj):
        return obj.encode()[::-1]

    def decode(self, payload):
        return payload[::-1].decode()


def test_rows_of_a_matrix_are_found_by_their_size_alone(folder):
    numpy = pytest.importorskip("numpy")
    pyarrow = pytest.importorskip("pyarrow")
    values = numpy.arange(6, dtype="f4").reshape(3, 2)
    spans = pyarrow.table({"offset": pyarrow.array([4, 0, 4], pyarrow.uint64()),
                           "length": pyarrow.array([4, 4, 4], pyarrow.uint32())})
    for index, matrix in (({"n": [1, 2, 3]}, values), (spans, values),
                          ({"n": [1, 2, 3]}, values.astype(">f4")), (spans, values[:, :0])):
        tarn.iac.FixedRecordPack.build("m.iac", payload_type="x", slide_table={"slide_id": ["s"]},
                                       index_table=index, matrix=matrix, overwrite=True)
        with tarn.iac.FixedRecordPack("m.iac") as pack:
            for row in (0, 1, 2, numpy.int64(1)):
                assert pack.read(row).tolist() == matrix[row].tolist()
            assert pack.read_matrix([2, 0]).tolist() == matrix[[2, 0]].tolist()
            for workers in (None, 0, -1, 2, "x"):
                assert [row.tolist() for row in pack.read_many([1], workers)] == [matrix[1].tolist()]
            assert pack.read_matrix([]).shape == (0, matrix.shape[1])
            for row in (3, -4, 2**70):
                with pytest.raises(ValueError):
                    pack.read(row)
                with pytest.raises(ValueError):
                    pack.read_matrix([0, row])
            with pytest.raises(TypeError):
                pack.read(1.0)


def test_codecs_of_ones_own(folder):
    Codec, Variable = tarn.iac.Codec, tarn.iac.VariableRecordPack
    about = dict(payload_type="t", slide_table=SLIDES, index_table={"n": [1, 2]})
    Variable.build("r.iac", **about, objects=["one", "two"], codec=Reversed())
    with Variable("r.iac") as pack:
        with pytest.raises(ValueError, match="unknown codec: 'reversed'"):
            pack.read(0)
        Codec.register("reversed", lambda params: Reversed())
        assert pack.read_many([1, 0]) == ["two", "one"] and pack.read_bytes(0) == b"eno"
        with pytest.raises(TypeError):
            pack.read_many_contiguous([0])
        for workers, kind in ((0, ValueError), (True, TypeError), ("x", TypeError)):
            with pytest.raises(kind):
                pack.read_many_contiguous([0], workers=workers)
        for workers in (None, 1, 2):
            assert pack.read_many([0], workers) == ["one"]
        with pytest.raises(TypeError):
            pack.read_many([0], "x")
    with pytest.raises(ValueError):
        Codec.register("reversed", lambda params: Reversed())
    with pytest.raises(ValueError):
        Codec.register("zstd", lambda params: Reversed())
    Codec.register("no codec", lambda params: 5)
    with pytest.raises(TypeError, match="'no codec' returned int"):
        Codec.create("no codec")
    Codec.register("another", lambda params: Reversed())
    with pytest.raises(ValueError, match="named 'reversed'"):
        Codec.create("another")
    Variable.build_from_payloads("b.iac", **about, payloads=[b"x", b"y"], codec_name="other",
                                 codec_params={"k": 1})
    assert tarn.iac.read_header("b.iac")["codec_params"] == {"k": 1}
    for wrong in (dict(quality=12), dict(lgwin=9)):
        with pytest.raises(ValueError):
            Codec.create("brotli", **wrong)
    for quality, window in ((0, 10), (5, 22), (11, 24)):
        codec = Codec.create("brotli", quality=quality, lgwin=window)
        assert codec.decode(codec.encode(b"text" * 9000)) == b"text" * 9000
        assert codec.parameters() == {"quality": quality, "lgwin": window}
    with pytest.raises(TypeError):
        tarn.iac.RawCodec().encode("text")
    with pytest.raises(ValueError):
        tarn.iac.get_codec("zstd").decode(b"nothing of the kind")
    with pytest.raises(ValueError, match="row count mismatch"):
        tarn.iac.FixedRecordPack.build("f.iac", **about, matrix=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="2D"):
        tarn.iac.FixedRecordPack.build("f.iac", **about, matrix=np.zeros(2))


def test_batches_are_made_by_hand():
    batch = tarn.iac.ContiguousRecordBatch(b"abc", [0, 1, 1, 3])
    for row in (True, "a", 1.0, None):
        with pytest.raises(TypeError):
            batch[row]
    with pytest.raises(ValueError):
        tarn.iac.ContiguousRecordBatch(b"abc", [0, -1, 3])
    assert [bytes(r) for r in batch] == [b"a", b"", b"bc"]
    for wrong in ([], [1, 3], [0, 2], [0, 2, 1, 3]):
        with pytest.raises(ValueError):
            tarn.iac.ContiguousRecordBatch(b"abc", wrong)


# --- Text pairs ------------------------------------------------------------------------------


def test_text_pairs_by_id_and_row(folder):
    docs = [text_pair.ClinicalTextPairDoc(f"d{i}", "source\0" * i, "text") for i in range(3)]
    patients = [text_pair.PatientTextPairs("a", "XJ", docs), text_pair.PatientTextPairs("b"),
                text_pair.PatientTextPairs("a", "second")]
    text_pair.build_clinical_text_pair_pack("p.iac", patients, extra_header={"k": 1}, quality=5)
    with pytest.raises(FileExistsError):
        text_pair.build_clinical_text_pair_pack("p.iac", patients)
    reader = tarn.iac.ClinicalTextPairReader("p.iac")
    assert reader.patient_ids == ["a", "b"] and reader.record_count == 3
    assert reader.header["k"] == 1 and reader.header["codec_params"]["quality"] == 5
    assert reader.read_patient_at(0) == patients[0] and reader.read_patient_at(-1) == patients[2]
    assert reader.read_patient("a") == patients[2] and reader.read_patient("b") == patients[1]
    assert reader.index_table["num_docs"].to_pylist() == [3, 0, 0]
    with pytest.raises(KeyError, match="patient not in package: c"):
        reader.read_patient("c")
    with pytest.raises(IndexError):
        reader.read_patient_at(3)
    assert pickle.loads(pickle.dumps(reader)).read_patient("b") == patients[1]
    reader.close()
    for bad, kind in (([], ValueError), ([text_pair.PatientTextPairs("\0")], ValueError),
                      ([text_pair.PatientTextPairs("\ud800")], ValueError),
                      ([text_pair.PatientTextPairs(5)], TypeError)):
        with pytest.raises(kind):
            text_pair.build_clinical_text_pair_pack("bad.iac", bad)
    with pytest.raises(ValueError):
        text_pair.build_clinical_text_pair_pack("bad.iac", patients, quality=12)
    assert os.listdir() == ["p.iac"]


@pytest.mark.parametrize("more", [{"payload_type": "z"}, {"codec": "none"}, {"codec_params": {"k": 1}},
                                  {"pair_schema_version": 9}])
def test_fields_of_text_pairs_are_not_replaced_by_extra_header(folder, more):
    docs = [text_pair.ClinicalTextPairDoc("d", "source", "short")]
    text_pair.build_clinical_text_pair_pack("p.iac", [text_pair.PatientTextPairs("p", "", docs)],
                                            extra_header={**more, "k": 1}, quality=5)
    with text_pair.ClinicalTextPairReader("p.iac") as reader:
        header = reader.header
        assert reader.read_patient("p").docs == docs
    assert [header[key] for key in ("payload_type", "codec", "pair_schema_version", "k")] == [
        "clinical_text_pair", "brotli", 1, 1]
    assert header["codec_params"] == {"lgwin": 24, "quality": 5}


def test_unknown_ids_are_key_errors(folder):
    tarn.iac.build_clinical_text_pair_pack("i.iac", [tarn.iac.PatientTextPairs("p1")])
    with tarn.iac.ClinicalTextPairReader("i.iac") as reader:
        assert reader.read_patient("p1").patient_id == "p1"
        for patient in ("", "p1\0", "\ud800", None, 3, b"p1"):
            with pytest.raises(KeyError):
                reader.read_patient(patient)


def test_unknown_parameters_of_codecs_are_skipped(folder):
    codec = tarn.iac.get_codec("brotli")
    tarn.iac.VariableRecordPack.build_from_payloads(
        "c.iac", payload_type="x", slide_table={"slide_id": ["s"]}, index_table={"n": [1]},
        payloads=[codec.encode(b"text")], codec_name="brotli",
        codec_params={"quality": 3, "threads": 4})
    with tarn.iac.VariableRecordPack("c.iac") as pack:
        assert pack.read(0) == b"text" and pack.codec.parameters()["quality"] == 3
    assert tarn.iac.get_codec("none", {"level": 1}).decode(b"x") == b"x"


def test_other_packs_are_not_text_pairs(pack):
    reader = text_pair.ClinicalTextPairReader(pack)
    with pytest.raises(ValueError, match="not a clinical_text_pair package: test"):
        reader.read_patient("x")
    with pytest.raises(ValueError):
        reader.read_patient_at(0)


# --- Threads, processes ----------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 8])
def test_threads_share_a_reader_while_it_is_closed_and_opened(pack, threads):
    reader = tarn.iac.PackReader(pack)
    wrong = []

    def read(seed):
        try:
            rng = np.random.default_rng(seed)
            for row in rng.integers(0, 100, 3000).tolist():
                expected = bytes([row]) * row
                if reader.read_payload(row) != expected or bytes(reader.view(row)) != expected:
                    wrong.append(row)
                if row == 3:
                    reader.close()
                if row == 4 and [bytes(b) for b in reader.batch([row, 5])][1] != b"\5" * 5:
                    wrong.append(row)
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=read, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    if not workers:
        read(0)
    for worker in workers:
        worker.join()
    assert wrong == []


def test_readers_pickle_to_another_process_and_survive_a_fork(pack):
    reader = tarn.iac.PackReader(pack, check=True)
    reader.read_payload(0)
    code = ("import pickle, sys; r = pickle.load(sys.stdin.buffer);"
            "print(type(r).__name__, r.opened, r.read_payload(3), r._options)")
    out = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(reader),
                         capture_output=True, check=True).stdout
    assert out == (b"PackReader False b'\\x03\\x03\\x03' {'check': True, 'mapped': True}\n")
    child = os.fork()
    if child == 0:
        os._exit(0 if reader.read_payload(2) == b"\2\2" and len(reader.index) == 100 else 1)
    assert os.waitpid(child, 0)[1] == 0


WITHOUT_ARROW = """
import sys
sys.modules["pyarrow"] = None
import tarn.iac
tarn.iac.build_pack("w.iac", {}, {"slide_id": ["s"]}, {"name": ["a", "b"]}, [b"x", b"yy"])
header, slides, index = tarn.iac.read_tables("w.iac")
assert isinstance(index, tarn.iac.Table) and index["name"] == ["a", "b"]
reader = tarn.iac.PackReader("w.iac")
assert reader.read_payloads([1, 0]) == [b"yy", b"x"] and reader.batch([1])[0] == b"yy"
assert reader.slide_table.to_pydict() == {"slide_id": ["s"]}
print("fine")
"""


def test_all_of_it_works_without_pyarrow(folder):
    done = subprocess.run([sys.executable, "-c", WITHOUT_ARROW], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_a_pack_object_that_was_not_initialised_says_so():
    with pytest.raises(RuntimeError):
        tarn.iac.PackReader.__new__(tarn.iac.PackReader).read_payload(0)


# --- Headers that are kept -------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch):
    """The files that read_header opens."""
    files = []
    real = _core._NativePackReader
    monkeypatch.setattr(_core, "_NativePackReader", lambda path: files.append(path) or real(path))
    tarn.iac.configure_cache()
    yield files
    tarn.iac.configure_cache()


def packs(*names, **more):
    for name in names:
        tarn.iac.build_pack(name, {"payload_type": name, **more}, SLIDES, {"n": [1]}, [b"x"], overwrite=True)


def test_headers_are_kept_until_their_file_changes(folder, opened):
    packs("a.iac", list=[1])
    first = tarn.iac.read_header("a.iac")
    first["list"].append(2)
    assert tarn.iac.read_header(folder / "a.iac")["list"] == [1] and len(opened) == 1
    packs("a.iac", list=[3])
    assert tarn.iac.read_header("a.iac")["list"] == [3] and len(opened) == 2
    os.utime("a.iac", (1, 1))
    assert tarn.iac.read_header("a.iac")["list"] == [3] and len(opened) == 3
    tarn.iac.clear_caches()
    assert tarn.iac.read_header("a.iac")["list"] == [3] and len(opened) == 4
    os.unlink("a.iac")
    with pytest.raises(FileNotFoundError):
        tarn.iac.read_header("a.iac")
    # A reader reads the header of the file that it opened.
    packs("a.iac", list=[5])
    tarn.iac.read_header("a.iac")
    with tarn.iac.open("a.iac") as reader:
        os.rename("a.iac", "b.iac")
        packs("a.iac", list=[6])
        assert reader.header["list"] == [5] and tarn.iac.read_header("a.iac")["list"] == [6]


def test_the_headers_that_were_not_used_longest_are_forgotten(folder, opened):
    packs("a.iac", "b.iac", "c.iac")
    tarn.iac.configure_cache(header_max_entries=2)
    for name in ("a.iac", "b.iac", "a.iac", "c.iac", "a.iac"):
        assert tarn.iac.read_header(name)["payload_type"] == name
    assert opened == ["a.iac", "b.iac", "c.iac"]
    tarn.iac.read_header("b.iac")
    assert opened == ["a.iac", "b.iac", "c.iac", "b.iac"]
    for limits in ({"header_max_bytes": 1}, {"header_enabled": False}):
        tarn.iac.configure_cache(**limits)
        del opened[:]
        for _ in range(3):
            tarn.iac.read_header("a.iac")
        assert len(opened) == 3


def test_threads_that_need_one_header_read_it_once(folder, opened):
    packs("a.iac", "b.iac")
    start = threading.Barrier(8)
    found = []

    def read(name):
        start.wait()
        found.append(tarn.iac.read_header(name)["payload_type"])

    threads = [threading.Thread(target=read, args=(name,)) for name in ("a.iac", "b.iac") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["a.iac"] * 4 + ["b.iac"] * 4 and sorted(opened) == ["a.iac", "b.iac"]


def test_a_child_can_read_headers_while_a_lock_is_held(folder, opened):
    packs("a.iac")
    tarn.iac.read_header("a.iac")
    with _core._headers._kept.lock:
        child = os.fork()
        if not child:
            os._exit(0 if tarn.iac.read_header("a.iac") else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_native_reader_reads_by_position_until_it_is_closed(pack):
    native = _core._NativePackReader(pack)
    start = tarn.iac.read_header(pack)["data_offset"]
    assert native.read_span(start, 3) == b"\x01\x02\x02" and native.read_row(2) == b"\x02\x02"
    assert native.read_rows([2, 0]) == [b"\x02\x02", b""]
    assert native.read_data_spans_contiguous([(1, 2), (0, 1)]) == b"\x02\x02\x01"
    data, offsets = native.read_rows_contiguous([2, 1])
    assert data == b"\x02\x02\x01" and list(offsets.cast("Q")) == [0, 2, 3]
    for spans in ([(-1, 1)], [(0, 4951)], [(4951, 0)], [(0, -1)]):
        with pytest.raises(ValueError, match="outside data segment of 4950 bytes"):
            native.read_data_spans_contiguous(spans)
    assert native.read_fixed_rows_contiguous([1, 0], 3) == b"\x03\x03\x03\x01\x02\x02"
    for rows, size, message in [([0], 0, "must be positive"), ([0], 4, "not divisible"), ([1650], 3, "outside data segment")]:
        with pytest.raises(ValueError, match=message):
            native.read_fixed_rows_contiguous(rows, size)
    native.close()
    for read in (native.header_json, lambda: native.read_row(0), lambda: native.read_span(start, 1)):
        with pytest.raises(RuntimeError, match="the native reader is closed"):
            read()
