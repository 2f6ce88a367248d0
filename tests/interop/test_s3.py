#!/usr/bin/env python3
"""Sources and sinks on S3: moto's server with signatures checked and boto3 as the other client,
then a store that computes every signature again with botocore and fails on purpose.
"""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile

from s3_strict import REGION, Strict
from s3_support import Moto
from url_support import SANITIZED, SLOW, Tap, bad, expect, good, noise, peak_memory, read, urlcat, write

TARN = os.path.abspath(os.environ.get("TARN", pathlib.Path(__file__).parents[2] / "build/tarn"))
ODD_KEYS = ["plain.tar", "a b.tar", "a+b%20c.tar", "ünï/çødé.tar", "~tilde-._x", "!*'();:@&=$,[]",
            "?query=1&x#frag", "//double//slash", "a/../b/./c", "trailing/", "\\back\\slash", "%",
            "quote\"s", "new_日本.tar", "{braces}", "a:b|c^`d"]


def moto_checks(m):
    big = noise(20_000_001, 5)

    def reads():
        """moto: objects that boto3 put are read"""
        for key, data in (("a.bin", noise(1000)), ("dir/b c+d.bin", big), ("empty", b"")):
            m.client.put_object(Bucket="bucket", Key=key, Body=data)
            good(read("s3://bucket/" + key, env=m.env), data)

    def writes():
        """moto: boto3 gets written objects, in one piece or in parts"""
        for key, data in (("w/small", b"small"), ("w/empty", b""), ("w/ü +x", big)):
            good(write("s3://bucket/" + key, data, env=m.env))
            expect(m.get(key) == data, "other bytes in", key)
        head = m.client.head_object(Bucket="bucket", Key="w/ü +x")
        expect(head["ETag"].endswith('-3"'), "not three parts:", head["ETag"])

    def refuses():
        """moto: wrong keys are refused and reported, secrets are not shown"""
        m.client.put_object(Bucket="bucket", Key="x", Body=b"x")
        wrong = dict(m.env, AWS_SECRET_ACCESS_KEY="wrong-secret")
        outcome = read("s3://bucket/x", env=wrong)
        bad(outcome, "status 403", "SignatureDoesNotMatch")
        expect("wrong-secret" not in outcome.err, outcome)
        bad(write("s3://bucket/y", b"y", env=wrong), "status 403", "SignatureDoesNotMatch")
        bad(read("s3://bucket/x", env=dict(m.env, AWS_ACCESS_KEY_ID="AKIAUNKNOWN")),
            "status 403", "InvalidAccessKeyId")

    def missing():
        """moto: missing objects and buckets are not found"""
        bad(read("s3://bucket/missing", env=m.env), "no-file", "NoSuchKey")
        bad(read("s3://no-such-bucket/x", env=m.env), "no-file", "NoSuchBucket")
        bad(write("s3://no-such-bucket/x", b"", "overwrite=1", env=m.env), "NoSuchBucket")

    def keeps():
        """moto: an existing object is kept unless overwriting is requested"""
        m.client.put_object(Bucket="bucket", Key="kept", Body=b"old")
        bad(write("s3://bucket/kept", b"new", env=m.env), "exists")
        expect(m.get("kept") == b"old", "was replaced")
        good(write("s3://bucket/kept", b"new", "overwrite=1", env=m.env))
        expect(m.get("kept") == b"new", "was not replaced")

    def abandons():
        """moto: an abandoned upload leaves no object and no parts"""
        good(urlcat("abandon", "s3://bucket/gone", data=big, env=m.env))
        names = [o["Key"] for o in m.client.list_objects_v2(Bucket="bucket")["Contents"]]
        expect("gone" not in names, names)
        expect("Uploads" not in m.client.list_multipart_uploads(Bucket="bucket"), "parts are left")

    def commands():
        """moto: tarn packs shards into a bucket, lists them and fetches from them"""
        def tarn(*args):
            return subprocess.run([TARN, *args], env={**os.environ, **m.env}, cwd=folder,
                                  stdout=subprocess.PIPE, check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "source"
            source.mkdir()
            for i in range(10):
                (source / f"k{i}.bin").write_bytes(noise(3000, i))
            tarn("pack", "source", "-q", "-o", "s3://bucket/p/x_%03d.tar", "--max-count", "4")
            tarn("pack", "source", "-q", "-o", "s3://bucket/p/whole.tar.zst")
            keys = tarn("ls", "-1", "s3://bucket/p/x_{000..002}.tar").decode().split()
            expect(keys == [f"k{i}" for i in range(10)], keys)
            got = tarn("get", "s3://bucket/p/whole.tar.zst", "k7", "bin")
            expect(got == noise(3000, 7), "other bytes")
            tarn("pack", "s3://bucket/p/x_{000..002}.tar", "-q", "-o", "back")
            expect(tarn("get", "back", "k9", "bin") == noise(3000, 9), "other bytes after it")

    return [reads, writes, refuses, missing, keeps, abandons, commands]


def strict_checks(s, home):
    env = {"AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "se/cr+et=", "AWS_REGION": REGION,
           "AWS_ENDPOINT_URL_S3": s.url, "HOME": str(home)}
    bare = {"AWS_ENDPOINT_URL_S3": s.url, "HOME": str(home)}
    big = noise(17_000_000, 9)

    def keys():
        """every possible key is signed as botocore signs it"""
        for number, key in enumerate(ODD_KEYS):
            data = noise(100, number)
            good(write("s3://bucket/" + key, data, env=env))
            expect(s.objects.get("/bucket/" + key) == data, "other key or bytes:", key)
            good(read("s3://bucket/" + key, "filter=1", env=env), data)
        expect(not s.complaints, s.complaints)

    def parts():
        """a multipart upload is signed, listed and completed"""
        good(write("s3://bucket/parts", big, env=env))
        expect(s.objects["/bucket/parts"] == big and not s.uploads, "not complete")
        expect(not s.complaints, s.complaints)

    def exact():
        """an object of exactly one part, or exactly two, has no empty part"""
        for size in (8 << 20, 16 << 20):
            good(write(f"s3://bucket/exact{size}", big[:size], env=env))
            expect(s.objects[f"/bucket/exact{size}"] == big[:size], "other bytes")

    def resumes():
        """a read that is cut off continues, signed again"""
        s.objects["/bucket/cut.bin"] = big
        good(read("s3://bucket/cut.bin", env=env), big)
        ranges = [h.get("Range") for m, k, q, h in s.log if k == "/bucket/cut.bin"]
        expect(len(ranges) == 3 and ranges[0] is None and ranges[1] == "bytes=5666667-", ranges)
        expect(not s.complaints, s.complaints)

    def retries():
        """requests to a busy store are repeated"""
        good(write("s3://bucket/busy-small", b"data", env=env))
        expect(s.objects["/bucket/busy-small"] == b"data", "not there")
        good(write("s3://bucket/busy-parts", big, env=env))
        expect(s.objects["/bucket/busy-parts"] == big, "other bytes")

    def waits():
        """a store that takes long to assemble parts, and says so, is waited for"""
        good(write("s3://bucket/patient", big, SLOW, env=env))
        expect(s.objects["/bucket/patient"] == big, "other bytes")
        expect(s.count[("POST", "/bucket/patient", "uploadId")] == 1, "completed twice")

    def fails():
        """a failed upload is aborted, also when the store confirms it first"""
        for key, part in (("failing", "BadPart"), ("late", "late"), ("full", "status 507")):
            bad(write("s3://bucket/" + key, big, "retries=1", env=env), part)
            expect("/bucket/" + key not in s.objects and not s.uploads, "something is left")

    def races():
        """an object created during the upload is kept; a store without conditions still works"""
        for data in (b"ours", big):
            s.objects.pop("/bucket/raced", None)
            bad(write("s3://bucket/raced", data, env=env), "exists")
            expect(s.objects["/bucket/raced"] == b"another's" and not s.uploads, "replaced")
            good(write("s3://bucket/noconditions", data, "retries=0", env=env))
            expect(s.objects.pop("/bucket/noconditions") == data, "not there")

    def lost():
        """if the answer to the last request is lost, the writer knows its own object"""
        for data in (b"ours", big):
            for how in ("overwrite=0", "overwrite=1"):
                s.objects.pop("/bucket/lost", None)
                s.lost.clear()
                good(write("s3://bucket/lost", data, how, env=env))
                expect(s.objects["/bucket/lost"] == data and not s.uploads, "other bytes")
            for key in ("lost-others", "lost-shorter"):
                bad(write(f"s3://bucket/{key}", data, "retries=1", env=env),
                    "exists" if data != big else "NoSuchUpload")
                del s.objects[f"/bucket/{key}"]
        expect(not s.complaints, s.complaints)

    def confirms():
        """an upload is complete only if the store says so"""
        for key in ("silent", "vague"):
            bad(write(f"s3://bucket/{key}", big, "retries=1", env=env), "no confirmation")
            expect(f"/bucket/{key}" not in s.objects and not s.uploads, "something is left")

    def credentials():
        """keys, tokens, regions and endpoints come from the usual places"""
        s.objects["/bucket/x"] = b"x"
        aws = home / ".aws"
        aws.mkdir()
        (aws / "credentials").write_text(
            "# comment\n[other]\naws_access_key_id = AKOTHER\naws_secret_access_key=wrong\n"
            "[default]\naws_access_key_id=AKTEST\n  aws_secret_access_key = nested\n"
            "aws_secret_access_key = se/cr+et=\n\n[temporary]\naws_access_key_id = AKTEMP\n"
            "aws_secret_access_key = temporary\naws_session_token = to/ken+==\n")
        (aws / "config").write_text(f"[default]\nregion = {REGION}\n[profile temporary]\n"
                                    f"region={REGION}\nendpoint_url = {s.url}/\n")
        good(read("s3://bucket/x", env=bare), b"x")
        good(read("s3://bucket/x", env={"AWS_PROFILE": "temporary", "HOME": str(home)}), b"x")
        bad(read("s3://bucket/x", env=dict(bare, AWS_PROFILE="other", AWS_REGION=REGION)),
            "InvalidAccessKeyId")
        bad(read("s3://bucket/x", env=dict(bare, AWS_PROFILE="nobody")), "AWS_PROFILE")
        moved = home / "elsewhere"
        (aws / "credentials").rename(moved)
        good(read("s3://bucket/x", env=dict(bare, AWS_SHARED_CREDENTIALS_FILE=str(moved))), b"x")
        good(read("s3://bucket/x", env={"AWS_ACCESS_KEY_ID": "AKTEMP", "HOME": "/nonexistent",
                                        "AWS_SECRET_ACCESS_KEY": "temporary",
                                        "AWS_SESSION_TOKEN": "to/ken+==", "AWS_ENDPOINT_URL": s.url,
                                        "AWS_DEFAULT_REGION": REGION}), b"x")
        (aws / "config").unlink()

    def strangers():
        """without keys, requests are anonymous"""
        s.complaints.clear()
        s.objects["/public/x"] = b"for all"
        good(read("s3://public/x", env=bare), b"for all")
        bad(read("s3://bucket/x", env=bare), "status 403", "AccessDenied")
        bad(read("s3://bucket/x", env=dict(bare, AWS_ACCESS_KEY_ID="AKTEST")), "only one of AWS_ACCESS_KEY_ID")

    def odd():
        """an invalid object URL or endpoint is refused"""
        for url in ("s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://buc@ket/x",
                    "s3://a:b@bucket/x", "s3://buck\net/x"):
            bad(read(url, env=env), "usage")
        for endpoint in ("ftp://host", "host", "http://", "http://u:p@host", "http://host/path"):
            bad(read("s3://bucket/x", env=dict(env, AWS_ENDPOINT_URL_S3=endpoint)), "endpoint")

    def memory():
        """parts of a large object do not accumulate"""
        with subprocess.Popen(["head", "-c", str(150 << 20), "/dev/zero"],
                              stdout=subprocess.PIPE) as zeros:
            code, peak = peak_memory("write", "s3://bucket/large", stdin=zeros.stdout, env=env)
        expect(code == 0 and (SANITIZED or peak < 48), code, peak)
        expect(len(s.objects.pop("/bucket/large")) == 150 << 20, "not all of it")

    return [keys, parts, exact, resumes, retries, waits, fails, races, lost, confirms, credentials, strangers, odd,
            memory]


def main():
    tap = Tap()
    with contextlib.redirect_stderr(io.StringIO()), Moto() as server:
        tap.run(moto_checks(server))
    strict = Strict({"AKTEST": ("se/cr+et=", None), "AKTEMP": ("temporary", "to/ken+==")})
    with tempfile.TemporaryDirectory() as home:
        tap.run(strict_checks(strict, pathlib.Path(home)))
    return tap.end()


sys.exit(main())
