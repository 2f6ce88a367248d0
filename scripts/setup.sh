#!/bin/sh
# Installs what is missing on Debian, and says what. Usage: setup.sh build [test] [bench]
set -eu

build="gcc libc6-dev make meson ninja-build pkg-config libisal-dev libxxhash-dev \
zlib1g-dev libzstd-dev libturbojpeg0-dev libspng-dev libwebp-dev"
test="g++ clang-14 libclang-rt-14-dev llvm-14 clang-format-14 libcmocka-dev valgrind \
python3 python3-venv libarchive-tools mandoc binutils strace"
bench="python3 libarchive-tools util-linux time"

wanted=""
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    bench) wanted="$wanted $bench" ;;
    *) echo "setup.sh: no group $group" >&2; exit 2 ;;
    esac
done

missing=""
for package in $wanted; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done

# The real Python packages, in a virtual environment that knows which list it was made from.
python_packages() {
    case " $* " in *" test "*) ;; *) return 0 ;; esac
    list=$(dirname "$0")/../tests/requirements.txt
    venv=$(dirname "$0")/../.venv
    cmp -s "$list" "$venv/requirements.txt" && return 0
    echo "setup: installing into .venv: $(grep -v '^#' "$list" | tr '\n' ' ')"
    python3 -m venv "$venv"
    "$venv/bin/pip" -q --disable-pip-version-check install -r "$list"
    cp "$list" "$venv/requirements.txt"
}
[ -n "$missing" ] || { python_packages "$@"; exit 0; }

if [ "$(id -u)" = 0 ]; then
    sudo=""
elif command -v sudo >/dev/null; then
    sudo=sudo
else
    echo "setup.sh: not root and no sudo; please install:$missing" >&2
    exit 1
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
python_packages "$@"
