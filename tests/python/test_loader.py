"""The native loader from Python."""
import collections.abc
import gc
import io
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from conftest import HANG, payload, picture, sanitized, write_tar

import tarn


def first(loader):
    return next(iter(loader))


def keys_of(loader):
    return [key for batch in loader for key in batch["__key__"]]


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_batches_are_the_samples_in_order(many, threads):
    ds = tarn.open(many)
    for source in (ds, ds.shuffle(3), ds.shuffle(3).shard(1, 3), ds.filter(ranges=[(7, 900)]),
                   ds[100:300], ds[::3]):
        loader = source.loader(64, threads=threads)
        seen = []
        for batch in loader:
            assert len(batch["__key__"]) == len(batch["bin"]) == len(batch["cls"]) <= 64
            assert batch["cls"].dtype == np.int64
            seen += [dict(zip(batch, row)) for row in zip(*batch.values())]
        assert seen == list(source)
        assert len(loader) == -(-len(source) // 64)


def test_a_loader_goes_from_epoch_to_epoch(many):
    ds = tarn.open(many, fields=["cls"]).shuffle(5)
    loader = ds.loader(100, threads=2)
    for epoch in range(3):
        assert loader.epoch == epoch
        ds.set_epoch(epoch)
        assert keys_of(loader) == ds.keys()
    loader.set_epoch(1)
    ds.set_epoch(1)
    assert keys_of(loader) == ds.keys()
    assert keys_of(tarn.open(many, fields=["cls"]).loader(100, shuffle=True, seed=5)) != ds.keys()
    assert list(ds.loader(100, epochs=1)) == []   # the dataset is in epoch 1
    ds.set_epoch(0)
    once = ds.loader(100, epochs=1)
    assert len(list(once)) == 20 and list(once) == []
    once.set_epoch(0)
    batches = iter(once)
    next(batches)
    state = once.state_dict()
    assert len(list(batches)) == 19 and list(once) == [] and len(once) == 20
    once.load_state_dict(state)
    assert once.epoch == 0 and len(once) == 20 and len(list(once)) == 19 and list(once) == []
    thrice = ds.loader(100, epochs=3)             # epochs 0, 1 and 2, wherever it starts
    for first, counts in ((0, [20, 20, 20, 0]), (2, [20, 0, 0, 0]), (3, [0, 0, 0, 0])):
        thrice.set_epoch(first)
        assert [len(list(thrice)) for _ in range(4)] == counts


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
def test_a_failure_loses_no_sample(tmp_path, threads):
    path = write_tar(tmp_path / "s.tar", [(f"s{i:02}.cls", b"bad" if i in (1, 5) else b"%d" % i)
                                          for i in range(12)])
    ds = tarn.open(path)
    loader = ds.loader(4, threads=threads, on_error="skip", max_errors=1, epochs=1)
    batches = iter(loader)
    had = next(batches)["__key__"]
    assert had == ["s00", "s02", "s03"] and [one.number for one in loader.skipped()] == [1]
    for _ in range(2):                            # it fails again, and its state is before that
        with pytest.raises(ValueError, match="too many faulty samples"):
            next(batches)
    again = ds.loader(4, threads=threads, on_error="skip", epochs=1)
    again.load_state_dict(loader.state_dict())
    assert had + keys_of(again) == [f"s{i:02}" for i in range(12) if i not in (1, 5)]


def test_a_broken_loop_continues_with_its_iterator(many):
    ds = tarn.open(many, fields=["cls"])
    batches = iter(ds.loader(100))
    first = [next(batches)["__key__"] for _ in range(3)]
    for batch in batches:
        first.append(batch["__key__"])
        break
    assert sum(first, []) + keys_of(batches) == ds.keys()


def test_values_that_are_not_arrays_are_lists(birds, tmp_path):
    batch = first(tarn.open(birds).loader(4))
    assert batch["txt"] == ["An auk.", "A jay.", "A kiwi.", "An owl."]
    assert batch["json"][2] == {"name": "kiwi", "n": 2}
    arrays = io.BytesIO()
    np.savez(arrays, a=np.arange(3))
    path = write_tar(tmp_path / "a.tar", [
        ("x.npz", arrays.getvalue()), ("x.txt.gz", tarn._tarn.encode("txt.gz", "zipped")),
        ("x.json.gz", tarn._tarn.encode("json.gz", [1])), ("x.raw", b"\x00\xff")])
    batch = first(tarn.open(path).loader(1))
    assert batch["npz"][0]["a"].tolist() == [0, 1, 2]
    assert batch["txt.gz"] == ["zipped"] and batch["json.gz"] == [[1]] and batch["raw"] == [b"\x00\xff"]


def test_views_bytes_decoders_and_integers(many):
    batch = first(tarn.open(many, decode=False).loader(8))
    assert all(isinstance(item, memoryview) and item.readonly for item in batch["bin"])
    gc.collect()
    assert [bytes(item) for item in batch["bin"]] == [payload(i) for i in range(8)]
    batch = first(tarn.open(many, decode="bytes").loader(8, integers=["cls"]))
    assert batch["bin"] == [payload(i) for i in range(8)]
    assert batch["cls"].tolist() == [i % 7 for i in range(8)]
    ds = tarn.open(many, decoders={"bin": len, "cls": float})
    batch = first(ds.loader(2))
    assert batch["bin"].tolist() == [1024, 1024] and batch["cls"].tolist() == [0.0, 1.0]
    assert "__key__" not in first(ds.loader(2, keys=False))


def test_results_of_decoders_become_one_array_if_they_have_one_shape(many):
    def number(data):
        return int.from_bytes(data[:4], "little")

    for made, expected in ((lambda data: np.full(3, number(data)), [[0] * 3, [1] * 3]), (number, [0, 1])):
        for on_error in ("raise", "skip"):
            batch = first(tarn.open(many, decoders={"bin": made}).loader(2, on_error=on_error))
            assert batch["bin"].tolist() == expected
    for made, expected in ((lambda data: np.zeros(number(data)), [0, 1]), (lambda data: {"n": 1}, [1, 1]),
                           (lambda data: "text", [4, 4])):
        batch = first(tarn.open(many, decoders={"bin": made}).loader(2))
        assert isinstance(batch["bin"], list) and list(map(len, batch["bin"])) == expected


class Pair(collections.abc.Sequence):
    """A sequence but not a list, like those of configuration files."""

    def __init__(self, *values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


def test_resize_takes_any_sequence(pictures):
    ds = tarn.open(pictures, fields=["jpg"])
    for resize, shape in ((Pair(8, 12), (8, 12)), (np.array([8, 12]), (8, 12)), ([8, 12], (8, 12)),
                          (np.int64(8), (8, 8))):
        assert first(ds.loader(2, resize=resize))["jpg"].shape == (2, *shape, 3)
    for fit in ("center", "centre"):
        assert first(ds.loader(2, resize=Pair(8, 12), fit=fit, shorter=16))["jpg"].shape == (2, 8, 12, 3)
    for wrong in ("88", Pair(8), Pair(8, 8, 8), 8.5, {}):
        with pytest.raises(tarn.UsageError, match="resize must be a side"):
            ds.loader(2, resize=wrong)


@pytest.mark.parametrize("threads", [0, 3])
def test_images_become_one_array(pictures, threads):
    ds = tarn.open(pictures, fields=["png", "npy"])
    batch = first(ds.loader(16, threads=threads, resize=(10, 12)))
    assert batch["png"].shape == (16, 10, 12, 3) and batch["png"].dtype == np.uint8
    Image = pytest.importorskip("PIL.Image")
    for i in range(16):
        want = np.asarray(Image.fromarray(picture(np, i)).resize((12, 10), Image.BILINEAR))
        assert (batch["png"][i] == want).all()
        assert (batch["npy"][i] == picture(np, i)).all()
    batch = first(ds.loader(4, resize=8, dtype="float32", layout="CHW", mean=(0.5, 0.5, 0.5),
                            std=(0.5, 0.5, 0.5), fit="random", flip=0.5))
    assert batch["png"].shape == (4, 3, 8, 8) and batch["png"].dtype == np.float32
    with pytest.raises(ValueError):
        ds.loader(4, fit="random")
    with pytest.raises(ValueError):
        ds.loader(4, resize=8, fit="best")
    with pytest.raises(TypeError):
        ds.loader(4, resize=8, colour=True)


def test_the_seed_is_of_images_too(pictures):
    ds = tarn.open(pictures, fields=["jpg"])

    def pixels(source, **options):
        return np.concatenate([batch["jpg"] for batch in source.loader(4, resize=8, fit="random", **options)])

    assert np.array_equal(pixels(ds, seed=1), pixels(ds, seed=1))
    assert not np.array_equal(pixels(ds, seed=1), pixels(ds, seed=2))
    assert not np.array_equal(pixels(ds.shard(0, 2), seed=1), pixels(ds.shard(0, 2), seed=2))
    loader = ds.loader(4, resize=8, fit="random", seed=1)
    whole = pixels(ds, seed=1)
    first(loader)
    again = ds.loader(4, resize=8, fit="random", seed=1)
    again.load_state_dict(loader.state_dict())
    assert np.array_equal(np.concatenate([batch["jpg"] for batch in again]), whole[4:])
    shuffled = ds.shuffle(3)                      # its order does not use the loader's seed
    assert keys_of(shuffled.loader(4, seed=5)) == shuffled.keys()


def test_images_without_resizing_have_one_shape_or_are_a_list(pictures):
    batch = first(tarn.open(pictures, fields=["png"]).loader(3))
    assert isinstance(batch["png"], list) and [image.shape for image in batch["png"]] == [
        (20, 30, 3), (21, 31, 3), (22, 32, 3)]
    batch["png"][0][:] = 7


def test_arrays_outlive_batch_and_loader(pictures):
    loader = tarn.open(pictures, fields=["png"]).loader(2, resize=6, threads=2)
    kept = [batch["png"] for batch in loader]
    copies = [array.copy() for array in kept]
    loader.close()
    del loader
    gc.collect()
    assert all((one == other).all() for one, other in zip(kept, copies))
    kept[0][:] = 0
    assert not (kept[0] == copies[0]).all() and (kept[1] == copies[1]).all()


@pytest.mark.parametrize("ranks,after", [(1, 1), (2, 2), (4, 3), (1, 5)])
def test_a_state_resumes_on_any_number_of_ranks(many, ranks, after):
    ds = tarn.open(many, fields=["cls"]).shuffle(8)
    seen, states = [], []
    for rank in range(ranks):
        loader = ds.shard(rank, ranks).loader(16, threads=2)
        for batch in itertools.islice(loader, 7):
            seen += batch["__key__"]
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert all(state == states[0] for state in states)
    for rank in range(after):
        loader = ds.shard(rank, after).loader(32, threads=2)
        loader.load_state_dict(states[0])
        seen += keys_of(loader)
    assert sorted(seen) == sorted(ds.keys())
    with pytest.raises(ValueError):
        loader.load_state_dict({"epoch": 1})


def equal_run(ds, world, size, state=None, stop=None):
    """Returns the batches of all ranks, as lists of keys, and the state after that many batches,
    which is the same on all ranks."""
    ranks, states = [], []
    for rank in range(world):
        loader = ds.shard(rank, world).loader(size, threads=rank % 3, equal_batches=True)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        ranks.append([batch["__key__"] for batch in itertools.islice(batches, stop)])
        states.append(loader.state_dict())
    assert all(other == states[0] for other in states) and len(set(map(len, ranks))) == 1
    return ranks, states[0]


@pytest.mark.parametrize("world,size,samples", [(1, 4, 11), (3, 4, 50), (4, 1, 9), (4, 5, 43), (5, 3, 4),
                                                (6, 2, 61)])
def test_equal_batches_of_a_resumed_run_are_those_of_an_uninterrupted_one(many, world, size, samples):
    ds = tarn.open(many, fields=["cls"])[:samples].shuffle(2)
    whole, _ = equal_run(ds, world, size)
    for stop in range(len(whole[0])):
        begun, state = equal_run(ds, world, size, stop=stop)
        rest, _ = equal_run(ds, world, size, state)
        assert [one + other for one, other in zip(begun, rest)] == whole
        loader = ds.shard(0, world).loader(size, equal_batches=True)
        loader.load_state_dict(state)
        assert len(loader) == len(whole[0])


@pytest.mark.parametrize("world,then,samples", [(3, 2, 50), (2, 3, 50), (4, 1, 23), (1, 4, 23), (5, 3, 7)])
def test_equal_batches_continue_on_other_ranks_with_every_sample_once(many, world, then, samples):
    ds = tarn.open(many, fields=["cls"])[:samples].shuffle(2)
    for stop in range(len(equal_run(ds, world, 4)[0][0])):
        begun, state = equal_run(ds, world, 4, stop=stop)
        rest, _ = equal_run(ds, then, 4, state)
        assert sorted(sum(sum(begun + rest, []), [])) == sorted(ds.keys())
        assert all(len(batch) <= 4 for rank in rest for batch in rank)
        for more in range(len(rest[0])):          # interrupted again, and resumed on the same number of ranks
            second, later = equal_run(ds, then, 4, state, more)
            third, _ = equal_run(ds, then, 4, later)
            assert [one + other for one, other in zip(second, third)] == rest


def test_equal_batches_of_a_dataset_that_is_the_rest_of_an_epoch(many):
    ds = tarn.open(many, fields=["cls"])[:200].shuffle(3)
    for _ in zip(range(31), iter(ds)):
        pass
    ds.load_state_dict(ds.state_dict())
    left = ds.keys()
    whole, _ = equal_run(ds, 3, 8)
    assert [sum(rank, []) for rank in whole] == [left[rank::3] for rank in range(3)]
    for stop in range(len(whole[0])):
        begun, state = equal_run(ds, 3, 8, stop=stop)
        rest, _ = equal_run(ds, 3, 8, state)
        assert [one + other for one, other in zip(begun, rest)] == whole


def of_form(batch):
    """Returns the fields, types and shape of one sample."""
    if isinstance(batch, dict):
        return {name: of_form(value) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return [of_form(value) for value in batch]
    return (batch.dtype, tuple(batch.shape[1:])) if hasattr(batch, "dtype") else type(batch)


MAPS = {
    "none": lambda ds: ds,
    "dict": lambda ds: ds.map(lambda sample: {"x": np.zeros((2, 3), "f2"), "t": str(sample["cls"])}),
    "tuple": lambda ds: ds.map(lambda sample: (sample["cls"], sample["__key__"])),
    "array": lambda ds: ds.map(lambda sample: np.arange(4)),
    "mix": lambda ds: tarn.mix(ds.map(cls=float), ds.map(cls=float)),
}


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("array_type", ["numpy", "torch"])
def test_a_batch_without_samples_has_the_form_of_the_others(many, kind, array_type):
    if array_type == "torch":
        pytest.importorskip("torch")
    ds = MAPS[kind](tarn.open(many)[:3]).shuffle(1)
    world = len(ds) + 1
    full = first(ds.loader(2, array_type=array_type))
    for threads in (0, 2):
        for rank in range(world):
            [batch] = ds.shard(rank, world).loader(2, equal_batches=True, threads=threads,
                                                   array_type=array_type, epochs=1)
            assert of_form(batch) == of_form(full)
            if isinstance(batch, dict):
                assert {len(column) for column in batch.values()} == {int(rank < len(ds))}


def test_a_batch_without_samples_skips_unusable_ones(tmp_path):
    path = write_tar(tmp_path / "a.tar", [(f"x{i}.cls", b"oops" if i == 0 else b"%d" % i) for i in range(3)])
    ds = tarn.open(path)
    [batch] = ds.shard(3, 4).loader(2, equal_batches=True, epochs=1, on_error="skip")
    assert of_form(batch) == of_form(first(ds[1:].loader(2)))
    with pytest.raises(tarn.Error, match="x0"):
        list(ds.shard(3, 4).loader(2, equal_batches=True, epochs=1))


def test_decoding_failures_are_raised_skipped_or_counted(tmp_path):
    path = write_tar(tmp_path / "a.tar", [(f"x{i}.cls", b"oops" if i in (3, 5) else b"%d" % i)
                                          for i in range(10)])
    ds = tarn.open(path)
    for threads in (0, 2):
        loader = ds.loader(4, threads=threads)
        with pytest.raises(tarn.Error) as caught:
            list(loader)
        assert "x3" in str(caught.value) and caught.value.path == str(path)
        loader = ds.loader(4, threads=threads, on_error="skip")
        assert [batch["cls"].tolist() for batch in loader] == [[0, 1, 2], [4, 6, 7], [8, 9]]
        assert [(one.epoch, one.number) for one in loader.skipped()] == [(0, 3), (0, 5)]
        assert loader.stats()["skipped"] == 2
        with pytest.raises(tarn.Error):
            list(ds.loader(4, threads=threads, on_error="skip", max_errors=1))
        assert len(list(ds.loader(4, threads=threads, on_error="skip", max_errors=2))) == 3


@pytest.mark.parametrize("function", [False, True])
def test_skipped_samples_have_their_epoch_number_key_and_reason(tmp_path, function):
    path = write_tar(tmp_path / "a.tar", [(f"x{i}.cls", b"oops" if i in (3, 5) else b"%d" % i)
                                          for i in range(10)])
    ds = tarn.open(path).shuffle(2)
    ds = ds.map(lambda sample: sample) if function else ds
    for keys in (True, False):
        loader = ds.loader(4, on_error="skip", keys=keys)
        for _ in range(3):
            list(loader)
        told = loader.skipped()
        assert [one.epoch for one in told] == [0, 0, 1, 1, 2, 2]
        assert sorted((one.number, one.key) for one in told[2:4]) == [(3, "x3"), (5, "x5")]
        assert all(one.key in one.reason for one in told)
        kept = ds.filter(keys=set(ds.keys()).difference(one.key for one in told))
        assert len(kept) == 8 and len(keys_of(kept.loader(4))) == 8


def test_wrong_use_is_reported(many, pictures):
    ds = tarn.open(many)
    for wrong in (lambda: ds.loader(0), lambda: ds.loader(4, on_error="hide"),
                  lambda: tarn.open(pictures, images="pil").loader(4),
                  lambda: first(ds.loader(4, integers=["bin"]))):
        with pytest.raises(ValueError):
            wrong()
    assert keys_of(ds[[3, 1]].loader(4)) == ["s00003", "s00001"]
    assert [batch.tolist() for batch in ds[:3].map(lambda sample: len(sample["bin"])).loader(2)] == [
        [1024, 1024], [1024]]
    loader = ds.loader(4)
    batches = iter(loader)
    next(batches)
    loader.close()
    loader.close()
    with pytest.raises(ValueError):
        next(batches)
    with pytest.raises(TypeError):
        next(loader)


def test_a_damaged_state_is_refused_and_the_loader_continues(many):
    loader = tarn.open(many, fields=["cls"]).loader(100)
    batches = iter(loader)
    next(batches)
    good = loader.state_dict()
    for state in (None, 5, "x", [], {}, {"version": 2}, {**good, "version": 1}, {**good, "loader": None},
                  {**good, "loader": 5}, {**good, "loader": ""}, {**good, "loader": "{}"}):
        with pytest.raises(ValueError):
            loader.load_state_dict(state)
    assert len(keys_of(batches)) == 1900


def test_a_decoder_that_raises_tells_the_sample_and_fails_again(birds):
    def fail(data):
        return 1 // int(data)

    loader = tarn.open(birds, fields=["cls", "txt"], decoders={"cls": fail}).loader(2)
    batches = iter(loader)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            next(batches)
        assert caught.value.__notes__ == ["sample auk: field cls", f"shard {birds}/train_0.tar"]
    assert loader.stats()["batches"] == 0
    good = tarn.open(birds, fields=["cls", "txt"]).loader(2)
    good.load_state_dict(loader.state_dict())
    assert keys_of(good) == ["auk", "jay", "kiwi", "owl"]


def test_a_closed_loader_has_a_repr(birds):
    loader = tarn.open(birds).loader(2)
    loader.close()
    assert "tarn.Loader" in repr(loader)


def test_full_batches_and_stats(many):
    ds = tarn.open(many)
    assert [len(batch["cls"]) for batch in ds.loader(300, drop_last=True)] == [300] * 6
    with ds.loader(300, threads=2) as loader:
        list(loader)
        stats = loader.stats()
    assert stats["samples"] == 2000 and stats["batches"] == 7
    assert stats["bytes"] == 2000 * 1025 and stats["bottleneck"] in ("read", "decode", "caller")
    assert "7 batches" in repr(ds.loader(300))


def test_grouped_views(many):
    from conftest import DATA
    ds = tarn.open(DATA / "02_multidot", fields=["f0.txt", "f0.cls", "f1.txt", "f1.cls", "f2.txt",
                                                 "f2.cls"]).group("{0}.txt", "{0}.cls", seed=1)
    loader = ds.loader(5, threads=2)
    for epoch in range(3):
        ds.set_epoch(epoch)
        rows = [row for batch in loader for row in zip(batch["{0}.txt"], batch["{0}.cls"])]
        assert rows == [(sample["{0}.txt"], sample["{0}.cls"]) for sample in ds]


def test_packs_and_array_files(many):
    from conftest import DATA
    gnz = next((DATA / "gnz").glob("*.gnz"))
    ds = tarn.open(gnz)
    batch = first(ds.loader(2))
    for field in ds.fields:
        assert np.asarray(batch[field][1]).tobytes() == np.asarray(ds[1][field]).tobytes()
    iac = next(path for path in sorted((DATA / "iac").rglob("*.iac")) if len(tarn.open(path)) > 0)
    ds = tarn.open(iac)
    batch = first(ds.loader(1))
    for field in ds.fields:
        got = batch[field][0]
        assert (got.item() if isinstance(got, np.generic) else got) == ds[0][field]


def test_a_loader_pickles_with_its_place(many):
    loader = tarn.open(many, fields=["cls"]).shuffle(1).loader(50, threads=2)
    batches = iter(loader)
    next(batches)
    again = pickle.loads(pickle.dumps(loader))
    assert keys_of(again) == keys_of(batches)


def test_a_forked_child_continues(many):
    # In a child, a thread could have left the sanitizer's allocator locked.
    loader = tarn.open(many, fields=["cls"]).loader(50, threads=0 if sanitized() else 2)
    batches = iter(loader)
    held = next(batches)
    child = os.fork()
    if child == 0:
        good = len(keys_of(batches)) == 1950 and held["cls"].tolist()[:3] == [0, 1, 2]
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(keys_of(batches)) == 1950


def test_two_threads_are_distinguished(many):
    batches = iter(tarn.open(many).loader(10, threads=1, epochs=1))
    told, got = [], []

    def work():
        try:
            for batch in batches:
                got.extend(batch["__key__"])
        except RuntimeError as error:
            told.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) and all("another thread" in text for text in told)


def beside_a_wait(tmp_path, threads, statement):
    """Waits for a batch that would take hours. Another thread runs the statement as soon as the
    loader reports that it is in use. Returns what the process prints."""
    big = tarn._tarn.encode("png", np.random.default_rng(0).integers(0, 255, (1000, 1000, 3), "u1"))
    path = write_tar(tmp_path / "big.tar", [("b.png", big)])
    code = ("import os, signal, threading, tarn\n"
            f"many = tarn.open({str(path)!r}).order('weighted', weights=[1], draws=10**5)\n"
            f"loader = many.loader(10**5, threads={threads}, resize=8)\n"
            "def watch():\n"
            "    try:\n        while True:\n            len(loader)\n"
            f"    except RuntimeError:\n        {statement}\n"
            "threading.Thread(target=watch).start()\n"
            "try:\n    next(iter(loader))\n"
            "except KeyboardInterrupt:\n    print('stopped', flush=True)\n    os._exit(0)")
    done = subprocess.run([sys.executable, "-c", code], timeout=HANG, capture_output=True, text=True)
    return done.stdout, done.stderr


@pytest.mark.parametrize("threads", [0, 1])
def test_control_c_ends_a_wait(tmp_path, threads):
    assert beside_a_wait(tmp_path, threads, "os.kill(os.getpid(), signal.SIGINT)") == ("stopped\n", "")


@pytest.mark.parametrize("threads", [0, 1])
def test_the_gil_is_free_while_a_batch_is_made(tmp_path, threads):
    assert beside_a_wait(tmp_path, threads, "print('free', flush=True); os._exit(0)") == ("free\n", "")


@pytest.mark.parametrize("how", ["sys.exit(0)", "raise SystemExit(0)", "pass", "os._exit(0)",
                                 "del loader; pass"])
def test_an_interpreter_with_a_live_loader_ends(many, how):
    code = ("import os, sys, tarn\n"
            f"loader = tarn.open({many!r}).loader(7, threads=3)\nbatch = next(iter(loader))\n{how}\n")
    done = subprocess.run([sys.executable, "-c", code], timeout=HANG, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_loader_in_a_cycle_is_collected(many):
    class Holder:
        pass

    def make():
        holder = Holder()
        decoders = {"cls": lambda data, holder=holder: holder and int(data)}
        holder.loader = tarn.open(many, decoders=decoders).loader(5)
        first(holder.loader)
        return weakref.ref(holder)

    left = make()
    gc.collect()
    assert left() is None


@pytest.mark.skipif(sanitized(), reason="the sanitizer keeps freed memory")
def test_epochs_keep_memory_flat(many, pictures):
    from test_limits import used_memory
    small = tarn.open(pictures, fields=["jpg", "npy"]).loader(4, threads=2, resize=16)
    large = tarn.open(many).loader(128, threads=2)

    def run(count):
        for _ in range(count):
            for loader in (small, large):
                for batch in loader:
                    pass
        gc.collect()

    run(30)
    before = used_memory()
    run(150)
    assert used_memory() - before < 8 << 20


def test_tensors_share_the_batch(pictures):
    torch = pytest.importorskip("torch") if not sanitized() else pytest.skip("no torch here")
    loader = tarn.open(pictures, fields=["png", "npy"], array_type="torch").loader(4, resize=8)
    batch = first(loader)
    assert isinstance(batch["png"], torch.Tensor) and batch["png"].shape == (4, 8, 8, 3)
    native = first(tarn.open(pictures, fields=["png"]).loader(4, resize=8, array_type="torch"))
    assert native["png"].data_ptr() % 64 == 0


def test_batches_for_ranks(many):
    pytest.importorskip("torch") if not sanitized() else pytest.skip("no torch here")
    import tarn.torch
    from torch.utils.data import DataLoader

    ds = tarn.open(many, fields=["cls", "_idx"])
    for share, world in (("keep", 3), ("drop", 3), ("pad", 3)):
        parts = [tarn.torch.loader_for(ds, rank, world, 64, shuffle=True, seed=2, uneven=share)
                 for rank in range(world)]
        counts = {len(part) for part in parts}
        assert len(counts) == 1
        seen = [[int(i) for batch in part for i in batch["_idx"]] for part in parts]
        flat = sum(seen, [])
        if share == "keep":
            assert sorted(flat) == list(range(2000))
        elif share == "drop":
            assert len(flat) == len(set(flat)) > 1700
        else:
            assert set(flat) == set(range(2000))
    part = tarn.torch.loader_for(ds, 0, 1, 100)
    loader = DataLoader(part, batch_size=None)
    assert sum(len(batch["cls"]) for batch in loader) == 2000
    with pytest.raises(Exception, match="its own threads"):
        list(DataLoader(part, batch_size=None, num_workers=2))
