"""The servers that give credentials: instance metadata, containers, token services, single sign-on,
and Google's. They check what they are asked for, note every request, and fail on request.
The tests drive them with the real SDKs first."""
import datetime
import http.server
import json
import re
import threading
import urllib.parse

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SECRET = "SeCrEtWoRd"  # part of everything that must not be shown


def later(seconds):
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class Provider(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.log = []        # (method, path, headers, body)
        self.given = 0       # a number in all credentials that were given
        self.lifetime = 3600
        self.fail = {}       # path -> (status, body)
        self.keys = {}       # access key -> (secret, token): what a store accepts
        self.token = None    # the authorization that a container must send
        self.identity = None  # the web identity that a role needs
        self.region = "eu-test-1"
        self.public_key = None  # of Google's service account
        self.logins = set()  # of single sign-on
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def make(self, kind):
        """New credentials, which the store accepts from now on."""
        with self.lock:
            self.given += 1
            access, secret, token = (f"AK{kind}{self.given}", f"{SECRET}/{self.given}+", f"{SECRET}Token{self.given}==")
            self.keys[access] = (secret, token)
        return access, secret, token

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
        self.server.log.append((self.command, self.path, dict(self.headers), self.body))
        path, _, query = self.path.partition("?")
        if path in self.server.fail:
            return self.reply(*self.server.fail[path])
        self.query = dict(urllib.parse.parse_qsl(query))
        for pattern, method, handler in ROUTES:
            if self.command == method and re.fullmatch(pattern, path):
                return handler(self, path)
        return self.reply(404, b"not here")

    do_GET = do_PUT = do_POST = do

    def reply(self, status, body, kind="application/json"):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # --- Instances and containers --------------------------------------------------------------

    def metadata_token(self, _):
        if self.headers.get("x-aws-ec2-metadata-token-ttl-seconds") != "21600":
            return self.reply(400, b"no ttl")
        return self.reply(200, b"metadata-token==", "text/plain")

    def metadata(self, path):
        if self.headers.get("x-aws-ec2-metadata-token") != "metadata-token==":
            return self.reply(401, b"no token")
        if path.endswith("/placement/region"):
            return self.reply(200, self.server.region.encode(), "text/plain")
        if path.endswith("/security-credentials/"):
            return self.reply(200, b"the-role", "text/plain")
        return self.keys("I", {"Code": "Success", "Type": "AWS-HMAC"})

    def keys(self, kind, more):
        access, secret, token = self.server.make(kind)
        return self.reply(200, {**more, "AccessKeyId": access, "SecretAccessKey": secret, "Token": token,
                                "Expiration": later(self.server.lifetime)})

    def container(self, _):
        if self.headers.get("Authorization") != self.server.token:
            return self.reply(401, b"{}")
        return self.keys("C", {"RoleArn": "arn:role"})

    # --- Roles ---------------------------------------------------------------------------------

    def sts(self, _):
        form = dict(urllib.parse.parse_qsl(self.body.decode()))
        action = form.get("Action", "")
        if action == "AssumeRole":
            refused = self.check_signature()
        else:
            refused = None if form.get("WebIdentityToken") == self.server.identity else "InvalidIdentityToken"
        if refused or form.get("RoleArn", "").endswith("denied"):
            return self.reply(403, f"<ErrorResponse><Error><Code>{refused or 'AccessDenied'}</Code><Message>no"
                              "</Message></Error></ErrorResponse>".encode(), "text/xml")
        access, secret, token = self.server.make("R")
        return self.reply(200, f"""<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <{action}Result><AssumedRoleUser><Arn>arn:x</Arn><AssumedRoleId>A:b</AssumedRoleId></AssumedRoleUser>
  <Credentials><AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
  <SessionToken>{token}</SessionToken><Expiration>{later(self.server.lifetime)}</Expiration></Credentials>
  </{action}Result></{action}Response>""".encode(), "text/xml")

    def check_signature(self):
        match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/sts/aws4_request, "
                             r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
                             self.headers.get("Authorization", ""))
        if not match:
            return "MissingAuthenticationToken"
        access, region, names, signature = match.groups()
        secret, token = self.server.keys.get(access, ("", None))
        if self.headers.get("x-amz-security-token") != token:
            return "InvalidClientTokenId"
        headers = {k: v for k, v in self.headers.items() if k.lower() in names.split(";")}
        request = AWSRequest(method="POST", url=f"http://{self.headers['Host']}/", headers=headers, data=self.body)
        request.context["timestamp"] = self.headers["x-amz-date"]
        signer = SigV4Auth(Credentials(access, secret), "sts", region)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return None if signer.signature(text, request) == signature else "SignatureDoesNotMatch"

    # --- Single sign-on ------------------------------------------------------------------------

    def portal(self, _):
        if self.headers.get("x-amz-sso_bearer_token") not in self.server.logins:
            return self.reply(401, {"message": "Session token not found or invalid"})
        access, secret, token = self.server.make("S")
        when = datetime.datetime.now(datetime.timezone.utc).timestamp() + self.server.lifetime
        return self.reply(200, {"roleCredentials": {"accessKeyId": access, "secretAccessKey": secret,
                                                    "sessionToken": token, "expiration": int(when * 1000)}})

    def login(self, _):
        wanted = json.loads(self.body)
        if wanted.get("grantType") != "refresh_token" or wanted.get("refreshToken") != "refresh" + SECRET:
            return self.reply(400, {"error": "invalid_grant"})
        self.server.logins.add("renewed" + SECRET)
        return self.reply(200, {"accessToken": "renewed" + SECRET, "expiresIn": 28800, "tokenType": "Bearer",
                                "refreshToken": "refresh2" + SECRET})

    # --- Google --------------------------------------------------------------------------------

    def bearer(self):
        with self.server.lock:
            self.server.given += 1
            token = f"ya29.{SECRET}{self.server.given}"
            self.server.keys[token] = None
        return self.reply(200, {"access_token": token, "expires_in": self.server.lifetime, "token_type": "Bearer"})

    def google_token(self, _):
        form = dict(urllib.parse.parse_qsl(self.body.decode()))
        if form.get("grant_type") == "refresh_token":
            good = (form.get("client_id"), form.get("client_secret"), form.get("refresh_token")) == \
                ("id", "client" + SECRET, "1//" + SECRET)
        else:
            good = form.get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer" and \
                self.server.public_key(form["assertion"])
        return self.bearer() if good else self.reply(400, {"error": "invalid_grant"})

    def google_metadata(self, _):
        if self.headers.get("Metadata-Flavor") != "Google":
            return self.reply(403, b"no flavor")
        return self.bearer()


ROUTES = [
    ("/latest/api/token", "PUT", Handler.metadata_token),
    ("/latest/meta-data/.*", "GET", Handler.metadata),
    ("/container", "GET", Handler.container),
    ("/", "POST", Handler.sts),
    ("/federation/credentials", "GET", Handler.portal),
    ("/token", "POST", Handler.login),
    ("/google/token", "POST", Handler.google_token),
    ("/computeMetadata/v1/instance/service-accounts/default/token", "GET", Handler.google_metadata),
]
