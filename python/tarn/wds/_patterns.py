"""Stages that choose, rename and decode fields by patterns such as "*.jpg;*.png"."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from typing import Any

from ._stage import alternatives
from .utils import identity
from .._policy import NotAllowedError, pickles_allowed

Data = Iterable[Any]


def _extract_keys(source: Data, *patterns: Any, duplicate_is_error: bool = True,
                  ignore_missing: bool = False) -> Iterator[Any]:
    """Turns samples into tuples of the fields that match patterns such as "*.jpg;*.png"."""
    for sample in source:
        values = []
        for pattern in patterns:
            wanted = alternatives(pattern)
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
