#!/bin/bash
# ONNX Runtime: what is said of libraries that are none or too old, and, where one is here (`make ort`), that it gives the
# stored outputs of the reference cases and the native engine's.
cd "$(dirname "$0")/../.." || exit 1
P=$(realpath "${PINHOLE:-build/pinhole}")
export PINHOLE_MODEL=models/panel-vlm # also for programs of other build folders
. tests/flow/says.bash

# ---- libraries that are none ----

fake() { # NAME RELEASE: a library that calls itself that, and has no API
    cat > "$D/fake.c" << END
static const void *table(unsigned version) { (void)version; return 0; }
static const char *release(void) { return $2; }
static const struct { const void *(*table)(unsigned); const char *(*release)(void); } base = {table, release};
const void *OrtGetApiBase(void);
const void *OrtGetApiBase(void) { return &base; }
END
    "${CC:-cc}" -shared -fPIC -o "$D/$1" "$D/fake.c"
}
absent() { # NAME PLACE WORDS: said by a command that needs it, and by the list, which is no failure
    ok "$1: verify" fails 4 "$3" env PINHOLE_ORT="$2" "$P" verify --engine ort tests/golden/set/onnx
    env PINHOLE_ORT="$2" "$P" inspect --engines > "$D/list" 2> "$D/err"
    ok "$1: list" test $? = 0 -a ! -s "$D/err"
    ok "$1: listed" grep -qE "^  ort +absent .*$4" "$D/list"
    ok "$1: native" grep -qE "^  native +here" "$D/list"
    ok "$1: a part of a model" stands_in "$2" "$3"
    ok "$1: json" bash -c "env PINHOLE_ORT='$2' '$P' inspect --engines --json | grep -qF '\"name\":\"ort\",\"is_here\":false,\"reason\":\"'"
}
# A part that was asked for on it: native answers, and says why, once; strictly, it is an error.
ask=(run --image examples/panel1.png -p "what is on the display?")
stands_in() { # PLACE WORDS
    PINHOLE_ORT=$1 "$P" "${ask[@]}" --engine vision=ort > "$D/out" 2> "$D/err" || return 1
    [ "$(cat "$D/out")" = 64 ] || return 1
    [ "$(wc -l < "$D/err")" = 1 ] && grep -qF "engine ort is not here, native runs its part (" "$D/err" && grep -qF -- "$2" "$D/err"
}
fake old.so '"1.4.0"'
fake two.so '"2.0.1"'
fake bare.so '"1.30.0"'
fake odd.so '"new\033[2Jest"'
echo 'int nothing;' > "$D/none.c" && "${CC:-cc}" -shared -fPIC -o "$D/none.so" "$D/none.c"
echo text > "$D/text.so"
mkdir "$D/folder"
absent "an old release" "$D/old.so" "is ONNX Runtime 1.4.0, and this program takes 1.19 or a later 1.x: unset PINHOLE_ORT, or name another in it; \`make ort\` unpacks one" "1\.4\.0"
absent "another ABI" "$D/two.so" "is ONNX Runtime 2.0.1" "2\.0\.1"
absent "no API" "$D/bare.so" "calls itself ONNX Runtime 1.30.0, but has no API of version" "1\.30\.0"
absent "a release that is none" "$D/odd.so" 'is ONNX Runtime new\x1b[2Jest' "x1b"
absent "another library" "$D/none.so" "is a library, but no ONNX Runtime" "no ONNX Runtime"
"${CC:-cc}" -shared -fPIC -Wl,-z,max-page-size=65536 -o "$D/whole.so" -xc - <<< 'int much[50000] = {1};'
head -c 100000 "$D/whole.so" > "$D/cut.so"
absent "a library that was cut" "$D/cut.so" "was cut short: it has 100000 bytes" "cut short"
absent "no library" "$D/text.so" "cannot be loaded as ONNX Runtime" "cannot be loaded"
absent "no file" "$D/nothing.so" "PINHOLE_ORT: there is no file" "there is no file"
absent "an empty folder" "$D/folder" "folder/libonnxruntime.so" "there is no file"
(cd "$D" && fails 4 "./text.so cannot be loaded" env PINHOLE_ORT=text.so "$P" verify --against ort folder)
ok "a name in this folder" test $? = 0
whole_name() { # ORT's own name of a provider, a device behind it: none of it is cut
    PINHOLE_ORT=$D/nothing.so "$P" "${ask[@]}" --engine "vision=ort:$1" > "$D/out" 2> "$D/err"
    [ "$(cat "$D/out")" = 64 ] && grep -qF "engine ort:$1 is not here, native runs its part (" "$D/err"
}
ok "a provider by ORT's name" whole_name NvTensorRTRTXExecutionProvider
ok "and a device of it" whole_name NvTensorRTRTXExecutionProvider:gpu
ok "strictly" fails 4 "there is no file" env PINHOLE_ORT="$D/nothing.so" "$P" "${ask[@]}" --engine vision=ort --engine-strict
ok "verify is strict" fails 4 "there is no file" env PINHOLE_ORT="$D/nothing.so" "$P" verify --engine vision=ort tests/golden/panel
ok "json says which ran" bash -c "env PINHOLE_ORT='$D/nothing.so' '$P' run --json -q -p hi -n 1 --engine ort 2>&1 | grep -qF '\"engines\":{\"vision\":\"native\",\"language\":\"native\"}'"
ok "a part on no engine" fails 2 "no engine 'xyz'" "$P" verify --engine vision=xyz tests/golden/panel
ok "no such part" fails 2 "parts vision, bridge, embed and language, not 'ears'" "$P" verify --engine ears=ort tests/golden/panel
ok "parts against nobody" fails 2 "--engine vision=native --against E" "$P" verify --engine language=native --against ort tests/golden/panel
ok "the list too with a model's name" fails 2 "--engines is about the program" "$P" inspect --engines models/panel-vlm
ok "two lists" fails 2 "one at a time" "$P" inspect --engines --known
ok "another engine" fails 2 "--engine takes native, ort or openvino, not 'xyz'" "$P" verify --engine xyz tests/golden/set
ok "against another engine" fails 2 "--against takes ort or openvino, not 'native'" "$P" verify --against native tests/golden/set
ok "a provider without ort" fails 2 "add --engine ort" "$P" verify --ep cuda tests/golden/set
# Far from any copy: neither beside the program nor installed.
mkdir -p "$D/far/bin" && cp "$P" "$D/far/bin/pinhole"
if ! ldconfig -p 2> /dev/null | grep -q libonnxruntime; then
    ok "none at all" fails 4 "ONNX Runtime is not on this machine: \`make ort\` unpacks one (and \`make install\` again for an installed pinhole)" env -u PINHOLE_ORT "$D/far/bin/pinhole" verify --engine ort tests/golden/set/onnx
fi

# ---- one that is here ----

if ! "$P" inspect --engines | grep -qE '^  ort +here '; then
    echo "the rest is skipped: ONNX Runtime is not here (make ort)"
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
    exit
fi
holds() { # LEAST FIGURE COMMAND...: as many pass, with figures of this name, and none fails
    local least=$1 figure=$2 rc n
    shift 2
    "$@" > "$D/out" 2>&1
    rc=$?
    n=$(tail -n 1 "$D/out" | sed -nE 's/^([0-9]+) passed, 0 failed, [0-9]+ skipped$/\1/p')
    [ $rc = 0 ] && [ "${n:-0}" -ge "$least" ] && [ "$(grep -cE "^ok .*, $figure" "$D/out")" = "$n" ] && return
    echo "status $rc, at least $least should pass: $*"
    grep -E '^FAILED|passed' "$D/out" | head -n 20
    return 1
}
V=("$P" verify)
pinned=$(sed -nE 's/^onnxruntime==([0-9.]+).*/\1/p' tools/ort.txt)
if "$P" inspect --engines | grep -qF "ONNX Runtime $pinned,"; then # another release has other faults
    ok "stored outputs" holds 65 "ort [0-9]" "${V[@]}" --engine ort tests/golden/set/onnx
    ok "stored outputs of more operators" holds 279 "ort [0-9]" "${V[@]}" --engine ort -t 3 tests/golden/onnx
    ok "both engines" holds 65 "native against ort" "${V[@]}" --against ort tests/golden/set/onnx
    ok "both engines, more operators" holds 279 "native against ort" "${V[@]}" --against ort -t 2 tests/golden/onnx
fi
not_built() { # names the provider, and in brackets the file that would bring it
    env -u PINHOLE_ORT_PLUGINS "$P" verify --engine ort --ep qnn tests/golden/set/onnx > "$D/out" 2>&1
    [ $? = 4 ] || return 1
    grep -qE 'was built without qnn: name another in PINHOLE_ORT, or a plug-in.s file \(libonnxruntime_providers_qnn\.so\) in PINHOLE_ORT_PLUGINS$' "$D/out" ||
        grep -qE 'was built without qnn, and takes no plug-ins' "$D/out"
}
mkdir "$D/of_user"
ok "nothing of its makers' is kept" bash -c 'XDG_CACHE_HOME=$1 HOME=$1 "$2" run --image examples/panel1.png -p hi -n 1 --engine vision=ort --engine-strict > /dev/null && [ -z "$(ls -A "$1")" ]' - "$D/of_user" "$P"

# ---- parts of models ----

parts() { # LEAST FIGURE COMMAND...: as many pass, as many with figures of this name, none fails, some may be skipped
    local least=$1 figure=$2 n
    shift 2
    "$@" > "$D/out" 2>&1
    n=$(tail -n 1 "$D/out" | sed -nE 's/^([0-9]+) passed, 0 failed, [0-9]+ skipped$/\1/p')
    [ "${n:-0}" -ge "$least" ] && [ "$(grep -cE "^ok .*$figure" "$D/out")" = "$n" ] && return
    echo "at least $least should pass: $*"
    grep -E '^FAILED|passed' "$D/out" | head -n 20
    return 1
}
ok "the other way round" parts 1 "  [a-z.0-9]+: ort against native " "${V[@]}" --engine vision=native --against ort --filter llava15 tests/golden/set/models
ok "towers on both engines" parts 32 "  [a-z.0-9]+: ort against native " "${V[@]}" --engine vision=ort --against native tests/golden/set/models
ok "pictures of the set" parts 30 "" "${V[@]}" --engine vision=ort --filter vlm_ tests/golden/set/models
ok "a tower that makes vectors" parts 3 "" "${V[@]}" --engine vision=ort tests/golden/set/models/align_siglip
ok "a tower that hears" parts 1 "" "${V[@]}" --engine vision=ort tests/golden/set/models/speech_whisper
ok "the built-in model's answers" parts 40 "" "${V[@]}" --engine vision=ort,language=native --filter / tests/golden/panel
ok "a language part" fails 3 "graph 'language' keeps the state 'kv'" "$P" run -p hi --engine language=ort
"${V[@]}" --engine language=ort tests/golden/set/models/llm_qwen2_tied > "$D/out" 2>&1
ok "a language part, verified" grep -qE "^skipped .*keeps the state 'kv'" "$D/out"
"$P" run --json "${ask[@]:1}" --engine vision=ort > "$D/out" 2> "$D/err"
ok "which ran" grep -qF '"text":"64",' "$D/out"
ok "which ran, by name" grep -qF '"engines":{"vision":"ort","language":"native"}' "$D/out"
ok "without a warning" test ! -s "$D/err"
# The plan counts the library, weights that were made for it, and what it was seen to take: 4 MB or 5 %.
planned() { # COMMAND...
    local predicted measured off
    "$@" > "$D/out" 2> "$D/err"
    predicted=$(sed -nE 's/.*"predicted":([0-9]+).*/\1/p' "$D/out") measured=$(sed -nE 's/.*"measured":([0-9]+).*/\1/p' "$D/out")
    off=$((measured > predicted ? measured - predicted : predicted - measured))
    [ "${measured:-0}" -gt 0 ] && [ $off -le $((measured / 20 > 4000000 ? measured / 20 : 4000000)) ] && return
    echo "predicted $predicted, measured $measured: $*"
    return 1
}
if "$P" inspect --engines | grep -qF "ONNX Runtime $pinned," && [ -z "${PINHOLE_ASAN:-}" ]; then
    for model in models/panel-vlm tests/golden/set/models/vlm_qwen2vl; do
        ok "$model by the plan" planned "$P" run --json -m $model "${ask[@]:1}" -n 4 --engine vision=ort
        ok "$model by the plan, no picture" planned "$P" run --json -m $model -p "what is it?" -n 4 --engine vision=ort
    done
    # Blocks become floats in each run, which are given back.
    "$P" convert models/panel-vlm -o "$D/m.gguf" --to gguf -q > /dev/null && "$P" quantize "$D/mmproj-m.gguf" -o "$D/q8.gguf" --to q8_0 -q > /dev/null
    ok "blocks by the plan" planned "$P" run --json -m "$D/m.gguf" --mmproj "$D/q8.gguf" "${ask[@]:1}" -n 4 --engine vision=ort
    ok "blocks, the same answer" grep -qF '"text":"64",' "$D/out"
fi
"$P" inspect --engine vision=ort > "$D/out" && "$P" inspect --json --engine vision=ort > "$D/list"
ok "an estimate" grep -qE '^  total +.* an estimate' "$D/out"
ok "an estimate, json" grep -qF '"estimate":true' "$D/list"
ok "no estimate" bash -c "'$P' inspect --json | grep -qF '\"estimate\":false'"
ok "stated without its own source's places" bash -c "! '$P' verify --engine ort --filter batchwise tests/golden/onnx 2>&1 | grep -F onnxruntime_src"
ok "a provider by name" holds 2 "ort [0-9]" "${V[@]}" --engine ort --ep cpu --filter "model " tests/golden/set/onnx
ok "a provider that is nowhere" fails 4 "has no execution provider 'nowhere', nor has a plug-in of PINHOLE_ORT_PLUGINS; known are cpu, openvino, " "${V[@]}" --engine ort --ep nowhere tests/golden/set/onnx
ok "a provider without its plug-in" not_built
ok "options that are none" fails 2 "KEY=VALUE" "${V[@]}" --engine ort --ep cuda,fast tests/golden/set/onnx
"${V[@]}" --engine ort tests/golden/set/models/vlm_llava15 > "$D/out" 2>&1
ok "not of other kinds" test $? = 1
ok "which are named" grep -qE '^skipped .*ONNX Runtime runs ONNX models, .*; parts of models with --engine vision=ort' "$D/out"
# A stored output that is changed is found.
cp -r tests/golden/set/onnx "$D/case"
tail -c 4000 "$D/case/good_io.safetensors" > "$D/tail" && head -c -4000 "$D/case/good_io.safetensors" > "$D/head"
cat "$D/head" <(tr '\000-\377' '\001-\377\000' < "$D/tail") > "$D/case/good_io.safetensors"
"${V[@]}" --engine ort "$D/case" > "$D/out" 2>&1
ok "a changed output" test $? = 1
ok "which is named" grep -qE '^FAILED .*, ort' "$D/out"
"${V[@]}" --engine ort --json --filter "model " tests/golden/set/onnx > "$D/out"
ok "json" grep -qE '^\{"passed":[1-9][0-9]*,"failed":0,"skipped":0,"ort":\{"release":"1\.[0-9.]+","peak":[1-9][0-9]*\}\}$' "$D/out"
# A plug-in of no device, by a path from the current folder, which is the user's and not ORT's.
mkdir "$D/idle"
cat > "$D/idle.c" << END
#include <stddef.h>
void *CreateEpFactories(const char *name, const void *base, const void *logger, void **out, size_t room, size_t *n);
void *CreateEpFactories(const char *name, const void *base, const void *logger, void **out, size_t room, size_t *n) {
    (void)name, (void)base, (void)logger, (void)out, (void)room, *n = 0;
    return NULL;
}
void *ReleaseEpFactory(void *factory);
void *ReleaseEpFactory(void *factory) { return (void)factory, NULL; }
END
"${CC:-cc}" -shared -fPIC -o "$D/idle/libonnxruntime_providers_openvino_plugin.so" "$D/idle.c"
idle() { # PLACES: listed as a plug-in without a device; the library may be older than plug-ins
    (cd "$D" && PINHOLE_ORT_PLUGINS=$1 "$P" inspect --engines > list)
    grep -qF "takes no plug-ins" "$D/list" && return 0
    grep -qE "^  openvino +absent   the plug-in $D/idle/libonnxruntime_providers_openvino_plugin.so is loaded, and finds no device of openvino here$" "$D/list"
}
nowhere() { # a place that is not there is said, not that one has to be named
    PINHOLE_ORT_PLUGINS=$D/none "$P" inspect --engines > "$D/list"
    grep -qE "^  openvino +absent +ONNX Runtime .*(takes no plug-ins|of PINHOLE_ORT_PLUGINS not all was loaded: .*$D/none)" "$D/list"
}
ok "plug-ins nowhere" nowhere
ok "a plug-in of no device" idle "$D/idle"
ok "by a folder from here" idle idle
ok "by a file from here" idle idle/libonnxruntime_providers_openvino_plugin.so
echo text > "$D/folder/libonnxruntime_providers_openvino_plugin.so"
PINHOLE_ORT_PLUGINS=$D/nothing:$D/folder:$D/text.so "$P" inspect --engines > "$D/out"
ok "a plug-in that is none" grep -qE '^  openvino +absent +ONNX Runtime, loading a plug-in: .*libonnxruntime_providers_openvino_plugin' "$D/out"
"$P" inspect --engines --json > "$D/out"
ok "listed" grep -qE '"name":"ort","is_here":true,"what":"ONNX Runtime 1\.[0-9.]+","release":"1\.[0-9.]+","path":"[^"]+"' "$D/out"
ok "its providers" grep -qF '{"name":"cpu","is_here":true,"ort_name":"CPUExecutionProvider","class":"cpu"}' "$D/out"
ok "why one is not here" grep -qE '"name":"[a-z]+","is_here":false,"reason":"[^"]{20}' "$D/out"
# Where `make install` puts it, it is found without being named.
at=$("$P" inspect --engines --json | sed -E 's/.*"name":"ort"[^}]*"path":"([^"]+)".*/\1/')
if [ -e "$at" ]; then
    mkdir -p "$D/far/lib/pinhole" && ln -s "$(realpath "$(dirname "$at")")" "$D/far/lib/pinhole/ort"
    env -u PINHOLE_ORT "$D/far/bin/pinhole" inspect --engines > "$D/out"
    ok "installed" grep -qE '^  ort +here .*/bin/\.\./lib/pinhole/ort/libonnxruntime\.so$' "$D/out"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
