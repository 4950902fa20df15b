#!/bin/bash
# tools/test.sh: a word that stands in no step's name is told, with the names that there are.
cd "$(dirname "$0")/../.." || exit 1
. tests/flow/says.bash
unset ROOMS
steps() { BUILD=$D/build tools/test.sh "$@" > "$D/out" 2>&1; }
steps nosuchstep
ok "a word of no step: status" test $? = 1
ok "which is told" grep -qx "no step has 'nosuchstep' in its name; there are:" "$D/out"
ok "with those that there are" grep -qE '^    style-floors style-tables ' "$D/out"
ok "it sums up to nothing" grep -qx "0 passed, 1 failed" "$D/out"
steps style-names
ok "a step" test $? = 0
ok "which runs alone" test "$(grep -c 'passed, 0 failed' "$D/out")" = 2
ok "and nothing is told" test "$(grep -c 'no step' "$D/out")" = 0
steps style-names nosuchstep
ok "beside one that is there" test $? = 0
ok "it is told too" grep -qx "no step has 'nosuchstep' in its name; there are:" "$D/out"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
