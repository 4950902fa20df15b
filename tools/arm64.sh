#!/bin/bash
# arm64.sh FOLDER: the whole program for aarch64, FOLDER-arm64/build/pinhole, with Debian's libraries for that machine, which apt-get fetches into
# FOLDER-arm64/root: nothing is installed, and what is there already stays.  Run it with `qemu-aarch64 -L FOLDER-arm64/root`.
# Exits with 4 where it cannot be had.
cd "$(dirname "$0")/.." || exit 1
at=$(realpath -m "${1:-build}")-arm64
for need in apt-get dpkg aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $need > /dev/null || { echo "the program for aarch64 wants $need: tools/setup.sh test installs what Debian has" >&2; exit 4; }
done
packages=(libjpeg62-turbo-dev libpng-dev libwebp-dev libpcre2-dev libutf8proc-dev libjansson-dev libsndfile1-dev libsoxr-dev libxxhash-dev libgif-dev)
own() { # apt-get, as if this were an empty aarch64 machine
    apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$at/apt/state" -o Dir::State::status="$at/apt/status" \
        -o Dir::Cache="$at/apt/cache" -o APT::Sandbox::User=root -qq "$@"
}
if [ ! -e "$at/root/whole" ]; then
    rm -rf "$at/apt" "$at/root"
    mkdir -p "$at"/apt/{state/lists/partial,cache/archives/partial} "$at/root" && : > "$at/apt/status" || exit 4
    if ! { own update && own install -y --download-only --no-install-recommends "${packages[@]}" > /dev/null; }; then
        echo "apt-get has no packages for arm64 here" >&2
        exit 4
    fi
    for p in "$at"/apt/cache/archives/*.deb; do # the compiler brings headers and link scripts of the C library
        case $p in */libc6-dev_* | */linux-libc-dev_*) ;; *) dpkg -x "$p" "$at/root" || exit 4 ;; esac
    done
    : > "$at/root/whole"
fi
libs=$at/root/usr/lib/aarch64-linux-gnu
PKG_CONFIG_LIBDIR=$libs/pkgconfig:$at/root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$at/root exec "${MAKE:-make}" -s BUILD="$at/build" \
    CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar FFMPEG= OPT=-O2 SAN="-Wl,-rpath-link,$libs:$at/root/lib/aarch64-linux-gnu" "$at/build/pinhole"
