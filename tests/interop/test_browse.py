#!/usr/bin/env python3
"""The server of tarn browse, over HTTP: who may ask, what may be asked, and what every answer says.

What the page does with the answers is tested in a real browser (tests/peers/test_browse.py).
"""
import http.client
import io
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.parse

from PIL import Image

from checks import TARN, run_all, tarn
from remote_support import Store
from url_support import environment

SCRATCH = tempfile.TemporaryDirectory()
HERE = pathlib.Path(SCRATCH.name)
HOSTILE = "<script>alert(1)<"  # a key: HTML, without a slash
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
COUNT = 200


def jpeg(width, height, colour):
    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "JPEG")
    return out.getvalue()


def wav(samples):
    data = struct.pack(f"<{samples}h", *(i % 700 for i in range(samples)))
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt "
            + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16) + b"data"
            + struct.pack("<I", len(data)) + data)


def make_fold():
    draw = random.Random(1)
    files = {}
    for i in range(COUNT):
        key = f"s{i:04}"
        files[key] = {"cls": str(i % 4).encode(), "txt": f"text {i}".encode(), "jpg": jpeg(40 + i % 3 * 20, 30, (i, 0, 0))}
        if i % 10 == 0:
            files[key]["wav"] = wav(5000)
        if i % 20 == 0:
            files[key]["bin"] = draw.randbytes(3000)
    files[HOSTILE] = {"html": b"<h1>no</h1>", "svg": SVG, "json": b'{"a": "</script>"}', "jpg": b"not an image",
                      "txt": b"\x00\xff bad <b>"}
    (HERE / "data").mkdir()
    with tarfile.open(HERE / "data/train_0000.tar", "w") as tar:
        for key, fields in files.items():
            for field, data in fields.items():
                info = tarfile.TarInfo(f"{key}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    tarn("index", "--sums", HERE / "data")
    return files


FILES = make_fold()
DATA = HERE / "data"


class Server:
    """A running tarn browse."""

    def __init__(self, *args, env=None):
        self.process = subprocess.Popen([TARN, "browse", "--no-open", *map(str, args)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=env)
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url, self.process.stderr.read().decode()
        split = urllib.parse.urlsplit(self.url)
        self.port, self.base = split.port, split.path

    def ask(self, path, headers=(), method="GET"):
        """Returns (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.headers, body

    def get(self, path, **arguments):
        """The JSON of an answer."""
        status, _, body = self.ask(self.base + path + "?" + urllib.parse.urlencode(arguments, doseq=True))
        assert status == 200, (status, body)
        return json.loads(body)

    def fetch(self, path, headers=(), **arguments):
        return self.ask(self.base + path + "?" + urllib.parse.urlencode(arguments, doseq=True), headers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()


SERVER = Server(DATA)


# --- Who may ask ---


def without_the_token_nothing_is_answered():
    token = SERVER.base.strip("/")
    for wrong in ("", "/", "/x/info", f"/{token[:-1]}/info", f"/{token}0/info", f"/{token[:-1]}x/", f"/{token.upper()}x/info",
                  f"//{token}/info", f"/x/{token}/info"):
        status, _, body = SERVER.ask(wrong or "/")
        assert status == 403, (wrong, status)
        assert token.encode() not in body and b"samples" not in body
    assert SERVER.ask(f"/{token}/info")[0] == 200


def two_servers_have_different_tokens():
    with Server(DATA) as other:
        assert other.base != SERVER.base
        assert other.ask(SERVER.base + "info")[0] == 403


def only_this_servers_name_is_a_host():
    for host, status in ((f"127.0.0.1:{SERVER.port}", 200), (f"localhost:{SERVER.port}", 200),
                         ("evil.example", 403), (f"evil.example:{SERVER.port}", 403), ("127.0.0.1", 403),
                         (f"127.0.0.1:{SERVER.port + 1}", 403), ("", 403), (f"127.0.0.1:{SERVER.port}.evil.example", 403)):
        got = SERVER.ask(SERVER.base + "info", {"Host": host})[0]
        assert got == status or (not host and got == 400), (host, got)


def it_listens_on_the_loopback_address_only():
    table = pathlib.Path(f"/proc/{SERVER.process.pid}/net/tcp").read_text()
    mine = [line.split()[1] for line in table.splitlines()[1:]
            if line.split()[1].endswith(f":{SERVER.port:04X}") and line.split()[3] == "0A"]
    assert mine == [f"0100007F:{SERVER.port:04X}"], mine
    six = pathlib.Path(f"/proc/{SERVER.process.pid}/net/tcp6")
    assert not six.exists() or f":{SERVER.port:04X} " not in six.read_text()


def only_get_and_head_are_allowed():
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert SERVER.ask(SERVER.base + "info", method=method)[0] == 405, method
    status, headers, body = SERVER.ask(SERVER.base + "info", method="HEAD")
    assert status == 200 and not body and int(headers["Content-Length"]) > 10
    connection = http.client.HTTPConnection("127.0.0.1", SERVER.port, timeout=60)
    connection.request("POST", SERVER.base + "info", body=b"x" * 100000)
    assert connection.getresponse().status == 405
    connection.close()


def every_answer_has_the_headers_of_safety():
    for path in ("", "browse.js", "browse.css", "icon.png", "info", "page", "nothing", "thumb?i=0&field=jpg", "raw?i=0&field=jpg"):
        _, headers, _ = SERVER.ask(SERVER.base + path)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'"), policy
        assert "unsafe" not in policy and "data:" not in policy and "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers


def the_page_has_no_inline_code_and_is_small():
    page = SERVER.ask(SERVER.base)[2].decode()
    assert page.count("<script") == page.count('<script src="browse.js"') == 1
    assert " on" not in page.replace(" on ", "").replace(" one", "") or "onclick" not in page
    assert "style=" not in page and "<style" not in page and "javascript:" not in page
    total = sum(len(SERVER.ask(SERVER.base + name)[2]) for name in ("", "browse.js", "browse.css", "icon.png"))
    assert total < 150_000, total
    script = SERVER.ask(SERVER.base + "browse.js")[2].decode()
    assert not any(word in script for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"))


# --- What may be asked ---


def paths_do_not_become_files():
    for path in ("../../../etc/passwd", "..%2f..%2fetc/passwd", "%2e%2e/x", "/etc/passwd", "data/train_0000.tar", "info/",
                 "info%00", "page%0d%0aX: y", "browse.js/..", "%"):
        connection = socket.create_connection(("127.0.0.1", SERVER.port), 60)
        connection.sendall(f"GET {SERVER.base}{path} HTTP/1.1\r\nHost: 127.0.0.1:{SERVER.port}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
        connection.close()
        assert answer.split()[1] in (b"400", b"404"), (path, answer[:200])
        assert b"root:" not in answer and b"X: y\r\n" not in answer.split(b"\r\n\r\n")[0]


def malformed_arguments_are_refused():
    for text in ("page?from=x", "page?from=-1", "page?count=401", "page?from=99999999999999999999999", "page?f=size:1:2",
                 "page?f=size:x:2:jpg", "page?f=num:inf:2:cls", "page?f=num:0x1p3:9:cls", "page?f=nothing", "page?order=sideways",
                 "page?seed=x&order=shuffle", "page?rank=3&world=2", "page?order=shuffle&step=-1", "page?order=balanced",
                 "page?sort=nothing", "page?f=has:nothing", "page?f=is:99:cls", "sample?i=99999", "sample?i=x", "thumb?i=0",
                 "thumb?i=0&field=jpg&side=5000", "thumb?i=0&field=jpg&side=1", "thumb?i=0&field=nothing", "raw?i=0&field=wavy",
                 "raw?i=900&field=jpg", "stats?what=size", "stats?what=evil&field=jpg", "find?key=", "when?epochs=3",
                 "page?a=%zz", "page?a=%f", "page?a=%00", "page?a=%ff", "page?" + "f=has:cls&" * 17, "page?" + "a&" * 65):
        status, _, body = SERVER.ask(SERVER.base + text)
        assert 400 <= status < 500 and json.loads(body)["error"], (text, status, body)
    status, _, _ = SERVER.ask(SERVER.base + "page?" + "a=" + "b" * 20000)
    assert status in (400, 413, 414), status


def types_come_from_the_bytes_and_never_run():
    for key, field, kind in (("s0000", "jpg", "image/jpeg"), ("s0000", "wav", "audio/wav"), ("s0000", "bin", None),
                             ("s0000", "txt", None), (HOSTILE, "svg", None), (HOSTILE, "html", None), (HOSTILE, "json", None),
                             (HOSTILE, "jpg", None)):
        at = SERVER.get("find", key=key)["i"]
        status, headers, body = SERVER.fetch("raw", i=at, field=field)
        assert status == 200 and body == FILES[key][field]
        assert headers["Content-Type"] == (kind or "application/octet-stream"), (field, headers["Content-Type"])
        assert bool(kind) != headers.get("Content-Disposition", "").startswith("attachment"), field
    at = SERVER.get("find", key=HOSTILE)["i"]
    name = SERVER.fetch("raw", i=at, field="svg", save=1)[1]["Content-Disposition"]
    assert name == 'attachment; filename="_script_alert_1__.svg"', name
    assert SERVER.fetch("thumb", i=at, field="svg")[0] == 422
    assert SERVER.fetch("thumb", i=at, field="jpg")[0] == 422


# --- Answers ---


def pages_are_those_of_the_dataset():
    info = SERVER.get("info")
    assert info["samples"] == COUNT + 1 and info["checksums"] and info["kind"] == "fold"
    kinds = {field["name"]: field["kind"] for field in info["fields"]}
    assert kinds["jpg"] == "image" and kinds["cls"] == "number" and kinds["wav"] == "audio" and kinds["json"] == "json"
    page = SERVER.get("page", **{"from": 150, "count": 60})
    assert [s["key"] for s in page["samples"]] == list(FILES)[150:]
    assert [s["i"] for s in page["samples"]] == list(range(150, COUNT + 1))
    one = page["samples"][0]
    assert one["sizes"] == {name: len(data) for name, data in FILES["s0150"].items()}
    assert one["values"] == {"cls": "2", "txt": "text 150"}


def orders_and_steps_are_those_of_the_command():
    for arguments, options in ((dict(order="shuffle", seed=7, epoch=2), ["--order", "shuffle", "--seed", "7", "--epoch", "2"]),
                               (dict(order="shuffle", seed=7, rank=1, world=3), ["--order", "shuffle", "--seed", "7", "--rank", "1/3"]),
                               (dict(order="lengths", by="jpg"), ["--order", "lengths", "--by", "jpg"])):
        keys = tarn("ls", "-1", *options, DATA).stdout.decode().splitlines()
        page = SERVER.get("page", count=400, **arguments)
        assert [s["key"] for s in page["samples"]] == keys and page["count"] == len(keys)
    keys = tarn("at", "--seed", "7", "--rank", "1/3", "--batch", "8", "--step", "12", DATA).stdout.decode().splitlines()
    page = SERVER.get("page", order="shuffle", seed=7, rank=1, world=3, batch=8, step=12)
    assert [s["key"] for s in page["samples"]] == keys and (page["epoch"], page["step"]) == (1, 3)
    turns = SERVER.get("when", key=keys[0], order="shuffle", seed=7, world=3, batch=8, epochs=2)["turns"]
    assert {"epoch": 1, "step": 3, "rank": 1, "place": 0} in turns


def filters_combine():
    def keys(*filters, **more):
        return [s["key"] for s in SERVER.get("page", count=400, f=filters, **more)["samples"]]
    plain = [key for key in FILES if key != HOSTILE]
    assert keys("has:wav") == [k for k in plain if "wav" in FILES[k]]
    assert keys("has:wav", "lacks:bin") == [k for k in plain if "wav" in FILES[k] and "bin" not in FILES[k]]
    assert keys("has:cls", "num:2:3:cls") == [k for k in plain if FILES[k]["cls"] in (b"2", b"3")]
    least, most = 7, 8
    assert keys(f"size:{least}:{most}:txt") == [k for k in FILES if least <= len(FILES[k]["txt"]) <= most]
    assert keys("width:60:60:jpg") == [k for k in plain if int(k[1:]) % 3 == 1]
    assert keys("has:cls", "num:2:2:cls", "width:60:60:jpg") == [k for k in plain if int(k[1:]) % 3 == 1 and FILES[k]["cls"] == b"2"]
    assert sorted(keys("has:wav", order="shuffle", seed=3)) == sorted(keys("has:wav")) != keys("has:wav", order="shuffle", seed=3)


def sorting_is_by_value_or_size():
    def keys(**arguments):
        return [s["key"] for s in SERVER.get("page", count=400, **arguments)["samples"]]
    by_class = keys(sort="cls", f="has:cls")
    assert by_class == sorted(by_class, key=lambda k: (int(FILES[k]["cls"]), k))
    by_size = keys(sort="size:jpg", down=1)
    assert [len(FILES[k]["jpg"]) for k in by_size] == sorted((len(f["jpg"]) for f in FILES.values()), reverse=True)


def a_sample_has_its_fields_places_and_checksums():
    sample = SERVER.get("sample", i=20)
    assert sample["key"] == "s0020" and sample["number"] == sample["row"] == 20
    fields = {field["name"]: field for field in sample["fields"]}
    assert set(fields) == set(FILES["s0020"])
    for name, field in fields.items():
        assert field["size"] == len(FILES["s0020"][name]) and field["check"] == "ok", field
        with open(DATA / field["shard"], "rb") as shard:
            shard.seek(field["offset"])
            assert shard.read(512).split(b"\0")[0] == f"s0020.{name}".encode()
    assert fields["jpg"]["width"] == 80 and fields["jpg"]["height"] == 30
    assert fields["bin"]["hex"].startswith(FILES["s0020"]["bin"][:20].hex())
    assert fields["txt"]["text"] == "text 20"


def hostile_text_stays_text():
    at = SERVER.get("find", key=HOSTILE)["i"]
    sample = SERVER.get("sample", i=at)
    fields = {field["name"]: field for field in sample["fields"]}
    assert sample["key"] == HOSTILE and fields["svg"]["text"] == SVG.decode()
    assert fields["txt"]["text"] == "\ufffd\ufffd bad <b>"
    assert fields["svg"]["type"] is None and fields["jpg"]["type"] is None


def damage_is_shown_at_its_place():
    copy = HERE / "damaged"
    copy.mkdir()
    for name in os.listdir(DATA):
        data = bytearray((DATA / name).read_bytes())
        if name.endswith(".tar"):
            at = data.index(b"text 33")
            data[at] ^= 1
        (copy / name).write_bytes(data)
    problems = HERE / "bad.txt"
    problems.write_text("s0033\ta wrong text\ns0040\nnobody\n")
    with Server(copy, "--problems", problems) as server:
        fields = {f["name"]: f["check"] for f in server.get("sample", i=33)["fields"]}
        assert fields == {"cls": "ok", "txt": "wrong", "jpg": "ok"}, fields
        page = server.get("page", f="problems")
        assert [(s["key"], s["problem"]) for s in page["samples"]] == [("s0033", "a wrong text"), ("s0040", "")]
        listed = server.get("problems")
        assert listed["count"] == 3 and listed["problems"][1] == {"key": "s0033", "message": "a wrong text"}
        assert "problem" not in server.get("sample", i=0)


def keys_are_found_whole_or_in_part():
    assert SERVER.get("find", key="s0123") == {"i": 123, "like": [], "searched": 0}
    found = SERVER.get("find", key="012")
    assert [m["key"] for m in found["like"]] == [f"s{i:04}" for i in range(COUNT) if "012" in f"s{i:04}"]
    shuffled = SERVER.get("page", count=400, order="shuffle", seed=5)["samples"]
    at = SERVER.get("find", key="s0123", order="shuffle", seed=5)["i"]
    assert shuffled[at]["key"] == "s0123"
    assert "i" not in SERVER.get("find", key="s0123", f="has:wav")


def histograms_count_everything():
    sizes = SERVER.get("stats", what="size", field="jpg")
    assert sizes["samples"] == COUNT + 1 == sum(b["n"] for b in sizes["bins"])
    assert sizes["total"] == sum(len(f["jpg"]) for f in FILES.values())
    for b in sizes["bins"]:
        inside = sum(b["low"] <= len(f["jpg"]) <= b["high"] for f in FILES.values())
        assert inside == b["n"], b
    classes = SERVER.get("stats", what="num", field="cls")
    assert classes["distinct"] and [(b["low"], b["n"]) for b in classes["bins"]] == [(i, COUNT // 4) for i in range(4)]
    assert classes["read"] == COUNT + 1
    widths = SERVER.get("stats", what="width", field="jpg")
    assert {b["low"]: b["n"] for b in widths["bins"]} == {40: 67, 60: 67, 80: 66}
    filtered = SERVER.get("stats", what="num", field="cls", f="has:wav")
    assert sum(b["n"] for b in filtered["bins"]) == COUNT // 10
    sets = SERVER.get("stats", what="sets")
    assert sum(s["samples"] for s in sets["sets"]) == COUNT + 1


def bars_of_a_histogram_are_filters_that_keep_what_they_count():
    for what, field, kind in (("size", "txt", "size"), ("num", "cls", "num"), ("width", "jpg", "width")):
        for b in SERVER.get("stats", what=what, field=field, f="has:cls")["bins"]:
            page = SERVER.get("page", f=["has:cls", f"{kind}:{b['low']}:{b['high']}:{field}"])
            assert page["count"] == b["n"], (what, b)


def ranges_are_parts_of_the_bytes():
    data = FILES["s0020"]["wav"]
    for text, want in (("bytes=0-99", data[:100]), ("bytes=100-", data[100:]), ("bytes=-50", data[-50:]),
                       ("bytes=0-999999", data), (f"bytes={len(data) - 1}-", data[-1:])):
        status, headers, body = SERVER.fetch("raw", {"Range": text}, i=20, field="wav")
        assert status == 206 and body == want, (text, status, len(body))
        start = data.index(want) if len(want) > 60 else len(data) - len(want)
        assert headers["Content-Range"] == f"bytes {start}-{start + len(want) - 1}/{len(data)}"
        assert headers["Accept-Ranges"] == "bytes" and headers["Content-Type"] == "audio/wav"
    for text in (f"bytes={len(data)}-", "bytes=-0"):
        status, headers, body = SERVER.fetch("raw", {"Range": text}, i=20, field="wav")
        assert status == 416 and not body and headers["Content-Range"] == f"bytes */{len(data)}"
    for text in ("bytes=5-2", "bytes=a-b", "items=0-5", "bytes=0-1,5-6", "bytes="):
        status, _, body = SERVER.fetch("raw", {"Range": text}, i=20, field="wav")
        assert status == 200 and body == data, text


def thumbnails_fit_and_keep_their_shape():
    for side, size in ((16, (16, 6)), (40, (40, 15)), (512, (80, 30))):
        status, headers, body = SERVER.fetch("thumb", i=20, field="jpg", side=side)
        assert status == 200 and headers["Content-Type"] == "image/jpeg"
        assert Image.open(io.BytesIO(body)).size == size, (side, Image.open(io.BytesIO(body)).size)


def many_requests_at_once_get_their_own_answers():
    wrong = []

    def worker(number):
        draw = random.Random(number)
        for _ in range(25):
            i = draw.randrange(COUNT)
            arguments = draw.choice([{}, {"order": "shuffle", "seed": draw.randrange(12)}, {"f": "has:cls"}])
            page = SERVER.get("page", **{"from": i, "count": 1}, **arguments)["samples"][0]
            raw = SERVER.fetch("raw", i=i, field="txt", **arguments)[2]
            if raw != FILES[page["key"]]["txt"]:
                wrong.append((number, i, arguments))
            if SERVER.fetch("thumb", i=i, field="txt", **arguments)[0] != 422:
                wrong.append(i)

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def other_kinds_of_files_are_shown():
    iac, gnz = HERE / "x.iac", HERE / "x.gnz"
    (HERE / "pay.txt").write_text("payload")
    rows = [{"file": "pay.txt", "n": i, "name": f"n{i % 3}"} for i in range(6)]
    (HERE / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tarn("pack", HERE / "x.jsonl", "-o", iac, "-q")
    tarn("convert", DATA, gnz, "-q", "--fields", "cls", "--range", "0:20")
    with Server(iac) as server:
        assert server.get("info")["kind"] == "iac"
        page = server.get("page", sort="n", down=1)
        assert [s["values"]["n"] for s in page["samples"]] == ["5", "4", "3", "2", "1", "0"]
        words = server.get("stats", what="words", field="name")["words"]
        assert words == [{"text": f"n{i}", "n": 2} for i in range(3)]
        kept = server.get("page", f="is:4:namen1")
        assert [s["values"]["n"] for s in kept["samples"]] == ["1", "4"]
    with Server(gnz) as server:
        assert server.get("info")["kind"] == "gnz"
        assert server.get("page", count=3)["samples"][2]["values"]["cls"] == 2
    with Server(DATA, iac, "--weights", "2,1") as server:
        info = server.get("info")
        assert info["kind"] == "mix" and len(info["sources"]) == 2
        assert server.get("sample", i=1)["key"]


def remote_folds_are_shown_with_few_requests():
    store = Store()
    store.put_folder(DATA)
    with Server(f"{store.url}/birds/:train", env=environment()) as server:
        assert server.get("info")["remote"] and server.get("info")["samples"] == COUNT + 1
        store.taken()
        page = server.get("page", **{"from": 40, "count": 60})
        assert [s["key"] for s in page["samples"]] == list(FILES)[40:100]
        assert page["samples"][3]["values"] == {"cls": "3", "txt": "text 43"}
        asked = len(store.taken())
        assert asked < 60, asked  # fewer than samples
        assert Image.open(io.BytesIO(server.fetch("thumb", i=41, field="jpg", side=40)[2])).size[0] == 40
        sample = server.get("sample", i=0)
        assert {field["name"]: field["size"] for field in sample["fields"]} == {n: len(d) for n, d in FILES["s0000"].items()}
    store.shutdown()
    store.server_close()


def the_list_and_the_view_choose_what_is_shown():
    with Server(DATA, "--list", "s0009,s0003", "--view", "#order=shuffle&seed=3") as server:
        assert server.get("info")["samples"] == 2
        assert [s["key"] for s in server.get("page")["samples"]] == ["s0009", "s0003"]
        assert server.url.endswith("#order=shuffle&seed=3")
    with Server(DATA, "--seed", "7", "--rank", "1/3", "--step", "2") as server:
        assert server.url.endswith("#order=shuffle&seed=7&step=2&rank=1&world=3"), server.url


# --- Start and end ---


def a_notebook_may_show_it_and_its_end_ends_it():
    process = subprocess.Popen([TARN, "browse", "--notebook", str(DATA)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    url = urllib.parse.urlsplit(process.stdout.readline().decode().strip())
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=60)
    connection.request("GET", url.path)
    policy = connection.getresponse().headers["Content-Security-Policy"]
    connection.close()
    assert "frame-ancestors http://localhost:*" in policy and "'none'" not in policy.split("frame-ancestors")[1]
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()
    process.stderr.close()


def ctrl_c_and_sigterm_end_it_cleanly():
    for number in (signal.SIGINT, signal.SIGTERM):
        server = Server(DATA)
        assert server.get("info")["samples"]
        idle = socket.create_connection(("127.0.0.1", server.port))
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        error = server.process.stderr.read().decode()
        assert error == "tarn: press Ctrl-C to stop\n", error
        idle.close()
        server.process.stdout.close()
        server.process.stderr.close()


def wrong_usage_is_explained():
    taken = socket.create_server(("127.0.0.1", 0))
    for args, status, text in ((["--port", "70000", DATA], 2, "--port"), ([DATA, DATA], 2, "--weights"), (["-"], 2, "stream"),
                               (["--view", "f=nothing", DATA], 2, "filter"), (["--step", "3x", DATA], 2, "step"), (["--rank", "3", DATA], 2, "rank 3 of"),
                               (["--rank", "9/8", DATA], 2, "out of range"),
                               (["--count", "3", DATA], 2, "-o"), (["--problems", HERE / "none", DATA], 1, "none"),
                               (["--list", "s0001,nobody", DATA], 1, "nobody"),
                               (["--port", taken.getsockname()[1], DATA], 1, "another --port"), ([HERE / "nothing"], 1, "nothing")):
        done = tarn("browse", "--no-open", *args, ok=False)
        assert done.returncode == status and text in done.stderr.decode(), (args, done)
    taken.close()


def a_contact_sheet_is_one_file_without_code():
    sheet = HERE / "page.html"
    tarn("browse", DATA, "-o", sheet, "--count", 10, "--list", f"{HOSTILE},s0001,s0002")
    text = sheet.read_text()
    assert text.count("<figure>") == 3 and text.count("data:image/jpeg;base64,") == 2
    assert "<script" not in text and "&lt;script&gt;alert(1)&lt;" in text and "text 2" in text
    assert "default-src 'none'" in text and '="http' not in text
    assert tarn("browse", DATA, "-o", "-", "--order", "shuffle", "--seed", 3, "--count", 1).stdout.count(b"<figure>") == 1


def main():
    tests = [without_the_token_nothing_is_answered, two_servers_have_different_tokens, only_this_servers_name_is_a_host,
             it_listens_on_the_loopback_address_only, only_get_and_head_are_allowed, every_answer_has_the_headers_of_safety,
             the_page_has_no_inline_code_and_is_small, paths_do_not_become_files, malformed_arguments_are_refused,
             types_come_from_the_bytes_and_never_run, pages_are_those_of_the_dataset, orders_and_steps_are_those_of_the_command,
             filters_combine, sorting_is_by_value_or_size, a_sample_has_its_fields_places_and_checksums, hostile_text_stays_text,
             damage_is_shown_at_its_place, keys_are_found_whole_or_in_part, histograms_count_everything,
             bars_of_a_histogram_are_filters_that_keep_what_they_count, ranges_are_parts_of_the_bytes,
             thumbnails_fit_and_keep_their_shape, many_requests_at_once_get_their_own_answers, other_kinds_of_files_are_shown,
             remote_folds_are_shown_with_few_requests, the_list_and_the_view_choose_what_is_shown, a_notebook_may_show_it_and_its_end_ends_it,
             ctrl_c_and_sigterm_end_it_cleanly, wrong_usage_is_explained, a_contact_sheet_is_one_file_without_code]
    with SERVER:
        status = run_all(tests)
    SCRATCH.cleanup()
    return status


if __name__ == "__main__":
    sys.exit(main())
