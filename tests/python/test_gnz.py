"""tarn.gnz: array files with NumPy, and with the interface of the original package."""
import array
import hashlib
import json
import math
import os
import pathlib
import pickle
import signal
import stat
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tarn
import tarn.gnz
import tarn.iac
from tarn.gnz import GnzReader, GnzWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from gnz_spec import PAGE, spec_bytes  # noqa: E402

DATA = pathlib.Path(os.environ["TARN_DATA"]) / "gnz"
MANIFEST = json.loads((DATA / "manifest.json").read_text())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def some(folder):
    """ids, x (rows of four floats), one (no dimensions), none (no rows), words"""
    with tarn.gnz.create("some.gnz", metadata={"unit": "mm", "n": [1, None, math.inf]}) as out:
        out.add("ids", np.arange(10))
        out.add("x", np.arange(40.0).reshape(10, 4), "f4")
        out.add("one", np.array(7, "u2"))
        out.add("none", np.empty((0, 3)))
        out.add("words", np.array(["ab", "ü", ""]))
    return folder / "some.gnz"


# --- Files of the original package -----------------------------------------------------------


@pytest.mark.parametrize("name", MANIFEST)
def test_fixtures_are_read_as_the_manifest_says(name):
    told = MANIFEST[name]
    reader = GnzReader(DATA / name)
    assert json.dumps(reader.metadata) == json.dumps(told["metadata"])
    assert reader.keys() == list(told["arrays"])
    for key, info in told["arrays"].items():
        assert reader.arrays_info[key] == {
            "offset": info["offset"], "shape": info["shape"], "dtype": info["dtype"],
            "order": info["order"]}
        for array in (reader.get_array(key), reader[key], reader.read(key)):
            assert array.dtype.str == info["dtype"]
            assert list(array.shape) == info["shape"]
            assert hashlib.sha256(array.tobytes()).hexdigest() == info["sha256"]


@pytest.mark.parametrize("name", MANIFEST)
def test_fixtures_are_rewritten_to_the_same_bytes_by_the_seeds_calls(folder, name):
    reader = GnzReader(DATA / name)
    writer = GnzWriter(folder / name)
    writer.metadata = reader.metadata
    later = []
    for key in sorted(reader, key=lambda key: reader.info(key).offset):
        values = reader[key]
        if name == "streaming.gnz" and key == "big":
            writer.init_streaming_array(key, values.shape, values.dtype)
            later.append(key)
        elif name == "cast.gnz":
            writer.add_array(key, values.astype("f8" if values.dtype.kind == "f" else "i8"),
                             dtype=values.dtype)
        else:
            writer.add_array(key, values)
    writer.write()
    for key in later:
        array = writer.get_array_writable(key)
        for i in range(0, len(array), 100):
            array[i:i + 100] = reader[key][i:i + 100]
        array.flush()
    assert (folder / name).read_bytes() == (DATA / name).read_bytes()


# --- Reading ---------------------------------------------------------------------------------


def test_reader_is_a_mapping(some):
    with tarn.gnz.open(some) as f:
        assert list(f) == f.names == f.keys() == ["ids", "none", "one", "words", "x"]
        assert len(f) == 5 and "x" in f and "y" not in f
        assert {k: v.shape for k, v in f.items()}["x"] == (10, 4)
        assert f.metadata == {"unit": "mm", "n": [1, None, math.inf]}
        assert f.header["version"] == 1 and f.header["arrays"] is f.arrays_info
        assert f["x"].dtype == "<f4" and f["x"][3].tolist() == [12, 13, 14, 15]
        assert f["one"].shape == () and f["one"] == 7
        assert f["none"].shape == (0, 3)
        assert f["words"].tolist() == ["ab", "ü", ""]
        assert f.nbytes == os.path.getsize(some)
        assert "x: <f4[10, 4]" in repr(f)
        assert f == f and f != tarn.gnz.open(some) and len({f, f}) == 1


def test_arrays_are_views_that_outlive_the_reader(some):
    f = tarn.gnz.open(some)
    x, again, mapped = f["x"], f["x"], f.get_array("x")
    address = x.__array_interface__["data"][0]
    assert again.__array_interface__["data"][0] == address
    assert mapped.__array_interface__["data"][0] == address
    assert address % PAGE == 0 and not x.flags.writeable
    f.close()
    assert f.closed and "closed" in repr(f)
    del f
    assert x.sum() == mapped.sum() == 780
    with pytest.raises(ValueError):
        x[0] = 1


def test_closed_reader_refuses(some):
    with tarn.gnz.open(some) as f:
        pass
    with pytest.raises(ValueError, match="closed"):
        f["x"]


def test_mode_r_plus_writes_to_the_file_and_c_does_not(some):
    f = GnzReader(some)
    copied = f.get_array("x", mode="c")
    copied[0] = -1
    assert f["x"][0, 0] == 0
    written = f.get_array("x", mode="r+")
    written[1] = -2
    written.flush()
    assert GnzReader(some)["x"][:2].tolist() == [[0, 1, 2, 3], [-2] * 4]
    assert copied[0].tolist() == [-1] * 4
    plain = f.array("ids", "r+")
    plain[0] = 99
    del plain, f
    assert GnzReader(some)["ids"][0] == 99


def test_get_array_is_a_memmap_with_its_attributes(some):
    f = GnzReader(some)
    array = f.get_array("x")
    real = np.memmap(some, "<f4", "r", f.info("x").offset, (10, 4))
    assert type(array) is np.memmap and (array == real).all()
    for name in ("filename", "offset", "mode"):
        assert getattr(array, name) == getattr(real, name), name
    assert array.flags.writeable == real.flags.writeable
    part = array[2:4]
    assert type(part) is np.memmap and part.filename == real[2:4].filename
    assert f.get_array("none").shape == (0, 3)
    assert f.get_array("x", "copyonwrite").mode == "c"


def test_arrays_in_fortran_order_have_their_strides(folder):
    values = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    entry = {"offset": PAGE, "shape": [2, 3, 4], "dtype": "<i4", "order": "F"}
    header = json.dumps({"version": 1, "metadata": {}, "arrays": {"f": entry}}).encode()
    data = b"GNZ1" + struct.pack("<I", len(header)) + header
    pathlib.Path("f.gnz").write_bytes(data.ljust(PAGE, b"\0") +
                                      values.tobytes(order="F").ljust(PAGE, b"\0"))
    f = GnzReader("f.gnz")
    for array in (f["f"], f.get_array("f"), f.read("f"), f.get_array("f", "c")):
        assert array.tolist() == values.tolist()
    assert f["f"].flags.f_contiguous and not f["f"].flags.c_contiguous


def test_errors_are_those_of_the_seed(folder, some):
    with pytest.raises(FileNotFoundError):
        GnzReader("nothing.gnz")
    with pytest.raises(IsADirectoryError):
        GnzReader(folder)
    pathlib.Path("bad.gnz").write_bytes(b"ZIP1" + bytes(PAGE))
    with pytest.raises(ValueError) as caught:
        GnzReader("bad.gnz")
    assert isinstance(caught.value, tarn.FormatError) and caught.value.offset == 0
    pathlib.Path("empty.gnz").write_bytes(b"")
    with pytest.raises(ValueError):
        GnzReader("empty.gnz")
    f = GnzReader(some)
    with pytest.raises(KeyError, match="Array 'y' not found in GNZ file"):
        f.get_array("y")
    with pytest.raises(KeyError):
        f["y"]
    with pytest.raises(ValueError):
        f.get_array("x", mode="w+")
    with pytest.raises(FileExistsError):
        GnzWriter(some)
    writer = GnzWriter("new.gnz")
    with pytest.raises(KeyError, match="Call write"):
        writer.get_array_writable("x")
    writer.metadata["bad"] = {1, 2}
    with pytest.raises(TypeError):
        writer.write()
    assert sorted(os.listdir()) == ["bad.gnz", "empty.gnz", "some.gnz"]


def test_hostile_headers_are_refused(folder):
    def refused(arrays, part):
        header = json.dumps({"version": 1, "metadata": {}, "arrays": arrays}).encode()
        data = b"GNZ1" + struct.pack("<I", len(header)) + header
        pathlib.Path("h.gnz").write_bytes(data.ljust(2 * PAGE, b"\0"))
        with pytest.raises(tarn.Error, match=part) as caught:
            GnzReader("h.gnz")
        assert isinstance(caught.value, ValueError) and caught.value.path == "h.gnz"

    good = {"offset": PAGE, "shape": [4], "dtype": "<f4"}
    refused({"x": {**good, "offset": 2 * PAGE}}, "")
    refused({"x": {**good, "shape": [2**40, 2**40]}}, "")
    refused({"x": {**good, "dtype": "|O"}}, "O")
    refused({"x": good, "y": good}, "overlap")
    refused({"x": {**good, "shape": [-1]}}, "")


def test_truncation_after_opening_is_an_error_and_not_a_crash(some):
    f = tarn.gnz.open(some)
    os.truncate(some, PAGE)
    with pytest.raises(tarn.TruncatedError):
        f["x"]


def test_read_copies_rows(some):
    f = tarn.gnz.open(some)
    assert f.read("x", 2, 3).tolist() == f["x"][2:5].tolist()
    assert f.read("x", 8, 99).shape == (2, 4)
    assert f.read("one") == 7 and f.read("none").shape == (0, 3)
    assert f.read("words").tolist() == ["ab", "ü", ""]
    unmapped = tarn.gnz.open(some, mapped=False)
    assert unmapped["x"].tolist() == f["x"].tolist()
    with pytest.raises(ValueError):
        unmapped.get_array("x", "r+")


def test_rows_are_samples(some):
    f = tarn.gnz.open(some)
    assert f.rows.fields == ["ids", "x"] and len(f.rows) == 10
    assert f.rows[3]["x"].tolist() == [12, 13, 14, 15] and f.rows[-1]["ids"] == 9
    assert f.rows[2:4]["ids"].tolist() == [2, 3]
    assert f.rows[[5, 1]]["ids"].tolist() == [5, 1]
    assert [row["ids"] for row in f.rows] == list(range(10))
    assert f.samples(["x"]).fields == ["x"]
    with pytest.raises(ValueError):
        f.samples(["x", "words"])
    with pytest.raises(IndexError):
        f.rows[10]
    assert f.rows is f.rows
    f.close()
    with pytest.raises(ValueError, match="closed"):
        f.rows


def test_info_stats_advice(some):
    f = tarn.gnz.open(some)
    info = f.info("x")
    assert (info.name, info.dtype, info.shape, info.nbytes, info.order, info.reserved,
            info.checksum) == ("x", "<f4", (10, 4), 160, "C", 10, None)
    stats = f.stats("x")
    assert (stats.values, stats.min, stats.max, stats.mean, sum(stats.bins)) == (40, 0, 39, 19.5, 40)
    with pytest.raises(ValueError):
        f.stats("words")
    for advice in ("sequential", "will_need", "random", "dont_need", "normal"):
        f.advise("x", advice)
    with pytest.raises(ValueError, match="will_need"):
        f.advise("x", "soon")


# --- Writing ---------------------------------------------------------------------------------


def test_writer_publishes_at_the_end_and_leaves_nothing_after_an_exception(folder):
    with tarn.gnz.create("a.gnz") as out:
        out.add("x", np.arange(3))
        assert not os.path.exists("a.gnz")
    before = pathlib.Path("a.gnz").read_bytes()
    for overwrite in (False, True):
        with pytest.raises(FileExistsError if not overwrite else RuntimeError):
            with tarn.gnz.create("a.gnz", overwrite=overwrite) as out:
                x = out.reserve("x", (4,), "f8")
                x[:2] = 5
                raise RuntimeError
    assert os.listdir() == ["a.gnz"] and pathlib.Path("a.gnz").read_bytes() == before


def test_a_writer_that_is_dropped_leaves_nothing(folder):
    out = tarn.gnz.create("a.gnz")
    out.reserve("x", (4,), "f8")
    out.begin()
    del out
    assert os.listdir() == []


def test_finished_writer_refuses(folder):
    out = tarn.gnz.create("a.gnz")
    out.finish()
    with pytest.raises(tarn.UsageError):
        out.add("x", np.arange(3))
    with pytest.raises(tarn.UsageError):
        out.finish()
    out.abandon()
    assert GnzReader("a.gnz").keys() == []


def test_a_writer_that_its_arguments_end_refuses(folder):
    class Ends:
        def __index__(self):
            out.abandon()
            return 1

    for use in (lambda: out.reserve("y", (Ends(),), "f4"), lambda: x.fill([Ends()], np.ones(1, "f4"))):
        out = tarn.gnz.create("a.gnz")
        x = out.reserve("x", (4,), "f4")
        with pytest.raises(tarn.UsageError, match="finished"):
            use()
    assert os.listdir() == []


def test_rows_are_read_from_the_end_too(folder):
    tarn.gnz.save("a.gnz", x=np.arange(10), one=np.array(7))
    reader = GnzReader("a.gnz")
    for first in range(-13, 13):
        assert reader.read("x", first).tolist() == list(range(10))[first:]
        for rows in range(12):
            begin = first + 10 if first < 0 else first
            assert reader.read("x", first, rows).tolist() == [
                i for i in range(10) if begin <= i < begin + rows]
    with pytest.raises(ValueError):
        reader.read("x", 0, -1)
    assert reader.read("one") == reader.read("one", 0, 1) == 7
    for wrong in ((1,), (0, 0)):
        with pytest.raises(IndexError):
            reader.read("one", *wrong)


def test_a_file_is_the_same_when_the_program_goes_elsewhere(folder, monkeypatch):
    with tarn.gnz.create("a.gnz", header_pages=2) as out:
        out.reserve("x", (0, 2), "f4", rows=10)
    reader = GnzReader("a.gnz")
    with tarn.gnz.update("a.gnz") as out:
        (folder / "there").mkdir()
        monkeypatch.chdir(folder / "there")
        out.reserved("x").append(np.ones((3, 2)))
    assert reader.verify().problems == 0
    assert GnzReader(folder / "a.gnz")["x"].shape == (3, 2)



def test_reserved_arrays_are_filled_by_index_and_appended(folder):
    with tarn.gnz.create("a.gnz") as out:
        x = out.reserve("x", (4, 3), "f4")
        grown = out.reserve("grown", (0, 2), "i2", rows=10)
        x[0] = 1
        with pytest.raises(tarn.UsageError, match="begun"):
            out.add("late", np.arange(3))
        x[1:3, 2] = [5, 6]
        x[-1, ...] = np.arange(3)
        x[..., 0] = 9
        grown.append([[1, 2]])
        grown.append(np.ones((2, 2)))
        with pytest.raises(IndexError):
            x[4] = 0
        with pytest.raises(IndexError):
            x[::2] = 0
        with pytest.raises(ValueError):
            x[0] = np.zeros(5)
        with pytest.raises(tarn.Error):
            grown.append(np.ones((9, 2)))
    f = tarn.gnz.open("a.gnz")
    assert f["x"].tolist() == [[9, 1, 1], [9, 0, 5], [9, 0, 6], [9, 1, 2]]
    assert f["grown"].tolist() == [[1, 2], [1, 1], [1, 1]]
    assert f.info("grown").reserved == 10


def test_threads_fill_one_array(folder):
    with tarn.gnz.create("a.gnz") as out:
        x = out.reserve("x", (64, 1000), "<i8")

        def fill(number):
            for i in range(number, 64, 8):
                x[i] = np.arange(1000) * i

        threads = [threading.Thread(target=fill, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (tarn.gnz.open("a.gnz")["x"] == np.outer(np.arange(64), np.arange(1000))).all()


def test_checksums_are_kept_and_verified(folder):
    with tarn.gnz.create("a.gnz", checksums=True) as out:
        out.add("x", np.arange(1000))
    f = tarn.gnz.open("a.gnz")
    assert f.info("x").checksum is not None and f.metadata == {}
    assert f.verify().problems == 0 and f.verify().checksummed == 1
    f.array("x", "r+")[7] = 0
    report = tarn.gnz.verify("a.gnz")
    assert report.problems == 1 and "x" in report.texts[0]


def test_verification_ends_when_a_signal_handler_raises(folder):
    class Enough(Exception):
        pass

    def handler(number, frame):
        raise Enough

    size = 1 << 29
    header = json.dumps({"version": 1, "metadata": {"__tarn__": {"arrays": {"x": {
        "crc32c": "00000000"}}}}, "arrays": {"x": {"offset": PAGE, "shape": [size],
                                                   "dtype": "|u1", "order": "C"}}}).encode()
    with open("sparse.gnz", "wb") as f:
        f.write(b"GNZ1" + struct.pack("<I", len(header)) + header)
        f.truncate(PAGE + size)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Enough):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            tarn.gnz.verify("sparse.gnz")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.unlink("sparse.gnz")


def test_update_adds_arrays_and_rows_in_place(folder):
    with tarn.gnz.create("a.gnz", header_pages=2, metadata={"k": 1}) as out:
        out.reserve("x", (0, 2), "f4", rows=8).append(np.ones((2, 2)))
    with tarn.gnz.update("a.gnz") as out:
        assert out.metadata == {"k": 1}
        out.reserved("x").append(np.full((3, 2), 2))
        assert tarn.gnz.open("a.gnz")["x"].shape == (2, 2)
    with tarn.gnz.update("a.gnz") as out:
        out.add("y", np.arange(5))
        out.metadata["k"] = 2
    f = tarn.gnz.open("a.gnz")
    assert f["x"][:, 0].tolist() == [1, 1, 2, 2, 2] and f["y"].tolist() == [0, 1, 2, 3, 4]
    assert f.metadata == {"k": 2}


def test_gnz_writer_writes_twice_and_reports_the_layout(folder):
    writer = GnzWriter("w.gnz")
    writer.add_array("b", np.arange(5), dtype="f4")
    writer.init_streaming_array("a", (3, 2), np.int16)
    writer.init_streaming_array("c", [4], "i1")
    writer.write()
    assert list(writer.arrays_info) == ["b", "a", "c"]
    assert writer.arrays_info["c"]["shape"] == [4]  # as it was given
    assert writer.arrays_info["a"] == {"offset": 2 * PAGE, "shape": (3, 2), "dtype": "<i2",
                                       "order": "C"}
    array = writer.get_array_writable("a")
    assert type(array) is np.memmap and array.mode == "r+" and not array.any()
    array[1] = [5, 6]
    assert GnzReader("w.gnz").get_array("a").tolist() == [[0, 0], [5, 6], [0, 0]]
    writer.metadata["again"] = True
    writer.write()
    assert GnzReader("w.gnz").metadata == {"again": True}
    assert not GnzReader("w.gnz")["a"].any()


def test_a_streaming_array_may_have_values_from_the_beginning(folder):
    writer = GnzWriter("both.gnz")
    writer.add_array("a", np.array([1.7, 2.2, 3.9]), "i4")
    writer.add_array("b", np.ones(3))
    writer.init_streaming_array("a", (2, 3), "f4")
    writer.write()
    assert [(name, info["offset"]) for name, info in writer.arrays_info.items()] == [
        ("a", PAGE), ("b", 2 * PAGE)]
    assert GnzReader("both.gnz")["a"].tolist() == [[1, 2, 3]] * 2
    writer.get_array_writable("a")[1] = 9
    assert GnzReader("both.gnz")["a"].tolist() == [[1, 2, 3], [9, 9, 9]]
    writer = GnzWriter("none.gnz")
    writer.add_array("a", np.ones(4))
    writer.init_streaming_array("a", (2, 3), "f4")
    with pytest.raises(ValueError):
        writer.write()
    assert not os.path.exists("none.gnz")


def test_casts_the_library_does_not_know_are_numpys(folder):
    writer = GnzWriter("w.gnz")
    writer.add_array("s", np.array([1.5, 2.0]), dtype="S4")
    writer.add_array("n", np.array(["12", "7"]), dtype="i4")
    writer.add_array("big", np.arange(3), dtype=">f8")
    writer.write()
    f = GnzReader("w.gnz")
    assert f["s"].tolist() == [b"1.5", b"2.0"] and f["n"].tolist() == [12, 7]
    assert f["big"].dtype.str == ">f8" and f["big"].tolist() == [0, 1, 2]
    with pytest.raises((TypeError, ValueError)):
        tarn.gnz.save("bad.gnz", x=np.array([object()]))
    with pytest.raises((TypeError, ValueError)):
        tarn.gnz.save("bad.gnz", x=np.array(["2020-01-01"], "M8[D]"))
    assert not os.path.exists("bad.gnz")


# --- Random files compared with the format description ---------------------------------------

DTYPES = [np.dtype(o + t) for t in "i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16 U3".split() for o in "<>"]
DTYPES += [np.dtype(t) for t in ("?", "i1", "u1", "S5")]
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).filter(
    lambda name: name != "__tarn__")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats() |
    st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8)
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0,
                                                     max_side=5)))


def twisted(draw, array):
    """The same values with other strides."""
    kind = draw(st.integers(0, 3))
    if kind == 1 and array.ndim:
        return np.asfortranarray(array)
    if kind == 2 and array.ndim:
        return np.flip(np.flip(array, 0).copy(), 0)
    if kind == 3 and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return array


@settings(max_examples=120, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.dictionaries(NAMES, ARRAYS, max_size=5), st.dictionaries(NAMES, JSON, max_size=4))
def test_random_files_are_those_of_the_description_and_read_back(tmp_path, data, arrays, metadata):
    path = tmp_path / "r.gnz"
    streamed = {name for name in arrays if data.draw(st.booleans())}
    ordered = {n: arrays[n] for n in arrays if n not in streamed}
    with tarn.gnz.create(path, overwrite=True, metadata=metadata) as out:
        for name, array in ordered.items():
            out.add(name, twisted(data.draw, array))
        places = {}
        for name in streamed:
            ordered[name] = arrays[name]
            places[name] = out.reserve(name, arrays[name].shape, arrays[name].dtype)
        for name, place in places.items():
            place[...] = twisted(data.draw, arrays[name])
    expected = spec_bytes({n: np.ascontiguousarray(a).reshape(a.shape) for n, a in ordered.items()},
                          metadata)
    assert path.read_bytes() == expected
    with tarn.gnz.open(path) as f:
        assert sorted(f) == sorted(arrays)
        assert str(f.metadata) == str(json.loads(json.dumps(metadata, sort_keys=True)))
        for name, array in arrays.items():
            for got in (f[name], f.get_array(name), f.read(name)):
                assert got.dtype == array.dtype and got.shape == array.shape
                assert got.tobytes() == array.tobytes()


# --- Other processes, no NumPy ---------------------------------------------------------------


def test_readers_pickle_to_another_process(some):
    code = ("import pickle, sys; f = pickle.load(sys.stdin.buffer);"
            "print(type(f).__name__, f['x'].sum())")
    out = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(GnzReader(some)),
                         capture_output=True, check=True).stdout
    assert out == b"GnzReader 780.0\n"


def test_arrays_survive_a_fork(some):
    x = tarn.gnz.open(some)["x"]
    child = os.fork()
    if child == 0:
        os._exit(0 if x.sum() == 780 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_buffers_that_are_not_numpys_are_written(folder):
    with tarn.gnz.create("plain.gnz") as out:
        out.add("d", array.array("d", [1.5, 2.5]))
        out.add("b", b"abc")
        m = out.reserve("m", (2, 2), "<i4")
        m.fill((1, 0), memoryview(array.array("i", [7, 8])).cast("B").cast("i", (1, 2)))
    with tarn.gnz.open("plain.gnz") as f:
        assert f["d"].tolist() == [1.5, 2.5] and f["m"].tolist() == [[0, 0], [7, 8]]
        assert bytes(f["b"]) == b"abc"
        assert f.rows.fields == ["d", "m"]
        assert f.rows[1]["m"].tolist() == [7, 8] and f.rows[-2]["m"].tolist() == [0, 0]
        assert [row["d"] for row in f.rows] == [1.5, 2.5]
        view = f.array("m", "r+")
        view[0, 1] = 5
        del view
    assert tarn.gnz.open("plain.gnz")["m"].tolist() == [[0, 5], [7, 8]]


def test_importing_does_not_import_pyarrow():
    code = "import sys, tarn.gnz, tarn.iac; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True).stdout == "False\n"


# --- Space for more rows, text that is none, devices ------------------------------------------


def test_items_of_a_reserved_array_are_those_of_its_shape(tmp_path):
    with tarn.gnz.create(tmp_path / "r.gnz") as out:
        x = out.reserve("x", (3, 2), "i4", rows=100)
        y = out.reserve("y", (3,), "i4")
        assert x.shape == (3, 2)
        x[:] = 1
        x[..., 1] = 2
        x[-1] = 3
        x.append([[4, 4]])
        for where in (slice(3, 5), slice(0, 4), slice(7, None), (slice(3, 4), 0)):
            with pytest.raises(IndexError, match="goes past the 3 rows of 'x'; write rows.*append"):
                x[where] = 5
        with pytest.raises(IndexError):
            x[3] = 5
        y[0:9] = 6
    with tarn.gnz.open(tmp_path / "r.gnz") as file:
        assert file["x"].tolist() == [[1, 2], [1, 2], [3, 3], [4, 4]]
        assert file["y"].tolist() == [6, 6, 6]


@pytest.mark.parametrize("order", ["<", ">"])
def test_characters_that_do_not_exist_are_an_error(tmp_path, order):
    path = tmp_path / "u.gnz"
    tarn.gnz.save(path, u=np.array([["ab", "c"], ["", "\U0010ffff"]], f"{order}U2"), x=np.arange(2))
    with tarn.gnz.open(path) as file:
        assert file["u"].tolist() == [["ab", "c"], ["", "\U0010ffff"]]
        at = file.info("u").offset + 4 * 4  # the first character of "" is the fifth
    damaged = bytearray(path.read_bytes())
    damaged[at:at + 4] = (0x110000).to_bytes(4, "little" if order == "<" else "big")
    path.write_bytes(damaged)
    with tarn.gnz.open(path) as file:
        for read in (lambda: file["u"], lambda: file.get_array("u"), lambda: file.read("u"),
                     lambda: file.rows):
            with pytest.raises(tarn.FormatError, match="u.gnz: array 'u': 0x110000 is not a "
                                                       r"Unicode character \(element 2\)"):
                read()
        assert file.read("u", 0, 1).tolist() == [["ab", "c"]]
        assert file["x"].tolist() == [0, 1]


def test_devices_and_pipes_are_not_replaced(tmp_path):
    path = tmp_path / "pipe.gnz"
    os.mkfifo(path)
    paths = [path]
    try:
        os.mknod(tmp_path / "device.gnz", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        paths.append(tmp_path / "device.gnz")
    except PermissionError:
        pass  # only root may
    for path in paths:
        before = os.lstat(path)
        with pytest.raises(tarn.UnsupportedError, match="can only be written to a file"):
            tarn.gnz.save(path, x=np.arange(2))
        with pytest.raises(tarn.UnsupportedError, match="can only be written to a file"):
            tarn.iac.build_pack(path, {"codec": "none", "payload_type": "t"},
                                {"slide_id": ["s"], "patient_id": ["p"]}, {"n": [1]}, [b"1"], overwrite=True)
        after = os.lstat(path)
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in paths)
