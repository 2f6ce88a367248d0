#!/usr/bin/env python3
"""gs://, az:// and hf:// URLs, and listings of all stores, next to google-auth, azure-storage-blob, boto3
and fsspec's idea of globs. The stores check signatures and tokens."""
import base64
import contextlib
import io
import json
import logging
import os
import pathlib
import shutil
import sys
import tempfile
import unittest.mock
import urllib.parse

import boto3
import botocore.config
import google.auth
import google.auth.transport.requests
import google.oauth2.service_account
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import ContainerClient
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from moto.server import ThreadedMotoServer

from cred_servers import SECRET, Provider
from s3_strict import REGION, Strict
from store_servers import Azure, Files, Hub
from url_support import SANITIZED, Tap, bad, environment, expect, good, noise, peak_memory, read, urlcat, write

HOME = pathlib.Path(tempfile.mkdtemp(prefix="tarn-stores-"))
ODD = ["plain.tar", "a b.tar", "a+b%20c.tar", "ünï/çødé.tar", "~t-._x", "!*'();:@&=$,[]", "?q=1&x#f", "%", "q\"<&>'",
       "{b}", "日本/x", "\x7f\x01odd"]


def keep(name, text):
    path = HOME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return str(path)


def listed(prefix, *options, env):
    outcome = urlcat("list", *options, prefix, env=env)
    good(outcome)
    rows = [line.split("\t") for line in outcome.out.decode().splitlines()]
    return [(url, int(size), etag) for size, etag, url in rows]


def refused(outcome, *parts):
    bad(outcome, *parts)
    expect(SECRET not in outcome.err, "a secret in", outcome)


def expanded(pattern, env):
    outcome = urlcat("expand", pattern, env=env)
    good(outcome)
    return outcome.out.decode().rstrip("\0").split("\n")[:-1] if outcome.out[:1] != b"\1" else outcome.out.decode()


def s3_checks(s):
    env = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s" + SECRET, "AWS_REGION": REGION,
           "AWS_ENDPOINT_URL_S3": s.url, "HOME": str(HOME)}
    client = boto3.client("s3", endpoint_url=s.url, region_name=REGION, aws_access_key_id="AK",
                          aws_secret_access_key="s" + SECRET,
                          config=botocore.config.Config(request_checksum_calculation="when_required"))

    def listing():
        """S3: objects are listed as boto3 lists them, page by page"""
        for name in ODD + ["d/1.tar", "d/2.tar", "d/e/3.tar"]:
            s.objects["/bucket/" + name] = name.encode() * 3
        for s.page in (1000, 2):
            pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket")
            theirs = sorted((("s3://bucket/" + o["Key"], o["Size"], o["ETag"]) for p in pages for o in p["Contents"]),
                            key=lambda row: row[0].encode())
            expect(listed("s3://bucket", "deep=1", env=env) == theirs, theirs)
            flat = [row for row in theirs if "/" not in row[0][12:]]
            expect(listed("s3://bucket/", env=env) == flat and len(flat) < len(theirs), flat)
            expect([r[0] for r in listed("s3://bucket/d/", env=env)] == ["s3://bucket/d/1.tar", "s3://bucket/d/2.tar"],
                   "the folder")
        expect(listed("s3://bucket/none", env=env) == [], "something")
        expect(not s.complaints, s.complaints)
        refused(urlcat("list", "s3://nobucket/x", env=env), "no-file", "NoSuchBucket")
        refused(urlcat("list", "s3://bucket/x", env=dict(env, AWS_SECRET_ACCESS_KEY="w" + SECRET)), "status 403")
        refused(urlcat("list", "https://host/x/", env=env), "unsupported", "braces")

    def globs():
        """S3: globs match names, and a name that is a glob itself is meant literally"""
        expect(expanded("s3://bucket/d/*.tar", env) == ["s3://bucket/d/1.tar", "s3://bucket/d/2.tar"], "files")
        expect(expanded("s3://bucket/d*/e/[0-9].tar", env) == ["s3://bucket/d/e/3.tar"], "deeper")
        expect("no object matches" in expanded("s3://bucket/none*", env), "no error")
        expect("not of buckets" in expanded("s3://buck*/x", env), "no error")
        name = "s3://bucket/!*'();:@&=$,[]"
        expect(expanded(name, env) == [name], "not itself")

    def odd():
        """S3: other answers than listings, and one without an end, are errors"""
        begin = "<ListBucketResult><IsTruncated>"
        entry = "<Contents><Key>%s</Key><Size>%s</Size></Contents>"
        for body in ("", "<html>Welcome</html>", "<ListBucketResult>", begin + "true</IsTruncated></ListBucketResult>",
                     f"<ListBucketResult>{entry % ('a', '-1')}</ListBucketResult>",
                     f"<ListBucketResult>{entry % ('a', '9' * 30)}</ListBucketResult>",
                     f"<ListBucketResult>{entry % ('', 1)}</ListBucketResult>",
                     f"<ListBucketResult><EncodingType>url</EncodingType>{entry % ('a%00b', 1)}</ListBucketResult>",
                     f"<ListBucketResult><EncodingType>url</EncodingType>{entry % ('a%ff', 1)}</ListBucketResult>",
                     f"<ListBucketResult><EncodingType>url</EncodingType>{entry % ('a%f', 1)}</ListBucketResult>",
                     "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
                     '<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult/>', "<a>" * 100000,
                     f"{begin}true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>"):
            s.hook = lambda handler, body=body: (200, body.encode())
            refused(urlcat("list", "s3://bucket/", env=env), "s3://bucket/")
        s.hook = None
        other = f"<ListBucketResult>{entry % ('elsewhere', 1)}{entry % ('d/', 0)}{entry % ('d/x', 1)}</ListBucketResult>"
        s.hook = lambda handler: (200, other.encode())
        expect(listed("s3://bucket/d/", env=env) == [("s3://bucket/d/x", 1, "")], "others")
        s.hook = None

    def many():
        """S3: 65,535 objects need little memory"""
        row = "<Contents><Key>train/shard-%06d.tar</Key><ETag>&quot;" + "0" * 32 + "&quot;</ETag><Size>1</Size></Contents>"

        def page(handler):
            at = int(dict(p.partition("=")[::2] for p in handler.query.split("&")).get("continuation-token", 0))
            end = min(at + 1000, 65535)
            more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < 65535 else ""
            return 200, (f"<ListBucketResult>{''.join(row % i for i in range(at, end))}<IsTruncated>"
                         f"{'true' if more else 'false'}</IsTruncated>{more}</ListBucketResult>").encode()
        s.hook = page
        code, peak = peak_memory("list", "s3://bucket/train/", env=env)
        s.hook = None
        expect(code == 0 and (SANITIZED or peak < 50), code, peak)

    def real():
        """moto: a listing of a bucket that boto3 filled"""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        with contextlib.redirect_stderr(io.StringIO()):
            server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
            server.start()
            url = "http://%s:%d" % server.get_host_and_port()
            other = boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="AK",
                                 aws_secret_access_key="s")
            other.create_bucket(Bucket="bucket")
            for name in ODD[:-1]:
                other.put_object(Bucket="bucket", Key=name, Body=name.encode())
            theirs = sorted(("s3://bucket/" + o["Key"], o["Size"], o["ETag"])
                            for o in other.list_objects_v2(Bucket="bucket")["Contents"])
            ours = listed("s3://bucket", "deep=1", env=dict(env, AWS_ENDPOINT_URL_S3=url, AWS_REGION="us-east-1"))
            server.stop()
        expect(sorted(ours) == theirs, ours, theirs)

    return [listing, globs, odd, many, real]


def service_account(p, key, **more):
    return {"type": "service_account", "client_email": "me@x", "token_uri": p.url + "/google/token",
            "private_key_id": "k1", "private_key": key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()).decode(), **more}


def gs_checks(p, s):
    key = rsa.generate_private_key(65537, 2048)
    env = {"STORAGE_EMULATOR_HOST": s.url, "HOME": str(HOME)}
    claims = []

    def verify(assertion):
        head, body, signature = assertion.split(".")
        raw = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in (head, body, signature)]
        key.public_key().verify(raw[2], f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
        claims.append((json.loads(raw[0]), json.loads(raw[1])))
        return True
    p.public_key = verify
    s.keys = p.keys

    def theirs(more):
        # google-auth sends a user's login to Google whatever the file says.
        with unittest.mock.patch.dict(os.environ, environment(dict(env, **more)), clear=True), \
                unittest.mock.patch("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", p.url + "/google/token"):
            found, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/devstorage.read_write"])
            found.refresh(google.auth.transport.requests.Request())
        return found.token

    def accounts():
        """Google: a service account signs for a token as google-auth does"""
        more = {"GOOGLE_APPLICATION_CREDENTIALS": keep("sa.json", service_account(p, key))}
        s.objects["/bucket/a b.tar"] = b"data"
        expect(theirs(more) in p.keys, "google-auth")
        good(read("gs://bucket/a b.tar", env=dict(env, **more)), b"data")
        expect(claims[0][0] == claims[1][0], claims)
        for name in ("iss", "scope", "aud"):
            expect(claims[0][1][name] == claims[1][1][name], claims)
        expect(claims[1][1]["exp"] - claims[1][1]["iat"] == 3600, claims)
        forms = [urllib.parse.parse_qs(body.decode()) for _, path, _, body in p.take_log() if path == "/google/token"]
        expect(len(forms) == 2 and forms[0]["grant_type"] == forms[1]["grant_type"] and
               forms[0].keys() == forms[1].keys(), forms)

    def users():
        """Google: the login of gcloud, from its own place and from another"""
        login = {"type": "authorized_user", "client_id": "id", "client_secret": "client" + SECRET,
                 "refresh_token": "1//" + SECRET, "token_uri": p.url + "/google/token"}
        more = {"GOOGLE_APPLICATION_CREDENTIALS": keep("user.json", login)}
        p.take_log()
        expect(theirs(more) in p.keys, "google-auth")
        good(read("gs://bucket/a b.tar", env=dict(env, **more)), b"data")
        forms = [sorted(urllib.parse.parse_qsl(body.decode())) for _, _, _, body in p.take_log()]
        forms = [[pair for pair in form if pair[0] != "scope"] for form in forms]
        expect(len(forms) == 2 and forms[0] == forms[1], forms)
        keep(".config/gcloud/application_default_credentials.json", login)
        p.take_log()
        bad(read("gs://bucket/a b.tar", env=env), "status 403")  # an emulator gets nothing unasked
        expect(not p.take_log(), "asked")

    def machines():
        """Google: the metadata server of a machine"""
        host = p.url.removeprefix("http://")
        more = {"GCE_METADATA_HOST": host, "NO_GCE_CHECK": None, "STORAGE_EMULATOR_HOST": None, "HOME": "/nonexistent",
                "https_proxy": s.url, "no_proxy": None, "CLOUDSDK_CONFIG": "/nonexistent"}
        p.take_log()
        outcome = read("gs://bucket/x", "retries=0", env=dict(env, **more))
        bad(outcome, "gs://bucket/x")  # there is no real store here, but the token was fetched
        paths = [path for _, path, _, _ in p.take_log()]
        expect(paths == ["/computeMetadata/v1/instance/service-accounts/default/token"], paths)
        p.fail[paths[0]] = (500, b"")
        refused(read("gs://bucket/x", "retries=0", env=dict(env, **more)), "status 500", "NO_GCE_CHECK")
        p.fail.clear()

    def keys():
        """Google: HMAC keys sign as for S3, and without any requests are anonymous"""
        p.keys["GOOG1"] = ("hmac" + SECRET, None)
        s.region = "auto"
        more = {"GS_ACCESS_KEY_ID": "GOOG1", "GS_SECRET_ACCESS_KEY": "hmac" + SECRET}
        good(read("gs://bucket/a b.tar", env=dict(env, **more)), b"data")
        for data in (b"", b"small", noise(9_000_000)):
            good(write("gs://bucket/signed", data, "overwrite=1", env=dict(env, **more)))
            expect(s.objects["/bucket/signed"] == data, "other bytes")
        s.objects["/public/x"] = b"for all"
        good(read("gs://public/x", env=env), b"for all")
        refused(read("gs://bucket/a b.tar", env=dict(env, GS_ACCESS_KEY_ID="GOOG1")), "GS_SECRET_ACCESS_KEY")

    def writes():
        """Google: objects are written, listed, and not replaced unasked; an expired token is renewed"""
        more = dict(env, GOOGLE_APPLICATION_CREDENTIALS=keep("sa.json", service_account(p, key)))
        big = noise(10_000_000)
        good(write("gs://bucket/new/ü x", b"small", env=more))
        good(write("gs://bucket/new/big", big, env=more))
        expect(s.objects["/bucket/new/big"] == big and s.objects["/bucket/new/ü x"] == b"small", "other bytes")
        bad(write("gs://bucket/new/big", b"other", env=more), "exists")
        bad(write("gs://bucket/raced", b"ours", env=more), "exists")  # it comes between the check and the write
        expect(s.objects["/bucket/raced"] == b"another's", "replaced")
        good(write("gs://bucket/new/big", b"other", "overwrite=1", env=more))
        rows = [row[:2] for row in listed("gs://bucket/new/", env=more)]
        expect(rows == [("gs://bucket/new/big", 5), ("gs://bucket/new/ü x", 5)], rows)
        asked = []

        def expire(handler):
            asked.append(handler.headers.get("Authorization"))
            if len(asked) == 1:
                s.wait(2)
                return 401, "AuthenticationRequired"
            return None
        s.hook = expire
        good(read("gs://bucket/new/big", "retries=0", env=more), b"other")
        s.hook = None
        expect(len(asked) == 2 and asked[0] != asked[1], asked)

    def odd():
        """Google: files without valid credentials are reported with their names, without their contents"""
        small = ec.generate_private_key(ec.SECP256R1())
        good_one = service_account(p, key)
        encrypted = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                      serialization.BestAvailableEncryption(b"word")).decode()
        for text, part in (("{", "JSON"), ("[]", "JSON"), ({"type": "external_account"}, "external_account"),
                           ({}, "type"), (dict(good_one, private_key=SECRET), "private_key"),
                           (dict(good_one, private_key=encrypted), "private_key"),
                           (service_account(p, small), "private_key"), (dict(good_one, token_uri="file:///x"), "token_uri"),
                           (dict(good_one, client_email=5), "client_email"), ("x" * 70000, "65536"),
                           (dict(good_one, type="authorized_user"), "client_id")):
            path = keep("odd.json", text)
            refused(read("gs://bucket/x", env=dict(env, GOOGLE_APPLICATION_CREDENTIALS=path)), part, path)
        refused(read("gs://bucket/x", env=dict(env, GOOGLE_APPLICATION_CREDENTIALS="/nonexistent")), "/nonexistent")
        for url in ("gs://", "gs://bucket", "gs://Bucket/x", "gs://bu@cket/x"):
            refused(read(url, env=env), "usage")

    return [accounts, users, machines, keys, writes, odd]


def az_checks(a):
    env = {"AZURE_STORAGE_ACCOUNT": a.ACCOUNT, "AZURE_STORAGE_ENDPOINT": a.endpoint, "HOME": str(HOME)}
    key = dict(env, AZURE_STORAGE_KEY=a.KEY)
    sas = dict(env, AZURE_STORAGE_SAS_TOKEN="?" + a.SAS)
    client = ContainerClient(a.endpoint, "container", credential={"account_name": a.ACCOUNT, "account_key": a.KEY})

    def reads():
        """Azure: blobs that its SDK wrote are read, with a key, a signature or a connection string"""
        text = (f"DefaultEndpointsProtocol=http;AccountName={a.ACCOUNT};AccountKey={a.KEY};"
                f"BlobEndpoint={a.endpoint}/;")
        for name in ODD[:-1]:
            client.upload_blob(name, name.encode() * 5)
            expect(client.download_blob(name).readall() == name.encode() * 5, "the SDK")
            for more in (key, sas, {"AZURE_STORAGE_CONNECTION_STRING": text}):
                good(read("az://container/" + name, "filter=1", env=more), name.encode() * 5)
        a.objects["container", "cut"] = data = noise(3_000_000)
        good(read("az://container/cut", env=key), data)
        ranges = [headers["Range"] for _, path, _, headers in a.take_log() if path.endswith("cut") and "Range" in headers]
        expect(ranges == ["bytes=1000000-"], ranges)
        expect(not a.complaints, a.complaints)
        del a.objects["container", "cut"]

    def writes():
        """Azure: its SDK reads what was written; nothing is replaced unasked"""
        good(write("az://container/new/ü x", b"ours", env=key))
        good(write("az://container/new/empty", b"", env=sas))
        expect(client.download_blob("new/ü x").readall() == b"ours", "other bytes")
        bad(write("az://container/new/ü x", b"other", env=key), "exists")
        try:
            client.upload_blob("new/ü x", b"other")
            expect(False, "the SDK replaced it")
        except ResourceExistsError:
            pass
        good(write("az://container/new/ü x", b"other", "overwrite=1", env=key))
        expect(client.download_blob("new/ü x").readall() == b"other", "not replaced")
        expect(not a.complaints, a.complaints)

    def big():
        """Azure: large data is written in blocks"""
        data = noise(20_000_001)
        good(write("az://container/big", data, env=key))
        expect(a.objects["container", "big"] == data, "other bytes")

    def lists():
        """Azure: blobs are listed as its SDK lists them, page by page"""
        for a.page in (5000, 2):
            theirs = sorted((("az://container/" + b.name, b.size, b.etag) for b in client.list_blobs()),
                            key=lambda row: row[0].encode())
            for more in (key, sas):
                ours = listed("az://container", "deep=1", env=more)
                expect([(u, n, e.strip('"')) for u, n, e in ours] ==
                       [(u, n, e.strip('"')) for u, n, e in theirs], ours, theirs)
        expect([r[0] for r in listed("az://container/new/", env=key)] ==
               ["az://container/new/empty", "az://container/new/ü x"], "folder")
        expect(not a.complaints, a.complaints)
        refused(urlcat("list", "az://other/x", env=key), "ContainerNotFound")

    def settings():
        """Azure: no account, a wrong key and odd names are reported; public containers need no key"""
        a.objects["public", "x"] = b"for all"
        good(read("az://public/x", env=env), b"for all")
        refused(read("az://container/plain.tar", env=env), "status 403", "AuthenticationFailed")
        refused(read("az://container/x", env={"HOME": str(HOME)}), "AZURE_STORAGE_ACCOUNT")
        refused(read("az://container/x", env=dict(env, AZURE_STORAGE_KEY="*" + SECRET)), "base64")
        refused(read("az://container/none", env=key), "no-file", "BlobNotFound")
        for url in ("az://", "az://container", "az://Con/x", "az://a@b/x"):
            refused(read(url, env=key), "usage")
        for name, value in (("ACCOUNT", "a/b"), ("ENDPOINT", "ftp://x"), ("ENDPOINT", "http://u@x")):
            refused(read("az://container/x", env=dict(key, **{"AZURE_STORAGE_" + name: value})), "usage")

    return [reads, writes, big, lists, settings]


def hf_checks(hub):
    env = {"HF_ENDPOINT": hub.url, "HOME": str(HOME)}
    token = dict(env, HF_TOKEN=hub.TOKEN)

    def reads():
        """Hugging Face: files of a revision, where the Hub redirects to; the token stays with the Hub"""
        for rev, given in (("main", ""), ("v1", "@v1"), ("refs/pr/7", "@refs/pr/7"), ("a/b", "@a%2Fb")):
            for name in ("train/0.tar", "a b+ü.tar"):
                data = (rev + name).encode()
                hub.objects["org/private-set", rev, name] = data
                good(read(f"hf://datasets/org/private-set{given}/{name}", env=token), data)
        expect(not hub.files.complaints, hub.files.complaints)
        expect(all(headers.get("Authorization") == f"Bearer {hub.TOKEN}" for _, _, _, headers in hub.take_log()), "no token")

    def tokens():
        """Hugging Face: the token comes from the environment or from the file of its login"""
        url = "hf://datasets/org/private-set/train/0.tar"
        refused(read(url, env=env), "status 401", "credentials")
        keep(".cache/huggingface/token", hub.TOKEN + "\n")
        good(read(url, env=env), b"maintrain/0.tar")
        refused(read(url, env=dict(env, HF_HUB_DISABLE_IMPLICIT_TOKEN="1")), "status 401")
        good(read(url, env=dict(env, HF_HOME=str(HOME / ".cache/huggingface"), HOME="/nonexistent")), b"maintrain/0.tar")
        refused(read(url, env=dict(env, HF_TOKEN="a\nb" + SECRET)), "control character")
        keep(".cache/huggingface/token", "x" * 5000)
        refused(read(url, env=env), "1024", "token")
        (HOME / ".cache/huggingface/token").unlink()

    def lists():
        """Hugging Face: the files of a folder, page by page, and globs"""
        for i in range(5):
            hub.objects["org/private-set", "main", f"train/{i}.tar"] = b"x" * i
        for hub.page in (1000, 2):
            rows = listed("hf://datasets/org/private-set/train/", env=token)
            expect(rows == [(f"hf://datasets/org/private-set/train/{i}.tar", i, "") for i in range(5)], rows)
            rows = [row[0] for row in listed("hf://datasets/org/private-set@main", "deep=1", env=token)]
            expect(len(rows) == 6 and rows[0] == "hf://datasets/org/private-set@main/a b+ü.tar", rows)
        names = expanded("hf://datasets/org/private-set/train/[1-3].tar", token)
        expect(names == [f"hf://datasets/org/private-set/train/{i}.tar" for i in (1, 2, 3)], names)
        refused(urlcat("list", "hf://datasets/org/private-set/none/", env=token), "no-file")

    def odd():
        """Hugging Face: other URLs are refused, and nothing is written"""
        for url in ("hf://", "hf://datasets/x", "hf://datasets/org/name", "hf://datasets/org/name@/x",
                    "hf://datasets/../name/x", "hf://datasets/o/n?x/y"):
            refused(read(url, env=token), "usage")
        refused(write("hf://datasets/org/name/x", b"", env=token), "unsupported", "writing")
        refused(read("hf://datasets/org/name/x", env=dict(token, HF_ENDPOINT="file:///x")), "HF_ENDPOINT")

    return [reads, tokens, lists, odd]


def main():
    tap = Tap()
    tap.run(s3_checks(Strict({"AK": ("s" + SECRET, None)})))
    tap.run(gs_checks(Provider(), Strict({})))
    tap.run(az_checks(Azure()))
    tap.run(hf_checks(Hub(Files())))
    shutil.rmtree(HOME, ignore_errors=True)
    return tap.end()


sys.exit(main())
