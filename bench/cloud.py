#!/usr/bin/env python3
"""Remote folds: an epoch from nginx on this machine and over a slow line, compared with a plain loop of libcurl over the
same ranges, with the same fold on disk, and with other packages that read their own formats from the same store.

  cloud.py [--build DIR] [PIECE...]    measures (all pieces, each takes less than 90 seconds)
  cloud.py --page                      writes docs/benchmarks/cloud.md and its plots from docs/benchmarks/cloud.json

The slow line is tests/interop/fault_proxy.py, which forwards bytes with 20 ms of latency and at most 100 MB/s. Each
contestant is a process of its own; they take turns, and medians count. The caches of the system are warm.
"""
import argparse
import io
import json
import logging
import os
import pathlib
import platform
import random
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/interop"))
RESULTS = ROOT / "docs/benchmarks/cloud.json"
PEERS = ROOT / ".venv-bench/bin/python"
SHARDS, SAMPLES, SIZE = 16, 160, 100_000
BATCH, LARGE = 64, 8 << 20
ROUNDS = 3


# --- Work of one process -------------------------------------------------------------------


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def epoch(tarn, job):
    """Epochs of batches; for each: seconds until its first batch and its end, processor time, samples. Before that, an
    epoch of another fold, if there is one, loads libraries, opens connections and fills memory."""
    if job.get("warm"):
        with tempfile.TemporaryDirectory(dir=job["scratch"]) as cache:
            more = {"cache": cache} if job.get("open", {}).get("cache") else {}
            epoch(tarn, {**job, "warm": None, "url": job["warm"], "open": more, "epochs": 1})
    began, out = time.monotonic(), []
    ds = tarn.open(job["url"], decode=job.get("decode", "bytes"), **job.get("open", {}))
    ds = ds.shuffle(seed=7) if job.get("shuffle") else ds
    with ds.loader(BATCH, threads=2, epochs=job.get("epochs", 1), **job.get("loader", {})) as loader:
        for number in range(job.get("epochs", 1)):
            used, samples, first = cpu(), 0, None
            for batch in loader:
                first = first or time.monotonic()
                samples += len(batch["__key__"])
                if job.get("first_only"):
                    break
            out.append({"first": first - began, "seconds": time.monotonic() - began, "cpu": cpu() - used, "samples": samples,
                        "began": began, "ended": time.monotonic(), "number": number})
            began = time.monotonic()
    return {"epochs": out, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def one(tarn, job):
    """Samples one by one; the median of the seconds for each."""
    ds = tarn.open(job["url"], decode=job.get("decode", "bytes"), **job.get("open", {}))
    order = random.Random(3).sample(range(len(ds)), job["count"])
    ds[order[0]]
    times = []
    for i in order:
        began = time.monotonic()
        ds[i]
        times.append(time.monotonic() - began)
    return {"seconds": statistics.median(times)}


def opened(tarn, job):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    ds = tarn.open(job["url"], decode=job.get("decode", "bytes"), **job.get("open", {}))
    ds[len(ds) - 1]
    return {"seconds": time.monotonic() - began, "shards": job.get("shards"), "before": before * 1024,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def counted(samples):
    import torch

    return {"n": torch.zeros(len(samples))}  # streaming counts the samples of a batch by its first value


def peer(_, job):
    """An epoch, and a second one, of another package; from S3, with its own cache."""
    sys.path.insert(0, str(ROOT / "bench"))
    began, out = time.monotonic(), []
    if job["package"] == "mosaicml-streaming":
        from peers import mosaic  # noqa: F401  replaces what is not installed
        import streaming

        began = time.monotonic()
        ds = streaming.StreamingDataset(remote=job["url"], local=job["cache"], batch_size=BATCH, shuffle=True, shuffle_seed=7)
        loader = streaming.StreamingDataLoader(ds, batch_size=BATCH, num_workers=2, collate_fn=counted, persistent_workers=True)
    else:
        import litdata
        from litdata.streaming import downloader

        # It downloads with obstore, which refuses http, and neither storage_options nor the environment changes that.
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
        began = time.monotonic()
        ds = litdata.StreamingDataset(job["url"], cache_dir=job["cache"], shuffle=True, seed=7, storage_options=job["storage"])
        loader = litdata.StreamingDataLoader(ds, batch_size=BATCH, num_workers=2, collate_fn=counted, persistent_workers=True)
    for _ in range(2):
        first, samples = None, 0
        for batch in loader:
            first = first or time.monotonic()
            samples += len(batch["n"])
        out.append({"first": first - began, "seconds": time.monotonic() - began, "samples": samples})
        began = time.monotonic()
    return {"epochs": out}


def work(job):
    if job["what"] == "peer":
        found = peer(None, job)
    else:
        import tarn

        found = {"epoch": epoch, "one": one, "opened": opened}[job["what"]](tarn, job)
    print(json.dumps(found))


# --- The other side ------------------------------------------------------------------------


class Setting:
    """The servers, the fold, and the programs that are compared."""

    def __init__(self, build, scratch, web):
        self.build, self.scratch, self.web = build, scratch, web
        self.env = dict(os.environ, PYTHONPATH=str(build / "python"), no_proxy="*", CURL_CA_BUNDLE=str(web.root / "cert.pem"))
        for name in [name for name in self.env if name.lower().endswith("_proxy") and name != "no_proxy"]:
            del self.env[name]
        self.program = scratch / "plain_loop"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", ROOT / "bench/plain_loop.c", "-o", self.program, "-lcurl"], check=True)
        self.folder = self.fold("birds", SHARDS, SAMPLES, SIZE)
        self.warm = self.fold("warm", SHARDS // 2, SAMPLES, SIZE, stem="warm")
        self.places = [place for path in sorted(self.folder.glob("*.tar")) for place in places_of(path)]

    def fold(self, name, shards, samples, size, stem="train"):
        folder = self.web.www / name
        folder.mkdir()
        noise = random.Random(1).randbytes(size + 4096)
        for shard in range(shards):
            with tarfile.open(folder / f"{stem}-{shard:05d}.tar", "w") as archive:
                for k in range(samples):
                    for field, data in (("jpg", noise[k % 4096:][:size]), ("cls", b"%d" % (k % 10))):
                        member = tarfile.TarInfo(f"s{shard:05d}_{k:05d}.{field}")
                        member.size = len(data)
                        archive.addfile(member, io.BytesIO(data))
        subprocess.run([self.build / "tarn", "index", folder, "--sums"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return folder

    def tarn(self, what, url, env=None, start=False, **more):
        argv = [sys.executable, __file__, "--work", json.dumps({"what": what, "url": url, **more})]
        child = subprocess.Popen(argv, env={**self.env, **(env or {})}, stdout=subprocess.PIPE, text=True)
        return child if start else ended(child)

    def plain(self, base, ranges, connections, folder=None, warm=()):
        """Seconds, seconds of processor time, and the median of the seconds of a range; after those of warm, which are
        not timed."""
        text = "".join(f"{base}/{name} {first} {last}\n" for name, first, last in [*warm, *ranges])
        argv = [self.program, str(connections), str(len(warm)), *([folder] if folder else [])]
        done = subprocess.run(argv, input=text, text=True, check=True, stdout=subprocess.PIPE,
                              env=self.env)
        return list(map(float, done.stdout.split()))


def ended(child):
    out = child.communicate()[0]
    if child.returncode:
        raise SystemExit(f"a contestant ended with status {child.returncode}")
    return json.loads(out)


def places_of(path):
    """The bytes of each sample: name of the shard, first and last byte."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            key, end = member.name.split(".")[0], member.offset_data + member.size - 1
            first, _ = found.get(key, (member.offset, 0))
            found[key] = (first, end)
    return [(path.name, first, last) for first, last in found.values()]


def whole_shards(folder):
    return [(path.name, at, min(at + LARGE, path.stat().st_size) - 1)
            for path in sorted(folder.glob("*.tar")) for at in range(0, path.stat().st_size, LARGE)]


class Line:
    """A slow line to a port, as a process."""

    def __init__(self, port, latency=0.02, bandwidth=100e6, raw=True):
        self.child = subprocess.Popen([sys.executable, str(ROOT / "tests/interop/fault_proxy.py"), "--to", str(port),
                                       "--latency", str(latency), "--bandwidth", str(bandwidth), *(["--raw"] if raw else [])],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self.child.stdout.readline())}"

    def sent(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()


def median(found, key):
    return statistics.median(one[key] for one in found)


# --- Pieces --------------------------------------------------------------------------------


def compare(s, base, shuffle, epochs):
    """An epoch with a cold cache (stored order) or some without one (shuffled), with fields as memoryviews and as bytes;
    and the loop with the better of two numbers of connections. Of each, seconds and processor time, after an epoch of
    another fold that is not timed."""
    ranges, warm = whole_shards(s.folder), whole_shards(s.warm)
    if shuffle:
        warm = [place for path in sorted(s.warm.glob("*.tar")) for place in places_of(path)]
        ranges = [place for seed in range(epochs) for place in random.Random(seed).sample(s.places, len(s.places))]
    warm = [(f"../{s.warm.name}/{name}", first, last) for name, first, last in warm]
    warm_url = f"{base.rsplit('/', 1)[0]}/{s.warm.name}:warm"
    mine, loops = {False: [], "bytes": []}, {16: [], 64: []}
    for _ in range(ROUNDS):
        for decode, found in mine.items():
            with tempfile.TemporaryDirectory(dir=s.scratch) as cache:
                more = {} if shuffle else {"cache": cache}
                timed = s.tarn("epoch", f"{base}:train", open=more, shuffle=shuffle, epochs=epochs, scratch=str(s.scratch),
                               warm=warm_url, decode=decode)["epochs"]
                found.append([sum(one[key] for one in timed) for key in ("seconds", "cpu")])
        for connections, found in loops.items():
            with tempfile.TemporaryDirectory(dir=s.scratch) as target:
                found.append(s.plain(base, ranges, connections, None if shuffle else target, warm))
    best = min(loops.values(), key=lambda found: statistics.median(one[0] for one in found))
    return [[statistics.median(one[k] for one in found) for k in (0, 1)] for found in (mine[False], mine["bytes"], best)]


def epochs_over(s, base, shuffles=4):
    size = sum(path.stat().st_size for path in s.folder.glob("*.tar"))
    out = {}
    for name, shuffle in (("sequential", False), ("shuffle", True)):
        epochs = shuffles if shuffle else 1
        (mine, mine_cpu), (copied, _), (loop, loop_cpu) = compare(s, base, shuffle, epochs)
        count = len(s.places) * epochs
        out[name] = {"tarn": count / mine, "bytes_objects": count / copied, "plain": count / loop, "bytes": size * epochs,
                     "tarn_cpu": mine_cpu / count, "plain_cpu": loop_cpu / count}
    return out


def http(s):
    return epochs_over(s, f"{s.web.url}/birds")


def https(s):
    return epochs_over(s, f"https://localhost:{s.web.tls_port}/birds")


def slow(s):
    with Line(s.web.port) as line:
        return epochs_over(s, f"{line.url}/birds", 1)


def first(s):
    """Round trips until the first batch, with 10 and with 1,000 shards."""
    out = {}
    with Line(s.web.port, 0.1, 0) as line:
        for shards in (10, 1000):
            folder = s.fold(f"first{shards}", shards, 1280 // shards + 8, 100)
            found = [s.tarn("epoch", f"{line.url}/{folder.name}:train", shuffle=True, first_only=True,
                            open={"index": str(folder / "train.taridx")})
                     for _ in range(ROUNDS)]
            out[str(shards)] = statistics.median(one["epochs"][0]["first"] for one in found) / 0.1
    return out


def single(s):
    out = {}
    with Line(s.web.port) as line:
        for name, base, count in (("http", f"{s.web.url}/birds", 400), ("slow", f"{line.url}/birds", 60)):
            ranges = random.Random(3).sample(s.places, count)
            mine = statistics.median(s.tarn("one", f"{base}:train", count=count)["seconds"] for _ in range(ROUNDS))
            out[name] = {"tarn": mine, "plain": statistics.median(s.plain(base, ranges, 1)[2] for _ in range(ROUNDS))}
    return out


def cached(s):
    """Hits with room for half of the data; and a complete copy, compared with the fold on disk."""
    size = sum(path.stat().st_size for path in s.folder.glob("*.tar"))
    out = {}
    with Line(s.web.port, 0, 0, raw=False) as line, tempfile.TemporaryDirectory(dir=s.scratch) as cache:
        url, half = f"{line.url}/birds:train", {"cache": cache, "cache_limit": size // 2}
        s.tarn("epoch", url, shuffle=True, open=half)
        before = line.sent()
        s.tarn("epoch", url, shuffle=True, open=half)
        out["hits"] = 1 - (line.sent() - before) / size
    with tempfile.TemporaryDirectory(dir=s.scratch) as cache:
        url = f"{s.web.url}/birds:train"
        s.tarn("epoch", url, open={"cache": cache})
        rates = {"cached": [], "local": []}
        for _ in range(2 * ROUNDS + 1):
            for name, source, more in (("cached", url, {"cache": cache}), ("local", str(s.folder), {})):
                found = s.tarn("epoch", source, shuffle=True, open=more, epochs=6)["epochs"][1:]
                rates[name].append(found[0]["samples"] / median(found, "seconds"))
        out.update({name: statistics.median(found) for name, found in rates.items()})
    return out


def ranks(s):
    """Eight processes, each with an eighth of an epoch, share a cache over the slow line."""
    size = sum(path.stat().st_size for path in s.folder.glob("*.tar"))
    times, fetched = {1: [], 8: []}, {1: [], 8: []}
    for _ in range(2):
        for world in times:
            with Line(s.web.port) as line, tempfile.TemporaryDirectory(dir=s.scratch) as cache:
                children = [s.tarn("epoch", f"{line.url}/birds:train", start=True, shuffle=True, open={"cache": cache},
                                   loader={"rank": rank, "world_size": world}) for rank in range(world)]
                found = [ended(child)["epochs"][0] for child in children]
                times[world].append(max(one["ended"] for one in found) - min(one["began"] for one in found))
                fetched[world].append(line.sent() / size)
    return {"one": min(times[1]), "eight": min(times[8]), "fetched_one": max(fetched[1]), "fetched_eight": max(fetched[8])}


def memory(s):
    """Peaks of an epoch with small shards and with one large shard; and of a fold with 65,535 shards."""
    out = {}
    large = s.fold("large", 1, SHARDS * SAMPLES, SIZE)
    for name, folder in (("small", s.folder), ("large", large)):
        out[name] = s.tarn("epoch", f"{s.web.url}/{folder.name}:train", shuffle=True)["memory"]
    many = s.fold("many", 65535, 1, 1)
    found = s.tarn("opened", f"{s.web.url}/{many.name}:train")
    out["many"], out["many_before"], out["many_seconds"] = found["memory"], found["before"], found["seconds"]
    return out


def engine(s):
    """The fetcher alone, over TLS, with ranges of 100 KiB: bench/remote_work.c."""
    import remote

    path = s.web.www / "x"
    path.write_bytes(os.urandom(64 << 20))
    program = remote.build(s.scratch, ROOT / "build-plain")
    argv = [program, f"https://localhost:{s.web.tls_port}/x", 64 << 20, 100 << 10, 1000, "random", 0, 2 * ROUNDS + 1]
    done = subprocess.run([str(word) for word in argv], check=True, stdout=subprocess.PIPE, text=True, env=s.env)
    rows = {name: list(map(float, rest)) for name, *rest in map(str.split, done.stdout.splitlines())}
    return {name: {"rate": row[0], "cpu": row[1] * 1e-6} for name, row in rows.items()}


def peers(s):
    """Other packages and tarn, from one S3 server, whose own speed limits all of them. A package that is not installed is
    left out."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    env = {"AWS_ENDPOINT_URL_S3": url, "AWS_ENDPOINT_URL": url, "S3_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a",
           "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    storage = {"endpoint_url": url, "aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = boto3.client("s3", **storage)
    client.create_bucket(Bucket="bucket")
    small = s.fold("peers", 4, SAMPLES, SIZE)
    upload(client, small, "peers")
    out = {}
    with tempfile.TemporaryDirectory(dir=s.scratch) as kept:
        for package, module in (("mosaicml-streaming", "mosaic"), ("litdata", "litdata_")):
            written = pathlib.Path(kept) / f"{module}-written"
            if not write_peer(s, module, small, written):
                print(f"{package} is not installed for {PEERS}: left out", flush=True)
                continue
            upload(client, written, module)
            job = {"what": "peer", "package": package, "url": f"s3://bucket/{module}", "cache": f"{kept}/{module}",
                   "storage": storage}
            done = subprocess.run([PEERS, __file__, "--work", json.dumps(job)], stdout=subprocess.PIPE, text=True, check=True,
                                  env={**s.env, **env})
            out[package] = json.loads(done.stdout.splitlines()[-1])["epochs"]
        for name, more in (("tarn", {}), ("tarn with a cache", {"cache": f"{kept}/tarn"})):
            out[name] = s.tarn("epoch", "s3://bucket/peers:train", env=env, shuffle=True, epochs=2, open=more)["epochs"]
    server.stop()
    return out


NOT_INSTALLED = 3
PEER_WRITER = """
import importlib, pathlib, sys, tarfile
module, source, target = sys.argv[1:]
try:
    Peer = importlib.import_module("peers." + module).Peer
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)  # NOT_INSTALLED
def samples():
    for path in sorted(pathlib.Path(source).glob("*.tar")):
        found = {}
        with tarfile.open(path) as archive:
            for member in archive:
                key, field = member.name.split(".")
                found.setdefault(key, {})[field] = archive.extractfile(member).read()
        yield from found.items()
class Data:
    fields = ("jpg", "cls")
Peer.write(None, target, samples(), Data)
"""


def write_peer(s, module, source, target):
    """Writes the samples of a fold in the format of a package; False if it is not installed."""
    if not PEERS.exists():
        return False
    done = subprocess.run([PEERS, "-c", PEER_WRITER, module, source, target], cwd=ROOT / "bench", env=s.env,
                          stdout=subprocess.DEVNULL)
    if done.returncode not in (0, NOT_INSTALLED):
        raise SystemExit(f"{module}: writing ended with status {done.returncode}")
    return done.returncode == 0


def upload(client, folder, prefix):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            client.upload_file(str(path), "bucket", f"{prefix}/{path.relative_to(folder)}")


PIECES = {one.__name__: one for one in (http, https, slow, first, single, cached, ranks, memory, engine, peers)}


# --- The page ------------------------------------------------------------------------------


def aims(r):
    """Rows of the table: what, aim, found, whether it is met."""
    def ratio(line, name):
        return r[line][name]["tarn"] / r[line][name]["plain"]

    for line, where in (("http", "nginx"), ("https", "nginx with TLS"), ("slow", "20 ms, 100 MB/s")):
        yield (f"sequential, cold cache, {where}", "≥ 0.9 × a loop of libcurl", f"{ratio(line, 'sequential'):.2f} ×",
               ratio(line, "sequential") >= 0.9)
    for line, where in (("http", "nginx"), ("https", "nginx with TLS"), ("slow", "20 ms, 100 MB/s")):
        yield (f"exact shuffle, 100 KB samples, {where}", "≥ 0.8 × a loop of libcurl", f"{ratio(line, 'shuffle'):.2f} ×",
               ratio(line, "shuffle") >= 0.8)
    for shards in ("10", "1000"):
        yield (f"first batch after `open`, local index, {shards} shards", "≤ 4 round trips", f"{r['first'][shards]:.1f}",
               r["first"][shards] <= 4)
    for line, where in (("http", "nginx"), ("slow", "20 ms")):
        found = r["single"][line]["tarn"] / r["single"][line]["plain"]
        yield (f"one `ds[i]`, {where}", "≤ 1.3 × a range request of libcurl", f"{found:.2f} ×", found <= 1.3)
    yield "second epoch, half of the data cached", "≥ 49 % hits", f"{100 * r['cached']['hits']:.1f} %", r["cached"]["hits"] >= 0.49
    found = r["cached"]["cached"] / r["cached"]["local"]
    yield "fully cached", "≥ 0.95 × the fold on disk", f"{found:.2f} ×", found >= 0.95
    if "engine" in r:
        found = r["engine"]["fetcher"]["cpu"] / r["engine"]["plain"]["cpu"]
        yield "processor time per request of 100 KiB, with TLS", "≤ 1.3 × a loop of libcurl", f"{found:.2f} ×", found <= 1.3
    found = r["ranks"]
    yield ("8 ranks, one cache, 20 ms, 100 MB/s: bytes fetched", "each once", f"{found['fetched_eight']:.3f} × the data",
           found["fetched_eight"] <= 1.03)
    yield ("the same: time", "≤ 1.2 × one process", f"{found['eight'] / found['one']:.2f} ×", found["eight"] <= 1.2 * found["one"])
    if "memory" not in r:
        return
    found = r["memory"]["large"] / r["memory"]["small"]
    yield "memory of an epoch: one shard of 256 MB", "as with 16 shards of 16 MB", f"{found:.2f} ×", found <= 1.1
    yield ("memory of a process with 65,535 shards open", "< 200 MB", f"{r['memory']['many'] / 1e6:.0f} MB",
           r["memory"]["many"] < 200e6)


def page(results, folder=RESULTS.parent):
    sys.path.insert(0, str(ROOT / "bench"))
    from peers import svg

    r, m = results["pieces"], results["machine"]
    warm = "bytes_objects" in r["http"]["shuffle"]  # results of earlier versions started with closed connections
    text = [PAGE.format(**m) + (WARM.format(**m) if warm else "")]
    text += ["| | aim | found | |", "| --- | --- | ---: | --- |"]
    text += [f"| {what} | {aim} | {found} | {'met' if met else 'missed'} |" for what, aim, found, met in aims(r)]
    text.append(NOTES if warm else COLD_NOTES)
    text += ["\nProcessor time per shuffled sample, of the whole process:\n", "| | loader | loop of libcurl |", "| --- | ---: | ---: |"]
    for line, where in (("http", "nginx"), ("https", "nginx with TLS"), ("slow", "20 ms, 100 MB/s")):
        found = r[line]["shuffle"]
        text.append(f"| {where} | {1e6 * found['tarn_cpu']:.0f} µs | {1e6 * found['plain_cpu']:.0f} µs |")
    if warm:
        text += bytes_objects(r)
    rows = []
    for line, where in (("http", "nginx"), ("https", "TLS"), ("slow", "20 ms, 100 MB/s")):
        for name, words in (("sequential", "in order"), ("shuffle", "shuffled")):
            for who in ("tarn", "plain"):
                value = r[line][name][who]
                shown = f"{value:,.0f} samples/s"
                rows.append((f"{who if who == 'tarn' else 'libcurl'}, {where}, {words}", value, value, value, shown, who == "tarn"))
    (folder / "cloud-epochs.svg").write_text(svg.bars("An epoch of a remote fold", "samples of 100 KB per second, no warm cache", rows))
    text.append("\n## Epochs\n\n![epochs](cloud-epochs.svg)\n")
    if "peers" in r:
        text += other_packages(folder, r, svg)
    (folder / "cloud.md").write_text("\n".join(text))


def bytes_objects(r):
    text = ["\nWith `decode=\"bytes\"`, which copies each field into a Python object:\n",
            "| | in order | shuffled |", "| --- | ---: | ---: |"]
    for line, where in (("http", "nginx"), ("https", "nginx with TLS"), ("slow", "20 ms, 100 MB/s")):
        ratios = [r[line][name]["bytes_objects"] / r[line][name]["plain"] for name in ("sequential", "shuffle")]
        text.append(f"| {where} | {ratios[0]:.2f} × | {ratios[1]:.2f} × |")
    return text


def other_packages(folder, r, svg):
    text = ["## Other packages, from one S3 server\n",
            "| | first batch | samples/s, cold | samples/s, second epoch |", "| --- | ---: | ---: | ---: |"]
    rows = []
    for name, (cold, warm) in r["peers"].items():
        rates = [one["samples"] / one["seconds"] for one in (cold, warm)]
        text.append(f"| {name} | {cold['first']:.2f} s | {rates[0]:,.0f} | {rates[1]:,.0f} |")
        rows += [(f"{name}, {when}", rate, rate, rate, f"{rate:,.0f} samples/s", name.startswith("tarn"))
                 for when, rate in zip(("cold", "second epoch"), rates)]
    (folder / "cloud-peers.svg").write_text(svg.bars("From one S3 server (moto)", "samples of 100 KB per second", rows))
    return [*text, "\n![other packages](cloud-peers.svg)\n", PEER_NOTES]


PAGE = """# Remote folds

`bench/cloud.py` wrote this page. Machine: {processor}, {cores} cores, {system}, Python {python}; {date}. nginx, the slow line, S3 and
the contestants share these cores. The fold has 16 shards with 2,560 samples of 100 KB (256 MB); batches of 64, two threads. tarn is the
whole loader in Python, with checksums of all members. The plain loop of libcurl
(`bench/plain_loop.c`) receives the same bytes, with 16 or 64 connections, whichever is faster, and writes
whole shards to files and shuffled ranges to memory that it uses again. Medians of {rounds} rounds.
"""

WARM = """
Both first read another fold, which is not timed: libraries are then loaded, connections are open, and memory is in use. The time from
`open` to the first batch has rows of its own. Fields are memoryviews. The load of the machine was {load:.0f} at the end.
"""

COLD_NOTES = """
Missed, and why:

- **Over nginx on this machine** there is no line to wait for, so the processor limits everything, and the server has half of it. A
  loader does more than a loop for the same bytes: it copies them into batches, compares checksums, fills the cache, makes Python objects,
  and starts its threads and connections in the time that is measured. Over a line of 100 MB/s this is hidden.
- **One `ds[i]`** passes the request to the thread that runs all transfers, and wakes up again when it is over. That is some tens of
  microseconds, as long as a request takes on this machine. Over the slow line some responses come 40 ms late, to tarn and to the loop,
  because of the proxy.

The rows over nginx on this machine vary from run to run, the ratios as well: in shuffled epochs after the first, the loader had 0.57 of
the loop in one run (19,000 and 33,000 samples/s) and as much as the loop in another (13,500 each).
"""

NOTES = """
Rows that are missed, and why:

- **Over nginx on this machine** there is no line to wait for, so the processor limits everything, and the server has half of it. A
  loader does more than a loop for the same bytes: it compares checksums, fills the cache, and hands batches to Python, on the core that the
  server needs as well. Over a line of 100 MB/s this is hidden.
- **One `ds[i]`** passes the request to the thread that runs all transfers, and wakes up again when it is over. That is some tens of
  microseconds, as long as a request takes on this machine. Over the slow line some responses come 40 ms late, to tarn and to the loop,
  because of the proxy.

The rows over nginx on this machine vary from run to run, the ratios as well: the more other work the machine has, the less the loop is ahead.
"""

PEER_NOTES = """640 samples of 100 KB in 4 shards. The server (moto, a program in Python) takes some milliseconds for a request, whatever its
size, and that is most of the time of all of them. Each package reads its own format with its own defaults, shuffled, with two workers or
threads; its second epoch comes from its cache. The other packages fetch a whole file of 64 MB before its first sample, and shuffle inside of
files. tarn shuffles exactly: about 500 requests, one for each run of neighbours among the samples that it fetches at once. tarn without a
cache fetches them again.
"""


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "?")
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system() + " " + platform.release().split("-")[0],
            "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"), "rounds": ROUNDS,
            "load": os.getloadavg()[0]}


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-plain")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("pieces", nargs="*", help=", ".join(PIECES))
    args = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"pieces": {}}
    if args.page:
        return page(results)
    from url_support import Nginx

    with tempfile.TemporaryDirectory() as scratch, Nginx(keep=1_000_000) as web:
        s = Setting(args.build.resolve(), pathlib.Path(scratch), web)
        for name in args.pieces or PIECES:
            results["pieces"][name] = PIECES[name](s)
            results["machine"] = machine()
            print(name, json.dumps(results["pieces"][name]), flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
