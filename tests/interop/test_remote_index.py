#!/usr/bin/env python3
"""Where the index of a remote fold comes from: its URLs, the real nginx and moto's S3 as stores, and
a store that counts requests."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from remote_support import TARN, WHEN, Store, make_shards, tarn
from s3_support import Moto
from store_servers import Azure, Files, Hub
from url_support import HANG, Nginx, Tap, bad, environment, expect, good

ENDINGS = ("taridx", "tarsum")


def info(url, *options, env=None):
    """What tarn info prints about the only fold."""
    outcome = tarn("info", "--json", *options, url, env=env)
    good(outcome)
    folds = json.loads(outcome.out)
    expect(len(folds) == 1, folds)
    return folds[0]


def indexed(folder, **more):
    make_shards(folder, **more)
    good(tarn("index", "-q", "--sums", folder))
    return folder


def same_files(a, b):
    for ending in ENDINGS:
        one, other = (pathlib.Path(x) / f"train.{ending}" for x in (a, b))
        expect(one.read_bytes() == other.read_bytes(), f"train.{ending} differs")


def versions(cache):
    """The folders of versions of all indexes in a cache."""
    return [x for x in pathlib.Path(cache).glob("index/*/*") if not x.name.startswith(".")]


def flip(path, at):
    """Changes a byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


# --- nginx --------------------------------------------------------------------------------


def nginx_checks(nginx, scratch):
    birds = nginx.www / "birds"
    make_shards(birds)
    os.chmod(birds, 0o777)
    base = nginx.url + "/birds"
    shards = base + "/train-{0000..0002}.tar"
    local = scratch / "local"
    shutil.copytree(birds, local)
    good(tarn("index", "-q", "--sums", local))

    def missing():
        """without an index the error has the command that writes it, which works as printed"""
        outcome = tarn("info", base + ":train")
        bad(outcome, base + "/train.taridx", "no index here")
        bad(tarn("verify", base + ":train"), "tarn index")
        command = shlex.split(re.search(r"(tarn index '[^']*' -o FOLDER)", outcome.err)[1])
        good(tarn("index", command[2].replace("0099", "0002"), "-o", scratch / "made"))
        same_files(scratch / "made", local)
        expect(info(shards, "--index", scratch / "made/train.taridx")["samples"] == 12)

    def pages():
        """a web page where an archive is expected gives the forms of URLs"""
        for name, size in (("page", 26), ("long", 2000)):
            (birds / name).write_bytes(b"<html>".ljust(size, b" "))
            bad(tarn("info", base + "/" + name), "like a web page", "FOLDER:FOLD")
            (birds / name).unlink()

    def unnamed():
        """a folder where an archive is expected gives the forms of folds"""
        outcome = tarn("index", base, "-o", scratch / "widx")
        expect(outcome.code == 2, outcome)
        for part in ("read as one archive", ".taridx", "FOLDER:FOLD"):
            expect(part in outcome.err, part, outcome)

    def identical():
        """the index of remote shards is byte for byte that of local copies"""
        good(tarn("index", shards, "-o", scratch / "out"))
        same_files(scratch / "out", local)
        good(tarn("index", shards, "-o", scratch / "one.taridx", "-j", "1"))
        expect((scratch / "one.taridx").read_bytes() == (local / "train.taridx").read_bytes())
        moved = nginx.url + "/moved/birds/train-{0000..0002}.tar"
        good(tarn("index", moved, "-o", scratch / "moved"))
        same_files(scratch / "moved", local)

    def refused():
        """compressed shards, missing shards and a missing -o are errors, and nothing is written"""
        (birds / "zip-0.tar").write_bytes(subprocess.run(
            ["gzip", "-c", birds / "train-0000.tar"], check=True, stdout=subprocess.PIPE).stdout)
        bad(tarn("index", base + "/zip-0.tar", "-o", scratch / "zip"),
            "zip-0.tar: offset 0: compressed with gzip", "random access is impossible")
        bad(tarn("index", base + "/train-{0000..0003}.tar", "-o", scratch / "zip"), "train-0003.tar", "404")
        expect(list((scratch / "zip").iterdir()) == [], "files were written")
        outcome = tarn("index", shards)
        expect(outcome.code == 2 and "-o" in outcome.err, outcome)
        bad(tarn("index", base + ":nowhere", "-o", scratch / "zip"), "does not list its files",
            base + "/nowhere-{0000..0099}.tar")

    def uploads():
        """an index is uploaded with -o URL, and replaced only with --overwrite"""
        good(tarn("index", shards, "-o", base))
        same_files(birds, local)
        before = sorted(x.name for x in birds.iterdir())
        bad(tarn("index", shards, "-o", base), "already exists", "--overwrite")
        good(tarn("index", shards, "-o", base + "/", "--overwrite"))
        good(tarn("index", shards, "-o", base + "/other.taridx"))
        expect((birds / "other.taridx").read_bytes() == (local / "train.taridx").read_bytes())
        expect(sorted(x.name for x in birds.iterdir()) ==
               sorted([*before, "other.taridx", "other.tarsum"]), "other files")

    def forms():
        """every form of URL opens the same fold"""
        for url in (shards, base + ":train", base + "/train.taridx",
                    base + "/train-0000.tar::" + base + "/train-000{2,1}.tar"):
            expect(info(url)["samples"] == 12, url)
            outcome = tarn("verify", url)
            good(outcome)
            expect("12 samples, 24 members in 3 shards: all good; 24 payloads checked" in outcome.out)
        bad(tarn("info", base + "/train-{0000..0001}.tar", "--index", local / "train.taridx"),
            "the index also has the shard train-0002.tar")
        odd = nginx.www / "a b+%"
        indexed(odd, fold="ü x")
        expect(info(nginx.url + "/a%20b+%25:%C3%BC%20x")["samples"] == 12)
        expect(info(nginx.url + "/a%20b+%25/%C3%BC%20x-{0000..0002}.tar")["samples"] == 12)

    def names_needed():
        """without a .tarsum, a web server's FOLDER:FOLD needs the shards, and the error says so"""
        (birds / "train.tarsum").rename(birds / "hidden")
        bad(tarn("info", base + ":train"), "does not list its files", "FOLD.tarsum",
            base + "/train-{0000..0099}.tar")
        expect(info(shards)["samples"] == 12)
        (birds / "hidden").rename(birds / "train.tarsum")

    def parts():
        """archives that are only a part of the fold are read as streams"""
        outcome = tarn("ls", "-1", base + "/train-{0000..0001}.tar")
        good(outcome)
        expect(len(outcome.out.split()) == 8, outcome)
        good(tarn("verify", base + "/train-0001.tar"))

    def wrong():
        """a login page, damage and sums of another index are errors that name the file"""
        index, sums = birds / "train.taridx", birds / "train.tarsum"
        right, right_sums = index.read_bytes(), sums.read_bytes()
        for data, parts in ((b"<html>please log in", ("train.taridx", "not a taridx", "web page")),
                            (right[:100], ("train.taridx", "impossible count")), (b"", ("train.taridx",)),
                            (right[:70] + b"?" + right[71:], ("another version of " + base,))):
            index.write_bytes(data)
            bad(tarn("info", base + ":train"), base, *parts)
        index.write_bytes(right)
        sums.write_bytes(b"\n<!DOCTYPE html>")
        bad(tarn("info", base + ":train"), "train.tarsum", "not a tarsum")
        sums.write_bytes(right_sums)
        good(tarn("info", base + ":train"))

    def shards_changed():
        """verify reports shards that are missing or were changed after indexing"""
        shard = birds / "train-0001.tar"
        data = shard.read_bytes()
        shard.write_bytes(data[:1000] + b"?" + data[1001:])
        bad(tarn("verify", base + ":train"), )
        outcome = tarn("verify", base + ":train")
        expect("train-0001.tar: offset 0: the payload of row 8 has CRC-32C" in outcome.out, outcome)
        expect(tarn("verify", "--repair", base + ":train").err.count("cannot be repaired") == 1)
        shard.write_bytes(data)
        os.utime(shard, (WHEN, WHEN))

    def secrets():
        """messages have neither passwords nor queries, and both are used for the index"""
        url = base.replace("://", "://me:pass-word@")
        for text in (url + ":train?token=se-cret", url + "/train.taridx?token=se-cret",
                     url + "/train-{0000..0002}.tar?token=se-cret"):
            good(tarn("info", text))
            for where in (text, text.replace("train", "none")):
                for outcome in (tarn("info", where), tarn("verify", where),
                                tarn("index", where, "-o", scratch / "secret")):
                    expect("pass-word" not in outcome.out + outcome.err, outcome)
                    expect("se-cret" not in outcome.out + outcome.err, outcome)

    return [missing, pages, unnamed, identical, refused, uploads, forms, names_needed, parts, wrong, shards_changed,
            secrets]


# --- A store that counts --------------------------------------------------------------------


def command_checks(store, scratch):
    folder = indexed(scratch / "commands", samples=5)
    store.put_folder(folder, "/commands/")
    local, base = f"{folder}:train", store.url + "/commands"
    urls = (base + ":train", base + "/train-{0000..0002}.tar")

    def same(most, *args):
        """The output is that of the local fold, with at most N requests."""
        expected = tarn(*[local if x == "@" else x for x in args])
        for url in urls:
            store.taken()
            outcome = tarn(*[url if x == "@" else x for x in args])
            expect((outcome.code, outcome.out) == (expected.code, expected.out), args, outcome, expected)
            count = len(store.taken())
            expect(count <= most, f"{count} requests for", args)

    def prints():
        """commands print the same for remote folds, with few requests"""
        same(5, "ls", "@")
        same(5, "ls", "-l", "@")
        same(5, "ls", "-1", "--order", "shuffle", "--seed", "3", "@")
        same(4, "get", "@", "train0001_002", "cls")
        same(6, "get", "--check", "@", "train0001_002", "jpg")
        same(2, "get", "@", "nokey", "cls")
        same(7, "verify", "@")
        expect(info(urls[0])["bytes"] == info(local)["bytes"])

    def writes():
        """extract, convert and split write the same files from remote folds"""
        for n, source in enumerate((local, *urls)):
            store.taken()
            good(tarn("extract", source, "-o", scratch / f"files{n}"))
            good(tarn("convert", source, scratch / f"copy{n}", "--range", "3:9"))
            good(tarn("convert", source, scratch / f"{n}.iac", "--order", "shuffle", "--seed", "1"))
            good(tarn("split", source, "--into", "a=0.5,b=0.5", "-o", scratch / f"split{n}"))
            count = len(store.taken())
            expect(count <= 40, count, "requests for 4 commands and 30 members")
        for n in (1, 2):
            for name in ("files", "copy", "split"):
                check_same(scratch / f"{name}0", scratch / f"{name}{n}")
            expect((scratch / "0.iac").read_bytes() == (scratch / f"{n}.iac").read_bytes())
        outcome = tarn("merge", *urls, "-o", scratch / "merged")
        expect(outcome.code == 2 and "must be local" in outcome.err, outcome)

    return [prints, writes]


def check_same(one, other):
    """Two folders have the same files; sums contain times."""
    names = [sorted(str(x.relative_to(top)) for x in top.rglob("*") if x.is_file())
             for top in (one, other)]
    expect(names[0] == names[1] and names[0], names)
    for name in names[0]:
        if not name.endswith(".tarsum"):
            expect((one / name).read_bytes() == (other / name).read_bytes(), name)


def store_checks(store, scratch):
    folder = indexed(scratch / "counted")
    store.put_folder(folder)
    fold = store.url + "/birds:train"
    cache = scratch / "cache"

    def statuses(*args, code=0):
        store.taken()
        outcome = tarn(*args)
        expect(outcome.code == code, outcome)
        return [(x.path.rpartition(".")[2], x.status) for x in store.taken()]

    def index_requests(*options, url=fold):
        return sorted(x for x in statuses("info", *options, url) if x[0] in ENDINGS)

    fresh = [("taridx", 200), ("tarsum", 200)]
    same = [("taridx", 304), ("tarsum", 304)]

    def twice():
        """with a cache the second opening only asks whether the two files changed"""
        expect(index_requests("--cache", cache) == fresh)
        expect(index_requests("--cache", cache) == same)
        expect(len(versions(cache)) == 1, versions(cache))
        expect(index_requests() == fresh, "used a cache that was not given")

    def dates():
        """without ETags the date of the last change decides"""
        store.etags = False
        expect(index_requests("--cache", scratch / "dated") == fresh)
        expect(index_requests("--cache", scratch / "dated") == same)
        store.dates = False
        expect(index_requests("--cache", scratch / "never") == fresh)
        expect(index_requests("--cache", scratch / "never") == fresh)
        expect(versions(scratch / "never") == [], "kept what cannot be asked for again")
        store.etags = store.dates = True

    def replaced():
        """a new index is used at once, and the old version is removed"""
        indexed(folder, samples=5)
        store.put_folder(folder)
        expect(info(fold, "--cache", cache)["samples"] == 15)
        expect(len(versions(cache)) == 1, versions(cache))
        del store.objects["/birds/train.tarsum"]
        shards = store.url + "/birds/train-{0000..0002}.tar"
        taken = index_requests("--cache", cache, url=shards)
        expect(taken == [("taridx", 200), ("taridx", 304), ("tarsum", 404), ("tarsum", 404)], taken)
        taken = index_requests("--cache", cache, url=shards)
        expect(taken == [("taridx", 304), ("tarsum", 404)], taken)
        store.put_folder(folder)
        taken = index_requests("--cache", cache)
        expect(taken == [*fresh[:1], *same[:1], *fresh[1:], *fresh[1:]], taken)
        expect(index_requests("--cache", cache) == same)

    def damaged():
        """copies that are incomplete or damaged are fetched again"""
        for harm in (lambda x: os.truncate(x / "index.taridx", 100), lambda x: (x / "id").unlink(),
                     lambda x: (x / "index.tarsum").unlink(), lambda x: (x / "id").write_bytes(b"?"),
                     lambda x: (x / "index.taridx").write_bytes(
                         bytes((x / "index.taridx").stat().st_size)),
                     lambda x: (x / "id").write_text((x / "id").read_text() + "more\n"),
                     lambda x: flip(x / "index.taridx", -20), lambda x: flip(x / "index.tarsum", -3)):
            harm(versions(cache)[0])
            expect(index_requests("--cache", cache) != same, "a damaged copy was used")
            expect(info(fold, "--cache", cache)["samples"] == 15)
            expect(index_requests("--cache", cache) == same)

    def mapped():
        """damaged pages of a large index are fetched again when they are used"""
        large = indexed(scratch / "large", shards=1, samples=17000, size=10)
        store.put_folder(large, "/large/")
        own, url = scratch / "large_cache", store.url + "/large:train"
        every = tarn("ls", "-1", url, "--cache", own).out
        expect(every.count("\n") == 17000)
        copy = versions(own)[0]
        last = every.split()[-1]
        for name, at, read in (("taridx", 600_000, ("ls", "-1", url)),
                               ("tarsum", -200_000, ("get", url, last, "cls")),
                               ("tarsum", -5, ("get", url, last, "cls"))):
            wanted = tarn(*read).out
            flip(copy / f"index.{name}", at)
            outcome = tarn("cache", own, "--verify")
            expect(outcome.code == 1 and str(copy / f"index.{name}") in outcome.out, outcome)
            store.taken()
            outcome = tarn(*read, "--cache", own)
            good(outcome)
            expect(outcome.out == wanted, "other bytes")
            taken = [x.status for x in store.taken() if x.path.endswith(name)]
            expect(taken.count(206) >= (at != -200_000) and 200 not in taken, name, taken)
            if 206 in taken:
                expect((copy / f"index.{name}").read_bytes() == (large / f"train.{name}").read_bytes())
                good(tarn("cache", own, "--verify"))
            else:  # the page was not needed
                flip(copy / f"index.{name}", at)
        flip(copy / "index.taridx", 600_000)
        opened = []

        def before(path):
            if path.endswith("taridx") and path in opened:
                store.objects.pop(path, None)
            opened.append(path)
        store.before = before
        outcome = tarn("ls", "-1", url, "--cache", own)
        store.before = None
        bad(outcome, str(copy / "index.taridx"), "cannot be repaired", "404")
        store.put_folder(large, "/large/")
        good(tarn("ls", "-1", url, "--cache", own))
        broken = bytearray(store.objects["/large/train.taridx"])
        broken[600_000] ^= 1
        store.objects["/large/train.taridx"] = bytes(broken)
        bad(tarn("ls", "-1", url, "--cache", own), store.url + "/large/train.tarsum", "tarn index again")

    def maintained():
        """tarn cache lists, checks, repairs and clears the copies of indexes"""
        def run(*args, code=0):
            outcome = tarn("cache", own, *args)
            expect(outcome.code == code, outcome)
            return outcome.out
        own = scratch / "verified"
        good(tarn("verify", fold, "--cache", own))
        expect("keep the index here, but not the shards" in
               " ".join(tarn("verify", "--help").out.split()))
        expect("1 dataset, 2 objects" in run(), run())
        own = scratch / "maintained"
        info(fold, "--cache", own)
        text = run("--objects")
        expect(text.startswith(fold + ": 2 objects"), text)
        expect("1 dataset, 2 objects" in text and "/birds/train.tarsum" in text, text)
        size = sum((folder / f"train.{e}").stat().st_size for e in ENDINGS)
        expect(f"2 objects, {size} bytes checked: all good" in run("--verify"))
        for name in ("index.taridx", "index.tarsum", "id"):
            damaged = versions(own)[0]
            flip(damaged / name, 1)
            expect(str(damaged) in run("--verify", code=1))
            expect("1 problem, 0 left after repair" in run("--verify", "--repair"))
            expect(versions(own) == [], "not removed")
            expect(index_requests("--cache", own) == fresh)
        expect("removed 0 objects" in run("--clear=*/nothing"))
        expect(len(versions(own)) == 1)
        text = run("--clear=" + fold)
        expect("removed 2 objects" in text and "; 0 bytes left" in text, text)
        expect(not (own / "index").exists())
        expect(index_requests("--cache", own) == fresh)
        (own / "index/mine").write_bytes(b"")
        run("--clear", "-q")
        expect([x.name for x in (own / "index").iterdir()] == ["mine"])

    def no_uploads():
        """a server that takes no uploads is explained"""
        for status in (405, 501):
            store.refusal = status
            bad(tarn("index", store.url + "/birds/train-{0000..0002}.tar", "-o", store.url + "/new"),
                str(status), "a server that accepts PUT")

    def left_over():
        """what a killed process left is not used, and removed after a day"""
        entry = versions(cache)[0].parent
        for name, age in ((".new-abcdef", 0), (".new-ghijkl", 100_000)):
            (entry / name).mkdir()
            (entry / name / "index.taridx").write_bytes(b"TARIDX half of")
            os.utime(entry / name, (os.stat(entry).st_mtime - age,) * 2)
        shutil.rmtree(versions(cache)[0])
        expect(index_requests("--cache", cache) == fresh)
        expect((entry / ".new-abcdef").exists() and not (entry / ".new-ghijkl").exists())

    def unusable():
        """a fold opens although its cache cannot be written to, and nothing is left elsewhere"""
        (scratch / "file").write_bytes(b"")
        empty = scratch / "tmp"
        empty.mkdir()
        outcome = tarn("info", "--cache", scratch / "file/cache", fold, env={"TMPDIR": str(empty)})
        expect(outcome.code == 0 or "cache" in outcome.err, outcome)
        good(tarn("info", fold, env={"TMPDIR": str(empty)}))
        expect(list(empty.iterdir()) == [], list(empty.iterdir()))

    def between():
        """both files may be replaced between the two requests"""
        other = indexed(scratch / "other", samples=6)
        old, new = ({e: (x / f"train.{e}").read_bytes() for e in ENDINGS} for x in (folder, other))
        store.put_folder(other)
        store.objects["/birds/train.tarsum"] = old["tarsum"]
        count = [0]

        def before(path):
            count[0] += path.endswith("taridx")
            if path.endswith("taridx") and count[0] == 2:
                store.objects["/birds/train.tarsum"] = new["tarsum"]
        store.before = before
        expect(info(fold)["samples"] == 18)
        expect(count[0] in (2, 3), count)  # the two requests of an attempt are in any order
        store.before = None
        store.objects["/birds/train.tarsum"] = old["tarsum"]
        bad(tarn("info", fold), store.url + "/birds/train.tarsum", "another version of",
            store.url + "/birds/train.taridx")
        store.put_folder(other)

    def together():
        """several processes that open a fold at once fetch its index once"""
        store.taken()
        running = [subprocess.Popen([TARN, "info", "--cache", str(scratch / "shared"), fold],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    env=environment()) for _ in range(6)]
        for one in running:
            text = one.communicate(timeout=HANG)[1]
            expect(one.returncode == 0, text)
        fetched = [x for x in store.taken() if x.path.endswith("taridx") and x.status == 200]
        expect(len(fetched) == 1, len(fetched))

    def many():
        """a thousand shards are not asked for when the fold is opened"""
        big = make_shards(scratch / "big", shards=1, samples=1, size=10)
        one = (big / "train-0000.tar").read_bytes()
        for i in range(1000):
            # Keys differ by shard; the name is in the header, whose checksum has to fit.
            (big / f"train-{i:04d}.tar").write_bytes(renamed(one, i))
        good(tarn("index", "-q", "--sums", big))
        store.put_folder(big, "/big/")
        url = store.url + "/big/train-{0000..0999}.tar"
        store.taken()
        good(tarn("info", url, "--cache", cache))
        expect(len(store.taken()) <= 4, "requests at opening")

    return [twice, dates, replaced, damaged, mapped, maintained, no_uploads, left_over, unusable, between, together, many]


def renamed(archive, number):
    """The same archive with another key in its two headers."""
    out = bytearray(archive)
    for at in (0, 1024):
        out[at + 5:at + 9] = f"{number:04d}".encode()
        out[at + 148:at + 156] = b" " * 8
        out[at + 148:at + 156] = f"{sum(out[at:at + 512]):06o}\0 ".encode()
    return bytes(out)


# --- S3 -----------------------------------------------------------------------------------------


def s3_checks(moto, scratch):
    folder = indexed(scratch / "s3")
    env = {**moto.env}

    def put(folder, prefix):
        for path in sorted(folder.iterdir()):
            moto.client.put_object(Bucket="bucket", Key=prefix + path.name, Body=path.read_bytes())

    def forms():
        """folders in a bucket are listed, and patterns match in them"""
        put(folder, "birds/")
        moto.client.put_object(Bucket="bucket", Key="birds/notes.txt", Body=b"x")
        moto.client.put_object(Bucket="bucket", Key="birds/deep/val-0000.tar", Body=b"x")
        for url in ("s3://bucket/birds", "s3://bucket/birds/", "s3://bucket/birds:train",
                    "s3://bucket/birds/train-*.tar", "s3://bucket/birds/train-000[0-2].tar",
                    "s3://bucket/birds/train.taridx", "s3://bucket/birds/train-{0000..0002}.tar"):
            expect(info(url, env=env)["samples"] == 12, url)
        bad(tarn("info", "s3://bucket/birds/none-*.tar", env=env), "none-*.tar: no object matches")
        bad(tarn("info", "s3://bucket/nothing", env=env), "s3://bucket/nothing", "no objects")
        bad(tarn("info", "s3://bucket", env=env), "no objects here", "give the folder of the shards")
        outcome = tarn("info", "s3://nobucket/birds:train", env=env)
        bad(outcome, "s3://nobucket/birds/train.taridx", "404", "NoSuchBucket")
        expect("tarn index" not in outcome.err, outcome)
        nobody = {k: v for k, v in env.items() if "KEY" not in k and "TOKEN" not in k}
        nobody |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(scratch)}
        bad(tarn("info", "s3://bucket/birds:train", env=nobody), "403", "no credentials were found",
            "not signed")
        bad(tarn("info", "s3://bucket/birds:val", env=env), "no index here",
            "tarn index 's3://bucket/birds:val' -o FOLDER")

    def uploads():
        """the index of a bucket's folder is uploaded to it, identical to the local one"""
        for ending in ENDINGS:
            moto.client.delete_object(Bucket="bucket", Key=f"birds/train.{ending}")
        outcome = tarn("ls", "-1", "s3://bucket/birds/train-*.tar", env=env)
        expect(outcome.code == 0 and len(outcome.out.split()) == 12, "not read as streams:", outcome)
        good(tarn("index", "s3://bucket/birds:train", "-o", "s3://bucket/birds", env=env))
        expect(moto.get("birds/train.taridx") == (folder / "train.taridx").read_bytes())
        # The times in the sums are those of the objects.
        made = moto.get("birds/train.tarsum")
        expect(len(made) == (folder / "train.tarsum").stat().st_size)
        good(tarn("verify", "s3://bucket/birds", env=env))
        bad(tarn("index", "s3://bucket/birds", "-o", "s3://bucket/birds", env=env), "already exists")

    def several():
        """a folder with several folds lists them, and tarn info describes all"""
        put(indexed(scratch / "val", fold="val", shards=1), "birds/")
        bad(tarn("ls", "s3://bucket/birds", env=env), "several folds found (train, val)")
        outcome = tarn("info", "--json", "s3://bucket/birds", env=env)
        good(outcome)
        expect([x["fold"] for x in json.loads(outcome.out)] == ["train", "val"], outcome)
        good(tarn("index", "s3://bucket/birds", "-o", scratch / "both", env=env))
        expect((scratch / "both/val.taridx").exists() and (scratch / "both/train.taridx").exists())

    def cached():
        """signed requests are conditional, too"""
        for _ in range(2):
            expect(info("s3://bucket/birds:train", "--cache", scratch / "s3cache",
                        env=env)["samples"] == 12)
        expect(len(versions(scratch / "s3cache")) == 1)

    def changed():
        """the listing shows a shard that was added or has another size than the index says"""
        shard = moto.get("birds/train-0001.tar")
        moto.client.put_object(Bucket="bucket", Key="birds/train-0003.tar", Body=shard)
        bad(tarn("ls", "s3://bucket/birds/train-*.tar", "--index", folder / "train.taridx", env=env))
        outcome = tarn("verify", "s3://bucket/birds", env=env)
        expect("train-0003.tar: the index does not contain this shard" in outcome.out, outcome)
        moto.client.delete_object(Bucket="bucket", Key="birds/train-0003.tar")
        moto.client.put_object(Bucket="bucket", Key="birds/train-0001.tar", Body=shard + bytes(512))
        bad(tarn("ls", "s3://bucket/birds/train-*.tar", env=env), "train-0001.tar", f"{len(shard) + 512} bytes")
        moto.client.put_object(Bucket="bucket", Key="birds/train-0001.tar", Body=shard)

    def secrets():
        """no message has the keys"""
        for args in (("info", "s3://bucket/none"), ("verify", "s3://bucket/birds:none"),
                     ("index", "s3://other/birds", "-o", scratch / "x")):
            outcome = tarn(*args, env=env)
            for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
                expect(env[name] not in outcome.out + outcome.err, outcome)

    return [forms, uploads, several, cached, changed, secrets]


def other_stores(scratch):
    folder = indexed(scratch / "stores")
    files = {x.name: x.read_bytes() for x in folder.iterdir()}

    def azure():
        """folds in Azure Blob Storage are listed, opened, indexed and verified"""
        store = Azure()
        env = {"AZURE_STORAGE_ACCOUNT": store.ACCOUNT, "AZURE_STORAGE_ENDPOINT": store.endpoint,
               "AZURE_STORAGE_SAS_TOKEN": store.SAS, "HOME": str(scratch)}
        shards = {name: data for name, data in files.items() if name.endswith(".tar")}
        store.objects = {("container", "birds/" + name): data for name, data in shards.items()}
        good(tarn("index", "az://container/birds", "-o", "az://container/birds", env=env))
        expect(store.objects["container", "birds/train.taridx"] == files["train.taridx"])
        for url in ("az://container/birds", "az://container/birds:train", "az://container/birds/train-*.tar"):
            expect(info(url, env=env)["samples"] == 12, url)
            good(tarn("verify", url, env=env))
        expect(not store.complaints, store.complaints)

    def hub():
        """folds in a repository of the Hugging Face Hub are listed and opened"""
        store = Hub(Files())
        env = {"HF_ENDPOINT": store.url, "HF_TOKEN": store.TOKEN, "HOME": str(scratch)}
        store.objects = {("org/private-set", "main", "birds/" + name): data for name, data in files.items()}
        base = "hf://datasets/org/private-set/birds"
        for url in (base, base + ":train", base + "/train-{0000..0002}.tar", base + "/train.taridx"):
            expect(info(url, env=env)["samples"] == 12, url)
        good(tarn("verify", base, env=env))
        expect(not store.files.complaints, store.files.complaints)

    return [azure, hub]


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="tarn-remote-") as text:
        scratch = pathlib.Path(text)
        with Nginx() as nginx:
            tap.run(nginx_checks(nginx, scratch))
        store = Store()
        tap.run(store_checks(store, scratch) + command_checks(store, scratch))
        with Moto() as moto:
            tap.run(s3_checks(moto, scratch))
        tap.run(other_stores(scratch))
    return tap.end()


sys.exit(main())
