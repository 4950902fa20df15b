#!/bin/bash
# The documentation says what the program does: every example of README.md and docs/reference/commands.md that needs no
# model but ours is run, its exit status checked, and its output where one is shown; every command and every option
# that --help lists is described.
# Examples are lines "    $ COMMAND", the output below them, and the lines of README's blocks; those of one block share a
# shell.  One that names a file that is not here, or a program that is not, is left out.
cd "$(dirname "$0")/../.." || exit 1
P=$(realpath "${PINHOLE:-build/pinhole}")
root=$PWD
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
export PINHOLE_MODEL=$root/models/panel-vlm
passed=0 failed=0
verdict() { # STATUS NAME [WHY]
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$2: FAILED ${3:-}"
    fi
}

# A place with all that examples name, where they may also write.
mkdir "$D/at" "$D/at/build"
ln -s "$root"/models "$root"/examples "$root"/tests "$D/at/"
ln -s "$P" "$D/at/build/pinhole"
export PATH="$D/at/build:$PATH"

# ---- examples ----

readme() { # lines of sh blocks, without the comment behind them; blocks apart
    awk '/^```sh/ { on = 1; print "" ; next } /^```/ { on = 0 } on { sub(/ +#.*/, ""); print "$ " $0 }' README.md
}
reference() { # indented blocks: examples and what they print
    awk '/^    / { print substr($0, 5); next } { print "" }' docs/reference/commands.md
}
needs_more() { # COMMAND: something that is not here
    local word last=""
    for word in $1; do
        word=${word//[\"\']/}
        case $word in
            *.gguf | *.jpg | *.png | *.wav | ?*/ | again)
                [ "$last" = -o ] || [ "$last" = ">" ] || [ -e "$D/at/$word" ] || [[ $word == *'$'* ]] || return 0
                ;;
        esac
        last=$word
    done
    for word in jq dot; do
        [[ " $1 " != *"| $word "* ]] && [[ $1 != *--svg* ]] || command -v $word > /dev/null || return 0
    done
    # Minutes under a sanitizer, and no time that means anything.
    [ -n "${PINHOLE_ASAN:-}" ] && [[ $1 == *" bench "* ]]
}
n_run=0 n_left=0 command="" shown="" assigned=""
finish() { # run the example that was read
    local rc
    [ -n "$command" ] || return 0
    if needs_more "$command"; then
        [ -z "${VERBOSE:-}" ] || echo "left out: $command"
        n_left=$((n_left + 1))
    else
        n_run=$((n_run + 1))
        (cd "$D/at" && eval "$assigned" && set -o pipefail && eval "$command") > "$D/out" 2> "$D/err" < /dev/null
        rc=$?
        verdict $rc "$command" "(exit $rc) $(tail -n 2 "$D/err")"
        if [ $rc = 0 ] && [ -n "$shown" ]; then
            printf '%s' "$shown" | cmp -s - "$D/out"
            verdict $? "$command: its output" "$(diff <(printf '%s' "$shown") "$D/out" | head -n 4)"
        fi
    fi
    command="" shown=""
}
examples() {
    while IFS= read -r line; do
        case $line in
            '') finish && assigned="" ;;
            '$ '[A-Z]*=*) finish && assigned=${line#??} ;; # variables for the lines below
            '$ pinhole '* | '$ build/pinhole '* | '$ echo '* | '$ printf '*) finish && command=${line#??} ;;
            '$ '*) finish ;;
            *) [ -z "$command" ] || shown+=$line$'\n' ;;
        esac
    done
    finish
}
examples < <(readme)
n_readme=$n_run
examples < <(reference)
[ "$n_readme" -ge 1 ] && [ $n_run -ge 20 ]
verdict $? "enough examples" "$n_run were run, $n_readme of README.md, $n_left left out"

# ---- commands and options ----

described() { # a command: its section, README, the man page, and its options
    local c=$1 option bad=0
    grep -q "^## $c\$" docs/reference/commands.md || { echo "commands.md has no section $c" && bad=1; }
    grep -q "pinhole $c\`" README.md || { echo "README.md does not name pinhole $c" && bad=1; }
    sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/p' docs/man/pinhole.1 | grep -qE "^\.(B|BI) \"?$c( |\"|\$)" || { echo "pinhole.1 does not name $c" && bad=1; }
    for option in $("$P" "$c" --help | sed -nE '/^options:/,$ s/^ +(-[a-z], )?(--[a-z0-9-]+).*/\2/p'); do
        grep -qE -- "\`([^\`]*, )?${option}[ ,\`]" docs/reference/commands.md || { echo "commands.md has no $option of $c" && bad=1; }
        grep -qF -- "${option//-/\\-} " <<< "$manual" || { echo "pinhole.1 has no $option of $c" && bad=1; }
    done
    return $bad
}
manual=$(tr -c '[:alnum:]\\\n-' ' ' < docs/man/pinhole.1 | sed 's/$/ /')
commands=$("$P" --help | sed -nE '/^usage/,/--help/ s/^  ([a-z]+) +[a-z].*/\1/p')
[ "$(wc -w <<< "$commands")" -ge 7 ]
verdict $? "the list of commands"
for c in $commands; do
    described "$c"
    verdict $? "description of $c"
done
# Families and formats of README are those that are known.
"$P" inspect --known > "$D/known"
for word in $(sed -nE 's/^  (pictures|sound) +//p' "$D/known" | tr -d ,); do
    grep -q "^| pictures.*$word\|^| sound.*$word" README.md
    verdict $? "README.md on $word"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
