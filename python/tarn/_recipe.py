"""How a dataset was made, so that another process can make it again: only paths and arguments are
sent, never the entries of an index."""

from __future__ import annotations

from typing import Any

import numpy

from . import _tarn

Step = tuple[str, tuple[Any, ...]]


def run(handle: _tarn._Handle, step: Step) -> _tarn._Handle:
    """Applies a step to a dataset."""
    method, arguments = step
    if method == "order":
        return handle.order(**arguments[0])
    made: _tarn._Handle = getattr(handle, method)(*arguments)
    return made


class Recipe:
    """A file, and the selections and orders applied to it."""

    __slots__ = ("options", "path", "shown", "steps")

    def __init__(self, path: str, options: dict[str, Any], steps: tuple[Step, ...] = (),
                 shown: str | None = None) -> None:
        self.path = path
        self.options = options
        self.steps = steps
        self.shown = path if shown is None else shown

    def open(self) -> _tarn._Handle:
        handle = self.start()
        for step in self.steps:
            handle = run(handle, step)
        return handle

    def has(self, method: str) -> bool:
        """Whether a step of this method was applied, also to a source of a mix."""
        return any(step[0] == method for step in self.steps)

    def start(self) -> _tarn._Handle:
        """Opens the file without any step."""
        return _tarn.open_dataset(self.path, **self.options)

    def then(self, *steps: Step) -> Recipe:
        return Recipe(self.path, self.options, (*self.steps, *steps), self.shown)

    def parts(self) -> tuple[Any, ...]:
        return self.path, self.options, self.steps

    def name(self) -> str:
        return repr(self.shown)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and same(self.parts(), other.parts())

    def __hash__(self) -> int:
        return hash(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.parts()


class MixRecipe(Recipe):
    """A mix of several recipes, and the selections and orders applied to it."""

    __slots__ = ("arguments", "sources")

    def __init__(self, sources: tuple[Recipe, ...], arguments: tuple[Any, ...],
                 steps: tuple[Step, ...] = ()) -> None:
        super().__init__("", {}, steps)
        self.sources = sources
        self.arguments = arguments

    def has(self, method: str) -> bool:
        return super().has(method) or any(source.has(method) for source in self.sources)

    def start(self) -> _tarn._Handle:
        return _tarn.mix(tuple(source.open() for source in self.sources), *self.arguments)

    def then(self, *steps: Step) -> Recipe:
        return MixRecipe(self.sources, self.arguments, (*self.steps, *steps))

    def parts(self) -> tuple[Any, ...]:
        return self.sources, self.arguments, self.steps

    def name(self) -> str:
        return " + ".join(source.name() for source in self.sources)


def same(one: Any, other: Any) -> bool:
    """Whether two lists of arguments are equal, including arrays of numbers."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if hasattr(one, "dtype") and hasattr(other, "dtype"):
        return bool(one.dtype == other.dtype and numpy.array_equal(one, other))
    return bool(one == other)
