"""iTarDataset: glzn's recorded orders, groups, lookups and filters, and its checks."""
import base64
import copy
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import re
import shutil

import pytest
from conftest import BIRDS, HANG, sanitized
from itar_data import DATA, colliding_stems, make_fold, vectors

import tarn
from tarn.itar import iTarDataset

np = pytest.importorskip("numpy")


@pytest.fixture
def loc(birds):
    return os.path.dirname(birds)


def birds_of(loc, extensions=("_stem", "cls"), **more):
    return iTarDataset("birds", loc, "train", extensions, **more)


def stems(ds):
    return [sample[0] for sample in ds]


NAMES = [key for key, _, _ in BIRDS]


# --- Recorded by glzn -------------------------------------------------------------------------


@pytest.mark.parametrize("case", vectors("order_vectors.json"), ids=lambda case: "-".join(
    map(str, (case["dataset"], *case["extensions"], case["internal_seed"], case["epoch"]))))
@pytest.mark.parametrize("mapped", [False, True], ids=["read", "map"])
def test_orders_are_the_references(case, mapped):
    ds = iTarDataset(case["dataset"], DATA, case["fold"],
                     [*case["extensions"], "_stem", "_idx", "_fid"], prefer_mmap=mapped,
                     internal_seed=case["internal_seed"],
                     buckets_per_shard=case["buckets_per_shard"],
                     enforce_contiguous=case["enforce_contiguous"])
    if case["filter_stems"]:
        ds.filter_stems(case["filter_stems"])
    if case["shuffle"]:
        ds.set_shuffle(**case["shuffle"])
    ds.set_distributed(case["rank"], case["world_size"], case["drop_last"])
    ds.set_epoch(case["epoch"])
    wanted = list(zip(case["stems"], case["idx"], case["fid"]))
    assert len(ds) == case["len"] == len(wanted)
    assert [ds[i][-3:] for i in range(len(ds))] == wanted
    assert [sample[-3:] for sample in ds] == wanted
    assert [sample[-3:] for sample in ds.__getitems__(list(range(len(ds))))] == wanted


@pytest.mark.parametrize("case", vectors("grouping_vectors.json")["datasets"],
                         ids=lambda case: " ".join(case["grouping"]))
def test_groups_are_the_references(case):
    ds = iTarDataset(case["dataset"], DATA, "train", case["extensions"],
                     internal_seed=case["internal_seed"])
    ds.add_grouping(case["grouping"], case["grouping_replace"], case["grouping_seed_arg"])
    ds.set_epoch(case["epoch"])
    assert ds.state_dict()["grouping_seed"] == case["effective_grouping_seed"]
    assert [list(sample) for sample in ds] == case["values"]
    assert ds.state_dict()["grouping_seed"] == case["effective_grouping_seed"]


@pytest.mark.parametrize("case", vectors("lookup_vectors.json")["lookup_stems"],
                         ids=lambda case: str(case["query"]))
def test_lookups_are_the_references(case, tmp_path):
    ds = iTarDataset("01_basic", DATA, "train", case["open_extensions"])
    assert ds.lookup_stems(case["query"], case["extensions"]) == case["result"]
    names = tmp_path / "names.json"
    names.write_text(json.dumps(case["query"]))
    assert ds.lookup_stems(names, case["extensions"]) == case["result"]
    assert ds.lookup_stems(str(names), case["extensions"]) == case["result"]


@pytest.mark.parametrize("case", vectors("03_noncontiguous/dataset_results.json").items(),
                         ids=lambda case: case[0])
def test_folds_that_are_not_contiguous(case):
    names, _, how = case[0].partition(" enforce=")
    extensions = [*names.split("+"), "_stem", "_fid"]
    if "error" in case[1]:
        with pytest.raises(ValueError, match="enforce_contiguous"):
            iTarDataset("03_noncontiguous", DATA, "train", extensions)
        return
    ds = iTarDataset("03_noncontiguous", DATA, "train", extensions,
                     enforce_contiguous=how == "True")
    assert [list(sample) for sample in ds] == case[1]["ok"]


@pytest.mark.parametrize("fold", ["train", "val"])
def test_values_are_the_references(fold):
    ds = iTarDataset("01_basic", DATA, fold, ["cls", "json", "txt", "_stem", "_idx", "_fid"])
    assert [list(sample) for sample in ds] == vectors("01_basic/decoded.json")[fold]


def told(value):
    """Returns a decoded value as the manifest of the codecs stores it."""
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "shape": list(value.shape),
                "data_sha256": hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}
    if hasattr(value, "tobytes"):
        return {"mode": value.mode, "size": list(value.size),
                "data_sha256": hashlib.sha256(value.tobytes()).hexdigest()}
    return str(sorted(value)) if isinstance(value, dict) else value


def test_every_decoder_gives_the_same_as_in_glzn(tmp_path):
    pytest.importorskip("PIL")
    items = vectors("08_encoders/manifest.json")["items"]
    members = [(f"s{number:02d}.x.{item['ext']}", (DATA / "08_encoders" / item["file"]).read_bytes())
               for number, item in enumerate(items)]
    make_fold(tmp_path / "d", [members])
    compared = 0
    for number, item in enumerate(items):
        ds = iTarDataset("d", tmp_path, "train", [f"x.{item['ext']}"],
                         decoders={"pkl": "pickle"})
        value, = ds.filter_stems([f"s{number:02d}"])[0]
        wanted = item["reference_decode"]
        if "error" in wanted:  # written by NumPy 2; the object is correct
            assert item["ext"] in ("seg24", "seg32")
            wanted = {"ok": item["object"]}
        shown = told(value)
        if isinstance(value, np.ndarray):
            assert value.flags.writeable, item["file"]
            wanted = {"ok": {name: wanted["ok"][name] for name in shown}}
        assert shown == wanted["ok"], item["file"]
        compared += 1
    assert compared == len(items) > 35


def test_images_are_pillows_in_rgb():
    pytest.importorskip("PIL")
    image, array = iTarDataset("01_basic", DATA, "train", ["jpg", "npy"])[0]
    assert image.mode == "RGB" and type(image).__module__.startswith("PIL.")
    assert array.flags.writeable


# --- Extensions -------------------------------------------------------------------------------


def test_extensions(loc):
    assert iTarDataset("birds", loc, "train")[1] == ("A jay.", 1, {"name": "jay", "n": 1})
    ds = birds_of(loc, [".cls", "txt", "_name", "_stem", "_idx", "cls", "_fid"])
    assert ds[2] == (2, "A kiwi.", "kiwi", "kiwi", 2, 2, 0)
    assert ds.extensions == ["cls", "txt", "_name", "_stem", "_idx", "cls", "_fid"]
    assert birds_of(loc, ["cls"])[0] == (0,)
    one, other = birds_of(loc, ["json", "json"])[0]
    assert one is other


@pytest.mark.parametrize("names", [["CLS"], ["jpg"], ["..cls"], ["_idx"], []])
def test_extensions_that_are_refused(loc, names):
    with pytest.raises(ValueError):
        birds_of(loc, names)


def test_nobody_has_all(tmp_path):
    make_fold(tmp_path / "d", [[("a.cls", b"1"), ("b.txt", b"x")]])
    with pytest.raises(RuntimeError, match="no sample"):
        iTarDataset("d", tmp_path, "train")


def test_an_extension_without_a_decoder_counts_where_requested(tmp_path):
    make_fold(tmp_path / "d", [[("a.cls", b"1"), ("a.frob", b"x"), ("a.pkl", pickle.dumps([1]))]])
    assert iTarDataset("d", tmp_path, "train", ["cls"])[0] == (1,)
    for names in (["cls", "frob"], None):
        with pytest.raises(KeyError, match="frob"):
            iTarDataset("d", tmp_path, "train", names)
    given = {"frob": bytes.decode, "pkl": "pickle"}
    assert iTarDataset("d", tmp_path, "train", decoders=given)[0] == (1, "x", [1])
    with pytest.raises(ValueError, match="can run code"):
        iTarDataset("d", tmp_path, "train", ["pkl"])[0]


def test_upper_case_and_dots_in_names():
    ds = iTarDataset("02_multidot", DATA, "train", ["f1.cls", "_stem"])
    assert ds[1] == (11, "v01")


def test_odd_extensions():
    given = {"": bytes, "hidden": bytes}
    for name, wanted in (("", [("a", b"no ext"), ("b", b""), ("c", b"trailing dot")]),
                         (".", [("a", b"no ext"), ("b", b""), ("c", b"trailing dot")]),
                         ("hidden", [("", b"h")]), ("..cls", [("d", 4)]),
                         ("cls", [("a", 1), ("b", 2), ("c", 3)])):
        ds = iTarDataset("05_empty_ext", DATA, "train", ["_stem", name], decoders=given)
        assert list(ds)[:3] == wanted, name


def test_samples_with_a_duplicate_member_are_left_out(tmp_path):
    make_fold(tmp_path / "d", [[("a.cls", b"1"), ("a.txt", b"x"), ("a.cls", b"2"),
                                ("b.cls", b"3"), ("b.txt", b"y"),
                                ("c.cls", b"4"), ("c.cls", b"5")]])
    ds = iTarDataset("d", tmp_path, "train", ["cls", "txt"])
    assert list(ds) == [(3, "y")]
    assert list(ds.filter_extensions(["txt"])) == [("y",)]
    assert list(pickle.loads(pickle.dumps(ds))) == [("y",)]
    assert len(ds.fold.state.arr) == 1


# --- Opening ----------------------------------------------------------------------------------


def test_what_is_not_there(loc, tmp_path):
    with pytest.raises(FileExistsError):
        iTarDataset("emus", loc, "train")
    with pytest.raises(ValueError, match="available: train"):
        iTarDataset("birds", loc, "val")
    make_fold(tmp_path / "d", [[("a.cls", b"1")]], index=False)
    with pytest.raises(ValueError, match="parse_if_missing"):
        iTarDataset("d", tmp_path, "train")
    with pytest.raises(TypeError, match="frob"):
        iTarDataset("d", tmp_path, "train", parse_if_missing=True, frob=1)
    with pytest.warns(UserWarning, match="no effect: frob"):
        iTarDataset("birds", loc, "train", frob=1)
    with pytest.raises(TypeError):
        birds_of(loc, "cls")


@pytest.mark.parametrize("serialize", [False, True])
def test_an_index_is_made(tmp_path, capsys, serialize):
    root = make_fold(tmp_path / "d", [[("a.cls", b"1")], [("b.cls", b"2")]], index=False)
    make_fold(root, [[("z.cls", b"1")]], fold="val", index=False)
    ds = iTarDataset("d", tmp_path, "train", parse_if_missing=True, serialize=serialize)
    assert list(ds) == [(1,), (2,)]
    assert (root / "train.taridx").exists() == serialize
    assert not (root / "val.taridx").exists()
    if serialize:
        assert "2 shards, 2 members" in capsys.readouterr().out
    assert list(pickle.loads(pickle.dumps(ds))) == [(1,), (2,)]
    assert len(ds.fold.state.arr) == 2


def test_other_names_of_shards_and_index(tmp_path):
    root = tmp_path / "d"
    make_fold(root, [[("a.cls", b"1")], [("b.cls", b"2")]], index=False)
    for number in range(2):
        os.rename(root / f"train_{number}.tar", root / f"tr_ain+x-{number}.itar")
    more = {"delimiter": "+", "extension": "itar", "idxext": "ix"}
    ds = iTarDataset("d", tmp_path, "tr_ain", parse_if_missing=True, verbose=False, **more)
    assert list(ds) == [(1,), (2,)]
    assert (root / "tr_ain.ix").exists()
    again = pickle.loads(pickle.dumps(iTarDataset("d", tmp_path, "tr_ain", **more)))
    assert list(again) == [(1,), (2,)]


def test_a_missing_shard_is_reported(tmp_path):
    shutil.copytree(DATA / "01_basic", tmp_path / "d")
    os.unlink(tmp_path / "d/train_0001.tar")
    with pytest.raises(ValueError):
        iTarDataset("d", tmp_path, "train")


def test_an_empty_shard_shifts_nothing(tmp_path):
    make_fold(tmp_path / "d", [[("a.cls", b"1")], [], [("b.cls", b"2"), ("c.cls", b"3")]])
    ds = iTarDataset("d", tmp_path, "train", ["_stem", "cls", "_fid"])
    assert list(ds) == [("a", 1, 0), ("b", 2, 2), ("c", 3, 2)]
    assert sorted(ds.set_shuffle()) == [("a", 1, 0), ("b", 2, 2), ("c", 3, 2)]


# --- Indexing and order -----------------------------------------------------------------------


def test_indexing(loc):
    ds = birds_of(loc)
    assert ds[-4] == ds[0] == ("auk", 0) and ds[np.int64(3)] == ("owl", 3)
    for index in (4, -5, 10**30):
        with pytest.raises(IndexError):
            ds[index]
    for index in (slice(0, 2), "auk", 1.0, None):
        with pytest.raises(TypeError):
            ds[index]
    assert len(ds) == 4 and stems(ds) == NAMES


def test_settings_are_any_integers():
    ds = iTarDataset("01_basic", DATA, "train", ["_stem", "cls"], internal_seed=np.int64(3),
                     buckets_per_shard=np.int32(3))
    ds.set_shuffle(shard_mixing=True, rounds=np.uint8(4))
    ds.set_distributed(np.int64(1), np.int64(2))
    ds.set_epoch(np.int64(2))
    other = iTarDataset("01_basic", DATA, "train", ["_stem", "cls"], internal_seed=3,
                        buckets_per_shard=3).set_shuffle(shard_mixing=True, rounds=4)
    other.set_distributed(1, 2).set_epoch(2)
    assert list(ds) == list(other)
    assert json.dumps(ds.state_dict()) == json.dumps(other.state_dict())
    with pytest.raises(TypeError):
        ds.set_distributed(0.0, 2)


def test_settings_that_are_refused_change_nothing(loc):
    ds = iTarDataset("03_noncontiguous", DATA, "train", ["txt"])
    before = list(ds)
    for rounds in (0, -1):
        with pytest.raises(ValueError):
            ds.set_shuffle(rounds=rounds)
    with pytest.raises(ValueError, match="shard_mixing"):
        ds.set_shuffle(shard_mixing=True)
    for rank, world in ((0, 0), (2, 2), (-1, 2)):
        with pytest.raises(ValueError):
            ds.set_distributed(rank, world)
    for epoch in (-1, 2**63):
        with pytest.raises(ValueError):
            ds.set_epoch(epoch)
    with pytest.raises(ValueError), ds.shufflecontext(rounds=0):
        pass
    assert list(ds) == before and ds.state_dict()["epoch"] == 0 and not ds.state_dict()["shuffle_enabled"]


def test_ranks_share_all_samples():
    whole = sorted(iTarDataset("01_basic", DATA, "train", ["_stem", "cls"]))
    ds = iTarDataset("01_basic", DATA, "train", ["_stem", "cls"]).set_shuffle(rounds=4)
    seen = []
    for rank in range(4):
        seen += ds.set_distributed(rank, 4)
    assert sorted(seen) == whole
    assert {len(ds.set_distributed(rank, 4, True)) for rank in range(4)} == {11}


def test_a_filter_that_empties_a_shard_does_not_hurt_the_order():
    ds = iTarDataset("01_basic", DATA, "train", ["_stem", "cls"]).set_shuffle()
    ds.filter_stems([f"train-{i:05d}" for i in range(20, 45)])
    assert sorted(stems(ds)) == [f"train-{i:05d}" for i in range(20, 45)]


def test_epochs_and_states(loc):
    ds = birds_of(loc, internal_seed=3).set_shuffle(rounds=4, shard_mixing=True)
    ds.set_epoch(5)
    state = json.loads(json.dumps(ds.state_dict()))
    assert state == {"epoch": 5, "seed": 3, "grouping_seed": 3 ^ 0x0BAD5EED,
                     "shuffle_enabled": True, "shuffle_shard_mixing": True, "shuffle_rounds": 4,
                     "buckets_per_shard": 2}
    other = birds_of(loc)
    other.load_state_dict(state)
    assert list(other) == list(ds) and other.state_dict() == state
    other.load_state_dict({"epoch": 6, "frob": 1})
    assert other.state_dict() == {**state, "epoch": 6}
    other.load_state_dict({"buckets_per_shard": 0})
    assert other.buckets_per_shard == 1 and len(list(other)) == 4
    for wrong in ({"epoch": -1}, {"shuffle_rounds": 0, "epoch": 9}):
        with pytest.raises(ValueError):
            other.load_state_dict(wrong)
    assert other.state_dict()["epoch"] == 6


def test_shufflecontext(loc):
    ds = birds_of(loc).set_distributed(0, 1)
    reference = {seed: stems(birds_of(loc, internal_seed=seed).set_shuffle(rounds=4))
                 for seed in range(5)}
    with ds.shufflecontext(seed=4, rounds=4) as inner:
        assert inner is ds and stems(ds) == reference[4]
    assert stems(ds) == NAMES and ds.state_dict()["epoch"] == 1
    with pytest.raises(ZeroDivisionError), ds.shufflecontext(rounds=4):
        assert stems(ds) == reference[1]
        raise ZeroDivisionError
    assert stems(ds) == NAMES and ds.state_dict()["epoch"] == 2 and not ds.state_dict()["shuffle_enabled"]


# --- Transforms -------------------------------------------------------------------------------


def swap(one, other):
    return other, one


def test_transforms_come_in_their_order(loc):
    ds = birds_of(loc, ["txt", "cls", "_stem"])
    ds.map_all(str).map_tuple(str.lower, int, len).map_group(swap, [0, 2])
    assert ds[3] == (3, 3, "an owl.")
    ds.map_group(lambda number: number + 1, [1])
    assert ds[3] == (3, 4, "an owl.")
    ds.map(lambda *fields: list(fields))
    assert ds[3] == [3, 4, "an owl."] and next(iter(ds)) == [3, 1, "an auk."]
    for again in (lambda: ds.map(swap), lambda: ds.map_all(str),
                  lambda: ds.map_tuple(str, str, str), lambda: ds.map_group(swap, [0, 1])):
        with pytest.raises(RuntimeError):
            again()
    for filtered in (lambda: ds.filter_extensions(["cls"]), lambda: ds.add_grouping(["{0}.x"])):
        with pytest.raises(RuntimeError):
            filtered()
    assert ds.filter_stems(["owl"])[0] == [3, 4, "an owl."]


@pytest.mark.parametrize("attach,error", [
    (lambda ds: ds.map(3), TypeError), (lambda ds: ds.map_all(None), TypeError),
    (lambda ds: ds.map_tuple(str, 3), TypeError), (lambda ds: ds.map_group("x", [0]), TypeError),
    (lambda ds: ds.map(lambda a: a), TypeError), (lambda ds: ds.map(lambda a, b, c=1: a), TypeError),
    (lambda ds: ds.map(max), ValueError), (lambda ds: ds.map_tuple(str), ValueError),
    (lambda ds: ds.map_tuple(str, str, str), ValueError), (lambda ds: ds.map_group(swap, []), ValueError),
    (lambda ds: ds.map_group(swap, [0, 2]), IndexError), (lambda ds: ds.map_group(swap, [-1, 0]), IndexError),
])
def test_transforms_that_are_refused(loc, attach, error):
    ds = birds_of(loc)
    with pytest.raises(error):
        attach(ds)
    assert ds[0] == ("auk", 0)


def test_a_group_function_gives_as_many_values(loc):
    ds = birds_of(loc).map_group(lambda a, b: (a,), [0, 1])
    with pytest.raises(ValueError, match="as many"):
        ds[0]
    assert birds_of(loc).map_group(lambda a: [a], [0])[0] == (["auk"], 0)
    assert birds_of(loc).map(lambda a, b=None: a)[0] == "auk"


# --- Filters ----------------------------------------------------------------------------------


def test_filter_extensions(loc):
    ds = birds_of(loc, ["txt", "cls", "_stem"])
    with pytest.raises(TypeError):
        ds.filter_extensions(None)
    with pytest.raises(ValueError, match="At least one real extension"):
        ds.filter_extensions([])
    with pytest.raises(ValueError):
        ds.filter_extensions(["jpg"])
    with pytest.raises(ValueError):
        ds.filter_extensions(["_idx"])
    with pytest.raises(RuntimeError):
        ds.filter_extensions(["json"])
    ds.filter_stems(["owl", "jay"]).filter_extensions([".cls", "_idx"])
    assert list(ds) == [(1, 0), (3, 1)]


def test_narrower_extensions_keep_the_samples_of_the_wider():
    wide = iTarDataset("01_basic", DATA, "train", ["jpg", "npy", "_stem"])
    kept = [sample[-1] for sample in wide]
    wide.filter_extensions(["_stem", "cls"][:1] + ["npy"])
    assert stems(wide) == kept and len(kept) == 31
    assert len(wide.fold.state.arr) == 31


def test_filter_stems(loc, tmp_path):
    ds = birds_of(loc)
    assert stems(ds.filter_stems([])) == NAMES
    for nothing in (["emu"], ["owl.cls"]):
        with pytest.raises(RuntimeError):
            ds.filter_stems(nothing)
    for wrong in ("owl", 3, [1]):
        with pytest.raises(TypeError):
            ds.filter_stems(wrong)
    names = tmp_path / "names.json"
    names.write_text(json.dumps(["x/owl.left.jpg", "jay", "emu"]))
    assert stems(ds.filter_stems_by_json(names)) == ["jay", "owl"]
    for wrong in ({"a": 1}, ["a", 1], "owl"):
        names.write_text(json.dumps(wrong))
        with pytest.raises(ValueError):
            ds.filter_stems_by_json(names)
    assert stems(ds) == ["jay", "owl"]


def test_stems_with_one_hash_are_distinguished(tmp_path):
    one, two, three = colliding_stems(3)
    make_fold(tmp_path / "d", [[(f"{one}.cls", b"1"), (f"{two}.cls", b"2"), ("x.cls", b"3")]])
    ds = iTarDataset("d", tmp_path, "train", ["_stem", "cls"])
    assert list(ds) == [(one, 1), (two, 2), ("x", 3)]
    assert ds.lookup_stems([two, three]) == {two: {"cls": 2}, three: {}}
    with pytest.raises(RuntimeError):
        ds.filter_stems([three])
    assert ds.fold.state.crashstem == {two: 1}
    assert list(ds.filter_stems([two, three])) == [(two, 2)]
    assert len(ds.fold.state.arr) == 1


def test_white_space_in_names(tmp_path):
    stems = [stem.replace("a" * 16, "a b\tc\u3000 d\te f g") for stem in colliding_stems(3)]
    members = [(stem + ".x\ty.cls", b"%d" % number) for number, stem in enumerate(stems)]
    make_fold(tmp_path / "d", [members])
    ds = iTarDataset("d", tmp_path, "train", ["_stem", "x\ty.cls"])
    assert list(ds) == list(zip(stems, range(3)))
    assert ds.fold.state.crashstem == {stems[1]: 1, stems[2]: 2}
    assert ds.lookup_stems(stems[2:]) == {stems[2]: {"x\ty.cls": 2}}
    assert list(ds.filter_stems(stems[1:2])) == [(stems[1], 1)]
    state = tarn.itar.iTarState.load(tmp_path / "d/train.taridx")
    assert state.ext2id == {"x\ty.cls": 0}


def test_lookups_that_are_refused(loc, tmp_path):
    ds = birds_of(loc)
    for wrong in (3, {"owl"}, ["owl", 1], None):
        with pytest.raises(TypeError):
            ds.lookup_stems(wrong)
    with pytest.raises(FileNotFoundError):
        ds.lookup_stems("owl")
    with pytest.raises(ValueError):
        ds.lookup_stems(["owl"], ["jpg"])
    assert ds.lookup_stems(["owl"], ["txt", ".CLS"]) == {"owl": {"cls": 3}}
    ds.filter_stems(["jay"]).set_shuffle().map(lambda a, b: a)
    assert ds.lookup_stems(("owl", "jay")) == {"owl": {}, "jay": {"cls": 1}}


# --- Groups -----------------------------------------------------------------------------------

SIX = [f"f{i}.{ext}" for i in range(3) for ext in ("txt", "cls")]


def multidot(extensions=SIX, **more):
    return iTarDataset("02_multidot", DATA, "train", extensions, **more)


@pytest.mark.parametrize("specs", [
    ["txt"], ["{0}"], ["{0}.x.txt"], ["{1}.txt"], ["{0}.txt", "{2}.txt"], ["{0}.txt", "{1}.cls"],
    ["{0}.frob"], ["a.txt"], ["{0}.txt", "{1}.txt", "{2}.txt", "{3}.txt"], []])
def test_groups_that_are_refused(specs):
    ds = multidot()
    with pytest.raises(ValueError):
        ds.add_grouping(specs)
    assert len(ds[0]) == 6


@pytest.mark.parametrize("specs", [["{0}{1}.txt"], ["f{0}.txt"], ["{0}.txt", "{0}x.txt"]])
def test_groups_of_missing_fields(specs):
    """The resulting fields depend on the random choice."""
    with pytest.raises(ValueError, match="does not have"):
        multidot().add_grouping(specs)[0]


def test_groups(tmp_path):
    with pytest.raises(ValueError):
        multidot([*SIX, "_idx"]).add_grouping(["{0}.txt"])
    with pytest.raises(ValueError):
        iTarDataset("01_basic", DATA, "train", ["cls"]).add_grouping(["{0}.cls"])
    ds = multidot().add_grouping(["{0}.txt", "{1}.txt", "{2}.txt", "{3}.txt"],
                                 grouping_replace=True)
    first = list(ds)
    assert len(first) == 12 and all(len(sample) == 4 for sample in first)
    ds.set_epoch(1)
    assert list(ds) != first
    with pytest.raises(RuntimeError):
        ds.filter_extensions(["f0.txt"])
    names = tmp_path / "names.json"
    names.write_text('["v01"]')
    with pytest.raises(RuntimeError):
        ds.filter_stems_by_json(names)
    assert [text[:3] for text in ds.filter_stems(["v01"])[0]] == ["v01"] * 4
    assert ds.map(lambda *texts: len(texts))[0] == 4
    assert list(pickle.loads(pickle.dumps(multidot().add_grouping(["{0}.cls"])))) == list(
        multidot().add_grouping(["{0}.cls"]))


def test_negative_seeds_group():
    ds = multidot(internal_seed=-7).add_grouping(["{0}.cls"])
    for sample in range(len(ds)):
        seed = (-7 ^ 0x0BAD5EED) + sample
        chosen = np.random.default_rng(seed % 2**64).choice(["f0", "f1", "f2"], 1, False)[0]
        assert ds[sample] == tuple(multidot([f"{chosen}.cls"])[sample])


# --- Copies and other processes -----------------------------------------------------------------


def test_copies_are_equal_and_on_their_own(loc):
    ds = birds_of(loc, internal_seed=4).set_shuffle(rounds=4).set_distributed(0, 2)
    ds.filter_stems(["auk", "jay", "owl"]).map_group(swap, [0, 1])
    ds.set_epoch(2)
    for made in (pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds), copy.copy(ds)):
        assert list(made) == list(ds) and made.state_dict()["epoch"] == 2
        made.set_epoch(7)
        assert ds.state_dict()["epoch"] == 2
    assert "iTarDataset" in repr(ds) and "rank 0/2" in repr(ds)


def answer(ds, questions, answers):
    while questions.get() is not None:
        answers.put((ds.state_dict()["epoch"], list(ds)))


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.skipif(sanitized(), reason="processes are started with other settings")
def test_other_processes_follow_the_epoch(loc, how):
    ds = birds_of(loc).set_shuffle(rounds=4)
    context = multiprocessing.get_context(how)
    questions, answers = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(ds, questions, answers))
    process.start()
    try:
        for epoch in (0, 3, 1):
            ds.set_epoch(epoch)
            questions.put(1)
            assert answers.get(timeout=HANG) == (epoch, list(ds))
    finally:
        questions.put(None)
        process.join()


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.skipif(sanitized(), reason="torch is not run under AddressSanitizer")
def test_workers_of_a_dataloader_follow_the_epoch(how):
    pytest.importorskip("torch")
    from tarn.itar import build_dataloader
    ds = iTarDataset("01_basic", DATA, "train", ["_idx", "cls"], internal_seed=5).set_shuffle()
    loader = build_dataloader(ds, batch_size=8, num_workers=2, drop_last=False,
                              persistent_workers=True,
                              multiprocessing_context=how)
    for epoch in (0, 4):
        ds.set_epoch(epoch)
        assert [number for batch in loader for number in batch[0].tolist()] == [
            number for number, _ in ds]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.skipif(sanitized(), reason="torch is not run under AddressSanitizer")
def test_a_stateful_dataloader_resumes(workers):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")

    def make():
        ds = iTarDataset("01_basic", DATA, "train", ["_idx", "cls"], internal_seed=5)
        return ds, torchdata.StatefulDataLoader(ds.set_shuffle(), batch_size=4,
                                                num_workers=workers)

    ds, loader = make()
    ds.set_epoch(3)
    batches = iter(loader)
    seen = [next(batches)[0].tolist() for _ in range(3)]
    state = loader.state_dict()
    rest = [batch[0].tolist() for batch in batches]
    other, again = make()
    other.set_epoch(3)
    again.load_state_dict(state)
    assert [batch[0].tolist() for batch in again] == rest
    assert sum(seen + rest, []) == [number for number, _ in ds]


def test_dataloaders_without_workers():
    from tarn.itar import build_dataloader, move_to_device
    for wrong in ({"num_workers": -1}, {"batch_size": 0}):
        with pytest.raises(ValueError):
            build_dataloader([], **{"batch_size": 1, "num_workers": 0, "drop_last": False, **wrong})
    torch = pytest.importorskip("torch")
    if sanitized():
        pytest.skip("torch is not run under AddressSanitizer")
    ds = iTarDataset("01_basic", DATA, "train", ["cls"])
    loader = build_dataloader(ds, batch_size=45, num_workers=0, drop_last=True, prefetch_factor=4,
                              persistent_workers=True)
    batch = move_to_device({"a": next(iter(loader))}, torch.device("cpu"), non_blocking=False)
    assert batch["a"][0].tolist() == list(range(45))


def test_threads_read_one_dataset(loc):
    from concurrent.futures import ThreadPoolExecutor
    ds = iTarDataset("01_basic", DATA, "train", ["_idx", "txt", "json"]).set_shuffle()
    wanted = list(ds)
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(ds.__getitem__, list(range(45)) * 40))
    assert got == wanted * 40


# --- BrowserWrapper ----------------------------------------------------------------------------


def test_browser(tmp_path):
    pytest.importorskip("PIL")
    ds = iTarDataset("01_basic", DATA, "train", ["jpg", "cls", "_stem", "_fid"])
    shown = ds.browse(labeldict={0: "zero", 2: "two"}, page_size=10)
    image, label, meta = shown[0]
    assert image.mode == "RGB" and label == "zero"
    assert meta == {"idx": 0, "stem": "train-00000", "fid": 0}
    assert shown[1][1] == 1 and shown[-1][2]["idx"] == len(ds) - 1 == len(shown) - 1
    assert shown.pages == 4 and len(shown.page(3)) == 9 and len(list(shown)) == 39
    with pytest.raises(IndexError):
        shown.page(4)
    with pytest.raises(IndexError):
        shown[39]
    bare = iTarDataset("01_basic", DATA, "train", ["jpg"]).browse()
    assert bare[0][1:] == (None, {"idx": 0})
    for wrong in ({"img_ext": "cls"}, {"img_ext": "png"}, {"page_size": 0}):
        with pytest.raises(ValueError):
            ds.browse(**wrong)


def test_a_notebook_shows_the_first_page_after_the_transforms():
    image = pytest.importorskip("PIL.Image")
    ds = iTarDataset("01_basic", DATA, "train", ["jpg", "cls"])
    ds.map_tuple(lambda picture: picture.resize((40, 10)), lambda label: f"<b>{label}")
    shown = ds.browse(labeldict={"<b>1": "one & all"}, page_size=3, cols=2, width=20)
    page = shown._repr_html_()
    told = re.findall(r'base64,([^"]+)"><br>([^<]*)</div>', page)
    assert [label for _, label in told] == ["&lt;b&gt;0", "one &amp; all", "&lt;b&gt;2"]
    sizes = {image.open(io.BytesIO(base64.b64decode(data))).size for data, _ in told}
    assert sizes == {(20, 5)} and "repeat(2," in page and f"3 of {len(ds)}" in page


def test_items_of_a_browser_wrap_once(tmp_path):
    pytest.importorskip("PIL.Image")
    make_fold(tmp_path / "d", [[("a.png", (DATA / "08_encoders/rgb.png").read_bytes())]])
    shown = iTarDataset("d", tmp_path, "train").browse("png")
    assert shown[-1][2] == shown[0][2]
    for position in (1, -2):
        with pytest.raises(IndexError):
            shown[position]


def test_a_selection_goes_out_and_comes_back(tmp_path):
    pytest.importorskip("PIL")
    ds = iTarDataset("01_basic", DATA, "train", ["jpg", "_stem"]).set_shuffle()
    shown = ds.browse()
    shown.select([5, 1, 5])
    assert shown.positions() == [1, 5] and shown.selected == {ds[1][1], ds[5][1]}
    text = shown.export_json()
    assert json.loads(text) == sorted({ds[1][1], ds[5][1]})
    shown.select([1], selected=False)
    assert shown.positions() == [5]
    ds.set_epoch(1)
    assert shown.import_json(json.dumps([" " + ds[3][1] + " ", ds[3][1], "nobody"])) == (1, 1)
    assert shown.positions() == [3] and shown[3][2]["stem"] == ds[3][1]
    assert shown.import_json("[]") == (0, 0) and shown.positions() == []
    for wrong in ("{}", "[1]"):
        with pytest.raises(ValueError):
            shown.import_json(wrong)
    path = tmp_path / "selection.json"
    path.write_text(text, encoding="utf-8")
    assert len(ds.filter_stems_by_json(path)) == 2


def test_a_field_that_cannot_be_decoded_tells_its_sample(tmp_path):
    make_fold(tmp_path / "d", [[("a.cls", b"1"), ("kea.cls", b"one")]])
    ds = iTarDataset("d", tmp_path, "train")
    with pytest.raises(ValueError) as caught:
        list(ds)
    assert caught.value.__notes__ == ["sample kea: field cls"]
    assert type(caught.value) is ValueError


def test_names_that_are_not_utf8(tmp_path):
    root = make_fold(tmp_path / "d", [[("aXb.cls", b"1"), ("c.cls", b"2")]], index=False)
    data = (root / "train_0.tar").read_bytes()
    header = data[:512].replace(b"aXb", b"a\xffb")
    total = sum(header[:148]) + 8 * 32 + sum(header[156:512])
    header = header[:148] + b"%06o\0 " % total + header[156:]
    (root / "train_0.tar").write_bytes(header + data[512:])
    ds = iTarDataset("d", tmp_path, "train", ["_stem", "cls"], parse_if_missing=True)
    assert list(ds) == [("a\ufffdb", 1), ("c", 2)]
    assert ds.lookup_stems(["a\ufffdb"]) == {"a\ufffdb": {"cls": 1}}
    assert list(ds.filter_stems(["a\ufffdb"])) == [("a\ufffdb", 1)]


@pytest.mark.parametrize("mapped", [False, True])
def test_damage_is_reported(tmp_path, mapped):
    shutil.copytree(DATA / "01_basic", tmp_path / "d")
    ds = iTarDataset("d", tmp_path, "train", ["cls", "txt"], prefer_mmap=mapped)
    assert len(list(ds)) == 45
    os.truncate(tmp_path / "d/train_0001.tar", 4096)
    with pytest.raises((tarn.Error, OSError)):
        list(ds)
    with pytest.raises(ValueError):
        iTarDataset("d", tmp_path, "train", ["cls", "txt"])


def test_memory_and_descriptors_stay_flat(loc):
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def work():
        ds = birds_of(loc, ["txt", "cls", "_stem"]).set_shuffle()
        for epoch in range(20):
            ds.set_epoch(epoch)
            for _ in ds:
                pass
        ds.lookup_stems(NAMES)
        ds.filter_stems(["owl"]).filter_extensions(["cls"])
        pickle.loads(pickle.dumps(ds.fold)).filter_stems(["owl"])

    for _ in range(50):
        work()
    before, files = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        work()
    assert len(os.listdir("/proc/self/fd")) == files
    if not sanitized():
        assert resident() - before < 2**22
