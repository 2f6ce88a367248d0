#!/bin/sh
# Runs the fuzz targets under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   fuzz.sh full [TARGET...]      FUZZ_RUNS runs each; unset: 50,000,000 of tar, taridx, gnz and
#                                 iac, 10,000,000 of the others. FUZZ_SECONDS ends a target early.
#   fuzz.sh short [TARGET...]     the corpus and 100,000 runs each, 30 seconds at most, with a
#                                 fixed seed: the same every time; prints TAP
#   fuzz.sh build                 builds what the short form needs
#
# No input may take longer than FUZZ_TIMEOUT seconds (1; 25 when short, where the machine may be
# busy), request more than 64 MiB at once, or leak. An input that does is kept as
# fuzz/corpus/TARGET/crash-HASH, and the script exits with 1. Give the file a name that says what
# it is (git mv); the tests replay it from then on.
#
# A twentieth of the runs of the full form also traces comparisons, which finds numbers and words
# that random mutations do not. New inputs stay in build-fuzz/corpus; `scripts/corpus.py grow` adds
# those that reach new code to the archives. The total number of runs is in build-fuzz/runs.tsv, so
# that a long count can be reached in several sessions.
set -eu
cd "$(dirname "$0")/.."
usage() { echo "usage: fuzz.sh full|short|build [TARGET...]" >&2; exit 2; }
[ $# -ge 1 ] || usage
form=$1
shift
case $form in
full) seconds=${FUZZ_SECONDS:-0} timeout=${FUZZ_TIMEOUT:-1} ;;
short | build) seconds=${FUZZ_SECONDS:-30} timeout=${FUZZ_TIMEOUT:-25} ;;
*) usage ;;
esac
[ $# -gt 0 ] || set -- $(cd fuzz && ls fuzz_*.c | sed "s/fuzz_//; s/[.]c//")
# Edge counters; comparisons are traced in a separate build, because that halves the speed.
prepare() {
    dir=$1 coverage=$2
    shift 2
    [ -f "$dir/build.ninja" ] || CC=clang-14 meson setup "$dir" --buildtype=debugoptimized \
        -Dfuzz=true -Dpython=disabled -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args="$coverage -fno-sanitize-recover=all" >"$dir.log" 2>&1 ||
        { cat "$dir.log" >&2; rm -rf "$dir" "$dir.log"; exit 1; }
    rm -f "$dir.log"
    ninja -C "$dir" --quiet $(printf 'fuzz/fuzz_%s ' "$@")
}
build=build-fuzz
prepare $build -fsanitize-coverage=inline-8bit-counters,pc-table "$@"
[ "$form" != build ] || exit 0
scripts/corpus.py unpack
[ "$form" = short ] || prepare $build-compare -fsanitize=fuzzer-no-link "$@"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
# A small quarantine, memory that is not returned, short allocation traces: twice the speed.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64:malloc_context_size=1:allocator_release_to_os_interval_ms=-1:clear_shadow_mmap_threshold=67108864
export UBSAN_OPTIONS=print_stacktrace=1
export build scratch form seconds timeout

printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 scripts/fuzz_one.sh || true
number=0 failed=0
for target in "$@"; do
    number=$((number + 1))
    result=$(cat "$scratch/$target/result" 2>/dev/null || echo "did not run")
    word=ok
    [ -e "$scratch/$target/good" ] || word="not ok" failed=1
    if [ "$form" = short ]; then echo "$word $number - $target: $result"; else echo "$target: $result"; fi
    [ "$word" = ok ] || tail -n 60 "$scratch/$target/log" | sed 's/^/# /'
done
[ "$form" = full ] || echo "1..$number"
exit $failed
