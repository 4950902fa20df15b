/* low_map.c - elementwise steps: activations, and Add and Mul of equal or repeating shapes.
 *
 * Activations behind a Linear never come here (low_linear.c fuses them).  The
 * second operand of Add and Mul may be a whole array or one that repeats over
 * the leading dimensions (a position table over tiles, a scale).  Other ways of
 * broadcasting, and whole numbers, run the operator's own eval.
 */
#include "engine/native/native.h"

#include <string.h>

typedef enum map_op { MAP_UNARY, MAP_ADD, MAP_MUL } map_op;

typedef struct map {
    map_op       op;
    ph_map_fn   *f;
    int          x, y, other; /* buffers; other: -1 when it is a constant */
    const float *constant;
    int          value, other_value; /* whose shapes give the counts */
    size_t       n, period;          /* of this run */
} map;

/* Is |v - want| nothing?  Attributes are parsed from text and rounded to float. */
static int is_about(double v, double want) {
    double d = v - want;
    return (d < 0 ? -d : d) < 1e-7;
}

ph_map_fn *ph_map_of(const ph_graph *g, int node, const ph_kernels *k) {
    const ph_node *n = &g->node[node];
    const char    *op = n->op->name;
    if (n->n_in < 1 || n->in[0] < 0 || g->value[n->in[0]].dtype != PH_F32) return NULL;
    if (!strcmp(op, "Gelu"))
        return strcmp(ph_node_text(n, "approximate", "none"), "tanh") ? k->gelu : k->gelu_tanh;
    if (!strcmp(op, "Relu")) return k->relu;
    if (!strcmp(op, "Sigmoid")) return k->sigmoid;
    if (!strcmp(op, "Tanh")) return k->tanh;
    if (strcmp(op, "Swish")) return NULL;
    double alpha = ph_node_float(n, "alpha", 1.0);
    if (is_about(alpha, 1.0)) return k->silu;
    return is_about(alpha, (double)1.702f) || is_about(alpha, 1.702) ? k->gelu_quick : NULL;
}

/* other repeats over x: its shape without leading ones is the tail of x's. */
static int repeats(const ph_shape *x, const ph_shape *other) {
    int skip = 0;
    while (skip < other->rank && ph_dim_same(other->dim[skip], ph_dim_of(1))) skip++;
    int tail = other->rank - skip;
    if (other->rank > x->rank) return 0;
    for (int i = 0; i < tail; i++)
        if (!ph_dim_same(other->dim[skip + i], x->dim[x->rank - tail + i])) return 0;
    return 1;
}

/* Which input is the whole array: 0 or 1; -1: not for us. */
static int whole_of(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if ((strcmp(n->op->name, "Add") && strcmp(n->op->name, "Mul")) || n->in[0] < 0 || n->in[1] < 0) return -1;
    for (int i = 0; i < 2; i++) {
        int x = n->in[i], other = n->in[1 - i];
        if (ph_native_is_array(g, x) && g->value[x].dtype == PH_F32 &&
            repeats(&g->value[x].shape, &g->value[other].shape) &&
            (ph_native_is_array(g, other) || ph_build_is_floats(g, other)))
            return i;
    }
    return -1;
}

static int can(const ph_graph *g, int node) {
    static const char *const unary[] = {"Gelu", "Relu", "Sigmoid", "Tanh", "Swish"};
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (!strcmp(g->node[node].op->name, unary[i])) return 1;
    return whole_of(g, node) >= 0;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    map *m = s->data;
    (void)err;
    m->n = ph_native_items(p, p->size, m->value);
    m->period = m->op == MAP_UNARY ? m->n : ph_native_items(p, p->size, m->other_value);
    s->units = (m->n + PH_UNIT_ITEMS - 1) / PH_UNIT_ITEMS;
    return PH_OK;
}

/* Elements [at, at + n), cut where the second operand begins again. */
static void binary(const ph_kernels *k, const map *m, float *y, const float *x, const float *other, size_t at,
                   size_t n) {
    if (m->period == 1 && m->op == MAP_MUL) {
        k->scale(&y[at], &x[at], other[0], n);
        return;
    }
    for (size_t end = at + n; at < end;) {
        size_t from = at % m->period, some = m->period - from < end - at ? m->period - from : end - at;
        (m->op == MAP_ADD ? k->add : k->mul)(&y[at], &x[at], &other[from], some);
        at += some;
    }
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const map   *m = s->data;
    size_t       at = begin * PH_UNIT_ITEMS, stop = end * PH_UNIT_ITEMS < m->n ? end * PH_UNIT_ITEMS : m->n;
    float       *y = ph_native_at(p, m->y);
    const float *x = ph_native_at(p, m->x);
    (void)hand;
    if (m->op == MAP_UNARY)
        m->f(&y[at], &x[at], stop - at);
    else
        binary(ph_native_kernels(p), m, y, x, m->other < 0 ? m->constant : ph_native_at(p, m->other), at,
               stop - at);
}

static const ph_step_kind kind = {.name = "map", .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    map            m = {.f = ph_map_of(b->g, node, ph_native_kernels(b->p)), .other = -1};
    int            whole = m.f ? 0 : whole_of(b->g, node), reads[2], n_reads = 1;
    if (whole < 0 || !ph_native_is_array(b->g, n->in[whole])) return PH_OK;
    m.value = n->in[whole];
    PH_TRY(ph_build_buffer(b, m.value, &m.x, err));
    reads[0] = m.x;
    if (!m.f) {
        m.op = ph_build_is(b, node, "Add") ? MAP_ADD : MAP_MUL;
        m.other_value = n->in[1 - whole];
        if (ph_native_is_array(b->g, m.other_value)) {
            PH_TRY(ph_build_buffer(b, m.other_value, &m.other, err));
            reads[n_reads++] = m.other;
        } else {
            PH_TRY(ph_build_floats(b, m.other_value, &m.constant, err));
        }
    }
    PH_TRY(ph_build_buffer(b, n->out[0], &m.y, err));
    PH_TRY(ph_build_carve(b, &place, 1, sizeof m, err));
    memcpy(place, &m, sizeof m);
    *took = 1;
    /* The whole operand's place may take the result, unless the other one repeats the same bytes. */
    int over = n_reads == 2 && m.other == m.x ? -1 : m.x;
    return ph_build_step(b, &kind, node, place, reads, n_reads, &m.y, 1, over, err);
}

const ph_lowering ph_lowering_map = {.name = "map", .lower = lower, .can = can};
