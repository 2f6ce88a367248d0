"""The Python package in the process of a test, also of a build with AddressSanitizer; and comparing remote datasets
with the same files on disk."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain")).resolve()
if b"__asan_init" in (BUILD / "python/tarn/_tarn.abi3.so").read_bytes() and "LD_PRELOAD" not in os.environ:
    # The interpreter needs the runtime preloaded, and frees much of its memory only at exit.
    found = subprocess.run(["clang-14", "-print-file-name=libclang_rt.asan-x86_64.so"],
                           capture_output=True, text=True, check=True)
    os.execve(sys.executable, [sys.executable, *sys.argv],
              dict(os.environ, LD_PRELOAD=found.stdout.strip(), ASAN_OPTIONS="detect_leaks=0"))
sys.path.insert(0, str(BUILD / "python"))
for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("AWS_")]:
    del os.environ[name]
os.environ["no_proxy"] = "*"
CHILD = dict(os.environ, PYTHONPATH=str(BUILD / "python"))  # of Python programs
os.environ.pop("LD_PRELOAD", None)

import numpy as np  # noqa: E402

import tarn  # noqa: E402
import remote_support  # noqa: E402
from remote_support import make_shards  # noqa: E402
from remote_support import tarn as command  # noqa: E402
from url_support import expect  # noqa: E402


class Store(remote_support.Store):
    def handle_error(self, request, client_address):
        """Readers that stop close their connections."""


def make_fold(folder, **more):
    make_shards(folder, **more)
    done = command("index", folder, "--sums")
    expect(done.code == 0, done)
    return folder


def same(one, other):
    """Compares batches, or samples."""
    expect(list(one) == list(other), list(one), list(other))
    for name in one:
        a, b = one[name], other[name]
        equal = np.array_equal(a, b) if isinstance(a, np.ndarray) else list(a) == list(b)
        expect(equal if not isinstance(a, (int, str, bytes)) else a == b, "other values:", name)


def refused(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def batches(dataset, batch, **more):
    with dataset.loader(batch, threads=2, epochs=1, **more) as loader:
        return [{name: batch[name] for name in batch} for batch in loader]


def open_raw(*args, **more):
    return tarn.open(*args, decode="bytes", **more)
