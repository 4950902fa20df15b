#!/bin/sh
# Only src/model knows a model family: its names, its objects and its table stand in no other room's code.
# Comments may cite one as a source.  Image recipes are named after their processors, and GGUF, pre-tokenizers and chat
# forms have words of their own (the tokenizer kind "llama", the form "phi3"): those files may say them.  Another such
# word is marked on its line: /* not a family */.  "clip" is a verb that any room may use.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
[ -f src/model/family.def ] || exit 0
names=$(sed -nE 's/^PH_FAMILY\(([a-z0-9_]+)\).*/\1/p' src/model/family.def | grep -vx clip | paste -sd'|' -)
# shellcheck disable=SC2046
awk -v names="$names" '
    FNR == 1 { in_comment = 0 }
    {
        line = $0
        if (line ~ /not a family/) next
        if (in_comment) { if (!sub(/^.*\*\//, "", line)) next; in_comment = 0 }
        gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
        if (sub(/\/\*.*/, "", line)) in_comment = 1
        text = tolower(line)
        if (text ~ "(^|[^a-z0-9_])(" names ")([^a-z0-9_]|$)" || line ~ /ph_family_|PH_FAMILY/) {
            print FILENAME ":" FNR ": names a model family outside src/model: " $0
            bad = 1
        }
    }
    END { exit bad }' $(find src -name '*.[ch]' -not -path 'src/model/*' -not -path 'src/image/recipe_*' -not -name '*gguf*' -not -name 'pretok.c' -not -name 'chat_builtin.c' | sort) /dev/null
