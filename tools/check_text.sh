#!/bin/bash
# What every text file of the project keeps: a final newline, no tabs but in makefiles, no blanks at line ends, no
# invisible characters, no carriage returns, no paths of one machine, no unfinished marks.  Golden data is exempt:
# it is what its maker wrote.
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() { # what, files and lines
    [ -z "$2" ] && return
    printf '%s:\n%s\n' "$1" "$2" | head -20
    bad=1
}
mapfile -t files < <(tools/files.sh | grep -vE '^(tests/golden|models|examples/.*\.(png|jpe?g|webp|json)$)' |
    while IFS= read -r f; do grep -qI . "$f" && printf '%s\n' "$f"; done)
mapfile -t no_make < <(printf '%s\n' "${files[@]}" | grep -vE '(^|/)Makefile$|\.mk$')
export LC_ALL=C.UTF-8
complain "no newline at the end" "$(for f in "${files[@]}"; do [ -z "$(tail -c1 "$f")" ] || echo "$f"; done)"
complain "tab" "$(grep -nP '\t' "${no_make[@]}")"
complain "blank at the end of a line" "$(grep -nP '[ \t]$' "${files[@]}")"
complain "carriage return" "$(grep -lP '\r' "${files[@]}")"
complain "invisible character" \
    "$(grep -nP '[\x{00A0}\x{00AD}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{FEFF}]' "${files[@]}")"
complain "path of one machine" "$(grep -nE '(^|[^A-Za-z0-9._-])/(work|root|home)/[a-z]' "${files[@]}")"
complain "unfinished" "$(grep -nE '\b(TO''DO|FIX''ME|X''XX)\b' "${files[@]}")"
complain "larger than 1 MB" "$(find "${files[@]}" -size +1024k)"
exit $bad
