#!/usr/bin/env python3
"""iatro-base-iac's own tests, of 0.0.2 and 0.1.4: with the real package, and with `iatro.iac` replaced by
`tarn.iac` in their text. What passes with the real one must pass with ours, except for the tests in a list."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import peer

peer.needs("imagecodecs", "PIL", "tqdm", "brotli", "pyarrow", "pytest")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = pathlib.Path(sys.prefix) / "iac"  # scripts/setup.sh puts them there
CACHE = "counts how often _core._NativePackReader opens a file; tarn has no such class and caches nothing"
NATIVE = "uses the private class _core._NativePackReader"

SUITES = [
    ("0.0.2", "iatro_base_iac-0.0.2", "", {}),
    ("0.1.4", "iatro_base_iac-0.1.4", "", {
        **dict.fromkeys(("test_repeated_header_reads_are_transparently_cached",
                         "test_cached_header_defers_native_open_until_payload_access",
                         "test_atomic_replacement_invalidates_cached_header",
                         "test_disabling_cache_reopens_each_header",
                         "test_entry_bound_evicts_least_recent_header",
                         "test_byte_bound_can_decline_oversized_header",
                         "test_clear_caches_discards_entries_without_changing_configuration",
                         "test_concurrent_reads_coalesce_first_header_load"), CACHE),
        **dict.fromkeys(("test_native_header_and_owned_batch_match_python",
                         "test_native_data_relative_batch_preserves_order_and_duplicates",
                         "test_native_fixed_row_batch_validates_addressing",
                         "test_native_rejects_layout_overflow",
                         "test_native_read_close_race_is_memory_safe"), NATIVE),
        "test_native_variable_rows_contiguous_preserves_boundaries": "uses a private method of PackReader",
        "test_concurrent_no_mmap_fallback": "Python's mmap cannot fail where the library maps the file",
        "test_progressive_jpeg_and_near_lossless_jpegls_contracts": "progressive JPEG cannot be written",
        "test_core_public_exports_are_stable": "tarn.iac has the names of 0.0.2, too",
        "test_core_public_class_topology_is_flat": "PackReader derives from a class of the extension"}),
    ("0.1.4", "iatro_iac_adapters-0.1.4", "test_clinical_text.py test_clinical_text_pair.py test_pathology_batches.py", {
        "test_pack_preserves_caller_order_and_episode_metadata": 'needs style="0.1"'}),
]


def real_packages(version):
    [folder] = (ROOT / (".venv-iac1" if version == "0.0.2" else ".venv-iac2")).glob("lib/python3*/site-packages")
    return str(folder)


def swapped(source):
    """The text of a test for tarn. The private module of a codec's class is not compared."""
    source = re.sub(r'assert type\((\w+)\).__module__ == "iatro.iac._native"', r"assert \1.name", source)
    source = source.replace("from iatro import iac", "from tarn import iac")
    return source.replace("iatro.iac", "tarn.iac")


def outcomes(tests, chosen, path):
    """{name of a test with its parameters: whether it passed}"""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider", f"--basetemp={folder}/t",
             *(tests / name for name in chosen.split() or ["."])], cwd=tests, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": path}, timeout=300)
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", run.stdout, re.M)
    assert found and not [name for kind, name in found if kind == "ERROR"], run.stdout[-3000:] + run.stderr
    return {name.split("::", 1)[1]: kind == "PASSED" for kind, name in found}


def compare(version, name, chosen, allowed):
    with tempfile.TemporaryDirectory() as folder:
        ours = pathlib.Path(folder) / "tests"
        shutil.copytree(SOURCES / name / "tests", ours)
        for file in ours.glob("*.py"):
            file.write_text(swapped(file.read_text("utf-8")), "utf-8")
        real = outcomes(SOURCES / name / "tests", chosen, real_packages(version))
        tarn = outcomes(ours, chosen, os.environ["PYTHONPATH"])
    lost = {test for test, passed in real.items() if passed and not tarn.get(test)}
    print(f"# {name}: {sum(real.values())} of {len(real)} pass with the real package, {sum(tarn.values())} with tarn")
    assert lost == set(allowed), f"unexpected: {lost - set(allowed)}; listed, but passed: {set(allowed) - lost}"


def main():
    if not SOURCES.is_dir():
        print("1..1\nok 1 - all # SKIP the packages' sources are not installed")
        return 0
    failed = 0
    print(f"1..{len(SUITES)}")
    for number, suite in enumerate(SUITES, 1):
        try:
            compare(*suite)
            print(f"ok {number} - {suite[1]}", flush=True)
        except Exception as failure:  # noqa: BLE001
            failed = 1
            print(f"not ok {number} - {suite[1]}\n{type(failure).__name__}: {failure}", flush=True)
    return failed


sys.exit(main())
