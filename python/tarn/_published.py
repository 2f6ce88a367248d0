"""Base class of writers that publish atomically: `close` publishes, `abandon` leaves nothing."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, TypeVar

__all__ = ["Published"]


class _Ends(Protocol):
    def close(self) -> None: ...
    def abandon(self) -> None: ...


T = TypeVar("T")


class Published:
    """Context manager that closes the writer or, after an exception, abandons it. Subclasses
    define `close` and `abandon`."""

    __slots__ = ()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self: _Ends, exc_type: type[BaseException] | None,
                 exc_value: BaseException | None, traceback: TracebackType | None) -> None:
        if exc_type is None:
            self.close()
        else:
            self.abandon()
