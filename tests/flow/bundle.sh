#!/bin/bash
# A bundle answers as what it was made from: each model of the reference set through one sealed file, verified there, and back
# out of it; files with the field's names too.  A bundle that was changed in any place is refused, with what is wrong.
cd "$(dirname "$0")/../.." || exit 1
. tests/flow/models.bash
export LC_ALL=C
refused() { # NAME STATUS WORDS COMMAND...
    local name=$1 status=$2 words=$3 rc
    shift 3
    "$@" > "$D/out" 2> "$D/err"
    rc=$?
    [ $rc = "$status" ] && [ ! -s "$D/out" ] && [ "$(wc -l < "$D/err")" -le 2 ] && grep -qF -- "$words" "$D/err" && passed=$((passed + 1)) && return
    failed=$((failed + 1))
    echo "$name: exit $rc, $(head -n 2 "$D/err")"
}
has() { grep -qF -- "$1" "$2"; }
ids() { "$P" run --json -n 6 --ignore-eos -p "What is in the image?" "$@" 2> "$D/err" | sed -nE 's/.*"ids":\[([0-9,]+)\].*/\1/p'; }
counted() { # PATH: "N passed, M failed, K skipped" of the reference cases, or nothing if one failed
    "$P" verify --tight "$1" > "$D/cases" 2>&1 && tail -n 1 "$D/cases"
}
small() { find "$1" -maxdepth 1 -type f ! -name '*.safetensors' ! -name '*.index.json' | sort; }
alike() { # FILE FILE: but for two numbers of the plan (bundle_plan.c says why) and the two digests over them
    cmp -l "$1" "$2" > "$D/differ"
    [ $? -lt 2 ] && [ "$(wc -l < "$D/differ")" -le 48 ] && [ "$(stat -c %s "$1")" = "$(stat -c %s "$2")" ]
}
same_files() { # FROM TO: the small files, byte for byte
    [ "$(small "$1" | sed 's|.*/||')" = "$(small "$2" | sed 's|.*/||')" ] || return 1
    small "$1" | while read -r f; do cmp "$f" "$2/${f##*/}" || return 1; done
}

# ---- every model of the set
S=tests/golden/set
mkdir -p "$D/set/models" "$D/back"
ln -s "$PWD/$S/images" "$D/set/images"
left_out() { # under a sanitizer one model of a kind, as in convert.sh
    [ -n "${PINHOLE_ASAN:-}" ] || return 1
    case $1 in llm_llama_gqa_untied | vlm_qwen25vl | vlm_blip2 | speech_whisper) return 1 ;; esac
}
for m in "$S"/models/*; do
    m=${m##*/}
    left_out "$m" && continue
    B=$D/set/models/$m
    mkdir "$B"
    cp -r "$S/models/$m/golden" "$B/golden"
    ok "$m to a bundle" "$P" convert "$S/models/$m" -o "$B/m.bundle" --to bundle -q
    "$P" inspect --json "$B/m.bundle" > "$D/inspected" 2> "$D/err"
    ok "$m: it is one" has '"container":"bundle"' "$D/inspected"
    ok "$m: its plan is what is planned" has '"same":true' "$D/inspected"
    ok "$m: its tokenizer is ready-made" has '"tokenizer":"ready-made"' "$D/inspected"
    ok "$m verified as the directory is" same "$(counted "$S/models/$m")" "$(counted "$B")"
    ok "$m and back" "$P" convert "$B/m.bundle" -o "$D/back/$m" --to safetensors -q
    ok "$m and back: files" same_files "$S/models/$m" "$D/back/$m"
    ok "$m once more" "$P" convert "$D/back/$m" -o "$D/again.bundle" --to bundle -q
    ok "$m once more: the same file" alike "$B/m.bundle" "$D/again.bundle"
done

ok "carried" "$P" convert $S/models/vlm_blip2 -o "$D/c.gguf" --to gguf -q
ok "carried, to a bundle" "$P" convert "$D/c.gguf" -o "$D/c.bundle" --to bundle -q
ok "carried, to a bundle" alike "$D/c.bundle" "$D/set/models/vlm_blip2/m.bundle"
ok "carried, from a bundle" "$P" convert "$D/c.bundle" -o "$D/c2.gguf" --to gguf -q
ok "carried, from a bundle" cmp "$D/c.gguf" "$D/c2.gguf"

# ---- files with the field's names
for m in llm_qwen2_tied vlm_llava15 vlm_idefics3 vlm_gemma3 vlm_internvl vlm_qwen25vl; do
    left_out "$m" && continue
    picture=() vision=()
    case $m in vlm_*) picture=(--image $S/images/scene.png) vision=(--mmproj "$D/mmproj-n.gguf") ;; esac
    ok "$m to gguf" "$P" convert "$S/models/$m" -o "$D/n.gguf" --to gguf -q
    ok "$m as q8_0" "$P" quantize "$D/n.gguf" -o "$D/n8.gguf" --to q8_0 -q
    for n in n n8; do
        ok "$m.$n to a bundle" "$P" convert "$D/$n.gguf" "${vision[@]}" -o "$D/$n.bundle.gguf" --to bundle -q
        ok "$m.$n answers" same "$(ids -m "$D/$n.gguf" "${vision[@]}" "${picture[@]}")" "$(ids -m "$D/$n.bundle.gguf" "${picture[@]}")"
    done
    ok "$m planned" planned -m "$D/n.bundle.gguf" "${picture[@]}"
    ok "$m to files again" "$P" convert "$D/n.bundle.gguf" -o "$D/f.gguf" --to gguf -q
    ok "$m the same bundle of those" "$P" convert "$D/f.gguf" "${vision[@]/mmproj-n/mmproj-f}" -o "$D/g.bundle.gguf" --to bundle -q
    ok "$m the same bundle of those" alike "$D/n.bundle.gguf" "$D/g.bundle.gguf"
    ok "$m of files to a directory" "$P" convert "$D/n.bundle.gguf" -o "$D/back-$m" --to safetensors -q
    ok "$m of files to a directory" same_files "$S/models/$m" "$D/back-$m"
    case $m in vlm_*)
        for from in "$S/models/$m" "$D/n.bundle.gguf"; do
            "$P" prepare -m "$from" --image $S/images/odd_aspect.png -o "$D/p-${from##*/}" > "$D/out" 2>&1
        done
        ok "$m pixels" cmp "$D/p-$m" "$D/p-n.bundle.gguf"
        ;;
    esac
done
ok "carried, to a file with names" "$P" convert "$D/set/models/vlm_qwen25vl/m.bundle" -o "$D/f.gguf" --to gguf --names gguf -q
ok "carried, to a file with names" same "$(ids -m $S/models/vlm_qwen25vl --image $S/images/scene.png)" "$(ids -m "$D/f.gguf" --mmproj "$D/mmproj-f.gguf" --image $S/images/scene.png)"
ok "tokens" same "$("$P" tokenize -m $S/models/vlm_qwen25vl -p 'a red cup')" "$("$P" tokenize -m "$D/n.bundle.gguf" -p 'a red cup')"
ok "quantised into a bundle" "$P" quantize $S/models/vlm_qwen25vl -o "$D/q.bundle" --to q8_0 --bundle -q
ok "quantised into a bundle: answers" test -n "$(ids -m "$D/q.bundle" --image $S/images/scene.png)"
ok "a bundle quantised is a file" "$P" quantize "$D/q.bundle" -o "$D/q.gguf" --to f16 -q
ok "a bundle quantised is a file" bash -c "! grep -qF pinhole.bundle '$D/q.gguf'"
ok "written by another program" test -n "$(ids -m tests/golden/bundle/llava.bundle --image $S/images/scene.png)"
ok "written by another program" same "$(ids -m tests/golden/gguf/vlm_llava15.gguf --mmproj tests/golden/gguf/vlm_llava15.mmproj.gguf --image $S/images/scene.png)" \
    "$(ids -m tests/golden/bundle/llava.bundle --image $S/images/scene.png)"
# int8 has scales, which a bundle of a directory has a place for, and one of files with the field's names has not.
ok "int8 into a bundle" "$P" quantize $S/models/vlm_qwen25vl -o "$D/i8.bundle" --to int8 --bundle -q
ok "int8 into a bundle, to a directory" "$P" convert "$D/i8.bundle" -o "$D/i8" --to safetensors -q
ok "int8 into a directory" "$P" quantize "$D/set/models/vlm_qwen25vl/m.bundle" -o "$D/i8-own" --to int8 -q
ok "int8 by both ways" diff -r "$D/i8" "$D/i8-own"
ok "int8 from a bundle as ONNX" "$P" convert "$D/i8.bundle" -o "$D/i8.onnx" --to onnx --part language
ok "int8 from a bundle as ONNX: the same" "$P" convert "$D/i8" -o "$D/i8-own.onnx" --to onnx --part language
ok "int8 from a bundle as ONNX: the same" cmp "$D/i8.onnx" "$D/i8-own.onnx"
for from in "$D/n.gguf --mmproj $D/mmproj-n.gguf" "$D/n.bundle.gguf"; do
    # shellcheck disable=SC2086
    refused "int8 with the field's names: $from" 3 "no place for the scales of int8" "$P" quantize $from -o "$D/x.bundle" --to int8 --bundle -q
done
ok "int8 with the field's names: nothing left" test ! -e "$D/x.bundle"
ok "inspected" "$P" inspect tests/golden/bundle/llava.bundle
ok "a plan that is not there" same "$("$P" inspect --json tests/golden/bundle/llava.bundle | grep -o '"bundle":{[^}]*}')" '"bundle":{"version":1,"tokenizer":"plain"}'

# ---- changed
G=$D/good.bundle
cp tests/golden/bundle/llava.bundle "$G"
size=$(stat -c %s "$G")
number() { od -An -t u8 -j "$1" -N 8 "$G" | tr -d ' '; }
n_seal=$(number $((size - 24)))
head=$(number $((size - n_seal + 16))) seal=$((size - n_seal))
flip() { # OFFSET: a copy of the good one with one bit changed
    cp "$G" "$D/bad.bundle"
    chmod u+w "$D/bad.bundle"
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((0x$(xxd_byte "$1") ^ 4)))" | dd of="$D/bad.bundle" bs=1 seek="$1" conv=notrunc status=none
}
xxd_byte() { od -An -t x1 -j "$1" -N 1 "$G" | tr -d ' '; }
bad() { refused "$1" 3 "$2" "$P" inspect "$D/bad.bundle"; } # NAME WORDS
ok "the good one" "$P" inspect "$G"
flip 0 && bad "magic" "no model format that is read"
for at in 4 8 16 30 $((head / 2)) $((head - 200)) $((head - 1)); do
    flip "$at" && bad "head, byte $at" "the keys or the table of tensors"
done
flip "$(($(grep -abo -m 1 -F pinhole.bundle.version "$G" | head -n 1 | cut -d: -f1) + 3))" && bad "its name as a bundle" "the keys or the table"
for at in "$head" $((head + 12345)) $(((head + seal) / 2)) $((seal - 1)); do
    flip "$at" && bad "data, byte $at" "is not what the bundle was sealed with"
done
refused "data, when it runs" 3 "is not what the bundle was sealed with" "$P" run -m "$D/bad.bundle" -p x -n 1
refused "data, when it is converted" 3 "is not what the bundle was sealed with" "$P" convert "$D/bad.bundle" -o "$D/x.gguf" --to gguf -q
refused "data, when it is quantised" 3 "is not what the bundle was sealed with" "$P" quantize "$D/bad.bundle" -o "$D/x.gguf" --to q8_0 -q
ok "data, trusted" "$P" run -m "$D/bad.bundle" -p x -n 1 --trust
flip 40 && refused "keys, trusted" 3 "the keys or the table of tensors" "$P" run -m "$D/bad.bundle" -p x -n 1 --trust
for at in 8 16 24 32 40 56 $((n_seal - 40)) $((n_seal - 10)); do
    flip $((seal + at)) && bad "seal, byte $at" "the seal of this bundle"
done
flip $((size - 16)) && bad "version" "a bundle of version 5; this program reads version 1"
flip $((seal + 1)) && bad "where the seal begins" "a bundle without its seal: what stands before its last 8 bytes was changed"
flip $((size - 24)) && bad "the seal's size" "its last 24 bytes were changed"
flip $((size - 1)) && bad "its last bytes" "its last 24 bytes were changed"
cp "$G" "$D/bad.bundle" && chmod u+w "$D/bad.bundle" && printf x >> "$D/bad.bundle" && bad "a byte behind it" "1 bytes were appended to its $size"
head -c $((size - 5)) "$G" > "$D/bad.bundle" && bad "cut in the seal" "cut short: $((size - 5)) of its $size bytes are there"
head -c "$seal" "$G" > "$D/bad.bundle" && bad "without its seal" "a bundle without its seal"
head -c $((seal - 100)) "$G" > "$D/bad.bundle" && bad "cut in the data" "cut short"
head -c 100 "$G" > "$D/bad.bundle" && bad "cut in the keys" "bytes"
{ head -c $((head + 64)) "$G" && tail -c +$((head + 97)) "$G"; } > "$D/bad.bundle" && bad "32 bytes less" "something was cut out or put in"

# ---- the tokenizer, ready-made: of a later version, then spoilt, behind --trust, which leaves the data alone
T=$D/set/models/vlm_qwen25vl/m.bundle
image=$(grep -abo -m 1 -F PHTOKENS "$T" | tail -n 1 | cut -d: -f1)
patched() { # BYTE VALUE: a copy of T with one byte of the tables' head changed
    cp "$T" "$D/t.bundle" && chmod u+w "$D/t.bundle" && printf "\\x$2" | dd of="$D/t.bundle" bs=1 seek=$((image + $1)) conv=notrunc status=none
}
ok "tables in place" same 0 $((image % 32))
patched 8 63
"$P" inspect --json --trust "$D/t.bundle" > "$D/inspected" 2> "$D/err"
ok "tables of a later version are left alone" has '"tokenizer":"plain"' "$D/inspected"
ok "tables of a later version: the plain files answer" same "$(ids -m "$T")" "$(ids -m "$D/t.bundle" --trust)"
refused "tables of a later version, without --trust" 3 "is not what the bundle was sealed with" "$P" inspect "$D/t.bundle"
patched 68 ff
refused "tables that do not fit" 3 "the ready-made tokenizer" "$P" inspect --trust "$D/t.bundle"
patched 32 41
refused "tables of a model that is not known" 3 "its model is not known" "$P" inspect --trust "$D/t.bundle"

# ---- wrong usage
for line in "run -m $G --mmproj tests/golden/gguf/vlm_llava15.mmproj.gguf -p x" "convert $S/models/vlm_llava15 -o $D/x --to bundle --names gguf" \
    "convert $S/models/vlm_llava15 -o $D/x --to bundle --mmproj-out $D/y" "convert $G -o $G --to bundle" "convert $G -o $D/x --to parcel" \
    "convert $S/models/vlm_llava15 -o $D/x --to bundle --bare" "convert $S/models/vlm_llava15 -o $D/x --to bundle --shard-size 1MB" \
    "quantize $S/models/vlm_llava15 -o $D/x --to q8_0 --bundle --bare" "quantize $S/models/vlm_llava15 -o $D/x --to q8_0 --bundle --shard-size 0" \
    "convert $G -o $D/x --to bundle --trust" "convert $G -o $D/x.gguf --to gguf --bare" \
    "convert $G --mmproj $G -o $D/x.gguf --to gguf" "convert $D/c.bundle --mmproj $G -o $D/x --to safetensors" \
    "quantize $S/models/vlm_llava15 --mmproj $G -o $D/x --to q8_0"; do
    # shellcheck disable=SC2086
    refused "usage: $line" 2 "" "$P" $line
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
