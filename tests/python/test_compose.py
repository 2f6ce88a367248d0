"""Selections, orders, functions and loaders combined: exact samples, epochs, holes, copies, states."""
import ctypes
import gc
import itertools
import json
import operator
import pickle

import numpy as np
import pytest
from conftest import DATA, same, sanitized, write_tar

import tarn


def keys_of(batches):
    return [key for batch in batches for key in batch["__key__"]]


def shuffled(keys, seed, epoch=0):
    """Returns the keys in the order of a shuffle."""
    order = tarn.Order(len(keys), kind="shuffle", seed=seed, epoch=epoch)
    return [keys[order[i]] for i in range(len(keys))]


@pytest.fixture(scope="module")
def ds(many):
    return tarn.open(many, fields=["cls"])


NAMES = [f"s{i:05d}" for i in range(2000)]


# --- Short chains ----------------------------------------------------------------------------


def test_a_loader_of_the_first_samples_of_a_shuffle(ds):
    loader = ds.shuffle(seed=1)[:100].loader(10)
    expected = shuffled(NAMES, 1)[:100]
    for _ in range(2):                            # a slice is fixed, so every epoch is the same
        assert [batch["__key__"] for batch in loader] == [expected[i:i + 10]
                                                          for i in range(0, 100, 10)]


def test_a_shuffle_of_a_slice(ds):
    even = ds[::2].shuffle(seed=1)
    for epoch in range(3):
        even.set_epoch(epoch)
        assert even.keys() == shuffled(NAMES[::2], 1, epoch)
        assert [sample["__key__"] for sample in even] == even.keys()


def test_a_filter_of_a_selection(birds):
    ds = tarn.open(birds)
    assert ds[[1, 0]].filter(keys=["jay"]).keys() == ["jay"]
    assert ds[[1, 0]].filter(keys=["auk", "jay"]).keys() == ["jay", "auk"]
    assert ds[[1, 0, 1]].filter(keys=["jay"]).keys() == ["jay", "jay"]
    with pytest.raises(KeyError, match="owl"):
        ds[[1, 0]].filter(keys=["owl"])


def test_a_mix_of_a_shuffle_and_the_same_in_order(ds):
    both = tarn.mix(ds.shuffle(1), ds)
    for epoch in range(2):
        both.set_epoch(epoch)
        keys = both.keys()
        assert keys[::2] == shuffled(NAMES, 1, epoch) and keys[1::2] == NAMES
        loader = both.loader(64)
        loader.set_epoch(epoch)
        assert keys_of(loader) == keys


def test_a_loader_of_a_map(birds):
    batches = list(tarn.open(birds, fields=["txt", "cls"]).map(txt=str.upper).loader(2))
    assert [(batch["__key__"], batch["txt"], batch["cls"].tolist()) for batch in batches] == [
        (["auk", "jay"], ["AN AUK.", "A JAY."], [0, 1]), (["kiwi", "owl"], ["A KIWI.", "AN OWL."], [2, 3])]


def test_numbers_of_samples_are_in_the_order_of_the_dataset(many):
    ds = tarn.open(many)
    for made in (ds.shuffle(3), ds[::-3], ds[[5, 3, 5]], ds.shuffle(3).shard(1, 3), ds.shard(1, 3).shuffle(3)[:9],
                 tarn.mix(ds.shuffle(3), ds[7:3:-1], counts=[5, 9]), ds.filter(having=["cls"]).shuffle(1)):
        for epoch in range(2):
            made.set_epoch(epoch)
            samples = list(made)
            assert made.integers("cls").tolist() == [sample["cls"] for sample in samples]
            assert made.sizes("bin").tolist() == [len(sample["bin"]) for sample in samples]
            assert made.lookup(made.keys()[-1:]) == [made.keys().index(made.keys()[-1])]
            assert bytes(made.batch([2, 0], ["bin"]).data) == samples[2]["bin"] + samples[0]["bin"]
            assert made.shard_of(0)[0] == int(samples[0]["__key__"][1:]) // 500


# --- Epochs of a loader ----------------------------------------------------------------------


@pytest.fixture(params=["native", "mapped"])
def loader(request, ds):
    """Seven batches, the last one smaller, of samples in an order that changes with the epoch."""
    chosen = ds[:100].shuffle(3)
    if request.param == "mapped":
        chosen = chosen.map(cls=float)
    return chosen.loader(16, threads=2)


def of_epoch(epoch):
    return shuffled(NAMES[:100], 3, epoch)


def test_a_look_at_one_batch_takes_an_epoch(loader):
    assert next(iter(loader))["__key__"] == of_epoch(0)[:16]
    assert loader.epoch == 0
    assert keys_of(loader) == of_epoch(1)
    assert keys_of(loader) == of_epoch(2)


@pytest.mark.parametrize("take", [lambda loader, n: itertools.islice(loader, n),
                                  lambda loader, n: (batch for _, batch in zip(range(n), loader))],
                         ids=["islice", "zip"])
def test_as_many_batches_as_there_are_take_an_epoch(loader, take):
    for epoch in range(3):
        assert keys_of(take(loader, len(loader))) == of_epoch(epoch)
    assert keys_of(loader) == of_epoch(3)
    for epoch in (4, 5):                          # even if samples are left
        assert keys_of(take(loader, 2)) == of_epoch(epoch)[:32]


def test_a_validation_loader_is_used_after_every_epoch(ds, loader):
    validation = ds[100:150].loader(20)
    for epoch in range(3):
        assert keys_of(loader) == of_epoch(epoch)
        assert keys_of(validation) == NAMES[100:150]
    assert (loader.epoch, validation.epoch) == (3, 3)


def test_a_new_iterator_ends_the_older_one(loader):
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(RuntimeError, match="another iterator"):
        next(older)
    assert keys_of(newer) == of_epoch(1)
    loader.set_epoch(7)
    with pytest.raises(StopIteration):            # it had already ended
        next(newer)
    third = iter(loader)
    assert keys_of(third) == of_epoch(7) and list(third) == []
    fourth = iter(loader)
    next(fourth)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(RuntimeError, match="another position"):
        next(fourth)
    assert keys_of(loader) == of_epoch(8)[16:] and keys_of(loader) == of_epoch(9)


def test_a_state_after_the_last_batch_continues_with_the_next_epoch(loader):
    taken = keys_of(itertools.islice(loader, len(loader)))
    assert taken == of_epoch(0)
    again = pickle.loads(pickle.dumps(loader))
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert len(again) == 7
    assert keys_of(again) == of_epoch(1) and keys_of(again) == of_epoch(2)


def test_the_length_is_that_of_a_whole_epoch(loader):
    batches = iter(loader)
    for left in range(7, 0, -1):
        assert len(loader) == 7 and operator.length_hint(batches) == left
        next(batches)
    loader.set_epoch(0)
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    assert len(loader) == 7 and len(list(loader)) == 6 and len(loader) == 7


def test_epochs_are_a_total(ds):
    def make():
        return ds[:10].shuffle(1).loader(4, epochs=2)

    loader = make()
    assert [len(list(loader)) for _ in range(3)] == [3, 3, 0]
    loader = make()
    assert [len(list(itertools.islice(loader, 3))) for _ in range(3)] == [3, 3, 0]
    loader = make()
    list(loader)
    next(iter(loader))
    again = make()
    again.load_state_dict(loader.state_dict())
    assert [len(list(again)) for _ in range(2)] == [2, 0]


# --- Holes -----------------------------------------------------------------------------------


BAD = (3, 5, 6, 7)                                # of batches of four: the last one, and all but one


@pytest.fixture(scope="module")
def holes(tmp_path_factory):
    """12 samples; cls cannot be decoded in some of them, good can."""
    members = []
    for i in range(12):
        members += [(f"x{i:02}.cls", b"oops" if i in BAD else b"%d" % i), (f"x{i:02}.good", b"%d" % i)]
    return write_tar(tmp_path_factory.mktemp("holes") / "a.tar", members)


def raising(sample):
    if int(sample["good"]) in BAD:
        raise LookupError("not this one")
    return {"__key__": sample["__key__"], "cls": int(sample["good"])}


def none(sample):
    return None if int(sample["good"]) in BAD else {"__key__": sample["__key__"], "cls": int(sample["good"])}


def of_bytes(data):
    if int(data) in BAD:
        raise LookupError("not this one")
    return int(data)


def with_holes(path, kind):
    if kind == "native":
        return tarn.open(path, fields=["cls"])
    if kind == "decoder":
        return tarn.open(path, fields=["good"], decoders={"good": of_bytes})
    return tarn.open(path, fields=["good"]).map(raising if kind == "raises" else none)


def numbers(batch):
    return [int(i) for i in batch["cls" if "cls" in batch else "good"]]


KINDS = pytest.mark.parametrize("kind", ["native", "decoder", "raises", "none"])


@KINDS
@pytest.mark.parametrize("threads", [0, 2])
def test_holes_stay_in_their_batch(holes, kind, threads):
    ds = with_holes(holes, kind)
    loader = ds.loader(4, threads=threads, on_error="skip")
    expected = [[0, 1, 2], [4], [8, 9, 10, 11]]
    for epoch in range(2):
        batches = list(loader)
        assert [numbers(batch) for batch in batches] == expected
        assert keys_of(batches) == [f"x{i:02}" for i in sum(expected, [])]
    assert [(one.epoch, one.number) for one in loader.skipped()] == [
        (epoch, number) for epoch in range(2) for number in BAD]
    assert all("x03" in one.reason for one in loader.skipped() if one.number == 3)
    assert loader.stats()["skipped"] == 8 and len(loader) == 3


@KINDS
@pytest.mark.parametrize("threads", [0, 2])
def test_holes_are_filled_with_the_next_usable_sample_of_the_batch(holes, kind, threads):
    loader = with_holes(holes, kind).loader(4, threads=threads, on_error="replace")
    assert [numbers(batch) for batch in loader] == [[0, 1, 2, 0], [4, 4, 4, 4], [8, 9, 10, 11]]
    assert [one.number for one in loader.skipped()] == list(BAD)
    wide = with_holes(holes, kind).loader(12, threads=threads, on_error="replace")
    assert [numbers(batch) for batch in wide] == [[0, 1, 2, 4, 4, 8, 8, 8, 8, 9, 10, 11]]


@KINDS
def test_more_holes_than_allowed_are_an_error(holes, kind):
    loader = with_holes(holes, kind).loader(4, on_error="skip", max_errors=3)
    batches = iter(loader)
    assert numbers(next(batches)) == [0, 1, 2]
    state = loader.state_dict()
    for _ in range(2):                            # it is before the batch that failed
        with pytest.raises(tarn.Error, match="limit"):
            next(batches)
        assert loader.state_dict() == state
    assert [numbers(batch) for batch in with_holes(holes, kind).loader(4, on_error="skip", max_errors=4)][2] == [
        8, 9, 10, 11]


@KINDS
def test_a_batch_without_a_usable_sample_is_an_error(holes, kind):
    for policy in ("skip", "replace"):
        batches = iter(with_holes(holes, kind)[4:].loader(2, on_error=policy))
        next(batches)
        for _ in range(2):
            with pytest.raises(tarn.FormatError, match="no sample of|no usable sample in"):
                next(batches)


@KINDS
def test_without_a_policy_the_failure_is_raised_and_the_batch_comes_again(holes, kind):
    loader = with_holes(holes, kind).loader(2)
    batches = iter(loader)
    assert numbers(next(batches)) == [0, 1]
    state = loader.state_dict()
    for _ in range(2):
        with pytest.raises((tarn.FormatError, LookupError)) as caught:
            next(batches)
        assert "x03" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
        assert loader.state_dict() == state
    other = with_holes(holes, kind).loader(2, on_error="skip")
    other.load_state_dict(state)
    assert numbers(next(iter(other))) == [2]


def test_holes_of_files_and_of_functions_are_counted_together(holes):
    ds = tarn.open(holes, fields=["cls", "good"])
    failing = ds.map(lambda sample: {"cls": 0 // (sample["cls"] - 9) + sample["cls"]})
    loader = failing.loader(4, on_error="skip")
    assert [numbers(batch) for batch in loader][2] == [8, 10, 11]
    assert [one.number for one in loader.skipped()] == [*BAD, 9]
    assert loader.stats()["skipped"] == 5
    with pytest.raises(tarn.Error, match="limit"):
        list(failing.loader(4, on_error="skip", max_errors=4))


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_skipped_samples_are_listed_in_the_order_of_positions(tmp_path, threads, policy):
    """Both samples that cannot be decoded and samples whose function raises."""
    native, functions = {2, 5, 6, 12, 18, 27}, {0, 7, 11, 13, 17, 26}
    path = write_tar(tmp_path / "a.tar", [(f"x{i:02}.cls", b"oops" if i in native else b"%d" % i)
                                          for i in range(60)])

    def fail(sample):
        return None if sample["cls"] in functions else sample

    plain = tarn.open(path)
    for ds in (plain, plain.shuffle(3), plain.shuffle(3).shard(1, 2), plain[::-1],
               plain.select([*range(28, 20, -1)] * 2), plain.order("weighted", seed=4, weights=[1.0] * 60)):
        for options in ({}, {"equal_batches": True}):
            loader = ds.map(fail).loader(15, threads=threads, on_error=policy, **options)
            expected = []
            for epoch in range(2):
                got = [number for batch in loader for number in numbers(batch)]
                now = ds._at_epoch(epoch)
                sequence = np.asarray(now._handle.sequence(0, len(now))).tolist()
                rows = [int(plain.lookup([key])[0]) for key in now.keys()]
                expected += [(epoch, number) for number, row in zip(sequence, rows)
                             if row in native | functions]
                if policy == "skip":
                    assert got == [row for row in rows if row not in native | functions]
            assert [(one.epoch, one.number) for one in loader.skipped()] == expected
            assert loader.stats()["skipped"] == len(expected)


def test_skipped_samples_are_listed_in_order_after_a_resume(tmp_path):
    path = write_tar(tmp_path / "a.tar", [(f"x{i:02}.cls", b"oops" if i % 5 == 1 else b"%d" % i)
                                          for i in range(40)])
    ds = tarn.open(path).shuffle(6)
    mapped = ds.map(lambda sample: None if sample["cls"] % 5 == 2 else sample)
    for options in ({}, {"equal_batches": True}):
        loader = mapped.loader(7, on_error="skip", **options)
        next(iter(loader))
        state = loader.state_dict()
        rest = mapped.loader(9, on_error="skip", **options)
        rest.load_state_dict(state)
        list(rest)
        expected = [n for n in (int(key[1:]) for key in ds.keys()[7 if not options else 6:]) if n % 5 in (1, 2)]
        assert [one.number for one in rest.skipped()] == expected
        rest.set_epoch(0)
        list(rest)
        everything = [n for n in (int(key[1:]) for key in ds.keys()) if n % 5 in (1, 2)]
        assert [one.number for one in rest.skipped()] == expected + everything


def test_a_damaged_list_of_arrays_is_a_hole(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.npz", tarn._tarn.encode("npz", {"x": np.arange(3)})),
                                          ("b.npz", b"PK\x03\x04 not a zip"), ("c.npz", b"")])
    [batch] = tarn.open(path).loader(3, on_error="skip")
    assert batch["__key__"] == ["a"] and batch["npz"][0]["x"].tolist() == [0, 1, 2]


# --- Functions get what ds[i] returns --------------------------------------------------------


def check_samples(ds):
    assert len(ds)
    for threads in (0, 2):
        seen = []
        loader = ds.map(lambda sample: seen.append(sample) or 1).loader(3, threads=threads)
        assert sum(len(batch) for batch in loader) == len(ds) == len(seen)
        for i, sample in enumerate(seen):
            assert same(sample, ds[i]), (i, sample, ds[i])


def test_functions_get_the_samples_of_a_fold(birds, pictures, many):
    check_samples(tarn.open(birds))
    check_samples(tarn.open(pictures))
    check_samples(tarn.open(many, decode="bytes")[:7])
    check_samples(tarn.open(many, decode=False)[:7])
    check_samples(tarn.open(many, fields=["cls", "_idx", "_key", "_shard", "_fid"])[495:505])
    check_samples(tarn.open(birds, decoders={"txt": len, "cls": "bytes"}).shuffle(3))


def test_functions_get_images_of_pillow(pictures):
    pytest.importorskip("PIL.Image")
    check_samples(tarn.open(pictures, fields=["jpg", "png"], images="pil"))


@pytest.mark.skipif(sanitized(), reason="torch is not run under AddressSanitizer")
def test_functions_get_tensors(pictures):
    torch = pytest.importorskip("torch")
    seen = []
    ds = tarn.open(pictures, fields=["npy"], array_type="torch")
    for batch in ds[:2].map(lambda sample: seen.append(sample["npy"]) or sample["npy"][:3, :3]).loader(2):
        assert isinstance(batch, torch.Tensor) and batch.shape == (2, 3, 3, 3)
    assert all(torch.equal(one, ds[i]["npy"]) for i, one in enumerate(seen))


def test_functions_get_rows_and_records(tmp_path):
    with tarn.gnz.create(tmp_path / "a.gnz") as out:
        out.add("x", np.arange(12, dtype="f4").reshape(4, 3))
        out.add("n", np.arange(4, dtype="i2"))
        out.add("_key", np.array([b"a", b"b", b"c", b"d"]))
    check_samples(tarn.open(tmp_path / "a.gnz"))
    with tarn.iac.create(tmp_path / "a.iac", {"name": ["a", "b", "c"], "n": [1, 2, 3]}) as out:
        for data in (b"1", b"22", b""):
            out.add(data)
    check_samples(tarn.open(tmp_path / "a.iac"))
    for path in [*(DATA / "gnz").glob("*.gnz"), *(DATA / "iac").rglob("*.iac")]:
        stored = tarn.open(path)
        if len(stored):
            check_samples(stored[:10])


def test_functions_get_views_of_a_group():
    fields = ["f0.txt", "f0.cls", "f1.txt", "f1.cls", "f2.txt", "f2.cls"]
    check_samples(tarn.open(DATA / "02_multidot", fields=fields).group("{0}.txt", "{0}.cls", seed=1))


def test_batches_of_functions_are_arrays_where_values_are_of_one_shape(birds):
    ds = tarn.open(birds, fields=["txt", "cls"])
    [batch] = ds.map(lambda s: (s["cls"], s["txt"], np.ones(2), {"f": s["cls"] / 2})).loader(4)
    assert batch[0].tolist() == [0, 1, 2, 3] and batch[1][3] == "An owl."
    assert batch[2].shape == (4, 2) and batch[3]["f"].tolist() == [0, 0.5, 1, 1.5]
    [batch] = ds.map(lambda s: np.ones(s["cls"])).loader(4)
    assert [len(array) for array in batch] == [0, 1, 2, 3]


def test_random_steps_of_images_depend_on_the_place_in_the_epoch(pictures):
    ds = tarn.open(pictures, fields=["png"])[[3] * 8]

    def pixels(threads, epoch, start=0):
        loader = ds.loader(4, threads=threads, resize=8, fit="random", seed=1)
        loader.set_epoch(epoch)
        batches = iter(loader)
        if start:
            next(batches)
            loader.load_state_dict(loader.state_dict())
            batches = iter(loader)
        return np.concatenate([batch["png"] for batch in batches])

    one = pixels(0, 0)
    assert len({array.tobytes() for array in one}) == 8  # the same sample with a different crop
    assert np.array_equal(one, pixels(3, 0)) and np.array_equal(one[4:], pixels(2, 0, start=1))
    assert not np.array_equal(one, pixels(0, 1))


# --- Copies ----------------------------------------------------------------------------------


def is_small(sample):
    return sample["cls"] < 3


def doubled(number):
    return number * 2


def resumed(ds):
    it = iter(ds)
    for _ in range(5):
        next(it)
    ds.load_state_dict(ds.state_dict())
    return ds


def in_epoch(ds, epoch):
    ds.set_epoch(epoch)
    return ds


CHAINS = {
    "select": lambda ds: ds[[5, 3, 5, -1]],
    "array": lambda ds: ds[np.arange(100, 0, -7)],
    "mask": lambda ds: ds[np.arange(2000) % 9 == 2],
    "slice": lambda ds: ds[1990:3:-5],
    "filter": lambda ds: ds[:50].filter(is_small),
    "keys": lambda ds: ds.shuffle(1).filter(keys=NAMES[10:20])[::-1],
    "below": lambda ds: ds.shuffle(2).filter(is_small).filter(ranges=[(0, 30)]),
    "mapped": lambda ds: ds[:30].map(cls=doubled).filter(is_small).map(cls=doubled),
    "weights": lambda ds: ds[:20].order("weighted", weights=np.arange(1, 21), draws=50, seed=3),
    "lengths": lambda ds: ds[:20].order("lengths", lengths=list(range(20)), chunk=3, pool=2),
    "field": lambda ds: ds[:40].order("balanced", by="cls", draws=70),
    "shard": lambda ds: ds.shuffle(4).shard(1, 3, uneven="pad").shard(0, 2)[:20],
    "own": lambda ds: ds.shard(2, 50).shuffle(4),
    "mix": lambda ds: tarn.mix(ds.shuffle(1)[:9], ds[::-100], counts=[7, 30]).shuffle(2),
    "parts": lambda ds: tarn.mix(ds[:9].shuffle(1).map(cls=doubled), ds[:5].map(cls=float), counts=[20, 7])[3:],
    "nested": lambda ds: tarn.mix(tarn.mix(ds[:3], ds[5:9].map(cls=float)), ds[:2].shuffle(1)),
    "epoch": lambda ds: in_epoch(ds[:30].shuffle(1), 3),
    "frozen": lambda ds: in_epoch(ds.shuffle(1), 3)[:30],
    "twice": lambda ds: in_epoch(in_epoch(ds[:30].shuffle(1), 2).shuffle(5), 1),
    "resumed": lambda ds: resumed(ds[:30].shuffle(1)),
    "resumed mix": lambda ds: resumed(tarn.mix(ds[:9].shuffle(1).map(cls=doubled), ds[:5])),
    "of resumed": lambda ds: resumed(in_epoch(ds[:30].shuffle(1), 2))[::2],
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_copy_by_pickle_gives_the_same_samples(ds, name):
    made = CHAINS[name](ds[:])
    copy = pickle.loads(pickle.dumps(made))
    assert copy == made and len(copy) == len(made) and copy.epoch == made.epoch
    assert list(copy) == list(made) and copy.keys() == made.keys() != []
    assert keys_of(copy.loader(4, threads=0)) == made.keys()
    again = pickle.loads(pickle.dumps(copy))
    following = made.epoch + 1
    for one in (made, copy, again):
        one.set_epoch(following)
    assert list(again) == list(copy) == list(made)
    assert copy.state_dict() == made.state_dict()


@pytest.mark.parametrize("name", CHAINS)
def test_a_loader_copied_by_pickle_gives_the_rest(ds, name):
    loader = CHAINS[name](ds[:]).loader(3)
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    assert keys_of(copy) == keys_of(batches)
    assert keys_of(copy) == keys_of(loader)


# --- States ----------------------------------------------------------------------------------


def test_the_sources_of_a_mix_continue_with_other_weights(ds):
    parts = (ds[:50].shuffle(1), ds[1000:1040].shuffle(2))

    def sources(keys):
        return [[key for key in keys if (key < "s01000") == first] for first in (True, False)]

    for take in (lambda both: both, lambda both: both.map(cls=float)):
        loader = take(tarn.mix(*parts, counts=[10, 30])).loader(8)
        taken = sources(keys_of(itertools.islice(loader, 3)))
        other = take(tarn.mix(*parts, counts=[25, 5])).loader(8)
        other.load_state_dict(loader.state_dict())
        left = sources(keys_of(itertools.chain(other, other)))
        for part, before, after in zip(parts, taken, left):
            one = list(part.keys())
            part.set_epoch(1)
            passes = one + part.keys()
            part.set_epoch(0)
            assert before + after == passes[:len(before) + len(after)]
            assert before and after


@pytest.mark.parametrize("other, reason", [
    (lambda ds: ds.shuffle(2), r"another chain.*seed=2"), (lambda ds: ds, r"another chain"),
    (lambda ds: ds[:1999].shuffle(1), r"another chain.*slice\(0,1,1999\)"),
    (lambda ds: ds[::-1].shuffle(1), r"another chain.*slice\(1999,-1,2000\)"),
    (lambda ds: ds.shuffle(1)[:], r"another chain.*slice"),
    (lambda ds: tarn.mix(ds, ds).shuffle(1), r"mix"),
], ids=["seed", "no order", "fewer", "reversed", "slice", "mix"])
def test_a_state_of_another_chain_is_refused_with_the_reason(ds, other, reason):
    made, wrong = ds.shuffle(1), other(ds)
    for state, target in ((wrong.state_dict(), made), (made.state_dict(), wrong),
                          (wrong.loader(4).state_dict(), made.loader(4)),
                          (made.loader(4).state_dict(), wrong.loader(4))):
        with pytest.raises(tarn.StaleError, match=reason):
            target.load_state_dict(state)


def test_a_state_of_other_data_is_refused_and_of_a_copy_is_not(tmp_path):
    def make(name, texts):
        return tarn.open(write_tar(tmp_path / name, [(f"{i}.txt", text) for i, text in enumerate(texts)]))

    one, copy = make("a.tar", [b"a", b"b", b"c"]), make("b.tar", [b"a", b"b", b"c"])
    longer, more = make("c.tar", [b"a" * 600, b"b", b"c"]), make("d.tar", [b"a"] * 4)
    next(iter(one))
    copy.load_state_dict(one.state_dict())
    assert copy.keys() == ["1", "2"]
    with pytest.raises(tarn.StaleError, match="other data.*fold 3:.*fold 3:"):
        longer.load_state_dict(one.state_dict())
    with pytest.raises(tarn.StaleError, match="other data.*fold 3:.*fold 4:"):
        more.load_state_dict(one.state_dict())


def test_functions_and_the_batch_size_are_not_part_of_a_state(ds):
    loader = ds[:60].shuffle(1).loader(7)
    taken = keys_of(itertools.islice(loader, 2))
    other = ds[:60].shuffle(1).map(cls=float).loader(11, threads=0)
    other.load_state_dict(loader.state_dict())
    assert taken + keys_of(other) == shuffled(NAMES[:60], 1)


# --- Memory ----------------------------------------------------------------------------------


class _Used(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def allocated():
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Used
    used = libc.mallinfo2()
    return used.uordblks + used.hblkhd


@pytest.mark.skipif(sanitized() or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc's malloc")
def test_ranges_take_no_memory_and_lists_at_most_8_bytes_per_sample(tmp_path):
    count = 1 << 20                               # lists are rounded up to pages of 2 MiB
    with tarn.gnz.create(tmp_path / "a.gnz") as out:
        out.add("x", np.zeros(count, "u1"))
    ds = tarn.open(tmp_path / "a.gnz")

    def cost(make):
        """Returns the bytes per sample, without fixed costs."""
        make()
        gc.collect()
        before = allocated()
        made = make()
        return max(0, allocated() - before - 65536) / len(made)

    for make in (lambda: ds[::-1], lambda: ds[5::2].shuffle(1), lambda: ds.shuffle(1)[:-7].shard(1, 2)[::-1],
                 lambda: tarn.mix(ds, ds.shuffle(1))):
        assert cost(make) == 0
    chosen = np.arange(count)[::-1]
    assert 4 <= cost(lambda: ds[chosen]) <= 8
    assert 4 <= cost(lambda: ds[chosen > 5]) <= 8
    assert 4 <= cost(lambda: ds.filter(ranges=[(0, count - 1)])) <= 8


def test_a_function_that_raises_stop_iteration_does_not_end_the_epoch(birds):
    def stops(sample):
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(tarn.open(birds, fields=["cls"]).map(stops).loader(2))


def test_padding_of_a_single_rank_repeats_the_first_samples(many):
    ds = tarn.open(many, fields=["cls"])[:7]
    for chain in (ds, ds.shuffle(1), ds.order("blocks", block=2, window=2), ds.order("feistel"),
                  ds.order("lengths", lengths=range(7))):
        keys = [key for batch in chain.shard(0, 1, uneven="pad").loader(4, equal_batches=True)
                for key in batch["__key__"]]
        assert keys == [*chain.keys(), chain.keys()[0]]


def unchanged(sample):
    return sample


def test_a_mapped_mix_with_other_weights_continues_as_the_plain_one_does(many):
    a, b = (tarn.open(many, fields=["cls"])[part] for part in (slice(0, 23), slice(30, 40)))

    def keys_after(function):
        def mixed(counts):
            return tarn.mix(function(a.shuffle(1)), b, counts=counts)

        first = mixed([4, 2]).loader(3)
        list(first)
        second = mixed([2, 2]).loader(2)
        second.load_state_dict(first.state_dict())
        return [[batch["__key__"] for batch in second] for _ in range(3)]

    assert keys_after(lambda ds: ds.map(unchanged)) == keys_after(lambda ds: ds)


def test_a_continued_mix_is_the_same_in_another_process(many):
    a, b = (tarn.open(many, fields=["cls"])[part] for part in (slice(0, 23), slice(30, 40)))
    first = tarn.mix(a.shuffle(1), b.shuffle(2), counts=[4, 2])
    list(first)
    second = tarn.mix(a.shuffle(1), b.shuffle(2), counts=[2, 2])
    second.load_state_dict(first.state_dict())
    second.set_epoch(2)
    assert pickle.loads(pickle.dumps(second)).keys() == second.keys()
    assert pickle.loads(pickle.dumps(second[:3])).keys() == second.keys()[:3]


def test_the_rest_of_an_epoch_can_be_a_source_of_a_mix(many):
    ds = tarn.open(many, fields=["cls"])[:10].shuffle(1)
    list(itertools.islice(ds, 4))
    ds.load_state_dict(ds.state_dict())
    assert len(ds) == 6 and tarn.mix(ds).keys() == ds.keys()


def test_loops_after_the_last_epoch_do_not_move_the_state(many):
    ds = tarn.open(many, fields=["cls"])[:20]
    loader = ds.loader(5, epochs=2)
    assert [len(list(loader)) for _ in range(5)] == [4, 4, 0, 0, 0]
    assert loader.epoch == 2
    more = ds.loader(5, epochs=10)
    more.load_state_dict(loader.state_dict())
    assert more.epoch == 2


def test_options_that_cannot_be_honoured_are_refused(many):
    ds = tarn.open(many, fields=["cls"])
    with pytest.raises(tarn.UsageError, match="block is not an option of 'shuffle'"):
        ds.order("shuffle", block=3)
    with pytest.raises(tarn.UsageError, match="draws is not an option of 'identity'"):
        ds.order("identity", draws=3)
    parts = tarn.mix(ds.map(unchanged), ds)
    with pytest.raises(tarn.UsageError, match="integers"):
        parts.loader(2, integers=["cls"])
    assert "__key__" not in next(iter(parts.loader(2, keys=False)))


def test_many_keys_are_looked_up_in_one_pass(many):
    chain = tarn.open(many, fields=["cls"]).shuffle(3)[:1500]
    keys = chain.keys()
    wanted = [*keys[::7], "none"]
    assert chain.lookup(wanted) == [*range(0, 1500, 7), None]
    kept = set(wanted)
    assert chain.filter(keys=wanted[:-1]).keys() == [key for key in keys if key in kept]
    repeated = chain.select([3, 5, 3, 8, 5])
    assert repeated.lookup(keys[:9]) == [None, None, None, 0, None, 1, None, None, 3]
    assert repeated.filter(keys=[keys[3], keys[5]]).keys() == [keys[i] for i in (3, 5, 3, 5)]


def test_positions_are_taken_as_sequences_take_them(birds):
    ds = tarn.open(birds)
    keys = ds.keys()
    assert ds[::10**30].keys() == keys[::10**30] and ds[3:0:-2**63].keys() == keys[3:0:-2**63]
    assert ds.select(range(-3, -1)).keys() == keys[-3:-1]
    assert ds[True, False, True, False].keys() == [keys[0], keys[2]]
    with pytest.raises(IndexError):
        ds.select(range(2, 5))
