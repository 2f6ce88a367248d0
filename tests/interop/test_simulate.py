#!/usr/bin/env python3
"""tarn simulate compared with runs: what a server that counts requests and the cache observe of loaders
with the same order, batches and ranks must be what the simulation printed before."""
import json
import pathlib
import random
import sys
import tarfile
import tempfile

from test_remote import CHILD, Store, command, expect, open_raw, tarn  # noqa: F401  (sets the path)
from url_support import Tap

BLOCK, JOINED = 4096, 1024


def make_shards(folder, shards, samples, sizes, seed=1):
    """Shards whose samples have a jpg of some size and a cls."""
    noise = random.Random(seed)
    for shard in range(shards):
        with tarfile.open(folder / f"train-{shard:04d}.tar", "w") as archive:
            for k in range(samples):
                for field, size in (("jpg", noise.choice(sizes)), ("cls", 1)):
                    path = folder / "noise"
                    path.write_bytes(noise.randbytes(size) if size > 1 else b"7")
                    archive.add(path, f"s{shard:04d}_{k:03d}.{field}")
                    path.unlink()
    done = command("index", folder, "--sums")
    expect(done.code == 0, done)


def places(folder):
    """The bytes of each sample, with its headers: key -> (shard, from, to)."""
    found = {}
    for path in folder.glob("*.tar"):
        with tarfile.open(path) as archive:
            for member in archive:
                key, end = member.name.split(".")[0], member.offset_data + member.size
                shard, first, last = found.get(key, (path.name, member.offset, end))
                found[key] = (shard, min(first, member.offset), max(last, end))
    return found


def joined(ranges):
    """Ranges of a batch, joined where less than a kilobyte is between them."""
    out = []
    for shard, first, last in sorted(ranges):
        if out and out[-1][0] == shard and first <= out[-1][2] + JOINED:
            out[-1] = (shard, out[-1][1], max(last, out[-1][2]))
        else:
            out.append((shard, first, last))
    return out


def missing_of(wanted, fetched):
    """How many of the wanted bytes were fetched. The first byte of a file only identifies it."""
    total = 0
    for shard, first, last in wanted:
        for other, a, b in fetched:
            if other == shard and (a, b) != (0, 1):
                total += max(0, min(last, b) - max(first, a))
    return total


def requests_of(store):
    """The ranges of shards that were requested since the last call."""
    out = []
    for one in store.taken():
        if one.path.endswith(".tar"):
            first, last = one.headers["Range"][6:].split("-")
            out.append((one.path.split("/")[-1], int(first), int(last) + 1))
    return out


def observe(store, where, loaders, epochs):
    """Runs loaders in turns, and counts for each epoch as the simulation does."""
    counts = []
    store.taken()
    for epoch in range(epochs):
        now = {"batches": 0, "samples": 0, "wanted": 0, "cached": 0, "requests": 0, "bytes": 0}
        turns = [iter(loader) for loader in loaders]
        while turns:
            for turn in list(turns):
                batch = next(turn, None)
                if batch is None:
                    turns.remove(turn)
                    continue
                fetched = requests_of(store)
                wanted = joined(where[key] for key in batch["__key__"])
                size = sum(last - first for _, first, last in wanted)
                now["batches"] += 1
                now["samples"] += len(batch["__key__"])
                now["wanted"] += size
                now["cached"] += size - missing_of(wanted, fetched)
                now["requests"] += len(fetched)
                now["bytes"] += sum(last - first for _, first, last in fetched)
        counts.append({"epoch": epoch, **now})
    return counts


ORDERS = {"shuffle": {"seed": 5}, "blocks": {"seed": 5, "block": 8, "window": 3}, "identity": {}}


def ordered(dataset, order):
    if order == "identity":
        return dataset
    return dataset.order(order, **ORDERS[order])


def simulated(url, order, *more):
    options = [word for name, value in ORDERS[order].items() for word in (f"--{name}", str(value))]
    done = command("simulate", url, "--json", "--order", order, *options, *more)
    expect(done.code == 0, done)
    return json.loads(done.out)


def same_counts(expected, found, what):
    for one, other in zip(expected, found, strict=True):
        for name, value in one.items():
            expect(other[name] == value, what, name, "observed", one, "simulated", other)


def against_runs(store, folder, url):
    where = places(folder)
    total = sum(path.stat().st_size for path in folder.glob("*.tar"))

    def one_case(order, ranks, batch, cache, limit, epochs=3):
        with tempfile.TemporaryDirectory() as kept:
            options = {"cache": kept, "cache_limit": limit} if cache else {"cache": ""}
            sets = [ordered(open_raw(url, **options), order) for _ in range(ranks)]
            loaders = [one.loader(batch, threads=0, epochs=epochs, rank=rank, world_size=ranks,
                                  equal_batches=False) for rank, one in enumerate(sets)]
            more = ["--cache", str(limit or "all")] if cache else []
            found = simulated(url, order, "--batch", batch, "--ranks", ranks, "--epochs", epochs,
                              "--threads", 0, *more)
            observed = observe(store, where, loaders, epochs)
            for loader in loaders:
                loader.close()
            same_counts(observed, found, (order, ranks, batch, limit))
            return found

    def without_a_cache():
        """requests and bytes without a cache are those of the run"""
        for order in ORDERS:
            for batch in (1, 5, 32):
                found = one_case(order, 1, batch, False, 0, 2)
                expect(all(epoch["cached"] == 0 for epoch in found), found)

    def with_a_cache():
        """requests, bytes and hits with a cache without limit are those of the run"""
        for order in ORDERS:
            found = one_case(order, 1, 16, True, 0)
            expect(found[1]["requests"] == 0 and found[1]["cached"] == found[1]["wanted"], found)

    def with_a_small_cache():
        """requests, bytes and hits with a cache of some of the data are those of the run"""
        for part in (2, 5):
            for order in ORDERS:
                found = one_case(order, 1, 16, True, total // part)
                expect(0 < found[2]["cached"] < found[2]["wanted"], found)
                expect(found[2]["kept"] <= total // part + 4 * 16384, found)  # and the maps

    def ranks():
        """ranks that share a cache, and ranks without one"""
        for order in ORDERS:
            one_case(order, 3, 8, True, 0, 2)
            one_case(order, 3, 8, True, total // 2)
            one_case(order, 2, 8, False, 0, 2)

    def threads():
        """without a cache, look-ahead by threads changes neither requests nor bytes"""
        for order in ORDERS:
            with ordered(open_raw(url, cache=""), order).loader(16, threads=2, epochs=1) as loader:
                store.taken()
                expect(sum(1 for _ in loader), "batches")
            fetched = requests_of(store)
            found, = simulated(url, order, "--batch", 16, "--epochs", 1, "--threads", 2)
            expect(found["requests"] == len(fetched), found, len(fetched))
            expect(found["bytes"] == sum(last - first for _, first, last in fetched), found)

    def nothing_is_requested():
        """a simulation requests only the index"""
        store.taken()
        simulated(url, "shuffle", "--cache", "all")
        paths = [one.path for one in store.taken()]
        expect(paths and not any(path.endswith(".tar") for path in paths), paths)

    def local():
        """a local fold gives the counts of the same fold on a server"""
        for more in ([], ["--cache", "all"], ["--cache", str(total // 3), "--ranks", 3]):
            for order in ORDERS:
                expect(simulated(str(folder), order, *more) == simulated(url, order, *more), order, more)

    return [without_a_cache, with_a_cache, with_a_small_cache, ranks, threads, nothing_is_requested, local]


def long_runs(store, root):
    def merged():
        """samples in stored order become requests of at most 8 MiB, and a gap of 256 KiB divides them"""
        folder = root / "long"
        folder.mkdir()
        make_shards(folder, 2, 30, [700_000, 900_000, 300_000])
        store.put_folder(folder, "/long/")
        url = f"{store.url}/long:train"
        where = places(folder)
        with open_raw(url, cache="").loader(24, threads=0, epochs=1) as loader:
            observed = observe(store, where, [loader], 1)
        found = simulated(url, "identity", "--batch", 24, "--epochs", 1, "--threads", 0)
        same_counts(observed, found, "long")
        expect(found[0]["requests"] < 10, found)
    return [merged]


def other_files(store, root):
    def arrays_and_records():
        """array files and record packs, on a server and as files"""
        folder = root / "others"
        folder.mkdir()
        make_shards(folder, 1, 40, [3000, 20_000])
        for ending in ("gnz", "iac"):
            path = root / f"train.{ending}"
            more = ["--fields", "cls"] if ending == "gnz" else []
            done = command("convert", folder, path, *more)
            expect(done.code == 0, done)
            store.objects[f"/others/train.{ending}"] = path.read_bytes()
            url = f"{store.url}/others/train.{ending}"
            with open_raw(url, cache="").shuffle(seed=5).loader(8, threads=0, epochs=1) as loader:
                store.taken()
                expect(sum(1 for _ in loader) == 5, "batches")
            fetched = [one.headers["Range"][6:].split("-") for one in store.taken()]
            for source in (url, str(path)):
                found, = simulated(source, "shuffle", "--batch", 8, "--epochs", 1, "--threads", 0)
                expect(found["requests"] == len(fetched), source, found, fetched)
                expect(found["bytes"] == sum(int(b) - int(a) + 1 for a, b in fetched), source, found, fetched)
    return [arrays_and_records]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        folder = root / "birds"
        folder.mkdir()
        make_shards(folder, 4, 45, [100, 3000, 9000, 60_000, 150_000])
        store = Store()
        store.put_folder(folder)
        tap.run(against_runs(store, folder, f"{store.url}/birds:train"))
        tap.run(long_runs(store, root))
        tap.run(other_files(store, root))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
