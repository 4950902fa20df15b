/* storage.h - where a constant's numbers stand: one to four planes of bytes.
 *
 * GGUF blocks and plain floats are one interleaved plane.  MatMulNBits, AWQ,
 * GPTQ and bytes with scales are separate planes (data, scale, zero, index)
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
    ph_dtype    dtype;      /* separate-plane forms only */
} ph_plane;

typedef struct ph_storage_form ph_storage_form; /* below: one file a form, storage.def */

typedef struct ph_storage {
    ph_dtype               dtype; /* of the data plane */
    int                    n_planes;
    ph_plane               plane[PH_N_PLANES];
    const ph_storage_form *form; /* separate planes; NULL: one interleaved plane, read by dtype alone */
    /* Separate-plane forms only; else 0. */
    int    bits, is_symmetric; /* symmetric: no zero points are read */
    int    zero_add;           /* zero points are stored less this (GPTQ's first format: 1) */
    size_t group;              /* elements of a row under one scale */
    size_t group_rows;         /* rows under one scale, where scales belong to blocks; else 0 */
    size_t n_rows;             /* of the whole matrix */
    size_t first;              /* row of it where this view begins */
} ph_storage;

/* How numbers are found in separate planes. */
struct ph_storage_form {
    const char *name;
    const char *method[3]; /* quantization_config's quant_method words that mean it; NULL ends.  None: no
                            * config names it, its tensors do */
    const char
        *part[PH_N_PLANES]; /* what stands behind "layer." in tensor names, by plane; NULL: no such plane */
    /* cols elements of a row.  Everything was checked. */
    void (*row)(const ph_storage *s, size_t row, size_t cols, float *out);
    /* Whether all planes have the sizes and types that n_rows rows of cols elements take; sets what the
     * planes themselves say (group).  Errors: PH_EMISMATCH, PH_EUNSUP, naming what. */
    ph_rc (*check)(ph_storage *s, size_t cols, ph_err *err);
    const char *source;
};

#define PH_STORAGE(name) extern const ph_storage_form ph_storage_##name;
#include "tensor/storage.def"
#undef PH_STORAGE

const ph_storage_form *ph_storage_form_find(const char *name);        /* NULL: unknown */
const ph_storage_form *ph_storage_form_of_method(const char *method); /* of quant_method; NULL: unknown */
const ph_storage_form *ph_storage_form_at(size_t i);                  /* NULL past the last */

/* A plain or block-typed constant: one plane, rows of row_bytes packed without gaps. */
ph_storage ph_storage_of(ph_dtype dtype, const void *bytes, size_t n, size_t row_stride);

/* Row `row` of `cols` elements as floats.  cols is a multiple of the block. */
void ph_storage_row(const ph_storage *s, size_t row, size_t cols, float *out);

/* For forms: that a plane is there with n bytes, of a plain type that holds numbers (floats: only real ones).
 */
ph_rc ph_plane_check(const ph_storage *s, int plane, size_t n, int floats, ph_err *err);
/* Element i of a plane of floats, of whole numbers. */
float    ph_plane_float(const ph_plane *p, size_t i);
uint32_t ph_plane_word(const ph_plane *p, size_t i); /* 32 bits; unaligned is fine */

#endif
