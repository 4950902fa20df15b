/* native_build.c - a graph becomes a flat program.
 *
 * Each node is offered to the rows of lowering.def in order; the first that
 * takes it adds steps (and may take neighbours along).  Then lives are read off
 * the steps, in-place candidates whose input dies are merged, and the weights
 * that the program reads are counted in whole pages.
 *
 * The builder's own lists are from the heap and gone when compile returns; what
 * the program keeps stands in its arena.
 */
#include "base/mem.h"
#include "engine/native/native.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 1 << 14 };

static const ph_lowering *const lowerings[] = {
#define PH_LOWERING(name) &ph_lowering_##name,
#include "engine/native/lowering.def"
#undef PH_LOWERING
};

/* ---- what lowerings ask about the graph ---- */

const char *ph_build_op_name(const ph_builder *b, int node) {
    return b->g->node[node].op->name;
}

int ph_build_is(const ph_builder *b, int node, const char *op) {
    return node >= 0 && !strcmp(ph_build_op_name(b, node), op);
}

int ph_build_n_uses(const ph_builder *b, int value) {
    return b->first_use[value + 1] - b->first_use[value];
}

int ph_build_use(const ph_builder *b, int value, int i) {
    return b->use[b->first_use[value] + i];
}

int ph_build_is_alone(const ph_builder *b, int value) {
    return ph_build_n_uses(b, value) == 1 && !b->is_pinned[value];
}

int ph_build_is_ready(const ph_builder *b, int value) {
    return b->g->value[value].cls != PH_VALUE_TEMP || b->p->home[value] >= 0;
}

/* ---- what they add ---- */

ph_rc ph_build_carve(ph_builder *b, void **out, size_t n, size_t item, ph_err *err) {
    return ph_arena_zero(&b->p->arena, out, n, item, err);
}

static ph_home home_of(ph_value_class cls) {
    switch (cls) {
    case PH_VALUE_INPUT:
        return PH_HOME_INPUT;
    case PH_VALUE_CONSTANT:
        return PH_HOME_CONSTANT;
    case PH_VALUE_STATE:
        return PH_HOME_STATE;
    case PH_VALUE_TEMP:
        break;
    }
    return PH_HOME_TEMP;
}

/* room for one more item in a heap list */
static ph_rc grow(void **list, size_t n, size_t *max, size_t item, ph_err *err) {
    if (n < *max) return PH_OK;
    size_t more = *max ? 2 * *max : 64;
    void  *bigger = realloc(*list, more * item);
    if (!bigger) return PH_FAIL(err, PH_ENOMEM, "a program of %zu entries", more);
    *list = bigger;
    *max = more;
    return PH_OK;
}

static ph_rc add_buffer(ph_builder *b, ph_buffer **f, int *out, ph_err *err) {
    void *list = b->buffer;
    PH_TRY(grow(&list, b->p->n_buffers, &b->buffers_max, sizeof *b->buffer, err));
    b->buffer = list;
    *out = (int)b->p->n_buffers;
    *f = &b->buffer[b->p->n_buffers++];
    **f = (ph_buffer){.home = PH_HOME_TEMP, .value = -1, .same = *out, .first = -1, .last = -1};
    return PH_OK;
}

ph_rc ph_build_shared(ph_builder *b, size_t bytes, int *out, ph_err *err) {
    ph_buffer *f;
    PH_TRY(add_buffer(b, &f, out, err));
    f->fixed = bytes;
    return PH_OK;
}

ph_rc ph_build_buffer(ph_builder *b, int value, int *out, ph_err *err) {
    const ph_value *v = &b->g->value[value];
    ph_buffer      *f;
    *out = b->p->home[value];
    if (*out >= 0) return PH_OK;
    PH_TRY(add_buffer(b, &f, out, err));
    b->p->home[value] = *out;
    f->home = home_of(v->cls);
    f->value = value;
    /* The bytes are only read; the cast lets one field serve all homes. */
    if (f->home == PH_HOME_CONSTANT) f->at = (void *)(uintptr_t)v->storage.plane[PH_PLANE_DATA].bytes;
    return PH_OK;
}

ph_rc ph_build_alias(ph_builder *b, int value, int of, ph_err *err) {
    int buffer;
    PH_TRY(ph_build_buffer(b, of, &buffer, err));
    b->p->home[value] = buffer;
    return PH_OK;
}

static ph_rc copy_ids(ph_builder *b, int **out, const int *ids, int n, ph_err *err) {
    void *to;
    PH_TRY(ph_build_carve(b, &to, (size_t)n, sizeof **out, err));
    if (n) memcpy(to, ids, (size_t)n * sizeof *ids);
    *out = to;
    return PH_OK;
}

ph_rc ph_build_step(ph_builder *b, const ph_step_kind *kind, int node, void *data, const int *reads,
                    int n_reads, const int *writes, int n_writes, int over, ph_err *err) {
    void *list = b->step;
    PH_TRY(grow(&list, b->n_steps, &b->steps_max, sizeof *b->step, err));
    b->step = list;
    ph_step s = {
        .kind = kind, .node = node, .n_reads = n_reads, .n_writes = n_writes, .over = over, .data = data};
    PH_TRY(copy_ids(b, &s.reads, reads, n_reads, err));
    PH_TRY(copy_ids(b, &s.writes, writes, n_writes, err));
    b->step[b->n_steps++] = s;
    return PH_OK;
}

static size_t n_last(const ph_value *v) { /* elements of a fixed last dimension, 1 for a scalar */
    return v->shape.rank ? (size_t)v->shape.dim[v->shape.rank - 1].mul : 1;
}

int ph_build_is_floats(const ph_graph *g, int value) {
    const ph_value *v = &g->value[value];
    if (v->cls != PH_VALUE_CONSTANT || v->storage.n_planes != 1 || v->dtype != PH_F32) return 0;
    for (int i = 0; i < v->shape.rank; i++)
        if (!ph_dim_is_fixed(v->shape.dim[i]) || v->shape.dim[i].mul < 1) return 0;
    return ph_dtype_get(v->storage.dtype)->unpack && n_last(v) % ph_dtype_block(v->storage.dtype) == 0;
}

ph_rc ph_build_floats(ph_builder *b, int value, const float **out, ph_err *err) {
    const ph_value *v = &b->g->value[value];
    const ph_plane *plane = &v->storage.plane[PH_PLANE_DATA];
    size_t          cols = n_last(v), rows = 1;
    void           *to;
    for (int i = 0; i + 1 < v->shape.rank; i++)
        if (ph_mul_over(rows, (size_t)v->shape.dim[i].mul, &rows))
            return PH_FAIL(err, PH_ELIMIT, "constant '%s' is too large", v->name);
    int is_packed = rows == 1 || plane->row_stride == cols * sizeof(float);
    if (v->storage.dtype == PH_F32 && is_packed && (uintptr_t)plane->bytes % _Alignof(float) == 0) {
        *out = plane->bytes;
        return PH_OK;
    }
    size_t n;
    if (ph_mul_over(rows, cols, &n)) return PH_FAIL(err, PH_ELIMIT, "constant '%s' is too large", v->name);
    PH_TRY(ph_build_carve(b, &to, n, sizeof(float), err));
    for (size_t r = 0; r < rows; r++) ph_storage_row(&v->storage, r, cols, (float *)to + r * cols);
    *out = to;
    return PH_OK;
}

/* ---- dimensions ---- */

static ph_rc number_dims(ph_native *p, ph_err *err) {
    const ph_graph *g = ph_native_graph(p);
    size_t          n_max = 1;
    for (size_t v = 0; v < g->n_values; v++) n_max += (size_t)g->value[v].shape.rank;
    ph_dim *all = malloc(n_max * sizeof *all);
    if (!all) return PH_FAIL(err, PH_ENOMEM, "%zu dimensions", n_max);
    for (size_t v = 0; v < g->n_values; v++)
        for (int k = 0; k < g->value[v].shape.rank; k++) {
            ph_dim d = g->value[v].shape.dim[k];
            size_t i = 0;
            while (i < p->n_dims && !ph_dim_same(all[i], d)) i++;
            if (i == p->n_dims) all[p->n_dims++] = d;
            p->slot[v * PH_RANK_MAX + (size_t)k] = (int)i;
        }
    void *dim = NULL, *size = NULL;
    ph_rc rc = ph_arena_zero(&p->arena, &dim, p->n_dims, sizeof *p->dim, err);
    if (!rc) rc = ph_arena_zero(&p->arena, &size, p->n_dims, sizeof *p->size, err);
    if (!rc && p->n_dims) memcpy(dim, all, p->n_dims * sizeof *all);
    p->dim = dim;
    p->size = size;
    free(all);
    return rc;
}

/* ---- who reads what ---- */

static ph_rc count_uses(ph_builder *b, ph_err *err) {
    const ph_graph *g = b->g;
    size_t          n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += (size_t)g->node[i].n_in;
    b->first_use = calloc(g->n_values + 2, sizeof *b->first_use);
    b->use = calloc(n + 1, sizeof *b->use);
    b->is_pinned = calloc(g->n_values + 1, 1);
    b->is_done = calloc(g->n_nodes + 1, 1);
    if (!b->first_use || !b->use || !b->is_pinned || !b->is_done)
        return PH_FAIL(err, PH_ENOMEM, "a program of %zu nodes", g->n_nodes);
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] >= 0) b->first_use[g->node[i].in[k] + 2]++;
    for (size_t v = 2; v < g->n_values + 2; v++) b->first_use[v] += b->first_use[v - 1];
    /* While filling, first_use[v + 1] is where the next reader of v goes; at the end it is v's end. */
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] >= 0) b->use[b->first_use[g->node[i].in[k] + 1]++] = (int)i;
    for (size_t v = 0; v < g->n_values; v++) b->is_pinned[v] = g->value[v].is_output != 0;
    return PH_OK;
}

static ph_rc pin_taps(ph_builder *b, ph_err *err) {
    for (size_t i = 0; i < b->how->n_taps; i++) {
        int v = b->how->tap[i].value;
        if (v < 0 || (size_t)v >= b->g->n_values)
            return PH_FAIL(err, PH_EUSAGE, "tap %zu: value %d of %zu", i, v, b->g->n_values);
        const ph_value *value = &b->g->value[v];
        if (value->dtype != PH_F32 || value->cls == PH_VALUE_STATE || value->cls == PH_VALUE_CONSTANT)
            return PH_FAIL(err, PH_EUSAGE, "tap %zu: '%s' is no array of f32 that a run makes", i,
                           value->name);
        b->is_pinned[v] = 1;
    }
    return PH_OK;
}

/* ---- lives ---- */

static ph_buffer *root(const ph_native *p, int i) {
    while (p->buffer[i].same != i) i = p->buffer[i].same;
    return &p->buffer[i];
}

static void live(ph_buffer *f, int step) {
    if (f->first < 0) f->first = step;
    if (f->last < step) f->last = step;
}

static void find_lives(ph_native *p) {
    const ph_graph *g = ph_native_graph(p);
    for (size_t i = 0; i < p->n_steps; i++) {
        const ph_step *s = &p->step[i];
        for (int k = 0; k < s->n_reads; k++) live(&p->buffer[s->reads[k]], (int)i);
        for (int k = 0; k < s->n_writes; k++) live(&p->buffer[s->writes[k]], (int)i);
    }
    for (size_t v = 0; v < g->n_values; v++) /* outputs stand to the end */
        if (g->value[v].is_output && p->home[v] >= 0) live(&p->buffer[p->home[v]], (int)p->n_steps);
}

/* Where a step writes the same number of bytes that one of its inputs has, and nobody reads that input
 * afterwards, both share one place.  The step's kind promises that a unit reads an element before it writes
 * it, and that no other unit reads it. */
static void merge_in_place(ph_native *p) {
    for (size_t i = 0; i < p->n_steps; i++) {
        const ph_step *s = &p->step[i];
        if (s->over < 0 || s->n_writes < 1) continue;
        ph_buffer *from = root(p, s->over), *to = &p->buffer[s->writes[0]];
        if (from->home != PH_HOME_TEMP || to->home != PH_HOME_TEMP || from->last != (int)i ||
            to->first != (int)i || to == from)
            continue;
        to->same = (int)(from - p->buffer);
        from->last = to->last;
    }
}

static ph_rc count_weights(ph_builder *b, ph_err *err) {
    ph_need need = {0};
    PH_TRY(ph_engine_weigh(b->g, &need, err));
    b->p->weights = need.weights;
    b->p->table = need.table;
    b->p->table_row = need.table_row;
    return PH_OK;
}

/* ---- compile ---- */

static ph_rc lower_all(ph_builder *b, ph_err *err) {
    const ph_graph *g = b->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        int took = b->is_done[i];
        for (size_t k = 0; !took && k < sizeof lowerings / sizeof *lowerings; k++) {
            ph_rc rc = lowerings[k]->lower(b, (int)i, &took, err);
            if (rc)
                return ph_note(err, rc, "while lowering node '%s' (%s)", g->node[i].name,
                               g->node[i].op->name);
        }
        b->is_done[i] = 1;
    }
    for (size_t v = 0; v < g->n_values; v++) { /* inputs and outputs that no step touches */
        int buffer;
        if (g->value[v].cls == PH_VALUE_INPUT || g->value[v].is_output)
            PH_TRY(ph_build_buffer(b, (int)v, &buffer, err));
    }
    return PH_OK;
}

static ph_rc keep_lists(ph_builder *b, ph_err *err) {
    ph_native *p = b->p;
    void      *step, *buffer, *life, *order;
    PH_TRY(ph_build_carve(b, &step, b->n_steps, sizeof *p->step, err));
    PH_TRY(ph_build_carve(b, &buffer, p->n_buffers, sizeof *p->buffer, err));
    PH_TRY(ph_build_carve(b, &life, p->n_buffers, sizeof *p->life, err));
    PH_TRY(ph_build_carve(b, &order, p->n_buffers, sizeof *p->order, err));
    if (b->n_steps) memcpy(step, b->step, b->n_steps * sizeof *p->step);
    if (p->n_buffers) memcpy(buffer, b->buffer, p->n_buffers * sizeof *p->buffer);
    p->step = step;
    p->n_steps = b->n_steps;
    p->buffer = buffer;
    p->life = life;
    p->order = order;
    return PH_OK;
}

static ph_rc mark_lent(ph_builder *b, ph_err *err) {
    for (size_t i = 0; i < b->how->n_lent; i++) {
        int v = b->how->lent[i];
        if (v < 0 || (size_t)v >= b->g->n_values || b->g->value[v].cls != PH_VALUE_INPUT)
            return PH_FAIL(err, PH_EUSAGE, "value %d is to be lent, and is no input", v);
        b->p->buffer[b->p->home[v]].is_lent = 1;
    }
    return PH_OK;
}

/* A tap is called after the last step that writes its value. */
static ph_rc keep_taps(ph_builder *b, ph_err *err) {
    ph_native *p = b->p;
    void      *tap, *step;
    PH_TRY(ph_build_carve(b, &tap, b->how->n_taps, sizeof *p->tap, err));
    PH_TRY(ph_build_carve(b, &step, b->how->n_taps, sizeof *p->tap_step, err));
    p->tap = tap;
    p->tap_step = step;
    p->n_taps = b->how->n_taps;
    for (size_t t = 0; t < p->n_taps; t++) {
        int buffer = p->home[b->how->tap[t].value];
        p->tap[t] = b->how->tap[t];
        p->tap_step[t] = -1;
        if (buffer < 0)
            return PH_FAIL(err, PH_EUSAGE, "tap %zu: nothing computes value %d", t, p->tap[t].value);
        for (size_t i = 0; i < p->n_steps; i++)
            for (int k = 0; k < p->step[i].n_writes; k++)
                if (p->step[i].writes[k] == buffer) p->tap_step[t] = (int)i;
    }
    return PH_OK;
}

static ph_rc open_hands(ph_native *p, ph_err *err) {
    void *hand;
    p->n_hands = ph_threads_count(p->base.engine->env.threads);
    PH_TRY(ph_arena_zero(&p->arena, &hand, (size_t)p->n_hands, sizeof *p->hand, err));
    p->hand = hand;
    return PH_OK;
}

static ph_rc build(ph_builder *b, ph_err *err) {
    ph_native *p = b->p;
    void      *home, *slot;
    PH_TRY(ph_build_carve(b, &home, b->g->n_values, sizeof *p->home, err));
    PH_TRY(ph_build_carve(b, &slot, b->g->n_values * PH_RANK_MAX, sizeof *p->slot, err));
    p->home = home;
    p->slot = slot;
    for (size_t v = 0; v < b->g->n_values; v++) p->home[v] = -1;
    PH_TRY(open_hands(p, err)); /* lowerings ask how many there are */
    PH_TRY(number_dims(p, err));
    PH_TRY(count_uses(b, err));
    PH_TRY(pin_taps(b, err));
    PH_TRY(lower_all(b, err));
    PH_TRY(keep_lists(b, err));
    PH_TRY(mark_lent(b, err));
    find_lives(p);
    PH_TRY(keep_taps(b, err));
    merge_in_place(p);
    return count_weights(b, err);
}

ph_rc ph_native_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out,
                        ph_err *err) {
    *out = NULL;
    ph_native *p = calloc(1, sizeof *p);
    if (!p) return PH_FAIL(err, PH_ENOMEM, "a program");
    p->base = (ph_program){.engine = e, .graph = g, .max = how->max};
    ph_builder b = {.p = p, .g = g, .how = how};
    ph_rc      rc = ph_arena_open_growing(&p->arena, ARENA_CHUNK, err);
    if (!rc) rc = build(&b, err);
    if (!rc) { /* the largest sizes must at least be countable */
        ph_need need;
        size_t  scratch;
        rc = ph_native_need(&p->base, &how->max, &need, &scratch, err);
    }
    free(b.first_use);
    free(b.use);
    free(b.is_pinned);
    free(b.is_done);
    free(b.step);
    free(b.buffer);
    if (rc) {
        ph_native_close(&p->base);
        return ph_note(err, rc, "while compiling graph '%s' for engine native", g->name);
    }
    *out = &p->base;
    return PH_OK;
}

void ph_native_close(ph_program *program) {
    if (!program) return;
    ph_native *p = (ph_native *)program;
    ph_arena_close(&p->arena);
    free(p);
}
