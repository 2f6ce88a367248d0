"""Every chain of selections and orders, over every kind of storage, gives the same result as plain
lists.

TARN_CHAINS is the number of chains: 1,000 by default, 100 under a sanitizer. TARN_CHAIN_SEED
selects other chains.
"""
import collections
import os
import pickle
import random

import numpy
import pytest
from chain_model import Model, Sample, mixed
from conftest import write_tar
from tool import tool

import tarn

COUNT = int(os.environ.get("TARN_CHAINS", "100" if os.environ.get("TARN_SANITIZED") else "1000"))
# A forked child may wait for the sanitizer's allocator.
WORKERS = (0, ("threads", 2)) if os.environ.get("TARN_SANITIZED") else (0, 2, ("threads", 2))
SEED = int(os.environ.get("TARN_CHAIN_SEED", "20261116"))
GROUPS = 10  # number of tests that share the chains
N = 23

KINDS = ("shuffle", "blocks", "lengths", "balanced", "weighted", "weighted-once", "identity",
         "feistel")

BY_CLASS = ("weighted", "weighted-once", "balanced")


def cls_of(i):
    return 1 + i * 5 % 7


def members_of(i):
    """Returns the members of a sample: its number in the first of the fields a, b and c that it has,
    and other numbers in the fields after that."""
    first = i % 3
    return [(f"k{i:02}.{'abc'[k]}.cls", str(cls_of(i) + 100 * (k - first)).encode())
            for k in range(2, first - 1, -1)]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The same samples in every kind of storage: name -> (dataset, model). The field cls has
    alternatives."""
    folder = tmp_path_factory.mktemp("chains")
    samples = [Sample((f"k{i:02}", cls_of(i))) for i in range(N)]
    (folder / "fold").mkdir()
    for shard in range(3):
        write_tar(folder / f"fold/train_{shard}.tar",
                  [member for i in range(shard * 8, min(shard * 8 + 8, N))
                   for member in members_of(i)])
    members = [member for i in range(N) for member in members_of(i)]
    tool("index", folder / "fold")
    write_tar(folder / "one.tar", members)
    out = tarn.gnz.GnzWriter(folder / "rows.gnz")
    out.add_array("_key", numpy.array([key.encode() for key, _ in samples]))
    out.add_array("cls", numpy.array([number for _, number in samples]))
    out.write()
    tool("convert", folder / "fold", folder / "members.iac")
    paths = {"fold": folder / "fold", "tar": folder / "one.tar", "gnz": folder / "rows.gnz",
             "iac": folder / "members.iac"}
    lists = {name: ["cls=a.cls;b.cls;c.cls"] for name in paths} | {"gnz": ["cls=none;cls"]}
    return {name: (tarn.open(path, fields=lists[name]), Model.of(samples))
            for name, path in paths.items()}


def random_order(rng):
    kind = rng.choice(KINDS)
    options = {"seed": rng.randrange(1000)}
    if kind == "blocks":
        options.update(block=rng.randrange(1, 6), window=rng.randrange(1, 4))
    if kind == "lengths":
        options.update(chunk=rng.randrange(1, 6), pool=rng.randrange(0, 4))
    if kind in ("weighted", "balanced"):
        options["draws"] = rng.randrange(1, 40)
    return kind, options


class Chain:
    """A dataset and its model, changed together."""

    def __init__(self, rng, stores):
        self.rng = rng
        self.stores = stores
        self.ds, self.model = stores[rng.choice(sorted(stores))]
        self.text = [self.ds.kind]

    def step(self):
        getattr(self, self.rng.choice(STEPS))()

    def told(self, text):
        self.text.append(text)

    def slice(self):
        bounds = [self.rng.choice([None, *range(-30, 30)]) for _ in range(2)]
        index = slice(*bounds, self.rng.choice([None, 1, 2, 3, -1, -2]))
        self.told(str(index))
        self.model = self.model.select(range(len(self.ds))[index])
        self.ds = self.ds[index]

    def select(self):
        n = len(self.ds)
        positions = [self.rng.randrange(n) for _ in range(self.rng.randrange(30))] if n else []
        self.told(f"select {positions}")
        self.model = self.model.select(positions)
        self.ds = self.ds.select([i - n if self.rng.random() < 0.3 else i for i in positions])

    def mask(self):
        mask = [self.rng.random() < 0.7 for _ in range(len(self.ds))]
        self.told("mask")
        self.model = self.model.select([i for i, wanted in enumerate(mask) if wanted])
        self.ds = self.ds.select(mask) if mask else self.ds[:0]

    def filter(self):
        wanted = set(self.rng.sample(range(8), 5))
        self.told(f"filter {wanted}")
        self.model = self.model.filter(lambda sample: sample[1] in wanted)
        self.ds = self.ds.filter(lambda sample: int(sample["cls"]) in wanted)

    def keys(self):
        wanted = [f"k{i:02}" for i in self.rng.sample(range(N), 15)]
        self.told(f"keys {wanted}")
        self.model = self.model.filter(lambda sample: sample[0] in wanted)
        self.ds = self.ds.filter(keys=wanted, missing="ignore")

    def without(self):
        wanted = [f"k{i:02}" for i in self.rng.sample(range(N), 5)]
        self.told(f"without {wanted}")
        self.model = self.model.filter(lambda sample: sample[0] not in wanted)
        self.ds = self.ds.filter(without=wanted, missing="ignore")

    def order(self):
        kind, options = random_order(self.rng)
        if "draws" in options and not len(self.ds):  # a UsageError
            return
        self.told(f"{kind} {options}")
        given = dict(options)
        by = "cls" if kind in BY_CLASS else None
        if kind == "lengths":
            given["lengths"] = [sample[1] for sample in self.model.items()]
        self.model = self.model.arranged(kind, options)
        self.ds = self.ds.order(kind, by=by, **given)

    def shard(self):
        world = self.rng.randrange(1, 4)
        rank, uneven = self.rng.randrange(world), self.rng.choice(["keep", "drop", "pad"])
        self.told(f"shard {rank}/{world} {uneven}")
        self.model = self.model.shard(rank, world, uneven)
        self.ds = self.ds.shard(rank, world, uneven=uneven)

    def map(self):
        self.told("map")
        self.ds = self.ds.map(dict)

    def epoch(self):
        number = self.rng.randrange(4)
        self.told(f"epoch {number}")
        self.ds = self.ds._with()  # a copy: do not change the epoch of the store
        self.ds.set_epoch(number)
        self.model = self.model.at(number)

    def mix(self):
        other = Chain(self.rng, self.stores)
        for _ in range(self.rng.randrange(3)):
            other.step()
        if not len(self.ds) or not len(other.ds):
            return
        counts = [self.rng.randrange(1, 30), self.rng.randrange(1, 30)]
        self.told(f"mix {counts} {other.text}")
        models = [self.model, other.model]
        self.model = mixed(models, counts)
        self.ds = tarn.mix(self.ds, other.ds, counts=counts)


STEPS = ("slice", "select", "mask", "filter", "keys", "without", "order", "order", "shard", "map", "epoch",
         "mix")


def keys_of(batches):
    return [key for batch in batches for key in batch["__key__"]]


def check_reading(chain, expected):
    ds, rng = chain.ds, chain.rng
    keys = [key for key, _ in expected]
    assert len(ds) == len(expected)
    assert ds.keys() == keys
    assert [(sample["__key__"], int(sample["cls"])) for sample in ds] == expected
    for i in rng.sample(range(len(ds)), min(len(ds), 5)):
        assert (ds[i]["__key__"], int(ds[i]["cls"])) == expected[i]
        assert ds[i - len(ds)]["__key__"] == keys[i]
    wanted = rng.sample([f"k{i:02}" for i in range(N)], 4)
    assert ds.lookup(wanted) == [keys.index(key) if key in keys else None for key in wanted]


def check_loader(chain, expected):
    ds, size = chain.ds, chain.rng.randrange(1, 9)
    batches = [expected[i:i + size] for i in range(0, len(expected), size)]
    for threads in (0, 1, 3):
        loader = ds.loader(size, threads=threads)
        assert len(loader) == len(batches)
        got = [list(zip(batch["__key__"], (int(i) for i in batch["cls"]))) for batch in loader]
        assert got == [[tuple(sample) for sample in batch] for batch in batches]
        loader.close()


def tagged(sample, rng):
    return {"__key__": sample["__key__"], "cls": sample["cls"], "r": rng.random()}


def check_workers(chain):
    """Functions give the same batches in the caller, in threads and in processes."""
    size, seed = chain.rng.randrange(1, 9), chain.rng.randrange(100)
    got = []
    for workers in WORKERS:
        with chain.ds.map(tagged).loader(size, workers=workers, seed=seed) as loader:
            got.append([[numpy.asarray(column).tolist() for column in batch.values()] for batch in loader])
    assert all(batches == got[0] for batches in got)


def check_shards(chain, expected):
    world = chain.rng.randrange(1, 6)
    parts = [chain.ds.shard(rank, world).keys() for rank in range(world)]
    assert parts == [[key for key, _ in expected[rank::world]] for rank in range(world)]


def check_resume(chain, expected):
    """Reads some batches on some ranks and the rest on others: each sample comes exactly once."""
    rng, ds = chain.rng, chain.ds
    world, size = rng.randrange(1, 4), rng.randrange(1, 5)
    steps = None
    first = []
    for rank in range(world):
        loader = ds.shard(rank, world).loader(size, threads=rng.choice([0, 2]))
        if steps is None:  # no rank has more batches than rank 0
            steps = rng.randrange(len(loader) + 1)
        first += keys_of(batch for _, batch in zip(range(min(steps, len(loader))), loader))
        if rank == 0:
            state = loader.state_dict()
        loader.close()
    if len(first) == len(expected):
        return
    rest = []
    for rank in range(again := rng.randrange(1, 5)):
        loader = ds.shard(rank, again).loader(rng.randrange(1, 5), threads=0)
        loader.load_state_dict(state)
        rest += keys_of(loader)
        loader.close()
    assert (collections.Counter(first) + collections.Counter(rest)
            == collections.Counter(key for key, _ in expected))


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_chain_gives_what_lists_give(stores, group):
    for number in range(group, COUNT, GROUPS):
        rng = random.Random(f"{SEED}:{number}")
        chain = Chain(rng, stores)
        try:
            for _ in range(rng.randrange(1, 7)):
                chain.step()
            expected = chain.model.items()
            check_reading(chain, expected)
            check_loader(chain, expected)
            if number % 25 < 2:
                check_workers(chain)
            check_shards(chain, expected)
            check_resume(chain, expected)
            assert pickle.loads(pickle.dumps(chain.ds)).keys() == chain.ds.keys()
        except BaseException as error:
            error.add_note(f"chain {number}: " + " > ".join(chain.text))
            raise
