"""The samples of tarn.wds next to the real webdataset: the same samples, order and results of
every stage. Where webdataset loses data or runs code, the results must differ."""
import errno
import gc
import http.server
import io
import itertools
import json
import os
import pathlib
import pickle
import random
import resource
import subprocess
import sys
import tarfile
import threading
import warnings

import pytest

from tarn import wds
import tarn

real = pytest.importorskip("webdataset")
np = pytest.importorskip("numpy")
BOTH = (real, wds)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    rng = random.Random(1)
    for shard in range(6):
        with real.TarWriter(str(folder / f"x-{shard:03d}.tar"), mtime=0) as out:
            for i in range(20):
                out.write({"__key__": f"d/s{shard}_{i:02}", "cls": i, "txt": f"text {i}",
                           "json": {"n": i, "s": shard}, "bin": rng.randbytes(rng.randrange(3000)),
                           "npy": np.full((2, 3), i, "f4"), "seg.txt.gz": f"seg {i}"})
    return folder


@pytest.fixture
def urls(folder):
    return str(folder / "x-{000..005}.tar")


def dataset(module, urls, **options):
    options.setdefault("shardshuffle", False)
    return module.WebDataset(urls, **options)


def plain(item):
    """Converts arrays to lists, so that results can be compared."""
    if isinstance(item, dict):
        return {k: plain(v) for k, v in item.items()}
    if isinstance(item, (list, tuple)):
        return type(item)(plain(x) for x in item)
    if isinstance(item, np.ndarray):
        return ("array", item.dtype.str, item.tolist())
    return item


def both(pipe, urls, **options):
    theirs, ours = (plain(list(pipe(dataset(m, urls, **options)))) for m in BOTH)
    assert ours == theirs
    return ours


def test_samples_are_theirs_with_their_order_of_fields(urls):
    got = both(lambda ds: ds, urls)
    assert len(got) == 120
    theirs, ours = ([list(s) for s in dataset(m, urls)] for m in BOTH)
    assert ours == theirs


PIPES = {
    "decode": lambda ds: ds.decode(),
    "decode only": lambda ds: ds.decode(only=["cls", "json"]),
    "decode only as text": lambda ds: ds.decode(only="cls txt"),
    "decode partial": lambda ds: ds.decode(only="cls").decode(partial=True),
    "to_tuple": lambda ds: ds.decode().to_tuple("cls", "txt"),
    "to_tuple in one": lambda ds: ds.decode().to_tuple("cls none;txt json"),
    "to_tuple missing": lambda ds: ds.to_tuple("none", "cls", missing_is_error=False),
    "map": lambda ds: ds.map(lambda s: {"n": len(s)}),
    "map to none": lambda ds: ds.decode().map(lambda s: None if s["cls"] % 2 else s["cls"]),
    "map_dict": lambda ds: ds.decode().map_dict(cls=lambda n: n * 2),
    "map_tuple": lambda ds: ds.decode().to_tuple("cls", "txt").map_tuple(str, None),
    "select": lambda ds: ds.decode().select(lambda s: s["cls"] > 15),
    "rename": lambda ds: ds.rename(label="cls;x", image="none;bin"),
    "rename only": lambda ds: ds.rename(label="cls", keep=False),
    "rename_keys": lambda ds: ds.rename_keys(("image", "*bin"), label="cls"),
    "rename_keys kept": lambda ds: ds.rename_keys(("image", "*bin"), keep_unselected=True),
    "extract_keys": lambda ds: ds.extract_keys("*.gz", "cls;none"),
    "batched": lambda ds: ds.decode().to_tuple("cls", "txt", "npy").batched(7),
    "batched whole": lambda ds: ds.decode().to_tuple("cls").batched(7, partial=False),
    "batched dicts": lambda ds: ds.decode(only="cls").rename(keep=False, cls="cls").batched(50),
    "unbatched": lambda ds: ds.decode().to_tuple("cls", "txt").batched(7).unbatched(),
    "listed": lambda ds: ds.to_tuple("cls").listed(7),
    "unlisted": lambda ds: ds.to_tuple("cls").listed(7).unlisted(),
    "shuffle": lambda ds: ds.shuffle(30, seed=5).to_tuple("__key__"),
    "shuffle all": lambda ds: ds.shuffle(1000, initial=1000, seed=5).to_tuple("__key__"),
    "shuffle none": lambda ds: ds.shuffle(0),
    "slice": lambda ds: ds.slice(10, 50, 3),
    "repeat": lambda ds: ds.repeat(2),
    "repeat some": lambda ds: ds.repeat(2, 150),
    "with_epoch": lambda ds: ds.to_tuple("__key__").with_epoch(300),
    "xdecode": lambda ds: ds.xdecode(cls=lambda f: int(f.read()), must_decode=False),
    "compose": lambda ds: ds.compose(lambda src: itertools.islice(src, 3)),
    "mcached": lambda ds: ds.mcached(),
}


@pytest.mark.parametrize("name", PIPES)
def test_stages_give_what_theirs_do(urls, name):
    both(PIPES[name], urls)


@pytest.mark.parametrize("spec", ["l8", "rgb8", "rgba8", "l", "rgb", "rgba", "torchl8", "torchrgb8", "torchrgba8",
                                  "torchl", "torchrgb", "torch", "torchrgba", "pill", "pil", "pilrgb", "pilrgba"])
def test_images_are_decoded_as_theirs(tmp_path, spec):
    pytest.importorskip("PIL")
    if spec.startswith("torch"):
        pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    with wds.TarWriter(str(tmp_path / "x.tar")) as out:
        for i in range(3):
            out.write({"__key__": str(i), "jpg": rng.integers(0, 256, (11, 9, 3), "u1"),
                       "png": rng.integers(0, 256, (5, 6), "u1")})
    theirs, ours = (list(dataset(m, str(tmp_path / "x.tar")).decode(spec).to_tuple("jpg", "png")) for m in BOTH)
    for a, b in zip(sum(ours, ()), sum(theirs, ())):
        assert type(a) is type(b)
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and np.array_equal(a, b)
    for module in BOTH:
        with pytest.raises(ValueError, match="imagespec"):
            dataset(module, "x.tar").decode("rgb9")


def test_explicit_pipelines(urls):
    def pipe(m):
        return m.DataPipeline(m.SimpleShardList(urls, seed=3), m.split_by_worker, m.tarfile_to_samples(),
                              m.shuffle(20, seed=2), m.decode(), m.to_tuple("cls", "__key__"), m.batched(16))
    theirs, ours = (plain(list(pipe(m))) for m in BOTH)
    assert ours == theirs
    theirs, ours = (list(m.DataPipeline(m.SimpleShardList(urls), m.tarfile_to_samples())) for m in BOTH)
    assert ours == theirs and "__local_path__" not in ours[0]
    shards = [{"url": "x", "local_path": urls.replace("{000..005}", "000"), "stream": None}]
    assert next(wds.tarfile_samples(shards))["__local_path__"] == shards[0]["local_path"]


# --- Shards ---------------------------------------------------------------------------------


def keys(ds):
    return [s["__key__"] for s in ds]


@pytest.mark.parametrize("options", [
    {}, {"select_files": lambda name: name.endswith("cls")},
    {"rename_files": lambda name: "d/" + name, "select_files": lambda name: name.startswith("d/")},
    {"eof_value": None}])
def test_steps_one_by_one(urls, options):
    def through(module):
        steps = module.tariterators
        shards = ({"url": url} for url in module.shardlists.expand_source(urls))
        members = list(steps.tar_file_expander(steps.url_opener(shards), **options))
        return members, list(steps.group_by_keys(iter(members)))

    assert through(wds) == through(real)


def test_steps_give_errors_to_their_handlers(tmp_path):
    (tmp_path / "bad.tar").write_bytes(b"no archive" * 100)
    with wds.TarWriter(str(tmp_path / "good.tar")) as sink:
        sink.write({"__key__": "a", "txt": "x"})
    shards = [{"url": str(tmp_path / name)} for name in ("none.tar", "bad.tar", "good.tar")]
    steps, seen = wds.tariterators, []
    opened = steps.url_opener(iter(shards), handler=lambda error: not seen.append(error))
    members = list(steps.tar_file_expander(opened, handler=lambda error: not seen.append(error)))
    assert [member.get("fname") for member in members] == ["a.txt", None]
    missing, damaged = seen
    assert isinstance(missing, FileNotFoundError) and isinstance(damaged, wds.ReadError)
    with open(tmp_path / "bad.tar", "rb") as file, pytest.raises(wds.ReadError):
        list(steps.tar_file_iterator(file))


def test_lists_of_urls(folder, monkeypatch):
    monkeypatch.setenv("WDS_HERE", str(folder))
    some = ["${HERE}/x-{000..002}.tar", str(folder / "x-000.tar") + "::" + str(folder / "x-00{3,4}.tar"),
            [str(folder / "x-001.tar")], (str(p) for p in sorted(folder.glob("x-00[12].tar")))]
    for urls in some[:3]:
        both(lambda ds: ds, urls)
    assert len(keys(dataset(wds, some[3]))) == 40
    assert keys(dataset(wds, str(folder) + "/")) == keys(dataset(wds, str(folder / "*.tar")))
    for urls in ({"datasets": []}, "x.yaml"):
        with pytest.raises(wds.utils.ObsoleteException, match="ALLOW_OBSOLETE"):
            dataset(wds, urls)
    for urls in ("x.json", 5):
        with pytest.raises(ValueError):
            dataset(wds, urls)


def test_shards_are_shuffled_again_each_epoch(urls):
    orders = [keys(dataset(m, urls, shardshuffle=100, seed=7)) for m in BOTH]
    assert orders[0] == orders[1]
    ds = dataset(wds, urls, shardshuffle=100, seed=7)
    epochs = [keys(ds) for _ in range(3)]
    assert epochs[0] == orders[0] and len({tuple(e) for e in epochs}) == 3
    assert all(sorted(e) == sorted(orders[0]) for e in epochs)
    assert [keys(dataset(m, urls, shardshuffle=100, seed=7, detshuffle=True)) for m in BOTH] == [orders[0]] * 2


def test_nodes_and_workers_have_shards_of_their_own(urls, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for module in BOTH:
        with pytest.raises(ValueError, match="nodesplitter"):
            list(dataset(module, urls))
    both(lambda ds: ds, urls, nodesplitter=wds.split_by_node)
    seen = []
    for rank in "01":
        for worker in "01":
            monkeypatch.setenv("RANK", rank)
            monkeypatch.setenv("WORKER", worker)
            monkeypatch.setenv("NUM_WORKERS", "2")
            seen += [keys(dataset(wds, urls, nodesplitter=wds.split_by_node))]
    assert sorted(sum(seen, [])) == sorted(keys(dataset(
        wds, urls, nodesplitter=None, workersplitter=None)))
    assert len(set(sum(seen, []))) == 120
    monkeypatch.setenv("NUM_WORKERS", "100")
    monkeypatch.setenv("WORKER", "99")
    for module in BOTH:
        with pytest.raises(ValueError, match="No samples found"):
            list(dataset(module, urls, nodesplitter=None))
        assert list(dataset(module, urls, nodesplitter=None, empty_check=False)) == []


def test_resampling(urls):
    ds = wds.WebDataset(urls, resampled=True).slice(300)
    assert len(keys(ds)) == 300
    a = [s["url"] for s in itertools.islice(wds.ResampledShards(urls, deterministic=True, seed=4), 50)]
    b = [s["url"] for s in itertools.islice(real.ResampledShards(urls, deterministic=True, seed=4), 50)]
    assert a == b and len(set(a)) == 6


def test_select_and_rename_files(urls):
    for options in ({"select_files": lambda name: name.endswith("cls") or "_01" in name},
                    {"rename_files": lambda name: name.replace("seg.", "").replace(".txt", ".t2")
                     if "gz" not in name else name},
                    {"rename_files": str.upper, "select_files": lambda name: "CLS" in name}):
        both(lambda ds: ds, urls, **options)


@pytest.mark.parametrize("function", ["select_files", "rename_files"])
@pytest.mark.parametrize("handler", ["ignore_and_continue", "ignore_and_stop", "reraise_exception"])
def test_functions_that_fail_go_to_the_handler(urls, function, handler):
    def failing(name):
        if "s1_03.cls" in name or "s2_04" in name:
            raise KeyError(name)
        return name

    def through(module):
        try:
            return list(dataset(module, urls, handler=getattr(module, handler), **{function: failing}))
        except KeyError:
            return "KeyError"

    assert through(wds) == through(real)


def test_batches_of_no_samples_are_refused(urls):
    for size in (0, -1):
        with pytest.raises(ValueError):
            list(dataset(wds, urls).batched(size))


def test_warnings_about_shuffling(urls):
    for module in BOTH:
        for value, text in ((None, "explicitly"), (True, "positive")):
            with pytest.warns(UserWarning, match=text):
                module.WebDataset(urls, shardshuffle=value)
        with pytest.warns(UserWarning, match="ignored"):
            module.WebDataset(urls, shardshuffle=5, resampled=True)


def test_lengths(urls):
    with pytest.warns(UserWarning, match="with_length"):
        ds = dataset(wds, urls).with_length(7)
    assert len(ds) == 7 and len(list(ds)) == 120
    assert len(pickle.loads(pickle.dumps(ds))) == 7
    with pytest.raises(TypeError, match="no len"):
        len(dataset(wds, urls))
    assert bool(dataset(wds, urls))


# --- Errors -----------------------------------------------------------------------------------


def test_handlers_go_on_or_stop(folder, tmp_path):
    good, missing, cut = str(folder / "x-000.tar"), str(tmp_path / "none.tar"), str(tmp_path / "cut.tar")
    with tarfile.open(good) as tar:
        inside = next(m.offset_data + 10 for m in tar.getmembers()[30:] if m.size > 700)
    pathlib.Path(cut).write_bytes(pathlib.Path(good).read_bytes()[:inside])
    for url, kind in ((missing, FileNotFoundError), (cut, tarfile.ReadError)):
        for module in BOTH:
            with pytest.raises(kind):
                list(dataset(module, [good, url, good]))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                assert len(keys(dataset(module, [good, missing, good], handler=module.warn_and_continue))) == 40
                assert len(keys(dataset(module, [good, missing, good], handler=module.warn_and_stop))) == 20
            assert len([w for w in said if w.category is UserWarning]) == 2
            assert len(keys(dataset(module, [good, missing, good], handler=module.ignore_and_continue))) == 40
            assert len(keys(dataset(module, [good, missing, good], handler=module.ignore_and_stop))) == 20
    with pytest.raises(wds.ReadError) as caught:
        list(dataset(wds, [cut]))
    assert caught.value.path == cut and caught.value.offset is not None


@pytest.mark.parametrize("more", [{}, {"select_files": bool}], ids=["plain", "select_files"])
def test_the_sample_before_a_cut_comes_with_a_warning(folder, tmp_path, more):
    good, other, cut = str(folder / "x-000.tar"), str(folder / "x-001.tar"), str(tmp_path / "cut.tar")
    with tarfile.open(good) as tar:
        places = [m.offset_data + 10 for m in tar.getmembers() if m.size > 100]
    data = pathlib.Path(good).read_bytes()
    warned = 0
    for inside in places:
        pathlib.Path(cut).write_bytes(data[:inside])
        for shards, accept in (([cut, other], "ignore_and_continue"), ([cut], "ignore_and_stop")):
            theirs = list(dataset(real, shards, handler=getattr(real, accept), empty_check=False, **more))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                ours = list(dataset(wds, shards, handler=getattr(wds, accept), empty_check=False, **more))
            assert ours == theirs
        texts = [str(w.message) for w in said if "may lack fields" in str(w.message)]
        assert len(texts) <= 1 and all(f"{cut}: sample {ours[-1]['__key__']} " in text for text in texts)
        warned += len(texts)
        seen = []
        with pytest.raises(OSError, match="mine"):
            for sample in dataset(wds, [cut], handler=mine, empty_check=False, **more):
                seen.append(sample)
        assert seen == ours[:len(ours) - len(texts)]
    assert warned > len(places) / 2


def mine(error):
    raise OSError("mine")


@pytest.mark.parametrize("more", [{}, {"select_files": bool}], ids=["plain", "select_files"])
def test_folders_are_not_shards(tmp_path, more):
    (tmp_path / "x.tar").mkdir()
    for module in (real, wds):
        with pytest.raises(IsADirectoryError) as told:
            list(dataset(module, [str(tmp_path / "x.tar")], **more))
        assert told.value.errno == errno.EISDIR and told.value.filename == str(tmp_path / "x.tar")
        with pytest.raises(IsADirectoryError):
            module.TarWriter(str(tmp_path / "x.tar"))
        seen = []
        with pytest.raises(ValueError, match="No samples"):
            list(dataset(module, [str(tmp_path / "x.tar")],
                         handler=lambda error: seen.append(error) or True, **more))
        assert [type(error) for error in seen] == [IsADirectoryError]


def test_damage_that_they_pass_over_is_an_error(folder, tmp_path):
    data = bytearray((folder / "x-000.tar").read_bytes())
    data[512 * 40:512 * 41] = b"\xff" * 512
    path = tmp_path / "x.tar"
    with tarfile.open(folder / "x-000.tar") as tar:
        member = tar.getmembers()[40]
    data = bytearray((folder / "x-000.tar").read_bytes())
    data[member.offset + 148] ^= 1
    path.write_bytes(data)
    assert len(keys(dataset(real, [str(path)]))) < 20
    with pytest.raises(wds.ReadError, match=f"offset {member.offset}: header checksum"):
        list(dataset(wds, [str(path)]))


def test_a_duplicate_field(tmp_path):
    path = str(tmp_path / "x.tar")
    with tarfile.open(path, "w") as tar:
        for name, data in (("a.txt", b"1"), ("a.TXT", b"2"), ("a.cls", b"3"), ("b.txt", b"4")):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(data))
    for module in BOTH:
        with pytest.raises(ValueError):
            list(dataset(module, [path]))
        seen = []
        got = [s["txt"] for s in dataset(module, [path], handler=lambda e: seen.append(e) or True)]
        assert got == [b"1", b"4"] and len(seen) == 1 and "duplicate" in str(seen[0])
        assert isinstance(seen[0], ValueError)


def test_skipped_members_are_reported_on_request(tmp_path):
    path = str(tmp_path / "x.tar")
    with tarfile.open(path, "w") as tar:
        for name in ("README", "a.txt"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.warns(UserWarning, match="README"):
        assert len(list(dataset(wds, [path], verbose=True))) == 1


def test_errors_in_stages_go_to_their_handler(urls):
    def fail(sample):
        if sample["__key__"].endswith("_05"):
            raise KeyError("five")
        return sample
    for module in BOTH:
        with pytest.raises(KeyError):
            list(dataset(module, urls).map(fail))
        assert len(list(dataset(module, urls).map(fail, handler=module.ignore_and_continue))) == 114
        assert len(list(dataset(module, urls).map(fail, handler=module.ignore_and_stop))) == 5
        with pytest.raises(module.DecodingError) as caught:
            list(dataset(module, urls).rename(cls="txt").decode())
        assert caught.value.k == "cls" and caught.value.key == "d/s0_00"


def test_pipes_run_only_when_allowed(folder):
    url = f"pipe:cat {folder}/x-000.tar"
    with pytest.raises(tarn.UnsupportedError, match="allow_pipe"):
        list(dataset(wds, url))
    assert len(list(dataset(wds, url, allow_pipe=True))) == 20
    with pytest.raises(OSError, match="3"):
        list(dataset(wds, f"pipe:cat {folder}/x-000.tar; exit 3", allow_pipe=True))


def test_null_in_json_is_none(tmp_path):
    path = str(tmp_path / "x.tar")
    with wds.TarWriter(path) as out:
        out.write({"__key__": "a", "json": None})
    assert [s["json"] for s in dataset(wds, path).decode()] == [None]


def test_metadata_that_is_not_text_stays_bytes():
    sample = {"__key__": b"k", "__text__": "é".encode(), "__raw__": b"\xff\x00", "__n__": 5}
    ours = wds.Decoder([])(dict(sample))
    assert ours == real.Decoder([])(dict(sample))
    assert ours == {"__key__": "k", "__text__": "é", "__raw__": b"\xff\x00", "__n__": 5}


# --- URLs -------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    stored = {}

    def log_message(self, *args):
        pass

    def do_PUT(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers["Content-Length"]))
        self.stored[self.path] = data
        self.send_response(201)
        self.end_headers()


@pytest.fixture(scope="module")
def server(folder):
    handler = lambda *args: Quiet(*args, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_http_and_its_cache(folder, server, tmp_path):
    url = server + "/x-{000..001}.tar"
    ours = keys(dataset(wds, url))
    assert ours == keys(dataset(wds, str(folder / "x-{000..001}.tar")))
    assert "__local_path__" not in next(iter(dataset(wds, url)))
    for _ in range(2):
        got = list(dataset(wds, url, cache_dir=str(tmp_path)))
        assert [s["__key__"] for s in got] == ours
        assert os.path.dirname(got[0]["__local_path__"]) == str(tmp_path)
    assert len(os.listdir(tmp_path)) == 2
    with pytest.raises(FileNotFoundError):
        list(dataset(wds, server + "/none.tar", cache_dir=str(tmp_path)))
    list(dataset(wds, server + "/x-{002..004}.tar", cache_dir=str(tmp_path), cache_size=1))
    assert len(os.listdir(tmp_path)) == 1
    with pytest.raises(ValueError, match="does not exist"):
        dataset(wds, url, cache_dir=str(tmp_path / "none"))


def test_writing_to_a_server(server):
    with wds.ShardWriter(server + "/put-%d.tar", maxcount=1, mtime=0, verbose=0) as out:
        for i in range(2):
            out.write({"__key__": str(i), "txt": "x"})
    stream = io.BytesIO()
    with real.TarWriter(stream, mtime=0) as other:
        other.write({"__key__": "1", "txt": "x"})
    assert Quiet.stored["/put-1.tar"] == stream.getvalue()


def test_schemes_of_ones_own(folder, monkeypatch):
    made = {}

    class Kept(io.BytesIO):
        def close(self):
            made["closed"] = made.get("closed", 0) + 1
            made[self.url] = self.getvalue()
            super().close()

    def opener(url, mode, bufsize, **kw):
        if mode == "rb":
            return open(folder / url[5:], "rb")
        stream = Kept()
        stream.url = url
        return stream
    monkeypatch.setitem(wds.gopen_schemes, "mine", opener)
    assert keys(dataset(wds, "mine:x-{000..001}.tar")) == keys(dataset(wds, str(folder / "x-{000..001}.tar")))
    with wds.TarWriter("mine:a.tar", mtime=0) as out:
        out.write({"__key__": "a", "txt": "x"})
    with wds.ShardWriter("mine:b%d.tar", mtime=0, maxcount=1, verbose=0) as out:
        out.write({"__key__": "a", "txt": "x"})
        out.write({"__key__": "a", "txt": "x"})
    assert made["mine:a.tar"] == made["mine:b0.tar"] == made["mine:b1.tar"] and made["closed"] == 3
    assert len(made["mine:a.tar"]) == 10240


def test_gopen(folder, tmp_path, monkeypatch, server):
    for module in BOTH:
        with module.gopen(str(tmp_path / "x"), "wb") as file:
            file.write(b"hello")
        assert module.gopen("file:" + str(tmp_path / "x")).read() == b"hello"
        monkeypatch.setenv("GOPEN_REWRITE", f"abc:={tmp_path}/;x=y")
        assert module.gopen("abc:x").read() == b"hello"
        monkeypatch.delenv("GOPEN_REWRITE")
        with pytest.raises(AssertionError):
            module.gopen("x", "r")
        with pytest.raises(ValueError, match="no gopen handler defined"):
            module.gopen("ftp://x/y")
        with pytest.raises(FileNotFoundError):
            module.gopen(str(tmp_path / "none"))
        assert module.gopen("-") is sys.stdin.buffer and module.gopen("-", "wb") is sys.stdout.buffer
    assert wds.gopen(server + "/x-000.tar").read() == (folder / "x-000.tar").read_bytes()
    with pytest.raises(tarn.UnsupportedError):
        wds.gopen("pipe:echo hello")
    assert wds.gopen("pipe:echo hello", allow_pipe=True).read() == b"hello\n"
    monkeypatch.setattr(wds.utils, "enforce_security", True)
    for url in ("pipe:echo", "x", "file:x"):
        with pytest.raises(ValueError, match="WDS_SECURE"):
            wds.gopen(url, allow_pipe=True) if url[0] == "p" else wds.gopen(url)


def test_programs_as_files(tmp_path):
    pipe = wds.gopen.__globals__["Pipe"]
    with pipe(["sh", "-c", "cat >/dev/null"], mode="wb") as out:
        out.write(b"x")
    assert pipe(["echo", "hello"], mode="rb").read() == b"hello\n"
    with pytest.raises(OSError, match="exit 3"):
        pipe(["sh", "-c", "echo part; exit 3"], mode="rb").read()
    with pytest.raises(OSError, match="exit 4"):
        with pipe(["sh", "-c", "cat >/dev/null; exit 4"], mode="wb") as out:
            out.write(b"x")


# --- torch, processes, threads, memory ----------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_a_torch_loader(folder, workers, method):
    code = f"""
import sys
from tarn import wds
import torch, torch.utils.data as data
def main():
    dataset = wds.WebDataset(sys.argv[1], shardshuffle=False).decode(only="cls").to_tuple("__key__", "cls")
    assert isinstance(dataset, data.IterableDataset)
    extra = dict(multiprocessing_context={method!r}) if {workers} else {{}}
    loader = wds.WebLoader(dataset, batch_size=8, num_workers={workers}, **extra).unbatched()
    print(sorted(key for key, cls in loader))
if __name__ == "__main__":
    main()
"""
    pytest.importorskip("torch")
    if not workers and method == "spawn":
        pytest.skip("no process is started")
    urls = str(folder / "x-{000..002}.tar")
    script = folder / f"loader_{workers}_{method}.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script, urls], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sorted(keys(dataset(wds, urls))))


def test_pipelines_pickle(urls):
    ds = dataset(wds, urls).shuffle(10, seed=1).decode().to_tuple("cls", "txt").batched(5)
    assert plain(list(pickle.loads(pickle.dumps(ds)))) == plain(list(ds))


def test_mixing(urls):
    for module in BOTH:
        robin = module.RoundRobin([dataset(module, urls), module.MockDataset({"__key__": "m"}, 3)])
        assert keys(robin)[:6] == ["d/s0_00", "m", "d/s0_01", "m", "d/s0_02", "m"]
        assert len(keys(robin)) == 7
        longest = module.RandomMix([dataset(module, urls), module.MockDataset({"__key__": "m"}, 30)],
                                   probs=[1, 5], longest=True)
        assert len(keys(longest)) == 150
    three = wds.with_epoch(dataset(wds, urls), 50)
    assert [len(keys(three)) for _ in range(3)] == [50] * 3
    assert len(wds.with_length(dataset(wds, urls), 9)) == 9


def test_threads_read_each_their_own(urls):
    want, failed = keys(dataset(wds, urls)), []
    def read():
        if keys(dataset(wds, urls)) != want:
            failed.append(1)
    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_threads_share_one_reader(folder):
    from tarn import _tarn
    path = str(folder / "x-000.tar")
    reader, seen = _tarn.Samples(path, path), []
    def read():
        for sample in reader:
            seen.append(sample["__key__"])
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == keys(dataset(wds, path))


def memory():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif("TARN_SANITIZED" in os.environ, reason="the sanitizer keeps freed memory")
def test_memory_and_descriptors_stay_flat(urls, tmp_path):
    bad = tmp_path / "bad.tar"
    bad.write_bytes(b"\1" * 5000)
    def work(times):
        for _ in range(times):
            for sample in dataset(wds, urls):
                pass
            next(iter(dataset(wds, urls)))
            list(dataset(wds, [str(bad)], handler=wds.ignore_and_continue, empty_check=False))
    work(50)
    gc.collect()
    before, files = memory(), len(os.listdir("/proc/self/fd"))
    work(300)
    gc.collect()
    assert memory() - before < 4 << 20
    assert len(os.listdir("/proc/self/fd")) == files
