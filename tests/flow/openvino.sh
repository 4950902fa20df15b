#!/bin/bash
# OpenVINO: what is said of libraries that are none or too old, and, where one is here (`make openvino`), that parts of
# models on it give native's numbers, and ONNX files the stored outputs.
cd "$(dirname "$0")/../.." || exit 1
P=$(realpath "${PINHOLE:-build/pinhole}")
export PINHOLE_MODEL=models/panel-vlm # also for programs of other build folders
export TBB_ENABLE_SANITIZERS=1 # its threads' library else loads another in a way that AddressSanitizer does not take
. tests/flow/says.bash

# ---- libraries that are none ----

ask=(run --image examples/panel1.png -p "what is on the display?")
# A part that was asked for on it: native answers, and says why, once; strictly, it is an error.
stands_in() { # PLACE WORDS
    PINHOLE_OPENVINO=$1 "$P" "${ask[@]}" --engine vision=openvino > "$D/out" 2> "$D/err" || return 1
    [ "$(cat "$D/out")" = 64 ] || return 1
    [ "$(wc -l < "$D/err")" = 1 ] && grep -qF "engine openvino is not here, native runs its part (" "$D/err" && grep -qF -- "$2" "$D/err"
}
absent() { # NAME PLACE WORDS: said by a command that needs it, and by the list, which is no failure
    ok "$1: verify" fails 4 "$3" env PINHOLE_OPENVINO="$2" "$P" verify --engine openvino tests/golden/set/onnx
    ok "$1: verify of parts" fails 4 "$3" env PINHOLE_OPENVINO="$2" "$P" verify --engine vision=openvino tests/golden/panel
    env PINHOLE_OPENVINO="$2" "$P" inspect --engines > "$D/list" 2> "$D/err"
    ok "$1: list" test $? = 0 -a ! -s "$D/err"
    ok "$1: listed" grep -qE "^  openvino +absent " "$D/list"
    ok "$1: others" grep -qE "^  native +here" "$D/list"
    ok "$1: a part of a model" stands_in "$2" "$3"
    ok "$1: strictly" fails 4 "$3" env PINHOLE_OPENVINO="$2" "$P" "${ask[@]}" --engine vision=openvino --engine-strict
}
fake() { # NAME BUILD: a library that calls itself that, with every entry that is looked for
    {
        sed -nE 's/^PH_OPENVINO_[A-Z]+\((const char \*, |void, )?(ov_[a-z_]+).*/\2/p' src/engine/openvino/openvino_api.def |
            grep -v 'ov_get_openvino_version' | sed 's/.*/int &(void); int &(void) { return -1; }/'
        echo 'struct version { const char *build, *description; }; int ov_get_openvino_version(struct version *v);'
        echo "int ov_get_openvino_version(struct version *v) { v->build = $2; v->description = \"\"; return 0; }"
    } > "$D/fake.c"
    "${CC:-cc}" -shared -fPIC -o "$D/$1" "$D/fake.c"
}
fake old.so '"2024.6.0-17404-4c0f47d2335"'
fake odd.so '"new\033[2Jest"'
echo 'int ov_version_free; int ov_get_openvino_version;' > "$D/part.c" && "${CC:-cc}" -shared -fPIC -o "$D/part.so" "$D/part.c"
echo 'int nothing;' > "$D/none.c" && "${CC:-cc}" -shared -fPIC -o "$D/none.so" "$D/none.c"
echo text > "$D/text.so"
mkdir "$D/folder"
absent "an old release" "$D/old.so" "is OpenVINO 2024.6.0, and this program takes 2025.4 or a later one: unset PINHOLE_OPENVINO, or name another in it; \`make openvino\` unpacks one"
absent "a release that is none" "$D/odd.so" 'is OpenVINO new\x1b[2Jest'
absent "entries that are not there" "$D/part.so" "calls itself OpenVINO, but has no entry ov_"
absent "another library" "$D/none.so" "is a library, but no OpenVINO"
absent "no library" "$D/text.so" "cannot be loaded as OpenVINO"
absent "no file" "$D/nothing.so" "PINHOLE_OPENVINO: there is no file"
absent "an empty folder" "$D/folder" "folder/libopenvino_c.so"
# The files that it stands on lie beside it: one that was cut short is told before it ends the process.
"${CC:-cc}" -shared -fPIC -Wl,-z,max-page-size=65536 -o "$D/whole.so" -xc - <<< 'int much[50000] = {1};'
mkdir "$D/cut" && cp "$D/none.so" "$D/cut/libopenvino_c.so" && head -c 100000 "$D/whole.so" > "$D/cut/libopenvino_xyz_plugin.so"
absent "a plug-in that was cut" "$D/cut" "libopenvino_xyz_plugin.so is a library that was cut short: it has 100000 bytes"
ok "no other engine" fails 2 "--engine takes native, ort or openvino, not 'xyz'" "$P" verify --engine xyz tests/golden/set
ok "providers are of ort" fails 2 "--ep is about ONNX Runtime" "$P" verify --engine openvino --ep cpu tests/golden/set
mkdir -p "$D/far/bin" && cp "$P" "$D/far/bin/pinhole"
if ! ldconfig -p 2> /dev/null | grep -q libopenvino_c; then
    ok "none at all" fails 4 "OpenVINO is not on this machine: \`make openvino\` unpacks one (and \`make install\` again for an installed pinhole)" env -u PINHOLE_OPENVINO "$D/far/bin/pinhole" verify --engine openvino tests/golden/set/onnx
fi

# ---- one that is here ----

if ! "$P" inspect --engines | grep -qE '^  openvino +here '; then
    echo "the rest is skipped: OpenVINO is not here (make openvino)"
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
    exit
fi
V=("$P" verify)
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
ok "towers on both engines" parts 32 "  [a-z.0-9]+: openvino against native " "${V[@]}" --engine vision=openvino --against native tests/golden/set/models
ok "pictures of the set" parts 30 "" "${V[@]}" --engine vision=openvino --filter vlm_ tests/golden/set/models
ok "a tower that makes vectors" parts 3 "" "${V[@]}" --engine vision=openvino tests/golden/set/models/align_siglip
ok "a tower that hears" parts 1 "" "${V[@]}" --engine vision=openvino tests/golden/set/models/speech_whisper
few=() least=41 # a sanitizer's program takes its time
[ -z "${PINHOLE_ASAN:-}" ] || few=(--filter test-000) least=1
ok "the built-in model's answers" parts $least "" "${V[@]}" "${few[@]}" --engine vision=openvino,language=native tests/golden/panel
# Rows of ids by a part of their own, on either library, the decoder on ours.
for e in vision=openvino,embed=openvino embed=ort; do
    [ $e = embed=ort ] && ! "$P" inspect --engines | grep -qE '^  ort +here ' && continue
    ok "$e: the built-in model's answers" parts $least "" "${V[@]}" "${few[@]}" --engine $e tests/golden/panel
    [ -n "${PINHOLE_ASAN:-}" ] || ok "$e: the set" parts 71 "" "${V[@]}" --engine $e tests/golden/set/models
done
"$P" run --json "${ask[@]:1}" --engine embed=openvino > "$D/out"
ok "embed: the answer" grep -qF '"text":"64",' "$D/out"
ok "embed: by name" grep -qF '"engines":{"vision":"native","embed":"openvino","language":"native"}' "$D/out"
"$P" run --json "${ask[@]:1}" --engine embed=native > "$D/out"
ok "embed with the decoder" grep -qF '"engines":{"vision":"native","language":"native"}' "$D/out"
ok "no such part" fails 2 "the parts vision, bridge, embed and language, not 'ears'" "${V[@]}" --engine ears=openvino tests/golden/panel
ok "a language part" fails 3 "graph 'language' keeps the state 'kv'" "$P" run -p hi --engine language=openvino
"$P" run --json "${ask[@]:1}" --engine vision=openvino > "$D/out" 2> "$D/err"
ok "the answer" grep -qF '"text":"64",' "$D/out"
ok "which ran, by name" grep -qF '"engines":{"vision":"openvino","language":"native"}' "$D/out"
ok "without a warning" test ! -s "$D/err"
"$P" inspect --json --engine vision=openvino > "$D/list"
ok "an estimate" grep -qF '"estimate":true' "$D/list"
"$P" inspect --engine vision=openvino > "$D/list"
ok "of OpenVINO, not of another library" bash -c "grep -qE '^  total .* an estimate' '$D/list' && ! grep -q 'ONNX Runtime' '$D/list'"
# The plan counts the library's pages, its two copies of the weights, and what it was seen to take: 4 MB or 5 %.
planned() { # COMMAND...
    local predicted measured off
    "$@" > "$D/out" 2> "$D/err"
    predicted=$(sed -nE 's/.*"predicted":([0-9]+).*/\1/p' "$D/out") measured=$(sed -nE 's/.*"measured":([0-9]+).*/\1/p' "$D/out")
    off=$((measured > predicted ? measured - predicted : predicted - measured))
    [ "${measured:-0}" -gt 0 ] && [ $off -le $((measured / 20 > 4000000 ? measured / 20 : 4000000)) ] && return
    echo "predicted $predicted, measured $measured: $*"
    return 1
}
# Of a list the largest that an answer was told; both sides at once touch memory while the library is measured.
planned_list() { # COMMAND...
    "$@" > "$D/all" 2> "$D/err"
    planned sed -nE "s/^.*\"measured\":([0-9]+).*/\"predicted\":$(sed -nE 's/.*"predicted":([0-9]+).*/\1/p' "$D/all" | sort -n | tail -n 1) \"measured\":\1/;\$p" "$D/all" && return
    echo "$*"
    return 1
}
pinned=$(sed -nE 's/^openvino==([0-9.]+).*/\1/p' tools/openvino.txt)
for p in examples/panel*.png examples/panel*.png; do
    echo "{\"prompt\": \"what is on the display?\", \"image\": \"$p\"}"
done > "$D/list.jsonl"
is_pinned() { "$P" inspect --engines | grep -qF "OpenVINO $pinned,"; }
if is_pinned && [ -z "${PINHOLE_ASAN:-}" ] && [ "$(uname -m)" = x86_64 ]; then
    ok "a text model's rows by the plan" planned "$P" run --json -m tests/golden/set/models/llm_qwen2_tied -p "what is it?" -n 4 --engine embed=openvino
    for model in models/panel-vlm tests/golden/set/models/vlm_qwen2vl; do
        ok "$model by the plan, rows too" planned "$P" run --json -m $model "${ask[@]:1}" -n 4 --engine vision=openvino,embed=openvino
        ok "$model by the plan, rows" planned "$P" run --json -m $model "${ask[@]:1}" -n 4 --engine embed=openvino
        ok "$model by the plan" planned "$P" run --json -m $model "${ask[@]:1}" -n 4 --engine vision=openvino
        ok "$model by the plan, two pictures" planned "$P" run --json -m $model --image examples/panel2.png "${ask[@]:1}" -n 4 --engine vision=openvino
        for e in vision=openvino vision=openvino,embed=openvino vision=native,embed=openvino; do
            for how in serial double; do
                ok "$model by the plan, a list, $how, $e" planned_list "$P" run -m $model --list "$D/list.jsonl" --pipeline $how -t 2 -n 8 --ignore-eos --engine $e
            done
        done
        ok "$model by the plan, no picture" planned "$P" run --json -m $model -p "what is it?" -n 4 --engine vision=openvino
    done
fi
# ---- whole ONNX files ----

# What the pinned release gives otherwise than the references, in either direction.
known='rope_first|dqmm|dynamicquantizelinear|gru_batchwise|lstm_batchwise|simple_rnn_batchwise|resize_downsample_scales_cubic_A_n0p5_exclude_outside|resize_linear_antialias18'
holds() { # LEAST FIGURE COMMAND...: as many pass, and what fails is known to
    local least=$1 figure=$2 n
    shift 2
    "$@" > "$D/out" 2>&1
    n=$(tail -n 1 "$D/out" | sed -nE 's/^([0-9]+) passed, [0-9]+ failed, [0-9]+ skipped$/\1/p')
    [ "${n:-0}" -ge "$least" ] && [ "$(grep -cE "^ok .*, $figure" "$D/out")" = "$n" ] && ! grep '^FAILED' "$D/out" | grep -qvE "op ($known) " && return
    echo "at least $least should pass: $*"
    grep -E '^FAILED|passed' "$D/out" | grep -vE "op ($known) " | head -n 20
    return 1
}
if is_pinned && [ -z "${PINHOLE_ASAN:-}" ]; then # another release has other faults
    ok "stored outputs" holds 64 "openvino [0-9]" "${V[@]}" --engine openvino tests/golden/set/onnx
    ok "stored outputs of more operators" holds 269 "openvino [0-9]" "${V[@]}" --engine openvino -t 3 tests/golden/onnx
    ok "both engines" holds 64 "native against openvino" "${V[@]}" --against openvino tests/golden/set/onnx
    ok "both engines, more operators" holds 269 "native against openvino" "${V[@]}" --against openvino -t 2 tests/golden/onnx
fi
"${V[@]}" --engine openvino tests/golden/set/models/vlm_llava15 > "$D/out" 2>&1
ok "not of other kinds" test $? = 1
ok "which are named" grep -qE '^skipped .*OpenVINO runs ONNX models, .*; parts of models with --engine vision=openvino' "$D/out"
# A stored output that is changed is found; so is a file that would have it read this process's memory.
cp -r tests/golden/set/onnx "$D/case"
tail -c 4000 "$D/case/good_io.safetensors" > "$D/tail" && head -c -4000 "$D/case/good_io.safetensors" > "$D/head"
cat "$D/head" <(tr '\000-\377' '\001-\377\000' < "$D/tail") > "$D/case/good_io.safetensors"
"${V[@]}" --engine openvino "$D/case" > "$D/out" 2>&1
ok "a changed output" test $? = 1
ok "which is named" grep -qE '^FAILED .*, openvino' "$D/out"
mkdir -p "$D/case/good/*/_ORT_MEM_ADDR_" && mv "$D/case/good/external_small.data" "$D/case/good/*/_ORT_MEM_ADDR_/*x"
sed -i 's|external_small\.data|*/_ORT_MEM_ADDR_/*x|' "$D/case/good/external_small.onnx"
"${V[@]}" --engine openvino --filter external_small "$D/case" > "$D/out" 2>&1
ok "addresses in a file" grep -qE '^FAILED .*a file may not say where in this process its weights lie' "$D/out"
"${V[@]}" --engine openvino --json --filter "model " tests/golden/set/onnx > "$D/out"
ok "json" grep -qE '^\{"passed":[1-9][0-9]*,"failed":0,"skipped":0,"openvino":\{"release":"20[0-9.]+"\}\}$' "$D/out"
"$P" inspect --engines --json > "$D/out"
ok "listed" grep -qE '"name":"openvino","is_here":true,"what":"OpenVINO 20[0-9.]+","release":"20[0-9.]+","path":"[^"]+"' "$D/out"
# Where `make install` puts it, it is found without being named; a wheel's folder has its file with a version behind.
at=$("$P" inspect --engines --json | sed -E 's/.*"name":"openvino"[^}]*"path":"([^"]+)".*/\1/')
if [ -e "$at" ]; then
    mkdir -p "$D/far/lib/pinhole" && ln -s "$(realpath "$(dirname "$at")")" "$D/far/lib/pinhole/openvino"
    env -u PINHOLE_OPENVINO "$D/far/bin/pinhole" inspect --engines > "$D/out"
    ok "installed" grep -qE '^  openvino +here .*/lib/pinhole/openvino/libopenvino_c\.so' "$D/out"
    mkdir "$D/wheel" && for f in "$(dirname "$(realpath "$at")")"/*.so*; do ln -s "$f" "$D/wheel/$(basename "$f")"; done
    [ -e "$D/wheel/libopenvino_c.so" ] && mv "$D/wheel/libopenvino_c.so" "$D/wheel/libopenvino_c.so.2641"
    ok "a wheel's folder" test "$(PINHOLE_OPENVINO=$D/wheel "$P" "${ask[@]}" --engine vision=openvino --engine-strict)" = 64
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
