#!/bin/sh
# Runs inside a root that debian.sh made: builds the wheel from /src and uses it.
set -eu
cd /tmp
rm -rf venv wheels
python3 -m venv --system-site-packages venv
venv/bin/python -m pip -q install --no-index --find-links /tools meson-python
cd /src
PATH="/tmp/venv/bin:$PATH" /tmp/venv/bin/python -m pip -q wheel . --no-deps --no-build-isolation -w /tmp/wheels
cd /tmp
venv/bin/python -m pip -q install --no-index --no-deps wheels/tarn-*.whl
cp -r /src/tests/data/09a_writer_maxfiles data-"$$"
venv/bin/python - "data-$$" <<'PY'
import sys

import tarn

ds = tarn.open(sys.argv[1])
assert len(ds) == 11 and ds[1]["cls"] == 1 and ds["key3"]["cls"] == 3, ds
labels = tarn.open(sys.argv[1], fields=["cls"])
assert [len(batch["cls"]) for batch in labels[::2].shuffle(3).loader(4)] == [4, 2]
print("Python", sys.version.split()[0], "and tarn", tarn.__version__)
PY
