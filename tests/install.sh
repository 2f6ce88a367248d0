#!/bin/sh
# Installs into a scratch folder and uses what is there as a stranger would: headers alone
# and as C++, exported symbols against the headers, examples by pkg-config, other languages
# and older headers (tests/embed), the manual.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
prefix=$scratch/prefix

meson setup "$scratch/build" "$root" --prefix="$prefix" --libdir=lib --buildtype=release \
    --werror >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
meson install -C "$scratch/build" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }

echo "headers compile alone, as C17 and as C++"
for header in "$prefix"/include/tarn/*.h; do
    printf '#include <tarn/%s>\nint alone;\n' "$(basename "$header")" >"$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cc"
    cc -std=c17 -pedantic -Wall -Wextra -Werror -I"$prefix/include" -c "$scratch/alone.c" \
        -o "$scratch/alone.o"
    c++ -std=c++17 -Wall -Wextra -Werror -I"$prefix/include" -c "$scratch/alone.cc" \
        -o "$scratch/alone.o"
done

echo "the library exports what the headers declare, and nothing else"
cat "$prefix"/include/tarn/*.h | tr '\n' ' ' | grep -o 'TARN_API [^;]*;' |
    grep -o 'tarn_[a-z0-9_]*(' | tr -d '(' | sort -u >"$scratch/declared"
sed 's/$/@@TARN_0.2/' "$scratch/declared" >"$scratch/versioned"
nm -D --defined-only --with-symbol-versions "$prefix/lib/libtarn.so" |
    awk '$2 != "A" { print $3 }' | sort -u >"$scratch/exported"
test -s "$scratch/declared"
diff "$scratch/versioned" "$scratch/exported"

echo "every function that returns a status is tried without its arguments"
for header in "$prefix"/include/tarn/*.h; do
    tr '\n' ' ' <"$header" | grep -o 'TARN_API TARN_CHECKED tarn_status *tarn_[a-z0-9_]*(' |
        grep -o 'tarn_[a-z0-9_]*($' || true
done | sort -u >"$scratch/functions"
test "$(wc -l <"$scratch/functions")" -gt 100
while read -r function; do
    grep -qF "$function" "$root/tests/unit/test_null.c" ||
        { echo "tests/unit/test_null.c does not call ${function%(}"; exit 1; }
done <"$scratch/functions"

echo "the examples build against the installed library and run"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$root/examples/first_bytes.c" $(pkg-config --cflags --libs tarn) \
    -o "$scratch/first_bytes"
cp -r "$root/tests/data/09a_writer_maxfiles" "$scratch/data"
"$scratch/first_bytes" "$scratch/data" txt >"$scratch/out"
test "$(wc -l <"$scratch/out")" = 10
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$root/examples/batches.c" $(pkg-config --cflags --libs tarn) \
    -o "$scratch/batches"
"$scratch/batches" "$scratch/data" txt | grep -q '^10 samples, '
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$root/examples/loader.c" $(pkg-config --cflags --libs tarn) \
    -o "$scratch/loader"
"$scratch/loader" "$scratch/data" 2 | grep -q '^20 samples, 2 skipped, '
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$root/examples/tokens.c" $(pkg-config --cflags --libs tarn) \
    -o "$scratch/tokens"
"$scratch/tokens" "$scratch/data" txt 0 >"$scratch/out"
"$scratch/tokens" "$scratch/data" txt 3 | diff "$scratch/out" -
grep -q ' tokens, the first is ' "$scratch/out"
test "$(wc -l <"$scratch/out")" = 9 # the text of one sample is empty
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$root/examples/writer.c" $(pkg-config --cflags --libs tarn) \
    -o "$scratch/writer"
"$scratch/writer" "$scratch/numbers" 1000 >"$scratch/out"
printf '1000 samples in 3 shards\nnumber 12, squared 144\n' | diff - "$scratch/out"

echo "a project of its own builds by its own Makefile"
cp -r "$root/examples/embedding" "$scratch/embedding"
make -s -C "$scratch/embedding" CFLAGS="-Wall -Wextra -Werror"
"$scratch/embedding/count" "$scratch/numbers" | grep -qx 'class 7: 100'

mkdir "$scratch/embed"
"$root/tests/embed/run.sh" "$prefix" "$scratch/embed"

echo "the tool, its manual pages and its completion are installed and in order"
stated=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build" | head -n 1)
test "$("$prefix/bin/tarn" --version)" = "tarn $stated"
test "$(pkg-config --modversion tarn)" = "$stated"
test -f "$prefix/lib/libtarn.so.$stated"
grep -q "\"$stated\"" "$prefix/include/tarn/version.h"
for page in "$prefix"/share/man/man1/tarn*.1; do
    if mandoc -T lint -W warning "$page" | grep -v 'missing date'; then exit 1; fi
done
commands=$("$prefix/bin/tarn" help | grep -c '^  [a-z]')
test "$(ls "$prefix"/share/man/man1/tarn*.1 | wc -l)" = $((commands + 1))
bash -n "$prefix/share/bash-completion/completions/tarn.bash"
bash -c "source '$prefix/share/bash-completion/completions/tarn.bash'
    COMP_WORDS=(tarn in) COMP_CWORD=1; _tarn; [ \"\${COMPREPLY[*]}\" = 'index info' ]
    COMP_WORDS=(tarn verify --rep) COMP_CWORD=2; _tarn; [ \"\${COMPREPLY[*]}\" = '--repair' ]"
