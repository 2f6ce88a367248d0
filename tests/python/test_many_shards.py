"""Datasets with more shards than an index can have: several folds, with one order and one state."""
import json
import os
import subprocess
import sys
import tarfile

import pytest
from conftest import sanitized, write_tar

import tarn

FOLDS, SHARDS = "abc", 22_000  # together more than 65,536
COUNT = len(FOLDS) * SHARDS
KEYS = [f"{fold}{i:05}" for fold in FOLDS for i in range(SHARDS)]


def write_shard(folder, key, number):
    info = tarfile.TarInfo(f"{key}.cls")
    data = str(number).encode()
    info.size = len(data)
    with open(f"{folder}/{key[0]}_{key[1:]}.tar", "wb") as out:
        out.write(info.tobuf(tarfile.USTAR_FORMAT) + data.ljust(512, b"\0") + bytes(1024))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One sample in each shard; cls is its position modulo 10."""
    if sanitized():
        pytest.skip("66,000 files take minutes, and are read by the code that other tests read")
    folder = tmp_path_factory.mktemp("shards")
    for number, key in enumerate(KEYS):
        write_shard(folder, key, number % 10)
    assert tarn._tarn.main(["tarn", "index", "-q", str(folder)]) == 0
    yield str(folder)
    for path in folder.iterdir():  # pytest keeps the folders of the last runs
        path.unlink()


@pytest.fixture
def ds(folder):
    return tarn.mix(*(tarn.open(folder, fold=fold, fields=["cls"]) for fold in FOLDS))


def test_several_folds_have_the_orders_of_one_fold(ds, tmp_path):
    inside = [f"{fold}{i:05}" for i in range(SHARDS) for fold in FOLDS]  # folds of one size take turns
    write_tar(tmp_path / "one.tar", [(f"{key}.cls", b"1") for key in inside])
    one = tarn.open(tmp_path / "one.tar", fields=["cls"])
    assert len(ds) == COUNT and ds.keys() == one.keys() == inside
    for chain in (lambda d: d.shuffle(7), lambda d: d[::-3], lambda d: d.shuffle(7)[500:], lambda d: d.shuffle(3).shard(1, 5),
                  lambda d: d.order("blocks", seed=1, block=100, window=4)):
        assert chain(ds).keys() == chain(one).keys()


def test_an_epoch_of_several_folds_is_exact_on_all_ranks(ds):
    seen = {}
    for rank in range(3):
        for batch in ds.loader(512, shuffle=True, seed=7, rank=rank, world_size=3, epochs=1):
            seen.update(zip(batch["__key__"], batch["cls"]))
    assert seen == {key: number % 10 for number, key in enumerate(KEYS)}


def test_many_folds_share_few_descriptors(folder):
    program = """if True:
        import resource, sys, tarn
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        opened = [tarn.mix(*(tarn.open(sys.argv[1], fold=fold, fields=["cls"]) for fold in "abc")) for _ in range(3)]
        for ds in opened:
            print(sum(len(batch["cls"]) for batch in ds.shuffle(1)[:2000].loader(100, epochs=1)))
        """
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True)
    assert done.stdout.split() == ["2000"] * 3, done.stderr


def test_a_state_of_several_folds_resumes_on_another_number_of_ranks(ds):
    first = ds.loader(100, shuffle=True, seed=7, rank=0, world_size=2)
    for _, _ in zip(range(300), first):
        pass
    state = json.loads(json.dumps(first.state_dict()))
    rest = []
    for rank in range(3):
        loader = ds.loader(64, shuffle=True, seed=7, rank=rank, world_size=3, epochs=1)
        loader.load_state_dict(state)
        for batch in loader:
            rest += batch["__key__"]
    assert sorted(rest) == sorted(ds.shuffle(7).keys()[300 * 100 * 2:]) and len(rest) == COUNT - 60_000


def test_keys_of_several_folds_are_found(ds):
    assert ds["c21999"]["cls"] == (COUNT - 1) % 10 and "b00000" in ds and "b22000" not in ds


def test_one_fold_with_more_shards_is_refused(folder, tmp_path, capfd):
    for i in range(65_537):  # which is more names than one file can have
        os.link(f"{folder}/a_{i % 2:05}.tar", tmp_path / f"x_{i:05}.tar")
    assert tarn._tarn.main(["tarn", "index", "-q", str(tmp_path)]) == 1
    assert "65537 shards, but an index can have at most 65536; divide them into several folds" in capfd.readouterr().err
    for path in tmp_path.iterdir():
        path.unlink()
