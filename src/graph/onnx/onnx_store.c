/* onnx_store.c - stored weights in ONNX: as they lie where ONNX has the type, else made row by row on the
 * way.
 *
 *     f32                 as it is; vectors of any float type as f32
 *     f16, bf16, f64      as it is, then Cast
 *     Q8_0, Q4_0          i8 [blocks, 32] with a scale a block, DequantizeLinear and Reshape; from opset 21 on
 *                         [N, K] with block_size, Q4_0 as int4
 *     bytes by channel    i8 or u8 [N, K], DequantizeLinear
 *     n-bit blocks        the planes as they are, for MatMulNBits
 */
#include "graph/onnx/onnx_emit.h"

#include "tensor/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 32,
    HALF = 16,
    NIBBLES = 4,
    BLOCKED_SINCE = 21, /* opset of DequantizeLinear with block_size */
    LIST_BYTES = 1024   /* whole numbers up to this may be a list of axes or sizes */
};

typedef enum kind { AS_IT_IS, ROWS, LEVELS, LEVELS4, SCALES, FLOATS } kind;

/* How one weight is made. */
typedef struct ph_onnx_made {
    kind              kind;
    const ph_storage *s;
    ph_dtype          to; /* of ROWS */
    size_t            cols;
    const ph_plane   *plane; /* of FLOATS */
} ph_onnx_made;

int ph_oo_type(ph_dtype t) {
    for (int type = 1; type <= 16; type++)
        if (ph_onnx_dtype(type) == t) return type;
    return 0;
}

/* ---- rows ---- */

static const uint8_t *row_at(const ph_storage *s, size_t row) {
    return (const uint8_t *)s->plane[PH_PLANE_DATA].bytes + row * s->plane[PH_PLANE_DATA].row_stride;
}

/* Levels of n elements in blocks of Q8_0 or Q4_0, a byte each. */
static void levels(const ph_storage *s, const uint8_t *p, size_t n, int8_t *out) {
    size_t bytes = ph_dtype_bytes(s->dtype);
    for (; n; n -= BLOCK, p += bytes, out += BLOCK) {
        if (s->dtype == PH_Q8_0) {
            memcpy(out, p + 2, BLOCK);
            continue;
        }
        for (size_t i = 0; i < HALF; i++) {
            out[i] = (int8_t)((p[2 + i] & 15) - 8);
            out[i + HALF] = (int8_t)((p[2 + i] >> 4) - 8);
        }
    }
}

/* The same, two of them a byte, the lower half first. */
static void nibbles(const ph_storage *s, const uint8_t *p, size_t n, uint8_t *out) {
    int8_t block[BLOCK];
    for (; n; n -= BLOCK, p += ph_dtype_bytes(s->dtype)) {
        levels(s, p, BLOCK, block);
        for (size_t i = 0; i < BLOCK; i += 2)
            *out++ = (uint8_t)((block[i] & 15) | (block[i + 1] & 15) << NIBBLES);
    }
}

static void scales(const ph_storage *s, const uint8_t *p, size_t n, float *out) {
    for (; n; n -= BLOCK, p += ph_dtype_bytes(s->dtype)) *out++ = ph_f16_load(p);
}

/* A finite number that the narrow type does not hold would become infinity. */
static ph_rc check_f16(const float *x, size_t n, const char *name, size_t row, ph_err *err) {
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]) && fabsf(x[i]) >= 65520)
            return PH_FAIL(err, PH_EUNSUP,
                           "weight %.100s: element %zu of row %zu is %g, too large for F16: --dtype f32",
                           name, i, row, (double)x[i]);
    return PH_OK;
}

static void make_row(const ph_onnx_made *m, float *scratch, size_t row, size_t bytes, uint8_t *out) {
    switch (m->kind) {
    case AS_IT_IS:
        memcpy(out, row_at(m->s, row), bytes);
        break;
    case ROWS:
        ph_storage_row(m->s, row, m->cols, scratch);
        if (m->to == PH_F32)
            memcpy(out, scratch, bytes);
        else
            ph_dtype_get(m->to)->pack(out, scratch, m->cols);
        break;
    case LEVELS:
        levels(m->s, row_at(m->s, row), m->cols, (int8_t *)out);
        break;
    case LEVELS4:
        nibbles(m->s, row_at(m->s, row), m->cols, out);
        break;
    case SCALES:
        scales(m->s, row_at(m->s, row), m->cols, scratch);
        memcpy(out, scratch, bytes);
        break;
    case FLOATS:
        for (size_t i = 0; i < m->cols; i++) scratch[i] = ph_plane_float(m->plane, row * m->cols + i);
        memcpy(out, scratch, bytes);
        break;
    }
}

ph_rc ph_oo_make_rows(const void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err) {
    const ph_onnx_exported *x = arg;
    const ph_onnx_stored   *w = &x->writer.weight[i];
    if (i >= x->n_made) return PH_FAIL(err, PH_EBUG, "weight %.100s is not one that is made", w->name);
    const ph_onnx_made *m = &x->made[i];
    for (size_t r = 0; r < n; r++) {
        make_row(m, x->scratch, first + r, w->row, out + r * w->row);
        if (m->kind == ROWS && m->to == PH_F16)
            PH_TRY(check_f16(x->scratch, m->cols, w->name, first + r, err));
    }
    return PH_OK;
}

/* ---- initializers ---- */

/* How weight number n_weights will be made; 0: no memory. */
static void note(ph_oo *o, const ph_onnx_made *m) {
    ph_onnx_exported *x = o->x;
    size_t            i = x->writer.n_weights;
    if (i >= x->made_max) {
        size_t        max = (i + 1) * 2;
        ph_onnx_made *bigger = realloc(x->made, max * sizeof *bigger);
        if (!bigger) {
            ph_oo_fail(o, PH_ENOMEM, "how weights are made");
            return;
        }
        x->made = bigger;
        x->made_max = max;
    }
    if (i > x->n_made) memset(&x->made[x->n_made], 0, (i - x->n_made) * sizeof *x->made);
    x->made[i] = *m;
    x->n_made = i + 1;
    if (m->cols > x->scratch_max) x->scratch_max = m->cols;
}

/* An initializer of n_rows rows that are `row` bytes each; bytes: they lie so already, or NULL. */
static const char *put(ph_oo *o, const char *like, int type, int rank, const int64_t *dim, size_t n_rows,
                       size_t row, const void *bytes, const ph_onnx_made *m) {
    ph_onnx_stored s = {.type = type, .rank = rank, .n_bytes = n_rows * row, .row = row, .bytes = bytes};
    if (o->rc) return "";
    for (int i = 0; i < rank; i++) s.dim[i] = dim[i];
    s.name = like;
    s.is_inside = s.n_bytes <= LIST_BYTES && (type == PH_ONNX_INT64 || type == PH_ONNX_INT32);
    if (!bytes) note(o, m);
    if (!o->rc) ph_onnx_put_weight(&o->x->writer, &s);
    return s.name;
}

typedef struct sizes { /* of a weight */
    int     rank;
    int64_t dim[PH_RANK_MAX];
    size_t  rows, cols;
} sizes;

static sizes sizes_of(const ph_value *v) {
    sizes s = {.rank = v->shape.rank, .rows = 1, .cols = 1};
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = v->shape.dim[i].mul;
        if (i + 1 < s.rank) s.rows *= (size_t)s.dim[i];
    }
    if (s.rank) s.cols = (size_t)s.dim[s.rank - 1];
    return s;
}

/* v's own bytes, where its rows lie without gaps. */
static const void *packed(const ph_value *v, size_t row) {
    const ph_plane *p = &v->storage.plane[PH_PLANE_DATA];
    sizes           s = sizes_of(v);
    return s.rows < 2 || p->row_stride == row ? p->bytes : NULL;
}

/* The numbers as `to`, then as f32. */
static const char *floats(ph_oo *o, const ph_value *v, ph_dtype to) {
    sizes        s = sizes_of(v);
    int          is_same = !v->storage.form && v->storage.dtype == to;
    size_t       row = s.cols * ph_dtype_bytes(to);
    ph_onnx_made m = {.kind = is_same ? AS_IT_IS : ROWS, .s = &v->storage, .to = to, .cols = s.cols};
    if (s.rows && s.cols && !v->storage.plane[PH_PLANE_DATA].bytes) {
        ph_oo_fail(o, PH_EUNSUP, "weight %.100s has no bytes", v->name);
        return "";
    }
    const char *name =
        put(o, v->name, ph_oo_type(to), s.rank, s.dim, s.rows, row, is_same ? packed(v, row) : NULL, &m);
    return to == PH_F32 ? name : ph_oo_cast(o, name, PH_OO_FLOAT32);
}

/* ---- quantised ---- */

static const char *dequantize(ph_oo *o, const char *x, const char *scale, const char *zero, int64_t axis,
                              int64_t block) {
    const ph_onnx_attr attr[2] = {PH_OO_INT("axis", axis), PH_OO_INT("block_size", block)};
    const char *const  in[3] = {x, scale, zero};
    return ph_oo_make(o, "DequantizeLinear", in, *zero ? 3 : 2, attr, block ? 2 : 1);
}

/* Q8_0 or Q4_0, of whole blocks. */
static const char *blocks(ph_oo *o, const ph_value *v) {
    sizes  s = sizes_of(v);
    size_t each = s.cols / BLOCK;
    int    is_blocked = o->opset >= BLOCKED_SINCE && s.rank == 2, is_nibbles = v->storage.dtype == PH_Q4_0;
    const int64_t flat[2] = {(int64_t)(s.rows * each), BLOCK}, count[1] = {flat[0]},
                  wide[2] = {(int64_t)s.rows, (int64_t)each};
    ph_onnx_made of = {.kind = LEVELS, .s = &v->storage, .cols = s.cols},
                 by = {.kind = SCALES, .s = &v->storage, .cols = s.cols};
    const char *like = ph_oo_fresh(o, ph_oo_text(o, "%.800s.scale", v->name)), *q;
    const char *d = put(o, like, PH_OO_FLOAT32, is_blocked ? 2 : 1, is_blocked ? wide : count, s.rows,
                        each * sizeof(float), NULL, &by);
    if (is_blocked) {
        if (is_nibbles) of.kind = LEVELS4;
        q = put(o, v->name, is_nibbles ? PH_ONNX_INT4 : PH_ONNX_INT8, 2, s.dim, s.rows,
                is_nibbles ? s.cols / 2 : s.cols, NULL, &of);
        return dequantize(o, q, d, "", 1, BLOCK);
    }
    q = put(o, v->name, PH_ONNX_INT8, 2, flat, s.rows, s.cols, NULL, &of);
    return ph_oo_reshape(o, dequantize(o, q, d, "", 0, 0), s.dim, (size_t)s.rank);
}

/* A plane of floats as f32. */
static const char *plane_floats(ph_oo *o, const char *like, const ph_plane *p, int rank, const int64_t *dim) {
    size_t       n = p->n / ph_dtype_bytes(p->dtype);
    ph_onnx_made m = {.kind = FLOATS, .plane = p, .cols = n};
    return put(o, like, PH_OO_FLOAT32, rank, dim, 1, n * sizeof(float), p->dtype == PH_F32 ? p->bytes : NULL,
               &m);
}

/* Bytes with one scale, or one a row: all of the matrix, not a view of it. */
static int is_by_channel(const ph_value *v) {
    const ph_storage *s = &v->storage;
    sizes             z = sizes_of(v);
    return s->form == &ph_storage_channels && (s->dtype == PH_I8 || s->dtype == PH_U8) && z.rank == 2 &&
           !s->first && s->n_rows == z.rows && s->group == z.cols &&
           (s->group_rows == 1 || s->group_rows == z.rows) &&
           (!s->plane[PH_PLANE_ZERO].bytes || s->plane[PH_PLANE_ZERO].dtype == s->dtype);
}

static const char *by_channel(ph_oo *o, const ph_value *v) {
    const ph_storage *s = &v->storage;
    sizes             z = sizes_of(v);
    const ph_plane   *by = &s->plane[PH_PLANE_SCALE], *zero = &s->plane[PH_PLANE_ZERO];
    int               type = ph_oo_type(s->dtype);
    const int64_t     n[1] = {(int64_t)(by->n / ph_dtype_bytes(by->dtype))};
    int               rank = n[0] > 1;
    const char *q = put(o, v->name, type, 2, z.dim, z.rows, z.cols, s->plane[PH_PLANE_DATA].bytes, NULL);
    const char *d = plane_floats(o, ph_oo_fresh(o, ph_oo_text(o, "%.800s.scale", v->name)), by, rank, n);
    const char *at = "";
    if (zero->bytes)
        at = put(o, ph_oo_fresh(o, ph_oo_text(o, "%.800s.zero", v->name)), type, rank, n, 1, (size_t)n[0],
                 zero->bytes, NULL);
    return dequantize(o, q, d, at, 0, 0);
}

int ph_oo_nbits(ph_oo *o, const ph_value *v, const char *plane[3]) {
    const ph_storage *s = &v->storage;
    sizes             z = sizes_of(v);
    if (s->form != &ph_storage_nbits || s->first || s->n_rows != z.rows || o->how->has_type) return 0;
    const ph_plane *data = &s->plane[PH_PLANE_DATA], *by = &s->plane[PH_PLANE_SCALE],
                   *zero = &s->plane[PH_PLANE_ZERO];
    size_t        each = (z.cols + s->group - 1) / s->group, blob = s->group * (size_t)s->bits / 8;
    const int64_t dim[3] = {(int64_t)z.rows, (int64_t)each, (int64_t)blob},
                  count[1] = {(int64_t)(z.rows * each)};
    const char *known = ph_oo_kept(o, "nbits %s", v->name);
    plane[0] = known ? known : put(o, v->name, PH_ONNX_UINT8, 3, dim, z.rows, each * blob, data->bytes, NULL);
    plane[1] = ph_oo_kept(o, "nbits scale %s", v->name);
    plane[2] = ph_oo_kept(o, "nbits zero %s", v->name);
    if (known) return 1;
    plane[1] = plane_floats(o, ph_oo_fresh(o, ph_oo_text(o, "%.800s.scale", v->name)), by, 1, count);
    plane[2] = "";
    if (zero->bytes) {
        const char   *like = ph_oo_fresh(o, ph_oo_text(o, "%.800s.zero", v->name));
        const int64_t n[1] = {(int64_t)zero->n};
        plane[2] = zero->dtype == PH_U8 ? put(o, like, PH_ONNX_UINT8, 1, n, 1, zero->n, zero->bytes, NULL)
                                        : plane_floats(o, like, zero, 1, count);
    }
    ph_oo_keep(o, plane[0], "nbits %s", v->name);
    ph_oo_keep(o, plane[1], "nbits scale %s", v->name);
    ph_oo_keep(o, plane[2], "nbits zero %s", v->name);
    return 1;
}

/* ---- all of them ---- */

static const char *whole_numbers(ph_oo *o, const ph_value *v) {
    sizes        s = sizes_of(v);
    size_t       row = s.cols * ph_dtype_bytes(v->dtype);
    int          type = ph_oo_type(v->dtype);
    ph_onnx_made m = {.kind = AS_IT_IS, .s = &v->storage, .cols = s.cols};
    if (!type)
        ph_oo_fail(o, PH_EUNSUP, "constant %.100s is %s, which ONNX does not have", v->name,
                   ph_dtype_name(v->dtype));
    return put(o, v->name, type, s.rank, s.dim, s.rows, row, packed(v, row), &m);
}

const char *ph_oo_weight(ph_oo *o, const ph_value *v) {
    const ph_storage *s = &v->storage;
    sizes             z = sizes_of(v);
    if (!s->form && v->dtype != PH_F32) return whole_numbers(o, v);
    if (z.rank > 1 && o->how->has_type) return floats(o, v, o->how->type);
    if (!s->form && (s->dtype == PH_F32 || s->dtype == PH_F16 || s->dtype == PH_BF16))
        return floats(o, v, z.rank > 1 && !o->how->is_float ? s->dtype : PH_F32);
    if (!s->form && s->dtype == PH_F64) return floats(o, v, PH_F32);
    if (!s->form && (s->dtype == PH_Q8_0 || s->dtype == PH_Q4_0)) return blocks(o, v);
    if (is_by_channel(v)) return by_channel(o, v);
    if (z.rank < 2) return floats(o, v, PH_F32);
    if (o->how->is_float) return floats(o, v, PH_F32);
    if (o->how->is_widened) return floats(o, v, PH_F16);
    ph_oo_fail(
        o, PH_EUNSUP,
        "weight %.100s is stored as %.40s, which has no form in ONNX: --widen writes such weights as f16",
        v->name, s->form ? s->form->name : ph_dtype_name(s->dtype));
    return "";
}
