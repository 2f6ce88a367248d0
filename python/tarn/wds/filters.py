"""Pipeline stages: functions from an iterator to an iterator, with the other arguments bound in
advance. `shuffle(100)` is a stage; `dataset.shuffle(100)` adds it."""

from __future__ import annotations

import functools
import io
import itertools
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from .handlers import Handler, handled, reraise_exception
from .utils import PipelineStage, identity
from .._policy import NotAllowedError, pickles_allowed
from ..errors import shown

Sample = Any
Data = Iterable[Any]


class FilterFunction:
    """A function with all arguments bound except the first; picklable if they are."""

    def __init__(self, f: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Any) -> Any:
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        return shown(f"<{self.f.__name__.lstrip('_')} {self.args} {self.kw}>", False)


class RestCurried:
    """Wraps a function; calling it with the other arguments returns a stage."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        return FilterFunction(self.f, *args, **kw)


def pipelinefilter(f: Callable[..., Any]) -> RestCurried:
    """Turns a function whose first argument is an iterator into a stage factory.

    >>> @pipelinefilter
    ... def doubled(data, times=2):
    ...     return (times * item for item in data)
    >>> list(doubled(times=3)([1, 2]))
    [3, 6]
    """
    result = RestCurried(f)
    functools.update_wrapper(result, f)
    return result


def compose2(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function x -> g(f(x))."""
    return lambda x: g(f(x))


def compose(*args: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function that applies functions from left to right."""
    return functools.reduce(compose2, args)


def pipeline(source: Any, *args: Callable[[Any], Any]) -> Any:
    """Applies stages to a source."""
    return functools.reduce(lambda data, stage: stage(data), args, source)


def getfirst(a: Mapping[str, Any], keys: str | Sequence[str], default: Any = None,
             missing_is_error: bool = True) -> Any:
    """Returns the value of the first key that exists; in a string, keys are separated by ";".

    >>> getfirst({"png": 1}, "jpg;png")
    1
    """
    if isinstance(keys, str):
        assert " " not in keys, keys
        keys = keys.split(";")
    for key in keys:
        if key in a:
            return a[key]
    if missing_is_error:
        raise ValueError(f"didn't find {keys} in {list(a.keys())}")
    return default


def parse_field_spec(fields: str | Sequence[str]) -> list[list[str]]:
    """Splits a space-separated list of fields, each with alternatives separated by ";"."""
    names = fields.split() if isinstance(fields, str) else fields
    return [name.split(";") for name in names]


def transform_with(sample: Sequence[Any], transformers: Sequence[Any] | None) -> Sequence[Any]:
    """Applies one function to each value. None or a missing function leaves the value
    unchanged."""
    if not transformers:
        return sample
    assert len(transformers) <= len(sample)
    result = list(sample)
    for place, function in enumerate(transformers):
        if function is not None:
            result[place] = function(sample[place])
    return result


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


def _alternatives(value: Any) -> Any:
    return value.split(";") if isinstance(value, str) else value


def _rename(data: Data, handler: Handler = reraise_exception, keep: bool = True,
            **kw: Any) -> Iterator[Any]:
    """Renames fields: new="old", or new="old;older"."""
    replaced = {old for value in kw.values() for old in _alternatives(value)}
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


# --- Batches ---------------------------------------------------------------------------------


def combine_values(b: Sequence[Any], combine_tensors: bool = True,
                   combine_scalars: bool = True) -> Any:
    """Combines the values of one field into an array or tensor if they are numeric, else a
    list."""
    import numpy as np

    torch = sys.modules.get("torch")
    first = b[0]
    if isinstance(first, (int, float)):
        return np.array(list(b)) if combine_scalars else b
    is_tensor = torch is not None and isinstance(first, torch.Tensor)
    if not is_tensor and not isinstance(first, np.ndarray):
        return list(b)
    if not combine_tensors:
        return b
    shapes = {x.shape for x in b}
    assert len(shapes) == 1, f"all shapes must be equal in collation, got {shapes}"
    return torch.stack(list(b)) if torch is not None and is_tensor else np.array(list(b))


def default_collation_fn(samples: Sequence[Any], combine_tensors: bool = True,
                         combine_scalars: bool = True) -> Any:
    """Combines a list of tuples or dicts into one tuple or dict of columns.

    >>> default_collation_fn([(1, "a"), (2, "b")])
    (array([1, 2]), ['a', 'b'])
    """
    if isinstance(samples[0], dict):
        names = samples[0].keys()
        assert all(s.keys() == names for s in samples), "keys don't match in different samples"
        return {name: combine_values([s[name] for s in samples], combine_tensors, combine_scalars)
                for name in names}
    width = len(samples[0])
    assert all(len(s) == width for s in samples), "keys don't match in different samples"
    return tuple(combine_values(list(column), combine_tensors, combine_scalars)
                 for column in zip(*samples))


def tuple2dict(l: Any) -> Any:
    """Turns a sequence into a dict by position; a dict is returned unchanged."""
    return l if isinstance(l, dict) else dict(enumerate(l))


def dict2tuple(d: Mapping[int, Any]) -> tuple[Any, ...]:
    """Turns a dict by position into a tuple."""
    return tuple(d[i] for i in range(1 + max(d)))


def _batched(data: Data, batchsize: int = 20,
             collation_fn: Callable[[list[Any]], Any] | None = default_collation_fn,
             partial: bool = True) -> Iterator[Any]:
    """Groups samples into batches; the last batch may be shorter unless partial is False."""
    if batchsize < 1:
        raise ValueError(f"batchsize must be at least 1 (found {batchsize})")
    collate = collation_fn or identity
    source = iter(data)
    while batch := list(itertools.islice(source, batchsize)):
        if len(batch) == batchsize or partial:
            yield collate(batch)


def _listed(data: Data, batchsize: int = 20, partial: bool = True) -> Iterator[list[Any]]:
    """Groups samples into lists."""
    return _batched(data, batchsize, None, partial)


def _unlisted(data: Data) -> Iterator[Any]:
    """Splits lists into samples."""
    for batch in data:
        assert isinstance(batch, list), batch
        yield from batch


def _unbatched(data: Data) -> Iterator[Any]:
    """Splits batches into samples."""
    for batch in data:
        if isinstance(batch, dict):
            lengths = {len(column) for column in batch.values()}
            assert len(lengths) == 1, lengths
            for place in range(lengths.pop()):
                yield {name: column[place] for name, column in batch.items()}
        elif isinstance(batch, (list, tuple)):
            for place in range(len(batch[0])):
                yield tuple(column[place] for column in batch)
        else:
            raise ValueError(f"unknown sample type: {type(batch)}")


# --- Names and decoders by pattern -------------------------------------------------------------


def _extract_keys(source: Data, *patterns: Any, duplicate_is_error: bool = True,
                  ignore_missing: bool = False) -> Iterator[Any]:
    """Turns samples into tuples of the fields that match patterns such as "*.jpg;*.png"."""
    for sample in source:
        values = []
        for pattern in patterns:
            wanted = _alternatives(pattern)
            names = [name for name in sample
                     if any(fnmatch("." + name, p) or fnmatch(name, p) for p in wanted)]
            if not names and ignore_missing:
                continue
            if not names:
                raise ValueError(f"Cannot find {wanted} in sample keys {sample.keys()}.")
            if len(names) > 1 and duplicate_is_error:
                raise ValueError(f"Multiple sample keys {sample.keys()} match {wanted}.")
            values.append(sample[names[0]])
        yield tuple(values)


def _rename_keys(source: Data, *args: Any, keep_unselected: bool = False, must_match: bool = True,
                 duplicate_is_error: bool = True, **kw: Any) -> Iterator[Any]:
    """Renames fields: ("new", "*.old") or new="*.old". If several rules match, the last one
    wins."""
    rules = [(pattern, name) for name, pattern in (*args, *kw.items())][::-1]
    for sample in source:
        renamed: dict[str, Any] = {}
        matched = set()
        for path, value in sample.items():
            base = path.rpartition("/")[2].lower()
            rule = next((rule for rule in rules if fnmatch(base, rule[0])), None)
            if rule is None:
                if keep_unselected:
                    renamed[path] = value
                continue
            matched.add(rule[0])
            if rule[1] not in renamed:
                renamed[rule[1]] = value
            elif duplicate_is_error:
                raise ValueError(f"Duplicate value in sample {sample.keys()} after rename.")
        if must_match and any(pattern not in matched for pattern, _ in rules):
            raise ValueError(f"Not all patterns ({[p for p, _ in rules]}) matched sample keys "
                             f"({sample.keys()}).")
        yield renamed


def decode_bin(stream: Any) -> Any:
    """Reads the bytes of a stream."""
    return stream.read()


def decode_text(stream: Any) -> str:
    """Reads the text of a stream."""
    text: str = stream.read().decode("utf-8")
    return text


def decode_pickle(stream: Any) -> Any:
    """Unpickles a stream if the program allows it, as this may run code."""
    if not pickles_allowed():
        raise NotAllowedError("reading a pickle can run code; if you trust the data, give a decoder "
                              "(pyd=pickle.load), or use tarn.wds.allow_pickles() or "
                              "TARN_ALLOW_PICKLE=1")
    return pickle.load(stream)


default_decoders: list[tuple[str, Any]] = [("*.bin", decode_bin), ("*.txt", decode_text),
                                           ("*.pyd", decode_pickle)]


def find_decoder(decoders: Sequence[tuple[str, Any]], path: str) -> Any:
    """Returns the last decoder whose pattern matches a field."""
    name = path.rpartition("/")[2]
    if name.startswith("__"):
        return identity
    for pattern, function in reversed(decoders):
        if fnmatch(name.lower(), pattern) or fnmatch("." + name.lower(), pattern):
            return function
    return None


def _xdecode(source: Data, *args: Any, must_decode: bool = True, defaults: Any = default_decoders,
             **kw: Any) -> Iterator[Any]:
    """Decodes fields by patterns: ("*.txt", function) or txt=function. Functions are called with a
    stream; False leaves the bytes unchanged."""
    decoders = [*defaults, *args]
    decoders += [("*." + name, function) for name, function in kw.items()]
    for sample in source:
        new = {}
        for path, data in sample.items():
            decoder: Any = False if path.startswith("__") else find_decoder(decoders, path)
            if decoder is None and must_decode:
                raise ValueError(f"No decoder found for {path}.")
            if decoder:
                data = decoder(io.BytesIO(data) if isinstance(data, bytes) else data)
            new[path] = data
        yield new


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
