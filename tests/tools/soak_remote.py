#!/usr/bin/env python3
"""Several processes that read a remote fold for a long time with one cache, while the server, the line
and the cache fail now and then.

  soak_remote.py [MINUTES] [--seed N]

The server is nginx, read through tests/interop/fault_proxy.py, which spoils one response in twenty. Meanwhile
readers are killed, bytes of the cache are changed, its files are truncated or removed, and shards are
replaced by equal ones with another date. Every sample must have the bytes of the local fold, or fail with
an error that names the URL. A reader that makes no progress, or whose memory or number of descriptors
grows, is a failure. The last line is the result, and the exit status is 0 if it is good.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain"))
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests/interop")]
for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("AWS_")]:
    del os.environ[name]
os.environ["no_proxy"] = "*"

READERS, SHARDS, SAMPLES = 5, 8, 120
HANG = 180  # seconds without progress
MEMORY = 700 << 20  # 256 MiB of windows, and what the requests of their threads need
DESCRIPTORS = 300
SPOILED = [("cut", 5000), ("reset", 3000), ("hangup", 0), ("busy", 0), ("flip", 0), ("shorter", 0), ("shifted", 0),
           ("whole", 0), ("long", 0), ("short", 0), ("unranged", 0), ("total", 0), ("gzip", 0), ("garbage", 0),
           ("chunked", 4000), ("extra", 0), ("drip", 400_000)]


# --- A reader ------------------------------------------------------------------------------


def check(sample, near, number):
    for field in near.fields:
        if bytes(sample[field]) != bytes(near[number][field]):
            raise SystemExit(f"wrong bytes: sample {number}, field {field}")


def one_turn(tarn, url, near, numbers, cache, seed, say):
    """Reads an epoch, and some samples one by one."""
    dice = random.Random(seed)
    limit = dice.choice([0, 0, 6_000_000])
    far = tarn.open(url, cache=cache if dice.random() < 0.8 else "", cache_limit=limit, decode="bytes")
    order = far.shuffle(seed=seed) if dice.random() < 0.7 else far.order("blocks", seed=seed, block=16)
    with order.loader(dice.choice([1, 7, 32]), threads=dice.choice([0, 1, 3]), epochs=1, on_error="skip") as loader:
        for batch in loader:
            for k, number in enumerate(map(numbers.get, batch["__key__"])):
                check({field: batch[field][k] for field in near.fields}, near, number)
            say(len(batch["__key__"]), [one.reason for one in loader.skipped()])
    for _ in range(20):
        number = dice.randrange(len(near))
        try:
            check(far[number], near, number)
            say(1, [])
        except tarn.Error as error:
            say(0, [str(error)])


def reader(url, folder, cache, seed):
    import tarn

    near = tarn.open(folder, decode="bytes")
    numbers = {key: i for i, key in enumerate(near.keys())}
    dice = random.Random(seed)

    def say(samples, errors):
        print(json.dumps([samples, errors[-3:]]), flush=True)

    while True:
        try:
            one_turn(tarn, url, near, numbers, cache, dice.randrange(1 << 30), say)
        except tarn.Error as error:
            say(0, [str(error)])
    return 0


# --- What disturbs them --------------------------------------------------------------------


def cache_files(cache, ending):
    return list(pathlib.Path(cache).glob(f"tarn-cache-*/*/*{ending}"))


def flip(dice, cache):
    for path in dice.sample(files, 1) if (files := cache_files(cache, ".tar")) else []:
        with open(path, "r+b") as file:
            file.seek(dice.randrange(path.stat().st_size))
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))


def truncate(dice, cache):
    for path in dice.sample(files, 1) if (files := cache_files(cache, "")) else []:
        if path.is_file():
            os.truncate(path, dice.randrange(path.stat().st_size + 1))


def remove(dice, cache):
    for path in dice.sample(files, 1) if (files := cache_files(cache, "")) else []:
        if path.is_file():
            path.unlink()


def disturb(dice, cache, shards, children, counts):
    what = dice.choice(["kill", "kill", "stop", "flip", "flip", "truncate", "remove", "replace", "none"])
    counts[what] += 1
    try:
        if what == "kill":
            dice.choice(children).process.send_signal(signal.SIGKILL)
        elif what == "stop":  # for a moment: it keeps its claims
            process = dice.choice(children).process
            process.send_signal(signal.SIGSTOP)
            time.sleep(dice.random())
            process.send_signal(signal.SIGCONT)
        elif what == "replace":
            os.utime(dice.choice(shards))
        elif what in ("flip", "truncate", "remove"):
            {"flip": flip, "truncate": truncate, "remove": remove}[what](dice, cache)
    except (FileNotFoundError, ProcessLookupError):
        pass


# --- All of it -----------------------------------------------------------------------------


class Child:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, __file__, "--reader", *map(str, arguments)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.moved, self.rest = time.monotonic(), ""

    def lines(self):
        try:
            self.rest += os.read(self.process.stdout.fileno(), 1 << 20).decode(errors="replace")
        except BlockingIOError:
            return []
        *lines, self.rest = self.rest.split("\n")
        if lines:
            self.moved = time.monotonic()
        return lines

    def problem(self):
        """Why this reader is a failure, or None."""
        if time.monotonic() - self.moved > HANG:
            return f"no progress in {HANG} seconds"
        try:
            pid = self.process.pid
            pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, ValueError, IndexError):
            return None
        if pages * 4096 > MEMORY:
            return f"{pages * 4096 >> 20} MiB of memory"
        return f"{descriptors} descriptors" if descriptors > DESCRIPTORS else None


def run(minutes, seed, scratch):
    from fault_proxy import Fault, FaultProxy
    from test_simulate import make_shards
    from url_support import Nginx

    dice, counts, reasons = random.Random(seed), collections.Counter(), collections.Counter()
    samples, failures, cache = 0, [], scratch / "cache"
    with Nginx(keep=100_000) as web:
        folder = web.www / "birds"
        folder.mkdir()
        make_shards(folder, SHARDS, SAMPLES, [10, 3000, 20_000, 60_000])
        spoiled = [Fault(name, chance=0.05 / len(SPOILED), after=after, retry_after=0 if name == "busy" else None,
                         path=".tar") for name, after in SPOILED]
        with FaultProxy(web.port, latency=0.002, faults=spoiled, seed=seed) as proxy:
            def start():
                return Child(f"{proxy.url}/birds:train", folder, cache, dice.randrange(1 << 30))

            children = [start() for _ in range(READERS)]
            end, next_trouble = time.monotonic() + minutes * 60, time.monotonic() + 3
            while time.monotonic() < end and not failures:
                time.sleep(0.05)
                for i, child in enumerate(children):
                    ended = child.process.poll()  # before the last lines
                    for line in child.lines():
                        if not line.startswith("["):
                            failures.append(line)
                            continue
                        number, errors = json.loads(line)
                        samples += number
                        for error in errors:
                            reasons["named" if "birds" in error else error[:300]] += 1
                    if child.problem():
                        failures.append(child.problem())
                    if ended is not None:
                        if ended != -signal.SIGKILL:
                            failures.append(f"a reader ended with status {ended}: {child.rest}")
                        children[i] = start()
                if time.monotonic() >= next_trouble:
                    disturb(dice, cache, sorted(folder.glob("*.tar")), children, counts)
                    next_trouble = time.monotonic() + dice.uniform(0.2, 2)
                if sum(reasons.values()) - reasons["named"]:
                    failures.append(f"an error that does not name its URL: {reasons}")
            for child in children:
                child.process.kill()
                child.process.wait()
            spent = len(proxy.requests)
    good = not failures and samples > 1000
    for failure in failures:
        print(failure)
    print(f"{'good' if good else 'FAILED'}: {minutes:g} minutes, {samples} samples, {spent} requests, "
          f"{reasons['named']} errors that name the URL, trouble: {dict(counts)}")
    return 0 if good else 1


def main():
    if sys.argv[1:2] == ["--reader"]:
        url, folder, cache, seed = sys.argv[2:]
        return reader(url, folder, cache, int(seed))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("minutes", type=float, nargs="?", default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        return run(args.minutes, args.seed, pathlib.Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
