"""A folder with local copies of remote shards. A copy gets its final name only when it is
complete, and different URLs never share a copy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlparse

from . import gopen as _gopen
from .handlers import Handler, reraise_exception
from .._remote import copy_checked
from .._source import open_source


def islocal(url: str) -> bool:
    """Whether a URL is a local file."""
    return urlparse(url).scheme in ("", "file")


class FileCache:
    """Downloads shards into a folder and yields dicts with their local_path.

    cache_size: the maximum number of bytes in the folder; the oldest downloads are removed first.
    -1 means no limit.
    """

    def __init__(self, cache_dir: str, *, cache_size: int = -1,
                 handler: Handler = reraise_exception, allow_pipe: bool = False) -> None:
        self.cache_dir, self.cache_size = os.path.expanduser(cache_dir), cache_size
        self.handler, self.allow_pipe = handler, allow_pipe

    def path(self, url: str) -> str:
        """Returns the path of the copy of a URL. Its name has a digest of the URL and, for
        readability, the last part of the URL."""
        name = "".join(c if c.isalnum() or c in "._-" else "_"
                       for c in os.path.basename(urlparse(url).path))[-80:]
        digest = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return os.path.join(self.cache_dir, f"{digest}-{name}")

    def get_file(self, url: str) -> str:
        """Returns the local copy and downloads it if necessary."""
        path = self.path(url)
        if not os.path.exists(path):
            os.makedirs(self.cache_dir, exist_ok=True)
            self.make_room()
            with _gopen.gopen(url, "rb", allow_pipe=self.allow_pipe) as source:
                with open_source(path, "wb", compress=False, overwrite=True) as copy:
                    copy_checked(url, source, copy)
        return path

    def make_room(self) -> None:
        """Removes the oldest copies until the folder is within its limit."""
        if self.cache_size <= 0:
            return
        entries = [entry for entry in os.scandir(self.cache_dir) if entry.is_file()]
        entries.sort(key=lambda entry: entry.stat().st_mtime)
        size = sum(entry.stat().st_size for entry in entries)
        while entries and size > self.cache_size:
            oldest = entries.pop(0)
            size -= oldest.stat().st_size
            try:
                os.unlink(oldest.path)
            except FileNotFoundError:
                pass  # another process removed it first

    def __call__(self, urls: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for shard in urls:
            url = shard["url"] if isinstance(shard, dict) else shard
            if islocal(url):
                yield {"url": url}
                continue
            try:
                path = self.get_file(url)
            except Exception as error:
                if not self.handler(error):
                    return
                continue
            yield {"url": url, "local_path": path}
