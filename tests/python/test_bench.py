"""The benchmark programs work: runs every workload of bench/peers.py with a few hundred samples,
checks what was read, and checks the generated pages. Timings are not checked."""
import os
import pathlib
import sys
from xml.etree import ElementTree

import pytest
from conftest import sanitized

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))


@pytest.mark.skipif(sanitized(), reason="the tool and the interpreter have other runtimes of the sanitizer")
def test_selftest(capfd):
    import importlib.util
    spec = importlib.util.spec_from_file_location("bench_peers", ROOT / "bench/peers.py")
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    code = command.main(["--selftest", "--build", os.environ["TARN_BUILD"]])
    out = capfd.readouterr().out
    assert code == 0 and "not ok" not in out and "measurements and their pages" in out, out


def test_plots_are_xml_and_hold_what_they_were_given():
    from peers import svg
    bars = svg.bars("Reading <fast>", "rates", [("ours & more", 10.0, 8.0, 11.0, "10/s", True),
                                                ("theirs", 1.0, 1.0, 1.0, "1/s", False)])
    words = [node.text for node in ElementTree.fromstring(bars).iter() if node.text]
    assert {"Reading <fast>", "ours & more", "theirs", "10/s", "1/s"} <= set(words)
    widths = [float(n.get("width")) for n in ElementTree.fromstring(bars) if n.tag.endswith("rect")]
    assert abs(widths[0] / widths[1] - 10) < 0.1
    lines = svg.lines("Growth", "x", "samples", {"a": [(10, 1.0), (1000, 5.0)], "b": [(10, 0.1)]}, {"a": "red"}, str)
    assert len([n for n in ElementTree.fromstring(lines) if n.tag.endswith("circle")]) == 3


def test_labels_of_lines_keep_apart():
    from peers.svg import spread_out
    places = spread_out({"a": 100, "b": 101, "c": 102}, 16, 0, 110)
    assert sorted(places.values()) == [78, 94, 110]


def test_times_are_shown_with_three_digits():
    from measure import seconds
    times = {1234.5: "1234 s", 1.1736: "1.17 s", 0.3951: "395 ms", 1e-3: "1 ms", 10.0 ** -5: "10 µs", 6.54e-5: "65.4 µs", 3e-8: "30 ns"}
    assert {value: seconds(value) for value in times} == times


def test_pages_are_what_their_results_say(tmp_path):
    """Prevents manual edits of figures, and makes sure that text changes reach the pages."""
    import json

    import cloud
    import functions
    import scaling
    from peers import pages
    docs = ROOT / "docs/benchmarks"
    pages.write(json.loads((docs / "results.json").read_text()), tmp_path)
    scaling.write(json.loads((docs / "scaling.json").read_text()), tmp_path)
    cloud.page(json.loads((docs / "cloud.json").read_text()), tmp_path)
    functions.write(json.loads((docs / "functions.json").read_text()), tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    others = ("parts.md", "cloud.json")
    assert made == sorted(path.name for path in docs.iterdir() if path.name not in others)
    for name in made:
        assert (tmp_path / name).read_text() == (docs / name).read_text(), name
