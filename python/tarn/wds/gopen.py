"""gopen: opens URLs as file objects, by scheme. The library itself handles http(s), s3 and pipe:.
Other schemes (gs, ais, sftp, ftps, scp) run a program, without a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, cast
from urllib.parse import urlparse
from urllib.request import url2pathname

from . import utils
from .._published import Published
from .._source import open_source
from ..errors import shown

__all__ = ["Pipe", "gopen", "gopen_schemes", "reader", "rewrite_url"]


class Pipe(Published):
    """The output or input of a program as a file. If the program fails, OSError is raised after
    the last byte was read, or on close."""

    def __init__(self, argv: Sequence[str], mode: str = "rb",
                 ignore_status: Sequence[int] = ()) -> None:
        self.args = list(argv)
        self.ignore_status = {0, *ignore_status}
        self.reading = mode[0] == "r"
        pipes: dict[str, Any] = {"stdout" if self.reading else "stdin": subprocess.PIPE}
        self.proc = subprocess.Popen(self.args, **pipes)
        self.stream = cast("IO[bytes]", self.proc.stdout if self.reading else self.proc.stdin)
        self.whole = False

    def _check(self) -> None:
        status = self.proc.wait()
        if status not in self.ignore_status:
            raise OSError(f"{self.args[0]}: exit {status}: {shown(' '.join(self.args), False)}")

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        if size != 0 and not data or size < 0:
            self.whole = True
            self._check()
        return data

    def write(self, data: Any) -> int:
        return self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()

    @property
    def closed(self) -> bool:
        return self.stream.closed

    def close(self) -> None:
        if self.stream.closed:
            return
        self.stream.close()
        if self.reading and not self.whole:
            self.proc.kill()  # the rest of the output is not needed
            self.proc.wait()
        else:
            self._check()

    def abandon(self) -> None:
        """Kills the program, so that it does not take the end of its input for the end of the
        data."""
        self.proc.kill()
        self.stream.close()
        self.proc.wait()

    def __del__(self) -> None:
        if hasattr(self, "stream") and not self.stream.closed:
            try:
                self.abandon()
            except OSError:
                pass


def _check_mode(mode: str, url: str) -> bool:
    if mode[0] not in "rw":
        raise ValueError(f"{mode}: unknown mode")
    return mode[0] == "r"


def gopen_native(url: str, mode: str = "rb", bufsize: int = 8192, *, allow_pipe: bool = False,
                 **kw: Any) -> Any:
    """Opens http, https, s3 and pipe: URLs with the library."""
    if url.startswith("pipe:") and utils.enforce_security:
        raise ValueError("gopen_pipe: WDS_SECURE is set, cannot open pipe URLs")
    if _check_mode(mode, url):
        return open_source(url, "rb", compress=False, allow_pipe=allow_pipe)
    return open_source(url, "wb", compress=False, allow_pipe=allow_pipe, overwrite=True)


def gopen_curl(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens schemes that curl supports and the library does not."""
    if _check_mode(mode, url):
        return Pipe(["curl", "--connect-timeout", "30", "--retry", "30", "--retry-delay", "2",
                     "-f", "-s", "-L", "--", url], mode)
    return Pipe(["curl", "-f", "-s", "-X", "PUT", "-L", "-T", "-", "--", url], mode)


def gopen_gsutil(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens gs:// URLs with gsutil."""
    return Pipe(["gsutil", "cat", url] if _check_mode(mode, url) else ["gsutil", "cp", "-", url],
                mode)


def gopen_ais(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens ais:// URLs with ais."""
    return Pipe(["ais", "get", url, "-"] if _check_mode(mode, url) else ["ais", "put", "-", url],
                mode)


def gopen_error(url: str, *args: Any, **kw: Any) -> Any:
    """Raises an error for any other scheme."""
    raise ValueError(f"{shown(url)}: no gopen handler defined")


gopen_schemes: dict[str, Callable[..., Any]] = {
    "__default__": gopen_error, "pipe": gopen_native, "http": gopen_native,
    "https": gopen_native, "s3": gopen_native, "ais": gopen_ais, "sftp": gopen_curl,
    "ftps": gopen_curl, "scp": gopen_curl, "gs": gopen_gsutil,
}
for _scheme in filter(None, os.environ.get("USE_AIS_FOR", "").split(":")):
    gopen_schemes[_scheme] = gopen_ais


def rewrite_url(url: str) -> str:
    """Applies the first rule of GOPEN_REWRITE ("regex=text;regex=text") that changes the URL."""
    rules = os.environ.get("GOPEN_REWRITE")
    if rules is None:
        return url
    if utils.enforce_security:
        raise ValueError("rewrite_url: WDS_SECURE is set, cannot rewrite URLs")
    for rule in rules.split(";"):
        pattern, text = rule.split("=", 1)
        changed = re.sub("^" + pattern, text, url)
        if changed != url:
            if int(os.environ.get("GOPEN_VERBOSE", 0)):
                print(f"GOPEN REWRITE {shown(url)} -> {shown(changed)}")
            return changed
    return url


def is_native(url: str) -> bool:
    """Whether the library opens a URL itself, so that no bytes pass through Python."""
    scheme = urlparse(url).scheme
    return scheme in ("", "file") or gopen_schemes.get(scheme) is gopen_native


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    """Opens a URL for "rb" or "wb": a path, "-", file:, or a scheme in `gopen_schemes`.

    Commands (pipe:) run only with `allow_pipe=True`.

    >>> gopen("ftp://host/x.tar")
    Traceback (most recent call last):
    ValueError: ftp://host/x.tar: no gopen handler defined
    """
    if int(os.environ.get("GOPEN_VERBOSE", 0)):
        print("GOPEN", shown(url), {k: v for k, v in kw.items() if k != "allow_pipe"}, file=sys.stderr)
    assert mode in ("rb", "wb"), mode
    if url == "-":
        return sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    url = rewrite_url(url)
    parts = urlparse(url)
    if parts.scheme in ("", "file"):
        if utils.enforce_security:
            raise ValueError("gopen: WDS_SECURE is set, cannot open local files")
        path = url if parts.scheme == "" else url2pathname(parts.path)
        return open(path, mode, buffering=int(os.environ.get("GOPEN_BUFFER", -1)))
    handler = gopen_schemes.get(parts.scheme, gopen_schemes["__default__"])
    return handler(url, mode, bufsize, **kw)


def reader(url: str, **kw: Any) -> Any:
    """Opens a URL for reading; see gopen."""
    return gopen(url, "rb", **kw)
