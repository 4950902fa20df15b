/* onnx_attend.c - attention spelled out: softmax(scale q k^T, masked) v, in operators of opset 17.
 *
 * What is hidden gets a score that softmax makes zero; where something may be hidden the probabilities are
 * masked once more, so that a query that sees nothing gives zero, as our kernels have it, and not the mean.
 */
#include "graph/onnx/onnx_emit.h"

/* [B, heads, ..] from [B, kv_heads, ..]: each key head once for every query head of its group. */
static const char *spread(ph_oo *o, const ph_oo_attend *a, const char *x, const int64_t to[4]) {
    const int64_t times[5] = {1, 1, a->heads / a->kv_heads, 1, 1};
    if (a->heads == a->kv_heads) return x;
    x = ph_oo_two(o, "Expand", ph_oo_unsqueeze(o, x, 2), ph_oo_ints(o, times, 5));
    return ph_oo_reshape(o, x, to, 4);
}

const char *ph_oo_attention(ph_oo *o, const ph_oo_attend *a) {
    const int64_t keys[4] = {0, a->heads, a->d, -1}, values[4] = {0, a->heads, -1, a->dv};
    const char   *kt = spread(o, a, a->kt, keys), *v = spread(o, a, a->v, values);
    const char   *s = ph_oo_two(o, "MatMul", ph_oo_two(o, "Mul", a->q, ph_oo_number(o, a->scale)), kt);
    if (a->softcap > 0) {
        s = ph_oo_one(o, "Tanh", ph_oo_two(o, "Div", s, ph_oo_number(o, a->softcap)));
        s = ph_oo_two(o, "Mul", s, ph_oo_number(o, a->softcap));
    }
    if (a->bias) s = ph_oo_two(o, "Add", s, a->bias);
    if (a->seen) s = ph_oo_make(o, "Where", PH_OO_IN(a->seen, s, ph_oo_number(o, -3e38)), PH_OO_NO_ATTRS);
    s = ph_oo_make(o, "Softmax", PH_OO_IN(s), PH_OO_ATTRS(PH_OO_INT("axis", -1)));
    if (a->seen) s = ph_oo_make(o, "Where", PH_OO_IN(a->seen, s, ph_oo_number(o, 0)), PH_OO_NO_ATTRS);
    return ph_oo_two(o, "MatMul", s, v);
}

const char *ph_oo_places(ph_oo *o, const char *size) {
    static const int64_t none[1] = {0};
    const char          *known = ph_oo_kept(o, "places %s", size);
    if (known) return known;
    /* Range takes single numbers. */
    const char *end = ph_oo_two(o, "Squeeze", size, ph_oo_ints(o, none, 1));
    const char *row = ph_oo_make(o, "Range", PH_OO_IN(ph_oo_int(o, 0), end, ph_oo_int(o, 1)), PH_OO_NO_ATTRS);
    return ph_oo_keep(o, row, "places %s", size);
}

void ph_oo_attend_node(ph_oo *o, const ph_node *n, const ph_oo_attend *a, const int64_t *flat, int rank) {
    static const int64_t back[4] = {0, 2, 1, 3};
    const char          *y = ph_oo_transpose(o, ph_oo_attention(o, a), back, 4);
    ph_oo_emit(o, n, "", "Reshape", PH_OO_IN(y, ph_oo_ints(o, flat, (size_t)rank)), PH_OO_NO_ATTRS);
}
