#!/bin/bash
# The library within a program that has set a locale in which 0.5 is "0,5": what it writes into files and reads there
# stays as it is.  Tests of several rooms are run once more, in a locale that is made for them here.
: "${BUILD:=build}"
. "$(dirname "$0")/says.bash"
skip() { # WHY
    echo "$1"
    exit 77
}
command -v localedef > /dev/null || skip "no localedef to make a locale with"
localedef -i de_DE -f UTF-8 "$D/de_DE.UTF-8" > "$D/log" 2>&1 || [ -d "$D/de_DE.UTF-8" ] || skip "localedef has no de_DE: $(head -1 "$D/log")"
export LOCPATH=$D
comma() { # ROOM NAMES...
    local room=$1 rc
    shift
    [ -x "$BUILD/unit-$room" ] || skip "no $BUILD/unit-$room: make unit-programs"
    UT_LOCALE=de_DE.UTF-8 "$BUILD/unit-$room" "$@" > "$D/out" 2>&1
    rc=$?
    [ $rc = 0 ] || grep -vE ' ok$' "$D/out"
    return $rc
}
ok "a locale without a comma is told of" bash -c '! UT_LOCALE=C "$1/unit-base" plain > /dev/null' - "$BUILD"
ok "numbers, messages, the log" comma base plain err log mem
ok "ONNX files, fingerprints" comma graph onnx fingerprint
ok "chat forms" comma text jinja
ok "JSON, SVG, figures" comma measure profile memory bench golden
ok "checkpoints and their configurations" comma model
echo "$passed passed, $failed failed"
[ $failed = 0 ]
