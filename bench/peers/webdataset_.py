"""WebDataset: tar shards, read from front to back."""
import pathlib

import webdataset as wds

from . import base, images


class Peer(base.Peer):
    package = "webdataset"
    kinds = ("d1", "small", "d2", "tiny")
    reads = "tarn"
    settings = ("`ShardWriter` with `mtime=0` and `encoder=False`, its faster settings (no pax headers); reads the "
                "same plain ustar shards as tarn; epochs with `shardshuffle`, a shuffle buffer of 1,000 samples, "
                "and batches made in the two workers of a `WebLoader`.")
    lacks = {"random": "no random access", "batches": "no random access", "resume": "no state: an epoch starts again",
             "index": "needs no index", "verify": "no checksums"}

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True)
        with wds.ShardWriter(f"{folder}/train_%04d.tar", maxcount=data.per_shard, verbose=0, mtime=0,
                             encoder=False) as out:
            for key, fields in samples:
                out.write({"__key__": key, **fields})

    def open(self, folder, data):
        return wds.WebDataset(base.shards(folder), shardshuffle=False)

    def iterate(self, handle):
        return iter(handle)

    def epoch(self, folder, data, batch, workers):
        import torch
        torch.set_num_threads(1)
        samples = (wds.WebDataset(base.shards(folder), shardshuffle=100).shuffle(1000)
                   .map(lambda s: images.pair(s["jpg"], s["json"])).batched(batch, collation_fn=images.stack))
        return wds.WebLoader(samples, batch_size=None, num_workers=workers, persistent_workers=True)
