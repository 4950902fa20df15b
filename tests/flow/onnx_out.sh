#!/bin/bash
# convert --to onnx: imported models written again still give the stored outputs; parts of models by name, with weights inside
# and beside; what is refused, and how.
cd "$(dirname "$0")/../.." || exit 1
P=${PINHOLE:-build/pinhole}
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
verdict() { # OK WHAT
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$2: $(tail -n 3 "$D/out")"
    fi
}
expect() { # EXIT PATTERN WHAT COMMAND...
    local want=$1 pattern=$2 what=$3
    shift 3
    "$@" > "$D/out" 2>&1
    [ $? = "$want" ] && { [ -z "$pattern" ] || grep -Eq -- "$pattern" "$D/out"; }
    verdict $? "$what"
}

# ---- the golden models, written in another opset, against their stored outputs
again() { # FOLDER OPSET REFUSED: how many have no form in it
    local refused=0 copy=$D/again
    rm -rf "$copy"
    cp -r "$1" "$copy" && chmod -R u+w "$copy" && find "$copy" -name bad.json -delete
    while read -r model; do
        if "$P" convert "$1/$model" -o "$copy/$model.new" --to onnx --opset "$2" > "$D/out" 2>&1; then
            mv "$copy/$model.new" "$copy/$model"
        else
            grep -q "has no form in opset $2 of ONNX" "$D/out" || verdict 1 "$1/$model"
            refused=$((refused + 1))
        fi
    done < <(cd "$1" && find . -name '*.onnx' -not -path '*/bad/*')
    [ $refused = "$3" ]
    verdict $? "$1: $refused models have no form in opset $2, not $3"
    expect 0 ' 0 failed' "$1 in opset $2" "$P" verify "$copy"
}
again tests/golden/set/onnx 18 0
again tests/golden/onnx/microsoft 17 0
again tests/golden/onnx/quantised 21 0
[ -n "${PINHOLE_ASAN:-}" ] || again tests/golden/onnx/nodes 23 0

# ---- parts of models
mkdir "$D/said"
S=tests/golden/set/models
expect 0 'vision, [0-9]+ nodes' "a part" "$P" convert $S/vlm_llava15 -o "$D/v.onnx" --to onnx --part vision
expect 0 'ai.onnx 17' "the usual opset" "$P" inspect "$D/v.onnx"
expect 0 '"part":"bridge".*"bytes_data":0' "JSON" "$P" convert $S/vlm_llava15 -o "$D/b.onnx" --to onnx --part bridge --json
expect 0 'of weights' "weights beside" "$P" convert $S/vlm_llava15 -o "$D/beside.onnx" --to onnx --part vision --external 0 --opset 21
expect 0 '1 file beside it' "weights beside, read" "$P" inspect "$D/beside.onnx"
expect 0 'all/language.onnx: language' "all parts" "$P" convert $S/vlm_idefics3 -o "$D/all" --to onnx --part all
expect 0 '' "all parts: three files" test "$(ls "$D/all" | tr '\n' ' ')" = 'bridge.onnx language.onnx vision.onnx '
described() { # FOLDER PART: its inputs and outputs stand in the reference's row of that part
    "$P" inspect "$1/$2.onnx" > "$D/out" || return 1
    sed -nE 's/^  (input|output) +([^ ]+)  [a-z0-9]+ \[.*/\2/p' "$D/out" | sed -E 's/\.[0-9]+\./.L./; s/^(cross|present)\.L\..*/\1.L./' | sort -u > "$D/names"
    [ -s "$D/names" ] || return 1
    while read -r name; do
        grep "^| \`$2\`" docs/reference/onnx.md | grep -qF "\`$name" || { echo "onnx.md has no $name of part $2" > "$D/out" && return 1; }
    done < "$D/names"
}
for m in align_clip speech_whisper vlm_mllama vlm_qwen25vl vlm_llava15; do
    "$P" convert $S/$m -o "$D/said/$m" --to onnx --part all -q > /dev/null
    for part in "$D/said/$m"/*.onnx; do
        described "$D/said/$m" "$(basename "$part" .onnx)"
        verdict $? "described: $part"
    done
done
expect 3 'config.json, but with (bridge|language|vision).onnx: a graph alone, which inspect and check take' "a folder of parts is no model" \
    "$P" run -m "$D/said/vlm_llava15" -p hi
for m in "$S"/vlm_*; do
    expect 0 'language, ' "injected: $m" "$P" convert "$m" -o "$D/i.onnx" --to onnx --part language --inject 1
    expect 0 'inject.rows  int32 \[B, T, 2\]' "injected, its input: $m" "$P" inspect "$D/i.onnx"
done
expect 0 'language, ' "injected, our operator" "$P" convert $S/vlm_llava15 -o "$D/i.onnx" --to onnx --part language --inject 1 --inject-alpha 0.5 --own-operators
expect 0 'pinhole 1' "injected, our domain" "$P" inspect "$D/i.onnx"
expect 2 'no layer 99 to inject at: .* layers 0 to [0-9]' "no such layer" "$P" convert $S/vlm_llava15 -o "$D/i.onnx" --to onnx --part language --inject 99
expect 2 'nothing about pictures' "nothing to inject" "$P" convert $S/llm_qwen2_tied -o "$D/i.onnx" --to onnx --inject 0
expect 2 'nothing comes of it' "another part" "$P" convert $S/vlm_llava15 -o "$D/i.onnx" --to onnx --part vision --inject 0
expect 2 'goes with --inject' "alpha alone" "$P" convert $S/vlm_llava15 -o "$D/i.onnx" --to onnx --part language --inject-alpha 1
expect 2 'goes with --inject' "alpha alone, as it is anyhow" "$P" convert $S/vlm_llava15 -o "$D/i.onnx" --to onnx --part language --inject-alpha 0.3
expect 2 'go with --to onnx' "alpha and another format" "$P" convert $S/vlm_llava15 -o "$D/i.gguf" --to gguf --inject-alpha 0.3
expect 2 "takes a number from -10000 to 10000, not '1e39'" "alpha out of range" "$P" convert $S/vlm_llava15 -o "$D/i.onnx" --to onnx --part language --inject 1 --inject-alpha 1e39
expect 2 'go with --to onnx' "another format" "$P" convert $S/vlm_llava15 -o "$D/i.gguf" --to gguf --inject 0
expect 2 'leave --part, --mmproj and --inject away' "an ONNX file" "$P" convert "$D/v.onnx" -o "$D/i.onnx" --to onnx --inject 0
expect 0 'language, ' "the only part" "$P" convert $S/llm_qwen2_tied -o "$D/l.onnx" --to onnx
expect 0 '' "to GGUF" "$P" convert $S/vlm_llava15 -o "$D/m.gguf" --to gguf -q
expect 0 'vision, ' "from GGUF" "$P" convert "$D/m.gguf" --mmproj "$D/mmproj-m.gguf" -o "$D/g.onnx" --to onnx --part vision
expect 0 '' "to Q8_0" "$P" quantize "$D/m.gguf" -o "$D/q8.gguf" --to q8_0 -q
expect 0 'language, ' "from Q8_0" "$P" convert "$D/q8.gguf" -o "$D/q8.onnx" --to onnx
expect 0 '' "smaller" test "$(stat -c %s "$D/q8.onnx")" -lt "$(stat -c %s "$D/all/language.onnx")"

# ---- refused
expect 2 'vision, bridge, language' "an unknown part" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx --part ears
expect 2 '--part' "no part" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx
expect 2 'opset' "opset 12" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx --part vision --opset 12
expect 2 '--external' "no size" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx --part vision --external much
expect 2 '--to onnx' "--part elsewhere" "$P" convert $S/vlm_llava15 -o "$D/x.gguf" --to gguf --part vision
expect 2 'is what is read' "over itself" "$P" convert "$D/v.onnx" -o "$D/v.onnx" --to onnx
expect 2 '--part' "a part of an ONNX file" "$P" convert "$D/v.onnx" -o "$D/x.onnx" --to onnx --part vision
expect 0 '' "to IQ4_NL" "$P" quantize "$D/m.gguf" -o "$D/iq.gguf" --to iq4_nl -q
expect 3 'weight .* is stored as IQ4_NL.*--widen' "a type that ONNX lacks" "$P" convert "$D/iq.gguf" -o "$D/x.onnx" --to onnx
expect 0 'language, ' "widened" "$P" convert "$D/iq.gguf" -o "$D/x.onnx" --to onnx --widen
expect 2 '--shard-size goes with' "shards of an ONNX file" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx --part vision --shard-size 1MB
expect 2 '--threads goes with' "workers of an ONNX file" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx --part vision -t 2
expect 2 '--to gguf' "--bare of an ONNX file" "$P" convert $S/vlm_llava15 -o "$D/x.onnx" --to onnx --part vision --bare

# ---- names, and what stands there already
expect 3 'it holds a backslash' "a name that no model can give" "$P" convert $S/vlm_llava15 -o "$D/a\\b.onnx" --to onnx --part vision --external 0
expect 0 '' "a name that no model can give: nothing there" test -z "$(find "$D" -name 'a*b.onnx*')"
expect 0 'vision, ' "the same without weights beside" "$P" convert $S/vlm_llava15 -o "$D/a\\b.onnx" --to onnx --part vision
expect 0 '"out":"[^"]*/s ü.onnx"' "blanks and letters" "$P" convert $S/vlm_llava15 -o "$D/s ü.onnx" --to onnx --part vision --external 0 --json
expect 0 '1 file beside it' "blanks and letters: read" "$P" inspect "$D/s ü.onnx"
expect 0 '"out":"[^"]*/bad.*\.onnx"' "a name that is no UTF-8 in JSON" "$P" convert $S/vlm_llava15 -o "$D/bad"$'\xff'.onnx --to onnx --part vision --json
mkdir "$D/part" && cp "$D/q8.gguf" "$D/part/m.gguf" && ln -s m.gguf "$D/part/l.onnx.data"
expect 2 'l.onnx.data is what is read' "the data over what is read" "$P" convert "$D/part/m.gguf" -o "$D/part/l.onnx" --to onnx --external 0
cp "$D/m.gguf" "$D/mmproj-m.gguf" "$D/part/" && mkdir "$D/part/all" && ln -s ../m.gguf "$D/part/all/language.onnx"
expect 2 'is what is read' "one of all over what is read" "$P" convert "$D/part/m.gguf" --mmproj "$D/part/mmproj-m.gguf" -o "$D/part/all" --to onnx --part all
expect 0 '' "one of all over what is read: none written" test "$(ls "$D/part/all")" = language.onnx
limited() { (ulimit -f "$1" && exec "${@:2}"); }
expect 4 'File too large' "no room for any part" limited 4 "$P" convert $S/vlm_llava15 -o "$D/room" --to onnx --part all
expect 4 'while writing .*room/vision\.onnx$' "no room for any part: which" limited 4 "$P" convert $S/vlm_llava15 -o "$D/room" --to onnx --part all
expect 0 '' "no room for any part: nothing there" test ! -e "$D/room"
# The weights of an older model stay its own when a new one cannot be finished.
expect 0 'of weights' "an older model" "$P" convert $S/vlm_llava15 -o "$D/old.onnx" --to onnx --part language --external 0
sum=$(cat "$D"/old.onnx* | cksum)
expect 4 'File too large' "no room for the model" limited 100 "$P" convert $S/vlm_llava15 -o "$D/old.onnx" --to onnx --part language --external 72KB
expect 4 'while writing .*old\.onnx' "no room for the model: which" limited 100 "$P" convert $S/vlm_llava15 -o "$D/old.onnx" --to onnx --part language --external 72KB
expect 4 'while writing .*old\.onnx\.data$' "no room for the data: which" limited 4 "$P" convert $S/vlm_llava15 -o "$D/old.onnx" --to onnx --part language --external 0
expect 0 '' "no room for the model: the older one is whole" test "$sum" = "$(cat "$D"/old.onnx* | cksum)"
expect 0 '' "nothing left behind" test -z "$(find "$D" -name '.pinhole*')"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
