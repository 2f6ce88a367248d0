#!/bin/sh
# The whole damage sweep under AddressSanitizer and UndefinedBehaviorSanitizer: every case, where the
# tests otherwise run a sample. Prints the cases of each part and how many broke.
#   damage.sh [PART...]    parts: fields files fold repair tables (all of them)
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- fields files fold repair tables
build=build-asan
[ -f "$build/build.ninja" ] || CC=clang-14 meson setup "$build" --werror --buildtype=debug \
    -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Dtests=true >/dev/null
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT INT TERM
for part in "$@"; do ninja -C "$build" --quiet "tests/test_damage_$part"; done

scripts/corpus.py unpack
export TARN_DAMAGE=full TARN_DATA=tests/data CMOCKA_MESSAGE_OUTPUT=TAP
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
printf '%s\n' "$@" | xargs -P "$(nproc)" -I PART sh -c \
    '"$0/tests/test_damage_PART" >"$1/PART" 2>&1 || touch "$1/failed"' "$build" "$log"
for part in "$@"; do
    sed -n 's/^# damage: //p' "$log/$part"
    grep -E '^not ok|ERROR: |runtime error' "$log/$part" || true
done | tee "$log/all"
[ ! -e "$log/failed" ] || { for part in "$@"; do grep -v '^ok' "$log/$part"; done; exit 1; }
awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^cases/) sum += $(i - 1) } END { print sum " cases, none broken" }' "$log/all"
