"""Runs the snippets of glzn_snippets.py with glzn.data or with tarn.itar, and describes what they do.

  glzn_behaviour.py FOLDERS         writes tests/data/glzn_behaviour.json. FOLDERS are separated by
                                    colons: that of the package (its src), and those of what it needs
                                    (xxhash, scipy, packaging, ipywidgets and a module torchvision)
                                    and is not installed.
  glzn_behaviour.py FOLDERS SEED    prints the same for other random data

A description is JSON: plain values are as they are, and everything else is a list whose first item
is its type. An exception is described by the names of its classes.
"""
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE.parent / "data/glzn_behaviour.json"
SEED = 20


def attempt(function, *args, **kwargs):
    """Returns the result of a call, or its exception."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


def public(thing):
    """Returns the public attributes of an object that are not methods, as {name: type}."""
    told = {}
    for name in sorted(name for name in dir(thing) if not name.startswith("_")):
        value = attempt(getattr, thing, name)
        if not callable(value) or not callable(getattr(type(thing), name, None)):
            told[name] = type(value).__name__
    return told


def _array(value):
    data = (repr(value.tolist()) if value.dtype == object or value.dtype.names
            else value.tobytes())
    text = data.encode() if isinstance(data, str) else data
    small = value.tolist() if value.size <= 12 and value.dtype.kind in "iufb" else None
    told = hashlib.sha256(text).hexdigest()[:16] if small is None else small
    return ["array", value.dtype.str, list(value.shape), told]


def described(value, folder):
    """Returns a value as JSON; paths are relative to the folder of the snippet."""
    def inner(each):
        return described(each, folder)

    kind = type(value)
    if value is None or kind in (bool, int):
        return value
    if kind is str:
        return value.replace(str(folder), "<folder>")
    if kind is float:
        return ["float", repr(value)]
    if isinstance(value, BaseException):
        return ["raises", [each.__name__ for each in kind.__mro__]]
    if isinstance(value, pathlib.PurePath):
        return ["path", inner(os.fspath(value))]
    if kind in (bytes, memoryview):
        told = bytes(value)
        return [kind.__name__, len(told), hashlib.sha256(told).hexdigest()[:16]]
    if kind in (list, tuple):
        return [kind.__name__, *map(inner, value)]
    if isinstance(value, dict):
        return ["dict", *([inner(name), inner(each)] for name, each in value.items())]
    if kind is set:
        return ["set", *map(inner, sorted(value))]
    return _other(value, inner)


def _other(value, inner):
    import numpy

    if isinstance(value, numpy.ndarray):
        return _array(value)
    if isinstance(value, (numpy.generic, numpy.dtype)):
        return [type(value).__name__, repr(value)]
    if hasattr(value, "convert") and hasattr(value, "mode"):
        return ["image", value.mode, *value.size, hashlib.sha256(value.tobytes()).hexdigest()[:16]]
    if type(value).__name__ == "Tensor":
        return ["tensor", str(value.dtype), inner(value.tolist())]
    return ["object", type(value).__name__]


def load(prefix):
    """Returns the snippets, with the package of this name in place of glzn.data."""
    text = (HERE / "glzn_snippets.py").read_text(encoding="utf-8")
    spec = importlib.util.spec_from_loader("snippets_of_" + prefix.partition(".")[0], None)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # what the snippets define can be pickled
    exec(compile(text.replace("glzn.data", prefix), spec.name, "exec"), vars(module))
    return {name: function for name, function in vars(module).items()
            if name.startswith(("show_", "differ_"))}


def outcome(snippet, name, seed):
    """Returns the description of what one snippet returns and prints."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out, \
            warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rng = random.Random(f"{name} {seed}")
        told = described(attempt(snippet, rng, pathlib.Path(folder)), folder)
    printed = re.sub(r"\x1b\[2K\r", "", out.getvalue())  # by IPython without a notebook
    return {"value": told, "printed": printed.replace(folder, "<folder>")}


def outcomes(seed):
    """Returns the description of what each snippet does with glzn.data."""
    return {name: outcome(snippet, name, seed) for name, snippet in load("glzn.data").items()}


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1].split(os.pathsep)
    if len(sys.argv) > 2:
        print(json.dumps(outcomes(sys.argv[2])))
    else:
        lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in outcomes(SEED).items()]
        RECORD.write_text("{" + ",\n".join(lines) + "}\n")
