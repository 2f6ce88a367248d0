"""Datasets by URL. Files in object stores and on web servers are opened where they are; only
compressed archives, which cannot be read by position, are copied into a folder chosen by the
caller, decompressed, and opened there."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
from typing import Any
from urllib.parse import unquote, urlsplit

from . import _tarn
from .errors import FormatError, TruncatedError, UsageError, shown

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_MAGIC = {".gnz": b"GNZ1", ".iac": b"IATROC\0"}  # of files that are not archives
_CHUNK = 1 << 20


def is_url(path: str) -> bool:
    """
    >>> is_url("s3://bucket/x.tar"), is_url("data/birds:train"), is_url("file:///data/x.tar")
    (True, False, True)
    """
    return _URL.match(path) is not None


def place(url: str, cache: str | os.PathLike[str] | None) -> str:
    """Returns what is opened for a URL: the URL, or a local path of a file URL or of a copy.

    >>> place("file:///data/x%201.tar", None), place("s3://bucket/birds:train", None)
    ('/data/x 1.tar', 's3://bucket/birds:train')
    """
    from ._source import expand_urls

    scheme = urlsplit(url).scheme.lower()
    if scheme == "file":
        parts = urlsplit(url)
        path = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not path or "\0" in path:
            raise UsageError(f"{url}: a file URL must be file:///PATH on this machine")
        return path
    if not urlsplit(url).path.lower().endswith(_COMPRESSED):
        return url
    if not cache:
        raise UsageError(f"{url}: samples of a compressed archive cannot be read by position; pass "
                         "cache=FOLDER to keep a decompressed copy there, or read it as a stream with "
                         "tarn.wds.WebDataset")
    return _copy(expand_urls(url), url, os.path.join(os.fspath(cache), "copies"))


def _copy(shards: list[str], url: str, cache: str) -> str:
    folder = os.path.join(cache, hashlib.sha256(url.encode()).hexdigest()[:16])
    paths = [os.path.join(folder, _name(shard)) for shard in shards]
    if len(set(paths)) != len(paths):
        raise UsageError(f"{url}: several shards have the same name")
    os.makedirs(folder, exist_ok=True)
    for shard, path in zip(shards, paths):
        if not os.path.exists(path):
            _fetch(shard, path)
    return paths[0] if len(paths) == 1 else folder


def _name(url: str) -> str:
    """Returns the name of a shard in the folder: a plain tar, because the copy is decompressed. URLs
    come from others, so a name may not lead out of the folder.

    >>> _name("http://host/a/x%201.tar.gz?v=2"), _name("s3://bucket/a/x%201.tar")
    ('x 1.tar', 'x%201.tar')
    >>> _name("http://host/..%2fx.tar")
    Traceback (most recent call last):
    tarn.errors.UsageError: http://host/..%2fx.tar: the last part of the URL cannot be used as a file \
name in the cache folder (found '../x.tar')
    """
    if url[:5].lower() == "s3://":  # keys are not percent-encoded
        name = url.rpartition("/")[2]
    else:
        name = unquote(urlsplit(url).path.rpartition("/")[2], errors="surrogateescape")
    name = name or "data.tar"
    stem, ending = os.path.splitext(name)
    plain = stem if ending.lower() in _COMPRESSED else name
    if plain in (".", "..") or re.search(r"[/\\\0]", plain):
        raise UsageError(f"{shown(url)}: the last part of the URL cannot be used as a file name in "
                         f"the cache folder (found {plain!r})")
    return plain


def _fetch(url: str, path: str) -> None:
    """Downloads a file, which appears only when it is complete."""
    from ._source import open_source

    with open_source(url) as source, open_source(path, "wb") as out:
        copy_checked(url, source, out, _MAGIC.get(os.path.splitext(path)[1].lower()))


def copy_checked(url: str, source: Any, out: Any, magic: bytes | None = None) -> None:
    """Copies an archive or, with magic, another file, if the first bytes are those of one: a page
    that a server sends instead must not stay in the folder."""
    first = source.read(_CHUNK)
    if magic is not None and not first.startswith(magic):
        raise FormatError(f"{shown(url)}: not the expected kind of file: it does not begin with {magic!r}; "
                          "it was not kept")
    if magic is None:
        _check_archive(url, first)
    out.write(first)
    shutil.copyfileobj(source, out, _CHUNK)


def _check_archive(url: str, first: bytes) -> None:
    """Checks that an archive, which may be compressed, begins with these bytes."""
    try:
        if first:
            next(iter(_tarn.Members(url, stream=io.BytesIO(first))), None)
            return
        error: FormatError = FormatError(f"{shown(url)}: the file is empty")
    except TruncatedError as cut:
        if len(first) == _CHUNK:
            return  # the first member is longer than that
        error = cut
    except FormatError as wrong:
        error = wrong
    raise FormatError(f"{error}; it was not kept") from None
