#!/bin/sh
# Copies the C sources of nanoarrow's core into third_party/nanoarrow, unless the system has the
# library. The source distribution is downloaded, its hash is checked, and it is only unpacked: none
# of its build code runs, except the script that bundles the C files.
set -eu
cd "$(dirname "$0")/.."
list=scripts/nanoarrow.txt
target=third_party/nanoarrow
bundle=subprojects/arrow-nanoarrow
version=$(sed -n 's/^nanoarrow==\([^ ]*\).*/\1/p' "$list")

pkg-config --exists nanoarrow 2>/dev/null && exit 0
cmp -s "$list" "$target/nanoarrow.txt" && exit 0

echo "setup: fetching nanoarrow $version into $target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# pip asks a source distribution's build system for its name before it hands out the file. This
# script answers instead, so that no build system has to be fetched and run.
mkdir "$work/answer"
cat >"$work/answer/mesonpy.py" <<PY
import os

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name = "nanoarrow-$version.dist-info"
    os.mkdir(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as out:
        out.write("Metadata-Version: 2.1\nName: nanoarrow\nVersion: $version\n")
    return name
PY

python3 -m venv "$work/venv"
PYTHONPATH="$work/answer" "$work/venv/bin/python" -m pip -q --disable-pip-version-check download \
    --no-deps --no-build-isolation --no-binary nanoarrow --require-hashes -r "$list" -d "$work"
tar -xzf "$work/nanoarrow-$version.tar.gz" -C "$work"
from="$work/nanoarrow-$version"
python3 "$from/$bundle/ci/scripts/bundle.py" --symbol-namespace=TarnBundled --header-namespace=nanoarrow/ \
    --include-output-dir="$work/out/include" --source-output-dir="$work/out/src"

mkdir -p third_party
rm -rf "$target"
mv "$work/out" "$target"
cp "$list" "$target/nanoarrow.txt"
