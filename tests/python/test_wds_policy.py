"""What tarn.wds does not do unless the program allows it: running commands and reading pickles. No
error handler hides a refusal."""
import gc
import io
import os
import pickle
import subprocess
import sys

import pytest

import tarn
from tarn import wds

pytest.importorskip("numpy")
CONTINUING = [wds.ignore_and_continue, wds.ignore_and_stop, wds.warn_and_continue, lambda error: True]
PIPE, PICKLE = "TARN_ALLOW_PIPE", "TARN_ALLOW_PICKLE"


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch):
    for name in (PIPE, PICKLE):
        monkeypatch.setenv(name, "0")


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "x.tar"
    with wds.TarWriter(str(path), mtime=0) as sink:
        for i in range(3):
            sink.write({"__key__": str(i), "txt": "x", "pyd": {i}})
    return str(path)


@pytest.mark.parametrize("handler", CONTINUING)
@pytest.mark.parametrize("resampled", [False, True])
def test_a_dataset_of_commands_is_refused_when_it_is_made(shard, handler, resampled):
    with pytest.raises(wds.NotAllowedError, match="allow_pipe=True.*TARN_ALLOW_PIPE"):
        wds.WebDataset([shard, f"pipe:cat {shard}"], handler=handler, resampled=resampled, shardshuffle=False)


@pytest.mark.parametrize("handler", CONTINUING)
def test_no_handler_hides_a_command_that_is_not_allowed(shard, handler, tmp_path):
    shards, cache = wds.SimpleShardList(f"pipe:cat {shard}"), wds.FileCache(str(tmp_path), handler=handler)
    for stages in ([wds.tarfile_to_samples(handler=handler)],
                   [wds.tarfile_to_samples(handler, lambda name: True)],
                   [wds.cache.StreamingOpen(handler=handler)], [cache],
                   [lambda src: wds.tariterators.url_opener(src, handler=handler)]):
        with pytest.raises(wds.NotAllowedError, match="pipe:"):
            next(iter(wds.DataPipeline(shards, *stages)))


def test_a_rewritten_command_is_refused(shard, monkeypatch):
    monkeypatch.setenv("GOPEN_REWRITE", "up:=pipe:cat ")
    with pytest.raises(wds.NotAllowedError):
        wds.WebDataset("up:" + shard, handler=wds.ignore_and_continue, shardshuffle=False)
    assert len(list(wds.WebDataset("up:" + shard, shardshuffle=False, allow_pipe=True))) == 3


def test_refusals_do_not_show_the_command():
    with pytest.raises(wds.NotAllowedError) as caught:
        wds.gopen("pipe:curl -H secret")
    assert "secret" not in str(caught.value) and isinstance(caught.value, tarn.UnsupportedError)


def test_writers_of_commands_are_refused_when_they_are_made(tmp_path):
    for make in (lambda url: wds.TarWriter(url), lambda url: wds.ShardWriter(url + "%d", verbose=0)):
        with pytest.raises(wds.NotAllowedError):
            make(f"pipe:cat > {tmp_path}/x")
    gc.collect()
    assert not os.listdir(tmp_path)


def test_one_switch_allows_commands_in_the_whole_program(shard, tmp_path, monkeypatch):
    def works():
        assert len(list(wds.WebDataset(f"pipe:cat {shard}", shardshuffle=False))) == 3
        shards = wds.SimpleShardList(f"pipe:cat {shard}")
        assert len(list(wds.DataPipeline(shards, wds.tarfile_to_samples()))) == 3
        assert wds.gopen("pipe:echo hello").read() == b"hello\n"
        with wds.TarWriter(f"pipe:cat > {tmp_path}/y.tar") as sink:
            sink.write({"__key__": "a", "txt": "x"})
        with wds.ShardWriter(f"pipe:cat > {tmp_path}/%d.tar", verbose=0) as sink:
            sink.write({"__key__": "a", "txt": "x"})
        assert (tmp_path / "0.tar").read_bytes()[:6] == (tmp_path / "y.tar").read_bytes()[:6] == b"a.txt\0"

    monkeypatch.setenv(PIPE, "1")
    works()
    wds.allow_pipes(False)
    with pytest.raises(wds.NotAllowedError):
        works()
    wds.allow_pipes()
    works()
    with pytest.raises(wds.NotAllowedError):
        wds.WebDataset(f"pipe:cat {shard}", shardshuffle=False, allow_pipe=False)


@pytest.mark.parametrize("handler", CONTINUING)
def test_no_handler_hides_a_pickle(shard, handler):
    dataset = wds.WebDataset(shard, shardshuffle=False)
    for stage in (dataset.decode(handler=handler), dataset.compose(wds.decode(handler=handler)),
                  dataset.xdecode().map(lambda sample: sample, handler=handler)):
        with pytest.raises(Exception, match="allow_pickles") as caught:
            list(stage)
        assert wds.handlers.denied(caught.value)


def test_one_switch_allows_pickles_in_the_whole_program(shard, monkeypatch):
    monkeypatch.setenv(PICKLE, "1")
    dataset = wds.WebDataset(shard, shardshuffle=False)
    assert [sample["pyd"] for sample in dataset.decode()] == [{0}, {1}, {2}]
    assert [sample["pyd"] for sample in dataset.xdecode()] == [{0}, {1}, {2}]
    wds.allow_pickles(False)
    with pytest.raises(wds.DecodingError):
        list(dataset.decode())
    assert next(iter(dataset.decode("pickle")))["pyd"] == {0}
    assert next(iter(dataset.xdecode(pyd=pickle.load)))["pyd"] == {0}


@pytest.mark.parametrize("name", [PIPE, PICKLE])
def test_a_switch_is_0_or_1(shard, name, monkeypatch):
    monkeypatch.setenv(name, "yes")
    with pytest.raises(Exception, match=f"{name}: must be 0 or 1"):
        list(wds.WebDataset(shard, handler=wds.ignore_and_continue, shardshuffle=False).decode(
            handler=wds.ignore_and_continue))


@pytest.mark.parametrize("handler", CONTINUING)
def test_security_mode_is_not_hidden_either(shard, handler, monkeypatch):
    monkeypatch.setattr(wds.utils, "enforce_security", True)
    with pytest.raises(wds.NotAllowedError, match="unsafe_gopen is False.*WDS_SECURE"):
        wds.WebDataset(f"pipe:cat {shard}", handler=handler, shardshuffle=False, allow_pipe=True)
    with pytest.raises(wds.DecodingError, match="enforce_security is set"):
        list(wds.WebDataset(shard, shardshuffle=False).decode("pickle", handler=handler))


class Runs:
    """A class, which a torch file can only name if it may run code."""


@pytest.mark.skipif("TARN_SANITIZED" in os.environ, reason="torch is slow with sanitizers")
def test_tensors_in_pth_are_decoded_and_objects_are_refused():
    torch = pytest.importorskip("torch")

    def saved(value):
        return {"__key__": "a", "pth": wds.torch_dumps(value)}

    decoder = wds.Decoder([])
    assert decoder(saved({"x": torch.arange(3)}))["pth"]["x"].tolist() == [0, 1, 2]
    objects = wds.DataPipeline([[saved(Runs())]], wds.decode(handler=wds.ignore_and_continue))
    with pytest.raises(wds.DecodingError, match="torch_load"):
        list(objects)
    loaded = wds.DataPipeline([[saved(Runs())]], wds.decode("torch_load"))
    assert isinstance(next(iter(loaded))["pth"], Runs)
    damaged = wds.DataPipeline([[{"__key__": "a", "pth": b"damaged"}]], wds.decode(handler=wds.ignore_and_continue))
    assert list(damaged) == []
    wds.allow_pickles()
    assert isinstance(decoder(saved(Runs()))["pth"], Runs)


@pytest.mark.skipif("TARN_SANITIZED" in os.environ, reason="torch is slow with sanitizers")
def test_pipelines_made_before_torch_is_imported_are_its_datasets(shard):
    pytest.importorskip("torch")
    program = """if True:
        import sys, pickle
        from tarn import wds
        made = [wds.WebDataset(sys.argv[1], shardshuffle=False).slice(2), wds.MockDataset("x", 2),
                wds.RandomMix([]), wds.SimpleShardList("x"), wds.with_length([], 2)]
        assert "torch" not in sys.modules
        from torch.utils.data import DataLoader, IterableDataset
        assert all(isinstance(each, IterableDataset) for each in made)
        assert type(made[0]) is made[0].__class__ is type(pickle.loads(pickle.dumps(made[0])))
        assert len(list(DataLoader(made[0], batch_size=None))) == 2
        """
    subprocess.run([sys.executable, "-c", program, shard], check=True)
