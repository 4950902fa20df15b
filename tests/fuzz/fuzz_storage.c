/* seeds: tests/golden/storage */
/* fuzz_storage.c - separate planes of any sizes and any index: refused, or every row is read inside them. */
#include "tensor/storage.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    enum { HEAD = 16 };
    float      row[256];
    size_t     n_forms = 0;
    void      *copy[PH_N_PLANES] = {0};
    ph_storage s = {.n_planes = PH_N_PLANES};
    if (n < HEAD) return 0;
    while (ph_storage_form_at(n_forms)) n_forms++;
    s.form = ph_storage_form_at(bytes[0] % n_forms);
    s.bits = bytes[1];
    s.group = bytes[2];
    s.n_rows = bytes[3];
    s.zero_add = bytes[4] & 1;
    s.group_rows = bytes[14];
    size_t         cols = bytes[5], left = n - HEAD;
    const uint8_t *share = bytes + 6, *at = bytes + HEAD;
    for (int k = 0; k < PH_N_PLANES; k++) { /* each in a block of its own, so that one byte past it is seen */
        size_t   some = left * share[k] / 256;
        ph_dtype t = (ph_dtype)(bytes[10 + k] % PH_N_DTYPES);
        if (share[k] == 255) continue;
        copy[k] = malloc(some ? some : 1);
        if (!copy[k]) abort();
        memcpy(copy[k], at, some);
        s.plane[k] =
            (ph_plane){.bytes = copy[k], .n = some, .dtype = t, .row_stride = bytes[15] * ph_dtype_bytes(t)};
        at += some;
        left -= some;
    }
    s.dtype = s.plane[PH_PLANE_DATA].dtype;
    if (s.plane[0].bytes && !s.form->check(&s, cols, NULL))
        for (size_t r = 0; r < s.n_rows; r++) ph_storage_row(&s, r, cols, row);
    for (int k = 0; k < PH_N_PLANES; k++) free(copy[k]);
    return 0;
}
