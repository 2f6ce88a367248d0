#!/usr/bin/env python3
"""The command with streams: from a real HTTP server, and in constant memory."""
import gzip
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from url_support import Nginx, Tap, environment, expect

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.environ.get("TARN", str(ROOT / "build-plain/tarn"))


class Result:
    """Runs the command; its exit status, output, and peak resident size in MiB."""

    def __init__(self, *args, stdin=None):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen([TARN, *map(str, args)], stdin=stdin or subprocess.DEVNULL,
                                     stdout=out, stderr=err, env=environment())
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = self.code = os.waitstatus_to_exitcode(status)
            self.peak = usage.ru_maxrss / 1024
            out.seek(0), err.seek(0)
            self.out, self.err = out.read(), err.read().decode("utf-8", "replace")

    def __repr__(self):
        return f"exit {self.code}, {self.out[:300]!r}, {self.err[:500]!r}"


def archive(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def small():
    return archive([(f"{i:04}.{field}", b"%d" % i * 100) for i in range(300) for field in ("cls", "txt")])


def over_http(server, folder):
    plain = small()
    (server.www / "x.tar").write_bytes(plain)
    (server.www / "x.tar.gz").write_bytes(gzip.compress(plain))
    local = folder / "x.tar"
    local.write_bytes(plain)

    def every_command_gives_what_the_file_gives():
        want = Result("ls", local).out
        for url in (f"{server.url}/x.tar", f"{server.url}/x.tar.gz", f"{server.url}/moved/x.tar"):
            got = Result("ls", url)
            expect(got.code == 0 and got.out == want, got)
            got = Result("get", url, "0042", "txt")
            expect(got.code == 0 and got.out == b"42" * 100, got)
            got = Result("verify", url)
            expect(got.code == 0 and b"600 members" in got.out, got)
            got = Result("info", "--json", url)
            expect(got.code == 0 and b'"samples": 300' in got.out, got)
            out = folder / f"out{len(url)}"
            got = Result("extract", "--samples", "0007", url, "-o", out)
            expect(got.code == 0 and sorted(os.listdir(out)) == ["0007.cls", "0007.txt"], got)

    def an_index_of_a_stream_is_that_of_the_file():
        for url in (f"{server.url}/x.tar", f"{server.url}/x.tar.gz"):
            got = Result("index", "--sums", url, "-o", folder / "x.taridx")
            expect(got.code == 0, got)
            got = Result("verify", folder)
            expect(got.code == 0 and b"600 payloads checked" in got.out, got)
        streamed = (folder / "x.taridx").read_bytes()
        Result("index", folder)
        expect((folder / "x.taridx").read_bytes() == streamed, "another index")

    def several_by_braces():
        (server.www / "y-0.tar").write_bytes(plain)
        (server.www / "y-1.tar").write_bytes(plain)
        got = Result("ls", "-1", server.url + "/y-{0..1}.tar")
        expect(got.code == 0 and got.out.count(b"\n") == 600, got)

    def missing_data_is_an_error():
        got = Result("ls", f"{server.url}/nothing.tar")
        expect(got.code == 1 and "404" in got.err, got)

    return [every_command_gives_what_the_file_gives, an_index_of_a_stream_is_that_of_the_file,
            several_by_braces, missing_data_is_an_error]


def in_constant_memory(folder):
    little, big = folder / "little.tar.gz", folder / "big.tar.gz"
    little.write_bytes(gzip.compress(small()))
    with tarfile.open(big, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as tar:
        for i in range(150):
            info = tarfile.TarInfo(f"{i}.bin")
            info.size = 2_000_000
            tar.addfile(info, io.BytesIO(bytes(info.size)))

    def memory_does_not_grow_with_the_archive():
        for command in (["ls"], ["info"], ["verify"], ["get"]):
            more = ["149", "bin"] if command == ["get"] else []
            floor = Result("ls", little).peak
            got = Result(*command, big, *more)
            expect(got.code == 0, got)
            expect(got.peak < floor + 32, command, got.peak, floor)  # the archive has 300 MB
            with open(big, "rb") as stdin:
                got = Result(*command, "-", *more, stdin=stdin)
                expect(got.code == 0 and got.peak < floor + 32, command, got.peak, floor)

    return [memory_does_not_grow_with_the_archive]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        with Nginx() as server:
            (pathlib.Path(folder) / "http").mkdir()
            tap.run(over_http(server, pathlib.Path(folder) / "http"))
        tap.run(in_constant_memory(pathlib.Path(folder)))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
