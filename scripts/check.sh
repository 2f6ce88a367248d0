#!/bin/sh
# Runs one suite of build-plain and shows all of its output: check.sh unit|cli|python [NAME[/TEST]]
# Without a NAME, runs all suites of that kind and counts the results.
set -eu
cd "$(dirname "$0")/.."
kind=$1 name=${2:-}
out=$(mktemp)
trap 'rm -f "$out"' EXIT INT TERM
scripts/corpus.py unpack
if [ -z "$name" ]; then
    tests/run.py --log "$out" --build build-plain --only "$kind"
    tests/run.py --log "$out" --total
    exit
fi
test=""
case $name in */*) test=${name#*/} name=${name%%/*} ;; esac
name=${name#test_}
export TARN="$PWD/build-plain/tarn" TARN_BUILD="$PWD/build-plain" TARN_DATA="$PWD/tests/data" \
    TARN_CORPUS="$PWD/build-corpus"
case $kind in
unit)
    [ -z "$test" ] || export TARN_TEST="$test"
    [ -x "build-plain/tests/test_$name" ] ||
        { echo "check.sh: no unit program test_$name in build-plain/tests" >&2; exit 2; }
    "build-plain/tests/test_$name" >"$out" 2>&1 || { cat "$out"; exit 1; }
    cat "$out"
    if grep -q 'Running 0 test' "$out"; then
        echo "check.sh: test_$name has no test $test" >&2
        exit 1
    fi ;;
cli)
    [ -f "tests/cli/$name.sh" ] || { echo "check.sh: no tests/cli/$name.sh" >&2; exit 2; }
    .venv/bin/python tests/cli/run.py "$name" ;;
python)
    [ -f "tests/python/test_$name.py" ] || { echo "check.sh: no tests/python/test_$name.py" >&2; exit 2; }
    .venv/bin/python tests/python/run.py "tests/python/test_$name.py" ${test:+-k "$test"} ;;
*) echo "check.sh: no suites of kind $kind" >&2; exit 2 ;;
esac
