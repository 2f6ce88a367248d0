#!/bin/sh
# Runs every fuzz target for a while: fuzz.sh SECONDS [TARGET...]
# What breaks one is kept as fuzz/corpus/TARGET/crash-HASH, which the tests replay from
# then on, and the script exits 1.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: fuzz.sh SECONDS [TARGET...]" >&2; exit 2; }
seconds=$1
shift
[ $# -gt 0 ] || set -- $(cd fuzz && ls fuzz_*.c | sed "s/fuzz_//; s/[.]c//")
build=build-fuzz

[ -f "$build/build.ninja" ] || CC=clang-14 meson setup "$build" --buildtype=debugoptimized \
    -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
    -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=all' >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; rm -rf "$build" "$build.log"; exit 1; }
rm -f "$build.log"
for target in "$@"; do
    ninja -C "$build" --quiet "fuzz/fuzz_$target"
done

# In memory where that is possible: a target writes a file or two per execution.
if [ -w /dev/shm ]; then parent=/dev/shm; else parent=${TMPDIR:-/tmp}; fi
scratch=$(mktemp -d "$parent/tarn-fuzz-XXXXXX")
trap 'rm -rf "$scratch"' EXIT INT TERM
export TMPDIR="$scratch"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1

failed=0
for target in "$@"; do
    corpus=fuzz/corpus/$target
    mkdir -p "$scratch/$target/new" "$scratch/$target/found"
    case $target in
    iac | samples | tar) longest=12288 ;;
    *) longest=4096 ;;
    esac
    good=1
    "$build/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=5 -max_len=$longest \
        -malloc_limit_mb=256 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$scratch/$target/found/" "$scratch/$target/new" "$corpus" \
        >"$scratch/log" 2>&1 || good=0
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$scratch/log")
    found=0
    for file in "$scratch/$target/found"/*; do
        [ -f "$file" ] || continue
        found=$((found + 1))
        find "$corpus" -type f -exec cmp -s {} "$file" \; -print | grep -q . ||
            cp "$file" "$corpus/crash-$(sha1sum <"$file" | cut -c1-16)"
    done
    echo "$target: ${runs:-0} executions, ${rate:-0} per second, $found findings"
    if [ $good = 0 ]; then
        failed=1
        tail -n 60 "$scratch/log"
    fi
done
exit $failed
