"""Examples in docstrings and in docs/python, and the types."""
import doctest
import importlib
import inspect
import os
import pathlib
import pkgutil
import pydoc
import re
import subprocess
import sys

import pytest
from conftest import ROOT, make_birds, sanitized

import tarn

MODULES = sorted(["tarn"] + [f"tarn.{module.name}" for module in pkgutil.iter_modules(tarn.__path__)
                             if module.name not in ("__main__", "_tarn")])
PAGES = sorted((ROOT / "docs/python").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples/python").glob("*.py"))


@pytest.fixture
def there(tmp_path, monkeypatch):
    """Creates a folder with the data of the examples and changes to it."""
    make_birds(tmp_path / "birds")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, there):
    module = importlib.import_module(name)
    given = {"birds": "birds:train", "ds": tarn.open("birds", fields=["txt", "cls"]), "tarn": tarn}
    result = doctest.testmod(module, extraglobs=given, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_every_public_name_has_a_docstring():
    for name in tarn.__all__:
        assert getattr(tarn, name).__doc__, name
    for name, member in vars(tarn.Dataset).items():
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            assert member.__doc__, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, there):
    """Runs the Python blocks of a page, in order, in a separate process."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    code = "\n".join(blocks)
    if sanitized() and ("import torch" in code or "tarn.torch" in code or "workers=2" in code):
        pytest.skip("torch is not run under AddressSanitizer, and processes are not forked")
    done = subprocess.run([sys.executable, "-c", code], cwd=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples(example, there):
    if sanitized() and "torch" in example.read_text(encoding="utf-8"):
        pytest.skip("torch is not run under AddressSanitizer")
    done = subprocess.run([sys.executable, str(example)], cwd=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def mypy(cache, *targets):
    """Returns the output of mypy --strict for some files."""
    pytest.importorskip("mypy")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["MYPYPATH"] = str(ROOT / "python")
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache),
                           "--config-file", str(ROOT / "pyproject.toml"), *map(str, targets)],
                          env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.skipif(sanitized(), reason="types are the same")
def test_types_are_complete(cache):
    done = mypy(cache, ROOT / "python/tarn", *EXAMPLES, *(ROOT / "examples/shapes").glob("*.py"))
    assert done.returncode == 0, done.stdout + done.stderr


WRONG = """
import tarn
import tarn.torch

ds = tarn.open("birds", feilds=["txt"])
ds = tarn.open("birds", decode="byte")
ds.loader(2, shufle=True)
ds.loader(2, on_error=3)
ds.loader(2, fit="middle")
ds.loader(2, pin=True)
ds.order("shuffel")
ds.order("blocks", blok=4)
ds.order("shuffle", rank=1)
ds.shuffle(sead=1)
ds.shard(0, world=2)
ds.shard(0, 2, uneven="share")
ds.filter(key=["auk"])
tarn.mix(ds, ds, weight=[1, 2])
tarn.torch.loader_for(ds, 0, 2, thread=1)
next(ds.loader(2))
"""


@pytest.mark.skipif(sanitized(), reason="types are the same")
def test_mypy_finds_every_wrong_argument(cache, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = mypy(cache, tmp_path / "wrong.py")
    told = {int(number) for number in re.findall(r"wrong\.py:(\d+): error", done.stdout)}
    lines = WRONG.split("\n")
    assert told == set(range(lines.index("import tarn.torch") + 3, len(lines))), done.stdout


def test_mypy_accepts_every_right_argument(cache, tmp_path):
    if sanitized():
        pytest.skip("types are the same")
    (tmp_path / "right.py").write_text("""
import numpy as np
import tarn

ds = tarn.open("birds", fields=["txt"], decode="bytes", array_type="torch", drop_ambiguous=True, decompress=False)
for batch in ds.shuffle(1)[:100].shard(0, 2, uneven="pad").map(txt=len).loader(
        10, on_error="replace", max_errors=3, prefetch=2, resize=(8, 8), fit="center", flip=0.5):
    print(batch["txt"])
print(ds[[1, 2]].keys(), ds[np.arange(3)], ds[::2].filter(keys=["a"], missing="ignore").order("lengths", by="txt"))
tarn.mix(ds, ds.map(len), weights=[1, 2], end="all").loader(2).load_state_dict({})
""")
    done = mypy(cache, tmp_path / "right.py")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("function", [tarn.open, tarn.mix, tarn.Dataset.loader, tarn.Dataset.order,
                                      tarn.Dataset.shard, tarn.Dataset.filter, tarn.Dataset.shuffle],
                         ids=lambda function: function.__name__)
def test_help_names_every_option(function):
    shown = pydoc.plain(pydoc.render_doc(function))
    signature, text = shown.split("\n", 3)[2:]
    assert "**" not in signature
    for name in inspect.signature(function).parameters:
        assert re.search(rf"\b{name}\b", signature), name
        assert name == "self" or re.search(rf"\b{name}\b", text), name


@pytest.mark.skipif(sanitized(), reason="types are the same")
def test_stubs_say_what_the_extension_has():
    stub = (pathlib.Path(tarn.__file__).parent / "_tarn.pyi").read_text(encoding="utf-8")
    told = set(re.findall(r"^(?:def|class) (\w+)", stub, re.M))
    there = {name for name in dir(tarn._tarn) if not name.startswith("__")}
    hidden = {"_Array", "_Iterator", "_Keeper", "_PackBatch", "_PackHandle", "_View"}
    assert told == there - hidden


def documented():
    """Functions whose options must all be in their docstring and on a page."""
    yield "datasets.md", tarn.open
    yield "datasets.md", tarn.mix
    yield "writing.md", tarn.pack
    yield "loader.md", tarn.Dataset.loader
    for name in ("filter", "order", "shuffle", "shard", "group", "select", "batch", "keys", "lookup"):
        yield None, getattr(tarn.Dataset, name)
    for page, name in (("datasets.md", "filter"), ("datasets.md", "order"), ("datasets.md", "shard")):
        yield page, getattr(tarn.Dataset, name)
    for name in ("set_epoch", "load_state_dict"):
        yield None, getattr(tarn.Loader, name)


@pytest.mark.parametrize("page,function", list(documented()), ids=lambda value: getattr(value, "__name__", value))
def test_every_option_is_documented(page, function):
    options = [name for name in inspect.signature(function).parameters if name != "self"]
    texts = [inspect.getdoc(function)]
    if page is not None:
        texts.append((ROOT / "docs/python" / page).read_text())
    for text in texts:
        missing = [name for name in options if not re.search(rf"\b{name}\b", text)]
        assert not missing


def test_no_docstring_describes_an_option_that_does_not_exist():
    """Lines such as "name: text" or "one, other: text"."""
    for _, function in documented():
        options = inspect.signature(function).parameters
        for line in inspect.getdoc(function).splitlines():
            found = re.match(r"((?:[a-z_]+, )*[a-z_]+): ", line)
            for name in found[1].split(", ") if found else ():
                assert name in options, (function, line)
