#!/bin/bash
# A video file is the same as its frames: answers, tokens, turns, chat.  Without ffmpeg's libraries: that this is said.
: "${PINHOLE:=build/pinhole}"
M=tests/golden/set/models/vlm_qwen2vl V=tests/golden/video
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
passed=0 failed=0
ok() { # NAME CONDITION...
    if "${@:2}"; then passed=$((passed + 1)); else echo "FAILED $1"; failed=$((failed + 1)); fi
}
run() { "$PINHOLE" run -m $M -p "How many windows does the house have?" -n 6 --ignore-eos -t 1 --json "$@"; }
field() { sed -nE "s/.*\"$1\":(\"[^\"]*\"|\[[^]]*\]|[0-9]+).*/\1/p"; }
same() { [ -n "$1" ] && [ "$1" = "$2" ]; }

message=$(run --video $V/plain.mov 2>&1 > /dev/null)
rc=$?
mkdir "$D/build" "$D/models" && cp "$PINHOLE" "$D/build/pinhole" && cp -r models/panel-vlm "$D/models/"
ok "not of the built-in model" grep -q "^pinhole run: the built-in model takes no videos: .*, or a model that does (docs/models)" \
    <(env -u PINHOLE_MODEL "$D/build/pinhole" run -p x --video $V/plain.mov 2>&1)
if [ $rc = 4 ]; then
    ok "what is missing is said" grep -q "ffmpeg's libraries" <<< "$message"
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && exit 77
    exit 1
fi
plain=$(run --video $V/plain.mov)
ok "an answer" test -n "$(field ids <<< "$plain")"
ok "four of thirteen frames, two a group of 3 x 2 tokens" same "$(field image_tokens <<< "$plain")" 12
ok "another container, the same frames" same "$(field ids <<< "$plain")" "$(run --video $V/counted.mkv | field ids)"
ok "as often as it is asked for" same "$(run --video $V/plain.mov --video-fps 8 | field image_tokens)" 30
ok "no more frames than asked for" same "$(run --video $V/plain.mov --video-fps 8 --video-frames 4 | field image_tokens)" 12
ok "a turned one is another picture" test "$(run --video $V/turned90.mov | field ids)" != "$(field ids <<< "$plain")"
ok "one frame" same "$(run --video $V/one.mkv | field image_tokens)" 6
ok "a picture and a video" same "$(run --image tests/golden/set/images/scene.png --video $V/plain.mov | field stop)" '"length"'
for m in vlm_qwen2vl vlm_qwen25vl; do
    for bare in "" --bare; do
        "$PINHOLE" convert tests/golden/set/models/$m -o "$D/m.gguf" --to gguf -q $bare > /dev/null
        ok "$m as GGUF $bare" same "$(run -m tests/golden/set/models/$m --video $V/plain.mov | field ids)" \
            "$(run -m "$D/m.gguf" --mmproj "$D/mmproj-m.gguf" --video $V/plain.mov | field ids)"
    done
done
chat=$(printf '/video %s\nwhat?\nand then?\n' $V/plain.mov | "$PINHOLE" chat -m $M -n 4 -t 1 --json)
ok "two turns about it" same "$(field image_tokens <<< "$chat" | tr '\n' ' ')" "12 12 "
ok "the second from the cache" test "$(field cached_tokens <<< "$chat" | tail -n 1)" -gt 12
# Nothing is answered without what was to be seen: the first line that fails ends a script.
fails() { # STATUS WORDS LINE...
    local status=$1 words=$2 out
    shift 2
    out=$(printf '%s\n' "$@" what? | "$PINHOLE" chat -m $M -n 4 -t 1 2> "$D/message")
    [ $? = "$status" ] && [ -z "$out" ] && grep -q "^pinhole chat: " "$D/message" && grep -q -- "$words" "$D/message"
}
ok "chat: a picture that is not there" fails 3 "no.png" "/image $D/no.png"
ok "chat: a video that is not there" fails 3 "no.mov" "/video $D/no.mov"
ok "chat: a video that is none" fails 3 "in the video tests/flow/video.sh" "/video tests/flow/video.sh"
ok "chat: no name" fails 2 "/video wants a file" /video
ok "chat: no picture's name" fails 2 "/image wants a file" "/image  "
"$PINHOLE" --decode-frames < /dev/null > /dev/null 2>&1
ok "its word is no command" test $? = 2
run --video tests/flow/video.sh > /dev/null 2> /dev/null
ok "no video: status 3" test $? = 3
"$PINHOLE" run -m models/panel-vlm --video $V/plain.mov -p "?" 2> /dev/null
ok "a model without: status 3" test $? = 3
json=$(run --video $V/plain.mov --video-seconds 7 --video-memory 1GB)
ok "the decoder's limits are said" grep -q '"video_decoder":{"memory_max":1000000000,"seconds_max":7}' <<< "$json"

# Where no process can be started nothing is decoded.
if [ -z "${PINHOLE_ASAN:-}" ] && unshare -Urm mount --bind "$D" /proc 2> /dev/null; then
    message=$(unshare -Urm sh -c 'mount --bind "$0" /proc && exec "$@"' "$D" \
        "$PINHOLE" run -m $M --video $V/plain.mov -p "?" -n 1 2>&1 > /dev/null)
    ok "no process: status 4" test $? = 4
    ok "no process: that is said" grep -q "cannot be started.*mount /proc" <<< "$message"
fi

# A black picture of 16 million pixels in a few kB, again and again.
if command -v ffmpeg > /dev/null &&
    ffmpeg -v error -y -f lavfi -i color=black:size=4096x4096 -frames:v 1 -c:v libx264 "$D/one.h264" > /dev/null 2>&1; then
    for ((i = 0; i < 1000; i++)); do cat "$D/one.h264"; done > "$D/many.h264"
    refused() { # WORDS OPTIONS...
        local words=$1
        shift
        message=$(run --video "$D/many.h264" "$@" 2>&1 > /dev/null)
        [ $? = 3 ] && grep -q -- "$words" <<< "$message" && grep -q "in the video $D/many.h264" <<< "$message"
    }
    # Whichever comes first: beside busy neighbours that is the clock.
    ok "processor time has an end" refused "more than \(1 s of processor time\|4 s by the clock\): take fewer frames" --video-seconds 1
    [ -n "${PINHOLE_ASAN:-}" ] || ok "memory has an end" refused "more than 20.00 MB of memory" --video-memory 20MB
    # Sixteen frames of 4096 x 4096 are all that may be held: of one video or of several.
    for ((i = 0; i < 12; i++)); do cat "$D/one.h264"; done > "$D/dozen.h264"
    message=$(run --video "$D/dozen.h264" --video "$D/dozen.h264" --video-fps 30 2>&1 > /dev/null)
    ok "all videos have one limit: status 3" test $? = 3
    ok "which is said" grep -q "of all videos of a question together" <<< "$message"
    [ -n "${PINHOLE_ASAN:-}" ] || {
        message=$(ulimit -v 900000 && run --video "$D/dozen.h264" --video-fps 30 2>&1 > /dev/null)
        ok "whose memory it was" grep -q "limit of this process (ulimit -v)\|which this process holds" <<< "$message"
    }
    ok "pixels have an end" refused "video" --max-pixels 1000000
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
