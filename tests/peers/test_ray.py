#!/usr/bin/env python3
"""Ray: datasets go to workers by pickle, and each reads its part."""
import os

import peer

peer.needs("ray")

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray  # noqa: E402

import tarn  # noqa: E402


@ray.remote
def numbers(ds):
    return [sample["json"]["n"] for sample in ds]


def ranks_in_workers_read_every_sample_once(folder):
    ds = tarn.open(folder, fields=["json"])
    parts = [ds.shard(rank, 2) for rank in range(2)]
    seen = [ray.get(numbers.remote(part)) for part in parts]
    assert sorted(seen[0] + seen[1]) == list(range(peer.COUNT)), seen


def a_shuffled_dataset_has_the_same_order_in_a_worker(folder):
    ds = tarn.open(folder, fields=["json"]).shuffle(5)
    assert ray.get(numbers.remote(ds)) == [sample["json"]["n"] for sample in ds]


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
         runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})
peer.run(ranks_in_workers_read_every_sample_once, a_shuffled_dataset_has_the_same_order_in_a_worker)
