/* op_cast.c - Cast (opset 19) between plain types.
 *
 * From whole to whole numbers the low bits stay, as ONNX wants: 300 is 44 in 8 bits.  From reals the fraction
 * is cut; what does not fit becomes the nearest number that does, and NaN becomes 0 (ONNX leaves both open).
 * f16 and bf16 round to nearest even.
 */
#include "graph/op/op_help.h"

#include <math.h>
#include <string.h>

/* TensorProto.DataType, by number. */
static const struct {
    int      onnx;
    ph_dtype dtype;
    int64_t  low, high; /* of whole numbers; 0, 0 for reals */
} types[] = {
    {1, PH_F32, 0, 0},
    {2, PH_U8, 0, UINT8_MAX},
    {3, PH_I8, INT8_MIN, INT8_MAX},
    {4, PH_U16, 0, UINT16_MAX},
    {5, PH_I16, INT16_MIN, INT16_MAX},
    {6, PH_I32, INT32_MIN, INT32_MAX},
    {7, PH_I64, INT64_MIN, INT64_MAX},
    {9, PH_BOOL, 0, 1},
    {10, PH_F16, 0, 0},
    {11, PH_F64, 0, 0},
    {12, PH_U32, 0, UINT32_MAX},
    {13, PH_U64, 0, INT64_MAX}, /* the highest that a real becomes */
    {16, PH_BF16, 0, 0},
};
enum { N_TYPES = (int)(sizeof types / sizeof *types) };

static int row_of(ph_dtype t) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == t) return i;
    return -1;
}

static int is_whole(int row) {
    return types[row].low != types[row].high;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int64_t         to = ph_node_int(n, "to", 0);
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    if (row_of(x->dtype) < 0) return PH_FAIL(err, PH_EUNSUP, "Cast from %s", ph_dtype_name(x->dtype));
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].onnx == to) {
            ph_infer_set(&out[0], types[i].dtype, &x->shape);
            return PH_OK;
        }
    return PH_FAIL(err, PH_EUNSUP, "Cast to ONNX type %lld", (long long)to);
}

/* One number, whole or real. */
typedef struct number {
    int64_t whole;
    double  real;
} number;

static number load(int row, const char *p) {
    number   x = {0};
    size_t   item = ph_dtype_bytes(types[row].dtype);
    uint64_t bits = 0;
    float    f;
    memcpy(&bits, p, item); /* little-endian: the low bytes */
    if (types[row].dtype == PH_F64) {
        memcpy(&x.real, p, sizeof x.real);
    } else if (!is_whole(row)) {
        ph_dtype_get(types[row].dtype)->unpack(&f, p, 1);
        x.real = (double)f;
    } else {
        int shift = 64 - 8 * (int)item;
        x.whole = types[row].low < 0 ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
        x.real = types[row].dtype == PH_U64 ? (double)bits : (double)x.whole;
    }
    return x;
}

static int64_t to_whole(int row, int from_whole, number x) {
    int64_t low = types[row].low, high = types[row].high;
    if (types[row].dtype == PH_BOOL) return from_whole ? x.whole != 0 : isnan(x.real) || fabs(x.real) > 0;
    if (from_whole) return x.whole; /* `store` writes the low bytes */
    if (isnan(x.real)) return 0;
    if (x.real <= (double)low) return low;
    if (x.real >= (double)high) return high;
    return (int64_t)x.real;
}

static void store(int row, int from_whole, number x, char *p) {
    size_t item = ph_dtype_bytes(types[row].dtype);
    if (is_whole(row)) {
        int64_t whole = to_whole(row, from_whole, x);
        memcpy(p, &whole, item);
    } else if (types[row].dtype == PH_F64) {
        memcpy(p, &x.real, sizeof x.real);
    } else {
        float f = (float)x.real;
        ph_dtype_get(types[row].dtype)->pack(p, &f, 1);
    }
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int      from = row_of(in[0].dtype), to = row_of(out->dtype);
    int64_t  count = ph_array_count(out);
    (void)g, (void)n;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    size_t read = ph_dtype_bytes(x.dtype), write = ph_dtype_bytes(out->dtype);
    for (int64_t i = 0; i < count; i++)
        store(to, is_whole(from), load(from, (const char *)x.data + (size_t)i * read),
              (char *)out->data + (size_t)i * write);
    return PH_OK;
}

const ph_op ph_op_Cast = {
    .name = "Cast",
    .domain = "",
    .since = 19,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Cast.html",
};
