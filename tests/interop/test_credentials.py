#!/usr/bin/env python3
"""Credentials of Amazon's services: each provider is driven by botocore first, then by tarn, and the
requests are compared. The store computes every signature again and refuses wrong ones."""
import hashlib
import json
import os
import pathlib
import shutil
import socket
import stat
import sys
import tempfile
import unittest.mock
import urllib.parse

HOME = pathlib.Path(tempfile.mkdtemp(prefix="tarn-cred-"))
os.environ["HOME"] = str(HOME)  # botocore looks for its cache when it is imported

import botocore.session  # pylint: disable=wrong-import-position

from cred_servers import SECRET, Provider, later  # pylint: disable=wrong-import-position
from s3_strict import REGION, Strict  # pylint: disable=wrong-import-position
from url_support import Tap, bad, environment, expect, good, read  # pylint: disable=wrong-import-position

ROLE = "arn:aws:iam::123456789012:role/reader"
KEYS = {"AWS_ACCESS_KEY_ID": "AKSTATIC", "AWS_SECRET_ACCESS_KEY": "static" + SECRET}
AWS = HOME / ".aws"


def write(name, text, mode=0o600):
    path = HOME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def boto(env):
    """The access key that botocore finds."""
    with unittest.mock.patch.dict(os.environ, environment(dict(env, HOME=str(HOME))), clear=True):
        found = botocore.session.Session().get_credentials()
        return found.get_frozen_credentials().access_key if found else None


def shape(log):
    """What a request asks, without what differs from program to program and time to time."""
    out = []
    for method, path, headers, body in log:
        names = {k.lower(): v for k, v in headers.items()}
        kept = {k: v for k, v in names.items() if k in (
            "authorization", "metadata-flavor", "x-aws-ec2-metadata-token", "x-amz-sso_bearer_token",
            "x-aws-ec2-metadata-token-ttl-seconds")}
        if "SignedHeaders" in kept.get("authorization", ""):
            kept["authorization"] = kept["authorization"].partition("/")[0] + " sts"
        form = dict(urllib.parse.parse_qsl(body.decode())) if body[:1] != b"{" else json.loads(body)
        form.pop("RoleSessionName", None)
        where, _, query = path.partition("?")
        out.append((method, where, sorted(urllib.parse.parse_qsl(query)), kept, form))
    return out


def checks(p, s):  # pylint: disable=too-many-locals,too-many-statements
    s.objects["/bucket/x"] = b"x"
    base = {"AWS_ENDPOINT_URL_S3": s.url, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "HOME": str(HOME),
            "AWS_ENDPOINT_URL_STS": p.url, "AWS_ENDPOINT_URL_SSO": p.url, "AWS_ENDPOINT_URL_SSO_OIDC": p.url}
    instance = {"AWS_EC2_METADATA_DISABLED": None, "AWS_EC2_METADATA_SERVICE_ENDPOINT": p.url}

    def fresh():
        shutil.rmtree(AWS, ignore_errors=True)
        p.fail.clear()
        p.token = p.identity = None
        p.lifetime = 3600
        p.keys.clear()
        p.keys["AKSTATIC"] = ("static" + SECRET, None)
        s.keys = p.keys
        s.complaints.clear()
        p.take_log()

    def both(env, kind, compare=True):
        """botocore finds credentials of that kind, tarn asks for the same, and the store accepts them."""
        env = {**base, **env}
        found = boto(env)
        expect(found and found.startswith("AK" + kind), "botocore:", found)
        theirs = shape(p.take_log())
        s.log.clear()
        good(read("s3://bucket/x", env=env), b"x")
        ours = shape(p.take_log())
        used = s.log[-1][3]["Authorization"]
        expect(f"Credential=AK{kind}" in used, used)
        if compare:
            ours = [r for r in ours if not r[1].endswith("/placement/region")]
            expect(ours == theirs, "requests differ:", ours, theirs)

    def refused(env, *parts):
        outcome = read("s3://bucket/x", "retries=0", env={**base, **env})
        bad(outcome, *parts)
        expect(SECRET not in outcome.err, "a secret in", outcome)

    def environment_first():
        """keys in the environment come before everything else"""
        fresh()
        write(".aws/config", f"[default]\nrole_arn={ROLE}\ncredential_source=Ec2InstanceMetadata\n")
        both({**KEYS, **instance}, "STATIC")

    def instances():
        """an EC2 instance's role comes from its metadata, with a token, and so does the region"""
        fresh()
        both(instance, "I")
        good(read("s3://bucket/x", env={**base, **instance, "AWS_REGION": None, "AWS_DEFAULT_REGION": None}), b"x")
        expect(any(path.endswith("/placement/region") for _, path, _, _ in p.take_log()), "no region")

    def containers():
        """ECS and EKS endpoints, with an authorization from the environment or a file"""
        fresh()
        env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": p.url + "/container"}
        both(env, "C")
        p.token = "Basic " + SECRET
        both({**env, "AWS_CONTAINER_AUTHORIZATION_TOKEN": p.token}, "C")
        both({**env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write("token", p.token)}, "C")
        refused(env, "status 401", "AWS_CONTAINER_CREDENTIALS")
        for url in ("http://example.com/x", "http://169.254.170.2.example.com/", "http://10.0.0.1/",
                    "http://localhost@example.com/", "ftp://localhost/", "http://local/x", "http://127.0.0.1.nip.io/"):
            refused({"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}, "169.254.170.23")
        refused({**env, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nX: y" + SECRET}, "control character")

    def roles():
        """AssumeRole with keys of a profile, of a chain of profiles, and of a named source"""
        fresh()
        write(".aws/credentials", "[keys]\naws_access_key_id = AKSTATIC\n"
              f"aws_secret_access_key = static{SECRET}\n[self]\naws_access_key_id = AKSTATIC\n"
              f"aws_secret_access_key = static{SECRET}\n")
        write(".aws/config", f"""[profile plain]
role_arn = {ROLE}
source_profile = keys
external_id = an id&x=y
duration_seconds = 900
[profile self]
role_arn = {ROLE}
source_profile = self
[profile chain]
role_arn = {ROLE}2
source_profile = plain
[profile named]
role_arn = {ROLE}
credential_source = Environment
[profile metal]
role_arn = {ROLE}
credential_source = Ec2InstanceMetadata
[profile circle]
role_arn = {ROLE}
source_profile = circle2
[profile circle2]
role_arn = {ROLE}
source_profile = circle
[profile denied]
role_arn = {ROLE}/denied
source_profile = keys
[profile lost]
role_arn = {ROLE}
source_profile = nobody
[profile code]
role_arn = {ROLE}
source_profile = keys
mfa_serial = arn:mfa
[profile neither]
role_arn = {ROLE}
""")
        for name in ("plain", "self"):
            both({"AWS_PROFILE": name}, "R")
        both({"AWS_PROFILE": "chain"}, "R", compare=False)
        both({"AWS_PROFILE": "metal", **instance}, "R", compare=False)
        refused({"AWS_PROFILE": "circle"}, "circle")
        refused({"AWS_PROFILE": "denied"}, "AccessDenied", ROLE)
        refused({"AWS_PROFILE": "lost"}, "nobody", "does not exist")
        refused({"AWS_PROFILE": "code"}, "mfa_serial")
        refused({"AWS_PROFILE": "neither"}, "source_profile")
        refused({"AWS_PROFILE": "named"}, "Environment")

    def identities():
        """web identity (IRSA) from the environment or a profile"""
        fresh()
        p.identity = "eyJ." + SECRET
        token = write("identity", p.identity)
        both({"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": ROLE}, "R")
        write(".aws/config", f"[default]\nweb_identity_token_file = {token}\nrole_arn = {ROLE}\n"
              "role_session_name = me\n")
        both({}, "R")
        refused({"AWS_WEB_IDENTITY_TOKEN_FILE": "/nonexistent"}, "/nonexistent")
        (AWS / "config").unlink()
        refused({"AWS_WEB_IDENTITY_TOKEN_FILE": token}, "AWS_ROLE_ARN")
        write("identity", "other" + SECRET)
        refused({"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": ROLE}, "InvalidIdentityToken")

    def cache(name, text):
        return write(f".aws/sso/cache/{hashlib.sha1(name.encode()).hexdigest()}.json", json.dumps(text))

    def logins():
        """single sign-on, older and with a session, whose login is renewed and stored"""
        fresh()
        p.logins = {"login" + SECRET}
        write(".aws/config", """[profile old]
sso_start_url = https://start
sso_region = eu-test-1
sso_account_id = 123456789012
sso_role_name = reader
[profile new]
sso_session = my session
sso_account_id = 123456789012
sso_role_name = reader
[sso-session "my session"]
sso_start_url = https://start
sso_region = eu-test-1
""")
        login = {"startUrl": "https://start", "region": "eu-test-1", "accessToken": "login" + SECRET,
                 "expiresAt": later(3600)}
        cache("https://start", login)
        both({"AWS_PROFILE": "old"}, "S")
        cache("my session", login)
        both({"AWS_PROFILE": "new"}, "S")
        soon = dict(login, expiresAt=later(100), refreshToken="refresh" + SECRET, clientId="id",
                    clientSecret="client" + SECRET, registrationExpiresAt=later(9999))
        cache("my session", soon)
        theirs = boto({**base, "AWS_PROFILE": "new"})
        asked = shape(p.take_log())
        path = pathlib.Path(cache("my session", soon))
        good(read("s3://bucket/x", env={**base, "AWS_PROFILE": "new"}), b"x")
        expect(theirs.startswith("AKS") and shape(p.take_log()) == asked, asked)
        stored = json.loads(path.read_text())
        expect(stored["accessToken"] == "renewed" + SECRET and stored["refreshToken"] == "refresh2" + SECRET and
               stored["clientSecret"] == "client" + SECRET and stored["expiresAt"] > later(20000), stored)
        expect(stat.S_IMODE(path.stat().st_mode) == 0o600, "others can read it")
        expect(boto({**base, "AWS_PROFILE": "new"}).startswith("AKS"), "botocore cannot read it")
        cache("https://start", dict(login, expiresAt=later(-5)))
        refused({"AWS_PROFILE": "old"}, "expired", "aws sso login --profile old")
        cache("https://start", dict(login, accessToken="wrong" + SECRET))
        refused({"AWS_PROFILE": "old"}, "no longer valid", "aws sso login")
        for text in ("{", "[]", '{"accessToken": 5}', '{"accessToken": "a\\nb", "expiresAt": "x"}'):
            write(f".aws/sso/cache/{hashlib.sha1(b'https://start').hexdigest()}.json", text)
            refused({"AWS_PROFILE": "old"}, ".aws/sso/cache")
        shutil.rmtree(AWS / "sso")
        refused({"AWS_PROFILE": "old"}, "there is no login")

    def programs():
        """credential_process runs without a shell, with its words split as by a shell"""
        fresh()
        answer = {"Version": 1, "AccessKeyId": "AKP", "SecretAccessKey": "p" + SECRET, "SessionToken": "t",
                  "Expiration": later(3600)}
        p.keys["AKP"] = ("p" + SECRET, "t")
        program = write("my program", "#!/bin/sh\nprintf '%s|' \"$@\" >$HOME/arguments\ncat \"$HOME/answer\"\n", 0o700)
        line = f"\"{program}\" one 'two  three' \"fo\\\"ur\" $HOME;x fi\\ ve"
        write(".aws/config", f"[default]\ncredential_process = {line}\n")
        write("answer", json.dumps(answer))
        both({}, "P")
        words = (HOME / "arguments").read_text()
        expect(words == 'one|two  three|fo"ur|$HOME;x|fi ve|', words)
        for text, part in ((json.dumps(dict(answer, Version=2)), "Version"), ("{}", "Version"), ("no", "JSON"), ("", "JSON"),
                           (json.dumps(dict(answer, SecretAccessKey=5)), "SecretAccessKey"),
                           (json.dumps(dict(answer, Expiration=SECRET)), "Expiration"),
                           ("x" * 70000, "65536")):
            write("answer", text)
            refused({}, part, "credential_process")
        for line, part in (("false", "exit status 1"), ("/nonexistent/program x", "cannot start"),
                           ("'open", "quote")):
            write(".aws/config", f"[default]\ncredential_process = {line}\n")
            refused({}, part)

    def order():
        """a role comes before keys, keys before a program, and a container before the instance"""
        fresh()
        write(".aws/credentials", f"[default]\naws_access_key_id = AKSTATIC\naws_secret_access_key = static{SECRET}\n")
        write(".aws/config", "[default]\ncredential_process = false\n")
        both(instance, "STATIC")
        write(".aws/config", f"[default]\nrole_arn = {ROLE}\nsource_profile = default\n")
        both(instance, "R")
        shutil.rmtree(AWS)
        both({**instance, "AWS_CONTAINER_CREDENTIALS_FULL_URI": p.url + "/container"}, "C")

    def nobody():
        """where nobody answers, requests are anonymous; metadata that fails is an error"""
        fresh()
        s.objects["/public/x"] = b"for all"
        env = {**base, "AWS_EC2_METADATA_DISABLED": None}
        silent = socket.create_server(("127.0.0.1", 0))  # accepts connections, and never answers
        for endpoint in ("http://127.0.0.1:1", s.url + "/none", f"http://127.0.0.1:{silent.getsockname()[1]}"):
            good(read("s3://public/x", env={**env, "AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint}), b"for all")
        silent.close()
        good(read("s3://public/x", env={**base, **KEYS, "AWS_NO_SIGN_REQUEST": "true"}), b"for all")
        p.fail["/latest/meta-data/iam/security-credentials/"] = (404, b"")
        good(read("s3://public/x", env={**base, **instance}), b"for all")
        for path, answer in (("/latest/api/token", (500, b"")), ("/latest/api/token", (200, b"a\nb")),
                             ("/latest/meta-data/iam/security-credentials/", (500, b"")),
                             ("/latest/meta-data/iam/security-credentials/", (200, b"../../x")),
                             ("/latest/meta-data/iam/security-credentials/the-role", (200, b"[")),
                             ("/latest/meta-data/iam/security-credentials/the-role", (200, b'{"Code": "Failed"}')),
                             ("/latest/meta-data/iam/security-credentials/the-role", (200, b"x" * 70000))):
            p.fail.clear()
            p.fail[path] = answer
            refused(instance, "usage" if answer[1] == b"a\nb" else "")

    def renewed():
        """a token that has expired in the middle is renewed, and the request is signed again"""
        fresh()
        big = os.urandom(3_000_000)
        s.objects["/bucket/cut-token"] = big
        refusals = []

        def expire(handler):
            """The first resumption is refused, at least two seconds after the credentials were found."""
            if "Range" in handler.headers and not refusals:
                refusals.append(handler.headers["Authorization"])
                s.wait(2)
                return 400, "ExpiredToken"
            return None
        s.hook = expire
        good(read("s3://bucket/cut-token", env={**base, **instance}), big)
        s.hook = None
        keys = [h["Authorization"].split("/")[0] for _, k, _, h in s.log if k == "/bucket/cut-token"]
        expect(len(set(keys[-4:])) == 2 and refusals, keys)
        given = [path for _, path, _, _ in p.take_log() if path.endswith("the-role")]
        expect(len(given) == 2, given)

    def clocks():
        """a clock that is wrong is corrected by the answer of the store"""
        fresh()
        seen = []

        def skew(handler):
            seen.append(handler.headers["x-amz-date"])
            stamp = later(7200)
            if len(seen) == 1:
                return 403, f"RequestTimeTooSkewed</Code><ServerTime>{stamp}</ServerTime><Code>"
            expect(seen[1][:13] == stamp.replace("-", "").replace(":", "")[:13], seen)
            return 200, b"x"
        s.hook = skew
        good(read("s3://bucket/x", "retries=0", env={**base, **KEYS}), b"x")
        s.hook = None
        expect(len(seen) == 2, seen)

    def files():
        """odd configuration files are reported, or harmless"""
        fresh()
        write(".aws/credentials", "[default]\naws_access_key_id = AKSTATIC\n")
        refused({}, "aws_secret_access_key")
        for text in ("a\0b", "[default]\naws_access_key_id = A\x01B\naws_secret_access_key=x", "x" * (2 << 20)):
            write(".aws/credentials", text)
            refused({}, "usage" if "\x01" in text else "credentials")
        (AWS / "credentials").unlink()
        (AWS / "credentials").mkdir()
        refused({}, "folder")
        (AWS / "credentials").rmdir()
        os.mkfifo(AWS / "credentials")
        good(read("s3://bucket/x", env={**base, **KEYS}), b"x")

    return [environment_first, instances, containers, roles, identities, logins, programs, order, nobody, renewed,
            clocks, files]


def main():
    tap = Tap()
    tap.run(checks(Provider(), Strict({})))
    shutil.rmtree(HOME, ignore_errors=True)
    return tap.end()


sys.exit(main())
