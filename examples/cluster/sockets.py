"""Several processes train on one dataset without torch: what they have to agree on goes over a socket.

    python sockets.py DATA STATE --rank 0 --world-size 2 --master node0:29500
    python sockets.py DATA STATE --rank 1 --world-size 2 --master node0:29500

Rank 0 listens, the others connect. The options default to the environment: RANK, WORLD_SIZE, and MASTER_ADDR and
MASTER_PORT, which many launchers set. After each step rank 0 writes STATE; the next run continues from it,
whatever the number of its processes is. Everybody who reaches the port is trusted, so use a private network.
"""
import argparse
import json
import os
import pathlib
import socket
import time

import tarn

LONGEST = 1 << 24  # of a message, in bytes
WAIT = 600  # seconds, until all processes have started


class Group:
    """Processes that exchange values, which JSON can store."""

    def __init__(self, rank, world_size, host, port):
        self.rank, self.world_size = rank, world_size
        if rank:
            self.links = [self._connect(host, port)]
            self._send(self.links[0], rank)
            return
        with socket.create_server((host, port)) as server:
            print("listening on port", server.getsockname()[1], flush=True)
            server.settimeout(WAIT)
            joined = {}
            while len(joined) < world_size - 1:
                link = server.accept()[0].makefile("rwb")
                number = self._receive(link, "a process that joins")
                if number in joined or number not in range(1, world_size):
                    raise SystemExit(f"a process joined as rank {number} of {world_size}, which is taken or impossible")
                joined[number] = link
        self.links = [joined[number] for number in range(1, world_size)]

    @staticmethod
    def _connect(host, port):
        end = time.monotonic() + WAIT
        while True:
            try:
                return socket.create_connection((host, port)).makefile("rwb")
            except ConnectionRefusedError:  # rank 0 is not ready yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    @staticmethod
    def _send(link, value):
        try:
            link.write(json.dumps(value).encode() + b"\n")
            link.flush()
        except ConnectionError:
            pass  # the next answer will be missing

    @staticmethod
    def _receive(link, name):
        try:
            line = link.readline(LONGEST)
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise SystemExit(f"{name} is gone, or sent more than {LONGEST} bytes; start all processes again")
        return json.loads(line)

    def exchange(self, value):
        """The values of all ranks, in their order. Every rank has to call it."""
        if self.rank:
            self._send(self.links[0], value)
            return self._receive(self.links[0], "rank 0")
        values = [value, *(self._receive(link, f"rank {i}") for i, link in enumerate(self.links, 1))]
        for link in self.links:
            self._send(link, values)
        return values


def train(group, data, state, epochs, stop):
    loader = tarn.open(data, fields=["cls"]).loader(max(1, 8 // group.world_size), shuffle=True, seed=7,
                                                    rank=group.rank, world_size=group.world_size)
    mean = 0.0  # the model
    # Only rank 0 reads the file, so that all start from the same state.
    saved = group.exchange(json.loads(state.read_text()) if group.rank == 0 and state.exists() else None)[0]
    if saved:
        loader.load_state_dict(saved["loader"])
        mean = saved["mean"]
    if any(other != loader.state_dict() for other in group.exchange(loader.state_dict())):
        raise SystemExit("the ranks have different data")
    steps = 0
    while loader.epoch < epochs and steps != stop:
        epoch, seen = loader.epoch, []
        for batch in loader:
            gradient = float((mean - batch["cls"]).sum())
            parts = group.exchange([gradient, list(batch["__key__"])])
            keys = [key for _, of_rank in parts for key in of_rank]
            mean -= 0.1 * sum(part for part, _ in parts) / len(keys)
            seen += keys
            steps += 1
            if group.rank == 0:
                new = state.with_suffix(".new")
                new.write_text(json.dumps({"loader": loader.state_dict(), "mean": mean}))
                new.replace(state)
            if steps == stop:
                break
        if group.rank == 0:
            print(f"epoch {epoch}: {len(seen)} samples, {len(set(seen))} distinct: {' '.join(sorted(seen)[:4])} ...", flush=True)


def main():
    env = os.environ
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("state", type=pathlib.Path)
    parser.add_argument("--rank", type=int, default=env.get("RANK", 0))
    parser.add_argument("--world-size", type=int, default=env.get("WORLD_SIZE", 1))
    parser.add_argument("--master", default=f"{env.get('MASTER_ADDR', '127.0.0.1')}:{env.get('MASTER_PORT', 29500)}")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--stop", type=int, help="after this number of steps")
    options = parser.parse_args()
    host, _, port = options.master.rpartition(":")
    train(Group(options.rank, options.world_size, host, int(port)), options.data, options.state, options.epochs, options.stop)


if __name__ == "__main__":
    main()
