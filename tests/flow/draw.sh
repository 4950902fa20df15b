#!/bin/bash
# `inspect --svg`: Graphviz's dot is fed the graph, and what it draws is what is printed; where it is missing, or gives up
# before it has read the graph, that is one message, and no signal.
cd "$(dirname "$0")/../.." || exit 1
P=$(realpath "${PINHOLE:-build/pinhole}")
export PINHOLE_MODEL=models/panel-vlm
. tests/flow/says.bash
graph=(inspect --svg -m "$D/tall")
with() { PATH=$D/$1 "$P" "${@:2}"; } # FOLDER: all the programs that there are
program() { # FOLDER, LINES OF SH: a dot of our own, which finds the others by where they are
    mkdir "$D/$1" && printf '#!/bin/sh\nPATH=%q\n%s\n' "$PATH" "$2" > "$D/$1/dot" && chmod +x "$D/$1/dot"
}
only() { [ "$(wc -l < "$D/err")" = 1 ]; } # nothing on standard error beside the message
mkdir "$D/none"
program draws 'echo "<svg $*>"; cat; echo "</svg>"'
program fails 'exec 0<&-; echo "dot: no" >&2; exit 3'
program leaves 'exec 0<&-; exit 0'
program dies 'kill -TERM $$; sleep 9'

# A model as tall as a real one, so that its graph is more than a pipe holds.
cp -r tests/golden/set/models/llm_qwen2_tied "$D/tall"
python3 - "$D/tall" << 'END'
import json, struct, sys
layers, of = 40, sys.argv[1]
with open(of + "/model.safetensors", "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
tall, parts, at = {}, [], 0
for name, t in head.items():
    if name == "__metadata__" or ".layers." in name and ".layers.0." not in name:
        continue
    for i in range(layers if ".layers.0." in name else 1):
        part = data[slice(*t["data_offsets"])]
        tall[name.replace(".layers.0.", f".layers.{i}.")] = {**t, "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
text = json.dumps(tall).encode()
with open(of + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
config = json.load(open(of + "/config.json"))
config.update(num_hidden_layers=layers, layer_types=["full_attention"] * layers)
json.dump(config, open(of + "/config.json", "w"))
END
"$P" inspect --dot -m "$D/tall" > "$D/graph"
ok "a graph that no pipe holds at once" test "$(wc -c < "$D/graph")" -gt 65536
with draws "${graph[@]}" > "$D/svg" 2> "$D/err"
ok "drawn" test $? = 0 -a ! -s "$D/err"
{ echo "<svg -Tsvg>"; cat "$D/graph"; echo "</svg>"; } > "$D/want"
ok "all of it, and nothing else" cmp "$D/svg" "$D/want"
ok "without Graphviz" fails 4 "program dot cannot be started (No such file or directory): install Graphviz (the package graphviz), or print the graph with --dot" with none "${graph[@]}"
ok "without a word of the shell's" only
ok "one that gives up" fails 4 "dot did not draw the graph: it ended with status 3; --dot prints it" with fails "${graph[@]}"
ok "whose own words stay" grep -qx "dot: no" "$D/err"
ok "one that does not read" fails 4 "dot did not draw the graph: it did not read all of it" with leaves "${graph[@]}"
ok "one that is killed" fails 4 "dot did not draw the graph: it was ended by signal 15" with dies "${graph[@]}"
if command -v dot > /dev/null; then
    "$P" inspect --svg > "$D/svg" 2> "$D/err"
    ok "Graphviz's own" grep -q '</svg>' "$D/svg"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
