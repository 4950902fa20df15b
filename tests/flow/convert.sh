#!/bin/bash
# What was converted answers as what it was made from: directory to GGUF and back, with and without what rides along, each
# checked against the references; files of both containers give the same ids; quantised files run.  Models without names in
# GGUF, and others on request, go through one file that carries their directory.
cd "$(dirname "$0")/../.." || exit 1
. tests/flow/models.bash
ids() { "$P" run --json -n 8 --ignore-eos -p "What is in the image?" "$@" 2> "$D/err" | sed -nE 's/.*"ids":\[([0-9,]+)\].*/\1/p'; }

S=tests/golden/set
mkdir -p "$D/set/models"
ln -s "$PWD/$S/images" "$D/set/images"
# Models that GGUF has no names for, and why: of towers alone, of sound, with a Q-Former or a
# resampler, or looking at pictures between layers.  All others of the set have names.
nameless() {
    case $1 in align_clip | align_siglip | speech_whisper | vlm_blip2 | vlm_idefics1 | vlm_mllama) ;; *) return 1 ;; esac
}
# Under a sanitizer one model of a kind: the unit tests convert all of them there, in one process.
left_out() {
    [ -n "${PINHOLE_ASAN:-}" ] || return 1
    case $1 in llm_llama_gqa_untied | llm_phi3_longrope | vlm_llava_next | vlm_qwen25vl | vlm_blip2 | speech_whisper) return 1 ;; esac
}
for m in "$S"/models/*; do
    m=${m##*/}
    left_out "$m" && continue
    nameless "$m" && continue
    picture=() vision=()
    case $m in vlm_*) picture=(--image $S/images/scene.png) ;; esac
    want=$(ids -m $S/models/$m "${picture[@]}")
    for bare in "" --bare; do
        ok "$m $bare to gguf" "$P" convert $S/models/$m -o "$D/m.gguf" --to gguf -q $bare
        case $m in vlm_*) vision=(--mmproj "$D/mmproj-m.gguf") ;; esac
        ok "$m $bare inspected" "$P" inspect --json "$D/m.gguf" "${vision[@]}"
        ok "$m $bare answers" same "$want" "$(ids -m "$D/m.gguf" "${vision[@]}" "${picture[@]}")"
        ok "$m $bare planned" planned -m "$D/m.gguf" "${vision[@]}" "${picture[@]}"
        case $m in vlm_*)
            tall=(--image $S/images/odd_aspect.png)
            ok "$m $bare answers to a tall picture" same "$(ids -m $S/models/$m "${tall[@]}")" "$(ids -m "$D/m.gguf" "${vision[@]}" "${tall[@]}")"
            ;;
        esac
        rm -rf "$D/set/models/$m"
        ok "$m $bare back" "$P" convert "$D/m.gguf" "${vision[@]}" -o "$D/set/models/$m" --to safetensors -q
        cp -r $S/models/$m/golden "$D/set/models/$m/golden"
        ok "$m $bare verified" "$P" verify "$D/set/models/$m"
    done
    ok "$m quantised" "$P" quantize "$D/m.gguf" -o "$D/q.gguf" --to q8_0 -q
    ok "$m quantised answers" test -n "$(ids -m "$D/q.gguf" "${vision[@]}" "${picture[@]}")"
done
# ---- models that the field has no names for: one file carries the directory
small() { find "$1" -maxdepth 1 -type f ! -name '*.safetensors' ! -name '*.index.json' | sort; }
same_files() { # FROM TO: the small files, byte for byte
    [ "$(small "$1" | sed 's|.*/||')" = "$(small "$2" | sed 's|.*/||')" ] || return 1
    small "$1" | while read -r f; do cmp "$f" "$2/${f##*/}" || return 1; done
}
counted() { # PATH: "N passed, M failed, K skipped" of the reference cases, or nothing if one failed
    "$P" verify --tight "$1" > "$D/cases" 2>&1 && tail -n 1 "$D/cases"
}
says() { # WORD FILE
    grep -qF -- "$1" "$2"
}
for m in "$S"/models/*; do
    m=${m##*/}
    left_out "$m" && continue
    names=(--names huggingface)
    if nameless "$m"; then
        names=()
        "$P" convert "$S/models/$m" -o "$D/no.gguf" --to gguf -q --names gguf > "$D/out" 2>&1
        rc=$?
        ok "$m has no names" test $rc = 3
    fi
    C=$D/set/models/$m
    rm -rf "$C"
    mkdir "$C"
    cp -r $S/models/$m/golden "$C/golden"
    ok "$m carried" "$P" convert $S/models/$m -o "$C/model.gguf" --to gguf -q "${names[@]}"
    cp "$D/out" "$D/why"
    [ ${#names[@]} != 0 ] || ok "$m: why it is carried" says "kept the Hugging Face names" "$D/why"
    ok "$m carried: no second file" test ! -e "$C/mmproj-model.gguf"
    ok "$m carried: --bare leaves nothing out" "$P" convert $S/models/$m -o "$D/bare.gguf" --to gguf -q --bare "${names[@]}"
    ok "$m carried: --bare leaves nothing out" cmp "$C/model.gguf" "$D/bare.gguf"
    "$P" inspect --json $S/models/$m > "$D/a"
    "$P" inspect --json "$C/model.gguf" > "$D/b"
    for key in family language input activations engine pools kv tokenizer; do
        ok "$m carried: inspect says the same $key" same "$(sed -nE "s/.*\"$key\":([^,}]*).*/\1/p" "$D/a")" "$(sed -nE "s/.*\"$key\":([^,}]*).*/\1/p" "$D/b")"
    done
    ok "$m carried: inspect says where it stands" says '"container":"gguf"' "$D/b"
    ok "$m carried: verified as the directory is" same "$(counted $S/models/$m)" "$(counted "$C")"
    ok "$m carried and back" "$P" convert "$C/model.gguf" -o "$D/back-$m" --to safetensors -q
    ok "$m carried and back: files" same_files $S/models/$m "$D/back-$m"
    ok "$m carried and back: again the same file" "$P" convert "$D/back-$m" -o "$D/again.gguf" --to gguf -q --names huggingface
    if [ ! -e $S/models/$m/model.safetensors.index.json ]; then # general.name is that of the folder
        ok "$m carried and back: tensors" same "$(tail -c 60000 "$C/model.gguf" | cksum)" "$(tail -c 60000 "$D/again.gguf" | cksum)"
    fi
    ok "$m carried, quantised" "$P" quantize "$C/model.gguf" -o "$D/q.gguf" --to q8_0 -q
    ok "$m carried, quantised: smaller" test "$(stat -c %s "$D/q.gguf")" -lt "$(stat -c %s "$C/model.gguf")"
    mv "$D/q.gguf" "$C/model.gguf"
    case $m in
    align_*) ok "$m quantised" "$P" embed -m "$C/model.gguf" -p "a cup" --image $S/images/scene.png ;;
    speech_*) ok "$m quantised" "$P" run -m "$C/model.gguf" -n 4 --audio $S/models/$m/golden/*.wav ;;
    vlm_*) ok "$m quantised" test -n "$(ids -m "$C/model.gguf" --image $S/images/scene.png)" ;;
    *) ok "$m quantised" test -n "$(ids -m "$C/model.gguf")" ;;
    esac
done
C=$D/set/models/vlm_blip2
ok "carried: tokens" same "$("$P" tokenize -m $S/models/vlm_blip2 -p 'a red cup')" "$("$P" tokenize -m "$C/model.gguf" -p 'a red cup')"
ok "carried: pixels" "$P" prepare -m "$C/model.gguf" --image $S/images/scene.png -o "$D/x.safetensors"
ok "carried: pixels" "$P" prepare -m $S/models/vlm_blip2 --image $S/images/scene.png -o "$D/y.safetensors"
ok "carried: pixels" cmp "$D/x.safetensors" "$D/y.safetensors"
ok "carried, then with names" "$P" convert $S/models/vlm_llava15 -o "$D/c.gguf" --to gguf -q --names huggingface
ok "carried, then with names" "$P" convert "$D/c.gguf" -o "$D/n.gguf" --to gguf -q --names gguf
ok "carried, then with names, answers" same "$(ids -m $S/models/vlm_llava15 --image $S/images/scene.png)" \
    "$(ids -m "$D/n.gguf" --mmproj "$D/mmproj-n.gguf" --image $S/images/scene.png)"
rm -rf "$D/set/models/vlm_llava15" # files with names are verified too, where the folder has both
mkdir -p "$D/set/models/vlm_llava15"
mv "$D/n.gguf" "$D/mmproj-n.gguf" "$D/set/models/vlm_llava15/"
cp -r $S/models/vlm_llava15/golden "$D/set/models/vlm_llava15/golden"
ok "a folder of GGUF files verified" "$P" verify "$D/set/models/vlm_llava15"

# ---- int8: a directory or a carrying file, the same numbers in both, and features as before
vector() { # MODEL OPTIONS: of a picture, one number a line
    "$P" embed --json -m "$@" --image $S/images/scene.png 2> "$D/err" | sed -nE 's/.*"images":\[\{[^[]*\[([^]]*)\].*/\1/p' | tr , '\n'
}
near() { # A B: files of numbers whose cosine is at least 0.999
    paste "$1" "$2" | awk '{ n++; d += $1 * $2; a += $1 * $1; b += $2 * $2 }
        END { c = n ? d / sqrt(a * b) : 0; print n + 0, "numbers, cosine", c; exit !(n > 1 && c >= 0.999 && c < 1) }'
}
for m in align_clip align_siglip vlm_idefics3; do
    rm -rf "$D/int8" "$D/again"
    ok "$m int8" "$P" quantize $S/models/$m -o "$D/int8" --to int8 -q
    ok "$m int8: config" grep -q '"format": "int-quantized"' "$D/int8/config.json"
    ok "$m int8: inspected" "$P" inspect --json "$D/int8"
    ok "$m int8 in a file" "$P" quantize $S/models/$m -o "$D/int8.gguf" --to int8 -q
    ok "$m int8 out of it" "$P" convert "$D/int8.gguf" -o "$D/again" --to safetensors -q
    ok "$m int8 out of it: the same" diff -r "$D/int8" "$D/again"
    case $m in
    align_*)
        vector $S/models/$m > "$D/x"
        vector "$D/int8" > "$D/y"
        ok "$m int8: near" near "$D/x" "$D/y"
        vector "$D/int8" --rows8 > "$D/y"
        ok "$m int8, rows of 8 bits: near" near "$D/x" "$D/y"
        ;;
    *)
        picture=(--image $S/images/scene.png)
        ok "$m int8 answers" same "$(ids -m "$D/int8" "${picture[@]}")" "$(ids -m "$D/int8.gguf" "${picture[@]}")"
        ;;
    esac
done
echo 'model.vision_model.* = int8' > "$D/tower"
ok "int8 tower" "$P" quantize $S/models/vlm_idefics3 -o "$D/q.gguf" --to q4_0 --recipe "$D/tower" -q
"$P" inspect --tensors "$D/q.gguf" > "$D/tensors"
ok "int8 tower: levels" grep -qE 'vision_model.*fc1.weight .* I8' "$D/tensors"
ok "int8 tower: blocks" grep -qE 'text_model.*up_proj.weight .* Q4_0' "$D/tensors"
ok "int8 tower answers" test -n "$(ids -m "$D/q.gguf" --image $S/images/scene.png)"

ok "to gguf, for quantize" "$P" convert $S/models/llm_llama_gqa_untied -o "$D/m.gguf" --to gguf -q
printf 'output.weight = q8_0\nblk.0.* = f16\n' > "$D/recipe"
ok "recipe" "$P" quantize "$D/m.gguf" -o "$D/q.gguf" --to q4_0 --recipe "$D/recipe" -q
printf 'output.weight = q8_0\nblk.0.* = f16\nblk.99.* = f16\n*.bios = f32\n' > "$D/recipe.unmet"
ok "a rule that matches nothing is no fault" bash -c "'$P' quantize '$D/m.gguf' -o '$D/u.gguf' --to q4_0 --recipe '$D/recipe.unmet' -q 2> '$D/err'"
printf 'output.weight = q8_0\nx\033[31my = f16\n' > "$D/recipe.escape"
"$P" quantize "$D/m.gguf" -o "$D/e.gguf" --to q4_0 --recipe "$D/recipe.escape" -q 2> "$D/err.escape" > /dev/null
ok "an escape sequence of a recipe is spelt out" grep -qF "the rule 'x\x1b[31my'" "$D/err.escape"
ok "but is said, each" [ "$(grep -c '^pinhole: no tensor matches the rule' "$D/err")" = 2 ]
ok "by its pattern" grep -qF "no tensor matches the rule 'blk.99.*' of the recipe" "$D/err"
ok "and the others are followed" cmp -s "$D/u.gguf" "$D/q.gguf"
printf 'model.layers.0.* = f16\n' > "$D/recipe.none"
rm -f "$D/n.gguf"
ok "no rule at all matches" bash -c "'$P' quantize '$D/m.gguf' -o '$D/n.gguf' --to q4_0 --recipe '$D/recipe.none' -q 2> '$D/err'; [ \$? = 3 ]"
ok "is an error with a name to learn from" grep -q "none of the recipe's 1 rule matches a tensor: the first is 'model.layers.0.\*', and a tensor is called '" "$D/err"
ok "and nothing is written" [ ! -e "$D/n.gguf" ]
# Of two files neither is begun.
ok "two files" "$P" convert $S/models/vlm_llava15 -o "$D/two.gguf" --mmproj-out "$D/two.mm.gguf" --to gguf -q
ok "in a bundle" "$P" convert "$D/two.gguf" --mmproj "$D/two.mm.gguf" -o "$D/two.bundle" --to bundle -q
for from in $S/models/vlm_llava15 "$D/two.bundle"; do
    echo precious | tee "$D/n.gguf" > "$D/n2.gguf"
    ok "no rule matches either part of $(basename "$from")" bash -c "'$P' quantize '$from' -o '$D/n.gguf' --mmproj-out '$D/n2.gguf' --to q8_0 --recipe '$D/recipe.none' -q 2> '$D/err'; [ \$? = 3 ]"
    ok "is the same error" grep -q "none of the recipe's 1 rule matches a tensor" "$D/err"
    ok "and both outputs stay" [ "$(cat "$D/n.gguf" "$D/n2.gguf" | tr '\n' ' ')" = "precious precious " ]
done
echo 'v.blk.0.* = f16' > "$D/recipe.vision"
ok "a rule for the vision part alone" "$P" quantize $S/models/vlm_llava15 -o "$D/v.gguf" --to q8_0 --recipe "$D/recipe.vision" -q
ok "--output is --out" "$P" quantize "$D/m.gguf" --output "$D/o.gguf" --to q4_0 --recipe "$D/recipe" -q
ok "and writes the same" cmp -s "$D/o.gguf" "$D/q.gguf"
ok "also of convert" "$P" convert $S/models/llm_qwen2_tied --output="$D/o2.gguf" --to gguf -q
ok "and prepare has --out" "$P" prepare -m models/panel-vlm --image examples/panel1.png --out "$D/p.safetensors"
ok "beside --output" bash -c "'$P' prepare -m models/panel-vlm --image examples/panel1.png --output '$D/p2.safetensors' && cmp '$D/p.safetensors' '$D/p2.safetensors'"
ok "help shows one of them" bash -c "'$P' prepare --help | grep -q -- '--out FILE' && ! '$P' prepare --help | grep -q -- '--output'"
ok "recipe followed" bash -c "'$P' inspect '$D/q.gguf' --tensors | grep -qE 'blk.0.ffn_up.weight .*F16' && '$P' inspect '$D/q.gguf' --tensors | grep -qE 'blk.1.ffn_up.weight .*Q4_0'"
for bad in "convert $S/models/vlm_llava15 -o $D/x --to onnx" "convert $S/models/vlm_llava15 --to gguf" "quantize $D/m.gguf -o $D/x.gguf" \
    "convert $D/m.gguf -o $D/m.gguf --to gguf" "convert $D/m.gguf -o $D/x --to gguf --dtype q4_0" "convert $S/models/align_clip -o $D/x --to gguf --names ours" \
    "convert $S/models/align_clip -o $D/x --to safetensors --names gguf" "convert $D/m.gguf -o $D/x --to gguf --names huggingface" \
    "inspect $D/c.gguf --mmproj $D/c.gguf" "convert $D/m.gguf --mmproj $D/c.gguf -o $D/x.gguf --to gguf" "convert $D/c.gguf --mmproj $D/m.gguf -o $D/x.gguf --to gguf" \
    "convert $D/m.gguf -o $D/x.gguf --to gguf --bare" "quantize $D/m.gguf -o $D/x.gguf --to q8_0 --bare" "convert $S/models/align_clip -o $D/x --to safetensors --bare" \
    "convert $D/m.gguf -o $D/x.gguf --to gguf --shard-size 1MB" "quantize $S/models/align_clip -o $D/x.gguf --to int8 --shard-size 1MB" "quantize $S/models/align_clip -o $D/x --to int8 --names huggingface" \
    "quantize $S/models/vlm_idefics3 -o $D/x --to q4_0 --recipe $D/tower" "quantize $S/models/vlm_idefics3 -o $D/x.gguf --to int8 --names gguf"; do
    # shellcheck disable=SC2086
    "$P" $bad > "$D/out" 2> "$D/err"
    rc=$?
    ok "usage: $bad: exit $rc" test $rc = 2
done
ok "int8 of GGUF's own names" bash -c "! '$P' quantize '$D/m.gguf' -o '$D/x.gguf' --to int8 2> '$D/err' && grep -q 'no place for the scales' '$D/err'"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
