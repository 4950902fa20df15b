#!/bin/bash
# The built-in model: its trainer's 40 answers to the last id, and right as often as there on all questions of its test.
: "${PINHOLE:=build/pinhole}"
[ -z "${PINHOLE_ASAN:-}" ] || only=(--filter test-000)
out=$("$PINHOLE" verify "${only[@]}" tests/golden/panel)
rc=$?
grep -v '^ok' <<< "$out" | grep -v 'passed'
read -r passed failed < <(tail -n 1 <<< "$out" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p')
[ -n "${PINHOLE_ASAN:-}" ] || [ "${passed:-0}" -ge 41 ] || rc=1
[ $rc = 0 ] || [ "${failed:-0}" -gt 0 ] || failed=1
echo "${passed:-0} passed, ${failed:-0} failed"
[ "${failed:-0}" = 0 ]
