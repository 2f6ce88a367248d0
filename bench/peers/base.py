"""The definition of a contestant. Functions for which a package has no equivalent are left out."""
import pathlib


class Peer:
    """One package or program, with its own format on disk.

        package   its name on PyPI, for its version; others have a function version
        kinds     the data that it can store (data.py)
        settings  the settings chosen for it, in a sentence for the page
        reads     the contestant whose files it reads, if it does not write its own
        ways      {workload: names}: more than one way to do it; the first is the usual one
        lacks     {workload: why it is left out}
    """
    package = ""
    kinds: tuple = ()
    settings = ""
    reads = ""
    ways: dict = {}
    lacks: dict = {}

    def __init__(self, way=""):
        self.way = way

    #   write(folder, samples, data)      samples: an iterable of (key, {field: bytes}); not synced
    #   open(folder, data) -> handle      ready to read
    #   iterate(handle) -> iterator       all samples in order, each with its bytes in memory
    #   getter(handle) -> function        sample number -> sample
    #   batcher(handle) -> function       array of numbers -> samples, in the package's own form for many
    #   plain(sample, data) -> tuple      the bytes of the fields, to compare contestants
    #   plain_batch(batch, data) -> list  the same for a batch
    #   epoch(folder, data, batch, workers) -> iterable
    #                                     shuffled (images, labels): bytes n x 224 x 224 x 3, integers;
    #                                     each iteration is an epoch
    #   begin(folder, data, batch, steps) -> (ids, state)
    #                                     numbers of the samples in the first steps batches of an epoch
    #   resume(folder, data, batch, state) -> iterator of lists of ids, the rest of that epoch
    #   index(folder, data)               builds the index of existing files again
    #   verify(folder, data)              checks every byte

    def close(self, handle):
        """Closes the handle that open returned."""

    def plain(self, sample, data):
        return tuple(bytes(sample[f]) for f in data.fields)

    def plain_batch(self, batch, data):
        return [self.plain(sample, data) for sample in batch]

    def index_bytes(self, folder):
        """Bytes of separate index files; None if the index is part of the data."""
        return None

    @classmethod
    def does(cls, function):
        return hasattr(cls, function)


def shards(folder, pattern="*.tar"):
    return sorted(map(str, pathlib.Path(folder).glob(pattern)))


def sample_id(data):
    """The number that a sample of d1 begins with."""
    return int.from_bytes(bytes(data[:8]), "little")
