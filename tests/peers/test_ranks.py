#!/usr/bin/env python3
"""Several processes of torchrun train on one dataset: exact epochs, equal numbers of steps, and runs that are
killed and resumed by another number of processes; also with shards on a server and one cache for each node."""
import collections
import json
import os
import pathlib
import socket
import subprocess
import sys

import peer

peer.needs("torch")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from remote_support import Store, make_shards, tarn as command  # noqa: E402

# Each rank appends what it saw in a step; rank 0 saves the state when all have finished the step. NODE in the URL of
# the data is the number of the node.
SCRIPT = """if True:
    import json, os, pathlib, signal, sys
    import torch
    import torch.distributed as dist
    import tarn

    data, out, epochs, mixed, end = sys.argv[1:6]
    out = pathlib.Path(out)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    node = os.environ["GROUP_RANK"]
    remote = {"cache": out / f"cache{node}", "decode": "bytes"} if "://" in data else {}
    ds = tarn.open(data.replace("NODE", node), fields=["jpg", "cls"] if remote else ["cls"], **remote)
    if mixed == "mixed":
        ds = tarn.mix(ds[::2], ds[1::2])
    loader = ds.loader(3, shuffle=True, seed=5, threads=1, epochs=int(epochs))
    saved = out / "state.json"
    if saved.exists():
        loader.load_state_dict(json.loads(saved.read_text()))
    log = open(out / f"log{rank}", "a")
    step = 0
    while loader.epoch < int(epochs):
        epoch = loader.epoch
        for batch in loader:
            step += 1
            total = torch.ones(1)
            dist.all_reduce(total)              # hangs if a rank has fewer steps
            assert int(total) == world
            if end == "kill" and step == 3:     # all of them, in the middle of an epoch
                os.kill(os.getpid(), signal.SIGKILL)
            if end == "restart" and step == 4 and rank == world - 1 and not (out / "restarted").exists():
                (out / "restarted").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            log.write(json.dumps([epoch, step, list(batch["__key__"])]) + "\\n")
            log.flush()
            dist.barrier()
            if rank == 0:
                (out / "state.new").write_text(json.dumps(loader.state_dict()))
                os.replace(out / "state.new", saved)
            dist.barrier()
    dist.destroy_process_group()
    """
EPOCHS = 2


def started(count, data, out, mixed="plain", end="whole", options=("--standalone",)):
    script = pathlib.Path(out, "script.py")
    script.write_text(SCRIPT)
    env = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node", str(count),
                             script, data, out, str(EPOCHS), mixed, end],
                            env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def torchrun(*arguments):
    return ended(started(*arguments))


def ended(process):
    printed = process.communicate(timeout=300)[0]
    return subprocess.CompletedProcess(process.args, process.returncode, printed)


def nodes(number, count, *arguments):
    """torchrun on several nodes, with `count` ranks each."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--nnodes", str(number), "--master-addr", "127.0.0.1", "--master-port", str(port), "--node-rank"]
    running = [started(count, *arguments, options=(*options, str(node))) for node in range(number)]
    return [ended(one) for one in running]


def seen(out):
    """How often each key was seen in each epoch, and the numbers of steps of the ranks."""
    keys, steps = collections.Counter(), []
    for path in pathlib.Path(out).glob("log*"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        steps.append(len(lines))
        for epoch, _, found in lines:
            keys.update((epoch, key) for key in found)
    return keys, steps


def check_exact(out, of=tuple(peer.KEYS)):
    keys, steps = seen(out)
    assert keys == {(epoch, key): 1 for epoch in range(EPOCHS) for key in of}, keys.most_common(3)
    return steps


def every_epoch_is_exact_on_2_3_and_8_ranks(folder):
    for count in (2, 3, 8):
        with peer.folder() as out:
            done = torchrun(count, folder, out)
            assert done.returncode == 0, done.stdout[-2000:]
            steps = check_exact(out)
            assert len(steps) == count and len(set(steps)) == 1, steps


def a_killed_run_resumes_on_another_number_of_ranks(folder):
    for first, then in ((2, 3), (3, 2), (8, 1)):
        with peer.folder() as out:
            assert torchrun(first, folder, out, "plain", "kill").returncode != 0
            assert pathlib.Path(out, "state.json").exists()
            done = torchrun(then, folder, out)
            assert done.returncode == 0, done.stdout[-2000:]
            check_exact(out)


def mixes_resume_on_another_number_of_ranks(folder):
    with peer.folder() as out:
        assert torchrun(3, folder, out, "mixed", "kill").returncode != 0
        done = torchrun(2, folder, out, "mixed")
        assert done.returncode == 0, done.stdout[-2000:]
        check_exact(out)


def an_elastic_restart_loses_nothing_and_repeats_at_most_one_step(folder):
    with peer.folder() as out:
        done = torchrun(2, folder, out, "plain", "restart", ("--nnodes", "1:2", "--max-restarts", "2", "--rdzv-backend",
                                                             "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", "tarn"))
        assert done.returncode == 0, done.stdout[-2000:]
        assert pathlib.Path(out, "restarted").exists()
        # The step in which a rank was killed was logged by none or by some, and is repeated by all.
        keys, _ = seen(out)
        assert set(keys) == {(epoch, key) for epoch in range(EPOCHS) for key in peer.KEYS}
        assert sum(keys.values()) <= EPOCHS * peer.COUNT + 6, keys.most_common(8)


# --- Remote shards, and one cache for each node ---

SHARDS, SAMPLES = 4, 100
REMOTE = [f"train{shard:04}_{k:03}" for shard in range(SHARDS) for k in range(SAMPLES)]


class Server(Store):
    """Serves a fold of samples of 60 KB to nodes, which are distinguished by their URLs."""

    def __init__(self, folder):
        super().__init__()
        make_shards(folder, shards=SHARDS, samples=SAMPLES, size=60_000)
        assert command("index", "-q", folder).code == 0
        for node in range(2):
            self.put_folder(folder, f"/node{node}/")
        self.data = f"{self.url}/nodeNODE:train"
        self.size = sum(path.stat().st_size for path in pathlib.Path(folder).glob("*.tar"))

    def handle_error(self, request, client_address):
        """Clients are killed."""

    def fetched(self):
        """The number of bytes of shards that each node fetched since the last call, none of them twice. A process
        that ends while it prepares batches cancels requests, and does not answer for 20 seconds on a very busy
        machine; then others request the same bytes. So a twentieth may be requested again. Without a common cache, it
        would be most of them."""
        ranges = collections.defaultdict(list)
        for request in self.taken():
            wanted = request.headers.get("Range", "")
            if request.path.endswith(".tar") and wanted != "bytes=0-0":  # which only asks for the version
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                ranges[request.path].append((int(first), int(last) + 1))
        bytes_of, again = collections.Counter(), collections.Counter()
        for path, of_shard in ranges.items():
            node, reached = path.split("/")[1], 0
            for first, end in sorted(of_shard):
                again[node] += max(0, min(end, reached) - first)
                bytes_of[node] += max(0, end - max(first, reached))
                reached = max(reached, end)
        assert all(again[node] <= bytes_of[node] / 20 for node in bytes_of), f"{again} of {bytes_of} were fetched twice"
        return bytes_of


def cached(folder):
    """The bytes of shards in the cache of a node."""
    listed = command("cache", folder, "--objects", "--json", "-q")
    return sum(one["cached"] for of in json.loads(listed.out)["datasets"] for one in of["objects"]
               if one["url"].endswith(".tar"))


def each_node_fetches_each_byte_once(_):
    with peer.folder() as folder:
        server = Server(folder)
        for mixed in ("plain", "mixed"):
            with peer.folder() as out:
                for done in nodes(2, 2, server.data, out, mixed):
                    assert done.returncode == 0, done.stdout[-2000:]
                steps = check_exact(out, REMOTE)
                assert len(steps) == 4 and len(set(steps)) == 1, steps
                fetched = server.fetched()
                assert set(fetched) == {"node0", "node1"} and max(fetched.values()) <= server.size, fetched
                assert fetched == {f"node{i}": cached(f"{out}/cache{i}") for i in range(2)}, fetched
        server.shutdown()


def what_a_killed_node_had_cached_is_not_fetched_again(_):
    with peer.folder() as folder:
        server = Server(folder)
        for mixed, then in (("plain", (1, 3)), ("mixed", (1, 1)), ("mixed", (2, 1))):
            with peer.folder() as out:
                assert all(done.returncode for done in nodes(2, 2, server.data, out, mixed, "kill"))
                server.fetched()
                before = [cached(f"{out}/cache{i}") for i in range(2)]
                assert 0 < before[0] < server.size, before
                for done in nodes(*then, server.data, out, mixed):
                    assert done.returncode == 0, done.stdout[-2000:]
                check_exact(out, REMOTE)
                fetched = server.fetched()
                assert set(fetched) == {f"node{i}" for i in range(then[0])}, fetched
                for i in range(then[0]):
                    assert fetched[f"node{i}"] == cached(f"{out}/cache{i}") - before[i], (i, fetched, before)
        server.shutdown()


peer.run(every_epoch_is_exact_on_2_3_and_8_ranks, a_killed_run_resumes_on_another_number_of_ranks,
         mixes_resume_on_another_number_of_ranks, an_elastic_restart_loses_nothing_and_repeats_at_most_one_step,
         each_node_fetches_each_byte_once, what_a_killed_node_had_cached_is_not_fetched_again)
