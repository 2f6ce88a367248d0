"""tarn.itar's states, folders, folds, retrievers and samplers, compared with recorded results of
glzn."""
import hashlib
import json
import os
import pickle
import shutil

import pytest
from itar_data import DATA, colliding_stems, make_fold, vectors

import tarn
from tarn.itar import (
    FeistelSampler,
    IdentitySampler,
    MultiFeistelSampler,
    iTarDirectory,
    iTarFold,
    iTarRetriever,
    iTarState,
    parse_tar,
)
from tarn.itar import sampler
from tarn.itar.itar import entry

np = pytest.importorskip("numpy")

FOLDS = [(path.parent.name, path.name.split(".")[1])
         for path in sorted(DATA.glob("0*/manifest.*.json"))
         if path.name.count(".") == 2 and "weakhash" not in path.parent.name]


def manifest_of(folder, fold):
    return json.loads((DATA / folder / f"manifest.{fold}.json").read_text())


def rows_of(manifest):
    return [(row["fid"], row["offset"], row["size"], row["extid"], row["crashid"],
             int(row["keyhash"], 16)) for row in manifest["rows"]]


# --- States -----------------------------------------------------------------------------------


@pytest.mark.parametrize("folder,fold", [*FOLDS, ("04a_crash_weakhash", "train")])
def test_loading(folder, fold):
    manifest = manifest_of(folder, fold)
    state = iTarState.load(DATA / folder / f"{fold}.taridx")
    assert state.arr.tolist() == rows_of(manifest)
    assert list(state.ext2id) == manifest["extensions_by_id"]
    assert list(state.crashstem) == manifest["crash_stems_by_id"]
    assert state.n_stems == manifest["n_stems"]
    assert state.is_contiguous == manifest["is_contiguous"]
    assert len(state.arr) == state.n_rows == state.pos == manifest["n_rows"]
    assert pickle.loads(pickle.dumps(state)).arr.tolist() == state.arr.tolist()


@pytest.mark.parametrize("folder,fold", FOLDS)
def test_scanning_and_saving_give_the_references_bytes(folder, fold, tmp_path):
    manifest = manifest_of(folder, fold)
    wanted = (DATA / folder / f"{fold}.taridx").read_bytes()
    state = iTarState.empty()
    for name in manifest["shards_in_fid_order"]:
        state = parse_tar(DATA / folder / name, state=state)
    assert len(state.seen_stems) == len(state.hashinfo) + state.next_crash == manifest["n_stems"]
    with pytest.raises(ValueError, match="finalize"):
        state.save(tmp_path / "early.taridx")
    state.finalize().save(tmp_path / "scanned.taridx")
    assert (tmp_path / "scanned.taridx").read_bytes() == wanted
    (tmp_path / "loaded.tarsum").touch()
    iTarState.load(DATA / folder / f"{fold}.taridx").save(tmp_path / "loaded.taridx")
    assert (tmp_path / "loaded.taridx").read_bytes() == wanted
    assert sorted(os.listdir(tmp_path)) == ["loaded.taridx", "scanned.taridx"]


def test_the_life_of_a_state(tmp_path):
    one, two, three = colliding_stems(3)
    make_fold(tmp_path, [[(f"{one}.cls", b"1"), ("a.txt", b"")], [], [(f"{two}.cls", b"2")],
                         [(f"{three}.cls", b"3"), (f"{one}.txt", b"4")]], index=False)
    state = parse_tar(tmp_path / "train_0.tar")
    assert state.pos == 2 and state.next_fid == 1 and state.ext2id == {"cls": 0, "txt": 1}
    assert state.seen_stems == {one, "a"} == set(state.hashinfo.values())
    assert (state.n_stems, state.is_contiguous) == (None, None)
    state = parse_tar(tmp_path / "train_1.tar", state=state)
    assert (state.pos, state.next_fid) == (2, 2)
    for number in (2, 3):
        state = parse_tar(tmp_path / f"train_{number}.tar", state=state, bufsize=1 << 20)
    assert (state.next_crash, len(state.hashinfo), len(state.seen_stems)) == (2, 2, 4)
    state = state.finalise()
    assert state.finalize() is state and not state.hashinfo and not state.seen_stems
    assert state.arr["fid"].tolist() == [0, 0, 2, 3, 3]
    assert state.crashstem == {two: 1, three: 2}
    assert state.arr["crashid"].tolist() == [0, 0, 1, 2, 0]
    assert state.n_stems == 4 and not state.is_contiguous
    assert state.id2ext == {0: "cls", 1: "txt"}
    state = state.enforce_contiguous()
    assert state.is_contiguous and state.enforce_contiguous() is state
    sorted_rows = state.arr.tolist()
    assert sorted_rows == sorted(sorted_rows, key=lambda row: (row[5], row[4]))
    state.save(tmp_path / "sorted.taridx")
    again = iTarState.load(tmp_path / "sorted.taridx")
    assert again.arr.tolist() == sorted_rows and again.crashstem == state.crashstem
    with pytest.raises(ValueError):
        state.parse_tar(tmp_path / "train_0.tar")


def test_enforced_rows_are_the_references():
    state = iTarState.load(DATA / "03_noncontiguous/train.taridx").enforce_contiguous()
    wanted = json.loads((DATA / "03_noncontiguous/manifest.train.enforced.json").read_text())
    assert state.arr.tolist() == rows_of(wanted)


def test_states_that_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        iTarState.load(tmp_path / "none.taridx")
    with pytest.raises(FileNotFoundError):
        parse_tar(tmp_path / "none.tar")
    (tmp_path / "x.tar").write_bytes(b"frob" * 1000)
    with pytest.raises(ValueError):
        parse_tar(tmp_path / "x.tar")
    data = bytearray((DATA / "01_basic/train.taridx").read_bytes())
    for at, value in ((0, b"X"), (24, b"\xff"), (32, b"\7")):
        broken = data.copy()
        broken[at:at + 1] = value
        (tmp_path / "x.taridx").write_bytes(broken)
        with pytest.raises(ValueError):
            iTarState.load(tmp_path / "x.taridx")
    with pytest.raises(TypeError):
        parse_tar(None)
    full = iTarState.empty(1)
    full.arr["fid"] = 65535
    with pytest.raises(ValueError, match="65536 shards"):
        parse_tar(DATA / "01_basic/train_0000.tar", state=full._replace(pos=1))


def test_states_grow():
    state = iTarState.empty(2)
    assert state.ensure(1) is state and len(state.ensure(2).arr) == 4
    assert len(state.ensure(9).arr) == 10
    state = parse_tar(DATA / "01_basic/train_0000.tar", state=state)
    assert state.arr[:state.pos].tolist() == iTarState.load(
        DATA / "01_basic/train.taridx").arr[:state.pos].tolist()


def test_layouts_are_the_files():
    assert entry._BLK == entry.BLOCK == 512
    assert entry._ARR_DT.itemsize == 32 and entry.HDR_DT.itemsize == 64
    header = np.frombuffer((DATA / "01_basic/train.taridx").read_bytes()[:64], entry.HDR_DT)[0]
    wanted = manifest_of("01_basic", "train")["header"]
    assert header["magic"].decode() == wanted.pop("magic")
    assert {name: int(header[name]) for name in wanted} == wanted
    with pytest.raises(AttributeError):
        entry.frob


# --- Folders and folds ----------------------------------------------------------------------------


def test_folders(tmp_path, capsys):
    for name in ("train_10", "train_2", "val_a"):
        make_fold(tmp_path / "made", [[(f"{name}.cls", b"1")]], fold=name, index=False)
        os.rename(tmp_path / f"made/{name}_0.tar", tmp_path / f"{name}.tar")
    os.rmdir(tmp_path / "made")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "._train_2.tar").write_text("x")
    folder = iTarDirectory(tmp_path)
    assert folder.folds == ["train", "val"] and folder.nfolds == 3
    assert folder.get_fold("train") == ["train_10", "train_2"]
    assert folder.shards_of("train") == [str(tmp_path / "train_10.tar"),
                                         str(tmp_path / "train_2.tar")]
    assert folder.get_fold("test") == [] and not folder.has_taridx("taridx")
    states = folder.parse_folder(1 << 20)
    assert {name: len(state.arr) for name, state in states.items()} == {"train": 2, "val": 1}
    assert not folder.has_taridx("taridx") and not capsys.readouterr().out
    assert folder.parse_folder(verbose=True, serialize=True) == {}
    assert "train: 2 shards, 2 members, 2 samples" in capsys.readouterr().out
    assert folder.has_taridx("taridx") and not folder.has_taridx("ix")
    os.unlink(tmp_path / "val.taridx")
    assert not folder.has_taridx("taridx") and len(iTarFold(tmp_path).state.arr) == 2
    for name in ("my_train_0.tar", "train.tar"):
        shutil.copy(tmp_path / "val_a.tar", tmp_path / name)
        with pytest.raises(ValueError, match=name):
            iTarDirectory(tmp_path)
        os.unlink(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        iTarDirectory(tmp_path / "none")


@pytest.mark.parametrize("case", vectors("lookup_vectors.json")["fold_filter_extensions"],
                         ids=lambda case: "+".join(case["required"]))
def test_extensions_keep_the_references_rows(case):
    fold = iTarFold(DATA / "01_basic", "train", filter_extensions=case["required"])
    assert len(fold.state.arr) == case["n_rows"]
    assert [[int(row["fid"]), int(row["offset"])] for row in fold.state.arr] == case["offsets"]


def test_folds(tmp_path):
    fold = iTarFold(DATA / "03_noncontiguous")
    assert fold.bincount.tolist() == np.bincount(fold.state.arr["fid"]).tolist()
    assert [path.name for path in fold.full_paths] == [
        "train_00.tar", "train_01.tar", "train_02.tar"]
    assert fold.path_from_idx(1) == fold.full_paths[1] == DATA / "03_noncontiguous/train_01.tar"
    fold.enforce_contiguous()
    assert fold.state.is_contiguous
    assert fold.filter_stems(["u0", "s1", "frob"]) is fold
    rows = fold.state.arr.tolist()
    assert len(rows) == 6 and rows == sorted(rows, key=lambda row: (row[5], row[4]))
    assert fold.filter_extensions(["json", "txt"]) is fold is fold.filter_extensions(None)
    fold.filter_stems(["s1"])
    copied = pickle.loads(pickle.dumps(fold))
    reader = iTarRetriever(fold.full_paths)
    assert sorted(map(reader.hdrname, copied.state.arr)) == ["s1", "s1"]
    copied.filter_stems(["s1"])
    for wrong in (["u0"], ["frob"]):
        with pytest.raises(RuntimeError):
            copied.filter_stems(wrong)
    with pytest.raises(TypeError):
        fold.filter_stems("s1")
    with pytest.raises(ValueError):
        fold.filter_extensions(["jpg"])
    with pytest.raises(RuntimeError):
        fold.filter_extensions(["cls"])
    with pytest.raises(ValueError, match="train"):
        iTarFold(DATA / "03_noncontiguous", "val")
    with pytest.warns(UserWarning, match="no effect: frob"):
        iTarFold(DATA / "03_noncontiguous", frob=1)
    make_fold(tmp_path, [[("a.cls", b"1")]], index=False)
    with pytest.raises(TypeError, match="frob"):
        iTarFold(tmp_path, parse_if_missing=True, frob=1)


def test_a_duplicate_member_drops_its_sample(tmp_path):
    make_fold(tmp_path, [[("a.cls", b"1"), ("a.cls", b"2"), ("b.cls", b"3"), ("b.txt", b"4")]])
    fold = iTarFold(tmp_path, filter_extensions=["cls"])
    assert [iTarRetriever(fold.full_paths).hdrname(row) for row in fold.state.arr] == ["b"]


# --- Bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("folder", ["01_basic", "02_multidot", "05_zero_length"])
def test_bytes_of_rows(folder, mapped):
    manifest = manifest_of(folder, "train")
    fold = iTarFold(DATA / folder)
    reader = pickle.loads(pickle.dumps(iTarRetriever(fold.full_paths, mapped)))
    for row, wanted in zip(fold.state.arr, manifest["rows"]):
        data = reader.from_row(row)
        assert isinstance(data, memoryview) and data.readonly
        assert hashlib.sha256(data).hexdigest() == wanted["payload_sha256"]
        assert reader.hdrname(row) == wanted["stem"]


@pytest.mark.parametrize("mapped", [False, True])
def test_reads_past_the_end_are_reported(tmp_path, mapped):
    path = tmp_path / "x.tar"
    path.write_bytes(b"0123456789" * 1000)
    reader = iTarRetriever([path], mapped)
    view = reader.get(0, 3, 4)
    assert bytes(view) == b"3456" and len(reader.get(0, 10000, 0)) == 0
    for offset, size in ((9999, 2), (10001, 0), (2**40, 1)):
        with pytest.raises(EOFError) as caught:
            reader.get(0, offset, size)
        assert isinstance(caught.value, tarn.TruncatedError)
    for wrong in ((0, -1, 2), (0, 1, -2)):
        with pytest.raises(ValueError):
            reader.get(*wrong)
    for fid in (1, -1):
        with pytest.raises(IndexError):
            reader.get(fid, 0, 1)
    os.truncate(path, 5000)
    with pytest.raises(EOFError):
        reader.get(0, 6000, 10)
    del reader
    assert bytes(view) == b"3456"
    with pytest.raises(ValueError):
        iTarRetriever([tmp_path / "none.tar"])


def test_many_shards(tmp_path):
    paths = []
    for number in range(200):
        paths.append(tmp_path / f"{number}")
        paths[-1].write_text(f"{number:04d}")
    reader = iTarRetriever(paths)
    views = [reader.get(number, 0, 4) for number in range(200)]
    assert [int(bytes(view)) for view in views] == list(range(200))
    assert len(reader._files) <= 128


# --- Samplers -----------------------------------------------------------------------------------

SAMPLERS = vectors("sampler_vectors.json")


@pytest.mark.parametrize("case", SAMPLERS["feistel"],
                         ids=lambda case: f"{case['N']}-{case['rounds']}-{case['seed']}")
def test_feistel(case):
    made = FeistelSampler(case["N"], case["rounds"], case["seed"])
    first, last = case["first"], case["last"]
    assert [made[i] for i in range(len(first))] == first
    assert [made[len(made) - len(last) + i] for i in range(len(last))] == last
    if "all" in case:
        assert list(made) == case["all"] == made.randperm().tolist()
    if "all_sha256_le_u64" in case:
        data = made.randperm().astype("<u8").tobytes()
        assert hashlib.sha256(data).hexdigest() == case["all_sha256_le_u64"]
    assert FeistelSampler(case["N"], case["rounds"], -case["seed"])[0] == first[0]


@pytest.mark.parametrize("case", SAMPLERS["multi_feistel"], ids=lambda case: str(case["Ns"]))
def test_buckets(case):
    made = MultiFeistelSampler(case["Ns"], case["rounds"], case["seed"])
    data = made.randperm().astype("<u8").tobytes()
    assert hashlib.sha256(data).hexdigest() == case["all_sha256_le_u64"]
    assert [made[i] for i in range(len(case["first"]))] == case["first"]
    assert len(made) == sum(case["Ns"]) and sorted(made) == list(range(len(made)))


@pytest.mark.parametrize("case", SAMPLERS["multi_feistel_outer"],
                         ids=lambda case: str(case["Ns"]))
def test_buckets_in_random_order(case):
    made = MultiFeistelSampler(case["Ns"], case["rounds"], case["seed"], shuffle_outer=True)
    assert made.randperm().tolist() == case["randperm"]
    assert [made[i] for i in range(len(made))] == case["randperm"]


def test_samplers_check_what_they_are_given():
    for make in (lambda: FeistelSampler(0), lambda: FeistelSampler(-1),
                 lambda: MultiFeistelSampler([]), lambda: MultiFeistelSampler([3, 0]),
                 lambda: IdentitySampler(-1), lambda: IdentitySampler(0)):
        with pytest.raises(AssertionError):
            make()
    for make in (lambda: FeistelSampler(5, -1), lambda: FeistelSampler(5, init_seed=2**64),
                 lambda: FeistelSampler(5, 65)):
        with pytest.raises((ValueError, OverflowError)):
            make()
    feistel = FeistelSampler(5)
    assert list(feistel) == [sampler.feistel(i, 5, feistel.half, feistel.mask, feistel.keys)
                             for i in range(5)]
    assert feistel[12] == 4  # a word of the network that leads to a number
    fixed = FeistelSampler(5, 0)
    for index in range(5, 16):  # words that do not
        with pytest.raises(IndexError):
            fixed[index]
    for index in (-1, -6):
        with pytest.raises(OverflowError):
            feistel[index]
    for sampled in (feistel, IdentitySampler(5), MultiFeistelSampler([2, 3])):
        for index in (16 if sampled is feistel else 5, 10**9, 2**70):
            with pytest.raises(IndexError):
                sampled[index]
    for sampled in (IdentitySampler(5), MultiFeistelSampler([2, 3])):
        with pytest.raises(IndexError):
            sampled[-1]
    for sampled in (feistel, IdentitySampler(5), MultiFeistelSampler([2, 3])):
        with pytest.raises(TypeError):
            sampled[1.0]
        assert len(sampled) == len(list(sampled)) == 5
        assert [sampled(i) for i in range(5)] == list(sampled)
        assert type(sampled).__name__ in repr(sampled)
    assert list(FeistelSampler(7, rounds=0)) == list(range(7)) == list(IdentitySampler(7))
    assert list(MultiFeistelSampler([3, 4], rounds=0)) == list(range(7))


def test_samplers_change_their_seed_in_place():
    for made, fresh in ((FeistelSampler(70), FeistelSampler(70, init_seed=9)),
                        (MultiFeistelSampler([9, 8, 7], shuffle_outer=True),
                         MultiFeistelSampler([9, 8, 7], init_seed=9, shuffle_outer=True))):
        assert list(made) != list(fresh)
        made.refesh_keys(9)
        assert list(made) == list(fresh) and (made.keys == fresh.keys).all()
    assert list(made.bucket_order) == list(FeistelSampler(3, 3, 10))
    assert IdentitySampler(3).refesh_keys(9) is None


def test_the_network_of_a_sampler_gives_its_numbers():
    one = FeistelSampler(37, 4, 5)
    at = np.arange(36).reshape(4, 9)
    numbers = sampler.feistelvec(at, 37, one.half, one.mask, one.keys)
    assert numbers.shape == (4, 9) and numbers.ravel().tolist() == list(one)[:36]
    for wrong, keys in ((np.array([64]), one.keys), (np.array([-1]), one.keys),
                        (np.array([3, 40]), [])):
        with pytest.raises(IndexError):
            sampler.feistelvec(wrong, 37, one.half, one.mask, keys)


def test_samplers_take_any_integers_and_none_that_does_not_fit():
    for made, other in (
            (FeistelSampler(np.int64(9), np.uint8(4), np.int64(-2**63)),
             FeistelSampler(9, 4, -2**63)),
            (MultiFeistelSampler(np.array([4, 5]), np.int32(4), np.uint64(2**63), np.True_),
             MultiFeistelSampler([4, 5], 4, 2**63, True)),
            (IdentitySampler(np.int16(9)), IdentitySampler(9))):
        assert list(made) == list(other) == list(pickle.loads(pickle.dumps(made)))
        assert repr(made) == repr(other) and made[np.uint64(3)] == other[3]
    for make in (lambda: FeistelSampler(2**64 + 5), lambda: IdentitySampler(2**64),
                 lambda: FeistelSampler(5, 2**64 + 3)):
        with pytest.raises(ValueError):
            make()


def test_a_read_that_stops_early_continues(tmp_path, monkeypatch):
    def some(fd, size, offset, pread=os.pread):
        return pread(fd, min(size, 1000), offset)

    path = tmp_path / "train_0.tar"
    path.write_bytes(bytes(range(256)) * 20)
    monkeypatch.setattr(os, "pread", some)  # as the system does after 2 GB
    reader = iTarRetriever([path], prefer_mmap=False)
    assert bytes(reader.get(0, 100, 3000)) == path.read_bytes()[100:3100]
    with pytest.raises(EOFError):
        reader.get(0, 5000, 1000)
