/* low_rope.c - rotary positions: the angles of a step, and rotation where nothing fuses it.
 *
 * Frequencies depend on the node alone and are worked out when the program is
 * compiled.  A rotation that only a CachedAttention reads is left to it
 * (low_cached.c rotates while it appends).
 */
#include "engine/native/native.h"

#include "graph/rope.h"

#include <string.h>

/* ---- RopeAngles ---- */

typedef struct angles {
    int     rows, cos, sin; /* buffers */
    int     value;          /* the cosines': [R, dim/2] */
    ph_rope rope;
    float  *inv_freq, factor;
    size_t  n, per_unit; /* of this run */
} angles;

enum { ANGLES_A_UNIT = 4096 };

static ph_rc prepare_angles(ph_native *p, ph_step *s, ph_err *err) {
    angles *a = s->data;
    (void)err;
    a->n = (size_t)ph_native_dim(p, p->size, a->value, 0);
    a->per_unit = (ANGLES_A_UNIT + (size_t)a->rope.dim) / ((size_t)a->rope.dim + 1);
    s->units = (a->n + a->per_unit - 1) / a->per_unit;
    return PH_OK;
}

static void work_angles(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const angles  *a = s->data;
    const int32_t *rows = ph_native_at(p, a->rows);
    float         *c = ph_native_at(p, a->cos), *sn = ph_native_at(p, a->sin);
    size_t         half = (size_t)a->rope.dim / 2, last = end * a->per_unit < a->n ? end * a->per_unit : a->n;
    (void)hand;
    for (size_t r = begin * a->per_unit; r < last; r++)
        ph_rope_row(&a->rope, a->inv_freq, a->factor, &rows[r * PH_ROW_FIELDS], &c[r * half], &sn[r * half]);
}

static const ph_step_kind angles_kind = {.name = "angles", .prepare = prepare_angles, .work = work_angles};

static ph_rc lower_angles(ph_builder *b, int node, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(angles), err));
    angles *a = place;
    PH_TRY(ph_rope_of_node(&a->rope, n, err));
    PH_TRY(ph_build_carve(b, &place, (size_t)a->rope.dim / 2, sizeof(float), err));
    a->inv_freq = place;
    a->factor = ph_rope_frequencies(&a->rope, a->inv_freq);
    a->value = n->out[0];
    PH_TRY(ph_build_buffer(b, n->in[0], &a->rows, err));
    PH_TRY(ph_build_buffer(b, n->out[0], &a->cos, err));
    PH_TRY(ph_build_buffer(b, n->out[1], &a->sin, err));
    int writes[2] = {a->cos, a->sin};
    return ph_build_step(b, &angles_kind, node, a, &a->rows, 1, writes, 2, -1, err);
}

/* ---- RotaryEmbedding ---- */

typedef struct rotate {
    int     x, y, cos, sin, value;
    ph_spin spin;
    size_t  n, width, per_unit; /* of this run */
} rotate;

/* A row is the last dimension: heads side by side; cos and sin have a row for each. */
int ph_spin_can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "RotaryEmbedding") || (n->n_in > 3 && n->in[3] >= 0)) return 0;
    const ph_value *x = &g->value[n->in[0]];
    for (int i = 0; i < 3; i++)
        if (g->value[n->in[i]].cls != PH_VALUE_TEMP && g->value[n->in[i]].cls != PH_VALUE_INPUT) return 0;
    return x->shape.rank == 2 || x->shape.rank == 3;
}

ph_spin ph_spin_of(const ph_graph *g, int node) {
    const ph_node  *n = &g->node[node];
    const ph_shape *x = &g->value[n->in[0]].shape, *c = &g->value[n->in[1]].shape;
    ph_spin         s = {.heads = (size_t)ph_node_int(n, "num_heads", 1),
                         .half = (size_t)c->dim[c->rank - 1].mul,
                         .is_pairs = ph_node_int(n, "interleaved", 0) != 0};
    s.d = (size_t)x->dim[x->rank - 1].mul / s.heads;
    return s;
}

static ph_rc prepare_rotate(ph_native *p, ph_step *s, ph_err *err) {
    rotate *r = s->data;
    (void)err;
    r->width = r->spin.heads * r->spin.d;
    r->n = r->width ? ph_native_items(p, p->size, r->value) / r->width : 0;
    r->per_unit = (PH_UNIT_ITEMS + r->width) / (r->width + 1);
    s->units = (r->n + r->per_unit - 1) / r->per_unit;
    return PH_OK;
}

static void work_rotate(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const rotate *r = s->data;
    const float  *x = ph_native_at(p, r->x), *c = ph_native_at(p, r->cos), *sn = ph_native_at(p, r->sin);
    float        *y = ph_native_at(p, r->y);
    size_t        last = end * r->per_unit < r->n ? end * r->per_unit : r->n;
    (void)hand;
    for (size_t i = begin * r->per_unit; i < last; i++) {
        if (x != y) memcpy(&y[i * r->width], &x[i * r->width], r->width * sizeof *y);
        ph_native_kernels(p)->rope(&y[i * r->width], &c[i * r->spin.half], &sn[i * r->spin.half],
                                   r->spin.heads, r->spin.d, r->spin.half, r->spin.is_pairs);
    }
}

static const ph_step_kind rotate_kind = {.name = "rotate", .prepare = prepare_rotate, .work = work_rotate};

static ph_rc lower_rotate(ph_builder *b, int node, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (ph_cached_takes(b, node)) return PH_OK;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(rotate), err));
    rotate *r = place;
    r->spin = ph_spin_of(b->g, node);
    r->value = n->in[0];
    PH_TRY(ph_build_buffer(b, n->in[0], &r->x, err));
    PH_TRY(ph_build_buffer(b, n->in[1], &r->cos, err));
    PH_TRY(ph_build_buffer(b, n->in[2], &r->sin, err));
    PH_TRY(ph_build_buffer(b, n->out[0], &r->y, err));
    int reads[3] = {r->x, r->cos, r->sin};
    return ph_build_step(b, &rotate_kind, node, r, reads, 3, &r->y, 1, r->x, err);
}

static int is_angles(const ph_graph *g, int node) {
    return !strcmp(g->node[node].op->name, "RopeAngles") &&
           g->value[g->node[node].in[0]].cls != PH_VALUE_CONSTANT;
}

static int can(const ph_graph *g, int node) {
    return is_angles(g, node) || ph_spin_can(g, node);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    return is_angles(b->g, node) ? lower_angles(b, node, err) : lower_rotate(b, node, err);
}

const ph_lowering ph_lowering_rope = {.name = "rope", .lower = lower, .can = can};
