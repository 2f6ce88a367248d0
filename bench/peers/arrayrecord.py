"""ArrayRecord files, read by Grain."""
import pathlib
import struct
import sys

import grain
from absl import flags, logging
from array_record.python import array_record_module

from . import base, images

logging.set_verbosity(logging.ERROR)
OPTIONS = "group_size:1,uncompressed"


def pack(fields):
    """Two lengths and two payloads, standing in for a protocol buffers message."""
    values = list(fields.values())
    return struct.pack(f"<{len(values)}I", *map(len, values)) + b"".join(values)


def unpack(record, count):
    sizes = struct.unpack_from(f"<{count}I", record)
    at, out = 4 * count, []
    for size in sizes:
        out.append(record[at: at + size])
        at += size
    return tuple(out)


class Pair(grain.transforms.Map):
    def map(self, record):
        return images.pair(*unpack(record, 2))


class Number(grain.transforms.Map):
    def map(self, record):
        return base.sample_id(unpack(record, 2)[0])


class Peer(base.Peer):
    package = "array-record"
    kinds = ("d1", "d2", "tiny")
    settings = ("`ArrayRecordWriter` with `group_size:1` (for random access) and `uncompressed`; four files; "
                "`grain.sources.ArrayRecordDataSource`, with `__getitems__` for batches; epochs with "
                "`grain.DataLoader`, two worker processes that it restarts for each epoch, and a shuffling "
                "`IndexSampler`. A record is one string, so each field is stored after its length.")
    lacks = {"index": "written with the records", "verify": "not examined"}

    def version(self):
        import importlib.metadata as found
        return f"{found.version('array-record')}, grain {found.version('grain')}"

    def write(self, folder, samples, data):
        self.make(folder)
        out = None
        for i, (_, fields) in enumerate(samples):
            if i % data.per_shard == 0:
                if out:
                    out.close()
                out = array_record_module.ArrayRecordWriter(f"{folder}/{i // data.per_shard:04d}.arrayrecord", OPTIONS)
            out.write(pack(fields))
        out.close()

    def make(self, folder):
        pathlib.Path(folder).mkdir(parents=True)

    def open(self, folder, data):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(sys.argv[:1])
        self.count = len(data.fields)
        return grain.sources.ArrayRecordDataSource(base.shards(folder, "*.arrayrecord"))

    def iterate(self, handle):
        for first in range(0, len(handle), 1024):
            for record in handle.__getitems__(range(first, min(first + 1024, len(handle)))):
                yield unpack(record, self.count)

    def getter(self, handle):
        count = self.count
        return lambda i: unpack(handle[i], count)

    def batcher(self, handle):
        return lambda numbers: handle.__getitems__(numbers.tolist())

    def plain(self, sample, data):
        return sample

    def plain_batch(self, batch, data):
        return [unpack(record, len(data.fields)) for record in batch]

    def loader(self, folder, data, batch, first):
        source = self.open(folder, data)
        sampler = grain.samplers.IndexSampler(len(source), shard_options=grain.sharding.NoSharding(), shuffle=True,
                                              num_epochs=1, seed=7)
        last = [grain.transforms.Batch(batch)] if batch else []
        return grain.DataLoader(data_source=source, sampler=sampler, operations=[first, *last], worker_count=2)

    def epoch(self, folder, data, batch, workers):
        return self.loader(folder, data, batch, Pair())

    def begin(self, folder, data, batch, steps):
        batches = iter(self.loader(folder, data, batch, Number()))
        ids = [int(i) for _ in range(steps) for i in next(batches)]
        return ids, batches.get_state()

    def resume(self, folder, data, batch, state):
        batches = iter(self.loader(folder, data, batch, Number()))
        batches.set_state(state)
        for found in batches:
            yield found.tolist()
