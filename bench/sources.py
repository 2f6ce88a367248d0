#!/usr/bin/env python3
"""The cost of sources: unpacking, compared with the formats' own programs; reading over HTTP
    from a loopback nginx, compared with curl; and the start with libcurl loaded late or linked.

  sources.py [--build DIR] [--only filters|http|start] [--megabytes N]

DIR is a build folder with libtarn.so (default build). Figures are medians of five; contestants run alternately.
"""
import argparse
import functools
import pathlib
import shutil
import subprocess
import sys
import tempfile

from measure import in_turns, medians, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 5


def compile_c(out, source, *flags):
    subprocess.run(["cc", "-O2", str(source), "-o", str(out), *map(str, flags)], check=True)
    return out


def race(contestants):
    """Median seconds of each contestant; they run alternately after one untimed round."""
    calls = {name: functools.partial(run, argv) for name, argv in contestants.items()}
    return medians(in_turns(calls, ROUNDS, untimed=1))


def show(title, size, result):
    first = next(iter(result.values()))
    for name, seconds in result.items():
        rate = f"{size / seconds / 1e6:8.0f} MB/s" if size else f"{seconds * 1e3:8.2f} ms"
        print(f"{title:8} {name:12} {rate}   {seconds / first:5.2f} x the time of the first")


def sample(size):
    """Sources and programs, with data that compresses about as well as training text."""
    files = sorted((ROOT / "src").rglob("*.c")) + [pathlib.Path(sys.executable).resolve()]
    data = b"".join(f.read_bytes() for f in files)
    return (data * (size // len(data) + 1))[:size]


ZLIB = """
#include <stdio.h>
#include <zlib.h>
int main(int argc, char **argv)
{
    static char buf[256 << 10];
    gzFile f = argc == 2 ? gzopen(argv[1], "rb") : NULL;
    int n;
    if (!f || gzbuffer(f, sizeof buf) != 0) return 1;
    while ((n = gzread(f, buf, sizeof buf)) > 0)
        if (fwrite(buf, 1, n, stdout) != (size_t)n) return 1;
    return gzclose(f) != Z_OK;
}
"""


def filters(folder, urlcat, size):
    data, zlib = folder / "data", folder / "zlib.c"
    data.write_bytes(sample(size))
    zlib.write_text(ZLIB)
    more = {"gz": {"zlib": [compile_c(folder / "zlib", zlib, "-lz"), folder / "data.gz"]}}
    for suffix, program in (("gz", "gzip"), ("bz2", "bzip2"), ("xz", "xz"), ("zst", "zstd")):
        packed = folder / f"data.{suffix}"
        with open(packed, "wb") as f:
            subprocess.run([program, "-c", str(data)], stdout=f, check=True)
        show(suffix, size, race({program: [program, "-dc", packed],
                                 "tarn": [urlcat, "read", packed], **more.get(suffix, {})}))


def http(folder, urlcat, size):
    sys.path.insert(0, str(ROOT / "tests/interop"))
    from url_support import Nginx  # pylint: disable=import-outside-toplevel
    with Nginx() as nginx:
        (nginx.www / "data").write_bytes(sample(size))
        url = nginx.url + "/data"
        contestants = {"tarn": [urlcat, "read", url]}
        if shutil.which("curl"):
            contestants = {"curl": ["curl", "-s", "--noproxy", "*", "-o", "/dev/null", url],
                           **contestants}
        show("http", size, race(contestants))


def start(folder, urlcat, _):
    linked = folder / "linked.c"
    linked.write_text("#include <curl/curl.h>\nint main(void) { return !curl_version(); }\n")
    many = "for i in $(seq 100); do {} || true; done"
    late = race({"tarn": ["sh", "-c", many.format(f"{urlcat} expand x")],
                 "linked": ["sh", "-c", many.format(compile_c(folder / "linked", linked, "-lcurl"))]})
    show("start", 0, {name: seconds / 100 for name, seconds in late.items()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", choices=("filters", "http", "start"))
    parser.add_argument("--megabytes", type=int, default=200)
    args = parser.parse_args()
    build = args.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        urlcat = compile_c(folder / "urlcat", ROOT / "tests/tools/urlcat.c", f"-I{ROOT}/include",
                           f"-I{build}/include", f"-L{build}", "-ltarn", f"-Wl,-rpath,{build}")
        for bench in (filters, http, start):
            if args.only in (None, bench.__name__):
                bench(folder, urlcat, args.megabytes << 20)


main()
