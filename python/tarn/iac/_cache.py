"""The headers that `read_header` keeps, up to a number of headers and of characters. A header belongs
to one state of one file, so that a file that is replaced is read again."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Union

Path = Union[str, "os.PathLike[str]"]
State = tuple[int, int, int, int, int]


def _state(name: str) -> State | None:
    """Returns what identifies the state of a file; None for a file that cannot be examined, whose
    error the reader raises."""
    try:
        at = os.stat(name)
    except (OSError, ValueError):
        return None
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns


class _Texts:
    """Texts by name; the first is the one that was not used for the longest time. The lock guards
    all members; a lock of `loading` is held while a text is read, and taken before it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loading: dict[str, threading.Lock] = {}
        self.texts: OrderedDict[str, tuple[State, str]] = OrderedDict()
        self.size = 0

    def find(self, name: str, state: State) -> str | None:
        found = self.texts.get(name)
        if found is None or found[0] != state:
            return None
        self.texts.move_to_end(name)
        return found[1]

    def keep(self, name: str, state: State, text: str, max_entries: int, max_bytes: int) -> None:
        self.size += len(text) - len(self.texts.pop(name, (state, ""))[1])
        self.texts[name] = state, text
        while len(self.texts) > max_entries or self.size > max_bytes:
            self.size -= len(self.texts.popitem(last=False)[1][1])


class HeaderCache:
    """Any number of threads may use it; those that need the same header wait for the first of
    them."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self.configure(True, max_entries, max_bytes)
        os.register_at_fork(after_in_child=self.clear)

    def configure(self, enabled: bool, max_entries: int, max_bytes: int) -> None:
        """Sets the limits and removes all texts."""
        self._enabled = enabled
        self._limits = max_entries, max_bytes
        self.clear()

    def clear(self) -> None:
        """Removes all texts. The locks are new, too: after a fork others may be held for ever."""
        self._kept = _Texts()

    def get(self, path: Path, load: Callable[[], str]) -> str:
        """Returns the text of a file's header, which `load` reads if it is not kept."""
        name = os.path.abspath(os.fspath(path))
        state = _state(name) if self._enabled else None
        if state is None:
            return load()
        kept = self._kept
        with kept.lock:
            text = kept.find(name, state)
            if text is not None:
                return text
            turn = kept.loading.setdefault(name, threading.Lock())
        with turn:
            with kept.lock:
                text = kept.find(name, state)
            if text is None:
                text = load()
            with kept.lock:
                kept.keep(name, state, text, *self._limits)
                kept.loading.pop(name, None)
        return text
