"""Docstrings of tarn.itar's readers, and the claims of glzn's own documents about these names."""
import doctest
import importlib
import inspect
import os

import pytest
from conftest import ROOT

import tarn.itar

numpy = pytest.importorskip("numpy")
MODULES = ["dataset", "epoch", "imgbrowser", "itar.entry", "itar.fold", "itar.utils", "loader", "maptrafo",
           "ordered", "sampler", "torchkind"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, birds):
    module = importlib.import_module("tarn.itar." + name)
    result = doctest.testmod(module, extraglobs={"birds": birds, "os": os, "numpy": numpy,
                                                 "iTarDataset": tarn.itar.iTarDataset})
    assert result.failed == 0


@pytest.mark.parametrize("name", tarn.itar.__all__)
def test_everything_public_is_described(name):
    thing = getattr(tarn.itar, name)
    assert thing.__doc__, name
    for member, value in vars(thing).items() if inspect.isclass(thing) else ():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{member}"


# glzn's own example with only the import line changed, and what glzn's documents say about the
# parts: the life of a state, the layout of a row, and reading back what was written.

EXAMPLE = """
from tarn.itar import iTarDatasetWriter

with iTarDatasetWriter('my_dataset', '/data', folds=['train', 'val', 'test']) as w:
  w.fold('train').write('sample0001', {'jpg': img, 'cls': label})
  w.fold('val').write('sample1001', {'jpg': val_img, 'cls': val_label})
"""


def test_what_the_example_writes_is_read(tmp_path):
    image = pytest.importorskip("PIL.Image")
    import io
    data = io.BytesIO()
    image.new("RGB", (8, 6), (200, 10, 10)).save(data, "JPEG")
    picture = image.open(data)
    code = EXAMPLE.replace("'/data'", repr(str(tmp_path)))
    exec(code, {"img": picture, "label": 3, "val_img": picture, "val_label": 4})

    ds = tarn.itar.iTarDataset("my_dataset", tmp_path, "val", ["jpg", "cls", "_stem", "_name",
                                                              "_idx", "_fid"])
    shown, label, stem, name, number, shard = ds[0]
    assert shown.size == (8, 6) and (label, stem, name, number, shard) == (
        4, "sample1001", "sample1001", 0, 0)
    state = tarn.itar.iTarState.empty()
    state = tarn.itar.parse_tar(tmp_path / "my_dataset/train_0000.tar", state=state).finalize()
    state.save(tmp_path / "again.taridx")
    assert (tmp_path / "again.taridx").read_bytes() == (
        tmp_path / "my_dataset/train.taridx").read_bytes()
    assert state.arr.dtype.names == ("fid", "offset", "size", "extid", "crashid", "keyhash")
    assert state.ext2id == {"jpg": 0, "cls": 1} and state.crashstem == {}
    reader = tarn.itar.iTarRetriever(tarn.itar.iTarFold(tmp_path / "my_dataset").full_paths)
    row = state.arr[1]
    assert bytes(reader.get(row["fid"], row["offset"] + 512, row["size"])) == b"3"


def test_every_difference_has_a_page():
    text = (ROOT / "docs/compat.md").read_text(encoding="utf-8")
    for word in ("filter_stems", "parse_if_missing", "shuffle_outer", "verify",
                 "buckets_per_shard", "prefer_mmap", "seg24", "pkl"):
        assert word in text, word
