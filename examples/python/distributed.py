"""Several processes train on one dataset, stop, and resume with another number of processes.

    python -m torch.distributed.run --nproc-per-node 2 distributed.py DATA STATE [STOP]

Each process gets its part of every epoch, and all get the same number of batches. After batch STOP
rank 0 writes STATE and all processes exit. If STATE exists at the start, they resume from it, whatever
their number is now. Without torchrun (`python distributed.py`) there is one process.
"""

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist

import tarn
import tarn.torch


def all_keys(keys: list[str]) -> list[str]:
    """The keys of a batch of all processes."""
    if not dist.is_initialized():
        return keys
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, keys)
    return [key for part in parts for key in part]


def main(data: str = "birds", state: str = "", stop: str = "0") -> None:
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    world = dist.get_world_size() if dist.is_initialized() else 1

    # The rank and the world size are those of torch.distributed; each rank takes every world-th sample.
    loader = tarn.torch.loader_for(tarn.open(data, fields=["cls"]), batch_size=8 // world, shuffle=True, seed=7)
    if state and os.path.exists(state):
        with open(state, encoding="utf-8") as file:
            loader.load_state_dict(json.load(file))
    seen: list[str] = []
    for number, batch in enumerate(loader, 1):
        total = torch.tensor([float(batch["cls"].sum())])  # a model would use the batch here
        if dist.is_initialized():
            dist.all_reduce(total)
        seen += all_keys(batch["__key__"])
        if number == int(stop):
            break
    if rank == 0:
        if state:
            with open(state, "w", encoding="utf-8") as file:
                json.dump(loader.state_dict(), file)
        print(f"{world} rank{'s' * (world > 1)} read {len(seen)} samples, {len(set(seen))} distinct: {' '.join(seen[:4])} ...")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
