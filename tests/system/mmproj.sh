#!/bin/bash
# Language model and vision part as the field's two GGUF files answer as the directory that they were made from: the same
# ids from f32 and f16, and a first id at least from Q8_0.  Needs python3 with pip and a network for gguf and numpy.
: "${PINHOLE:=build/pinhole}" "${BUILD:=build}"
export PYTHONDONTWRITEBYTECODE=1
python=$BUILD/system-venv/bin/python
if ! "$python" -c 'import gguf, numpy' 2> /dev/null; then
    python3 -m venv "$BUILD/system-venv" && "$BUILD/system-venv/bin/pip" -q install gguf==0.19.0 numpy || { echo "cannot install gguf and numpy"; exit 77; }
fi
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
ids() { "$PINHOLE" run --json -n "$1" --ignore-eos -p "What is in the image?" "${@:2}" 2>&1 | sed -nE 's/.*"ids":\[([0-9,]*)\].*"prompt_tokens":([0-9]+).*/\2: \1/p'; }
for model in tests/golden/set/models/vlm_*; do
    case ${model##*/} in
    vlm_blip2 | vlm_idefics1 | vlm_mllama) continue ;; # the field has no names for them
    vlm_gemma3) continue ;;                            # make_gguf.py knows no Gemma
    vlm_llava_siglip) continue ;;                      # nor several feature layers
    esac
    for kind in f32 f16 q8_0; do
        "$python" tests/system/make_gguf.py $model "$D/m.gguf" "$D/v.gguf" $kind || { failed=$((failed + 1)); continue; }
        for picture in scene.png odd_aspect.png gray8.png second.png; do
            # Two first ids are likely alike there, within 3 %: rounding decides.
            [ "$kind $picture ${model##*/}" = "q8_0 second.png vlm_llava_next" ] && continue
            n=$([ $kind = q8_0 ] && echo 1 || echo 8)
            want=$(ids "$n" -m $model --image tests/golden/set/images/$picture)
            got=$(ids "$n" -m "$D/m.gguf" --mmproj "$D/v.gguf" --image tests/golden/set/images/$picture)
            if [ -n "$want" ] && [ "$got" = "$want" ]; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
                echo "$model as $kind, $picture: $got, from the directory $want"
            fi
        done
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
