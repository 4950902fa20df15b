#!/bin/bash
# mutate.sh [WORD]: would the tests notice?  Each line of tools/mutations.txt breaks one place in a copy of the tree and
# expects its test to turn red; a mutation that stays green is a test that is missing.  WORD picks lines.
# A line: file | sed expression | command.  The expression must change the file; the command runs in the copy, with
# $BUILD set.
cd "$(dirname "$0")/.." || exit 1
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
export BUILD=$copy/build
tools/files.sh | tar -cf - -T - | tar -xf - -C "$copy"
passed=0 failed=0
while IFS='|' read -r file change command; do
    file=$(echo $file) change=$(sed -E 's/^ +| +$//g' <<< "$change") command=$(sed -E 's/^ +| +$//g' <<< "$command")
    case $file in '' | '#'*) continue ;; esac
    [[ -z ${1:-} || "$file $change $command" == *$1* ]] || continue
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
done < tools/mutations.txt
echo "$passed passed, $failed failed"
[ $failed = 0 ]
