#!/usr/bin/env python3
"""JAX: batches of a loader become JAX arrays and go through a compiled step."""
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


peer.run(every_sample_goes_through_a_compiled_step_once, gradients_of_batches_are_finite,
         batches_stay_as_they_were_after_the_loader_is_gone)
