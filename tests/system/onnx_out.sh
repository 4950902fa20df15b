#!/bin/bash
# What convert --to onnx writes is valid for the onnx checker and gives the references' numbers in ONNX Runtime.  Needs python3
# with pip and a network for onnx and onnxruntime.
: "${PINHOLE:=build/pinhole}" "${BUILD:=build}"
export PYTHONDONTWRITEBYTECODE=1
python=$BUILD/onnx-venv/bin/python
if ! "$python" -c 'import onnx, onnxruntime, safetensors, numpy' 2> /dev/null; then
    python3 -m venv "$BUILD/onnx-venv" &&
        "$BUILD/onnx-venv/bin/pip" -q install "onnx>=1.18" "onnxruntime>=1.23" safetensors numpy || { echo "cannot install onnx and onnxruntime"; exit 77; }
fi
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
"$python" tests/system/onnx_out.py "$PINHOLE" tests/golden/set/models "$D"
