#!/bin/sh
# Runs a loader over a disk that fails now and then, for MINUTES minutes; the last line is the
# result.  soak.sh [MINUTES]
set -eu
cd "$(dirname "$0")/.."
[ -f build-plain/build.ninja ] ||
    meson setup build-plain --werror --buildtype=debugoptimized -Dtests=true >/dev/null
ninja -C build-plain tests/soak >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
build-plain/tests/soak "$folder" "${1:-30}"
