#!/usr/bin/env python3
"""The examples of docs/guides/transforms.md that need large packages, run from the page."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

import peer

import tarn

os.environ.setdefault("TARN_BUILD", str(pathlib.Path(tarn.__file__).resolve().parents[2]))
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/docs"))

import pages  # noqa: E402

PAGE = "docs/guides/transforms.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
NEEDED = {"albumentations": ["albumentations", "cv2"], "Tokenizers": ["tokenizers"], "Videos with PyAV": ["av"],
          "Audio with soundfile": ["soundfile"]}


def heading(block):
    found = re.findall(r"^#+ (.*)$", "\n".join(TEXT.splitlines()[:block.line]), re.M)
    return found[-1]


BLOCKS = {heading(block): block for block in pages.blocks(PAGE)}
FIRST = next(pages.blocks(PAGE)).body


def run(name):
    for package in NEEDED[name]:
        if importlib.util.find_spec(package) is None:
            raise unittest.SkipTest(f"{package} is not installed")
    with peer.folder() as folder:
        env = {**pages.environment(pathlib.Path(folder)), "ROOT": str(ROOT)}
        setup = re.search(r"<!-- setup:\s*\n(.*?)-->", TEXT, re.S)[1]
        subprocess.run(["bash", "-ec", setup], cwd=folder, env=env, check=True)
        script = pathlib.Path(folder) / "example.py"
        script.write_text(FIRST + "import io\n" + BLOCKS[name].body)
        peer.started(1, str(script), cwd=folder)


def every_example_that_needs_a_package_is_here(_):
    assert {name for name, block in BLOCKS.items() if block.not_run} == {*NEEDED, "torchvision"}


def albumentations(_):
    run("albumentations")


def tokenizers(_):
    run("Tokenizers")


def pyav(_):
    run("Videos with PyAV")


def soundfile(_):
    run("Audio with soundfile")


peer.run(every_example_that_needs_a_package_is_here, albumentations, tokenizers, pyav, soundfile)
