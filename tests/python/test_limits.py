"""Slow failures: leaks, threads, forks; and damaged files."""
import gc
import os
import resource
import shutil
import sys
import threading
import time

import pytest
from conftest import payload, sanitized, write_tar

import tarn

READS = 1_000_000


def used_memory():
    """Returns the resident memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("decode", [False, "bytes", True])
def test_a_million_reads_keep_memory_flat(many, decode):
    ds = tarn.open(many, decode=decode)
    count = 20_000 if sanitized() else READS // 4
    for i in range(20_000):
        ds[i % 2000]
    gc.collect()
    before = used_memory()
    for _ in range(count // 2000):
        for sample in ds:
            pass
    for i in range(count):
        ds[i % 2000]
    gc.collect()
    assert used_memory() - before < (256 << 20 if sanitized() else 4 << 20)


@pytest.mark.skipif(sanitized(), reason="the sanitizer keeps freed memory")
def test_dropped_objects_leave_nothing(many, birds, tmp_path):
    broken = write_tar(tmp_path / "a.tar", [("x.json", b"[")])

    def once():
        ds = tarn.open(birds)
        ds.shuffle(3)[0], ds[[1, 2]].keys(), ds.filter(keys=["owl"])[0], ds["auk"]
        ds.batch([0, 1])[0], ds.batch([0]).offsets, tarn.mix(ds, ds)[3], ds.lookup(["owl", "x"])
        ds.map(txt=str)[0], repr(ds), ds.integers("cls"), ds.sizes("txt"), ds.field_sets()
        for wrong in (lambda: ds["emu"], lambda: ds[99], lambda: ds.filter(keys=["emu"]),
                      lambda: ds.batch([99]), lambda: tarn.open("nowhere"),
                      lambda: tarn.open(broken)[0], lambda: ds.map(lambda s: 1 / 0)[0],
                      lambda: ds.order("weighted", weights=["a"] * 4)):
            with pytest.raises(Exception):
                wrong()

    for _ in range(200):
        once()
    gc.collect()
    before, blocks = used_memory(), sys.getallocatedblocks()
    for _ in range(1500):
        once()
    gc.collect()
    assert used_memory() - before < 3 << 20
    assert sys.getallocatedblocks() - blocks < 1500


def test_references_are_counted(many):
    ds = tarn.open(many, decode=False)
    handle, names = sys.getrefcount(ds._handle), sys.getrefcount(ds._names)
    for _ in range(100):
        sample = ds[3]
        part = sample["bin"][1:4]
        it = iter(ds)
        next(it)
        ds.batch([1], ["bin"])
        try:
            ds["no such key"]
        except KeyError:
            pass
    assert sys.getrefcount(ds._handle) <= handle + 4  # the two views in sample, part and it
    del sample, part, it
    assert (sys.getrefcount(ds._handle), sys.getrefcount(ds._names)) == (handle, names)


def test_many_threads_read_one_dataset(many):
    ds = tarn.open(many)
    views = tarn.open(many, decode=False, io="read")
    wrong = []

    def work(seed):
        order = ds.shuffle(seed)
        batch = None
        try:
            for i in range(300):
                at = (i * 37 + seed * 11) % 2000
                if ds[at]["bin"] != payload(at) or bytes(views[at]["bin"]) != payload(at):
                    wrong.append(at)
                if order[at]["cls"] != ds[order.keys([at])[0]]["cls"]:
                    wrong.append(at)
                batch = ds.batch([at, 5], ["bin"], out=batch)
                if bytes(batch.data) != payload(at) + payload(5):
                    wrong.append(at)
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_that_share_an_iterator_share_its_samples(many):
    def gives_way(data):
        time.sleep(0)
        return data

    plain = tarn.open(many, decoders={"bin": gives_way})
    for ds in (plain, plain.shuffle(1)):
        found, shared = [], iter(ds)

        def work():
            found.extend([sample["__key__"] for sample in shared])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == plain.keys() and shared.__length_hint__() == 0


def test_a_sample_that_fails_is_what_comes_next_again(birds):
    def once(data):
        tries.append(bytes(data))
        if len(tries) == 2:
            raise ValueError("not now")
        return int(data)

    tries = []
    ds = tarn.open(birds, fields=["cls"], decoders={"cls": once})
    shown = iter(ds)
    assert next(shown)["cls"] == 0
    with pytest.raises(ValueError):
        next(shown)
    assert ds.state_dict()["dataset"] == ds._handle.state(1)
    assert [sample["cls"] for sample in shown] == [1, 2, 3]



def test_threads_that_read_into_one_batch_do_not_meet(many):
    ds = tarn.open(many)
    batch = ds.batch([0])
    told = []

    def work(at):
        for _ in range(200):
            try:
                ds.batch(range(at, at + 200), out=batch)
            except BufferError as error:
                told.append(str(error))

    threads = [threading.Thread(target=work, args=(n * 300,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(batch) == 200


@pytest.mark.skipif(sanitized(), reason="a child finds the sanitizer's allocator locked by a thread")
def test_a_forked_child_reads_while_threads_run(many):
    ds = tarn.open(many)
    stop = threading.Event()

    def work():
        at = 0
        while not stop.is_set():
            at = (at + 1) % 2000
            assert ds[at]["bin"] == payload(at)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for n in range(20):
            child = os.fork()
            if child == 0:
                good = ds[n * 7]["bin"] == payload(n * 7) and len(ds.batch([1, 2])) == 2
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_shard_that_was_cut_is_an_error_not_a_crash(many, tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(many, folder)
    ds = tarn.open(folder)
    ds[0]
    os.truncate(folder / "train_0000.tar", 4096)
    with pytest.raises(tarn.Error) as caught:
        ds[400]
    assert caught.value.path.endswith("train_0000.tar")
    with pytest.raises(tarn.StaleError):
        tarn.open(folder)


def test_a_changed_byte_is_found_by_check(many, tmp_path):
    folder = tmp_path / "changed"
    shutil.copytree(many, folder)
    with open(folder / "train_0000.tar", "r+b") as f:
        f.seek(600)
        f.write(b"\xff\xff")
    assert tarn.open(folder, check=False)[0]["bin"] != payload(0)
    with pytest.raises(tarn.ChecksumError):
        tarn.open(folder, check=True)[0]
