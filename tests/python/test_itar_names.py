"""Replacing glzn.data by tarn.itar: the names, parameters and members of every module are glzn's,
and programs that extend its classes work."""
import json
import os
import pickle
import sys

import glzn_names
import pytest
from conftest import sanitized

np = pytest.importorskip("numpy")
pytest.importorskip("PIL")

from tarn.itar import iTarDataset, iTarDatasetWriter, iTarFoldWriter
from tarn.itar.encoders import DEFAULT_DECODERS, DEFAULT_ENCODERS, PIL, EncoderDecoder

# All differences: options that only tarn has, and parts of glzn's implementation.
MORE = {"iTarDataset": {"decoders", "delimiter", "extension", "verbose", "bufsize"},
        "iTarFold": {"verbose", "bufsize"}, "build_dataloader": {"options"}}
ABSENT = {("RLE", "pack_dtypes"), ("RLE", "unpack_dtypes"), ("RLE", "unique_consecutive_with_counts")}
OTHER = {("MultiFeistelSampler", "__getitem__")}  # the parameter is named i, as elsewhere

GLZN = os.environ.get("TARN_GLZN")  # the folder of the real package, to compare with it
REAL = (glzn_names.recorded(GLZN) if GLZN
        else json.loads(glzn_names.RECORD.read_text(encoding="utf-8")))
OURS = glzn_names.names_of("tarn.itar", REAL)


@pytest.mark.parametrize("module", REAL)
def test_names_and_parameters_are_those_of_glzn(module):
    assert REAL[module].keys() == OURS[module].keys()
    for name, real in REAL[module].items():
        ours = OURS[module][name]
        told = [each for each in ours["parameters"] or [] if each[0] not in MORE.get(name, ())]
        assert told == (real["parameters"] or []), name
        for member, parameters in real.get("members", {}).items():
            if (name, member) in ABSENT:
                assert member not in ours["members"]
            elif (name, member) not in OTHER:
                assert ours["members"][member] == parameters, f"{name}.{member}"


def test_all_names_of_glzn_are_recorded():
    assert sum(map(len, REAL.values())) == 43


# --- Programs that extend the classes -----------------------------------------------------------


class Doubled(iTarDataset):
    def __getitem__(self, idx):
        return super().__getitem__(idx)[0] * 2


@pytest.fixture
def loc(birds):
    return os.path.dirname(birds)


def test_a_subclass_that_overrides_getitem_is_honoured(loc):
    ds = Doubled("birds", loc, "train", ["cls"])
    assert list(ds) == [0, 2, 4, 6] == ds.__getitems__(range(4))
    again = pickle.loads(pickle.dumps(ds))
    assert type(again) is Doubled and list(again.set_shuffle(rounds=4)) == [
        2 * cls for cls, in iTarDataset("birds", loc, "train", ["cls"]).set_shuffle(rounds=4)]


@pytest.mark.skipif(sanitized(), reason="torch is not run under AddressSanitizer")
def test_datasets_are_torchs_even_if_they_are_made_before_its_import(loc, monkeypatch):
    data = pytest.importorskip("torch.utils.data")
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "torch.utils.data")
        ds = Doubled("birds", loc, "train", ["cls"])
        assert ds.__class__ is Doubled and not isinstance(ds, data.Dataset)
    assert isinstance(ds, data.Dataset) and not isinstance(ds, data.IterableDataset)
    assert isinstance(ds, iTarDataset) and type(pickle.loads(pickle.dumps(ds))) is Doubled
    both = ds + iTarDataset("birds", loc, "train", ["cls"])
    assert len(both) == 8 and (both[1], both[5]) == (2, (1,))
    assert [batch.tolist() for batch in data.DataLoader(ds, batch_size=3)] == [[0, 2, 4], [6]]


class Upper(EncoderDecoder):
    def _encode(self, obj):
        return obj.upper().encode()

    def _decode(self, data):
        return data.decode() + "!"


def test_formats_of_the_program_are_used(tmp_path, monkeypatch):
    monkeypatch.setitem(DEFAULT_ENCODERS, "up", Upper.encoder())
    monkeypatch.setitem(DEFAULT_DECODERS, "up", Upper.decoder())
    monkeypatch.setitem(DEFAULT_ENCODERS, "txt", Upper.encoder())
    with iTarDatasetWriter("d", tmp_path, folds=["train"]) as out:
        out.fold("train").write("a", {"up": "kea", "txt": "owl"})
        out.fold("train").encoders["cls"] = lambda obj: b"7"
        out.fold("train").write({"__key__": 5, "up": "kaka", "txt": "", "cls": 1})
        assert out.fold("train").total_count == 2
        assert out.fold("train").taridx_path == tmp_path / "d/train.taridx"
    ds = iTarDataset("d", tmp_path, "train", ["_stem", "up", "txt"])
    assert list(ds) == [("a", "KEA!", "OWL"), ("5", "KAKA!", "")]
    ds.decoders[ds.fold.state.ext2id["txt"]] = len
    monkeypatch.delitem(DEFAULT_DECODERS, "up")
    assert list(pickle.loads(pickle.dumps(ds))) == [("a", "KEA!", 3), ("5", "KAKA!", 0)]
    assert iTarDataset("d", tmp_path, "train", ["cls"])[0] == (7,)
    with pytest.raises(KeyError, match="DEFAULT_DECODERS"):
        iTarDataset("d", tmp_path, "train", ["up"])


def test_encoders_are_functions_with_a_mode():
    assert PIL.decoder().supports("x/auk.png") and not PIL.encoder().supports("auk.txt")
    with pytest.raises(AssertionError):
        Upper("frob")
    with pytest.raises(AssertionError):
        DEFAULT_ENCODERS["seg8"](np.zeros((2, 2), "int64"))
    for mode in ("encode", "decode"):
        with pytest.raises(NotImplementedError):
            EncoderDecoder(mode)(b"")


def test_attributes_of_a_dataset(loc):
    ds = iTarDataset("birds", loc, "train", ["txt", "cls"])
    assert (str(ds.loc), ds.root, ds.grouping) == (loc, ds.loc / "birds", None)
    assert ds.shard_bincount.tolist() == [4] and ds.fold is ds.fold
    assert ds.map_all(str) is ds.set_epoch(1) is ds.load_state_dict({}) is ds
    assert [type(each).__name__ for each in ds.transforms] == ["MapAll"]
    assert ds.filter_stems(["owl"]).shard_bincount.tolist() == [1] and len(ds.fold.state.arr) == 2


def test_writes_that_glzn_refuses(tmp_path):
    with iTarFoldWriter(tmp_path, "train") as out:
        for wrong in (("a",), ({"cls": 1},), ({"__key__": "a"}, {"cls": 1}), ("", {"cls": 1})):
            with pytest.raises(ValueError):
                out.write(*wrong)
        with pytest.raises(TypeError):
            out.write(5, {"cls": 1})
        with pytest.raises(KeyError, match="No encoder registered"):
            out.write("a", {"frob": 1})
    assert os.listdir(tmp_path) == []
