"""Errors for invalid arguments name the argument, and valid values are accepted whatever their
type."""
import json
import os
import pickle
import re

import numpy as np
import pytest
from conftest import DATA

import tarn
import tarn.iac


def told(call, *words):
    """Expects a tarn.UsageError that contains all the words."""
    with pytest.raises(tarn.UsageError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"


@pytest.mark.parametrize("wrong", [
    {"batch_size": 0}, {"batch_size": -1}, {"batch_size": 1.5}, {"batch_size": "4"}, {"batch_size": None},
    {"threads": -1}, {"threads": 2**40}, {"threads": "2"}, {"prefetch": -1}, {"prefetch": 2**33},
    {"epochs": -1}, {"epochs": 2**64}, {"epochs": None}, {"shuffle": True, "seed": None},
    {"shuffle": True, "seed": 1.5}, {"on_error": -1}, {"on_error": 2**70}, {"on_error": True},
    {"on_error": None}, {"on_error": "limit"}, {"on_error": "hide"}, {"integers": ["nosuch"]},
    {"integers": 5}, {"array_type": "jax"}, {"array_type": 3}, {"on_error": 2},
    {"max_errors": 3}, {"on_error": "skip", "max_errors": -1}, {"on_error": "skip", "max_errors": 1.5},
    {"array_type": "numpy", "pin_memory": True},
], ids=repr)
def test_arguments_of_a_loader(birds, wrong):
    ds = tarn.open(birds)
    told(lambda: ds.loader(**{"batch_size": 2, **wrong}), list(wrong)[-1])


@pytest.mark.parametrize("wrong", [
    {"resize": 0}, {"resize": -1}, {"resize": 2**33}, {"resize": 1.5}, {"resize": "ab"}, {"resize": (8,)},
    {"resize": (8, 8, 8)}, {"fit": "middle"}, {"fit": 3}, {"flip": "a"}, {"channels": -1},
    {"dtype": "int8"}, {"dtype": np.float32}, {"layout": "chw"}, {"dtype": "float32", "mean": 0.5},
    {"dtype": "float32", "mean": (1, 2, 3, 4, 5)}, {"dtype": "float32", "std": "abc"},
    {"fit": "random", "scale": 0.5}, {"fit": "random", "ratio": (1,)}, {"fit": "centre", "shorter": -4},
    {"reduce": "a"},
], ids=repr)
def test_arguments_about_images(pictures, wrong):
    ds = tarn.open(pictures)
    told(lambda: ds.loader(2, **{"resize": 8, **wrong}), list(wrong)[-1])


def test_steps_without_an_effect_are_reported(pictures):
    ds = tarn.open(pictures, fields=["jpg"])
    told(lambda: ds.loader(2, resize=8, mean=(0.5,)), "mean", "float32")
    told(lambda: ds.loader(2, resize=8, std=(0.5,)), "std", "float32")
    told(lambda: ds.loader(2, resize=8, scale=(0.1, 1)), "scale", "random")
    told(lambda: ds.loader(2, resize=8, ratio=(0.1, 1)), "ratio", "random")
    told(lambda: ds.loader(2, resize=8, shorter=9), "shorter", "center")
    told(lambda: ds.loader(2, fit="random"), "resize")
    for wrong in ({"shufle": True}, {"resize": 8, "shufle": True}, {"resize": 8, "width": 4}):
        with pytest.raises(TypeError, match=list(wrong)[-1]):
            ds.loader(2, **wrong)


def test_numbers_of_numpy_are_numbers(pictures):
    ds = tarn.open(pictures, fields=["jpg"])
    two = np.int64(2)
    loader = ds.loader(two, resize=np.int32(8), threads=two, prefetch=two, epochs=two, on_error="skip",
                       max_errors=two, shuffle=True, seed=two)
    loader.set_epoch(np.int64(1))
    assert loader.epoch == 1 and next(iter(loader))["jpg"].shape == (2, 8, 8, 3)
    shuffled = ds.shuffle(two).shard(np.int64(1), two)
    shuffled.set_epoch(two)
    assert shuffled.epoch == 2 and len(shuffled) == 8
    assert len(ds.filter(ranges=[(np.int64(1), np.int64(3))])) == 2
    assert len(ds.filter(size={"jpg": (np.int64(1), np.int64(10**6))})) == 16
    assert len(tarn.mix(ds, ds, counts=np.array([3, 1]))) == 4


@pytest.mark.parametrize("wrong, word", [
    ({"kind": None}, "kind"), ({"seed": "a"}, "seed"), ({"kind": "blocks", "block": -1}, "block"),
    ({"kind": "lengths", "by": "txt", "chunk": 1.5}, "chunk"),
    ({"kind": "lengths", "lengths": [1]}, "lengths"),
    ({"kind": "lengths", "lengths": [-1] * 4}, "lengths"), ({"kind": "lengths", "lengths": 5}, "lengths"),
    ({"kind": "balanced", "classes": ["a"] * 4}, "classes"),
    ({"kind": "weighted", "weights": np.ones((4, 1))}, "weights"),
], ids=repr)
def test_arguments_of_an_order(birds, wrong, word):
    told(lambda: tarn.open(birds).order(**wrong), word)


def test_arguments_of_epochs_ranks_and_filters(birds):
    ds = tarn.open(birds)
    for wrong in (-1, 2**64, 1.5, "a", None):
        for target in (ds, ds.shuffle(1), ds[[1]], ds.loader(2)):
            told(lambda: target.set_epoch(wrong), "epoch")
            assert target.epoch == 0
    told(lambda: ds.shard(0, 2, uneven="fair"), "uneven")
    for wrong in ((2, 2), (-1, 2), (0, 0), (None, None), (0, 1.5)):
        told(lambda: ds.shard(*wrong), "rank" if wrong[0] in (2, -1) else "world_size")
    for wrong in ({"size": {"txt": (-1, 7)}}, {"size": {"txt": (1, 2**70)}}, {"size": {"txt": 7}},
                  {"size": "txt"}, {"ranges": [(-1, 2)]}, {"ranges": (0, 2)}, {"ranges": [(0, 1, 2)]},
                  {"keys": [5]}, {"keys": 5}, {"having": 5}, {"lacking": [5]}, {"between": 5}):
        told(lambda: ds.filter(**wrong), list(wrong)[0])


def test_one_name_is_a_name_and_not_its_letters(birds):
    ds = tarn.open(birds)
    assert ds.lookup("owl") == [3] and ds.filter(keys="owl").keys() == ["owl"]
    assert bytes(ds.batch([0], "txt").data) == b"An auk."
    assert tarn.mix(ds, ds, fields="cls").fields == ("cls",)
    assert ds.loader(4, integers="cls")
    told(lambda: ds.loader(4, integers="s"), "integers")
    with pytest.raises(KeyError, match="cls"):
        ds.batch([0], ["txt"]).column("cls")


def test_one_value_of_a_column_is_a_value_and_not_its_letters(tmp_path):
    with tarn.iac.create(tmp_path / "x.iac", {"name": ["a", "ab", "b"], "n": [1, 2, 3]}) as out:
        for payload in (b"1", b"2", b"3"):
            out.add(payload)
    ds = tarn.open(tmp_path / "x.iac")
    for values, numbers in (("ab", [2]), (["ab", "b"], [2, 3]), (("a",), [1])):
        assert [sample["n"] for sample in ds.filter(column={"name": values})] == numbers
    assert [sample["name"] for sample in ds.filter(column={"n": 2})] == ["ab"]
    told(lambda: ds.filter(column=5), "column")
    told(lambda: ds.filter(between={"n": ("a", 2)}), "between")


def test_arguments_of_open_and_mix(birds):
    for wrong in ({"path": ""}, {"path": birds.encode()}, {"fields": 5}, {"fields": [5]}, {"decode": 0},
                  {"decode": 1}, {"decoders": 5}, {"decoders": {"cls": []}}, {"io": None}, {"io": "x"},
                  {"keys": "x"}, {"threads": -1}, {"threads": 2**33}):
        told(lambda: tarn.open(**{"path": birds, **wrong}), list(wrong)[0])
    ds = tarn.open(birds)
    for wrong in ({"weights": [1]}, {"weights": "ab"}, {"weights": 5}, {"counts": [1]}, {"counts": [-1, 1]},
                  {"counts": [1.5, 1]}, {"weights": [1, 1], "total": -1}, {"weights": [1, 1], "total": 2**70},
                  {"weights": [1, 1], "total": 0}, {"total": 7}, {"counts": [1, 1], "total": 7},
                  {"fields": 5}):
        told(lambda: tarn.mix(ds, ds, **wrong), list(wrong)[-1])


def test_a_file_url_is_of_this_machine(birds, monkeypatch):
    assert len(tarn.open(f"file://{birds}")) == len(tarn.open(f"file://localhost{birds}")) == 4
    monkeypatch.chdir(birds)                          # the URLs must not refer to this folder
    for wrong in ("file://", "file://birds", "file://elsewhere" + birds):
        told(lambda: tarn.open(wrong), wrong)


def test_arguments_of_maps_groups_and_sources(birds):
    ds = tarn.open(birds)
    told(lambda: ds.map(nosuch=str), "nosuch", "txt")
    assert ds.map(lambda sample: {**sample, "more": 1}).map(more=str)[0]["more"] == "1"
    assert ds.map_group(lambda text: [text * 2], "cls")[1]["cls"] == 2
    told(lambda: ds.map_group(len, 5), "fields")
    told(lambda: ds.group("{0}.txt", seed="a"), "seed")
    told(lambda: ds.group(5), "templates")
    for wrong in ({"retries": -1}, {"retries": "a"}, {"level": 2**40}):
        told(lambda: tarn.open_source(__file__, **wrong), next(iter(wrong)))


def test_each_source_of_a_mix_is_read_in_its_own_way(birds):
    for other, text in (({"decode": "bytes"}, b"An auk."), ({"decode": False}, b"An auk."),
                        ({"decoders": {"txt": len}}, 7)):
        both = tarn.mix(tarn.open(birds), tarn.open(birds, **other))
        assert [sample["txt"] for sample in both[:2]] == ["An auk.", text]
        assert next(iter(both.loader(2)))["txt"] == ["An auk.", text]
    alike = tarn.mix(*(tarn.open(birds, decoders={"txt": "bytes"}) for _ in range(2)))
    assert alike[0]["txt"] == b"An auk."


def test_no_such_field_is_a_key_error(birds):
    ds = tarn.open(birds)
    for wrong in (lambda: tarn.open(birds, fields=["wav"]), lambda: tarn.mix(ds, ds, fields=["wav"])):
        with pytest.raises(tarn.KeyNotFoundError):
            wrong()
    with pytest.raises(tarn.PathNotFoundError):
        tarn.open(birds, fold="test", fields=["wav"])
    views = tarn.open(DATA / "02_multidot", fields=["f0.txt", "f1.txt"]).group("x{0}.txt")
    with pytest.raises(tarn.UsageError, match="templates give field xf0.txt"):
        views[0]


def test_masks_have_one_bool_for_each_sample(birds):
    ds = tarn.open(birds)
    for mask in (np.array([True, False, False, True]), [True, False, False, True]):
        assert ds[mask].keys() == ["auk", "owl"]
        assert ds.shuffle(7)[mask].keys() == [ds.shuffle(7).keys()[i] for i in (0, 3)]
    for wrong in (np.ones(3, bool), np.ones(5, bool), np.zeros(5, bool), np.ones((4, 1), bool), [True] * 3):
        with pytest.raises(IndexError):
            ds[wrong]


def test_invalid_positions_are_reported(birds):
    ds = tarn.open(birds)
    for wrong in (1.5, None, b"owl", b"\x01", np.float64(1), np.array(1.7), np.bool_(True), ...):
        with pytest.raises(TypeError):
            ds[wrong]


def test_tensors_are_positions_and_masks(birds):
    torch = pytest.importorskip("torch") if "TARN_SANITIZED" not in os.environ else pytest.skip("no torch")
    ds = tarn.open(birds)
    assert ds[torch.tensor([3, -4])].keys() == ["owl", "auk"]
    assert ds[torch.tensor(3)]["__key__"] == "owl"
    assert ds[torch.tensor([True, False, False, True])].keys() == ["auk", "owl"]
    assert sorted(ds[torch.randperm(4)].keys()) == ds.keys()


def test_a_list_of_names_is_found_from_another_folder(birds, tmp_path, monkeypatch):
    (tmp_path / "names.json").write_text(json.dumps(["owl"]))
    monkeypatch.chdir(tmp_path)
    kept = pickle.dumps(tarn.open(birds).filter(json="names.json"))
    monkeypatch.chdir("/")
    assert pickle.loads(kept).keys() == ["owl"]


def test_messages_name_ranges(birds):
    with pytest.raises(tarn.UsageError, match=re.escape("threads must be from 0 to 1024 (found -1)")):
        tarn.open(birds).loader(2, threads=-1)
