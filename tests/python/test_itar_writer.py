"""tarn.itar's writers: glzn's bytes (fixtures), its checks, and no files after an error."""
import gc
import io
import json
import os
import pathlib
import pickle

import pytest

import tarn
from tarn.itar import (
    decoder_for,
    encoder_for,
    encoders,
    iTarDataset,
    iTarDatasetWriter,
    iTarFoldWriter,
    iTarState,
)
from tarn.itar import writer as module

np = pytest.importorskip("numpy")
DATA = pathlib.Path(os.environ["TARN_DATA"])


def test_the_reference_writers_bytes(tmp_path, monkeypatch):
    fixture = DATA / "09a_writer_maxfiles"
    manifest = json.loads((fixture / "manifest.train.json").read_text())
    monkeypatch.setattr(module.time, "time", lambda: 1700000000.9)
    with iTarFoldWriter(tmp_path, "train", username="fixture", shard_maxfiles=4) as w:
        for item in manifest["inputs_in_order"]:
            fields = {name: text if name.lower().endswith("txt") else int(text)
                      for name, text in item["members"]}
            w.write(item["key"], fields)
    for path in fixture.glob("train*"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_encoders_make_the_references_files():
    manifest = json.loads((DATA / "08_encoders/manifest.json").read_text())
    seen = 0
    for item in manifest["items"]:
        data = (DATA / "08_encoders" / item["file"]).read_bytes()
        ext = item["ext"]
        if ext in ("pkl", "png"):
            continue
        value = decoder_for(ext)(data)
        if ext == "json" and b"NaN" not in data or ext in ("txt", "cls", "npy", "rle"):
            assert encoder_for(ext)(value) == data, item["file"]
        elif ext.startswith("seg"):
            assert np.array_equal(decoder_for(ext)(encoder_for(ext)(value)), value)
        seen += 1
    assert seen > 20


def test_images_keep_their_format():
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.fromarray(np.zeros((4, 5, 3), "u1")).save(out, "PNG")
    opened = image.open(io.BytesIO(out.getvalue()))
    data = encoder_for("jpg")(opened)
    assert data.startswith(b"\x89PNG")
    assert decoder_for("left.webp")(data).mode == "RGB"
    with pytest.raises(AssertionError):
        encoder_for("jpg")(image.new("RGB", (2, 2)))


def test_encoders_and_their_refusals(monkeypatch):
    assert encoder_for("cls")(2.5) == b"2.5" and decoder_for("cls")(b" 1_0 ") == 10
    assert encoder_for("json")("é") == b'"\\u00e9"'
    with pytest.raises(AssertionError):
        encoder_for("txt")(5)
    for ext in ("rle", "seg8", "seg16", "seg24", "seg32"):
        with pytest.raises(TypeError, match="not str"):
            encoder_for(ext)("text")
    for ext in ("f0.txt", "xyz", "_idx", ""):
        with pytest.raises(KeyError):
            encoder_for(ext)
    assert decoder_for("f0.txt")(b"x") == "x"
    with pytest.raises(ValueError, match="TARN_ALLOW_PICKLE=1"):
        decoder_for("pkl")(pickle.dumps(5))
    monkeypatch.setenv("TARN_ALLOW_PICKLE", "1")
    assert decoder_for("pkl")(encoder_for("pkl")({1})) == {1}
    with pytest.raises(ValueError):
        decoder_for("npy")(encoder_for("npy")(np.array([{}], object)))


@pytest.mark.parametrize("array", [
    np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.array(3), np.zeros((0, 3), "f4"),
    np.array(["a", "bcd"]), np.arange(3, dtype=">i4"), np.arange(10)[::2], np.longdouble([1, 2]),
    np.array([1], "M8[s]"), np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), [1, 2],
], ids=lambda array: np.asarray(array).dtype.str)
def test_arrays_are_numpys_bytes(array):
    out = io.BytesIO()
    np.save(out, array)
    assert encoder_for("npy")(array) == out.getvalue()
    assert np.array_equal(decoder_for("npy")(out.getvalue()), np.asarray(array))


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGB", "RGBA", "I;16"])
def test_labels_of_eight_bits_are_any_image_made_grey(mode):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(5).integers(0, 256, (7, 9, 4), "u1")
    if mode == "I;16":
        picture = image.fromarray(pixels[:, :, :2].copy().view("<u2")[:, :, 0])
    else:
        picture = image.fromarray(pixels).convert("RGB").convert(mode)
    out = io.BytesIO()
    picture.save(out, "PNG")
    got = decoder_for("seg8")(out.getvalue())
    want = np.array(image.open(io.BytesIO(out.getvalue())).convert("L"))
    assert got.dtype == np.uint8 and np.array_equal(got, want)
    with pytest.raises(ValueError):
        decoder_for("seg8")(out.getvalue()[:40])
    with pytest.raises(OSError, match="cannot identify"):
        decoder_for("seg8")(b"no image")


def test_other_labels_are_any_image_too():
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(6).integers(0, 256, (3, 4, 4), "u1")
    for name, mode, other in (("seg24", "RGB", "RGBA"), ("seg32", "RGBA", "RGB")):
        out = io.BytesIO()
        image.fromarray(pixels).convert(other).save(out, "PNG")
        channels = np.array(image.open(io.BytesIO(out.getvalue())).convert(mode)).astype("u4")
        want = sum(channels[..., at] << 8 * (len(mode) - 1 - at) for at in range(len(mode)))
        got = decoder_for(name)(out.getvalue())
        assert got.dtype == np.uint32 and np.array_equal(got, want)
        with pytest.raises(EOFError):
            decoder_for(name)(out.getvalue()[:-12])


@pytest.mark.parametrize("key, payload", [
    ("", {"txt": "x"}), ("a.b", {"txt": "x"}), ("a/b", {"txt": "x"}), ("a\\b", {"txt": "x"}), ("a", {}),
    ("a", {".": b""}), ("a" * 97, {"txt": "x"}), ({"txt": "x"}, None), ("a", None), ("a", {"TXT": "", "txt": ""}),
    ("a", {".txt": "", "txt": ""}), ("a", {"txt": "", "_x": b""}), ("a", {"_idx": b""}),
])
def test_samples_that_are_refused(tmp_path, key, payload):
    with iTarFoldWriter(tmp_path, "train") as w:
        with pytest.raises(ValueError):
            w.write(key, payload)
        with pytest.raises(KeyError):
            w.write("a", {"xyz": 5})
    assert os.listdir(tmp_path) == []


def test_writers_that_are_refused(tmp_path):
    for options in ({"delimiter": "__"}, {"delimiter": "0"}, {"shard_pattern": "a_%d"},
                    {"delimiter": "/"}, {"shard_pattern": "a/%d"}):
        with pytest.raises(ValueError):
            iTarFoldWriter(tmp_path, "train", **options)
    for fold in ("a_b", "a/b", "a\\b"):
        with pytest.raises(ValueError):
            iTarFoldWriter(tmp_path, fold)
    with pytest.raises(FileExistsError):
        iTarDatasetWriter("x", tmp_path / "none", folds=[])
    with iTarDatasetWriter("x", tmp_path, folds=["train"]) as w:
        assert w.fold("val") is w.fold("val") and w.folds == ("train", "val")
    with pytest.raises(RuntimeError):
        w.fold("train")
    with iTarFoldWriter(tmp_path, "train") as w:
        with pytest.raises(TypeError):
            iTarFoldWriter(tmp_path, "other", override_encoders=[("x", lambda v: 5)]).write("a", {"x": 1})
    with pytest.raises(RuntimeError):
        w.write("a", {"txt": ""})
    assert [p for p in os.listdir(tmp_path) if not p.startswith("x")] == []


def test_overrides_reach_all_folds(tmp_path):
    overrides = (pair for pair in [("f0.jpg", bytes), (".X", lambda v: str(v).encode())])
    with iTarDatasetWriter("d", tmp_path, folds=["train"], override_encoders=overrides) as w:
        for fold in ("train", "val"):
            w.fold(fold).write("a", {"f0.jpg": bytearray(b"jpeg"), "x": 5, "raw": b"bytes"})
    for fold in ("train", "val"):
        got = tarn.open(tmp_path / "d", fold=fold, decode=False)[0]
        assert {k: bytes(v) for k, v in got.items() if k != "__key__"} == {
            "f0.jpg": b"jpeg", "x": b"5", "raw": b"bytes"}


@pytest.mark.parametrize("options, names", [
    ({"delimiter": "-"}, ["train-0000.tar", "train-0001.tar"]),
    ({"shard_pattern": "part%03d"}, ["train_part000.tar", "train_part001.tar"]),
    ({"shard_pattern": "%d", "start": 3}, ["train_3.tar", "train_4.tar"]),
    ({"start": -1}, ["train_-001.tar", "train_0000.tar"]),
])
def test_other_names_of_shards(tmp_path, options, names):
    (tmp_path / (names[0][:6] + "99.tar")).touch()  # of an earlier, longer run
    with iTarFoldWriter(tmp_path, "train", shard_maxfiles=2, **options) as w:
        for key in "abcd":
            w.write(key, {"txt": key})
        assert not (tmp_path / names[0]).exists()
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "train.taridx"])
    with pytest.raises(RuntimeError, match="sort"):
        with iTarFoldWriter(tmp_path / "n", "train", shard_maxfiles=1, shard_pattern="%d") as w:
            for i in range(11):
                w.write(f"k{i}", {"cls": i})
    assert os.listdir(tmp_path / "n") == []


def test_names_with_several_dots(tmp_path):
    with iTarFoldWriter(tmp_path / "d", "v1.2", override_encoders=[("..cls", bytes)]) as w:
        w.write("a", {"..cls": b"1", ".txt": "x"})
    assert sorted(os.listdir(tmp_path / "d")) == ["v1.2.taridx", "v1.2_0000.tar"]
    ds = iTarDataset("d", tmp_path, "v1.2", ["..cls", "txt"])
    assert ds[0] == (1, "x")
    assert iTarState.load(tmp_path / "d/v1.2.taridx").ext2id == {".cls": 0, "txt": 1}


@pytest.mark.parametrize("options, shards", [
    ({"shard_maxfiles": 0}, 3), ({"shard_maxsize": -1}, 3), ({"shard_maxfiles": 1.5}, 2),
    ({"shard_maxsize": float("inf"), "shard_maxfiles": float("inf")}, 1),
])
def test_values_that_mean_no_limit(tmp_path, options, shards):
    with iTarFoldWriter(tmp_path, "train", **options) as w:
        for i in range(3):
            w.write(f"k{i}", {"cls": i})
    assert len(list(tmp_path.glob("*.tar"))) == shards


def test_a_run_without_samples_takes_nothing_away(tmp_path):
    for number, options in enumerate(({}, {"delimiter": "-"}, {"shard_pattern": "%d"})):
        folder = tmp_path / str(number)
        with iTarFoldWriter(folder, "train", **options) as w:
            w.write("a", {"cls": 1})
        there = sorted(os.listdir(folder))
        iTarFoldWriter(folder, "train", **options).close()
        assert sorted(os.listdir(folder)) == there


def test_sums_of_an_earlier_run_go_with_its_shards(tmp_path):
    for options in ({}, {"shard_pattern": "%d"}):
        with iTarFoldWriter(tmp_path / "d", "train", **options) as w:
            w.write("a", {"cls": len(options)})
    assert sorted(os.listdir(tmp_path / "d")) == ["train.taridx", "train_0.tar"]
    assert iTarDataset("d", tmp_path, "train")[0] == (1,)


def test_an_exception_leaves_nothing(tmp_path):
    for options in ({}, {"delimiter": "-"}):
        with pytest.raises(ZeroDivisionError):
            with iTarDatasetWriter("d", tmp_path, folds=[], shard_maxfiles=1, **options) as w:
                for i in range(5):
                    w.fold("train").write(f"k{i}", {"cls": i})
                1 / 0
        assert os.listdir(tmp_path / "d") == []


def test_a_duplicate_key_is_refused(tmp_path):
    with iTarFoldWriter(tmp_path, "train") as w:
        w.write("a", {"cls": 1})
        with pytest.raises(RuntimeError, match="enforce_contiguous=False"):
            w.write("a", {"cls": 2})
        assert w.total_count == 1


def test_a_second_run_takes_the_place_of_the_first(tmp_path):
    for count in (5, 2):
        with iTarFoldWriter(tmp_path, "train", shard_maxfiles=1) as w:
            for i in range(count):
                w.write(f"k{i}", {"cls": i})
    assert len(tarn.open(tmp_path)) == 2
    assert len(list(tmp_path.glob("*.tar"))) == 2


@pytest.mark.parametrize("pattern", ["part-%04d", "v1.%d", "%d-a", "%06d", "x%d", "%04d"])
def test_a_second_run_with_any_pattern_takes_the_place_of_the_first(tmp_path, pattern):
    others = [tmp_path / name for name in ("val_part-0000.tar", "train_part.txt", "a_train_0.tar")]
    for keys in ("abc", "de", "f"):
        for other in others:
            other.touch()
        with iTarFoldWriter(tmp_path, "train", shard_pattern=pattern, shard_maxfiles=1) as w:
            for key in keys:
                w.write(key, {"txt": key})
        assert all(other.exists() for other in others)
        for other in others:
            other.unlink()
        got = iTarDataset(tmp_path.name, tmp_path.parent, "train", ["_stem", "txt"], verbose=False)
        assert list(got) == [(key, key) for key in keys]


@pytest.mark.parametrize("pattern", ["%04d", "part%04d"])
def test_shards_that_may_be_of_another_fold_are_neither_removed_nor_joined(tmp_path, pattern):
    """The command writes train_v-0000.tar as a shard of train_v; these readers treat it as a shard
    of train."""
    other = tmp_path / "train_v-0000.tar"
    other.write_bytes(b"data")
    with pytest.raises(FileExistsError, match="move it elsewhere"):
        iTarFoldWriter(tmp_path, "train", shard_pattern=pattern)
    assert other.read_bytes() == b"data" and list(tmp_path.iterdir()) == [other]


def test_the_example_of_its_readme(tmp_path):
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.new("RGB", (8, 8), "red").save(out, "JPEG")
    picture = image.open(io.BytesIO(out.getvalue()))
    example = """
from tarn.itar.writer import iTarDatasetWriter

with iTarDatasetWriter('my_dataset', '/data', folds=['train', 'val', 'test']) as w:
  w.fold('train').write('sample0001', {'jpg': img, 'cls': label})
  w.fold('val').write('sample1001', {'jpg': val_img, 'cls': val_label})
"""
    # Unchanged except for the import and the folder: a test does not write to /data.
    exec(example.replace("'/data'", repr(str(tmp_path))),
         {"img": picture, "val_img": picture, "label": 3, "val_label": 4})
    assert sorted(os.listdir(tmp_path / "my_dataset")) == [
        "train.taridx", "train.tarsum", "train_0000.tar", "val.taridx", "val.tarsum", "val_0000.tar"]
    got = tarn.open(tmp_path / "my_dataset", fold="val")
    assert got["sample1001"]["cls"] == 4


def test_keys_may_repeat_if_samples_need_not_be_contiguous(tmp_path):
    def write(root, keys, **options):
        with iTarFoldWriter(root, "train", **options) as out:
            for key, fields in keys:
                out.write(key, fields)
    parted = [("a", {"cls": 1}), ("b", {"cls": 2}), ("a", {"txt": "x"}), ("b", {"txt": "y"})]
    adjacent = [("a", {"cls": 1}), ("a", {"txt": "x"}), ("b", {"cls": 2, "txt": "y"})]
    for name, keys in (("parted", parted), ("adjacent", adjacent)):
        with pytest.raises(RuntimeError, match="the key a already exists"):
            write(tmp_path / "refused", keys)
        for per_shard in (1, 2, 100):
            root = tmp_path / f"{name}{per_shard}"
            write(root, keys, enforce_contiguous=False, shard_maxfiles=per_shard)
            state = iTarState.load(root / "train.taridx")
            assert state.is_contiguous == (name == "adjacent")
            assert (state.n_stems, state.n_rows) == (2, 4)
            written = (root / "train.taridx").read_bytes(), (root / "train.tarsum").read_bytes()
            os.unlink(root / "train.taridx")
            os.unlink(root / "train.tarsum")
            assert tarn._tarn.main(["tarn", "index", "-q", "--sums", str(root)]) == 0
            assert written == ((root / "train.taridx").read_bytes(), (root / "train.tarsum").read_bytes())
            found = tarn.open(root)
            assert {s["__key__"]: (s["cls"], s["txt"]) for s in found} == {"a": (1, "x"), "b": (2, "y")}


@pytest.mark.parametrize("pattern", ["%04d", "s%03d"])
def test_a_writer_stays_in_its_folder_when_the_program_leaves(tmp_path, monkeypatch, pattern):
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    with iTarFoldWriter("data", "train", shard_pattern=pattern, shard_maxfiles=1) as out:
        out.write("a", {"txt": "1"})
        monkeypatch.chdir(tmp_path / "there")
        out.write("b", {"txt": "2"})
    monkeypatch.chdir(tmp_path)
    with iTarDatasetWriter("more", ".", folds=[], shard_pattern=pattern) as out:
        out.fold("train").write("a", {"txt": "1"})
        monkeypatch.chdir(tmp_path / "there")
        out.fold("val").write("b", {"txt": "2"})
    assert os.listdir(tmp_path / "there") == []
    assert tarn.open(tmp_path / "data").keys() == ["a", "b"]
    assert [tarn.open(tmp_path / "more", fold).keys() for fold in ("train", "val")] == [["a"], ["b"]]


@pytest.mark.parametrize("pattern", ["%04d", "s%03d"])
def test_a_writer_that_is_forgotten_leaves_nothing(tmp_path, pattern):
    out = iTarFoldWriter(tmp_path, "train", shard_pattern=pattern)
    out.write("a", {"txt": "1"})
    with pytest.warns(ResourceWarning):
        del out
        gc.collect()
    assert os.listdir(tmp_path) == []
