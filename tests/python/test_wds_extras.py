"""The rarer parts of tarn.wds next to the real webdataset: caches, folders of shards, tenbin, mixing,
single members, and programs written for version 0.2."""
import io
import itertools
import os
import random
import subprocess
import sys
import tarfile
import types

import pytest

from tarn import wds

real = pytest.importorskip("webdataset")
np = pytest.importorskip("numpy")
import tarn.wds.tenbin  # noqa: E402
import webdataset.cache  # noqa: E402
import webdataset.extradatasets  # noqa: E402

BOTH = (real, wds)


@pytest.fixture
def shards(tmp_path):
    """Three shards with one sample each."""
    for number in range(3):
        with real.TarWriter(str(tmp_path / f"{number}.tar"), mtime=0) as out:
            out.write({"__key__": f"k{number}", "txt": f"text {number}"})
    return tmp_path


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("mode, left", [("unlink", []), ("keep", ["0.tar._done_", "1.tar._done_", "2.tar._done_"])])
def test_a_folder_gives_each_shard_once(shards, module, mode, left):
    found = module.shardlists.DirectoryShardList(f"{shards}/", pattern="*.tar", poll=None, mode=mode,
                                                 select="oldest")
    seen = []
    for shard in found:
        assert shard["url"].endswith(f".tar._{os.getpid()}_") and os.path.exists(shard["url"])
        seen.append(shard["url"])
    assert len(seen) == 3
    assert sorted(os.listdir(shards)) == left


@pytest.mark.parametrize("module", BOTH)
def test_a_folder_is_resampled(shards, module):
    found = module.shardlists.DirectoryShardList(f"{shards}/", pattern="*.tar", select="random")
    assert len(list(itertools.islice(found, 8))) == 8
    assert sorted(name.split("._")[0] for name in os.listdir(shards)) == ["0.tar", "1.tar", "2.tar"]


def test_a_folder_takes_back_the_shards_of_processes_that_ended(shards):
    gone = subprocess.Popen(["true"])
    gone.wait()
    os.rename(shards / "0.tar", shards / f"0.tar._{gone.pid}_")
    found = wds.shardlists.DirectoryShardList(f"{shards}/", mode="unlink", poll=None)
    assert len(list(found)) == 2 and os.listdir(shards) == []


def test_a_dataset_reads_a_folder_while_it_empties_it(shards):
    source = wds.shardlists.DirectoryShardList(f"{shards}/", mode="unlink", poll=None)
    dataset = wds.DataPipeline(source, wds.tarfile_to_samples())
    assert {sample["__key__"] for sample in dataset} == {"k0", "k1", "k2"} and not os.listdir(shards)


def test_a_folder_with_an_unknown_choice_is_an_error(shards):
    with pytest.raises(ValueError, match="unknown selection strategy newest"):
        next(iter(wds.shardlists.DirectoryShardList(f"{shards}/", select="newest")))


@pytest.mark.parametrize("module", BOTH)
def test_streams_are_opened_with_their_paths(shards, module):
    opened = list(module.cache.StreamingOpen()([str(shards / "0.tar"), {"url": f"file:{shards}/1.tar"}]))
    assert [each["local_path"] for each in opened] == [str(shards / "0.tar"), str(shards / "1.tar")]
    assert all(each["stream"].read(2) == b"k" + bytes([48 + n]) for n, each in enumerate(opened))
    members = module.tariterators.tar_file_expander(module.cache.StreamingOpen()([str(shards / "2.tar")]))
    assert next(members)["__local_path__"] == str(shards / "2.tar")


@pytest.mark.parametrize("module", BOTH)
def test_a_cache_names_checks_and_removes_its_copies(shards, module, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    (shards / "bad").write_bytes(b"no archive" * 100)
    monkeypatch.setitem(module.gopen_schemes, "mine", lambda url, mode, bufsize, **kw: open(shards / url[5:], mode))
    cache = module.cache.FileCache(str(folder), url_to_name=lambda url: "copy of " + url[5:])
    found = next(iter(cache(["mine:0.tar"])))
    assert found["local_path"] == str(folder / "copy of 0.tar") and found["stream"].read(2) == b"k0"
    with pytest.raises(ValueError, match="not a tar"):
        cache.get_file("mine:bad")
    assert os.listdir(folder) == ["copy of 0.tar"]
    small = module.cache.FileCache(str(folder), url_to_name=lambda url: url[5:], cache_size=5000,
                                   cache_cleanup_interval=0)
    small.get_file("mine:1.tar")
    assert os.listdir(folder) == ["1.tar"]


@pytest.mark.parametrize("url", ["http://h/a/b.tar?x", "s3://b/c", "file:///a/b", "a/b.tar", "odd://h/a b", "pipe:cat x"])
@pytest.mark.parametrize("folders", [0, 1, 9])
def test_copies_have_the_names_of_theirs(url, folders):
    assert wds.cache.url_to_cache_name(url, folders) == real.cache.url_to_cache_name(url, folders)


def test_shards_of_every_kind_are_accepted_by_a_cache(tmp_path):
    for number, name in enumerate(("a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.tar.zst")):
        with wds.TarWriter(str(tmp_path / name)) as out:
            out.write({"__key__": "a", "txt": "x"})
        assert wds.cache.check_tar_format(str(tmp_path / name)), name
    (tmp_path / "empty.tar").write_bytes(bytes(10240))
    (tmp_path / "html").write_text("<html>404</html>" * 100)
    assert wds.cache.check_tar_format(str(tmp_path / "empty.tar"))
    assert not wds.cache.check_tar_format(str(tmp_path / "html"))


ARRAYS = [np.arange(6, dtype="i4").reshape(2, 3), np.ones((2, 4), "u1"), np.linspace(0, 1, 100)]


def test_tenbin_has_the_bytes_of_theirs():
    ours, theirs = wds.tenbin.encode_buffer(ARRAYS), real.tenbin.encode_buffer(ARRAYS)
    assert ours == theirs
    for module in BOTH:
        found = module.tenbin.decode_buffer(ours)
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, ARRAYS, strict=True))
    names = ["a", "", "12345678"]
    named = wds.tenbin.encode_buffer(ARRAYS, infos=names)
    assert named == real.tenbin.encode_buffer(ARRAYS, infos=names)
    assert wds.tenbin.decode_buffer(named, infos=True)[1] == names
    with pytest.raises(ValueError, match="doesn't match"):
        wds.tenbin.decode_buffer(named, infos=["a", "b", "c"])


def test_tenbin_files_are_those_of_theirs(tmp_path):
    wds.tenbin.save(str(tmp_path / "a.ten"), *ARRAYS)
    real.tenbin.save(str(tmp_path / "b.ten"), *ARRAYS)
    assert (tmp_path / "a.ten").read_bytes() == (tmp_path / "b.ten").read_bytes()
    assert [a.tolist() for a in wds.tenbin.load(str(tmp_path / "b.ten"))] == [a.tolist() for a in ARRAYS]
    for odd in (np.arange(3, dtype=">u4"), np.float32(2.5).reshape(()), np.zeros((0, 4), "u1"), np.eye(3).T[::2]):
        again, = wds.tenbin.decode_buffer(wds.tenbin.encode_buffer([odd]))
        assert again.shape == odd.shape and again.tolist() == odd.tolist()


def test_damaged_tenbin_is_a_value_error():
    good = bytes(wds.tenbin.encode_buffer([np.arange(6)]))
    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data) if rng.random() < 0.5 else 64)] = rng.randrange(256)
        del data[rng.choice([len(data), rng.randrange(len(data))]):]
        for read in (wds.tenbin.decode_buffer, lambda b: wds.tenbin.read(io.BytesIO(b))):
            try:
                read(bytes(data))
            except ValueError:
                pass


def test_samples_are_mixed_as_theirs():
    def mixed(module, **options):
        random.seed(5)
        return list(module.RandomMix([range(0, 50), range(100, 120), range(200, 230)], **options))

    for options in ({}, {"longest": True}, {"probs": [1, 5, 2]}, {"probs": [0.2, 0.3, 0.5], "longest": True}):
        assert mixed(wds, **options) == mixed(real, **options)


def test_a_program_for_version_0_2_reads_shards(shards):
    """open_clip groups members in this way, and version 1.0 yields an empty dict after each shard."""
    def grouped(members):
        current = None
        for member in members:
            prefix, suffix = wds.tariterators.base_plus_ext(member["fname"])
            if prefix is None:
                continue
            if current is None or prefix != current["__key__"]:
                if wds.tariterators.valid_sample(current):
                    yield current
                current = {"__key__": prefix, "__url__": member["__url__"]}
            current[suffix.lower()] = member["data"]
        if wds.tariterators.valid_sample(current):
            yield current

    urls = [{"url": str(shards / f"{n}.tar")} for n in range(3)]
    steps = wds.tariterators
    members = list(steps.tar_file_expander(steps.url_opener(iter(urls))))
    assert [sample["txt"] for sample in grouped(members)] == [b"text 0", b"text 1", b"text 2"]
    assert members[1] == {} and not members[1]
    with pytest.raises(KeyError):
        members[1]["__url__"]


def test_single_members_are_added_to_an_archive(tmp_path):
    for module, name in ((real, "theirs.tar"), (wds, "ours.tar")):
        with module.TarWriter(str(tmp_path / name), mtime=0) as out:
            info = tarfile.TarInfo("d/info.json")
            info.size, info.mode, info.uname, info.gname = 2, 0o444, "bigdata", "bigdata"
            out.tarstream.addfile(info, io.BytesIO(b"{}"))
            out.write({"__key__": "a", "txt": "x"})
    assert (tmp_path / "ours.tar").read_bytes() == (tmp_path / "theirs.tar").read_bytes()
    with wds.TarWriter(io.BytesIO()) as out:
        folder = tarfile.TarInfo("d")
        folder.type = tarfile.DIRTYPE
        with pytest.raises(ValueError, match="only regular files"):
            out.tarstream.addfile(folder)
        short = tarfile.TarInfo("x")
        short.size = 5
        with pytest.raises(OSError, match="unexpected end of data"):
            out.tarstream.addfile(short, io.BytesIO(b"abc"))
    for name, compress in itertools.product(("a.tar", "a.tar.gz", "a.tgz", "a.bz2", "a.xz"), (None, False, True, "gz")):
        assert wds.TarWriter.tarmode(name, compress) == real.TarWriter.tarmode(name, compress)


def test_obsolete_lists_of_datasets_work_on_request(monkeypatch):
    spec = {"prefix": "p/", "datasets": [{"shards": "a-{0..3}.tar", "choose": 2}, {"shards": ["b.tar"], "buckets": "c"},
                                         {"shards": "d{0..1}", "resample": 5}]}
    for module in BOTH:
        with pytest.raises(module.utils.ObsoleteException, match="ALLOW_OBSOLETE=1"):
            module.MultiShardSample(spec)
    monkeypatch.setenv("ALLOW_OBSOLETE", "1")
    results = []
    for module in BOTH:
        sample = module.MultiShardSample(spec)
        sample.set_epoch(3)
        results.append(list(sample))
    assert results[0] == results[1] and len(results[0]) == 8
    assert wds.pipe_cleaner("pipe:curl http://x/y") == real.pipe_cleaner("pipe:curl http://x/y") == "http://x/y"


def test_hugging_face_urls_keep_the_token_out_of_the_arguments(tmp_path, monkeypatch):
    hub = types.ModuleType("huggingface_hub")
    hub.HfFileSystem = lambda: types.SimpleNamespace(resolve_path=lambda url: types.SimpleNamespace(
        repo_id="r", path_in_repo="p", repo_type="dataset", revision="main"))
    hub.hf_hub_url = lambda **place: "https://hub/" + place["repo_id"]
    hub.get_token = lambda: "secret"
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    (tmp_path / "curl").write_text('#!/bin/sh\necho "$@"\ncat\n')
    (tmp_path / "curl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    arguments, header = wds.gopen("hf://datasets/r/p").read().decode().splitlines()
    assert arguments.endswith("-H @- -- https://hub/r") and "secret" not in arguments
    assert header == "Authorization: Bearer secret"
    with pytest.raises(ValueError, match="cannot write"):
        wds.gopen("hf://datasets/r/p", "wb")


def test_batches_of_scalars_are_the_lists_of_theirs():
    def batch(module, samples, **options):
        return module.filters.default_collation_fn(samples, **options)

    rows = [(1, "a", 2.5), (2, "b", 3.5)]
    assert batch(wds, rows, combine_scalars=False) == batch(real, rows, combine_scalars=False) == (
        [1, 2], ["a", "b"], [2.5, 3.5])


@pytest.mark.parametrize("module", BOTH)
def test_programs_as_files_take_the_arguments_of_popen(module):
    pipe = module.gopen_schemes["http"].__globals__["Pipe"]
    assert pipe("echo hello; exit 3", mode="rb", shell=True, bufsize=8192, ignore_status=[3]).read() == b"hello\n"
    assert pipe("exit 3", mode="rb", shell=True, ignore_errors=True).read() == b""
    with pytest.raises(OSError, match="exit 4"), pipe("cat > /dev/null; exit 4", mode="wb", shell=True) as out:
        out.write(b"x")
