"""The examples and documentation of the writers and of tarn.wds are correct."""
import doctest
import importlib
import pathlib
import subprocess
import sys

import pytest

import tarn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULES = ["_write", "_source", "wds", *("wds." + name for name in (
    "autodecode", "compat", "filters", "gopen", "handlers", "mix", "pipeline", "shardlists",
    "tariterators", "utils", "writer")), "itar", "itar.encoders", "itar.writer"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module("tarn." + name)
    result = doctest.testmod(module)
    assert result.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_is_described(name):
    module = importlib.import_module("tarn." + name)
    assert module.__doc__
    for public in getattr(module, "__all__", []):
        assert getattr(module, public).__doc__ or not callable(getattr(module, public)), public


def run(example, *args):
    done = subprocess.run([sys.executable, ROOT / "examples/python" / example, *map(str, args)],
                          text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_write(tmp_path):
    pytest.importorskip("numpy")
    out = run("write.py", tmp_path / "d", 50)
    assert out.startswith("train: 40 samples, ") and "val: 10 samples" in out
    assert "(64, 64, 3)" in out
    assert len(tarn.open(tmp_path / "d", fold="train")) == 40


def test_example_convert(tmp_path):
    from tarn import wds
    with wds.ShardWriter(str(tmp_path / "x-%06d.tar"), maxcount=3, verbose=0) as sink:
        for i in range(8):
            sink.write({"__key__": f"d/{i}", "jpeg" if i % 2 else "png": b"picture", "cls": i})
        sink.write({"__key__": "without", "jpg": b"label"})
    out = run("convert_wds.py", tmp_path / "x-{000000..000002}.tar", tmp_path / "d")
    assert out == f"{tmp_path}/d:train: 8 samples in 1 shards\n"
    assert bytes(tarn.open(tmp_path / "d", decode=False)["d-5"]["cls"]) == b"5"


def test_compat_names_what_is_not_there():
    from tarn import wds
    text = (ROOT / "docs/compat.md").read_text() + (ROOT / "docs/python/wds.md").read_text()
    real = pytest.importorskip("webdataset")
    absent = {name for name in dir(real) if not name.startswith("_") and not hasattr(wds, name)}
    told = {"LMDBCached": "lmdb_cached", "MultiShardSample": "YAML", "LRUCleanup": "cache_dir",
            "pipe_cleaner": None, "pytorch_weights_only": None, "tenbin": None, "cache": None,
            "compat": None, "extradatasets": None, "multi": None, "pytorch": None,
            "typecheck": None}
    assert absent <= set(told), absent - set(told)
    assert all(word is None or word in text for word in told.values())
