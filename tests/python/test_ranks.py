"""Loaders in a process group, and ranks that get full batches."""
import itertools
import json
import logging
import pathlib
import pickle
import subprocess
import sys

import pytest
from conftest import HANG, write_tar

import tarn
import tarn._group

ALL = [f"s{i:02}" for i in range(23)]


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    folder = tmp_path_factory.mktemp("some") / "some"
    folder.mkdir()
    write_tar(folder / "train_0.tar", [(f"{key}.cls", str(i).encode()) for i, key in enumerate(ALL)])
    assert tarn._tarn.main(["tarn", "index", "-q", str(folder)]) == 0
    return str(folder)


@pytest.fixture
def group(monkeypatch):
    """Sets the process group as a launcher does."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(tarn._group, "_reported", False)

    def set_group(rank=None, world_size=None):
        for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, str(value))

    return set_group


def batches_of(loader):
    return [batch["__key__"] for batch in loader]


def keys_of(loader):
    return sum(batches_of(loader), [])


# --- The process group ---


@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_loader_takes_the_part_of_its_rank(some, group, world):
    ds = tarn.open(some).shuffle(3)
    for epoch in range(2):
        ranks = []
        for rank in range(world):
            group(rank, world)
            loader = ds.loader(4, threads=rank)
            loader.set_epoch(epoch)
            ranks.append(batches_of(loader))
            assert len(loader) == len(ranks[-1])
        assert len(set(map(len, ranks))) == 1                  # no rank waits for another
        assert sorted(sum(sum(ranks, []), [])) == ALL


@pytest.mark.parametrize("sharded", [
    lambda ds: ds.shard(0, 1), lambda ds: ds.shard(0, 1)[:], lambda ds: ds[:].shard(0, 1).shuffle(1),
    lambda ds: tarn.mix(ds.shard(0, 1)), lambda ds: tarn.mix(ds.shard(0, 1).map(dict))])
@pytest.mark.filterwarnings("ignore:an order after shard")
def test_an_explicit_shard_wins_anywhere_in_the_chain(some, group, sharded):
    group(1, 2)
    loader = sharded(tarn.open(some)).loader(4)
    assert sorted(keys_of(loader)) == ALL
    assert keys_of(tarn.open(some).shard(1, 3).loader(4)) == ALL[1::3]
    assert "process group" not in repr(loader)
    with pytest.raises(tarn.UsageError, match="already has a shard"):
        sharded(tarn.open(some)).loader(4, uneven="drop")


def test_world_size_1_turns_it_off_and_a_rank_can_be_given(some, group):
    ds = tarn.open(some)
    group(1, 2)
    assert keys_of(ds.loader(4, world_size=1)) == ALL
    assert keys_of(ds.loader(4, rank=0, world_size=1)) == ALL
    assert keys_of(ds.loader(4, rank=2, world_size=3)) == ALL[2::3]
    assert len(ds.loader(4, rank=2, world_size=3)) == len(ds.loader(4, rank=0, world_size=3)) == 2
    for wrong in ({"rank": 1}, {"world_size": 2}):
        with pytest.raises(tarn.UsageError, match="pass both"):
            ds.loader(4, **wrong)
    for wrong in ({"rank": 2, "world_size": 2}, {"rank": 1, "world_size": 1}, {"uneven": "some"}):
        with pytest.raises(tarn.UsageError):
            ds.loader(4, **wrong)


def test_it_is_reported_once_by_rank_0_and_shown(some, group, caplog, recwarn):
    ds = tarn.open(some)
    with caplog.at_level(logging.WARNING, "tarn"):
        assert "process group" not in repr(ds.loader(4)) and not caplog.records
        group(1, 2)
        loader = ds.loader(4)
        assert repr(loader).startswith("<tarn.Loader rank 1/2 of the process group, epoch 0, 3 batches of")
        assert not caplog.records
        group(0, 2)
        tarn._group._reported = False
        ds.shard(0, 2).loader(4)
        ds.loader(4, world_size=1)
        assert not caplog.records
        for _ in range(2):
            assert "rank 0/2" in repr(ds.loader(4))
    assert [record.getMessage() for record in caplog.records] == [
        "tarn: this process is rank 0 of 2, so each loader returns the samples of its rank only; pass "
        "world_size=1 to a loader for all samples"]
    assert not recwarn


def test_the_report_goes_to_standard_error_without_any_setting(some):
    code = f"import tarn; tarn.open({some!r}).loader(4)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG,
                          env={**__import__("os").environ, "RANK": "0", "WORLD_SIZE": "2"})
    assert done.returncode == 0 and done.stderr.count("rank 0 of 2") == 1 and not done.stdout


def test_a_group_that_starts_after_the_loader_was_made_counts(some, group):
    ds = tarn.open(some).shuffle(1)
    loaders = [ds.loader(4) for _ in range(2)]
    assert [len(loader) for loader in loaders] == [6, 6]
    ranks = []
    for rank, loader in enumerate(loaders):
        group(rank, 2)
        ranks.append(keys_of(loader))
    assert sorted(sum(ranks, [])) == ALL
    group()
    whole = iter(loaders[0])
    assert len(next(whole)["__key__"]) == 4 and loaders[0].epoch == 1
    group(0, 2)
    assert len(next(whole)["__key__"]) == 4                    # an epoch that has begun stays as it is
    part = keys_of(loaders[0])                                 # the next one is divided
    ds.set_epoch(2)
    assert part == ds.shard(0, 2).keys()
    group()
    ds.set_epoch(3)
    assert keys_of(loaders[0]) == ds.keys()                    # and one after the group is not


def test_a_loader_with_functions_joins_a_group(some, group):
    seen = []
    for rank in range(2):
        group()
        loader = tarn.open(some).map(cls=float).loader(4, on_error="skip")
        group(rank, 2)
        seen += keys_of(loader)
    assert sorted(seen) == ALL


@pytest.mark.parametrize("stop", [0, 1, 2])
@pytest.mark.parametrize("world,then", [(2, 2), (2, 3), (3, 2), (2, 1), (1, 2)])
def test_a_state_of_a_group_resumes_in_another(some, group, world, then, stop):
    ds = tarn.open(some).shuffle(5)
    seen, states = [], []
    for rank in range(world):
        group(rank, world)
        loader = ds.loader(3)
        seen += sum((batch["__key__"] for batch in itertools.islice(loader, stop)), [])
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert all(state == states[0] for state in states)
    for rank in range(then):
        group()
        loader = ds.loader(3)
        loader.load_state_dict(states[0])                      # before the group starts
        group(rank, then)
        seen += keys_of(loader)
    assert sorted(seen) == ALL


def test_a_worker_without_a_group_has_that_of_its_parent(some, group):
    loader = tarn.open(some).loader(4)
    group(1, 2)
    text = pickle.dumps(loader)
    group()
    assert keys_of(pickle.loads(text)) == ALL[1::2]
    group(0, 2)
    assert keys_of(pickle.loads(text)) == ALL[::2]             # its own group comes first
    group()
    assert keys_of(loader) == ALL


@pytest.mark.parametrize("rank,world", [("x", "2"), ("2", "2"), ("-1", "2"), ("0", "0"), ("0", "2.5")])
def test_a_wrong_environment_is_reported(some, group, rank, world):
    group(rank, world)
    with pytest.raises(tarn.UsageError, match="RANK=.*WORLD_SIZE=.* in the environment"):
        tarn.open(some).loader(4)
    assert keys_of(tarn.open(some).loader(4, world_size=1)) == ALL
    group("", "")
    assert keys_of(tarn.open(some).loader(4)) == ALL


def test_a_rank_without_samples_has_the_form_of_decoded_arrays(some, group):
    ds = tarn.open(some, decoders={"cls": lambda data: len(data) * 1.5})[:3]
    group(3, 4)
    for on_error in ("raise", "skip"):
        batch = next(iter(ds.loader(1, on_error=on_error)))
        assert batch["cls"].shape == (0,) and batch["cls"].dtype == "float64"


def test_a_refused_state_leaves_the_loader_as_it_was(some, group):
    ds = tarn.open(some)
    loader, other = ds.loader(4), ds[:20].loader(4).state_dict()
    group(1, 2)
    with pytest.raises(tarn.StaleError):
        loader.load_state_dict(other)
    assert keys_of(loader) == ALL[1::2] and "rank 1/2" in repr(loader)


# --- Full batches ---


@pytest.mark.parametrize("uneven", ["keep", "drop", "pad"])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("samples", range(12, 24))
def test_with_drop_last_every_batch_is_full_on_every_rank(some, group, world, uneven, samples):
    ds = tarn.open(some)[:samples].shuffle(1)
    ranks = []
    for rank in range(world):
        group(rank, world)
        sizes = [len(batch) for batch in batches_of(ds.loader(4, drop_last=True, uneven=uneven))]
        for other in (ds.shard(rank, world, uneven=uneven).loader(4, drop_last=True),
                      ds.loader(4, drop_last=True, equal_batches=True, uneven=uneven),
                      ds.map(dict).loader(4, drop_last=True, uneven=uneven)):
            assert [len(batch) for batch in batches_of(other)] == sizes
        ranks.append(sizes)
    share = -(-samples // world) if uneven == "pad" else samples // world
    assert ranks == [[4] * (share // 4)] * world


BAD = {1, 8, 14}


@pytest.mark.parametrize("world,drop_last,on_error", itertools.product([1, 2], [False, True], ["skip", "replace"]))
def test_bad_samples_do_not_move_the_batches_of_a_resumed_run(tmp_path, world, drop_last, on_error):
    path = write_tar(tmp_path / "a.tar", [(f"k{i:02}.cls", b"bad" if i in BAD else b"%d" % i)
                                          for i in range(19)])
    ds = tarn.open(path).shuffle(2)

    def run(state=None, stop=None):
        out, states = [], []
        for rank in range(world):
            loader = ds.loader(3, rank=rank, world_size=world, drop_last=drop_last, on_error=on_error)
            if state is not None:
                loader.load_state_dict(state)
            batches = iter(loader)
            out.append(batches_of(itertools.islice(batches, stop)))
            states.append(loader.state_dict())
        assert all(state == states[0] for state in states) and len(set(map(len, out))) == 1
        return out, states[0]

    whole, _ = run()
    good = {f"k{i:02}" for i in range(19)} - {f"k{i:02}" for i in BAD}
    assert set(sum(sum(whole, []), [])) <= good
    assert on_error == "skip" or not drop_last or {len(batch) for rank in whole for batch in rank} == {3}
    for stop in range(len(whole[0])):
        begun, state = run(stop=stop)
        rest, _ = run(state)
        assert [one + other for one, other in zip(begun, rest)] == whole


# --- Epochs ---


def test_the_epoch_of_a_loaded_state_may_be_set_again(some):
    """Trainers call set_epoch before each epoch, also before the one that a checkpoint continues."""
    ds = tarn.open(some).shuffle(4)
    whole = ds.loader(4)
    epochs = [batches_of(whole) for _ in range(3)]
    for stop in range(6):
        begun = ds.loader(4)
        begun.set_epoch(1)
        had = batches_of(itertools.islice(begun, stop))
        again = ds.loader(4)
        again.load_state_dict(begun.state_dict())
        again.set_epoch(1)
        assert had + batches_of(again) == epochs[1] and batches_of(again) == epochs[2]
        again.load_state_dict(begun.state_dict())
        again.set_epoch(2)
        assert batches_of(again) == epochs[2]
        again.load_state_dict(begun.state_dict())
        next(iter(again), None)
        again.set_epoch(1)                                     # it has begun, so this starts it again
        assert batches_of(again) == epochs[1]


# --- Samples that occur several times ---


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Eight images in which no two crops are equal."""
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(1)
    folder = tmp_path_factory.mktemp("noise") / "noise"
    folder.mkdir()
    members = []
    for i in range(8):
        pixels = random.integers(0, 256, (40, 40, 3), numpy.uint8)
        members += [(f"n{i}.png", tarn._tarn.encode("png", pixels)), (f"n{i}.cls", str(i % 2).encode())]
    write_tar(folder / "train_0.tar", members)
    assert tarn._tarn.main(["tarn", "index", "-q", str(folder)]) == 0
    return str(folder)


def crops(ds, threads, rank=0, world_size=1, uneven=None, state=None, stop=None):
    """Returns (key, pixels) of each sample, and the state."""
    loader = ds.loader(4, seed=3, threads=threads, resize=12, fit="random", flip=0.5, rank=rank,
                       world_size=world_size, uneven=uneven)
    if state is not None:
        loader.load_state_dict(state)
    out = []
    for batch in itertools.islice(loader, stop):
        out += zip(batch["__key__"], (pixels.tobytes() for pixels in batch["png"]))
    return out, loader.state_dict()


REPEATED = {
    "weighted": lambda ds: ds.order("weighted", weights=[1] * 4 + [9] * 4, draws=40, seed=1),
    "balanced": lambda ds: ds.order("balanced", by="cls", draws=40, seed=1),
    "select": lambda ds: ds.select([0, 1, 2, 3, 4, 5, 6, 7] * 5),
    "select of an order": lambda ds: ds.shuffle(2)[[0, 1, 2] * 13],
    "order of a select": lambda ds: ds[[0, 0, 0, 5, 6] * 8].shuffle(2),
    "mix": lambda ds: tarn.mix(ds, ds[:2], counts=[20, 20]),
}


@pytest.mark.parametrize("how", REPEATED)
def test_a_sample_that_occurs_again_is_augmented_differently(noise, how):
    ds = REPEATED[how](tarn.open(noise, fields=["png", "cls"]))
    whole, _ = crops(ds, 0)
    keys = [key for key, _ in whole]
    assert len(set(keys)) <= 8 < len(keys) == len(set(whole))
    assert crops(ds, 3)[0] == whole
    ds.set_epoch(1)
    assert set(crops(ds, 0)[0]).isdisjoint(whole)
    ds.set_epoch(0)
    for world, then in ((1, 1), (2, 3), (3, 1)):
        seen, states = [], []
        for rank in range(world):
            part, state = crops(ds, rank, rank, world, stop=2)
            seen += part
            states.append(state)
        for rank in range(then):
            seen += crops(ds, rank, rank, then, state=states[0])[0]
        assert sorted(seen) == sorted(whole)


@pytest.mark.parametrize("world", [1, 3, 5])
def test_samples_that_pad_the_ranks_are_augmented_differently(noise, world):
    ds = tarn.open(noise, fields=["png", "cls"]).shuffle(1)[:7]
    whole, _ = crops(ds, 0)
    padded = [crops(ds, threads, rank, world, "pad")[0] for rank in range(world) for threads in (0, 3)]
    assert padded[::2] == padded[1::2]
    seen = sum(padded[::2], [])
    again = [crop for crop in seen if crop not in whole]
    assert set(whole) <= set(seen) and len(set(seen)) == len(seen)
    assert len(again) == len(seen) - 7 and {key for key, _ in again} <= {key for key, _ in whole}
    assert world == 1 or again


# --- The example without torch ---

SOCKETS = pathlib.Path(__file__).resolve().parents[2] / "examples/cluster/sockets.py"


class Sockets:
    """Processes of the example, which train on one dataset."""

    def __init__(self, world, data, state, *options):
        def start(rank, port):
            own = data[rank] if isinstance(data, list) else data
            words = [sys.executable, SOCKETS, own, state, "--rank", rank, "--world-size", world, "--master",
                     f"127.0.0.1:{port}", *options]
            return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        self.ranks = [start(0, 0)]
        port = self.line().rsplit(maxsplit=1)[1]
        self.ranks += [start(rank, port) for rank in range(1, world)]

    def line(self):
        return self.ranks[0].stdout.readline()

    def end(self):
        """What they printed, and their exit statuses."""
        printed = [rank.communicate(timeout=HANG) for rank in self.ranks]
        return printed, [rank.returncode for rank in self.ranks]

    def finished(self):
        printed, codes = self.end()
        assert not any(codes), printed
        return printed[0][0]


def small_fold(folder, count):
    folder.mkdir()
    write_tar(folder / "train_0.tar", [(f"s{i:02}.cls", str(i).encode()) for i in range(count)])
    assert tarn._tarn.main(["tarn", "index", "-q", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def even(tmp_path_factory):
    """A fold whose batches have the same samples on any number of ranks that divides 8."""
    return small_fold(tmp_path_factory.mktemp("even") / "even", 24)


@pytest.fixture(scope="module")
def trained(even, tmp_path_factory):
    """The state after two epochs of one process."""
    state = tmp_path_factory.mktemp("trained") / "alone.json"
    printed = Sockets(1, even, state).finished()
    assert printed.count("24 samples, 24 distinct") == 2
    return json.loads(state.read_text())


def same(state, other):
    return state["loader"] == other["loader"] and state["mean"] == pytest.approx(other["mean"], abs=1e-9)


@pytest.mark.parametrize("world", [2, 4])
def test_processes_that_agree_over_a_socket_train_like_one(even, tmp_path, trained, world):
    printed = Sockets(world, even, tmp_path / "state.json").finished()
    assert printed.count("24 samples, 24 distinct") == 2
    assert same(json.loads((tmp_path / "state.json").read_text()), trained)


def test_training_over_a_socket_resumes_with_another_number_of_processes(even, tmp_path, trained):
    state = tmp_path / "state.json"
    assert "epoch 0: 8 samples, 8 distinct" in Sockets(2, even, state, "--stop", 1).finished()
    assert "epoch 0: 8 samples, 8 distinct" in Sockets(4, even, state, "--stop", 1).finished()
    printed = Sockets(1, even, state).finished()
    assert "epoch 0: 8 samples, 8 distinct" in printed and "epoch 1: 24 samples, 24 distinct" in printed
    assert same(json.loads(state.read_text()), trained)


def test_processes_whose_peer_was_killed_end_and_resume(some, tmp_path):
    state = tmp_path / "state.json"
    running = Sockets(3, some, state, "--epochs", 10**6)
    running.line()  # an epoch ends
    running.ranks[1].kill()
    printed, codes = running.end()
    assert all(codes) and "rank 1 is gone" in printed[0][1] and "rank 0 is gone" in printed[2][1], printed
    saved = json.loads(state.read_text())["loader"]
    loader = tarn.open(some, fields=["cls"]).loader(1, shuffle=True, seed=7)
    loader.load_state_dict(saved)
    rest, epoch = len(keys_of(loader)), json.loads(saved["loader"])["epoch"]
    printed = Sockets(2, some, state, "--epochs", epoch + 2).finished()
    assert f"{rest} samples, {rest} distinct" in printed and "23 samples, 23 distinct" in printed


def test_processes_with_different_data_do_not_train(some, tmp_path):
    other = small_fold(tmp_path / "other", 20)
    printed, codes = Sockets(2, [some, other], tmp_path / "state.json").end()
    assert codes == [1, 1] and all("the ranks have different data" in errors for _, errors in printed), printed
