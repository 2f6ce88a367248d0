"""Functions in worker processes and threads: the same batches as in the caller, whatever happens to a worker."""
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest
import worker_functions as functions
from conftest import HANG, payload, same, sanitized

import tarn

KILLS = int(os.environ.get("TARN_KILLS", "40"))  # make test-kills: many
KINDS = [1, 2, 8, ("threads", 3)]
FEW = [2, ("threads", 3)]


@pytest.fixture(scope="module")
def ds(many):
    return tarn.open(many)[:150].shuffle(3)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """60 samples with a small array each."""
    folder = tmp_path_factory.mktemp("arrays") / "arrays"
    with tarn.DatasetWriter(folder, "train") as out:
        out.write_many({"__key__": f"s{i:02}", "npy": np.full((40, 50), float(i)), "cls": i} for i in range(60))
    return tarn.open(folder)


# These need processes that are forked from this one.
FORKING = {
    "test_a_forked_child_has_its_own_workers", "test_a_forked_worker_does_not_free_what_it_inherited",
    "test_a_function_that_hangs_is_ended_after_the_timeout",
    "test_a_sample_that_ends_every_worker_is_an_error_or_a_hole", "test_a_worker_that_cannot_start_is_reported",
    "test_a_worker_that_dies_is_replaced_and_its_samples_come_again", "test_after_an_interrupt_the_loader_continues",
    "test_an_epoch_resumes_at_every_batch_on_other_ranks_and_workers",
    "test_an_exception_has_its_type_its_sample_and_its_shard",
    "test_an_exception_of_a_batch_function_names_the_batch", "test_an_exception_that_cannot_be_sent_is_described",
    "test_batches_are_the_same_with_any_workers", "test_holes_are_the_same_with_workers",
    "test_inputs_may_be_changed_and_kept", "test_memory_stays_flat_over_epochs", "test_payloads_are_unchanged",
    "test_random_numbers_depend_on_the_place_in_the_epoch_only",
    "test_the_generators_of_the_process_are_set_for_functions_with_rng_and_restored",
    "test_workers_end_with_their_loader_and_leave_nothing", "test_workers_that_are_killed_at_random_change_nothing",
}


@pytest.fixture(autouse=sanitized())
def no_fork(request):
    """A thread may hold the lock of the sanitizer's allocator during a fork; the child would wait for it forever."""
    if request.function.__name__ in FORKING:
        pytest.skip("a forked child may wait for the sanitizer's allocator")
    multiprocessing.set_start_method("forkserver", force=True)
    yield
    multiprocessing.set_start_method("fork", force=True)


@pytest.fixture(params=["spawn", "forkserver"])
def method(request):
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


def epochs(dataset, batch_size, count=2, **options):
    with dataset.loader(batch_size, **options) as loader:
        return [list(loader) for _ in range(count)]


CHAINS = {
    "row": lambda ds: ds.map(functions.row),
    "pair": lambda ds: ds.map(functions.pair),
    "one": lambda ds: ds.map(functions.one),
    "number": lambda ds: ds.map_tuple(len, float).map(len),
    "growing": lambda ds: ds.map(functions.growing),
    "mixed": lambda ds: ds.map(functions.mixed),
    "typed": lambda ds: ds.map(functions.typed),
    "fields": lambda ds: ds.map(bin=len, cls=functions.jitter),
    "all": lambda ds: ds.map_all(str),
    "group": lambda ds: ds.map_group(lambda data, cls: (len(data), cls * 2), ["bin", "cls"]),
    "drawn": lambda ds: ds.map(functions.drawn).map(lambda sample: sample, key=len),
    "batch": lambda ds: ds.map(functions.row).map(lambda s: {n: s[n] for n in ("__key__", "n")}).batch_map(twice_n),
    "sums": lambda ds: ds.batch_map(functions.sums),
    "twice": lambda ds: ds.batch_map(functions.twice).batch_map(len),
    "mix": lambda ds: tarn.mix(ds[:40].map(cls=functions.jitter), ds[60:].map(functions.drawn).map(named)),
}


def twice_n(batch):
    return batch["n"] * 2


def named(sample):
    return {"__key__": sample["key"], "bin": b"none", "cls": sample["n"]}


@pytest.mark.parametrize("chain", CHAINS)
def test_batches_are_the_same_with_any_workers(ds, chain):
    made = CHAINS[chain](ds)
    expected = epochs(made, 16)
    assert len(expected[0]) == len(made.loader(16))
    for workers in KINDS:
        assert same(epochs(made, 16, workers=workers), expected), workers


def test_batches_are_the_same_with_every_start_method(ds, method):
    made = ds.map(functions.drawn_globally).map(functions_of_both)
    expected = epochs(made, 16)
    assert same(epochs(made, 16, workers=2), expected)
    mapped = tarn.open(str(ds._recipe.path), decoders={"bin": functions.number})[:40].map(functions.nothing)
    assert same(epochs(mapped, 7, on_error="skip", workers=2), epochs(mapped, 7, on_error="skip"))


def functions_of_both(values):
    return {"x": values, "y": str(values[0])}


def test_decoders_and_collate_run_in_workers(many):
    for decoders in ({"bin": functions.number}, {"bin": functions.number, "cls": float}, {"cls": bytes.decode}):
        opened = tarn.open(many, decoders=decoders)[:50]
        for made, options in ((opened, {}), (opened, {"collate": functions.joined}), (opened.map(len), {}),
                              (opened.batch_map(len), {})):
            if options and "cls" in decoders:
                continue
            expected = epochs(made, 8, **options)
            for workers in FEW:
                assert same(epochs(made, 8, workers=workers, **options), expected)
    pids = next(iter(tarn.open(many).map(functions.process).loader(8, workers=1)))
    assert os.getpid() not in pids and len(set(pids)) == 1


def several(sample):
    n = sample["cls"]
    return {"__key__": sample["__key__"], "x": np.arange(n), "y": [[n]] * (n // 3 + 1), "z": np.ones(4) * n, "n": n}


def sizes(batch):
    return {"x": batch["x"].offsets, "z": batch["z"]}


def test_padded_and_ragged_fields_are_the_same_with_workers(ds, many):
    pads = {"y": tarn.Pad(-1, mask=True), "z": tarn.Pad(0)}
    opened = tarn.open(many, decoders={"bin": functions.of_length})[:60]
    for made, options in ((ds.map(several), {"pad": pads, "ragged": ["x"]}), (ds.map(several), {"pad": {"z": 0}}),
                          (ds.map(several).batch_map(sizes), {"pad": pads, "ragged": ["x"]}),
                          (opened, {"pad": {"bin": 7}}), (opened, {"ragged": ["bin"]}),
                          (opened.batch_map(dict), {"ragged": ["bin"]})):
        expected = epochs(made, 16, **options)
        for workers in FEW:
            assert same(epochs(made, 16, workers=workers, **options), expected)
    arrays = tarn.open(many)[:20].batch_map(dict)
    assert same(epochs(arrays, 8, workers=2), epochs(arrays, 8))
    with pytest.raises(tarn.UsageError, match="without collate="):
        ds.loader(4, collate=len, pad={"cls": 0})


def test_views_pictures_and_texts_reach_the_workers(many, pictures, birds):
    for opened in (tarn.open(many, decode=False)[:20], tarn.open(pictures), tarn.open(birds),
                   tarn.open(pictures, fields=["jpg"])):
        made = opened.map_all(functions_text)
        for options in ({}, {"resize": 8} if "jpg" in opened.fields else {}):
            assert same(epochs(made, 3, workers=2, **options), epochs(made, 3, **options))


@pytest.mark.parametrize("kind,values", [
    (0, [b"one", b"", b"three"]), (1, ["one", "", "dr\u00e9i", "\udcff"]), (2, ["k0", "", "k\u00e92"]), (0, [b""]), (1, [])])
def test_a_column_of_bytes_is_the_same_after_it_was_sent(kind, values):
    parts = [value if kind == 0 else value.encode("utf-8", "surrogateescape") + b"\0" * (kind == 2) for value in values]
    offsets = np.cumsum([7, *map(len, parts)], dtype="u8").tobytes()
    column = tarn._tarn._Pieces(b"".join(parts), offsets, kind)
    for _ in range(2):
        assert list(column) == values and len(column) == len(values)
        for first in range(len(values) + 1):
            assert list(column[first:]) == values[first:] and list(column[:first][-1:]) == values[:first][-1:]
        for outside in (len(values), -len(values) - 1):
            with pytest.raises(IndexError):
                column[outside]
        whole = column[:]
        column = tarn._tarn._Pieces(*whole.parts())
    if values:
        assert column[-1] == values[-1] and list(pickle.loads(pickle.dumps(column[1:], 5))) == values[1:]
        with pytest.raises(ValueError, match="step"):
            column[::2]


@pytest.mark.parametrize("data,offsets,kind", [
    (b"abc", [0, 4], 0), (b"abc", [0, 2], 0), (b"abc", [0, 2, 1, 3], 0), (b"abc", [3, 0], 0), (b"abc", [0], 0),
    (b"a\0", [0, 0, 2], 2), (b"abc", [2**64 - 3, 0], 0), (b"abc", [0, 3], 3), (b"abc", [0, 3], -1)])
def test_offsets_that_do_not_fit_the_data_are_refused(data, offsets, kind):
    with pytest.raises(ValueError):
        tarn._tarn._Pieces(data, np.array(offsets, "u8").tobytes(), kind)
    with pytest.raises(ValueError):
        tarn._tarn._Pieces(data, b"", 0)


def functions_text(value):
    return bytes(value).hex() if isinstance(value, memoryview) else repr(value)


# --- Positions -------------------------------------------------------------------------------


def keys_of(batches):
    return [key for batch in batches for key in batch["__key__"]]


@pytest.mark.parametrize("ranks,again", [(1, 2), (2, 1)])
def test_an_epoch_resumes_at_every_batch_on_other_ranks_and_workers(ds, ranks, again):
    made = ds[:41].shuffle(1).map(lambda sample, rng: {**sample, "r": rng.random()})
    expected = {key: r for batch in made.loader(5) for key, r in zip(batch["__key__"], batch["r"])}
    for stop in range(5):
        seen, states = [], []
        for rank in range(ranks):
            with made.shard(rank, ranks).loader(5, workers=FEW[stop % 2]) as loader:
                seen += list(itertools.islice(loader, stop))
                states.append(loader.state_dict())
        assert all(state == states[0] for state in states)
        for rank in range(again):
            with made.shard(rank, again).loader(4, workers=FEW[rank % 2]) as loader:
                loader.load_state_dict(states[0])
                seen += list(loader)
        found = [(key, r) for batch in seen for key, r in zip(batch["__key__"], batch["r"])]
        assert len(found) == 41 and dict(found) == expected


def test_a_loop_that_ends_early_an_epoch_that_is_set_and_a_copy(ds):
    made = ds.map(bin=len)
    reference, loader = made.loader(16), made.loader(16, workers=2)

    def both(act):
        return [act(one) for one in (reference, loader)]

    for act in (lambda l: keys_of(itertools.islice(l, 2)), lambda l: l.epoch, lambda l: l.state_dict(), keys_of,
                lambda l: l.set_epoch(7), lambda l: keys_of(itertools.islice(l, 3)), lambda l: l.stats()["samples"],
                lambda l: l.stats()["batches"], lambda l: l.stats()["bytes"], lambda l: l.state_dict(),
                lambda l: keys_of(pickle.loads(pickle.dumps(l))), lambda l: next(iter(l))["__key__"],
                lambda l: l.load_state_dict(l.state_dict()), keys_of, lambda l: l.epoch, len,
                lambda l: l.stats()["batches"]):
        one, other = both(act)
        assert one == other
    loader.close()


def test_batches_in_progress_are_given_up_when_the_position_changes(ds):
    for workers in FEW:
        with ds.map(bin=len).loader(4, workers=workers) as loader:
            expected = keys_of(loader)
            state = loader.state_dict()
            loader.set_epoch(0)
            for _ in range(5):
                batches = iter(loader)
                next(batches)
                loader.load_state_dict(state)
                loader.set_epoch(0)
            assert keys_of(loader) == expected
            if workers == 2:
                assert len(loader._pool._tasks) <= 4 * 2


def test_equal_batches_of_ranks_are_the_same(ds):
    made = ds[:5].map(functions.pair)
    for rank in range(7):
        options = {"rank": rank, "world_size": 7, "equal_batches": True}
        assert same(epochs(made, 2, workers=2, **options), epochs(made, 2, **options))


def test_a_forked_child_has_its_own_workers(ds):
    made = ds.map(bin=len)
    with made.loader(16, workers=2) as loader:
        expected = keys_of(made.loader(16))
        batches = iter(loader)
        seen = keys_of(itertools.islice(batches, 3))
        workers = {worker.process.pid for worker in loader._pool._team.workers.values()}
        child = os.fork()
        if child == 0:
            good = seen + keys_of(batches) == expected
            other = {worker.process.pid for worker in loader._pool._team.workers.values()}
            loader.close()
            os._exit(0 if good and not workers & other else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert seen + keys_of(batches) == expected


# --- Random numbers --------------------------------------------------------------------------


def test_random_numbers_depend_on_the_place_in_the_epoch_only(ds):
    repeated = ds[[3] * 20].map(functions.drawn)
    first, second = (np.concatenate([batch["rng"] for batch in epoch]) for epoch in epochs(repeated, 6))
    assert len({row.tobytes() for row in np.concatenate([first, second])}) == 40
    assert same(epochs(repeated, 7, seed=1)[0][0]["rng"], epochs(repeated, 7, 1, seed=1)[0][0]["rng"])
    assert not same(epochs(repeated, 6, seed=1)[0], epochs(repeated, 6, seed=2)[0])
    parts = [np.concatenate([batch["rng"] for batch in repeated.shard(rank, 2).loader(3, workers=2)])
             for rank in range(2)]
    assert np.array_equal(np.stack(parts, 1).reshape(-1, 3), first)


def test_the_generators_of_the_process_are_set_for_functions_with_rng_and_restored(ds):
    made = ds.map(functions.drawn_globally)
    np.random.seed(1)
    expected, state = epochs(made, 16), np.random.get_state()[1].tolist()
    assert state == np.random.RandomState(1).get_state()[1].tolist()
    np.random.seed(2)
    assert same(epochs(made, 16), expected)
    assert same(epochs(made, 16, workers=2), expected)


def test_random_numbers_of_single_samples_are_new_each_time(ds):
    made = ds.map(functions.drawn)
    assert made[0]["n"] != made[0]["n"]


# --- Failures --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", FEW)
@pytest.mark.parametrize("function", [functions.raising, functions.nothing])
def test_holes_are_the_same_with_workers(ds, workers, function):
    for policy in ("skip", "replace"):
        for made in (ds.map(function), ds.map(function).batch_map(functions.twice)):
            expected, loader = made.loader(12, on_error=policy), made.loader(12, on_error=policy, workers=workers)
            assert same(list(loader), list(expected)) and same(list(loader), list(expected))
            assert loader.skipped() == expected.skipped() != []
            assert loader.stats()["skipped"] == expected.stats()["skipped"] == len(loader.skipped())
            loader.close()
        with pytest.raises(tarn.Error, match="limit"):
            list(ds.map(function).loader(12, on_error=policy, workers=workers, max_errors=3))


@pytest.mark.parametrize("workers", [0, *FEW])
def test_an_exception_has_its_type_its_sample_and_its_shard(ds, workers):
    with ds.map(functions.raising).loader(12, workers=workers) as loader:
        batches = iter(loader)
        taken = []
        for _ in range(3):
            with pytest.raises(LookupError, match="cannot use s") as caught:
                while True:
                    taken.append(next(batches))
            state = loader.state_dict()
        notes = "\n".join(caught.value.__notes__)
        key = str(caught.value).split()[-1].strip("'")
        assert f"sample {key}" in notes and "shard " in notes and "train_0000.tar" in notes
        assert ("in a worker process" in notes and "in raising" in notes) == (workers == 2)
    other = ds.map(functions.raising).loader(12, on_error="skip")
    other.load_state_dict(state)
    expected = [key for key in ds.keys()[12 * len(taken):] if not functions.is_faulty({"__key__": key})]
    assert keys_of(other) == expected


@pytest.mark.parametrize("workers", [0, ("threads", 1)])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_what_is_not_an_exception_is_no_failure_of_a_sample(ds, workers, on_error):
    calls = []

    def interrupted(sample):
        calls.append(sample["__key__"])
        if len(calls) == 7:
            raise KeyboardInterrupt
        return sample

    with ds.map(interrupted).loader(5, workers=workers, on_error=on_error) as loader:
        batches = iter(loader)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(2):
                next(batches)
        assert loader.skipped() == []


@pytest.mark.parametrize("workers", [0, *FEW])
def test_several_samples_of_a_batch_may_fail_in_several_functions(ds, workers):
    made = ds.map(functions.nothing).map(functions.raising_on("3")).map(functions.raising_on("5"))
    with made.loader(50, workers=workers, on_error="skip") as loader:
        expected = [key for key in ds.keys() if not functions.is_faulty({"__key__": key}) and key[-1] not in "35"]
        assert keys_of(loader) == expected
        assert {one.key: one.reason.count("ends with") for one in loader.skipped()} == {
            key: int(not functions.is_faulty({"__key__": key})) for key in ds.keys() if key not in expected}


def test_an_exception_that_cannot_be_sent_is_described(ds):
    with ds.map(functions.odd_error).loader(4, workers=1) as loader:
        with pytest.raises(tarn.errors.WorkerError, match="Local: made here"):
            next(iter(loader))


@pytest.mark.parametrize("workers", [0, *FEW])
def test_an_exception_of_a_batch_function_names_the_batch(ds, workers):
    with ds.batch_map(functions.bad_batch).loader(4, workers=workers, on_error="skip") as loader:
        batches = iter(loader)
        for _ in range(2):
            with pytest.raises(ValueError, match="no such batch") as caught:
                next(batches)
            assert f"batch of 4 samples, from {ds.keys()[0]} to {ds.keys()[3]}" in caught.value.__notes__


@pytest.mark.parametrize("batch_size", [60, 1])
def test_inputs_may_be_changed_and_kept(arrays, batch_size):
    """Those of a large task are in memory of their own pages, those of a small one are copied."""
    made = arrays.map(functions.in_place)
    [batches] = epochs(made, batch_size, 1, workers=1)
    assert [float(array[0, 0]) for batch in batches for array in batch["npy"]] == [2.0 * i for i in range(60)]
    before = [value for batch in batches for value in batch["before"].tolist()]
    assert before == [2.0 * 2000 * max(0, i - 2) for i in range(60)]


def test_a_worker_that_dies_is_replaced_and_its_samples_come_again(arrays, tmp_path):
    dies = functions.Dies(tmp_path, {f"s{i:02}" for i in range(0, 60, 7)})
    [batches] = epochs(arrays.map(dies), 10, 1, workers=2)
    assert [batch["__key__"] for batch in batches] == [[f"s{i + j:02}" for j in range(10)] for i in range(0, 60, 10)]
    assert [array[0, 0] for batch in batches for array in batch["npy"]] == [i + 1.0 for i in range(60)]
    assert len(list(tmp_path.iterdir())) == 9


def test_a_sample_that_ends_every_worker_is_an_error_or_a_hole(arrays, tmp_path):
    dies = functions.Dies(tmp_path, {"s13"}, times=1000)
    with arrays.map(dies).loader(10, workers=2) as loader:
        batches = iter(loader)
        next(batches)
        with pytest.raises(tarn.errors.WorkerError, match="ended its worker process 3 times .signal SIGKILL") as caught:
            next(batches)
        assert "sample s13" in caught.value.__notes__
    with arrays.map(dies).loader(10, workers=2, on_error="skip") as loader:
        assert len(keys_of(loader)) == 59 and [one.key for one in loader.skipped()] == ["s13"]


def test_a_function_that_hangs_is_ended_after_the_timeout(arrays):
    hangs = arrays.map(functions.Hangs("s13"))
    with hangs.loader(10, workers=2, timeout=0.2, on_error="skip") as loader:
        assert len(keys_of(loader)) == 59
        assert [one.key for one in loader.skipped()] == ["s13"] and "timeout" in loader.skipped()[0].reason
    with hangs.loader(10, workers=2, timeout=0.2) as loader, pytest.raises(TimeoutError, match="0.2 s"):
        list(loader)


@pytest.mark.parametrize("function", [functions.drawn, functions.echo])
def test_workers_that_are_killed_at_random_change_nothing(arrays, function):
    made = arrays.map(function)
    expected = epochs(made, 7)
    epochs(made, 7, workers=1)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    rng, stop = np.random.default_rng(0), threading.Event()
    with made.loader(7, workers=3) as loader:
        def kill():
            for _ in range(KILLS):
                if stop.is_set():
                    return
                workers = list(loader._pool._team.workers.values())
                if workers:
                    try:
                        os.kill(workers[rng.integers(len(workers))].process.pid, signal.SIGKILL)
                    except (ProcessLookupError, ValueError):
                        pass
                stop.wait(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        for _ in range(20) if KILLS == 40 else iter(killer.is_alive, False):
            loader.set_epoch(0)
            assert same([list(loader), list(loader)], expected)
        stop.set()
        killer.join()
        opened = len(os.listdir("/proc/self/fd"))
    del loader
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before and opened <= before + 2 + 3 * 4


# --- Ends ------------------------------------------------------------------------------------


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_for_end(pids):
    until = time.monotonic() + HANG
    while any(map(alive, pids)):
        assert time.monotonic() < until
        time.sleep(0.005)


def pids_of(loader):
    return sorted({worker.process.pid for worker in loader._pool._team.workers.values()})


@pytest.mark.parametrize("end", ["close", "collect", "with"])
def test_workers_end_with_their_loader_and_leave_nothing(ds, end):
    def descriptors():
        gc.collect()
        return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                      if os.path.exists(f"/proc/self/fd/{fd}"))

    next(iter(ds.map(functions.one).loader(4, workers=1)))
    gc.collect()
    before = len(descriptors())
    loader = ds.map(functions.one).loader(16, workers=2)
    batch = next(iter(loader))
    copy, pids = batch.copy(), pids_of(loader)
    assert len(pids) == 2 and all(map(alive, pids))
    if end == "close":
        loader.close()
    elif end == "with":
        with loader:
            pass
    del loader
    gc.collect()
    wait_for_end(pids)
    assert np.array_equal(batch, copy)              # its memory is still there
    del batch
    assert len(descriptors()) == before


PROGRAM = """
import os, signal, sys, tarn, time
sys.path.insert(0, {here!r})
import worker_functions as functions

def slow(sample):
    time.sleep({sleep})
    return sample["cls"]

if __name__ == "__main__":
    loader = tarn.open({many!r}).map(slow).loader(50, workers=2)
    batches = iter(loader)
    if {first}:
        next(batches)
    else:
        loader._functions._fill(loader._native)
    print(*{{worker.process.pid for worker in loader._pool._team.workers.values()}}, flush=True)
    {then}
"""


def program(tmp_path, many, then, sleep=0.0, first=True):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(here=os.path.dirname(__file__), many=str(many), sleep=sleep, first=first, then=then))
    return subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("then", ["sys.exit(3)", "os._exit(3)", "del loader, batches; sys.exit(3)",
                                  "os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_the_program(tmp_path, many, then):
    running = program(tmp_path, many, then)
    pids = [int(pid) for pid in running.stdout.readline().split()]
    assert len(pids) == 2
    wait_for_end(pids)
    out, err = running.communicate(timeout=HANG)
    assert (running.returncode, err) == (3 if "exit" in then else -signal.SIGKILL, "")


def test_workers_in_a_function_end_with_the_program(tmp_path, many):
    running = program(tmp_path, many, "os.kill(os.getpid(), signal.SIGKILL)", sleep=HANG, first=False)
    pids = [int(pid) for pid in running.stdout.readline().split()]
    wait_for_end(pids)
    running.communicate(timeout=HANG)


def test_control_c_ends_everything(tmp_path, many):
    running = program(tmp_path, many, "next(batches)", sleep=HANG, first=False)
    pids = [int(pid) for pid in running.stdout.readline().split()]
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=HANG)
    assert "KeyboardInterrupt" in err
    assert not any(map(alive, pids))


def test_after_an_interrupt_the_loader_continues(arrays, monkeypatch):
    expected = keys_of(arrays.loader(10))
    with arrays.map(functions.nothing).loader(10, workers=2, on_error="skip") as loader:
        batches = iter(loader)
        taken = next(batches)["__key__"]
        attend = type(loader._pool)._attend

        def interrupted(self, *arguments):
            attend(self, *arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(type(loader._pool), "_attend", interrupted)
            with pytest.raises(KeyboardInterrupt):
                list(batches)
        rest = keys_of(iter_rest(batches))
        kept = [key for key in expected if not functions.is_faulty({"__key__": key})]
        assert (taken + rest)[-10:] == kept[-10:] and set(rest) <= set(kept)


def test_after_an_interrupt_threads_start_again(arrays):
    expected = epochs(arrays.map(functions.drawn), 10)[0]
    with arrays.map(functions.drawn).loader(10, workers=("threads", 2)) as loader:
        batches = iter(loader)
        taken = [next(batches)]

        class Interrupted:
            def __init__(self, queue):
                self.get, self.put = lambda: [queue.get(), self.stop()], queue.put

            def stop(self):
                raise KeyboardInterrupt

        loader._pool._done = Interrupted(loader._pool._done)
        for job in loader._functions._jobs:
            for chunk in job.chunks:
                chunk.results = None                # as if none had been collected
        with pytest.raises(KeyboardInterrupt):
            loader._pool.wait(loader._functions._jobs[0])
        assert same(taken + list(iter_rest(batches)), expected)


def iter_rest(batches):
    while True:
        try:
            yield next(batches)
        except StopIteration:
            return


# --- What limits the rate ------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, *FEW])
def test_slow_functions_are_the_bottleneck(arrays, workers):
    with arrays.map(functions.slow).loader(10, workers=workers) as loader:
        assert loader.stats()["bottleneck"] == "none"
        list(loader)
        stats = loader.stats()
    assert stats["bottleneck"] == "functions"
    assert stats["seconds"] >= stats["waited"] >= 60 * 0.002 / 4  # three workers at most


# --- Causes --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, *FEW])
@pytest.mark.parametrize("limit", [{}, {"max_errors": 3}])
def test_the_last_exception_is_the_cause_if_too_many_samples_cannot_be_used(arrays, workers, limit):
    with arrays.map(functions.stops).loader(5, workers=workers, on_error="skip", **limit) as loader:
        for _ in range(2):
            with pytest.raises(tarn.FormatError, match="cannot be used|can be used") as caught:
                next(iter(loader))
            cause = caught.value.__cause__
            assert isinstance(cause, StopIteration)
            where = "".join(cause.__notes__) if workers == 2 else "".join(traceback.format_exception(cause))
            assert "in stops" in where and where.count("in stops") == 1


@pytest.mark.parametrize("workers", [0, *FEW])
def test_a_function_that_ends_an_iterator_is_an_error_with_its_sample(arrays, workers):
    with arrays.map(functions.stops).loader(5, workers=workers) as loader:
        with pytest.raises(RuntimeError, match="StopIteration") as caught:
            next(iter(loader))
    assert "sample s00" in caught.value.__notes__
    assert any(note.startswith("shard ") for note in caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, *FEW])
@pytest.mark.parametrize("function, options, message", [
    (functions.of_two_types, {"pad": {"t": 0}}, "field t: array 1: the array has type <i4"),
    (functions.of_own_name, {}, "different fields")])
def test_results_that_do_not_fit_together_name_their_batch(arrays, workers, function, options, message):
    with arrays.map(function).loader(5, workers=workers, **options) as loader:
        batches = iter(loader)
        with pytest.raises(tarn.Error, match=message) as caught:
            next(batches)
        assert caught.value.__notes__ == ["batch of 5 samples, from s00 to s04"]


def test_a_result_that_cannot_be_pickled_is_reported(arrays):
    with arrays.map(functions.generated).loader(5, workers=2) as loader:
        with pytest.raises(tarn.UsageError, match="the result of a function cannot be pickled.*generator"):
            next(iter(loader))


# --- Wrong use -------------------------------------------------------------------------------


def test_wrong_use_of_workers_is_reported(ds, many):
    mapped = ds.map(functions.one)
    for wrong, message in (
            (lambda: mapped.loader(4, workers=-1), "workers must be"),
            (lambda: mapped.loader(4, workers="fibres"), "workers must be"),
            (lambda: mapped.loader(4, workers=("threads", 0)), "workers must be"),
            (lambda: mapped.loader(4, workers=2000), "workers must be"),
            (lambda: ds.loader(4, workers=2), "workers has no effect"),
            (lambda: mapped.loader(4, workers=("threads", 2), timeout=3), "timeout: not with threads"),
            (lambda: mapped.loader(4, timeout=0), "timeout must be more than 0"),
            (lambda: mapped.loader(4, workers=2, timeout=0), "timeout must be more than 0"),
            (lambda: mapped.loader(4, collate=3), "collate must be a function"),
            (lambda: ds.batch_map(len).map(len), "functions of samples come before"),
            (lambda: ds.batch_map(len)[0], "batch_map: .* no single samples")):
        with pytest.raises(tarn.UsageError, match=message):
            wrong()


def test_a_function_that_cannot_be_sent_is_reported(ds, method):
    with pytest.raises(tarn.UsageError, match="cannot be sent to a worker process.*lambda"):
        next(iter(ds.map(lambda sample: 1).loader(4, workers=1)))


def test_a_function_of_a_prompt_is_reported_with_spawn(many):
    code = ("import multiprocessing, tarn\n"
            "multiprocessing.set_start_method('spawn')\n"
            "def one(sample):\n    return 1\n"
            f"try:\n    next(iter(tarn.open({many!r}).map(one).loader(4, workers=1)))\n"
            "except tarn.UsageError as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-c", code], timeout=HANG, capture_output=True, text=True)
    assert "put functions of a notebook or of a prompt into a file" in done.stdout, done.stderr


class Garbage:
    """Part of a cycle, whose end is noticed."""

    def __init__(self, ended):
        self.me, self.ended = self, ended

    def __del__(self):
        os.write(self.ended, b"x")


def test_a_forked_worker_does_not_free_what_it_inherited(ds):
    seen, ended = os.pipe()
    os.set_blocking(seen, False)
    gc.disable()
    try:
        Garbage(ended)
        with ds.map(functions.collected).loader(16, workers=2) as loader:
            list(loader)
        with pytest.raises(BlockingIOError):
            os.read(seen, 1)
    finally:
        gc.enable()
    gc.collect()
    assert os.read(seen, 9) == b"x"
    os.close(seen)
    os.close(ended)


def test_a_worker_that_cannot_start_is_reported(ds, monkeypatch):
    monkeypatch.setattr("tarn._worker.main", lambda *arguments: os._exit(7))
    with ds.map(functions.one).loader(4, workers=2) as loader:
        for _ in range(2):
            with pytest.raises(tarn.errors.WorkerError, match="before it was ready .exit code 7"):
                next(iter(loader))


def test_a_daemonic_process_is_told_to_use_threads(ds):
    def child(sender):
        try:
            next(iter(ds.map(functions.one).loader(4, workers=1)))
        except tarn.UsageError as error:
            sender.send(str(error))

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,), daemon=True)
    process.start()
    assert 'use workers="threads"' in ours.recv()
    process.join()


def test_results_of_a_worker_are_checked():
    from tarn import _transfer
    memory = tarn._tarn._Memory(1 << 24)
    block = memory.allocate(4096)
    data = pickle.dumps(np.arange(8.0), 5, buffer_callback=[].append)
    room = (block.offset + 64, 128)
    assert _transfer.results(data, [(block.offset + 64, 64)], block, room).shape == (8,)
    for wrong in ((block.offset, 64), (block.offset + 64, 129), (block.offset + 192, 1), (-1, 64), (block.offset + 64, -1),
                  (2**63, 64)):
        with pytest.raises(tarn.errors.WorkerError, match="outside the memory"):
            _transfer.results(data, [wrong], block, room)


def test_memory_is_allocated_freed_and_limited():
    memory = tarn._tarn._Memory(1 << 22)
    empty = memory.used
    blocks = [memory.allocate(size) for size in (1, 4096, 4097, 100_000)]
    assert memory.used - empty == 4096 * (1 + 1 + 2 + 25)
    assert len({block.offset for block in blocks}) == 4 and all(block.offset % 4096 == 0 for block in blocks)
    first = blocks[0].offset
    memoryview(blocks[3])[:] = b"7" * 100_000
    assert bytes(memory.view(blocks[3].offset, 3)) == b"777"
    assert memory.place(memoryview(blocks[3])[5:]) == blocks[3].offset + 5 and memory.place(b"x") is None
    with pytest.raises(MemoryError, match="limit"):
        memory.allocate(1 << 22)
    with pytest.raises(ValueError):
        memory.view((1 << 22) - 1, 2)
    kept = memoryview(blocks[1])
    del blocks[:]
    gc.collect()
    assert memory.used - empty == 4096
    assert memory.allocate(1).offset == first
    del memory
    kept[:] = b"1" * 4096
    assert bytes(kept[:2]) == b"11"


def test_tasks_are_claimed_once_oldest_first_and_come_back():
    memory = tarn._tarn._Memory(1 << 22)
    numbers = [memory.put(i, i + 1) for i in range(5)]
    assert memory.take(3) == (numbers[0], 0, 1) and memory.take(4) == (numbers[1], 1, 2)
    memory.step(numbers[1], 17)
    assert memory.progress(numbers[1])[:2] == (4, 17) and memory.progress(numbers[2])[0] == -1
    assert memory.cancel(numbers[2]) and not memory.cancel(numbers[1])
    memory.again(numbers[1], 8, 9)
    assert memory.take(5) == (numbers[1], 8, 9) and memory.take(5) == (numbers[3], 3, 4)
    for number in (numbers[0], numbers[1], numbers[3]):
        memory.done(number)
    with pytest.raises(ValueError):
        memory.done(numbers[0])
    assert memory.take(0)[0] == numbers[4]
    held = memory.put(1, 2)
    assert memory.take(0)[0] == held
    for _ in range(4000):                        # around the ring, as far as the oldest one allows
        number = memory.put(1, 2)
        assert memory.take(0)[0] == number
        memory.done(number)
    with pytest.raises(RuntimeError, match="too many tasks"):
        while True:
            memory.put(1, 2)
    memory.stop()
    assert memory.take(0) is None


@pytest.mark.skipif(sanitized(), reason="torch is not run under AddressSanitizer")
def test_functions_return_tensors(ds):
    pytest.importorskip("torch")
    made = ds.map(functions.tensors)
    expected = epochs(made, 16)
    for workers in FEW:
        assert same(epochs(made, 16, workers=workers), expected)
    [batches] = epochs(ds.map(cls=functions.jitter).batch_map(len_of_tensors), 16, 1, workers=2, array_type="torch")
    assert batches[0] == "torch"


def len_of_tensors(batch):
    return type(batch["cls"]).__module__


def test_memory_stays_flat_over_epochs(arrays):
    with arrays.map(functions.in_place).loader(8, workers=2) as loader:
        for _ in range(10):
            list(loader)
        before = loader._pool.memory.used
        gc.disable()                                # nothing waits for the collector
        try:
            for _ in range(40):
                list(loader)
            assert loader._pool.memory.used <= before + (4 << 20)
        finally:
            gc.enable()


def test_payloads_are_unchanged(many):
    made = tarn.open(many)[:300].map(bin=bytes)
    rows = [data for batch in made.loader(32, workers=2) for data in batch["bin"]]
    assert rows == [payload(i) for i in range(300)]
