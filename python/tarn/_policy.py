"""What data may make this process do: run commands (`pipe:` URLs) and run code (pickles).

Both are refused unless the call names them or the whole program allows them, by a function or by
TARN_ALLOW_PIPE=1 and TARN_ALLOW_PICKLE=1. The functions set these variables too, so that worker
processes follow. This module knows nothing of formats and pipelines.
"""

from __future__ import annotations

import os

from .errors import UnsupportedError

__all__ = ["NotAllowedError", "allow_pickles", "allow_pipes", "denied", "pickles_allowed",
           "pipes_allowed"]

_PIPE, _PICKLE = "TARN_ALLOW_PIPE", "TARN_ALLOW_PICKLE"


class NotAllowedError(UnsupportedError):
    """The data needs something that the program did not allow. It is not a fault of the data, so
    error handlers that skip samples or shards are not called with it."""

    code = "unsupported"


def _allowed(variable: str) -> bool:
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise NotAllowedError(f"{variable}: must be 0 or 1 (found {value!r})")
    return value == "1"


def _allow(variable: str, allowed: bool) -> None:
    os.environ[variable] = "1" if allowed else "0"


def allow_pipes(allowed: bool = True) -> None:
    """Lets all `pipe:` URLs of `tarn.wds` in this program run their command, or forbids it.

    The same as TARN_ALLOW_PIPE=1 in the environment; processes started later inherit it.

    >>> from tarn import wds
    >>> wds.allow_pipes()
    >>> wds.gopen("pipe:echo hello").read()
    b'hello\\n'
    >>> wds.allow_pipes(False)
    """
    _allow(_PIPE, allowed)


def allow_pickles(allowed: bool = True) -> None:
    """Lets `decode()` unpickle fields in the whole program, or forbids it. Pickles can run code.

    The same as TARN_ALLOW_PICKLE=1 in the environment; processes started later inherit it.

    >>> import pickle
    >>> from tarn import wds
    >>> wds.allow_pickles()
    >>> wds.Decoder([])({"pyd": pickle.dumps({1, 2})})
    {'pyd': {1, 2}}
    >>> wds.allow_pickles(False)
    """
    _allow(_PICKLE, allowed)


def pipes_allowed(allow_pipe: bool | None = None) -> bool:
    """Whether `pipe:` URLs may run: what a call says or, for None, what the program says."""
    return _allowed(_PIPE) if allow_pipe is None else bool(allow_pipe)


def pickles_allowed() -> bool:
    """Whether the program allows pickles."""
    return _allowed(_PICKLE)


def denied(error: BaseException | None) -> bool:
    """Whether an error, or the one that caused it, is a NotAllowedError."""
    while error is not None:
        if isinstance(error, NotAllowedError):
            return True
        error = error.__cause__
    return False
