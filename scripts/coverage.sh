#!/bin/sh
# Lines and branches of the C sources that the tests reach (clang's source coverage), by file, and
# the parsers apart: those have a goal of 95 % of the branches.
#   coverage.sh [SUITE...]     suites of tests/run.py; all but python unless told
# Leaves build-coverage/report.txt, and build-coverage/lines.txt with the source and its counts.
set -eu
cd "$(dirname "$0")/.."
build=build-coverage
[ $# -gt 0 ] || set -- unit fuzz cli interop hostile
[ -f "$build/build.ninja" ] || CC=clang-14 meson setup "$build" --buildtype=debug -Doptimization=1 \
    -Dtests=true -Db_lundef=false -Dc_args='-fprofile-instr-generate -fcoverage-mapping' \
    -Dc_link_args=-fprofile-instr-generate >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; rm -rf "$build" "$build.log"; exit 1; }
rm -f "$build.log"
ninja -C "$build" --quiet

# A few files for all processes: they add their counts to what is there.
profiles=$PWD/$build/profiles
rm -rf "$profiles"
mkdir "$profiles"
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
for suite in "$@"; do
    LLVM_PROFILE_FILE="$profiles/%4m.profraw" tests/run.py --log "$log" --build "$build" --only "$suite"
done
llvm-profdata-14 merge -sparse "$profiles"/*.profraw -o "$build/tests.profdata"
sources=$(find src -name '*.c')
# shellcheck disable=SC2086
llvm-cov-14 report "$build/libtarn.so" -instr-profile="$build/tests.profdata" $sources \
    >"$build/report.txt"
# shellcheck disable=SC2086
llvm-cov-14 show "$build/libtarn.so" -instr-profile="$build/tests.profdata" -show-branches=count \
    $sources >"$build/lines.txt"
scripts/coverage.py "$build/report.txt"
