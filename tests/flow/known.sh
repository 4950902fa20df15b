#!/bin/bash
# `inspect --known`: every row of every table is listed, as text and as JSON, without a model and without one to be found.
cd "$(dirname "$0")/../.." || exit 1
P=${PINHOLE:-build/pinhole}
. tests/flow/says.bash
rows() { sed -nE "s/^$1\(\"?([^,)\"]+).*/\1/p" "$2"; }
# The list under a key, and the names in it, one a line: of strings, or of objects with a name.
keys=(families types storages tokenizers pretokenizers chat_forms pictures processors sounds sound_processors engines isas fusions)
list() {
    local i=0
    while [ "${keys[$i]}" != "$1" ]; do i=$((i + 1)); done
    sed -E "s/.*\"$1\":\[//; s/\](,\"${keys[$((i + 1))]:-none}\":|\}\$).*//" "$D/json"
}
names() {
    case $(list "$1") in
        \{*) list "$1" | grep -oE '\{"name":"[^"]+"' | cut -d'"' -f4 ;;
        *) list "$1" | tr ',' '\n' | tr -d '"' ;;
    esac
}
# Letter case and signs do not count: a row names a file, the list what it is called.
plain() { tr '[:upper:]' '[:lower:]' | tr -cd 'a-z0-9\n' | sort; }
same() { # KEY MACRO FILE
    [ -n "$(rows "$2" "$3")" ] && [ "$(names "$1" | plain)" = "$(rows "$2" "$3" | plain)" ]
}
as_many() { # KEY MACRO FILE
    [ "$(names "$1" | wc -l)" -ge 1 ] && [ "$(names "$1" | wc -l)" = "$(rows "$2" "$3" | wc -l)" ]
}
in_text() { # every name that stands in the JSON stands in the text too
    local key name
    for key in "${keys[@]}"; do
        while IFS= read -r name; do
            grep -qF -- "$name" "$D/text" || { echo "not in the text: $key $name"; return 1; }
        done < <(names "$key")
    done
}
each() { # KEY PATTERN: as many rows of the list hold it as there are rows
    [ "$(list "$1" | grep -oE "$2" | wc -l)" = "$(names "$1" | wc -l)" ]
}
forms() { # each family's chat form is one of the list
    local form
    for form in $(list families | grep -oE '"chat_form":"[^"]+"' | cut -d'"' -f4); do
        names chat_forms | grep -qx "$form" || return 1
    done
}
ok text env PINHOLE_MODEL="$D/none" "$P" inspect --known > "$D/text"
ok json env PINHOLE_MODEL="$D/none" "$P" inspect --known --json > "$D/json"
ok "one line" test "$(wc -l < "$D/json")" = 1
ok families same families PH_FAMILY src/model/family.def
ok types same types PH_DTYPE src/tensor/dtype.def
ok pre-tokenizers same pretokenizers PH_PRETOK src/text/pretok.def
ok pictures same pictures PH_IMAGE src/image/format.def
ok engines same engines PH_ENGINE src/engine/engine.def
ok fusions same fusions PH_FUSION src/engine/fusion.def
ok tokenizers as_many tokenizers PH_TEXT_MODEL src/text/model.def
ok planes as_many storages PH_STORAGE src/tensor/storage.def
ok "the text says the same" in_text
# What quantize writes is one list: here, in its refusal of another type, and in the reference (lower case, and keep).
sorted() { tr ', ' '\n\n' | grep . | sort; }
known=$(sed -n '/^  written too/,/^  planes/p' "$D/text" | sed '$d; s/written too//' | sorted)
refused=$("$P" quantize -q models/panel-vlm -o "$D/x.gguf" --to f8_e4m3 2>&1 | sed -nE "s/.*'f8_e4m3' is read but cannot be written; these can: //p" | sorted)
told=$(sed -n '/^Types: `q8_0/,/and `keep`/p' docs/reference/commands.md | tr '\n' ' ' | sed 's/and `keep`.*//' | grep -oE '`[^`]+`' | tr -d '`' | tr '[:lower:]' '[:upper:]' | sorted)
ok "types that are written" test "$(wc -l <<< "$known")" -ge 20
ok "the same in the refusal" test "$known" = "$refused"
ok "and in the reference" test "$known" = "$told"
ok "types of families" each families '"kind":"(text|multimodal|dual)","types":\["[^]"]'
ok "sources of families" each families '"source":"[^"]{8}'
ok "chat forms of families" forms
ok "block sizes" each types '"block":[1-9][0-9]*,"bytes":[1-9]'
ok "GGUF ids differ" test -z "$(list types | grep -oE '"gguf":[0-9]+' | sort | uniq -d)"
ok "kernels by default" grep -qE '"name":"ref","is_used":true' "$D/json"
PINHOLE_ISA=ref "$P" inspect --known --json > "$D/json"
ok "kernels asked for" test "$(list isas | grep -oE '"is_used":true' | wc -l)" = 1
fails() { # STATUS COMMAND...
    local want=$1 rc
    shift
    "$@" > "$D/out" 2> "$D/err"
    rc=$?
    [ $rc = "$want" ] && [ -s "$D/err" ] && [ ! -s "$D/out" ]
}
ok "no blanks at the end of lines" bash -c '! { "$1" inspect --engines; "$1" inspect models/panel-vlm; "$1" inspect tests/golden/set/onnx/good/clip_vision.onnx
    "$1" inspect tests/golden/onnx/microsoft/ops/mha_bias.onnx; "$1" inspect tests/golden/set/onnx/bad/opset_missing.onnx; } 2> /dev/null | grep -n " $"' - "$P"
ok "not with a model" fails 2 "$P" inspect --known models/panel-vlm
ok "not with -m" fails 2 "$P" inspect --known -m models/panel-vlm
ok "unknown kernels" fails 2 env PINHOLE_ISA=none "$P" inspect --known
echo "$passed passed, $failed failed"
[ $failed = 0 ]
