# expects.bash - for scripts of this folder that stand in a folder of their own and look at what is printed: sourced, not run.
# `command` is what they try, with what always comes first.  What it printed last is in out and err.
passed=0 failed=0
expect() { # STATUS, pattern in what it prints, what, arguments...
    local want=$1 pattern=$2 what=$3 rc
    shift 3
    "${command[@]}" "$@" > out 2> err
    rc=$?
    if [ $rc = "$want" ] && cat out err | grep -qE -e "$pattern"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$what: exit $rc, wanted $want and '$pattern'" && cat out err | head -n 12
    fi
}
holds() { # what, command...: it may look at out and err
    local what=$1
    shift
    if "$@" > held 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "$what:" && head -n 5 held; fi
}
