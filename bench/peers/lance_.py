"""Lance: a columnar format with random access."""
import itertools

import lance
import pyarrow as pa

from . import base, images

ROWS = 1024


def tables(samples, data):
    schema = pa.schema([(f, pa.binary()) for f in data.fields])

    def parts():
        rows = iter(samples)
        while some := list(itertools.islice(rows, ROWS)):
            yield pa.record_batch([pa.array([fields[f] for _, fields in some], pa.binary()) for f in data.fields], schema)
    return schema, parts()


class Samples:
    """For torch's DataLoader, one batch at a time, opened in the worker: Lance does not work after a fork."""

    def __init__(self, folder):
        self.folder, self.handle = folder, None
        self.count = lance.dataset(folder).count_rows()

    def __len__(self):
        return self.count

    def __getitems__(self, numbers):
        self.handle = self.handle or lance.dataset(self.folder)
        found = self.handle.take(numbers)
        return [images.pair(j, t) for j, t in zip(found["jpg"].to_pylist(), found["json"].to_pylist())]

    def __getstate__(self):
        return {"folder": self.folder, "handle": None, "count": self.count}


class Peer(base.Peer):
    package = "pylance"
    kinds = ("d1", "d2", "tiny")
    settings = ("`write_dataset` from record batches of 1,024 rows, default file format; `take` of one row or of a "
                "batch, which remains an Arrow table; epochs with torch's `DataLoader` and two spawned workers that "
                "`take` a batch at a time.")
    lacks = {"resume": "torch's `DataLoader` has no state", "index": "written with the data", "verify": "no checksums"}

    def write(self, folder, samples, data):
        schema, parts = tables(samples, data)
        lance.write_dataset(parts, folder, schema=schema)

    def open(self, folder, data):
        return lance.dataset(folder)

    def iterate(self, handle):
        for part in handle.to_batches(batch_size=ROWS):
            yield from part.to_pylist()

    def getter(self, handle):
        return lambda i: handle.take([i]).to_pylist()[0]

    def batcher(self, handle):
        return lambda numbers: handle.take(numbers.tolist())

    def plain_batch(self, batch, data):
        return [self.plain(sample, data) for sample in batch.to_pylist()]

    def epoch(self, folder, data, batch, workers):
        return images.loader(Samples(folder), batch, workers, multiprocessing_context="spawn")
