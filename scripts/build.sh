#!/bin/sh
# Configures (once) and builds one flavour in its folder; with ninja targets, only those.
#   build.sh plain|clang|asan|tsan|fuzz|arm64 [TARGET...]
set -eu
cd "$(dirname "$0")/.."
flavour=$1
shift
dir=build-$flavour
ccache=$(command -v ccache >/dev/null && echo "ccache " || true)

configure() {
    [ -f "$dir/build.ninja" ] || meson setup "$dir" --werror -Dtests=true "$@" >"$dir.log" 2>&1 ||
        { cat "$dir.log" >&2; rm -rf "$dir" "$dir.log"; exit 1; }
    rm -f "$dir.log"
}

case $flavour in
plain) configure --buildtype=debugoptimized ;;
clang) CC="${ccache}clang-14" configure --buildtype=debugoptimized ;;
asan)
    CC="${ccache}clang-14" configure --buildtype=debug -Doptimization=1 \
        -Db_sanitize=address,undefined -Db_lundef=false ;;
tsan)
    CC="${ccache}clang-14" configure --buildtype=debug -Doptimization=1 -Db_sanitize=thread \
        -Db_lundef=false -Dpython=disabled ;;
fuzz) exec scripts/fuzz.sh build ;;
arm64) exec scripts/arm64.sh ;;
*) echo "build.sh: no flavour $flavour" >&2; exit 2 ;;
esac
exec ninja -C "$dir" --quiet "$@"
