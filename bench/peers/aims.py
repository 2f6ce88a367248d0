"""The aims for speed that this run can judge: ratios of tarn to another contestant in the same workload."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Aim:
    job: str
    workload: str
    kind: str
    way: str
    other: str
    ratio: float
    bounds: str  # what is to be said where it is missed
    other_workload: str = ""  # where the other has no match for this one

    def judge(self, rows):
        """The ratio found, or None where one of the two did not run."""
        def rate(workload, peer, way):
            return next((r.rate for r in rows if (r.workload, r.kind, r.peer) == (workload, self.kind, peer)
                         and way in (None, r.way) and r.rate), None)
        mine = rate(self.workload, "tarn", self.way)
        theirs = rate(self.other_workload or self.workload, self.other, None)
        return mine / theirs if mine and theirs else None


START = ("A pass of the short form takes tens of milliseconds, start of the process and sync included, which the aim was not set for; "
         "`bench/run.py` has the job with {n}.")
OBJECTS = ("Each sample is a dict with its key and its fields as Python objects: creating and freeing these "
           "is the likely cost. `batch` makes none.")
AIMS = (
    Aim("index, small members, 1 thread", "index", "d1", "1 thread", "GNU tar", 7, START.format(n="400,000 members")),
    Aim("index, small members, 2 threads", "index", "d1", "2 threads", "GNU tar", 11, START.format(n="400,000 members")),
    Aim("index, large members, 1 thread", "index", "d2", "1 thread", "GNU tar", 4, START.format(n="40,000 members")),
    Aim("index, large members, 2 threads", "index", "d2", "2 threads", "GNU tar", 6, START.format(n="40,000 members")),
    Aim("random small sample, bytes", "random", "d1", "bytes", "wids", 8, OBJECTS),
    Aim("random small sample, views", "random", "d1", "views", "wids", 12, OBJECTS),
    Aim("random large sample, bytes", "random", "d2", "bytes", "wids", 2,
        "91 KB are copied for each sample: as does wids."),
    Aim("random large sample, views", "random", "d2", "views", "wids", 14, OBJECTS),
    Aim("random batches of small samples, next to single ones", "batches", "d1", "", "wids", 40,
        "Copying 1 KB for each sample and the cache misses of finding it are the likely cost; "
        "`bench/python.py --only random` has it with more samples, `bench/loader.py` with two threads.", "random"),
    Aim("random batches of large samples, next to single ones", "batches", "d2", "", "wids", 3.5,
        "91 KB are copied for each sample: copying is the likely cost. The aim is for two threads, this is one.", "random"),
    Aim("sequential, small samples, in batches", "sequential", "d1", "batches", "webdataset", 200,
        "Copying 1 KB for each sample and the cache misses of finding it are the likely cost; "
        "`bench/python.py --only random` has it with more samples, `bench/loader.py` with two threads."),
    Aim("sequential, small samples, as dicts", "sequential", "d1", "bytes", "webdataset", 50, OBJECTS),
    Aim("write small samples from Python, not synced", "write", "d1", "not synced", "webdataset", 40,
        "The dicts are made while the clock runs, for all contestants; checksums and the index are written along."),
    Aim("write small samples from Python, durable", "write", "d1", "durable", "webdataset", 25,
        "The others are not asked to wait for the disk, tarn is."),
    Aim("JPEG to 224 × 224 batches, 2 threads", "epoch", "d2", "default", "files", 3.3,
        "Decoding is the likely cost on both sides (`bench/loader.py` has the share of bare libjpeg-turbo)."),
)
