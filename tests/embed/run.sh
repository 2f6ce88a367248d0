#!/bin/sh
# Uses an installed library from elsewhere: through cffi, through Rust's bindgen, and from a
# program that was compiled with shorter structs. Usage: run.sh PREFIX SCRATCH-FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
prefix=$1
scratch=$2
tar=$(ls "$root"/tests/data/09a_writer_maxfiles/*.tar | head -n 1)
export LD_LIBRARY_PATH="$prefix/lib"

echo "cffi reads the headers, all of them, and a tar and a dataset with them"
"$root/.venv/bin/python" "$here/cffi_read.py" "$prefix" "$tar"

echo "a Rust program calls the library through bindings that bindgen made"
bindgen "$here/bindings.h" --no-rustfmt-bindings --allowlist-function 'tarn_.*' \
    --allowlist-type 'tarn_.*' --allowlist-var 'TARN_.*' -o "$scratch/bindings.rs" \
    -- -I"$prefix/include"
BINDINGS=$scratch rustc --edition 2021 -L "$prefix/lib" -l tarn "$here/count.rs" -o "$scratch/count"
members=$(tar tf "$tar" | wc -l)
"$scratch/count" "$tar" | grep "^$members members, "

echo "a program that was compiled with shorter structs works the same"
"$root/.venv/bin/python" "$here/older_headers.py" "$prefix/include" "$scratch/older"
for age in newer older; do
    include=$prefix/include
    [ $age = newer ] || include=$scratch/older
    cc -Wall -Wextra -Werror -I"$include" "$here/sizes.c" -L"$prefix/lib" -ltarn -o "$scratch/$age-sizes"
    rm -rf "$scratch/written"
    mkdir "$scratch/written"
    "$scratch/$age-sizes" "$scratch/written" >"$scratch/$age.out" 2>"$scratch/$age.sizes" ||
        { cat "$scratch/$age.out"; exit 1; }
done
diff "$scratch/newer.out" "$scratch/older.out"
paste -d' ' "$scratch/newer.sizes" "$scratch/older.sizes" |
    awk '{ for (i = 1; i <= NF / 2; i++) if ($(i + NF / 2) >= $i) exit 1 }'
