"""gopen: opens URLs as file objects, by scheme. The library itself handles http(s), s3 and pipe:.
Other schemes (gs, ais, sftp, ftps, scp) run a program, without a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from subprocess import PIPE
from typing import IO, Any, cast
from urllib.parse import urlparse
from urllib.request import url2pathname

from . import utils
from .._policy import NotAllowedError, pipes_allowed
from .._published import Published
from .._source import open_source
from ..errors import shown

__all__ = ["Pipe", "gopen", "gopen_schemes", "reader", "rewrite_url", "set_options"]

info: dict[str, Any] = {}  # printed with GOPEN_VERBOSE

_CURL = ("curl", "--connect-timeout", "30", "--retry", "30", "--retry-delay", "2", "-f", "-s",
         "-L")


class Pipe(Published):
    """The output or input of a program as a file. Arguments are those of subprocess.Popen. If the
    program fails, OSError is raised after the last byte was read, or on close.

    >>> Pipe("echo hello", mode="rb", shell=True).read()
    b'hello\\n'

    timeout: how many seconds `close` waits for the program. ignore_errors, ignore_status: any
    status, or these, count as success.
    """

    def __init__(self, *args: Any, mode: str, timeout: float = 7200.0,
                 ignore_errors: bool = False, ignore_status: Sequence[int] = [],
                 **kw: Any) -> None:
        self.args = (args, kw)
        self.timeout, self.ignore_errors = timeout, ignore_errors
        self.ignore_status = list(ignore_status)
        self.reading = _check_mode(mode, str(args[0]))
        self.status: int | None = None
        kw = {**kw, "stdout" if self.reading else "stdin": PIPE}
        self.proc: subprocess.Popen[Any] = subprocess.Popen(*args, **kw)
        self.stream = cast("IO[bytes]", self.proc.stdout if self.reading else self.proc.stdin)
        self.whole = False

    def _check(self) -> None:
        self.status = self.proc.wait(self.timeout)
        if self.status and self.status not in self.ignore_status and not self.ignore_errors:
            command = self.args[0][0]
            text = command if isinstance(command, str) else " ".join(command)
            raise OSError(f"{shown(text, False)}: exit {self.status}")

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

    def __str__(self) -> str:
        return shown(f"<Pipe {self.args}>", False)

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


def set_options(obj: Any, timeout: float | None = None, ignore_errors: bool | None = None,
                ignore_status: Sequence[int] | None = None, handler: Any = None) -> bool:
    """Changes the options of a Pipe; returns False for any other file."""
    if not isinstance(obj, Pipe):
        return False
    given = {"timeout": timeout, "ignore_errors": ignore_errors, "ignore_status": ignore_status,
             "handler": handler}
    obj.__dict__.update({name: value for name, value in given.items() if value is not None})
    return True


def check_pipe(url: str, allow_pipe: bool | None) -> bool:
    """Whether the library may run commands; raises NotAllowedError if the URL needs it and it is
    not allowed. The command is not shown, as it may contain a password."""
    allowed = pipes_allowed(allow_pipe)
    if not url.startswith("pipe:"):
        return allowed
    if utils.enforce_security:
        raise NotAllowedError("gopen_pipe: unsafe_gopen is False, cannot open pipe URLs "
                              "(WDS_SECURE)")
    if not allowed:
        raise NotAllowedError("pipe: URLs run a shell command, which is not allowed; use "
                              "allow_pipe=True, tarn.wds.allow_pipes() or TARN_ALLOW_PIPE=1")
    return True


def gopen_native(url: str, mode: str = "rb", bufsize: int = 8192, *,
                 allow_pipe: bool | None = None, **kw: Any) -> Any:
    """Opens http, https, s3 and pipe: URLs with the library."""
    allow_pipe = check_pipe(url, allow_pipe)
    if _check_mode(mode, url):
        return open_source(url, "rb", compress=False, allow_pipe=allow_pipe)
    return open_source(url, "wb", compress=False, allow_pipe=allow_pipe, overwrite=True)


def gopen_pipe(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    """Runs the command of a pipe: URL, if that is allowed."""
    assert url.startswith("pipe:"), url
    return gopen_native(url, mode, bufsize, **kw)


def gopen_file(url: str, mode: str = "rb", bufsize: int = 8192) -> Any:
    """Opens a path or a file: URL."""
    return open(re.sub("^file://?", "", url), mode)


def gopen_hf(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens hf:// URLs with the package huggingface_hub and curl, which reads the token from a file
    descriptor, so that it does not appear among the arguments of the process."""
    if not _check_mode(mode, url):
        raise ValueError(f"{mode}: cannot write")
    from huggingface_hub import (  # type: ignore[import-not-found,unused-ignore]
        HfFileSystem, get_token, hf_hub_url)

    found = HfFileSystem().resolve_path(url)
    place = hf_hub_url(repo_id=found.repo_id, filename=found.path_in_repo,
                       repo_type=found.repo_type, revision=found.revision)
    header, end = os.pipe()
    try:
        os.write(end, f"Authorization: Bearer {get_token()}\n".encode())
        os.close(end)
        return Pipe([*_CURL, "-H", "@-", "--", place], mode=mode, stdin=header)
    finally:
        os.close(header)


def gopen_curl(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens schemes that curl supports and the library does not."""
    if _check_mode(mode, url):
        return Pipe([*_CURL, "--", url], mode=mode)
    return Pipe(["curl", "-f", "-s", "-X", "PUT", "-L", "-T", "-", "--", url], mode=mode)


def gopen_gsutil(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens gs:// URLs with gsutil."""
    return Pipe(["gsutil", "cat", url] if _check_mode(mode, url) else ["gsutil", "cp", "-", url],
                mode=mode)


def gopen_ais(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Pipe:
    """Opens ais:// URLs with ais."""
    return Pipe(["ais", "get", url, "-"] if _check_mode(mode, url) else ["ais", "put", "-", url],
                mode=mode)


def gopen_error(url: str, *args: Any, **kw: Any) -> Any:
    """Raises an error for any other scheme."""
    raise ValueError(f"{shown(url)}: no gopen handler defined")


gopen_schemes: dict[str, Callable[..., Any]] = {
    "__default__": gopen_error, "pipe": gopen_pipe, "http": gopen_native,
    "https": gopen_native, "s3": gopen_native, "ais": gopen_ais, "sftp": gopen_curl,
    "ftps": gopen_curl, "scp": gopen_curl, "gs": gopen_gsutil, "hf": gopen_hf,
}
for _scheme in filter(None, os.environ.get("USE_AIS_FOR", "").split(":")):
    gopen_schemes[_scheme] = gopen_ais


def rewrite_url(url: str) -> str:
    """Applies the first rule of GOPEN_REWRITE ("regex=text;regex=text") that changes the URL."""
    rules = os.environ.get("GOPEN_REWRITE")
    if rules is None:
        return url
    if utils.enforce_security:
        raise NotAllowedError("rewrite_url: unsafe_gopen is False, cannot rewrite URLs using "
                              "environment variables (WDS_SECURE)")
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
    return scheme in ("", "file") or gopen_schemes.get(scheme) in (gopen_native, gopen_pipe)


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
    """Opens a URL for "rb" or "wb": a path, "-", file:, or a scheme in `gopen_schemes`.

    Commands (pipe:) run only with `allow_pipe=True`, or after `tarn.wds.allow_pipes()`.

    >>> gopen("ftp://host/x.tar")
    Traceback (most recent call last):
    ValueError: ftp://host/x.tar: no gopen handler defined
    """
    if int(os.environ.get("GOPEN_VERBOSE", 0)):
        print("GOPEN", shown(url), info, file=sys.stderr)
    assert mode in ("rb", "wb"), mode
    if url == "-":
        return sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    url = rewrite_url(url)
    parts = urlparse(url)
    if parts.scheme in ("", "file"):
        if utils.enforce_security:
            raise NotAllowedError("gopen: unsafe_gopen is False, cannot open local files "
                                  "(WDS_SECURE)")
        path = url if parts.scheme == "" else url2pathname(parts.path)
        return open(path, mode, buffering=int(os.environ.get("GOPEN_BUFFER", -1)))
    handler = gopen_schemes.get(parts.scheme, gopen_schemes["__default__"])
    return handler(url, mode, bufsize, **kw)


def reader(url: str, **kw: Any) -> Any:
    """Opens a URL for reading; see gopen."""
    return gopen(url, "rb", **kw)
