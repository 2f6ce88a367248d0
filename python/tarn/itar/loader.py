"""Helpers for training loops: torch's DataLoader, and moving data to a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["build_dataloader", "move_to_device"]

_WORKERS_ONLY = ("multiprocessing_context", "timeout", "worker_init_fn")


def build_dataloader(dataset: Any, *, batch_size: int, num_workers: int, drop_last: bool,
                     collate_fn: Callable[[list[Any]], Any] | None = None,
                     pin_memory: bool = False, persistent_workers: bool = False,
                     prefetch_factor: int | None = None, **options: Any) -> Any:
    """Returns torch's DataLoader over a dataset, with the options of DataLoader. Those of workers
    are dropped if there are no workers."""
    if num_workers < 0:
        raise ValueError(f"num_workers must be non-negative, got {num_workers}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be positive, got {batch_size}")
    from torch.utils.data import DataLoader

    if num_workers:
        options.update(persistent_workers=persistent_workers, prefetch_factor=prefetch_factor)
    else:
        options = {name: value for name, value in options.items() if name not in _WORKERS_ONLY}
    return DataLoader(dataset, batch_size=batch_size, num_workers=num_workers,
                      drop_last=drop_last, collate_fn=collate_fn, pin_memory=pin_memory,
                      **options)


def move_to_device(value: Any, device: Any, *, non_blocking: bool) -> Any:
    """Moves torch tensors in dicts, tuples and lists to a device; other values are returned
    unchanged.

    >>> move_to_device({"a": [1, ("b",)]}, "cpu", non_blocking=False)
    {'a': [1, ('b',)]}
    """
    torch = sys.modules.get("torch")  # without it there are no tensors
    if torch is not None and isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, Mapping):
        return {name: move_to_device(item, device, non_blocking=non_blocking)
                for name, item in value.items()}
    if isinstance(value, tuple):
        items = [move_to_device(item, device, non_blocking=non_blocking) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [move_to_device(item, device, non_blocking=non_blocking) for item in value]
    return value
