"""LitData: chunks of serialized samples."""
import os
import pathlib

os.environ.setdefault("DISABLE_VERSION_CHECK", "1")

import litdata  # noqa: E402
from litdata.streaming.writer import BinaryWriter  # noqa: E402

from . import base, images  # noqa: E402


class Images(litdata.StreamingDataset):
    def __getitem__(self, i):
        sample = super().__getitem__(i)
        return images.pair(sample["jpg"], sample["json"])


def numbers(samples):
    return [base.sample_id(s["bin"]) for s in samples]


class Peer(base.Peer):
    package = "litdata"
    kinds = ("d1", "d2", "tiny")
    settings = ("`BinaryWriter` with chunks of 64 MB, as `optimize` uses it in each of its processes (without "
                "starting any, which would only add cost here); `StreamingDataset` on the local folder; epochs with "
                "`StreamingDataLoader` and two workers. It is not made for single samples at random: it loads a "
                "chunk at a time.")
    lacks = {"batches": "one sample at a time", "index": "written with the chunks", "verify": "no checksums"}

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True)
        out = BinaryWriter(folder, chunk_bytes="64MB")
        for i, (_, fields) in enumerate(samples):
            out[i] = fields
        out.done()
        out.merge(1)

    def open(self, folder, data):
        return litdata.StreamingDataset(folder)

    def iterate(self, handle):
        return iter(handle)

    def getter(self, handle):
        return handle.__getitem__

    def epoch(self, folder, data, batch, workers):
        import torch
        torch.set_num_threads(1)
        return litdata.StreamingDataLoader(Images(folder, shuffle=True, seed=7), batch_size=batch, num_workers=workers,
                                           persistent_workers=True, collate_fn=images.stack)

    def loader(self, folder, batch):
        return litdata.StreamingDataLoader(litdata.StreamingDataset(folder, shuffle=True, seed=7), batch_size=batch,
                                           num_workers=2, collate_fn=numbers)

    def begin(self, folder, data, batch, steps):
        loader = self.loader(folder, batch)
        batches = iter(loader)
        ids = [i for _ in range(steps) for i in next(batches)]
        return ids, loader.state_dict()

    def resume(self, folder, data, batch, state):
        loader = self.loader(folder, batch)
        loader.load_state_dict(state)
        yield from loader
