"""Names of members and shards."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

__all__ = ["StemHelper", "braceexpand", "stripext"]


def stripext(ext: str) -> str:
    """Returns an extension without one leading dot.

    >>> stripext(".left.jpg"), stripext("jpg")
    ('left.jpg', 'jpg')
    """
    return ext.removeprefix(".")


def braceexpand(input: str, root: str) -> tuple[str, ...]:
    """Returns the paths below root of a name with a range of numbers, which has the digits of its
    first number. Raises ValueError if there is none.

    >>> braceexpand("train_{08..10}.tar", "birds")
    ('birds/train_08.tar', 'birds/train_09.tar', 'birds/train_10.tar')
    """
    ranges = list(re.finditer(r"\{(\d+)\.\.(\d+)\}", input))
    if not ranges:
        raise ValueError(f"Invalid brace expansion {input}: it needs a range such as {{00..10}}")
    last = ranges[-1]
    first, end = last.groups()
    before, after = input[:last.start()], input[last.end():]
    return tuple(os.path.join(root, f"{before}{number:0{len(first)}d}{after}")
                 for number in range(int(first), int(end) + 1))


@dataclass(frozen=True)
class StemHelper:
    """The parts of a member's name or path.

    >>> name = StemHelper("a/b/owl.Left.JPG")
    >>> name.stem, name.suffix, name.suffix_no_dot
    ('owl', '.left.jpg', 'left.jpg')
    """

    __slots__ = ("rawstr",)
    rawstr: str

    def _split(self) -> tuple[str, str, str]:
        return self.rawstr.rpartition("/")[2].partition(".")

    @property
    def stem(self) -> str:
        """The name without folders, up to its first dot."""
        return self._split()[0]

    @property
    def suffix(self) -> str:
        """What follows the stem, in lower case and with the dot; empty if there is none."""
        _, dot, extension = self._split()
        return dot + extension.lower()

    @property
    def suffix_no_dot(self) -> str:
        """Like suffix, without the dot."""
        return self._split()[2].lower()

    @classmethod
    def from_hdr(cls, buf: bytes | memoryview) -> StemHelper:
        """Returns the name in a tar header, of which at most 100 bytes are used."""
        return cls(bytes(buf[:100]).partition(b"\0")[0].decode("utf-8", "replace"))

    def __getstate__(self) -> str:
        return self.rawstr

    def __setstate__(self, state: str) -> None:
        object.__setattr__(self, "rawstr", state)

    def __str__(self) -> str:
        return self.rawstr

    def __repr__(self) -> str:
        return f"FileName({self.rawstr!r})"
