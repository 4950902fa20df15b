#!/bin/bash
# `pinhole bench` as a user calls it: tiny sizes, the keys that scripts lean on, and --compare both ways.  No time is
# asserted: what is compared with is made from what was just measured, far enough on either side.
: "${PINHOLE:=build/pinhole}"
pinhole=$(realpath "$PINHOLE") root=$PWD
export PINHOLE_MODEL=${PINHOLE_MODEL:-$root/models/panel-vlm}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work" || exit 1
tiny=(-t 1,2 -p 16 -n 4 --rounds 1 --read-size 8MB -q)

. "$root/tests/flow/expects.bash"
command=("$pinhole" bench)

# One object on standard output, with the keys of the contract.
expect 0 '^\{"machine"' "--json" "${tiny[@]}" --json
cp out now.json
holds "one line" [ "$(wc -l < now.json)" = 1 ]
holds "nothing to standard error" [ ! -s err ]
if command -v jq > /dev/null; then
    holds "keys of machine" jq -e '.machine | (.cpu | length > 0) and (.isa | length > 0) and .threads == 2 and .read_gbs > 0 and .f32_gflops > 0 and has("int8_gops")' now.json
    holds "keys of rows" jq -e '[.rows[] | has("stage") and .threads > 0 and .n > 0 and .median > 0 and has("unit") and has("limit_share")] | all' now.json
    holds "every stage with both thread counts" jq -e '[.rows[] | [.stage, .threads]] | sort == ([["load","first","load_cold","first_cold","prepare","see","bridge","prefill","step","answer"], [1,2]] | [combinations] | sort)' now.json
    holds "shares of the stages that have a limit" jq -e '[.rows[] | select(.stage | IN("see","bridge","prefill","step")) | .limit_share > 0] | all and length == 8' now.json
    holds "the others have none" jq -e '[.rows[] | select(.stage | IN("see","bridge","prefill","step") | not) | .limit_share == null] | all' now.json
    holds "bytes a token" jq -e '[.rows[] | select(.stage == "step") | .bytes_per_token > 1e6] | all' now.json
    holds "limits of both thread counts" jq -e '[.limits[].threads] == [1,2]' now.json
    holds "the picture" jq -e '.picture | .width == 1024 and .height == 768 and .tiles == 1 and .tokens == 64 and .made' now.json
else
    for key in cpu isa read_gbs f32_gflops int8_gops stage threads n median unit limit_share bytes_per_token; do
        holds "key $key" grep -q "\"$key\":" now.json
    done
fi

# Against a run a hundred times slower, and one a hundred times faster: medians scaled, times and rates alike.
scale() { # factor of speed
    awk -v by="$1" '{
        while (match($0, /"median":[0-9.e+-]+,"unit":"[a-z\/]+"/)) {
            part = substr($0, RSTART, RLENGTH); value = part; sub(/"median":/, "", value); sub(/,.*/, "", value)
            unit = part; sub(/.*"unit":/, "", unit)
            value = unit ~ /ms/ ? value / by : value * by
            printf "%s\"median\":%.12g,\"unit\":%s", substr($0, 1, RSTART - 1), value, unit
            $0 = substr($0, RSTART + RLENGTH)
        }
        print
    }' now.json
}
scale 0.01 > slow.json
scale 100 > fast.json
expect 0 'against slow.json' "faster than before" "${tiny[@]}" --no-limits --compare slow.json
expect 1 'SLOWER' "slower than before" "${tiny[@]}" --no-limits --compare fast.json
expect 0 'against fast.json' "slower, but --worse allows it" "${tiny[@]}" --no-limits --compare fast.json --worse 0.0001
expect 1 '"worse":true' "--compare --json" "${tiny[@]}" --no-limits --compare fast.json --json
expect 3 'none of its [0-9]+ rows' "no row in common" -t 3 -p 8 -n 2 --rounds 1 -q --no-limits --compare slow.json
echo '{"rows":[{"stage":"see"}]}' > broken.json
expect 3 'broken.json: rows\[0\].unit' "a row without its keys" "${tiny[@]}" --no-limits --compare broken.json
expect 3 'nosuch.json' "no such file" "${tiny[@]}" --compare nosuch.json

# A picture of the caller's, a deeper cache, a text, kernels by name.
expect 0 '^decode ' "--image" "${tiny[@]}" --no-limits --no-cold --image "$root/examples/panel1.png"
expect 0 'picture 64x48 \(made\)' "--image-size" "${tiny[@]}" --no-limits --no-cold --image-size 64x48
expect 0 '^step +1 +4 ' "--depth" "${tiny[@]}" --no-limits --no-cold --depth 40
expect 0 '^step ' "--unfuse" "${tiny[@]}" --no-limits --no-cold --unfuse norm,rope,all
PINHOLE_ISA=ref expect 0 'kernels ref' "PINHOLE_ISA" -t 1 -p 4 -n 1 --rounds 1 --read-size 8MB -q --image-size 16x16
holds "cold rows only when they are wanted" bash -c '! grep -q load_cold out || grep -q "kernels ref" out'

# What is refused, and how.
expect 2 'thread counts of 1 to 256' "-t x" -t x
expect 2 'stands there twice' "-t 1,1" -t 1,1
expect 2 'at most 8' "-t of nine" -t 1,2,3,4,5,6,7,8,9
expect 2 'WIDTHxHEIGHT' "--image-size 5" --image-size 5
expect 2 'from 1 to 101' "--rounds 0" --rounds 0
expect 2 '--worse' "--worse 2" --worse 2
expect 2 "no fusion 'nix'; known are all norm" "--unfuse nix" --unfuse norm,nix
expect 2 'from 1 to 16777216' "-p 0" -p 0
expect 2 'unknown option|--rounds' "--round" --round 2
expect 3 'context' "-p beyond the context" -t 1 -p 100000
expect 3 'nosuch' "no such model" -m nosuch
expect 3 'plain text, which is not read' "a picture that is none" -t 1 --image now.json
# The border: what is held is the same every time; times are only there.
expect 0 '^wide .*' "--border" -t 1 --rounds 1 -q --border
expect 0 '^\{"border"' "--border --json" -t 1 --rounds 2 -q --border --json
cp out border.json
if command -v jq > /dev/null; then
    holds "rows of the border" jq -e '[.border[].what] == ["wide", "model"] and ([.border[] | .shared_ms > 0 and .copied_ms > 0 and .time > 0] | all)' border.json
    holds "nothing is copied" jq -e '[.border[].copied_when_shared] == [0, 0] and .border[1].bytes == 64 * 256 * 4' border.json
    [ -n "${PINHOLE_ASAN:-}" ] || holds "the wide border is held once" jq -e '.border[0] | .held <= 0.64 and .copied_held - .shared_held > 0.9 * .bytes' border.json
fi
expect 2 'leave one out' "--border --compare" --border --compare now.json
# Double against serial, as a script.
if command -v python3 > /dev/null && [ -z "${PINHOLE_ASAN:-}" ]; then
    PINHOLE=$pinhole python3 "$root/bench/pipeline.py" --shape built-in --images 3 --rounds 1 -n 3 --json > pipeline.json 2> err
    holds "pipeline.py" grep -qE '"double_of_serial": [0-9.]+, "double_of_all_threads": [0-9.]+, "auto": "serial, since too few' pipeline.json
    PINHOLE=$pinhole python3 "$root/bench/pipeline.py" --shape built-in --sizes 4 --json > pipeline.json 2> err
    holds "pipeline.py --sizes" grep -q '"ratio": {"serial":' pipeline.json
    PINHOLE=$pinhole python3 "$root/bench/fusions.py" -t 2 --rounds 1 --only norm > fusions.txt 2> err
    holds "fusions.py within a small context" grep -qE '^norm +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$' fusions.txt
    PINHOLE=$pinhole python3 "$root/bench/fusions.py" -t 2 --rounds 1 --only norm -p 600 > fusions.txt 2> err
    holds "fusions.py as it was told" grep -q 'a prompt of 600 tokens' err
    # With one engine alone auto has no other way: what the two differ by is noise.
    PINHOLE_ORT=$PWD/none PINHOLE_OPENVINO=$PWD/none PINHOLE=$pinhole python3 "$root/bench/route.py" --rounds 1 --allow 0.01 > route.txt 2> err
    holds "route.py counts no noise" [ $? = 0 ]
    holds "which it says" grep -qE '^  auto / native: [0-9.]+, .*; the same placement: noise, not counted$' route.txt
    holds "and nothing else" grep -qx "nothing is counted: each placement is the best single engine's own" route.txt
fi

# What the scripts of bench/ print with --json goes into tables.
tables() { # WORDS OPTION..., with the objects on standard input
    local words=$1
    shift
    cat > tables.json
    if python3 "$root/bench/tables.py" "$@" tables.json 2>&1 | grep -qF -- "$words"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "tables.py $*: not '$words'"
    fi
}
if command -v python3 > /dev/null; then
    machine='"machine":{"cpu":"one","isa":"ref","read_gbs":1}'
    peers="{$machine,\"model\":\"a/b.gguf\",\"missing\":[],\"rows\":[{\"work\":\"step\",\"unit\":\"tok/s\",\"peer\":\"p\",\"ours\":[3,4,5],\"theirs\":[2]}]}"
    tables '| step | 4.00 tok/s | 2.00 tok/s | 2.00 | p |' <<< "$peers"
    tables 'one,ref,b.gguf,step,,,4,tok/s,,,,p,2.000' --csv <<< "$peers"
    tables '| f32 | 1.00 ms | 2.00 ms | 5 | 4 | 1.25 |' <<< "{$machine,\"model\":\"m\",\"threads\":2,\"context\":[{\"kv\":\"f32\",\"ms\":{\"1\":1,\"2\":2},\"slope_ns\":5,\"reading_ns\":4,\"ratio\":1.25,\"bend\":0}]}"
    tables '| pinhole | 4.0 tok/s | 2.0 tok/s | 0.50 |' <<< "{$machine,\"model\":null,\"threads\":2,\"neighbour\":[{\"program\":\"pinhole\",\"alone\":4,\"beside\":2,\"share\":0.5}]}"
    tables '| step |' < now.json
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
