"""Batches made ahead by native threads: what `Dataset.loader` gives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _tarn
from .arguments import names as names_of
from .arguments import integer, real, reals, whole, word
from .errors import UsageError
from .ordering import arrays_of
from .reading import DECODERS, extension, to_torch

if TYPE_CHECKING:
    from typing import Self

    from .dataset import Dataset

__all__ = ["Loader"]

Batch = dict[str, Any]

_TEXT = frozenset({"htm", "html", "text", "transcript", "txt"})
_JSON = frozenset({"jsn", "json"})
_LISTS = frozenset({"npz", "tb", "ten", "tenbin"})


def _becomes(field: str, formed: bool) -> str:
    """What is made of the bytes of a field that is no array."""
    last = extension(field)
    if formed or field.startswith("_"):
        return "form"
    if last in _TEXT:
        return "text"
    if last in _JSON:
        return "json"
    return "decode" if last in _LISTS else "bytes"


_FITS = ("stretch", "centre", "random", "exact")
_TYPES = ("uint8", "float32", "float16")
_LAYOUTS = ("HWC", "CHW")
_STEPS = frozenset({"channels", "dtype", "fit", "flip", "layout", "mean", "ratio", "reduce", "scale",
                    "shorter", "std"})


def _image(resize: int | tuple[int, int] | None, steps: Mapping[str, Any]) -> dict[str, Any] | None:
    """The steps of images; resize is the side, or (height, width)."""
    for name in steps:
        if name not in _STEPS:
            raise TypeError(f"loader() has no argument {name!r}")
    if resize is None:
        if steps:
            raise UsageError(f"{', '.join(sorted(steps))}: only where images are resized (resize=)")
        return None
    sides = list(resize) if isinstance(resize, (list, tuple)) else [resize, resize]
    if len(sides) != 2:
        raise UsageError(f"resize is a side or (height, width), not {resize!r}")
    height, width = (whole("resize", side, 1, 131072) for side in sides)
    out: dict[str, Any] = {"width": width, "height": height, **steps}
    fit = out["fit"] = word("fit", steps.get("fit", "stretch"), _FITS)
    dtype = out["dtype"] = word("dtype", steps.get("dtype", "uint8"), _TYPES)
    out["layout"] = word("layout", steps.get("layout", "HWC"), _LAYOUTS)
    for name, needed, there in (("scale", 'fit="random"', fit == "random"),
                                ("ratio", 'fit="random"', fit == "random"),
                                ("shorter", 'fit="centre"', fit == "centre"),
                                ("mean", 'dtype="float32" or "float16"', dtype != "uint8"),
                                ("std", 'dtype="float32" or "float16"', dtype != "uint8")):
        if name in steps and not there:
            raise UsageError(f"{name}: only with {needed}")
    for name in ("channels", "shorter"):
        if name in steps:
            out[name] = whole(name, steps[name], 0, 131072)
    for name in ("flip", "reduce"):
        if name in steps:
            out[name] = real(name, steps[name])
    for name in ("scale", "ratio"):
        if name in steps:
            out[name] = reals(name, steps[name], 2, 2)
    for name, rest in (("mean", 0.0), ("std", 1.0)):
        if name in steps:
            values = reals(name, steps[name], 1, 4)
            out[name] = values + (rest,) * (4 - len(values))
    return out


class Loader:
    """An iterator over the batches of an epoch, and then of the next one.

    A batch is a dict of its fields, each for all samples: one array where values are alike, else a
    list; and the keys as "__key__". Arrays are the loader's own memory, without a copy, and stay
    valid as long as they live. `for batch in loader` gives what is left of the epoch: all of it at
    first, the rest after a break or `load_state_dict`. Batches and their order depend on the dataset
    and the arguments alone, not on the number of threads.

    >>> loader = ds.loader(batch_size=3)
    >>> for batch in loader:
    ...     print(batch["__key__"], batch["cls"].tolist(), batch["txt"][0])
    ['auk', 'jay', 'kiwi'] [0, 1, 2] An auk.
    ['owl'] [3] An owl.
    >>> len(loader), loader.epoch
    (2, 1)
    """

    def __init__(self, dataset: Dataset, order: Mapping[str, Any], fields: tuple[Any, ...],
                 options: Mapping[str, Any], torch: bool, pin: bool,
                 state: str | None = None) -> None:
        self._dataset = dataset
        self._arguments = (dict(order), fields, dict(options), torch, pin)
        self._torch = torch
        self._pin = pin
        self._open(state)

    def _open(self, state: str | None) -> None:
        order, fields, options, _, _ = self._arguments
        self._native = _tarn.Loader(self._dataset._handle, self._dataset._views, fields,
                                    dict(order, state=state), **options)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = next(self._native)
        if self._torch:
            for name, value in batch.items():
                batch[name] = self._tensors(value)
        return batch

    def _tensors(self, value: Any) -> Any:
        value = to_torch(value)
        if self._pin and hasattr(value, "pin_memory"):
            value = value.pin_memory()
        return value

    def __len__(self) -> int:
        """Batches of this epoch, for this rank; in an epoch that was resumed, those that were left."""
        return int(self._native.info()["batches"])

    @property
    def epoch(self) -> int:
        """The epoch that the next batch is of."""
        return int(self._native.info()["epoch"])

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch; nothing is lost if that is where the loader stands."""
        self._native.set_epoch(whole("epoch", epoch))

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, behind the last batch it gave, in a dict of plain values.

        >>> loader = ds.loader(batch_size=1, shuffle=True, seed=3)
        >>> first = next(loader)["__key__"]
        >>> again = ds.loader(batch_size=1, shuffle=True, seed=3)
        >>> again.load_state_dict(loader.state_dict())
        >>> [batch["__key__"] for batch in loader] == [batch["__key__"] for batch in again]
        True
        """
        return {"version": 1, "loader": self._native.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state, also of a run with another number of ranks: what comes is exactly
        what had not come yet."""
        if (not isinstance(state, Mapping) or state.get("version") != 1
                or not isinstance(state.get("loader"), str)):
            raise UsageError("load_state_dict: this is no state of a tarn loader")
        before = self._native
        self._open(state["loader"])
        before.close()

    def stats(self) -> dict[str, Any]:
        """What was delivered, how long the caller waited, what threads did, and which stage holds
        the others up: "read", "decode" or "caller".

        >>> loader = ds.loader(batch_size=2)
        >>> batches = list(loader)
        >>> loader.stats()["samples"], loader.stats()["batches"]
        (4, 2)
        """
        return self._native.stats()

    def skipped(self) -> list[tuple[int, int, str]]:
        """The samples that on_error left out: (epoch, number of the sample, why)."""
        return self._native.skipped()

    def close(self) -> None:
        """Ends the threads. Batches that were given out stay as they are."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._dataset, *self._arguments, self._native.state())

    def __repr__(self) -> str:
        try:
            info = self._native.info()
        except (UsageError, RuntimeError):  # closed, or in use by another thread
            return f"<tarn.Loader of {self._dataset!r}>"
        return f"<tarn.Loader epoch {info['epoch']}, {info['batches']} batches of {self._dataset!r}>"


def _again(cls: type[Loader], dataset: Dataset, order: Any, fields: Any, options: Any, torch: bool,
           pin: bool, state: str) -> Loader:
    return cls(dataset, order, fields, options, torch, pin, state)


def _field(dataset: Dataset, field: str, formed: bool, integers: Sequence[str]) -> tuple[Any, ...]:
    reading = dataset._reading
    decoder = reading.decoders.get(field, reading.decoders.get(extension(field)))
    if decoder is not None:
        return field, "bytes", DECODERS[decoder] if isinstance(decoder, str) else decoder
    if field in integers:
        return field, "integer", "bytes"
    if reading.decode is False:
        return field, "views", "bytes"
    if reading.decode == "bytes":
        return field, "bytes", "bytes"
    return field, "auto", _becomes(field, formed)


def _can_pin() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def loader_of(dataset: Dataset, batch_size: int, *, threads: int | None, shuffle: bool, seed: int,
              resize: int | tuple[int, int] | None, on_error: str | int, drop_last: bool,
              depth: int, epochs: int, keys: bool, staged: bool, integers: Sequence[str],
              as_: str | None, pin: bool | None, steps: Mapping[str, Any]) -> Loader:
    """What `Dataset.loader` does with its arguments."""
    if dataset._maps:
        raise UsageError("loader: functions given to map() are of single samples; apply them to the "
                         "batches, or use torch's DataLoader")
    if dataset._reading.images == "pil":
        raise UsageError('loader: batches are arrays; images="pil" is for single samples')
    if shuffle:
        dataset = dataset.shuffle(seed)
    elif isinstance(dataset._order, _tarn._Indices):
        dataset = dataset._in_file_order()
    order = arrays_of(dataset._handle, dataset._ordering or {})
    order.update(batch=whole("batch_size", batch_size, 1, 2**24), epoch=dataset._epoch)
    seed = integer("seed", seed)
    if order.get("kind", "identity") == "identity":
        order["seed"] = seed  # of what is random in images
    elif not shuffle and seed not in (0, order.get("seed", 0)):
        raise UsageError("seed: the dataset has an order already, with a seed of its own")
    if drop_last:
        order.update(share="drop", equal_batches=True)
    formed = dataset.kind != "fold"
    numbers = names_of("integers", integers)
    for name in numbers:
        if name not in dataset.fields:
            raise UsageError(f"integers: there is no field {name}; there are "
                             + ", ".join(dataset.fields))
    fields = tuple(_field(dataset, name, formed, numbers) for name in dataset.fields)
    cores = len(os.sched_getaffinity(0))
    options: dict[str, Any] = {
        "threads": cores if threads is None else whole("threads", threads, 0, 1024),
        "depth": whole("depth", depth, 0, 1024), "epochs": whole("epochs", epochs),
        "image": _image(resize, steps), "no_keys": not keys, "staged": staged,
    }
    if isinstance(on_error, (str, bool)) or on_error is None:
        if on_error not in ("raise", "skip"):
            raise UsageError(f'on_error is "raise", "skip" or a number, not {on_error!r}')
        options["on_error"] = on_error
    else:
        options.update(on_error="limit", error_limit=whole("on_error", on_error))
    as_ = dataset._reading.as_ if as_ is None else word("as_", as_, ("numpy", "torch"))
    torch = as_ == "torch"
    if torch:
        pin = _can_pin() if pin is None else bool(pin)
        if pin and not _can_pin():
            raise UsageError("pin: there is no CUDA device here to pin memory for")
    resumed = dataset._state_if_resumed()
    return Loader(dataset, order, fields, options, torch, bool(pin) and torch,
                  None if resumed is None else resumed["order"])
