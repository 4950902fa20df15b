#!/bin/sh
# A linker version script on standard output: the functions that the public headers given declare, nothing else.
echo '{ global:'
for header in "$@"; do
    "${CC:-cc}" -fpreprocessed -dD -E -P "$header" | tr '\n' ' ' |
        grep -oE '\b(ph|pinhole)_[a-z0-9_]+ *\(' | tr -d ' (' | sed 's/.*/    &;/'
done | sort -u
# Without a public header there is no interface to hide behind: everything stays visible.
[ $# -gt 0 ] || echo '    *;'
[ $# -eq 0 ] || echo 'local: *;'
echo '};'
