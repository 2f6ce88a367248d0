#!/usr/bin/env python3
"""Ranges of remote objects: the real nginx, plain, with TLS and with HTTP/2, a server without
ranges, and a proxy that loses connections and sends wrong responses.

Every fault ends in the right bytes or in an error that names the URL and the range.
"""
import concurrent.futures
import contextlib
import http.server
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import threading

from fault_proxy import Fault, FaultProxy
from url_support import HANG, Nginx, Outcome, Tap, URLCAT, bad, environment, expect, good, noise

TOOL = URLCAT.replace("urlcat", "fetch_tool")
DATA = noise(3_000_000)
SMALL = noise(5000, 2)
FAST = ["retries=3", f"stall_seconds={HANG}", f"connect_seconds={HANG}"]
AT, SIZE = 100_000, 200_000
PIECE = f"{AT}+{SIZE}"
NAMED = f"(bytes {AT}-{AT + SIZE - 1} were requested)"


def fetch(url, *more, options=(), env=None, before=None):
    done = subprocess.run([TOOL, *FAST, *options, url, *more], input=b"", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(env), timeout=HANG, preexec_fn=before)
    if "Sanitizer" in done.stderr.decode("utf-8", "replace"):
        sys.stdout.write("# " + done.stderr.decode("utf-8", "replace").replace("\n", "\n# "))
        done.returncode = 99
    return Outcome(done)


def stats(outcome):
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", outcome.err.splitlines()[-1])}


def pieces(size, total):
    return [f"{at}+{min(size, total - at)}" for at in range(0, total, size)]


# --- nginx --------------------------------------------------------------------------------


def nginx_checks(nginx):
    ca = {"CURL_CA_BUNDLE": str(nginx.root / "cert.pem")}
    tls = f"https://localhost:{nginx.tls_port}"
    for name, data in (("x", DATA), ("small", SMALL), ("empty", b"")):
        (nginx.www / name).write_bytes(data)
    tag = f'"{int((nginx.www / "x").stat().st_mtime):x}-{len(DATA):x}"'

    def identity():
        """the identity is the size, the ETag and the date, also of an empty object"""
        expect(f"{len(DATA)} {tag} ".encode() in fetch(nginx.url + "/x").out, fetch(nginx.url + "/x"))
        expect(fetch(nginx.url + "/empty").out.startswith(b"0 "), fetch(nginx.url + "/empty"))
        bad(fetch(nginx.url + "/nope"), "no-file: ", nginx.url + "/nope", "404")

    def shared():
        """threads that ask for the identity at once share one request"""
        outcome = fetch(nginx.url + "/x", options=["threads=8", "stats=1"])
        good(outcome)
        expect(stats(outcome)["requests"] == 1, outcome)

    def many():
        """many ranges come over few connections, in one pass and in a second one"""
        for options in ([], ["calls=1"]):
            outcome = fetch(nginx.url + "/x", *pieces(10_000, len(DATA)), options=["stats=1", "again=1", *options])
            good(outcome, DATA * 2)
            expect(stats(outcome)["requests"] == 600 and stats(outcome)["connections"] <= 24, outcome)

    def secure():
        """the same over TLS; an unknown or expired certificate is an error"""
        good(fetch(tls + "/x", *pieces(100_000, len(DATA)), env=ca), DATA)
        bad(fetch(tls + "/x", PIECE), "certificate", tls + "/x", NAMED)
        bad(fetch(f"https://localhost:{nginx.old_port}/x", PIECE,
                  env={"CURL_CA_BUNDLE": str(nginx.root / "old.pem")}), "expired", NAMED)

    def second_version():
        """a server with HTTP/2 gets HTTP/2"""
        url = f"https://localhost:{nginx.http2_port}/"
        good(fetch(url + "x", *pieces(10_000, len(DATA)), env=ca), DATA)
        log = (nginx.root / "http2.log").read_text().splitlines()
        expect(len(log) == 300 and set(log) == {"HTTP/2.0"}, log[:3], len(log))

    def redirected():
        """redirects are followed, but not from https to http, and not forever"""
        good(fetch(nginx.url + "/moved/x", PIECE), DATA[AT:AT + SIZE])
        bad(fetch(tls + "/plain/x", PIECE, env=ca), "refused a redirect", tls, NAMED)

    def outside():
        """a range beyond the end, or of an object that is now shorter, is an error"""
        bad(fetch(nginx.url + "/x", f"{len(DATA) - 1}+2"), f"found {len(DATA) - 1}-{len(DATA) - 1}")
        bad(fetch(nginx.url + "/x", f"{len(DATA)}+2"), "stale: ", "no such bytes")
        bad(fetch(nginx.url + "/small", PIECE, options=[f"size={len(DATA)}"]), "stale: ", NAMED)
        bad(fetch(nginx.url + "/x", PIECE, options=["size=7"]), "stale: ", f"found {len(DATA)} bytes, expected 7")

    def replaced():
        """an object with another ETag than the known one is an error"""
        good(fetch(nginx.url + "/x", PIECE, options=[f"etag={tag}"]), DATA[AT:AT + SIZE])
        bad(fetch(nginx.url + "/x", PIECE, options=['etag="other"']), "stale: ", 'no longer has the ETag "other"', NAMED)

    def swapped():
        """an object that is replaced between two ranges is an error"""
        where = nginx.www / "swapped"
        where.write_bytes(DATA)
        with subprocess.Popen([TOOL, *FAST, "pause=1", "again=1", nginx.url + "/swapped", PIECE],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment()) as child:
            child.stdin.write(b"\n")
            child.stdin.flush()
            got = child.stdout.read(SIZE)
            (nginx.www / "new").write_bytes(DATA[::-1] + b"more")
            (nginx.www / "new").rename(where)
            out, err = child.communicate(b"\n", timeout=HANG)
        expect(got == DATA[AT:AT + SIZE] and not out, len(out))
        expect(child.returncode == 1 and b"stale: " in err and NAMED.encode() in err, err)

    def forked():
        """a child of fork fetches for itself, and fetches again what its parent has begun"""
        if b"__asan_init" in pathlib.Path(TOOL).read_bytes():
            return "SKIP the sanitizer's allocator may be locked by another thread during the fork"
        for kind in (1, 2):
            for env, url in ((None, nginx.url), (ca, tls)):
                good(fetch(url + "/x", *pieces(30_000, len(DATA)), options=[f"fork={kind}"], env=env), DATA)
        return None

    def left():
        """the process may end while ranges are fetched"""
        for _ in range(5):
            good(fetch(tls + "/x", *pieces(10_000, len(DATA)), options=["leave=1"], env=ca), b"")

    def idle():
        """the thread ends when nothing is fetched, and starts again"""
        outcome = fetch(nginx.url + "/x", *pieces(100_000, len(DATA)), options=["again=1", "idle=1", "stats=1"])
        good(outcome, DATA * 2)
        expect(16 < stats(outcome)["connections"] <= 48, outcome)

    def few_files():
        """a process that may open few files gets few connections"""
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        outcome = fetch(nginx.url + "/x", *pieces(10_000, len(DATA)), options=["stats=1"], before=limit)
        good(outcome, DATA)
        expect(stats(outcome)["connections"] <= 10, outcome)

    def sessions():
        """further connections continue the TLS session of the first"""
        (nginx.root / "tls.log").write_text("")
        outcome = fetch(tls + "/logged/x", *pieces(4000, len(DATA)),
                        options=["first=" + tls + "/logged/small", "stats=1"], env=ca)
        good(outcome, DATA)
        log = []
        while len(log) < stats(outcome)["requests"]:  # nginx writes a line after it has sent the response
            log = (nginx.root / "tls.log").read_text().split()
        # Some handshakes find no session. Without sharing there would be at most one, of a handle that is used again.
        expect(log.count("r") >= 2, log)

    def cancelled():
        """ranges that are given up are over, and no memory is written after that"""
        outcome = fetch(nginx.url + "/x", *pieces(10_000, len(DATA)), options=["calls=1", "cancel=5"])
        bad(outcome, "cancelled: ", "the request was cancelled (bytes 2990000-2999999 were requested)")
        errors = outcome.err.count("cancelled: ")
        expect(len(outcome.out) == len(DATA) - errors * 10_000 >= 50_000, outcome)

    return [identity, shared, many, secure, second_version, redirected, outside, replaced, swapped, forked, left, idle,
            few_files, sessions, cancelled]


# --- A server without ranges --------------------------------------------------------------


def simple_checks(nginx):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(nginx.www))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"

    def simple():
        """from a server without ranges, small objects are read, and large ones only as a whole"""
        good(fetch(url + "/small", "0+10", "4990+10"), SMALL[:10] + SMALL[-10:])
        good(fetch(url + "/x", f"0+{len(DATA)}"), DATA)
        bad(fetch(url + "/x", PIECE), "unsupported: ", "does not support range requests", url, NAMED)
        expect(fetch(url + "/x").out.startswith(b"3000000 "), fetch(url + "/x"))
        expect(fetch(url + "/empty").out.startswith(b"0 "), fetch(url + "/empty"))

    return [simple]


# --- Faults -------------------------------------------------------------------------------

# What passes, and how often it may happen.
PASSING = [
    Fault("cut", after=0), Fault("cut", after=1), Fault("cut", after=SIZE // 2), Fault("cut", after=SIZE - 1),
    Fault("reset", after=0), Fault("reset", after=SIZE // 2), Fault("hangup"), Fault("busy"),
    Fault("busy", status=429), Fault("status", status=500), Fault("status", status=502),
    Fault("status", status=504), Fault("long"), Fault("chunked", after=1000),
]

# What does not, and what the error says.
STAYING = [
    (Fault("cut", after=1000), "transfer closed"), (Fault("cut", after=0), "transfer closed"),
    (Fault("reset", after=1000), "io: "), (Fault("hangup"), "Empty reply"),
    (Fault("busy"), "status 503 (SlowDown: Please wait.)"), (Fault("status", status=500), "status 500"),
    (Fault("status", status=400, code="Odd"), "status 400 (Odd: Please wait.)"),
    (Fault("status", status=403, code="AccessDenied"), "access is denied (AccessDenied"),
    (Fault("status", status=403, code="RequestTimeTooSkewed"), "RequestTimeTooSkewed"),
    (Fault("status", status=404), "no such object"), (Fault("status", status=412), "no longer has the ETag"),
    (Fault("status", status=416), "the object has no such bytes"), (Fault("status", status=204), "status 204"),
    (Fault("whole"), "does not support range requests"),
    (Fault("shifted"), f"found {AT + 1}-{AT + SIZE - 1}, expected {AT}-{AT + SIZE - 1}"),
    (Fault("shorter"), f"found {AT}-{AT + SIZE - 2}"), (Fault("unranged"), "without a valid Content-Range"),
    (Fault("total"), "found 3000001 bytes, expected 3000000"), (Fault("etag"), 'found the ETag "another"'),
    (Fault("date"), "last modified Mon, 01 Jan 2001"), (Fault("swap", to="/small"), "no such bytes"),
    (Fault("swap", to="/other"), "the object changed"),
    (Fault("short"), "the length of the response does not match its range"),
    (Fault("long"), "the length of the response does not match its range"),
    (Fault("extra"), "more bytes than its range"), (Fault("gzip"), "Content-Encoding: gzip"),
    (Fault("garbage"), "HTTP"), (Fault("headers"), "limit: "),
    (Fault("redirect", to="http://169.254.169.254/x"), "refused a redirect"),
    (Fault("redirect", to="/again"), "more than 10 redirects"), (Fault("redirect", to="file:///etc/passwd"), "redirect"),
    (Fault("chunked", after=1000), "before all bytes had arrived"),
]


def known(nginx):
    """What is known of x, so that each range is one request."""
    size, etag, modified = fetch(nginx.url + "/x").out.decode().strip().split(" ", 2)
    return [f"size={size}", f"etag={etag}", f"modified={modified}"]


@contextlib.contextmanager
def faulty(nginx, *faults, **more):
    with FaultProxy(nginx.port, faults=faults, **more) as proxy:
        yield proxy


def fault_checks(nginx):
    (nginx.www / "other").write_bytes(DATA[::-1] + b"more")
    identity = known(nginx)

    def one(fault, options=(), **more):
        with faulty(nginx, fault, **more) as proxy:
            return proxy, fetch(proxy.url + "/x", PIECE, options=[*identity, *options])

    def each(cases, check):
        """All at once: most of the time is spent on waiting."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for problem in pool.map(check, cases):
                expect(not problem, problem)

    def passing():
        """a fault that passes is noticed by nobody"""
        def check(fault):
            fault = Fault(**{**vars(fault), "times": 2})
            _, outcome = one(fault)
            if fault.name == "long":  # a wrong length is not retried
                return None if outcome.code == 1 else f"{fault}: {outcome}"
            return None if outcome.code == 0 and outcome.out == DATA[AT:AT + SIZE] else f"{fault}: {outcome}"
        each(PASSING, check)

    def staying():
        """a fault that stays is an error that names the URL and the range"""
        def check(case):
            fault, text = case
            proxy, outcome = one(fault, ["retries=1"])
            fine = outcome.code == 1 and text in outcome.err and proxy.url in outcome.err and NAMED in outcome.err
            return None if fine and not outcome.out else f"{fault}: {outcome}"
        each(STAYING, check)

    def continues():
        """a range that was cut continues at the first missing byte"""
        proxy, outcome = one(Fault("cut", after=60_000, times=2))
        good(outcome, DATA[AT:AT + SIZE])
        asked = [head.get("Range") for _, _, head in proxy.requests]
        expect(asked == [f"bytes={at}-{AT + SIZE - 1}" for at in (AT, AT + 60_000, AT + 120_000)], asked)
        expect(all(head.get("If-Match") for _, _, head in proxy.requests), "no If-Match")

    def changes():
        """a cut range is not continued with the bytes of another object"""
        with faulty(nginx, Fault("cut", after=60_000, times=1), Fault("swap", to="/other")) as proxy:
            bad(fetch(proxy.url + "/x", PIECE), "stale: ", NAMED, proxy.url)

    def nameless():
        """without ETag and date, a cut range begins again, because nothing shows that it is the same object"""
        with faulty(nginx, Fault("nameless", times=1), Fault("cut", after=60_000, times=1, nameless=True),
                    Fault("nameless")) as proxy:
            good(fetch(proxy.url + "/x", PIECE, options=["again=1"]), DATA[AT:AT + SIZE] * 2)
            asked = [head.get("Range") for _, _, head in proxy.requests]
        expect(asked == [f"bytes={AT}-{AT + SIZE - 1}"] * 3, asked)

    def stalled():
        """a response that stalls is given up, and one that is too slow"""
        _, outcome = one(Fault("stall", after=1000, times=1), ["stall_seconds=1"])
        good(outcome, DATA[AT:AT + SIZE])
        _, outcome = one(Fault("stall", after=1000), ["stall_seconds=1", "retries=0"])
        bad(outcome, "no data for 1 s (stall_seconds)", NAMED)
        _, outcome = one(Fault("drip", after=5000), ["stall_seconds=1", "min_speed=100000", "retries=0"])
        bad(outcome, "less than 100000 bytes/s", "min_speed", NAMED)

    def storm():
        """a storm of SlowDown is survived with fewer transfers at once"""
        with faulty(nginx, Fault("busy", times=28)) as proxy:
            outcome = fetch(proxy.url + "/x", *pieces(30_000, len(DATA)), options=["retries=20", "stats=1", *identity])
        good(outcome, DATA)
        found = stats(outcome)
        expect(found["slowdowns"] == 28 == found["retries"] and found["limit"] < 16, found)

    def patient():
        """Retry-After is respected"""
        with faulty(nginx, Fault("busy", times=1, retry_after=2), latency=0) as proxy:
            began = os.times().elapsed
            good(fetch(proxy.url + "/x", PIECE, options=identity), DATA[AT:AT + SIZE])
            expect(os.times().elapsed - began >= 2, "too early")

    def mixture():
        """hundreds of ranges arrive through random faults"""
        faults = [Fault(f.name, chance=0.02, after=f.after, status=f.status) for f in PASSING if f.name != "long"]
        with faulty(nginx, *faults, seed=7) as proxy:
            outcome = fetch(proxy.url + "/x", *pieces(10_000, len(DATA)), options=["retries=30", "stats=1", *identity])
        good(outcome, DATA)
        expect(stats(outcome)["retries"] > 30, outcome)

    def ranked():
        """a range with a smaller rank is requested earlier"""
        with faulty(nginx) as proxy:
            good(fetch(proxy.url + "/x", *pieces(10_000, len(DATA)), options=["reverse=1", "most=1", *identity]), DATA)
            asked = [int(re.search(r"\d+", head.get("Range"))[0]) // 10_000 for _, _, head in proxy.requests]
        expect(asked == list(range(299, -1, -1)), asked)

    def stress():
        """threads that fetch, wait and cancel at once, with faults, get the right bytes"""
        faults = [Fault(f.name, chance=0.01, after=f.after) for f in PASSING if f.name in ("cut", "reset", "hangup")]
        with faulty(nginx, *faults) as proxy:
            good(fetch(proxy.url + "/x", options=["stress=8", f"file={nginx.www / 'x'}", *identity, "retries=9"]), b"")

    def expired():
        """a token that expires in the middle is replaced once, and requests are signed again"""
        parts = pieces(100_000, len(DATA))
        expiring = Fault("status", status=400, code="ExpiredToken", skip=5, unless="token 1")
        with faulty(nginx, expiring) as proxy:
            good(fetch(proxy.url + "/x", *parts[:16], options=["token=1", *identity]), DATA[:1_600_000])
            used = {head.get("Authorization") for _, _, head in proxy.requests}
        expect(used == {"token 0", "token 1"}, used)
        with faulty(nginx, Fault("status", status=400, code="ExpiredToken")) as proxy:
            bad(fetch(proxy.url + "/x", PIECE, options=["token=1", *identity]), "ExpiredToken", NAMED)
            expect(len(proxy.requests) == 2, len(proxy.requests))

    def guarded():
        """a redirect to this machine is refused, also over a connection that is open already"""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("192.0.2.1", 9))  # sends nothing
            mine = s.getsockname()[0]
        if mine.startswith("127."):
            return
        with FaultProxy(nginx.port, address="0.0.0.0", faults=[Fault("redirect", to=nginx.url + "/x")]) as proxy:
            url = f"http://{mine}:{proxy.port}/x"
            bad(fetch(url, PIECE), "refused a redirect", NAMED)
            bad(fetch(url, PIECE, options=[f"first={nginx.url}/x"]), "refused a redirect", NAMED)

    def absent():
        """a server that is not there is an error"""
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        bad(fetch(f"http://127.0.0.1:{port}/x", PIECE, options=["retries=1"]), "connect", NAMED)
        bad(fetch("http://nowhere.invalid/x", PIECE, options=["retries=0"]), "resolve", NAMED)

    return [passing, staying, continues, changes, nameless, stalled, storm, patient, mixture, ranked, stress, expired, guarded, absent]


def main():
    tap = Tap()
    with Nginx() as nginx:
        tap.run(nginx_checks(nginx))
        tap.run(simple_checks(nginx))
        tap.run(fault_checks(nginx))
    return tap.end()


sys.exit(main())
