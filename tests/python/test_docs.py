"""Examples in docstrings and in docs/python, and the types."""
import doctest
import importlib
import os
import pathlib
import pkgutil
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
    """A folder with the data that examples speak of, as the current one."""
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
    """The Python blocks of a page, one after the other, in a process of their own."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    code = "\n".join(blocks)
    if sanitized() and ("import torch" in code or "tarn.torch" in code):
        pytest.skip("torch is not run under AddressSanitizer")
    done = subprocess.run([sys.executable, "-c", code], cwd=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples(example, there):
    if sanitized() and "torch" in example.read_text(encoding="utf-8"):
        pytest.skip("torch is not run under AddressSanitizer")
    done = subprocess.run([sys.executable, str(example)], cwd=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.skipif(sanitized(), reason="types are the same")
def test_types_are_complete(tmp_path):
    pytest.importorskip("mypy")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["MYPYPATH"] = str(ROOT / "python")
    targets = [str(ROOT / "python/tarn"), *map(str, EXAMPLES), *map(str, (ROOT / "examples/shapes").glob("*.py"))]
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir",
                           str(tmp_path), "--config-file", str(ROOT / "pyproject.toml"), *targets],
                          env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sanitized(), reason="types are the same")
def test_stubs_say_what_the_extension_has():
    stub = (pathlib.Path(tarn.__file__).parent / "_tarn.pyi").read_text(encoding="utf-8")
    told = set(re.findall(r"^(?:def|class) (\w+)", stub, re.M))
    there = {name for name in dir(tarn._tarn) if not name.startswith("__")}
    hidden = {"_Array", "_Iterator", "_Keeper", "_PackBatch", "_PackHandle", "_View"}
    assert told == there - hidden
