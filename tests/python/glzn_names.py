"""The public names of glzn.data, or of tarn.itar: parameters, defaults and members of classes.

  glzn_names.py FOLDERS  writes tests/data/glzn_names.json from the package in the first of FOLDERS,
                         which are separated by colons
"""
import importlib
import inspect
import json
import os
import pathlib
import sys
import types
from unittest import mock

MODULES = ["dataset", "encoders", "imgbrowser", "itar.entry", "itar.fold", "itar.utils", "loader",
           "maptrafo", "sampler", "writer"]
RECORD = pathlib.Path(__file__).resolve().parent.parent / "data/glzn_names.json"
ABSENT = ("IPython", "IPython.display", "ipywidgets", "scipy", "scipy.io", "torchvision", "xxhash")


def parameters(thing):
    """Returns [name, kind, default] of each parameter; None if they are not known."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    return [[each.name, each.kind.name, None if each.default is each.empty else repr(each.default)]
            for each in signature.parameters.values()]


def described(thing):
    if not inspect.isclass(thing):
        return {"parameters": parameters(thing)}
    members = {}
    for name, value in inspect.getmembers(thing):
        if not name.startswith("_") or name in ("__call__", "__exit__", "__getitem__"):
            members[name] = parameters(value) if callable(value) else None
    return {"parameters": parameters(thing), "members": members}


def names_of(prefix, only=None):
    """Returns what the modules below prefix define themselves, or the names of a record."""
    told = {}
    for name in MODULES:
        module = importlib.import_module(f"{prefix}.{name}")
        wanted = only[name] if only else [
            each for each, value in vars(module).items() if not each.startswith("_")
            and getattr(value, "__module__", module.__name__) == module.__name__
            and not isinstance(value, types.ModuleType) and each.isidentifier()
            and (callable(value) or each.isupper())]
        told[name] = {each: described(getattr(module, each)) for each in wanted
                      if hasattr(module, each)}
    return told


def recorded(folder):
    """Returns the names of the real package. Modules that it needs, and that do not matter for
    names, are replaced if they are not there."""
    sys.path[:0] = str(folder).split(os.pathsep)
    for name in ABSENT:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = mock.MagicMock(__version__="0.20.0")
    return names_of("glzn.data")


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(sys.argv[1]), indent=1) + "\n")
