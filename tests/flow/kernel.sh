#!/bin/bash
# `ph-kernel` and bench/kernels.py: what they print, and what is refused.  No time is asserted.
root=$PWD
PH_KERNEL=$(realpath -m "${BUILD:-build}")/ph-kernel
export PH_KERNEL
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work" || exit 1
. "$root/tests/flow/expects.bash"
command=("$PH_KERNEL")

expect 0 '^\{"ms": \[[0-9.]+\], "operations": 6144, "weight_bytes": 1728, ' "linear" linear --cols 3 -k 512 --copies 2 --rounds 1 -t 1
expect 0 '"operations": 90, ' "an odd k" linear --type f32 --rows 3 --cols 5 -k 3 --copies 1 --rounds 1 --norm --unfused
expect 0 '^\{"fused_ns": .*"ratio": ' "headnorm" headnorm -d 17 --heads 3 --rows 2 --rounds 1 --pairs
expect 2 'nothing: linear or headnorm' "no work"
expect 2 'nix: linear or headnorm' "another work" nix
expect 2 '--nix: no such option' "another option" linear --nix 3
for size in --rows --cols -k --copies -d --heads -t --rounds; do
    expect 2 "$size 0: a number from 1 to [0-9]+ is wanted" "$size 0" linear $size 0
done
expect 2 '--rows : a number' "no number" linear --rows
expect 2 '--rows 3x: a number' "more than a number" linear --rows 3x
expect 2 '--rounds 102: a number from 1 to 101 ' "rounds" linear --rounds 102
expect 2 '-t 1025: a number from 1 to 1024 ' "threads" linear -t 1025
expect 2 '--type nix: a stored type' "a type" linear --type nix
expect 2 '--type I32: numbers cannot be packed' "a type of no weights" linear --type i32
expect 2 '-k 33: Q4_0 stands in blocks of 32' "half a block" linear -k 33
expect 2 'more than 2\^28 numbers' "heads whose number has no room" headnorm -d 16777216 --heads 16777216 --rows 65536

command=(python3 "$root/bench/kernels.py")
expect 2 '0: a number from 1 to 1024' "no rounds" --rounds 0
expect 2 'x: a number from 1 to 1024' "threads of no number" -t x
PH_KERNEL=nosuch expect 1 'nosuch is not there: make build/ph-kernel' "no program"
unset GGML_INCLUDE GGML_LIB
expect 77 'GGML_INCLUDE is not set' "nothing to measure with" --only step

echo "$passed passed, $failed failed"
[ $failed = 0 ]
