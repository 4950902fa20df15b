#!/bin/bash
# The public gguf package reads what we convert and quantise, and we read what it writes.  Needs python3 with pip and a
# network for gguf, numpy and xxhash.
: "${PINHOLE:=build/pinhole}" "${BUILD:=build}"
export PYTHONDONTWRITEBYTECODE=1
python=$BUILD/system-venv/bin/python
if ! "$python" -c 'import gguf, numpy, xxhash' 2> /dev/null; then
    python3 -m venv "$BUILD/system-venv" && "$BUILD/system-venv/bin/pip" -q install gguf==0.19.0 numpy xxhash || { echo "cannot install gguf, numpy and xxhash"; exit 77; }
fi
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
set=tests/golden/set/models
# Every model of the set as a carried directory and as a bundle, and under the field's names all that have them (as tests/flow/convert.sh).
rows=()
for model in "$set"/*; do
    rows+=("gguf_carried:${model##*/}" "gguf_bundle:${model##*/}")
    case ${model##*/} in
    align_clip | align_siglip | speech_whisper | llm_phi3_longrope | vlm_blip2 | vlm_idefics1 | vlm_mllama) ;;
    *) rows+=("gguf_roundtrip:${model##*/}") ;;
    esac
done
for row in "${rows[@]}"; do
    model=$set/${row#*:}
    mkdir -p "$D/${row%:*}/${row#*:}"
    out=$("$python" "tests/system/${row%:*}.py" "$PINHOLE" "$model" "$D/${row%:*}/${row#*:}")
    sum=$(tail -n 1 <<< "$out")
    [[ $sum =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]] || { echo "$model: $out"; failed=$((failed + 1)); continue; }
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    [ "${BASH_REMATCH[2]}" = 0 ] || sed "s|^|$model: |" <<< "$out"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
