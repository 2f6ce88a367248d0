"""Handlers for exceptions in a pipeline: raise again, skip, or stop.

A handler is called with the exception. If it returns true, the pipeline continues with the next
shard or sample; if false, it stops. All stages call handlers through `handled`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NoReturn

from .._policy import denied
from ..errors import shown

Handler = Callable[[Exception], bool]


def handled(handler: Handler, error: Exception) -> bool:
    """Calls a handler, unless the error is about something that the program did not allow: this
    is raised, since skipping it would drop all data silently."""
    if denied(error):
        raise error
    return bool(handler(error))


def reraise_exception(exn: BaseException) -> NoReturn:
    """Raises the exception again."""
    raise exn


def ignore_and_continue(exn: BaseException) -> bool:
    """Continues silently."""
    return True


def ignore_and_stop(exn: BaseException) -> bool:
    """Stops silently."""
    return False


def warn_and_continue(exn: BaseException) -> bool:
    """Issues a warning and continues.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     print(warn_and_continue(ValueError("odd")), said[0].message)
    True ValueError('odd')
    """
    warnings.warn(shown(repr(exn), False), stacklevel=2)
    return True


def warn_and_stop(exn: BaseException) -> bool:
    """Issues a warning and stops."""
    warnings.warn(shown(repr(exn), False), stacklevel=2)
    return False
