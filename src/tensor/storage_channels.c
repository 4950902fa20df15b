/* storage_channels.c - a byte an element, with a scale for the matrix, a row, groups within rows, or blocks
 * of both.
 *
 *     weight [N, K]    i8, u8, E4M3 or E5M2
 *     weight_scale     [1], [N], [N, 1], [N, G] or [N / rows, K / columns], both rounded up
 *     weight_zero_point  the same, if any
 *     w = scale (q - zero)
 *
 * How many scales there are says which of these it is.  Blocks are of 128 by 128
 * unless config.json says another size; where the count fits rows as well as
 * blocks, it is rows unless config.json speaks of blocks.
 * Source: github.com/neuralmagic/compressed-tensors, "int-quantized", "float-quantized"; ONNX
 * DequantizeLinear.
 */
#include "tensor/channels.h"

#include "base/mem.h"

enum { BLOCK_SIDE = 128 };

static size_t ceil_div(size_t n, size_t by) {
    return n / by + (n % by != 0);
}

void ph_channels_row(const ph_storage *s, size_t n, size_t cols, float *out) {
    const ph_plane      *scale = &s->plane[PH_PLANE_SCALE], *zero = &s->plane[PH_PLANE_ZERO];
    const unsigned char *data = (const unsigned char *)s->plane[PH_PLANE_DATA].bytes + n * cols;
    size_t               at = n / s->group_rows * ceil_div(cols, s->group);
    ph_dtype_get(s->dtype)->unpack(out, data, cols);
    for (size_t first = 0; first < cols; first += s->group, at++) {
        size_t end = cols - first < s->group ? cols : first + s->group;
        float  d = ph_plane_float(scale, at), z = zero->bytes ? ph_plane_float(zero, at) : 0;
        for (size_t k = first; k < end; k++) out[k] = d * (out[k] - z);
    }
}

/* Whether `count` scales, `wide` to a row of theirs, are blocks of rows by columns. */
static int are_blocks(ph_storage *s, size_t cols, size_t count, size_t wide, size_t rows, size_t columns) {
    size_t across = ceil_div(cols, columns);
    if ((wide && wide != across) || count % across || count / across != ceil_div(s->n_rows, rows)) return 0;
    s->group_rows = rows;
    s->group = columns;
    return 1;
}

/* What stands under one scale; 0: nothing that these scales could be of. */
static int lay_out(ph_storage *s, size_t cols) {
    const ph_plane *scale = &s->plane[PH_PLANE_SCALE];
    size_t          bytes = ph_dtype_bytes(scale->dtype), count = scale->n / bytes, n = s->n_rows;
    size_t          wide = scale->row_stride / bytes, each = count / n; /* wide: 0 where it is not known */
    if (s->group_rows && s->group && are_blocks(s, cols, count, wide, s->group_rows, s->group)) return 1;
    s->group_rows = count == 1 ? n : 1;
    s->group = cols;
    if (count == 1) return 1;
    if (each && count == each * n && cols % each == 0 &&
        (!wide || wide == each || (wide == count && each == 1))) {
        s->group = cols / each;
        return 1;
    }
    return wide && are_blocks(s, cols, count, wide, BLOCK_SIDE, BLOCK_SIDE);
}

static int is_byte(ph_dtype t) {
    return t == PH_I8 || t == PH_U8 || t == PH_F8_E4M3 || t == PH_F8_E5M2;
}

ph_rc ph_channels_check(ph_storage *s, size_t cols, ph_err *err) {
    const ph_plane *scale = &s->plane[PH_PLANE_SCALE], *zero = &s->plane[PH_PLANE_ZERO];
    size_t          n = s->n_rows, whole;
    if (!is_byte(s->dtype))
        return PH_FAIL(err, PH_EUNSUP, "%s: weights of type %s", s->form->name, ph_dtype_name(s->dtype));
    if (!cols || !n || ph_mul_over(cols, n, &whole))
        return PH_FAIL(err, PH_EMISMATCH, "%s: a matrix of [%zu, %zu]", s->form->name, n, cols);
    if (!lay_out(s, cols))
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu scales for a matrix of [%zu, %zu]", s->form->name,
                       scale->n / ph_dtype_bytes(scale->dtype), n, cols);
    size_t count = ceil_div(n, s->group_rows) * ceil_div(cols, s->group);
    PH_TRY(ph_plane_check(s, PH_PLANE_DATA, whole, 0, err));
    PH_TRY(ph_plane_check(s, PH_PLANE_SCALE, count * ph_dtype_bytes(scale->dtype), 1, err));
    return zero->bytes ? ph_plane_check(s, PH_PLANE_ZERO, count * ph_dtype_bytes(zero->dtype), 0, err)
                       : PH_OK;
}

const ph_storage_form ph_storage_channels = {.name = "compressed-tensors",
                                             .method = {"compressed-tensors", "fbgemm_fp8"},
                                             .part = {"weight", "weight_scale", "weight_zero_point", NULL},
                                             .row = ph_channels_row,
                                             .check = ph_channels_check,
                                             .source = "compressed-tensors, int-quantized, float-quantized"};
