/* seeds: tests/golden/quant */
/* fuzz_blocks.c - any bytes are blocks of any type: they unpack to numbers inside their row, and what can be
 * packed packs the same way twice. */
#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 1) return 0;
    ph_dtype            t = (ph_dtype)(bytes[0] % PH_N_DTYPES);
    const ph_dtype_def *def = ph_dtype_get(t);
    size_t              blocks = (n - 1) / ph_dtype_bytes(t), some = blocks < 4 ? blocks : 4;
    size_t              size = some * ph_dtype_bytes(t), count = some * ph_dtype_block(t);
    uint8_t *in = malloc(size ? size : 1), *packed[2] = {malloc(size ? size : 1), malloc(size ? size : 1)};
    float   *x = malloc(count ? count * sizeof *x : 1);
    if (!in || !packed[0] || !packed[1] || !x) abort();
    memcpy(in, bytes + 1, size); /* in a block of its own, so that one byte past it is seen */
    memset(packed[0], 0, size);
    memset(packed[1], 255, size);
    def->unpack(x, in, count);
    for (int i = 0; def->pack && i < 2; i++) def->pack(packed[i], x, count);
    if (def->pack && memcmp(packed[0], packed[1], size)) abort(); /* every bit of a block is written */
    def->unpack(x, packed[0], def->pack ? count : 0);
    free(in);
    free(packed[0]);
    free(packed[1]);
    free(x);
    return 0;
}
