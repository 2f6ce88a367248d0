"""wids: random access to tar shards, from webdataset 0.2; removed in 1.0, hence in a separate folder."""
import os
import pathlib
import sys

sys.path[:0] = [str(p) for p in pathlib.Path(os.environ["TARN_BENCH_WIDS"]).glob("lib/python3*/site-packages")]

import wids  # noqa: E402
from wids.wids_mmtar import MMIndexedTar  # noqa: E402

from . import base, images  # noqa: E402


def in_place(url):
    """The shards are local: without this, wids copies them into a cache, which stays in the page cache."""
    return url


class Samples:
    """For torch's DataLoader."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        sample = self.data[i]
        return images.pair(sample[".jpg"].read(), sample[".json"].read())


class Peer(base.Peer):
    kinds = ("d1", "small", "d2", "tiny")
    reads = "tarn"
    settings = ("`ShardListDataset` over the local shards (`localname`), without transformations, with every shard "
                "kept open; epochs with torch's `DataLoader`, two workers and its `ChunkedSampler`. Its index is "
                "built in memory from the shards when they are first used; the row *index* measures this.")
    lacks = {"batches": "one sample at a time", "resume": "no state", "write": "reads WebDataset's shards",
             "verify": "MD5 of whole shards: see md5"}

    def version(self):
        return "webdataset 0.2.111"

    def open(self, folder, data):
        rows = [{"url": path, "nsamples": min(data.per_shard, data.samples - i * data.per_shard)}
                for i, path in enumerate(base.shards(folder))]
        return wids.ShardListDataset(rows, transformations=[], lru_size=len(rows), keep=True, localname=in_place)

    def iterate(self, handle):
        return map(handle.__getitem__, range(len(handle)))

    def getter(self, handle):
        return handle.__getitem__

    def plain(self, sample, data):
        return tuple(sample["." + f].read() for f in data.fields)

    def epoch(self, folder, data, batch, workers):
        handle = self.open(folder, data)
        return images.loader(Samples(handle), batch, workers, shuffle=False,
                             sampler=wids.ChunkedSampler(handle, shuffle=True, shufflefirst=True))

    def index(self, folder, data):
        for path in base.shards(folder):
            MMIndexedTar(path)
