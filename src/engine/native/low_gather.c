/* low_gather.c - rows by index: Gather along axis 0, and ScatterND of whole rows.
 *
 * Indices come from the caller as data, so prepare checks every one before a row
 * is touched.  A stored table, with scales beside it or without, is widened row by
 * row; nothing else of it is read.
 * ScatterND writes over its input where it can; otherwise that is copied first.
 * It runs as one unit, in order, so that of two updates of a row the later wins.
 */
#include "engine/native/native.h"

#include <inttypes.h>
#include <string.h>

typedef struct rows {
    int               from, index, to; /* buffers; from: table or updates (-1: a stored table) */
    const ph_storage *stored;
    int               from_value, index_value, to_value;
    ph_dtype          index_type;
    size_t            n, table, row_items, row_bytes; /* of this run */
    size_t            per_unit;
} rows;

static int64_t index_at(const ph_native *p, const rows *r, size_t i) {
    const unsigned char *at = ph_native_at(p, r->index);
    int64_t              wide;
    int32_t              narrow;
    if (r->index_type == PH_I64) {
        memcpy(&wide, at + i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at + i * sizeof narrow, sizeof narrow);
    return narrow;
}

static size_t row_at(const ph_native *p, const rows *r, size_t i) {
    int64_t at = index_at(p, r, i);
    return (size_t)(at < 0 ? at + (int64_t)r->table : at);
}

static ph_rc check_indices(const ph_native *p, const rows *r, ph_err *err) {
    for (size_t i = 0; i < r->n; i++) {
        int64_t at = index_at(p, r, i);
        if (at < -(int64_t)r->table || at >= (int64_t)r->table)
            return PH_FAIL(err, PH_EMISMATCH, "index %" PRId64 " at place %zu: there are %zu rows", at, i,
                           r->table);
    }
    return PH_OK;
}

static int is_index(const ph_graph *g, int value) {
    ph_dtype t = g->value[value].dtype;
    return (t == PH_I32 || t == PH_I64) && g->value[value].storage.n_planes <= 1;
}

/* ---- Gather ---- */

static int is_sized(const ph_shape *s) {
    for (int i = 0; i < s->rank; i++)
        if (!ph_dim_is_fixed(s->dim[i]) || s->dim[i].mul < 1) return 0;
    return 1;
}

static int can_gather(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "Gather") || n->in[0] < 0 || n->in[1] < 0 || !is_index(g, n->in[1])) return 0;
    const ph_value *t = &g->value[n->in[0]];
    int64_t         axis = ph_node_int(n, "axis", 0);
    if (t->shape.rank < 1 || (axis && axis != -t->shape.rank)) return 0;
    if (t->cls != PH_VALUE_CONSTANT) return t->cls != PH_VALUE_STATE;
    int is_planes = t->storage.form && t->storage.plane[PH_PLANE_DATA].bytes && is_sized(&t->shape);
    return t->shape.rank == 2 && t->dtype == PH_F32 && (is_planes || ph_build_is_floats(g, n->in[0]));
}

static ph_rc prepare_gather(ph_native *p, ph_step *s, ph_err *err) {
    rows           *r = s->data;
    const ph_value *from = &ph_native_graph(p)->value[r->from_value];
    r->n = ph_native_items(p, p->size, r->index_value);
    r->table = (size_t)ph_native_dim(p, p->size, r->from_value, 0);
    r->row_items = ph_native_count(p, p->size, r->from_value, 1, from->shape.rank);
    r->row_bytes = r->row_items * ph_dtype_bytes(from->dtype);
    r->per_unit = r->row_items < PH_UNIT_ITEMS ? PH_UNIT_ITEMS / (r->row_items ? r->row_items : 1) : 1;
    s->units = r->row_bytes ? (r->n + r->per_unit - 1) / r->per_unit : 0;
    return check_indices(p, r, err);
}

static void gather(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const rows    *r = s->data;
    unsigned char *to = ph_native_at(p, r->to);
    (void)hand;
    size_t last = end * r->per_unit < r->n ? end * r->per_unit : r->n;
    for (size_t i = begin * r->per_unit; i < last; i++) {
        void *row = to + i * r->row_bytes;
        if (r->stored)
            ph_storage_row(r->stored, row_at(p, r, i), r->row_items, row);
        else
            memcpy(row, (const unsigned char *)ph_native_at(p, r->from) + row_at(p, r, i) * r->row_bytes,
                   r->row_bytes);
    }
}

static const ph_step_kind gather_kind = {.name = "gather", .prepare = prepare_gather, .work = gather};

static ph_rc lower_gather(ph_builder *b, int node, ph_err *err) {
    const ph_node  *n = &b->g->node[node];
    const ph_value *table = &b->g->value[n->in[0]];
    void           *place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(rows), err));
    rows *r = place;
    *r = (rows){.from = -1, .from_value = n->in[0], .index_value = n->in[1], .to_value = n->out[0]};
    r->index_type = b->g->value[n->in[1]].dtype;
    PH_TRY(ph_build_buffer(b, n->in[1], &r->index, err));
    int reads[2] = {r->index}, n_reads = 1;
    if (table->cls == PH_VALUE_CONSTANT) {
        r->stored = &table->storage;
    } else {
        PH_TRY(ph_build_buffer(b, n->in[0], &r->from, err));
        reads[n_reads++] = r->from;
    }
    PH_TRY(ph_build_buffer(b, n->out[0], &r->to, err));
    return ph_build_step(b, &gather_kind, node, r, reads, n_reads, &r->to, 1, -1, err);
}

/* ---- ScatterND ---- */

static int can_scatter(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "ScatterND") || strcmp(ph_node_text(n, "reduction", "none"), "none")) return 0;
    for (int i = 0; i < 3; i++)
        if (n->in[i] < 0 || g->value[n->in[i]].cls == PH_VALUE_STATE) return 0;
    const ph_shape *index = &g->value[n->in[1]].shape;
    return is_index(g, n->in[1]) && index->rank >= 1 &&
           ph_dim_same(index->dim[index->rank - 1], ph_dim_of(1)) &&
           g->value[n->in[0]].cls != PH_VALUE_CONSTANT && g->value[n->in[2]].cls != PH_VALUE_CONSTANT;
}

static ph_rc prepare_scatter(ph_native *p, ph_step *s, ph_err *err) {
    rows           *r = s->data;
    const ph_value *to = &ph_native_graph(p)->value[r->to_value];
    r->n = ph_native_items(p, p->size, r->index_value);
    r->table = (size_t)ph_native_dim(p, p->size, r->to_value, 0);
    r->row_items = ph_native_count(p, p->size, r->to_value, 1, to->shape.rank);
    r->row_bytes = r->row_items * ph_dtype_bytes(to->dtype);
    s->units = r->n && r->row_bytes;
    return check_indices(p, r, err);
}

static void scatter(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const rows          *r = s->data;
    unsigned char       *to = ph_native_at(p, r->to);
    const unsigned char *from = ph_native_at(p, r->from);
    (void)begin, (void)end, (void)hand;
    for (size_t i = 0; i < r->n; i++)
        memcpy(to + row_at(p, r, i) * r->row_bytes, from + i * r->row_bytes, r->row_bytes);
}

static const ph_step_kind scatter_kind = {.name = "scatter", .prepare = prepare_scatter, .work = scatter};

/* All of the first input to the output; nothing when they share a place. */
typedef struct whole {
    int    from, to, value;
    size_t bytes; /* of this run */
} whole;

enum { COPY_BYTES = 4 * PH_UNIT_ITEMS };

static ph_rc prepare_copy(ph_native *p, ph_step *s, ph_err *err) {
    whole *w = s->data;
    PH_TRY(ph_native_bytes(p, p->size, w->value, &w->bytes, err));
    s->units =
        ph_native_at(p, w->from) == ph_native_at(p, w->to) ? 0 : (w->bytes + COPY_BYTES - 1) / COPY_BYTES;
    return PH_OK;
}

static void copy(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const whole *w = s->data;
    size_t       at = begin * COPY_BYTES, stop = end * COPY_BYTES < w->bytes ? end * COPY_BYTES : w->bytes;
    (void)hand;
    memcpy((unsigned char *)ph_native_at(p, w->to) + at, (const unsigned char *)ph_native_at(p, w->from) + at,
           stop - at);
}

static const ph_step_kind copy_kind = {.name = "copy", .prepare = prepare_copy, .work = copy};

static ph_rc lower_scatter(ph_builder *b, int node, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(whole), err));
    whole *w = place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(rows), err));
    rows *r = place;
    *r = (rows){.from_value = n->in[2], .index_value = n->in[1], .to_value = n->out[0]};
    r->index_type = b->g->value[n->in[1]].dtype;
    w->value = n->in[0];
    PH_TRY(ph_build_buffer(b, n->in[0], &w->from, err));
    PH_TRY(ph_build_buffer(b, n->in[1], &r->index, err));
    PH_TRY(ph_build_buffer(b, n->in[2], &r->from, err));
    PH_TRY(ph_build_buffer(b, n->out[0], &r->to, err));
    w->to = r->to;
    PH_TRY(ph_build_step(b, &copy_kind, node, w, &w->from, 1, &w->to, 1, w->from, err));
    int reads[3] = {r->index, r->from, r->to};
    return ph_build_step(b, &scatter_kind, node, r, reads, 3, &r->to, 1, -1, err);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    if (can_gather(b->g, node)) {
        *took = 1;
        return lower_gather(b, node, err);
    }
    if (!can_scatter(b->g, node)) return PH_OK;
    *took = 1;
    return lower_scatter(b, node, err);
}

static int can(const ph_graph *g, int node) {
    return can_gather(g, node) || can_scatter(g, node);
}

const ph_lowering ph_lowering_gather = {.name = "gather", .lower = lower, .can = can};
