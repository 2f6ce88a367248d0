"""NumPy's memmap: samples of the same size, stored consecutively."""
import pathlib

import numpy as np

from . import base

KINDS = {"d1": [("bin", "V1024"), ("cls", "V2")], "tiny": [("bin", "V16")], "rows": ("<f4", 64)}


class Peer(base.Peer):
    package = "numpy"
    kinds = ("d1", "tiny", "rows")
    settings = ("`numpy.memmap` of a structured type (rows of floats: two dimensions); this can only store samples "
                "of one size.")
    lacks = {"resume": "no loader", "epoch": "samples of one size only", "index": "not needed", "verify": "no checksums"}

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True)
        with open(f"{folder}/x.bin", "wb", buffering=1 << 20) as out:
            for _, fields in samples:
                out.write(b"".join(fields.values()))

    def open(self, folder, data):
        self.rows = data.kind == "rows"
        shape = (data.samples, 64) if self.rows else (data.samples,)
        kind = KINDS[data.kind][0] if self.rows else np.dtype(KINDS[data.kind])
        return np.memmap(f"{folder}/x.bin", kind, "r", shape=shape)

    def iterate(self, handle):
        return iter(handle) if self.rows else map(self.getter(handle), range(len(handle)))

    def getter(self, handle):
        return handle.__getitem__ if self.rows else lambda i: handle[i].item()

    def batcher(self, handle):
        return handle.__getitem__

    def plain(self, sample, data):
        return (sample.tobytes(),) if self.rows else tuple(bytes(value) for value in sample)

    def plain_batch(self, batch, data):
        return [self.plain(row if self.rows else row.item(), data) for row in batch]
