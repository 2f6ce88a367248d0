"""Trains a small network on the CPU with tarn's loader. It can be killed at any time.

    python train.py DATA RUN [--epochs N]

Every few batches it replaces the checkpoint RUN.pt: the weights, the optimizer and the state of the
loader. If RUN.pt exists at the start, training resumes from it, in the middle of the epoch. RUN.log
gets a line for each batch with the keys of its samples, which compare.py reads.
"""

import argparse
import os
import time
from typing import Any

import torch
from torch import nn

import tarn

BATCH, EVERY = 32, 10  # samples in a batch, batches between checkpoints
IMAGES: dict[str, Any] = {"resize": 32, "dtype": "float32", "layout": "CHW",
                          "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25), "array_type": "torch"}


def network(classes: int) -> nn.Module:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(3, 12), *block(12, 24), *block(24, 48), nn.Flatten(),
                         nn.Linear(48 * 4 * 4, classes))


def accuracy(model: nn.Module, dataset: tarn.Dataset) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in dataset.loader(BATCH, epochs=1, **IMAGES):
            right += int((model(batch["jpg"]).argmax(1) == batch["cls"]).sum())
            total += len(batch["cls"])
    model.train()
    return right / total


class Run:
    """The content of a checkpoint."""

    def __init__(self, data: str, path: str, epochs: int) -> None:
        self.path, self.epochs = path, epochs
        self.train = tarn.open(data, fold="train", fields=["jpg", "cls"])
        self.val = tarn.open(data, fold="val", fields=["jpg", "cls"])
        self.loader = self.train.loader(BATCH, shuffle=True, seed=7, threads=2, flip=0.5, **IMAGES)
        self.model = network(classes=6)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.batch = 0  # in this epoch

    def save(self) -> None:
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "loader": self.loader.state_dict(), "batch": self.batch}, self.path + ".new")
        os.replace(self.path + ".new", self.path)  # so that there is always a complete one

    def load(self) -> None:
        state = torch.load(self.path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        self.batch = state["batch"]

    def step(self, batch: dict[str, Any], epoch: int) -> float:
        done = (epoch + self.batch * BATCH / len(self.train)) / self.epochs
        self.optimizer.param_groups[0]["lr"] = 4e-3 * max(1 - done, 0.01)
        loss = nn.functional.cross_entropy(self.model(batch["jpg"]), batch["cls"])
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()

    def epoch(self, log: Any) -> None:
        number, first, began, losses = self.loader.epoch, self.batch, time.monotonic(), []
        for batch in self.loader:
            losses.append(self.step(batch, number))
            self.batch += 1
            print(number, self.batch, *batch["__key__"], file=log, flush=True)
            if self.batch % EVERY == 0:
                self.save()
        seconds = time.monotonic() - began
        batches = f"batches {first + 1} to {self.batch}" if first else f"{self.batch} batches"
        self.batch = 0
        self.save()
        print(f"epoch {number}: {batches}, loss {sum(losses) / len(losses):.3f}, val accuracy "
              f"{accuracy(self.model, self.val):.1%}  ({len(losses) * BATCH / seconds:,.0f} images/s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("run")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    run = Run(args.data, args.run + ".pt", args.epochs)
    if os.path.exists(run.path):
        run.load()
        print(f"resuming from {run.path}: epoch {run.loader.epoch}, after batch {run.batch}", flush=True)
    with open(args.run + ".log", "a", encoding="utf-8") as log:
        while run.loader.epoch < args.epochs:
            run.epoch(log)


if __name__ == "__main__":
    main()
