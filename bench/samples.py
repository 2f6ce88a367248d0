#!/usr/bin/env python3
"""Samples from shards without an index: tarn's stream reader compared with WebDataset's, from a
plain and a gzip-compressed shard of {1 KB, 2 B} samples, every byte in memory in both.

  samples.py [--build DIR] [--samples N]

DIR is a build folder with libtarn.so (default build). Needs the .venv that scripts/setup.sh creates for the tests.
Figures are medians of five; contestants run alternately.
"""
import argparse
import functools
import gzip
import io
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

from measure import in_turns, medians, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"
ROUNDS = 5

THEIRS = """
import sys, webdataset
n = sum(1 for _ in webdataset.WebDataset(sys.argv[1], shardshuffle=False))
assert n == int(sys.argv[2]), n
"""

OURS = r"""
#include <stdlib.h>
#include <tarn/tarn.h>
int main(int argc, char **argv)
{
    tarn_samples *in;
    tarn_samples_item item;
    long n = 0;
    const char *url = argv[1];
    if (argc < 3 || tarn_samples_open(&url, 1, NULL, &in, NULL) != TARN_OK) return 1;
    tarn_status status;
    while ((status = tarn_samples_next(in, &item, NULL)) == TARN_OK)
        n++;
    tarn_samples_close(in);
    return status != TARN_END || n != atol(argv[2]);
}
"""


def make_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(samples):
            for field, data in (("bin", b"%08d" % i * 128), ("cls", b"%d\n" % (i % 10))):
                info = tarfile.TarInfo(f"{i:08}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def race(contestants):
    calls = {name: functools.partial(run, argv) for name, argv in contestants.items()}
    return medians(in_turns(calls, ROUNDS, untimed=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--samples", type=int, default=50_000)
    args = parser.parse_args()
    build = args.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "ours.c").write_text(OURS)
        subprocess.run(["cc", "-O2", folder / "ours.c", "-o", folder / "ours", f"-I{ROOT}/include",
                        f"-I{build}/include", f"-L{build}", "-ltarn", f"-Wl,-rpath,{build}"], check=True)
        plain, packed = folder / "x.tar", folder / "x.tar.gz"
        make_shard(plain, args.samples)
        with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        for path, title in ((plain, "plain file"), (f"file:{plain}", "plain stream"), (packed, "gzip")):
            theirs = plain if title == "plain stream" else path
            times = race({"webdataset": [PYTHON, "-c", THEIRS, theirs, args.samples],
                          "tarn": [folder / "ours", path, args.samples]})
            for who, seconds in times.items():
                print(f"{title:13} {who:11} {args.samples / seconds:10.0f} samples/s "
                      f"{times['webdataset'] / seconds:6.1f} x")


main()
