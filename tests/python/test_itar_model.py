"""tarn.itar's orders compared with a model of glzn's rules in plain Python, for random cases."""
import random

import pytest
from conftest import sanitized
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from itar_data import make_fold

from tarn.itar import FeistelSampler, MultiFeistelSampler, iTarDataset

np = pytest.importorskip("numpy")
quick = settings(max_examples=20 if sanitized() else 100, deadline=None,
                 suppress_health_check=list(HealthCheck))

MULTIPLIER = 0x9E3779B97F4A7C15
seeds = st.one_of(st.integers(-5, 20), st.integers(-2**64 + 1, 2**64 - 1))


# --- The model ----------------------------------------------------------------------------------


def half_of(n):
    return ((n - 1).bit_length() + 1) // 2


def feistel(n, keys, i):
    half, mask, y = half_of(n), (1 << half_of(n)) - 1, i
    while True:
        left, right = y >> half, y & mask
        for key in keys:
            left, right = right, left ^ ((right * MULTIPLIER + key) % 2**64 & mask)
        y = left << half | right
        if y < n:
            return y


def buckets(sizes, rounds, seed):
    """Returns the positions of consecutive buckets."""
    draw = random.Random(seed)
    keys = [[draw.getrandbits(half_of(n)) if half_of(n) else 0 for n in sizes]
            for _ in range(rounds)]
    out, start = [], 0
    for j, n in enumerate(sizes):
        mine = [row[j] for row in keys]
        out.append([start + feistel(n, mine, i) for i in range(n)])
        start += n
    return out


def shuffled(counts, mixing, per_shard, rounds, seed):
    """Returns the order of a dataset with these numbers of samples in its shards."""
    while counts and not counts[-1]:
        counts = counts[:-1]
    sizes = [count for count in counts if count]
    if mixing:
        total = sum(counts)
        size = max(1, round(total / (len(counts) * per_shard)))
        sizes = [size] * (total // size) + [total % size] * bool(total % size)
    return sum(buckets(sizes, rounds, seed), [])


# --- Samplers ------------------------------------------------------------------------------------


@quick
@given(st.integers(1, 3000), st.integers(1, 8), seeds, st.data())
def test_one_bucket(n, rounds, seed, data):
    sampler = FeistelSampler(n, rounds, seed)
    draw = random.Random(seed)
    keys = [draw.getrandbits(half_of(n)) if half_of(n) else 0 for _ in range(rounds)]
    i = data.draw(st.integers(0, n - 1))
    assert sampler[i] == feistel(n, keys, i)
    assert sorted(sampler) == list(range(n))


@quick
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 6), seeds)
def test_several_buckets(sizes, rounds, seed):
    whole = buckets(sizes, rounds, seed)
    assert list(MultiFeistelSampler(sizes, rounds, seed)) == sum(whole, [])
    draw = random.Random(seed + 1)
    n = len(sizes)
    keys = [draw.getrandbits(half_of(n)) if half_of(n) else 0 for _ in range(rounds)]
    outer = [whole[feistel(n, keys, j)] for j in range(n)]
    if abs(seed) < 2**64 - 1:
        sampler = MultiFeistelSampler(sizes, rounds, seed, shuffle_outer=True)
        assert list(sampler) == sum(outer, [])
        assert [sampler[i] for i in range(len(sampler))] == sum(outer, [])


# --- Datasets ------------------------------------------------------------------------------------

COUNTS = [7, 0, 1, 12, 5, 3]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """28 samples in six shards, one of them empty; every third sample has no cls."""
    loc = tmp_path_factory.mktemp("model")
    shards, number = [], 0
    for count in COUNTS:
        members = []
        for _ in range(count):
            stem = f"s{number:02d}"
            members += [(f"{stem}.a.txt", b"a"), (f"{stem}.b.txt", b"b"), (f"{stem}.c.txt", b"c")]
            members += [(f"{stem}.cls", b"%d" % number)] if number % 3 else []
            number += 1
        shards.append(members)
    make_fold(loc / "d", shards)
    return loc


SHARDS = [shard for shard, count in enumerate(COUNTS) for _ in range(count)]


@quick
@given(having=st.booleans(), stems=st.none() | st.sets(st.integers(0, 27), min_size=1),
       seed=st.one_of(st.integers(-5, 20), st.integers(-2**62, 2**62)), epoch=st.integers(0, 5),
       mixing=st.booleans(), per_shard=st.integers(1, 6), rounds=st.integers(1, 6),
       world=st.integers(1, 6), drop=st.booleans(), rank=st.integers(0, 5))
def test_datasets(data, having, stems, seed, epoch, mixing, per_shard, rounds, world, drop, rank):
    kept = [number for number in range(28) if not having or number % 3]
    ds = iTarDataset("d", data, "train", ["_stem", "_idx", "_fid", "cls" if having else "a.txt"],
                     internal_seed=seed, buckets_per_shard=per_shard)
    if stems is not None:
        if not stems & set(kept):
            with pytest.raises(RuntimeError):
                ds.filter_stems([f"s{number:02d}" for number in stems])
            return
        ds.filter_stems([f"s{number:02d}" for number in stems])
        kept = [number for number in kept if number in stems]
    ds.set_shuffle(shard_mixing=mixing, rounds=rounds)
    ds.set_distributed(rank % world, world, drop)
    ds.set_epoch(epoch)
    counts = [sum(SHARDS[number] == shard for number in kept) for shard in range(6)]
    order = shuffled(counts, mixing, per_shard, rounds, seed + epoch)
    if drop:
        order = order[:len(order) // world * world]
    order = order[rank % world::world]
    assert [sample[:3] for sample in ds] == [
        (f"s{kept[at]:02d}", at, SHARDS[kept[at]]) for at in order]
    assert len(ds) == len(order)


@quick
@given(seed=st.integers(-2**63, 2**64 - 1), given_seed=st.none() | st.integers(-2**63, 2**64 - 1),
       epoch=st.integers(0, 9), replace=st.booleans(), slots=st.integers(1, 3))
def test_groups(data, seed, given_seed, epoch, replace, slots):
    ds = iTarDataset("d", data, "train", ["b.txt", "a.txt", "c.txt"], internal_seed=seed)
    ds.add_grouping([f"{{{slot}}}.txt" for slot in range(slots)], replace, given_seed)
    ds.set_epoch(epoch)
    base = seed ^ 0x0BAD5EED if given_seed is None else given_seed
    for number in (0, 5, 27):
        chosen = np.random.default_rng((base + epoch + number) % 2**64).choice(
            ["a", "b", "c"], slots, replace=replace)
        assert ds[number] == tuple(chosen)
