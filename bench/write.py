#!/usr/bin/env python3
"""Compares writing with WebDataset, GNU tar and the bare disk.

  small  200,000 samples of 2 bytes and 1 KB from memory into a fold, index and sums included,
         compared with WebDataset's ShardWriter (integer mtime, the faster of its settings)
  large  20,000 samples of 91 KB, durable, compared with 8 MB direct writes of as many bytes
  pack   tarn pack of a folder of 100,000 small files, compared with GNU tar cf of the same folder

Contestants take turns and medians count; an untimed pass comes before each timed one, because
memory that the host took back is slow when first touched again. Only the ratios are meaningful.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys

from make_data import DATA
from measure import Contestant, Report, take_turns

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
WEBDATASET = """
import os, sys, webdataset as wds
folder, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(folder)
noise = os.urandom(4 << 20)
with wds.ShardWriter(folder + "/train_%04d.tar", verbose=0, mtime=0, encoder=False) as out:
    for i in range(count):
        at = i * size % (len(noise) - size)
        out.write({"__key__": f"s{i:09d}", "bin": noise[at:at + size], "cls": b"%02d" % (i % 100)})
"""


def compile_writer(build):
    program = DATA / "write_fold"
    subprocess.run(["cc", "-O2", f"-I{ROOT}/include", "-o", program, HERE / "write_fold.c",
                    f"-I{build}/include", f"-L{build}", "-ltarn", f"-Wl,-rpath,{build}"], check=True)
    return program


def gone(path):
    def remove():
        shutil.rmtree(path, ignore_errors=True)
        pathlib.Path(path).unlink(missing_ok=True) if not path.is_dir() else None
    return remove


def contestant(name, argv, out, **more):
    return Contestant(name, lambda: [argv], gone(out), **more)


def small(args, report):
    count = int(200_000 * args.scale)
    writer, out = compile_writer(args.build), DATA / "written"
    venv = ROOT / ".venv/bin/python"
    list_ = [contestant("WebDataset ShardWriter", [venv, "-c", WEBDATASET, out, count, 1024], out,
                        slow=True),
             contestant("tarn, not synced", [writer, out, count, 1024, "unsynced"], out,
                        target=">= 80x"),
             contestant("tarn, durable", [writer, out, count, 1024, "durable"], out,
                        target=">= 45x")]
    take_turns(list_, args.rounds)
    report.title(f"write {count:,} samples of 2 B and 1 KB")
    report.table("write small", "memory", list_, count, "samples/s", "WebDataset ShardWriter")
    gone(out)()


def large(args, report):
    count = int(20_000 * args.scale)
    writer, out = compile_writer(args.build), DATA / "written"
    blocks = count * (91 * 1024 + 2048) // (8 << 20)
    list_ = [contestant("dd, direct 8 MB", ["dd", "if=/dev/zero", f"of={out}", "bs=8M",
                                            f"count={blocks}", "oflag=direct",
                                            "conv=fdatasync", "status=none"], out),
             contestant("tarn, durable", [writer, out, count, 91 * 1024, "durable"], out,
                        target=">= 0.85x")]
    take_turns(list_, args.rounds)
    report.title(f"write {count:,} samples of 91 KB, durable")
    report.table("write large", "memory", list_, blocks * (8 << 20), "B/s", "dd, direct 8 MB")
    gone(out)()


def make_files(count):
    folder = DATA / f"files_{count}"
    if not folder.exists():
        rng = random.Random(1)
        part = DATA / "files.part"
        shutil.rmtree(part, ignore_errors=True)
        for number in range(count):
            if number % 1000 == 0:
                place = part / f"{number // 1000:04d}"
                place.mkdir(parents=True)
            (place / f"f{number:07d}.txt").write_bytes(rng.randbytes(1024))
        part.rename(folder)
    return folder


def pack(args, report):
    count = int(100_000 * args.scale)
    folder, tar, out = make_files(count), DATA / "files.tar", DATA / "packed"
    list_ = [contestant("GNU tar cf", ["tar", "cf", tar, "-C", folder, "."], tar)]
    for threads in (1, 2):
        list_.append(contestant(f"tarn pack -j {threads}",
                                [args.tarn, "pack", "-q", "-j", threads, folder, "-o", out], out,
                                target="> 1x"))
    list_.append(contestant("tarn pack -j 2 --no-sync", [args.tarn, "pack", "-q", "-j", 2,
                                                         "--no-sync", folder, "-o", out], out))
    take_turns(list_, args.rounds)
    report.title(f"a folder of {count:,} files of 1 KB, index and sums included")
    report.table("pack", "files", list_, count, "files/s", "GNU tar cf")
    for path in (tar, out):
        gone(path)()


BENCHES = {"small": small, "large": large, "pack": pack}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=BENCHES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.tarn = args.build / "tarn"
    if not args.tarn.exists():
        raise SystemExit(f"{args.tarn} does not exist: build it first, with make")
    DATA.mkdir(exist_ok=True)
    report = Report()
    for name in args.only or BENCHES:
        BENCHES[name](args, report)


if __name__ == "__main__":
    sys.exit(main())
