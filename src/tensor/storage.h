/* storage.h - where a constant's numbers stand: one to four planes of bytes.
 *
 * GGUF blocks and plain floats are one interleaved plane.  MatMulNBits, AWQ,
 * GPTQ and per-channel int8 are separate planes (data, scale, zero, index)
 * with parameters.  Rows may have a stride, so that a slice is a view.
 */
#ifndef PH_TENSOR_STORAGE_H
#define PH_TENSOR_STORAGE_H

#include "tensor/dtype.h"

enum { PH_PLANE_DATA, PH_PLANE_SCALE, PH_PLANE_ZERO, PH_PLANE_INDEX, PH_N_PLANES };

typedef struct ph_plane {
    const void *bytes;      /* mapped or in an arena; lives as long as the model.  NULL: no such plane */
    size_t      n;          /* bytes */
    size_t      row_stride; /* bytes from one row (all dimensions but the last) to the next */
} ph_plane;

typedef struct ph_storage {
    ph_dtype dtype; /* of the data plane */
    int      n_planes;
    ph_plane plane[PH_N_PLANES];
    int      bits, group, is_symmetric; /* separate-plane forms only; else 0 */
} ph_storage;

/* A plain or block-typed constant: one plane, rows of row_bytes packed without gaps. */
ph_storage ph_storage_of(ph_dtype dtype, const void *bytes, size_t n, size_t row_stride);

/* Row `row` of `cols` elements as floats.  cols is a multiple of the block. */
void ph_storage_row(const ph_storage *s, size_t row, size_t cols, float *out);

#endif
