#!/usr/bin/env python3
"""JAX: batches of a loader become JAX arrays and go through a compiled step; several processes train together
(examples/cluster/jax_processes.py)."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import peer

peer.needs("jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import tarn  # noqa: E402


def every_sample_goes_through_a_compiled_step_once(folder):
    step = jax.jit(lambda total, batch: total + batch.sum())
    total = jnp.zeros(())
    for batch in tarn.open(folder, fields=["npy", "cls"]).shuffle(1).loader(8):
        total = step(total, jnp.asarray(np.stack(batch["npy"])))
    assert total == 4 * sum(range(peer.COUNT)), total


def gradients_of_batches_are_finite(folder):
    loss = jax.grad(lambda w, x: ((x @ w) ** 2).mean())
    weights = jnp.ones(4)
    for batch in tarn.open(folder, fields=["npy"]).loader(16):
        weights = weights - 1e-6 * loss(weights, jnp.asarray(np.stack(batch["npy"])))
    assert jnp.isfinite(weights).all(), weights


def batches_stay_as_they_were_after_the_loader_is_gone(folder):
    arrays = [jnp.array(np.stack(batch["npy"])) for batch in tarn.open(folder, fields=["npy"]).loader(16)]
    assert [float(a[0, 0]) for a in arrays] == [0, 16, 32, 48]


# --- Several processes ---

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/cluster/jax_processes.py"


def processes(folder, state, count, devices=1, stop=0):
    """The errors that the processes of the example print, and the state."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}")
    started = [subprocess.Popen([sys.executable, EXAMPLE, folder, state, str(i), str(count), coordinator, str(stop)],
                                env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for i in range(count)]
    printed = [process.communicate(timeout=600)[0] for process in started]
    assert not any(process.returncode for process in started), printed
    found = [re.findall(r"process (\d) of (\d), (\d) devices: error ([\d.]+)", text) for text in printed]
    assert [line[0][:3] for line in found] == [(str(i), str(count), str(count * devices)) for i in range(count)], printed
    return {line[0][3] for line in found}, json.loads(pathlib.Path(state).read_text())


def check_same(found, alone):
    """Each batch had the same samples as in one process."""
    assert found[0] == alone[0], (found, alone)
    assert found[1]["loader"] == alone[1]["loader"], (found, alone)
    np.testing.assert_allclose(found[1]["weights"], alone[1]["weights"], rtol=1e-5)


def processes_and_devices_train_like_one(folder):
    with peer.folder() as out:
        alone = processes(folder, f"{out}/alone", 1)
        check_same(processes(folder, f"{out}/two", 2), alone)
        check_same(processes(folder, f"{out}/four", 2, devices=2), alone)


def a_run_resumes_with_another_number_of_processes(folder):
    with peer.folder() as out:
        alone = processes(folder, f"{out}/alone", 1)
        for count in (2, 4):
            processes(folder, f"{out}/state", count, stop=2 if count == 2 else 3)
        check_same(processes(folder, f"{out}/state", 1), alone)


peer.run(every_sample_goes_through_a_compiled_step_once, gradients_of_batches_are_finite,
         batches_stay_as_they_were_after_the_loader_is_gone, processes_and_devices_train_like_one,
         a_run_resumes_with_another_number_of_processes)
