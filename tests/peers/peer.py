"""What the suites of large packages share: a data set, TAP lines, and skipping what is not installed."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import pkgutil
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

COUNT = 64
KEYS = [f"s{i:03}" for i in range(COUNT)]


def skip(why):
    """Ends a suite that cannot run."""
    print(f"1..1\nok 1 - all # SKIP {why}")
    sys.exit(0)


def needs(*packages):
    """Imports packages; without one of them the suite is skipped, and says which."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as failure:
            skip(f"{package} is not installed ({failure})")


@contextlib.contextmanager
def dataset_folder():
    """A folder with one fold of 64 samples: cls is the number modulo 4, npy four floats, json the number."""
    import numpy as np
    import tarn
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "data"
        folder.mkdir()
        for shard in range(2):
            with tarfile.open(folder / f"train_{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as out:
                for i in range(shard * COUNT // 2, (shard + 1) * COUNT // 2):
                    array = io.BytesIO()
                    np.save(array, np.full(4, i, "f4"))
                    for field, data in (("cls", str(i % 4).encode()), ("npy", array.getvalue()),
                                        ("json", json.dumps({"n": i}).encode())):
                        info = tarfile.TarInfo(f"s{i:03}.{field}")
                        info.size = len(data)
                        out.addfile(info, io.BytesIO(data))
        assert tarn._tarn.main(["tarn", "index", "-q", str(folder)]) == 0
        yield str(folder)


# --- Programs that import webdataset ---


def imported(program, webdataset, bare=()):
    """A new copy of a program's module that finds this package, tarn.wds or webdataset itself, under the name
    webdataset. The packages in `bare` do not run their __init__, which would import other large packages."""
    for package in bare:
        spec = importlib.util.find_spec(package) or skip(f"{package} is not installed")
        sys.modules.setdefault(package, importlib.util.module_from_spec(spec))
    alias = {}
    if webdataset.__name__ != "webdataset":
        alias = {"webdataset." + found.name: importlib.import_module(f"{webdataset.__name__}.{found.name}")
                 for found in pkgutil.iter_modules(webdataset.__path__)}
        alias["webdataset"] = webdataset
    before = {name: sys.modules[name] for name in alias if name in sys.modules}
    sys.modules.update(alias)
    try:
        return importlib.import_module(program)
    finally:
        for name in (*alias, program):
            sys.modules.pop(name, None)
        sys.modules.update(before)


# --- Several processes ---


def folder():
    return tempfile.TemporaryDirectory()


def write(out, rank, seen):
    """Called by one rank of a test: writes what it saw."""
    (pathlib.Path(out) / f"rank{rank}.json").write_text(json.dumps(seen))


def started(count, script, *arguments, cwd=None, state=None):
    """Runs a script in processes of torchrun, or alone; returns what it printed. `state` is the folder in which
    it keeps checkpoints."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    env = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    with folder() as before:
        if state:
            shutil.copytree(state, before, dirs_exist_ok=True)
        for _ in range(3):
            done = subprocess.run([sys.executable, *launch, script, *arguments], env=env, cwd=cwd, text=True,
                                  timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            # torch 2.13 with gloo sometimes aborts when a process exits, also without tarn. It may have written
            # checkpoints; the next attempt must begin where this one began.
            if done.returncode == 0 or "terminate called without an active exception" not in done.stdout:
                break
            if state:
                shutil.rmtree(state)
                shutil.copytree(before, state)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def ranks(count, script, data, *arguments, out=None):
    """What each rank wrote, if a script runs in that many processes."""
    with folder() as own:
        started(count, script, data, out or own, *arguments, state=out or own)
        return [json.loads(path.read_text()) for path in sorted(pathlib.Path(out or own).glob("rank*.json"))]


def joined(seen):
    """What all ranks saw, sorted, by name."""
    return {name: sorted(key for rank in seen for key in rank.get(name, ()))
            for name in {name: None for rank in seen for name in rank}}


def run(*tests):
    """Runs functions that take the folder; a failed assertion is a failed test."""
    failed = 0
    print(f"1..{len(tests)}")
    with dataset_folder() as folder:
        for number, test in enumerate(tests, 1):
            try:
                test(folder)
                print(f"ok {number} - {test.__name__}", flush=True)
            except unittest.SkipTest as why:
                print(f"ok {number} - {test.__name__} # SKIP {why}", flush=True)
            except Exception as failure:  # noqa: BLE001
                failed += 1
                print(f"not ok {number} - {test.__name__}\n{type(failure).__name__}: {failure}", flush=True)
    sys.exit(1 if failed else 0)
