/* storage_awq.c - AWQ: words of eight rows, scales and zero points a group.
 *
 *     qweight [K, N / 8]   rows 8 m .. 8 m + 7 of element k in word [k, m], in the order 0 2 4 6 1 3 5 7
 *     qzeros  [K / group, N / 8] likewise     scales [K / group, N]
 *     w = scale (q - zero)
 *
 * Source: arXiv:2306.00978; github.com/casper-hansen/AutoAWQ, gemm.py (version "gemm").
 */
#include "tensor/storage.h"

#include "base/mem.h"

enum { PER = 8 };

/* Where row j of its eight stands in the word. */
static size_t shift_of(size_t j) {
    return 4 * (j / 2 + j % 2 * 4);
}

static void row(const ph_storage *s, size_t n, size_t cols, float *out) {
    size_t words = s->n_rows / PER, shift = shift_of(n % PER);
    float  d = 0;
    int    z = 0;
    for (size_t k = 0; k < cols; k++) {
        if (k % s->group == 0) {
            size_t g = k / s->group;
            d = ph_plane_float(&s->plane[PH_PLANE_SCALE], g * s->n_rows + n);
            z = (int)(ph_plane_word(&s->plane[PH_PLANE_ZERO], g * words + n / PER) >> shift & 15);
        }
        out[k] =
            d *
            (float)((int)(ph_plane_word(&s->plane[PH_PLANE_DATA], k * words + n / PER) >> shift & 15) - z);
    }
}

static ph_rc check(ph_storage *s, size_t cols, ph_err *err) {
    size_t n = s->n_rows, whole, scale = ph_dtype_bytes(s->plane[PH_PLANE_SCALE].dtype);
    if (s->bits != 4) return PH_FAIL(err, PH_EUNSUP, "awq: %d bits are not supported; 4 are", s->bits);
    if (!cols || !n || n % PER || ph_mul_over(cols, n, &whole) || whole > SIZE_MAX / 8)
        return PH_FAIL(err, PH_EMISMATCH, "awq: [%zu, %zu] are no whole words of %d rows", n, cols, PER);
    if (!s->group || s->group > cols) s->group = cols;
    size_t groups = (cols + s->group - 1) / s->group;
    PH_TRY(ph_plane_check(s, PH_PLANE_DATA, whole / PER * 4, 0, err));
    PH_TRY(ph_plane_check(s, PH_PLANE_SCALE, groups * n * scale, 1, err));
    return ph_plane_check(s, PH_PLANE_ZERO, groups * n / PER * 4, 0, err);
}

const ph_storage_form ph_storage_awq = {.name = "awq",
                                        .method = {"awq"},
                                        .part = {"qweight", "scales", "qzeros", NULL},
                                        .row = row,
                                        .check = check,
                                        .source = "arXiv:2306.00978; AutoAWQ gemm.py"};
