#!/bin/bash
# mutate.sh [WORD]: would the tests notice?  Each line of tools/mutations.txt breaks one place in a copy of the tree and
# expects its test to turn red; a mutation that stays green is a test that is missing.  WORD picks lines.
# mutate.sh --check: only whether each line still changes its file.  Code moves, and a line that breaks nothing shows nothing.
# A line: file | sed expression | command.  The command runs in the copy, with $BUILD set.
cd "$(dirname "$0")/.." || exit 1
lines() { # [WORD]: of each line file, change and command, in lines of their own
    local file change command
    while IFS='|' read -r file change command; do
        read -r file <<< "$file"
        case $file in '' | '#'*) continue ;; esac
        change=$(sed -E 's/^ +| +$//g' <<< "$change") command=$(sed -E 's/^ +| +$//g' <<< "$command")
        [[ -z ${1:-} || "$file $change $command" == *$1* ]] && printf '%s\n' "$file" "$change" "$command"
    done < tools/mutations.txt
}
if [ "${1:-}" = --check ]; then
    n=0 failed=0
    while read -r file && read -r change && read -r command; do
        n=$((n + 1))
        if out=$(sed -E "$change" "$file" 2> /dev/null) && [ -n "$command" ]; then
            cmp -s "$file" <(printf '%s\n' "$out") || continue
        fi
        echo "tools/mutations.txt: changes nothing: $file | $change" && failed=1
    done < <(lines)
    [ $n -gt 0 ] || { echo "tools/mutations.txt: no line" && exit 1; }
    exit $failed
fi
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
export BUILD=$copy/build
tools/files.sh | tar -cf - -T - | tar -xf - -C "$copy"
passed=0 failed=0
while read -r file && read -r change && read -r command; do
    cp "$copy/$file" "$copy/before"
    if ! sed -i -E "$change" "$copy/$file" || cmp -s "$copy/before" "$copy/$file"; then
        verdict='CHANGES NOTHING' failed=$((failed + 1))
    elif (cd "$copy" && timeout 300 bash -c "$command") > "$copy/log" 2>&1 < /dev/null; then
        verdict='STAYED GREEN' failed=$((failed + 1))
    else
        verdict=red passed=$((passed + 1))
    fi
    printf '%-28s %-60s %s\n' "$file" "$change" "$verdict"
    cp "$copy/before" "$copy/$file" && touch "$copy/$file"
done < <(lines "${1:-}")
echo "$passed passed, $failed failed"
[ $((passed + failed)) -gt 0 ] && [ $failed = 0 ]
