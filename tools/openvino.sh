#!/bin/bash
# openvino.sh [FOLDER]: unpacks OpenVINO's libraries into FOLDER/openvino (build/openvino), from the wheel that
# tools/openvino.txt pins: the C API, the runtime, the plug-in of the CPU, the reader of ONNX, TBB.  pip fetches it from
# wherever pip fetches, and checks its sum.  What is there already, of that version, stays.  Exits with 4 where it cannot
# be had.
cd "$(dirname "$0")/.." || exit 1
to=${1:-build}/openvino
version=$(sed -nE 's/^openvino==([0-9.]+).*/\1/p' tools/openvino.txt)
[ "$(cat "$to/version" 2> /dev/null)" = "$version" ] && [ -e "$to/libopenvino_c.so" ] && exit 0
case $(uname -sm) in
    "Linux x86_64") platform=manylinux_2_28_x86_64 plugin=intel_cpu ;;
    "Linux aarch64") platform=manylinux_2_35_aarch64 plugin=arm_cpu ;;
    *) echo "tools/openvino.txt has no wheel for $(uname -sm): build OpenVINO and name it in PINHOLE_OPENVINO" >&2; exit 4 ;;
esac
. tools/wheel.bash
unpack_wheel "OpenVINO" "openvino $version" tools/openvino.txt "$platform"
from=$at/wheel/openvino/libs
rm -rf "$to"
mkdir -p "$to" || exit 4
# They look for one another in their own folder, by these names; only the C API is asked for by name.
cp "$from"/libopenvino.so.* "$from/libopenvino_${plugin}_plugin.so" "$from"/libopenvino_onnx_frontend.so.* "$from"/libtbb.so.* \
    "$at"/wheel/openvino-*.dist-info/licenses/LICENSE "$at"/wheel/openvino-*.dist-info/licenses/licensing/*.txt "$to" &&
    cp "$from"/libopenvino_c.so.* "$to/libopenvino_c.so" && chmod 755 "$to"/*.so* &&
    printf '%s\n' "$version" > "$to/version" || { echo "cannot write $to" >&2; exit 4; }
echo "OpenVINO $version: $to/libopenvino_c.so"
