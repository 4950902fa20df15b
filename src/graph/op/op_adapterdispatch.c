/* op_adapterdispatch.c - pinhole.AdapterDispatch: a low-rank adapter for the tokens that it is meant for.
 *
 *     base [R, N]   x [R, K]   ids i32/i64 [R]   then of each adapter A [r, K] and B [N, r]
 *     y[i] = base[i] + scale_m (x[i] A_m^T) B_m^T   where ids[i] is of adapter m; else base[i]
 *
 * LoRA beside a product that stands already (base = x W^T), for some rows: those of pictures have the adapter
 * of pictures, by the id that marks them.  Rows without an adapter cost a copy.
 *
 * Attributes: first, last: tokens of each adapter, both included (one adapter: 32000, [IMG]; last: as first);
 * scale: of each (1).  A token has at most one adapter: ranges may not overlap.
 * Errors: PH_EMISMATCH shapes, pairs, ranges, scales.
 */
#include "graph/adapters.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_adapters a;
    for (int i = 0; i < 2; i++) PH_TRY(ph_want(g, n, i, PH_F32, 2, err));
    PH_TRY(ph_want_index(g, n, PH_ADAPTER_IDS, err));
    const ph_shape *base = &ph_in(g, n, 0)->shape, *x = &ph_in(g, n, 1)->shape, *ids = &ph_in(g, n, 2)->shape;
    if (!ph_dim_same(base->dim[0], x->dim[0]))
        return ph_disagree(g, base, x, "AdapterDispatch wants as many rows of base and x", err);
    if (ids->rank != 1 || !ph_dim_same(ids->dim[0], x->dim[0]))
        return ph_disagree(g, ids, x, "AdapterDispatch wants the token of each row", err);
    PH_TRY(ph_adapters_of(g, n, &a, err));
    ph_infer_set(&out[0], PH_F32, base);
    return PH_OK;
}

static ph_adapter_side side_of(const ph_array *m) {
    return (ph_adapter_side){
        .data = m->data, .storage = m->storage, .rows = (size_t)m->dim[0], .cols = (size_t)m->dim[1]};
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *base, *x;
    float       *memory, *y = out->data;
    ph_array     ids;
    ph_adapters  a;
    size_t       width = (size_t)out->dim[1], k = (size_t)in[1].dim[1];
    PH_TRY(ph_adapters_of(g, n, &a, err));
    PH_TRY(ph_floats(&base, &in[0], e, err));
    PH_TRY(ph_floats(&x, &in[1], e, err));
    PH_TRY(ph_dense(&ids, &in[2], e, err));
    for (int i = PH_ADAPTER_A; i < n->n_in; i++)
        if (!in[i].data && (!in[i].storage || !in[i].storage->plane[PH_PLANE_DATA].bytes))
            return PH_FAIL(err, PH_EUNSUP, "AdapterDispatch: matrix %d has no bytes", i);
    PH_TRY(ph_scratch(&memory, (int64_t)ph_adapter_floats(1, k, (size_t)a.rank_max, width), e, err));
    for (int64_t r = 0; r < out->dim[0]; r++) {
        int m = ph_adapter_for(&a, ph_int_at(&ids, r));
        if (width) memcpy(y + (size_t)r * width, base + (size_t)r * width, width * sizeof *y);
        if (m < 0 || !width || !k) continue;
        ph_adapter_side down = side_of(&in[PH_ADAPTER_A + 2 * m]),
                        up = side_of(&in[PH_ADAPTER_A + 2 * m + 1]);
        ph_adapter_add(e->kernels, &down, &up, a.scale[m], y + (size_t)r * width, base + (size_t)r * width,
                       x + (size_t)r * k, 1, memory);
    }
    return PH_OK;
}

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    int64_t rank = 1;
    (void)g;
    for (int i = PH_ADAPTER_A; i < n->n_in; i += 2)
        if (in[i].dim[0] > rank) rank = in[i].dim[0];
    return (int64_t)ph_adapter_floats(1, (size_t)in[1].dim[1], (size_t)rank, (size_t)out->dim[1]);
}

/* Every adapter for every row, then a choice. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    ph_adapters a;
    ph_err      err = {0};
    if (ph_adapters_of(o->g, n, &a, &err)) {
        ph_oo_none(o, n, err.msg);
        return;
    }
    const char *ids = ph_oo_unsqueeze(o, ph_oo_cast(o, ph_oo_in(o, n, PH_ADAPTER_IDS), PH_OO_INT64), 1);
    const char *x = ph_oo_in(o, n, PH_ADAPTER_X), *y = ph_oo_in(o, n, PH_ADAPTER_BASE);
    for (int m = 0; m < a.n; m++) {
        const char *more = ph_oo_two(o, "MatMul", x, ph_oo_turned(o, n, PH_ADAPTER_A + 2 * m));
        more = ph_oo_two(o, "MatMul", more, ph_oo_turned(o, n, PH_ADAPTER_A + 2 * m + 1));
        more = ph_oo_two(o, "Add", y, ph_oo_two(o, "Mul", more, ph_oo_number(o, (double)a.scale[m])));
        const char *is = ph_oo_two(o, "And", ph_oo_two(o, "GreaterOrEqual", ids, ph_oo_int(o, a.first[m])),
                                   ph_oo_two(o, "LessOrEqual", ids, ph_oo_int(o, a.last[m])));
        y = ph_oo_make(o, "Where", PH_OO_IN(is, more, y), PH_OO_NO_ATTRS);
    }
    ph_oo_is(o, n, 0, y);
}

/* Every row by the largest of the adapters: which rows have one stands in ids. */
static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    ph_adapters a;
    double      x, y;
    (void)how;
    PH_TRY(ph_adapters_of(g, n, &a, err));
    PH_TRY(ph_value_count(ph_in(g, n, PH_ADAPTER_X), syms, &x, err));
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &y, err));
    *out = (x + y) * (double)a.rank_max;
    return PH_OK;
}

const ph_op ph_op_AdapterDispatch = {
    .name = "AdapterDispatch",
    .domain = "pinhole",
    .since = 1,
    .in_min = 5,
    .in_max = PH_ADAPTER_A + 2 * PH_ADAPTERS_MAX,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .scratch = scratch,
    .onnx = write_onnx,
    .is_product = 1,
    .macs = macs,
    .goes_by_data = 1,
    .source = "arXiv:2106.09685 (LoRA); by modality: arXiv:2503.01743 §2 (mixture of LoRAs); this file",
};
