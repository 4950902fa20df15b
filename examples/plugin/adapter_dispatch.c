/* adapter_dispatch.c - an operator of one's own: a low-rank adapter for the rows of one token.
 *
 *     make                                                     (here; or `make examples` in the project's root)
 *     pinhole inspect model.onnx --plugin ./adapter_dispatch.so
 *
 * com.acme::AdapterDispatch, since version 1 of com.acme:
 *
 *     h f32 [.., K]   ids i64 or i32 [..]   A f32 [K, r]   B f32 [r, K]
 *     y[i] = h[i] + scale (h[i] A) B   where ids[i] is `token`; else h[i]
 *
 * Attributes: token (32000, [IMG]), scale (1).  The dimensions before K may be dynamic.  Plain loops: what a
 * reader wants to see is the frame; the same rows through vector code are yours to write.
 */
#include <pinhole_op.h>
#include <string.h>

enum { H, IDS, A, B, N_IN };
enum { IMG = 32000 };

/* "a == b" of dimensions, also of those that are not numbers yet. */
static int same(const pinhole_op_node *n, const pinhole_op_value *a, int i, const pinhole_op_value *b,
                int k) {
    return n->api->dim_same(a->dim[i], b->dim[k]);
}

static int infer(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                 int n_out) {
    int     last = in[H].rank - 1;
    int64_t rank = 0;
    (void)n_in, (void)n_out; /* as the table says */
    if (in[H].type != PINHOLE_F32 || in[A].type != PINHOLE_F32 || in[B].type != PINHOLE_F32)
        return n->api->fail(n, PINHOLE_OP_EMISMATCH, "h, A and B are f32; their types are %d, %d, %d",
                            in[H].type, in[A].type, in[B].type);
    if (in[IDS].type != PINHOLE_I64 && in[IDS].type != PINHOLE_I32)
        return n->api->fail(n, PINHOLE_OP_EMISMATCH, "ids are whole numbers of 32 or 64 bits");
    if (last < 0 || in[IDS].rank != last)
        return n->api->fail(n, PINHOLE_OP_EMISMATCH, "an id for each row is wanted: h has rank %d, ids %d",
                            in[H].rank, in[IDS].rank);
    for (int i = 0; i < last; i++)
        if (!same(n, &in[H], i, &in[IDS], i))
            return n->api->fail(n, PINHOLE_OP_EMISMATCH, "h and ids differ in dimension %d", i);
    if (in[A].rank != 2 || in[B].rank != 2 || !same(n, &in[A], 0, &in[H], last) ||
        !same(n, &in[B], 1, &in[H], last) || !same(n, &in[A], 1, &in[B], 0))
        return n->api->fail(n, PINHOLE_OP_EMISMATCH,
                            "A[K, r] and B[r, K] are wanted, with the K of h[.., K]");
    if (!n->api->dim_number(in[A].dim[1], &rank) || rank < 1)
        return n->api->fail(n, PINHOLE_OP_EUNSUP, "the adapter's rank is not a number");
    out[0] = in[H];
    return 0;
}

static int64_t rows_of(const pinhole_array *ids) {
    int64_t n = 1;
    for (int i = 0; i < ids->rank; i++) n *= ids->dim[i];
    return n;
}

static int64_t id_at(const pinhole_array *ids, int64_t i) {
    return ids->type == PINHOLE_I32 ? ((const int32_t *)ids->data)[i] : ((const int64_t *)ids->data)[i];
}

/* low[r], then y += scale (x A) B. */
static void adapt(float *y, const float *x, const float *a, const float *b, int64_t k, int64_t r, float scale,
                  float *low) {
    memset(low, 0, (size_t)r * sizeof *low);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < r; j++) low[j] += x[i] * a[i * r + j];
    for (int64_t j = 0; j < r; j++)
        for (int64_t i = 0; i < k; i++) y[i] += scale * low[j] * b[j * k + i];
}

static int eval(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                int n_out, void *scratch, size_t bytes) {
    const float *x = in[H].data;
    float       *y = out[0].data;
    double       scale = 1;
    int64_t      token = IMG, rows = rows_of(&in[IDS]), k = in[A].dim[0], r = in[A].dim[1];
    (void)n_in, (void)n_out, (void)bytes;
    if (n->api->attr_float(n, "scale", &scale) < 0) return PINHOLE_OP_EMISMATCH;
    if (n->api->attr_int(n, "token", &token) < 0) return PINHOLE_OP_EMISMATCH;
    for (int64_t i = 0; k && i < rows; i++, x += k, y += k) {
        memcpy(y, x, (size_t)k * sizeof *y);
        if (id_at(&in[IDS], i) == token) adapt(y, x, in[A].data, in[B].data, k, r, (float)scale, scratch);
    }
    return 0;
}

/* A row of r floats. */
static size_t scratch(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                      int n_out) {
    (void)n, (void)n_in, (void)out, (void)n_out;
    return (size_t)in[A].dim[1] * sizeof(float);
}

/* At most: of rows that have another token nothing is multiplied. */
static double cost(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                   int n_out) {
    (void)n, (void)n_in, (void)out, (void)n_out;
    return 2.0 * (double)rows_of(&in[IDS]) * (double)in[A].dim[0] * (double)in[A].dim[1];
}

static const pinhole_op ops[] = {{.domain = "com.acme",
                                  .name = "AdapterDispatch",
                                  .since = 1,
                                  .flags = PINHOLE_OP_PURE | PINHOLE_OP_THREADS,
                                  .in_min = N_IN,
                                  .in_max = N_IN,
                                  .out_min = 1,
                                  .out_max = 1,
                                  .attrs = "scale token",
                                  .infer = infer,
                                  .eval = eval,
                                  .scratch = scratch,
                                  .cost = cost}};

static const pinhole_op_table table = {.abi = PINHOLE_OP_ABI,
                                       .op_size = sizeof(pinhole_op),
                                       .size = sizeof(pinhole_op_table),
                                       .name = "acme",
                                       .version = "1.0",
                                       .ops = ops,
                                       .n_ops = sizeof ops / sizeof *ops};

const pinhole_op_table *pinhole_operators(const pinhole_op_api *api) {
    (void)api;
    return &table;
}
