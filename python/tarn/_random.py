"""Random numbers of functions that take `rng`: the same for any number and kind of workers.

A loader says before each sample where it is: (seed, epoch, position in the epoch). A function with
a parameter named rng gets a generator that depends on nothing else. The module knows nothing about
loaders and workers.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal

import numpy
from numpy.random.bit_generator import ISeedSequence

Globals = Literal["set", "restore", "leave"]


class _Words(ISeedSequence):
    """Gives a bit generator the 32 bytes that it starts from, without NumPy's own mixing."""

    def __init__(self, digest: bytes) -> None:
        self._words = numpy.frombuffer(digest, numpy.uint64)

    def generate_state(self, n_words: int, dtype: Any = numpy.uint32) -> Any:
        return self._words.view(dtype)[:n_words]


class _Here(threading.local):
    """The sample that this thread works on."""

    where: tuple[int, int, int] | None = None
    what = b"sample"
    globals_: Globals = "leave"
    made: numpy.random.Generator | None = None
    saved: Any = None


_here = _Here()


def begin(seed: int, epoch: int, position: int, globals_: Globals, what: bytes = b"sample") -> None:
    """Says which sample comes next. globals_ says what happens to the generators of `random`,
    `numpy.random` and torch: they are set from the same numbers ("set"), also set back by `end`
    ("restore"), or left as they are."""
    _here.where = (seed, epoch, position)
    _here.what = what
    _here.globals_ = globals_
    _here.made = None


def end() -> None:
    """Ends what begin began."""
    _here.where = _here.made = None
    if _here.saved is not None:
        saved, _here.saved = _here.saved, None
        _restore(saved)


def generator() -> numpy.random.Generator:
    """Returns the generator of this sample; outside a loader a new one, seeded by the system."""
    if _here.where is None:
        return numpy.random.default_rng()
    if _here.made is None:
        digest = hashlib.blake2b(struct.pack("<QQQ", *_here.where), digest_size=32,
                                 person=_here.what).digest()
        words: Any = _Words(digest)
        _here.made = numpy.random.Generator(numpy.random.PCG64(words))
        if _here.globals_ != "leave":
            if _here.globals_ == "restore":
                _here.saved = _state()
            _seed(int.from_bytes(digest[24:], "little"))
    return _here.made


# --- The generators of the process ---------------------------------------------------------


def _torch() -> Any:
    """Returns torch's generator for the processor, if torch is imported. `torch.manual_seed` would
    also seed those of GPUs."""
    torch = sys.modules.get("torch")
    return getattr(torch, "default_generator", None)


def _seed(number: int) -> None:
    random = sys.modules.get("random")
    if random is not None:
        random.seed(number)
    numpy.random.seed(number & 0xFFFFFFFF)
    torch = _torch()
    if torch is not None:
        torch.manual_seed(number >> 1)


def _state() -> tuple[Any, Any, Any]:
    random, torch = sys.modules.get("random"), _torch()
    return (None if random is None else random.getstate(), numpy.random.get_state(),
            None if torch is None else torch.get_state())


def _restore(saved: tuple[Any, Any, Any]) -> None:
    if saved[0] is not None:
        sys.modules["random"].setstate(saved[0])
    numpy.random.set_state(saved[1])
    if saved[2] is not None:
        _torch().set_state(saved[2])


# --- Functions -----------------------------------------------------------------------------


class WithRandom:
    """A function that is called with the generator of the sample as `rng`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *values: Any) -> Any:
        return self.function(*values, rng=generator())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithRandom) and other.function == self.function

    def __hash__(self) -> int:
        return hash(self.function)


def prepared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that can be called without rng, whether or not the given one takes it.

    >>> prepared(len) is len
    True
    >>> int(prepared(lambda sample, rng: sample + rng.integers(1))(5))
    5
    """
    if isinstance(function, functools.partial) and "rng" in function.keywords:
        return function
    try:
        taken = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):  # some built-in functions have no signature
        return function
    if taken is None or taken.kind in (taken.VAR_KEYWORD, taken.VAR_POSITIONAL, taken.POSITIONAL_ONLY):
        return function
    return WithRandom(function)
