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
FLOATS = "the encoder of libjxl before 0.10 (Debian 12) cannot store 32-bit floats without loss"


def writes_floats():
    """Whether the libjxl of this system stores 32-bit floats without loss."""
    import numpy as np
    import tarn.iac
    try:
        tarn.iac.JxlCodec(lossless=True).encode(np.zeros((2, 2), "f4"))
    except tarn.UnsupportedError:
        return False
    return True


SUITES = [
    ("0.0.2", "iatro_base_iac-0.0.2", "", {}),
    ("0.1.4", "iatro_base_iac-0.1.4", "", {
        **({} if writes_floats() else dict.fromkeys(
            (f"test_jxl_codec_is_native_and_preserves_float_samples[{n}-float32]" for n in (1, 2, 3, 4)), FLOATS)),
        "test_cached_header_defers_native_open_until_payload_access":
            "counts how often PackReader opens a _core._NativePackReader; tarn's opens the file itself",
        "test_concurrent_no_mmap_fallback": "Python's mmap cannot fail where the library maps the file",
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
