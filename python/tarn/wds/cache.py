"""A folder with local copies of remote shards. A copy gets its final name only when it is
complete. In a WebDataset, different URLs never share a copy."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tarfile
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlparse

from . import gopen as _gopen
from .handlers import Handler, handled, reraise_exception
from .utils import obsolete
from .._remote import copy_checked
from .._source import open_source
from ..errors import shown

default_cache_dir = os.environ.get("WDS_CACHE", "./_cache")
default_cache_size = float(os.environ.get("WDS_CACHE_SIZE", "1e18"))
verbose_cache = int(os.environ.get("WDS_VERBOSE_CACHE", "0"))

_COPY = 4 << 20
_MAGIC = {b"\x1f\x8b": "gzip compressed data", b"BZh": "bzip2 compressed data",
          b"\xfd7zXZ\0": "XZ compressed data", b"\x28\xb5\x2f\xfd": "Zstandard compressed data"}


def islocal(url: str) -> bool:
    """Whether a URL is a local file."""
    return urlparse(url).scheme in ("", "file")


def magic_filetype(fname: str) -> str:
    """Describes a file by its first bytes: a tar archive, a compression, or data."""
    with open(fname, "rb") as file:
        start = file.read(512)
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return f"{fname}: {kind}"
    if start[257:262] == b"ustar":
        return f"{fname}: POSIX tar archive"
    if len(start) == 512 and not start.strip(b"\0"):
        return f"{fname}: empty tar archive"
    try:
        tarfile.TarInfo.frombuf(start, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return f"{fname}: data"
    return f"{fname}: tar archive"


def check_tar_format(fname: str) -> bool:
    """Whether a file is a tar archive or compressed."""
    assert os.path.exists(fname), fname
    return magic_filetype(fname).endswith((" archive", " compressed data"))


@obsolete
def pipe_cleaner(spec: str) -> str:
    """Returns the first URL in a pipe: command."""
    if spec.startswith("pipe:"):
        for word in spec[5:].split(" "):
            if re.match(r"^(https?|hdfs|gs|ais|s3):", word):
                return word
        return spec[5:]
    return spec


def url_to_cache_name(url: str, ndir: int = 0) -> str:
    """Returns the last part of a URL, with ndir folders; URLs of unknown schemes are quoted.

    >>> url_to_cache_name("s3://bucket/train/000.tar"), url_to_cache_name("x://h/a", ndir=1)
    ('000.tar', 'x%3A%2F%2Fh%2Fa')
    """
    assert isinstance(url, str), url
    parts = urlparse(url)
    if parts.scheme in ("", "file", "http", "https", "ftp", "ftps", "gs", "s3", "ais"):
        return "/".join(parts.path.lstrip("/").split("/")[-1 - ndir:])
    return urllib.parse.quote(url, safe="_+{}*,-")[-128:]


def unique_cache_name(url: str) -> str:
    """Returns a digest of the whole URL and, for readability, its last part."""
    name = "".join(c if c.isalnum() or c in "._-" else "_"
                   for c in os.path.basename(urlparse(url).path))[-80:]
    digest = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return f"{digest}-{name}"


class LRUCleanup:
    """Removes files of a folder, those with the smallest keyfn first, until they are at most
    cache_size bytes. interval: the fewest seconds between two runs, or None."""

    def __init__(self, cache_dir: Any = None, cache_size: float = int(1e12),
                 keyfn: Callable[[str], float] = os.path.getctime, verbose: bool = False,
                 interval: float | None = 30) -> None:
        self.cache_dir, self.cache_size, self.keyfn = cache_dir, cache_size, keyfn
        self.verbose, self.interval = verbose, interval
        self.last_run = 0.0

    def set_cache_dir(self, cache_dir: Any) -> None:
        """Sets the folder."""
        self.cache_dir = cache_dir

    def cleanup(self) -> None:
        """Removes files, unless the last run was too short ago."""
        if self.interval is not None and time.time() - self.last_run < self.interval:
            return
        try:
            self._remove()
        except FileNotFoundError:
            pass  # another process removed it first
        self.last_run = time.time()

    def _remove(self) -> None:
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(self.cache_dir)
                 for name in names]
        total = sum(os.path.getsize(path) for path in paths)
        for path in sorted(paths, key=self.keyfn) if total > self.cache_size else ():
            total -= os.path.getsize(path)
            if self.verbose:
                print(f"# deleting {path}", file=sys.stderr)
            os.remove(path)
            if total <= self.cache_size:
                return


def download(url: str, dest: str, chunk_size: int = 1024**2, verbose: bool = False, *,
             allow_pipe: bool | None = None, check: bool = False) -> None:
    """Copies a URL into a file, which appears when it is complete. check: refuse what does not begin
    as an archive."""
    with _gopen.gopen(url, "rb", allow_pipe=allow_pipe) as source:
        with open_source(dest, "wb", compress=False, overwrite=True) as copy:
            if check:
                copy_checked(url, source, copy)
            else:
                shutil.copyfileobj(source, copy, chunk_size)


class StreamingOpen:
    """Opens URLs, one after another, and yields dicts with url, stream and, if local,
    local_path."""

    def __init__(self, verbose: bool = False, handler: Handler = reraise_exception) -> None:
        self.verbose, self.handler = verbose, handler

    def __call__(self, urls: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for shard in urls:
            url = shard["url"] if isinstance(shard, dict) else shard
            try:
                if islocal(url):
                    path = url if urlparse(url).scheme == "" else urlparse(url).path
                    opened = {"url": url, "stream": open(path, "rb"), "local_path": path}
                else:
                    opened = {"url": url, "stream": _gopen.gopen(url)}
            except Exception as error:
                if not handled(self.handler, error):
                    return
                continue
            if self.verbose:
                print(f"# opened {shown(url)}", file=sys.stderr)
            yield opened


class FileCache:
    """Downloads shards into a folder and yields dicts with url, stream and local_path.

    url_to_name: the name of the copy of a URL. Only the last part by default; unique_cache_name
    keeps URLs apart that end in the same part. validator: whether a downloaded file is a shard, or
    None. cache_size: the maximum number of bytes in the folder; the oldest downloads are removed
    first, at most every cache_cleanup_interval seconds. -1 means no limit.
    """

    def __init__(self, cache_dir: str | None = None, *,
                 url_to_name: Callable[[str], str] = url_to_cache_name, verbose: bool = False,
                 validator: Callable[[str], bool] | None = check_tar_format,
                 handler: Handler = reraise_exception, cache_size: int = -1,
                 cache_cleanup_interval: float | None = 30,
                 allow_pipe: bool | None = None) -> None:
        self.cache_dir = os.path.expanduser(default_cache_dir if cache_dir is None else cache_dir)
        self.url_to_name, self.validator, self.handler = url_to_name, validator, handler
        self.verbose, self.allow_pipe = verbose, allow_pipe
        self.cleaner = LRUCleanup(self.cache_dir, cache_size, verbose=verbose,
                                  interval=cache_cleanup_interval) if cache_size > 0 else None

    def get_file(self, url: str) -> str:
        """Returns the local copy and downloads it if necessary."""
        assert isinstance(url, str), url
        if islocal(url):
            return url if urlparse(url).scheme == "" else urlparse(url).path
        name = self.url_to_name(url)
        assert "/" not in name, f"bad cache name {name} for {url}"
        path = os.path.join(self.cache_dir, name)
        if not os.path.exists(path):
            self._fetch(url, path)
        return path

    def _fetch(self, url: str, path: str) -> None:
        if self.verbose:
            print(f"# downloading {shown(url)} to {path}", file=sys.stderr)
        os.makedirs(self.cache_dir, exist_ok=True)
        if self.cleaner is not None:
            self.cleaner.cleanup()
        early = self.validator is check_tar_format  # before the copy gets its name
        download(url, path, _COPY, allow_pipe=self.allow_pipe, check=early)
        if not early and self.validator is not None and not self.validator(path):
            with open(path, "rb") as file:
                start = file.read(200)
            os.remove(path)
            raise ValueError(f"{path} ({shown(url)}): the validator refuses it; it begins with "
                             f"{start!r}")

    def copies(self, urls: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """Yields dicts with url and local_path, without opening the copies."""
        for shard in urls:
            url = shard["url"] if isinstance(shard, dict) else shard
            try:
                path = self.get_file(url)
            except Exception as error:
                if not handled(self.handler, error):
                    return
                continue
            yield {"url": url, "local_path": path}

    def __call__(self, urls: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for shard in self.copies(urls):
            try:
                shard["stream"] = open(shard["local_path"], "rb")
            except OSError as error:
                if not handled(self.handler, error):
                    return
                continue
            yield shard
