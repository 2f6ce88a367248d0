"""What becomes of an exception in a pipeline: raised again, or passed over, or the end.

A handler is called with the exception; true goes on with the next shard or sample, false ends.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NoReturn

Handler = Callable[[Exception], bool]


def reraise_exception(exn: BaseException) -> NoReturn:
    """Raises it."""
    raise exn


def ignore_and_continue(exn: BaseException) -> bool:
    """Says nothing and goes on."""
    return True


def ignore_and_stop(exn: BaseException) -> bool:
    """Says nothing and ends."""
    return False


def warn_and_continue(exn: BaseException) -> bool:
    """Warns and goes on.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     print(warn_and_continue(ValueError("odd")), said[0].message)
    True ValueError('odd')
    """
    warnings.warn(repr(exn), stacklevel=2)
    return True


def warn_and_stop(exn: BaseException) -> bool:
    """Warns and ends."""
    warnings.warn(repr(exn), stacklevel=2)
    return False
