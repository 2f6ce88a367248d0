"""Shared by the tests of URLs: running urlcat, TAP, nginx."""
import datetime
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
URLCAT = str(pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain")).resolve() /
             "tests/urlcat")
SANITIZED = "asan" in URLCAT or "tsan" in URLCAT

HANG = 300  # seconds; only a hanging process takes this long, however busy the machine is
FAST = ["retries=3", f"stall_seconds={HANG}", f"connect_seconds={HANG}"]
# For slow responses: a little each second, for longer than the stall limit.
SLOW, SLOW_PIECES = "stall_seconds=8", 10


class Outcome:
    def __init__(self, done):
        self.code, self.out = done.returncode, done.stdout
        self.err = done.stderr.decode("utf-8", "replace")

    def __repr__(self):
        return f"exit {self.code}, {len(self.out)} bytes, {self.err.strip()!r}"


def environment(more=None):
    """The caller's environment, without variables that would redirect requests."""
    env = {k: v for k, v in os.environ.items()
           if not k.lower().endswith("_proxy") and k not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE") and
           not k.startswith(("AWS_", "GOOGLE_", "GCE_", "GS_", "AZURE_", "HF_", "STORAGE_EMULATOR"))}
    env.update({"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true", "no_proxy": "*"})
    env.update(more or {})
    return {k: v for k, v in env.items() if v is not None}


def urlcat(*args, data=b"", env=None):
    done = subprocess.run([URLCAT, *args], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(env), timeout=HANG)
    if "Sanitizer" in done.stderr.decode("utf-8", "replace"):
        sys.stdout.write("# " + done.stderr.decode("utf-8", "replace").replace("\n", "\n# "))
        done.returncode = 99
    return Outcome(done)


def read(url, *options, env=None):
    return urlcat("read", *FAST, *options, url, env=env)


def write(url, data, *options, env=None):
    return urlcat("write", *FAST, *options, url, data=data, env=env)


def peak_memory(*args, stdin=None, env=None):
    """Exit status and the peak resident size in MiB, as the program itself measures it."""
    done = subprocess.run([URLCAT, *args[:1], "peak=1", *args[1:]],
                          stdin=stdin or subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env=environment(env), text=True, timeout=HANG)
    peak = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("VmHWM:")]
    expect(peak, done.stderr)
    return done.returncode, peak[0] / 1024


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


class Tap:
    """Each check is a line; an exception is a failure."""

    def __init__(self):
        self.number = self.failures = 0

    def run(self, checks):
        """Runs checks. One that returns "SKIP why" was not possible."""
        for check in checks:
            self.number += 1
            name = check.__doc__.strip() if check.__doc__ else check.__name__
            try:
                result = check()
                why = f" # {result}" if isinstance(result, str) and result.startswith("SKIP ") else ""
                print(f"ok {self.number} - {name}{why}", flush=True)
            except Exception as e:  # pylint: disable=broad-except
                self.failures += 1
                print(f"not ok {self.number} - {name}")
                print("# " + f"{type(e).__name__}: {e}"[:2000].replace("\n", "\n# "), flush=True)

    def end(self):
        print(f"1..{self.number}")
        return 1 if self.failures else 0


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


def good(outcome, data=None):
    expect(outcome.code == 0, outcome)
    if data is not None:
        expect(outcome.out == data, "other bytes:", outcome)


def bad(outcome, *parts):
    expect(outcome.code == 1, outcome)
    for part in parts:
        expect(part in outcome.err, f"no {part!r} in", outcome)


NGINX = """
daemon off; worker_processes 1;
pid {root}/nginx.pid; error_log {root}/error.log;
events {{ worker_connections 1024; }}
http {{
  log_format version "$server_protocol"; log_format session "$ssl_session_reused";
  access_log off; sendfile on; client_max_body_size 0; keepalive_timeout 5; keepalive_requests {keep};
  client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;
  fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
  server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{tls_port} ssl;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
    root {root}/www; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:1m;
    location / {{ dav_methods PUT DELETE; create_full_put_path on; }}
    location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
    location /logged/ {{ rewrite ^/logged/(.*)$ /$1 break; access_log {root}/tls.log session; }}
    location /plain/ {{ rewrite ^/plain/(.*)$ http://localhost:{port}/$1 redirect; }}
    location /other/ {{ return 307 http://127.0.0.1:{port}/once$uri; }}
  }}
  server {{
    listen 127.0.0.1:{http2_port} ssl http2; root {root}/www; access_log {root}/http2.log version;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
  }}
  server {{
    listen 127.0.0.1:{old_port} ssl; root {root}/www;
    ssl_certificate {root}/old.pem; ssl_certificate_key {root}/old.key;
  }}
}}
"""


class Nginx:
    """The real nginx, serving and storing files of a scratch folder."""

    def __init__(self, keep=1000):
        self.keep = keep  # requests over one connection

    def __enter__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tarn-nginx-"))
        self.www = self.root / "www"
        self.www.mkdir()
        os.chmod(self.root, 0o777)
        os.chmod(self.www, 0o777)
        self.make_certificate("cert.pem", "key.pem", "-days", "2")
        self.make_expired("old.pem", "old.key")
        # nginx takes over sockets that are already listening (only with a master process): no other
        # program can take their ports, and a request that comes before nginx runs waits for it.
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
        self.port, self.tls_port, self.old_port, self.http2_port = (s.getsockname()[1] for s in sockets)
        conf = self.root / "nginx.conf"
        conf.write_text(NGINX.format(root=self.root, port=self.port, tls_port=self.tls_port,
                                     old_port=self.old_port, http2_port=self.http2_port,
                                     keep=self.keep))
        program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        self.child = subprocess.Popen([program, "-c", str(conf), "-p", str(self.root), "-e",
                                       str(self.root / "error.log")],
                                      env=dict(os.environ, NGINX="".join(f"{s.fileno()};" for s in sockets)),
                                      pass_fds=[s.fileno() for s in sockets],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for s in sockets:
            s.close()
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def make_certificate(self, name, key, *validity):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", *validity, "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                        str(self.root / key), "-out", str(self.root / name)],
                       check=True, stderr=subprocess.DEVNULL)

    def make_expired(self, name, key):
        """A certificate that expired yesterday; openssl's own tool cannot make one."""
        private = ec.generate_private_key(ec.SECP256R1())
        who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.timezone.utc)
        made = (x509.CertificateBuilder().subject_name(who).issuer_name(who)
                .public_key(private.public_key()).serial_number(x509.random_serial_number())
                .not_valid_before(now - datetime.timedelta(days=9))
                .not_valid_after(now - datetime.timedelta(days=1))
                .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
                .add_extension(x509.BasicConstraints(True, None), True)
                .sign(private, hashes.SHA256()))
        (self.root / name).write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (self.root / key).write_bytes(private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()
        shutil.rmtree(self.root)
