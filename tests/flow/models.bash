# models.bash - for scripts of this folder that make models and look at what they say: sourced, not run.
# Sets P (the program), D (a folder that goes when the script ends) and the counts.
P=${PINHOLE:-build/pinhole}
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
ok() { # NAME COMMAND...: what it printed is in $D/out
    local name=$1
    shift
    if "$@" > "$D/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name: $(tail -n 3 "$D/out")"
    fi
}
same() { [ -n "$1" ] && [ "$1" = "$2" ]; }
planned() { # the plan of a small model keeps within 2 MB of what the kernel measured, as tests/flow/memory.sh has it
    local json predicted measured
    [ -z "${PINHOLE_ASAN:-}" ] || return 0 # a sanitizer's own memory hides the program's
    json=$("$P" run --json -n 8 --ignore-eos -p "What is in the image?" "$@" 2> "$D/err")
    predicted=$(sed -nE 's/.*"predicted":([0-9]+).*/\1/p' <<< "$json") measured=$(sed -nE 's/.*"measured":([0-9]+).*/\1/p' <<< "$json")
    echo "predicted $predicted, measured $measured"
    [ -n "$predicted" ] && [ $((measured - predicted)) -le 2000000 ] && [ $((predicted - measured)) -le 2000000 ]
}
