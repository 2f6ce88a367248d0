#!/usr/bin/env python3
"""Several processes of torchrun train on one dataset: exact epochs, equal numbers of steps, and runs that are
killed and resumed by another number of processes."""
import collections
import json
import os
import pathlib
import subprocess
import sys

import peer

peer.needs("torch")

# Each rank appends what it saw in a step; rank 0 saves the state when all have finished the step.
SCRIPT = """if True:
    import json, os, pathlib, signal, sys
    import torch
    import torch.distributed as dist
    import tarn

    data, out, epochs, mixed, end = sys.argv[1:6]
    out = pathlib.Path(out)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    ds = tarn.open(data, fields=["cls"])
    if mixed == "mixed":
        ds = tarn.mix(ds[::2], ds[1::2])
    loader = ds.loader(3, shuffle=True, seed=5, threads=1)
    saved = out / "state.json"
    if saved.exists():
        loader.load_state_dict(json.loads(saved.read_text()))
    log = open(out / f"log{rank}", "a")
    step = 0
    while loader.epoch < int(epochs):
        epoch = loader.epoch
        for batch in loader:
            step += 1
            total = torch.ones(1)
            dist.all_reduce(total)              # hangs if a rank has fewer steps
            assert int(total) == world
            if end == "kill" and step == 3:     # all of them, in the middle of an epoch
                os.kill(os.getpid(), signal.SIGKILL)
            if end == "restart" and step == 4 and rank == world - 1 and not (out / "restarted").exists():
                (out / "restarted").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            log.write(json.dumps([epoch, step, list(batch["__key__"])]) + "\\n")
            log.flush()
            dist.barrier()
            if rank == 0:
                (out / "state.new").write_text(json.dumps(loader.state_dict()))
                os.replace(out / "state.new", saved)
            dist.barrier()
    dist.destroy_process_group()
    """
EPOCHS = 2


def torchrun(count, data, out, mixed="plain", end="whole", *options):
    script = pathlib.Path(out, "script.py")
    script.write_text(SCRIPT)
    env = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    launch = options or ("--standalone",)
    return subprocess.run([sys.executable, "-m", "torch.distributed.run", *launch, "--nproc-per-node", str(count),
                           script, data, out, str(EPOCHS), mixed, end],
                          env=env, text=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def seen(out):
    """How often each key was seen in each epoch, and the numbers of steps of the ranks."""
    keys, steps = collections.Counter(), []
    for path in pathlib.Path(out).glob("log*"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        steps.append(len(lines))
        for epoch, _, found in lines:
            keys.update((epoch, key) for key in found)
    return keys, steps


def check_exact(out):
    keys, steps = seen(out)
    assert keys == {(epoch, key): 1 for epoch in range(EPOCHS) for key in peer.KEYS}, keys.most_common(3)
    return steps


def every_epoch_is_exact_on_2_3_and_8_ranks(folder):
    for count in (2, 3, 8):
        with peer.folder() as out:
            done = torchrun(count, folder, out)
            assert done.returncode == 0, done.stdout[-2000:]
            steps = check_exact(out)
            assert len(steps) == count and len(set(steps)) == 1, steps


def a_killed_run_resumes_on_another_number_of_ranks(folder):
    for first, then in ((2, 3), (3, 2), (8, 1)):
        with peer.folder() as out:
            assert torchrun(first, folder, out, "plain", "kill").returncode != 0
            assert pathlib.Path(out, "state.json").exists()
            done = torchrun(then, folder, out)
            assert done.returncode == 0, done.stdout[-2000:]
            check_exact(out)


def mixes_resume_on_another_number_of_ranks(folder):
    with peer.folder() as out:
        assert torchrun(3, folder, out, "mixed", "kill").returncode != 0
        done = torchrun(2, folder, out, "mixed")
        assert done.returncode == 0, done.stdout[-2000:]
        check_exact(out)


def an_elastic_restart_loses_nothing_and_repeats_at_most_one_step(folder):
    with peer.folder() as out:
        done = torchrun(2, folder, out, "plain", "restart", "--nnodes", "1:2", "--max-restarts", "2", "--rdzv-backend",
                        "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", "tarn")
        assert done.returncode == 0, done.stdout[-2000:]
        assert pathlib.Path(out, "restarted").exists()
        # The step in which a rank was killed was logged by none or by some, and is repeated by all.
        keys, _ = seen(out)
        assert set(keys) == {(epoch, key) for epoch in range(EPOCHS) for key in peer.KEYS}
        assert sum(keys.values()) <= EPOCHS * peer.COUNT + 6, keys.most_common(8)


peer.run(every_epoch_is_exact_on_2_3_and_8_ranks, a_killed_run_resumes_on_another_number_of_ranks,
         mixes_resume_on_another_number_of_ranks, an_elastic_restart_loses_nothing_and_repeats_at_most_one_step)
