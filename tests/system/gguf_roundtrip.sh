#!/bin/bash
# The public gguf package reads what we convert and quantise, and we read what it writes.  Needs python3 with pip and a
# network for gguf and numpy.
: "${PINHOLE:=build/pinhole}" "${BUILD:=build}"
python=$BUILD/system-venv/bin/python
if ! "$python" -c 'import gguf, numpy' 2> /dev/null; then
    python3 -m venv "$BUILD/system-venv" && "$BUILD/system-venv/bin/pip" -q install gguf==0.19.0 numpy || { echo "cannot install gguf and numpy"; exit 77; }
fi
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
for model in tests/golden/set/models/{llm_llama_gqa_untied,llm_qwen2_tied,vlm_llava15,vlm_idefics3}; do
    mkdir "$D/$(basename $model)"
    out=$("$python" tests/system/gguf_roundtrip.py "$PINHOLE" $model "$D/$(basename $model)")
    sum=$(tail -n 1 <<< "$out")
    [[ $sum =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]] || { echo "$model: $out"; failed=$((failed + 1)); continue; }
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    [ "${BASH_REMATCH[2]}" = 0 ] || sed "s|^|$model: |" <<< "$out"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
