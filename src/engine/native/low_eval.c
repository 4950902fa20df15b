/* low_eval.c - any operator, by its own definition: the slow path.
 *
 * One serial step calls op->eval on arrays that lie in the program's buffers.
 * Its scratch is the workers' memory taken as one piece, so a run allocates
 * nothing here either.  What an eval may want is bounded by what it can be given:
 * every stored constant widened, its inputs and outputs once more, a kernel's
 * scratch, and what the operator itself asks for.
 */
#include "base/mem.h"
#include "engine/native/native.h"
#include "graph/user.h"

#include <string.h>

typedef struct slow {
    ph_array *in, *out;  /* [n_in], [n_out] */
    int      *in_buffer; /* -1: left out, or a constant */
    int      *out_buffer;
} slow;

enum { SPARE_BYTES = 1 << 14, ASKING_INPUTS_MAX = PINHOLE_OP_IO_MAX };

static ph_rc add_bytes(const ph_native *p, const int64_t *size, int value, size_t times, size_t *sum,
                       ph_err *err) {
    size_t bytes;
    PH_TRY(ph_native_bytes(p, size, value, &bytes, err));
    bytes = ph_round_up(bytes, PH_ALIGN) + PH_ALIGN;
    if (ph_mul_over(bytes, times, &bytes) || ph_add_over(*sum, bytes, sum))
        return PH_FAIL(err, PH_ELIMIT, "scratch for value '%s'", ph_native_graph(p)->value[value].name);
    return PH_OK;
}

static size_t last_dim(const ph_native *p, const int64_t *size, int value) {
    int rank = ph_native_graph(p)->value[value].shape.rank;
    return rank ? (size_t)ph_native_dim(p, size, value, rank - 1) : 1;
}

/* The shape of a value at these sizes, without data. */
static ph_array shape_of(const ph_native *p, const int64_t *size, int value) {
    const ph_value *v = &ph_native_graph(p)->value[value];
    ph_array        a = {.dtype = v->dtype, .rank = v->shape.rank};
    for (int k = 0; k < a.rank; k++) a.dim[k] = ph_native_dim(p, size, value, k);
    return a;
}

/* What the operator itself asks for. */
static ph_rc own_scratch(const ph_native *p, const ph_node *n, const int64_t *size, size_t *sum,
                         ph_err *err) {
    ph_array in[ASKING_INPUTS_MAX], out[ASKING_INPUTS_MAX];
    size_t   bytes;
    if (!n->op->scratch) return PH_OK;
    if (n->n_in > ASKING_INPUTS_MAX || n->n_out > ASKING_INPUTS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "node %s has %d inputs", n->name, n->n_in);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] < 0 ? (ph_array){0} : shape_of(p, size, n->in[i]);
    for (int i = 0; i < n->n_out; i++) out[i] = n->out[i] < 0 ? (ph_array){0} : shape_of(p, size, n->out[i]);
    int64_t floats = n->op->scratch(ph_native_graph(p), n, in, out);
    if (floats < 0 || ph_mul_over((size_t)floats, sizeof(float), &bytes) || ph_add_over(*sum, bytes, sum))
        return PH_FAIL(err, PH_ELIMIT, "scratch of node %s", n->name);
    return PH_OK;
}

/* An input that eval may want again in scratch: of a plug-in's operator a constant alone, to widen it. */
static int may_copy(const ph_native *p, const ph_node *n, int value) {
    ph_value_class cls = ph_native_graph(p)->value[value].cls;
    return n->op->user ? cls == PH_VALUE_CONSTANT : cls != PH_VALUE_STATE;
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const ph_node *n = &ph_native_graph(p)->node[s->node];
    size_t         floats = 0;
    *out = SPARE_BYTES;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && may_copy(p, n, n->in[i])) PH_TRY(add_bytes(p, size, n->in[i], 2, out, err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0 && !n->op->user) PH_TRY(add_bytes(p, size, n->out[i], 1, out, err));
    PH_TRY(own_scratch(p, n, size, out, err));
    if (n->n_in > 0 && n->in[0] >= 0) floats = PH_LINEAR_SCRATCH(last_dim(p, size, n->in[0]));
    if (ph_add_over(*out, floats * sizeof(float), out))
        return PH_FAIL(err, PH_ELIMIT, "scratch of %zu numbers", floats);
    return PH_OK;
}

static void fill(ph_native *p, ph_array *a, int value, int buffer) {
    if (buffer >= 0) a->data = ph_native_at(p, buffer);
    for (int k = 0; k < a->rank; k++) a->dim[k] = ph_native_dim(p, p->size, value, k);
}

static ph_rc alone(ph_native *p, const ph_step *s, void *memory, size_t bytes, ph_err *err) {
    const ph_node *n = &ph_native_graph(p)->node[s->node];
    slow          *e = s->data;
    ph_arena       arena = {.base = memory, .size = bytes};
    ph_eval        how = {.kernels = ph_native_kernels(p), .scratch = &arena};
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        fill(p, &e->in[i], n->in[i], e->in_buffer[i]);
        if (ph_native_graph(p)->value[n->in[i]].cls == PH_VALUE_STATE)
            e->in[i].kv = ph_native_kv(p, n->in[i]);
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) fill(p, &e->out[i], n->out[i], e->out_buffer[i]);
    return n->op->eval(ph_native_graph(p), n, e->in, e->out, &how, err);
}

static const ph_step_kind kind = {.name = "eval", .scratch = scratch, .alone = alone};

/* The step of a plug-in's operator is called as that is, in traces. */
static ph_rc kind_of(ph_builder *b, const ph_node *n, const ph_step_kind **out, ph_err *err) {
    void *place;
    *out = &kind;
    if (!n->op->user) return PH_OK;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof kind, err));
    ph_step_kind *own = place;
    *own = kind;
    own->name = n->op->name;
    *out = own;
    return PH_OK;
}

/* Arrays for value ids[n], all but the run's pointers and dimensions. */
static ph_rc describe(ph_builder *b, const int *ids, int n, ph_array **arrays, int **buffers, ph_err *err) {
    void *place;
    PH_TRY(ph_build_carve(b, &place, (size_t)n, sizeof **arrays, err));
    *arrays = place;
    PH_TRY(ph_build_carve(b, &place, (size_t)n, sizeof **buffers, err));
    *buffers = place;
    for (int i = 0; i < n; i++) {
        (*buffers)[i] = -1;
        if (ids[i] < 0) continue;
        const ph_value *v = &b->g->value[ids[i]];
        (*arrays)[i] = (ph_array){.dtype = v->dtype, .rank = v->shape.rank};
        if (v->cls == PH_VALUE_CONSTANT)
            (*arrays)[i].storage = &v->storage;
        else
            PH_TRY(ph_build_buffer(b, ids[i], &(*buffers)[i], err));
    }
    return PH_OK;
}

static int keep_real(int *ids, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0) ids[kept++] = ids[i];
    return kept;
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node      *n = &b->g->node[node];
    const ph_step_kind *how;
    void               *place, *ids;
    if (!n->op->eval) return PH_FAIL(err, PH_EUNSUP, "operator %s cannot be run here", n->op->name);
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(slow), err));
    slow *e = place;
    PH_TRY(describe(b, n->in, n->n_in, &e->in, &e->in_buffer, err));
    PH_TRY(describe(b, n->out, n->n_out, &e->out, &e->out_buffer, err));
    /* The step's lists hold real buffers only. */
    PH_TRY(ph_build_carve(b, &ids, (size_t)(n->n_in + n->n_out), sizeof(int), err));
    int *reads = ids, *writes = reads + n->n_in;
    if (n->n_in) memcpy(reads, e->in_buffer, (size_t)n->n_in * sizeof *reads);
    if (n->n_out) memcpy(writes, e->out_buffer, (size_t)n->n_out * sizeof *writes);
    *took = 1;
    PH_TRY(kind_of(b, n, &how, err));
    return ph_build_step(b, how, node, e, reads, keep_real(reads, n->n_in), writes,
                         keep_real(writes, n->n_out), -1, err);
}

static int can(const ph_graph *g, int node) {
    return g->node[node].op->eval != NULL;
}

const ph_lowering ph_lowering_eval = {.name = "eval", .lower = lower, .can = can};
