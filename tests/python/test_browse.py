"""`Dataset.browse`: a served page and a contact sheet of the same samples as the dataset. The server
itself is tested in tests/interop/test_browse.py."""
import gc
import json
import os
import subprocess
import sys
import urllib.request

import pytest

import tarn


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    where = tmp_path_factory.mktemp("browse") / "birds"
    with tarn.DatasetWriter(where) as out:
        for i in range(30):
            out.write({"__key__": f"k{i:02}", "cls": i % 3, "txt": f"<b>bird {i}"})
    return str(where)


def keys(page):
    """The keys that a served page shows."""
    with urllib.request.urlopen(page.url + "page?count=400") as answer:
        return [sample["key"] for sample in json.load(answer)["samples"]]


@pytest.mark.parametrize("choose", [
    lambda ds: ds, lambda ds: ds[5:9], lambda ds: ds.shuffle(3)[:7], lambda ds: ds.shuffle(3),
    lambda ds: ds.filter(lambda s: s["cls"] == 1), lambda ds: ds.shuffle(7).at(1, 4),
])
def test_a_page_shows_the_samples_of_the_dataset_in_its_order(path, choose):
    ds = choose(tarn.open(path))
    with ds.browse() as page:
        assert keys(page) == ds.keys()
        assert f'src="{page.url}"' in page._repr_html_()
    assert page._process.returncode == 0
    assert "closed" in repr(page)


def test_fields_and_mixes_are_passed_on(path):
    with tarn.open(path, fields=["name=txt"]).browse() as page, \
            urllib.request.urlopen(page.url + "info") as answer:
        assert [field["name"] for field in json.load(answer)["fields"]] == ["name"]
    both = tarn.mix(tarn.open(path), tarn.open(path), weights=[2, 1])
    with both.browse() as page:
        assert keys(page) == both.keys()


def test_problems_are_marked(path):
    ds = tarn.open(path)
    with ds.browse(problems=[("k03", "no\ngood"), ("k05", "")]) as page, \
            urllib.request.urlopen(page.url + "page?f=problems") as answer:
        found = [(s["key"], s["problem"]) for s in json.load(answer)["samples"]]
    assert found == [("k03", "no good"), ("k05", "")]


def test_skipped_samples_of_a_loader_are_problems(tmp_path):
    with tarn.DatasetWriter(tmp_path / "d") as out:
        for i in range(8):
            out.write({"__key__": f"k{i}", "cls": b"x" if i == 5 else str(i).encode()})
    ds = tarn.open(tmp_path / "d")
    loader = ds.loader(4, threads=0, epochs=1, on_error="skip")
    assert sum(len(batch["__key__"]) for batch in loader) == 7
    with ds.browse(problems=loader.skipped()) as page, \
            urllib.request.urlopen(page.url + "page?f=problems") as answer:
        sample, = json.load(answer)["samples"]
    assert sample["key"] == "k5" and sample["problem"]


def test_a_sheet_needs_no_server(path, tmp_path):
    sheet = tarn.open(path)[3:6].browse(serve=False)
    assert sheet.count("<figure>") == 3 and "&lt;b&gt;bird 4" in sheet and "<script" not in sheet
    assert "sandbox srcdoc=" in sheet._repr_html_() and "<figure>" not in sheet._repr_html_()
    sheet.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == sheet
    assert tarn.open(path).browse(serve=False, count=2).count("<figure>") == 2


def test_a_page_ends_with_its_object_and_with_the_process(path):
    page = tarn.open(path).browse()
    process = page._process
    del page
    gc.collect()
    assert process.returncode == 0
    done = subprocess.run([sys.executable, "-c", f"import tarn; p = tarn.open({path!r}).browse(); print(p._process.pid)"],
                          capture_output=True, text=True, check=True)
    assert not os.path.exists(f"/proc/{int(done.stdout)}")


def test_what_cannot_be_shown_is_an_error(path):
    ds = tarn.open(path)
    with pytest.raises(tarn.UsageError, match="mix"):
        tarn.mix(ds[:3], ds).browse()
    with pytest.raises(tarn.UsageError, match="count"):
        ds.browse(serve=False, count=0)


def test_glzns_browser_shows_the_page(path):
    from tarn.itar import iTarDataset

    data = os.environ["TARN_DATA"]
    shown = iTarDataset("01_basic", data, "train", ["jpg", "cls"]).browse(page_size=5)
    with shown.show() as page:
        assert keys(page) == shown._stems()
    assert shown.show(serve=False).count("<figure>") == 5
    from tarn.itar import Browser
    with pytest.raises(TypeError, match="iTarDataset"):
        Browser([]).show()
