"""Small stores that speak Azure's and the Hugging Face Hub's interfaces, as far as tarn uses them. They
check signatures and tokens; the tests drive them with the real SDKs first."""
import base64
import hashlib
import http.server
import json
import re
import threading
import types
import urllib.parse
from xml.sax.saxutils import escape

try:
    from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy
except ImportError:  # only the tests of Azure need it
    SharedKeyCredentialPolicy = None


class Store(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.objects, self.log, self.complaints = {}, [], []
        self.page = 1000  # objects in one answer to a listing
        self.busy = 0     # answers 503 that many times
        self.setup()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def setup(self):
        pass

    def take_log(self):
        log, self.log = self.log, []
        return log


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass

    def do(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        raw, _, self.raw_query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(self.raw_query, keep_blank_values=True))
        self.name = urllib.parse.unquote(raw)
        self.server.log.append((self.command, raw, self.query, dict(self.headers)))
        if self.server.busy:
            self.server.busy -= 1
            return self.reply(503, b"<Error><Code>ServerBusy</Code></Error>")
        return self.answer()

    do_GET = do_PUT = do_HEAD = do

    cut = False  # the answer ends after a third, and the connection with it

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) // 3] if self.cut else body)
        self.close_connection |= self.cut

    def send_object(self, data, **headers):
        wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
        more = dict(headers, Accept_Ranges="bytes")
        if not wanted or not data:
            return self.reply(200, data, **more)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = data[int(first):int(last or len(data)) + 1]
        return self.reply(206, part, Content_Range=f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}", **more)


class Azure(Store):
    """Containers of one account, below its name as in Azurite."""

    ACCOUNT, KEY = "account1", "c2VjcmV0IGtleQ=="
    SAS = "sv=2021-12-02&sp=rwl&sig=SeCrEtWoRd%2B%3D"

    def __init__(self):
        super().__init__(AzureHandler)
        self.blocks = {}
        self.endpoint = f"{self.url}/{self.ACCOUNT}"


class AzureHandler(Handler):
    def answer(self):
        prefix = f"/{self.server.ACCOUNT}/"
        container, _, blob = self.name.removeprefix(prefix).partition("/")
        given = self.headers.get("Authorization", "")
        if container != "public" and self.query.get("sig") != "SeCrEtWoRd+=" and given != self.signature():
            self.server.complaints.append((self.command, self.path, given, self.signature()))
            return self.reply(403, b"<Error><Code>AuthenticationFailed</Code><Message>no</Message></Error>")
        if "x-ms-version" not in self.headers:
            return self.reply(400, b"<Error><Code>MissingRequiredHeader</Code></Error>")
        if container not in ("container", "public"):
            return self.reply(404, b"<Error><Code>ContainerNotFound</Code></Error>")
        if self.query.get("comp") == "list":
            return self.list(container)
        return self.put(container, blob) if self.command == "PUT" else self.get(container, blob)

    def signature(self):
        """What Azure's own signer gives for this request."""
        headers = {k: v for k, v in self.headers.items() if k.lower() != "authorization"}
        if "Range" in headers:
            headers["byte_range"] = headers["Range"]
        request = types.SimpleNamespace(
            context=types.SimpleNamespace(transport=None),
            http_request=types.SimpleNamespace(
                method=self.command, url=self.server.url + self.path, headers=headers,
                query=dict(pair.partition("=")[::2] for pair in self.raw_query.split("&") if pair)))
        SharedKeyCredentialPolicy(self.server.ACCOUNT, self.server.KEY).on_request(request)
        return headers["Authorization"]

    def put(self, container, blob):
        if self.query.get("comp") == "block":
            self.server.blocks[container, blob, self.query["blockid"]] = self.body
            return self.reply(201)
        if self.query.get("comp") == "blocklist":
            names = re.findall("<Latest>([^<]+)</Latest>", self.body.decode())
            base64.b64decode(names[0], validate=True)
            self.body = b"".join(self.server.blocks.pop((container, blob, name)) for name in names)
            return self.store(container, blob)
        if self.headers.get("x-ms-blob-type") != "BlockBlob" or "Content-Length" not in self.headers:
            return self.reply(411, b"<Error><Code>MissingContentLengthHeader</Code></Error>")
        return self.store(container, blob)

    def store(self, container, blob):
        if self.headers.get("If-None-Match") == "*" and (container, blob) in self.server.objects:
            return self.reply(409, b"<Error><Code>BlobAlreadyExists</Code><Message>x</Message></Error>",
                              Content_Type="application/xml", x_ms_error_code="BlobAlreadyExists")
        self.server.objects[container, blob] = self.body
        return self.reply(201, ETag=etag(self.body))

    def get(self, container, blob):
        data = self.server.objects.get((container, blob))
        if data is None:
            return self.reply(404, b"<Error><Code>BlobNotFound</Code><Message>no</Message></Error>")
        self.cut = "cut" in blob and "Range" not in self.headers
        return self.send_object(data, ETag=etag(data), x_ms_blob_type="BlockBlob",
                                Last_Modified="Tue, 03 Nov 2026 10:00:00 GMT", x_ms_server_encrypted="false")

    def list(self, container):
        prefix, mark = self.query.get("prefix", ""), self.query.get("marker", "")
        names = sorted(n for c, n in self.server.objects if c == container and n.startswith(prefix) and n >= mark)
        if self.query.get("delimiter"):
            names = [n for n in names if "/" not in n[len(prefix):]]
        size = min(int(self.query.get("maxresults", 5000)), self.server.page)
        blobs = "".join(
            f"<Blob><Name>{escape(n)}</Name><Properties><Last-Modified>Tue, 03 Nov 2026 10:00:00 GMT</Last-Modified>"
            f"<Etag>{etag(data).strip(chr(34))}</Etag><Content-Length>{len(data)}</Content-Length>"
            "<BlobType>BlockBlob</BlobType></Properties></Blob>"
            for n, data in ((n, self.server.objects[container, n]) for n in names[:size]))
        more = escape(names[size]) if len(names) > size else ""
        return self.reply(200, ('\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="x" '
                                f'ContainerName="{container}"><Prefix>{escape(prefix)}</Prefix><Blobs>{blobs}</Blobs>'
                                f"<NextMarker>{more}</NextMarker></EnumerationResults>").encode(),
                          Content_Type="application/xml")


class Hub(Store):
    """Repositories of the Hub; files are at another server, to which the token must not go."""

    TOKEN = "hf_SeCrEtWoRd"

    def __init__(self, files):
        super().__init__(HubHandler)
        self.files = files


class HubHandler(Handler):
    def answer(self):
        if "private" in self.name and self.headers.get("Authorization") != f"Bearer {Hub.TOKEN}":
            return self.reply(401, b'{"error": "Invalid credentials"}')
        if self.name.startswith("/api/datasets/"):
            return self.list(self.name.removeprefix("/api/datasets/"))
        data = self.server.objects.get(self.resolved())
        if data is None:
            return self.reply(404, b'{"error": "Entry not found"}', X_Error_Code="EntryNotFound")
        self.server.files.objects[self.name] = data
        return self.reply(302, Location=f"{self.server.files.url}{urllib.parse.quote(self.name)}?Signature=x",
                          X_Linked_Size=str(len(data)), X_Linked_ETag=etag(data), X_Repo_Commit=hashlib.sha1(self.resolved()[1].encode()).hexdigest(),
                          ETag=etag(data))

    def resolved(self):
        owner, _, rest = self.name.removeprefix("/datasets/").partition("/")
        name, _, rest = rest.partition("/resolve/")
        encoded = urllib.parse.unquote(self.path.partition("/resolve/")[2].partition("/")[0])
        return f"{owner}/{name}", encoded, rest.removeprefix(encoded).removeprefix("/")

    def list(self, rest):
        repo, _, place = rest.partition("/tree/")
        rev = urllib.parse.unquote(self.path.partition("?")[0].partition("/tree/")[2].partition("/")[0])
        folder = place.removeprefix(rev).strip("/")
        start = folder + "/" if folder else ""
        names = sorted(n for r, v, n in self.server.objects if (r, v) == (repo, rev) and n.startswith(start))
        entries = {}
        for name in names:
            head, slash, _ = name[len(start):].partition("/")
            if slash:
                entries.setdefault(start + head, {"type": "directory", "oid": "0" * 40, "size": 0, "path": start + head})
            if not slash or self.query.get("recursive", "").lower() == "true":
                size = len(self.server.objects[repo, rev, name])
                entries[name] = {"type": "file", "oid": "1" * 40, "size": size, "path": name,
                                 "lfs": {"oid": "2" * 64, "size": size, "pointerSize": 130}}
        if not entries:
            return self.reply(404, b'{"error": "not found"}', X_Error_Code="EntryNotFound")
        found = list(entries.values())
        at = int(self.query.get("cursor") or 0)
        more = {}
        if len(found) > at + self.server.page:
            query = urllib.parse.urlencode(dict(self.query, cursor=at + self.server.page))
            more["Link"] = f'<{self.server.url}{self.path.partition("?")[0]}?{query}>; rel="next"'
        return self.reply(200, json.dumps(found[at:at + self.server.page]).encode(),
                          Content_Type="application/json", **more)


class Files(Store):
    def __init__(self):
        super().__init__(FilesHandler)


class FilesHandler(Handler):
    def answer(self):
        if "Authorization" in self.headers:
            self.server.complaints.append(self.headers["Authorization"])
        data = self.server.objects.get(self.name)
        return self.reply(404) if data is None else self.send_object(data, ETag=etag(data))


def etag(data):
    return '"' + hashlib.md5(data).hexdigest() + '"'
