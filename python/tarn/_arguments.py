"""Argument checks. The extension gets some arguments without their names and cannot report
them."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from .errors import UsageError

LARGEST = 2**64 - 1
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def settled(name: str, path: Any) -> str:
    """Returns an absolute path, so that it stays valid if the program changes its directory; URLs
    are returned unchanged."""
    text = os.fsdecode(path)
    if not text:
        raise UsageError(f"{name} is empty")
    if text == "-" or _SCHEME.match(text):
        return text
    return os.path.join(os.getcwd(), text)


def whole(name: str, value: Any, least: int = 0, most: int = LARGEST) -> int:
    """Returns a whole number in a range; accepts any integer type, including NumPy's.

    >>> whole("threads", 2), whole("threads", 0, 0, 1024)
    (2, 0)
    >>> whole("threads", -1, 0, 1024)
    Traceback (most recent call last):
    tarn.errors.UsageError: threads must be from 0 to 1024 (found -1)
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r}") from None
    if least <= number <= most:
        return number
    if number < least and most == LARGEST:
        raise UsageError(f"{name} must be at least {least} (found {number})")
    upto = "2^64 - 1" if most == LARGEST else str(most)
    raise UsageError(f"{name} must be from {least} to {upto} (found {number})")


def integer(name: str, value: Any) -> int:
    """Returns any whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r}") from None


def real(name: str, value: Any) -> float:
    """Returns any number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number, not {value!r}") from None


def reals(name: str, value: Any, least: int, most: int) -> tuple[float, ...]:
    """Returns a list of at least `least` and at most `most` numbers."""
    many = str(least) if least == most else f"{least} to {most}"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise UsageError(f"{name} must be a list of {many} numbers, not {value!r}")
    numbers = tuple(real(name, number) for number in value)
    if not least <= len(numbers) <= most:
        raise UsageError(f"{name} must be a list of {many} numbers (found {len(numbers)})")
    return numbers


def word(name: str, value: Any, words: Sequence[str]) -> str:
    """Returns one of the known words."""
    if isinstance(value, str) and value in words:
        return value
    known = ", ".join(f'"{one}"' for one in words[:-1]) + f' or "{words[-1]}"'
    raise UsageError(f"{name} must be {known}, not {value!r}")


def names(name: str, value: Any) -> list[str]:
    """Returns a list of names; a str is one name, not a list of letters."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Iterable):
        given = list(value)
        if all(isinstance(one, str) for one in given):
            return given
    raise UsageError(f"{name} must be a list of str, not {value!r}")


def task_of(task: tuple[int, int | None] | None, job: str | None) -> dict[str, Any]:
    """The arguments of the extension for task=(i, n); n may be None only for a writer."""
    if task is None:
        return {"task": 0, "tasks": 0, "job": job}
    try:
        index, count = task
    except (TypeError, ValueError):
        raise UsageError(f"task must be (i, n), not {task!r}") from None
    if count is None:
        index = whole("the number of the task", index, 0, 99_998)
        return {"task": index, "tasks": 2**32 - 1, "job": job}
    count = whole("the number of tasks", count, 1, 99_999)
    return {"task": whole("the number of the task", index, 0, count - 1), "tasks": count, "job": job}
