"""The pages' texts about each workload: its title, its unit, what is measured, and what limits it."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Text:
    title: str
    unit: str
    measures: str
    bounds: str


KINDS = {
    "d1": "samples of 1 KB",
    "small": "samples of 1 KB, 20 per shard",
    "d2": "samples of a 91 KB JPEG",
    "pack": "record packs, records of 1 KB",
    "rows": "arrays, rows of 64 floats",
    "tiny": "samples of 16 B",
}

TEXTS = {
    "index": Text(
        "Index", "members/s",
        "Builds a list of the members of the shards: `tarn index` writes and syncs its index and sums, the tar programs write "
        "their list to a file, and wids fills its table in memory. For the programs, the time is that of a whole process. Contestants "
        "without this row write their index with the data, or have none.",
        "Reading header bytes: system calls for large members, copying out of the page cache for small ones. Process startup "
        "and the sync of the result are included."),
    "sequential": Text(
        "Sequential", "samples/s",
        "All samples in order, one at a time in Python, every field in memory as `bytes` (*views*, in the tables only: as "
        "memoryviews into the map, whose bytes are not read). One process, no workers.",
        "Creating Python objects; for WebDataset and others that parse in Python, the parsing."),
    "random": Text(
        "Random, one at a time", "samples/s",
        "Samples at random positions, one call each, every field as `bytes` (*views* as above).",
        "Creating Python objects and cache misses; for Lance a query for each call."),
    "batches": Text(
        "Random batches", "samples/s",
        "Samples at random positions, 256 small or 64 large ones per call, in the package's own form for many samples: one buffer "
        "with offsets for tarn, an Arrow table, a list of `bytes`, or an array. Packages that read one sample at a time are only in "
        "the previous section.",
        "Copying memory, and for small samples the cache misses of finding them."),
    "cold sequential": Text(
        "Sequential, cold", "samples/s",
        "The first samples in order after the files were removed from the page cache, including opening.",
        "The disk, and how far ahead the system reads. The ratios depend on the disk, and the host of a virtual machine may have the "
        "file in memory."),
    "cold batches": Text(
        "Random batches, cold", "samples/s",
        "Like *random batches*, after the files were removed from the page cache, including opening.",
        "The number of reads that the disk has at once: reading one by one waits for each."),
    "write": Text(
        "Writing", "samples/s",
        "From samples in memory to files in the package's own format, complete with its index. Only *durable* waits for the disk. "
        "The fastest of three passes after an untimed one.",
        "Copying into the page cache for tarn and Arrow, building headers and objects in Python for the others; durable: the disk."),
    "verify": Text(
        "Verify", "bytes/s",
        "Compares every byte with its checksum. The other rows are what users of formats without checksums do: a checksum of each "
        "file.",
        "Reading memory, and process startup."),
    "epoch": Text(
        "Shuffled epoch, JPEG to 224 × 224", "images/s",
        "The second shuffled epoch, with JPEGs decoded and resized to batches of 64 × 224 × 224 × 3, with two workers or threads.",
        "Decoding, for all: Pillow and its resize compared with one call of libjpeg-turbo for each image, and worker processes that "
        "pass batches through shared memory compared with threads that do not need to."),
    "resume": Text(
        "Resume in the middle of an epoch", "seconds to the first batch",
        "One process reads half a shuffled epoch and saves its state; another process loads the state. The time is from opening to "
        "the first batch. Then the rest is read and compared: every sample of the epoch must have been read exactly once.",
        "Starting workers and opening files; for packages that skip, skipping the samples already read."),
    "open": Text(
        "Opening", "seconds to the first sample",
        "Opens the data and reads one sample from the middle, with packages already imported; the median of five after the first.",
        "System calls; a file that is read completely costs its size."),
    "growth": Text(
        "Opening and random access, by number of samples", "seconds to the first sample",
        "Opening and the first sample, as above, and random samples after that, for an increasing number of samples of 16 bytes.",
        "Whether an index is mapped or read, and how much of it fits into the caches."),
}

PROFILE = ("Profiles were recorded separately from this run, with `perf record` over the same calls on the larger data of the other "
           "benchmarks.")
VERDICTS = (" On a busy machine *met* and *missed* change from run to run.")
FASTER = "is faster than tarn here"

INTRODUCTION = """# tarn compared with other packages

Written by `bench/peers.py{flag} --write-docs` (`make bench`, `make bench-full`), which measures all of this in one run. Do not
edit.

{machine}. Form: {form}; medians of {rounds} rounds{growth}, {seconds:g} s for each warm measurement.{also}{busy}

Every contestant stores the same samples in its own format and reads them with the settings below, chosen in its favour as far
as we know the package. *Samples of 1 KB* have two fields, of 1,024 bytes and of 2 bytes. *Samples of a 91 KB JPEG* have a JPEG of
91 KB on average and about 40 bytes of JSON.

Contestants take turns, and each measurement is a separate process. Before warm measurements the files are read once from front to
back; before cold measurements they are removed from the page cache. *CPU* is processor seconds per sample, for all processes
together. *Own MB* is the peak of the processes' private memory. *Resident MB* also counts mapped files, which the system can drop
at any time. Both count pages shared between worker processes once for each process. Compare the ratios: the absolute figures of a
virtual machine change from hour to hour.
"""

BUSY = (" **The machine was busy with other work** (a load of {load:.0f} on {cores} cores before the run), so wall-clock rates are "
        "provisional; the CPU columns are affected less.")

ALSO = " *{what}* was measured in a separate run on the same machine, form: {form}, {rounds} rounds, commit {commit}, {date}."

USUAL = ("*tarn* means its usual configuration: bytes, not synced, one thread for index, verify and batches, two for the loader. "
         "[All tables](tables.md), [results as JSON](results.json), [more cores and a GPU](scaling.md).\n")

ON_DISK = ("Tar adds a block of 512 bytes for each member and pads its payload to a multiple of 512: that is the cost of a format that "
           "every program reads. *Index* counts `.taridx` and `.tarsum` together.\n")

ALL_TABLES = ("# All tables\n\nFrom the run that [the summary](README.md) describes. *tarn is faster by* is the rate of tarn's usual "
              "configuration (the first row with its name) divided by the rate of this row; bold means that the other is faster. "
              "*Least – most* is the range over the rounds.\n")

AIMS_ELSEWHERE = """Other benchmarks measure these aims, with their own tables:

- index with pax headers: `bench/run.py --only index`
- index, cold: `bench/run.py --only cold`
- verify compared with reading the bytes: `bench/run.py --only verify`
- writing from C: `bench/write.py`
- JPEG to RGB compared with bare libjpeg-turbo, and batches on two threads compared with `memcpy`: `bench/loader.py`
- PNG: `bench/images.py`
- cold random reads compared with a loop of `pread`: `bench/cold.py --only random`
- more than two cores, and a GPU: `bench/scaling.py`
"""

ABSENT = """Not measured, or measured with changes:

- **FFCV** has no wheel, and its source needs OpenCV's headers: not installed.
- **Megatron Energon** installs, but needs another botocore than the packages here; it reads WebDataset's shards: not measured.
- **torchvision**'s wheel does not load with a CPU-only torch. MosaicML Streaming imports it for its image classes and gets an empty
  module instead; those classes are not used here."""
