"""The examples in the documentation of the original packages, with only the imports changed, and
the examples of the modules below tarn.iac (test_docs.py has the others)."""
import doctest
import importlib
import os
import re

import pytest

@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- From the README of iatro-base-iac 0.0.2 -------------------------------------------------

# (imported module, names)
NAMESPACES = """
# 1. Primary Namespace (Recommended)
from iatro import iac
from iatro.iac import build_pack, PackReader
"""

QUICK_START = """
import pyarrow as pa
from iatro.iac import build_pack, PackReader

# 1. Define metadata tables
slide_table = pa.table({
    "slide_idx": pa.array([0], pa.uint8()),
    "slide_id": ["s0"], 
    "patient_id": ["p0"]
})

# Offset, length, and crc32 columns are populated automatically
index_table = pa.table({
    "item_id": ["item_a", "item_b"]
})

# 2. Build the cache file
build_pack(
    filepath="out.iac",
    header={"payload_type": "raw_bytes", "codec": "none"},
    slide_table=slide_table,
    index_table=index_table,
    payloads=[b"first_payload_data", b"second_payload_data"]
)

# 3. Read payloads concurrently
reader = PackReader("out.iac")
print(reader.read_payload(1))  # Output: b"second_payload_data"
reader.close()
"""

TEXT_PAIRS = """
from iatro.iac.adapters.text_pair import (
    ClinicalTextPairDoc,
    ClinicalTextPairReader,
    PatientTextPairs,
    build_clinical_text_pair_pack,
)

patients = [
    PatientTextPairs(
        patient_id="Patient_00000001",
        institution="XJ",
        docs=[
            ClinicalTextPairDoc(
                doc_id="Patient_00000001/2024-01-01/入院记录_20240101000000",
                source="XJ/Patient_00000001/2024-01-01/入院记录_20240101000000.txt",
                source_text="原始文书正文",
                compressed_text="教师压缩正文",
                doc_type="入院记录",
                encounter="2024-01-01",
            )
        ],
    )
]
build_clinical_text_pair_pack("pairs.iac", patients)

# Read it back
reader = ClinicalTextPairReader("pairs.iac")
patient_data = reader.read_patient("Patient_00000001")
doc = patient_data.docs[0]
assert doc.source_text == "原始文书正文"
reader.close()
"""


def run_example(text):
    """Changes the import lines of an example, runs it, and returns its names."""
    changed = re.sub(r"^from iatro(\S*) import", r"from tarn\1 import", text, flags=re.M)
    names = {}
    exec(compile(changed, "example", "exec"), names)
    return names


def test_namespaces():
    names = run_example(NAMESPACES)
    assert names["iac"].build_pack is names["build_pack"]


def test_quick_start(capfd):
    run_example(QUICK_START)
    assert capfd.readouterr().out == "b'second_payload_data'\n"
    assert os.listdir() == ["out.iac"]


def test_text_pairs():
    names = run_example(TEXT_PAIRS)
    assert names["doc"].compressed_text == "教师压缩正文"


# The docstrings of the original gnz package have an Examples heading with nothing below it. This
# is what they describe, as code:
ARRAYS = """
import pathlib
import numpy as np
from tarn.gnz import GnzReader, GnzWriter

writer = GnzWriter(pathlib.Path("out.gnz"), overwrite=False)
writer.metadata["source"] = "x"
writer.add_array("ids", np.arange(4), dtype=np.uint16)
writer.init_streaming_array("geno", (4, 3), "int8")
writer.write()
block = writer.get_array_writable("geno")
block[0:2] = 1
block.flush()

reader = GnzReader("out.gnz")
assert reader.keys() == ["geno", "ids"]
assert reader.metadata == {"source": "x"}
assert reader.get_array("geno", mode="c").sum() == 6
assert reader.get_array("ids").dtype == np.uint16
"""


def test_arrays_as_the_docstrings_describe():
    run_example(ARRAYS)


# --- Examples of tarn ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["_read", "_write", "adapters.text_pair", "codecs", "packs"])
def test_docstrings_of_the_modules_of_iac(name):
    module = importlib.import_module(f"tarn.iac.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 0
