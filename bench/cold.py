#!/usr/bin/env python3
"""Samples that are not in the page cache: batches at random positions, compared with a loop of pread.

  ways    the bare methods of src/io/ranges.h and what they are compared with, cold and warm
  random  tarn_dataset_read on cold folds: by default, with cold, with prefetch, mapped
  order   the same for samples in the order of the file
  warm    the same on folds in the page cache: the cost of checking whether they are

  cold.py [--build DIR] [--only ways,random,...] [--data DIR] [--rounds N] [--quick]

Makes folds of 1, 10 and 100 KB members under DATA, 2 GB each, unless they exist (--quick: 0.2 GB, for a test). Before
each pass the shards are taken out of the page cache; the host of a virtual machine may still have them. Contestants
take turns in one process, medians count, and the ratios to the loop of pread matter. The disk's own rate, by direct
reads of 4 MB in order, is printed first.
"""
import argparse
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import make_data
import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARDS = 4
SIZES = {1024: 400_000, 10_240: 180_000, 102_400: 20_000}
BATCHES = (64, 256, 1024)
READS = {1024: 16_384, 10_240: 16_384, 102_400: 4096}
WARM_READS = {1024: 131_072, 10_240: 32_768, 102_400: 4096}
TARGETS = {10_240: "8", 102_400: "3"}
# cold_ways.c uses functions that the library does not export, so it is linked with the objects of the build.
LIBRARIES = ["zlib", "liblzma", "libzstd", "libjpeg", "libwebp", "libbrotlienc", "libbrotlidec", "liblz4", "nettle",
             "libxxhash", "libcurl", "libisal"]


def make_fold(folder, size, samples, tarn):
    """Creates equal members of one field in four shards, and their index."""
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        part.mkdir(parents=True, exist_ok=True)
        pool = memoryview(os.urandom(16 << 20))
        each = samples // SHARDS
        for s in range(SHARDS):
            shard = make_data.ShardWriter(part / f"train_{s:04d}.tar")
            for i in range(s * each, (s + 1) * each):
                at = i * 7919 % (len(pool) - size)
                shard.add(make_data.header(b"%09d.bin" % i, size), pool[at: at + size],
                          make_data.padding(size))
            shard.close()
        subprocess.run([tarn, "index", "--sums", part], check=True, stdout=subprocess.DEVNULL)
        part.rename(folder)
    return folder, sorted(folder.glob("train_*.tar"))


def disk_rate(path):
    """GB/s of direct reads of 4 MB, in order."""
    buffer = mmap.mmap(-1, 4 << 20)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    total, start = 0, time.perf_counter()
    while got := os.readv(fd, [buffer]):
        total += got
    taken = time.perf_counter() - start
    os.close(fd)
    return total / taken / 1e9


def build(scratch, lib):
    ways, work = scratch / "cold_ways", scratch / "cold_work"
    common = ["cc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}/include", f"-I{lib}/include"]
    needs = subprocess.run(["pkg-config", "--libs", *LIBRARIES], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run([*common, f"-I{ROOT}/src", ROOT / "bench/cold_ways.c", lib / "libtarn_inside.a", *needs,
                    "-lbz2", "-lm", "-ldl", "-pthread", "-o", ways], check=True)
    subprocess.run([*common, ROOT / "bench/cold_work.c", "-o", work, f"-L{lib}", "-ltarn",
                    f"-Wl,-rpath,{lib}"], check=True)
    return ways, work


def table(title, argv, reference, size, target=""):
    done = subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, text=True)
    rows = {name: list(map(float, rest)) for name, *rest in
            map(str.split, done.stdout.splitlines())}
    print(f"\n{title}" + (f" (aim: {target} x {reference})" if target else ""))
    for name, (median, low, high) in rows.items():
        print(f"  {name:<16}{measure.with_unit(median):>9}/s  "
              f"[{measure.with_unit(low)} .. {measure.with_unit(high)}]"
              f"{median / rows[reference][0]:8.2f} x {median * size / 1e9:8.2f} GB/s",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default="ways,random,order,warm")
    parser.add_argument("--data", type=pathlib.Path, default=make_data.DATA)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    lib = args.build.resolve()
    only = args.only.split(",")
    scale = 10 if args.quick else 1
    with tempfile.TemporaryDirectory() as scratch:
        ways, work = build(pathlib.Path(scratch), lib)
        for size in map(int, args.sizes.split(",")):
            name = f"cold{size // 1024}k" + ("-quick" if args.quick else "")
            folder, shards = make_fold(args.data / name, size, SIZES[size] // scale, lib / "tarn")
            measure.evict(shards)
            print(f"\n{size // 1024} KB members; the disk reads {disk_rate(shards[0]):.1f} GB/s")
            reads, warm_reads = READS[size] // scale, WARM_READS[size] // scale
            for batch in BATCHES:
                what = f"{size // 1024} KB x {batch}"
                if "ways" in only:
                    table(f"{what}, bare ways, cold", [ways, "cold", "all", size, batch,
                          max(reads, batch), args.rounds, *shards], "pread", size)
                if "random" in only:
                    table(f"{what}, a fold, cold", [work, "random", folder, size, batch,
                          max(reads, batch), args.rounds], "pread", size, TARGETS.get(size, ""))
                if "order" in only:
                    table(f"{what}, a fold in order, cold", [work, "sequential", folder, size,
                          batch, max(reads, batch), args.rounds], "pread", size)
                if "warm" not in only:
                    continue
                measure.warm_in_order(shards)
                table(f"{what}, bare ways, warm", [ways, "warm", "pread,map,probe+direct", size,
                      batch, max(warm_reads, batch), args.rounds, *shards], "map", size)
                table(f"{what}, a fold, warm", [work, "warm", folder, size, batch,
                      max(warm_reads, batch), args.rounds], "map", size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
