#!/bin/bash
# fuzz.sh SECONDS TARGET...: each target for SECONDS, from the seed folder that its first comment names, with new finds
# in a scratch corpus; then the seeds and the corpus once more, at full length.  Crashes land in $BUILD/crash-TARGET-*:
# look at one, and move it by hand into the golden folder with its row.
# SECONDS 0 replays only.
cd "$(dirname "$0")/.." || exit 1
seconds=$1
shift
: "${BUILD:=build}" "${JOBS:=2}"

one() { # target, seconds
    local target=$1 seconds=$2 seeds corpus log ran=0
    corpus=$BUILD/corpus/$target log=$BUILD/corpus/$target.log
    mkdir -p "$corpus"
    # One comment may name several folders.
    seeds=$(sed -nE 's|^/\* seeds: (.*[^ ]) *\*/.*|\1|p' "tests/fuzz/$target.c" | head -n 1)
    local dirs=() d
    for d in $seeds; do [ -d "$d" ] && dirs+=("$d"); done
    : > "$log"
    if [ "$seconds" -gt 0 ]; then
        "$BUILD/$target" -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
            -artifact_prefix="$BUILD/crash-$target-" "$corpus" "${dirs[@]}" >> "$log" 2>&1 || {
            echo "$target: FAILED; $log ends:"
            tail -n 25 "$log" | sed 's/^/    /'
            return 1
        }
        ran=$(sed -nE 's/^stat::number_of_executed_units: *([0-9]+)/\1/p' "$log" | tail -n 1)
    fi
    "$BUILD/$target" -runs=0 -rss_limit_mb=2048 -timeout=10 -artifact_prefix="$BUILD/crash-$target-" "$corpus" "${dirs[@]}" \
        >> "$log" 2>&1 || {
        echo "$target: FAILED on replay; $log ends:"
        tail -n 25 "$log" | sed 's/^/    /'
        return 1
    }
    echo "$target: ok, ${ran:-0} inputs, $(find "$corpus" "${dirs[@]}" -type f | wc -l) kept or seeds"
}
export -f one
export BUILD

[ $# -gt 0 ] || { echo "no fuzz targets"; exit 0; }
out=$(printf '%s\n' "$@" | xargs -P "$JOBS" -I{} bash -c 'one {} '"$seconds")
printf '%s\n' "$out"
passed=$(printf '%s\n' "$out" | grep -c '^fuzz_[a-z0-9_]*: ok,')
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" = $# ]
