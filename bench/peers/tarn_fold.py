"""tarn's folds: tar shards with an index."""
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess

import tarn

from . import base


class Peer(base.Peer):
    kinds = ("d1", "small", "d2", "tiny")
    settings = ("`DatasetWriter.write_many` with `sync=False` (this includes the index and the checksums), and also "
                "durable; `tarn.open`, samples as dicts of bytes and of views; `Dataset.batch` into a buffer that "
                "is reused, also with two Python threads; `loader(threads=2)`, with JPEGs decoded at the smallest "
                "sufficient scale in eighths (the default), and also at full size, as Pillow does.")
    ways = {"write": ("not synced", "durable"), "random": ("bytes", "views"), "sequential": ("bytes", "views", "batches"),
            "batches": ("1 thread", "2 threads"), "epoch": ("default", "whole JPEGs"), "index": ("1 thread", "2 threads"),
            "verify": ("1 thread", "2 threads")}

    def version(self):
        return tarn.__version__

    @property
    def threads(self):
        return "1" if self.way.startswith("1") else "2"

    def write(self, folder, samples, data):
        with tarn.DatasetWriter(folder, "train", max_count=data.per_shard, encode=False,
                                sync=self.way == "durable") as out:
            out.write_many({"__key__": key, **fields} for key, fields in samples)

    def open(self, folder, data):
        self.batch = data.batch
        how = "bytes" if self.way == "bytes" else False
        return tarn.open(folder, fold="train", fields=list(data.fields), decode=how)

    def iterate(self, handle):
        if self.way != "batches":
            return iter(handle)
        get = self.one_batcher(handle)
        return (get(range(i, i + self.batch)) for i in range(0, len(handle) - self.batch + 1, self.batch))

    def getter(self, handle):
        return handle.__getitem__

    def batcher(self, handle):
        return Ahead(handle) if self.way == "2 threads" else self.one_batcher(handle)

    def one_batcher(self, handle):
        held = None

        def get(numbers):
            nonlocal held
            held = handle.batch(numbers, out=held)
            return held
        return get

    def epoch(self, folder, data, batch, workers):
        images = tarn.open(folder, fields=["jpg", "json"])
        reduce = 0.0 if self.way == "whole JPEGs" else 1.0
        loader = images.loader(batch, threads=workers, shuffle=True, seed=7, resize=224, reduce=reduce, keys=False)
        return Epochs(loader)

    def begin(self, folder, data, batch, steps):
        loader = self.numbered(folder, batch)
        ids = [base.sample_id(b) for _, batch in zip(range(steps), loader) for b in batch["bin"]]
        return ids, loader.state_dict()

    def resume(self, folder, data, batch, state):
        loader = self.numbered(folder, batch)
        loader.load_state_dict(state)
        for found in loader:
            yield [base.sample_id(b) for b in found["bin"]]

    def numbered(self, folder, batch):
        return tarn.open(folder, fields=["bin"], decode=False).loader(batch, threads=2, shuffle=True, seed=7)

    def index(self, folder, data):
        """In a separate folder with links to the shards: an index without sums must not replace the one with sums."""
        links = pathlib.Path(f"{folder}.links")
        if not links.exists():
            links.mkdir()
            for shard in map(pathlib.Path, base.shards(folder)):
                os.link(shard, links / shard.name)
        for suffix in ("taridx", "tarsum"):
            (links / f"train.{suffix}").unlink(missing_ok=True)
        subprocess.run([os.environ["TARN_BENCH_TOOL"], "index", "-q", "-j", self.threads, links], check=True)

    def verify(self, folder, data):
        done = subprocess.run([os.environ["TARN_BENCH_TOOL"], "verify", "-q", "--json", "-j", self.threads, folder], check=True,
                              capture_output=True)
        assert json.loads(done.stdout)["checksummed"] == data.members, done.stdout

    def index_bytes(self, folder):
        return sum((pathlib.Path(folder) / f"train.{s}").stat().st_size for s in ("taridx", "tarsum"))


class Ahead:
    """Batches by two Python threads, two ahead: each call starts a batch and returns the one started two calls
    earlier."""

    def __init__(self, handle):
        self.handle = handle
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.buffers = collections.deque([None] * 4)
        self.begun = collections.deque()

    def __call__(self, numbers):
        self.begun.append(self.pool.submit(self.handle.batch, numbers, out=self.buffers.popleft()))
        if len(self.begun) < 3:
            return None
        done = self.begun.popleft().result()
        self.buffers.append(done)
        return done


class Epochs:
    """The epochs of a loader as pairs of images and labels."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for batch in self.loader:
            yield batch["jpg"], [text["label"] for text in batch["json"]]
