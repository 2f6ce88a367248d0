#!/bin/sh
# One fuzz target, for fuzz.sh, which sets the variables: fuzz_one.sh TARGET
set -eu
target=$1
corpus=fuzz/corpus/$target
grown=$build/corpus/$target
here=$scratch/$target
mkdir -p "$grown" "$here/found" "$here/tmp"
case $target in
iac | samples | tar) longest=12288 ;;
*) longest=4096 ;;
esac
case $target in
tar | taridx | gnz | iac) runs=50000000 ;;
*) runs=10000000 ;;
esac
[ "$form" = full ] || runs=100000
runs=${FUZZ_RUNS:-$runs}
[ "$form" = full ] || grown=$here/tmp/new
mkdir -p "$grown"

good=1
TMPDIR=$here/tmp "$build/fuzz/fuzz_$target" -runs="$runs" -max_total_time="$seconds" \
    -timeout="$timeout" -max_len=$longest -malloc_limit_mb=64 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$here/found/" "$grown" "$corpus" \
    >"$here/log" 2>&1 || good=0
done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$here/log")
rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$here/log")
slow=$(sed -n 's/^stat::slowest_unit_time_sec: *//p' "$here/log")
peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$here/log")
found=0
for file in "$here/found"/*; do
    [ -f "$file" ] || continue
    case $(basename "$file") in slow-unit-*) continue ;; esac
    found=$((found + 1))
    find "$corpus" -type f -exec cmp -s {} "$file" \; -print | grep -q . ||
        cp "$file" "$corpus/crash-$(sha1sum <"$file" | cut -c1-16)"
done
printf '%s\t%s\n' "$target" "${done:-0}" >>"$build/runs.tsv"
total=$(awk -v t="$target" '$1 == t { sum += $2 } END { printf "%d", sum }' "$build/runs.tsv")
echo "${done:-0} runs (${total} in all here), ${rate:-0} per second, slowest ${slow:-?} s," \
    "peak ${peak:-?} MiB, $found findings" >"$here/result"
[ $good = 0 ] || touch "$here/good"
