"""tarn's array files, .gnz."""
import pathlib

import numpy as np
import tarn.gnz

from . import base


class Peer(base.Peer):
    kinds = ("rows",)
    settings = ("`tarn.gnz.create` with `sync=False`; rows and fancy indexing of the array that the reader gives, "
                "which is a view.")

    def version(self):
        return tarn.__version__

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        rows = np.frombuffer(b"".join(fields["x"] for _, fields in samples), "<f4").reshape(-1, 64)
        with tarn.gnz.create(f"{folder}/x.gnz", overwrite=True, sync=False) as out:
            out.add("x", rows)

    def open(self, folder, data):
        return tarn.gnz.open(f"{folder}/x.gnz")["x"]

    def iterate(self, handle):
        return iter(handle)

    def getter(self, handle):
        return handle.__getitem__

    def batcher(self, handle):
        return handle.__getitem__

    def plain(self, sample, data):
        return (sample.tobytes(),)
