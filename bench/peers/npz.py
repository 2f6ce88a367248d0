"""NumPy's .npz: an archive of arrays, which must be read as a whole."""
import pathlib

import numpy as np

from . import rows


class Peer(rows.Peer):
    package = "numpy"
    settings = ("`numpy.savez`, not compressed; opening reads the whole array into memory, and everything after "
                "that is plain NumPy.")

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True)
        np.savez(f"{folder}/x.npz", x=self.rows(samples))

    def open(self, folder, data):
        return np.load(f"{folder}/x.npz")["x"]
