#!/bin/bash
# Runs each FOLDER/*.sh and sums up: a script's own last line "N passed, M failed" counts if it prints one; otherwise the script is one test, and its exit status the verdict.  Exit 77: skipped.
# The command under test is in $PINHOLE.  With a second argument, only scripts whose name holds it.  $JOBS scripts run at
# a time (1), and are told of in the order of their names.
cd "$(dirname "$0")/.." || exit 1
folder=$1 pick=${2:-}
passed=0 failed=0 skipped=0 scripts=()
shopt -s nullglob
for script in "$folder"/*.sh; do
    case $(basename "$script") in
        _*) ;; # helpers that the others read
        *"$pick"*) scripts+=("$script") ;;
    esac
done
[ ${#scripts[@]} -gt 0 ] || { echo "0 passed, 0 failed"; exit 0; }
results=$(mktemp -d)
export results
trap 'rm -rf "$results"' EXIT
# The largest first: a long one that began last would be waited for alone.
wc -c "${scripts[@]}" | grep -v ' total$' | sort -rn | awk '{print $2}' | xargs -P "${JOBS:-1}" -I{} bash -c '
    name=$(basename {})
    timeout "${SCRIPT_SECONDS:-600}" bash {} > "$results/$name.out" 2>&1
    echo $? > "$results/$name.rc"'
for script in "${scripts[@]}"; do
    name=$(basename "$script")
    out=$(cat "$results/$name.out")
    rc=$(cat "$results/$name.rc")
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
