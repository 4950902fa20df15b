/* storage_channels.c - a byte an element, with a scale for the matrix, a row, or groups within rows.
 *
 *     weight [N, K] i8 or u8    weight_scale [1], [N], [N, 1] or [N, G]    weight_zero_point the same, if any
 *     w = scale (q - zero)
 *
 * How many scales there are says which of the three it is.
 * Source: github.com/neuralmagic/compressed-tensors, "int-quantized"; ONNX DequantizeLinear.
 */
#include "tensor/storage.h"

#include "base/mem.h"

/* Scales of one row; 0: one for all rows. */
static size_t scales_a_row(const ph_storage *s, size_t cols) {
    return s->group > cols ? 0 : cols / s->group;
}

static void row(const ph_storage *s, size_t n, size_t cols, float *out) {
    const ph_plane      *scale = &s->plane[PH_PLANE_SCALE], *zero = &s->plane[PH_PLANE_ZERO];
    const unsigned char *data = (const unsigned char *)s->plane[PH_PLANE_DATA].bytes + n * cols;
    size_t               each = scales_a_row(s, cols), group = each ? s->group : cols;
    ph_dtype_get(s->dtype)->unpack(out, data, cols);
    for (size_t k = 0; k < cols; k++) {
        size_t at = each ? n * each + k / group : 0;
        float  z = zero->bytes ? ph_plane_float(zero, at) : 0;
        out[k] = ph_plane_float(scale, at) * (out[k] - z);
    }
}

static ph_rc check(ph_storage *s, size_t cols, ph_err *err) {
    size_t scale = ph_dtype_bytes(s->plane[PH_PLANE_SCALE].dtype), n = s->n_rows, whole;
    if (s->dtype != PH_I8 && s->dtype != PH_U8)
        return PH_FAIL(err, PH_EUNSUP, "%s: weights of type %s", s->form->name, ph_dtype_name(s->dtype));
    if (!cols || !n || ph_mul_over(cols, n, &whole))
        return PH_FAIL(err, PH_EMISMATCH, "%s: a matrix of [%zu, %zu]", s->form->name, n, cols);
    size_t count = s->plane[PH_PLANE_SCALE].n / scale, each = count / n;
    int    is_one = count == 1 && n > 1;
    if (!is_one && (!each || count != each * n || cols % each))
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu scales for a matrix of [%zu, %zu]", s->form->name, count,
                       n, cols);
    s->group = is_one ? SIZE_MAX : cols / each;
    PH_TRY(ph_plane_check(s, PH_PLANE_DATA, whole, 0, err));
    PH_TRY(ph_plane_check(s, PH_PLANE_SCALE, count * scale, 1, err));
    const ph_plane *zero = &s->plane[PH_PLANE_ZERO];
    return zero->bytes ? ph_plane_check(s, PH_PLANE_ZERO, count * ph_dtype_bytes(zero->dtype), 0, err)
                       : PH_OK;
}

const ph_storage_form ph_storage_channels = {.name = "compressed-tensors",
                                             .part = {"weight", "weight_scale", "weight_zero_point", NULL},
                                             .row = row,
                                             .check = check,
                                             .source = "compressed-tensors, int-quantized"};
