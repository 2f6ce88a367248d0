"""What a contestant is. Every function that a package has no match for is simply not there."""
import pathlib


class Peer:
    """One package or program, with its own format on disk.

    package   what it is called on PyPI, for its version; others have a function version
    kinds     which data it can hold (data.py)
    settings  what was chosen for it, in a sentence of the page
    reads     the contestant whose files it reads, if it does not write its own
    ways      {workload: names}: more than one way to do it; the first is the usual one
    lacks     {workload: why it is not there}
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
    # batcher(handle) -> function       array of numbers -> samples, in whatever it has for many
    # plain(sample, data) -> tuple      the bytes of the fields, to compare contestants
    # plain_batch(batch, data) -> list  the same of a batch
    # epoch(folder, data, batch, workers) -> iterable
    #                                   shuffled (images, labels): bytes n x 224 x 224 x 3, integers;
    #                                   each iteration is an epoch
    # begin(folder, data, batch, steps) -> (ids, state)
    #                                   numbers of the samples in so many batches of an epoch
    # resume(folder, data, batch, state) -> iterator of lists of ids, the rest of that epoch
    # index(folder, data)               makes the index anew, of files that are there
    # verify(folder, data)              looks at every byte

    def close(self, handle):
        """Gives up what open gave."""

    def plain(self, sample, data):
        return tuple(bytes(sample[f]) for f in data.fields)

    def plain_batch(self, batch, data):
        return [self.plain(sample, data) for sample in batch]

    def index_bytes(self, folder):
        """Bytes of what is an index and nothing else; None where it is part of the data."""
        return None

    @classmethod
    def does(cls, function):
        return hasattr(cls, function)


def shards(folder, pattern="*.tar"):
    return sorted(map(str, pathlib.Path(folder).glob(pattern)))


def sample_id(data):
    """The number that a sample of d1 begins with."""
    return int.from_bytes(bytes(data[:8]), "little")
