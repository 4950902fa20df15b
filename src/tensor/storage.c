/* storage.c - rows of a stored constant, as floats.
 *
 * The slow, sure way to read a weight: kernels have faster ones, and are
 * compared with this.  Only the one-plane forms (plain types and GGUF blocks)
 * are read here.
 */
#include "tensor/storage.h"

#include <assert.h>

ph_storage ph_storage_of(ph_dtype dtype, const void *bytes, size_t n, size_t row_stride) {
    ph_storage s = {.dtype = dtype, .n_planes = 1};
    s.plane[PH_PLANE_DATA] = (ph_plane){.bytes = bytes, .n = n, .row_stride = row_stride};
    return s;
}

void ph_storage_row(const ph_storage *s, size_t row, size_t cols, float *out) {
    const ph_plane *p = &s->plane[PH_PLANE_DATA];
    assert(s->n_planes == 1 && cols % ph_dtype_block(s->dtype) == 0);
    ph_dtype_get(s->dtype)->unpack(out, (const unsigned char *)p->bytes + row * p->row_stride, cols);
}
