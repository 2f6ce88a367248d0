#!/usr/bin/env python3
"""Workers of a loader in a program that has used CUDA before they start, or uses it while they run: with every start
method and in threads. Each case is a program of its own, because a process cannot forget that it used CUDA.

  test_cuda.py [--case USE METHOD FOLDER]

It needs the package, NumPy and a GPU; cases with torch are skipped without it.
"""
import argparse
import ctypes
import gc
import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import unittest

import numpy as np
import peer

import tarn

METHODS = ("fork", "spawn", "forkserver", "threads")
SECONDS = 300
HELD = set()  # descriptors of GPUs that a forked process inherited


# --- Functions of the loader, which worker processes import --------------------------------


def devices():
    """The open descriptors of GPUs."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # that of the listing
            continue
        if target.startswith("/dev/nvidia"):
            found.add((number, target))
    return found


def remember():
    HELD.update(devices())


os.register_at_fork(after_in_child=remember)


def augment(sample, rng):
    gc.collect()  # a forked worker must not free what its parent has on the GPU
    return {"__key__": sample["__key__"], "x": sample["npy"] * np.float32(rng.random()), "cls": sample["cls"],
            "pid": os.getpid(), "opened": len(devices() - HELD)}


def on_gpu(sample):
    import torch

    return {"__key__": sample["__key__"], "x": (torch.from_numpy(sample["npy"]).cuda() * 2).cpu().numpy()}


# --- Using CUDA ----------------------------------------------------------------------------


class Driver:
    """The driver alone, without torch: a context and memory on the first GPU."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self("cuCtxSetCurrent", self.context)
        self("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(1 << 20))

    def __call__(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def check(self):
        """Bytes survive a copy to the GPU and back."""
        sent = os.urandom(4096)
        back = ctypes.create_string_buffer(len(sent))
        self("cuMemcpyHtoD_v2", self.memory, sent, ctypes.c_size_t(len(sent)))
        self("cuMemcpyDtoH_v2", back, self.memory, ctypes.c_size_t(len(sent)))
        assert back.raw == sent


class Torch:
    """torch, with tensors on the GPU, pinned memory, and garbage of both that only a collection finds."""

    def __init__(self):
        import torch

        self.torch = torch
        self.here = torch.arange(1000.0, device="cuda")
        self.me = self
        for _ in range(3):
            pinned = torch.ones(1000).pin_memory()
            garbage = [pinned, pinned.to("cuda", non_blocking=True)]
            garbage.append(garbage)

    def check(self):
        assert self.here.sum().item() == 999 * 500
        self.torch.cuda.synchronize()


class Nothing:
    def check(self):
        pass


USES = {"nothing": Nothing, "driver": Driver, "torch": Torch, "late": Torch}


# --- One case ------------------------------------------------------------------------------


def plain(batch):
    return {name: value if isinstance(value, list) else np.asarray(value) for name, value in batch.items()
            if name not in ("pid", "opened")}


def check_batch(batch, expected, use, pinned):
    for name, value in plain(expected).items():
        assert np.array_equal(plain(batch)[name], value), name
    if pinned:
        assert batch["x"].is_pinned()
    if isinstance(use, Torch):
        copy = batch["x"].to("cuda", non_blocking=True)
        assert use.torch.equal(copy.cpu(), batch["x"])


def case(how, method, folder):
    """Compares the batches of workers with those of the caller, while a worker is killed."""
    gc.disable()  # the garbage must still be there when the workers start
    use = Nothing() if how == "late" else USES[how]()
    threads = method == "threads"
    if not threads:
        multiprocessing.set_start_method(method)
    options = {"seed": 5}
    if how in ("torch", "late"):
        options.update(array_type="torch")
    ds = tarn.open(folder).shuffle(3)
    expected = list(tarn.open(folder).shuffle(3).map(augment).loader(4, seed=5))
    with ds.map(augment).loader(4, workers=("threads", 2) if threads else 2, **options) as loader:
        for epoch in range(2):
            if epoch:
                loader.set_epoch(0)
            for number, (batch, one) in enumerate(zip(loader, expected, strict=True)):
                if how == "late" and number == 2 and not epoch:
                    use = Torch()
                check_batch(batch, one, use, how in ("torch", "late"))
                if threads:
                    assert set(batch["pid"].tolist()) == {os.getpid()}
                    continue
                assert os.getpid() not in batch["pid"].tolist()
                assert not batch["opened"].any(), "a worker opened a GPU"
                if number == 4:
                    os.kill(int(batch["pid"][0]), signal.SIGKILL)
        use.check()
    gc.collect()
    use.check()


def use_in_function(method, folder):
    """A function may use CUDA in threads and in processes that import it; torch refuses it after a fork."""
    import torch

    assert torch.ones(1).cuda().item() == 1
    if method != "threads":
        multiprocessing.set_start_method(method)
    ds = tarn.open(folder)
    with ds.map(on_gpu).loader(16, workers=("threads", 2) if method == "threads" else 2) as loader:
        if method != "fork":
            for batch, one in zip(loader, ds.loader(16), strict=True):
                assert np.array_equal(batch["x"], one["npy"] * 2)
            return
        try:
            next(iter(loader))
        except RuntimeError as error:
            assert "CUDA" in str(error) and "fork" in str(error), error
            assert any("sample s" in note for note in error.__notes__), error.__notes__
        else:
            raise AssertionError("torch did not refuse CUDA in a forked process")


# --- All of them ---------------------------------------------------------------------------


def why_not(how):
    """Why a use of CUDA cannot be tested here, or None."""
    try:
        Driver().check()
    except (OSError, RuntimeError) as error:
        return f"no GPU ({error})"
    if how != "driver" and importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    return None


def started(how, method, folder):
    """Runs one case."""
    if how != "nothing" and method in METHODS:
        asked = subprocess.run([sys.executable, __file__, "--why-not", how], capture_output=True, text=True, check=True)
        if asked.stdout.strip():
            raise unittest.SkipTest(asked.stdout.strip())
    done = subprocess.run([sys.executable, __file__, "--case", how, method, folder], timeout=SECONDS, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]


def named(how, method):
    def test(folder):
        started(how, method, folder)

    where = "in_threads" if method == "threads" else f"with_{method}"
    test.__name__ = {"nothing": f"workers_{where}_without_cuda", "driver": f"workers_{where}_after_a_context_was_made",
                     "torch": f"workers_{where}_after_torch_used_the_gpu", "late": f"workers_{where}_before_torch_used_the_gpu",
                     "function": f"functions_that_use_the_gpu_{where}"}[how]
    return test


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", nargs=3)
    parser.add_argument("--why-not")
    args = parser.parse_args()
    if args.why_not:
        print(why_not(args.why_not) or "")
    elif args.case:
        how, method, folder = args.case
        case(how, method, folder) if how in USES else use_in_function(method, folder)
    else:
        peer.run(*(named(how, method) for how in (*USES, "function") for method in METHODS))


if __name__ == "__main__":
    main()
