#!/bin/sh
# Builds a wheel of a copy of the checkout, installs it into an empty environment, and uses it
# there as a stranger would. What set-up fetched is used again, so this needs no network.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
venv=$(cd "$root/.venv" && pwd)

mkdir "$scratch/tree"
cd "$root"
git ls-files -co --exclude-standard -z | tar --null -T - -c --ignore-failed-read 2>/dev/null |
    tar -x -C "$scratch/tree"
mkdir "$scratch/tree/third_party"
cp -R "$root/third_party/nanoarrow" "$scratch/tree/third_party/"

echo "a wheel is built from a checkout"
cd "$scratch/tree"
PATH="$venv/bin:$PATH" "$venv/bin/python" -m pip -q --disable-pip-version-check wheel . \
    --no-deps --no-build-isolation -w "$scratch/wheels" >"$scratch/log" 2>&1 ||
    { tail -n 40 "$scratch/log"; exit 1; }
wheel=$(echo "$scratch"/wheels/tarn-*-cp311-abi3-*.whl)
test -f "$wheel"
test "$(wc -c <"$wheel")" -lt 4000000

echo "it is installed into an empty environment, with NumPy and nothing else"
cd "$scratch"
"$venv/bin/python" -m venv empty
if empty/bin/python -m pip -q --disable-pip-version-check install --no-index "$wheel" 2>refused; then
    echo "pip installed the wheel without NumPy, which it needs" >&2
    exit 1
fi
grep -qi numpy refused
packages=$(echo empty/lib/python3*/site-packages)
cp -R "$venv"/lib/python3*/site-packages/numpy* "$packages"
empty/bin/python -m pip -q --disable-pip-version-check install --no-index "$wheel"
cp -r "$root/tests/data/09a_writer_maxfiles" data

echo "and used there"
empty/bin/python - data <<'PY'
import os
import sys

import tarn

ds = tarn.open(sys.argv[1])
assert len(ds) == 11 and ds[1]["cls"] == 1 and ds["key3"]["cls"] == 3, ds
assert bytes(tarn.open(sys.argv[1], decode=False)[1]["cls"]) == b"1"
assert sorted(ds.shuffle(3).keys()) == sorted(ds.keys())
labels = tarn.open(sys.argv[1], fields=["cls"])
assert [len(batch["cls"]) for batch in labels[::2].shuffle(3).loader(4)] == [4, 2]
assert not {"PIL", "pyarrow", "torch"} & set(sys.modules)
assert os.path.exists(os.path.join(os.path.dirname(tarn.__file__), "py.typed"))
here = os.path.dirname(os.path.realpath(tarn.__file__))
for name in ("libjpeg.so", "libisal.so"):
    lines = [line for line in open("/proc/self/maps") if name in line]
    assert lines and all(here in line for line in lines), (name, lines[:1])
PY
test "$(empty/bin/tarn --version)" = "$(empty/bin/python -m tarn --version)"
empty/bin/python -c 'import importlib.metadata, tarn
assert importlib.metadata.version("tarn") == tarn.__version__'
empty/bin/tarn ls data >listing
grep -q key0 listing
empty/bin/python - <<'PY'
import os
import signal
import subprocess

reader, writer = os.pipe()
os.close(reader)
done = subprocess.run(["empty/bin/tarn", "ls", "data"], stdout=writer, stderr=subprocess.PIPE)
assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b""), done
PY
empty/bin/python -m tarn nonsense 2>/dev/null && exit 1
test $? = 2

echo "it shows one name to others"
test "$(nm -D --defined-only "$packages/tarn/_tarn.abi3.so" | wc -l)" = 1
