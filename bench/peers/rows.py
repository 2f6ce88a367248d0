"""Shared by contestants that return rows as a NumPy array."""
import numpy as np

from . import base


class Peer(base.Peer):
    kinds = ("rows",)

    @staticmethod
    def rows(samples):
        return np.frombuffer(b"".join(fields["x"] for _, fields in samples), "<f4").reshape(-1, 64)

    def iterate(self, handle):
        return iter(handle)

    def getter(self, handle):
        return handle.__getitem__

    def batcher(self, handle):
        return handle.__getitem__

    def plain(self, sample, data):
        return (sample.tobytes(),)
