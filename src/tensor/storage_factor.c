/* storage_factor.c - blocks of any type, and one factor for the whole matrix.
 *
 *     weight [N, K] in blocks    scale [1]
 *     w = scale * what the blocks say
 *
 * What GGUF files of NVFP4 have: the blocks' own scales have eight bits, too few
 * to reach all matrices.
 * Source: github.com/ggml-org/llama.cpp convert_hf_to_gguf.py, NVFP4: tensors "X.scale".
 */
#include "tensor/storage.h"

#include "base/mem.h"

static ph_rc row_bytes(const ph_storage *s, size_t cols, size_t *out, ph_err *err) {
    if (cols > INT64_MAX) return PH_FAIL(err, PH_ELIMIT, "%s: rows of %zu", s->form->name, cols);
    return ph_dtype_row_bytes(s->dtype, (int64_t)cols, out, err);
}

static void row(const ph_storage *s, size_t n, size_t cols, float *out) {
    size_t bytes = 0;
    float  factor = ph_plane_float(&s->plane[PH_PLANE_SCALE], 0);
    (void)row_bytes(s, cols, &bytes, NULL); /* was checked */
    ph_dtype_get(s->dtype)->unpack(out, (const unsigned char *)s->plane[PH_PLANE_DATA].bytes + n * bytes,
                                   cols);
    for (size_t k = 0; k < cols; k++) out[k] *= factor;
}

static ph_rc check(ph_storage *s, size_t cols, ph_err *err) {
    const ph_plane *scale = &s->plane[PH_PLANE_SCALE];
    size_t          bytes, whole;
    PH_TRY(row_bytes(s, cols, &bytes, err));
    if (!s->n_rows || !cols || ph_mul_over(bytes, s->n_rows, &whole) || s->plane[PH_PLANE_DATA].n != whole)
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu bytes of %s for a matrix of [%zu, %zu]", s->form->name,
                       s->plane[PH_PLANE_DATA].n, ph_dtype_name(s->dtype), s->n_rows, cols);
    if (scale->bytes && scale->n != ph_dtype_bytes(scale->dtype))
        return PH_FAIL(err, PH_EUNSUP, "%s: %zu bytes of scales (%s), where one number is read",
                       s->form->name, scale->n, s->form->part[PH_PLANE_SCALE]);
    s->group = cols;
    return ph_plane_check(s, PH_PLANE_SCALE, ph_dtype_bytes(scale->dtype), 1, err);
}

const ph_storage_form ph_storage_factor = {.name = "factor",
                                           .part = {"weight", "scale", NULL, NULL},
                                           .row = row,
                                           .check = check,
                                           .source = "GGUF files of NVFP4, tensors X.scale"};
