"""What the suites of large packages share: a data set, TAP lines, and skipping what is not installed."""
import contextlib
import importlib
import io
import json
import pathlib
import sys
import tarfile
import tempfile

COUNT = 64


def needs(*packages):
    """Imports packages; without one of them the suite is skipped, and says which."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as failure:
            print(f"1..1\nok 1 - all # SKIP {package} is not installed ({failure})")
            sys.exit(0)


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


def run(*tests):
    """Runs functions that take the folder; a failed assertion is a failed test."""
    failed = 0
    print(f"1..{len(tests)}")
    with dataset_folder() as folder:
        for number, test in enumerate(tests, 1):
            try:
                test(folder)
                print(f"ok {number} - {test.__name__}", flush=True)
            except Exception as failure:  # noqa: BLE001
                failed += 1
                print(f"not ok {number} - {test.__name__}\n{type(failure).__name__}: {failure}", flush=True)
    sys.exit(1 if failed else 0)
