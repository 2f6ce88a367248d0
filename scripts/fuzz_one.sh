#!/bin/sh
# Runs one fuzz target, for fuzz.sh, which sets the variables: fuzz_one.sh TARGET
set -eu
target=$1
corpus=build-corpus/$target
grown=$build/corpus/$target
here=$scratch/$target
mkdir -p "$grown" "$here/found" "$here/tmp"
case $target in
iac | samples | tar) longest=12288 ;;
*) longest=4096 ;;
esac
case $form-$target in
full-tar | full-taridx | full-gnz | full-iac) runs=50000000 ;;
full-*) runs=10000000 ;;
*) runs=100000 ;;
esac
runs=${FUZZ_RUNS:-$runs}
# Data must not make the library request more than this at once; a list of URLs comes from the
# caller, and has a limit of 256 MiB.
case $target in urls) most=320 ;; *) most=64 ;; esac

# The short form does the same every time: one seed, the corpus in one order and nothing else at the
# start, and neither addresses nor paths that change (comparisons guide the fuzzer).
root=$PWD
if [ "$form" = full ]; then
    fixed="" seeds=$root/$corpus grown=$root/$grown temporary=$here/tmp
else
    grown=$here/new seeds="" temporary=.
    find "$root/$corpus" -type f | LC_ALL=C sort | paste -sd, >"$here/seeds"
    fixed="-seed=1 -reload=0 -use_cmp=0 -use_counters=0 -purge_allocator_interval=-1 -seed_inputs=@$here/seeds"
    if setarch -R true 2>/dev/null; then prefix="setarch -R"; fi
fi
mkdir -p "$grown"

# fuzz FOLDER RUNS SECONDS: adds its runs to done.
good=1 done=0
fuzz() {
    # shellcheck disable=SC2086
    (cd "$here/tmp" && TMPDIR=$temporary ${prefix:-} "$root/$1/fuzz/fuzz_$target" -runs="$2" \
        -max_total_time="$3" -timeout="$timeout" -max_len=$longest -malloc_limit_mb=$most \
        -rss_limit_mb=2048 -print_final_stats=1 -entropic=0 -artifact_prefix="$here/found/" \
        $fixed "$grown" $seeds >"$here/log" 2>&1) || good=0
    done=$((done + $(stat number_of_executed_units 0)))
}
stat() {
    value=$(sed -n "s/^stat::$1: *//p" "$here/log")
    echo "${value:-$2}"
}
[ "$form" = short ] || fuzz "$build-compare" $((runs / 20)) $(((seconds + 19) / 20))
# (A negative number would mean no limit.)
[ $good = 0 ] || [ "$runs" -le "$done" ] || fuzz "$build" "$((runs - done))" "$seconds"
rate=$(stat average_exec_per_sec 0)
slow=$(stat slowest_unit_time_sec "?")
peak=$(stat peak_rss_mb "?")
found=0
for file in "$here/found"/*; do
    [ -f "$file" ] || continue
    case $(basename "$file") in slow-unit-*) continue ;; esac
    found=$((found + 1))
    find "$corpus" -type f -exec cmp -s {} "$file" \; -print | grep -q . ||
        scripts/corpus.py crash "$target" "$(sha1sum <"$file" | cut -c1-16)" "$file" >/dev/null
done
reached=$(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$here/log" | tail -n 1)
[ "$form" = short ] || printf '%s\t%s\n' "$target" "$done" >>"$build/runs.tsv"
touch "$build/runs.tsv"
total=$(awk -v t="$target" '$1 == t { sum += $2 } END { printf "%d", sum }' "$build/runs.tsv")
if [ "$form" = short ]; then
    echo "$done runs, $reached, $found findings" >"$here/result"
else
    echo "$done runs ($total in all here), $rate per second, slowest $slow s," \
        "peak $peak MiB, $found findings" >"$here/result"
fi
[ $good = 0 ] || touch "$here/good"
