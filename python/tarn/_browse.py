"""`Dataset.browse`: the page of `tarn browse`, served by a process of its own and shown in a
notebook, or one written as a contact sheet."""

from __future__ import annotations

import atexit
import html
import os
import pathlib
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

from ._recipe import MixRecipe, Recipe
from .errors import Error, UsageError

if TYPE_CHECKING:
    from ._dataset import Dataset

__all__ = ["Page", "Sheet", "browse", "page_of_keys"]

MOST = 1_000_000  # samples of a selection, whose keys are passed to the command
HEIGHT = 640  # pixels of the frame

# Options for opening that change which samples there are, or their order, and that the command does
# not have: with them, it gets the keys.
_CHOOSING = ("drop_ambiguous", "by_hash")

_open: weakref.WeakSet[Page] = weakref.WeakSet()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tarn", "browse", *arguments]


def _environment() -> dict[str, str]:
    """The command is found where this package is."""
    here = str(pathlib.Path(__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": here + (os.pathsep + known if known else "")}


class Page:
    """A page about a dataset, served by a process on this machine.

    A notebook shows it in a frame. `url` opens in any browser on this machine. The process ends
    with `close()` or with this one; a `with` block closes the page at its end.
    """

    def __init__(self, arguments: Sequence[str], files: tempfile.TemporaryDirectory[str]) -> None:
        # A session of its own: interrupting a cell does not end it.
        self._process = subprocess.Popen(
            _command("--notebook", *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, env=_environment())
        assert self._process.stdout is not None and self._process.stderr is not None
        self.url = self._process.stdout.readline().strip()
        files.cleanup()
        if not self.url:
            message = self._process.stderr.read().strip()
            self.close()
            raise Error(message.removeprefix("tarn: ") or "tarn browse did not start")
        _open.add(self)

    def close(self) -> None:
        """Ends the server. It is safe to call it again."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.close()  # the server ends with its input, and may write until then
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._process.returncode is not None else self.url
        return f"<tarn page {state}>"

    def _repr_html_(self) -> str:
        return (f'<iframe src="{html.escape(self.url)}" width="100%" height="{HEIGHT}" '
                'style="border:1px solid #8884;border-radius:8px"></iframe>')


class Sheet(str):
    """A contact sheet: the text of one HTML file without scripts. A notebook shows it; `save(path)`
    writes it."""

    __slots__ = ()

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the page to a file."""
        pathlib.Path(path).write_text(self, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (f'<iframe sandbox srcdoc="{html.escape(self)}" width="100%" height="{HEIGHT}" '
                'style="border:1px solid #8884;border-radius:8px"></iframe>')


@atexit.register
def _close_all() -> None:
    for page in list(_open):
        page.close()


# --- Arguments of the command ----------------------------------------------------------------


def _of_recipe(recipe: Recipe) -> list[str]:
    """The path and the options for opening."""
    options = recipe.options
    out = [recipe.path]
    if options.get("fields"):
        out += ["--fields", ",".join(options["fields"])]
    for name, option in (("key_column", "--key"), ("cache", "--cache"), ("index", "--index")):
        if options.get(name):
            out += [option, str(options[name])]
    if options.get("keys") == "path":
        out += ["--keys", "path"]
    if options.get("lenient"):
        out.append("--lenient")
    return out


def _of_mix(recipe: MixRecipe) -> list[str]:
    """Several files with weights. Other mixes have no counterpart in the command."""
    weights, counts, total, every, _ = recipe.arguments
    plain = all(not isinstance(one, MixRecipe) and not one.steps and not one.options.get("fields")
                for one in recipe.sources)
    if recipe.steps or not plain or weights is None or counts or total or every:
        raise UsageError("browse: of mixes, only those of whole files with weights can be shown; "
                         "browse the sources, or a selection of one")
    return [*(one.path for one in recipe.sources), "--weights", ",".join(map(repr, weights))]


def _keys_file(folder: str, keys: Sequence[str]) -> str:
    if any("\n" in key or "\r" in key for key in keys):
        raise UsageError("browse: keys with line ends cannot be listed; browse the whole file")
    path = os.path.join(folder, "keys")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as out:
        out.writelines(key + "\n" for key in keys)
    return path


def _arguments(dataset: Dataset, folder: str) -> list[str]:
    recipe = dataset._recipe_now()
    if isinstance(recipe, MixRecipe):
        return _of_mix(recipe)
    out = _of_recipe(recipe)
    if recipe.steps or any(recipe.options.get(name) for name in _CHOOSING):
        if len(dataset) > MOST:
            raise UsageError(f"browse: a selection or an order of {len(dataset):,} samples (limit "
                             f"{MOST:,}); browse the whole file and choose the order on the page")
        out += ["--list", "@" + _keys_file(folder, dataset._handle.keys(range(len(dataset))))]
    return out


def _problems_file(folder: str, problems: Iterable[Any]) -> str:
    """Keys, (key, reason) pairs, or what `Loader.skipped` returns."""
    path = os.path.join(folder, "problems")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as out:
        for one in problems:
            key, reason = (one, "") if isinstance(one, str) else (
                (one.key, one.reason) if hasattr(one, "key") else one)
            if key is not None:
                out.write(f"{key}\t{' '.join(str(reason).split())}\n")
    return path


def show(arguments: Sequence[str], folder: tempfile.TemporaryDirectory[str],
         serve: bool, count: int) -> Page | Sheet:
    """Runs the command with these arguments, and removes the folder with its files."""
    if serve:
        return Page(arguments, folder)
    with folder:
        done = subprocess.run(_command("-o", "-", "--count", str(count), *arguments),
                              capture_output=True, check=False, env=_environment())
    if done.returncode:
        raise Error(done.stderr.decode(errors="replace").strip().removeprefix("tarn: "))
    return Sheet(done.stdout.decode())


def page_of_keys(path: str, keys: Sequence[str], serve: bool, count: int) -> Page | Sheet:
    """The page about some samples of a file, in this order."""
    folder = tempfile.TemporaryDirectory(prefix="tarn-browse-")
    try:
        listed = _keys_file(folder.name, keys)
    except BaseException:
        folder.cleanup()
        raise
    return show([os.path.abspath(path), "--list", "@" + listed], folder, serve, count)


def browse(dataset: Dataset, serve: bool, count: int,
           problems: Iterable[Any] | None) -> Page | Sheet:
    """Implements `Dataset.browse`."""
    folder = tempfile.TemporaryDirectory(prefix="tarn-browse-")
    try:
        arguments = _arguments(dataset, folder.name)
        if problems is not None:
            arguments += ["--problems", _problems_file(folder.name, problems)]
    except BaseException:
        folder.cleanup()
        raise
    return show(arguments, folder, serve, count)
