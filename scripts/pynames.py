#!/usr/bin/env python3
"""Writes a page with every public name of the Python package, from its docstrings.

  PYTHONPATH=build/python .venv/bin/python scripts/pynames.py PAGE.md
"""
import importlib
import inspect
import pathlib
import re
import sys

MODULES = {
    "tarn": "datasets.md", "tarn.torch": "torch.md", "tarn.wds": "wds.md", "tarn.itar": "itar.md",
    "tarn.gnz": "gnz.md", "tarn.iac": "iac.md", "tarn.iac.adapters.text_pair": "iac.md",
}
HEAD = """# Every public name

One line for each name; `help(name)` shows the full text with an example. The linked pages describe how to use them.
"""


def first_line(thing):
    """The first sentence of a docstring, as one line."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r"^\w+\([^\n]*\)\n--\n\n", "", text)
    line = " ".join(re.split(r"\n\s*\n", text)[0].split())
    return re.split(r"(?<=[.:;]) (?=[A-Z])", line)[0].rstrip(":").replace("*", r"\*").replace("<", r"\<")


def public(module):
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__]
    return sorted(names, key=lambda name: (name.lower(), name))


def own(thing):
    """Objects whose docstring describes them, and not their type."""
    return callable(thing) or isinstance(thing, property) or inspect.ismodule(thing)


def members(cls):
    for name in sorted({name for base in cls.__mro__ if base.__module__.startswith("tarn")
                        for name in vars(base) if not name.startswith("_")}):
        value = inspect.getattr_static(cls, name)
        value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        yield name, first_line(value) if own(value) or inspect.isgetsetdescriptor(value) else ""


def told(name, text):
    return f"`{name}`: {text}" if text else f"`{name}`"


def make():
    out = [HEAD]
    for module_name, page in MODULES.items():
        module = importlib.import_module(module_name)
        out.append(f"\n## {module_name}\n\n[{page}]({page})\n\n")
        for name in public(module):
            thing = getattr(module, name)
            out.append(f"- {told(name, first_line(thing) if own(thing) else '')}\n")
            if inspect.isclass(thing) and not issubclass(thing, BaseException):
                out += [f"    - {told(member, text)}\n" for member, text in members(thing)]
    return "".join(out)


def main():
    pathlib.Path(sys.argv[1]).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
