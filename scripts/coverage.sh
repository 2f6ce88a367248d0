#!/bin/sh
# Lines and branches of the C sources that the tests reach (clang's source coverage), by file. The
# parsers are listed separately, with a goal of 95 % of the branches.
#   coverage.sh [SUITE...]     suites of tests/run.py: unit fuzz cli python hostile faults interop
#                              by default; includes every failing memory request, and all
#                              damage to fields and tables
# Writes build-coverage/report.txt, build-coverage/lines.txt with the source and its counts, and
# build-coverage/missed.txt with the branches of the parsers that no test takes.
set -eu
cd "$(dirname "$0")/.."
build=build-coverage
[ $# -gt 0 ] || set -- unit fuzz cli python hostile faults interop
[ -f "$build/build.ninja" ] || CC=clang-14 meson setup "$build" --buildtype=debug -Doptimization=1 \
    -Dtests=true -Db_lundef=false -Dc_args='-fprofile-instr-generate -fcoverage-mapping' \
    -Dc_link_args=-fprofile-instr-generate >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; rm -rf "$build" "$build.log"; exit 1; }
rm -f "$build.log"
# A few files for all processes: they add their counts to existing ones.
profiles=$PWD/$build/profiles
export LLVM_PROFILE_FILE="$profiles/%4m.profraw"
ninja -C "$build" --quiet
rm -rf "$profiles"
mkdir "$profiles"
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
for suite in "$@"; do
    tests/run.py --log "$log" --build "$build" --only "$suite"
    [ "$suite" = unit ] || continue
    TARN_FULL=1 tests/run.py --log "$log" --build "$build" --only unit --match oom
    for part in fields tables; do
        TARN_DAMAGE=full tests/run.py --log "$log" --build "$build" --only unit \
            --match "damage_$part"
    done
done
rm -f default.profraw # from programs that tests start without their environment
llvm-profdata-14 merge -sparse "$profiles"/*.profraw -o "$build/tests.profdata"
sources=$(find src -name '*.c')
# shellcheck disable=SC2086
llvm-cov-14 report "$build/libtarn.so" -instr-profile="$build/tests.profdata" $sources \
    >"$build/report.txt"
# shellcheck disable=SC2086
llvm-cov-14 show "$build/libtarn.so" -instr-profile="$build/tests.profdata" -show-branches=count \
    $sources >"$build/lines.txt"
# shellcheck disable=SC2086
llvm-cov-14 export "$build/libtarn.so" -instr-profile="$build/tests.profdata" -skip-expansions \
    $sources >"$build/export.json"
scripts/coverage.py "$build/report.txt" "$build/export.json" "$build/missed.txt"
