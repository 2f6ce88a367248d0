"""The interface of a contestant. A function that a package cannot provide is not defined."""
import pathlib


class Peer:
    """One package or program, with its own format on disk.

    package   its name on PyPI, for its version; others define a function version
    kinds     which data it can store (data.py)
    settings  the settings used, in a sentence for the page
    reads     the contestant whose files it reads, if it does not write its own
    ways      {workload: names}: more than one way to do it; the first is the usual one
    lacks     {workload: why it is missing}
    """
    package = ""
    kinds: tuple = ()
    settings = ""
    reads = ""
    ways: dict = {}
    lacks: dict = {}

    def __init__(self, way=""):
        self.way = way

    # write(folder, samples, data)      samples: an iterable of (key, {field: bytes}); not synced
    # open(folder, data) -> handle      ready to read
    # iterate(handle) -> iterator       all samples in order, each with its bytes in memory
    # getter(handle) -> function        sample number -> sample
    # batcher(handle) -> function       array of numbers -> samples, in the package's own type for many
    # plain(sample, data) -> tuple      the bytes of the fields, to compare contestants
    # plain_batch(batch, data) -> list  the same of a batch
    # epoch(folder, data, batch, workers) -> iterable
    #                                   shuffled (images, labels): bytes n x 224 x 224 x 3, integers;
    #                                   each iteration is an epoch
    # begin(folder, data, batch, steps) -> (ids, state)
    #                                   numbers of the samples in that many batches of an epoch
    # resume(folder, data, batch, state) -> iterator of lists of ids, the rest of that epoch
    # index(folder, data)               rebuilds the index of existing files
    # verify(folder, data)              checks every byte

    def close(self, handle):
        """Closes the handle that open returned."""

    def plain(self, sample, data):
        return tuple(bytes(sample[f]) for f in data.fields)

    def plain_batch(self, batch, data):
        return [self.plain(sample, data) for sample in batch]

    def index_bytes(self, folder):
        """Size in bytes of files that are only an index; None where the index is part of the data."""
        return None

    @classmethod
    def does(cls, function):
        return hasattr(cls, function)


def shards(folder, pattern="*.tar"):
    return sorted(map(str, pathlib.Path(folder).glob(pattern)))


def sample_id(data):
    """The number at the beginning of a sample of d1."""
    return int.from_bytes(bytes(data[:8]), "little")
