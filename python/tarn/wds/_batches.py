"""Stages that combine samples into batches and lists, and that split them again."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .utils import identity

Data = Iterable[Any]


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
