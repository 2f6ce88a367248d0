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
    (["jpg;png;jpg"], 'the field "jpg;png;jpg" has one name twice'),
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
