# wheel.bash - sourced by what unpacks a library from a pinned wheel (ort.sh, openvino.sh).
# Sets at, a folder that goes when the script ends.
unpack_wheel() { # WHAT PACKAGE LIST PLATFORM: the wheel of the list's version, its sum checked by pip, into $at/wheel; exits with 4
    python3 -m pip --version > /dev/null 2>&1 || { echo "python3 with pip is not here: it fetches $1" >&2; exit 4; }
    at=$(mktemp -d)
    trap 'rm -rf "$at"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 30 --no-deps --only-binary=:all: --require-hashes \
        --platform "$4" --implementation cp --python-version 3.11 --abi cp311 \
        --dest "$at" -r "$3" || { echo "cannot fetch $2; is there a network?" >&2; exit 4; }
    python3 -m zipfile -e "$at"/*.whl "$at/wheel" || exit 4
}
