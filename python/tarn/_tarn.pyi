"""The C extension. Its names are for the modules of this package."""

from collections.abc import Sequence
from typing import Any

__version__: str

# module.c
def main(argv: Sequence[str], /) -> int: ...

# value.c
def encode(field: str, value: Any, /) -> bytes: ...
def decode(field: str, data: Any, /) -> Any: ...
