#!/bin/sh
# doc_adr.sh [--check]: docs/adr/README.md, the index of decisions by number, from the first lines of their pages; with
# --check, fails when the file there is another one.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
page() {
    cat <<'END'
# Decisions

A page each: context, decision, consequences with what is given up, and what would change our mind. A decision is not edited once it is taken,
only superseded. Numbers are unique; gaps between them mean nothing (each room began at a number of its own). `tools/doc_adr.sh` writes this page.

| number | decision |
| --- | --- |
END
    for f in docs/adr/[0-9]*.md; do
        name=${f##*/}
        title=$(sed -nE '1 s/^# *[0-9]+[.:]? *//p' "$f")
        rest=${title#?}
        printf '| [%s](%s) | %s%s |\n' "${name%%-*}" "$name" "$(printf '%s' "${title%"$rest"}" | tr '[:lower:]' '[:upper:]')" "$rest"
    done
}
if [ "${1:-}" != --check ]; then
    page > docs/adr/README.md
    exit
fi
page | cmp -s - docs/adr/README.md || {
    echo "docs/adr/README.md is not what tools/doc_adr.sh makes: run tools/doc_adr.sh"
    exit 1
}
