#!/bin/bash
# test.sh: every test, one step after another; what `make test` runs.  A step's output goes to $BUILD/test/STEP.log; its
# sum is that of all lines "N passed, M failed" in it, or one test if there is none.  A red step shows the end of its
# log, and what was red stands once more before the last line, which is the sum of all.  Nothing run at all is red too.
# With arguments, only the steps whose name holds one of them; a word that no step's name holds is told.
cd "$(dirname "$0")/.." || exit 1
: "${MAKE:=make}" "${CC:=cc}" "${CLANG:=clang}" "${BUILD:=build}" "${JOBS:=$(nproc)}" "${ROOMS:=}"
unset MAKEFLAGS MFLAGS MAKELEVEL
[ -n "$ROOMS" ] || ROOMS=$(for d in tests/unit/*/tests.def; do basename "$(dirname "$d")"; done)
logs=$BUILD/test
mkdir -p "$logs"
XDG_CACHE_HOME="$(realpath -m "$BUILD")/test/cache" # nothing of this user is read or written
export XDG_CACHE_HOME
# One copy for the programs of every build folder.
[ -n "${PINHOLE_ORT:-}" ] || [ ! -e "$BUILD/ort/libonnxruntime.so" ] || export PINHOLE_ORT="$(realpath "$BUILD")/ort"
[ -n "${PINHOLE_OPENVINO:-}" ] || [ ! -e "$BUILD/openvino/libopenvino_c.so" ] || export PINHOLE_OPENVINO="$(realpath "$BUILD")/openvino"
total_passed=0 total_failed=0 began=$SECONDS red=""
picks=("$@") names=()

wanted() {
    names+=("$1")
    [ ${#picks[@]} -gt 0 ] || return 0
    local p
    for p in "${picks[@]}"; do [[ $1 == *$p* ]] && return 0; done
    return 1
}

tell_unknown() {
    local p all
    all=$(printf '%s\n' "${names[@]}")
    for p in ${picks[@]+"${picks[@]}"}; do
        [[ $all == *$p* ]] && continue
        echo "no step has '$p' in its name; there are:"
        fold -s -w 110 <<< "${names[*]}" | sed 's/^/    /; s/ *$//'
    done
}

# A step is run, then told of.  Its log is there from the beginning, its status and its seconds at the end.
run() { # name, command...
    local name=$1 from=$SECONDS
    shift
    rm -f "$logs/$name.end"
    "$@" > "$logs/$name.log" 2>&1
    echo "$? $((SECONDS - from))" > "$logs/$name.end"
}

# What of a red step's log says most: failed cases, what a compiler or a sanitizer says; else the end.
why() { # log
    grep -E 'FAILED|CRASHED|STAYED GREEN|CHANGES NOTHING|(^|[^0-9])[1-9][0-9]* failed|[^ ]+\.c:[0-9]+: |error:|ERROR: |\*\*\* ' "$1" |
        head -n 6 | grep . || tail -n 2 "$1"
}

tell() { # name
    local name=$1 log=$logs/$1.log rc seconds passed failed
    rc=1 seconds=0 # a step that broke off leaves nothing
    [ -e "$logs/$name.end" ] && read -r rc seconds < "$logs/$name.end"
    read -r passed failed < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$log" |
        awk '{p += $1; f += $2; n++} END {if (n) print p, f; else print "none 0"}')
    if [ "$passed" = none ]; then passed=$((rc == 0)) failed=$((rc != 0)); fi
    # Red without a failed case: the step broke off.
    if [ "$rc" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
    printf '%-22s %4d passed, %d failed  (%d s)\n' "$name" "$passed" "$failed" "$seconds"
    if [ "$failed" -gt 0 ]; then
        echo "    $log ends:"
        grep -vE ' ok$' "$log" | tail -n 40 | sed 's/^/    /; s/ *$//'
        red+="red: $name"$'\n'$(why "$log" | cut -c1-200 | sed 's/^ */    /')$'\n'
    fi
}

step() { # name, command...
    wanted "$1" || return 0
    run "$@"
    tell "$1"
}

# Steps that need nothing of one another: JOBS at a time, told of in their order.
queue=()
beside() { # name, command...
    wanted "$1" || return 0
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
    run "$@" &
    queue+=("$1")
}

settle() {
    local name
    wait
    for name in ${queue[@]+"${queue[@]}"}; do tell "$name"; done
    queue=()
}

mk() { # make in a folder of its own
    "$MAKE" --no-print-directory -j"$JOBS" "$@"
}

# A sanitizer's program, with address randomisation off where its shadow memory does not get along with it.
calm() {
    local out rc
    out=$("$@" 2>&1)
    rc=$?
    if [ $rc != 0 ] && printf '%s' "$out" | grep -q 'unexpected memory mapping'; then
        setarch "$(uname -m)" -R "$@"
        return
    fi
    printf '%s\n' "$out"
    return $rc
}

each_header() { # every public header alone, as C and as C++
    local h rc=0 n=0
    for h in include/*.h; do
        [ -e "$h" ] || continue
        "$CC" -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -xc "$h" || rc=1
        "$CLANG" -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -xc "$h" || rc=1
        if command -v g++ > /dev/null; then g++ -std=c++11 -Wall -Wextra -Werror -pedantic -fsyntax-only -xc++ "$h" || rc=1; fi
        n=$((n + 1))
    done
    echo "$n headers"
    return $rc
}

run_outside() { # source, program: what a stranger built
    if [ "$1" != examples/ask.c ]; then timeout 300 "$2"; return; fi
    [ "$("$2" models/panel-vlm examples/panel1.png "what is on the display?")" = 64 ]
}

installed() { # install into a stage, build tests/api and examples against it as a stranger would, run the former
    local stage src name flags passed=0 failed=0
    stage=$(realpath -m "$BUILD/stage")
    rm -rf "$stage"
    "$MAKE" --no-print-directory -s BUILD="$BUILD" CC="$CC" WERROR=-Werror PREFIX=/usr DESTDIR="$stage" install || return 1
    flags=$(PKG_CONFIG_SYSROOT_DIR=$stage PKG_CONFIG_PATH=$stage/usr/lib/pkgconfig pkg-config --cflags --libs pinhole) || return 1
    [ -f "$stage/usr/include/pinhole.h" ] || { echo "no public header yet"; return 0; }
    for src in tests/api/*.c examples/*.c; do
        [ -e "$src" ] || continue
        name=$BUILD/test/$(basename "${src%.c}")
        # shellcheck disable=SC2086
        if ! "$CC" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$name" "$src" $flags -lm -pthread; then
            echo "$src: does not build"
            failed=$((failed + 1))
        elif LD_LIBRARY_PATH=$stage/usr/lib run_outside "$src" "$name"; then
            echo "$src: ok"
            passed=$((passed + 1))
        else
            echo "$src: FAILED"
            failed=$((failed + 1))
        fi
    done
    "$MAKE" --no-print-directory -s BUILD="$BUILD" CC="$CC" WERROR=-Werror PREFIX=/usr DESTDIR="$stage" uninstall || return 1
    local left
    left=$(find "$stage" -type f -o -type l)
    [ -z "$left" ] || { echo "uninstall leaves: $left"; return 1; }
    # Those of an API test's own sums that stand above count too; this is one for each program.
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}

step style-floors tools/check_floors.sh
step style-tables tools/check_tables.sh
step style-names tools/check_names.sh
step style-text tools/check_text.sh
step style-links tools/check_links.sh
step style-docs tools/doc_errors.sh --check
step style-adr tools/doc_adr.sh --check
step style-mutations tools/mutate.sh --check
step style-format tools/format.sh --check

step build mk BUILD="$BUILD" CC="$CC" WERROR=-Werror build unit-programs "$BUILD/ph-kernel"
step build-clang mk BUILD="$BUILD/clang" CC="$CLANG" OPT=-O0 WERROR=-Werror objects

if [ -e tests/check/main.c ]; then beside check mk BUILD="$BUILD" CC="$CC" WERROR=-Werror check; fi
for room in $ROOMS; do beside "unit-$room" "$BUILD/unit-$room"; done
settle

export TBB_ENABLE_SANITIZERS=1 # OpenVINO's threads' library else loads another in a way that AddressSanitizer ends the process for
asan=(BUILD="$BUILD/asan" CC="$CC" SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined" OPT="-O1 -g")
step asan-build mk "${asan[@]}" unit-programs
if [ -e tests/check/main.c ]; then beside asan-check mk "${asan[@]}" check; fi
for room in $ROOMS; do beside "asan-$room" calm "$BUILD/asan/unit-$room"; done
settle

# What libraries of others do among themselves is not seen whole: they were not built for it.
TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$(realpath tools/tsan.supp)"
export TSAN_OPTIONS
tsan=(BUILD="$BUILD/tsan" CC="$CC" SAN=-fsanitize=thread OPT="-O1 -g")
for room in base engine flow sched; do
    [ -e "tests/unit/$room/tests.def" ] || continue
    step "tsan-$room-build" mk "${tsan[@]}" "$BUILD/tsan/unit-$room"
    # Of the larger rooms those tests in which threads do something of their own; `make tsan` runs all, minutes of it.
    case $room in
        engine) some=(threads_chunks again neighbours cached_cross cancel unfused malloc plugin_threads plugin_twice) ;;
        flow) some=(same_llava same_beside_text cancel cross_mllama cross_sound turns_packed embed_clip) ;;
        *) some=() ;;
    esac
    beside "tsan-$room" calm "$BUILD/tsan/unit-$room" ${some[@]+"${some[@]}"}
done
settle

step headers each_header
step api installed

if compgen -G 'tests/flow/*.sh' > /dev/null && compgen -G 'src/cli/*.c' > /dev/null; then
    step flow env JOBS="$JOBS" PINHOLE="$BUILD/pinhole" BUILD="$BUILD" tools/run_scripts.sh tests/flow
    step asan-pinhole mk "${asan[@]}" "$BUILD/asan/pinhole" # of all rooms: a crash of the command shows here
    step asan-flow env JOBS="$JOBS" PINHOLE="$BUILD/asan/pinhole" PINHOLE_ASAN=1 BUILD="$BUILD" tools/run_scripts.sh tests/flow
fi

if compgen -G 'tests/fuzz/fuzz_*.c' > /dev/null; then
    step fuzz-build mk BUILD="$BUILD" CLANG="$CLANG" fuzz-programs
    beside fuzz "$MAKE" --no-print-directory -s BUILD="$BUILD" CLANG="$CLANG" JOBS="$JOBS" SECONDS_EACH=2 fuzz
fi

if [ -e tests/check/main.c ] && command -v aarch64-linux-gnu-gcc > /dev/null && command -v qemu-aarch64 > /dev/null; then
    beside arm64-check mk BUILD="$BUILD" arm64-check
fi
settle

printf '%s' "$red"
tell_unknown
echo "took $((SECONDS - began)) s"
[ $((total_passed + total_failed)) -gt 0 ] || total_failed=1
echo "$total_passed passed, $total_failed failed"
[ $total_failed = 0 ]
