/* storage_nbits.c - MatMulNBits of ONNX Runtime: 2, 4 or 8 bits an element, blocks along each row.
 *
 *     data  [N, blocks, block * bits / 8] u8, the lower bits first     scale [N, blocks]
 *     zero  [N, ceil(blocks * bits / 8)] u8 likewise, or [N, blocks] floats; left out: 2^(bits - 1)
 *     w = scale (q - zero)
 *
 * The last block of a row is stored whole, whatever K is.
 * Source: github.com/microsoft/onnxruntime docs/ContribOperators.md, com.microsoft.MatMulNBits.
 */
#include "tensor/storage.h"

#include "base/mem.h"

static size_t blocks_of(const ph_storage *s, size_t cols) {
    return (cols + s->group - 1) / s->group;
}

/* Element i of bytes that hold `bits` each. */
static int packed(const unsigned char *bytes, size_t i, int bits) {
    size_t per = 8 / (size_t)bits;
    return bytes[i / per] >> (i % per * (size_t)bits) & ((1 << bits) - 1);
}

static float zero_of(const ph_storage *s, size_t row, size_t block, size_t blocks) {
    const ph_plane *zero = &s->plane[PH_PLANE_ZERO];
    if (!zero->bytes) return (float)(1 << (s->bits - 1));
    if (zero->dtype != PH_U8) return ph_plane_float(zero, row * blocks + block);
    size_t per = (blocks * (size_t)s->bits + 7) / 8;
    return (float)packed((const unsigned char *)zero->bytes + row * per, block, s->bits);
}

static void row(const ph_storage *s, size_t n, size_t cols, float *out) {
    size_t               blocks = blocks_of(s, cols), blob = s->group * (size_t)s->bits / 8;
    const unsigned char *data = (const unsigned char *)s->plane[PH_PLANE_DATA].bytes + n * blocks * blob;
    for (size_t b = 0; b < blocks; b++) {
        float scale = ph_plane_float(&s->plane[PH_PLANE_SCALE], n * blocks + b),
              zero = zero_of(s, n, b, blocks);
        for (size_t k = b * s->group; k < cols && k < (b + 1) * s->group; k++)
            out[k] = scale * ((float)packed(data + b * blob, k - b * s->group, s->bits) - zero);
    }
}

static ph_rc check(ph_storage *s, size_t cols, ph_err *err) {
    const ph_plane *zero = &s->plane[PH_PLANE_ZERO];
    size_t          n = s->n_rows, blocks, data;
    if (s->bits != 2 && s->bits != 4 && s->bits != 8)
        return PH_FAIL(err, PH_EUNSUP, "MatMulNBits: %d bits; 2, 4 and 8 are done", s->bits);
    if (!cols || !n || s->group < 8 || s->group > 1 << 20 || s->group % 8)
        return PH_FAIL(err, PH_EMISMATCH, "MatMulNBits: a matrix of [%zu, %zu] in blocks of %zu", n, cols,
                       s->group);
    blocks = blocks_of(s, cols);
    if (ph_mul_over(n, blocks, &blocks) || ph_mul_over(blocks, s->group, &data) || data > SIZE_MAX / 64)
        return PH_FAIL(err, PH_ELIMIT, "MatMulNBits: a matrix of [%zu, %zu]", n, cols);
    PH_TRY(ph_plane_check(s, PH_PLANE_DATA, data * (size_t)s->bits / 8, 0, err));
    PH_TRY(
        ph_plane_check(s, PH_PLANE_SCALE, blocks * ph_dtype_bytes(s->plane[PH_PLANE_SCALE].dtype), 1, err));
    if (!zero->bytes) return PH_OK;
    if (zero->dtype != PH_U8)
        return ph_plane_check(s, PH_PLANE_ZERO, blocks * ph_dtype_bytes(zero->dtype), 1, err);
    return ph_plane_check(s, PH_PLANE_ZERO, n * ((blocks_of(s, cols) * (size_t)s->bits + 7) / 8), 0, err);
}

const ph_storage_form ph_storage_nbits = {.name = "nbits",
                                          .part = {"B", "scales", "zero_points", NULL},
                                          .row = row,
                                          .check = check,
                                          .source = "com.microsoft.MatMulNBits"};
