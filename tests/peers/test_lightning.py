#!/usr/bin/env python3
"""Lightning: a loader is a train and a validation loader of its Trainer, on one process and on two."""
import collections
import os
import sys

import peer

peer.needs("torch", "lightning")

import lightning  # noqa: E402
import torch  # noqa: E402

import tarn  # noqa: E402
import tarn.torch  # noqa: E402

MAKERS = {"loader": lambda ds: ds.loader(6, array_type="torch"),
          "loader_for": lambda ds: tarn.torch.loader_for(ds, batch_size=6),
          "DataLoader of loader_for": lambda ds: torch.utils.data.DataLoader(
              tarn.torch.loader_for(ds, batch_size=6), batch_size=None),
          "DataLoader of the dataset": lambda ds: torch.utils.data.DataLoader(
              ds, batch_size=6, num_workers=2)}


class Model(lightning.LightningModule):
    """Remembers the keys of every batch."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.seen = collections.defaultdict(list)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def training_step(self, batch, number):
        self.seen[f"train {self.current_epoch}"] += batch["__key__"]
        return torch.nn.functional.cross_entropy(self.layer(batch["npy"] / 64), batch["cls"])

    def validation_step(self, batch, number):
        when = "sanity" if self.trainer.sanity_checking else f"val {self.current_epoch}"
        self.seen[when] += batch["__key__"]


def fit(folder, out, how, world, stop=-1, resume=None):
    """Trains as one rank; returns what it saw."""
    ds = tarn.open(folder, fields=["npy", "cls"], array_type="torch")
    train, val = MAKERS[how](ds.shuffle(1)), MAKERS[how](ds)
    save = lightning.pytorch.callbacks.ModelCheckpoint(dirpath=out, filename="{step}", every_n_train_steps=4,
                                                       save_top_k=-1)
    trainer = lightning.Trainer(
        max_epochs=3, max_steps=stop, accelerator="cpu", devices=world, logger=False,
        strategy="ddp" if world > 1 else "auto", enable_progress_bar=False, enable_model_summary=False,
        callbacks=[save])
    model = Model()
    trainer.fit(model, train, val, ckpt_path=resume)
    return trainer.global_rank, model.seen


def as_rank(folder, out, launch):
    """Runs as one rank: each kind of loader, and a run that stops in an epoch and continues."""
    world = 2 if launch == "own" else int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    seen = {}
    for how in ["loader"] if launch == "own" else MAKERS:
        rank, seen[how] = fit(folder, out, how, world)
    if launch != "own":
        _, seen["begun"] = fit(folder, f"{out}/begun", "loader", world, 8)
        _, seen["resumed"] = fit(folder, out, "loader", world, resume=f"{out}/begun/step=8.ckpt")
    peer.write(out, rank, seen)


def check(ranks, count):
    assert len(ranks) == count
    for how in ranks[0].keys() & MAKERS.keys():
        both = peer.joined([seen[how] for seen in ranks])
        expected = {f"{what} {epoch}": peer.KEYS for what in ("train", "val") for epoch in range(3)}
        assert {name: keys for name, keys in both.items() if name != "sanity"} == expected, (how, both)
        assert 0 < len(both["sanity"]) < peer.COUNT, (how, both["sanity"])


def check_resumed(ranks):
    begun, resumed = (peer.joined([seen[name] for seen in ranks]) for name in ("begun", "resumed"))
    for epoch in range(3):
        name = f"train {epoch}"
        assert sorted(begun.get(name, []) + resumed.get(name, [])) == peer.KEYS, (name, begun, resumed)
    assert any(name in resumed for name in begun if name.startswith("train"))


def every_epoch_is_complete_in_one_process(folder):
    ranks = peer.ranks(1, __file__, folder, "torchrun")
    check(ranks, 1)
    check_resumed(ranks)


def two_processes_of_torchrun_see_every_sample_once(folder):
    ranks = peer.ranks(2, __file__, folder, "torchrun")
    check(ranks, 2)
    check_resumed(ranks)


def two_processes_that_lightning_starts_see_every_sample_once(folder):
    check(peer.ranks(1, __file__, folder, "own"), 2)


if len(sys.argv) > 1:
    as_rank(*sys.argv[1:])
else:
    peer.run(every_epoch_is_complete_in_one_process, two_processes_of_torchrun_see_every_sample_once,
             two_processes_that_lightning_starts_see_every_sample_once)
