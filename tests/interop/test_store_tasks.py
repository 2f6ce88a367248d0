#!/usr/bin/env python3
"""Tasks and commits in an object store: moto, with a proxy that loses answers and kills clients, and a strict
store for conditions that moto does not know. What is published is compared with the same job in a folder."""
import contextlib
import hashlib
import io
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile

import boto3
import botocore.exceptions
from between import Between
from checks import TARN, check
from s3_strict import REGION, Strict
from s3_support import Moto
from url_support import HANG, SANITIZED

TASKS = 2
FULL = bool(os.environ.get("TARN_FULL"))
noise = random.Random(1)


def files(folder, first, count, size=900):
    folder.mkdir(exist_ok=True)
    for i in range(first, first + count):
        (folder / f"k{i:03d}.bin").write_bytes(noise.randbytes(size))
        (folder / f"k{i:03d}.cls").write_text(str(i % 7))
    return folder


class Job:
    """A job of tasks, in a folder and in stores."""

    def __init__(self, home, name, first, count):
        self.home, self.source = home, files(home / name, first, count)

    def words(self, target, task):
        return ["pack", str(self.source), "-o", str(target), "--max-count", "4", "-q", "-j2", "--task", f"{task}/{TASKS}"]


def start(*words, env):
    return subprocess.Popen([TARN, *map(str, words)], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=HANG)
    assert b"Sanitizer" not in err, err
    return process.returncode, out.decode(), err.decode()


def run(*words, env):
    return end(start(*words, env=env))


def sure(*words, env):
    code, out, err = run(*words, env=env)
    assert code == 0, (words, err)
    return out


def timeless(name, data):
    """Sums without the times of the shards, which objects have from the store (docs/formats/tarsum.md)."""
    if not name.endswith(".tarsum"):
        return data
    data = bytearray(data)
    data[124:128] = bytes(4)  # the CRC of all that
    for shard in range(struct.unpack_from("<I", data, 24)[0]):
        data[128 + 32 * shard + 8:128 + 32 * shard + 16] = bytes(8)
    return bytes(data)


class Place:
    """A folder in a bucket, seen with boto3."""

    def __init__(self, client, prefix):
        self.client, self.prefix = client, prefix
        self.url = f"s3://bucket/{prefix}"

    def keys(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=self.prefix + "/")
        return [o["Key"] for page in pages for o in page.get("Contents", [])]

    def objects(self):
        return {key[len(self.prefix) + 1:]: self.client.get_object(Bucket="bucket", Key=key)["Body"].read()
                for key in self.keys()}

    def uploads(self):
        return self.client.list_multipart_uploads(Bucket="bucket", Prefix=self.prefix + "/").get("Uploads", [])

    def put(self, objects):
        for name, data in objects.items():
            self.client.put_object(Bucket="bucket", Key=f"{self.prefix}/{name}", Body=data)

    def check(self, want):
        """The place has exactly what the folder has, and nothing is pending."""
        have = self.objects()
        assert sorted(have) == sorted(want), (sorted(have), sorted(want))
        for name in want:
            assert timeless(name, have[name]) == timeless(name, want[name]), name
        assert not self.uploads(), self.uploads()


class World:
    def __init__(self, home, moto, proxy):
        self.home, self.moto, self.proxy = home, moto, proxy
        self.env = moto.env
        self.through = dict(moto.env, AWS_ENDPOINT_URL_S3=proxy.url)
        self.first, self.second = Job(home, "first", 0, 13), Job(home, "second", 100, 7)
        local, more = home / "local", home / "more"
        self.old = self.in_folder(local, [self.first])
        self.both = self.in_folder(more, [self.first, self.second])
        self.other = self.in_folder(home / "other", [self.second])
        self.number = 0
        place = self.place()
        self.run_tasks(place, self.first)
        self.parts = place.objects()
        more_parts = self.place()
        self.run_tasks(more_parts, self.second)
        self.more_parts = more_parts.objects()

    def in_folder(self, folder, jobs):
        for i, job in enumerate(jobs):
            for task in range(TASKS):
                sure(*job.words(folder, task), env={})
            sure("commit", "-q", folder, *(["--append"] if i else []), env={})
        return {p.name: p.read_bytes() for p in folder.iterdir()}

    def place(self, content=None):
        self.number += 1
        place = Place(self.moto.client, f"w{self.number}")
        place.put(content or {})
        return place

    def run_tasks(self, place, job, env=None):
        for task in range(TASKS):
            sure(*job.words(place.url, task), env=env or self.env)


# --- Checks with moto -------------------------------------------------------------------------------------------


def a_commit_publishes_what_the_same_job_publishes_in_a_folder(w):
    place = w.place()
    w.run_tasks(place, w.first)
    assert not place.uploads() and all(k.startswith(place.prefix + "/.train.tasks/") for k in place.keys())
    code, out, err = run("ls", "-1", place.url, env=w.env)
    assert code != 0 and not out, (out, err)  # no reader sees a part
    assert "2 tasks committed: 13 samples" in sure("commit", place.url, env=w.env)
    place.check(w.old)
    assert "nothing to commit: 13 samples" in sure("commit", place.url, env=w.env)
    assert "all good" in sure("verify", place.url, env=w.env)
    place.check(w.old)


def sums_are_those_of_a_scan_of_the_objects(w):
    place = w.place(w.parts)
    sure("commit", "-q", place.url, env=w.env)
    sure("index", "-q", place.url, "-o", w.home / "scan", env=w.env)
    for name in ("train.taridx", "train.tarsum"):
        scan = (w.home / "scan" / name).read_bytes()
        assert timeless(name, place.objects()[name]) == timeless(name, scan), name


def append_and_overwrite_do_what_they_do_in_a_folder(w):
    place = w.place(w.parts)
    sure("commit", "-q", place.url, env=w.env)
    place.put(w.more_parts)
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "already exists, with 4 shards" in err, err
    sure("commit", "-q", "--append", place.url, env=w.env)
    place.check(w.both)
    place.put(w.more_parts)
    sure("commit", "-q", "--overwrite", place.url, env=w.env)
    place.check(w.other)


def a_task_that_is_run_again_does_nothing(w):
    place = w.place()
    sure(*w.first.words(place.url, 1), env=w.env)
    before = place.objects()
    assert "was already complete" in sure(*[x for x in w.first.words(place.url, 1) if x != "-q"], env=w.env)
    assert place.objects() == before


def two_runs_of_a_task_at_once_leave_one_part(w):
    place = w.place()
    for _ in range(2 if SANITIZED else 5):
        runs = [start(*w.first.words(place.url, task), env=w.env) for task in (0, 0, 1, 1)]
        assert all(end(r)[0] == 0 for r in runs)
        runs = {k.split("/")[3] for k in place.keys() if k.count("/") == 4}
        assert len(runs) == TASKS, runs
        sure("commit", "-q", place.url, env=w.env)
        place.check(w.old)
        w.moto.client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": k} for k in place.keys()]})


def missing_tasks_and_other_jobs_are_reported(w):
    place = w.place()
    sure(*w.first.words(place.url, 0), env=w.env)
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "1 of 2 tasks missing: 1; run it first" in err, err
    code, _, err = run(*w.second.words(place.url, 0), env=w.env)
    assert code and "not those of the existing parts: 13 samples then, 7 samples now" in err, err
    code, _, err = run(*w.first.words(place.url, 0), "--max-size", "1M", env=w.env)
    assert code and "parts of another job, with other options" in err, err
    code, _, err = run(*w.first.words(place.url, 0)[:-1], "0/3", env=w.env)
    assert code and "the existing parts are of 2 tasks, not of 3 tasks: run this task as I/2" in err, err
    assert sure("commit", "--discard", place.url, env=w.env) == "1 part discarded\n"
    assert not place.keys()
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "no parts of fold train" in err, err


def sources_that_change_between_tasks_are_refused(w):
    place, other = w.place(), w.place()
    job = Job(w.home, "changing", 0, 6)
    sure(*job.words(place.url, 0), env=w.env)
    files(job.source, 6, 1)
    code, _, err = run(*job.words(place.url, 1), env=w.env)
    assert code and "not those of the existing parts: 6 samples then, 7 samples now" in err, err
    code, _, err = run(*job.words(place.url, 0), env=w.env)  # also if its part exists
    assert code and "6 samples then, 7 samples now" in err, err
    sure(*job.words(other.url, 1), env=w.env)  # as if both had begun at the same time
    place.put(other.objects())
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "the sources changed between the tasks: " in err and "7 samples for" in err, err
    assert sure("commit", "--discard", place.url, env=w.env) == "2 parts discarded\n"
    assert not place.keys()


def a_task_that_runs_again_after_the_commit_is_recognised(w):
    place = w.place()
    w.run_tasks(place, w.first)
    sure("commit", "-q", place.url, env=w.env)
    sure(*w.first.words(place.url, 1), env=w.env)
    assert "nothing to commit: 13 samples" in sure("commit", place.url, env=w.env)
    place.check(w.old)
    sure(*w.second.words(place.url, 1), env=w.env)
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "1 of 2 tasks missing: 0" in err, err


def a_shard_that_was_replaced_after_its_task_is_an_error(w):
    place = w.place({name: data for name, data in w.old.items() if name.endswith(".tar")})
    for task in range(TASKS):
        sure("index", place.url, "-o", place.url, "-q", "--task", f"{task}/{TASKS}", env=w.env)
    place.put({"train_0001.tar": w.old["train_0001.tar"] + bytes(10240)})
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "train_0001.tar: the shard was replaced after its task had indexed it" in err, err
    assert "train.taridx" not in place.objects()


def a_key_in_two_parts_is_an_error_that_names_both_shards(w):
    place = w.place()
    with tempfile.TemporaryDirectory() as folder:
        twice = Job(pathlib.Path(folder), "a", 0, 6)
        (twice.source / "z").mkdir()
        for name in ("k001.bin", "k001.cls"):
            (twice.source / "z" / name).write_bytes((twice.source / name).read_bytes())
        words = ["--keys", "base"]
        codes = [run(*twice.words(place.url, t), *words, env=w.env)[0] for t in range(TASKS)]
        if any(codes):  # tarn pack itself has found them
            return
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "the key k001 is also in s3://" in err, err
    assert all("/.train.tasks/" in k for k in place.keys()), place.keys()


def shards_of_others_are_not_replaced(w):
    place = w.place(w.parts)
    place.put({"train_0001.tar": b"another's"})
    code, _, err = run("commit", place.url, env=w.env)
    assert code and "train_0001.tar" in err and "its name is needed" in err, err
    assert place.objects()["train_0001.tar"] == b"another's"
    sure("commit", "--discard", place.url, env=w.env)
    assert place.objects() == {"train_0001.tar": b"another's"} and not place.uploads(), place.keys()


def shards_that_are_in_the_store_are_indexed_by_tasks(w):
    place = w.place()
    place.put({n: d for n, d in w.old.items() if n.endswith(".tar")})
    for task in range(3):
        sure("index", "-q", place.url, "-o", place.url, "--task", f"{task}/3", env=w.env)
    sure("commit", "-q", place.url, env=w.env)
    place.check(w.old)


def a_large_index_is_sent_in_parts(w):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "many.jsonl"
        with open(source, "w") as out:
            for i in range(140_000):
                out.write('{"__key__": "n%06d", "cls": %d, "x": %d}\n' % (i, i % 7, i))
        place = w.place()
        for part in range(TASKS):
            sure("pack", source, "-o", place.url, "-q", "--max-count", "70000", "--task", f"{part}/{TASKS}", env=w.env)
        sure("commit", "-q", place.url, env=w.env)
    assert len(place.objects()["train.taridx"]) > 8 << 20
    assert not place.uploads() and len(place.keys()) == 4, place.keys()


# --- Failures ---------------------------------------------------------------------------------------------------


def writes_of(w, words):
    """The number of writing requests of a command."""
    w.proxy.begin()
    sure(*words, env=w.through)
    return w.proxy.count


def killed_at(w, words, number, when):
    """Runs a command that is killed when it has sent this write."""
    box = []

    def kill(n, *_):
        if n == number:
            box[0].send_signal(signal.SIGKILL)
            box[0].wait()
            return "lose" if when == "after" else (503, "Killed")
        return None
    with w.proxy.lock:
        w.proxy.count, w.proxy.log = 0, []
        w.proxy.before, w.proxy.after = (kill, None) if when == "before" else (None, kill)
        box.append(start(*words, env=w.through))
    box[0].communicate(timeout=HANG)
    w.proxy.begin()


def some(count, most):
    """All of them, or as many as there is time for."""
    if FULL or count <= most:
        return range(count)
    return sorted(random.Random(count).sample(range(count), most))


def a_task_killed_at_any_write_is_run_again(w):
    place = w.place()
    for number in some(writes_of(w, w.first.words(w.place().url, 0)), 3 if SANITIZED else 30):
        killed_at(w, w.first.words(place.url, 0), number, "after")
        if number % 5 == 4:
            w.run_tasks(place, w.first)
            sure("commit", "-q", place.url, env=w.env)
            place.check(w.old)
            w.moto.client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": k} for k in place.keys()]})
    w.run_tasks(place, w.first)
    sure("commit", "-q", place.url, env=w.env)
    place.check(w.old)


def commit_killed(w, before, parts, words, want, most):
    def fresh():
        place = w.place(before)
        place.put(parts)
        return place
    count = writes_of(w, ["commit", "-q", fresh().url, *words])
    for number in some(count, 3 if SANITIZED else most):
        place = fresh()
        killed_at(w, ["commit", "-q", place.url, *words], number, "after")
        sure("commit", "-q", place.url, *words, env=w.env)
        place.check(want)


def a_commit_killed_at_any_write_is_run_again(w):
    commit_killed(w, {}, w.parts, [], w.old, 100)


def an_append_killed_at_any_write_is_run_again(w):
    commit_killed(w, w.old, w.more_parts, ["--append"], w.both, 12)


def a_replacement_killed_at_any_write_is_run_again(w):
    commit_killed(w, w.old, w.more_parts, ["--overwrite"], w.other, 12)


def a_commit_killed_at_any_write_can_be_discarded(w):
    place = w.place({**w.old, **w.more_parts})
    count = writes_of(w, ["commit", "-q", place.url, "--append"])
    for number in some(count, 2 if SANITIZED else 6):
        place = w.place({**w.old, **w.more_parts})
        killed_at(w, ["commit", "-q", place.url, "--append"], number, "after")
        sure("commit", "-q", "--discard", place.url, env=w.env)
        place.check(w.both if len(place.keys()) == len(w.both) else w.old)


def seen(w, place, form):
    code, out, err = run("ls", "-1", place.url + form, env=w.env)
    if code == 0:
        return out
    return None if "no index here" in err or "no objects here" in err or "no .tar files" in err else err


def readers_of(w, before, words, parts):
    """What readers see at every write of a commit."""
    place = w.place(before)
    old = seen(w, place, ":train") if before else None
    place.put(parts)
    views = []

    def look(number, method, path, headers):
        if "/.train.tasks" not in path or method == "PUT":
            views.append([seen(w, place, form) for form in ("", ":train")])
    w.proxy.begin(before=look)
    sure("commit", "-q", "-j1", place.url, *words, env=w.through)
    w.proxy.begin()
    new = seen(w, place, "")
    for view in views:
        assert all(v in (old, new) for v in view), view
    where = [view.index(new) if new in view else None for view in views]
    assert old != new and where[0] is None and where[-1] is not None, where
    first = next(i for i, view in enumerate(views) if new in view)
    assert all(v == new for view in views[first:] for v in view), "back to the old fold"


def readers_see_no_fold_or_all_of_it(w):
    readers_of(w, {}, [], w.parts)


def readers_see_the_old_fold_or_the_longer_one(w):
    readers_of(w, w.old, ["--append"], w.more_parts)


def lost_answers(w, how):
    """Every write is applied, and its answer does not arrive, the first time."""
    place, lost = w.place(), set()

    def lose(number, method, path, headers):
        if (method, path) in lost or (method == "POST" and path.endswith("?uploads=")):
            return None
        lost.add((method, path))
        return how
    w.proxy.begin(after=lose)
    w.run_tasks(place, w.first, env=w.through)
    sure("commit", "-q", place.url, env=w.through)
    w.proxy.begin()
    assert len(lost) > 30, len(lost)
    place.check(w.old)


def answers_may_be_lost(w):
    lost_answers(w, "lose")


def connections_may_be_reset(w):
    lost_answers(w, "reset")


def refused_once(w, status, code, wanted):
    place, refused = w.place(), set()

    def refuse(number, method, path, headers):
        what = method, path.split("?")[0]
        if what in refused or not wanted(method, path, headers):
            return None
        refused.add(what)
        return status, code
    w.proxy.begin(before=refuse)
    w.run_tasks(place, w.first, env=w.through)
    sure("commit", "-q", place.url, env=w.through)
    w.proxy.begin()
    assert refused
    place.check(w.old)


def a_busy_store_is_asked_again(w):
    names = (".taridx", ".tar", "-of-00002", "done")
    refused_once(w, 503, "SlowDown", lambda m, path, h: path.split("?")[0].endswith(names))


def conflicts_of_conditional_writes_are_tried_again(w):
    refused_once(w, 409, "ConditionalRequestConflict", lambda m, path, h: h.get("If-None-Match") or h.get("If-Match"))


def two_commits_at_once_publish_once(w):
    for _ in range(1 if SANITIZED else 4):
        place = w.place(w.parts)
        both = [start("commit", "-q", place.url, env=w.env) for _ in range(2)]
        ended = [end(c) for c in both]
        assert any(code == 0 for code, _, _ in ended), ended
        for _, _, err in ended:
            assert not err or "run the commit again" in err or "run it again" in err or "not there" in err or \
                "missing" in err or "no such object" in err or "no task" in err, err
        sure("commit", "-q", place.url, env=w.env)
        place.check(w.old)


def a_task_that_ends_after_the_commit_leaves_nothing(w):
    place = w.place()
    w.run_tasks(place, w.first)
    mark = next(k for k in place.keys() if k.endswith("/00000-of-00002"))
    run_name = place.objects()[mark[len(place.prefix) + 1:]]
    w.moto.client.put_object(Bucket="bucket", Key=mark, Body=b"")  # as if it had not ended yet

    def commit(number, method, path, headers):
        if method == "PUT" and path.endswith("-of-00002") and headers.get("If-Match", '"tarn"') != '"tarn"':
            w.moto.client.put_object(Bucket="bucket", Key=mark, Body=run_name)
            sure("commit", "-q", place.url, env=w.env)
    w.proxy.begin(before=commit)
    code, _, err = run(*w.first.words(place.url, 0), env=w.through)
    w.proxy.begin()
    assert code and "committed or discarded while this task ran" in err, err
    place.check(w.old)


# --- A store of our own -----------------------------------------------------------------------------------------


def status_of(call, *args, **more):
    try:
        return call(*args, **more)["ResponseMetadata"]["HTTPStatusCode"]
    except botocore.exceptions.ClientError as e:
        return e.response["ResponseMetadata"]["HTTPStatusCode"]


def script(client):
    """What a store answers to the requests of a commit, sent by botocore."""
    name = {"Bucket": "bucket", "Key": "script/x"}
    yield status_of(client.put_object, **name, Body=b"1", IfMatch='"00"')
    yield status_of(client.put_object, **name, Body=b"1", IfNoneMatch="*")
    yield status_of(client.put_object, **name, Body=b"2", IfNoneMatch="*")
    yield status_of(client.put_object, **name, Body=b"2", IfMatch='"00"')
    tag = '"%s"' % hashlib.md5(b"1").hexdigest()
    yield status_of(client.put_object, **name, Body=b"3", IfMatch=tag)
    yield client.head_object(**name)["ContentLength"]
    other = {"Bucket": "bucket", "Key": "script/copy"}
    upload = client.create_multipart_upload(**other)["UploadId"]
    yield [(u["Key"], u["UploadId"] == upload) for u in
           client.list_multipart_uploads(Bucket="bucket", Prefix="script/")["Uploads"]]
    part = client.upload_part_copy(**other, UploadId=upload, PartNumber=1, CopySource="bucket/script/x",
                                   CopySourceRange="bytes=0-0")["CopyPartResult"]["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    yield status_of(client.complete_multipart_upload, **other, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
    yield client.get_object(**other)["Body"].read()
    upload = client.create_multipart_upload(**other)["UploadId"]
    client.upload_part(**other, UploadId=upload, PartNumber=1, Body=b"y")
    parts["Parts"][0]["ETag"] = '"%s"' % hashlib.md5(b"y").hexdigest()
    yield status_of(client.complete_multipart_upload, **other, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
    yield status_of(client.abort_multipart_upload, **other, UploadId=upload)
    yield client.list_multipart_uploads(Bucket="bucket", Prefix="script/").get("Uploads", [])
    for key in ("script/x", "script/copy"):
        yield status_of(client.delete_object, Bucket="bucket", Key=key)
    yield status_of(client.head_object, **name)


class StrictWorld:
    def __init__(self, w):
        self.store = Strict({"AKTEST": ("secret", None)})
        self.client = boto3.client("s3", endpoint_url=self.store.url, region_name=REGION, aws_access_key_id="AKTEST",
                                   aws_secret_access_key="secret")
        self.env = {"AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": REGION,
                    "AWS_ENDPOINT_URL_S3": self.store.url, "HOME": "/nonexistent"}
        self.w = w
        self.store.objects["/bucket/anchor"] = b""


def our_store_answers_botocore_as_moto_does(w, s):
    assert list(script(s.client)) == list(script(w.moto.client))


def our_store_keeps_a_condition_that_moto_ignores(w, s):
    other = {"Bucket": "bucket", "Key": "script/match"}
    s.client.put_object(**other, Body=b"old")
    for tag, status in (("00", 412), (hashlib.md5(b"old").hexdigest(), 200)):
        upload = s.client.create_multipart_upload(**other)["UploadId"]
        s.client.upload_part(**other, UploadId=upload, PartNumber=1, Body=b"new")
        parts = {"Parts": [{"PartNumber": 1, "ETag": '"%s"' % hashlib.md5(b"new").hexdigest()}]}
        assert status_of(s.client.complete_multipart_upload, **other, UploadId=upload, MultipartUpload=parts,
                         IfMatch=f'"{tag}"') == status
        if status != 200:
            s.client.abort_multipart_upload(**other, UploadId=upload)
    s.client.delete_object(**other)


def every_request_of_a_job_is_signed(w, s):
    place = Place(s.client, "signed")
    for job in (w.first, w.second):
        for task in range(TASKS):
            sure(*job.words(place.url, task), env=s.env)
        sure("commit", "-q", "--append", place.url, env=s.env)
    place.check(w.both)
    assert not s.store.complaints, s.store.complaints


def a_fold_that_another_writer_changed_is_kept(w, s):
    place = Place(s.client, "changed")
    place.put({**w.old, **w.more_parts})

    def change(handler):
        if handler.command == "PUT" and handler.key.endswith("/train.taridx"):
            s.store.hook = None
            s.store.objects[handler.key] += b"\0"
    s.store.hook = change
    code, _, err = run("commit", place.url, "--append", env=s.env)
    s.store.hook = None
    assert code and "another writer has changed the fold" in err, err
    assert place.objects()["train.taridx"] == w.old["train.taridx"] + b"\0"


def a_list_of_uploads_that_cannot_be_read_is_an_error_before_the_commit(w, s):
    place = Place(s.client, "uploads")
    place.put(w.parts)
    answers = {"AccessDenied": (403, "AccessDenied"), "not one of S3": (200, b"<html>Welcome</html>"),
               "is not complete": (200, b"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>"
                                        b"</ListMultipartUploadsResult>"),
               "without a name or id": (200, b"<ListMultipartUploadsResult><Upload><Key>x</Key></Upload>"
                                             b"</ListMultipartUploadsResult>")}
    for text, answer in answers.items():
        s.store.hook = lambda h: answer if h.command == "GET" and "uploads=" in h.query else None  # noqa: B023
        code, _, err = run("commit", place.url, env=s.env)
        s.store.hook = None
        assert code and text in err, (text, err)
        assert sorted(place.objects()) == sorted(w.parts), place.keys()
    sure("commit", "-q", place.url, env=s.env)
    place.check(w.old)


def a_store_without_conditions_is_refused(w, s):
    place = Place(s.client, "careless")
    s.store.careless = True
    code, _, err = run(*w.first.words(place.url, 0), env=s.env)
    s.store.careless = False
    assert code and "ignores conditional writes" in err, err


def other_stores_are_refused(w, s):
    for url in ("gs://bucket/x", "az://bucket/x", "https://host/x"):
        for words in (w.first.words(url, 0), ["commit", url]):
            code, _, err = run(*words, env=s.env)
            assert code and "tasks and commits work in folders and on s3://" in err, err
    code, _, err = run("pack", w.first.source, "-o", "s3://bucket/x", env=s.env)
    assert code and "only for tasks (task 0 of 1, and then a commit)" in err, err


MOTO = [a_commit_publishes_what_the_same_job_publishes_in_a_folder, sums_are_those_of_a_scan_of_the_objects,
        append_and_overwrite_do_what_they_do_in_a_folder, a_task_that_is_run_again_does_nothing,
        two_runs_of_a_task_at_once_leave_one_part, missing_tasks_and_other_jobs_are_reported,
        sources_that_change_between_tasks_are_refused, a_task_that_runs_again_after_the_commit_is_recognised,
        a_shard_that_was_replaced_after_its_task_is_an_error,
        a_key_in_two_parts_is_an_error_that_names_both_shards, shards_of_others_are_not_replaced,
        shards_that_are_in_the_store_are_indexed_by_tasks, a_large_index_is_sent_in_parts,
        a_task_killed_at_any_write_is_run_again, a_commit_killed_at_any_write_is_run_again,
        an_append_killed_at_any_write_is_run_again, a_replacement_killed_at_any_write_is_run_again,
        a_commit_killed_at_any_write_can_be_discarded, readers_see_no_fold_or_all_of_it,
        readers_see_the_old_fold_or_the_longer_one, answers_may_be_lost, connections_may_be_reset,
        a_busy_store_is_asked_again, conflicts_of_conditional_writes_are_tried_again,
        two_commits_at_once_publish_once, a_task_that_ends_after_the_commit_leaves_nothing]
STRICT = [our_store_answers_botocore_as_moto_does, our_store_keeps_a_condition_that_moto_ignores,
          every_request_of_a_job_is_signed, a_fold_that_another_writer_changed_is_kept,
          a_list_of_uploads_that_cannot_be_read_is_an_error_before_the_commit,
          a_store_without_conditions_is_refused, other_stores_are_refused]


def attempt(test, *args):
    if len(sys.argv) > 1 and sys.argv[1] not in test.__name__:
        return
    try:
        test(*args)
        check(test.__name__, True)
    except AssertionError as e:
        check(test.__name__, False, repr(e))


def main():
    with tempfile.TemporaryDirectory() as home, contextlib.redirect_stderr(io.StringIO()), Moto() as moto:
        os.environ["TMPDIR"] = home
        w = World(pathlib.Path(home), moto, Between(moto.url))
        for test in MOTO:
            attempt(test, w)
        s = StrictWorld(w)
        for test in STRICT:
            attempt(test, w, s)
    return check.end()


sys.exit(main())
