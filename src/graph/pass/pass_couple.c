/* pass_couple.c - modalities that share the weights of one attention: MultiModalAttention reads them once.
 *
 *     x_m ─ Linear(Wq) ─┐
 *     x_n ─ Linear(Wq) ─┴ Concat(tokens) ─ q ─┐
 *     .. (Wk), (Wv) ..                     k, v ┴ Attention
 *
 * The same weight is one constant, or several of the same bytes, as files have it that say everything twice:
 * then one of them stays.  q, k and v stay values under their names, as outputs of the new node; queries may
 * be of fewer modalities than keys.  The same products and sums in the same order: no bit changes.
 */
#include "graph/couple.h"
#include "graph/modal.h"
#include "graph/pass.h"

#include <string.h>

/* One of q, k, v: the rows that it is made of, by one weight. */
typedef struct side {
    int value, w, b;                                        /* b -1: none */
    int n, x[PH_COUPLE_MAX], linear[PH_COUPLE_MAX], concat; /* nodes; concat -1: one Linear alone */
} side;

static int made_by(const ph_graph *g, int value, const char *op) {
    int at = value < 0 ? -1 : g->value[value].producer;
    return at >= 0 && !ph_pass_is_dropped(&g->node[at]) && !strcmp(g->node[at].op->name, op) ? at : -1;
}

/* Are these constants one, or the same bytes in one plain plane? */
static int same_constant(const ph_graph *g, int a, int b) {
    if (a == b) return 1;
    if (a < 0 || b < 0) return 0;
    const ph_value *v = &g->value[a], *w = &g->value[b];
    const ph_plane *p = &v->storage.plane[0], *r = &w->storage.plane[0];
    return v->cls == PH_VALUE_CONSTANT && w->cls == PH_VALUE_CONSTANT &&
           ph_shape_same(&v->shape, &w->shape) && v->storage.dtype == w->storage.dtype && !v->storage.form &&
           !w->storage.form && p->bytes && r->bytes && p->row_stride == r->row_stride && p->n == r->n &&
           !memcmp(p->bytes, r->bytes, p->n);
}

/* Row j of the side: a Linear of rank 3 with the side's weight, read by nobody else. */
static int take_linear(const ph_graph *g, side *s, int value, const ph_node *attention) {
    int at = made_by(g, value, "Linear");
    if (at < 0 || s->n == PH_COUPLE_MAX || ph_modal_readers(g, value) != 1) return 0;
    const ph_node *n = &g->node[at];
    int            bias = n->n_in > 2 ? n->in[2] : -1;
    if (n->modality != attention->modality && attention->modality != PH_MOD_FUSED) return 0;
    if (s->n && (!same_constant(g, s->w, n->in[1]) || !same_constant(g, s->b, bias))) return 0;
    if (!s->n) s->w = n->in[1], s->b = bias;
    s->x[s->n] = n->in[0];
    s->linear[s->n++] = at;
    return 1;
}

static int read_side(const ph_graph *g, const ph_pass_env *env, int value, const ph_node *attention,
                     side *s) {
    *s = (side){.value = value, .concat = made_by(g, value, "Concat")};
    if (g->value[value].shape.rank != 3) return 0;
    if (s->concat < 0) return take_linear(g, s, value, attention);
    const ph_node *n = &g->node[s->concat];
    int64_t        axis = ph_node_int(n, "axis", 0);
    if ((axis != 1 && axis != -2) || ph_modal_readers(g, value) != 1) return 0;
    for (int i = 0; i < n->n_in; i++)
        if (ph_pass_must_survive(g, env, n->in[i]) || !take_linear(g, s, n->in[i], attention)) return 0;
    return 1;
}

/* Is this an Attention of whole rows, without a mask and what MultiModalAttention has not? */
static int is_plain(const ph_node *n) {
    if (ph_pass_is_dropped(n) || strcmp(n->op->name, "Attention") || n->n_in < 3 || n->n_out != 1) return 0;
    for (int i = 0; i < n->n_in; i++)
        if ((n->in[i] >= 0) != (i < 3)) return 0;
    double cap = ph_node_float(n, "softcap", 0);
    return !ph_node_int(n, "is_causal", 0) && !(cap < 0 || cap > 0);
}

/* Of each modality of kv what it takes; 0: queries are not of some of them, in their order. */
static int slices_of(const side *q, const side *kv, int64_t *slice) {
    int at = 0;
    for (int i = 0; i < kv->n; i++) {
        int has_q = at < q->n && q->x[at] == kv->x[i];
        slice[i] = has_q ? PH_SLICE_BOTH : PH_SLICE_KV;
        at += has_q;
    }
    return at == q->n;
}

static int same_rows(const side *a, const side *b) {
    return a->n == b->n && !memcmp(a->x, b->x, (size_t)a->n * sizeof *a->x);
}

static ph_rc carve(ph_graph *g, void **out, size_t n, size_t item, ph_err *err) {
    return ph_arena_zero(&g->arena, out, n, item, err);
}

/* The node becomes the coupled one, in its place. */
static ph_rc rewrite(ph_graph *g, size_t at, const side s[3], const int64_t *slice, ph_err *err) {
    ph_node *n = &g->node[at];
    void    *in, *out, *attr, *slices;
    int      n_attr = 0;
    PH_TRY(carve(g, &in, PH_COUPLE_X + (size_t)s[1].n, sizeof(int), err));
    PH_TRY(carve(g, &out, 4, sizeof(int), err));
    PH_TRY(carve(g, &attr, 4, sizeof(ph_attr), err));
    PH_TRY(carve(g, &slices, (size_t)s[1].n, sizeof(int64_t), err));
    memcpy(slices, slice, (size_t)s[1].n * sizeof *slice);
    const ph_attr all[4] = {PH_INT("num_heads", ph_node_int(n, "q_num_heads", 0)),
                            PH_INT("kv_num_heads", ph_node_int(n, "kv_num_heads", 0)),
                            PH_INTS("slices", slices, (size_t)s[1].n),
                            PH_FLOAT("scale", ph_node_float(n, "scale", 0))};
    n_attr = ph_node_attr(n, "scale") ? 4 : 3;
    memcpy(attr, all, sizeof all);
    int *ins = in, *outs = out;
    outs[0] = n->out[0];
    for (int j = 0; j < 3; j++) {
        ins[PH_COUPLE_W + j] = s[j].w;
        ins[PH_COUPLE_B + j] = s[j].b;
        outs[1 + j] = s[j].value;
        if (s[j].concat >= 0) ph_pass_drop(g, (size_t)s[j].concat);
        for (int i = 0; i < s[j].n; i++) ph_pass_drop(g, (size_t)s[j].linear[i]);
        g->value[s[j].value].producer = (int)at;
    }
    for (int i = 0; i < s[1].n; i++) ins[PH_COUPLE_X + i] = s[1].x[i];
    n->op = &ph_op_MultiModalAttention;
    n->in = ins, n->n_in = PH_COUPLE_X + s[1].n;
    n->out = outs, n->n_out = 4;
    n->attr = attr, n->n_attr = n_attr;
    n->fusion_policy = PH_FUSION_CONCAT;
    return PH_OK;
}

static int all_fixed(const ph_graph *g, const side s[3]) {
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 2; k++)
            if (!ph_dim_is_fixed(g->value[s[j].w].shape.dim[k])) return 0;
    return 1;
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        side    s[3];
        int64_t slice[PH_COUPLE_MAX];
        int     is_found = is_plain(&g->node[i]);
        for (int j = 0; is_found && j < 3; j++)
            is_found = read_side(g, env, g->node[i].in[j], &g->node[i], &s[j]);
        if (!is_found || s[1].n < 2 || !same_rows(&s[1], &s[2]) || !slices_of(&s[0], &s[1], slice) ||
            !all_fixed(g, s))
            continue;
        PH_TRY(rewrite(g, i, s, slice, err));
        ++*changes;
    }
    return PH_OK;
}

const ph_pass ph_pass_couple = {"couple", "products of modalities that share weights: MultiModalAttention",
                                .run = run, .is_of_meaning = 1};
