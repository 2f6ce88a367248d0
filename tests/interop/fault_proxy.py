#!/usr/bin/env python3
"""A reverse proxy that misbehaves on purpose: latency, limited bandwidth, lost connections, wrong
responses. For tests, and for measuring over a slow line.

In a test, it runs in a thread:

    with FaultProxy(nginx.port, latency=0.02) as proxy:
        proxy.plan(Fault("cut", after=1000, times=2))
        read(proxy.url + "/x")

By itself, it prints its port and runs until its standard input ends. Each line of input lets it print the
bytes that it has sent, and the number of requests:

    fault_proxy.py --to PORT [--latency SECONDS] [--bandwidth BYTES_PER_SECOND] [--raw]
                   [--seed N] [NAME[:KEY=VALUE]...]

    fault_proxy.py --to 8080 --bandwidth 100e6 cut:chance=0.1:after=5000 busy:times=3

It forwards HTTP to a port of this machine. With raw=True it only forwards bytes, so TLS works too, but
no faults.
"""
import argparse
import asyncio
import dataclasses
import gzip
import random
import socket
import struct
import sys
import threading
from typing import Optional

PIECE = 1 << 16


@dataclasses.dataclass
class Fault:
    """What to do to a response.

    cut, reset, stall    after that many bytes of the body: close, reset, send nothing more
    hangup               close instead of a response
    drip                 the body with `after` bytes per second
    status               status and code of an error instead; busy is 503 SlowDown
    whole                ignore the range: status 200
    shifted, shorter     another range than the requested one, with the right headers for it
    unranged             status 206 without Content-Range
    total                Content-Range with another total size
    etag, date           another ETag, another Last-Modified
    nameless             neither ETag nor Last-Modified; nameless=True does this besides another fault
    long, short          Content-Length is one byte more, one byte less than the range has
    chunked              no Content-Length; with after: and ends early
    extra                chunked, with one byte more than the range has
    gzip                 compressed by the way
    flip                 one bit of the body is wrong
    redirect             to the URL `to`
    garbage              not HTTP
    headers              endless headers
    swap                 the object at the path `to` instead
    """
    name: str
    times: Optional[int] = None  # how many responses; None: all
    skip: int = 0  # not the first ones
    chance: float = 1.0
    path: str = ""  # only if the path contains this
    after: int = 0
    status: int = 503
    code: str = "SlowDown"
    retry_after: Optional[int] = None
    to: str = ""
    nameless: bool = False
    unless: str = ""  # not if a header line of the request contains this


NUMBERS = {"times": int, "skip": int, "chance": float, "after": int, "status": int, "retry_after": int,
           "nameless": bool}


def parse_fault(text):
    name, *more = text.split(":")
    values = dict(item.split("=", 1) for item in more)
    return Fault(name, **{k: NUMBERS.get(k, str)(v) for k, v in values.items()})


@dataclasses.dataclass
class Head:
    first: str
    fields: list  # (name, value)

    def get(self, name):
        return next((v for k, v in self.fields if k.lower() == name.lower()), None)

    def put(self, name, value):
        """Replaces, adds, or with None removes a field."""
        self.fields = [(k, v) for k, v in self.fields if k.lower() != name.lower()]
        if value is not None:
            self.fields.append((name, str(value)))

    def encode(self):
        return "\r\n".join([self.first, *(f"{k}: {v}" for k, v in self.fields), "", ""]).encode("latin-1")


async def read_head(reader):
    text = await reader.readuntil(b"\r\n\r\n")
    first, *lines = text.decode("latin-1")[:-4].split("\r\n")
    return Head(first, [tuple(part.strip() for part in line.split(":", 1)) for line in lines])


class Over(Exception):
    """The connection must not be used any more."""


class FaultProxy(threading.Thread):
    def __init__(self, to, latency=0.0, bandwidth=0.0, raw=False, seed=1, faults=(),
                 address="127.0.0.1"):
        super().__init__(daemon=True)
        self.to, self.latency, self.bandwidth, self.raw = to, latency, bandwidth, raw
        self.random = random.Random(seed)
        self.faults = list(faults)
        self.requests = []  # (method, path, Head)
        self.connections = 0
        self.sent = 0  # bytes of bodies, or with raw of everything
        self.free_at = 0.0  # when the line can take the next bytes
        self.socket = socket.create_server((address, 0), backlog=512)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.loop = asyncio.new_event_loop()

    def plan(self, *faults):
        """Replaces the faults and forgets the requests."""
        self.faults, self.requests, self.connections = list(faults), [], 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()
        self.socket.close()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda *_: None)
        self.loop.run_until_complete(asyncio.start_server(self.serve, sock=self.socket, limit=1 << 20))
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    # --- Connections -------------------------------------------------------------------------

    async def serve(self, reader, writer):
        self.connections += 1
        up = None
        try:
            await asyncio.sleep(self.latency)  # of the connection itself
            up = await asyncio.open_connection("127.0.0.1", self.to, limit=1 << 20)
            if self.raw:
                await asyncio.gather(self.forward(reader, up[1]), self.forward(up[0], writer))
            while not self.raw:
                await self.exchange(reader, writer, *up)
        except (Over, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            for end in (writer, *(up[1:] if up else ())):
                end.close()

    async def wait_turn(self, size):
        """Until the line, which all connections share, has sent that many bytes."""
        self.sent += size
        if self.bandwidth:
            now = self.loop.time()
            self.free_at = max(self.free_at, now) + size / self.bandwidth
            if self.free_at - now > 0.001:
                await asyncio.sleep(self.free_at - now)

    async def forward(self, reader, writer):
        """Bytes in one direction, each half of the latency later."""
        queue = asyncio.Queue(1024)

        async def send():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0, due - self.loop.time()))
                if not data:
                    return writer.close()
                await self.wait_turn(len(data))
                writer.write(data)
                await writer.drain()

        sender = asyncio.ensure_future(send())
        data = b"-"
        while data and not sender.done():
            data = await reader.read(PIECE)
            await queue.put((self.loop.time() + self.latency / 2, data))
        await sender

    # --- Requests ----------------------------------------------------------------------------

    def choose(self, path, request):
        lines = "\n".join(f"{k}: {v}" for k, v in request.fields)
        for fault in self.faults:
            if fault.path not in path or fault.times == 0 or (fault.unless and fault.unless in lines):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if self.random.random() >= fault.chance:
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return Fault("none")

    async def exchange(self, reader, writer, up_reader, up_writer):
        request = await read_head(reader)
        method, path, _ = request.first.split(" ")
        body = await reader.readexactly(int(request.get("Content-Length") or 0))
        self.requests.append((method, path, Head(request.first, list(request.fields))))
        fault = self.choose(path, request)
        if self.latency:
            await asyncio.sleep(self.latency)
        await self.instead(fault, method, writer)
        if fault.name == "whole":
            request.put("Range", None)
        if fault.name in ("shifted", "shorter"):
            first, last = map(int, request.get("Range")[6:].split("-"))
            request.put("Range", f"bytes={first + (fault.name == 'shifted')}-"
                                 f"{last - (fault.name == 'shorter')}")
        if fault.name == "swap":
            request.first = f"{method} {fault.to} HTTP/1.1"
        if fault.name != "none":
            request.put("If-Match", None)  # the store itself must not notice
        up_writer.write(request.encode() + body)
        head = await read_head(up_reader)
        size = int(head.get("Content-Length") or 0)
        if method == "HEAD":
            size = 0
        if fault.name != "none" and size <= 16 << 20:
            data = await up_reader.readexactly(size)
            return await self.spoil(fault, head, data, reader, writer)
        writer.write(head.encode())
        while size:
            piece = await up_reader.read(min(size, PIECE))
            if not piece:
                raise Over
            size -= len(piece)
            await self.wait_turn(len(piece))
            writer.write(piece)
            await writer.drain()
        if (head.get("Connection") or "").lower() == "close":
            raise Over

    async def instead(self, fault, method, writer):
        """Faults that do not need the real response."""
        if fault.name == "hangup":
            raise Over
        if fault.name == "garbage":
            writer.write(b"\x00\x01 this is not HTTP\r\n" * 10)
            raise Over
        if fault.name == "headers":
            writer.write(b"HTTP/1.1 206 X\r\n")
            for i in range(100_000):
                writer.write(b"X-%d: %s\r\n" % (i, b"x" * 100))
                await writer.drain()
            raise Over
        if fault.name == "redirect":
            writer.write(Head("HTTP/1.1 302 X", [("Location", fault.to), ("Content-Length", "0"),
                                                  ("Connection", "close")]).encode())
            await writer.drain()
            raise Over
        if fault.name in ("busy", "status"):
            body = (f"<Error><Code>{fault.code}</Code><Message>Please wait.</Message></Error>").encode()
            head = Head(f"HTTP/1.1 {fault.status} X", [("Content-Length", str(len(body))), ("Connection", "close")])
            head.put("Retry-After", fault.retry_after)
            writer.write(head.encode() + (b"" if method == "HEAD" else body))
            await writer.drain()
            raise Over  # the real response is not read

    async def spoil(self, fault, head, data, reader, writer):
        name = fault.name
        if name == "nameless" or fault.nameless:
            head.put("ETag", None)
            head.put("Last-Modified", None)
        if name == "unranged":
            head.put("Content-Range", None)
        elif name == "total":
            part, total = head.get("Content-Range").split("/")
            head.put("Content-Range", f"{part}/{int(total) + 1}")
        elif name == "etag":
            head.put("ETag", '"another"')
        elif name == "date":
            head.put("ETag", None)
            head.put("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT")
        elif name in ("long", "short"):
            head.put("Content-Length", len(data) + (1 if name == "long" else -1))
        elif name == "gzip":
            data = gzip.compress(data)
            head.put("Content-Encoding", "gzip")
            head.put("Content-Length", len(data))
        elif name == "flip" and data:
            data = bytearray(data)
            data[self.random.randrange(len(data))] ^= 1
        elif name in ("chunked", "extra"):
            head.put("Content-Length", None)
            head.put("Transfer-Encoding", "chunked")
            data = data[:fault.after or None] + (b"!" if name == "extra" else b"")
            data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        writer.write(head.encode())
        await self.send_body(fault, data, writer)
        if name == "stall":
            await reader.read(1)  # until the client gives up
        if name in ("cut", "reset", "stall", "long", "short", "whole"):
            raise Over

    async def send_body(self, fault, data, writer):
        if fault.name == "drip":
            step = max(1, fault.after // 10)
            for at in range(0, len(data), step):
                writer.write(data[at:at + step])
                await writer.drain()
                await asyncio.sleep(0.1)
            return
        if fault.name in ("cut", "reset", "stall"):
            data = data[:fault.after]
        await self.wait_turn(len(data))
        writer.write(data)
        await writer.drain()
        if fault.name == "reset":
            writer.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--to", type=int, required=True)
    parser.add_argument("--latency", type=float, default=0)
    parser.add_argument("--bandwidth", type=float, default=0)
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("faults", nargs="*", type=parse_fault)
    args = parser.parse_args()
    with FaultProxy(args.to, args.latency, args.bandwidth, args.raw, args.seed, args.faults) as proxy:
        print(proxy.port, flush=True)
        for _ in sys.stdin:
            print(proxy.sent, len(proxy.requests), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
