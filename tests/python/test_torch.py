"""torch: DataLoader with and without workers, its samplers, torchdata, processes."""
import itertools
import multiprocessing
import os
import subprocess
import sys

import pytest
from conftest import HANG, sanitized

import tarn

torch = pytest.importorskip("torch")
if sanitized():
    pytest.skip("torch is not run under AddressSanitizer", allow_module_level=True)

from torch.utils.data import DataLoader, DistributedSampler  # noqa: E402


def keys_of(loader):
    return [key for batch in loader for key in batch["__key__"]]


@pytest.mark.parametrize("workers,how", [(0, None), (2, "fork"), (2, "spawn")])
def test_a_dataloader_takes_it(many, workers, how):
    ds = tarn.open(many, fields=["cls"])
    loader = DataLoader(ds, batch_size=64, num_workers=workers, multiprocessing_context=how)
    seen = list(loader)
    assert sum((batch["__key__"] for batch in seen), []) == ds.keys()
    assert torch.cat([batch["cls"] for batch in seen]).tolist() == ds.integers("cls").tolist()


def test_a_dataloader_shuffles_and_an_order_is_kept(many):
    ds = tarn.open(many, fields=["cls"])
    shuffled = DataLoader(ds, batch_size=50, shuffle=True)
    assert sorted(keys_of(shuffled)) == ds.keys() != keys_of(shuffled)
    ordered = ds.shuffle(3)
    assert keys_of(DataLoader(ordered, batch_size=50, num_workers=2)) == ordered.keys()


def test_images_come_as_tensors(pictures):
    ds = tarn.open(pictures, fields=["npy"], array_type="torch").map(npy=lambda x: x[:20, :30])
    batch = next(iter(DataLoader(ds, batch_size=4)))
    assert batch["npy"].shape == (4, 20, 30, 3)


def test_distributed_sampler_shares(many):
    ds = tarn.open(many, fields=["cls"])
    seen = []
    for rank in range(3):
        sampler = DistributedSampler(ds, num_replicas=3, rank=rank, drop_last=True)
        seen += keys_of(DataLoader(ds, batch_size=16, sampler=sampler))
    assert len(seen) == len(set(seen)) == 1998


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_dataloader_resumes(many, workers):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    ds = tarn.open(many, fields=["cls"]).shuffle(5)

    def make():
        return torchdata.StatefulDataLoader(ds, batch_size=100, num_workers=workers)

    loader = make()
    it = iter(loader)
    first = [next(it)["__key__"] for _ in range(7)]
    state = loader.state_dict()
    again = make()
    again.load_state_dict(state)
    assert sum(first, []) + keys_of(again) == ds.keys()


def use(ds, out):
    out.put([sample["cls"] for sample in ds[:10]])


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_dataset_goes_to_another_process(many, how):
    ds = tarn.open(many, fields=["cls"]).shuffle(1)
    ds[0]
    context = multiprocessing.get_context(how)
    out = context.Queue()
    process = context.Process(target=use, args=(ds, out))
    process.start()
    got = out.get(timeout=HANG)
    process.join(HANG)
    assert process.exitcode == 0 and got == [sample["cls"] for sample in ds[:10]]


def run_ranks(tmp_path, code, *arguments):
    """Runs the code as both ranks of a process group, as sys.argv[1:] = rank, meeting place, arguments."""
    script = tmp_path / "rank.py"
    script.write_text(code)
    env = dict(os.environ, GLOO_SOCKET_IFNAME="lo")
    ranks = [subprocess.Popen([sys.executable, str(script), str(rank), f"file://{tmp_path}/meet", *arguments],
                              env=env, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    told = [process.communicate(timeout=HANG)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], told
    return told


def test_loaders_and_workers_divide_the_samples_in_a_process_group(many, tmp_path):
    told = run_ranks(tmp_path, """
import sys, torch, torch.distributed as dist, tarn, tarn.torch
from torch.utils.data import DataLoader, DistributedSampler

def keys(loader):
    batches = [batch["__key__"] for batch in loader]
    parts, counts = [None] * 2, [None] * 2
    dist.all_gather_object(parts, sum(batches, []))
    dist.all_gather_object(counts, len(batches))
    assert counts[0] == counts[1], counts
    return sorted(parts[0] + parts[1])

def main():
    ds = tarn.open(sys.argv[3], fields=["cls"])[:99].shuffle(9)
    early = [ds.loader(8), tarn.torch.loader_for(ds, batch_size=8)]
    rank = int(sys.argv[1])
    dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
    every = sorted(ds.keys())
    for loader in (*early, ds.loader(8), tarn.torch.loader_for(ds, batch_size=8)):
        for epoch in range(2):
            assert loader.epoch == epoch
            assert keys(loader) == every
    batches = tarn.torch.loader_for(ds, batch_size=8)
    for how in (None, "fork", "spawn"):
        loader = DataLoader(batches, batch_size=None, num_workers=how is not None,
                            multiprocessing_context=how)
        assert keys(loader) == every and len(loader) == 7
    assert keys(DataLoader(ds[:98], batch_size=8, sampler=DistributedSampler(ds[:98]))) == sorted(ds[:98].keys())
    assert sorted(key for batch in ds.loader(8, world_size=1) for key in batch["__key__"]) == every
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
""", many)
    assert told[0].count("this process is rank 0 of 2") == 1 and "this process is" not in told[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stateful_dataloader_resumes_the_native_loader(many, workers):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    ds = tarn.open(many, fields=["cls"]).shuffle(5)

    def make():
        return torchdata.StatefulDataLoader(tarn.torch.loader_for(ds, batch_size=100, threads=1),
                                            batch_size=None, num_workers=workers)

    loader = make()
    batches = iter(loader)
    first = [next(batches)["__key__"] for _ in range(7)]
    again = make()
    again.load_state_dict(loader.state_dict())
    assert sum(first, []) + keys_of(again) == ds.keys()


def test_a_persistent_worker_goes_from_epoch_to_epoch(many):
    ds = tarn.open(many, fields=["cls"]).shuffle(3)
    loader = DataLoader(tarn.torch.loader_for(ds, batch_size=100, threads=1), batch_size=None, num_workers=1,
                        persistent_workers=True)
    for epoch in range(2):
        ds.set_epoch(epoch)
        assert keys_of(loader) == ds.keys()


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_worker_starts_an_epoch_after_a_look_at_the_first_batch(many, how):
    ds = tarn.open(many, fields=["cls"])
    batches = tarn.torch.loader_for(ds, batch_size=100, threads=1)
    next(iter(batches))
    loader = DataLoader(batches, batch_size=None, num_workers=1, multiprocessing_context=how)
    assert keys_of(loader) == ds.keys() and batches.epoch == 0
    assert repr(batches).startswith("<tarn.torch.Batches of <tarn.Loader epoch 0, 20 batches")
    assert batches.skipped() == []


@pytest.mark.parametrize("make", [lambda ds: ds.loader(100), lambda ds: tarn.torch.loader_for(ds, batch_size=100),
                                  lambda ds: DataLoader(tarn.torch.loader_for(ds, batch_size=100), batch_size=None)])
def test_every_way_to_end_a_loop_leaves_whole_epochs(many, make):
    ds = tarn.open(many, fields=["cls"])
    loader, validation = make(ds.shuffle(1)), make(ds)
    next(iter(loader))                                         # a look at the first batch
    seen = []
    for _ in range(3):
        seen.append(keys_of(itertools.islice(loader, len(loader))))
        assert keys_of(itertools.islice(validation, 2)) == ds.keys()[:200]
        assert keys_of(validation) == ds.keys()
        seen.append([key for _, batch in zip(range(len(loader)), loader) for key in batch["__key__"]])
        seen.append(keys_of(loader))
    assert all(sorted(keys) == ds.keys() for keys in seen) and len(set(map(tuple, seen))) == 9


def test_two_gloo_processes_see_disjoint_halves(many, tmp_path):
    run_ranks(tmp_path, """
import sys, torch, torch.distributed as dist, tarn
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
ds = tarn.open(sys.argv[3], fields=["cls", "_idx"]).shuffle(9).shard(rank, 2, uneven="drop")
loader = torch.utils.data.DataLoader(ds, batch_size=64)
mine = torch.cat([batch["_idx"] for batch in loader])
both = [torch.empty_like(mine) for _ in range(2)]
dist.all_gather(both, mine)
counts = [torch.zeros(1) for _ in range(2)]
dist.all_gather(counts, torch.tensor([float(len(loader))]))
assert counts[0] == counts[1]
assert sorted(torch.cat(both).tolist()) == list(range(2000))
dist.destroy_process_group()
""", many)


def test_ranks_get_their_batches_of_chosen_samples(many):
    ds = tarn.open(many, fields=["cls"])
    for chosen in (ds[10:20], ds[10:30:2], ds[[3, 5, 1000]]):
        seen = [key for rank in range(2)
                for batch in tarn.torch.loader_for(chosen, rank=rank, world_size=2, batch_size=2)
                for key in batch["__key__"]]
        assert sorted(seen) == chosen.keys()
    parts = [keys_of(tarn.torch.loader_for(ds[[5, 3, 5]], rank=rank, world_size=2)) for rank in range(2)]
    assert parts == [["s00005", "s00005"], ["s00003"]]


def test_ranks_get_what_is_left_of_a_resumed_dataset(many):
    ds = tarn.open(many, fields=["cls"])
    for made in (ds, ds.shuffle(4), ds[5:1800:3]):
        it = iter(made)
        for _ in range(100):
            next(it)
        made.load_state_dict(made.state_dict())
        left = made.keys()
        for rank in range(3):
            batches = tarn.torch.loader_for(made, rank=rank, world_size=3, batch_size=64)
            assert keys_of(batches) == left[rank::3]


def test_a_rank_needs_its_world(many):
    ds = tarn.open(many, fields=["cls"])
    for wrong in ({"rank": 1}, {"world_size": 2}):
        with pytest.raises(tarn.UsageError, match="rank and world_size"):
            tarn.torch.loader_for(ds, **wrong)
    with pytest.raises(tarn.UsageError, match="expected a dataset"):
        tarn.torch.loader_for([ds])


def test_a_worker_gets_the_epoch_that_was_set(many):
    ds = tarn.open(many, fields=["cls"]).shuffle(3)
    batches = tarn.torch.loader_for(ds, batch_size=100, threads=1)
    loader = DataLoader(batches, batch_size=None, num_workers=1)
    for epoch in range(2):
        batches.set_epoch(epoch)
        ds.set_epoch(epoch)
        assert keys_of(loader) == ds.keys()
