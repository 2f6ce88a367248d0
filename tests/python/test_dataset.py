"""Datasets: opening, indexing, filters, maps, orders, batches, mixes."""
import copy
import ctypes
import gc
import gzip
import io
import json
import mmap
import os
import pickle
import subprocess
import sys
import time
import warnings
import weakref

import numpy as np
import pytest
from conftest import BIRDS, DATA, payload, picture, sanitized, write_tar

import tarn


@pytest.fixture
def ds(birds):
    return tarn.open(birds)


# --- Samples ---------------------------------------------------------------------------------


def test_a_sample_is_a_dict_of_values_with_its_key(ds):
    assert ds[2] == {"__key__": "kiwi", "txt": "A kiwi.", "cls": 2,
                     "json": {"name": "kiwi", "n": 2}}
    assert list(ds[2]) == ["__key__", "txt", "cls", "json"]


def test_samples_by_position_key_and_from_the_end(ds):
    assert len(ds) == 4
    assert ds[-1] == ds[3] == ds["owl"] == ds[np.int64(3)] == ds[np.array(3)]
    assert [sample["__key__"] for sample in ds] == [key for key, _, _ in BIRDS]
    assert "owl" in ds and "emu" not in ds and 3 not in ds


@pytest.mark.parametrize("count", [31, 32, 33, 1055, 1056, 1057, 2500])
def test_iteration_over_many_gives_each_in_its_order(tmp_path, count):
    with tarn.DatasetWriter(tmp_path, "many") as out:
        for i in range(count):
            out.write({"__key__": f"k{i:05}", "cls": i})
    many = tarn.open(tmp_path)
    assert [sample["cls"] for sample in many] == list(range(count))
    mixed = many.shuffle(3)
    seen = [sample["cls"] for sample in mixed]
    assert seen == [mixed[i]["cls"] for i in range(count)] and sorted(seen) == list(range(count))


@pytest.mark.parametrize("index", [4, -5, 2**63, -2**63, 2**70])
def test_a_position_past_the_end_is_an_index_error(ds, index):
    with pytest.raises(IndexError):
        ds[index]


def test_a_key_that_is_not_there_is_a_key_error(ds):
    with pytest.raises(KeyError) as caught:
        ds["emu"]
    assert isinstance(caught.value, tarn.KeyNotFoundError)
    assert caught.value.code == "no-sample"
    with pytest.raises(ValueError):
        ds["a\0b"]
    with pytest.raises(TypeError):
        ds[1.5]


def test_no_such_folder_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        tarn.open(tmp_path / "nothing")
    assert isinstance(caught.value, tarn.Error)
    assert caught.value.path == str(tmp_path / "nothing")


def test_a_field_that_does_not_exist_is_a_key_error():
    with pytest.raises(tarn.KeyNotFoundError, match="no field gone") as caught:
        tarn.open(DATA / "01_basic", fold="train", fields=["gone"])
    assert caught.value.code == "no-field"


def test_a_fold_that_does_not_exist_is_file_not_found():
    with pytest.raises(tarn.PathNotFoundError) as caught:
        tarn.open(DATA / "01_basic", fold="gone", fields=["jpg"])
    assert caught.value.code == "no-fold"


def test_a_fold_can_be_named_both_ways():
    one, other = tarn.open(f"{DATA}/01_basic:train"), tarn.open(DATA / "01_basic", fold="train")
    assert one.keys() == other.keys()
    with pytest.raises(tarn.AmbiguousError):
        tarn.open(DATA / "01_basic")


def test_fields_select_samples_and_values(ds, birds):
    some = tarn.open(birds, fields=[".cls", "cls", "_idx", "_key", "_shard"])
    assert some.fields == ("cls", "_idx", "_key", "_shard")
    assert some[1] == {"__key__": "jay", "cls": 1, "_idx": 1, "_key": "jay",
                       "_shard": "train_0.tar"}
    assert tarn.open(birds, fields="cls").fields == ("cls",)
    with pytest.raises(tarn.NotFoundError):
        tarn.open(birds, fields=["wav"])


def test_samples_with_a_duplicate_field_are_left_out_on_request(tmp_path):
    path = write_tar(tmp_path / "a.tar", [
        ("x/a.txt", b"1"), ("y/a.txt", b"2"), ("a.cls", b"3"), ("b.txt", b"4"), ("c.cls", b"5")])
    with pytest.raises(tarn.AmbiguousError):
        tarn.open(path)["a"]
    ds = tarn.open(path, drop_ambiguous=True)
    assert ds.keys() == ["b", "c"] and ds.info["dropped"] == 1 and ds.fields == ("txt", "cls")
    assert [sorted(sample) for sample in ds] == [["__key__", "txt"], ["__key__", "cls"]]
    assert tarn.open(path, drop_ambiguous=True, fields=["txt"]).keys() == ["b"]
    assert tarn.open(path, drop_ambiguous=True, fields=["cls"]).keys() == ["a", "c"]


def test_a_sample_may_lack_fields_when_none_were_asked_for():
    ds = tarn.open(DATA / "05_empty_ext")
    assert [sorted(sample) for sample in ds] != []
    assert any(len(sample) < len(ds.fields) + 1 for sample in ds)


def test_views_bytes_and_values_say_the_same(many):
    views, raw, values = (tarn.open(many, decode=mode) for mode in (False, "bytes", True))
    for i in (0, 7, 1999):
        assert isinstance(views[i]["bin"], memoryview) and views[i]["bin"].readonly
        assert bytes(views[i]["bin"]) == raw[i]["bin"] == values[i]["bin"] == payload(i)
        assert values[i]["cls"] == int(raw[i]["cls"]) == i % 7
    with pytest.raises(TypeError):
        views[0]["bin"][0] = 1


def test_views_outlive_the_dataset(many):
    view = tarn.open(many, decode=False)[5]["bin"]
    part = memoryview(view)[4:8]
    array = np.frombuffer(tarn.open(many, decode=False)[9]["bin"], "<u4")
    gc.collect()
    assert bytes(view) == payload(5)
    del view
    gc.collect()
    assert bytes(part) == payload(5)[4:8]
    assert (array == 9).all() and not array.flags.writeable


def test_io_by_reads_gives_the_same(many):
    mapped, read = tarn.open(many, io="map"), tarn.open(many, io="read", check=True)
    assert [mapped[i] for i in range(0, 2000, 97)] == [read[i] for i in range(0, 2000, 97)]
    with pytest.raises(ValueError):
        tarn.open(many, io="fast")


def test_names_that_are_not_utf8_go_round(tmp_path):
    with open(write_tar(tmp_path / "a.tar", [("x" * 8 + ".txt", b"1")]), "r+b") as f:
        f.seek(0)
        head = bytearray(f.read(512))
        head[:2] = b"\xff\xfe"
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        f.seek(0)
        f.write(head)
    ds = tarn.open(tmp_path / "a.tar")
    key = ds.keys()[0]
    assert ds[key]["txt"] == "1" and ds.filter(keys=[key]).keys() == [key]


# --- Values ----------------------------------------------------------------------------------


def test_images_are_arrays_that_can_be_written_to(pictures):
    ds = tarn.open(pictures)
    for i in (0, 5, 15):
        sample = ds[i]
        assert (sample["png"] == picture(np, i)).all()
        assert sample["jpg"].shape == picture(np, i).shape and sample["jpg"].dtype == np.uint8
        sample["png"][0, 0, 0] = 255
        assert (ds[i]["png"] == picture(np, i)).all()


def test_arrays_of_npy_lie_in_the_file(pictures):
    array = tarn.open(pictures)[3]["npy"]
    assert (array == picture(np, 3)).all() and array.dtype == np.float32
    assert not array.flags.writeable and not array.flags.owndata


def test_images_as_pil(pictures):
    Image = pytest.importorskip("PIL.Image")
    image = tarn.open(pictures, fields=["png"], images="pil")[4]["png"]
    assert isinstance(image, Image.Image) and image.mode == "RGB"
    assert (np.asarray(image) == picture(np, 4)).all()


def test_images_of_16_bits_as_pil_are_what_pillow_makes_of_them(tmp_path):
    image = pytest.importorskip("PIL.Image")
    down, right = np.mgrid[0:20, 0:30]
    pixels = np.stack([down * 3000, right * 2000, down * right * 100], axis=2).astype("u2")
    files = [tarn._tarn.encode("png", part) for part in (pixels, pixels[:, :, 0])]
    write_tar(tmp_path / "a.tar", [(f"{i}.png", data) for i, data in enumerate(files)])
    for sample, data in zip(tarn.open(tmp_path / "a.tar", images="pil"), files):
        theirs = image.open(io.BytesIO(data))
        assert sample["png"].mode == theirs.mode
        assert np.array_equal(np.asarray(sample["png"]), np.asarray(theirs))


def test_arrays_as_torch_share_memory(pictures):
    torch = pytest.importorskip("torch")
    sample = tarn.open(pictures, array_type="torch")[2]
    assert sample["png"].dtype == torch.uint8 and (sample["png"].numpy() == picture(np, 2)).all()
    assert sample["npy"].dtype == torch.float32
    sample["npy"][0] = 7
    value = np.zeros((2, 3), "f4")
    assert tarn._reading.to_torch(value).data_ptr() == value.ctypes.data


def test_decoders_come_first_and_get_bytes(birds):
    ds = tarn.open(birds, decoders={"txt": bytes.upper, "cls": lambda data: float(data) / 2})
    assert ds[1]["txt"] == b"A JAY." and ds[1]["cls"] == 0.5
    with pytest.raises(ValueError):
        tarn.open(birds, decoders={"txt": "eval"})


def test_decoders_of_fields_that_the_file_does_not_have_are_refused(birds):
    for name, hint in (("clss", "did you mean cls[?]"), ("payload", "the fields are txt, cls, json"),
                       ("txt.gz", "did you mean txt[?]")):
        with pytest.raises(tarn.UsageError, match=rf"birds: no field {name} for decoders\['{name}'\].*{hint}"):
            tarn.open(birds, decoders={"cls": float, name: len})
    # Fields that are not read, the names of renamed ones in the file, extensions, and templates of groups.
    assert tarn.open(birds, fields=["txt"], decoders={"cls": float})[0].keys() == {"__key__", "txt"}
    assert tarn.open(birds, fields=["n=cls"], decoders={"cls": float, "n": float})[0]["n"] == 0.0
    assert tarn.open(birds, fields=["n=cls"], decoders={"cls": lambda data: "decoded"})[0]["n"] == "decoded"
    assert len(tarn.open(birds, decoders={"{0}.cls": float})) == 4


def test_decoders_of_an_empty_shard_are_accepted(tmp_path):
    assert len(tarn.open(write_tar(tmp_path / "a.tar", []), decoders={"cls": float})) == 0


def test_pickles_are_bytes_unless_named(tmp_path):
    write_tar(tmp_path / "a.tar", [("x.pyd", pickle.dumps([1, 2]))])
    assert tarn.open(tmp_path / "a.tar")[0]["pyd"] == pickle.dumps([1, 2])
    assert tarn.open(tmp_path / "a.tar", decoders={"pyd": "pickle"})[0]["pyd"] == [1, 2]


def test_a_value_that_cannot_be_decoded_tells_where(tmp_path):
    write_tar(tmp_path / "a.tar", [("x.json", b'{"a": }')])
    with pytest.raises(tarn.FormatError) as caught:
        tarn.open(tmp_path / "a.tar")[0]
    assert "sample x: field json" in str(caught.value)
    assert caught.value.path == str(tmp_path / "a.tar")


def test_decoding_failures_are_where_the_loader_and_ls_say(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.cls", b"1"), ("b.json", b'{"x": oops}'), ("c.cls", b"one")])
    ds = tarn.open(path)
    for key, offset in (("b", 1024), ("c", 2048)):    # each member is a header and one block
        with pytest.raises(tarn.FormatError) as caught:
            ds[key]
        assert caught.value.path == str(path) and caught.value.offset == offset
        field = "json" if key == "b" else "cls"
        loader = tarn.open(path, fields=[field]).filter(keys=[key]).loader(1)
        with pytest.raises(tarn.FormatError) as loaded:
            next(iter(loader))
        assert loaded.value.offset == offset
    with pytest.raises(tarn.FormatError, match="byte 6 of the field"):
        ds["b"]


@pytest.mark.skipif(sanitized(), reason="frames are several times as large under a sanitizer")
@pytest.mark.parametrize("how", ["position", "key", "iteration", "decoder"])
def test_a_function_that_asks_for_its_own_sample_is_a_recursion_error(birds, how):
    asked = {"position": lambda _: made[0], "key": lambda _: made["jay"],
             "iteration": lambda _: next(iter(made)), "decoder": lambda _: made[0]}[how]
    if how == "decoder":
        made = tarn.open(birds, fields=["cls"], decoders={"cls": asked})
    else:
        made = tarn.open(birds).map(asked)
    with pytest.raises(RecursionError):
        made[0]


def test_an_exception_in_a_decoder_passes(birds):
    with pytest.raises(ZeroDivisionError):
        tarn.open(birds, decoders={"cls": lambda data: 1 // int(data)})[0]


# --- Array files and record packs ------------------------------------------------------------


def test_rows_of_an_array_file_are_samples():
    path = next((DATA / "gnz").glob("*.gnz"))
    ds = tarn.open(path)
    assert ds.kind == "gnz" and ds.keys([0]) == ["0"]
    for field, value in ds[0].items():
        assert field == "__key__" or isinstance(value, (np.ndarray, np.generic))
    raw = tarn.open(path, decode="bytes")
    for field in ds.fields:
        assert np.asarray(ds[1][field]).tobytes() == raw[1][field]


def test_records_of_a_pack_are_samples():
    path = next(path for path in sorted((DATA / "iac").rglob("*.iac"))
                if len(tarn.open(path)) > 0)
    ds = tarn.open(path)
    assert ds.kind == "iac" and isinstance(ds[0]["payload"], bytes)


# --- Slices and selections -------------------------------------------------------------------


@pytest.mark.parametrize("cut", [slice(10, 20), slice(None), slice(5, 5), slice(20, 10),
                                 slice(None, None, -1), slice(100, 0, -7), slice(-5, None)])
@pytest.mark.parametrize("ordered", [False, True])
def test_slices_are_datasets_like_those_of_lists(many, cut, ordered):
    ds = tarn.open(many, fields=["cls"])
    if ordered:
        ds = ds.shuffle(5)
    assert ds[cut].keys() == ds.keys()[cut]
    assert len(ds[cut]) == len(range(2000)[cut])


def test_lists_and_arrays_of_positions(many):
    ds = tarn.open(many, fields=["cls"])
    want = ["s00003", "s01999", "s00003"]
    for index in ([3, -1, 3], (3, 1999, 3), np.array([3, -1, 3]), np.array([3, 1999, 3], "u2"),
                  np.array([3, 1999, 3], "i4")[::1]):
        assert ds[index].keys() == want
    mask = np.zeros(2000, bool)
    mask[[3, 7]] = True
    assert ds[mask].keys() == ["s00003", "s00007"]
    assert ds[np.arange(0, 10)[::3]].keys() == ["s00000", "s00003", "s00006", "s00009"]
    for wrong in ([2000], [-2001], np.array([2**40])):
        with pytest.raises(IndexError):
            ds[wrong]
    for wrong in (["a"], np.array([0.5]), np.zeros((2, 2), int)):
        with pytest.raises((TypeError, KeyError)):
            ds[wrong]


def test_keys_of_chosen_samples_are_those_alone(ds):
    for part in (ds[1:3], ds[1:3:1], ds[[2, 1]], ds[0:4:2][1:], ds[::-1][1:3]):
        for key in ds.keys():
            assert (key in part) == (key in part.keys())
            if key in part:
                assert part[key] == ds[key]
            else:
                with pytest.raises(tarn.KeyNotFoundError, match=key):
                    part[key]
    assert "jay" in ds.shuffle(1).shard(0, 2) and "jay" in ds.shuffle(1).shard(1, 2)


def test_getitems_gives_a_list(many):
    ds = tarn.open(many, fields=["cls"]).shuffle(3)
    assert ds.__getitems__([5, 0]) == [ds[5], ds[0]]


# --- Filters ---------------------------------------------------------------------------------


def test_filters(many, tmp_path):
    ds = tarn.open(many)
    assert ds.filter(keys=["s00010", "s00002"]).keys() == ["s00002", "s00010"]
    (tmp_path / "names.json").write_text(json.dumps(["s00004.bin", "gone.bin"]))
    assert ds.filter(json=tmp_path / "names.json", missing="ignore").keys() == ["s00004"]
    with pytest.raises(KeyError, match="gone"):
        ds.filter(json=tmp_path / "names.json")
    with pytest.raises(KeyError, match="gone"):
        ds.filter(keys=["gone"])
    assert ds.filter(keys=["gone", "s00000"], missing="ignore").keys() == ["s00000"]
    assert ds.filter(ranges=[(1, 3), (1999, 2000)]).keys() == ["s00001", "s00002", "s01999"]
    assert len(ds.filter(having=["bin"])) == 2000 and len(ds.filter(lacking=["bin"])) == 0
    assert len(ds.filter(size={"bin": (1024, None)})) == 2000
    assert len(ds.filter(size={"bin": (0, 1023)})) == 0
    odd = ds.filter(lambda sample: sample["cls"] == 3)
    assert [sample["cls"] for sample in odd[:5]] == [3] * 5 and len(odd) == 286
    assert odd.filter(ranges=[(0, 1)]).keys() == ["s00003"]


def test_filters_under_an_order_keep_the_order(many):
    ds = tarn.open(many).shuffle(1)
    few = ds.filter(ranges=[(0, 10)])
    assert sorted(few.keys()) == [f"s{i:05d}" for i in range(10)]
    assert few.keys() == tarn.open(many).filter(ranges=[(0, 10)]).shuffle(1).keys()
    few.set_epoch(3)
    again = tarn.open(many).filter(ranges=[(0, 10)]).shuffle(1)
    again.set_epoch(3)
    assert few.keys() == again.keys()
    assert ds[[2, 1, 2]].filter(ranges=[(1, 3)]).keys() == [ds.keys()[1], ds.keys()[2]]


def test_lookup(ds):
    assert ds.lookup(["owl", "emu", "auk"]) == [3, None, 0]
    assert ds.lookup([]) == []
    shuffled = ds.shuffle(1)
    assert shuffled.lookup(["owl", "emu"]) == [shuffled.keys().index("owl"), None]
    assert ds[[1, 3, 3]].lookup(["owl", "auk"]) == [1, None]


# --- Maps and groups -------------------------------------------------------------------------


def test_maps_come_in_the_order_given(ds):
    seen = ds.map(cls=lambda n: n + 1).map(lambda sample: sample["cls"]).map(lambda n: n * 10)
    assert list(seen) == [10, 20, 30, 40]
    assert ds[0]["cls"] == 0
    assert ds.map_all(type)[0]["json"] is dict
    with pytest.raises(tarn.UsageError):
        ds.map_tuple(str)
    with pytest.raises(tarn.UsageError):
        ds.map_group(lambda a, b: (a,), ["txt", "cls"])[0]
    with pytest.raises(ZeroDivisionError):
        ds.map(lambda sample: 1 / 0)[0]


def test_groups_choose_views_as_the_reference_does():
    for case in json.loads((DATA / "grouping_vectors.json").read_text())["datasets"]:
        ds = tarn.open(DATA / case["dataset"], fields=case["extensions"])
        ds = ds.group(*case["grouping"], replace=case["grouping_replace"],
                      seed=case["effective_grouping_seed"] ^ 0x0BAD5EED)
        assert ds.fields == tuple(case["grouping"])
        ds.set_epoch(case["epoch"])
        assert [[sample[field] for field in ds.fields] for sample in ds] == case["values"]
        assert pickle.loads(pickle.dumps(ds)) == ds


# --- Orders ----------------------------------------------------------------------------------


def test_shuffle_is_a_permutation_that_seed_and_epoch_say(many):
    ds = tarn.open(many, fields=["cls"])
    one = ds.shuffle(7)
    assert sorted(one.keys()) == ds.keys() and one.keys() != ds.keys()
    assert one.keys() == ds.shuffle(7).keys() != ds.shuffle(8).keys()
    first = one.keys()
    one.set_epoch(1)
    assert one.epoch == 1 and one.keys() != first
    one.set_epoch(0)
    assert one.keys() == first


def test_an_order_after_shard_warns_with_the_better_spelling(many):
    ds = tarn.open(many, fields=["cls"])
    part = ds.shard(1, 3)
    for wrong in (lambda: part.shuffle(4), lambda: part.order("blocks", block=8, window=2),
                  lambda: part.loader(8, shuffle=True), lambda: ds.shuffle(1).shard(0, 2).shuffle(2)):
        with pytest.warns(UserWarning, match=r"ds\.shuffle\(seed\)\.shard\(rank, world_size\)") as caught:
            wrong()
        assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.shuffle(4).shard(1, 3).loader(8)
        ds.shard(0, 1).shuffle(4)
        ds.shuffle(4).shard(1, 3).order("identity")
        tarn.mix(part, part).shuffle(1)
        meant = part[:].shuffle(4)                # the spelling that does not warn
    with pytest.warns(UserWarning):
        assert part.shuffle(4).keys() == meant.keys()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for epoch in range(3):
            part.shuffle(4)
        assert len(caught) == 1


def test_ranks_share_the_samples(many):
    ds = tarn.open(many, fields=["cls"]).shuffle(2)
    parts = [ds.shard(rank, 3).keys() for rank in range(3)]
    assert sorted(sum(parts, [])) == sorted(ds.keys())
    assert [len(ds.shard(rank, 3, uneven="drop")) for rank in range(3)] == [666] * 3
    assert [len(ds.shard(rank, 3, uneven="pad")) for rank in range(3)] == [667] * 3
    own = ds.shard(1, 3).shuffle(9)             # shuffles only the samples of this rank
    assert sorted(own.keys()) == sorted(parts[1]) and own.keys() != parts[1]
    own.set_epoch(5)
    assert sorted(own.keys()) == sorted(parts[1])
    with pytest.raises(ValueError):
        ds.shard(3, 3)


def test_orders_by_a_field(many):
    ds = tarn.open(many)
    balanced = [sample["cls"] for sample in ds.order("balanced", by="cls", seed=1)[:700]]
    assert all(sorted(balanced[i:i + 7]) == list(range(7)) for i in range(0, 700, 7))
    weights = [1.0 if i == 5 else 0.0 for i in range(2000)]
    assert set(ds.order("weighted", weights=weights, draws=10).keys()) == {"s00005"}
    assert sorted(ds.order("lengths", by="bin").keys()) == ds.keys()
    assert sorted(ds.order("blocks", block=10, window=4, seed=3).keys()) == ds.keys()
    assert sorted(ds.order("buckets", seed=3).keys()) == ds.keys()
    with pytest.raises(ValueError):
        ds.order("fast")
    with pytest.raises(ValueError):
        ds.order("weighted", weights=[1.0])


def test_weights_are_numbers_of_a_field_of_text(tmp_path):
    write_tar(tmp_path / "w.tar", [(f"k{i}.weight", text)
                                   for i, text in enumerate((b"0", b" 2.5\n", b"0.0", b"1e-3"))])
    ds = tarn.open(tmp_path / "w.tar")
    drawn = ds.order("weighted", by="weight", draws=100, seed=1)
    assert set(drawn.keys()) <= {"k1", "k3"} and "k1" in drawn.keys()
    assert drawn.keys() == ds.order("weighted", weights=[0, 2.5, 0, 1e-3], draws=100, seed=1).keys()
    once = ds.order("weighted-once", by="weight", seed=1)
    assert sorted(once.keys()) == ["k1", "k3"]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u1"])
def test_weights_are_numbers_of_an_array(tmp_path, dtype):
    weights = np.array([0, 2, 0, 1], dtype)
    tarn.gnz.save(tmp_path / "w.gnz", w=weights, x=np.arange(4))
    ds = tarn.open(tmp_path / "w.gnz")
    drawn = ds.order("weighted", by="w", draws=100, seed=1)
    assert set(drawn.keys()) == {"1", "3"}
    assert drawn.keys() == ds.order("weighted", weights=weights, draws=100, seed=1).keys()


def test_a_weight_that_is_not_a_number_is_reported_with_its_sample(birds, tmp_path):
    ds = tarn.open(birds)
    with pytest.raises(tarn.FormatError, match="field txt of sample auk is not a number"):
        ds.order("weighted", by="txt")
    with pytest.raises(KeyError):
        ds.order("weighted", by="nosuch")
    write_tar(tmp_path / "w.tar", [("a.w", b"1"), ("b.w", b"0x10")])
    with pytest.raises(ValueError, match="field w of sample b is not a number"):
        tarn.open(tmp_path / "w.tar").order("weighted", by="w")


@pytest.mark.parametrize("seed", [0, -5, 2**63, 123456789012345678901234567890])
def test_any_integer_is_a_seed(many, seed):
    ds = tarn.open(many, fields=["cls"])
    assert sorted(ds.shuffle(seed).keys()) == ds.keys()


@pytest.mark.parametrize("taken", [0, 1, 700, 1999, 2000])
@pytest.mark.parametrize("order", ["none", "shuffle", "blocks", "chosen"])
def test_a_state_resumes_where_iteration_stopped(many, taken, order):
    def make():
        ds = tarn.open(many, fields=["cls"])
        if order == "chosen":
            return ds[::-1]
        return ds if order == "none" else ds.order(order, seed=4)

    ds = make()
    ds.set_epoch(2)
    it = iter(ds)
    begun = [next(it)["__key__"] for _ in range(taken)]
    state = json.loads(json.dumps(ds.state_dict()))
    again = make()
    again.load_state_dict(state)
    if taken == 2000:                             # the next epoch comes after the last sample
        ds.set_epoch(3)
        begun = []
    assert begun + [sample["__key__"] for sample in again] == ds.keys()
    assert again.epoch == ds.epoch and len(again) == 2000 - len(begun)
    assert pickle.loads(pickle.dumps(again)).keys() == again.keys()


def test_a_state_fits_another_number_of_ranks(many):
    ds = tarn.open(many, fields=["cls"]).shuffle(11)
    seen, state = [], None
    for rank in range(4):
        part = ds.shard(rank, 4)
        it = iter(part)
        seen += [next(it)["__key__"] for _ in range(100)]
        state = part.state_dict()
    for rank in range(3):
        part = ds.shard(rank, 3)
        part.load_state_dict(state)
        seen += [sample["__key__"] for sample in part]
    assert sorted(seen) == sorted(ds.keys())


def test_a_state_of_something_else_is_refused(many, birds):
    with pytest.raises(ValueError):
        tarn.open(birds).load_state_dict({"epoch": 1})
    with pytest.raises(tarn.StaleError):
        tarn.open(birds).shuffle(1).load_state_dict(tarn.open(many).shuffle(1).state_dict())


@pytest.mark.parametrize("order", ["chosen", "shuffle"])
def test_an_iteration_continues_as_it_began(many, order):
    ds = tarn.open(many, fields=["cls"])
    ds = ds[::-1] if order == "chosen" else ds.shuffle(1)
    keys, state = ds.keys(), ds.state_dict()
    begun = iter(ds)
    next(begun)
    late = ds.state_dict()
    for number in range(1990):
        next(begun)
    end = ds.state_dict()
    begun, other = iter(ds), iter(ds)
    ds.load_state_dict(end)                       # nine samples, although the iterators were made for 2000
    assert [sample["__key__"] for sample in begun] == keys
    assert [sample["__key__"] for sample in ds] == keys[1991:]
    ds.load_state_dict(late)
    assert next(other)["__key__"] == keys[0]
    assert ds.state_dict() == late != state       # what the other iterator takes does not belong to this epoch


@pytest.mark.parametrize("order", ["none", "chosen", "shuffle"])
def test_a_state_is_of_the_whole_epoch_however_often_it_was_resumed(many, order):
    def make():
        ds = tarn.open(many, fields=["cls"])
        return {"none": ds, "chosen": ds[5:1800:3], "shuffle": ds.shuffle(4)}[order]

    ds, seen = make(), []
    keys = ds.keys()
    for taken in (3, 5, 7):
        it = iter(ds)
        seen += [next(it)["__key__"] for _ in range(taken)]
        state = json.loads(json.dumps(ds.state_dict()))
        ds = make()
        ds.load_state_dict(state)
    assert seen + ds.keys() == keys
    ds.set_epoch(0)
    assert ds.keys() == keys


@pytest.mark.parametrize("order", ["none", "chosen", "shuffle"])
def test_datasets_derived_from_a_resumed_one_continue_too(many, order):
    ds = tarn.open(many, fields=["cls"])
    ds = {"none": ds, "chosen": ds[5:1800:3], "shuffle": ds.shuffle(4)}[order]
    it = iter(ds)
    for _ in range(100):
        next(it)
    ds.load_state_dict(ds.state_dict())
    left = ds.keys()
    assert [sample["__key__"] for sample in ds.map(cls=str)] == left == ds.map_all(str).keys()
    assert ds.shard(1, 3).keys() == left[1::3]
    loader = ds.loader(64)
    assert [key for batch in loader for key in batch["__key__"]] == left
    assert sum(len(batch["__key__"]) for batch in loader) == len(left) + 100
    assert sorted(ds.shuffle(1).keys()) == sorted(left) and ds[::-1].keys() == left[::-1]
    assert ds[3:9].filter(keys=left[:5], missing="ignore").keys() == left[3:5]
    assert sorted(ds.filter(having=["cls"]).keys()) == sorted(left)
    ds.set_epoch(1)
    assert len(ds.map(cls=str)) == len(left) + 100


@pytest.mark.parametrize("share", ["keep", "drop", "pad"])
def test_ranks_share_chosen_samples_as_they_share_all(many, share):
    ds = tarn.open(many, fields=["cls"])
    chosen, plain = ds[list(range(10, 20))], ds[10:20]
    for rank in range(4):
        assert chosen.shard(rank, 4, uneven=share).keys() == plain.shard(rank, 4, uneven=share).keys()
    for wrong in ((4, 4), (-1, 4), (0, 0), (0, -1)):
        with pytest.raises(ValueError):
            chosen.shard(*wrong)
    with pytest.raises(tarn.UsageError):
        chosen.shard(0, 2, uneven="fair")


def test_a_state_that_was_damaged_is_refused_and_changes_nothing(many):
    ds = tarn.open(many, fields=["cls"])
    for made in (ds.shuffle(1), ds[::-1]):
        good, keys = made.state_dict(), made.keys()
        text = json.loads(good["dataset"])
        damaged = [None, 5, "x", [], {}, {**good, "version": 1}, {**good, "version": 3},
                   {"version": 2}, {**good, "dataset": None}, {**good, "dataset": 5},
                   {**good, "dataset": ""}, {**good, "dataset": "{}"}, {**good, "dataset": "[]"},
                   {**good, "dataset": good["dataset"][:-1]}, made.loader(2).state_dict(),
                   ds.state_dict(), ds.shuffle(2).state_dict()]
        for name, value in text.items():
            damaged += [{**good, "dataset": json.dumps({**text, name: wrong})}
                        for wrong in (-1, 1.5, None, "x", [], 2**70)]
            damaged.append({**good, "dataset": json.dumps(
                {other: value for other, value in text.items() if other != name})})
        for state in damaged:
            with pytest.raises(ValueError):
                made.load_state_dict(state)
            assert made.keys() == keys and made.epoch == 0


# --- Batches ---------------------------------------------------------------------------------


def test_batches_hold_what_samples_hold(many):
    ds = tarn.open(many)
    for source in (ds, ds.shuffle(1), ds[100:200]):
        batch = source.batch([5, 0, 99, -1])
        assert len(batch) == 4 and batch.fields == ("bin", "cls")
        for i, at in enumerate([5, 0, 99, -1]):
            assert bytes(batch[i]["bin"]) == source[at]["bin"]
        assert [int(bytes(item)) for item in batch.column("cls")] == [
            source[at]["cls"] for at in (5, 0, 99, -1)]
        offsets = np.asarray(batch.offsets)
        assert offsets.dtype == np.uint64 and offsets[-1] == len(batch.data)


def test_a_batch_is_reused_only_when_it_is_unreferenced(many):
    ds = tarn.open(many, fields=["bin"])
    batch = ds.batch(range(64))
    again = ds.batch(range(64, 128), out=batch)
    assert again is batch and bytes(batch[0]["bin"]) == payload(64)
    view = batch[0]["bin"]
    with pytest.raises(BufferError):
        ds.batch([0], out=batch)
    assert bytes(view) == payload(64)
    del view
    ds.batch([0], out=batch)
    with pytest.raises(IndexError):
        ds.batch([2000], out=batch)
    with pytest.raises(KeyError):
        ds.batch([0], ["wav"])
    assert len(ds.batch([])) == 0 and ds.batch([]).offsets.tolist() == [0]


# --- Mixes -----------------------------------------------------------------------------------


def test_mixes_interleave(many, birds):
    small, large = tarn.open(birds, fields=["cls"]), tarn.open(many, fields=["cls"])
    both = tarn.mix(small, large, counts=[4, 8])
    assert len(both) == 12 and both.kind == "mix" and both.fields == ("cls",)
    assert sorted(both.keys()) == sorted([key for key, _, _ in BIRDS] + [f"s{i:05d}" for i in
                                                                         range(8)])
    assert tarn.mix(small, large, weights=[1, 1], total=20).shuffle(1).keys() != []
    assert len(tarn.mix(small, small)) == 8
    again = pickle.loads(pickle.dumps(both.shuffle(3)))
    assert again == both.shuffle(3) and again.keys() == both.shuffle(3).keys()
    with pytest.raises(ValueError):
        tarn.mix()
    with pytest.raises(ValueError, match=r"list is not a dataset.*mix\(\*datasets\)"):
        tarn.mix([small, large])
    shuffled = tarn.mix(small.shuffle(1), large, counts=[4, 8])
    assert [key for key in shuffled.keys() if key[0] != "s"] == small.shuffle(1).keys()
    with pytest.raises(ValueError):
        tarn.mix(small, large, weights=[1])


def test_a_mix_of_kinds_decodes_each(birds):
    gnz = next((DATA / "gnz").glob("*.gnz"))
    both = tarn.mix(tarn.open(birds), tarn.open(gnz))
    kinds = {frozenset(sample) for sample in both}
    assert len(kinds) == 2


# --- By URL ----------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    """A folder served by HTTP on this machine, and the requested paths."""
    import functools
    import http.server
    import threading

    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            asked.append(self.path)

    folder = tmp_path / "served"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                             functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def write_gz(path, members):
    write_tar(path.with_suffix(""), members)
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))


def test_a_compressed_archive_is_copied_once(served, tmp_path):
    folder, url, asked = served
    for i in range(3):
        write_gz(folder / f"t-{i}.tar.gz", [(f"{i}{k}.cls", b"%d" % k) for k in range(4)])
    cache = tmp_path / "cache"
    ds = tarn.open(url + "/t-{0..2}.tar.gz", cache=cache)
    assert ds.keys() == [f"{i}{k}" for i in range(3) for k in range(4)] and ds[5]["cls"] == 1
    count = len(asked)
    again = tarn.open(url + "/t-{0..2}.tar.gz", cache=cache)
    assert again == ds and len(asked) == count and pickle.loads(pickle.dumps(ds))[0] == ds[0]
    assert len(tarn.open((folder / "t-0.tar").as_uri())) == 4


def test_a_url_that_cannot_be_had_leaves_nothing(served, tmp_path):
    _, url, _ = served
    with pytest.raises(ValueError, match="cache="):
        tarn.open(url + "/t.tar.gz")
    for name in ("none.tar.gz", "none.tar", "none:train", "none.gnz"):
        with pytest.raises(FileNotFoundError):
            tarn.open(f"{url}/{name}", cache=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*.tar") if path.is_file()]


def test_an_index_is_for_urls():
    with pytest.raises(tarn.UsageError, match="index"):
        tarn.open("data", index="x.taridx")


@pytest.mark.parametrize("name", [
    "..%2f..%2f..%2fEVIL.tar.gz", "%2FEVIL.tar.gz", "..%5cEVIL.tar.gz", "x%00.tar.gz",
    "..%2f..%2f..%2fEVIL.tar.zst", "..%2fa.tar.gz?x=/EVIL.tar"])
def test_a_url_cannot_leave_the_folder_of_copies(served, tmp_path, name):
    _, url, asked = served
    (tmp_path / "a.tar").write_bytes(b"not this")
    with pytest.raises(tarn.UsageError, match="cannot be used as a file name"):
        tarn.open(f"{url}/{name}", cache=tmp_path / "a/b/cache")
    with pytest.raises(tarn.UsageError, match="cannot be used as a file name"):
        tarn.open(f"{url}/x{{1,2}}/{name}", cache=tmp_path / "a/b/cache")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a.tar", tmp_path / "served"] and not asked


def test_an_existing_file_is_not_opened_instead_of_the_url(served, tmp_path):
    folder, url, _ = served
    write_tar(tmp_path / "outside.tar", [("secret.txt", b"x")])
    write_gz(folder / "outside.tar.gz", [("k.txt", b"x")])
    with pytest.raises(tarn.UsageError):
        tarn.open(f"{url}/{str(tmp_path / 'outside.tar.gz').replace('/', '%2F')}", cache=tmp_path / "c")
    assert tarn.open(f"{url}/outside.tar.gz", cache=tmp_path / "c").keys() == ["k"]


PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"


@pytest.mark.parametrize("body", [gzip.compress(PAGE), gzip.compress(PAGE * 20), gzip.compress(b""),
                                  gzip.compress(b"GNZ1" + PAGE)])
def test_a_page_instead_of_an_archive_is_not_kept(served, tmp_path, body):
    folder, url, _ = served
    name = "x.tar.gz"
    (folder / name).write_bytes(body)
    for _ in range(2):
        with pytest.raises(tarn.FormatError, match=f"{url}/{name}: .*; it was not kept"):
            tarn.open(f"{url}/{name}", cache=tmp_path / "cache")
        assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    cache = tarn.wds.FileCache(str(tmp_path / "cache"))
    with pytest.raises(tarn.FormatError, match="it was not kept"):
        cache.get_file(f"{url}/{name}")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    write_gz(folder / name, [("k.bin", bytes(3 << 20))])  # longer than the bytes that are checked
    assert tarn.open(f"{url}/{name}", cache=tmp_path / "cache").keys() == ["k"]
    assert os.path.exists(cache.get_file(f"{url}/{name}"))


def test_odd_names_of_urls_are_fetched(served, tmp_path):
    folder, url, _ = served
    for name, asked_as in (("x 1.tar", "x%201.tar"), ("%2F.tar", "%252F.tar"), ("\u00fc.tar", "%c3%bc.tar"),
                           ("...tar", "...tar"), ("x.tar", "x.tar?v=/../y")):
        write_gz(folder / f"{name}.gz", [("k.txt", b"x")])
        assert tarn.open(f"{url}/{asked_as.replace('.tar', '.tar.gz')}", cache=tmp_path / "c").keys() == ["k"]
        assert list((tmp_path / "c").rglob(name))


# --- Object protocol -------------------------------------------------------------------------


def upper(text):
    return text.upper()


def test_datasets_pickle_and_compare(many, birds):
    ds = tarn.open(birds)
    forms = [ds, ds.shuffle(1), ds[1:3], ds[[2, 0]], ds.shard(1, 2), ds.map(txt=upper),
             ds.filter(keys=["owl"]), ds.filter(lambda sample: sample["cls"] > 0),
             tarn.open(birds, decode="bytes"), tarn.open(birds, fields=["cls"]),
             tarn.open(many), ds.shuffle(2)]
    for i, one in enumerate(forms):
        again = pickle.loads(pickle.dumps(one))
        assert again == one and again.keys() == one.keys() and again[0] == one[0]
        assert hash(again) == hash(one) and copy.copy(one) == one and repr(again) == repr(one)
        for k, other in enumerate(forms):
            assert (one == other) == (i == k)
    assert ds != "ds"


def test_errors_pickle_with_all_they_say(birds, tmp_path):
    for wrong in (lambda: tarn.open(tmp_path / "none.tar"), lambda: tarn.open(birds)["emu"],
                  lambda: tarn.TarWriter(tmp_path), lambda: tarn.open("")):
        with pytest.raises(tarn.Error) as caught:
            wrong()
        error, again = caught.value, pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
        assert getattr(again, "errno", None) == getattr(error, "errno", None)


def test_positions_of_any_size_are_index_errors(birds):
    ds = tarn.open(birds)
    for wrong in (4, -5, 2**63, -2**63 - 1, 2**70):
        for ask in (ds.__getitem__, lambda i: ds.select([i]), lambda i: ds.__getitems__([0, i]),
                    lambda i: ds.batch([i]), ds.shard_of):
            with pytest.raises(IndexError):
                ask(wrong)



@pytest.mark.parametrize("kind, name, dtype", [("weighted", "weights", "f8"), ("weighted", "weights", "f4"),
                                               ("balanced", "classes", "i8"), ("balanced", "classes", "u1"),
                                               ("lengths", "lengths", "u8"), ("lengths", "lengths", ">i4")])
def test_an_order_keeps_the_numbers_it_was_given(many, kind, name, dtype):
    ds = tarn.open(many, fields=["cls"])
    given = (np.arange(2000) % 5 + 1).astype(dtype)
    one, other = (ds.order(kind, **{name: values}) for values in (given, given.tolist()))
    assert one == other and one != ds.order(kind, **{name: given + 1})
    assert pickle.loads(pickle.dumps(one)) == one
    keys = one.keys()
    given[:] = given[::-1].copy()
    one.set_epoch(0)
    assert one.keys() == other.keys() == keys


def test_progress_bars_know_the_length(many):
    tqdm = pytest.importorskip("tqdm")
    ds = tarn.open(many, fields=["cls"])
    for source, length in ((ds, 2000), (ds.loader(64), 32), (ds[:10], 10)):
        bar = tqdm.tqdm(source, file=open("/dev/null", "w"))
        assert bar.total == length and sum(1 for _ in bar) == length


def test_repr_tells(ds, birds):
    assert repr(ds) == f"<tarn.Dataset {birds!r}: 4 samples, fields txt cls json>"
    text = repr(ds.shuffle(7).shard(1, 2).map(len))
    assert "shuffle seed 7 epoch 0" in text and "rank 1/2" in text and "1 map" in text


def test_html_shows_counts_fields_and_pictures(pictures, tmp_path):
    text = tarn.open(pictures)._repr_html_()
    assert "16 samples" in text and "jpg" in text and text.count("<img") == 8
    write_tar(tmp_path / "<b>.tar", [("<script>x.png", b"no image"), ("y.t<b>", b"1")])
    text = tarn.open(tmp_path / "<b>.tar")._repr_html_()
    assert "<script>" not in text and "<b>." not in text and "t<b>" not in text


def test_datasets_can_be_derived_and_referenced_weakly(birds):
    ds = tarn.open(birds)
    there = weakref.ref(ds)
    ds.me = ds
    del ds
    gc.collect()
    assert there() is None


def is_resident(path):
    """Whether the first page of a file is in the page cache."""
    with open(path, "rb") as file:
        libc, page = ctypes.CDLL(None, use_errno=True), (ctypes.c_ubyte * 1)()
        libc.mmap.restype = ctypes.c_void_p
        at = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(4096), page) == 0
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(4096))
    return bool(page[0] & 1)


def test_iteration_reads_the_next_shard_before_it_is_reached(tmp_path):
    with tarn.DatasetWriter(tmp_path / "d", max_count=20) as out:
        out.write_many({"__key__": f"{i:04d}", "bin": bytes(1000)} for i in range(60))
    second = sorted(tmp_path.rglob("*.tar"))[1]
    with open(second, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if is_resident(second):
        pytest.skip("files cannot be removed from the page cache here")
    samples = iter(tarn.open(tmp_path / "d"))
    next(samples)
    end = time.monotonic() + 20
    while not is_resident(second):
        assert time.monotonic() < end, "the next shard was not announced"
    assert [s["__key__"] for s in samples] == [f"{i:04d}" for i in range(1, 60)]
