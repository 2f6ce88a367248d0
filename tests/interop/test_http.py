#!/usr/bin/env python3
"""Sources and sinks over HTTP: the real nginx, and a faulty server.

The second one cuts connections, stalls, sends wrong lengths, changes objects while they are read
and redirects to forbidden places; each fault has its path.
"""
import gzip
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

from url_support import (FAST, HANG, Nginx, SANITIZED, SLOW, SLOW_PIECES, Tap, URLCAT, bad, environment,
                         expect, good, noise, peak_memory, read, urlcat, write)

DATA = noise(300_000)
STREAM = noise(9 << 20)  # more than is sent in one piece


class Faulty(threading.Thread):
    """One response per connection. A handler gets the rest of the path, the request and the number
    of requests for that path so far."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen, self.requests, self.stored = {}, [], {}
        self.lock = threading.Lock()
        self.answered = threading.Event()

    def run(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                self.answer(connection)
            except OSError:
                pass

    def answer(self, connection):
        text = b""
        while b"\r\n\r\n" not in text:
            piece = connection.recv(65536)
            if not piece:
                return
            text += piece
        head, body = text.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
        with self.lock:
            count = self.seen[(method, path)] = self.seen.get((method, path), 0) + 1
            self.requests.append((method, path, headers))
        name = path.split("?")[0].strip("/").split("/")[0].replace("-", "_")
        getattr(self, "do_" + name)(Exchange(self, connection, method, path, headers, body, count))

    def times(self, path, method="GET"):
        return self.seen.get((method, path), 0)


class Exchange:
    def __init__(self, server, connection, method, path, headers, body, count):
        self.server, self.connection = server, connection
        self.method, self.path, self.headers = method, path, headers
        self.body, self.count = body, count
        wanted = headers.get("range", "")
        self.first = int(wanted[6:-1]) if wanted.startswith("bytes=") else 0
        self.ranged = bool(wanted)

    def send(self, status, body=b"", **more):
        """The headers and the available part of the body; the length may be wrong."""
        fields = {"Content-Length": len(body)} | {k.replace("_", "-"): v for k, v in more.items()}
        lines = [f"HTTP/1.1 {status} X"] + [f"{k}: {v}" for k, v in fields.items()
                                            if v is not None]
        self.connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    def send_part(self, data, limit=None, tag='"v1"', total=None, **more):
        """The requested range of data, cut after limit bytes."""
        total = len(data) if total is None else total
        rest = data[self.first:]
        told = len(rest) + total - len(data)
        fields = {"Content_Length": told, "ETag": tag, **more}
        if self.ranged:
            fields["Content_Range"] = f"bytes {self.first}-{total - 1}/{total}"
        self.send(206 if self.ranged else 200, b"", **fields)
        self.connection.sendall(rest if limit is None else rest[:limit])

    def read_body(self):
        size = int(self.headers["content-length"])
        while len(self.body) < size:
            self.body += self.connection.recv(65536)
        return self.body

    def hold(self):
        """Does nothing until the client disconnects."""
        poll = select.poll()
        poll.register(self.connection, select.POLLRDHUP)
        poll.poll()


# --- Faults, one path each ----------------------------------------------------------------


def do_cut(x):
    x.send_part(DATA, limit=100_000)


def do_cut_always(x):
    x.send_part(DATA, limit=1000)


def do_cut_dated(x):
    x.send_part(DATA, limit=160_000, tag=None, Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")


def do_cut_nameless(x):
    x.send_part(DATA, limit=100_000, tag=None)


def do_cut_weak(x):
    x.send_part(DATA, limit=100_000, tag='W/"v1"')


def do_changed(x):
    """Supports If-Range: a new version is sent completely."""
    if x.count == 1:
        x.send_part(DATA, limit=100_000)
    else:
        x.send(200, DATA[::-1], ETag='"v2"')


def do_changed_range(x):
    x.send_part(DATA, limit=100_000 if x.count == 1 else None, tag=f'"v{x.count}"')


def do_changed_size(x):
    x.send_part(DATA if x.count == 1 else DATA + b"more", limit=100_000 if x.count == 1 else None)


def do_no_ranges(x):
    x.send(200, DATA if x.count > 1 else DATA[:100_000], Content_Length=len(DATA), ETag='"v1"')


def do_wrong_range(x):
    if x.count == 1:
        return x.send_part(DATA, limit=100_000)
    return x.send(206, DATA[5:], Content_Range=f"bytes 5-{len(DATA) - 1}/{len(DATA)}", ETag='"v1"')


def do_liar(x):
    if x.first >= len(DATA):
        return x.send(416, Content_Range=f"bytes */{len(DATA)}")
    return x.send_part(DATA, total=len(DATA) + 10)


def do_short_liar(x):
    """States a smaller length than it sends."""
    x.send(200, DATA, Content_Length=1000, ETag='"v1"')


def do_stall(x):
    x.send_part(DATA, limit=100_000)
    if x.count == 1:
        x.hold()


def do_stall_always(x):
    x.send_part(DATA, limit=0)
    x.hold()


def do_silent(x):
    x.hold()


def do_chunked_cut(x):
    piece = DATA[x.first:]
    if x.ranged:
        return x.send_part(DATA)
    x.send(200, b"", Content_Length=None, Transfer_Encoding="chunked", ETag='"v1"')
    return x.connection.sendall(b"%x\r\n" % len(piece) + piece[:50_000])


def do_chunked_capped(x):
    """No length at first, and then never all of the requested bytes."""
    if not x.ranged:
        return do_chunked_cut(x)
    rest = DATA[x.first:x.first + 100_000]
    return x.send(206, rest, ETag='"v1"',
                  Content_Range=f"bytes {x.first}-{x.first + len(rest) - 1}/{len(DATA)}")


def do_chunked_shrunk(x):
    """No length, no ranges, and an end before a byte that was already read."""
    if not x.ranged:
        return do_chunked_cut(x)
    x.send(200, b"", Content_Length=None, Transfer_Encoding="chunked", ETag='"v1"')
    return x.connection.sendall(b"3e8\r\n" + DATA[:1000] + b"\r\n0\r\n\r\n")


def do_chunked(x):
    x.send(200, b"", Content_Length=None, Transfer_Encoding="chunked")
    for at in range(0, len(DATA), 70_000):
        piece = DATA[at:at + 70_000]
        x.connection.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
    x.connection.sendall(b"0\r\n\r\n")


def do_until_closed(x):
    x.send(200, DATA, Content_Length=None)


def do_busy(x):
    x.send(503 if x.count <= 2 else 200, b"busy" if x.count <= 2 else DATA, ETag='"v1"')


def do_broken(x):
    x.send(500, b"<Error><Code>InternalError</Code><Message>out of order</Message></Error>")


def do_forbidden(x):
    x.send(403, b"<Error><Code>Nope</Code><Message>not\x1b[31m you</Message></Error>")


def do_endless_error(x):
    x.send(404, b"", Content_Length=None)
    while True:
        x.connection.sendall(b"no" * 30_000)


def do_to_file(x):
    x.send(302, Location="file:///etc/hostname")


def do_to_ftp(x):
    x.send(302, Location="ftp://127.0.0.1/x")


def do_to_gopher(x):
    x.send(302, Location="gopher://127.0.0.1:1/x")


def do_to_metadata(x):
    """The address where clouds keep credentials."""
    x.send(302, Location="http://169.254.169.254/latest/meta-data/")


def do_to_metadata_v6(x):
    x.send(302, Location="http://[fe80::1%25lo]:80/")


def do_to(x):
    """Anywhere."""
    x.send(302, Location=x.path.removeprefix("/to/"))


def do_long_line(x):
    x.connection.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000)
    x.hold()


def do_no_http(x):
    x.connection.sendall(b"hello there, this is something else\n" * 10)


def do_no_line(x):
    x.connection.sendall(b"x" * 300_000)
    x.hold()


def do_endless_headers(x):
    x.connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        x.connection.sendall(b"".join(b"X-%d: %s\r\n" % (i, b"x" * 1000) for i in range(50)))


def do_endless_continue(x):
    while True:
        x.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def do_dripping(x):
    """A byte each tenth of a second, for ever."""
    x.send(200, b"", Content_Length=None, ETag='"v1"')
    while True:
        x.connection.sendall(b"x")
        time.sleep(0.1)


def do_dripping_headers(x):
    x.connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        x.connection.sendall(b"X: x\r\n")
        time.sleep(0.1)


def do_put_talkative(x):
    """An answer to a write that never ends."""
    if x.method == "HEAD":
        return x.send(404)
    while not x.body.endswith(b"\r\n0\r\n\r\n") and len(x.body) != int(x.headers.get("content-length", -1)):
        x.body += x.connection.recv(65536)
    x.send(200 if x.path.endswith("good") else 403, b"", Content_Length=None)
    while True:
        x.connection.sendall(b"x" * 10_000)


def do_reset(x):
    """Resets the connection in the middle, which can discard data that was not yet read."""
    if x.count > 2:
        return x.send_part(DATA)
    x.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return x.send_part(DATA, limit=100_000)


def do_gzip_body(x):
    """Compressed without a request for it."""
    expect("accept-encoding" not in x.headers or x.headers["accept-encoding"] == "identity",
           x.headers)
    x.send(200, gzip.compress(DATA), Content_Encoding="gzip", ETag='"v1"')


def do_endless(x):
    x.send(200, b"", Content_Length=None)
    while True:
        x.connection.sendall(bytes(100_000))


def do_slow(x):
    """A little at a time, never long enough apart to count as stalled."""
    x.send(200, b"", Content_Length=2 * SLOW_PIECES)
    for _ in range(SLOW_PIECES):
        time.sleep(1)
        x.connection.sendall(b"ab")


def do_loop(x):
    x.send(302, Location="/loop")


def do_hop(x):
    x.send(302, Location=f"http://localhost:{x.server.port}/secure")


def do_secure(x):
    x.send(200, DATA, Who=x.headers.get("authorization", "nobody"))


def do_big(x):
    size = 200 << 20
    x.send(200, b"", Content_Length=size)
    block = bytes(1 << 20)
    for _ in range(size // len(block)):
        x.connection.sendall(block)


def do_bomb(x):
    """Half a GB of zeros in half a MB, otherwise correct."""
    x.send(200, BOMB)


def do_put_busy(x):
    if x.method == "HEAD":
        return x.send(404, Content_Length=0)
    x.server.stored[x.path] = x.read_body()
    return x.send(503 if x.count == 1 else 201)


def do_put_refused(x):
    if x.method == "HEAD":
        return x.send(404)
    x.read_body()
    return x.send(403)


def do_put_early(x):
    """Responds before the stream has arrived."""
    return x.send(404 if x.method == "HEAD" else 413)


def do_put_half(x):
    """Confirms data that it has not read and that does not fit into buffers on the way."""
    if x.method == "HEAD":
        return x.send(404)
    x.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    while len(x.body) < 1 << 20:
        x.body += x.connection.recv(65536)
    x.send(201, Connection="close")
    return x.hold()


def do_put_endless(x):
    """Confirms a stream that has not ended."""
    if x.method == "HEAD":
        return x.send(404)
    while len(x.body) < len(STREAM) - (64 << 10):  # libcurl keeps as much back
        x.body += x.connection.recv(65536)
    x.send(201, Connection="close")
    x.server.answered.set()
    return x.hold()


def do_put_taken(x):
    """Created after the check that found nothing."""
    if x.method == "HEAD":
        return x.send(404)
    x.read_body()
    return x.send(412 if x.headers.get("if-none-match") == "*" else 201)


for name, value in list(globals().items()):
    if name.startswith("do_"):
        setattr(Faulty, name, staticmethod(value))

BOMB = b""


def make_bomb():
    return gzip.compress(bytes(64 << 20), 9) * 8


# --- Checks --------------------------------------------------------------------------------


def nginx_checks(n):
    big = noise(20 << 20, 2)
    (n.www / "big.bin").write_bytes(big)
    (n.www / "small.txt").write_bytes(b"small")
    (n.www / "empty").write_bytes(b"")
    (n.www / "a b%c#d?e.txt").write_bytes(b"odd")
    (n.www / "x.tar.gz").write_bytes(gzip.compress(DATA))

    def reads():
        """nginx: files of all sizes are read unchanged"""
        good(read(n.url + "/big.bin"), big)
        good(read(n.url + "/big.bin", "piece=1000"), big)
        good(read(n.url + "/small.txt"), b"small")
        good(read(n.url + "/empty"), b"")
        good(read(n.url + "/a%20b%25c%23d%3Fe.txt"), b"odd")
        good(read(n.url + "/x.tar.gz"), DATA)
        good(read(n.url + "/x.tar.gz?version=3#part"), DATA)

    def missing():
        """nginx: a missing object is not found, with or without credentials"""
        bad(read(n.url + "/missing"), "no-file", "status 404")
        bad(read(n.url + "/moved/missing"), "no-file")

    def redirects():
        """nginx: redirects to http are followed"""
        good(read(n.url + "/moved/small.txt"), b"small")

    def writes():
        """nginx: a written object exists, small or streamed"""
        for size in (0, 1, 5000, 8 << 20, (8 << 20) + 1, 20 << 20):
            data = noise(size, size)
            good(write(f"{n.url}/put/{size}.bin", data))
            expect((n.www / f"put/{size}.bin").read_bytes() == data, "stored bytes of", size)
        good(write(n.url + "/put/x.gz", DATA))
        expect(gzip.decompress((n.www / "put/x.gz").read_bytes()) == DATA, "gzip by suffix")

    def keeps():
        """nginx: an existing object is kept unless overwriting is requested"""
        (n.www / "kept").write_bytes(b"old")
        os.chmod(n.www / "kept", 0o666)
        bad(write(n.url + "/kept", b"new"), "exists")
        expect((n.www / "kept").read_bytes() == b"old", "was replaced")
        good(write(n.url + "/kept", b"new", "overwrite=1"))
        expect((n.www / "kept").read_bytes() == b"new", "was not replaced")

    def abandons():
        """nginx: an abandoned object does not exist, small or streamed"""
        for size in (1000, 20 << 20):
            good(urlcat("abandon", f"{n.url}/gone{size}", data=noise(size)))
            expect(not (n.www / f"gone{size}").exists(), "is there")

    def tls():
        """nginx: TLS is verified with the given authorities"""
        url = f"https://localhost:{n.tls_port}/small.txt"
        bad(read(url), "io:", "certificate")
        good(read(url, env={"CURL_CA_BUNDLE": str(n.root / "cert.pem")}), b"small")
        good(read(url, env={"SSL_CERT_FILE": str(n.root / "cert.pem")}), b"small")
        bad(read(f"https://localhost:{n.tls_port}/plain/small.txt",
                 env={"CURL_CA_BUNDLE": str(n.root / "cert.pem")}), "unsupported",
            "from https to http")
        bad(read(f"https://localhost:{n.old_port}/small.txt",
                 env={"CURL_CA_BUNDLE": str(n.root / "old.pem")}), "io:", "expired")
        bad(read(f"https://127.0.0.1:{n.tls_port}/small.txt",
                 env={"CURL_CA_BUNDLE": str(n.root / "cert.pem")}), "io:", "127.0.0.1")

    return [reads, missing, redirects, writes, keeps, abandons, tls]


def resume_checks(f):
    def resumes():
        """a lost connection is resumed at the failed byte"""
        good(read(f.url + "/cut"), DATA)
        ranges = [h.get("range") for m, p, h in f.requests if p == "/cut"]
        expect(ranges == [None, "bytes=100000-", "bytes=200000-"], ranges)
        conditions = {h.get("if-range") for m, p, h in f.requests if p == "/cut" and "range" in h}
        expect(conditions == {'"v1"'}, conditions)
        good(read(f.url + "/cut-dated"), DATA)
        good(read(f.url + "/reset"), DATA)

    def gives_up():
        """attempts are bounded, and the error gives the offset"""
        bad(read(f.url + "/cut-always"), "io:", "offset 4000")
        expect(f.times("/cut-always") == 4, f.times("/cut-always"))
        bad(read(f.url + "/cut-always", "retries=0"), "offset 1000")

    def nameless():
        """without a version of the object, reading does not continue"""
        bad(read(f.url + "/cut-nameless"), "offset 100000", "cannot resume")
        bad(read(f.url + "/cut-weak"), "offset 100000", "cannot resume")
        expect(f.times("/cut-nameless") == 1, f.times("/cut-nameless"))

    def changed():
        """an object that changed during reading is an error"""
        for path in ("/changed", "/changed-range", "/changed-size"):
            bad(read(f.url + path), "stale", "changed while it was read")

    def ranges():
        """a server without ranges is read again from the beginning"""
        good(read(f.url + "/no-ranges"), DATA)
        bad(read(f.url + "/wrong-range"), "stale")

    def lengths():
        """a wrong length is an error, never an end"""
        bad(read(f.url + "/liar"), "offset 300000")
        good(read(f.url + "/short-liar"), DATA[:1000])
        good(read(f.url + "/chunked-cut"), DATA)
        good(read(f.url + "/chunked"), DATA)
        good(read(f.url + "/until-closed"), DATA)
        good(read(f.url + "/chunked-capped"), DATA)
        bad(read(f.url + "/chunked-shrunk"), "stale", "changed while it was read")

    def stalls():
        """a stalled server is given up after the given time"""
        good(read(f.url + "/stall", "stall_seconds=1", "retries=30"), DATA)
        for path in ("/stall-always", "/silent"):
            bad(read(f.url + path, "retries=0", "stall_seconds=1"), "io:", "for 1 s (stall_seconds)")

    def statuses():
        """temporary statuses are retried, others are reported"""
        good(read(f.url + "/busy"), DATA)
        bad(read(f.url + "/broken", "retries=1"), "status 500", "InternalError: out of order")
        expect(f.times("/broken") == 2, f.times("/broken"))
        bad(read(f.url + "/forbidden"), "status 403", "Nope: not\\x1b[31m you")
        expect(f.times("/forbidden") == 1, f.times("/forbidden"))
        bad(read(f.url + "/endless-error"), "no-file", "status 404")

    return [resumes, gives_up, nameless, changed, ranges, lengths, stalls, statuses]


def safety_checks(f):
    def redirects():
        """redirects away from http and https are not followed"""
        for path in ("/to-file", "/to-ftp", "/to-gopher"):
            bad(read(f.url + path), "unsupported", "neither http nor https")
        bad(read(f.url + "/loop"), "unsupported", "more than 10 redirects")
        for path in ("/to-metadata", "/to-metadata-v6"):
            bad(read(f.url + path), "unsupported", "link-local address")
        for host in ("0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518",
                     "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]",
                     "[2002:a9fe:a9fe::1]", "[fd00:ec2::254]", "[fe80::1]"):
            bad(read(f"{f.url}/to/http://{host}/x", "retries=0"), "unsupported", "link-local address")
        port = f.url.rpartition(":")[2]
        for host in ("localhost", "127.0.0.1", "2130706433", "0x7f.1"):
            good(read(f"{f.url}/to/http://{host}:{port}/secure"), DATA)

    def endless():
        """a body without an end stops at the limit, and a slow one is read completely"""
        bad(read(f.url + "/endless", "max_size=1000000"), "limit")
        code, peak = peak_memory("read", "max_size=300000000", f.url + "/endless")
        expect(code == 1 and (SANITIZED or peak < 32), code, peak)
        good(read(f.url + "/slow", SLOW, "min_speed=1"), b"ab" * SLOW_PIECES)

    def limits():
        """endless or odd headers, slow servers and endless answers end with a clear error"""
        bad(read(f.url + "/long-line"), "limit", "/long-line", "header of the response is too long")
        # libcurl reports what it notices first, which depends on how the data arrive.
        long = read(f.url + "/no-line")
        bad(long, "/no-line", "too long" if "too long" in str(long) else "does not speak HTTP")
        bad(read(f.url + "/no-http"), "format", "/no-http", "does not speak HTTP")
        for path in ("/endless-headers", "/endless-continue"):
            bad(read(f.url + path), "limit", "more than 262144 bytes")
        for path in ("/dripping", "/dripping-headers"):
            bad(read(f.url + path, "retries=0", "stall_seconds=1", "min_speed=100"), "io:",
                "less than 100 bytes/s for 1 s (min_speed, stall_seconds)")
        for size in (4, 9 << 20):
            bad(write(f.url + "/put-talkative/good", bytes(size)), "limit", "more than 65535 bytes")
            bad(write(f.url + "/put-talkative", bytes(size)), "status 403")

    def encoded():
        """a body that is compressed without a request gives its bytes"""
        good(read(f.url + "/gzip-body"), DATA)

    def secrets():
        """no password or signature is shown or sent elsewhere"""
        at = f.url.removeprefix("http://")
        outcome = read(f"http://user:hunter2@{at}/forbidden?X-Amz-Signature=hunter2")
        bad(outcome, "status 403", at + "/forbidden?...")
        expect("hunter2" not in outcome.err and "user" not in outcome.err, outcome)
        good(read(f"http://user:hunter2@{at}/secure"), DATA)
        expect(f.requests[-1][2]["authorization"] == "Basic dXNlcjpodW50ZXIy", f.requests[-1])
        good(read(f"http://user:hunter2@{at}/hop"), DATA)
        expect("authorization" not in f.requests[-1][2], f.requests[-1])

    def refused():
        """a port without a listener is an error"""
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            bad(read(f"http://127.0.0.1:{silent.getsockname()[1]}/x", "retries=1"), "io:", "connect")
        bad(read("http://host.invalid/x", "retries=0"), "io:", "host.invalid")
        bad(read("http://", "retries=0"))
        bad(read("http://bad host/", "retries=0"), "usage")

    def memory():
        """200 MB pass through in little memory"""
        code, peak = peak_memory("read", f.url + "/big")
        expect(code == 0 and (SANITIZED or peak < 32), code, peak)

    def bombs():
        """data that expands too much is refused in little memory"""
        global BOMB
        BOMB = make_bomb()
        bad(read(f.url + "/bomb", "max_expansion=100"), "limit", "max_expansion (100)")
        code, peak = peak_memory("read", "max_expansion=100", f.url + "/bomb")
        expect(code == 1 and (SANITIZED or peak < 32), code, peak)
        code, peak = peak_memory("read", "max_expansion=2000", f.url + "/bomb")
        expect(code == 0 and (SANITIZED or peak < 32), code, peak)

    def puts():
        """a write is retried where possible, and its failures are reported"""
        good(write(f.url + "/put-busy", b"data"))
        expect(f.stored["/put-busy"] == b"data" and f.times("/put-busy", "PUT") == 2, f.seen)
        bad(write(f.url + "/put-refused", b"data"), "status 403")
        bad(write(f.url + "/put-early", noise(30 << 20)), "put-early")
        bad(write(f.url + "/put-taken", b"data"), "exists", "status 412")
        good(write(f.url + "/put-taken", b"data", "overwrite=1"))

    def early():
        """a confirmation before all data is sent does not count"""
        bad(write(f.url + "/put-half", noise(8 << 20)), "before it had received all data")
        f.answered.clear()
        with subprocess.Popen([URLCAT, "write", *FAST, f.url + "/put-endless"],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment()) as child:
            child.stdin.write(STREAM)
            child.stdin.flush()
            expect(f.answered.wait(HANG), "the stream did not arrive")
            child.stdin.close()
            text = child.stderr.read().decode()
            expect(child.wait() == 1 and "before it had received all data" in text, text)

    return [redirects, endless, limits, encoded, secrets, refused, memory, bombs, puts, early]


def main():
    tap = Tap()
    with Nginx() as nginx:
        tap.run(nginx_checks(nginx))
    faulty = Faulty()
    faulty.start()
    tap.run(resume_checks(faulty) + safety_checks(faulty))
    return tap.end()


sys.exit(main())
