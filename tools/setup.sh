#!/bin/bash
# setup.sh [test]: installs, on Debian and Ubuntu, the packages that a build (or also the tests) need and that are not
# there, after saying which.  What is missing is found by asking pkg-config and by looking for commands, so a machine
# that has everything, from whatever source, is left alone.  Without root, and without a sudo that asks nothing, it says
# what to install and exits with 4.
cd "$(dirname "$0")/.." || exit 1
missing=()

lib() { # pkg-config module, package
    command -v pkg-config > /dev/null && pkg-config --exists "$1" || missing+=("$2")
}
cmd() { # package, commands: any one will do
    local package=$1 c
    shift
    for c in "$@"; do command -v "$c" > /dev/null && return; done
    missing+=("$package")
}

cmd gcc "${CC:-cc}" gcc clang
cmd make make
cmd pkg-config pkg-config pkgconf
lib libjpeg libjpeg-dev
lib libpng libpng-dev
lib libwebp libwebp-dev
lib libpcre2-8 libpcre2-dev
lib libutf8proc libutf8proc-dev
lib jansson libjansson-dev
lib sndfile libsndfile1-dev
lib soxr libsoxr-dev
lib libxxhash libxxhash-dev
printf '#include <stdio.h>\n#include <gif_lib.h>\n' | "${CC:-cc}" -E -xc - > /dev/null 2>&1 || missing+=(libgif-dev)
[ -e /usr/include/stdio.h ] || echo '#include <stdio.h>' | "${CC:-cc}" -E -xc - > /dev/null 2>&1 || missing+=(libc6-dev)

if [ "${1:-}" = test ]; then
    cmd git git
    cmd clang clang
    cmd clang-format-14 clang-format-14 clang-format
    cmd g++ g++ c++
    if ! command -v clang > /dev/null; then
        missing+=(libclang-rt) # named after clang's version, which is known once there is one
    elif ! echo 'int LLVMFuzzerTestOneInput(const char *p, long n); int LLVMFuzzerTestOneInput(const char *p, long n) { return !p && n; }' |
        clang -xc - -fsanitize=fuzzer,address,undefined -o /dev/null 2> /dev/null; then
        missing+=(libclang-rt)
    fi
    if [ "$(uname -m)" = x86_64 ]; then
        cmd gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
        cmd qemu-user qemu-aarch64 qemu-aarch64-static
        [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing+=(libc6-dev-arm64-cross)
    fi
fi

[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get > /dev/null; then
    echo "These are missing (Debian's names): ${missing[*]}. Install them with this system's package manager." >&2
    exit 4
fi
known() { # is there such a package here?  Where apt has no lists yet, nobody can say no.
    [ -z "$(apt-cache madison gcc 2> /dev/null)" ] || [ -n "$(apt-cache madison "$1" 2> /dev/null)" ]
}
# Two names differ between releases.
names() {
    local p v
    want=()
    for p in "${missing[@]}"; do
        case $p in
            libclang-rt)
                v=$(clang --version 2> /dev/null | sed -nE 's/.*version ([0-9]+).*/\1/p' | head -n 1)
                [ -n "$v" ] || v=$(apt-cache depends clang 2> /dev/null | sed -nE 's/.*Depends: clang-([0-9]+)$/\1/p' | head -n 1)
                [ -n "$v" ] || v=14
                known "libclang-rt-$v-dev" && want+=("libclang-rt-$v-dev") || want+=("libclang-common-$v-dev")
                ;;
            clang-format-14) known clang-format-14 && want+=(clang-format-14) ;; # another version would not decide
            *) want+=("$p") ;;
        esac
    done
}

as_root=()
if [ "$(id -u)" != 0 ]; then
    if command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
        as_root=(sudo -n)
    else
        names
        [ ${#want[@]} -gt 0 ] || exit 0
        echo "These packages are missing: ${want[*]}" >&2
        echo "Install them as root, then try again:" >&2
        echo "    apt-get install --no-install-recommends ${want[*]}" >&2
        exit 4
    fi
fi

apt() { # what it unpacks is of no interest; what goes wrong comes on standard error
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" > /dev/null
}
echo "Installing what is missing: ${missing[*]}"
apt update || { echo "apt-get update failed; is there a network?" >&2; exit 4; }
names
[ ${#want[@]} -gt 0 ] || exit 0
apt install -y --no-install-recommends "${want[@]}" || {
    echo "apt-get could not install: ${want[*]}" >&2
    exit 4
}
