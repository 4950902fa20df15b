#!/bin/sh
# Lists the project's files, one a line: those that git knows or would add, or, in a tarball, all but build folders.
# Arguments are handed to grep -E: `files.sh '\.[ch]$'`.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
{ git ls-files -co --exclude-standard 2>/dev/null || find . -type f -not -path './build*' -not -path './.git/*' | sed 's|^\./||'; } |
    sort -u | grep -E "${1:-.}" | while IFS= read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done
exit 0
