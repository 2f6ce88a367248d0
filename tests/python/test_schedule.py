"""`Dataset.when` and `Dataset.at` give what real loaders deliver, for random orders, ranks, batches
and mixes, also with functions given to map."""
import random

import pytest

import tarn

COUNT = 61


@pytest.fixture(scope="module")
def fold(tmp_path_factory):
    path = tmp_path_factory.mktemp("schedule") / "numbers"
    with tarn.DatasetWriter(path, max_count=20) as out:
        for i in range(COUNT):
            out.write({"__key__": f"k{i:03}", "cls": i % 5, "txt": "x" * (i % 7)})
    return str(path)


def ordered(ds, draw):
    kind = draw.choice(["shuffle", "blocks", "lengths", "balanced", "weighted", "weighted-once",
                        "identity", "feistel", "buckets"])
    options = {"blocks": {"block": 4, "window": 2}, "lengths": {"by": "txt", "chunk": 8},
               "balanced": {"by": "cls"}, "weighted": {"by": "cls"},
               "weighted-once": {"by": "cls"}}.get(kind, {})
    return ds.order(kind, seed=draw.randrange(1000), **options)


def mixed(path, draw):
    parts = []
    for _ in range(draw.randrange(2, 4)):
        part = tarn.open(path, fields=["cls"])
        if draw.random() < 0.5:
            part = part[:draw.randrange(5, COUNT)]
        if draw.random() < 0.7:
            part = part.shuffle(draw.randrange(9))
        if draw.random() < 0.3:
            part = part.map(cls=float)
        parts.append(part)
    weights = [draw.randrange(1, 5) for _ in parts] if draw.random() < 0.7 else None
    return tarn.mix(*parts, weights=weights)


def delivered(ds, epochs, batch, ranks, **options):
    """What the loaders of all ranks deliver: {key: [(epoch, step, rank, place)]}, and the batches
    of each rank."""
    turns, batches = {}, []
    for rank in range(ranks or 1):
        of_rank = []
        division = {} if ranks is None else {"rank": rank, "world_size": ranks}
        loader = ds.loader(batch, threads=0, epochs=ds.epoch + epochs, **division, **options)
        for epoch in range(ds.epoch, ds.epoch + epochs):
            for step, part in enumerate(loader):
                of_rank.append(part["__key__"])
                for place, key in enumerate(part["__key__"]):
                    turns.setdefault(key, []).append((epoch, step, rank, place))
        batches.append(of_rank)
    return turns, batches


@pytest.mark.parametrize("seed", range(60))
def test_turns_and_steps_are_those_of_loaders(fold, seed):
    draw = random.Random(seed)
    if draw.random() < 0.4:
        ds = mixed(fold, draw)
        if draw.random() < 0.6:
            ds = ds.shuffle(draw.randrange(9))
    else:
        ds = ordered(tarn.open(fold), draw)
    ds.set_epoch(draw.randrange(4))
    ranks = draw.choice([None, None, 1, 2, 3, 5])
    options = {"drop_last": draw.random() < 0.3, "equal_batches": draw.choice([None, True, False]),
               "uneven": draw.choice([None, "keep", "drop", "pad"])}
    if ranks is None:
        options["uneven"] = None
    batch = draw.randrange(1, 20)
    turns, batches = delivered(ds, 2, batch, ranks, **options)
    division = {} if ranks is None else {"world_size": ranks}
    keys = {f"k{i:03}" for i in range(COUNT)} & {*turns, *ds.keys()}
    for key in keys:
        found = ds.when(key, batch, epochs=2, **division, **options)
        assert sorted(turn[:4] for turn in found) == sorted(turns.get(key, []))
        assert [turn.position for turn in sorted(found)] == [turn.position for turn in found] or (
            (ranks or 1) > 1)
    for rank, of_rank in enumerate(batches):
        division = {} if ranks is None else {"rank": rank, "world_size": ranks}
        for step, want in enumerate(of_rank):
            assert ds.at(step, batch, **division, **options).keys() == want


def test_shards_of_the_dataset_are_those_of_the_run(fold):
    ds = tarn.open(fold).shuffle(7)
    for rank in range(3):
        mine = ds.shard(rank, 3, uneven="pad")
        for step, part in enumerate(mine.loader(4, threads=0, epochs=1)):
            assert mine.at(step, 4).keys() == part["__key__"]
            for place, key in enumerate(part["__key__"]):
                assert (0, step, rank, place) in [turn[:4] for turn in mine.when(key, 4)]


def test_a_loader_without_ranks_uses_those_of_the_process_group(fold, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    ds = tarn.open(fold).shuffle(7)
    for step, part in enumerate(ds.loader(4, threads=0, epochs=1)):
        assert ds.at(step, 4).keys() == part["__key__"]
        assert all(turn.rank == 1 and turn.step == step
                   for key in part["__key__"] for turn in ds.when(key, 4))


def test_a_batch_is_a_dataset_like_any_other(fold):
    ds = tarn.open(fold, fields=["cls"]).shuffle(7).map(cls=lambda cls: -cls)
    batch = ds.at(2, 8)
    assert [sample["cls"] for sample in batch] == [-(int(key[1:]) % 5) for key in batch.keys()]
    assert batch[:3].keys() == batch.keys()[:3]


@pytest.mark.parametrize("arguments, message", [
    (("k9999", 4), "k9999"), ((7, 4), "key"), (("k001", 0), "batch_size"),
])
def test_what_cannot_be_found_is_an_error(fold, arguments, message):
    with pytest.raises(tarn.Error, match=message):
        tarn.open(fold).when(*arguments)


def test_a_step_of_a_rank_without_samples_is_an_error(fold):
    with pytest.raises(tarn.UsageError, match="no step"):
        tarn.open(fold)[:2].shard(3, 5).at(0, 4)
