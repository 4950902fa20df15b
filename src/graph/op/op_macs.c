/* op_macs.c - what operators' counts of multiply-adds share.  See macs in op.h. */
#include "graph/op/op_help.h"

ph_rc ph_value_count(const ph_value *v, const ph_syms *syms, double *out, ph_err *err) {
    int64_t n;
    PH_TRY(ph_shape_count(&v->shape, syms, &n, err));
    *out = (double)n;
    return PH_OK;
}

ph_rc ph_value_size(const ph_value *v, int i, const ph_syms *syms, double *out, ph_err *err) {
    int64_t n;
    int     at = i < 0 ? v->shape.rank + i : i;
    if (at < 0 || at >= v->shape.rank) return PH_FAIL(err, PH_EBUG, "%s has no dimension %d", v->name, i);
    PH_TRY(ph_dim_eval(v->shape.dim[at], syms, &n, err));
    *out = (double)n;
    return PH_OK;
}

double ph_keys_seen(double n, double before, double window) {
    double all = n * before + n * (n + 1) / 2;
    if (window <= 0 || window >= before + n) return all;
    double whole = window > before ? window - before : 0; /* rows that see everything */
    return whole * before + whole * (whole + 1) / 2 + (n - whole) * window;
}

ph_rc ph_macs_of_product(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how,
                         double *out, ph_err *err) {
    double y, k;
    (void)how;
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &y, err));
    PH_TRY(ph_value_size(ph_in(g, n, 0), -1, syms, &k, err));
    *out = y * k;
    return PH_OK;
}

ph_rc ph_macs_of_filters(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how,
                         double *out, ph_err *err) {
    double y, w, filters;
    (void)how;
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &y, err));
    PH_TRY(ph_value_count(ph_in(g, n, 1), syms, &w, err));
    PH_TRY(ph_value_size(ph_in(g, n, 1), 0, syms, &filters, err));
    *out = filters > 0 ? y * (w / filters) : 0;
    return PH_OK;
}

ph_rc ph_macs_of_recurrence(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how,
                            double *out, ph_err *err) {
    double x, width, w, r;
    (void)how;
    PH_TRY(ph_value_count(ph_in(g, n, 0), syms, &x, err));
    PH_TRY(ph_value_size(ph_in(g, n, 0), -1, syms, &width, err));
    PH_TRY(ph_value_count(ph_in(g, n, 1), syms, &w, err));
    PH_TRY(ph_value_count(ph_in(g, n, 2), syms, &r, err));
    *out = width > 0 ? x / width * (w + r) : 0;
    return PH_OK;
}
