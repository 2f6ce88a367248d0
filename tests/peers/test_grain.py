#!/usr/bin/env python3
"""Grain: a dataset is a random access source of its pipelines."""
import peer

peer.needs("grain")

import grain.python as grain  # noqa: E402

import tarn  # noqa: E402


def a_dataset_is_a_source_of_a_map_dataset(folder):
    ds = tarn.open(folder, fields=["cls", "json"])
    seen = [sample["json"]["n"] for sample in grain.MapDataset.source(ds).shuffle(seed=3)]
    assert sorted(seen) == list(range(peer.COUNT)) and seen != sorted(seen), seen


def a_data_loader_reads_every_sample_once(folder):
    ds = tarn.open(folder, fields=["json"])
    sampler = grain.IndexSampler(num_records=len(ds), shuffle=True, seed=1, num_epochs=1,
                                 shard_options=grain.NoSharding())
    seen = [sample["json"]["n"] for sample in grain.DataLoader(data_source=ds, sampler=sampler, worker_count=0)]
    assert sorted(seen) == list(range(peer.COUNT)), seen


peer.run(a_dataset_is_a_source_of_a_map_dataset, a_data_loader_reads_every_sample_once)
