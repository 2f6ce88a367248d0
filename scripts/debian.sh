#!/bin/sh
# Builds the wheel in a root of each Debian release, made by debootstrap, and uses it there with the
# release's own Python and NumPy: bookworm has Python 3.11, trixie 3.13, sid 3.14. Needs root. The
# packages come from apt's configured mirror.
#   debian.sh [RELEASE...]    default: bookworm trixie sid
#
# The roots stay in build-debian; remove one to make it again.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- bookworm trixie sid
[ "$(id -u)" = 0 ] || { echo "debian.sh: debootstrap and chroot need root" >&2; exit 1; }
roots=$PWD/build-debian
packages="gcc libc6-dev meson ninja-build pkg-config patchelf python3 python3-dev python3-venv python3-pip \
python3-numpy libisal-dev libxxhash-dev zlib1g-dev libbz2-dev liblzma-dev libzstd-dev libjpeg62-turbo-dev \
libwebp-dev libjxl-dev libcurl4-openssl-dev nettle-dev libbrotli-dev liblz4-dev \
libmicrohttpd-dev"

make_root() {
    [ -e "$root/.complete" ] && return
    mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | head -n 1)
    echo "debian: making a root of $release; this takes minutes"
    rm -rf "$root"
    mkdir -p "$roots"
    debootstrap --variant=minbase --include="$(echo $packages | tr ' ' ,)" "$release" "$root" "$mirror" \
        >"$root.log" 2>&1 || { tail -n 30 "$root.log" >&2; exit 1; }
    touch "$root/.complete"
}

# The sources of the checkout, and the tools that build a wheel from them.
copy_sources() {
    rm -rf "$root/src" "$root/tools"
    mkdir -p "$root/src/third_party" "$root/tools"
    git ls-files -co --exclude-standard -z | tar --null -T - -c --ignore-failed-read 2>/dev/null |
        tar -x -C "$root/src"
    cp -R third_party/nanoarrow "$root/src/third_party/"
    python3 -m pip -qq --disable-pip-version-check download --no-deps --only-binary=:all: -d "$root/tools" \
        meson-python pyproject-metadata packaging
}

use_wheel() {
    # The mount disappears when the shell ends.
    unshare --mount --propagation private sh -eu -c '
        mount -t proc proc "$1/proc"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            chroot "$1" sh -eu /src/scripts/debian_inside.sh' use_wheel "$root"
}

number=0 failed=0
for release in "$@"; do
    number=$((number + 1)) root=$roots/$release word=ok
    make_root
    copy_sources
    use_wheel >"$root.out" 2>&1 || { word="not ok" failed=1; sed 's/^/# /' "$root.out" | tail -n 40; }
    echo "$word $number - $release: $(tail -n 1 "$root.out")"
done
echo "1..$number"
exit $failed
