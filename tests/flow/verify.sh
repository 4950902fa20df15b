#!/bin/bash
# The reference cases of the repository hold: as they are, in small chunks, on one worker, with every instruction set.
cd "$(dirname "$0")/../.." || exit 1
V="${PINHOLE:-build/pinhole} verify"
passed=0 failed=0
out=$(mktemp)
trap 'rm -f "$out" "$out.fused"' EXIT

# least number of cases that must pass, then what to run
holds() {
    least=$1 && shift
    "$@" > "$out" 2>&1
    rc=$?
    n=$(tail -n 1 "$out" | sed -nE 's/^([0-9]+) passed, 0 failed, [0-9]+ skipped$/\1/p')
    if [ $rc = 0 ] && [ "${n:-0}" -ge "$least" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "exit $rc, at least $least should pass: $*"
        grep -E '^FAILED|passed' "$out" | head -n 20
    fi
}

holds 110 $V --tight tests/golden/set
holds 282 $V tests/golden/onnx
holds 96 $V -t 3 tests/golden/set/onnx
holds 72 $V tests/golden/chat
holds 40 $V tests/golden/tokenizers
holds 20 $V --tight --chunk 16 -t 1 tests/golden/set/models
holds 20 $V --tight --chunk 1 -t 4 tests/golden/set/models
holds 20 $V --kv f16 tests/golden/set/models
holds 6 $V tests/golden/set/models/vlm_idefics3/golden
holds 1 $V --filter vlm_llava15/scene tests/golden/set
# Joins are not to be seen: the same lines with the same figures.
one=tests/golden/set/models/vlm_llava15
holds 5 $V --unfuse all $one
$V $one > "$out.fused" && $V --unfuse all $one > "$out" && cmp -s "$out.fused" "$out" && passed=$((passed + 1)) ||
    { failed=$((failed + 1)) && echo "--unfuse all gives other figures" && diff "$out.fused" "$out" | head -n 4; }
for isa in ref avx2 avx512 neon; do
    # An instruction set that this processor lacks is refused, not replaced.
    PINHOLE_ISA=$isa $V tests/golden/chat > "$out" 2>&1
    grep -q "PINHOLE_ISA=$isa" "$out" || holds 20 env PINHOLE_ISA=$isa $V --tight tests/golden/set/models
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
