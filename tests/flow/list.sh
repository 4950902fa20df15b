#!/bin/bash
# `run --list`: a question a line in, an answer a line out.  The answers are those of the same questions one by one,
# whichever way the list goes; what is wrong with a line is said in its place, and with the list in one message; many
# pictures of many sizes leave no memory behind.
: "${PINHOLE:=build/pinhole}"
command -v jq > /dev/null || { echo "jq is not here"; exit 77; }
export PINHOLE_MODEL=models/panel-vlm LC_ALL=C
images=tests/golden/set/images
. tests/flow/says.bash
refused() { # STATUS WORDS ARGUMENTS...
    fails "$1" "$2" "$PINHOLE" run "${@:3}" < /dev/null
}
holds() { jq -e -s "$1" "$D/all" > /dev/null; } # of all answers
short() { jq -c '[.line, .id, .text, .ids, .prompt_tokens, .image_tokens, .stop, .error.code]' "$@"; }

# ---- the same answers

pictures=(scene.png odd_aspect.png second.png rgba.png scene.png exif_rotated.jpg)
questions() { # N: so many, pictures in turn, some without one
    local i
    for ((i = 0; i < $1; i++)); do
        if [ $((i % 7)) = 6 ]; then
            printf '{"prompt": "Say something, number %d.", "id": %d}\n' $i $i
        else
            printf '{"prompt": "What is in picture %d?", "image": "%s", "tokens": %d}\n' $i "$images/${pictures[i % 6]}" $((4 + i % 9))
        fi
    done
}
one_by_one() { # MODEL: each line by itself
    local prompt image tokens n=0
    while IFS='|' read -r prompt image tokens; do
        n=$((n + 1))
        "$PINHOLE" run -m "$1" --json --ignore-eos -p "$prompt" ${image:+--image "$image"} -n "$tokens" 2> /dev/null |
            jq -c "[$n, .text, .ids, .prompt_tokens, .image_tokens]"
    done < <(jq -r '[.prompt, .image // "", .tokens // 6] | map(tostring) | join("|")' "$D/q")
}
as_list() { # MODEL ARGUMENTS...
    "$PINHOLE" run -m "$1" --list "$D/q" --ignore-eos -n 6 "${@:2}" > "$D/all" 2> "$D/err" &&
        jq -c '[.line, .text, .ids, .prompt_tokens, .image_tokens]' "$D/all"
}
for model in tests/golden/set/models/vlm_llava15 tests/golden/set/models/vlm_idefics3 tests/golden/set/models/vlm_qwen2vl; do
    questions 18 > "$D/q"
    one_by_one "$model" > "$D/want"
    [ "$(wc -l < "$D/want")" = "$(wc -l < "$D/q")" ] || { failed=$((failed + 1)); echo "$model: not all were answered one by one"; }
    for how in "--pipeline serial" "--pipeline double -t 2" "--pipeline double -t 1" "--pipeline double -t 4 --see-threads 1" "-t 2" "--bandwidth 1MB" "--bandwidth 900GB -t 2" \
        "--pipeline deep -t 3" "--pipeline deep -t 1" "--pipeline deep -t 4 --see-threads 2" "--bandwidth 900GB -t 4" "--pipeline double --bandwidth 900GB -t 4"; do
        # shellcheck disable=SC2086
        as_list "$model" $how > "$D/got"
        ok "$(basename "$model") $how" cmp -s "$D/want" "$D/got"
    done
done

ok "times of nine digits at most" test "$(grep -oE '[0-9]+\.[0-9]+' "$D/all" | sed 's/^0\.0*//; s/\.//' | awk '{ if (length > most) most = length } END { print most <= 9 }')" = 1
ok "and there are some" grep -qE '"splice":[0-9]+\.[0-9]+' "$D/all"

# Injected features, which are the pictures' of each question, also where those stand in another's slot.
model=tests/golden/set/models/vlm_llava15
questions 18 > "$D/q"
as_list $model --pipeline serial > "$D/plain"
as_list $model --pipeline serial --inject 1 > "$D/want"
ok "injected: otherwise than plain" test "$(comm -12 <(sort "$D/plain") <(sort "$D/want") | wc -l)" -lt 9
ok "injected: texts alone as plain" cmp -s <(grep ',0\]$' "$D/plain") <(grep ',0\]$' "$D/want")
for how in "--pipeline double -t 2" "--pipeline double -t 4 --see-threads 1 --chunk 16" "-t 2"; do
    # shellcheck disable=SC2086
    as_list $model $how --inject 1 > "$D/got"
    ok "injected: $how" cmp -s "$D/want" "$D/got"
done
ok "no such layer" refused 2 'no layer 9 to inject at: the language part has layers 0 to 3' -p x --inject 9
for alpha in 1 0.3 nan; do ok "alpha alone: $alpha" refused 2 'goes with --inject' -p x --inject-alpha $alpha; done
for alpha in nan inf 1e38 -10001 x; do
    ok "alpha $alpha" refused 2 "--inject-alpha takes a number from -10000 to 10000, not '$alpha'" -p x --inject 1 --inject-alpha=$alpha
done
ok "a text model" refused 2 'nothing about pictures' -m tests/golden/set/models/llm_qwen2_tied -p x --inject 0

# ---- Ctrl-C while nobody reads: all that was answered comes, none missing before another

for ((i = 0; i < 400; i++)); do echo '{"prompt": "What is it?", "tokens": 40}'; done > "$D/q"
slow_reader() { # ARGUMENTS...
    python3 - "$PINHOLE" run -m "$model" --list "$D/q" --ignore-eos "$@" > "$D/all" << 'END'
import fcntl, signal, subprocess, sys, termios, time
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
held, now = -1, 0
while child.poll() is None and not (now == held and now > 40000):  # until the pipe is full
    time.sleep(0.5)
    held, now = now, int.from_bytes(fcntl.ioctl(child.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)
child.send_signal(signal.SIGINT)
time.sleep(0.3)
sys.stdout.buffer.write(child.communicate(timeout=60)[0])
sys.exit(child.returncode != 1)
END
    # shellcheck disable=SC2181
    [ $? = 0 ] && jq -e -s 'length < 400 and [.[].line] == [range(1; length + 1)]' "$D/all" > /dev/null
}
for how in serial double deep; do ok "Ctrl-C while nobody reads: $how" slow_reader --pipeline $how -t 3; done

# ---- which way, and why

questions 18 > "$D/q"
way() { # WORDS ARGUMENTS...
    "$PINHOLE" run --list "$D/q" -n 4 --stats "${@:2}" > "$D/out" 2> "$D/err" && grep -qE -- "$1" "$D/err" && return
    cat "$D/err"
    return 1
}
ok "serial says so" way '^pipeline: serial$' --pipeline serial
ok "double says so" way '^pipeline: double$' --pipeline double
ok "auto measures" way '^pipeline: (serial|double), since double was (not )?faster .*ms double, .*ms serial' -t 2
ok "deep says so" way '^pipeline: deep$' --pipeline deep -t 3
ok "one thread" way '^pipeline: serial, since one thread' -t 1
ok "little bandwidth" way '^pipeline: serial, since both sides at once would want more.*1 side of decode.prepare see.bridge answer draw .*GB/s' -t 3 --bandwidth 1MB
ok "much bandwidth" way '^pipeline: deep, since the memory feeds three sides.*3 sides of decode.prepare . see.bridge . answer draw .*GB/s' -t 3 --bandwidth 900TB
ok "much, for two threads" way '^pipeline: double, since the memory feeds two sides.*2 sides' -t 2 --bandwidth 900TB
ok "much, but two asked for" way '^pipeline: double, since the memory feeds two sides' -t 3 --pipeline double --bandwidth 900TB
ok "much, but one asked for" refused 2 '--pipeline serial has one' -t 3 --list "$D/q" --pipeline serial --bandwidth 900TB
ok "much, and one thread" way '^pipeline: serial, since one thread' -t 1 --bandwidth 900TB
head -n 3 "$D/q" > "$D/few" && cp "$D/few" "$D/q"
ok "few questions" way 'too few questions' -t 2
ok "few questions to weigh" way '^pipeline: serial, since the first questions, which are weighed, were all' -t 3 --pipeline deep --bandwidth 900TB

# ---- what is wrong

head -c 300 $images/scene.png > "$D/cut.png"
cat > "$D/q" <<END
{"prompt": "what is on the display?", "image": "examples/panel1.png", "id": "first"}

not json
{"prompt": "x", "imgae": "examples/panel1.png"}
{"prompt": "x", "image": "$D/nowhere.png"}
{"prompt": "x", "image": "$D/cut.png"}
{"prompt": "x", "image": "README.md", "id": 6}
[1, 2]
{"tokens": 3}
{"prompt": "x", "tokens": -1}
{"prompt": 3}
{"prompt": "x", "id": [1]}
{"prompt": "x", "image": [1]}
{"prompt": "what is on the display?", "image": ["examples/panel1.png"], "id": "last"}
END
cat > "$D/want" <<'END'
[1,"first","64",[428,23],77,64,"token",null]
[3,null,null,null,null,null,null,"EFORMAT"]
[4,null,null,null,null,null,null,"EFORMAT"]
[5,null,null,null,null,null,null,"EPATH"]
[6,null,null,null,null,null,null,"EFORMAT"]
[7,6,null,null,null,null,null,"EUNSUP"]
[8,null,null,null,null,null,null,"EFORMAT"]
[9,null,null,null,null,null,null,"EFORMAT"]
[10,null,null,null,null,null,null,"EFORMAT"]
[11,null,null,null,null,null,null,"EFORMAT"]
[12,null,null,null,null,null,null,"EFORMAT"]
[13,null,null,null,null,null,null,"EFORMAT"]
[14,"last","64",[428,23],77,64,"token",null]
END
for how in serial double deep; do
    "$PINHOLE" run --list "$D/q" --pipeline $how > "$D/all" 2> "$D/err"
    ok "$how: the status tells of it" [ $? = 1 ]
    short "$D/all" > "$D/got"
    ok "$how: each in its place" diff "$D/want" "$D/got"
    ok "$how: nothing else is said" [ ! -s "$D/err" ]
    ok "$how: the line is named" test "$(jq -r 'select(.line == 3).error.message' "$D/all" | grep -c 'line 3')" = 1
    ok "$how: the key is named" grep -q "no key 'imgae' is known" "$D/all"
    ok "$how: the picture is named" test "$(jq -r 'select(.line == 6).error.notes[1]' "$D/all")" = "in the picture $D/cut.png"
done
head -n 1 "$D/q" | "$PINHOLE" run --list - 2> "$D/err" | short > "$D/got"
ok "from standard input" cmp -s <(head -n 1 "$D/want") "$D/got"
: > "$D/empty"
printf ' \n\t\r\n\n' > "$D/blank"
ok "no list" refused 3 nowhere.jsonl --list "$D/nowhere.jsonl"
ok "an empty list" refused 3 "holds no question" --list "$D/empty"
ok "a list of blanks" refused 3 "holds no question" --list "$D/blank"
mkfifo "$D/pipe"
ok "a pipe" refused 3 "is a pipe, not a file; name a regular file" --list "$D/pipe"
ok "and what to do" refused 3 "or give it to \`--list -\` on standard input" --list "$D/pipe"
ok "a folder" refused 3 "$D" --list "$D"
ok "and a prompt" refused 2 "--list stands alone" --list "$D/q" -p x
ok "and a picture" refused 2 "--list stands alone" --list "$D/q" --image examples/panel1.png
ok "another way" refused 2 "--pipeline takes serial, double, deep or auto, not 'both'" --list "$D/q" --pipeline both
ok "without a list" refused 2 "--pipeline is for a list of questions: give one with --list FILE" -p x --pipeline serial
ok "threads without a list" refused 2 "--see-threads is for a list" -p x --see-threads 1
ok "bandwidth without a list" refused 2 "--bandwidth is for a list" -p x --bandwidth 6GB
ok "bandwidth that is none" refused 2 "--bandwidth is in bytes a second, 1MB at least, such as 6.4GB; 6 are less" --list "$D/q" --bandwidth 6
ok "no bandwidth" refused 2 "--bandwidth is in bytes a second, 1MB at least" --list "$D/q" --bandwidth 0
ok "threads of one side" refused 2 "--see-threads shares the threads between two sides, and --pipeline serial has one: leave one of them out" --list "$D/q" --pipeline serial --see-threads 1
ok "no threads" refused 2 "--see-threads takes a whole number from 1" --list "$D/q" --see-threads 0
for how in double auto; do
    ok "$how: more see than there are" refused 2 "5 of 2 threads are to see (--see-threads, --threads): at most 1" --list "$D/q" --pipeline $how -t 2 --see-threads 5
done

# ---- an answer of nothing: an empty line to a program, a word to a person

ok "empty, to a program" [ "$("$PINHOLE" run -p hello 2>&1 | od -An -c | tr -d ' ')" = '\n' ]
ok "empty, in JSON" test "$("$PINHOLE" run -p hello --json | jq -c '[.text, .ids, .stop]')" = '["",[],"token"]'
if command -v script > /dev/null; then
    person() { script -qec "$PINHOLE run -p hello $*" /dev/null < /dev/null; }
    ok "empty, to a person" test "$(person | tr -d '\r')" = "(empty answer: the model ended it at once)"
    ok "empty, to one who wants quiet" test -z "$(person -q | tr -d '\r\n')"
fi

# ---- an interrupt, when the second answer has begun to come
for ((i = 0; i < 6; i++)); do echo '{"prompt": "describe", "image": "examples/panel1.png"}'; done > "$D/q"
for how in serial double deep; do
    : > "$D/all"
    "$PINHOLE" run --list "$D/q" --pipeline $how --ignore-eos -n 430 -t 2 > "$D/all" 2> "$D/err" &
    pid=$!
    while [ ! -s "$D/all" ] && kill -0 $pid 2> /dev/null; do sleep 0.02; done
    kill -INT $pid 2> /dev/null
    wait $pid
    rc=$?
    # On a fast machine all may be said before the signal comes: then there is nothing to see.
    [ $rc = 0 ] && [ "$(grep -c '"stop":"length"' "$D/all")" = 6 ] && continue
    ok "interrupted, $how: status" [ $rc = 1 ]
    ok "interrupted, $how: lines are whole" holds '. as $l | ([range($l | length) | $l[.].line == . + 1] | all) and ([$l[] | select(.text) | .stop] | last == "cancel")'
    ok "interrupted, $how: the others" holds '[.[] | select(.error) | .error.code == "ECANCEL"] | all'
done

# ---- 200 pictures of 200 sizes

if [ -z "${PINHOLE_ASAN:-}" ]; then
    le32() { printf "\\\\x%02x\\\\x%02x\\\\x%02x\\\\x%02x" $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)); }
    for ((i = 0; i < 200; i++)); do # the first is the largest
        w=$((640 - (i * 37) % 200 * 3)) h=$((430 - (i * 61) % 200 * 2))
        row=$(((w * 3 + 3) / 4 * 4))
        # shellcheck disable=SC2059
        printf "BM$(le32 $((54 + row * h)))\0\0\0\0$(le32 54)$(le32 40)$(le32 $w)$(le32 $h)\x01\0\x18\0$(le32 0)$(le32 $((row * h)))$(le32 0)$(le32 0)$(le32 0)$(le32 0)" > "$D/$i.bmp"
        head -c $((row * h)) /dev/zero | tr '\0' "\\$(printf %o $((i + 1)))" >> "$D/$i.bmp"
        printf '{"prompt": "what is it?", "image": "%s", "tokens": 4}\n' "$D/$i.bmp"
    done > "$D/q"
    cat "$D/q" "$D/q" "$D/q" > "$D/thrice"
    # Serial: what is held after the 200th answer and after the 400th is the same within 2 %.  Double: another picture is
    # on its way whenever it is read, so medians of two rounds are compared, and may differ by half a picture beside it.
    held() { # HOW: of the second and the third round, RssAnon
        case $1 in
            serial) jq -s -r '[.[].memory.measured_anon] | "\(.[199]) \(.[399])"' "$D/all" ;;
            double) jq -s -r '[.[].memory.measured_anon] | "\(.[200:400] | sort | .[100]) \(.[400:600] | sort | .[100])"' "$D/all" ;;
        esac
    }
    for model in models/panel-vlm tests/golden/set/models/vlm_idefics3 tests/golden/set/models/vlm_qwen2vl; do
        for how in "serial 0" "double 600000"; do
            "$PINHOLE" run -m "$model" --list "$D/thrice" --pipeline ${how% *} -t 2 --ignore-eos > "$D/all" 2> "$D/err"
            ok "$(basename "$model") $how: 600 are answered" [ "$? $(wc -l < "$D/all")" = "0 600" ]
            read -r early late < <(held ${how% *})
            printf '%-14s %-7s RssAnon %9d then %9d\n' "$(basename "$model")" "${how% *}" "$early" "$late"
            ok "$(basename "$model") $how: nothing stays" [ $late -le $((early * 102 / 100 + ${how#* })) ]
        done
    done
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
