"""gopen: URLs as file objects, by scheme. http(s), s3 and pipe: are the library's own; what needs
a program (gs, ais, sftp, ftps, scp) runs it, without a shell."""

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

__all__ = ["Pipe", "gopen", "gopen_schemes", "reader", "rewrite_url"]


class Pipe(Published):
    """A program's output, or its input, as a file. That it failed is an OSError: when the last
    byte was read, or on close."""

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
            raise OSError(f"{self.args[0]}: exit {status}: {' '.join(self.args)}")

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
            self.proc.kill()  # nobody wants the rest
            self.proc.wait()
        else:
            self._check()

    def abandon(self) -> None:
        """Ends the program without having it believe that all came."""
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
    """http, https, s3 and pipe: by the library."""
    if url.startswith("pipe:") and utils.enforce_security:
        raise ValueError("gopen_pipe: WDS_SECURE is set, cannot open pipe URLs")
    if _check_mode(mode, url):
        return open_source(url, "rb", compress=False, allow_pipe=allow_pipe)
    return open_source(url, "wb", compress=False, allow_pipe=allow_pipe, overwrite=True)


def gopen_curl(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """What curl knows and the library does not."""
    if _check_mode(mode, url):
        return Pipe(["curl", "--connect-timeout", "30", "--retry", "30", "--retry-delay", "2",
                     "-f", "-s", "-L", "--", url], mode)
    return Pipe(["curl", "-f", "-s", "-X", "PUT", "-L", "-T", "-", "--", url], mode)


def gopen_gsutil(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """gs:// by gsutil."""
    return Pipe(["gsutil", "cat", url] if _check_mode(mode, url) else ["gsutil", "cp", "-", url],
                mode)


def gopen_ais(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """ais:// by ais."""
    return Pipe(["ais", "get", url, "-"] if _check_mode(mode, url) else ["ais", "put", "-", url],
                mode)


def gopen_error(url: str, *args: Any, **kw: Any) -> Any:
    """Any other scheme."""
    raise ValueError(f"{url}: no gopen handler defined")


gopen_schemes: dict[str, Callable[..., Any]] = {
    "__default__": gopen_error, "pipe": gopen_native, "http": gopen_native,
    "https": gopen_native, "s3": gopen_native, "ais": gopen_ais, "sftp": gopen_curl,
    "ftps": gopen_curl, "scp": gopen_curl, "gs": gopen_gsutil,
}
for _scheme in filter(None, os.environ.get("USE_AIS_FOR", "").split(":")):
    gopen_schemes[_scheme] = gopen_ais


def rewrite_url(url: str) -> str:
    """A URL after GOPEN_REWRITE ("regex=text;regex=text"): the first rule that changes it."""
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
                print(f"GOPEN REWRITE {url} -> {changed}")
            return changed
    return url


def is_native(url: str) -> bool:
    """Whether the library opens a URL itself, so that no bytes pass through Python."""
    scheme = urlparse(url).scheme
    return scheme in ("", "file") or gopen_schemes.get(scheme) is gopen_native


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    """Opens a URL for "rb" or "wb": a path, "-", file:, or a scheme in `gopen_schemes`.

    Commands (pipe:) run if `allow_pipe=True`.

    >>> gopen("ftp://host/x.tar")
    Traceback (most recent call last):
    ValueError: ftp://host/x.tar: no gopen handler defined
    """
    if int(os.environ.get("GOPEN_VERBOSE", 0)):
        print("GOPEN", url, {k: v for k, v in kw.items() if k != "allow_pipe"}, file=sys.stderr)
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
    """gopen for reading."""
    return gopen(url, "rb", **kw)
