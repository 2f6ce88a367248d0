#!/usr/bin/env python3
"""Remote datasets compared with the same files on disk: values, orders, loaders and states, with and
without a cache, from nginx, from S3 with checked signatures, and from a server that counts requests
and misbehaves."""
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading

from remote_python import CHILD, Store, batches, command, make_fold, open_raw, refused, same
from s3_strict import REGION, Strict
from url_support import HANG, Nginx, Tap, expect

import numpy as np
import tarn


def all_equal(far, near):
    """Every way of reading gives what the local fold gives."""
    expect(far.fields == near.fields and len(far) == len(near), far.fields)
    expect(far.keys() == near.keys(), "keys")
    for i in (0, len(near) - 1, len(near) // 2):
        same(far[i], near[i])
    same(far[near.keys()[3]], near[3])
    for one, other in zip(far, near, strict=True):
        same(one, other)
    for seed, size in ((1, 1), (2, 3), (3, 8), (4, 64)):
        a, b = far.shuffle(seed=seed), near.shuffle(seed=seed)
        for one, other in zip(batches(a, size), batches(b, size), strict=True):
            same(one, other)
        for one, other in zip(a, b, strict=True):
            same(one, other)


# --- The same as on disk -------------------------------------------------------------------


def with_nginx(web, folder):
    url = f"{web.url}/birds"

    def nginx_without_a_cache():
        """a fold on nginx reads as on disk, and nothing is kept"""
        all_equal(open_raw(f"{url}:train"), open_raw(folder))

    def nginx_with_a_cache():
        """cold, half cached and complete copies give the same"""
        with tempfile.TemporaryDirectory() as cache:
            near = open_raw(folder)
            batches(open_raw(f"{url}:train", cache=cache).shuffle(seed=9)[:len(near) // 2], 4)
            all_equal(open_raw(f"{url}:train", cache=cache), near)
            all_equal(open_raw(f"{url}:train", cache=cache), near)

    def encrypted():
        """TLS with a certificate of our own"""
        os.environ["CURL_CA_BUNDLE"] = str(web.root / "cert.pem")
        try:
            same(open_raw(f"https://localhost:{web.tls_port}/birds:train")[5], open_raw(folder)[5])
        finally:
            del os.environ["CURL_CA_BUNDLE"]

    def nothing_kept():
        """with an empty text for a cache nothing is kept, also if TARN_CACHE is set"""
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TARN_CACHE"] = cache
            try:
                same(open_raw(f"{url}:train", cache="")[5], open_raw(folder)[5])
                expect(not os.listdir(cache), os.listdir(cache))
                same(open_raw(f"{url}:train")[5], open_raw(folder)[5])
                expect(os.listdir(cache), "TARN_CACHE is not used")
            finally:
                del os.environ["TARN_CACHE"]

    def local_index():
        """a local index is used instead of the one beside the shards"""
        (web.www / "bare").mkdir(exist_ok=True)
        for path in pathlib.Path(folder).glob("*.tar"):
            (web.www / "bare" / path.name).write_bytes(path.read_bytes())
        index = pathlib.Path(folder) / "train.taridx"
        far = open_raw(f"{web.url}/bare/train-{{0000..0002}}.tar", index=index)
        same(far[7], open_raw(folder)[7])
        refused(FileNotFoundError, lambda: open_raw(f"{web.url}/bare/train-{{0000..0002}}.tar"))

    def states_and_mixes():
        """states and fingerprints are those of the local copy, and mixes may have both"""
        near, far = open_raw(folder).shuffle(seed=5), open_raw(f"{url}:train").shuffle(seed=5)
        with near.loader(4, threads=1) as loader:
            parts = iter(loader)
            first = [dict(next(parts)) for _ in range(3)]
            state = loader.state_dict()
        with far.loader(4, threads=1) as loader:
            parts = iter(loader)
            for one in first:
                same(dict(next(parts)), one)
            expect(loader.state_dict() == state, "states differ")
            loader.load_state_dict(state)
            after = dict(next(iter(loader)))
        with near.loader(4, threads=1) as loader:
            loader.load_state_dict(state)
            same(after, dict(next(iter(loader))))
        mixed, plain = tarn.mix(far, near), tarn.mix(near, near)
        for one, other in zip(mixed, plain, strict=True):
            same(one, other)
        for one, other in zip(batches(mixed, 5), batches(plain, 5), strict=True):
            same(one, other)

    def pickles():
        """a pickle keeps the URL, and workers open it again"""
        with tempfile.TemporaryDirectory() as cache:
            far = open_raw(f"{url}:train", cache=cache).shuffle(seed=1)
            text = pickle.dumps(far)
            expect(url.encode() in text, text)
            same(pickle.loads(text)[2], far[2])
            expect(pickle.loads(text) == far, "another dataset")

    return [nginx_without_a_cache, nginx_with_a_cache, nothing_kept, encrypted, local_index, states_and_mixes, pickles]


def other_files(store):
    def arrays():
        """an array file is read like the same file on disk"""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            path = pathlib.Path(folder) / "x.gnz"
            tarn.gnz.save(path, a=np.arange(600).reshape(100, 6), b=np.arange(100.0))
            store.put_folder(folder, "/files/")
            for kept in (None, cache, cache):
                others_equal(f"{store.url}/files/x.gnz", path, kept)

    def records():
        """a record pack, as members and as records"""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            fold, path = make_fold(pathlib.Path(folder) / "fold"), pathlib.Path(folder) / "x.iac"
            done = command("convert", fold, path)
            expect(done.code == 0, done)
            store.objects["/files/x.iac"] = path.read_bytes()
            for kept in (None, cache, cache):
                others_equal(f"{store.url}/files/x.iac", path, kept)

    return [arrays, records]


def others_equal(url, path, cache):
    far, near = open_raw(url, cache=cache), open_raw(path)
    expect(far.fields == near.fields and far.keys() == near.keys(), far.fields)
    for one, other in zip(far, near, strict=True):
        same(one, other)
    with far.shuffle(seed=2).loader(8, threads=2, epochs=1) as a, \
            near.shuffle(seed=2).loader(8, threads=2, epochs=1) as b:
        for one, other in zip(a, b, strict=True):
            same(dict(one), dict(other))


# --- Requests ------------------------------------------------------------------------------


class Counted:
    """A fold in a store that counts requests."""

    def __init__(self, store, folder):
        self.store, self.folder, self.url = store, folder, f"{store.url}/birds:train"
        self.near = open_raw(folder)

    def shards(self):
        """The requests for shards since the last call."""
        return [one for one in self.store.taken() if one.path.endswith(".tar")]

    def bytes(self):
        ranges = [one.headers["Range"][6:].split("-") for one in self.shards()]
        return [(int(first), int(last) + 1) for first, last in ranges if (first, last) != ("0", "0")]


def counting(c):
    def one_request():
        """a sample with all its fields and its key is one request, and opening asks no shard"""
        far = open_raw(c.url)
        expect(not c.shards(), "a request for a shard at open")
        for i in (0, 7, 11):
            same(far[i], c.near[i])
            expect(len(c.shards()) == 1, "more than one request")

    def one_request_with_names():
        """the same for long names, whose headers have extended headers before them"""
        with tempfile.TemporaryDirectory() as folder:
            long = make_fold(folder, fold="l" * 120, shards=1)
            c.store.put_folder(long, "/long/")
            far, near = open_raw(f"{c.store.url}/long:{'l' * 120}"), open_raw(long)
            c.shards()
            for i in range(4):
                same(far[i], near[i])
                expect(len(c.shards()) == 1, "more than one request")

    def first_batch():
        """a batch asks for all its ranges at once: never for one after another"""
        waiting, most, lock = [0], [0], threading.Condition()
        everybody = 8

        def before(path):
            if not path.endswith(".tar"):
                return
            with lock:
                waiting[0] += 1
                most[0] = max(most[0], waiting[0])
                lock.notify_all()
                lock.wait_for(lambda: most[0] >= everybody, HANG)

        far = open_raw(c.url)
        c.store.before = before
        try:
            with far.shuffle(seed=3).loader(everybody * 2, threads=1) as loader:
                next(iter(loader))
        finally:
            c.store.before = None
        expect(most[0] >= everybody, most)

    def iteration():
        """iteration and keys() merge neighbours"""
        far = open_raw(c.url)
        c.shards()
        for one, other in zip(far, c.near, strict=True):
            same(one, other)
        expect(len(c.shards()) <= 2 * 3, "neighbours were not merged")
        expect(far.keys() == c.near.keys(), "keys")
        expect(len(c.shards()) <= 3, "neighbours were not merged")

    def once_with_a_cache():
        """with a cache every byte is fetched once, and the second epoch fetches nothing"""
        with tempfile.TemporaryDirectory() as cache:
            far = open_raw(c.url, cache=cache)
            c.shards()
            for epoch in range(2):
                expect(len(batches(far.shuffle(seed=epoch), 4)) == len(c.near) // 4, "batches")
            sizes = sum(path.stat().st_size for path in pathlib.Path(c.folder).glob("*.tar"))
            fetched = sum(end - first for first, end in c.bytes())
            expect(fetched <= sizes, fetched, sizes)
            again = open_raw(c.url, cache=cache)
            all_equal(again, c.near)
            expect(sum(end - first for first, end in c.bytes()) <= sizes - fetched, "fetched again")

    def processes():
        """eight processes with one cache fetch each byte once"""
        with tempfile.TemporaryDirectory() as cache:
            c.shards()
            code = ("import sys, tarn\n"
                    "d = tarn.open(sys.argv[1], decode='bytes', cache=sys.argv[2])\n"
                    "n = 0\n"
                    "with d.shuffle(seed=int(sys.argv[3])).loader(4, threads=1, epochs=1) as loader:\n"
                    "    for batch in loader: n += len(batch['jpg'])\n"
                    "print(n)\n")
            children = [subprocess.Popen([sys.executable, "-c", code, c.url, cache, str(seed)],
                                         env=CHILD,
                                         stdout=subprocess.PIPE, text=True) for seed in range(8)]
            for child in children:
                expect(child.communicate(timeout=HANG)[0].strip() == str(len(c.near)), "samples")
            sizes = sum(path.stat().st_size for path in pathlib.Path(c.folder).glob("*.tar"))
            fetched = sum(end - first for first, end in c.bytes())
            expect(fetched <= sizes, fetched, sizes)

    def half():
        """with room for half of the data, the second epoch has as many hits"""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            big = make_fold(folder, shards=4, samples=12, size=300_000)
            c.store.put_folder(big, "/big/")
            total = sum(path.stat().st_size for path in pathlib.Path(big).glob("*.tar"))
            far = open_raw(f"{c.store.url}/big:train", cache=cache, cache_limit=total // 2)
            c.shards()
            fetched = []
            for epoch in range(3):
                batches(far.shuffle(seed=epoch), 8)
                fetched.append(sum(end - first for first, end in c.bytes()))
            for later in fetched[1:]:
                expect(0.35 * total < later < 0.65 * total, fetched, total)

    return [one_request, one_request_with_names, first_batch, iteration, once_with_a_cache, processes, half]


# --- Faults --------------------------------------------------------------------------------


def spoiled(path):
    """The bytes of a shard with a change in each name and each payload."""
    data = bytearray(path.read_bytes())
    with tarfile.open(path) as archive:
        for member in archive:
            data[member.offset] ^= 1
            data[member.offset_data] ^= 1
    return bytes(data)


def rewrite(path, data):
    with open(path, "r+b") as file:
        file.write(data)


def copied(sample):
    """A sample whose views are bytes."""
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in sample.items()}


def failing(c):
    def replaced():
        """a shard that is replaced is TARN_ERR_STALE, and names the URL"""
        path = "/birds/train-0001.tar"
        before = c.store.objects[path]
        far = open_raw(c.url)
        same(far[4], c.near[4])
        c.store.objects[path] = bytes(len(before))
        try:
            text = refused(tarn.StaleError, lambda: far[5])
            expect("/birds/train-0001.tar" in text, text)
        finally:
            c.store.objects[path] = before

    def damaged():
        """a damaged member is fetched again, and then an error"""
        path = "/birds/train-0000.tar"
        good = c.store.objects[path]
        bad = bytearray(good)
        bad[600] ^= 1
        with tempfile.TemporaryDirectory() as cache:
            for folder in (None, cache):
                c.store.objects[path] = bytes(bad)
                try:
                    far = open_raw(c.url, cache=folder)
                    c.shards()
                    text = refused(tarn.ChecksumError, lambda: far[0])
                    expect("train-0000.tar" in text, text)
                    asked = [one for one in c.bytes() if one[0] <= 600 < one[1]]
                    expect(len(asked) == 2, asked)
                    same(far[2], c.near[2])
                    with far.loader(4, threads=1, epochs=1, on_error="skip") as loader:
                        keys = [key for batch in loader for key in batch["__key__"]]
                    expect(keys == c.near.keys()[1:], keys)
                    with far.loader(4, threads=1, epochs=1) as loader:
                        text = refused(tarn.ChecksumError, lambda: next(iter(loader)))
                    expect(c.near.keys()[0] in text, text)
                finally:
                    c.store.objects[path] = good

    def damaged_once():
        """bytes that were damaged on the way once do no harm"""
        path, good = "/birds/train-0002.tar", c.store.objects["/birds/train-0002.tar"]
        bad = bytearray(good)
        bad[600] ^= 1
        c.store.etags = False  # they would differ
        with tempfile.TemporaryDirectory() as cache:
            far = open_raw(c.url, cache=cache)
            far[11]
            asked = []

            def before(asked_path):
                if asked_path == path:
                    asked.append(1)
                    c.store.objects[path] = bytes(bad) if len(asked) == 1 else good

            c.store.before = before
            try:
                same(far[8], c.near[8])
            finally:
                c.store.before = None
                c.store.objects[path] = good
                c.store.etags = True
            expect(len(asked) == 2, asked)
            c.shards()
            same(far[8], c.near[8])
            expect(not c.bytes(), "the right bytes were not kept")

    def broken_copy():
        """a copy in the cache that another program damaged is repaired"""
        with tempfile.TemporaryDirectory() as cache:
            for sample in open_raw(c.url, cache=cache):
                pass
            copies = [path for path in pathlib.Path(cache).rglob("*.tar")]
            expect(len(copies) == 3, copies)
            for path in copies:
                data = bytearray(path.read_bytes())
                data[600] ^= 1
                path.chmod(0o600)
                with open(path, "r+b") as file:
                    file.write(data)
            for one, other in zip(open_raw(c.url, cache=cache), c.near, strict=True):
                same(one, other)

    def rotten_copy():
        """bytes of a copy that change while it is in use are noticed at every use, and fetched again"""
        with tempfile.TemporaryDirectory() as cache:
            far, views = open_raw(c.url, cache=cache), tarn.open(c.url, cache=cache, decode=False)
            read, every = open_raw(c.url, cache=cache, io="read"), list(range(len(far)))
            ways = [lambda one: one.batch(every), lambda one: [one[i] for i in every], list,
                    lambda one: batches(one, 5), lambda one: [{"keys": one.keys()}]]
            tried = [(far, way) for way in ways] + [(read, ways[0]), (read, ways[3]), (views, ways[1])]

            def check(one, way):
                for found, expected in zip(map(copied, way(one)), way(c.near), strict=True):
                    same(found, expected)

            for one, way in tried:
                check(one, way)
            copies = {path: spoiled(path) for path in pathlib.Path(cache).rglob("*.tar")}
            expect(len(copies) == 3, copies)
            for number, (one, way) in enumerate(tried):
                for path, data in copies.items():
                    rewrite(path, data)
                c.shards()
                check(one, way)
                expect(c.shards(), f"way {number} did not fetch")
                check(one, way)
                expect(not c.shards(), f"way {number} fetched again")

    def shortened_copy():
        """a copy that another program shortened while it is open is not used any more"""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            big = make_fold(folder, shards=2, samples=6, size=100_000)
            c.store.put_folder(big, "/short/")
            far, near = open_raw(f"{c.store.url}/short:train", cache=cache), open_raw(big)
            same(far[1], near[1])
            same(far[8], near[8])
            for path in pathlib.Path(cache).rglob("*.tar"):
                os.truncate(path, 100)
            for _ in range(2):
                for i in range(len(near)):
                    same(far[i], near[i])

    def gone():
        """a server that is gone is one clear error for each batch, not a hang"""
        store = Store()
        store.put_folder(c.folder)
        far = open_raw(f"{store.url}/birds:train")
        far[0]
        store.objects.clear()
        text = refused(OSError, lambda: far[1])
        expect(f"{store.url}/birds/train-0000.tar" in text, text)
        with far.loader(4, threads=1, epochs=1, on_error="skip") as loader:
            refused(Exception, lambda: next(iter(loader)))

    def unindexed():
        """without an index the error says how to make one"""
        c.store.objects["/alone/x.tar"] = c.store.objects["/birds/train-0000.tar"]
        text = refused(FileNotFoundError, lambda: open_raw(f"{c.store.url}/alone/x.tar"))
        expect("tarn index" in text, text)

    def interrupted():
        """Ctrl-C ends a loader that waits for a server"""
        store = Store()
        store.put_folder(c.folder)
        held, free = threading.Event(), threading.Event()

        def before(path):
            if path.endswith(".tar"):
                held.set()
                free.wait(HANG)

        store.before = before
        code = ("import sys, tarn\n"
                "d = tarn.open(sys.argv[1], decode='bytes')\n"
                "with d.loader(4, threads=1) as loader:\n"
                "    print('ready', flush=True)\n"
                "    next(iter(loader))\n")
        child = subprocess.Popen([sys.executable, "-c", code, f"{store.url}/birds:train"],
                                 env=CHILD,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not held.wait(0.1):
            expect(child.poll() is None, "the program ended")
        child.send_signal(signal.SIGINT)
        text = child.communicate(timeout=HANG)[1]
        free.set()
        expect("KeyboardInterrupt" in text, text)

    def forked():
        """a child of fork reads and loads on its own"""
        with tempfile.TemporaryDirectory() as cache:
            for folder in (None, cache):
                far = open_raw(c.url, cache=folder)
                same(far[3], c.near[3])
                child = os.fork()
                if child == 0:
                    try:
                        same(far[3], c.near[3])
                        for one, other in zip(batches(far, 4), batches(c.near, 4), strict=True):
                            same(one, other)
                        os._exit(0)
                    except BaseException as error:  # pylint: disable=broad-except
                        print("#", repr(error), flush=True)
                        os._exit(1)
                expect(os.waitpid(child, 0)[1] == 0, "the child failed")
                same(far[6], c.near[6])

    return [replaced, damaged, damaged_once, broken_copy, rotten_copy, shortened_copy, gone, unindexed, interrupted, forked]


def s3_checks(folder):
    def s3():
        """S3 with checked signatures: without and with a cache"""
        server = Strict({"KEY": ("secret", None)})
        os.environ.update(AWS_ACCESS_KEY_ID="KEY", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION=REGION,
                          AWS_ENDPOINT_URL_S3=server.url)
        for path in pathlib.Path(folder).iterdir():
            server.objects[f"/bucket/birds/{path.name}"] = path.read_bytes()
        near = open_raw(folder)
        with tempfile.TemporaryDirectory() as cache:
            for kept in (None, cache, cache):
                all_equal(open_raw("s3://bucket/birds/train-{0000..0002}.tar", cache=kept), near)
        expect(not server.complaints, server.complaints)
    return [s3]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as root, Nginx() as web:
        folder = make_fold(web.www / "birds", shards=3, samples=4)
        tap.run(with_nginx(web, folder))
        store = Store()
        store.put_folder(folder)
        tap.run(other_files(store))
        tap.run(counting(Counted(store, folder)))
        tap.run(failing(Counted(store, folder)))
        tap.run(s3_checks(folder))
        del root
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
