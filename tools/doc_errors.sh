#!/bin/sh
# doc_errors.sh [--check]: docs/reference/errors.md, made from src/base/err.def on standard output; with --check, fails
# when the file there is another one.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
page() {
    cat << 'END'
# Errors

Made by `tools/doc_errors.sh` from `src/base/err.def`; `make check-style` fails when the two differ.

Every failure has one code, one message with its numbers and its place, and up to three notes that say what was being
done, innermost first. The command prints them to standard error and ends with the exit status; a server answers with the
HTTP status; the library fills a `pinhole_error` (`include/pinhole.h`). Codes and names are stable: logs and clients may
store them.

    $ pinhole run --image half.png -p "what is on the display?"
    pinhole run: the PNG data ends early, at byte 20000: the file is cut short
      while decoding a PNG picture of 448 x 448 from 20000 bytes
      in the picture half.png
      while at the stage 'decode'
    $ echo $?
    3

Exit statuses: 0 done, 1 the verdict is no, 2 wrong usage, 3 bad input, 4 the machine, 5 our own bug.

| name | code | HTTP | exit | meaning |
| --- | --- | --- | --- | --- |
| `OK` | 0 | 200 | 0 | done |
END
    sed -nE 's/^PH_ERR\(([A-Z]+), *(-[0-9]+), *([0-9]+), *([0-9]), *"(.*)"\)$/| `\1` | \2 | \3 | \4 | \5 |/p' src/base/err.def
}
if [ "${1:-}" != --check ]; then
    page
    exit
fi
# A row that the pattern above does not read would be left out in silence.
[ "$(page | grep -c '^| `E')" = "$(grep -c '^PH_ERR(' src/base/err.def)" ] || { echo "tools/doc_errors.sh misses rows of err.def" && exit 1; }
page | cmp -s - docs/reference/errors.md || {
    echo "docs/reference/errors.md is not what tools/doc_errors.sh makes: run tools/doc_errors.sh > docs/reference/errors.md"
    exit 1
}
# The public header lists the same codes.
sed -nE 's/^PH_ERR\(([A-Z]+), *(-[0-9]+),.*/\1 \2/p' src/base/err.def | while read -r name code; do
    grep -qE "^ *PINHOLE_$name = $code\b" include/pinhole.h || { echo "include/pinhole.h: no PINHOLE_$name = $code" && exit 1; }
done
