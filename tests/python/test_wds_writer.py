"""tarn.wds writers next to the real webdataset: the same bytes, results and exceptions."""
import contextlib
import gzip
import hashlib
import inspect
import io
import json
import os
import pickle
import tarfile

import pytest
from hypothesis import given, settings, strategies as st

from tarn import open_source, wds

real = pytest.importorskip("webdataset")
np = pytest.importorskip("numpy")
from webdataset import writer as real_writer  # noqa: E402


def outcome(module, samples, **options):
    """Returns the bytes that a TarWriter writes, what write returned, and what it raised."""
    stream, said = io.BytesIO(), []
    writer = module.TarWriter(stream, **options)
    for sample in samples:
        try:
            said.append(writer.write(dict(sample)))
        except Exception as error:
            said.append(error)
            if module is real:
                break
    with contextlib.suppress(Exception):
        writer.close()
    return stream.getvalue(), said


def same(samples, **options):
    theirs, ours = outcome(real, samples, **options), outcome(wds, samples, **options)
    assert ours[1] == theirs[1]
    assert ours[0] == theirs[0]


text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1,
               max_size=60)
fields = st.text(st.characters(exclude_characters="\0_", exclude_categories=("Cs",)), min_size=1,
                 max_size=12).filter(lambda s: s[0] != "_" and not s.endswith(".gz"))  # gzip stores the time
owners = st.one_of(st.just("bigdata"), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
times = st.one_of(st.integers(-10, 2 ** 36), st.floats(-1e3, 1e12, allow_nan=False))


@given(st.lists(st.tuples(text, st.dictionaries(fields, st.binary(max_size=1200), max_size=4)),
                max_size=5), times, owners, owners, st.integers(0, 0o177777))
@settings(max_examples=150, deadline=None)
def test_bytes_are_theirs_whatever_is_written(values, mtime, user, group, mode):
    samples = [{"__key__": key, **some} for key, some in values]
    same(samples, mtime=mtime, user=user, group=group, mode=mode, encoder=False)


@given(st.dictionaries(fields, st.binary(max_size=600), max_size=4),
       st.dictionaries(fields.map(lambda s: "_" + s), st.text(max_size=20).filter(
           lambda s: s.isascii()), max_size=3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_metadata_is_kept_when_asked(some, meta, keep):
    samples = [{"__key__": "k", "__url__": "u", **some, **meta}]
    same(samples, mtime=0, keep_meta=keep)
    same(samples, mtime=0, keep_meta=keep, encoder=False)


def test_metadata_is_never_compressed():
    same([{"__key__": "k", "_.gz": "", "_x.gz": "text", "txt": b"1"}], mtime=0, keep_meta=True)


@pytest.mark.parametrize("key", ["k" * 101, "clé", "d/e.f/g", "a b", "x\udcff", "k" * 98 + "é", "."])
def test_odd_keys(key):
    same([{"__key__": key, "txt": b"x", "A": b"1", "a-b": b"2"}], mtime=0)


# --- Encoders -------------------------------------------------------------------------------

VALUES = [
    ("cls", 5), ("cls", -1.5), ("cls", None), ("cls", [1]), ("cls", np.int32(7)), ("CLS", True),
    ("index", 10 ** 30), ("txt", "é\n"), ("html", b"raw"), ("jpg", "a text"), ("json", {"é": [1.5, None]}),
    ("json", [float("nan"), 1e22]), ("jsn", "text as it is"), ("x.json", 1), ("pyd", {1, 2}),
    ("pickle", (1, "a")), ("npy", np.arange(6).reshape(2, 3)), ("npy", np.zeros((2, 0))),
    ("npy", np.array(["a", "bc"])), ("npy", np.array([{}], dtype=object)),
    ("npy", np.array([1], "M8[s]")), ("ten", np.arange(4.0)), ("tb", [np.arange(4.0), np.ones((2, 2), "f4")]),
    ("bin", b"\0"), ("anything", "text"), ("ppm", np.arange(48, dtype="u1").reshape(4, 4, 3)),
]


@pytest.mark.parametrize("field, value", VALUES, ids=lambda v: str(v)[:20].replace("/", ""))
def test_encoded_values_are_the_same_bytes(field, value):
    same([{"__key__": "k", field: value}], mtime=0)


REFUSED = [("xyz", 5), ("txt", 5), ("npy", [1]), ("npz", [1]), ("npz", {"a": 1}), ("json", object()),
           ("jpg", np.full((4, 4), 2.0)), ("jpg", np.zeros((4, 4, 2), "u1")), ("png", "x".encode),
           ("jpg", np.zeros((2, 2, 2, 2), "u1")), ("cls", "é".encode), ("xyz", bytearray(b"1")), ("_m", 5)]


@pytest.mark.parametrize("field, value", REFUSED, ids=lambda v: str(v)[:20])
def test_what_they_refuse_is_refused_with_the_same_exception(field, value):
    if field == "cls":
        value = "é"
        sample = {"__key__": "k", "cls": type("X", (), {"__str__": lambda self: "é"})()}
    else:
        sample = {"__key__": "k", field: value}
    with pytest.raises(Exception) as theirs:
        real.TarWriter(io.BytesIO()).write(dict(sample))
    with pytest.raises(Exception) as ours:
        with wds.TarWriter(io.BytesIO()) as writer:
            writer.write(dict(sample))
    assert issubclass(ours.type, theirs.type), (ours, theirs)
    with pytest.raises(ValueError, match="must contain a __key__"):
        with wds.TarWriter(io.BytesIO()) as writer:
            writer.write({"txt": "x"})


def test_images_have_their_pixels():
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(3)
    grey, colour = rng.integers(0, 256, (20, 17), "u1"), rng.integers(0, 256, (20, 17, 3), "u1")
    for field in ("jpg", "jpeg", "img", "png", "ppm", "tiff"):
        for value in (grey, colour, colour / 255.0, (grey / 255.0).astype("f4"), image.fromarray(colour),
                      image.fromarray(grey)):
            ours = members(outcome(wds, [{"__key__": "k", field: value}])[0])
            theirs = members(outcome(real, [{"__key__": "k", field: value}])[0])
            a, b = (np.asarray(image.open(io.BytesIO(m["k." + field]))).astype(int)
                    for m in (ours, theirs))
            assert a.shape == b.shape and np.abs(a - b).max() <= (3 if field[0] in "ji" else 0)
    for value in (colour, colour / 255.0, image.fromarray(colour)):
        ours = members(outcome(wds, [{"__key__": "k", "pgm": value, "pbm": value}])[0])
        assert ours["k.pgm"].startswith(b"P5") and ours["k.pbm"].startswith(b"P4")
        grey_of = np.asarray(image.open(io.BytesIO(ours["k.pgm"])))
        assert np.array_equal(grey_of, np.asarray(image.fromarray(colour).convert("L")))
    rgba = image.fromarray(rng.integers(0, 256, (5, 5, 4), "u1"))
    assert members(outcome(wds, [{"__key__": "k", "png": rgba}])[0])


@pytest.mark.parametrize("format", [
    "JPG", "jpg", "JPEG", "jpeg", "Jpeg", "PNG", "png", "ppm", "PPM", "tiff", "TIFF", "img", "IMAGE", "bmp",
    "webp", "gif", "nope"])
def test_images_in_any_format_of_pillows(format):
    image = pytest.importorskip("PIL.Image")
    colour = np.random.default_rng(5).integers(0, 256, (20, 17, 3), "u1")
    for value in (colour, colour / 255.0, colour[:, :, 0], image.fromarray(colour)):
        try:
            theirs = real_writer.imageencoder(value, format)
        except Exception as error:
            with pytest.raises(type(error)):
                wds.writer.imageencoder(value, format)
            continue
        a, b = (image.open(io.BytesIO(data))
                for data in (theirs, wds.writer.imageencoder(value, format)))
        assert a.format == b.format and np.array_equal(np.asarray(a), np.asarray(b))


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}


def test_npz_and_gz_hold_the_same():
    arrays = {"a": np.arange(5), "b": np.ones((2, 2))}
    got = members(outcome(wds, [{"__key__": "k", "npz": arrays, "json.gz": [1], "txt.gz": "t",
                                 "bin.gz": b"b", ".gz": b"only"}])[0])
    with np.load(io.BytesIO(got["k.npz"])) as npz:
        assert all(np.array_equal(npz[name], arrays[name]) for name in arrays)
    assert [gzip.decompress(got["k." + name]) for name in ("json.gz", "txt.gz", "bin.gz", ".gz")] == [
        b"[1]", b"t", b"b", b"only"]


def test_encoders_of_ones_own():
    same([{"__key__": "k", "x": 5, "txt": "t"}], mtime=0, encoder={"x": lambda v: b"%d" % v})
    same([{"__key__": "k", "x": 5}], mtime=0,
         encoder=lambda s: {k: v if k == "__key__" else str(v).encode() for k, v in s.items()})
    for spec in ("no such", 5):
        for module in (real, wds):
            with pytest.raises(ValueError, match="unknown decoder spec"):
                module.TarWriter(io.BytesIO(), encoder=spec)
    for module in (real, wds):
        with pytest.raises(ValueError, match="no handler found for txt"):
            module.TarWriter(io.BytesIO(), encoder={}).write({"__key__": "k", "txt": 5})
    assert wds.numpy_dumps(np.arange(3)) == real.numpy_dumps(np.arange(3))
    assert set(wds.writer.default_handlers) == set(real_writer.default_handlers)


@pytest.mark.parametrize("field", ["cls", "cls2", "class", "count", "index", "inx", "id", "a.cls"])
def test_encoders_of_ones_own_for_numbers(field, monkeypatch):
    """Numbers are encoded in C only by the default encoder."""
    last = field.rpartition(".")[2]
    sample = {"__key__": "k", field: 5, "_note": "n"}
    same([sample], mtime=0, encoder={last: lambda v: b"<%d>" % v})
    same([sample], mtime=0, encoder={last: lambda v: b"<%d>" % v}, keep_meta=True)
    for module in (real, wds):
        with pytest.raises(ValueError, match="no handler found for " + last):
            module.TarWriter(io.BytesIO(), encoder={}).write(dict(sample))
        handlers = (real_writer if module is real else wds.writer).default_handlers
        monkeypatch.setitem(handlers, last, lambda v: b"[%d]" % v)
    same([sample], mtime=0)


def test_arguments_and_defaults_are_theirs():
    for name in ("TarWriter", "ShardWriter", "WebDataset", "gopen", "tarfile_samples", "SimpleShardList",
                 "ResampledShards", "RandomMix", "RoundRobin", "MockDataset", "Decoder"):
        theirs = inspect.signature(getattr(real, name)).parameters
        ours = inspect.signature(getattr(wds, name)).parameters
        assert [n for n in ours][:len(theirs)] == [n for n in theirs], name
        for parameter, kind in theirs.items():
            if parameter in ("url_to_name", "handler", "nodesplitter", "workersplitter"):
                continue
            assert ours[parameter].default == kind.default, (name, parameter)
    for name in dir(real.WebDataset):
        if not name.startswith("_") and name not in ("functions", "lmdb_cached", "create_url_iterator",
                                                     "update_cache_info", "register_function",
                                                     "register_datapipe_as_function"):
            assert hasattr(wds.WebDataset, name), name


# --- Files and compression --------------------------------------------------------------------


@pytest.mark.parametrize("suffix, options, kind", [
    ("tar", {}, "plain"), ("tar.gz", {}, "gz"), ("tgz", {}, "gz"), ("tar.bz2", {}, "bz2"), ("txz", {}, "xz"),
    ("tar.gz", {"compress": False}, "plain"), ("tar", {"compress": True}, "gz"),
    ("tar", {"compress": "bz2"}, "bz2"), ("tar", {"compress": "xz"}, "xz"), ("tar.zst", {}, "zst"),
])
def test_compression_by_suffix_or_argument(tmp_path, suffix, options, kind):
    path = str(tmp_path / f"x.{suffix}")
    with wds.TarWriter(path, **options) as writer:
        writer.write({"__key__": "a", "txt": "hello"})
    magic = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7z", "zst": b"\x28\xb5\x2f\xfd", "plain": b"a.tx"}
    assert open(path, "rb").read(8).startswith(magic[kind])
    if kind != "zst":
        assert [s["txt"] for s in real.WebDataset([path], shardshuffle=False)] == [b"hello"]
    assert [s["txt"] for s in wds.WebDataset([path], shardshuffle=False)] == [b"hello"]


def test_a_file_object_stays_open():
    stream = io.BytesIO()
    with wds.TarWriter(stream, compress="gz") as writer:
        writer.write({"__key__": "a", "txt": "hello"})
    assert gzip.decompress(stream.getvalue())[:5] == b"a.txt"


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with wds.TarWriter(str(tmp_path / "x.tar")) as writer:
            writer.write({"__key__": "a", "txt": "hello"})
            1 / 0
    with pytest.raises(ZeroDivisionError):
        with wds.ShardWriter(str(tmp_path / "y%d.tar"), verbose=0, maxcount=2) as writer:
            for i in range(5):
                writer.write({"__key__": str(i), "txt": "hello"})
            1 / 0
    assert sorted(os.listdir(tmp_path)) == ["y0.tar", "y1.tar"]


# --- Shards -----------------------------------------------------------------------------------


def shards(module, folder, samples, capsys, **options):
    folder.mkdir()
    seen = []
    with module.ShardWriter(str(folder / "x%04d.tar"), mtime=0, post=lambda name: seen.append(
            os.path.basename(name)), **options) as writer:
        results = [writer.write(dict(sample)) for sample in samples]
    said = capsys.readouterr().out.replace(str(folder), "")
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
    return files, seen, results, said


@pytest.mark.parametrize("options", [
    {}, {"maxcount": 7}, {"maxsize": 4000}, {"maxcount": 5, "maxsize": 3000.5}, {"maxcount": 2.5},
    {"maxcount": 1}, {"start_shard": 3, "maxcount": 50}, {"maxsize": 1}, {"verbose": 0, "maxcount": 30},
    {"keep_meta": True, "user": "me"},
], ids=str)
def test_shards_messages_and_callbacks_are_theirs(tmp_path, capsys, options):
    samples = [{"__key__": f"s{i:03}", "bin": b"x" * (i * 37 % 900), "cls": i, "_m": "m"} for i in range(60)]
    theirs = shards(real, tmp_path / "theirs", samples, capsys, **options)
    ours = shards(wds, tmp_path / "ours", samples, capsys, **options)
    assert ours == theirs


def test_counters_are_theirs(tmp_path):
    for module in (real, wds):
        (tmp_path / module.__name__).mkdir()
    ours, theirs = (m.ShardWriter(str(tmp_path / m.__name__ / "x%d.tar"), maxcount=3, verbose=0)
                    for m in (wds, real))
    for i in range(8):
        for writer in (ours, theirs):
            writer.write({"__key__": str(i), "txt": "x" * i})
        for name in ("count", "size", "total", "shard"):
            assert getattr(ours, name) == getattr(theirs, name), (i, name)
        assert os.path.basename(ours.fname) == os.path.basename(theirs.fname)
    ours.next_stream(), theirs.next_stream()
    ours.close(), theirs.close()


def test_an_opener_makes_the_files(tmp_path):
    for module in (real, wds):
        made = {}
        def opener(name):
            made[os.path.basename(name)] = io.BytesIO()
            return made[os.path.basename(name)]
        with module.ShardWriter(str(tmp_path / "x%d.tar.gz"), opener=opener, maxcount=2, mtime=0,
                                verbose=0) as writer:
            for i in range(3):
                writer.write({"__key__": str(i), "txt": "x"})
        made = {name: file.getvalue() for name, file in made.items()}
        if module is real:
            theirs = made
    assert made == theirs and sorted(made) == ["x0.tar.gz", "x1.tar.gz"]


def test_files_of_tarn_that_an_opener_makes_are_complete(tmp_path):
    def opener(name):
        return open_source(name, "wb")

    def samples(fail):
        yield from ({"__key__": str(i), "txt": "x"} for i in range(3))
        if fail:
            raise KeyError("the fourth")

    seen = []
    with wds.ShardWriter(str(tmp_path / "x%d.tar"), opener=opener, maxcount=2, verbose=0,
                         post=lambda name: seen.append(tarfile.open(name).getnames())) as out:
        out.write_many(samples(False))
    assert seen == [["0.txt", "1.txt"], ["2.txt"]]
    with pytest.raises(KeyError):
        with wds.ShardWriter(str(tmp_path / "y%d.tar"), opener=opener, maxcount=2, verbose=0) as out:
            out.write_many(samples(True))
    assert sorted(os.listdir(tmp_path)) == ["x0.tar", "x1.tar", "y0.tar"]


def test_a_writer_stays_in_its_folder_when_the_program_leaves(tmp_path, monkeypatch, leave_while_writing):
    names = []
    leave_while_writing(
        lambda: wds.TarWriter("x.tar"),
        lambda: wds.ShardWriter("x-%d.tar", maxcount=1, verbose=0, post=names.append))
    assert sorted(os.listdir(tmp_path)) == ["there", "x-0.tar", "x-1.tar", "x.tar"]
    assert os.listdir(tmp_path / "there") == [] and names == ["x-0.tar", "x-1.tar"]
    (tmp_path / "100%d").mkdir()
    monkeypatch.chdir(tmp_path / "100%d")
    with wds.ShardWriter("x-%d.tar", verbose=0) as out:
        out.write({"__key__": "a", "txt": "1"})
    assert os.listdir() == ["x-0.tar"]



@pytest.mark.parametrize("pattern", ["x.tar", "x%d%d.tar", "x%q.tar"])
def test_patterns_that_are_none(tmp_path, pattern):
    with pytest.raises((TypeError, ValueError)) as theirs:
        real.ShardWriter(str(tmp_path / pattern), verbose=0)
    with pytest.raises(theirs.type):
        wds.ShardWriter(str(tmp_path / pattern), verbose=0)


def test_numbers_of_shards_are_not_negative(tmp_path):
    with pytest.raises(ValueError, match="not -2"):
        wds.ShardWriter(str(tmp_path / "x%d.tar"), start_shard=-2, verbose=0)
    assert os.listdir(tmp_path) == []


def test_the_first_shard_is_made_by_the_first_sample(tmp_path):
    with wds.ShardWriter(str(tmp_path / "x%d.tar"), verbose=0):
        pass
    assert os.listdir(tmp_path) == []


@given(st.lists(st.dictionaries(st.sampled_from(["txt", "cls", "seg.png", "bin"]), st.binary(max_size=2000),
                                min_size=1), min_size=1, max_size=12), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_real_one_and_ours_read_back_what_was_written(tmp_path_factory, values, count):
    folder = tmp_path_factory.mktemp("back")
    with wds.ShardWriter(str(folder / "x%02d.tar"), maxcount=count, verbose=0, sync=False) as writer:
        writer.write_many({"__key__": f"k{i}", **some} for i, some in enumerate(values))
    urls = sorted(map(str, folder.iterdir()))
    want = [{"__key__": f"k{i}", **some} for i, some in enumerate(values)]
    for module in (real, wds):
        got = [{k: v for k, v in s.items() if k not in ("__url__", "__local_path__")}
               for s in module.WebDataset(urls, shardshuffle=False)]
        assert got == want


def test_pickles_are_written_but_read_only_when_named(tmp_path):
    path = str(tmp_path / "x.tar")
    with wds.TarWriter(path) as writer:
        writer.write({"__key__": "a", "pyd": {"x": 1}})
    with pytest.raises(wds.DecodingError, match="decode\\('pickle'\\)"):
        list(wds.WebDataset(path, shardshuffle=False).decode())
    for decoder in ("pickle", wds.unpickle, wds.handle_extension("pyd", pickle.loads)):
        [sample] = wds.WebDataset(path, shardshuffle=False).decode(decoder)
        assert sample["pyd"] == {"x": 1}


@pytest.mark.parametrize("module", [real, wds])
def test_shards_are_rewritten_by_their_own_names(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOPEN_REWRITE", "x-1=moved")
    posted = []
    with module.ShardWriter("x-%d.tar", maxcount=1, mtime=0, verbose=0, post=posted.append) as sink:
        for i in range(3):
            sink.write({"__key__": str(i), "cls": i})
    assert sorted(os.listdir()) == ["moved.tar", "x-0.tar", "x-2.tar"]
    assert posted == ["x-0.tar", "x-1.tar", "x-2.tar"]
    assert tarfile.open("moved.tar").getnames() == ["1.cls"]


@pytest.mark.parametrize("module", [real, wds])
def test_a_rule_that_rewrites_nothing_is_refused(module, tmp_path, monkeypatch):
    monkeypatch.setenv("GOPEN_REWRITE", "no rule")
    with pytest.raises(ValueError):
        module.gopen(str(tmp_path / "x"), "wb")


@pytest.mark.parametrize("name", ["npy", "npz"])
def test_numbers_that_numpy_alone_writes(name):
    array = np.arange(3, dtype=np.longdouble)
    same([{"__key__": "a", name: array}] if name == "npy" else [], mtime=0)
    data = outcome(wds, [{"__key__": "a", name: array if name == "npy" else {"x": array}}], mtime=0)[0]
    found = np.load(io.BytesIO(tarfile.open(fileobj=io.BytesIO(data)).extractfile(f"a.{name}").read()))
    found = found if name == "npy" else found["x"]
    assert found.dtype == array.dtype and (found == array).all()


@pytest.mark.parametrize("module", [real, wds])
def test_an_empty_name_is_not_a_file(module):
    with pytest.raises(FileNotFoundError):
        module.TarWriter("")


def test_gzip_is_packed_as_theirs(tmp_path):
    packed = []
    for module in (real, wds):
        path = tmp_path / f"{module.__name__}.tar.gz"
        with module.TarWriter(str(path), mtime=0) as writer:
            for i in range(50):
                writer.write({"__key__": f"{i}", "txt": f"some text, {i % 7} of it, and more {i * i} " * 20})
        data = path.read_bytes()
        packed.append(data[data.index(b"\0", 10) + 1 if data[3] & 8 else 10:])
    assert packed[0] == packed[1]


def test_a_finished_shard_is_reported_until_the_next(tmp_path):
    def told(sink):
        return sink.count, sink.size, sink.shard, sink.total, os.path.basename(sink.fname)
    seen = []
    for module in (real, wds):
        folder = tmp_path / module.__name__
        folder.mkdir()
        with module.ShardWriter(f"{folder}/x%d.tar", maxcount=2, verbose=0, mtime=0) as sink:
            sink.write({"__key__": "a", "cls": 1})
            before = told(sink)
            sink.finish()
            after = told(sink)
            if module is real:
                sink.next_stream()
            sink.write({"__key__": "b", "cls": 2})
            seen.append((before, after, told(sink)))
    assert seen[0] == seen[1]
    assert sorted(os.listdir(tmp_path / "tarn.wds")) == sorted(os.listdir(tmp_path / "webdataset"))
