#!/bin/bash
# pinhole check and inspect of ONNX files: verdicts, exit statuses, and what their JSON holds.
cd "$(dirname "$0")/../.." || exit 1
P="${PINHOLE:-build/pinhole}"
onnx=tests/golden/set/onnx
passed=0 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

expect() { # EXIT PATTERN what, then the command
    want=$1 pattern=$2 what=$3
    shift 3
    "$@" > "$out" 2>&1
    rc=$?
    if [ $rc = "$want" ] && grep -Eq -- "$pattern" "$out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$what: exit $rc instead of $want, or not '$pattern':"
        head -n 5 "$out"
    fi
}

expect 0 '^deployable' "a sound model" $P check $onnx/good/clip_vision.onnx
expect 0 '"modality":"vision".*"problems":\[\],"axes":\["batch"\]' "its JSON" $P check --json $onnx/good/clip_vision.onnx
expect 1 '"code":"operator","node":"Y","message":"there is no operator FancyGelu of domain com.example: a plug-in that brings it is given with --plugin"' "a missing operator" \
    $P check --json $onnx/bad/custom_domain_op.onnx
expect 1 "no attribute 'axes' in opset 17" "forms of two opsets" $P check $onnx/bad/opset_subgraph_forms_mixed.onnx
expect 1 'opset 17 and opset 13' "an opset twice" $P check $onnx/bad/opset_duplicate_domain.onnx
expect 1 'static_axis' "axes that are numbers" $P check --json $onnx/bad/opset_subgraph_forms_mixed.onnx
expect 1 'opset_mismatch.*ReduceMean has another form there' "opsets that cannot be brought together" \
    $P check --json $onnx/ops/reducemean_attr_axes.onnx $onnx/ops/resize_linear_antialias18.onnx
expect 0 'every operator of this part is the same there' "opsets that can" $P check $onnx/ops/erf.onnx $onnx/ops/gelu20_erf.onnx
expect 3 'damaged or cut short' "a file that cannot be read" $P check $onnx/good/clip_vision.onnx $onnx/bad/garbage.onnx
expect 3 'no such file|No such file' "a file that is not there" $P check $onnx/none.onnx
expect 2 'one or more ONNX files' "no file" $P check
# What is no ONNX file is told from one that is damaged, and of several files it is said which.
expect 3 'good is a folder, and check takes files: name its \.onnx files' "a folder" $P check $onnx/good
expect 3 'llava\.bundle is of kind GGUF, and check takes ONNX files' "another kind of file" $P check tests/golden/bundle/llava.bundle
expect 3 'while reading examples/panel1\.png as ONNX' "a picture" $P check $onnx/good/clip_vision.onnx examples/panel1.png
expect 0 'input +pixel_values  float \[.*batch.*, 3, 56, 56\]' "inspect" $P inspect $onnx/good/clip_vision.onnx
expect 0 '"container":"onnx".*"runs":true.*"total":[0-9]+' "inspect's JSON" $P inspect --json $onnx/good/clip_vision.onnx
expect 0 "^  axis +'batch', planned as 7 \(--axis\); A in the graph$" "an axis" $P inspect $onnx/good/clip_vision.onnx --axis batch=7
expect 2 "no dynamic axis 'time'" "an axis that is not there" $P inspect $onnx/good/clip_vision.onnx --axis time=7
expect 1 'it does not fit' "too little memory" $P inspect $onnx/good/clip_vision.onnx --memory 1MB
expect 0 '^digraph' "the graph" $P inspect --dot $onnx/good/clip_vision.onnx
expect 3 'there is no operator FancyGelu' "a model that cannot be run" $P inspect $onnx/bad/custom_domain_op.onnx
expect 3 'damaged' "a broken file" $P inspect $onnx/bad/truncated_small.onnx
# Names are a stranger's bytes: an escape sequence in them stays text.
escape=$(mktemp --suffix=.onnx)
LC_ALL=C sed 's/pixel_values/pixel\x1b[31mue/g' $onnx/good/clip_vision.onnx > "$escape"
for command in inspect check "inspect --dot"; do
    expect 0 'pixel|deployable' "$command" $P $command "$escape"
    if grep -qa $'\x1b' "$out"; then
        failed=$((failed + 1))
        echo "$command: sends an escape to the terminal"
    else
        passed=$((passed + 1))
    fi
done
rm -f "$escape"
# What convert writes of one model is deployable together: visual tokens are flattened where rows are taken.
parts=$(mktemp -d)
trap 'rm -rf "$out" "$parts"' EXIT
set=tests/golden/set/models
for model in models/panel-vlm $set/vlm_llava15 $set/vlm_idefics3 $set/vlm_blip2; do
    to=$parts/$(basename $model)
    expect 0 language "$model as ONNX" $P convert $model -o "$to" --to onnx --part all
    expect 0 "^deployable" "the parts of $model" $P check "$to/vision.onnx" "$to/bridge.onnx" "$to/language.onnx"
    expect 0 "^  note +output 'visual': flatten \[I, [0-9]+, [0-9]+\] to \[V, [0-9]+\] for .*language.onnx" "its seam" \
        $P check "$to/vision.onnx" "$to/bridge.onnx" "$to/language.onnx"
    expect 0 '"code":"seam","node":"visual","message":"[^"]*flatten[^"]*","fatal":false' "its seam's JSON" \
        $P check --json "$to/language.onnx" "$to/bridge.onnx"
done
expect 0 language "packed patches as ONNX" $P convert $set/vlm_qwen2vl -o "$parts/qwen2vl" --to onnx --part all
expect 0 "^deployable" "rows to rows" $P check "$parts/qwen2vl/bridge.onnx" "$parts/qwen2vl/language.onnx"
expect 1 "PROBLEM .*'visual' is \[I, 16, 64\], and .*takes \[V, 256\]" "another model's language part" \
    $P check "$parts/vlm_llava15/bridge.onnx" "$parts/panel-vlm/language.onnx"
# A language part's shapes are sums that no symbol holds: its axes and its node are named all the same, as the file does.
language=$parts/panel-vlm/language.onnx
expect 0 '"axes":\["B","T","V","S","P"\]' "axes of a language part" $P check --json "$language"
expect 0 '^  dynamic axis P$' "the same as text" $P check "$language"
expect 0 '"code":"symbols","node":"present.0.key","message":"[^"]*shapes \[B, 2, P, 64\] and \[B, 2, T, 64\]: Concat' "where symbols end" \
    $P check --json "$language"
expect 1 '"code":"model","node":"Y","message":"shapes \[batch, 4\] and \[2, 5\].*"axes":\["batch"\]' "a model that cannot be imported" \
    $P check --json $onnx/bad/shape_mismatch.onnx
expect 3 '"axes":\{"batch":1\}.*"runs":false' "nor be inspected" $P inspect --json $onnx/bad/shape_mismatch.onnx
expect 0 '"axes":\{"B":1,"T":3,"V":1,"S":1,"P":2\}' "their numbers" $P inspect --json "$language" --axis T=3,P=2
expect 0 "^  axis +'T', planned as 3 \(--axis\)" "the same as text" $P inspect "$language" --axis T=3,P=2
expect 2 "no dynamic axis 'Q': its axes are B, T, V, S and P$" "an axis that it has not" $P inspect "$language" --axis T=3,Q=16
expect 2 "no dynamic axis 'Q': its axes are I$" "nor has a vision part" $P inspect "$parts/panel-vlm/vision.onnx" --axis Q=16
expect 2 "two numbers for 'T', 3 and 4" "an axis twice" $P inspect "$language" --axis T=3,B=1,T=4
h=tests/golden/onnx/hostile
expect 0 '^deployable' "a quotient that does not fit" $P check $h/quotient.onnx
expect 0 '^deployable' "sums that do not fit" $P check $h/sums.onnx
expect 1 'qkv_hidden_sizes .* of a weight with 3 columns' "widths of nobody" $P check $h/widths.onnx
expect 1 'there is no operator Foo of domain d:' "an operator whose name ends another's" $P check --json $h/suffix.onnx
expect 0 '"bad.+":1,"good":1' "a domain that is no UTF-8" $P check --json $h/domain.onnx
expect 0 '"bad.+":1,"good":1' "the same in inspect" $P inspect --json $h/domain.onnx
expect 0 'note +and [0-9]+ more' "more notes than are kept" $P check $h/notes.onnx
expect 1 'PROBLEM +there is no operator Foo' "a problem behind many notes" $P check $h/notes_and_one.onnx
$P check $h/notes.onnx > "$out"
if grep -q 'its sequence' "$out"; then
    failed=$((failed + 1))
    echo "heads of past keys are told as a sequence"
else
    passed=$((passed + 1))
fi
expect 1 "output 'y' is \[2, 64\], and .* takes \[9, 64\]: another shape" "an output by what is made" $P check $h/said.onnx $h/taken.onnx
expect 0 '"code":"output","node":"y","message":"output .y. is said to be \[9, 64\], and is made as \[2, 64\]","fatal":false' "an output that is said to be another" \
    $P check --json $h/said.onnx
expect 0 '"axes":\["[a-z_]+before","[a-z_]+behind"\]' "axes that begin alike" $P check --json $h/axes.onnx
expect 2 'for ONNX files' "--axis of another model" $P inspect --axis a=1
echo "$passed passed, $failed failed"
[ $failed = 0 ]
