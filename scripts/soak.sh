#!/bin/sh
# Runs a loader over a disk that fails now and then, for MINUTES minutes; or with remote, processes
# that read over a failing line with one failing cache. The last line is the result.
#   soak.sh [remote] [MINUTES]
set -eu
cd "$(dirname "$0")/.."
[ -f build-plain/build.ninja ] ||
    meson setup build-plain --werror --buildtype=debugoptimized -Dtests=true >/dev/null
if [ "${1:-}" = remote ]; then
    ninja -C build-plain >/dev/null
    exec .venv/bin/python tests/tools/soak_remote.py "${2:-10}"
fi
ninja -C build-plain tests/soak >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
build-plain/tests/soak "$folder" "${1:-30}"
