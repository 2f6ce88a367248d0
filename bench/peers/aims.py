"""The speed targets that this run can check: ratios of tarn to another contestant in the same workload."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Aim:
    job: str
    workload: str
    kind: str
    way: str
    other: str
    ratio: float
    bounds: str  # the page's text if the target is missed
    other_workload: str = ""  # where the other has no equivalent way

    def judge(self, rows):
        """The measured ratio, or None where one of the two did not run."""
        def rate(workload, peer, way):
            return next((r.rate for r in rows if (r.workload, r.kind, r.peer) == (workload, self.kind, peer)
                         and way in (None, r.way) and r.rate), None)
        mine = rate(self.workload, "tarn", self.way)
        theirs = rate(self.other_workload or self.workload, self.other, None)
        return mine / theirs if mine and theirs else None


START = ("A pass is a process that starts, scans, writes and syncs: tens of milliseconds, half of it plain reading. In a profile the "
         "rest is parsing, sorting by key and writing; `bench/run.py --only ways` measures the parts.")
# What perf shows for each of them, with bench/data at full size.
OBJECTS = ("In a profile of `ds[i]` half of the time is cache misses: the row of the index and the header that it is "
           "compared with (`tarn__fold_whole`, `check_row`, `tarn__locate_name_key`: 52 % with views, 35 % with bytes, and 18 % for the "
           "payload); most of the rest is Python's dicts, keys and objects. `batch` creates none of these, and prefetches the next rows.")
COPIES = ("In a profile 38 % is `copy_fold`, which waits for the headers it compares, 18 % is `check_row`, which waits for the rows of the index, and 15 % "
          "is the copy of 1 KB; `bench/loader.py` measures the same with two threads and compares it with `memcpy`.")
AIMS = (
    Aim("index, small members, 1 thread", "index", "d1", "1 thread", "GNU tar", 7, START),
    Aim("index, small members, 2 threads", "index", "d1", "2 threads", "GNU tar", 11, START),
    Aim("index, large members, 1 thread", "index", "d2", "1 thread", "GNU tar", 4, START),
    Aim("index, large members, 2 threads", "index", "d2", "2 threads", "GNU tar", 6, START),
    Aim("random small sample, bytes", "random", "d1", "bytes", "wids", 8, OBJECTS),
    Aim("random small sample, views", "random", "d1", "views", "wids", 12, OBJECTS),
    Aim("random large sample, bytes", "random", "d2", "bytes", "wids", 2,
        "91 KB are copied for each sample, as in wids."),
    Aim("random large sample, views", "random", "d2", "views", "wids", 14, OBJECTS),
    Aim("random batches of small samples, 1 thread, compared with single samples", "batches", "d1", "1 thread", "wids", 40,
        COPIES, "random"),
    Aim("random batches of small samples, 2 threads, compared with single samples", "batches", "d1", "2 threads", "wids", 55,
        "Two Python threads request batches in turn, and a batch takes no longer than passing one from thread to thread. " + COPIES, "random"),
    Aim("random batches of large samples, 2 threads, compared with single samples", "batches", "d2", "2 threads", "wids", 3.5,
        "91 KB are copied for each sample: memory bandwidth of two cores is the limit.", "random"),
    Aim("sequential, small samples, in batches", "sequential", "d1", "batches", "webdataset", 200,
        COPIES),
    Aim("sequential, small samples, as dicts", "sequential", "d1", "bytes", "webdataset", 50, OBJECTS),
    Aim("write small samples from Python, not synced", "write", "d1", "not synced", "webdataset", 40,
        "In a profile half of the time is the system's copy into the page cache. The time includes making the dicts, for all "
        "contestants, and writing the checksums and the index."),
    Aim("write small samples from Python, durable", "write", "d1", "durable", "webdataset", 45,
        "Only tarn waits for the disk here."),
    Aim("JPEG to 224 × 224 batches, 2 threads", "epoch", "d2", "default", "files", 3.3,
        "In a profile 88 % of the time is inside libjpeg-turbo and 7 % is the resize, so nothing is left to remove "
        "(`bench/loader.py` compares the rate with that of bare libjpeg-turbo)."),
)
