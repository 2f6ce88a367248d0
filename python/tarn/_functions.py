"""The Python part of a loader: functions given to `map`, Python decoders, and their failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from . import _tarn
from ._collate import check, collate
from ._pad import Forms
from .errors import FormatError

if TYPE_CHECKING:
    from ._dataset import Dataset

Batch = dict[str, Any]


class Skipped(NamedTuple):
    """A sample that on_error left out or replaced."""

    epoch: int
    number: int  #: of the sample in the dataset, whatever the order is
    key: str
    reason: str


def needs_python(dataset: Dataset) -> bool:
    """Whether samples go through functions of the caller."""
    return bool(dataset._maps) or dataset._parts is not None


class _Failed:
    """Stands for a value whose decoder raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Guarded:
    """A Python decoder whose exceptions leave a hole in the batch."""

    def __init__(self, decoder: Callable[[bytes], Any]) -> None:
        self.decoder = decoder

    def __call__(self, data: bytes) -> Any:
        try:
            return self.decoder(data)
        except Exception as error:
            return _Failed(error)


class Plan:
    """The samples that batches would have if all of them could be used. They come from a loader
    that reads no fields; it catches up with the real loader only after a batch with skipped
    samples."""

    def __init__(self, dataset: Dataset, options: Mapping[str, Any]) -> None:
        self._handle = dataset._handle
        self._options = {**options, "threads": 0, "epochs": 0, "image": None, "no_keys": True}
        self._state: str | None = None
        self._loader: _tarn.Loader | None = None

    def restart(self, state: str | None) -> None:
        self._state = state
        self._loader = None

    def numbers(self, native: _tarn.Loader, epoch: int) -> list[int]:
        """Returns the sample numbers planned for the last batch of native."""
        left = native.info()["left"]
        if self._loader is not None:
            info = self._loader.info()
            if info["epoch"] != epoch or info["left"] <= left:
                self._loader = None
        if self._loader is None:
            self._loader = _tarn.Loader(self._handle, None, (), state=self._state, **self._options)
            if self._loader.info()["epoch"] != epoch:
                self._loader.set_epoch(epoch)
        out: list[int] = []
        while self._loader.info()["left"] > left:
            out = next(self._loader)["__number__"]
        return out


def _places(numbers: Sequence[int], planned: Sequence[int], policy: str) -> list[int | None]:
    """Returns the planned position of each sample in its batch; None for one that replaces
    another."""
    if policy == "replace":
        return [i if number == planned[i] else None for i, number in enumerate(numbers)]
    out: list[int | None] = []
    at = 0
    for number in numbers:
        at = planned.index(number, at) + 1
        out.append(at - 1)
    return out


class Functions:
    """Batches of the results of the caller's functions, made in the caller's thread.

    The native loader decodes. Its batch is split into samples, as `ds[i]` would return them, which
    are batched again after the functions given to `map`. If the sources of a mix have their own
    functions, samples are read one by one. Without either, only samples whose decoder raised are
    removed.
    """

    def __init__(self, dataset: Dataset, fields: tuple[Any, ...], options: Mapping[str, Any],
                 forms: Forms) -> None:
        self.dataset = dataset
        self.forms = forms  # of the fields that are padded or ragged in Python
        self.guarded = [field[0] for field in fields if isinstance(field[2], Guarded)]
        self.maps = needs_python(dataset)
        self.policy = options["on_error"]
        self.limit = options["error_limit"]
        self.no_keys = options["no_keys"]
        self.skipped: list[Skipped] = []  # including those of the native loader
        self.failed = 0  # of these, in Python
        self._native_skipped = 0
        self._plan = Plan(dataset, options)
        self._at: Dataset = dataset  # in the epoch of the last batch

    def resume(self, dataset: Dataset, state: str) -> None:
        """Resumes from a state; the sources of a mix continue at their positions in it."""
        self.dataset = self._at = dataset._with(handle=dataset._handle.resume(state))
        self.skipped, self.failed, self._native_skipped = [], 0, 0
        self._plan.restart(state)

    def restart(self) -> None:
        """Called when the native loader is at the beginning of an epoch."""
        self._plan.restart(None)

    def __call__(self, batch: Batch, native: _tarn.Loader) -> Any:
        count = native.stats()["skipped"]
        before = len(self.skipped), self.failed, self._native_skipped
        try:
            return self._made(batch, native, count)
        except BaseException:
            listed, self.failed, self._native_skipped = before
            del self.skipped[listed:]
            raise

    def _made(self, batch: Batch, native: _tarn.Loader, skipped: int) -> Any:
        numbers, epoch = batch.pop("__number__"), batch.pop("__epoch__")
        if self.dataset._parts is not None and self._at.epoch != epoch:
            self._at = self.dataset._at_epoch(epoch)
        places: Sequence[int | None] = range(len(numbers))
        faults: list[tuple[int, Skipped]] = []
        if skipped > self._native_skipped:
            planned = self._plan.numbers(native, epoch)
            places = _places(numbers, planned, self.policy)
            holes = sorted(set(range(len(planned))).difference(places))
            faults += zip(holes, map(Skipped._make, native.skipped()[self._native_skipped:]))
            self._native_skipped = skipped
        results: list[Any] = [
            None if place is None else self._one(batch, i, place, numbers[i], epoch, faults)
            for i, place in enumerate(places)]
        faults.sort(key=lambda fault: fault[0])
        self.skipped += [fault for _, fault in faults]
        if skipped + self.failed > self.limit:
            raise FormatError(f"more than {self.limit} samples cannot be used, which is the limit "
                              f"(max_errors); the last one: {self.skipped[-1].reason}")
        kept = self._kept(results, epoch)
        if self.maps:
            return collate([results[i] for i in kept], self.forms)
        return batch if None not in results else _taken(batch, kept)

    def _kept(self, results: Sequence[Any], epoch: int) -> list[int]:
        """Returns which samples the batch has; one may be repeated to replace others."""
        usable = [i for i, result in enumerate(results) if result is not None]
        if results and not usable:
            raise FormatError(f"no sample of a batch of epoch {epoch} can be used: "
                              f"{self.skipped[-1].reason}")
        if self.policy != "replace" or len(usable) == len(results):
            return usable
        kept, following = [], usable[0]
        for i in range(len(results) - 1, -1, -1):
            following = i if results[i] is not None else following
            kept.append(following)
        return kept[::-1]

    def _one(self, batch: Batch, i: int, place: int, number: int, epoch: int,
             faults: list[tuple[int, Skipped]]) -> Any:
        """Returns the result for a sample; None if it cannot be used."""
        where = ""
        try:
            for name in self.guarded:
                value = batch[name][i]
                if isinstance(value, _Failed):
                    where = f": field {name}"
                    raise value.error
            if not self.maps:
                check({name: batch[name][i] for name in self.forms}, self.forms)
                return True
            if self.dataset._parts is not None:
                result = self._at._sample(number)
                if self.no_keys and isinstance(result, dict):
                    result.pop("__key__", None)
            else:
                result = self.dataset._through_maps(self._sample(batch, i))
            if result is None:
                raise FormatError("a function given to map returned None")
            check(result, self.forms)
            return result
        except Exception as error:
            key = batch["__key__"][i] if "__key__" in batch else self._key(number)
            if self.policy == "raise":
                error.add_note(f"sample {key}{where}")
                raise
            reason = f"sample {key}{where}: {error!r}"
            faults.append((place, Skipped(epoch, number, key, reason)))
            self.failed += 1
            return None

    def _key(self, number: int) -> str:
        """Returns the key of a sample by its number, for batches without keys."""
        return self._at._handle.unordered().keys([number])[0]

    def _sample(self, batch: Batch, i: int) -> dict[str, Any]:
        """Returns sample i of a batch, as the dataset would return it."""
        dataset = self.dataset
        out: dict[str, Any] = {}
        for name, column in batch.items():
            value = column[i]
            if isinstance(value, numpy.generic) and dataset.kind != "gnz":
                value = value.item()
            out[name] = value
        for name, finish in zip(dataset._names, dataset._finish):
            if finish is not None and name in out:
                out[name] = finish(out[name])
        return out


def _taken(batch: Batch, kept: Sequence[int]) -> Batch:
    """Returns some samples of a batch."""
    return {name: [column[i] for i in kept] if isinstance(column, list) else column[kept]
            for name, column in batch.items()}
