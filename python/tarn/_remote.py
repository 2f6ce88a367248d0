"""Datasets by URL: archives are copied once into a folder chosen by the caller and opened
there."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from urllib.parse import unquote, urlsplit

from .errors import UsageError

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_COMPRESSED = (".gz", ".zst", ".xz", ".bz2")


def is_url(path: str) -> bool:
    """
    >>> is_url("s3://bucket/x.tar"), is_url("data/birds:train"), is_url("file:///data/x.tar")
    (True, False, True)
    """
    return _URL.match(path) is not None


def local(url: str, cache: str | os.PathLike[str] | None) -> str:
    """Returns the local path of a URL and downloads it if necessary."""
    from ._source import expand_urls

    scheme = urlsplit(url).scheme.lower()
    if scheme == "file":
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise UsageError(f"{url}: a file URL must be file:///PATH on this machine")
        return unquote(parts.path)
    if cache is None:
        raise UsageError(f"{url}: reading samples by position needs a local file; pass cache=FOLDER "
                         "to keep a copy there, or read it as a stream with tarn.wds.WebDataset")
    shards = expand_urls(url)
    folder = os.path.join(os.fspath(cache), hashlib.sha256(url.encode()).hexdigest()[:16])
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, _name(shard)) for shard in shards]
    if len(set(paths)) != len(paths):
        raise UsageError(f"{url}: several shards have the same name")
    for shard, path in zip(shards, paths):
        if not os.path.exists(path):
            _fetch(shard, path)
    return paths[0] if len(paths) == 1 else folder


def _name(url: str) -> str:
    """Returns the name of a shard in the folder: a plain tar, because the copy is decompressed."""
    name = unquote(os.path.basename(urlsplit(url).path)) or "data.tar"
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in _COMPRESSED else name


def _fetch(url: str, path: str) -> None:
    """Downloads a file, which appears only when it is complete."""
    from ._source import open_source

    with open_source(url) as source, open_source(path, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
