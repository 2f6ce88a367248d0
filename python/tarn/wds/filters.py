"""Pipeline stages: functions from an iterator to an iterator, with the other arguments bound in
advance. `shuffle(100)` is a stage; `dataset.shuffle(100)` adds it."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

# The names are exported again: programs find all stages and their helpers in this module.
from ._batches import (_batched as _batched, _listed as _listed, _unbatched as _unbatched,
                       _unlisted as _unlisted, combine_values as combine_values,
                       default_collation_fn as default_collation_fn, dict2tuple as dict2tuple,
                       tuple2dict as tuple2dict)
from ._patterns import (_extract_keys as _extract_keys, _rename_keys as _rename_keys,
                        _xdecode as _xdecode, decode_bin as decode_bin,
                        decode_pickle as decode_pickle, decode_text as decode_text,
                        default_decoders as default_decoders, find_decoder as find_decoder)
from ._stage import (FilterFunction as FilterFunction, RestCurried as RestCurried,
                     compose as compose, compose2 as compose2, getfirst as getfirst,
                     parse_field_spec as parse_field_spec, pipeline as pipeline,
                     pipelinefilter as pipelinefilter, transform_with as transform_with)
from ._stage import alternatives
from .handlers import Handler, handled, reraise_exception
from .utils import PipelineStage, identity

Sample = Any
Data = Iterable[Any]


# --- Inspection ------------------------------------------------------------------------------


def _info(data: Data, fmt: str | None = None, n: int = 3, every: int = -1, width: int = 50,
          stream: Any = None, name: str = "") -> Iterator[Any]:
    """Prints the first samples, and then one sample at regular intervals."""
    for number, sample in enumerate(data):
        if number < n or (every > 0 and (number + 1) % every == 0):
            out = stream or sys.stderr
            if fmt is not None:
                print(fmt.format(**sample), file=out)
            else:
                print("---", name, file=out)
                for key, value in sample.items():
                    print(key, repr(value)[:width], file=out)
        yield sample


def _log_keys(data: Data, logfile: str | None = None) -> Iterator[Any]:
    """Appends the number, worker, rank and key of each sample to a file that processes may
    share."""
    if not logfile:
        yield from data
        return
    import fcntl

    with open(logfile, "a") as stream:
        for number, sample in enumerate(data):
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
            try:
                stream.write(f"{number}\t{sample.get('__worker__')}\t{sample.get('__rank__')}\t"
                             f"{sample.get('__key__')}\n")
                stream.flush()
            finally:
                fcntl.flock(stream.fileno(), fcntl.LOCK_UN)
            yield sample


# --- Order -----------------------------------------------------------------------------------


def pick(buf: list[Any], rng: random.Random) -> Any:
    """Removes and returns a random item of a list; the last item takes its place."""
    place = rng.randint(0, len(buf) - 1)
    buf[place], buf[-1] = buf[-1], buf[place]
    return buf.pop()


def _shuffle(data: Data, bufsize: int = 1000, initial: int = 100,
             rng: random.Random | None = None, seed: Any = None,
             handler: Any = None) -> Iterator[Any]:
    """Shuffles items in a buffer. Items are returned as soon as `initial` are in the buffer, while
    it is still filling up. The same seed gives webdataset's order."""
    if seed is not None:
        assert rng is None
        rng = random.Random(seed)
    elif rng is None:
        rng = random.Random(int((os.getpid() + time.time()) * 1e9))
    source, buf = iter(data), []
    initial = min(initial, bufsize)
    for item in source:
        buf.append(item)
        if len(buf) < bufsize:
            buf.extend(itertools.islice(source, 1))
        if len(buf) >= initial:
            yield pick(buf, rng)
    while buf:
        yield pick(buf, rng)


class detshuffle(PipelineStage):
    """A shuffle whose order depends on a seed and on the number of earlier runs."""

    def __init__(self, bufsize: int = 1000, initial: int = 100, seed: int = 0,
                 epoch: int = -1) -> None:
        self.bufsize, self.initial, self.seed, self.epoch = bufsize, initial, seed, epoch

    def run(self, src: Data) -> Iterator[Any]:
        self.epoch += 1
        return _shuffle(src, self.bufsize, self.initial, random.Random(self.seed + self.epoch))


def _rsample(data: Data, p: float = 0.5) -> Iterator[Any]:
    """Keeps each item with probability p."""
    assert 0.0 <= p <= 1.0
    return (item for item in data if random.uniform(0.0, 1.0) < p)


# --- One sample ------------------------------------------------------------------------------


def _select(data: Data, predicate: Callable[[Any], Any]) -> Iterator[Any]:
    """Keeps the items for which a predicate is true."""
    return (item for item in data if predicate(item))


def _decode(data: Data, *args: Any, handler: Handler = reraise_exception,
            **kw: Any) -> Iterator[Any]:
    """Decodes the fields of samples; see Decoder."""
    from .autodecode import Decoder, named_handler

    decoder = Decoder([named_handler(x) if isinstance(x, str) else x for x in args], **kw)
    for sample in data:
        try:
            decoded = decoder(sample)
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        yield decoded


def _map(data: Data, f: Callable[[Any], Any],
         handler: Handler = reraise_exception) -> Iterator[Any]:
    """Applies a function to items. Items for which it returns None are dropped, and dicts keep
    their key."""
    for sample in data:
        try:
            result = f(sample)
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        if result is None:
            continue
        if isinstance(result, dict) and isinstance(sample, dict):
            result["__key__"] = sample.get("__key__")
        yield result


def _rename(data: Data, handler: Handler = reraise_exception, keep: bool = True,
            **kw: Any) -> Iterator[Any]:
    """Renames fields: new="old", or new="old;older"."""
    replaced = {old for value in kw.values() for old in alternatives(value)}
    for sample in data:
        try:
            new = {name: getfirst(sample, old) for name, old in kw.items()}
            if keep:
                new = {**{k: v for k, v in sample.items() if k not in replaced}, **new}
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        yield new


def _associate(data: Data, associator: Any, **kw: Any) -> Iterator[Any]:
    """Adds the fields that a dict or a function returns for the sample's key."""
    for sample in data:
        key = sample["__key__"]
        sample.update(associator(key) if callable(associator) else associator.get(key, {}))
        yield sample


def _map_dict(data: Data, handler: Handler = reraise_exception, **kw: Any) -> Iterator[Any]:
    """Applies functions to fields: name=function."""
    assert kw, "map_dict needs a function"
    assert all(callable(f) for f in kw.values()), kw
    for sample in data:
        assert isinstance(sample, dict)
        try:
            for name, function in kw.items():
                sample[name] = function(sample[name])
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        yield sample


def _to_tuple(data: Data, *args: Any, handler: Handler = reraise_exception,
              missing_is_error: bool = True, none_is_error: bool | None = None) -> Iterator[Any]:
    """Turns samples into tuples of the named fields, given as separate arguments or
    space-separated."""
    if none_is_error is None:
        none_is_error = missing_is_error
    if len(args) == 1 and isinstance(args[0], str) and " " in args[0]:
        args = tuple(args[0].split())
    for sample in data:
        try:
            values = tuple([getfirst(sample, name, missing_is_error=missing_is_error)
                            for name in args])
            if none_is_error and any(value is None for value in values):
                raise ValueError(f"to_tuple {args} got {sample.keys()}")
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        yield values


def _map_tuple(data: Data, *args: Any, handler: Handler = reraise_exception) -> Iterator[Any]:
    """Applies one function to each value of a tuple. None leaves the value unchanged."""
    functions = [identity if f is None else f for f in args]
    assert all(callable(f) for f in functions), functions
    for sample in data:
        assert isinstance(sample, (list, tuple))
        values = list(sample)
        try:
            for place, function in enumerate(functions[:len(values)]):
                values[place] = function(values[place])
        except Exception as error:
            if not handled(handler, error):
                return
            continue
        yield tuple(values)


class Cached(PipelineStage):
    """Keeps all samples in memory after the first complete pass."""

    def __init__(self) -> None:
        self.cached: list[Any] | None = None

    def run(self, source: Data) -> Iterator[Any]:
        if self.cached is not None:
            yield from self.cached
            return
        seen = []
        for sample in source:
            seen.append(sample)
            yield sample
        self.cached = seen


class LMDBCached(PipelineStage):
    """Keeps all samples in an LMDB file after the first complete pass; needs the package lmdb.

    The file contains pickles, so read only files that your own programs wrote.
    """

    def __init__(self, fname: str, map_size: float = 1e12, pickler: Any = pickle,
                 chunksize: int = 500) -> None:
        import lmdb  # type: ignore[import-not-found,import-untyped,unused-ignore]

        self.db = lmdb.open(fname, readonly=False, map_size=int(map_size))
        self.pickler, self.chunksize = pickler, chunksize

    def is_complete(self) -> bool:
        """Whether the file has all samples."""
        with self.db.begin(write=False) as transaction:
            return transaction.get(b"_") is not None

    def add_samples(self, samples: Iterable[tuple[str, Any]]) -> None:
        """Stores pairs of a key and a sample."""
        with self.db.begin(write=True) as transaction:
            for key, sample in samples:
                transaction.put(key.encode(), self.pickler.dumps(sample))

    def run(self, source: Data) -> Iterator[Any]:
        if self.is_complete():
            with self.db.begin(write=False) as transaction:
                for key, value in transaction.cursor():
                    if key != b"_":
                        yield self.pickler.loads(value)
            return
        waiting = []
        for number, sample in enumerate(source):
            key = sample.get("__key__") if isinstance(sample, dict) else None
            waiting.append((key or str(number), sample))
            if len(waiting) >= self.chunksize:
                self.add_samples(waiting)
                waiting = []
            yield sample
        self.add_samples(waiting)
        with self.db.begin(write=True) as transaction:
            transaction.put(b"_", b"1")


info = pipelinefilter(_info)
log_keys = pipelinefilter(_log_keys)
shuffle = pipelinefilter(_shuffle)
rsample = pipelinefilter(_rsample)
select = pipelinefilter(_select)
decode = pipelinefilter(_decode)
map = pipelinefilter(_map)
rename = pipelinefilter(_rename)
associate = pipelinefilter(_associate)
map_dict = pipelinefilter(_map_dict)
to_tuple = pipelinefilter(_to_tuple)
map_tuple = pipelinefilter(_map_tuple)
batched = pipelinefilter(_batched)
listed = pipelinefilter(_listed)
unlisted = pipelinefilter(_unlisted)
unbatched = pipelinefilter(_unbatched)
extract_keys = pipelinefilter(_extract_keys)
rename_keys = pipelinefilter(_rename_keys)
xdecode = pipelinefilter(_xdecode)


def _slice(data: Data, *args: Any) -> Iterator[Any]:
    """Takes a slice, with the arguments of itertools.islice."""
    return itertools.islice(iter(data), *args)


slice = pipelinefilter(_slice)
