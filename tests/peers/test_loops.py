#!/usr/bin/env python3
"""The loops of docs/guides/loops.md, run from the page: on one rank and on two, and again from the checkpoint
that the first run left in the middle of an epoch. Those with worker processes also run with a start method
that imports the program again."""
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
WITH_WORKERS = {"lightning": r"tensor\([01]\.", "accelerate": r"accuracy [01]\.\d\d", "transformers": r"^[01]\.\d+$"}
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
BLOCKS = {}
for block in pages.blocks(PAGE):
    heading = re.findall(r"^## (.*)$", "\n".join(TEXT.splitlines()[:block.line]), re.M)[-1]
    assert block.language == "python" and PACKAGES.get(heading) not in BLOCKS, heading
    BLOCKS[PACKAGES[heading]] = block.body


def run(package, counts, told, first=""):
    """Runs the loop of a package twice for each number of ranks. first is put before it."""
    if importlib.util.find_spec(package) is None:
        raise unittest.SkipTest(f"{package} is not installed")
    setup = re.search(r"<!-- setup:\s*\n(.*?)-->", TEXT, re.S)[1]
    for count in counts:
        with peer.folder() as folder:
            env = {**pages.environment(pathlib.Path(folder)), "ROOT": str(ROOT)}
            subprocess.run(["bash", "-ec", setup], cwd=folder, env=env, check=True)
            script = pathlib.Path(folder) / "loop.py"
            script.write_text(first + BLOCKS[package])
            for _ in range(2):
                output = peer.started(count, str(script), cwd=folder, state=folder)
                assert re.search(told, output, re.M), output[-2000:]


def the_page_has_a_loop_for_each_package(_):
    assert set(BLOCKS) == set(PACKAGES.values()), set(BLOCKS)


def loops_of_trainers_show_workers_prefetch_and_pinned_memory(_):
    for package in WITH_WORKERS:
        for shown in ("rng)", "workers=2", "prefetch=4", "pin_memory"):
            assert shown in BLOCKS[package], (package, shown)


def plain_torch(_):
    run("torch", (1, 2), r"accuracy [01]\.\d\d")


def lightning(_):
    run("lightning", (1, 2), WITH_WORKERS["lightning"])


def accelerate(_):
    run("accelerate", (1, 2), WITH_WORKERS["accelerate"])


def transformers(_):
    run("transformers", (1, 2), WITH_WORKERS["transformers"])


def jax(_):
    run("jax", (1,), r"accuracy [01]\.\d+")


def workers_that_import_the_program_again(_):
    method = 'import multiprocessing\n\nmultiprocessing.set_start_method("forkserver", force=True)\n'
    for package, told in WITH_WORKERS.items():
        run(package, (1,), told, method)


peer.run(the_page_has_a_loop_for_each_package, loops_of_trainers_show_workers_prefetch_and_pinned_memory, plain_torch,
         lightning, accelerate, transformers, jax, workers_that_import_the_program_again)
