#!/usr/bin/env python3
"""Compares tarn with GNU tar, bsdtar and Python on generated data sets.

  index   list of the members of cached shards, written as an index, against tar tf
  cold    the same with the shards out of the page cache, and the disk's maximum rate
  memory  peak memory of indexing, for each member
  lookup  one field by key in ten million rows, against opening and mapping the same files
  verify  checksums of every byte, against cat and Python's zlib.crc32
  ways    the bare ways of reading headers that tarn's window chooses from

Contestants take turns and medians count. Look at the ratios: absolute numbers of a virtual machine
change from hour to hour. tarn writes its index to disk and syncs it in each timed pass; the lists
of the others go to a file too, because a discarded list is cheaper: GNU tar makes a system call for
each line, and into /dev/null that call is nearly free. That case is in the table as well. The
targets are printed for comparison only.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import shutil
import subprocess
import sys

import make_data
from make_data import DATA
from measure import (Contestant, Report, evict, peak_rss, read_all, resident, run, take_turns,
                     warm_as_written, warm_in_order, with_unit)

HERE = pathlib.Path(__file__).resolve().parent
GNU_TAR = "GNU tar"
CRC32 = "zlib.crc32"
OPEN_MAP = "open and map"
LOOKUPS_PER_ROUND = 40
INDEX_TARGETS = {"d1": ("7x", "11x"), "d1p": ("5x", "8x"), "d2": ("4x", "6x")}
COLD_TARGET = "5x"
MEMORY_TARGET = 100

ITERATE = """
import sys, tarfile
for path in sys.argv[1:]:
    with tarfile.open(path) as archive:
        for member in archive:
            pass
"""

CHECKSUM = """
import sys, zlib
buffer = memoryview(bytearray(1 << 20))
for path in sys.argv[1:]:
    crc = 0
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            crc = zlib.crc32(buffer[:size], crc)
"""


def fixed(*argvs):
    """Commands that are the same in each pass."""
    return lambda: list(argvs)


def unlink_index(data):
    """Removes the files that tarn index writes, so that each pass makes new ones."""
    for suffix in (".taridx", ".tarsum"):
        (data.folder / f"train{suffix}").unlink(missing_ok=True)


class Bench:
    """The benchmarks, with their shared options and report."""

    def __init__(self, args):
        self.args, self.report = args, Report()

    def data(self, name):
        rows = self.args.rows if name == "d10m" else None
        return make_data.make(name, self.args.scale, rows)

    def index_argv(self, data, threads, *options):
        return [self.args.tarn, "index", "-q", "-j", threads, *options, data.folder]

    def indexer(self, data, threads, *options, target="", before=None):
        def fresh():
            unlink_index(data)
            if before:
                before()
        name = " ".join(["tarn index", *options, f"-j {threads}"])
        commands = fixed(self.index_argv(data, threads, *options))
        return Contestant(name, commands, fresh, target=target and f">= {target}")

    def check_count(self, data):
        """A fast index of the wrong members would be worthless."""
        argv = self.index_argv(data, 2, "--json")
        out = subprocess.run(list(map(str, argv)), check=True, capture_output=True).stdout
        found = sum(fold["members"] for fold in json.loads(out))
        if found != data.members:
            raise SystemExit(f"{data.folder}: {found} members indexed, expected {data.members}")

    def heading(self, text, data):
        self.report.title(f"{text}: {data.name}, {data.members:,} members, "
                          f"{with_unit(data.size)}B in {len(data.shards)} shards")

    def index(self):
        states = [("cached by a sequential read", warm_in_order)]
        if self.args.as_written:
            states.append(("cached as a Python writer leaves it", warm_as_written))
        for name in INDEX_TARGETS:
            data = self.data(name)
            self.check_count(data)
            for state, prepare in states:
                prepare(data.shards)
                self.index_one(data, state)

    def index_one(self, data, state):
        one, two = INDEX_TARGETS[data.name]
        contestants = [
            *tars(data),
            Contestant("Python tarfile",
                       fixed([sys.executable, "-c", ITERATE, *data.shards]), slow=True),
            self.indexer(data, 1, target=one),
            self.indexer(data, 2, target=two),
        ]
        take_turns(contestants, self.args.rounds)
        self.heading(f"index, {state}", data)
        self.report.table(f"index, {state}", data.name, contestants, data.members, "members/s",
                          GNU_TAR)

    def cold(self):
        for name in ("d1", "d2"):
            data = self.data(name)
            left = []

            def chill(data=data, left=left):
                evict(data.shards)
                left.append(resident(data.shards))

            direct = [["dd", f"if={shard}", "of=/dev/null", "bs=4M", "iflag=direct",
                       "status=none"] for shard in data.shards]
            contestants = [*tars(data, chill),
                           Contestant("dd, direct 4 MB", fixed(*direct), chill),
                           self.indexer(data, 2, target=COLD_TARGET, before=chill)]
            take_turns(contestants, self.args.rounds, prime=False)
            self.heading("index, cold", data)
            print(f"  {eviction(left)}")
            self.report.table("cold", data.name, contestants, data.members, "members/s",
                              GNU_TAR)

    def memory(self):
        self.report.title(f"memory: peak of tarn index -j 2 (target <= {MEMORY_TARGET} "
                          "bytes/member; fixed costs dominate small sets)")
        peaks = {}
        for name in ("d1", "d1p", "d2", "d10m"):
            data = self.data(name)
            unlink_index(data)
            peak = peak_rss(self.index_argv(data, 2), DATA / "peak.txt")
            if peak is None:
                print("  not measured: GNU time is not installed")
                return
            peaks[name] = peak, data.members
            self.memory_row(name, f"{peak / 1e6:8.1f} MB {data.members:>12,} members", peak,
                            data.members)
        small, large = peaks["d1"], peaks["d10m"]
        if large[1] > small[1]:
            self.memory_row("d1 to d10m", "   growth", large[0] - small[0], large[1] - small[1])

    def memory_row(self, name, text, peak, members):
        print(f"  {name:<12}{text:<34}{peak / members:>8.1f} bytes/member", flush=True)
        self.report.keep("memory", name, "tarn index -j 2", peak_bytes=peak, members=members,
                         bytes_per_member=peak / members, target=MEMORY_TARGET)

    def lookup(self):
        large, small = self.data("d10m"), self.data("d1")
        for data in (large, small):
            run(self.index_argv(data, 2))
        files = [*large.folder.glob("train.tar*"), *large.shards]
        read_all(files)
        contestants = [
            Contestant(OPEN_MAP, fixed([build("open_map"), *files])),
            Contestant("tarn --version", fixed([self.args.tarn, "--version"])),
            self.getter(small),
            self.getter(large, target="about 1x"),
        ]
        take_turns(contestants, self.args.rounds * LOOKUPS_PER_ROUND, prime=False)
        self.heading("lookup by random key, whole process", large)
        self.report.table("lookup", large.name, contestants, 1, "lookups/s", OPEN_MAP,
                          inverse=True)

    def ways(self):
        states = [("by a sequential read", warm_in_order),
                  ("as a Python writer leaves it", warm_as_written)]
        for name, ways in (("d1", (("read", 1 << 20), ("read", 256 << 10), ("map", 0))),
                           ("d2", (("hop", 1536), ("map", 0)))):
            data = self.data(name)
            for state, prepare in states:
                prepare(data.shards)
                contestants = [Contestant(f"{way} {size or ''}".strip(),
                                          fixed([build("ways"), way, size, *data.shards]))
                               for way, size in ways]
                take_turns(contestants, self.args.rounds)
                self.heading(f"ways, cached {state}", data)
                self.report.table(f"ways, {state}", name, contestants, data.members,
                                  "members/s", contestants[0].name)

    def getter(self, data, target=""):
        rng = random.Random(7)

        def commands():
            key = make_data.key_of(rng.randrange(data.samples))
            return [[self.args.tarn, "get", f"{data.folder}:train", key, data.fields[0]]]
        return Contestant(f"tarn get, {with_unit(data.members)} rows", commands, target=target)

    def verify(self):
        data = self.data("d2")
        warm_in_order(data.shards)
        contestants = [
            Contestant(CRC32, fixed([sys.executable, "-c", CHECKSUM, *data.shards])),
            Contestant("cat", fixed(["cat", *data.shards])),
            *(self.indexer(data, threads, "--sums") for threads in (1, 2)),
            *(self.verifier(data, threads) for threads in (1, 2)),
        ]
        take_turns(contestants, self.args.rounds)
        self.heading("verify, cached by a sequential read", data)
        self.report.table("verify", data.name, contestants, data.size, "bytes/s", CRC32)

    def verifier(self, data, threads):
        """Runs after the indexers in each round, whose last pass has left checksums to compare."""
        argv = [self.args.tarn, "verify", "-q", "-j", threads, data.folder]
        return Contestant(f"tarn verify -j {threads}", fixed(argv))


def tars(data, before=lambda: None):
    """GNU tar and, where installed, bsdtar; each lists the shards in order."""
    listing = data.folder / "listing"

    def lister(name, program, output):
        def fresh():
            listing.unlink(missing_ok=True)
            before()
        return Contestant(name, fixed(*([program, "tf", s] for s in data.shards)), fresh,
                          output=output)

    out = [lister(GNU_TAR, "tar", listing), lister("GNU tar, list dropped", "tar", "/dev/null")]
    if shutil.which("bsdtar"):
        out.append(lister("bsdtar", "bsdtar", listing))
    return out


def eviction(left):
    """Reports whether the shards were really out of the cache before each pass."""
    if None in left:
        return "eviction not verified: fincore is not installed"
    return f"bytes of shards left in the page cache before a pass: at most {max(left):,}"


def build(name):
    """A C program of this folder, compiled if necessary."""
    program, source = DATA / name, HERE / f"{name}.c"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        run([os.environ.get("CC", "cc"), "-O2", "-o", program, source])
    return program


BENCHES = ("index", "cold", "memory", "lookup", "verify", "ways")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=BENCHES, metavar="NAME",
                        help="one benchmark; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="timed passes (default 5)")
    parser.add_argument("--scale", type=float, default=1.0,
                        help="fraction of the samples; small ones only test the benchmarks")
    parser.add_argument("--rows", type=int, help="rows of the lookup before scaling")
    parser.add_argument("--as-written", action="store_true",
                        help="also index shards that are cached in pieces of 10 KB")
    parser.add_argument("--json", metavar="FILE", help="write all results to this file")
    parser.add_argument("--tarn", default=HERE.parent / "build" / "tarn", metavar="FILE",
                        help="the program to measure (default build/tarn)")
    return parser.parse_args()


def main():
    args = parse()
    if not os.access(args.tarn, os.X_OK):
        raise SystemExit(f"{args.tarn} does not exist: build it first, with make")
    bench = Bench(args)
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}"
    print(f"{machine}; medians of {args.rounds}, scale {args.scale:g}")
    for name in args.only or BENCHES:
        getattr(bench, name)()
    if args.json:
        result = {"machine": machine, "rounds": args.rounds, "scale": args.scale,
                  "results": bench.report.rows}
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
