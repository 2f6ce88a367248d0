#!/bin/sh
# Runs the tests in the flavours named, and ends with one line over all of them.
#   format    clang-format finds nothing to change
#   plain     warnings are errors; all suites
#   asan      AddressSanitizer and UndefinedBehaviorSanitizer; all suites
#   tsan      ThreadSanitizer; the suites that use threads
#   fuzz      100,000 runs of every fuzz target, the same every time
#   hostile   the suite of that name alone, plain
#   build     builds plain and runs nothing
#   valgrind  unit tests under memcheck
#   faults    memory, system calls, kills, power, threads and processes in full (an hour)
#   install   installs into a scratch folder and builds against that with pkg-config; builds a
#             wheel, installs it into an empty environment and uses it there
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM

# A build folder of another checkout or compiler is of no use.
configure() {
    dir=$1
    shift
    [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@" >"$dir.log" 2>&1 ||
        { cat "$dir.log" >&2; exit 1; }
    rm -f "$dir.log"
    ninja -C "$dir" >"$log.build" 2>&1 || { cat "$log.build" >&2; exit 1; }
    rm -f "$log.build"
}

configure_plain() {
    configure build-plain --werror --buildtype=debugoptimized -Dtests=true
}

configure_asan() {
    CC=clang-14 configure build-asan --werror --buildtype=debug -Doptimization=1 \
        -Db_sanitize=address,undefined -Db_lundef=false -Dtests=true
}

configure_tsan() {
    CC=clang-14 configure build-tsan --werror --buildtype=debug -Doptimization=1 \
        -Db_sanitize=thread -Db_lundef=false -Dtests=true
}

for flavour in "$@"; do
    echo "--- $flavour"
    case $flavour in
    format)
        tests/run.py --log "$log" --name format -- scripts/format.sh --check ;;
    plain)
        configure_plain
        TARN_CHAINS=10000 tests/run.py --log "$log" --build build-plain ;;
    asan)
        configure_asan
        TARN_INTEROP_COUNT=100 TARN_CHAINS=100 ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 \
            UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
            tests/run.py --log "$log" --build build-asan ;;
    tsan)
        configure_tsan
        TSAN_OPTIONS=halt_on_error=1 tests/run.py --log "$log" --build build-tsan \
            --only unit ;;
    fuzz)
        tests/run.py --log "$log" --suite fuzz -- scripts/fuzz.sh short ;;
    hostile)
        configure build-plain --werror --buildtype=debugoptimized -Dtests=true
        export TARN_FULL=1
        tests/run.py --log "$log" --build build-plain --only hostile ;;
    build)
        configure build-plain --werror --buildtype=debugoptimized -Dtests=true
        exit 0 ;;
    valgrind)
        configure_plain
        tests/run.py --log "$log" --build build-plain --only unit --wrap \
            "valgrind -q --error-exitcode=9 --leak-check=full" ;;
    faults)
        configure_plain
        configure_asan
        configure_tsan
        export TARN_FULL=1
        tests/run.py --log "$log" --build build-plain --only unit --match oom
        tests/run.py --log "$log" --build build-asan --only unit --match oom
        TSAN_OPTIONS=halt_on_error=1 tests/run.py --log "$log" --build build-tsan \
            --only unit --match threads
        tests/run.py --log "$log" --build build-plain --only faults ;;
    install)
        tests/run.py --log "$log" --name install -- tests/install.sh
        tests/run.py --log "$log" --name wheel -- tests/wheel.sh ;;
    *) echo "test.sh: no flavour $flavour" >&2; exit 2 ;;
    esac || true
done
tests/run.py --log "$log" --total
