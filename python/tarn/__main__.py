"""Entry point of `python -m tarn` and of the script `tarn` that pip installs."""

from __future__ import annotations

import signal
import sys

from . import _tarn


def main() -> int:
    """Runs the command with the arguments of this process."""
    # Python ignores SIGPIPE. The command ends by it, silently, when the reader of its output
    # has closed it, as in "tarn ls data | head -n 1".
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _tarn.main(["tarn", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
