"""Batches that native threads prepare in advance: the result of `Dataset.loader`."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _tarn
from ._arguments import names as names_of
from ._arguments import integer, real, whole, word
from ._functions import Batch, Functions, Skipped, ragged_of, with_ragged
from ._group import ALONE, process_group, report
from ._images import Fallback
from ._ordering import UNEVEN, Uneven
from ._pad import Forms, Ragged, forms_of, native_form
from ._maps import BatchMap
from ._random import prepared
from ._reading import DECODERS, IMAGES, LABELS, extension, stored_names
from ._work import Work, as_tensors
from ._workers import Pool, Threads, kind_of
from .errors import UsageError

if TYPE_CHECKING:
    from typing import Self

    from ._dataset import Dataset
    from ._group import Group

__all__ = ["Loader"]

_MASKS = IMAGES | LABELS | {"image", "npy", "rle"}


def _becomes(dataset: Dataset, field: str, stored: Sequence[str], formed: bool) -> Any:
    """Returns how the bytes of a field that is not an array are decoded: by its names in the
    file, if that is the same for all samples."""
    ways = {_tarn.loaded_as(name) for name in stored}
    if len(ways) > 1 and dataset._grouping is not None:
        raise UsageError(f"loader: {field} selects fields that are read from {' or '.join(stored)}, "
                         "which become different values; group fields of one type")
    if formed or stored[0].startswith("_") or len(ways) > 1:
        return "form"
    way = ways.pop()
    return functools.partial(_tarn.decode, stored[0]) if way == "decode" else way



class Loader:
    """Batches of one epoch at a time, prepared in advance. Each `for` loop over it is one epoch.

    A batch is a dict of its fields, each for all samples: one array if the values have the same
    shape, otherwise a list; and the keys as "__key__". Arrays use the loader's own memory, without
    a copy, and stay valid as long as they exist. `iter(loader)` starts an epoch: first epoch 0,
    the epoch given to `set_epoch`, or the rest of the epoch of `load_state_dict`; then the next
    one each time. A new iterator ends the previous one. Batches and their order depend only on the
    dataset and the arguments, not on the number of threads.

    >>> loader = ds.loader(batch_size=3)
    >>> for batch in loader:
    ...     print(batch["__key__"], batch["cls"].tolist(), batch["txt"][0])
    ['auk', 'jay', 'kiwi'] [0, 1, 2] An auk.
    ['owl'] [3] An owl.
    >>> len(loader), loader.epoch
    (2, 1)
    """

    def __init__(self, dataset: Dataset, fields: tuple[Any, ...], options: Mapping[str, Any],
                 functions: Mapping[str, Any], array_type: str, pin_memory: bool,
                 forms: Forms = {}, uneven: Uneven | None = None, state: str | None = None, group: Group = ALONE) -> None:
        self._given = dataset
        self._arguments = (fields, dict(options), dict(functions), array_type, pin_memory, forms, uneven)
        self._ragged = ragged_of(options)
        self._form: Any = None  # a batch without samples, once there was one
        self._begun = False  # whether an iterator has been made for the current epoch
        self._resumed = state is not None  # whether it is where a state was, and not begun
        self._iterators = 0
        self._pool: Pool | None = None
        # With uneven, the dataset is divided among the ranks of the process group, which may start
        # after the loader was made. A process without a group of its own uses the group of the
        # process that pickled the loader: workers of a DataLoader do.
        self._inherited = group
        self._open(state, self._group_now())

    def _group_now(self) -> Group:
        if self._arguments[-1] is None:
            return ALONE
        group = process_group()
        return self._inherited if group == ALONE else group

    def _open(self, state: str | None, group: Group) -> None:
        """Opens the native loader for a rank. A failure changes nothing."""
        fields, options, _, _, _, _, uneven = self._arguments
        dataset, equal = self._given, options["equal_batches"]
        divided = uneven in ("drop", "pad") or group != ALONE
        if uneven is not None and divided:
            dataset = dataset.shard(*group, uneven=uneven)
        options = {**options, "equal_batches": divided if equal is None else equal}
        decoders = {field[0]: field[2] for field in fields if callable(field[2])}
        if decoders:
            fields = tuple((name, how, "bytes" if callable(becomes) else becomes, codec)
                           for name, how, becomes, codec in fields)
        pool = self._pool_for(dataset, decoders, state)
        native_options = dict(options)
        if pool is not None:
            native_options.update(error_limit=2**64 - 1, numbers=True, memory=pool.memory)
        native = _tarn.Loader(dataset._handle, dataset._views, fields, state=state, **native_options)
        if group != self._inherited:
            report(group)
        self._dataset, self._options, self._group = dataset, options, group
        self._native, self._pool = native, pool
        self._functions = None if pool is None else Functions(dataset, pool, options)

    def _pool_for(self, dataset: Dataset, decoders: dict[str, Any], state: str | None) -> Pool | None:
        """Returns who runs the functions, if there are any: the pool of before, if it is of this
        process and does not depend on the position."""
        _, options, functions, array_type, _, forms, _ = self._arguments
        if dataset._parts is not None and state is not None:
            dataset = dataset._with(handle=dataset._handle.resume(state))
        work = Work(dataset, decoders, forms, functions["collate"], options["on_error"],
                    options["seed"] or dataset.info["seed"], options["no_keys"], array_type == "torch")
        if not work:
            return None
        if self._pool is not None and self._pool.pid == os.getpid():
            if dataset._parts is None:
                return self._pool
            self._pool.close()
        kind, count = functions["workers"]
        if kind == "threads":
            return Threads(work, count, options["prefetch"])
        if kind == "processes":
            from ._processes import Processes

            return Processes(work, count, options["prefetch"], functions["timeout"])
        return Pool(work)

    @property
    def _ahead(self) -> int:
        """How many batches were taken from the native loader that the caller has not received."""
        return 0 if self._functions is None else self._functions.ahead

    def _position(self) -> str:
        return self._native.state(self._ahead)

    def _move(self, epoch: int) -> None:
        if self._functions is not None:
            self._functions.drop(self._native)
        self._native.set_epoch(epoch)

    def _after_fork(self) -> None:
        """Takes a position of its own in a forked child: the batches in progress and the workers are
        those of the parent."""
        before = self._functions
        if before is None or before.pid == os.getpid():
            return
        self._open(self._position(), self._group)
        assert self._functions is not None
        self._functions.skipped, self._functions.failed = list(before.skipped), before.failed

    def _join(self) -> None:
        """Takes the part of another rank, if the process has joined or left a group."""
        group = self._group_now()
        if group == self._group:
            return
        before = self._native
        moved = self._iterators > 0 or self._resumed
        state = self._position() if moved else None
        self._forget()
        self._open(state, group)
        before.close()

    def _forget(self) -> None:
        if self._functions is not None:
            self._functions.drop(self._native)

    def __iter__(self) -> Iterator[Batch]:
        self._join()
        self._after_fork()
        if self._begun and not self._native.info()["over"]:
            self._move(self.epoch + 1)
        self._begun = True
        self._resumed = False
        self._iterators += 1
        return _Epoch(self, self._iterators)

    def _next(self) -> Any:
        """Returns the next batch. After a failure the loader is before the batch that failed."""
        _, _, _, array_type, pin_memory, _, _ = self._arguments
        self._after_fork()
        try:
            if self._functions is None:
                batch: Any = with_ragged(next(self._native), self._ragged)
                if self._options["equal_batches"] and _is_empty(batch):
                    batch = None
            else:
                batch = self._functions.next(self._native)
        except StopIteration as error:
            if self._functions is not None and self._functions.ahead:  # would end the epoch silently
                ended = RuntimeError("a function given to map raised StopIteration")
                for note in getattr(error, "__notes__", ()):
                    ended.add_note(note)
                raise ended from error
            raise
        if batch is None:
            batch = self._without_samples()
        return _tensors(batch, pin_memory) if array_type == "torch" else batch

    def _without_samples(self) -> Any:
        if self._form is None:
            self._form = _nothing_of(_one_sample(self._dataset, self._arguments, self._options))
        return _nothing_of(self._form)

    def __len__(self) -> int:
        """The number of batches in a whole epoch, for this rank."""
        if not self._begun:
            self._join()
        return int(self._native.info()["batches"])

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return int(self._native.info()["epoch"])

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iterator start this epoch. Right after `load_state_dict`, the epoch of the
        state is continued and does not start again."""
        epoch = whole("epoch", epoch)
        if self._resumed and epoch == self.epoch:
            return
        self._resumed = False
        self._after_fork()
        self._move(epoch)
        self._begun = False
        self._iterators += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last returned batch, as a dict of plain values.

        >>> loader = ds.loader(batch_size=1, shuffle=True, seed=3)
        >>> batches = iter(loader)
        >>> first = next(batches)["__key__"]
        >>> again = ds.loader(batch_size=1, shuffle=True, seed=3)
        >>> again.load_state_dict(loader.state_dict())
        >>> [batch["__key__"] for batch in batches] == [batch["__key__"] for batch in again]
        True
        """
        return {"version": 2, "loader": self._position()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a state, even of a run with another number of ranks: the next iterator
        returns the rest of that epoch. A state of other data, selections or orders raises a
        `StaleError` that gives the reason."""
        if (not isinstance(state, Mapping) or state.get("version") != 2
                or not isinstance(state.get("loader"), str)):
            raise UsageError("load_state_dict: not a state of a tarn loader")
        before, functions = self._native, self._functions
        self._open(state["loader"], self._group_now())
        if functions is not None and functions.pid == os.getpid():
            functions.drop(before)
        before.close()
        self._begun = False
        self._resumed = True
        self._iterators += 1

    def stats(self) -> dict[str, Any]:
        """Returns what was delivered, how long the caller waited, what the threads did, and which
        stage limits the rate: "read", "decode", "functions" or "caller".

        >>> loader = ds.loader(batch_size=2)
        >>> batches = list(loader)
        >>> loader.stats()["samples"], loader.stats()["batches"]
        (4, 2)
        """
        if self._functions is None:
            return self._native.stats()
        return self._functions.counts(self._native)

    def simulate(self, epochs: int = 2, *, cache: bool = False, cache_limit: int = 0,
                 latency: float = 0.03, bandwidth: float = 0,
                 connections: int = 0) -> list[dict[str, Any]]:
        """Returns what the next epochs of this loader would request of remote files, and how long
        that takes at least. Nothing is requested, and the loader stays where it is. Local files are
        treated as if they were on a server.

        epochs: how many. cache: whether the loader has a cache, empty at first; cache_limit: bytes
        that it may take, 0 for no limit. latency: seconds until a response begins. bandwidth: bytes
        per second, 0 for no limit. connections: requests at once; 0: as many as tarn chooses.

        Each epoch is a dict: "requests" and "bytes" that arrive, "wanted" bytes of the samples and how
        many of them are "cached", bytes "kept" in the cache, and "seconds", if only the network
        limits the rate.

        >>> [epoch["requests"] for epoch in ds.loader(batch_size=2).simulate(cache=True)]
        [2, 0]
        """
        return self._native.simulate(
            whole("epochs", epochs, 1, 2**63), bool(cache),
            whole("cache_limit", cache_limit, 0, 2**63), real("latency", latency),
            real("bandwidth", bandwidth), whole("connections", connections, 0, 2**31))

    def skipped(self) -> list[Skipped]:
        """Returns the samples that on_error left out or replaced: the epoch, the number of the
        sample, its key and the reason. They are sorted by epoch and then by their order in the
        epoch."""
        out = (map(Skipped._make, self._native.skipped()) if self._functions is None
               else self._functions.skipped)
        return sorted(out, key=lambda one: one.epoch)

    def close(self) -> None:
        """Stops the threads and the workers. Batches that were already returned stay valid."""
        if self._pool is not None and self._pool.pid == os.getpid():
            self._pool.close()
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._given, self._arguments, self._position(),
                        self._group_now())

    def __repr__(self) -> str:
        try:
            batches, epoch = len(self), self.epoch
        except (UsageError, RuntimeError):  # closed, or in use by another thread
            return f"<tarn.Loader of {self._given!r}>"
        rank, world_size = self._group
        part = f"rank {rank}/{world_size} of the process group, " if world_size > 1 else ""
        return f"<tarn.Loader {part}epoch {epoch}, {batches} batches of {self._given!r}>"


class _Epoch:
    """The batches of one epoch."""

    def __init__(self, loader: Loader, number: int) -> None:
        self._loader = loader
        self._number = number
        self._over = bool(loader._native.info()["over"])

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        loader = self._loader
        if loader._iterators != self._number:
            if self._over:
                raise StopIteration
            raise RuntimeError("this iterator has ended, because another iterator was made or the "
                               "loader was set to another position")
        if self._over:
            raise StopIteration
        try:
            batch: Batch = loader._next()
            return batch
        except StopIteration:
            self._over = True
            loader._begun = False
            raise

    def __length_hint__(self) -> int:
        if self._over or self._loader._iterators != self._number:
            return 0
        return int(self._loader._native.info()["left"]) + self._loader._ahead


def _again(cls: type[Loader], dataset: Dataset, arguments: Any, state: str, group: Group) -> Loader:
    fields, options, functions, array_type, pin_memory, forms, uneven = arguments
    return cls(dataset, fields, options, functions, array_type, pin_memory, forms, uneven, state, group)


def _tensors(batch: Any, pin_memory: bool) -> Any:
    """Replaces the arrays of a batch by tensors."""
    batch = as_tensors(batch)
    return _pinned(batch) if pin_memory else batch


def _pinned(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: _pinned(value) for name, value in batch.items()}
    if isinstance(batch, Ragged):
        return Ragged(*map(_pinned, batch))
    if isinstance(batch, tuple):
        return tuple(map(_pinned, batch))
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch


# --- Batches without samples ---------------------------------------------------------------


def _is_empty(batch: Batch) -> bool:
    return not any(len(column.offsets) - 1 if isinstance(column, Ragged) else len(column)
                   for column in batch.values())


def _nothing_of(batch: Any) -> Any:
    """Returns a batch with the same fields, types and shapes, but without samples."""
    if isinstance(batch, dict):
        return {name: _nothing_of(value) for name, value in batch.items()}
    if isinstance(batch, Ragged):
        return Ragged(batch.values[:0], batch.offsets[:1])
    if isinstance(batch, tuple):
        return tuple(map(_nothing_of, batch))
    return batch[:0]


def _one_sample(dataset: Dataset, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Returns a batch of the first sample of the dataset, over all ranks; if unusable samples are
    skipped, of the first usable one."""
    fields, functions = arguments[0], {**arguments[2], "workers": ("caller", 0), "timeout": None}
    alone = {**options, "batch": 1, "equal_batches": False, "drop_last": False, "threads": 0,
             "epochs": 0, "on_error": "raise"}
    samples = dataset._with(handle=dataset._handle.unordered())
    for i in range(len(samples)):
        try:
            return next(iter(Loader(samples[i:i + 1], fields, alone, functions, "numpy", False, arguments[5])))
        except Exception:
            if options["on_error"] == "raise" or i + 1 == len(samples):
                raise
    raise UsageError("a dataset without samples has no batches")


# --- Opening -------------------------------------------------------------------------------


def _field(dataset: Dataset, field: str, stored: Sequence[str], formed: bool,
           integers: Sequence[str], masks: Sequence[str]) -> tuple[Any, ...]:
    """Returns a field for the native loader: (name, how it is loaded, how its bytes become an
    object, the codec if it is not that of the name)."""
    reading = dataset._reading
    decoder, codec = reading.decoder(field, stored), reading.codec(field, stored)
    if field in masks:
        _check_mask(dataset, field, stored, decoder, codec)
        return field, "mask", "bytes", codec
    if decoder is not None:
        return field, "bytes", DECODERS[decoder] if isinstance(decoder, str) else decoder, None
    if field in integers:
        return field, "integer", "bytes", None
    if codec is not None:
        way = _tarn.loaded_as(codec)
        if way == "decode":
            return field, "bytes", functools.partial(_tarn.decode, codec), None
        return field, "auto", way, codec
    if reading.decode is False:
        return field, "views", "bytes", None
    if reading.decode == "bytes":
        return field, "bytes", "bytes", None
    return field, "auto", _becomes(dataset, field, stored, formed), None


def _check_mask(dataset: Dataset, field: str, stored: Sequence[str], decoder: Any,
                codec: str | None) -> None:
    if decoder is not None:
        raise UsageError(f"masks: field {field} has a decoder of its own (decoders=), so it cannot "
                         "follow the image; leave the decoder out")
    if codec is None and dataset._reading.decode is not True:
        raise UsageError(f"masks: field {field} is not decoded (decode={dataset._reading.decode!r})")
    if any(extension(name) not in _MASKS for name in ([codec] if codec else stored)):
        raise UsageError(f"masks: field {field} is not an array by its name (expected a label map, "
                         "npy, rle or an image)")


def _can_pin() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _existing(dataset: Dataset, option: str, given: Sequence[str]) -> list[str]:
    """Returns the fields that an option names."""
    names = names_of(option, given)
    for name in names:
        if name not in dataset.fields:
            raise UsageError(f"{option}: no field {name}; available: " + ", ".join(dataset.fields))
    if names and dataset._parts is not None:
        raise UsageError(f"{option}: the sources of this mix have their own functions; convert in "
                         "those")
    return names


def _read_fields(dataset: Dataset, integers: Sequence[str], masks: Sequence[str],
                 resized: bool) -> tuple[Any, ...]:
    formed = dataset.kind != "fold"
    if dataset._parts is not None:
        return ()
    fields = [_field(dataset, name, stored, formed, integers, masks)
              for name, stored in zip(dataset.fields, stored_names(dataset._handle, dataset.fields))]
    if resized:
        fields = [_recognised(dataset, field) for field in fields]
    return tuple(fields)


def _recognised(dataset: Dataset, field: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the payload of a record pack whose header names no codec as an image, if the first
    one is an image."""
    name, how, becomes, codec = field
    if dataset.kind != "iac" or name != "payload" or how != "auto" or codec or not len(dataset):
        return field
    first = bytes(dataset.batch([0], [name])[0][name])
    return (name, how, becomes, "image") if _tarn.image_known(first) else field


def _check_images(dataset: Dataset, image: dict[str, Any] | None, masks: Sequence[str]) -> None:
    """Raises an error for image options that cannot have an effect."""
    if masks and image is None:
        raise UsageError("masks: only with resized images (resize=); for images that all have the "
                         'same size: resize=that size, fit="exact"')
    if image is None:
        return
    if dataset._parts is not None:
        raise UsageError("resize: the sources of this mix have their own functions; resize in those")
    reading = dataset._reading
    if reading.decode is not True and not reading.decoders:
        raise UsageError(f"resize has no effect: the dataset was opened with decode={reading.decode!r}, "
                         "so images are not decoded; open it with decode=True")


def _divided_forms(python: bool, fields: tuple[Any, ...],
                   forms: Forms) -> tuple[dict[str, Any], Forms]:
    """Returns the forms for the native loader, and those for Python: of the results of functions and
    of fields whose values are made in Python."""
    if python:
        return {}, forms
    native, own = {}, {}
    becomes = {name: how for name, _, how, _ in fields}
    for name, form in forms.items():
        if name not in becomes:
            raise UsageError(f"{'ragged' if form is None else 'pad'}: no field {name}; available: "
                             + ", ".join(becomes))
        if callable(becomes[name]) or becomes[name] == "json":
            own[name] = form
        else:
            native[name] = native_form(form)
    return native, own


def _fallback(dataset: Dataset, masks: Sequence[str]) -> Fallback | None:
    how = dataset._reading.fallback
    return None if how is None else Fallback(how, dataset._reading.exif, frozenset(masks))


def _divided(dataset: Dataset, rank: int | None, world_size: int | None,
             uneven: Uneven | None) -> tuple[Dataset, Uneven | None, bool | None]:
    """Returns the dataset, how the loader divides it among the ranks of the process group (None: it
    does not), and the default of equal_batches (None: depends on that group)."""
    if uneven is not None:
        word("uneven", uneven, UNEVEN)
    if world_size is None and rank is None:
        if not dataset._recipe.has("split"):
            return dataset, uneven or "keep", None
        if uneven is not None:
            raise UsageError("uneven: the dataset already has a shard; pass uneven to shard()")
        return dataset, None, False
    if world_size is None or (rank is None and world_size != 1):
        raise UsageError("rank and world_size: pass both, or neither to use those of the process "
                         "group; world_size=1 alone returns all samples")
    if world_size == 1 and not rank and uneven is None:
        return dataset, None, False
    return dataset.shard(rank or 0, world_size, uneven=uneven or "keep"), None, True


def _in_workers(field: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a field whose values are parsed by the workers if they become objects of Python."""
    name, how, becomes, codec = field
    return (name, how, functools.partial(_tarn.decode, "json"), codec) if becomes == "json" else field


def _functions_of(dataset: Dataset, workers: Any, timeout: float | None,
                  collate: Any) -> dict[str, Any]:
    """Returns the options that concern the caller's functions."""
    kind = kind_of(workers)
    if collate is not None and not callable(collate):
        raise UsageError(f"collate must be a function of a list of samples, not {collate!r}")
    if timeout is not None:
        if kind[0] == "threads":
            raise UsageError("timeout: not with threads, because a thread cannot be ended; use worker "
                             "processes (workers=4)")
        timeout = real("timeout", timeout)
        if not timeout > 0:
            raise UsageError(f"timeout must be more than 0 seconds (found {timeout:g})")
    return {"workers": kind, "timeout": timeout,
            "collate": None if collate is None else prepared(collate)}


def loader_of(dataset: Dataset, batch_size: int, *, seed: int, threads: int | None, workers: Any,
              timeout: float | None, collate: Any, prefetch: int, epochs: int, rank: int | None, world_size: int | None, uneven: Uneven | None,
              drop_last: bool, equal_batches: bool | None, on_error: str,
              max_errors: int | None, keys: bool, integers: Sequence[str],
              array_type: str | None, pin_memory: bool | None, pad: Any, ragged: Any,
              image: dict[str, Any] | None, masks: Sequence[str]) -> Loader:
    """Implements `Dataset.loader`."""
    functions = _functions_of(dataset, workers, timeout, collate)
    python = bool(dataset._maps and not isinstance(dataset._maps[0], BatchMap)
                  or dataset._parts is not None or collate)
    if dataset._reading.images == "pil" and not python:
        raise UsageError('loader: images="pil" works only for single samples and functions given '
                         "to map, because batches are arrays")
    integers, masks = _existing(dataset, "integers", integers), _existing(dataset, "masks", masks)
    _check_images(dataset, image, masks)
    fields = _read_fields(dataset, integers, masks, image is not None)
    if functions["workers"][1]:
        fields = tuple(map(_in_workers, fields))
        if not (dataset._maps or python or any(callable(field[2]) for field in fields)):
            raise UsageError("workers has no effect: this loader has no Python functions (map, batch_map, "
                             "collate, decoders); the native threads are threads=")
    native_forms, forms = _divided_forms(python, fields, forms_of(pad, ragged))
    if collate is not None and forms:
        raise UsageError("pad and ragged: without collate=, which makes the batch itself")
    cores = len(os.sched_getaffinity(0))
    word("on_error", on_error, ("raise", "skip", "replace"))
    if max_errors is not None and on_error == "raise":
        raise UsageError('max_errors: only with on_error="skip" or "replace"')
    dataset, division, equal = _divided(dataset, rank, world_size, uneven)
    equal_batches = equal if equal_batches is None else bool(equal_batches)
    options: dict[str, Any] = {
        "batch": whole("batch_size", batch_size, 1, 2**24),
        "equal_batches": equal_batches,
        "drop_last": bool(drop_last), "seed": abs(integer("seed", seed)) % 2**64,
        "threads": cores if threads is None else whole("threads", threads, 0, 1024),
        "prefetch": whole("prefetch", prefetch, 0, 1024), "epochs": whole("epochs", epochs),
        "image": image, "no_keys": not keys, "on_error": on_error,
        "error_limit": 2**64 - 1 if max_errors is None else whole("max_errors", max_errors),
        "exif": dataset._reading.exif, "fallback": _fallback(dataset, masks),
        "forms": native_forms,
    }
    given = dataset._reading.array_type if array_type is None else word(
        "array_type", array_type, ("numpy", "torch"))
    if given != "torch" and pin_memory:
        raise UsageError('pin_memory: only with array_type="torch"')
    pin = given == "torch" and (_can_pin() if pin_memory is None else bool(pin_memory))
    if pin and not _can_pin():
        raise UsageError("pin_memory: no CUDA device was found")
    return Loader(dataset, fields, options, functions, given, pin, forms, division)
