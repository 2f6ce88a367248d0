#!/usr/bin/env python3
"""webdataset's own test suite, with webdataset itself and with tarn.wds in its place: what passes with
the one passes with the other, except for what must be allowed first."""
import pathlib
import tempfile

import peer
import webdataset_suite

peer.needs("webdataset", "torch", "pytest", "imageio", "lmdb", "msgpack", "PIL")

# These run commands, or read a pickle, without saying so.
NOT_ALLOWED = {
    "test_compat.py::test_dataset_eof", "test_compat.py::test_dataset_eof_handler",
    "test_compat.py::test_dataset_pipe_cat", "test_gopen.py::test_pipe",
    "test_pipeline.py::test_dataset_eof", "test_pipeline.py::test_dataset_eof_handler",
    "test_security.py::TestEnforceSecurity::test_pipe_url_allowed_when_security_disabled",
    "test_writer.py::test_writer3", "test_writer.py::test_writer_pipe"}

if webdataset_suite.suite() is None:
    peer.skip("the suite is not here: WEBDATASET_SUITE names a folder with webdataset's tests and testdata")


def passed(name, swap, **environment):
    with tempfile.TemporaryDirectory() as folder:
        found = webdataset_suite.outcomes(pathlib.Path(folder) / name, swap, **environment)
    return {test for test, outcome in found.items() if outcome == "passed"}, found


def explain(tests, found):
    return "\n".join(f"{test}: {found.get(test, 'not collected')[-300:]}" for test in sorted(tests))


theirs, _ = passed("theirs", False)


def what_passes_with_webdataset_passes_when_all_is_allowed(_):
    ours, found = passed("ours", True, TARN_ALLOW_PIPE="1", TARN_ALLOW_PICKLE="1")
    assert len(theirs) > 160, len(theirs)
    print(f"# {len(theirs)} pass with webdataset, {len(theirs & ours)} of them with tarn")
    assert theirs <= ours, explain(theirs - ours, found)


def what_passes_with_webdataset_passes_except_for_commands_and_pickles(_):
    ours, found = passed("strict", True)
    print(f"# {len(theirs & ours)} of {len(theirs)} without the switches")
    assert theirs - ours == NOT_ALLOWED, explain((theirs - ours) ^ NOT_ALLOWED, found)


peer.run(what_passes_with_webdataset_passes_when_all_is_allowed,
         what_passes_with_webdataset_passes_except_for_commands_and_pickles)
