"""Functions that test_workers.py gives to worker processes, which import this file."""
import gc
import os
import random
import signal
import time

import numpy as np

KEPT = []


def row(sample):
    """Fields of every kind: arrays of one shape and of several, numbers, text, lists."""
    n = sample["cls"]
    return {"__key__": sample["__key__"], "half": np.frombuffer(sample["bin"], "u1")[:512].reshape(2, 256),
            "n": n, "f": n / 2, "even": n % 2 == 0, "some": np.arange(n), "small": np.float32(n),
            "text": "x" * n, "list": [n] * n, "bytes": sample["bin"][:n], "deep": {"a": np.ones(2) * n}}


def pair(sample):
    return np.float32(sample["cls"]), sample["__key__"], np.full((3, 2), sample["cls"], "i2")


def one(sample):
    return np.array([sample["cls"], 1.5])


def growing(sample):
    """Of one shape in most batches."""
    return np.zeros((2, 3 if sample["cls"] < 6 else 4), "f4") + sample["cls"]


def mixed(sample):
    """Of another type now and then."""
    return float(sample["cls"]) if sample["cls"] == 6 else sample["cls"]


def typed(sample):
    """Of another type, and of other dimensions, now and then."""
    n = sample["cls"]
    return {"type": np.ones(4, "f4" if n != 5 else "f8"), "order": np.arange(4).astype("<i4" if n != 6 else ">i4"),
            "sign": np.arange(4, dtype="u1" if n != 7 else "i1"), "dims": np.ones((3, 2) if n != 8 else (3, 2, 1)),
            "none": np.ones(3) if n != 4 else np.array(1.0), "n": n}


def drawn(sample, rng):
    return {"rng": rng.random(3), "n": rng.integers(2**62), "key": sample["__key__"]}


def echo(sample):
    return {"x": sample["npy"], "key": sample["__key__"], "n": sample["cls"]}


def drawn_globally(sample, rng):
    return np.array([rng.random(), random.random(), np.random.random()])


def jitter(value, rng=None):
    return value + rng.random()


def is_faulty(sample):
    return int(sample["__key__"][1:]) % 11 == 4


def raising(sample):
    if is_faulty(sample):
        raise LookupError(f"cannot use {sample['__key__']}")
    return sample


def nothing(sample):
    return None if is_faulty(sample) else sample


class raising_on:
    def __init__(self, end):
        self.end = end

    def __call__(self, sample):
        if sample["__key__"].endswith(self.end):
            raise LookupError(f"ends with {self.end}")
        return sample


def odd_error(sample):
    class Local(Exception):
        pass

    raise Local("made here")


def in_place(sample):
    sample["npy"] *= 2
    KEPT.append(sample["npy"])
    if len(KEPT) > 3:
        KEPT.pop(0)
    return {"npy": sample["npy"], "before": KEPT[0].sum()}


class Dies:
    """Ends its process at some samples: at each of them this many times."""

    def __init__(self, folder, keys, times=1, how=signal.SIGKILL):
        self.folder, self.keys, self.times, self.how = str(folder), keys, times, how

    def __call__(self, sample):
        sample["npy"] += 1  # must not be seen by the next worker
        key = sample["__key__"]
        if key in self.keys:
            for i in range(self.times):
                try:
                    os.close(os.open(f"{self.folder}/{key}.{i}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                os.kill(os.getpid(), self.how)
        return sample


class Hangs:
    def __init__(self, key):
        self.key = key

    def __call__(self, sample):
        while sample["__key__"] == self.key:
            time.sleep(60)
        return sample


def collected(sample):
    gc.collect()
    return len(sample["__key__"])


def process(sample):
    return os.getpid()


def sums(batch, rng):
    return {"sum": batch["cls"].sum(), "keys": "".join(batch["__key__"]), "x": np.outer(batch["cls"], [1, 2]),
            "r": rng.random()}


def twice(batch):
    """More samples than there were."""
    return {name: column * 2 if isinstance(column, list) else np.repeat(column, 2) for name, column in batch.items()}


def bad_batch(batch):
    raise ValueError("no such batch")


def joined(samples):
    return ",".join(sample["__key__"] for sample in samples), np.array([sample["cls"] for sample in samples])


def number(data):
    return np.frombuffer(data[:4], "<u4")


def of_length(data):
    return np.arange(data[0] % 5)


def tensors(sample):
    import torch

    return {"x": torch.full((2, 3), float(sample["cls"])), "y": torch.tensor(sample["cls"], dtype=torch.bfloat16),
            "n": sample["cls"]}


def slow(sample):
    time.sleep(0.002)
    return {"x": sample["npy"]}


def stops(sample):
    return next(iter([]))


def generated(sample):
    return {"x": (i for i in range(2))}


def of_two_types(sample):
    return {"t": np.zeros(2, "i4" if sample["cls"] % 2 else "i8")}


def of_own_name(sample):
    return {sample["__key__"]: 1}
