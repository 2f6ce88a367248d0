#!/usr/bin/env python3
"""The loops of docs/guides/loops.md, run from the page: on one rank and on two, and again from the checkpoint
that the first run left in the middle of an epoch."""
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

PAGE = "docs/guides/loops.md"
PACKAGES = {"Plain PyTorch": "torch", "Lightning": "lightning", "Accelerate": "accelerate",
            "Trainer of transformers": "transformers", "JAX": "jax"}
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
BLOCKS = {}
for block in pages.blocks(PAGE):
    heading = re.findall(r"^## (.*)$", "\n".join(TEXT.splitlines()[:block.line]), re.M)[-1]
    assert block.language == "python" and PACKAGES.get(heading) not in BLOCKS, heading
    BLOCKS[PACKAGES[heading]] = block.body


def run(package, counts, told):
    """Runs the loop of a package twice for each number of ranks."""
    if importlib.util.find_spec(package) is None:
        raise unittest.SkipTest(f"{package} is not installed")
    setup = re.search(r"<!-- setup:\s*\n(.*?)-->", TEXT, re.S)[1]
    for count in counts:
        with peer.folder() as folder:
            env = {**pages.environment(pathlib.Path(folder)), "ROOT": str(ROOT)}
            subprocess.run(["bash", "-ec", setup], cwd=folder, env=env, check=True)
            script = pathlib.Path(folder) / "loop.py"
            script.write_text(BLOCKS[package])
            for _ in range(2):
                output = peer.started(count, str(script), cwd=folder, state=folder)
                assert re.search(told, output, re.M), output[-2000:]


def the_page_has_a_loop_for_each_package(_):
    assert set(BLOCKS) == set(PACKAGES.values()), set(BLOCKS)


def plain_torch(_):
    run("torch", (1, 2), r"accuracy [01]\.\d\d")


def lightning(_):
    run("lightning", (1, 2), r"tensor\([01]\.")


def accelerate(_):
    run("accelerate", (1, 2), r"accuracy [01]\.\d\d")


def transformers(_):
    run("transformers", (1, 2), r"^[01]\.\d+$")


def jax(_):
    run("jax", (1,), r"accuracy [01]\.\d+")


peer.run(the_page_has_a_loop_for_each_package, plain_torch, lightning, accelerate, transformers, jax)
