#!/bin/bash
# --plugin: the example's operator in ONNX files, beside pinhole's own and spelled out in ONNX's; models without their plug-in;
# plug-ins that are none or wrong.
cd "$(dirname "$0")/../.." || exit 1
. tests/flow/models.bash
golden=tests/golden/plugin
plugin=$D/adapter.so
expect() { # STATUS PATTERN WHAT COMMAND...
    local want=$1 pattern=$2 what=$3 rc
    shift 3
    "$@" > "$D/out" 2>&1
    rc=$?
    if [ $rc = "$want" ] && grep -Eq -- "$pattern" "$D/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$what: exit $rc instead of $want, or not '$pattern':"
        head -n 6 "$D/out"
    fi
}
make_so() { # FILE SOURCE [CASE]
    "${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -Iinclude -DCASE="${3:-0}" -o "$1" "$2"
}
hostile() { # CASE FILE
    make_so "$2" tests/plugin/hostile.c "$1"
}
ok "the example builds with its header alone" make --no-print-directory -s -C examples/plugin INCLUDE="-I$PWD/include" OUT="$plugin" CFLAGS="-O2 -Wall -Wextra -Werror -pedantic"

# ---- the same numbers as pinhole's own operator, and as ONNX's spelled out
expect 0 '^5 passed, 0 failed, 0 skipped' "verify" "$P" verify $golden --plugin "$plugin"
expect 0 '^5 passed, 0 failed, 0 skipped' "verify, a name alone is a file of this folder" bash -c "cd '$D' && '$(realpath "$P")' verify '$PWD/$golden' --plugin adapter.so"
expect 1 '^2 passed, 3 failed' "verify without it" "$P" verify $golden
expect 1 'op user: there is no operator AdapterDispatch of domain com.acme: a plug-in that brings it is given with --plugin; at node .adapter. \(AdapterDispatch\)' "what is missing" "$P" verify $golden
if "$P" inspect --engines | grep -qE '^  ort +here '; then
    expect 0 '^1 passed, 0 failed, 4 skipped' "on ONNX Runtime" "$P" verify $golden --plugin "$plugin" --engine ort
    expect 0 'op user: com.acme::AdapterDispatch is of plug-in acme: native runs it, ONNX Runtime does not' "said plainly" "$P" verify $golden --plugin "$plugin" --engine ort
    expect 0 '^ok +plugin/op spelled +y, native against ort' "one held to the other" "$P" verify $golden --plugin "$plugin" --against ort
else
    echo "on ONNX Runtime: skipped, it is not here (make ort)"
fi

# ---- what is said of it
user=$golden/ops/user.onnx
expect 0 'plug-in +acme: com.acme::AdapterDispatch since version 1, 1 node' "inspect" "$P" inspect $user --plugin "$plugin"
expect 0 '"runs":true.*"plugin_nodes":\{"com.acme::AdapterDispatch":1\}' "its JSON" "$P" inspect --json $user --plugin "$plugin"
expect 0 'com.acme::AdapterDispatch' "its graph" "$P" inspect --dot $user --plugin "$plugin"
expect 3 'with --plugin' "inspect without it" "$P" inspect $user
expect 0 "'batch', planned as 7" "dynamic axes" "$P" inspect $golden/ops/batch.onnx --plugin "$plugin" --axis batch=7,time=4
expect 0 'acme +1.0, .*adapter.so' "listed" "$P" inspect --engines --plugin "$plugin"
expect 0 '"plugins":\[\{"name":"acme","version":"1.0","path":"[^"]*","operators":\[\{"domain":"com.acme","name":"AdapterDispatch","since":1,"inputs":\[4,4\],"outputs":\[1,1\],"flags":\["pure","threads"\]\}\]\}\]' "listed in JSON" "$P" inspect --engines --json --plugin "$plugin"
expect 0 '^deployable' "check" "$P" check $user --plugin "$plugin"
expect 0 'engine native runs it; ort and openvino do not' "check, which engine" "$P" check $user --plugin "$plugin"
expect 0 '"deployable":true.*"code":"plugin","node":"adapter","message":"com.acme::AdapterDispatch is of plug-in acme .*"fatal":false' "its JSON" "$P" check --json $user --plugin "$plugin"
expect 1 'no operator AdapterDispatch of domain com.acme: a plug-in that brings it is given with --plugin  \[adapter\]' "check without it" "$P" check $user

# ---- written as ONNX, under its own domain
expect 0 'batch.onnx: onnx, [0-9]+ nodes' "convert" "$P" convert $golden/ops/batch.onnx -o "$D/batch.onnx" --to onnx --opset 21 --plugin "$plugin"
expect 0 'ai.onnx 21, com.acme 1' "its opsets" "$P" inspect "$D/batch.onnx" --plugin "$plugin"
cp -r $golden "$D/again" && chmod -R u+w "$D/again" && mv "$D/batch.onnx" "$D/again/ops/batch.onnx"
expect 0 '^5 passed' "and its numbers" "$P" verify "$D/again" --plugin "$plugin"
expect 3 'with --plugin' "convert without it" "$P" convert $user -o "$D/x.onnx" --to onnx
expect 2 'go with --to onnx' "to another format" "$P" convert $user -o "$D/x.gguf" --to gguf --plugin "$plugin"
expect 2 'is no ONNX file: --plugin is for' "of another model" "$P" convert models/panel-vlm -o "$D/x" --to onnx --part vision --plugin "$plugin"
expect 2 '^pinhole inspect: --plugin is for ONNX files' "inspect of another model" "$P" inspect models/panel-vlm --plugin "$plugin"
expect 2 'not with --known' "with --known" "$P" inspect --known --plugin "$plugin"

# ---- two versions of a domain in one model, and names that begin alike
versions=$golden/versions.onnx
hostile 13 "$D/h13.so"
expect 0 'hostile: com.acme::AdapterDispatch since version 1, 1 node' "the old one" "$P" inspect $versions --plugin "$D/h13.so"
expect 0 'hostile: com.acme::AdapterDispatch since version 3, 1 node' "the new one" "$P" inspect $versions --plugin "$D/h13.so"
expect 0 '"plugin_nodes":\{"com.acme::AdapterDispatch":2,"com.acme::AdapterDispatchMore":1\}' "counted together" "$P" inspect --json $versions --plugin "$D/h13.so"
expect 0 'com.acme::AdapterDispatch is of plug-in hostile' "check, the shorter name" "$P" check $versions --plugin "$D/h13.so"
expect 0 'com.acme::AdapterDispatchMore is of plug-in hostile' "check, the longer name" "$P" check $versions --plugin "$D/h13.so"
expect 3 'node .* is com.acme::AdapterDispatch since version 1; a model imports one version of a domain, here 3 for node .*, and there it would be the operator since version 3' "convert" "$P" convert $versions -o "$D/x.onnx" --to onnx --plugin "$D/h13.so"

# ---- plug-ins that are none, or wrong
none() { # STATUS PATTERN WHAT FILE: every command that takes it says so
    expect "$1" "$2" "$3: inspect" "$P" inspect $user --plugin "$4"
    expect "$1" "$2" "$3: check" "$P" check $user --plugin "$4"
    expect "$1" "$2" "$3: verify" "$P" verify $golden --plugin "$4"
    expect "$1" "$2" "$3: convert" "$P" convert $user -o "$D/x.onnx" --to onnx --plugin "$4"
    expect "$1" "$2" "$3: list" "$P" inspect --engines --plugin "$4"
}
none 3 '^pinhole [a-z]+: plug-in .*/none.so: there is no such file' "no file" "$D/none.so"
none 3 '^pinhole [a-z]+: plug-in .*: it is no regular file' "a folder" "$D"
echo text > "$D/text.so"
none 4 '^pinhole [a-z]+: .*text.so cannot be loaded as a plug-in \(.*\): build it as a shared library' "a text" "$D/text.so"
head -c 4500 "$plugin" > "$D/cut.so"
none 4 '^pinhole [a-z]+: .*cut.so is a library that was cut short: it has 4500 bytes' "cut" "$D/cut.so"
hostile 1 "$D/h1.so" && none 3 'h1.so is a library without the function pinhole_operators' "no entry" "$D/h1.so"
hostile 2 "$D/h2.so" && none 3 'h2.so has version 2 of the interface, this pinhole has 1' "another ABI" "$D/h2.so"
hostile 3 "$D/h3.so" && none 3 'h3.so: pinhole_operators gave no table' "no table" "$D/h3.so"
hostile 4 "$D/h4.so" && none 3 'h4.so: operator 0 has no name' "no name" "$D/h4.so"
hostile 9 "$D/h9.so" && none 3 'com.microsoft::AdapterDispatch: operators of ai.onnx, com.microsoft and pinhole are not for plug-ins' "a domain of others" "$D/h9.so"
hostile 10 "$D/h10.so" && none 3 'has 1 to 1000 outputs: at least 1, at most 64' "outputs" "$D/h10.so"
hostile 11 "$D/h11.so" && none 3 "com.acme::AdapterDispatch has no function 'eval'" "no function" "$D/h11.so"
bad_shape() { # CASE PATTERN WHAT
    hostile "$1" "$D/h.so"
    expect 3 "$2" "$3" "$P" inspect $user --plugin "$D/h.so"
    expect 3 "at node 'adapter' \(AdapterDispatch\)" "$3: where" "$P" inspect $user --plugin "$D/h.so"
    expect 1 "$2" "$3: check" "$P" check $user --plugin "$D/h.so"
}
bad_shape 5 'com.acme::AdapterDispatch \(plug-in hostile\): infer gives output 0 the dimension -3' "a negative dimension"
bad_shape 6 'infer gives output 0 the rank 9: 0 to 8' "a rank"
bad_shape 7 'a shape of 2\^60 elements or more' "too many elements"
bad_shape 8 'com.acme::AdapterDispatch \(plug-in hostile\): rows of 24 are not done' "what infer says"
hostile 12 "$D/h12.so"
expect 0 'plug-in +hostile' "sound but for eval" "$P" inspect $user --plugin "$D/h12.so"
expect 1 'op user: com.acme::AdapterDispatch \(plug-in hostile\): row 2 holds the number 0.5; while evaluating z' "eval that fails" "$P" verify $golden --plugin "$D/h12.so"
expect 3 'com.acme::AdapterDispatch since version 1 is in plug-in .*h12.so.* and in plug-in .*adapter.so: one may have it' "two with one operator" "$P" inspect $user --plugin "$D/h12.so" --plugin "$plugin"
expect 2 '--plugin wants an argument' "no argument" "$P" check $user --plugin
expect 2 "no option '--plugin'" "a command that reads no ONNX models" "$P" run --plugin "$plugin" -p hi
rm "$D"/*.so
echo "$passed passed, $failed failed"
[ $failed = 0 ]
