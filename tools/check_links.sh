#!/bin/bash
# Relative links in Markdown files lead to files that are there; decisions have numbers of their own; the indexes of
# docs/howto, docs/adr and docs/models leave no page out, and every family has a page.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
bad=0
complain() {
    echo "$*"
    bad=1
}

# Links of a file, code blocks and spans left out: "[text](target)", without a title and what stands behind #.
links() {
    awk '/^ *```/ { code = !code; next } !code && !/^    / { gsub(/`[^`]*`/, ""); print }' "$1" |
        grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//; s/ ".*//'
}
heading() { # does a file have the heading that a link names?
    sed -nE 's/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g' | grep -qx -- "$2"
}
n=0
while IFS= read -r f; do
    folder=$(dirname "$f")
    while IFS= read -r link; do
        case $link in
            '' | http://* | https://* | mailto:*) continue ;;
            /*) complain "$f: $link is not relative" && continue ;;
        esac
        n=$((n + 1))
        path=${link%%#*}
        to=$f
        [ -z "$path" ] || to=$folder/$path
        [ -e "$to" ] || { complain "$f: $link leads nowhere" && continue; }
        case $link in *.md\#* | \#*) heading "$to" "${link#*#}" || complain "$f: $link: no such heading" ;; esac
    done < <(links "$f")
done < <(tools/files.sh '\.md$')
[ "$n" -gt 100 ] || complain "hardly a link was found: this check is broken"

twice=$(find docs/adr -name '[0-9]*.md' -printf '%f\n' | cut -c1-4 | sort | uniq -d)
[ -z "$twice" ] || complain "docs/adr: numbers that two decisions have: $twice"
for folder in docs/howto docs/adr docs/models; do
    for page in "$folder"/*.md; do
        name=$(basename "$page")
        [ "$name" = README.md ] || grep -qF "]($name)" "$folder/README.md" || complain "$folder/README.md leaves out $name (tools/doc_adr.sh writes that of docs/adr)"
    done
done
for family in $(sed -nE 's/^PH_FAMILY\(([a-z0-9_]+)\).*/\1/p' src/model/family.def); do
    [ -f "docs/models/$family.md" ] || complain "docs/models: no page of the family $family"
done
exit $bad
