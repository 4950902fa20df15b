#!/bin/bash
# ort.sh [FOLDER]: unpacks ONNX Runtime's library into FOLDER/ort (build/ort), from the wheel that tools/ort.txt pins.
# pip fetches it from wherever pip fetches, and checks its sum.  What is there already, of that version, stays.  The wheel
# is the same whatever Python is here: its library knows nothing of Python.  Exits with 4 where it cannot be had.
cd "$(dirname "$0")/.." || exit 1
to=${1:-build}/ort
version=$(sed -nE 's/^onnxruntime==([0-9.]+).*/\1/p' tools/ort.txt)
[ "$(cat "$to/version" 2> /dev/null)" = "$version" ] && [ -e "$to/libonnxruntime.so" ] && exit 0
case $(uname -sm) in
    "Linux x86_64") machine=x86_64 ;;
    "Linux aarch64") machine=aarch64 ;;
    *) echo "tools/ort.txt has no wheel for $(uname -sm): build ONNX Runtime and name it in PINHOLE_ORT" >&2; exit 4 ;;
esac
. tools/wheel.bash
unpack_wheel "ONNX Runtime" "onnxruntime $version" tools/ort.txt "manylinux_2_28_$machine"
mkdir -p "$to" || exit 4
# The library of shared providers is looked for beside it by ONNX Runtime itself.
cp "$at"/wheel/onnxruntime/capi/libonnxruntime_providers_shared.so "$at"/wheel/onnxruntime/LICENSE \
    "$at"/wheel/onnxruntime/ThirdPartyNotices.txt "$to" &&
    cp "$at/wheel/onnxruntime/capi/libonnxruntime.so.$version" "$to/libonnxruntime.so.new" &&
    chmod 755 "$to"/*.so "$to"/*.new && mv "$to/libonnxruntime.so.new" "$to/libonnxruntime.so" &&
    printf '%s\n' "$version" > "$to/version" || { echo "cannot write $to" >&2; exit 4; }
echo "ONNX Runtime $version: $to/libonnxruntime.so"
