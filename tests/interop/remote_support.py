"""Shared by the tests of remote folds: shards, a store that counts requests, and the command."""
import collections
import email.utils
import hashlib
import http.server
import io
import os
import pathlib
import random
import subprocess
import tarfile
import threading
import urllib.parse

from url_support import HANG, ROOT, Outcome, environment

TARN = os.path.abspath(os.environ.get("TARN", ROOT / "build-plain/tarn"))
WHEN = 1_700_000_000  # whole seconds, as in Last-Modified


def tarn(*args, env=None):
    done = subprocess.run([TARN, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, env=environment(env), timeout=HANG)
    outcome = Outcome(done)
    outcome.out = outcome.out.decode(errors="surrogateescape")
    if "Sanitizer" in outcome.err:
        outcome.code = 99
    return outcome


def make_shards(folder, fold="train", shards=3, samples=4, size=2000, seed=1):
    """Shards whose samples have a jpg and a cls."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    noise = random.Random(seed)
    for shard in range(shards):
        path = folder / f"{fold}-{shard:04d}.tar"
        with tarfile.open(path, "w") as archive:
            for k in range(samples):
                for field, data in (("jpg", noise.randbytes(size)), ("cls", str(k % 10).encode())):
                    member = tarfile.TarInfo(f"{fold}{shard:04d}_{k:03d}.{field}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        os.utime(path, (WHEN, WHEN))
    return folder


Request = collections.namedtuple("Request", "method path status headers")


class Store(http.server.ThreadingHTTPServer):
    """Objects in memory, with ETags, dates, conditions and ranges. It counts requests."""
    daemon_threads = True
    request_queue_size = 128  # connections come all at once

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.log = {}, []
        self.etags = self.dates = True
        self.refusal = 405  # the status of uploads
        self.before = None  # called with the path before each response
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def put_folder(self, folder, prefix="/birds/"):
        for path in sorted(pathlib.Path(folder).iterdir()):
            if path.is_file():
                self.objects[prefix + path.name] = path.read_bytes()

    def taken(self):
        """The requests since the last call."""
        log, self.log = self.log, []
        return log


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_PUT(self):
        self.send_error(self.server.refusal)
        self.close_connection = True

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        if self.server.before:
            self.server.before(path)
        data = self.server.objects.get(path.split("?")[0])
        if data is None:
            return self.answer(404, b"no such object")
        tag = '"' + hashlib.md5(data).hexdigest() + '"'
        headers = {}
        if self.server.etags:
            headers["ETag"] = tag
        if self.server.dates:
            headers["Last-Modified"] = email.utils.formatdate(WHEN, usegmt=True)
        if self.server.etags and self.headers.get("If-None-Match") == tag:
            return self.answer(304, b"", headers)
        if self.server.dates and self.headers.get("If-Modified-Since") == headers["Last-Modified"]:
            return self.answer(304, b"", headers)
        wanted = self.headers.get("Range")
        if not wanted:
            return self.answer(200, data, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last or len(data) - 1), len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return self.answer(206, data[first:last + 1], headers)

    do_HEAD = do_GET

    def answer(self, status, body, headers=()):
        self.server.log.append(Request(self.command, self.path, status, dict(self.headers)))
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)
