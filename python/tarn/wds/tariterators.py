"""Turns shards into samples. C code reads one shard after another; this module chooses the next
shard and handles errors."""

from __future__ import annotations

import random
import re
import tarfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlparse

from . import gopen as _gopen
from . import utils
from .filters import pipelinefilter
from .handlers import Handler, handled, reraise_exception
from .. import _tarn
from .._policy import pipes_allowed
from ..errors import FormatError

Sample = dict[str, Any]
Select = Callable[[str], bool]
Rename = Callable[[str], str]

meta_prefix = meta_suffix = "__"
trace = False  # as in webdataset: group_by_keys prints each name
_META = r"__[^/]*__($|/)"  # names of metadata about the archive


class ReadError(FormatError, tarfile.ReadError):
    """A damaged or truncated shard. Also a subclass of tarfile's ReadError."""


def _as_read_error(error: Exception) -> Exception:
    if not isinstance(error, FormatError) or isinstance(error, ReadError):
        return utils.as_theirs(error)
    made = ReadError(str(error))
    made.path, made.offset, made.code = error.path, error.offset, error.code
    made.__cause__ = error
    return made


def base_plus_ext(path: str) -> tuple[str | None, str | None]:
    """Splits a member name into key and field.

    >>> base_plus_ext("d.e/a.seg.png")
    ('d.e/a', 'seg.png')
    """
    found = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", path)
    return (found[1], found[2]) if found else (None, None)


def _place(shard: Any, allow_pipe: bool, local_paths: bool) -> dict[str, Any]:
    """Returns how to open a shard: its URL, a file object if the library does not support the
    scheme, and the local path that its samples report. That is the given path or, with
    local_paths, the path of a local URL."""
    if isinstance(shard, dict):
        url, stream, local = shard["url"], shard.get("stream"), shard.get("local_path")
    else:
        url, stream, local = shard, None, None
    parts = urlparse(url)
    if local is None and stream is None and parts.scheme in ("", "file"):
        if local_paths:
            local = url if parts.scheme == "" else parts.path
        return {"url": url, "place": url, "local_path": local}
    if local is not None and stream is None:
        return {"url": url, "place": local, "local_path": local}
    place = _gopen.rewrite_url(url)
    if stream is None:
        _gopen.check_pipe(place, allow_pipe)
    if stream is None and not _gopen.is_native(place):
        stream = _gopen.gopen(url, "rb", allow_pipe=allow_pipe)
    return {"url": url, "place": place, "stream": stream, "local_path": local}


class _Samples:
    """The samples of a shard, grouped in C."""

    def __init__(self, how: dict[str, Any], handler: Handler, verbose: bool, allow_pipe: bool) -> None:
        strict = handler is reraise_exception
        self.notices: list[tuple[str, str]] | None = [] if verbose or not strict else None
        self.handler, self.verbose = handler, verbose
        self.reader = _tarn.Samples(**how, keep_first=not strict, notices=self.notices,
                                    allow_pipe=allow_pipe)

    def __iter__(self) -> Iterator[Sample]:
        return self.reader if self.notices is None else self._watched(self.notices)

    def _watched(self, notices: list[tuple[str, str]]) -> Iterator[Sample]:
        """Yields samples and reports notices about them as soon as they appear."""
        for sample in self.reader:
            yield sample
            if notices and not _told(notices, self.handler, self.verbose):
                return
        _told(notices, self.handler, self.verbose)

    def unfinished(self) -> Sample | None:
        return self.reader.unfinished()


def _told(notices: list[tuple[str, str]], handler: Handler, verbose: bool) -> bool:
    while notices:
        _, text = notices.pop(0)
        if "the sample already has this field" in text:
            if not handled(handler, ValueError(f"{text}: duplicate file name in tar file")):
                return False
        elif verbose:
            warnings.warn(text, stacklevel=3)
    return True


class _Renamed:
    """The samples of a shard whose members are selected or renamed, which is slower."""

    def __init__(self, how: dict[str, Any], chooser: _Chooser, allow_pipe: bool) -> None:
        url, local = how.pop("url"), how.pop("local_path")
        self.extra = {"__url__": url} if local is None else {"__url__": url, "__local_path__": local}
        self.how = {**how, "allow_pipe": allow_pipe}
        self.chooser = chooser
        self.failure: Exception | None = None
        self.last: Sample | None = None

    def _members(self) -> Iterator[Sample]:
        try:
            for name, data in _members(self.how, self.chooser):
                yield {"fname": name, "data": data, **self.extra}
        except Exception as error:
            self.failure = error

    def __iter__(self) -> Iterator[Sample]:
        for sample in group_by_keys(self._members(), handler=self.chooser.handler):
            if self.failure is None:
                yield sample
            else:
                self.last = sample
        if self.failure is not None:
            raise self.failure

    def unfinished(self) -> Sample | None:
        return self.last


def _unfinished(reader: _Samples | _Renamed | None) -> Iterator[Sample]:
    """Yields the sample in which a shard failed, as webdataset does, with a warning."""
    sample = reader.unfinished() if reader is not None else None
    if sample:
        names = ", ".join(name for name in sample if not name.startswith("__"))
        warnings.warn(f"{sample.get('__url__')}: sample {sample['__key__']} may lack fields, because "
                      f"the shard is damaged after them (read: {names})", stacklevel=3)
        yield sample


class _Enough(Exception):
    """A handler ended the current shard."""


class _Chooser:
    """Selects and renames members. If a function of the caller fails, the handler decides whether
    to continue with the next member or the next shard."""

    def __init__(self, select: Select | None, rename: Rename | None, handler: Handler,
                 skip_meta: str | None = _META) -> None:
        self.select, self.rename, self.handler = select, rename, handler
        self.skip_meta = skip_meta
        self.name = ""  # of the member chosen last

    def __call__(self, name: str) -> bool:
        try:
            return self._wanted(name)
        except Exception as error:
            if not handled(self.handler, error):
                raise _Enough from None
            return False

    def _wanted(self, name: str) -> bool:
        if "/" not in name and name.startswith(meta_prefix) and name.endswith(meta_suffix):
            return False
        if self.skip_meta is not None and re.match(self.skip_meta, name):
            return False
        self.name = self.rename(name) if self.rename else name
        return self.select is None or bool(self.select(self.name))


def _members(how: dict[str, Any], chooser: _Chooser) -> Iterator[tuple[str, bytes]]:
    try:
        for _, data in _tarn.Members(**how, select=chooser):
            yield chooser.name, data
    except _Enough:
        return


def valid_sample(sample: Sample | None) -> bool:
    """Whether this is a sample and not marked as bad."""
    return bool(sample) and isinstance(sample, dict) and not sample.get("__bad__", False)


def group_by_keys(data: Iterable[Sample],
                  keys: Callable[[str], tuple[str | None, str | None]] = base_plus_ext,
                  lcase: bool = True, suffixes: Any = None,
                  handler: Handler = reraise_exception) -> Iterator[Sample]:
    """Groups consecutive members (dicts with fname and data) with the same key into samples; an
    empty dict ends a shard."""
    current: Sample | None = None
    for member in data:
        try:
            if not member:
                if current is not None and valid_sample(current):
                    yield current
                current = None
                continue
            prefix, suffix = keys(member["fname"])
            if prefix is None or suffix is None:
                continue
            if trace:
                print(prefix, suffix, current.keys() if current is not None else None)
            suffix = suffix.lower() if lcase else suffix
            if current is None or prefix != current["__key__"]:
                if current is not None and valid_sample(current):
                    yield current
                current = {"__key__": prefix, "__url__": member.get("__url__")}
            if suffix in current:
                raise ValueError(f"{member['fname']}: duplicate file name in tar file {suffix} "
                                 f"{current.keys()}")
            if suffixes is None or suffix in suffixes:
                current[suffix] = member["data"]
            if member.get("__local_path__") is not None:
                current["__local_path__"] = member["__local_path__"]
        except Exception as error:
            if not handled(handler, error):
                break
    if current is not None and valid_sample(current):
        yield current


def shardlist(urls: str | Iterable[str], *, shuffle: bool = False) -> Iterator[dict[str, str]]:
    """Yields the shards of a list or of a text with braces, shuffled if requested."""
    found = utils.expand_braces(urls) if isinstance(urls, str) else list(urls)
    if shuffle:
        random.shuffle(found)
    for url in found:
        yield {"url": url}


# --- The single steps, for pipelines that add something between them --------------------------


def url_opener(data: Iterable[dict[str, Any]], handler: Handler = reraise_exception,
               **kw: Any) -> Iterator[dict[str, Any]]:
    """Opens shards (dicts with a url) and adds the file as `stream`; kw is passed to gopen."""
    for shard in data:
        assert isinstance(shard, dict), shard
        assert "url" in shard, shard
        try:
            shard.update(stream=_gopen.gopen(shard["url"], **kw))
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        yield shard


def tar_file_iterator(fileobj: Any, skip_meta: str | None = _META,
                      handler: Handler = reraise_exception, select_files: Select | None = None,
                      rename_files: Rename | None = None) -> Iterator[dict[str, Any]]:
    """Yields the members of an open archive as dicts with fname and data. A damaged archive has no
    next member, so its error is raised whatever the handler returns."""
    how = {"place": str(getattr(fileobj, "name", fileobj)), "stream": fileobj}
    chooser = _Chooser(select_files, rename_files, handler, skip_meta)
    try:
        for name, data in _members(how, chooser):
            yield {"fname": name, "data": data}
    except FormatError as error:
        raise _as_read_error(error) from None


class _EndOfShard(dict[str, Any]):
    """An empty dict, as webdataset 1.0 yields after each shard. Programs written for 0.2, which
    yields nothing there, ask for its name and data, and skip it because it has no key."""

    def __missing__(self, name: str) -> Any:
        if name not in ("fname", "data"):
            raise KeyError(name)
        return "" if name == "fname" else b""


def tar_file_expander(data: Iterable[dict[str, Any]], handler: Handler = reraise_exception,
                      select_files: Select | None = None, rename_files: Rename | None = None,
                      eof_value: Any = {}) -> Iterator[Any]:
    """Yields the members of shards opened by `url_opener`, with __url__ and __local_path__. After
    each complete shard it yields eof_value, unless that is None. The default is an empty dict that
    also works as a member without a key, for programs written for webdataset 0.2."""
    for shard in data:
        about = {"__url__": shard["url"]}
        if shard.get("local_path") is not None:
            about["__local_path__"] = shard["local_path"]
        try:
            for member in tar_file_iterator(shard["stream"], handler=handler,
                                            select_files=select_files,
                                            rename_files=rename_files):
                yield {**member, **about}
        except Exception as error:
            if not handled(handler, error):
                return
        else:
            if eof_value is not None:
                yield _EndOfShard() if eof_value == {} else eof_value


def tarfile_samples(src: Iterable[Any], handler: Handler = reraise_exception,
                    select_files: Select | None = None, rename_files: Rename | None = None, *,
                    verbose: bool = False, allow_pipe: bool | None = None,
                    local_paths: bool = False) -> Iterator[Sample]:
    """Yields the samples of shards (dicts with a url), one shard after another.

    If a shard cannot be opened or is damaged, the handler is called with the error; if it returns
    true, reading continues with the next shard. The sample in which the damage is comes with the
    fields before it, and with a warning.
    """
    allow_pipe = pipes_allowed(allow_pipe)
    for shard in src:
        reader: _Samples | _Renamed | None = None
        try:
            how = _place(shard, allow_pipe, local_paths)
            if select_files is None and rename_files is None:
                reader = _Samples(how, handler, verbose, allow_pipe)
            else:
                reader = _Renamed(how, _Chooser(select_files, rename_files, handler), allow_pipe)
            yield from reader
            continue
        except Exception as error:
            proceed = handled(handler, _as_read_error(error))
        yield from _unfinished(reader)
        if not proceed:
            return


tarfile_to_samples = pipelinefilter(tarfile_samples)
