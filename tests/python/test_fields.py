"""Lists of fields: alternatives, names, and the samples that they leave out; filters by field."""
import gzip
import io
import pickle
import warnings

import numpy as np
import pytest
from conftest import write_tar
from PIL import Image
from tool import tool

import tarn
import tarn.iac

FORMATS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}
ENDINGS = ["jpg", "png", "webp", "png", "jpg", "png", "webp"]


def image(ending, grey):
    """Returns an image file; its pixels are exactly grey in every format."""
    out = io.BytesIO()
    options = {"lossless": True} if ending == "webp" else {}
    Image.new("RGB", (16, 8), (grey, grey, grey)).save(out, FORMATS[ending], **options)
    return out.getvalue()


def members():
    """Returns samples k0 to k6 with an image each, k7 with two, and k8 with none."""
    out = []
    for i, ending in enumerate(ENDINGS):
        out += [(f"k{i}.{ending}", image(ending, 16 * i)), (f"k{i}.cls", b"%d" % i)]
    out += [("k7.png", image("png", 240)), ("k7.jpg", image("jpg", 112)), ("k7.cls", b"7")]
    return [*out, ("k8.cls", b"8")]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The samples in every kind of storage that may lack fields: name -> path."""
    folder = tmp_path_factory.mktemp("fields")
    (folder / "fold").mkdir()
    write_tar(folder / "fold/x_0.tar", members()[:8])
    write_tar(folder / "fold/x_1.tar", members()[8:])
    tool("index", folder / "fold")
    write_tar(folder / "one.tar", members())
    tool("convert", folder / "one.tar", folder / "members.iac")
    return {"fold": folder / "fold", "tar": folder / "one.tar", "iac": folder / "members.iac"}


@pytest.fixture(params=["fold", "tar", "iac"])
def path(stores, request):
    return stores[request.param]


def quietly(path, fields, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tarn.open(path, fields=fields, **options)


GREYS = [0, 16, 32, 48, 64, 80, 96, 112]


def greys(images):
    return [int(one[0, 0, 0]) for one in images]


# --- Alternatives and names ------------------------------------------------------------------


@pytest.mark.parametrize("text, name", [("jpg;png;jpeg;webp", "jpg"), ("img=jpg;png;webp", "img"),
                                        ("photo= jpg ; png;.webp", "photo")])
def test_the_first_alternative_that_a_sample_has_is_read_decoded_and_batched(path, text, name):
    ds = quietly(path, [text, "cls"])
    assert ds.fields == (name, "cls") and len(ds) == 8
    assert greys(sample[name] for sample in ds) == greys(ds[i][name] for i in range(8)) == GREYS
    for threads in (0, 2):
        [batch] = ds.loader(8, threads=threads)
        assert batch[name].shape == (8, 8, 16, 3) and greys(batch[name]) == GREYS
        [small] = ds.loader(8, threads=threads, resize=4)
        assert small[name].shape == (8, 4, 4, 3) and greys(small[name]) == GREYS
    raw = quietly(path, [text], decode="bytes")
    stored = [image(ending, grey) for ending, grey in zip([*ENDINGS, "jpg"], GREYS)]
    assert [sample[name] for sample in raw] == stored
    assert bytes(ds.batch(range(8), [name]).data) == b"".join(stored)
    assert ds.sizes(name).tolist() == [len(one) for one in stored]
    assert [batch[name] for batch in raw.loader(8)] == [stored]


def test_the_order_of_alternatives_decides_what_a_sample_with_several_has(path):
    assert greys([quietly(path, ["png;jpg"])["k7"]["png"]]) == [240]
    assert greys([quietly(path, ["jpg;png"])["k7"]["jpg"]]) == [112]


def test_a_field_gets_another_name(path):
    ds = tarn.open(path, fields=["label=cls", "name=_key"])
    assert ds[3] == {"__key__": "k3", "label": 3, "name": "k3"}
    assert ds.integers("label").tolist() == list(range(9))
    [batch] = ds.loader(9)
    assert batch["label"].tolist() == list(range(9)) and batch["name"] == ds.keys()


def test_alternatives_of_different_types_are_decoded_each_by_its_own_name(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.txt", b"one"), ("b.json", b'{"n": 2}'),
                                   ("c.json.gz", gzip.compress(b"[3]"))])
    ds = tarn.open(tmp_path / "x.tar", fields=["note=txt;json;json.gz"])
    expected = ["one", {"n": 2}, [3]]
    assert [sample["note"] for sample in ds] == expected
    assert [batch["note"] for batch in ds.loader(3)] == [expected]
    both = tarn.mix(ds, ds[:1])
    assert sorted(map(str, (sample["note"] for sample in both))) == sorted(map(str, [*expected, "one"]))
    assert sorted(map(str, next(iter(both.loader(4)))["note"])) == sorted(map(str, [*expected, "one"]))


def test_a_batch_of_numbers_arrays_and_other_values_has_each_as_its_name_says(tmp_path):
    array = io.BytesIO()
    np.save(array, np.arange(2, dtype="u1"))
    write_tar(tmp_path / "x.tar", [("a.cls", b"7"), ("b.txt", b"two"), ("c.json", b'{"n": 2}'),
                                   ("d.bin", b"raw"), ("e.npy", array.getvalue()), ("f.txt", b"")])
    ds = tarn.open(tmp_path / "x.tar", fields=["value=cls;txt;json;bin;npy"])
    for source, step in ((ds, 1), (tarn.mix(ds, ds), 2)):
        [batch] = source.loader(12)
        number, text, parsed, raw, row, empty = batch["value"][::step]
        assert (number, text, parsed, raw, empty) == (7, "two", {"n": 2}, b"raw", "")
        assert row.tolist() == [0, 1] and row.dtype == "u1"


def test_arrays_and_columns_take_the_first_that_the_file_has(tmp_path):
    out = tarn.gnz.GnzWriter(tmp_path / "x.gnz")
    out.add_array("b", np.arange(3))
    out.add_array("c", np.arange(3) + 10)
    out.write()
    ds = tarn.open(tmp_path / "x.gnz", fields=["a;b;c", "d=c"])
    assert [(sample["a"], sample["d"]) for sample in ds] == [(0, 10), (1, 11), (2, 12)]
    with tarn.iac.create(tmp_path / "y.iac", {"age": [0, 1, 2]}) as pack:
        for _ in range(3):
            pack.add(b"x")
    ds = tarn.open(tmp_path / "y.iac", fields=["years=alter;age"])
    assert [sample["years"] for sample in ds] == [0, 1, 2]
    assert next(iter(ds.loader(3)))["years"].tolist() == [0, 1, 2]


def test_sources_of_a_mix_may_have_different_alternatives(stores):
    png = quietly(stores["iac"], ["png", "cls"])
    both = quietly(stores["fold"], ["photo=jpg;webp", "cls"])
    for mixed in (tarn.mix(png, both, fields=["img=png;photo", "cls"]),
                  tarn.mix(quietly(stores["iac"], ["img=png", "cls"]),
                           quietly(stores["fold"], ["img=jpg;webp", "cls"]))):
        seen = {(sample["cls"], int(sample["img"][0, 0, 0])) for sample in mixed}
        assert seen == {*((i, 16 * i) for i in range(7)), (7, 240), (7, 112)}
        [batch] = mixed.loader(len(mixed))
        assert greys(batch["img"]) == [int(sample["img"][0, 0, 0]) for sample in mixed]
    with pytest.raises(tarn.KeyNotFoundError, match="source 0 of the mix has no field jpg;photo"):
        tarn.mix(png, both, fields=["jpg;photo"])
    with pytest.raises(tarn.UsageError, match='mix: "img=png": the sources have their own functions'):
        tarn.mix(png.map(dict), png, fields=["img=png"])


def test_states_and_pickles_keep_the_alternatives(path):
    ds = quietly(path, ["img=jpg;png;webp"]).shuffle(3)
    samples = iter(ds)
    first = next(samples)["__key__"]
    again = quietly(path, ["img=jpg;png;webp"]).shuffle(3)
    again.load_state_dict(ds.state_dict())
    assert sorted([first, *again.keys()]) == [f"k{i}" for i in range(8)]
    with pytest.raises(tarn.StaleError):
        quietly(path, ["img=jpg;png"]).shuffle(3).load_state_dict(ds.state_dict())
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.keys() == ds.keys() and greys([copy["k2"]["img"]]) == [32]


def test_views_select_fields_with_alternatives(tmp_path):
    write_tar(tmp_path / "x.tar", [("s.a.jpg", image("jpg", 16)), ("s.b.png", image("png", 32))])
    ds = tarn.open(tmp_path / "x.tar", fields=["a.img=a.jpg;a.png", "b.img=b.jpg;b.png"])
    views = ds.group("{0}.img", "{1}.img")
    assert sorted(greys([views[0]["{0}.img"], views[0]["{1}.img"]])) == [16, 32]
    [batch] = views.loader(1)
    assert sorted(greys([batch["{0}.img"][0], batch["{1}.img"][0]])) == [16, 32]


@pytest.mark.parametrize("fields, reason", [
    (["jpg;;png"], 'the field "jpg;;png" has an empty name'),
    (["=jpg"], 'the field "=jpg" has an empty name'),
    (["img="], 'the field "img=" has an empty name'),
    (["jpg;png;jpg"], 'the field "jpg;png;jpg" lists a name twice'),
    (["a=jpg=png"], 'the field "a=jpg=png" has a second ='),
    (["jpg;a=png"], 'the field "jpg;a=png" has a second ='),
    (["_x=jpg"], "a name that begins with _"),
    (["cls;_key"], "an alternative that every sample has"),
    (["jpg;png", "jpg"], "two different fields have the name jpg"),
    (["img=jpg", "img=png"], "two different fields have the name img"),
    (["gif;bmp"], "none of the fields gif;bmp; the fields are"),
])
def test_a_list_that_is_not_one_is_an_error_that_quotes_it(path, fields, reason):
    with pytest.raises((tarn.UsageError, tarn.KeyNotFoundError)) as caught:
        tarn.open(path, fields=fields)
    assert reason in str(caught.value)


def test_a_field_whose_name_has_a_semicolon_or_an_equals_sign_is_read_by_it(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.w=3;h=2.txt", b"six")])
    assert tarn.open(tmp_path / "x.tar", fields=["w=3;h=2.txt"])[0]["w=3;h=2.txt"] == "six"


def test_one_decoder_serves_all_alternatives_or_is_refused(path):
    assert quietly(path, ["jpg;png"], decoders={"jpg": len})[1]["jpg"] == len(image("png", 16))
    assert quietly(path, ["img=jpg;png"], decoders={"jpg": len, "png": len})[0]["img"] > 0
    with pytest.raises(tarn.UsageError, match="img is read from jpg or png"):
        quietly(path, ["img=jpg;png"], decoders={"png": len})
    assert quietly(path, ["photo=jpg;png"], images="pil")[1]["photo"].size == (16, 8)


def test_a_sample_that_has_its_alternative_twice_is_ambiguous(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.png", b"1"), ("a.jpg", b"2"), ("a.jpg", b"3"), ("b.png", b"4")])
    with pytest.raises(tarn.AmbiguousError, match="field jpg twice"):
        tarn.open(tmp_path / "x.tar", fields=["jpg;png"])
    ds = tarn.open(tmp_path / "x.tar", fields=["jpg;png"], drop_ambiguous=True)
    assert ds.keys() == ["b"] and ds.info["dropped"] == 1 and ds.info["left_out"] == 0
    assert tarn.open(tmp_path / "x.tar", fields=["png;jpg"]).keys() == ["a", "b"]


# --- Samples that are left out ---------------------------------------------------------------


def test_samples_without_a_listed_field_are_counted_and_a_warning_says_so(path):
    with pytest.warns(UserWarning) as caught:
        ds = tarn.open(path, fields=["jpg", "cls"])
    assert len(caught) == 1 and caught[0].filename == __file__
    assert str(caught[0].message) == (
        '6 of 9 samples have no field "jpg" and are left out; to take the first of several fields, '
        'write fields=["jpg;png;webp"]')
    assert ds.info["left_out"] == ds[:1].shuffle().info["left_out"] == 6
    assert ds.info["lacking"] == {"jpg": 6}
    with pytest.warns(UserWarning, match='9 of 9 samples are left out: 6 have no field "jpg", '
                                         '7 have no field "webp"'):
        assert tarn.open(path, fields=["jpg", "webp"]).info["lacking"] == {"jpg": 6, "webp": 7}
    with pytest.warns(UserWarning, match=r'write fields=\["img=jpg;png;webp"\]'):
        tarn.open(path, fields=["img=jpg"])


def test_nothing_is_said_if_nothing_is_left_out(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = tarn.open(path, fields=["cls"])
        assert ds.info["left_out"] == 0 and ds.info["lacking"] == {}
        tarn.open(path)
        pickle.loads(pickle.dumps(quietly(path, ["jpg"])))


# --- Filters by field ------------------------------------------------------------------------


def test_filters_by_field_know_alternatives_and_names(path):
    ds = tarn.open(path)
    assert len(ds.filter(having=["jpg;png"])) == 6 and len(ds.filter(lacking=["jpg;png"])) == 3
    named = quietly(path, ["img=jpg;png"])
    assert named.filter(having=["img"]).keys() == named.keys()
    assert len(named.filter(having=["png"])) == 4
    large = len(image("jpg", 0))
    sizes = named.sizes("img")
    assert named.filter(size={"img": (large, None)}).keys() == named[sizes >= large].keys()


# --- Filters ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kinds(stores, tmp_path_factory):
    """Datasets of every kind with the keys k0, k1, ... or 0, 1, ... and a number cls."""
    folder = tmp_path_factory.mktemp("kinds")
    out = tarn.gnz.GnzWriter(folder / "x.gnz")
    out.add_array("cls", np.arange(9))
    out.write()
    with tarn.iac.create(folder / "y.iac", {"cls": list(range(9))}) as pack:
        for _ in range(9):
            pack.add(b"x")
    made = {name: tarn.open(path) for name, path in stores.items()}
    made |= {"gnz": tarn.open(folder / "x.gnz"), "records": tarn.open(folder / "y.iac")}
    return made | {"mix": tarn.mix(made["fold"], made["tar"].shuffle(2))}


KINDS = ["fold", "tar", "iac", "gnz", "records", "mix"]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_with_some_keys_are_left_out(kinds, kind):
    ds = kinds[kind]
    first, last = ds.keys([0])[0], ds.keys([len(ds) - 1])[0]
    left = [key for key in ds.keys() if key not in (first, last)]
    assert ds.filter(without=[first, last]).keys() == left
    assert ds.shuffle(3).filter(without=[first, last]).keys() == (
        ds.filter(without=[first, last]).shuffle(3).keys())
    assert ds[[3, 0, 3]].filter(without=ds.keys([0])).keys() == ds[[3, 3]].filter(
        lambda sample: sample["__key__"] != first).keys()
    assert ds.filter(without=[]).keys() == ds.keys()
    with pytest.raises(tarn.KeyNotFoundError, match="1 of 2 keys are not in the dataset: emu"):
        ds.filter(without=[first, "emu"])
    assert ds.filter(without=[first, "emu"], missing="ignore").keys() == (
        ds.filter(without=[first]).keys())


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_gets_what_the_dataset_returns(kinds, kind):
    ds = kinds[kind]
    expected = [bool(sample["cls"] % 3 == 0 and "cls" in sample) for sample in ds]
    assert ds.filter(lambda sample: sample["cls"] % 3 == 0 and "cls" in sample).keys() == (
        ds[expected].keys())
    for chosen in (ds, ds.shuffle(3), ds[::-1], ds.shuffle(3).shard(1, 2), ds.shuffle(3)[2:]):
        seen = []
        chosen.filter(lambda sample: seen.append(str(dict(sample))))
        assert sorted(seen) == sorted(map(str, chosen))
        last = chosen.keys()[-1]
        assert chosen.filter(lambda sample: sample["__key__"] == last).keys()[-1] == last


def counted(tmp_path):
    """Returns a dataset whose field n is counted when it is decoded, and the counts."""
    write_tar(tmp_path / "x.tar", [("a.txt", b"one"), ("a.n", b"1"), ("b.n", b"22")])
    calls = []

    def decode(data):
        calls.append(data)
        return len(data)

    return tarn.open(tmp_path / "x.tar", decoders={"n": decode}), calls


@pytest.mark.parametrize("predicate, calls", [
    (lambda s: s["__key__"] == "a", 0),
    (lambda s: "n" in s and "gone" not in s and list(s) and len(s) > 1 and s.keys() >= {"n"}, 0),
    (lambda s: s.get("txt") is None and s.get("gone", 5) == 5, 0),
    (lambda s: s["n"] + s["n"] > 0, 2),
    (lambda s: s.get("n", 0) > 1, 2),
    (lambda s: sorted(s.items())[1] == ("n", s["n"]), 2),
    (lambda s: dict(s, x=1)["n"] == {**s}["n"] == (s | {})["n"] == s.copy()["n"], 2),
    (lambda s: pickle.loads(pickle.dumps(s)) == s and s == {**s} and not s != s, 2),
    (lambda s: s.pop("n") and "n" not in s and len(s) == len(list(s)), 2),
    (lambda s: isinstance(s, dict) and repr(s).startswith("{'__key__': ") and list(s.values()), 2),
    (lambda s: s.setdefault("n", 7) < 3 and s.setdefault("new", 7) == 7 == s["new"], 2),
])
def test_a_function_decodes_only_what_it_uses(tmp_path, predicate, calls):
    ds, made = counted(tmp_path)
    expected = ds[[bool(predicate(sample)) for sample in ds]].keys()
    assert len(made) == 2
    made.clear()
    assert ds.filter(predicate).keys() == expected
    assert len(made) == calls


def test_a_function_that_asks_for_a_missing_field_gets_a_key_error(tmp_path):
    ds, _ = counted(tmp_path)
    with pytest.raises(KeyError, match="txt"):
        ds.filter(lambda sample: sample["txt"])
    with pytest.raises(KeyError, match="gone"):
        ds.filter(lambda sample: sample["gone"])


def test_a_function_after_map_gets_what_map_returns(tmp_path):
    ds, _ = counted(tmp_path)
    assert ds.map(n=lambda n: n * 10).filter(lambda sample: sample["n"] > 10).keys() == ["b"]
    assert ds.map(lambda sample: sample["n"]).filter(lambda n: n == 1).keys() == ["a"]


def test_a_damaged_field_matters_only_to_a_function_that_uses_it(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.jpg", b"no image"), ("a.cls", b"1")])
    ds = tarn.open(tmp_path / "x.tar")
    assert len(ds.filter(lambda sample: sample["cls"] == 1)) == 1
    with pytest.raises(tarn.Error, match="sample a: field jpg"):
        ds.filter(lambda sample: sample["jpg"] is not None)


def test_a_column_of_text_has_no_range_and_a_column_of_integers_no_text(tmp_path):
    columns = {"dose": ["0.5", "1"], "age": [47, 80], "weight": [1, None]}
    with tarn.iac.create(tmp_path / "y.iac", columns) as pack:
        pack.add(b"x")
        pack.add(b"y")
    ds = tarn.open(tmp_path / "y.iac")
    assert ds.filter(between={"weight": (1, 2)}).keys() == ["0"]
    assert ds.filter(column={"age": 80, "dose": "1"}).keys() == ["1"]
    for given, reason in [
            ({"between": {"dose": (0.5, 1)}}, "column dose cannot be compared with numbers: its type is "
                                              'string (record 0 is "0.5")'),
            ({"between": {"age": (2, 1)}}, "between: the range from 2 to 1 is empty (age)"),
            ({"between": {"age": (float("nan"), 1)}}, "between: the range from nan to 1 is empty (age)"),
            ({"column": {"age": "HE"}}, "column age is a column of integers (int64), so it cannot have "
                                        "the value HE; give an integer"),
            ({"column": {"age": [47, 80.5]}}, "the value 80.5; give an integer"),
            ({"column": {"dose": 1}}, "column dose is text (string), so it cannot have the value 1; give "
                                      "the value as text")]:
        with pytest.raises(tarn.UsageError) as caught:
            ds.filter(**given)
        assert reason in str(caught.value)


def test_a_number_that_is_null_leaves_a_hole_in_its_batch(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"file": "x.jsonl", "age": 3}\n{"file": "x.jsonl", "dose": 0.5}\n')
    tarn.pack(tmp_path / "x.jsonl", tmp_path / "x.iac")
    for field, number, key in (("age", 3, "1"), ("dose", 0.5, "0")):
        ds = tarn.open(tmp_path / "x.iac", fields=[field])
        with pytest.raises(tarn.FormatError, match=f"field {field}: the column is null, expected a number"):
            list(ds.loader(2))
        loader = ds.loader(2, on_error="skip")
        assert [batch[field].tolist() for batch in loader] == [[number]]
        assert [skipped.key for skipped in loader.skipped()] == [key]
        [batch] = ds.filter(between={field: (float("-inf"), float("inf"))}).loader(2)
        assert batch[field].tolist() == [number]
