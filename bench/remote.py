#!/usr/bin/env python3
"""Ranges of a remote object: the fetcher, compared with a plain loop of libcurl-multi over the same ranges.

  remote.py [--build DIR] [--rounds N] [--quick]

The servers are nginx on this machine: plain, with TLS, and with HTTP/2. The slow line is the proxy of
tests/interop/fault_proxy.py, which forwards bytes with 20 ms of latency and at most 100 MB/s. Both take turns in one
process (bench/remote_work.c), with open connections, as many in the loop as the fetcher uses, and receive in pieces of
64 KiB. Medians count.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/interop"))
from url_support import Nginx, environment  # pylint: disable=wrong-import-position

SIZE = 256 << 20
SMALL, LARGE = 100 << 10, 8 << 20
AIMS = "aims: rate >= 0.9, CPU time <= 1.3"


def build(scratch, lib):
    program = scratch / "remote_work"
    libraries = ["z", "lzma", "zstd", "jpeg", "webp", "brotlienc", "brotlidec", "lz4", "nettle", "bz2", "isal", "dl", "m",
                 "pthread", "curl"]
    archives = [lib / "libtarn_inside.a", *sorted(lib.glob("third_party/**/*.a")), *sorted(lib.glob("src/**/*.a"))]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}/include", f"-I{ROOT}/src", f"-I{lib}/include",
                    ROOT / "bench/remote_work.c", "-o", program, *archives, *(f"-l{name}" for name in libraries)],
                   check=True)
    return program


def compare(title, program, url, size, count, order, rounds, env, connections=0):
    argv = [program, url, SIZE, size, count, order, connections, rounds]
    done = subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, text=True, env=env)
    rows = {name: list(map(float, rest)) for name, *rest in map(str.split, done.stdout.splitlines())}
    (rate, cpu, limit), (plain_rate, plain_cpu, _) = rows["fetcher"], rows["plain"]
    print(f"{title:<34}{measure.with_unit(rate):>9}/s {measure.with_unit(rate * size):>7}B/s"
          f"{cpu:9.1f} µs CPU {limit:4.0f} at once   rate {rate / plain_rate:.2f} x   CPU {cpu / plain_cpu:.2f} x",
          flush=True)


def slow_line(port):
    """The proxy, as a process; its port."""
    child = subprocess.Popen([sys.executable, str(ROOT / "tests/interop/fault_proxy.py"), "--to", str(port), "--raw",
                              "--latency", "0.02", "--bandwidth", "100e6"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return child, int(child.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-plain")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    scale = 10 if args.quick else 1
    with tempfile.TemporaryDirectory() as scratch, Nginx(keep=1_000_000) as nginx:
        program = build(pathlib.Path(scratch), args.build.resolve())
        with open(nginx.www / "x", "wb") as f:
            for _ in range(SIZE >> 20):
                f.write(os.urandom(1 << 20))
        env = environment({"CURL_CA_BUNDLE": str(nginx.root / "cert.pem")})
        print(f"{AIMS} of the plain loop")
        for name, scheme, port in (("http", "http", nginx.port), ("https", "https", nginx.tls_port),
                                   ("HTTP/2", "https", nginx.http2_port)):
            url = f"{scheme}://localhost:{port}/x"
            compare(f"{name}, 100 KiB, random", program, url, SMALL, 2000 // scale, "random", args.rounds, env)
            compare(f"{name}, 100 KiB, one by one", program, url, SMALL, 500 // scale, "random", args.rounds, env, 1)
            compare(f"{name}, 8 MiB, in order", program, url, LARGE, 32 // scale, "order", args.rounds, env)
        child, port = slow_line(nginx.port)
        with child:
            url = f"http://localhost:{port}/x"
            compare("20 ms, 100 KiB, random", program, url, SMALL, 2000 // scale, "random", args.rounds, env)
            compare("20 ms, 100 KiB, one by one", program, url, SMALL, 100 // scale, "random", args.rounds, env, 1)
            compare("20 ms, 8 MiB, in order", program, url, LARGE, 32 // scale, "order", args.rounds, env)
            child.stdin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
