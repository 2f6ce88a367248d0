#!/bin/sh
# clang-tidy (bugprone, cert, the analyzer's security checks) and cppcheck over the library, the
# tool and the Python extension. .clang-tidy and scripts/cppcheck.txt list what is left out, and why.
#   lint.sh [FILE...]    all C files of src, cli and python/ext
set -eu
cd "$(dirname "$0")/.."
build=build-lint
[ -f "$build/build.ninja" ] || CC=clang-14 meson setup "$build" --buildtype=debug \
    >"$build.log" 2>&1 || { cat "$build.log" >&2; rm -rf "$build" "$build.log"; exit 1; }
rm -f "$build.log"
[ $# -gt 0 ] || set -- $(find src cli python/ext -name '*.c' | sort)
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p "$build" --quiet >"$log" 2>/dev/null ||
    failed=1
grep -E 'warning:|error:' "$log" || true
echo "clang-tidy: $(grep -cE 'warning:|error:' "$log" || true) findings in $# files"
cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr -j "$(nproc)" \
    -I include -I "$build/include" -I src -D_GNU_SOURCE -D__x86_64__ -D__GNUC__=12 --suppressions-list=scripts/cppcheck.txt \
    --error-exitcode=1 "$@" 2>"$log" || failed=1
cat "$log"
echo "cppcheck: $(grep -cE '^[a-z/_0-9]+\.[ch]:' "$log" || true) findings in $# files"
[ $failed = 0 ] && echo "lint: clean, $# files" || echo "lint: see above"
exit $failed
