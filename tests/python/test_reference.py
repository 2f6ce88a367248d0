"""The generated reference pages have every name; there is only one version number."""
import re
import subprocess
import sys

import pytest
from conftest import ROOT, sanitized
from tool import tool

import tarn


@pytest.mark.skipif(sanitized(), reason="the names are the same, and torch is one of them")
def test_every_public_name_is_in_the_reference(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "scripts/pynames.py", tmp_path / "names.md"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    words = set(re.findall(r"\w+", (tmp_path / "names.md").read_text(encoding="utf-8")))
    assert not set(tarn.__all__) - words
    assert not {name for name in vars(tarn.Dataset) if not name.startswith("_")} - words


def test_everything_in_the_headers_has_a_heading(tmp_path):
    """Found in a different way than the script does it."""
    subprocess.run([sys.executable, ROOT / "scripts/apidoc.py", tmp_path], check=True)
    headers = "".join(path.read_text() for path in (ROOT / "include/tarn").glob("*.h"))
    code = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    names = set(re.findall(r"\b(tarn_\w+)\(", code)) | set(re.findall(r"^} (\w+);", code, re.M))
    names |= set(re.findall(r"#define (TARN_\w+)", code)) - {"TARN_API", "TARN_CHECKED", "TARN_INLINE"}
    headings = " ".join(line for page in tmp_path.glob("*.md")
                        for line in page.read_text().splitlines() if line.startswith("### "))
    missing = names - set(re.findall(r"`(\w+)`", headings))
    assert not {name for name in missing if not name.endswith("_H")}
    assert len(names) > 300


def test_versions_are_one():
    """meson.build has it; everything else derives from it."""
    stated = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text()).group(1)
    assert tarn.__version__ == stated
    assert tool("--version") == f"tarn {stated}\n"
    assert re.search(rf"^## {re.escape(stated)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
