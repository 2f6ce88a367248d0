#!/bin/sh
# Installs missing packages on Debian, and prints their names.
#   setup.sh build [test] [bench] [demo] [docs] [arm64] [debian] [peers]
set -eu

build="gcc libc6-dev make meson ninja-build pkg-config libisal-dev libxxhash-dev \
zlib1g-dev libbz2-dev liblzma-dev libzstd-dev libjpeg62-turbo-dev libwebp-dev \
libjxl-dev libcurl4-openssl-dev nettle-dev libmicrohttpd-dev libbrotli-dev liblz4-dev python3 python3-dev python3-venv"
test="g++ ccache clang-14 libclang-rt-14-dev llvm-14 clang-format-14 libcmocka-dev libpng-dev valgrind \
python3 python3-venv libarchive-tools mandoc binutils strace nginx-light openssl zstd \
xz-utils bzip2 clang-tidy-14 cppcheck bindgen rustc"
arm64="gcc-aarch64-linux-gnu qemu-user-static"
debian="debootstrap"
peers="python3 python3-venv chromium chromium-driver default-jre-headless"
bench="python3 libpng-dev libturbojpeg0-dev libarchive-tools util-linux time libavdevice59 libavfilter8"

wanted=""
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    bench) wanted="$wanted $bench" ;;
    arm64) wanted="$wanted $arm64" ;;
    debian) wanted="$wanted $debian" ;;
    demo | docs) wanted="$wanted python3 python3-venv" ;;
    peers) wanted="$wanted $peers" ;;
    *) echo "setup.sh: no group $group" >&2; exit 2 ;;
    esac
done

missing=""
for package in $wanted; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done

# The real Python packages, in virtual environments that record which list they were made from.
python_packages() {
    list=$(dirname "$0")/../$1
    venv=$(dirname "$0")/../$2
    shift 2
    cmp -s "$list" "$venv/requirements.txt" && return 0
    echo "setup: installing into $(basename "$venv"): $(grep -v '^#' "$list" | tr '\n' ' ')"
    python3 -m venv "$venv"
    "$venv/bin/pip" -qq --disable-pip-version-check install "$@" -r "$list"
    cp "$list" "$venv/requirements.txt"
}

# The demo uses the tests' packages if they are installed; a demo without torch is shorter, and says
# so.
demo_packages() {
    cd "$(dirname "$0")/.."
    list=examples/shapes/requirements.txt
    for python in .venv/bin/python .venv-demo/bin/python python3; do
        "$python" -c "import torch, PIL.Image" 2>/dev/null && return 0
    done
    echo "setup: installing into .venv-demo: $(grep -v '^#' $list | paste -sd' ')"
    python3 -m venv .venv-demo
    pip=".venv-demo/bin/pip -qq --disable-pip-version-check install"
    grep -v '^torch' $list | $pip -r /dev/stdin || {
        echo "setup: the demo draws with Pillow, which could not be installed" >&2
        return 1
    }
    seconds=${DEMO_TORCH_SECONDS:-120}
    timeout "$seconds" $pip -r $list ||
        echo "setup: torch could not be installed in $seconds s (DEMO_TORCH_SECONDS): the demo does not train"
}

# The large packages, one line at a time; if one cannot be installed, its suite is skipped. torch and
# similar packages come from .venv.
peer_packages() {
    cd "$(dirname "$0")/.."
    list=tests/peers/requirements.txt
    cmp -s "$list" .venv-peers/requirements.txt && return 0
    python3 -m venv .venv-peers
    readlink -f .venv/lib/python3*/site-packages >"$(echo .venv-peers/lib/python3*/site-packages)/tests.pth"
    grep -v '^#' "$list" | while read -r packages; do
        echo "setup: installing into .venv-peers: $packages"
        # shellcheck disable=SC2086
        .venv-peers/bin/pip -qq --disable-pip-version-check install $packages ||
            { echo "setup: could not be installed: $packages"; touch .venv-peers/incomplete; }
    done
    [ -e .venv-peers/incomplete ] || cp "$list" .venv-peers/requirements.txt
    rm -f .venv-peers/incomplete
}

# The sources of iatro-base-iac with its tests, which tests/peers/test_iac_suites.py runs. pip would
# have to build them to download them.
iac_sources() {
    folder=$(dirname "$0")/../.venv-peers/iac
    mkdir -p "$folder"
    while read -r name sum place; do
        [ -d "$folder/$name" ] && continue
        python3 -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())' \
            "https://files.pythonhosted.org/packages/$place/$name.tar.gz" >"$folder/$name.tar.gz" &&
            echo "$sum  $folder/$name.tar.gz" | sha256sum --quiet -c - &&
            tar -xzf "$folder/$name.tar.gz" -C "$folder" ||
            echo "setup: could not be fetched: $name"
    done <<EOF
iatro_base_iac-0.0.2 480fe2e537aa24df89b3288ff290e586b17fa3a491dcabd29c8f261cab2b388b f2/a4/7b6983bda0a89123b7127dec22d08dbda913bdfc9f12eb6f17bbc890e617
iatro_base_iac-0.1.4 c6119d5d828ad48bfa9bcdc01ec96ed8c95cdb949857b4875ec67f246c141bb1 6c/af/5f8b3ed34277e9fabe1400003801cc309b3c74fa81b551552d3a496511b9
iatro_iac_adapters-0.1.4 df0b03764f087f73a4bab9b2f2b287175b51615f79389e9f56414f12cb97a14b 09/f5/306a3342e51bfd3dcf2f55b7a6ce4455437fc54c8bd009361b829c8ffd1a
EOF
}

# Software that is not a Debian package.
fetch() {
    case " $* " in *" build "*) "$(dirname "$0")/nanoarrow.sh" ;; esac
    case " $* " in *" test "*)
        python_packages tests/requirements.txt .venv
        python_packages tests/requirements-iac1.txt .venv-iac1 --no-deps
        python_packages tests/requirements-iac2.txt .venv-iac2 --no-deps ;;
    esac
    case " $* " in *" bench "*)
        python_packages bench/requirements-wids.txt .venv-wids --no-deps
        python_packages bench/requirements.txt .venv-bench --no-deps ;;
    esac
    case " $* " in *" docs "*) python_packages scripts/requirements-docs.txt .venv-docs ;; esac
    case " $* " in *" demo "*) demo_packages ;; esac
    case " $* " in *" peers "*) peer_packages && iac_sources ;; esac
}
[ -n "$missing" ] || { fetch "$@"; exit 0; }

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
# The tests start the web server themselves; it must not start when it is installed.
policy=/usr/sbin/policy-rc.d
made=""
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod +x "$policy"
    made=yes
fi
trap '[ -z "$made" ] || $sudo rm -f "$policy"' EXIT
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fetch "$@"
