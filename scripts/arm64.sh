#!/bin/sh
# Builds for arm64 in build-arm64, with Debian's cross compiler. `make check-arm64` then runs the
# unit tests under qemu.
#
# The arm64 libraries are unpacked into build-arm64-root, and not installed beside those of this
# system: multiarch would make apt change the versions of both. They come from apt's configured
# mirror.
set -eu
cd "$(dirname "$0")/.."
root=$PWD/build-arm64-root
build=build-arm64
libraries="libc6-dev libgcc-12-dev libisal-dev libxxhash-dev zlib1g-dev libbz2-dev liblzma-dev \
libzstd-dev libjpeg62-turbo-dev libwebp-dev libjxl-dev libcurl4-openssl-dev nettle-dev libbrotli-dev \
liblz4-dev libcmocka-dev libpng-dev libmicrohttpd-dev"

# apt with its own state: nothing is installed, so it lists every dependency.
apt_arm64() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$root.apt" \
        -o Dir::State::status="$root.apt/status" -o Dir::Cache="$root.apt/cache" \
        -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

unpack_libraries() {
    [ "$(cat "$root/.libraries" 2>/dev/null)" = "$libraries" ] && return
    echo "arm64: fetching the libraries into $(basename "$root")"
    rm -rf "$root" "$root.apt"
    mkdir -p "$root" "$root.apt/lists/partial" "$root.apt/cache/archives/partial"
    : >"$root.apt/status"
    apt_arm64 update
    # shellcheck disable=SC2086
    apt_arm64 install --download-only --no-install-recommends -y $libraries
    for package in "$root.apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    absolute_links
    rm -rf "$root.apt"
    echo "$libraries" >"$root/.libraries"
}

# A link to /lib/... refers to the file in this root.
absolute_links() {
    find "$root" -type l -lname '/*' | while read -r link; do
        ln -sfn "$root$(readlink "$link")" "$link"
    done
}

write_cross_file() {
    cat >"$root/cross.ini" <<INI
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '$root']

[built-in options]
c_args = ['--sysroot=$root']
c_link_args = ['--sysroot=$root']

[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
INI
}

unpack_libraries
write_cross_file
[ -f "$build/build.ninja" ] || meson setup "$build" --cross-file "$root/cross.ini" --werror \
    --buildtype=debugoptimized -Dtests=true -Dpython=disabled >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; rm -rf "$build" "$build.log"; exit 1; }
rm -f "$build.log"
exec ninja -C "$build" --quiet
