#!/bin/bash
# `pinhole profile` and `--engine auto` as a user calls them: what is printed, kept and found again, files that are none,
# placements that have to fit.  No time is asserted: files with times that decide are written here.
: "${PINHOLE:=build/pinhole}"
P=$(realpath "$PINHOLE") root=$PWD
export PINHOLE_MODEL=${PINHOLE_MODEL:-$root/models/panel-vlm}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache HOME=$work # nothing of this user is read or written
export TBB_ENABLE_SANITIZERS=1               # OpenVINO's threads' library else ends an AddressSanitizer process
ask=(run -t 2 --image "$root/examples/panel1.png" -p "what is on the display?")

. "$root/tests/flow/expects.bash"
command=("$P")

# ---- measuring ----

expect 0 '^see +native +[0-9.]+ ms' "a table" profile -t 2 --rounds 1 -q
holds "steps are a token's" grep -qE '^step +native .* a token$' out
holds "by kind" grep -qE '^    linear +[0-9.]+ ms +[0-9.]+ % in [0-9]+ runs$' out
holds "where parts go" grep -qE '^vision +on (native|ort|openvino) +measured [0-9.]+ ms' out
holds "nothing is kept unless it is asked for" [ ! -e cache/pinhole ]
expect 0 '^\{"device":\{"cpu":' "--json" profile -t 2 --rounds 1 -q --json --save-costs --trace t.json --peaks p.svg
cp out now.json
holds "one line" [ "$(wc -l < now.json)" = 1 ]
holds "nothing to standard error" [ ! -s err ]
kept=$(find "$work/cache" -name 'costs-*.json')
holds "kept in the user's cache" test -s "$kept"
holds "and nothing else" [ "$(find cache/pinhole -type f | wc -l)" = 1 ]
if command -v jq > /dev/null; then
    holds "stages of the contract" jq -e '[.costs[] | select(.engine == "native") | .stage] == ["see","bridge","prefill","step"]' now.json
    holds "times" jq -e '[.costs[] | .least_ms > 0 and .least_ms <= .median_ms and .median_ms <= .most_ms] | all' now.json
    holds "a route" jq -e '.route | .measured and .fits and [.parts[].part] == ["vision","bridge","language"]' now.json
    holds "peaks" jq -e '.peaks | (.kv.bytes > 0) and (.total.bytes > .weights.bytes) and (.total.phase | length > 0)' now.json
    holds "the file" jq -e '.pinhole_costs == 1 and (.model | length == 32) and (.costs | length >= 4) and (.kinds | length > 8)' "$kept"
    holds "the timeline" jq -e '[.traceEvents[] | select(.name == "see" and .ph == "X" and .dur > 0)] | length == 1' t.json
fi
holds "a picture of memory" grep -qE '^<text .*>weights: at most [0-9.]+ [kMG]?B, in ' p.svg
expect 0 '^  weights +[0-9.]+ .B +in [a-z]+: pages' "peaks of memory" profile -t 1 --rounds 1 -q --peaks p.dot
holds "and of what stands beside the six, and all" bash -c 'for k in kv tokenizer base total; do grep -qE "^  $k +[0-9.]+ [kMG]?B +in [a-z]+: " out || exit 1; done'
holds "the same for Graphviz" grep -qF 'prefill -> step;' p.dot
if command -v dot > /dev/null; then holds "which Graphviz reads" dot -Tsvg p.dot; fi
if command -v xmllint > /dev/null; then holds "which is XML" xmllint --noout p.svg; fi
cp "$root/tests/golden/bundle/llava.bundle" own.bundle && chmod u+w own.bundle
cp "$root/examples/panel1.png" own.png && cp own.bundle kept.bundle
expect 2 'own.bundle is what is read: write somewhere else' "a trace over the model" profile -q --rounds 1 -m own.bundle --trace own.bundle
expect 2 'own.bundle is what is read: write somewhere else' "costs over the model" profile -q --rounds 1 -m own.bundle --save-costs --costs own.bundle
expect 2 'own.png is what is read: write somewhere else' "a trace over the picture" profile -q --rounds 1 -i own.png --trace own.png
expect 2 'both.svg cannot hold both: write one somewhere else' "two in one place" profile -q --rounds 1 --trace both.svg --peaks both.svg
holds "the model is whole" cmp own.bundle kept.bundle
holds "the picture is whole" cmp own.png "$root/examples/panel1.png"
# What is a link stays one; what it leads to is written, there already or not, from the link's own folder.
mkdir far && echo old > far/t.json && ln -s far/t.json t.link && ln -s t.link t.twice && ln -s ../c.json far/c.link && ln -s loop loop
expect 0 '"costs"' "through links" profile -t 1 --rounds 1 -q --json --trace t.twice --save-costs --costs far/c.link
holds "the links stay" [ "$(readlink t.twice) $(readlink t.link) $(readlink far/c.link)" = "t.link far/t.json ../c.json" ]
holds "the trace is where they lead" grep -q traceEvents far/t.json
holds "so is the file of times, which was not there" grep -q pinhole_costs c.json
expect 3 'loop' "links in a circle" profile -t 1 --rounds 1 -q --trace loop
expect 2 'far/t.json cannot hold both' "a file and a link to it" profile -q --rounds 1 --save-costs --costs t.link --trace far/t.json
# Before anything is measured, which is said on the way.
for to in "--trace loop" "--trace nowhere/t.json" "--save-costs --costs nowhere/c.json" "--peaks nowhere/p.svg"; do
    [ "$to" = "--trace loop" ] && rc=3 || rc=4
    # shellcheck disable=SC2086
    expect $rc "(loop|nowhere)" "$to is refused" profile -t 1 --rounds 1 $to
    holds "$to: at once" [ "$(wc -l < err)" = 1 ]
done
for to in /dev/stdout both.json; do
    "$P" profile -t 1 --rounds 1 -q --trace $to > both.json 2> err
    holds "the report's place is not $to's" [ $? = 2 ] && holds "$to is named" grep -q "$to is where the report is printed" err
done
ln -s own.bundle own.link
expect 2 'own.link is what is read: write somewhere else' "a trace through a link over the model" profile -q --rounds 1 -m own.bundle --trace own.link
holds "the model is still whole" cmp own.bundle kept.bundle
expect 2 'a .dot or a .svg file, not .p.png' "another kind of picture" profile --peaks p.png
expect 0 '^64$' "auto finds them" "${ask[@]}" --engine auto --stats
holds "of which none is missed" [ "$(grep -c 'measured times' err)" = 0 ]
holds "why not elsewhere" grep -qE '^language +on native +measured [0-9.]+ ms; no other engine takes it$' err
holds "engine by engine" grep -qE "^  not ort +graph 'language' keeps the state" err
grep -A2 '^language' err > said
expect 0 '^language +on native' "inspect" inspect -t 2 --engine auto
holds "which says the same, in the same words" cmp said <(grep -A2 '^language' out)
expect 0 '^64$' "once more" "${ask[@]}" --engine auto --stats
holds "by measured times" grep -qE '^vision +on (native|ort|openvino) +measured [0-9.]+ ms; ' err
expect 0 '"route":\{"measured":true,"ms":[0-9.]+,"fits":true' "run --json" "${ask[@]}" --engine auto --json
expect 0 '"measured":false' "other options, other times" "${ask[@]}" --engine auto --json --exact
expect 0 '"measured":false' "other threads, other times" "${ask[@]}" -t 1 --engine auto --json
expect 0 'on native +by rule, cpu: ' "another model has none" run -m "$root/tests/golden/set/models/llm_qwen2_tied" -n 1 -p hi --engine auto --stats
expect 0 '^prefill +native' "a model of text" profile "$root/tests/golden/set/models/llm_qwen2_tied" -t 1 --rounds 1 -q
expect 0 'a picture of 64x48 \(made\)' "--image-size" profile -t 1 --rounds 1 -q --image-size 64x48
expect 0 'a picture of [0-9]+x[0-9]+, ' "--image" profile -t 1 --rounds 1 -q --image "$root/examples/panel1.png"

# ---- files of other devices, and files that are none ----

one="$work/one.json"
sed -E 's/"cpu": "[^"]*"/"cpu": "an abacus"/' "$kept" > "$one"
expect 0 'not used: they are of [0-9]+ processors .an abacus' "another device" "${ask[@]}" --engine auto --costs "$one"
holds "is a note, once" [ "$(wc -l < err)" = 1 ]
jq '.costs |= map(select(.stage != "prefill"))' "$kept" > "$one"
expect 0 'have none of the part language: parts go by rule' "a part that was never timed" "${ask[@]}" --engine auto --costs "$one"
jq '.kinds |= map(select(.stage != "see"))' "$kept" > "$one"
expect 0 'have see on native, but none of its kinds of steps' "a stage whose steps were never timed" "${ask[@]}" --engine auto --costs "$one"
jq '[.costs[] | select(.engine == "native" and .stage != "prefill" and .stage != "step") | .engine = "openvino" | (.us, .least, .most) *= 1000] as $more
    | .costs |= map(select(.engine != "openvino")) + $more' "$kept" > "$one"
expect 0 '^64$' "an engine that has no kinds of steps" "${ask[@]}" --engine auto --costs "$one"
holds "of which nothing is said" [ ! -s err ]
jq '.kinds[0].us = "long"' "$kept" > "$one"
expect 3 'kinds\[0\]\.us' "kinds that are none" "${ask[@]}" --engine auto --costs "$one"
sed -E 's/"pinhole_costs": 1/"pinhole_costs": 7/' "$kept" > "$one"
expect 0 'not used: .*version 7; this program reads 1' "another version" "${ask[@]}" --engine auto --costs "$one"
refused() { # pattern, what: a file that is refused, in one message
    expect 3 "$1" "$2" "${ask[@]}" --engine auto --costs "$one"
    holds "$2: one message" [ "$(grep -c '^pinhole' err)" = 1 ]
    holds "$2: what to do" grep -q 'pinhole profile --save-costs' err
}
head -c 300 "$kept" > "$one" && refused 'one\.json' "cut"
sed -E '0,/"us": [0-9.]+/s//"us": -3/' "$kept" > "$one" && refused 'costs\[0\]\.us: -3 microseconds are no time' "no time"
sed -E '0,/"I": 1/s//"I": -1/' "$kept" > "$one" && refused 'a size of -1' "no size"
sed -E 's/"threads": 2/"threads": 2000/' "$kept" > "$one" && refused 'threads is 2000' "no number of threads"
printf '{"pinhole_costs": 1, "device": {"cpu": "\033[2J"}}' > "$one" && refused 'one\.json' "control characters"
: > "$one" && refused 'one\.json' "empty"
head -c 2000000 /dev/zero > "$one" && refused 'one\.json' "too large"
rm "$one"
expect 3 'one\.json' "a file that is not there" "${ask[@]}" --engine auto --costs "$one"
echo '{' > "$kept"
expect 3 'costs-[0-9a-f]{32}\.json' "damaged where they are kept" "${ask[@]}" --engine auto
expect 0 '^64$' "which is no matter without auto" "${ask[@]}"
expect 0 '"saved":"' "and can be measured anew" profile -t 2 --rounds 1 -q --json --save-costs
expect 0 '^64$' "as was said" "${ask[@]}" --engine auto
XDG_CACHE_HOME=$kept expect 3 'no folder can be made there' "a cache that is none" profile -t 1 --rounds 1 -q --save-costs
XDG_CACHE_HOME=$kept expect 0 '^64$' "nor does it matter to who only reads" "${ask[@]}" --engine auto

# ---- times that decide ----

fast="$work/fast.json"
times() { # OF NATIVE, OF ORT: microseconds of the vision part
    awk -v native="$1" -v ort="$2" '
        /"stage"/ { stage = $2 } /"engine"/ { engine = $2 } /"kinds"/ { stage = "" }
        stage ~ /see|bridge/ && /"(us|least|most)"/ { sub(/: [0-9.e+]+/, ": " (engine ~ /ort/ ? ort : native)) }
        { print }' "$kept" > "$fast"
}
times 9000 9
# What native takes, with some room: a library or a copy of weights is more.
least=$("$P" inspect -t 2 --json | sed -E 's/.*"memory":\{"total":([0-9]+).*/\1/') room=$((least + 4000000))
if "$P" inspect --engines | grep -qE '^  ort +here '; then
    expect 0 '"engines":\{"vision":"ort",' "the faster engine" "${ask[@]}" --engine auto --costs "$fast" --json
    holds "the same answer" grep -qF '"text":"64",' out
    expect 0 '^vision +on native +measured 9\.00 ms; .*ort 0\.01 ms.*; [1-9][0-9]* better placements? did not fit' "unless it does not fit" inspect -t 2 --engine auto --costs "$fast" --memory $room
    holds "which fits" grep -q '^it fits:' out
    expect 0 '^64$' "to run too" "${ask[@]}" --engine auto --costs "$fast" --memory-budget $room --stats
    holds "on native" grep -qE '^vision +on native' err
    expect 0 '^vision +on ort +asked for' "what is named stays" inspect -t 2 --engine vision=ort,bridge=auto --costs "$fast"
    expect 0 '^  not ort +graph .language. keeps the state' "what cannot be" inspect -t 2 --engine auto --costs "$fast"
    sed -E 's/"release": "1\.[0-9.]+"/"release": "1.0.0"/' "$fast" > "$one"
    expect 0 'they are of release 1\.0\.0, this is 1\.' "another release" "${ask[@]}" --engine auto --costs "$one" --json
    holds "whose times do not count" grep -qF '"engines":{"vision":"native","language":"native"}' out
    times 9 9000
    expect 0 '"engines":\{"vision":"native","language":"native"\}' "the slower engine" "${ask[@]}" --engine auto --costs "$fast" --json
else
    echo "placements on ONNX Runtime are skipped: it is not here (make ort)"
fi
expect 1 'no placement fits the memory' "a plan that does not fit" inspect -t 2 --engine auto --costs "$fast" --memory 1MB
expect 1 '"fits":false,"memory_max":1000000' "the same as JSON" inspect -t 2 --engine auto --costs "$fast" --memory 1MB --json
expect 3 'fits 1000000 bytes, the least takes [0-9]+: give more' "and is not run" "${ask[@]}" --engine auto --costs "$fast" --memory-budget 1MB

# ---- engines that were named ----

told() { # what, lines: parts, engines and reasons, at the end of what --stats says
    holds "$1" [ "$(sed -nE 's/^([a-z]+) +on ([a-z]+) +/\1 \2 /p' err)" = "$2" ]
}
expect 0 '^64$' "one engine for all" "${ask[@]}" --engine native --stats
told "is told of" $'vision native asked for\nbridge native as vision\nlanguage native asked for'
PINHOLE_ORT=$work/none expect 0 '^64$' "one that is not here" "${ask[@]}" --engine vision=ort,bridge=native --stats
told "has another in its place" $'vision native in place of ort, which is not here\nbridge native asked for\nlanguage native by default'
PINHOLE_ORT=$work/none expect 0 '^64$' "beside the router" "${ask[@]}" --engine vision=ort,bridge=auto,embed=ort --costs "$fast" --stats
holds "has another too" grep -qE '^vision +on native +in place of ort, which is not here$' err
holds "as rows of ids have" grep -qE '^embed +on native +in place of ort, which is not here$' err
echo "{\"prompt\": \"what is on the display?\", \"image\": \"$root/examples/panel1.png\"}" > list
expect 0 '"text":"64"' "a list" run -t 2 --list list --engine language=native --stats
told "tells where parts ran" $'vision native by default\nbridge native as vision\nlanguage native asked for'
expect 0 '^64$' "no engine that was named" "${ask[@]}" --stats
told "is not told of" ''

# ---- what is refused, and how ----

expect 2 "is for parts that are left to the router: add --engine auto" "--costs without auto" "${ask[@]}" --costs "$fast"
expect 2 "--memory-budget is for parts" "--memory-budget without auto" "${ask[@]}" --memory-budget 1GB
expect 2 "--latency-budget is for parts" "--latency-budget without auto" "${ask[@]}" --latency-budget 100 --engine native
expect 2 'a latency budget of -5 ms' "a budget below 0" "${ask[@]}" --engine auto --latency-budget -5
expect 2 "no engine .steam." "an engine that is none" "${ask[@]}" --engine vision=auto,language=steam
holds "auto is among those that are" grep -q 'or auto, which chooses among them' err
expect 2 'parts vision, bridge, embed and language' "a part that is none" "${ask[@]}" --engine ears=auto
expect 2 "no engine 'auto'" "verify chooses nothing" verify --engine vision=auto "$root/tests/golden/panel"
expect 2 'leave out bridge=ort' "verify has no bridge" verify --engine vision=ort,bridge=ort "$root/tests/golden/panel"
expect 2 'from 1 to 101' "--rounds 0" profile --rounds 0
expect 2 '--save-costs writes' "--costs without --save-costs" profile --costs x.json
expect 2 'one model' "two models" profile a b
expect 2 "no option '--engine" "profile takes all engines" profile --engine native
expect 3 'nosuch' "no such model" profile nosuch
expect 3 'folder' "a timeline over a folder" profile --trace "$work" --rounds 1 -q
expect 3 'knows no sound' "a model that hears" profile "$root/tests/golden/set/models/speech_whisper" -q
expect 3 'gives no next token' "a model that does not answer" profile "$root/tests/golden/set/models/align_clip" -q
echo "$passed passed, $failed failed"
[ $failed = 0 ]
