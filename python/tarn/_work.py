"""What is done with the samples of a batch: Python decoders, functions given to `map` and
`batch_map`, and `collate`. It runs in the caller, in a thread or in a worker process, with the same
result; it knows none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from . import _random, _tarn
from ._collate import check, collate, stacked, with_forms
from ._maps import BatchMap, Map
from ._pad import Forms, Ragged
from ._reading import to_torch
from .errors import FormatError, UsageError

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._random import Globals

Batch = dict[str, Any]
NO_RESULT = "a function given to map returned None"
Step = tuple[_tarn._Memory, int]  # where a task says which sample comes next, and its number


class Failure:
    """Why a sample has no result."""

    def __init__(self, error: BaseException, where: str = "", trace: str = "") -> None:
        self.error = error
        self.where = where  # within the sample, for messages
        self.trace = trace  # of a worker process, as text

    @property
    def reason(self) -> str:
        return f"{self.where}: {self.error!r}"


class Part:
    """Some samples of a batch, as the native loader decoded them."""

    __slots__ = ("columns", "epoch", "numbers", "planned", "positions", "slots")

    def __init__(self, columns: Batch, numbers: Sequence[int], positions: Sequence[int],
                 slots: Sequence[int], planned: int, epoch: int) -> None:
        self.columns = columns
        self.numbers = numbers
        self.positions = positions  # in the epoch
        self.slots = slots  # places in the batch, counting samples that cannot be used
        self.planned = planned  # samples of the batch, counting those
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.numbers)

    def between(self, first: int, end: int) -> Part:
        if first == 0 and end == len(self):
            return self
        return Part({name: column[first:end] for name, column in self.columns.items()},
                    self.numbers[first:end], self.positions[first:end], self.slots[first:end],
                    self.planned, self.epoch)


class Results:
    """The results of a part of a batch: one for each sample, in which failed ones are None; or, if
    whole is set, one for the whole batch."""

    __slots__ = ("failures", "values", "whole")

    def __init__(self, values: Any, failures: dict[int, Failure], whole: bool = False) -> None:
        self.values = values
        self.failures = failures
        self.whole = whole


def taken(batch: Batch, kept: Sequence[int]) -> Batch:
    """Returns some samples of a batch."""
    return {name: _taken(column, kept) for name, column in batch.items()}


def _taken(column: Any, kept: Sequence[int]) -> Any:
    if isinstance(column, (list, _tarn._Pieces)):
        return [column[i] for i in kept]
    if not isinstance(column, Ragged):
        return column[kept]
    parts = [column.values[column.offsets[i]:column.offsets[i + 1]] for i in kept]
    values = numpy.concatenate(parts) if parts else column.values[:0]
    return Ragged(values, numpy.cumsum([0, *map(len, parts)], dtype=column.offsets.dtype))


def kept_of(slots: Sequence[int], failed: Any, planned: int, policy: str) -> Sequence[int]:
    """Returns which samples the batch has; one may be repeated to replace others. slots are the
    places of the samples in the batch.

    >>> kept_of([0, 2, 3], {1}, 4, "skip"), kept_of([0, 2, 3], {1}, 4, "replace")
    ([0, 2], [0, 2, 2, 2])
    >>> kept_of([0, 2, 3], {2}, 5, "replace")
    [0, 1, 1, 0, 0]
    """
    if not failed and (policy != "replace" or len(slots) == planned):
        return range(len(slots))
    usable = [i for i in range(len(slots)) if i not in failed]
    if policy != "replace" or len(usable) == planned or not usable:
        return usable
    by_slot = {slots[i]: i for i in usable}
    kept, following = [], usable[0]
    for slot in range(planned - 1, -1, -1):
        following = by_slot.get(slot, following)
        kept.append(following)
    return kept[::-1]


class Work:
    """The functions of a loader."""

    def __init__(self, dataset: Dataset, decoders: dict[str, Callable[[bytes], Any]],
                 forms: Forms, joined: Callable[[Sequence[Any]], Any] | None, policy: str, seed: int,
                 no_keys: bool, tensors: bool) -> None:
        maps = list(dataset._maps)
        self.batch_maps: list[Callable[[Any], Any]] = []
        while maps and isinstance(maps[-1], BatchMap):
            self.batch_maps.insert(0, maps[-1].function)
            maps.pop()
        self.maps = maps
        self.parts = dataset if dataset._parts is not None else None
        self.names = tuple((name, finish) for name, finish in zip(dataset._names, dataset._finish)
                           if finish is not None)
        self.items = dataset.kind != "gnz"  # scalars become Python numbers
        self.decoders = decoders
        self.forms = forms  # of the fields that are padded or ragged in Python
        self.made = dict.fromkeys([*decoders, *forms])  # fields that are made here if others stay as they are
        self.joined = joined
        self.policy = policy
        self.seed = seed
        self.no_keys = no_keys
        self.tensors = tensors
        self._at: dict[int, Dataset] = {}
        inside = [one for function in maps for one in
                  (function.inside() if isinstance(function, Map) else [function])]
        # Whether a function may ask for random numbers.
        self.random = self.parts is not None or any(isinstance(one, _random.WithRandom) for one in inside)
        self.simple = not (decoders or self.names or forms) and self.parts is None

    @property
    def by_sample(self) -> bool:
        """Whether whole samples are made, and not only the fields that have decoders."""
        return bool(self.maps) or self.parts is not None or self.joined is not None

    @property
    def whole(self) -> bool:
        """Whether a batch is made at once."""
        return bool(self.batch_maps) or self.joined is not None

    def __bool__(self) -> bool:
        return self.by_sample or self.whole or bool(self.made)

    def columns(self, batch: Batch) -> Batch:
        """Returns the columns that are needed."""
        if self.by_sample or self.whole:
            return batch
        return {name: batch[name] for name in self.made}

    # --- Samples ---

    def run(self, part: Part, step: Step | None, globals_: Globals,
            given: dict[int, Failure]) -> Results:
        """Returns the results of a part. step is where the number of each sample is written before
        it, given are samples that failed before and are not tried again."""
        failures = dict(given)
        values: list[Any] = [None] * len(part)
        if self.simple and self.by_sample and not self.random and not given:
            self._run_maps(part, step, values, failures)
        elif self.by_sample or self.made:
            self._run_all(part, step, globals_, values, failures)
        if not self.whole or (failures and self.policy == "raise"):
            return Results(values, failures)
        kept = kept_of(part.slots, failures, part.planned, self.policy)
        if not kept:
            return Results(values, failures)
        if step is not None:
            step[0].step(step[1], len(part))
        return self._whole(part, values, failures, kept, globals_)

    def _run_maps(self, part: Part, step: Step | None, values: list[Any],
                  failures: dict[int, Failure]) -> None:
        """Only calls maps."""
        names, columns = self._columns(part)
        rows, functions, at = list(map(iter, columns)), tuple(self.maps), 0
        memory, task = step or (None, 0)
        while True:
            at, error = _tarn.map_samples(names, rows, functions, values, at, memory, task)
            if at == len(part):
                return
            failures[at] = Failure(error or FormatError(NO_RESULT))
            if self.policy == "raise":
                return
            at += 1

    def _run_all(self, part: Part, step: Step | None, globals_: Globals, values: list[Any],
                 failures: dict[int, Failure]) -> None:
        random, where = self.random, [""]
        for i, sample in enumerate(self._samples(part)):
            if i in failures:
                continue
            if step is not None:
                step[0].step(step[1], i)
            if random:
                _random.begin(self.seed, part.epoch, part.positions[i], globals_)
            try:
                values[i] = self._one(sample, part, i, where)
            except Exception as error:
                failures[i] = Failure(error, where[0])
                if self.policy == "raise":
                    return
            finally:
                if random:
                    _random.end()

    def _columns(self, part: Part) -> tuple[tuple[str, ...], list[Any]]:
        """Returns the names and the values of the fields that samples have."""
        names = tuple(part.columns if self.by_sample else self.made)
        columns = [part.columns[name] for name in names]
        if self.items:
            columns = [column.tolist() if isinstance(column, numpy.ndarray) and column.ndim == 1 else column
                       for column in columns]
        return names, columns

    def _samples(self, part: Part) -> Iterator[Batch]:
        """Returns the samples, as the dataset would return them."""
        names, columns = ((), []) if self.parts is not None else self._columns(part)
        if not names:
            for _ in range(len(part)):
                yield {}
        for values in zip(*columns):
            yield dict(zip(names, values))

    def _one(self, sample: Any, part: Part, i: int, where: list[str]) -> Any:
        for name, decoder in self.decoders.items():
            where[0] = f": field {name}"
            sample[name] = decoder(sample[name])
        where[0] = ""
        if not self.by_sample:
            check(sample, self.forms)
            return sample
        if self.parts is not None:
            sample = self._of_source(part.numbers[i], part.epoch)
        else:
            for name, finish in self.names:
                if name in sample:
                    sample[name] = finish(sample[name])
        sample = self._mapped(sample)
        check(sample, self.forms)
        return sample

    def _mapped(self, sample: Any) -> Any:
        for function in self.maps:
            sample = function(sample)
            if sample is None:
                raise FormatError(NO_RESULT)
        return sample

    def _of_source(self, number: int, epoch: int) -> Any:
        """Returns a sample of a mix whose sources have their own functions."""
        assert self.parts is not None
        at = self._at.get(epoch)
        if at is None:
            self._at.clear()
            at = self._at[epoch] = self.parts._with(maps=())._at_epoch(epoch)
        sample = at._sample(number)
        if self.no_keys and isinstance(sample, dict):
            sample.pop("__key__", None)
        if sample is None:
            raise FormatError(NO_RESULT)
        return sample

    # --- Batches ---

    def join(self, values: Sequence[Any]) -> Any:
        """Returns results of samples as a batch; if only some fields are made here, as the batch of
        these fields, of which those with a form are still lists."""
        if self.joined is not None:
            return self.joined(values)
        if self.by_sample:
            return collate(values, self.forms)
        columns = {name: [value[name] for value in values] for name in values[0]}
        return {name: column if name in self.forms else stacked(column) for name, column in columns.items()}

    def complete(self, part: Part, kept: Sequence[int], made: Any) -> Any:
        """Adds the fields that are not made here to a batch, if the samples were not made as a whole."""
        if self.by_sample:
            return made
        rest = {name: list(column) if isinstance(column, _tarn._Pieces) else column
                for name, column in part.columns.items() if name not in self.made}
        if kept != range(len(part)):
            rest = taken(rest, kept)
        batch = {name: made[name] if name in self.made else rest[name] for name in part.columns}
        return with_forms(batch, self.forms) if self.forms else batch

    def _whole(self, part: Part, values: list[Any], failures: dict[int, Failure],
               kept: Sequence[int], globals_: Globals) -> Results:
        _random.begin(self.seed, part.epoch, part.positions[0], globals_, b"batch")
        try:
            batch = self.complete(part, kept, self.join([values[i] for i in kept]) if self.by_sample or self.made
                                  else {})
            if self.tensors and self.batch_maps:
                batch = as_tensors(batch)
            for function in self.batch_maps:
                batch = function(batch)
                if batch is None:
                    raise UsageError("a function given to batch_map returned None; return a batch")
        except Exception as error:
            return Results(None, {**failures, -1: Failure(error)})
        finally:
            _random.end()
        return Results(batch, failures, whole=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_at": {}}


def as_tensors(batch: Any) -> Any:
    """Returns a batch with tensors over the same memory instead of arrays."""
    if isinstance(batch, dict):
        return {name: as_tensors(value) for name, value in batch.items()}
    if isinstance(batch, Ragged):
        return Ragged(*map(as_tensors, batch))
    if isinstance(batch, tuple):
        return tuple(map(as_tensors, batch))
    return to_torch(batch)
