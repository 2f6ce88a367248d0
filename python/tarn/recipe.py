"""How a dataset came about, so that another process can make it again: paths and what was asked
for travel, never the entries of an index."""

from __future__ import annotations

from typing import Any

from . import _tarn

Step = tuple[str, tuple[Any, ...]]


def _run(handle: _tarn._Handle, step: Step) -> tuple[_tarn._Handle, Any]:
    """A filter, and what it tells besides (keys that are not there)."""
    method, arguments = step
    result = getattr(handle, method)(*arguments)
    return result if isinstance(result, tuple) else (result, None)


class Recipe:
    """A file and the filters over it."""

    __slots__ = ("options", "path", "shown", "steps")

    def __init__(self, path: str, options: dict[str, Any], steps: tuple[Step, ...] = (),
                 shown: str | None = None) -> None:
        self.path = path
        self.options = options
        self.steps = steps
        self.shown = path if shown is None else shown

    def open(self) -> _tarn._Handle:
        handle = _tarn.open_dataset(self.path, **self.options)
        for step in self.steps:
            handle, _ = _run(handle, step)
        return handle

    def then(self, handle: _tarn._Handle, step: Step) -> tuple[Recipe, _tarn._Handle, Any]:
        """The recipe with one step more, what that step makes of handle, and what it tells."""
        made, told = _run(handle, step)
        return self.more(step), made, told

    def more(self, step: Step) -> Recipe:
        return Recipe(self.path, self.options, (*self.steps, step), self.shown)

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
    """Several recipes mixed into one, and the filters over that."""

    __slots__ = ("arguments", "sources")

    def __init__(self, sources: tuple[Recipe, ...], arguments: tuple[Any, ...],
                 steps: tuple[Step, ...] = ()) -> None:
        super().__init__("", {}, steps)
        self.sources = sources
        self.arguments = arguments

    def open(self) -> _tarn._Handle:
        handle = _tarn.mix(tuple(source.open() for source in self.sources), *self.arguments)
        for step in self.steps:
            handle, _ = _run(handle, step)
        return handle

    def more(self, step: Step) -> Recipe:
        return MixRecipe(self.sources, self.arguments, (*self.steps, step))

    def parts(self) -> tuple[Any, ...]:
        return self.sources, self.arguments, self.steps

    def name(self) -> str:
        return " + ".join(source.name() for source in self.sources)


def same(one: Any, other: Any) -> bool:
    """Whether two lists of arguments are equal, numbers of samples included."""
    if isinstance(one, _tarn._Indices) and isinstance(other, _tarn._Indices):
        return bytes(one) == bytes(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
