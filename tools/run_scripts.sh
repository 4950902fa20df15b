#!/bin/bash
# Runs each FOLDER/*.sh, one after another, and sums up: a script's own last line "N passed, M failed" counts if it
# prints one; otherwise the script is one test, and its exit status the verdict.  Exit 77: skipped.
# The command under test is in $PINHOLE.  With a second argument, only scripts whose name holds it.
cd "$(dirname "$0")/.." || exit 1
folder=$1 pick=${2:-}
passed=0 failed=0 skipped=0
shopt -s nullglob
for script in "$folder"/*.sh; do
    case $(basename "$script") in
        _*) continue ;; # helpers that the others read
        *"$pick"*) ;;
        *) continue ;;
    esac
    out=$(timeout "${SCRIPT_SECONDS:-600}" bash "$script" 2>&1)
    rc=$?
    sum=$(printf '%s\n' "$out" | tail -n 1 | grep -E '^[0-9]+ passed, [0-9]+ failed')
    if [ $rc = 77 ]; then
        skipped=$((skipped + 1)) verdict="skipped: $(printf '%s\n' "$out" | tail -n 1)"
    elif [ -n "$sum" ]; then
        p=${sum%% *} f=$(printf '%s' "$sum" | sed -E 's/.*, ([0-9]+) failed.*/\1/')
        [ $rc = 0 ] || [ "$f" -gt 0 ] || f=1
        passed=$((passed + p)) failed=$((failed + f)) verdict="$p passed, $f failed"
    elif [ $rc = 0 ]; then
        passed=$((passed + 1)) verdict=ok f=0
    else
        failed=$((failed + 1)) verdict="FAILED ($rc)" f=1
    fi
    printf '%-40s %s\n' "$script" "$verdict"
    [ $rc = 0 ] || [ $rc = 77 ] || printf '%s\n' "$out" | tail -n 40 | sed 's/^/    /'
done
[ $skipped = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
