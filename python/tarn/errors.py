"""Exceptions of tarn: `Error`, and subclasses that are also built-in exceptions.

>>> import tarn
>>> try:
...     tarn.open("no/such/folder")
... except FileNotFoundError as error:
...     print(error.code, isinstance(error, tarn.Error))
no-file True
"""

from __future__ import annotations

import errno as _errno
from typing import Any

from . import _tarn

__all__ = [
    "AccessError", "AmbiguousError", "CancelledError", "ChecksumError", "Error", "ExistsError",
    "FormatError", "InputOutputError", "KeyNotFoundError", "LimitError", "NoMemoryError",
    "NotFoundError", "PartExistsError", "PathNotFoundError", "StaleError", "TruncatedError", "UnsupportedError",
    "UsageError", "WorkerError",
]


def shown(text: Any, is_url: bool = True) -> str:
    """Returns a URL, path or list of them as it may be printed: without users, passwords, queries
    and the arguments of commands. is_url=False is for other text that may contain URLs.

    >>> shown("http://me:secret@host/x.tar?sig=secret"), shown("data/x.tar")
    ('http://host/x.tar?...', 'data/x.tar')
    """
    given = str(text)
    if ":/" not in given and given[:5].lower() != "pipe:":
        return given
    data = given.encode("utf-8", "surrogatepass").replace(b"\0", b"\\0")
    return _tarn.shown(data, is_url).decode("utf-8", "surrogatepass")


class Error(Exception):
    """Base class of the errors of the library.

    `path` is the file concerned and `offset` the byte in it, or None; `code` is a short name such
    as "truncated". The message contains all of it: what was found, what was expected, and what to
    do.
    """

    path: str | None = None
    offset: int | None = None
    code: str = "error"

    def __init__(self, *args: object) -> None:
        super().__init__(*(shown(arg, False) if isinstance(arg, str) else arg for arg in args))

    def __str__(self) -> str:
        return str(self.args[0]) if len(self.args) == 1 else Exception.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Also pickles errno, which an OSError with one argument does not do."""
        parts: Any = super().__reduce__()
        state: dict[str, Any] = dict(self.__dict__)
        if getattr(self, "errno", None) is not None:
            state["errno"] = self.errno  # type: ignore[attr-defined]
        return parts[0], parts[1], state


class UsageError(Error, ValueError):
    """An argument is invalid."""


class NoMemoryError(Error, MemoryError):
    """A memory allocation failed."""


class InputOutputError(Error, OSError):
    """A system call failed; `errno` says why."""


class AccessError(InputOutputError, PermissionError):
    """The operating system denied access."""


class FormatError(Error, ValueError):
    """The bytes do not follow their format."""


class TruncatedError(FormatError, EOFError):
    """The file ends before its format allows."""


class UnsupportedError(Error, ValueError):
    """Valid, but refused on purpose."""


class LimitError(Error, ValueError):
    """A named limit was exceeded; the message names it."""


class NotFoundError(Error):
    """Something was not found."""


class PathNotFoundError(NotFoundError, FileNotFoundError):
    """No such file, folder or fold."""


class KeyNotFoundError(NotFoundError, KeyError):
    """No such sample, field, array or record."""


class AmbiguousError(Error, ValueError):
    """More than one thing has that name."""


class StaleError(Error, ValueError):
    """An index, its checksums or a state do not match the data."""


class ChecksumError(FormatError):
    """The bytes are not the ones that were written."""


class CancelledError(Error, RuntimeError):
    """A callback requested to stop."""


class WorkerError(Error, RuntimeError):
    """A worker process of a loader ended or failed."""

    code = "worker"


class ExistsError(Error, FileExistsError):
    """The target already exists."""


class PartExistsError(ExistsError):
    """The part of a task is complete, so the task has nothing to do."""


_CLASSES: dict[str, type[Error]] = {
    "usage": UsageError,
    "memory": NoMemoryError,
    "io": InputOutputError,
    "format": FormatError,
    "truncated": TruncatedError,
    "unsupported": UnsupportedError,
    "limit": LimitError,
    "ambiguous": AmbiguousError,
    "stale": StaleError,
    "checksum": ChecksumError,
    "cancelled": CancelledError,
    "exists": ExistsError,
    "no-file": PathNotFoundError,
    "no-fold": PathNotFoundError,
    "no-sample": KeyNotFoundError,
    "no-field": KeyNotFoundError,
}

_BY_ERRNO: dict[int, type[Error]] = {
    _errno.ENOENT: PathNotFoundError,
    _errno.EEXIST: ExistsError,
    _errno.EACCES: AccessError,
    _errno.EPERM: AccessError,
    _errno.ENOMEM: NoMemoryError,
}


def _place(error: BaseException, where: str, path: str | None, offset: int | None) -> None:
    """Adds the sample, its field and its place to an exception of a decoder: to the message of an error
    of tarn that has no place yet, as a note to any other exception."""
    if not isinstance(error, Error) or error.path is not None:
        error.add_note(where)
        return
    before = "" if path is None else f"{path}: " if offset is None else f"{path}: offset {offset}: "
    error.args = (f"{before}{where}: {error}",)
    error.path, error.offset = path, offset


def _class_of(code: str, errno: int, key: bool) -> type[Error]:
    """Returns the class for a status of the library; `key` matters only for "not-found"."""
    if code == "not-found":
        return KeyNotFoundError if key else PathNotFoundError
    if code == "io":
        return _BY_ERRNO.get(errno, InputOutputError)
    return _CLASSES.get(code, Error)
