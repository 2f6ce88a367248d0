"""What the pages say of each workload: its title, its unit, what is measured, and what bounds it."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Text:
    title: str
    unit: str
    measures: str
    bounds: str


KINDS = {
    "d1": "samples of 1 KB",
    "d2": "samples of a 91 KB JPEG",
    "pack": "packs of 1 KB records",
    "rows": "arrays, rows of 64 floats",
    "tiny": "samples of 16 B",
}

TEXTS = {
    "index": Text(
        "Index", "members/s",
        "From shards to a list of their members: `tarn index` writes and syncs its index and sums, the tar programs write "
        "their list to a file, wids fills its table in memory. A whole process for the programs. Contestants without this row "
        "write their index along with the data, or have none.",
        "Fetching header bytes: system calls for large members, copying out of the page cache for small ones. The "
        "start of the process and the sync of the result count, too."),
    "sequential": Text(
        "Sequential", "samples/s",
        "All samples in order, one at a time in Python, every field in memory as `bytes` (*views*, in the tables only: as "
        "memoryviews into the map, whose bytes nobody has touched). One process, no workers.",
        "Making Python objects; for WebDataset and others that parse in Python, the parsing."),
    "random": Text(
        "Random, one at a time", "samples/s",
        "Samples at random positions, one call each, every field as `bytes` (*views* as above).",
        "Making Python objects and cache misses; for Lance a query for each call."),
    "batches": Text(
        "Random batches", "samples/s",
        "Samples at random positions, 256 small or 64 large ones in a call, in what the package has for many: tarn's one buffer "
        "with offsets, an Arrow table, a list of `bytes`, an array. Packages that take one sample at a time are in the row before.",
        "Copying memory, and for small samples the cache misses of finding them."),
    "cold sequential": Text(
        "Sequential, cold", "samples/s",
        "The first samples in order after the files were taken out of the page cache, opening included.",
        "The disk, and how far ahead the system reads. Another machine's disk gives other ratios; the host of a virtual machine "
        "may have the file in its memory."),
    "cold batches": Text(
        "Random batches, cold", "samples/s",
        "As *random batches*, after the files were taken out of the page cache, opening included.",
        "How many reads the disk has at once: one by one waits for each."),
    "write": Text(
        "Writing", "samples/s",
        "From samples in memory to files, the package's own format complete with its index; nobody waits for the disk but "
        "*durable*. The fastest of three passes after one without a clock.",
        "Copying into the page cache for tarn and Arrow, building headers and objects in Python for the others; durable: the disk."),
    "verify": Text(
        "Verify", "bytes/s",
        "Every byte compared with its checksum; the others are what people do whose format has none: a checksum of each file.",
        "Reading memory, and the start of the process."),
    "epoch": Text(
        "Shuffled epoch, JPEG to 224 × 224", "images/s",
        "A shuffled epoch, the second one, with JPEGs decoded and resized to batches of 64 × 224 × 224 × 3, two workers or threads "
        "each.",
        "Decoding, for all. Pillow and its resize against libjpeg-turbo called once for each image, and worker processes that hand "
        "batches over through shared memory against threads that do not have to."),
    "resume": Text(
        "Resume in the middle of an epoch", "seconds to the first batch",
        "Half a shuffled epoch, its state saved; another process takes the state up. The time is from opening to the first batch; "
        "then the rest is read and compared: every sample of the epoch must have come exactly once.",
        "Starting workers and opening files; for those that skip, passing over what was seen."),
    "open": Text(
        "Opening", "seconds to the first sample",
        "From nothing open to one sample from the middle, packages imported before; the median of five after the first.",
        "System calls; what is read whole costs its size."),
    "growth": Text(
        "Opening and random access, by number of samples", "seconds to the first sample",
        "Opening and the first sample, as above, and samples at random after that, for ever more samples of 16 bytes.",
        "Whether an index is mapped or read, and how much of it fits into the caches."),
}

PROFILE = ("Profiles were taken apart from this run, with `perf record` over the same calls on the larger data of the other benchmarks.")
VERDICTS = (" On a busy machine *met* and *missed* change from run to run.")
FASTER = "is faster than tarn here"

INTRODUCTION = """# tarn next to its peers

Written by `bench/peers.py{flag} --write-docs` (`make bench`, `make bench-full`), which measures all of this in one run. Do not
edit.

{machine}. Form: {form}; medians of {rounds} rounds{growth}, {seconds:g} s for each warm measurement.{also}{busy}

Every contestant holds the same samples in its own format and reads them with the settings below, chosen in its favour as far
as we know the package. *Samples of 1 KB* have two fields, of 1,024 bytes and of 2; *samples of a 91 KB JPEG* have a JPEG of 91 KB
in the mean and some 40 bytes of JSON.
Contestants take turns; each measurement is a process of its own. Files were read once from front to back before warm measurements;
before cold ones they are taken out of the page cache. *CPU* is seconds of processors for one sample, all processes together.
*Own MB* is the peak of what the processes hold for themselves, *resident MB* counts mapped files too, which the system can drop at
any time; both count pages that worker processes share once for each. Ratios are what to look at: the figures of a virtual machine
change from hour to hour.
"""

BUSY = (" **The machine was busy with other work** (a load of {load:.0f} on {cores} cores before the run), so rates by the clock on the wall are "
        "provisional; the CPU columns suffer less.")

ALSO = " *{what}* is of a run of its own on the same machine, form: {form}, {rounds} rounds, commit {commit}, {date}."

USUAL = ("*tarn* is its usual way: bytes, not synced, one thread for index, verify and batches, two for the loader. [All tables](tables.md), "
         "[results as JSON](results.json), [more cores and a GPU](scaling.md).\n")

ON_DISK = ("Tar costs a block of 512 bytes for each member and fills its payload up to the next: that is the price of a format that "
           "every program reads. *Index* counts `.taridx` and `.tarsum` together.\n")

ALL_TABLES = ("# All tables\n\nOf the run that [the summary](README.md) tells of. *tarn is faster by* is the rate of tarn's usual way "
              "(its first row of the name) divided by this one; in bold where the other is faster. *Least – most* are the rounds.\n")

AIMS_ELSEWHERE = """Aims that other benchmarks judge, with tables of their own:

- index with pax headers: `bench/run.py --only index`
- index, cold: `bench/run.py --only cold`
- verify next to reading the bytes: `bench/run.py --only verify`
- writing from C: `bench/write.py`
- JPEG to RGB next to bare libjpeg-turbo, and batches on two threads next to `memcpy`: `bench/loader.py`
- PNG: `bench/images.py`
- cold random reads next to a loop of `pread`: `bench/cold.py --only random`
- more than two cores, and a GPU: `bench/scaling.py`
"""

ABSENT = """Not measured, or not as their packages say:

- **FFCV** has no wheel, and its source wants OpenCV's headers: not installed.
- **Megatron Energon** installs, but wants another botocore than the packages here; it reads WebDataset's shards: not measured.
- **torchvision**'s wheel does not load with a torch for processors alone. MosaicML Streaming imports it for its image classes, and
  is given an empty module in its place; those classes are not used here."""
