"""Values of any shape in batches: padded and ragged fields compared with NumPy, native fields with
the same fields through functions, and what is refused."""
import itertools
import pickle
import random

import numpy as np
import pytest

import tarn
from tarn import Pad, Ragged

LENGTHS = [3, 0, 7, 7, 1, 12, 5, 2, 9, 4, 0, 6, 30]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shapes")
    rng = np.random.default_rng(5)
    with tarn.DatasetWriter(path, "train") as out:
        for i, length in enumerate(LENGTHS):
            out.write({
                "__key__": f"k{i:02}",
                "ids.npy": rng.integers(-99, 99, length).astype(np.int32),
                "mel.npy": rng.normal(size=(length, 4)).astype(np.float16),
                "box.npy": rng.normal(size=(i % 3, 1 + i % 4)),
                "img.png": rng.integers(0, 255, (2 + i % 3, 3 + i % 2, 3), np.uint8),
                "fix.npy": np.full((2, 3), i, ">i2"),
                "cls": i, "txt": f"text {i}", "raw": bytes(i),
                "list.json": list(range(length)),
            })
    return path


@pytest.fixture(scope="module")
def ds(folder):
    return tarn.open(folder)


def same(a, b):
    """Whether two values of a batch are identical, with their types."""
    if isinstance(a, dict):
        assert list(a) == list(b)
        return all(same(a[name], b[name]) for name in a)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def model(arrays, pad):
    """What a field becomes: (values, mask, lengths), computed with NumPy."""
    ndim = arrays[0].ndim
    axes = range(ndim) if pad.axes is None else [pad.axes] if isinstance(pad.axes, int) else pad.axes
    axes = [axis % ndim for axis in axes]
    fixed = None if pad.length is None else [pad.length] * len(axes) if isinstance(pad.length, int) else pad.length
    shape = list(arrays[0].shape)
    for n, axis in enumerate(axes):
        longest = max(array.shape[axis] for array in arrays)
        shape[axis] = -(-longest // pad.multiple) * pad.multiple if fixed is None else fixed[n]
    out = np.full((len(arrays), *shape), pad.value, arrays[0].dtype.newbyteorder("="))
    axes.sort()
    mask = np.zeros((len(arrays), *(shape[axis] for axis in axes)), bool)
    lengths = np.zeros((len(arrays), len(axes)), np.int64)
    for i, array in enumerate(arrays):
        array = array[tuple(slice(0, length) for length in shape)]
        place = tuple(slice(length - n, length) if pad.side == "left" else slice(0, n)
                      for length, n in zip(shape, array.shape))
        out[i][place] = array
        mask[i][tuple(place[axis] for axis in axes)] = True
        lengths[i] = [array.shape[axis] for axis in axes]
    return out, mask, lengths[:, 0] if len(axes) == 1 else lengths


def arrays_of(ds, batch, field):
    return [ds[key][field] for key in batch["__key__"]]


FORMS = {
    "ids.npy": [Pad(0), Pad(-100, side="left", mask=True), Pad(1, multiple=8, lengths=True),
                Pad(7, length=32, mask=True, lengths=True), Pad(7, length=5, truncate=True, side="left", mask=True),
                Pad(axes=-1), Pad(length=0, truncate=True, mask=True)],
    "mel.npy": [Pad(0.5), Pad(-1, axes=0, mask=True, lengths=True), Pad(float("nan"), side="left", multiple=16, lengths=True),
                Pad(float("-inf"), axes=(0, 1), length=(40, 6), mask=True), Pad(axes=[0], length=4, truncate=True)],
    "box.npy": [Pad(1e300, mask=True, lengths=True), Pad(2, side="left", multiple=3, mask=True),
                Pad(length=(1, 2), truncate=True, mask=True, lengths=True), Pad(axes=(-1, 0), length=(9, 3), side="left", lengths=True)],
    "img.png": [Pad(255, axes=(0, 1), mask=True, lengths=True), Pad(0), Pad(1, side="left", axes=(0, 1), length=(3, 9), truncate=True)],
}


@pytest.mark.parametrize("field, number", [(field, i) for field, forms in FORMS.items() for i in range(len(forms))])
def test_padded_fields_are_those_of_numpy_for_fields_and_for_results_of_functions(ds, field, number):
    pad = FORMS[field][number]
    for batch_size in (1, 4, 13):
        native = list(ds.loader(batch_size, pad={field: pad}, threads=0))
        for batch in native:
            values, mask, lengths = model(arrays_of(ds, batch, field), pad)
            assert same(batch[field], values)
            assert same(batch[f"{field}_mask"], mask) if pad.mask else f"{field}_mask" not in batch
            assert same(batch[f"{field}_lengths"], lengths) if pad.lengths else f"{field}_lengths" not in batch
        for threads in (1, 3):
            assert all(map(same, native, ds.loader(batch_size, pad={field: pad}, threads=threads)))
        mapped = list(ds.map(lambda sample: sample).loader(batch_size, pad={field: pad}))
        for one, other in zip(native, mapped, strict=True):
            one.pop("list.json"), other.pop("list.json")
            assert same(one, other)


def test_ragged_fields_are_those_of_numpy_for_fields_and_for_results_of_functions(ds):
    for field, threads in itertools.product(("ids.npy", "mel.npy"), (0, 1, 3)):
        native = list(ds.loader(5, ragged=[field], threads=threads))
        mapped = list(ds.map(lambda sample: sample).loader(5, ragged=[field]))
        for batch, other in zip(native, mapped, strict=True):
            arrays = arrays_of(ds, batch, field)
            assert isinstance(batch[field], Ragged)
            values, offsets = batch[field]
            assert same(values, np.concatenate(arrays))
            assert same(offsets, np.cumsum([0, *map(len, arrays)]))
            assert all(same(values[offsets[i]:offsets[i + 1]], array) for i, array in enumerate(arrays))
            assert same(batch[field], other[field])


def test_results_that_are_strided_big_endian_or_lists_are_those_of_packed_arrays(ds):
    def packed(sample):
        return {"x": np.ascontiguousarray(sample["mel.npy"][::2, ::-1]), "y": sample["ids.npy"].astype(np.int64),
                "z": sample["ids.npy"].astype(np.int64)}

    def other(sample):
        return {"x": sample["mel.npy"][::2, ::-1].astype(">f2"), "y": sample["ids.npy"].tolist(),
                "z": tuple(sample["ids.npy"].tolist())}

    options = dict(pad={"x": Pad(9, side="left", multiple=4), "y": 5}, ragged=["z"])
    for a, b in zip(ds.map(packed).loader(13, **options), ds.map(other).loader(13, **options), strict=True):
        assert same(a, b)
    stacks = [ds.map(lambda s, f=f: f(np.arange(12.0).reshape(3, 4) + s["cls"])).loader(13)
              for f in (np.ascontiguousarray, np.asfortranarray, lambda x: x.T.copy().T, lambda x: x.astype(">f8"))]
    first, *others = (next(iter(stack)) for stack in stacks)
    assert first.shape == (13, 3, 4) and all(same(first, one) for one in others)


def test_stacking_functions_results_keeps_types_that_the_library_does_not_have(ds):
    for make in (lambda i: np.array([i], "datetime64[s]"), lambda i: np.array([i], np.longdouble),
                 lambda i: np.array([None, i], object), lambda i: np.array([f"é{i:02}"]), lambda i: np.array([b"x"], "S3")):
        batch = next(iter(ds.map(lambda s: make(s["cls"])).loader(13)))
        assert batch.dtype == make(0).dtype and batch.tolist() == [make(i).tolist() for i in range(13)]


def test_lists_strings_and_nested_dicts_have_defined_results(ds):
    def function(sample):
        n = sample["cls"]
        return {"text": str(n), "list": [n] * 2, "nested": {"a": n, "deep": {"b": np.full(2, n)}},
                "other": {f"n{n % 2}": n}, "pair": (n, str(n)), "none": None, "mixed": n if n % 2 else "x"}

    batch = next(iter(ds.map(function).loader(3)))
    assert batch["text"] == ["0", "1", "2"] and batch["list"] == [[0, 0], [1, 1], [2, 2]]
    assert batch["nested"]["a"].tolist() == [0, 1, 2]
    assert batch["nested"]["deep"]["b"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch["other"] == [{"n0": 0}, {"n1": 1}, {"n0": 2}]
    assert batch["pair"][0].tolist() == [0, 1, 2] and batch["pair"][1] == ["0", "1", "2"]
    assert batch["none"] == [None] * 3 and batch["mixed"] == ["x", 1, "x"]


def test_lists_in_json_and_results_of_decoders_can_be_padded(folder):
    ds = tarn.open(folder)
    batch = next(iter(ds.loader(4, pad={"list.json": Pad(-1, mask=True)})))
    assert batch["list.json"].tolist() == [[0, 1, 2, -1, -1, -1, -1], [-1] * 7, list(range(7)), list(range(7))]
    assert batch["list.json_mask"].sum(1).tolist() == LENGTHS[:4]
    decoded = tarn.open(folder, decoders={"raw": lambda data: np.frombuffer(data, np.uint8)})
    values, offsets = next(iter(decoded.loader(4, ragged=["raw"])))["raw"]
    assert values.tolist() == [0] * 6 and offsets.tolist() == [0, 0, 1, 3, 6]


def test_torch_gives_tensors_of_the_same_values(ds):
    torch = pytest.importorskip("torch")
    options = dict(pad={"mel.npy": Pad(1, mask=True, lengths=True)}, ragged=["ids.npy"])
    fields = ["mel.npy", "mel.npy_mask", "mel.npy_lengths"]
    for given in (ds, ds.map(lambda s: s), ds.map(lambda s: {**s, "mel.npy": torch.from_numpy(s["mel.npy"].copy()),
                                                               "ids.npy": torch.from_numpy(s["ids.npy"].copy())})):
        for one, other in zip(ds.loader(5, **options), given.loader(5, array_type="torch", **options), strict=True):
            for name in fields:
                assert isinstance(other[name], torch.Tensor) and same(one[name], other[name].numpy())
            assert isinstance(other["ids.npy"], Ragged) and isinstance(other["ids.npy"].offsets, torch.Tensor)
            assert same(one["ids.npy"].values, other["ids.npy"].values.numpy())
    with pytest.raises(tarn.FormatError, match="bfloat16.*convert it"):
        next(iter(ds.map(lambda s: {"x": torch.zeros(3, dtype=torch.bfloat16)}).loader(2, pad={"x": 0})))


def test_batches_without_samples_have_the_types_of_others(folder):
    for given in (tarn.open(folder), tarn.open(folder).map(lambda s: s)):
        loader = given[:3].shard(3, 4).loader(2, equal_batches=True, pad={"mel.npy": Pad(0, length=8, mask=True, lengths=True)},
                                              ragged=["ids.npy"])
        batch, = loader
        assert batch["mel.npy"].shape == (0, 8, 8) and batch["mel.npy"].dtype == np.float16
        assert batch["mel.npy_mask"].shape == (0, 8, 8) and batch["mel.npy_mask"].dtype == bool
        assert batch["mel.npy_lengths"].shape == (0, 2)
        assert same(batch["ids.npy"], Ragged(np.zeros(0, np.int32), np.zeros(1, np.int64)))


def test_resumed_and_pickled_loaders_continue_with_the_same_batches(ds):
    options = dict(shuffle=True, seed=3, pad={"box.npy": Pad(mask=True)}, ragged=["mel.npy"])
    for given in (ds, ds.map(lambda s: s)):
        whole = list(given.loader(3, **options))
        for steps in range(len(whole) + 1):
            loader = given.loader(3, threads=1, **options)
            for batch in itertools.islice(loader, steps):
                pass
            again = given.loader(3, threads=3, **options)
            again.load_state_dict(loader.state_dict())
            if steps < len(whole):
                assert all(map(same, whole[steps:], again))
    loader = pickle.loads(pickle.dumps(ds.loader(3, **options)))
    assert all(map(same, ds.loader(3, **options), loader))


def test_drop_last_and_keys_work_as_without_padding(ds):
    batches = list(ds.loader(4, drop_last=True, keys=False, pad={"ids.npy": 0}))
    assert [len(batch["ids.npy"]) for batch in batches] == [4, 4, 4] and "__key__" not in batches[0]


@pytest.mark.parametrize("through", [lambda ds: ds, lambda ds: ds.map(lambda s: s)], ids=["fields", "functions"])
def test_a_sample_that_is_too_long_is_a_hole(ds, through):
    pad = {"ids.npy": Pad(0, length=9)}
    with pytest.raises(tarn.FormatError, match="length 12 along axis 0.*padded to 9.*truncation") as caught:
        list(through(ds).loader(13, pad=pad))
    assert "k05" in str(caught.value) + str(getattr(caught.value, "__notes__", ""))
    assert "ids.npy" in str(caught.value) + str(getattr(caught.value, "__notes__", ""))
    loader = through(ds).loader(4, pad=pad, on_error="skip")
    sizes = [batch["ids.npy"].shape for batch in itertools.islice(loader, 3)]
    assert sizes == [(4, 9), (3, 9), (4, 9)]
    assert [one.key for one in loader.skipped()] == ["k05"]
    replaced = next(itertools.islice(through(ds).loader(4, pad=pad, on_error="replace"), 1, None))
    assert replaced["__key__"] == ["k04", "k06", "k06", "k07"]


def refused(ds, message, error=tarn.FormatError, **options):
    with pytest.raises(error, match=message) as caught:
        list(ds.loader(4, **options))
    return str(caught.value)


def test_values_that_do_not_fit_together_are_errors_that_name_the_sample(ds):
    both = ds.map(lambda s: {"x": s["ids.npy"].astype("f4" if s["cls"] == 2 else "f8"), "y": np.zeros((1,) * (1 + s["cls"] % 2))})
    refused(both, r"field x: array 2: .* type <f4, but the first of the batch has <f8", pad={"x": 0})
    refused(both, r"field y: array 1: .* 2 dimensions, but the first of the batch has 1", ragged=["y"])
    for on_error in ("raise", "skip"):
        assert "k01" in refused(ds, r"\(k01\), field box.npy: .* shape \(1, 2\).* length 1 along axis 1; pad that axis",
                                pad={"box.npy": Pad(axes=0)}, on_error=on_error)
    refused(ds, "box.npy: .*along axis 1", ragged=["box.npy"])
    refused(ds, "no axis 2 to pad", pad={"mel.npy": Pad(axes=2)})
    refused(ds, "two of the axes to pad are axis 1", pad={"mel.npy": Pad(axes=(1, -1))})
    refused(ds, "2 dimensions, but there are 3 lengths", pad={"mel.npy": Pad(length=(1, 2, 3))})
    refused(ds, "padding value 0.5 is not a value of type <i4", tarn.UsageError, pad={"ids.npy": 0.5})
    refused(ds, r"padding value 256 is not a value of type \|u1", tarn.UsageError, pad={"img.png": 256})
    refused(ds, "padding value 100000 is not", tarn.UsageError, pad={"mel.npy": 100000})
    refused(ds, "padding value -1e.06 is not", tarn.UsageError, pad={"mel.npy": -1e6})


def test_values_that_are_not_arrays_are_refused(ds):
    identity = ds.map(lambda s: s)
    refused(ds, "field txt cannot be padded", tarn.UsageError, pad={"txt": 0})
    refused(ds, "field cls cannot be padded", tarn.UsageError, pad={"cls": 0})
    refused(ds, "field img.png cannot be padded", tarn.UsageError, pad={"img.png": 0}, resize=8)
    refused(identity, "a value of type str cannot be padded", pad={"txt": 0})
    refused(identity, "single number, which has no axis", pad={"cls": 0})
    refused(identity, "a value of type str cannot be", ragged=["txt"])
    refused(ds.map(lambda s: {"x": [[1], [2, 3]]}), "nested list cannot be", pad={"x": 0})
    refused(ds.map(lambda s: {"x": np.array([None])}), "array of object cannot be", pad={"x": 0})
    refused(ds.map(lambda s: (1, 2)), "returned tuple; return a dict", tarn.UsageError, pad={"x": 0})


def test_options_are_checked(ds):
    refused(ds, "pad: no field none; available: ", tarn.UsageError, pad={"none": 0})
    refused(ds, "ragged: no field none", tarn.UsageError, ragged=["none"])
    refused(ds.map(lambda s: s), "pad: the samples have no field none", tarn.UsageError, pad={"none": 0})
    refused(ds, "both padded and ragged", tarn.UsageError, pad={"ids.npy": 0}, ragged=["ids.npy"])
    refused(ds, "pad must be a dict", tarn.UsageError, pad=["ids.npy"])
    refused(ds, "must be a number", tarn.UsageError, pad={"ids.npy": "0"})
    refused(ds, "must fit in 64 bits", tarn.UsageError, pad={"ids.npy": 2**63})
    for options, message in (({"side": "top"}, "side must be"), ({"axes": ()}, "axes is empty"), ({"axes": 1.5}, "whole numbers"),
                             ({"length": -1}, "out of range"), ({"length": ()}, "length is empty"), ({"multiple": 0}, "multiple"),
                             ({"truncate": True}, "without length"), ({"length": 8, "multiple": 8}, "not both"), ({"axes": 64}, "range")):
        with pytest.raises(tarn.UsageError, match=message):
            Pad(**options)
    refused(ds, "2 lengths for 1 padded axes", tarn.UsageError, pad={"mel.npy": Pad(axes=0, length=(1, 2))})
    clash = ds.map(lambda s: {"x": [1], "x_mask": [1]})
    refused(clash, "x_mask is also a field", tarn.UsageError, pad={"x": Pad(mask=True)})


def test_a_field_with_the_name_of_a_mask_is_refused(tmp_path):
    with tarn.DatasetWriter(tmp_path, "train") as out:
        out.write({"__key__": "a", "x.npy": np.zeros(3), "x.npy_mask": b"x"})
    refused(tarn.open(tmp_path), "mask of field x.npy would have the name of another field", tarn.UsageError,
            pad={"x.npy": Pad(mask=True)})


def test_a_padded_batch_has_a_limit_and_the_error_names_the_longest_sample(tmp_path):
    with tarn.DatasetWriter(tmp_path, "train") as out:
        for i in range(3):
            out.write({"__key__": f"k{i}", "x.npy": np.zeros((1, 2**20) if i == 1 else (2**11, 1), np.uint8)})
    for ds in (tarn.open(tmp_path), tarn.open(tmp_path).map(lambda s: s)):
        with pytest.raises(tarn.LimitError, match=r"shape \(1, 1048576\).*3 samples.*\(2048, 1048576\).*TARN_MAX_PADDED"):
            next(iter(ds.loader(3, pad={"x.npy": 0})))
    with pytest.raises(tarn.LimitError, match="TARN_MAX_PADDED"):
        next(iter(tarn.open(tmp_path).loader(3, pad={"x.npy": Pad(length=2**61)})))
    values, _ = next(iter(tarn.open(tmp_path)[1:2].loader(3, ragged=["x.npy"])))["x.npy"]
    assert values.shape == (1, 2**20)


def test_random_shapes_give_what_numpy_gives(tmp_path):
    rng = random.Random(9)
    types = ["u1", "i2", "<i4", ">i8", "f2", "f4", ">f8", "c8", "c16", "?", "u8"]
    for turn in range(40):
        ndim, dtype = rng.randint(1, 4), np.dtype(rng.choice(types))
        axes = sorted(rng.sample(range(ndim), rng.randint(1, ndim)))
        base = [rng.randint(0, 4) for _ in range(ndim)]
        arrays = []
        for _ in range(rng.randint(1, 9)):
            shape = [rng.randint(0, 6) if axis in axes else length for axis, length in enumerate(base)]
            array = np.array([rng.randint(0, 1) for _ in range(int(np.prod(shape)))]).astype(dtype).reshape(shape)
            arrays.append(array)
        pad = Pad(1, side=rng.choice(["left", "right"]), axes=axes, multiple=rng.randint(1, 3), mask=True, lengths=True)
        if rng.random() < 0.5:
            pad = Pad(1, side=pad.side, axes=axes, length=[rng.randint(0, 5) for _ in axes], truncate=True, mask=True, lengths=True)
        values, mask, lengths, offsets = tarn._tarn.collate(arrays, pad._form(), "x")
        for got, want in zip((values, mask, lengths), model(arrays, pad)):
            assert same(got, want), (turn, pad)
        assert offsets is None
