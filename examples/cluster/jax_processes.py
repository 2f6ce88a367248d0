"""Several processes of JAX train on one dataset, and each reads the samples of its own devices.

    python jax_processes.py DATA STATE PROCESS PROCESSES COORDINATOR [STOP]

COORDINATOR is the host and port of process 0. On TPUs and with Slurm, JAX knows these three values itself. After
batch STOP the processes exit; a later run continues from STATE, whatever the number of its processes is. DATA has
the fields npy, four numbers, and cls.
"""
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tarn

BATCH, EPOCHS = 16, 2  # the batch of all processes together


def errors(weights, values, classes):
    return values @ weights - classes


@jax.jit
def step(weights, values, classes):
    return weights - 1e-5 * jax.grad(lambda w: (errors(w, values, classes) ** 2).mean())(weights)


def train(ds, split, state, stop):
    """Each process loads its part of every batch. JAX makes one array of the parts."""
    loader = ds.loader(BATCH // jax.process_count(), shuffle=True, seed=7, drop_last=True, threads=1,
                       rank=jax.process_index(), world_size=jax.process_count())
    weights = jnp.zeros(4)
    if state.exists():
        saved = json.loads(state.read_text())
        loader.load_state_dict(saved["loader"])
        weights = jnp.asarray(saved["weights"])
    steps = 0
    while loader.epoch < EPOCHS and steps != stop:
        for batch in loader:
            values, classes = (jax.make_array_from_process_local_data(split, np.stack(batch[name]).astype("f4"))
                               for name in ("npy", "cls"))
            weights = step(weights, values, classes)
            steps += 1
            if steps == stop:
                break
    if jax.process_index() == 0:
        state.write_text(json.dumps({"loader": loader.state_dict(), "weights": np.asarray(weights).tolist()}))
    return weights


def evaluate(ds, split, weights):
    """Here JAX asks for slices: of the samples start to start + BATCH, those that a device of this process needs.
    The samples that do not fill a batch are left out."""
    total = 0.0
    for start in range(0, len(ds) - BATCH + 1, BATCH):
        def part(index, field):
            return np.stack([sample[field] for sample in ds[start:start + BATCH][index[0]]]).astype("f4")

        values = jax.make_array_from_callback((BATCH, 4), split, lambda index: part(index, "npy"))
        classes = jax.make_array_from_callback((BATCH,), split, lambda index: part(index, "cls"))
        total += float((errors(weights, values, classes) ** 2).sum())
    return total / (len(ds) // BATCH * BATCH)


def main(data, state, process, processes, coordinator, stop=0):
    if int(processes) > 1:
        jax.distributed.initialize(coordinator, int(processes), int(process))
    split = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
    ds = tarn.open(data, fields=["npy", "cls"])
    weights = train(ds, split, pathlib.Path(state), int(stop) or None)
    print(f"process {jax.process_index()} of {jax.process_count()}, {jax.device_count()} devices: "
          f"error {evaluate(ds, split, weights):.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
