#!/bin/bash
# Applies .clang-format to the C files, or with --check says which differ.  Versions of clang-format disagree among
# themselves: only 14 decides.
cd "$(dirname "$0")/.." || exit 1
tool=
for t in clang-format-14 clang-format; do
    if command -v "$t" > /dev/null && "$t" --version | grep -q 'version 14\.'; then tool=$t && break; fi
done
if [ -z "$tool" ]; then
    echo "clang-format 14 is not here: the format stays unchecked" >&2
    [ "$1" = --check ]
    exit
fi
mapfile -t files < <(tools/files.sh '^(src|include|tests|examples|bench)/.*\.[ch]$' | grep -v '^tests/golden/')
[ ${#files[@]} -gt 0 ] || exit 0
if [ "$1" = --check ]; then
    out=$("$tool" --dry-run -Werror "${files[@]}" 2>&1) && exit 0
    printf '%s\n' "$out" | sed -nE 's/^([^ :]+):([0-9]+):.*/\1:\2: not as make format would have it/p' | sort -t: -k1,1 -u
    exit 1
fi
"$tool" -i "${files[@]}"
