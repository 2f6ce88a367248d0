"""The writers: encoding, publishing, threads, leaks."""
import concurrent.futures
import gc
import io
import json
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import tarfile
import threading
import warnings

import pytest
from hypothesis import given, settings, strategies as st
from tool import tool

import tarn
import tarn.gnz
import tarn.iac
from tarn import _tarn
from tarn.itar import iTarFoldWriter

np = pytest.importorskip("numpy")


def members(data):
    """Returns {name: bytes} of an archive, in order."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}


def written(sample, **options):
    file = io.BytesIO()
    with tarn.TarWriter(file, **options) as out:
        out.write({"__key__": "k", **sample})
    return {name[2:]: data for name, data in members(file.getvalue()).items()}


# --- Values -----------------------------------------------------------------------------


@pytest.mark.parametrize("field, value, want", [
    ("bin", b"\0\xff", b"\0\xff"), ("bin", bytearray(b"ab"), b"ab"),
    ("bin", memoryview(b"ab"), b"ab"), ("txt", "é", "é".encode()), ("jpg", "text", b"text"),
    ("cls", 7, b"7"), ("cls", -2.5, b"-2.5"), ("cls", True, b"1"), ("cls", np.int64(5), b"5"),
    ("cls", np.array(6), b"6"), ("x.CLS", np.float32(0.5), b"0.5"),
    ("json", {"a": [1, None, "é"]}, b'{"a": [1, null, "\\u00e9"]}'), ("json", [True], b"[true]"),
    ("json", None, b"null"), ("json", 5, b"5"), ("json", "as it is", b"as it is"),
    ("a.json", {}, b"{}"),
])
def test_values_become_bytes_by_their_fields_name(field, value, want):
    assert written({field: value}) == {field: want}


def test_arrays_and_dicts_of_arrays():
    array = np.arange(12, dtype="<f4").reshape(3, 4)
    got = written({"npy": array, "t.npy": array.T[::2], "npz": {"a": array, "b": array[0]},
                   "ten": [array, array]})
    assert np.array_equal(np.load(io.BytesIO(got["npy"])), array)
    assert np.array_equal(np.load(io.BytesIO(got["t.npy"])), array.T[::2])
    with np.load(io.BytesIO(got["npz"])) as npz:
        assert sorted(npz.files) == ["a", "b"] and np.array_equal(npz["b"], array[0])
    assert [a.tolist() for a in _tarn.decode("ten", got["ten"])] == [array.tolist()] * 2


def test_images_of_numpy_and_pillow_are_the_same_file():
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(1).integers(0, 256, (9, 7, 3), dtype="uint8")
    a = written({"png": pixels, "jpg": pixels}, jpeg_quality=90)
    b = written({"png": image.fromarray(pixels), "jpg": image.fromarray(pixels)}, jpeg_quality=90)
    assert a == b
    assert np.array_equal(np.asarray(image.open(io.BytesIO(a["png"]))), pixels)
    assert len(a["jpg"]) < len(written({"jpg": pixels})["jpg"])


def test_torch_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert written({"npy": tensor, "cls": torch.tensor(4)}) == {
        "npy": _tarn.encode("npy", tensor.numpy()), "cls": b"4"}


def test_compressed_fields():
    got = written({"json.gz": [1, 2], "txt.gz": "x" * 100, "bin.zst": b"y" * 100})
    import gzip
    assert gzip.decompress(got["json.gz"]) == b"[1, 2]"
    assert gzip.decompress(got["txt.gz"]) == b"x" * 100
    assert bytes(_tarn.decode("bin.zst", got["bin.zst"])) == b"y" * 100


def test_a_path_means_its_file(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"jpeg" * 100000)
    assert written({"jpg": tmp_path / "x.jpg"}) == {"jpg": b"jpeg" * 100000}
    with pytest.raises(FileNotFoundError):
        written({"jpg": tmp_path / "none.jpg"})


def test_encoders_of_the_callers_come_first():
    got = written({"pkl": {1, 2}, "a.x": 5, "b.x": 6, "x.gz": 7},
                  encoders={"pkl": pickle.dumps, "x": lambda v: b"<%d>" % v,
                            "b.x": lambda v: bytearray(b"b")})
    assert pickle.loads(got["pkl"]) == {1, 2}
    assert (got["a.x"], got["b.x"]) == (b"<5>", b"b")
    assert _tarn.decode("bin.gz", got["x.gz"]) == b"<7>"
    with pytest.raises(TypeError, match="not bytes"):
        written({"x": 1}, encoders={"x": lambda v: 3})
    with pytest.raises(ZeroDivisionError):
        written({"x": 1}, encoders={"x": lambda v: v / 0})


@pytest.mark.parametrize("sample, kind", [
    ({"pkl": {1}}, (TypeError, ValueError)), ({"txt": 5}, ValueError), ({"cls": "x", "": b""}, ValueError),
    ({"cls": object()}, (TypeError, ValueError)), ({"json": object()}, TypeError), ({"a/b": b""}, ValueError),
    ({"_x": b""}, ValueError), ({"A": b"", "a": b""}, ValueError), ({5: b""}, TypeError),
    ({"jpg": np.zeros((2, 2), "c8")}, ValueError), ({"a\0b": b""}, ValueError),
])
def test_values_that_cannot_be_written_are_refused_without_a_trace(sample, kind):
    file = io.BytesIO()
    with tarn.TarWriter(file) as out:
        out.write({"__key__": "before", "txt": "1"})
        with pytest.raises(kind):
            out.write({"__key__": "k", "ok": b"x" * 1000, **sample})
        out.write({"__key__": "after", "txt": "2"})
    assert members(file.getvalue()) == {"before.txt": b"1", "after.txt": b"2"}


@pytest.mark.parametrize("key", ["a.b", "", "/a", "a/../b", "a\nb", None, 5, b"a"])
def test_keys_that_would_not_come_back_are_refused(key):
    with tarn.TarWriter(io.BytesIO()) as out:
        with pytest.raises((ValueError, TypeError)):
            out.write({"__key__": key, "txt": ""})
        with pytest.raises(ValueError, match="__key__"):
            out.write({"txt": ""})


def test_metadata_of_a_reader_is_not_written():
    assert written({"__url__": "x", "__local_path__": "y", "txt": "z"}) == {"txt": b"z"}


def test_encode_false_takes_bytes_only():
    assert written({"json": b"[1]", "txt.gz": b"raw"}, encode=False) == {
        "json": b"[1]", "txt.gz": b"raw"}
    with pytest.raises(ValueError, match="doesn't map to a bytes"):
        written({"txt": "x"}, encode=False)


def test_any_mapping_is_a_sample():
    import types
    file = io.BytesIO()
    with tarn.TarWriter(file, sort=False) as out:
        assert out.write(types.MappingProxyType({"__key__": "k", "b": b"1", "a": b"22"})) == 3
    assert list(members(file.getvalue())) == ["k.b", "k.a"]


# --- Round trips ---------------------------------------------------------------------------

names = st.text(st.characters(exclude_characters="./\\\0_", exclude_categories=("C", "Lu", "Lt")),
                min_size=1, max_size=8).filter(lambda s: s == s.lower() and s.strip(" ") == s)
samples = st.lists(st.dictionaries(names, st.binary(max_size=1500), min_size=1, max_size=4),
                   max_size=8)


@given(samples)
@settings(max_examples=60, deadline=None)
def test_tarfile_reads_back_what_was_written(values):
    file = io.BytesIO()
    with tarn.TarWriter(file, encode=False) as out:
        for number, fields in enumerate(values):
            assert out.write({"__key__": f"k{number}", **fields}) == sum(map(len, fields.values()))
        assert out.written.samples == len(values)
    assert members(file.getvalue()) == {f"k{n}.{name}": data for n, fields in enumerate(values)
                                        for name, data in fields.items()}


@given(samples)
@settings(max_examples=25, deadline=None)
def test_many_at_once_is_one_by_one(values):
    values = [{"__key__": f"k{n}", **fields} for n, fields in enumerate(values)]
    one, many = io.BytesIO(), io.BytesIO()
    with tarn.TarWriter(one, encode=False) as out:
        total = sum(out.write(value) for value in values)
    with tarn.TarWriter(many, encode=False) as out:
        assert out.write_many(iter(values)) == total
    assert one.getvalue() == many.getvalue()


# --- Publishing ----------------------------------------------------------------------------


def everything_in(folder):
    return sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*"))


def test_nothing_has_its_name_before_the_end(tmp_path):
    path = tmp_path / "x.tar"
    with tarn.TarWriter(path) as out:
        out.write({"__key__": "a", "txt": "1"})
        assert not path.exists()
    assert tarfile.open(path).getnames() == ["a.txt"]
    with pytest.raises(FileExistsError):
        with tarn.TarWriter(path) as out:
            pass
    with tarn.TarWriter(path, overwrite=True) as out:
        out.write({"__key__": "b", "txt": "1"})
        assert tarfile.open(path).getnames() == ["a.txt"]
    assert tarfile.open(path).getnames() == ["b.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("make", [
    lambda folder: tarn.TarWriter(folder / "x.tar"),
    lambda folder: tarn.TarWriter(folder / "x.tar.gz"),
    lambda folder: tarn.ShardWriter(folder / "x-%03d.tar"),
    lambda folder: tarn.DatasetWriter(folder, "train"),
    lambda folder: tarn.DatasetWriter(folder, "train", max_count=3),
], ids=["tar", "gz", "shards", "dataset", "dataset of many shards"])
def test_an_exception_in_the_middle_leaves_nothing(tmp_path, make, error):
    with pytest.raises(error):
        with make(tmp_path) as out:
            for i in range(10):
                out.write({"__key__": f"k{i}", "txt": "x" * 100})
            raise error
    assert out.closed
    assert everything_in(tmp_path) == []
    with pytest.raises(ValueError, match="closed"):
        out.write({"__key__": "a", "txt": ""})
    out.abandon()
    out.close()


def test_complete_shards_stay_after_an_exception(tmp_path):
    seen = []
    with pytest.raises(RuntimeError):
        with tarn.ShardWriter(tmp_path / "x-%d.tar", max_count=2,
                              on_shard=lambda *what: seen.append(what)) as out:
            out.write_many({"__key__": f"k{i}", "txt": "x"} for i in range(5))
            raise RuntimeError
    assert everything_in(tmp_path) == ["x-0.tar", "x-1.tar"]
    assert seen == [(str(tmp_path / "x-0.tar"), 2, 10240), (str(tmp_path / "x-1.tar"), 2, 10240)]


def test_a_callback_that_raises_stops_the_writer(tmp_path):
    def stop(*what):
        raise ZeroDivisionError(what[0])
    with pytest.raises(ZeroDivisionError, match="x-0.tar"):
        with tarn.ShardWriter(tmp_path / "x-%d.tar", max_count=1, on_shard=stop) as out:
            out.write_many({"__key__": f"k{i}", "txt": "x"} for i in range(5))
    assert everything_in(tmp_path) == ["x-0.tar"]


def test_samples_before_one_that_fails_are_written():
    file = io.BytesIO()
    def some():
        for i in range(1000):
            yield {"__key__": f"k{i}", "txt": "x"}
        raise ZeroDivisionError
    with tarn.TarWriter(file) as out:
        with pytest.raises(ZeroDivisionError):
            out.write_many(some())
        with pytest.raises(ValueError):
            out.write_many([{"__key__": "last", "txt": "y"}, {"__key__": "bad.key", "txt": "z"},
                            {"__key__": "never", "txt": "z"}])
    assert len(members(file.getvalue())) == 1001


def test_a_forgotten_writer_leaves_nothing_and_says_so(tmp_path):
    out = tarn.TarWriter(tmp_path / "x.tar")
    out.write({"__key__": "a", "txt": "1"})
    with pytest.warns(ResourceWarning, match="not closed"):
        del out
        gc.collect()
    assert everything_in(tmp_path) == []


def test_a_child_process_does_not_touch_its_parents_files(tmp_path):
    code = """
import os, sys, tarn, warnings
out = tarn.TarWriter(sys.argv[1] + "/x.tar")
out.write({"__key__": "a", "txt": "1"})
if os.fork() == 0:
    try:
        out.close()
    except RuntimeError as error:
        print(error)
    with tarn.TarWriter(sys.argv[1] + "/y.tar") as own:
        own.write({"__key__": "b", "txt": "2"})
    del out
    sys.exit(0)
os.wait()
out.close()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, tmp_path], text=True,
                          capture_output=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (
        0, "the writer belongs to the parent process", "")
    assert tarfile.open(tmp_path / "x.tar").getnames() == ["a.txt"]


def test_writers_do_not_pickle():
    with tarn.TarWriter(io.BytesIO()) as out:
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(out)


# --- Datasets -------------------------------------------------------------------------------


def test_a_dataset_has_index_and_sums_and_verifies(tmp_path):
    with tarn.DatasetWriter(tmp_path, "val", max_count=4) as out:
        out.write_many({"__key__": f"k{i}", "cls": i, "txt": f"t{i}"} for i in range(10))
        assert "k3" in out and "k10" not in out
        with pytest.raises(FileExistsError):
            out.write({"__key__": "k3", "cls": 1})
    assert everything_in(tmp_path) == ["val.taridx", "val.tarsum", "val_0000.tar", "val_0001.tar",
                                       "val_0002.tar"]
    assert out.written == (10, 20, 30, out.written.bytes, 3)
    assert repr(out) == f"<DatasetWriter '{tmp_path}:val': 10 samples, closed>"
    tool("verify", f"{tmp_path}:val")
    assert tool("get", f"{tmp_path}:val", "k7", "txt") == "t7"


def test_append_resume_and_overwrite(tmp_path):
    def put(keys, **options):
        with tarn.DatasetWriter(tmp_path, max_count=2, **options) as out:
            out.write_many({"__key__": key, "txt": key} for key in keys)
        return out
    put("abc")
    with pytest.raises(FileExistsError):
        put("d")
    put("de", append=True)
    assert everything_in(tmp_path)[-1] == "train_0002.tar"
    with pytest.raises(RuntimeError):
        with tarn.DatasetWriter(tmp_path, max_count=2, resume=True) as out:
            out.write_many({"__key__": key, "txt": key} for key in "fghij")
            raise RuntimeError
    put("j", resume=True)
    assert tool("ls", "-1", tmp_path).split() == list("abcdefghij")
    put("z", overwrite=True)
    assert everything_in(tmp_path) == ["train.taridx", "train.tarsum", "train_0000.tar"]


def test_shards_of_other_folds_are_adopted(tmp_path):
    for fold, keys in (("a", "abcd"), ("b", "efg")):
        with tarn.DatasetWriter(tmp_path, fold, max_count=2) as out:
            out.write_many({"__key__": key, "txt": key} for key in keys)
    with tarn.DatasetWriter(tmp_path / "all") as out:
        out.adopt(f"{tmp_path}:a", [1])
        out.adopt(f"{tmp_path}:b", copy=True)
        out.adopt(f"{tmp_path}:b", [])
        with pytest.raises(FileExistsError):
            out.adopt(f"{tmp_path}:b")
        with pytest.raises(FileNotFoundError):
            out.adopt(f"{tmp_path}:c")
        for bad in ([70000], [-1]):
            with pytest.raises((ValueError, OverflowError)):
                out.adopt(f"{tmp_path}:a", bad)
        out.write({"__key__": "z", "txt": "z"})
    assert tool("ls", "-1", tmp_path / "all").split() == list("cdefgz")
    tool("verify", tmp_path / "all")
    links = [os.stat(p).st_nlink for p in sorted((tmp_path / "all").glob("*.tar"))]
    assert links == [2, 1, 1, 1]
    with tarn.TarWriter(io.BytesIO()) as out:
        with pytest.raises(TypeError):
            out._adopt("x", [], False)


def test_samples_of_a_dataset_are_written_again(tmp_path):
    with tarn.DatasetWriter(tmp_path, "a") as out:
        out.write_many({"__key__": f"k{i}", "cls": i, "txt": f"t{i}", "npy": np.full((2, 2), i)}
                       for i in range(5))
    for decode in (True, False):
        with tarn.DatasetWriter(tmp_path, f"b{decode:d}") as out:
            out.write_many(tarn.open(tmp_path, fold="a", decode=decode))
        assert (tmp_path / f"b{decode:d}_0000.tar").read_bytes() == (
            tmp_path / "a_0000.tar").read_bytes()


def test_progress_is_reported(tmp_path, monkeypatch):
    told = []
    with tarn.TarWriter(tmp_path / "x.tar", progress=lambda *n: told.append(n), sync=False) as out:
        deadline = 400
        while len(told) < 2 and deadline:
            out.write_many({"__key__": f"k{deadline}_{i}", "txt": "x" * 3000} for i in range(2000))
            deadline -= 1
    assert told == sorted(told) and told[-1] == (out.written.samples, out.written.payload)
    with pytest.raises(ZeroDivisionError):
        with tarn.TarWriter(tmp_path / "y.tar", progress=lambda *n: 1 / 0) as out:
            out.write({"__key__": "a", "txt": ""})


@pytest.mark.parametrize("options, message", [
    ({"compress": "lzw"}, "unknown compression"), ({"names": "long"}, "pax"),
    ({"subsampling": "1"}, "4:2:0"),
])
def test_options_that_are_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        tarn.TarWriter("x.tar", **options)
    with pytest.raises(TypeError, match="unknown writer option 'frob'"):
        tarn.TarWriter("x.tar", frob=1)
    with pytest.raises(ValueError, match="at least 1"):
        tarn.ShardWriter("x-%d.tar", max_count=0)


@pytest.mark.parametrize("wrong", [
    {"max_count": 1.5}, {"max_count": "a"}, {"max_count": 2**70}, {"max_size": "1G"}, {"start": -1},
    {"start": 1.5}, {"mode": -1}, {"mode": 2**33}, {"uid": 2**33}, {"gid": 1.5}, {"user": 5},
    {"mtime": "a"}, {"mtime": 2**70}, {"mtime": float("nan")}, {"level": 2**40}, {"level": "a"},
    {"jpeg_quality": "a"}, {"jpeg_quality": 2**40}, {"encoders": 5}, {"encoders": {"txt": 5}},
    {"progress": 5},
], ids=repr)
def test_options_that_are_wrong_are_named(tmp_path, wrong):
    name = next(iter(wrong))
    with pytest.raises(tarn.UsageError, match=name):
        tarn.ShardWriter(tmp_path / "x-%d.tar", **wrong)
    if name != "level":
        with pytest.raises(tarn.UsageError, match=name):
            tarn.DatasetWriter(tmp_path / "x", **wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("field, value", [("json", object()), ("txt", 5), ("cls", None), ("txt", None),
                                          ("npy", np.array([object()])), ("mine", 5)], ids=repr)
def test_a_value_that_cannot_be_written_is_reported_with_its_sample(field, value):
    good = {"__key__": "good", "txt": "x"}
    with tarn.TarWriter(io.BytesIO(), encoders={"mine": lambda value: 1 // 0}) as out:
        for write in (out.write, lambda sample: out.write_many([good, sample])):
            with pytest.raises((TypeError, ValueError, ZeroDivisionError)) as caught:
                write({"__key__": "odd", "aaa": b"1", field: value})
            assert caught.value.__notes__ == [f"sample odd: field {field}"]
            assert value is not None or "None" in str(caught.value)


def test_a_writer_stays_in_its_folder_when_the_program_leaves(tmp_path, monkeypatch, leave_while_writing):
    names = []
    leave_while_writing(
        lambda: tarn.TarWriter("x.tar"), lambda: tarn.DatasetWriter("data", max_count=1),
        lambda: tarn.ShardWriter("x-%d.tar", max_count=1, on_shard=lambda *told: names.append(told[0])))
    monkeypatch.chdir(tmp_path)
    with tarn.open_source("x.txt", "wb") as file:
        file.write(b"1")
        monkeypatch.chdir(tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    with tarn.gnz.create("x.gnz") as arrays, tarn.iac.create("x.iac", {"name": ["a"]}) as pack:
        arrays["x"] = np.arange(3)
        monkeypatch.chdir(tmp_path / "there")
        pack.add(b"1")
    assert sorted(os.listdir(tmp_path)) == ["data", "there", "x-0.tar", "x-1.tar", "x.gnz", "x.iac",
                                            "x.tar", "x.txt"]
    assert tarn.open(tmp_path / "data").keys() == ["a", "b"]
    assert os.listdir(tmp_path / "there") == [] and names == ["x-0.tar", "x-1.tar"]


def test_a_folder_with_a_percent_sign(tmp_path, monkeypatch):
    (tmp_path / "100%d").mkdir()
    monkeypatch.chdir(tmp_path / "100%d")
    with tarn.ShardWriter("x-%d.tar") as out:
        out.write({"__key__": "a", "txt": "1"})
    assert os.listdir() == ["x-0.tar"]


def test_a_dict_of_arrays_may_change_while_it_is_encoded():
    class Adds:
        def __array__(self, dtype=None, copy=None):
            for i in range(5000):
                arrays[f"more {i}"] = np.arange(3)
            return np.arange(2)

    class Takes:
        def __array__(self, dtype=None, copy=None):
            arrays.clear()
            return np.arange(2)

    for odd in (Adds, Takes):
        arrays = {"".join(["the first of ", odd.__name__]): np.arange(4), "odd": odd()}
        names = list(map(str.upper, arrays))
        found = _tarn.decode("npz", _tarn.encode("npz", arrays))
        assert list(map(str.upper, found)) == names
        assert [array.tolist() for array in found.values()] == [[0, 1, 2, 3], [0, 1]]


def test_names_of_arrays_are_not_cut_short():
    with pytest.raises(ValueError, match="NUL"):
        _tarn.encode("npz", {"a\0b": np.arange(2)})


def test_bools_of_numpy_are_numbers_where_numbers_are_wanted(tmp_path):
    values = [np.True_, np.False_, np.array(True), True, np.int8(1), np.uint64(7)]
    with tarn.TarWriter(tmp_path / "x.tar") as out:
        out.write_many({"__key__": str(i), "cls": value} for i, value in enumerate(values))
    assert [sample["cls"] for sample in tarn.open(tmp_path / "x.tar")] == [1, 0, 1, 1, 1, 7]


@pytest.mark.parametrize("end", ["abandon", "close", "forget", "use"])
def test_a_child_leaves_the_files_of_its_parent_alone(tmp_path, end):
    def sample(out, i):
        out.write({"__key__": str(i), "txt": "x"})

    def array(out, i):
        if i == 0:
            out.array = out.reserve("x", (2,), "f4")
        out.array[i:i + 1] = [i + 1]

    for make, use in (
            (lambda: tarn.TarWriter(tmp_path / "x.tar"), sample),
            (lambda: tarn.DatasetWriter(tmp_path / "data"), sample),
            (lambda: tarn.gnz.create(tmp_path / "x.gnz"), array),
            (lambda: tarn.open_source(tmp_path / "x.bin", "wb"), lambda out, i: out.write(b"x" * 1000000)),
            (lambda: tarn.iac.create(tmp_path / "x.iac", {"n": [0, 1]}), lambda out, i: out.add(b"x")),
            (lambda: iTarFoldWriter(tmp_path / "fold", "f", shard_pattern="s%02d"),
             lambda out, i: out.write(str(i), {"txt": "x"}))):
        out = make()
        use(out, 0)
        pid = os.fork()
        if pid == 0:
            refused = False
            try:
                if end == "use":
                    use(out, 1)
                elif end != "forget":
                    getattr(out, end)()
                del out
            except RuntimeError:  # it belongs to the parent
                refused = True
            finally:
                os._exit(0 if refused or end != "use" else 1)
        assert os.waitpid(pid, 0)[1] == 0
        use(out, 1)
        out.close()
    assert len(tarn.open(tmp_path / "x.tar")) == len(tarn.open(tmp_path / "data")) == 2
    assert len(tarn.open(tmp_path / "fold")) == len(tarn.iac.open(tmp_path / "x.iac")) == 2
    assert list(tarn.gnz.open(tmp_path / "x.gnz")["x"]) == [1, 2]
    assert (tmp_path / "x.bin").read_bytes() == b"x" * 2000000


def test_invalid_targets_are_reported_at_once():
    for wrong in (lambda: tarn.TarWriter(""), lambda: tarn.TarWriter(None), lambda: tarn.TarWriter(5),
                  lambda: tarn.ShardWriter(""), lambda: tarn.DatasetWriter(""), lambda: tarn.DatasetWriter("x", 5),
                  lambda: tarn.ShardWriter("x-%d.tar", on_shard=5)):
        with pytest.raises(tarn.UsageError):
            wrong()


@pytest.mark.parametrize("sample", [None, 5, [], "a"], ids=repr)
def test_a_value_that_is_not_a_dict_is_not_a_sample(sample):
    with tarn.TarWriter(io.BytesIO()) as out, pytest.raises(TypeError, match="a sample must be a dict"):
        out.write(sample)


# --- File objects, threads, leaks -------------------------------------------------------------


class Failing(io.BytesIO):
    def write(self, data):
        if self.tell() > 100_000:
            raise BrokenPipeError("gone")
        return super().write(data)


def test_a_file_object_that_fails_is_its_own_exception():
    with pytest.raises(BrokenPipeError, match="gone"):
        with tarn.TarWriter(Failing()) as out:
            for i in range(10000):
                out.write({"__key__": f"k{i}", "bin": b"x" * 10000})


class Slow(io.RawIOBase):
    """A raw file that accepts few bytes at a time."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data[:1000])
        return min(1000, len(data))


def test_a_raw_file_that_takes_little_gets_all():
    file, whole = Slow(), io.BytesIO()
    for target in (file, whole):
        with tarn.TarWriter(target) as out:
            out.write({"__key__": "a", "bin": bytes(range(256)) * 40})
    assert bytes(file.data) == whole.getvalue()


def test_a_callback_cannot_come_back_into_its_writer(tmp_path):
    caught = []
    def again(*what):
        try:
            out.write({"__key__": "x", "txt": ""})
        except (RuntimeError, ValueError) as error:
            caught.append(str(error))
    with tarn.ShardWriter(tmp_path / "x-%d.tar", max_count=1, on_shard=again) as out:
        out.write_many({"__key__": f"k{i}", "txt": "x"} for i in range(3))
    assert len(caught) == 3


def test_encoders_and_iterators_may_write_too():
    file = io.BytesIO()
    def encode(value):
        out.write({"__key__": f"inner{value}", "txt": "i"})
        return b"outer"
    def some():
        for i in range(3):
            out.write({"__key__": f"first{i}", "txt": "f"})
            yield {"__key__": f"then{i}", "x": i}
    with tarn.TarWriter(file, encoders={"x": encode}) as out:
        out.write_many(some())
    names = list(members(file.getvalue()))
    assert len(names) == 9 and names[-3:] == ["then0.x", "then1.x", "then2.x"]


def test_an_iterator_may_wait_for_another_thread_that_writes():
    import queue
    todo, file = queue.Queue(), io.BytesIO()
    with tarn.TarWriter(file) as out:
        def other():
            for i in range(5):
                out.write({"__key__": f"other{i}", "txt": "o"})
                todo.put({"__key__": f"queued{i}", "txt": "q"})
            todo.put(None)
        thread = threading.Thread(target=other)
        thread.start()
        out.write_many(iter(todo.get, None))
        thread.join()
    assert len(members(file.getvalue())) == 10


def test_threads_share_a_writer():
    file = io.BytesIO()
    with tarn.TarWriter(file) as out:
        def put(thread):
            for i in range(300):
                out.write({"__key__": f"t{thread}_{i}", "bin": bytes([thread]) * i, "json": [i]})
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(put, range(6)))
    got = members(file.getvalue())
    assert len(got) == 3600
    assert all(got[f"t{t}_{i}.bin"] == bytes([t]) * i for t in range(6) for i in range(300))


def test_closing_while_another_thread_writes():
    for _ in range(20):
        out = tarn.TarWriter(io.BytesIO())
        def put():
            try:
                while True:
                    out.write({"__key__": "k", "bin": b"x" * 1000})
            except ValueError as error:
                assert "closed" in str(error)
        thread = threading.Thread(target=put)
        thread.start()
        out.close()
        thread.join()


def memory():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Sieve(io.RawIOBase):
    def write(self, data):
        return len(data)


@pytest.mark.skipif("TARN_SANITIZED" in os.environ, reason="the sanitizer keeps freed memory")
def test_memory_stays_flat():
    array = np.zeros((8, 8, 3), "uint8")
    def work(count):
        with tarn.TarWriter(Sieve()) as out:
            for i in range(count):
                out.write({"__key__": f"k{i}", "bin": b"x" * 2000, "json": {"a": i}, "png": array,
                           "npz": {"a": array}, "cls": i})
                try:
                    out.write({"__key__": f"k{i}", "ok": b"x" * 2000, "json": object()})
                except TypeError:
                    pass
    work(2000)
    gc.collect()
    before = memory()
    work(10000)
    gc.collect()
    assert memory() - before < 8 << 20


def test_references_are_given_back():
    value, key, name = b"v" * 1000, "".join(["key of", " its own"]), "".join(["na", "me7"])
    def counts():
        return [sys.getrefcount(x) for x in (value, key, name)]
    before = counts()
    for many in (False, True):
        with tarn.TarWriter(io.BytesIO(), strict=False) as out:
            for _ in range(10):
                if many:
                    out.write_many([{"__key__": key, name: value}] * 3)
                else:
                    out.write({"__key__": key, name: value})
            with pytest.raises(TypeError):
                out.write({"__key__": key, name: value, "json": object()})
    gc.collect()
    assert counts() == before


def test_the_time_of_members(monkeypatch):
    def times(**options):
        file = io.BytesIO()
        with tarn.TarWriter(file, **options) as out:
            out.write({"__key__": "a", "txt": ""})
        return [m.mtime for m in tarfile.open(fileobj=io.BytesIO(file.getvalue()))]
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert times() == [0]
    assert times(mtime=5) == [5]
    assert times(mtime=5.25) == [5.25]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "77")
    assert times() == [77]


# --- Without samples ---


@pytest.mark.parametrize("options", [{}, {"append": True}, {"resume": True}, {"overwrite": True},
                                     {"start": 3, "digits": 2}])
def test_a_fold_without_samples_is_a_dataset_of_length_0(tmp_path, options):
    with tarn.DatasetWriter(tmp_path / "new", "val", **options) as out:
        pass
    out.close()
    assert out.written.samples == 0
    shard = "val_03.tar" if "start" in options else "val_0000.tar"
    assert sorted(os.listdir(tmp_path / "new")) == ["val.taridx", "val.tarsum", shard]
    assert tarfile.open(tmp_path / "new" / shard).getnames() == []
    ds = tarn.open(tmp_path / "new")
    assert len(ds) == 0 and list(ds) == [] and list(ds.shuffle(1).shard(0, 2).loader(2)) == []
    with tarn.DatasetWriter(tmp_path / "new", "val", append=True) as out:
        out.write({"__key__": "a", "cls": 1})
    assert tarn.open(tmp_path / "new").keys() == ["a"]


def test_no_samples_leave_an_existing_fold_unless_they_replace_it(tmp_path):
    for options, expected in (({}, ["a"]), ({"append": True}, ["a"]), ({"resume": True}, ["a"]),
                              ({"overwrite": True}, [])):
        with tarn.DatasetWriter(tmp_path, "val", **(options or {"resume": True})) as out:
            if not options:
                out.write({"__key__": "a", "cls": 1})
        assert tarn.open(tmp_path).keys() == expected
    source, target = tmp_path / "source", tmp_path / "target"
    with tarn.DatasetWriter(source, "a") as out:
        out.write({"__key__": "b", "cls": 1})
    with tarn.DatasetWriter(target, "a") as out:
        out.adopt(f"{source}:a")                   # has no samples itself
    assert tarn.open(target).keys() == ["b"]
    interrupted = tarn.DatasetWriter(target, "rest", resume=True, max_count=1)
    interrupted.write({"__key__": "c", "cls": 1})
    interrupted.write({"__key__": "d", "cls": 1})
    interrupted.suspend()
    with tarn.DatasetWriter(target, "rest", resume=True) as out:
        pass
    assert tarn.open(target, "rest").keys() == ["c"]


def test_an_abandoned_writer_without_samples_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError):
        with tarn.DatasetWriter(tmp_path, "val"):
            raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_archives_arrays_and_packs_without_samples_have_length_0(tmp_path):
    with tarn.TarWriter(tmp_path / "a.tar"):
        pass
    with tarn.gnz.create(tmp_path / "a.gnz") as out:
        out.add("x", np.zeros((0, 3), "f4"))
    with tarn.iac.create(tmp_path / "a.iac", {"name": []}):
        pass
    for name in ("a.tar", "a.gnz", "a.iac"):
        ds = tarn.open(tmp_path / name)
        assert len(ds) == 0 and list(ds) == [] and list(ds.loader(2)) == []
    with tarn.gnz.create(tmp_path / "none.gnz"):
        pass                                       # no arrays: a file, but no samples
    with pytest.raises(tarn.KeyNotFoundError, match="no array has rows"):
        tarn.open(tmp_path / "none.gnz")


def test_names_of_fields_are_written_as_they_are_or_refused(tmp_path):
    with tarn.TarWriter(tmp_path / "odd.tar") as out:
        out.write({"__key__": "a", "txt": b"1", ".txt": b"2", "..": b"3"})
    tool("convert", "-q", tmp_path / "odd.tar", tmp_path / "fold")
    tool("convert", "-q", tmp_path / "fold", tmp_path / "again.tar")
    for name in ("odd.tar", "fold", "again.tar"):
        ds = tarn.open(tmp_path / name, decode="bytes")
        sample = {field: bytes(ds[0][field]) for field in ds.fields}
        assert sample == {"txt": b"1", ".txt": b"2", "..": b"3"}
    with tarn.DatasetWriter(tmp_path / "new") as out:
        for name in ("..", "..txt"):
            with pytest.raises(tarn.UsageError, match="begins with two dots"):
                out.write({"__key__": "a", name: b"1"})
        out.write({"__key__": "a", ".txt": b"1"})
    assert tarn.open(tmp_path / "new").fields == ("txt",)
