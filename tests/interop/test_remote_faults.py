#!/usr/bin/env python3
"""Remote datasets through a proxy that misbehaves, without and with a cache, and with caches that cannot be used.

A fault that passes changes nothing. One that stays is an error of the samples that it concerns, which names URL and range;
once it is over, the same dataset reads what it should, so nothing wrong was kept.
"""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from remote_python import CHILD, batches, command, make_fold, open_raw, refused, same
from fault_proxy import Fault, FaultProxy
from remote_support import WHEN
from url_support import HANG, Nginx, Tap, expect

import tarn

SHARD = "train-0000.tar"
RANGE = re.compile(r"\(bytes \d+-\d+ were requested\)")
SAMPLES = 12  # of 100 KB, in each of two shards

PASSING = [Fault("cut", after=1000), Fault("reset", after=1000), Fault("hangup"), Fault("busy"), Fault("busy", status=429),
           Fault("status", status=500), Fault("status", status=502), Fault("status", status=504),
           Fault("chunked", after=1000), Fault("flip", times=1)]

# These are requested again for seconds, and are not tried in a loader as well, unlike hangup and chunked.
PATIENT = {"cut", "reset", "busy", "status"}

# What stays, and what its error says besides URL and range.
STAYING = [
    (Fault("cut", after=1000), "transfer closed"), (Fault("reset", after=1000), ""), (Fault("hangup"), "Empty reply"),
    (Fault("busy"), "503 (SlowDown"), (Fault("status", status=500), "status 500"),
    (Fault("status", status=400, code="ExpiredToken"), "ExpiredToken"),
    (Fault("status", status=403, code="RequestTimeTooSkewed"), "RequestTimeTooSkewed"),
    (Fault("status", status=404), "no such object"), (Fault("status", status=412), "no longer has the ETag"),
    (Fault("status", status=416), "the object has no such bytes"), (Fault("whole"), "does not support range requests"),
    (Fault("shifted"), "expected "), (Fault("shorter"), "expected "), (Fault("unranged"), "without a valid Content-Range"),
    (Fault("total"), "expected "), (Fault("etag"), "another"), (Fault("date"), "2001"),
    (Fault("swap", to="/birds/train-0001.tar"), "the object changed"), (Fault("short"), "does not match its range"),
    (Fault("long"), "does not match its range"), (Fault("extra"), "more bytes than its range"),
    (Fault("gzip"), "Content-Encoding: gzip"), (Fault("garbage"), "HTTP"), (Fault("headers"), "more than 262144 bytes"),
    (Fault("redirect", to=f"/again/{SHARD}"), "more than 10 redirects"), (Fault("redirect", to="file:///etc/passwd"), "redirect"),
    (Fault("chunked", after=1000), "before all bytes had arrived"),
]


def each(cases, check):
    """All at once: most of the time is spent on waiting."""
    both = [(case, cached) for case in cases for cached in (False, True)]
    with concurrent.futures.ThreadPoolExecutor(len(both)) as pool:
        problems = [problem for problem in pool.map(lambda case: check(*case), both) if problem]
    expect(not problems, *problems)


class Far:
    """The fold through a proxy; each of them has its own cache, or none."""

    def __init__(self, web, folder, cached, **more):
        self.proxy = FaultProxy(web.port, **more)
        self.cache = tempfile.TemporaryDirectory() if cached else None
        self.index = folder / "train.taridx"

    def __enter__(self):
        self.proxy.__enter__()
        self.data = open_raw(f"{self.proxy.url}/birds:train", index=self.index, cache=self.cache.name if self.cache else "")
        self.data[1], self.data[SAMPLES]  # now the versions of both shards are known
        return self

    def __exit__(self, *why):
        del self.data
        self.proxy.__exit__(*why)
        if self.cache:
            self.cache.cleanup()


def fault_checks(web, folder):
    near = open_raw(folder)
    first = near.keys()[0]

    def passing():
        """a fault that passes is noticed by nobody"""
        def check(fault, cached):
            with Far(web, folder, cached) as far:
                fault = Fault(**{**vars(fault), "times": fault.times or 2})
                far.proxy.plan(fault)
                same(far.data[0], near[0])
                return f"{fault} was not used" if fault.times else None
        each(PASSING, check)

    def staying():
        """a fault that stays is an error with URL and range, in a sample and in a loader, and then it is over"""
        def check(case, cached):
            fault, text = case
            fault = Fault(**{**vars(fault), "path": SHARD})
            with Far(web, folder, cached) as far:
                far.proxy.plan(fault)
                error = refused(tarn.Error, lambda: far.data[0])
                if not (text in error and f"{far.proxy.url}/birds/{SHARD}" in error and RANGE.search(error)):
                    return f"{fault}: {error}"
                same(far.data[SAMPLES + 1], near[SAMPLES + 1])
                if fault.name not in PATIENT:
                    with far.data[[0, SAMPLES + 1]].loader(2, threads=1, epochs=1, on_error="skip") as loader:
                        found = [key for batch in loader for key in batch["__key__"]]
                        if first in found or not RANGE.search(loader.skipped()[0].reason):
                            return f"{fault}: the loader has {found}, {loader.skipped()}"
                far.proxy.plan()
                same(far.data[0], near[0])
                for one, other in zip(batches(far.data, 5), batches(near, 5), strict=True):
                    same(one, other)
            return None
        each(STAYING, check)

    def damaged():
        """bytes that are damaged each time are an error of their samples, and are not kept"""
        for cached in (False, True):
            with Far(web, folder, cached) as far:
                far.proxy.plan(Fault("flip", path=SHARD))
                text = refused(tarn.ChecksumError, lambda: [far.data[i] for i in range(SAMPLES)])
                expect(SHARD in text and "offset" in text, text)
                far.proxy.plan()
                for one, other in zip(batches(far.data, 5), batches(near, 5), strict=True):
                    same(one, other)

    def mixture():
        """epochs arrive through random faults"""
        faults = [Fault(f.name, chance=0.05, after=f.after, status=f.status) for f in PASSING]
        for cached in (False, True):
            with Far(web, folder, cached, seed=3) as far:
                far.proxy.plan(*faults)
                for seed in range(3):
                    a, b = (one.shuffle(seed=seed) for one in (far.data, near))
                    for one, other in zip(batches(a, 5), batches(b, 5), strict=True):
                        same(one, other)

    return [passing, staying, damaged, mixture]


READER = """
import sys, tarn
url, index, cache, folder = sys.argv[1:]
far, near = (tarn.open(one, decode="bytes", **more) for one, more in ((url, {"cache": cache, "index": index}), (folder, {})))
with far.loader(3, threads=2, epochs=1) as one, near.loader(3, epochs=1) as other:
    for a, b in zip(one, other, strict=True):
        assert all(list(a[name]) == list(b[name]) for name in b)
"""


def cache_checks(web, folder):
    near, index = open_raw(folder), folder / "train.taridx"
    size = sum(path.stat().st_size for path in folder.glob("*.tar"))

    def killed():
        """of processes that share a cache, some are killed while they fetch; the others read on"""
        with FaultProxy(web.port, latency=0.01) as proxy, tempfile.TemporaryDirectory() as cache:
            def start():
                return subprocess.Popen([sys.executable, "-c", READER, f"{proxy.url}/birds:train", index, cache, folder],
                                        env=CHILD, stderr=subprocess.PIPE, text=True)

            readers = [start() for _ in range(4)]
            for reader, after in zip(readers, (3, 8, 12)):
                while sum(path.endswith(".tar") for _, path, _ in proxy.requests) < after and reader.poll() is None:
                    readers[-1].poll()
                reader.send_signal(signal.SIGKILL)
            errors = [reader.communicate(timeout=HANG)[1] for reader in readers]
            expect(readers[-1].returncode == 0, errors[-1])
            expect(proxy.sent < 3 * size, proxy.sent, size)
            proxy.plan()
            far = open_raw(f"{proxy.url}/birds:train", index=index, cache=cache)
            for one, other in zip(batches(far, 5), batches(near, 5), strict=True):
                same(one, other)
            wanted = [head.get("Range") for _, path, head in proxy.requests if path.endswith(".tar")]
            expect(wanted and set(wanted) == {"bytes=0-0"}, wanted)

    def unusable():
        """a folder that cannot be a cache is an error that names it, before anything is fetched"""
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch) / "file"
            file.write_bytes(b"")
            for cache in (file, file / "below"):
                text = refused(tarn.Error, lambda cache=cache: open_raw(f"{web.url}/birds:train", index=index, cache=cache)[0])
                expect(str(cache) in text or str(file) in text, text)

    def other_version():
        """a cache of another version of tarn is left as it is"""
        with tempfile.TemporaryDirectory() as cache:
            other = pathlib.Path(cache) / "tarn-cache-2" / "0123456789abcdef"
            other.mkdir(parents=True)
            (other / "x.tar").write_bytes(b"of a newer version")
            before = os.stat(other / "x.tar")
            for _ in range(2):
                far = open_raw(f"{web.url}/birds:train", index=index, cache=cache, cache_limit=size // 2)
                for one, other_one in zip(batches(far, 5), batches(near, 5), strict=True):
                    same(one, other_one)
            after = os.stat(other / "x.tar")
            expect((before.st_ino, before.st_mtime_ns, before.st_size) == (after.st_ino, after.st_mtime_ns, after.st_size), after)

    return [killed, unusable, other_version]


def main():
    tap = Tap()
    with Nginx(keep=100_000) as web:
        folder = make_fold(web.www / "birds", shards=2, samples=SAMPLES, size=100_000)
        os.utime(folder / "train-0001.tar", (WHEN + 1, WHEN + 1))  # nginx makes ETags of times and sizes
        expect(command("index", folder, "--sums").code == 0, "index")
        tap.run(fault_checks(web, folder))
        tap.run(cache_checks(web, folder))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
