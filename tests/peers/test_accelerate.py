#!/usr/bin/env python3
"""Accelerate: it leaves a loader as it is, and moves its own parts of everything else."""
import itertools
import json
import sys

import peer

peer.needs("torch", "accelerate")

import accelerate  # noqa: E402
import torch  # noqa: E402

import tarn  # noqa: E402
import tarn.torch  # noqa: E402

MAKERS = {"loader": lambda ds: ds.loader(6, array_type="torch"),
          "loader_for": lambda ds: tarn.torch.loader_for(ds, batch_size=6),
          "DataLoader of the dataset": lambda ds: torch.utils.data.DataLoader(ds, batch_size=8, num_workers=1)}
OPTIONS = [{}, {"split_batches": True}, {"dispatch_batches": True}, {"even_batches": False}]


def as_rank(folder, out):
    """Runs as one rank: each kind of loader, prepared with each option."""
    ds = tarn.open(folder, fields=["npy", "cls"], array_type="torch")
    seen = {}
    for how, (number, options) in itertools.product(MAKERS, enumerate(OPTIONS)):
        if how.startswith("DataLoader") and "dispatch_batches" in options:
            continue                                    # sends tensors only, not the keys
        made = accelerate.DataLoaderConfiguration(**options)
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=made)
        loader = MAKERS[how](ds)
        model = torch.nn.Linear(4, 4)
        model, optimizer, prepared = accelerator.prepare(model, torch.optim.SGD(model.parameters()), loader)
        assert how.startswith("DataLoader") or prepared is loader
        next(iter(prepared))
        for epoch in range(2):
            keys = []
            for batch in prepared:
                loss = torch.nn.functional.cross_entropy(model(batch["npy"] / 64), batch["cls"])
                accelerator.backward(loss)
                optimizer.step()
                keys += batch["__key__"]
            seen[f"{how} {number} {epoch}"] = keys
    seen["begun"], seen["rest"] = saved_and_loaded(accelerator, ds, out)
    peer.write(out, accelerator.process_index, seen)


def saved_and_loaded(accelerator, ds, out):
    """What came before and after a checkpoint in the middle of an epoch."""
    loader = ds.shuffle(2).loader(6)
    accelerator.register_for_checkpointing(loader)
    begun = sum((batch["__key__"] for batch in itertools.islice(loader, 3)), [])
    accelerator.save_state(f"{out}/saved")
    accelerator.wait_for_everyone()
    list(loader)
    accelerator.load_state(f"{out}/saved")
    return begun, sum((batch["__key__"] for batch in loader), [])


def check(count, folder):
    ranks = peer.ranks(count, __file__, folder)
    both = peer.joined(ranks)
    assert len(ranks) == count and len(both) == 2 * (2 * len(OPTIONS) + 3) + 2
    assert sorted(both.pop("begun") + both.pop("rest")) == peer.KEYS
    assert set(map(json.dumps, both.values())) == {json.dumps(peer.KEYS)}, {
        name: len(keys) for name, keys in both.items()}


def every_epoch_is_complete_in_one_process(folder):
    check(1, folder)


def two_processes_see_every_sample_once(folder):
    check(2, folder)


if len(sys.argv) > 1:
    as_rank(*sys.argv[1:])
else:
    peer.run(every_epoch_is_complete_in_one_process, two_processes_see_every_sample_once)
