"""Entry point of `python -m tarn` and of the script `tarn` that pip installs."""

from __future__ import annotations

import sys

from . import _tarn


def main() -> int:
    """Runs the command with the arguments of this process."""
    return _tarn.main(["tarn", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
