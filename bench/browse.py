#!/usr/bin/env python3
"""Measures tarn browse: the first page of a large fold, a page of thumbnails, memory, and when and at.

usage: bench/browse.py [--samples N] [--tarn PATH]

The large fold has N samples of 1 byte. Next to each figure is that of a reference in the same run: opening
the fold with tarn ls, decoding the same JPEGs with Pillow, and finding a sample by replaying the epoch.
"""
import argparse
import concurrent.futures
import http.client
import io
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
THUMBS, SIDE = 60, 192


def make_large(folder, samples, shards=100):
    """Shards of tiny samples."""
    each = samples // shards
    block = bytearray()
    info = tarfile.TarInfo()
    for i in range(each):
        info.name, info.size = f"{i:07}.cls", 1
        block += info.tobuf(tarfile.USTAR_FORMAT) + b"7" + bytes(511)
    block += bytes(1024)
    for shard in range(shards):
        prefix = f"{shard:03}_".encode()
        with open(folder / f"train_{shard:04}.tar", "wb") as out:
            data = bytearray(block)
            for i in range(each):
                rename(data, i * 1024, prefix + data[i * 1024:i * 1024 + 11])
            out.write(data)


def rename(data, at, name):
    """Sets the name of a header, and its checksum."""
    data[at:at + len(name)] = name
    data[at + 148:at + 156] = b" " * 8
    data[at + 148:at + 156] = b"%06o\0 " % sum(data[at:at + 512])


def make_pictures(folder, count):
    """JPEGs of about 91 KB."""
    import PIL.Image
    draw = random.Random(1)
    sizes = []
    with tarfile.open(folder / "train_0.tar", "w") as tar:
        for i in range(count):
            small = PIL.Image.frombytes("RGB", (70, 52), draw.randbytes(70 * 52 * 3))
            out = io.BytesIO()
            small.resize((500, 375), PIL.Image.BICUBIC).save(out, "JPEG", quality=96)
            data = out.getvalue()
            sizes.append(len(data))
            info = tarfile.TarInfo(f"p{i:04}.jpg")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return sum(sizes) / len(sizes)


class Server:
    def __init__(self, tarn, path):
        self.began = time.perf_counter()
        self.process = subprocess.Popen([tarn, "browse", "--no-open", str(path)], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        url = urllib.parse.urlsplit(self.process.stdout.readline().strip())
        self.port, self.base = url.port, url.path

    def get(self, path, connection=None):
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", self.base + path)
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, (path, data)
        return data

    def memory(self):
        """(peak resident bytes, of which not mapped files)."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        found = dict(line.split(":", 1) for line in status.splitlines())
        return tuple(int(found[name].split()[0]) * 1024 for name in ("VmHWM", "RssAnon"))

    def close(self):
        self.process.terminate()
        self.process.wait()


def timed(function, times=5):
    best = 1e9
    for _ in range(times):
        began = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - began)
    return best


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True).stdout


def large(tarn, folder, samples):
    seconds = []
    for _ in range(3):
        server = Server(tarn, folder)
        for path in ("", "browse.js", "browse.css", "info", "page?count=60"):
            server.get(path)
        seconds.append(time.perf_counter() - server.began)
        first_memory = server.memory()
        began = time.perf_counter()
        server.get("page?count=60&order=shuffle&seed=7&from=%d" % (samples // 2))
        shuffled = time.perf_counter() - began
        began = time.perf_counter()
        server.get("stats?what=size&field=cls")
        sizes = time.perf_counter() - began
        peak = server.memory()
        server.close()
    listed = timed(lambda: run(tarn, "ls", "-1", "--samples", "050_0000000", folder), 3)
    print(f"first page of {samples:,} samples, from the start of the command: {min(seconds):.3f} s "
          f"(tarn ls of one sample: {listed:.3f} s)")
    print(f"a page from the middle of its shuffle: {shuffled * 1000:.1f} ms; histogram of all sizes: {sizes:.2f} s")
    print(f"memory: {first_memory[0] / 1e6:.0f} MB after the first page, {peak[0] / 1e6:.0f} MB at most after the histogram, "
          f"of which {peak[1] / 1e6:.0f} MB are not mapped files")


def schedules(tarn, folder, samples):
    sys.path.insert(0, str(pathlib.Path(tarn).parent / "python"))
    import numpy
    import tarn as package
    ds = package.open(folder, fields=["cls"]).shuffle(7)
    key = ds.keys([samples // 3])[0]
    assert ds.when(key, 64, world_size=8)
    when = timed(lambda: ds.when(key, 64, world_size=8))
    at = timed(lambda: ds.at(1240, 64, rank=3, world_size=8))
    order = package.Order(samples, kind="shuffle", seed=7)
    number = package.open(folder).lookup([key])[0]
    replay = timed(lambda: numpy.flatnonzero(numpy.asarray(order.fill(0, samples)) == number), 2)
    command = timed(lambda: run(tarn, "when", folder, key, "--seed", 7, "--rank", "0/8", "--batch", 64))
    empty = timed(lambda: run(tarn, "--version"))
    print(f"when: {when * 1000:.3f} ms, at: {at * 1000:.3f} ms in Python; replaying the epoch: {replay * 1000:.0f} ms; "
          f"tarn when as a command: {command * 1000:.1f} ms (tarn --version: {empty * 1000:.1f} ms)")


def thumbnails(tarn, folder, mean):
    import PIL.Image
    server = Server(tarn, folder)
    server.get("page?count=60")

    def worker(part):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        return [server.get(f"thumb?i={i}&field=jpg&side={SIDE}", connection) for i in range(part, THUMBS, 6)]

    def page():
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            return list(pool.map(worker, range(6)))

    def pillow():
        with tarfile.open(folder / "train_0.tar") as tar:
            for member in tar:
                image = PIL.Image.open(tar.extractfile(member))
                image.thumbnail((SIDE, SIDE))
                image.save(io.BytesIO(), "JPEG", quality=82)

    ours, theirs = timed(page), timed(pillow)
    print(f"{THUMBS} thumbnails of JPEGs of {mean / 1000:.0f} KB on {len(os.sched_getaffinity(0))} cores: {ours:.3f} s "
          f"(Pillow, one thread, no server: {theirs:.3f} s), {server.memory()[0] / 1e6:.0f} MB")
    server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--tarn", default=str(ROOT / "build/tarn"))
    parser.add_argument("--folder", help="where the large fold is kept for another run")
    arguments = parser.parse_args()
    tarn = os.path.abspath(arguments.tarn)
    with tempfile.TemporaryDirectory() as name:
        fold, pictures = pathlib.Path(arguments.folder or name) / "large", pathlib.Path(name) / "pictures"
        pictures.mkdir()
        mean = make_pictures(pictures, THUMBS)
        run(tarn, "index", "-q", pictures)
        if not fold.exists():
            fold.mkdir(parents=True)
            make_large(fold, arguments.samples)
            run(tarn, "index", "-q", fold)
        large(tarn, fold, arguments.samples)
        schedules(tarn, fold, arguments.samples)
        thumbnails(tarn, pictures, mean)


if __name__ == "__main__":
    main()
