# says.bash - for scripts of this folder that look at what commands say: sourced, not run.
# Sets D (a folder that goes when the script ends) and the counts.
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
ok() { # NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name: FAILED"
    fi
}
fails() { # STATUS WORDS COMMAND...: one message that holds the words, and no result
    local want=$1 words=$2 rc
    shift 2
    "$@" > "$D/out" 2> "$D/err"
    rc=$?
    [ $rc = "$want" ] && [ ! -s "$D/out" ] && [ "$(grep -c '^pinhole' "$D/err")" = 1 ] && grep -qF -- "$words" "$D/err" && return
    echo "status $rc, wanted $want with '$words':"
    cat "$D/out" "$D/err"
    return 1
}
