"""Runs the webdataset package's own test suite, with the package itself or with tarn.wds in its place,
and returns the outcome of each test.

The suite is not part of this repository. It is looked for in $WEBDATASET_SUITE, a folder with `tests`
and `testdata` of webdataset 1.0.2, and in `shared/peers/webdataset-1.0.2`.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The tests import webdataset and its submodules; all of them become modules of tarn.wds.
SWAP = '''
import importlib, pkgutil, sys
import tarn.wds
sys.modules["webdataset"] = tarn.wds
for found in pkgutil.iter_modules(tarn.wds.__path__):
    sys.modules["webdataset." + found.name] = importlib.import_module("tarn.wds." + found.name)
'''

RECORD = '''
import json, os, signal
import pytest

outcomes = {}

def late(number, frame):
    raise TimeoutError("this test takes too long")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        return (yield)
    finally:
        signal.alarm(0)

def pytest_runtest_logreport(report):
    name = report.nodeid.split("::", 1)
    name = name[0].rpartition("/")[2] + "::" + name[1]
    if report.failed:
        outcomes[name] = "failed: " + str(report.longrepr)[-600:]
    elif report.when == "call" or report.skipped:
        outcomes.setdefault(name, report.outcome)

def pytest_collectreport(report):
    if report.failed:
        outcomes[report.nodeid.rpartition("/")[2]] = "failed: " + str(report.longrepr)[-600:]

def pytest_sessionfinish():
    with open(os.environ["OUTCOMES"], "w") as out:
        json.dump(outcomes, out)
'''


def suite():
    """The folder of the suite, or None."""
    for place in (os.environ.get("WEBDATASET_SUITE"), ROOT / "shared/peers/webdataset-1.0.2"):
        if place and (pathlib.Path(place) / "tests/test_pipeline.py").is_file():
            return pathlib.Path(place)
    return None


def outcomes(folder, swap, **environment):
    """Runs the suite in a copy under `folder`; returns {test: outcome}. Nothing leaves the machine:
    `curl` fails at once, and other requests go to a proxy that does not exist."""
    shutil.copytree(suite(), folder, copy_function=shutil.copyfile)
    for part in folder.rglob("*"):
        part.chmod(0o755)
    conftest = folder / "tests/conftest.py"
    conftest.write_text((SWAP if swap else "") + conftest.read_text() + RECORD)
    (folder / "bin").mkdir()
    (folder / "bin/curl").write_text("#!/bin/sh\nexit 7\n")
    (folder / "bin/curl").chmod(0o755)
    result = folder / "outcomes.json"
    nowhere = "http://127.0.0.1:9"
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(("WDS_", "TARN_ALLOW_"))},
           "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OUTCOMES": str(result),
           "http_proxy": nowhere, "https_proxy": nowhere, "PYTHONDONTWRITEBYTECODE": "1",
           "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                    "--continue-on-collection-errors", "tests"],
                   cwd=folder, env=env, capture_output=True, check=False, timeout=500)
    return json.loads(result.read_text())
