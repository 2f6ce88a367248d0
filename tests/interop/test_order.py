#!/usr/bin/env python3
"""Orders of glzn's iTar: its own vectors, and a sampler written here from its description, with
Python's generator, over many sizes, seeds, epochs, ranks and buckets."""
import array
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

from checks import run_all

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = pathlib.Path(os.environ.get("TARN", str(ROOT / "build/tarn")))
TOOL = TARN.parent / "tests/order_tool"
DATA = ROOT / "tests/data"


def ask(requests):
    """Lists of samples, or texts that begin with "!"."""
    def word(name, value):
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        return f"{name}={text}"

    text = "\n".join(" ".join(word(*item) for item in r.items()) for r in requests) + "\n"
    out = subprocess.run([TOOL], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = out.splitlines()
    assert len(lines) == len(requests)
    return [line if line[0] in "!{" else [int(n) for n in line.split(":")[1].split()]
            for line in lines]


def compare(requests, wanted):
    for request, got, want in zip(requests, ask(requests), wanted, strict=True):
        assert got == want, f"{str(request)[:300]}:\n# got {got[:40]}\n# wanted {want[:40]}"


def sha(numbers):
    return hashlib.sha256(array.array("Q", numbers).tobytes()).hexdigest()


# --- glzn's sampler, from its description ---------------------------------------------------

def half_bits(n):
    return ((n - 1).bit_length() + 1) // 2


def walk(n, keys, x):
    h = half_bits(n)
    mask = (1 << h) - 1
    while True:
        left, right = x >> h, x & mask
        for key in keys:
            left, right = right, left ^ ((right * 0x9E3779B97F4A7C15 + key) % 2**64 & mask)
        x = left << h | right
        if x < n:
            return x


def bucket_keys(sizes, rounds, seed):
    rng = random.Random(seed)
    drawn = [[rng.getrandbits(half_bits(n)) if n else 0 for n in sizes] for _ in range(rounds)]
    return list(zip(*drawn))


def listed(sizes, rounds, seed, outer=False):
    keys = bucket_keys(sizes, rounds, seed)
    starts = [sum(sizes[:j]) for j in range(len(sizes))]
    order = range(len(sizes))
    if outer:
        outer_keys = bucket_keys([len(sizes)], rounds, seed + 1)[0]
        order = [walk(len(sizes), outer_keys, j) for j in order]
    return [starts[j] + walk(sizes[j], keys[j], x) for j in order for x in range(sizes[j])]


# --- glzn's vectors --------------------------------------------------------------------------

SAMPLERS = json.loads((DATA / "sampler_vectors.json").read_text())


def single_sampler_vectors():
    for v in SAMPLERS["feistel"]:
        n = v["N"]
        base = {"count": n, "kind": "feistel", "rounds": v["rounds"], "seed": v["seed"]}
        shown = len(v["first"])
        compare([base | {"n": shown}, base | {"from": n - shown, "n": shown}],
                [v["first"], v["last"]])
        if "all" in v or "all_sha256_le_u64" in v:
            everything = ask([base])[0]
            assert everything == v.get("all", everything)
            assert sha(everything) == v.get("all_sha256_le_u64", sha(everything))


def bucket_sampler_vectors():
    for v in SAMPLERS["multi_feistel"]:
        got = ask([{"count": sum(v["Ns"]), "kind": "buckets", "rounds": v["rounds"],
                    "seed": v["seed"], "buckets": v["Ns"]}])[0]
        shown = len(v["first"])
        assert got[:shown] == v["first"] and got[-shown:] == v["last"], v["Ns"]
        assert sha(got) == v["all_sha256_le_u64"], v["Ns"]


def outer_sampler_vectors():
    for v in SAMPLERS["multi_feistel_outer"]:
        base = {"count": sum(v["Ns"]), "kind": "buckets", "rounds": v["rounds"],
                "seed": v["seed"], "buckets": v["Ns"]}
        by_access, whole = ask([base | {"outer": 1}, base | {"outer": 2}])
        assert whole == v["randperm"], v["Ns"]
        if len(set(v["Ns"])) == 1:
            assert by_access == v["randperm"], v["Ns"]
        else:
            assert by_access.startswith("!unsupported"), by_access


def data_set_order_vectors():
    requests, wanted = [], []
    for v in json.loads((DATA / "order_vectors.json").read_text()):
        request = {"count": v["global_len"], "kind": "identity", "seed": v["internal_seed"],
                   "epoch": v["epoch"], "rank": v["rank"], "world_size": v["world_size"],
                   "ranks": int(v["drop_last"])}
        if v["shuffle"]:
            request |= {"kind": "buckets", "rounds": v["shuffle"]["rounds"],
                        "buckets": v["shard_bincount"],
                        "mix": v["buckets_per_shard"] if v["shuffle"]["shard_mixing"] else 0}
        requests.append(request)
        wanted.append(v["idx"])
        assert len(v["idx"]) == v["len"]
    assert len(requests) > 10
    compare(requests, wanted)


# --- Generated cases -------------------------------------------------------------------------

def many_buckets_and_seeds():
    rng = random.Random(1)
    requests, wanted = [], []
    for _ in range(400):
        sizes = [rng.choice([1, 1, 2, 3, 17, 64, 65, rng.randint(1, 300)])
                 for _ in range(rng.randint(1, 12))]
        if rng.random() < 0.3:
            sizes = [sizes[0]] * len(sizes)
        rounds, seed = rng.randint(1, 9), rng.choice([rng.randint(-50, 50), rng.getrandbits(64)])
        epoch, world = rng.randint(0, 9), rng.randint(1, 5)
        rank, drop, outer = rng.randrange(world), rng.randint(0, 1), rng.randint(0, 2)
        everything = listed(sizes, rounds, seed + epoch, outer > 0)
        mine = everything[rank::world]
        if drop:
            mine = mine[:len(everything) // world]
        requests.append({"count": sum(sizes), "kind": "buckets", "buckets": sizes,
                         "rounds": rounds, "seed": seed, "epoch": epoch, "world_size": world,
                         "rank": rank, "ranks": drop, "outer": outer})
        wanted.append(mine)
    got = ask(requests)
    for request, have, want in zip(requests, got, wanted):
        if request["outer"] == 1 and len(set(request["buckets"])) > 1:
            assert have.startswith("!unsupported"), request
        else:
            assert have == want, request


def seeds_past_64_bits_when_the_epoch_is_added():
    seed, epoch = 2**64 - 3, 2**64 - 1
    compare([{"count": 1000, "kind": "feistel", "seed": seed, "epoch": epoch},
             {"count": 1000, "kind": "feistel", "seed": -seed, "epoch": 7}],
            [listed([1000], 3, seed + epoch), listed([1000], 3, 7 - seed)])


def mixed_shards_round_half_to_even():
    requests, wanted = [], []
    rng = random.Random(2)
    for _ in range(300):
        shards = [rng.randint(1, 40) for _ in range(rng.randint(1, 9))]
        total, mix = sum(shards), rng.randint(1, 8)
        size = max(1, round(total / (len(shards) * mix)))
        sizes = [size] * (total // size) + ([total % size] if total % size else [])
        requests.append({"count": total, "kind": "buckets", "buckets": shards, "mix": mix,
                         "seed": 5})
        wanted.append(listed(sizes, 3, 5))
    compare(requests, wanted)


def a_shard_that_filters_emptied_is_skipped():
    compare([{"count": 60, "kind": "buckets", "buckets": [0, 17, 0, 0, 43, 0], "seed": 3}],
            [listed([17, 43], 3, 3)])


TESTS = [single_sampler_vectors, bucket_sampler_vectors, outer_sampler_vectors,
         data_set_order_vectors, many_buckets_and_seeds,
         seeds_past_64_bits_when_the_epoch_is_added, mixed_shards_round_half_to_even,
         a_shard_that_filters_emptied_is_skipped]


sys.exit(run_all(TESTS))
