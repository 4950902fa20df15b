#!/bin/bash
# peers.py for `make bench`: PEERS_GGUF (with PEERS_MMPROJ, PEERS_IMAGE) and PEERS_TOWER name what is run, PEERS_ARGS
# holds more options; which programs, by LLAMA_BENCH and its siblings.  77: nothing to compare, or nobody to compare with.
[ -n "${PEERS_GGUF:-}${PEERS_TOWER:-}" ] || { echo "no model for peers: name one in PEERS_GGUF or PEERS_TOWER"; exit 77; }
# shellcheck disable=SC2086
exec "${PYTHON:-python3}" bench/peers.py ${PEERS_GGUF:+--gguf "$PEERS_GGUF"} ${PEERS_MMPROJ:+--mmproj "$PEERS_MMPROJ"} \
    ${PEERS_IMAGE:+--image "$PEERS_IMAGE"} ${PEERS_TOWER:+--tower "$PEERS_TOWER"} ${PEERS_ARGS:-}
