/* storage_gptq.c - GPTQ: words of 32 bits along a row, scales and zero points a group.
 *
 *     qweight [K / p, N], p = 32 / bits    element k of row n in word [k / p, n], shifted by bits (k % p)
 *     scales  [G, N]                       qzeros [G, N / p]   the row n in word n / p
 *     g_idx   [K]                          group of element k; without it k / group
 *     w = scale (q - zero)
 *
 * Zero points of the first format ("gptq") are stored less one, modulo 2^bits;
 * those of "gptq_v2" as they are.
 * Source: arXiv:2210.17323; github.com/AutoGPTQ/AutoGPTQ, qlinear_cuda.py; GPTQModel for the second format.
 */
#include "tensor/storage.h"

#include "base/mem.h"

static void row(const ph_storage *s, size_t n, size_t cols, float *out) {
    const ph_plane *scale = &s->plane[PH_PLANE_SCALE], *zero = &s->plane[PH_PLANE_ZERO],
                   *index = &s->plane[PH_PLANE_INDEX];
    size_t   per = 32 / (size_t)s->bits, bits = (size_t)s->bits, group = SIZE_MAX;
    uint32_t mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1, word = 0;
    float    d = 0;
    int      z = 0;
    for (size_t k = 0; k < cols; k++) {
        size_t g = index->bytes ? ph_plane_word(index, k) : k / s->group;
        if (k % per == 0) word = ph_plane_word(&s->plane[PH_PLANE_DATA], k / per * s->n_rows + n);
        if (g != group) { /* with an index they may follow in any order */
            group = g;
            d = ph_plane_float(scale, g * s->n_rows + n);
            uint32_t stored = ph_plane_word(zero, g * (s->n_rows / per) + n / per) >> bits * (n % per);
            z = (int)((stored + (uint32_t)s->zero_add) & mask);
        }
        out[k] = d * (float)((int)(word >> bits * (k % per) & mask) - z);
    }
}

static ph_rc check_index(const ph_storage *s, size_t cols, size_t groups, ph_err *err) {
    const ph_plane *index = &s->plane[PH_PLANE_INDEX];
    if (!index->bytes) return PH_OK;
    PH_TRY(ph_plane_check(s, PH_PLANE_INDEX, 4 * cols, 0, err));
    for (size_t k = 0; k < cols; k++)
        if (ph_plane_word(index, k) >= groups)
            return PH_FAIL(err, PH_EMISMATCH, "gptq: g_idx[%zu] is %u, but there are %zu groups", k,
                           ph_plane_word(index, k), groups);
    return PH_OK;
}

static ph_rc check(ph_storage *s, size_t cols, ph_err *err) {
    if (s->bits != 2 && s->bits != 4 && s->bits != 8)
        return PH_FAIL(err, PH_EUNSUP, "gptq: %d bits are not supported; 2, 4 and 8 are", s->bits);
    size_t per = 32 / (size_t)s->bits, n = s->n_rows, scale = ph_dtype_bytes(s->plane[PH_PLANE_SCALE].dtype);
    size_t whole;
    if (!cols || !n || cols % per || n % per || ph_mul_over(cols, n, &whole) || whole > SIZE_MAX / 8)
        return PH_FAIL(err, PH_EMISMATCH, "gptq: [%zu, %zu] are no whole words of %zu", n, cols, per);
    size_t groups = s->plane[PH_PLANE_SCALE].n / (n * scale);
    if (!s->group || s->group > cols) s->group = cols;
    if (!s->plane[PH_PLANE_INDEX].bytes) groups = (cols + s->group - 1) / s->group;
    if (!groups || groups > cols)
        return PH_FAIL(err, PH_EMISMATCH, "gptq: %zu groups of scales for rows of %zu", groups, cols);
    PH_TRY(ph_plane_check(s, PH_PLANE_DATA, whole / per * 4, 0, err));
    PH_TRY(ph_plane_check(s, PH_PLANE_SCALE, groups * n * scale, 1, err));
    PH_TRY(ph_plane_check(s, PH_PLANE_ZERO, groups * n / per * 4, 0, err));
    return check_index(s, cols, groups, err);
}

const ph_storage_form ph_storage_gptq = {.name = "gptq",
                                         .method = {"gptq"},
                                         .part = {"qweight", "scales", "qzeros", "g_idx"},
                                         .row = row,
                                         .check = check,
                                         .source = "arXiv:2210.17323; AutoGPTQ qlinear_cuda.py"};
