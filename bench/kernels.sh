#!/bin/bash
# kernels.py for `make bench`: beside ggml where GGML_INCLUDE and GGML_LIB name it; KERNELS_ARGS holds more options.
# 77: nobody to compare with.
# shellcheck disable=SC2086
exec "${PYTHON:-python3}" bench/kernels.py ${KERNELS_ARGS:-}
