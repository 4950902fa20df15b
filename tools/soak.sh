#!/bin/bash
# soak.sh MINUTES: kernel checks with new seeds, threads under ThreadSanitizer, unit tests under AddressSanitizer and a
# round of fuzzing, over and over, until the time is up or something is red.
cd "$(dirname "$0")/.." || exit 1
: "${MAKE:=make}" "${BUILD:=build}"
unset MAKEFLAGS MFLAGS
end=$(($(date +%s) + ${1:-30} * 60)) rounds=0
run() {
    "$MAKE" --no-print-directory -s BUILD="$BUILD" "$@" > "$BUILD/soak.log" 2>&1 || {
        echo "round $rounds: make $* failed; $BUILD/soak.log ends:"
        tail -n 30 "$BUILD/soak.log"
        exit 1
    }
}
mkdir -p "$BUILD"
while [ "$(date +%s)" -lt $end ]; do
    rounds=$((rounds + 1))
    if [ -e tests/check/main.c ]; then
        run "$BUILD/ph-check"
        "$BUILD/ph-check" --seed $rounds > "$BUILD/soak.log" 2>&1 || { tail -n 30 "$BUILD/soak.log" && exit 1; }
    fi
    run tsan
    run asan
    run fuzz SECONDS_EACH=20
    echo "round $rounds: ok"
done
echo "$rounds passed, 0 failed"
