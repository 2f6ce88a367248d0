"""A small, strict S3 store: it computes every signature again with botocore's own signer from what
the request must mean, and compares every body with its digest. It can also fail on purpose,
depending on the key."""
import datetime
import hashlib
import http.server
import re
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from url_support import SLOW_PIECES

REGION = "eu-test-1"


class Strict(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, keys, region=REGION):
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys = keys  # access key -> (secret, token or None)
        self.objects, self.uploads, self.log, self.count = {}, {}, [], {}
        self.marks, self.lost = {}, set()  # marks of objects and uploads
        self.upload_keys = {}
        self.careless = False  # ignores conditions, as some stores do
        self.complaints = []
        self.region = region
        self.page = 1000  # objects in one answer to a listing
        self.hook = None  # handler -> (status, code of an error or body), or None
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


    @staticmethod
    def wait(seconds):
        """Time that must pass for what is tested; longer is as good."""
        time.sleep(seconds)


class Refused(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        raw_path, _, self.query = self.path.partition("?")
        self.key = urllib.parse.unquote(raw_path)
        self.body = self.read_body()
        server = self.server
        server.log.append((self.command, self.key, self.query, dict(self.headers)))
        what = (self.command, self.key, re.sub("=.*", "", self.query))
        self.nth = server.count[what] = server.count.get(what, 0) + 1
        answer = server.hook(self) if server.hook else None
        if answer and answer[0] == 200:
            return self.reply(200, answer[1])
        if answer:
            return self.error(*answer, "refused")
        try:
            self.check()
        except Refused as e:
            server.complaints.append(f"{self.command} {self.path}: {e}")
            return self.error(403, str(e), "refused")
        return getattr(self, self.command.lower())()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def check(self):
        given = self.headers.get("Authorization")
        if given is None:
            if not self.key.startswith("/public/"):
                raise Refused("AccessDenied")
            return
        if given.startswith("Bearer "):  # as Google's interface has it
            if given.removeprefix("Bearer ") not in self.server.keys:
                raise Refused("AuthenticationRequired")
            return
        match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, "
                             r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})", given)
        if not match:
            raise Refused("AuthorizationHeaderMalformed")
        access, day, region, names, signature = match.groups()
        if access not in self.server.keys:
            raise Refused("InvalidAccessKeyId")
        secret, token = self.server.keys[access]
        if region != self.server.region or self.headers.get("x-amz-security-token") != token:
            raise Refused("InvalidToken")
        for name in {"host", "x-amz-date", "x-amz-content-sha256",
                     *(["x-amz-security-token"] if token else []),
                     *(name.lower() for name in self.headers if name.lower().startswith("x-amz-"))}:
            if name not in names.split(";"):
                raise Refused(f"UnsignedHeader {name}")
        stamp = self.headers["x-amz-date"]
        when = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        if not stamp.startswith(day) or abs((now - when).total_seconds()) > 900:
            raise Refused("RequestTimeTooSkewed")
        unsigned = self.server.region == "auto" and self.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
        if not unsigned and self.headers["x-amz-content-sha256"] != hashlib.sha256(self.body).hexdigest():
            raise Refused("XAmzContentSHA256Mismatch")
        if signature != self.sign(access, secret, region, names, stamp):
            raise Refused("SignatureDoesNotMatch")

    def sign(self, access, secret, region, names, stamp):
        """The signature of the real signer for this request."""
        query = sorted(urllib.parse.parse_qsl(self.query, keep_blank_values=True))
        url = (f"http://{self.headers['Host']}{urllib.parse.quote(self.key, safe='/~')}" +
               ("?" + "&".join(f"{urllib.parse.quote(k, safe='~')}={urllib.parse.quote(v, safe='~')}"
                               for k, v in query) if query else ""))
        headers = {k: v for k, v in self.headers.items() if k.lower() in names.split(";")}
        request = AWSRequest(method=self.command, url=url, headers=headers, data=self.body)
        request.context["timestamp"] = stamp
        signer = S3SigV4Auth(Credentials(access, secret), "s3", region)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return signer.signature(text, request)

    # --- Responses ---------------------------------------------------------------------------

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code, message):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.reply(status, body.encode())

    def cut(self):
        self.wfile.flush()
        self.close_connection = True

    def head(self):
        if self.key not in self.server.objects:
            return self.error(404, "NoSuchKey", "")
        data = self.server.objects[self.key]
        return self.reply(200, Content_Length=str(len(data)), ETag=tag(data),
                          x_amz_meta_tarn_write=self.server.marks.get(self.key, ""))

    def list(self, query):
        """ListObjectsV2, with names coded as in URLs if that is requested."""
        bucket, _, _ = self.key[1:].partition("/")
        prefix = f"/{bucket}/" + query.get("prefix", "")
        names = sorted(n for n in self.server.objects if n.startswith(prefix))
        if query.get("delimiter"):
            names = [n for n in names if "/" not in n[len(prefix):]]
        if not any(n.startswith(f"/{bucket}/") for n in self.server.objects):
            return self.error(404, "NoSuchBucket", "The specified bucket does not exist")
        at = int(query.get("continuation-token", "token+/=0")[8:])
        names, size = names[at:], min(int(query.get("max-keys", 1000)), self.server.page)
        coded = query.get("encoding-type") == "url"
        quote = (lambda n: urllib.parse.quote_plus(n, safe="/")) if coded else escape
        entries = "".join(f"<Contents><Key>{quote(n[len(bucket) + 2:])}</Key><LastModified>2026-11-03T10:00:00.000Z"
                          f"</LastModified><ETag>{escape(tag(self.server.objects[n]), {chr(34): '&quot;'})}</ETag><Size>"
                          f"{len(self.server.objects[n])}</Size><StorageClass>STANDARD</StorageClass></Contents>"
                          for n in names[:size])
        more = f"<NextContinuationToken>token+/={at + size}</NextContinuationToken>" if len(names) > size else ""
        return self.reply(200, ('<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com'
                                f'/doc/2006-03-01/"><Name>{bucket}</Name>{entries}{more}<IsTruncated>'
                                f'{"true" if more else "false"}</IsTruncated>'
                                f'{"<EncodingType>url</EncodingType>" if coded else ""}</ListBucketResult>').encode(),
                          Content_Type="application/xml")

    def get(self):
        query = dict(urllib.parse.parse_qsl(self.query, keep_blank_values=True))
        if query.get("list-type") == "2":
            return self.list(query)
        if "uploads" in query:
            return self.list_uploads(query)
        data = self.server.objects.get(self.key)
        if data is None:
            return self.error(404, "NoSuchKey", "The specified key does not exist.")
        first, _, last = self.headers.get("Range", "bytes=0-")[6:].partition("-")
        first, last = int(first), min(int(last or len(data) - 1), len(data) - 1)
        rest = data[first:last + 1]
        more = {"ETag": tag(data), "Content_Length": str(len(rest))}
        if "Range" in self.headers:
            more["Content_Range"] = f"bytes {first}-{last}/{len(data)}"
        if "cut" in self.key:
            rest = rest[:len(data) // 3 + 1]
        self.reply(206 if "Range" in self.headers else 200, rest, **more)
        if "cut" in self.key:
            self.cut()

    def list_uploads(self, query):
        bucket = self.key.split("/")[1]
        entries = "".join(f"<Upload><Key>{escape(key[len(bucket) + 2:])}</Key><UploadId>{escape(name)}</UploadId></Upload>"
                          for name, key in sorted(self.server.upload_keys.items())
                          if name in self.server.uploads and key.startswith(f"/{bucket}/" + query.get("prefix", "")))
        return self.reply(200, ("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>"
                                f"{entries}</ListMultipartUploadsResult>").encode())

    def copy(self, parts, number):
        source = urllib.parse.unquote(self.headers["x-amz-copy-source"])
        data = self.server.objects.get("/" + source.lstrip("/"))
        if data is None:
            return self.error(404, "NoSuchKey", "")
        if self.headers.get("x-amz-copy-source-if-match", tag(data)) != tag(data):
            return self.error(412, "PreconditionFailed", "x-amz-copy-source-If-Match")
        first, _, last = self.headers.get("x-amz-copy-source-range", "bytes=0-")[6:].partition("-")
        parts[number] = data[int(first):int(last or len(data)) + 1]
        return self.reply(200, f"<CopyPartResult><ETag>{escape(tag(parts[number]))}</ETag></CopyPartResult>".encode())

    def put(self):
        if "busy" in self.key and self.nth == 1:
            return self.error(503, "SlowDown", "Please reduce your request rate.")
        if "full" in self.key:
            return self.error(507, "Full", "no room")
        query = dict(urllib.parse.parse_qsl(self.query))
        if "uploadId" in query:
            parts = self.server.uploads.get(query["uploadId"])
            if parts is None:
                return self.error(404, "NoSuchUpload", "")
            if "x-amz-copy-source" in self.headers:
                return self.copy(parts, int(query["partNumber"]))
            parts[int(query["partNumber"])] = self.body
            if "failing" in self.key and len(parts) == 2:
                return self.error(400, "BadPart", "not this one")
        else:
            if self.lacks_object():
                return self.error(404, "NoSuchKey", "")
            if self.forbidden():
                return self.error(412, "PreconditionFailed", "exists")
            self.server.objects[self.key] = self.body
            self.server.marks[self.key] = self.headers.get("x-amz-meta-tarn-write", "")
            if "lost" in self.key and self.key not in self.server.lost:
                return self.lose()
        return self.reply(200, ETag=tag(self.body))

    def lose(self):
        """The object is there, but the client does not learn it."""
        self.server.lost.add(self.key)
        if "others" in self.key:  # another writer replaced it
            self.server.marks[self.key] = "00"
        if "shorter" in self.key:
            self.server.objects[self.key] = self.server.objects[self.key][1:]
        self.close_connection = True

    def lacks_object(self):
        return "If-Match" in self.headers and self.key not in self.server.objects and not self.server.careless

    def forbidden(self):
        if self.server.careless:
            return False
        wanted = self.headers.get("If-Match")
        if wanted and self.key in self.server.objects and wanted != tag(self.server.objects[self.key]):
            return True
        if "noconditions" in self.key and "If-None-Match" in self.headers:
            self.error(501, "NotImplemented", "If-None-Match")
            raise ConnectionAbortedError
        if "raced" in self.key:
            self.server.objects[self.key] = b"another's"
        google = self.server.region == "auto"
        only_new = self.headers.get("x-goog-if-generation-match") == "0" if google else \
            self.headers.get("If-None-Match") == "*"
        return only_new and self.key in self.server.objects

    def post(self):
        query = dict(urllib.parse.parse_qsl(self.query, keep_blank_values=True))
        if "uploads" in query:
            upload = f"id+{len(self.server.upload_keys)}/=~ok"
            self.server.uploads[upload] = {}
            self.server.upload_keys[upload] = self.key
            self.server.marks[upload] = self.headers.get("x-amz-meta-tarn-write", "")
            return self.reply(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                              "</InitiateMultipartUploadResult>".encode())
        parts = self.server.uploads.get(query["uploadId"])
        if parts is None:
            return self.error(404, "NoSuchUpload", "")
        if self.lacks_object():
            return self.error(404, "NoSuchKey", "")
        if self.forbidden():
            return self.error(412, "PreconditionFailed", "exists")
        if "late" in self.key:
            return self.reply(200, b"   <Error><Code>InternalError</Code><Message>late</Message>"
                              b"</Error>")
        if "silent" in self.key:
            return self.reply(200)
        if "vague" in self.key:
            return self.reply(200, b"<html>Welcome</html>")
        numbers, tags = re.findall(rb"<PartNumber>(\d+)<", self.body), re.findall(rb"<ETag>\D*?([0-9a-f]{32})\D*?<", self.body)
        told = {int(n): e.decode() for n, e in zip(numbers, tags)}
        if told != {n: tag(p).strip('"') for n, p in parts.items()}:
            return self.error(400, "InvalidPart", "")
        if any(len(p) < 5 << 20 for n, p in parts.items() if n != max(parts)):
            return self.error(400, "EntityTooSmall", "")
        self.server.objects[self.key] = b"".join(parts[n] for n in sorted(parts))
        del self.server.uploads[query["uploadId"]]
        self.server.marks[self.key] = self.server.marks[query["uploadId"]]
        if "lost" in self.key and self.key not in self.server.lost:
            return self.lose()
        if "patient" in self.key:
            return self.reply_slowly(200, b"<CompleteMultipartUploadResult/>")
        return self.reply(200, b"<CompleteMultipartUploadResult/>")

    def reply_slowly(self, status, body):
        """Like Amazon while it assembles parts: it sends spaces until it is done."""
        self.reply(status, Content_Length=str(len(body) + SLOW_PIECES))
        for _ in range(SLOW_PIECES):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(1)
        self.wfile.write(body)

    def delete(self):
        query = dict(urllib.parse.parse_qsl(self.query))
        if "uploadId" not in query:
            self.server.objects.pop(self.key, None)
        elif self.server.uploads.pop(query["uploadId"], None) is None:
            return self.error(404, "NoSuchUpload", "")
        return self.reply(204)

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass


def tag(data):
    return '"' + hashlib.md5(data).hexdigest() + '"'
