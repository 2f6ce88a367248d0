"""Properties that hold for any data: hypothesis compares tarn with plain Python."""
import io
import json
import tarfile

import pytest
from conftest import write_tar
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tarn
from tarn import _tarn

np = pytest.importorskip("numpy")

few = settings(max_examples=60, deadline=None,
               suppress_health_check=[HealthCheck.function_scoped_fixture])
names = st.text("abcdefgh0123456789_-", min_size=1, max_size=12)
fields = st.sampled_from(["txt", "bin", "a.b", "x"])
samples = st.dictionaries(names, st.dictionaries(fields, st.binary(max_size=700), min_size=1),
                          min_size=1, max_size=12)


@few
@given(samples)
def test_a_tar_is_read_as_it_was_written(tmp_path, data):
    path = write_tar(tmp_path / "t.tar", [(f"{key}.{field}", value)
                                          for key, sample in data.items()
                                          for field, value in sample.items()])
    ds = tarn.open(path, decode="bytes")
    assert ds.keys() == list(data)
    for key, sample in data.items():
        assert {name: value for name, value in ds[key].items() if name != "__key__"} == sample
    assert [dict(sample) for sample in ds] == [ds[i] for i in range(len(ds))]
    with tarfile.open(path) as tar:
        assert sum(len(sample) - 1 for sample in ds) == len(tar.getmembers())


@few
@given(samples, st.lists(st.integers(-30, 30), max_size=20), st.integers())
def test_indices_batches_and_orders_agree(tmp_path, data, wanted, seed):
    path = write_tar(tmp_path / "t.tar", [(f"{key}.txt", key.encode()) for key in data])
    ds = tarn.open(path)
    wanted = [i for i in wanted if -len(ds) <= i < len(ds)]
    shuffled = ds.shuffle(seed)
    for source in (ds, shuffled):
        keys = source.keys()
        assert [source[i]["txt"] for i in wanted] == [keys[i] for i in wanted]
        assert source[wanted].keys() == [keys[i] for i in wanted]
        assert [bytes(item).decode() for item in source.batch(wanted).column("txt")] == [
            keys[i] for i in wanted]
    assert sorted(shuffled.keys()) == sorted(ds.keys())


values = arrays.arrays(dtype=st.one_of(arrays.integer_dtypes(), arrays.unsigned_integer_dtypes(),
                                       arrays.floating_dtypes(sizes=(16, 32, 64)),
                                       arrays.boolean_dtypes(), arrays.complex_number_dtypes(
                                           sizes=(64, 128))),
                       shape=arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


@few
@given(values)
def test_npy_is_numpys(array):
    out = io.BytesIO()
    np.save(out, array)
    ours = _tarn.encode("npy", array)
    assert np.array_equal(np.load(io.BytesIO(ours)), array, equal_nan=array.dtype.kind in "fc")
    back = _tarn.decode("npy", out.getvalue())
    assert back.dtype == array.dtype and back.shape == array.shape
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()


@few
@given(values, st.permutations(range(4)))
def test_arrays_with_strides_are_encoded_as_they_look(array, axes):
    turned = array.transpose([axis for axis in axes if axis < array.ndim])[..., ::-1] \
        if array.ndim else array
    assert np.array_equal(np.load(io.BytesIO(_tarn.encode("npy", turned))), turned,
                          equal_nan=array.dtype.kind in "fc")


jsons = st.recursive(st.none() | st.booleans() | st.integers(-2**60, 2**60) | st.text(max_size=20)
                     | st.floats(allow_nan=False, allow_infinity=False),
                     lambda inner: st.lists(inner, max_size=4)
                     | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=10)


@few
@given(jsons.filter(lambda value: not isinstance(value, str)))
def test_json_goes_round(value):
    assert _tarn.decode("json", _tarn.encode("json", value)) == value
    assert json.loads(_tarn.encode("json.gz", value) and _tarn.encode("json", value)) == value
    assert _tarn.decode("json.gz", _tarn.encode("json.gz", value)) == value


@few
@given(st.dictionaries(st.text("abcxyz_", min_size=1, max_size=8), values, max_size=4))
def test_npz_goes_round(data):
    back = _tarn.decode("npz", _tarn.encode("npz", data))
    assert list(back) == list(data)
    with np.load(io.BytesIO(_tarn.encode("npz", data))) as theirs:
        for name, array in data.items():
            assert back[name].tobytes() == array.tobytes() == theirs[name].tobytes()


@few
@given(st.text("txtjsoncljpgnzbi.", max_size=8), st.binary(max_size=200))
def test_any_bytes_under_any_name_decode_or_raise_ours(field, data):
    try:
        _tarn.decode(field, data)
    except (tarn.Error, UnicodeDecodeError):
        pass
