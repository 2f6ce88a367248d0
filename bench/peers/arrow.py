"""Arrow's own files, mapped."""
import itertools
import pathlib

import pyarrow as pa

from . import base, images

ROWS = 8192


class Samples:
    def __init__(self, peer, folder, data):
        self.peer, self.folder, self.data = peer, folder, data
        self.get = None

    def __len__(self):
        return self.data.samples

    def __getitem__(self, i):
        if self.get is None:
            self.get = self.peer.getter(self.peer.open(self.folder, self.data))
        return images.pair(*self.get(i))


class Peer(base.Peer):
    package = "pyarrow"
    kinds = ("d1", "d2", "tiny", "rows")
    settings = ("Arrow IPC files, uncompressed, record batches of 8,192 rows, columns of type binary (rows of "
                "floats: fixed-size lists), opened with `memory_map`; `as_py` for single values, `take` for "
                "batches; epochs with torch's `DataLoader`.")
    lacks = {"resume": "torch's `DataLoader` has no state", "index": "written with the data", "verify": "no checksums"}

    def kind_of(self, data):
        return pa.list_(pa.float32(), 64) if data.kind == "rows" else pa.large_binary()

    def column(self, values, data):
        if data.kind != "rows":
            return pa.array(values, self.kind_of(data))
        return pa.FixedSizeListArray.from_arrays(pa.Array.from_buffers(
            pa.float32(), 64 * len(values), [None, pa.py_buffer(b"".join(values))]), 64)

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True)
        schema = pa.schema([(f, self.kind_of(data)) for f in data.fields])
        rows = iter(samples)
        with pa.OSFile(f"{folder}/x.arrow", "wb") as file, pa.ipc.new_file(file, schema) as out:
            while some := list(itertools.islice(rows, ROWS)):
                out.write_batch(pa.record_batch([self.column([fields[f] for _, fields in some], data)
                                                 for f in data.fields], schema))

    def open(self, folder, data):
        return pa.ipc.open_file(pa.memory_map(f"{folder}/x.arrow")).read_all()

    def iterate(self, handle):
        if pa.types.is_fixed_size_list(handle.schema.types[0]):
            for part in handle.to_batches():
                yield from ((row,) for row in part.column(0).flatten().to_numpy().reshape(-1, 64))
            return
        for part in handle.to_batches(max_chunksize=1024):
            yield from zip(*(column.to_pylist() for column in part.columns))

    def getter(self, handle):
        columns = handle.columns
        if pa.types.is_fixed_size_list(handle.schema.types[0]):
            return lambda i: (columns[0][i].values.to_numpy(),)
        return lambda i: tuple([column[i].as_py() for column in columns])

    def batcher(self, handle):
        return handle.take

    def plain(self, sample, data):
        return tuple(bytes(value) for value in sample)

    def plain_batch(self, batch, data):
        return [self.plain(sample, data) for sample in self.iterate(batch)]

    def epoch(self, folder, data, batch, workers):
        return images.loader(Samples(self, folder, data), batch, workers)
