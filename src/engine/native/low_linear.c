/* low_linear.c - products with stored weights, and what is fused around them.
 *
 *     x --(norm)--> h --+--> W0 (+ b) (act) ------------------> y0
 *                       +--> W1 (+ b) (act) --> * <-- W2 h      y1     gate and up
 *                       +--> W3 (+ b) (* s) --> + <-- r         y3     residual; s: a gate, one of a row
 *                       +--> W4 (+ b) - norm -> + <-- r         y4     norm of the result
 *
 * One step computes a group of Linears that read the same rows.  A unit is a
 * block of rows times a block of columns of one part; the norm is done again by
 * each worker, into its own memory, for the block of rows that it is at.
 *
 * A norm of the result wants whole rows: whoever does the last block of columns of some rows normalises
 * them.  So it costs no barrier, and each row is still one worker's work.
 *
 * Weights of block types, and bytes with a scale a row, are met by integers where the instruction set has
 * such products and nobody asked for exact ones: a worker turns its block of rows into 16 bits, or 8, once,
 * beside or instead of the floats.
 *
 * Rows are all dimensions of x but the last.  A row's bits do not depend on the
 * blocks: kernels promise that for the product, and the rest is elementwise.
 */
#include "engine/native/native.h"

#include <stdatomic.h>
#include <string.h>

enum {
    GROUP_MAX = 8,
    SCALES_MAX = 2,
    SOURCES_MAX = 16, /* arrays that a step's rows come from */
    GROUP_REACH =
        24, /* nodes from the first Linear to the last of a group: later ones would only hold memory */
    ROWS_MAX = 128,    /* rows of a unit: enough to pay for unpacking a row of weights */
    ROWS_FLOATS = 200, /* as many of short ones, met by floats: the weights become floats once a block */
    FLOATS_NEAR = 160 << 10, /* floats of a block's rows that stay in the second-level cache beside weights */
    COLS_MIN = 8,
    COLS16_MIN = 16, /* the same by integers: what goes together there */
    MANY_ROWS = 16,  /* from here on a unit's columns share its rows */
    TEMP_COLS = 128, /* of a unit with all its rows */
    SOON = 4,        /* rows before their turn, from which on they are called for */
    WIDE_ROWS = 32,  /* as many columns more as a unit has fewer rows than these */
};

typedef struct part {
    ph_linear         linear;
    ph_dot_fn        *dot; /* the product by integers; NULL: by floats */
    const void       *w;
    size_t            w_stride, cols;
    const ph_storage *stored;                /* separate planes: read row by row; else NULL */
    const float      *col_scale;             /* [cols] of bytes that are met by integers; else NULL */
    const float      *bias;                  /* or NULL */
    ph_map_fn        *act;                   /* or NULL */
    int               up;                    /* part whose product is multiplied in, or -1 */
    int               is_up;                 /* belongs to another part: it has no units of its own */
    float             scale[SCALES_MAX];     /* [n_scales] the result is multiplied with, in order */
    int               row_scale[SCALES_MAX]; /* or, where not -1, the buffer [rows, 1] of each row's own */
    int               n_scales;
    int               residual; /* buffer, or -1 */
    int               out;      /* buffer; -1 for an up part */
    ph_norm           post;     /* of what stands in out, before the residual; of kind NONE: none */
    int               final;    /* buffer of its sum with the residual */
    atomic_uint      *left;     /* [row blocks] column blocks not done yet */
    size_t            blocks;   /* of this run: column blocks before this part's own */
} part;

/* Rows from an array of their own: of each batch its rows follow those of the array before. */
typedef struct source {
    int    x, value; /* buffer, value [B, rows, k] */
    size_t rows;     /* of this run */
} source;

typedef struct fused {
    int     x, x_value; /* buffer of the rows, before the norm; a value with their shape */
    int     n_sources;  /* 0: all rows stand in x */
    source *source;
    size_t  turn; /* rows of a batch, of this run */
    ph_norm norm;
    size_t  k;
    int     n_parts, n_dots; /* of the parts, those by integers */
    int     planes;          /* of the rows as integers */
    size_t  block; /* elements under one scale there, the same for all parts; 0: no part is by integers */
    part   *part;
    size_t  rows, row_block, col_block, col_blocks; /* of this run */
} fused;

/* ---- may it be done here? ---- */

int ph_linear_is_weight(const ph_graph *g, int v) {
    const ph_value *w = &g->value[v];
    return w->cls == PH_VALUE_CONSTANT && w->shape.rank == 2 &&
           (w->storage.n_planes == 1 || w->storage.form) && ph_dim_is_fixed(w->shape.dim[0]) &&
           ph_dim_is_fixed(w->shape.dim[1]) && w->shape.dim[1].mul > 0 &&
           ph_dtype_get(w->storage.dtype)->unpack;
}

int ph_linear_can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "Linear") || n->n_in < 2 || n->in[0] < 0 || n->in[1] < 0) return 0;
    const ph_value *x = &g->value[n->in[0]];
    if (x->dtype != PH_F32 || x->shape.rank < 1 || !ph_linear_is_weight(g, n->in[1])) return 0;
    if (x->cls == PH_VALUE_CONSTANT) return 0; /* folding is a pass's business */
    return n->n_in < 3 || n->in[2] < 0 || ph_build_is_floats(g, n->in[2]);
}

/* ---- the chain behind a product ---- */

static int only_use(const ph_builder *b, int value) {
    return ph_build_is_alone(b, value) ? ph_build_use(b, value, 0) : -1;
}

/* value, and the activation that alone reads it: *value moves behind it. */
static void take_act(ph_builder *b, part *t, int *value) {
    int next = only_use(b, *value);
    if (next < 0 || b->is_done[next] || !ph_build_fuses(b, PH_FUSE_act)) return;
    ph_map_fn *act = ph_map_of(b->g, next, ph_native_kernels(b->p));
    if (!act) return;
    t->act = act;
    *value = b->g->node[next].out[0];
    b->is_done[next] = 1;
}

/* The other side of the node `op` that alone reads `value`; -1: none, or it is not there yet. */
static int other_side(const ph_builder *b, int value, const char *op) {
    int next = only_use(b, value);
    if (next < 0 || b->is_done[next] || !ph_build_is(b, next, op)) return -1;
    const ph_node *n = &b->g->node[next];
    int            other = n->in[n->in[0] == value];
    return other >= 0 && other != value && ph_build_is_ready(b, other) ? other : -1;
}

/* *value moves behind the node that alone reads it. */
static void pass(ph_builder *b, int *value) {
    int next = only_use(b, *value);
    *value = b->g->node[next].out[0];
    b->is_done[next] = 1;
}

/* What an Add puts on top of `value`, an array of the same shape; -1: nothing. */
static int residual_of(const ph_builder *b, int value) {
    int other = other_side(b, value, "Add");
    return other >= 0 && b->g->value[other].cls != PH_VALUE_CONSTANT &&
                   ph_shape_same(&b->g->value[other].shape, &b->g->value[value].shape)
               ? other
               : -1;
}

static ph_rc take_residual(ph_builder *b, part *t, int *value, ph_err *err) {
    int other = ph_build_fuses(b, PH_FUSE_residual) ? residual_of(b, *value) : -1;
    if (other < 0) return PH_OK;
    PH_TRY(ph_build_buffer(b, other, &t->residual, err));
    pass(b, value);
    return PH_OK;
}

/* A row's own number: [.., 1] beside [.., n]. */
static int is_column(const ph_shape *s, const ph_shape *of) {
    if (s->rank != of->rank || !ph_dim_same(s->dim[s->rank - 1], ph_dim_of(1))) return 0;
    for (int i = 0; i + 1 < s->rank; i++)
        if (!ph_dim_same(s->dim[i], of->dim[i])) return 0;
    return 1;
}

/* Gates before the sum with the residual: a Mul with one number, or with one a row. */
static ph_rc take_scales(ph_builder *b, part *t, int *value, ph_err *err) {
    while (t->n_scales < SCALES_MAX && ph_build_fuses(b, PH_FUSE_scale)) {
        int other = other_side(b, *value, "Mul"), i = t->n_scales;
        if (other < 0) return PH_OK;
        const ph_value *v = &b->g->value[other];
        const float    *one;
        if (v->shape.rank == 1 && ph_build_is_floats(b->g, other) &&
            ph_dim_same(v->shape.dim[0], ph_dim_of(1))) {
            PH_TRY(ph_build_floats(b, other, &one, err));
            t->scale[i] = *one;
            t->row_scale[i] = -1;
        } else if (v->cls != PH_VALUE_CONSTANT && v->dtype == PH_F32 &&
                   is_column(&v->shape, &b->g->value[*value].shape)) {
            PH_TRY(ph_build_buffer(b, other, &t->row_scale[i], err));
        } else {
            return PH_OK;
        }
        t->n_scales++;
        pass(b, value);
    }
    return PH_OK;
}

static size_t rows_of(const ph_native *p, const fused *f, const int64_t *size) {
    int    rank = ph_native_graph(p)->value[f->x_value].shape.rank;
    size_t rows = f->n_sources ? 0 : ph_native_count(p, size, f->x_value, 0, rank - 1);
    for (int i = 0; i < f->n_sources; i++) rows += ph_native_count(p, size, f->source[i].value, 0, 2);
    return rows;
}

/* A norm of whole rows of the result, and the sum behind it.  *value moves behind both; *before is the norm's
 * input. */
static ph_rc take_post(ph_builder *b, const fused *f, part *t, int *value, int *before, ph_err *err) {
    int   norm = only_use(b, *value), other;
    void *left;
    if (norm < 0 || b->is_done[norm] || !ph_norm_can(b->g, norm) || !ph_build_fuses(b, PH_FUSE_post))
        return PH_OK;
    if ((other = residual_of(b, b->g->node[norm].out[0])) < 0) return PH_OK;
    PH_TRY(ph_norm_of(b, norm, &t->post, err));
    PH_TRY(ph_build_buffer(b, other, &t->residual, err));
    /* No run has more rows, and a block of them is all or at least two. */
    PH_TRY(ph_native_sizes(b->p, &b->p->base.max, b->p->size, err));
    PH_TRY(ph_build_carve(b, &left, rows_of(b->p, f, b->p->size) / 2 + 1, sizeof *t->left, err));
    t->left = left;
    *before = *value;
    pass(b, value);
    pass(b, value);
    return PH_OK;
}

static ph_rc take_rest(ph_builder *b, const fused *f, part *t, int *value, int *before, ph_err *err) {
    PH_TRY(take_scales(b, t, value, err));
    PH_TRY(take_post(b, f, t, value, before, err));
    /* A block of gate and up stands where the result goes: no place is left for a residual in that place. */
    return t->post.kind || t->up >= 0 ? PH_OK : take_residual(b, t, value, err);
}

/* Parts whose values meet in one Mul become gate and up. */
static void pair_up(ph_builder *b, fused *f, int *value) {
    if (!ph_build_fuses(b, PH_FUSE_gate)) return;
    for (int i = 0; i < f->n_parts; i++)
        for (int j = 0; j < f->n_parts; j++) {
            int next = only_use(b, value[i]);
            if (i == j || f->part[i].is_up || f->part[j].is_up || f->part[i].up >= 0 || f->part[j].up >= 0 ||
                f->part[j].act || next < 0 || b->is_done[next] || next != only_use(b, value[j]) ||
                !ph_build_is(b, next, "Mul") || f->part[i].cols != f->part[j].cols)
                continue;
            f->part[i].up = j;
            f->part[j].is_up = 1;
            value[i] = b->g->node[next].out[0];
            b->is_done[next] = 1;
        }
}

/* The product by integers for a weight; NULL: there is none, or none is wanted. */
static ph_dot_fn *dot_of(const ph_builder *b, const ph_storage *w, size_t k) {
    return b->p->base.engine->env.is_exact ? NULL : ph_dot_of_stored(ph_native_kernels(b->p), w, k);
}

/* Elements under one scale that rows have for this weight; 0: it meets floats. */
static size_t block_for(const ph_builder *b, const ph_storage *w, size_t k) {
    return dot_of(b, w, k) ? ph_dot_block(w->dtype, k) : 0;
}

/* Bytes that are met by integers: their scales as floats, and where this view of them begins. */
static ph_rc take_bytes(ph_builder *b, part *t, const ph_storage *s, ph_err *err) {
    void *place;
    PH_TRY(ph_build_carve(b, &place, t->cols, sizeof(float), err));
    float *to = place;
    for (size_t c = 0; c < t->cols; c++) to[c] = ph_plane_float(&s->plane[PH_PLANE_SCALE], s->first + c);
    t->col_scale = to;
    t->w = (const unsigned char *)t->w + s->first * t->w_stride;
    t->stored = NULL;
    return PH_OK;
}

/* A product with all rows of w, or those of a view of it: `w` stays. */
static ph_rc take_weight(ph_builder *b, part *t, const ph_storage *w, size_t cols, size_t k, ph_err *err) {
    size_t bytes = ph_dtype_bytes(w->dtype);
    *t = (part){.linear = ph_linear_of(ph_native_kernels(b->p), w->dtype),
                .w = w->plane[PH_PLANE_DATA].bytes,
                .w_stride = w->plane[PH_PLANE_DATA].row_stride,
                .cols = cols,
                .stored = w->form ? w : NULL,
                .up = -1,
                .residual = -1,
                .out = -1,
                .final = -1};
    /* Files may place plain numbers at odd bytes: then only the generic product may read them. */
    if (ph_dtype_block(w->dtype) == 1 && ((uintptr_t)t->w % bytes || t->w_stride % bytes))
        t->linear.fn = NULL;
    t->dot = dot_of(b, w, k);
    return t->dot && t->stored ? take_bytes(b, t, w, err) : PH_OK;
}

static ph_rc take_part(ph_builder *b, part *t, int node, ph_err *err) {
    const ph_node  *n = &b->g->node[node];
    const ph_value *w = &b->g->value[n->in[1]];
    PH_TRY(take_weight(b, t, &w->storage, (size_t)w->shape.dim[0].mul, (size_t)w->shape.dim[1].mul, err));
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_build_floats(b, n->in[2], &t->bias, err));
    b->is_done[node] = 1;
    return PH_OK;
}

/* All Linears that read `rows`, from `node` on, not too far away; of those by integers, such as want the same
 * ones. */
static ph_rc take_group(ph_builder *b, fused *f, int node, int rows, int *value, ph_err *err) {
    for (int i = 0; i < ph_build_n_uses(b, rows) && f->n_parts < GROUP_MAX; i++) {
        int next = ph_build_use(b, rows, i);
        if (next < node || next > node + (ph_build_fuses(b, PH_FUSE_group) ? GROUP_REACH : 0) ||
            b->is_done[next] || !ph_linear_can(b->g, next) || b->g->node[next].in[0] != rows)
            continue;
        const ph_value *w = &b->g->value[b->g->node[next].in[1]];
        size_t          block = block_for(b, &w->storage, (size_t)w->shape.dim[1].mul);
        if (block && f->block && block != f->block) continue;
        if (block) f->block = block;
        value[f->n_parts] = b->g->node[next].out[0];
        PH_TRY(take_part(b, &f->part[f->n_parts++], next, err));
    }
    return PH_OK;
}

static const ph_step_kind kind;

/* Buffers of results are made last: until then they are not there for anybody of the group to read.
 * before: what a norm of the result reads. */
static ph_rc add_step(ph_builder *b, fused *f, int node, const int *value, const int *before, ph_err *err) {
    int reads[SOURCES_MAX + 1 + GROUP_MAX * (1 + SCALES_MAX)], writes[2 * GROUP_MAX], n_reads = 0,
                                                                                      n_writes = 0;
    b->has_dots |= f->n_dots > 0;
    if (!f->n_sources) reads[n_reads++] = f->x;
    for (int i = 0; i < f->n_sources; i++) reads[n_reads++] = f->source[i].x;
    for (int i = 0; i < f->n_parts; i++) {
        part *t = &f->part[i];
        if (t->residual >= 0) reads[n_reads++] = t->residual;
        for (int k = 0; k < t->n_scales; k++)
            if (t->row_scale[k] >= 0) reads[n_reads++] = t->row_scale[k];
        if (t->is_up) continue;
        PH_TRY(ph_build_buffer(b, t->post.kind ? before[i] : value[i], &t->out, err));
        writes[n_writes++] = t->out;
        if (!t->post.kind) continue;
        PH_TRY(ph_build_buffer(b, value[i], &t->final, err));
        writes[n_writes++] = t->final;
    }
    int over = n_writes == 1 && f->part[0].residual != f->x ? f->part[0].residual : -1;
    return ph_build_step(b, &kind, node, f, reads, n_reads, writes, n_writes, over, err);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    void *place;
    int   value[GROUP_MAX], before[GROUP_MAX] = {0}, rows = b->g->node[node].in[0];
    if (!ph_linear_can(b->g, node)) return PH_OK;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(fused), err));
    fused *f = place;
    PH_TRY(ph_build_carve(b, &place, GROUP_MAX, sizeof(part), err));
    f->part = place;
    f->x_value = rows;
    f->planes = b->p->base.engine->env.is_rows8 ? 1 : 2;
    f->k = (size_t)b->g->value[b->g->node[node].in[1]].shape.dim[1].mul;
    if (b->g->value[rows].cls == PH_VALUE_TEMP && b->p->home[rows] < 0) { /* a norm that was left to us */
        int norm = b->g->value[rows].producer;
        PH_TRY(ph_norm_of(b, norm, &f->norm, err));
        f->x_value = b->g->node[norm].in[0];
    }
    PH_TRY(ph_build_buffer(b, f->x_value, &f->x, err));
    PH_TRY(take_group(b, f, node, rows, value, err));
    for (int i = 0; i < f->n_parts; i++) {
        f->n_dots += f->part[i].dot != NULL;
        take_act(b, &f->part[i], &value[i]);
    }
    pair_up(b, f, value);
    for (int i = 0; i < f->n_parts; i++)
        if (!f->part[i].is_up) PH_TRY(take_rest(b, f, &f->part[i], &value[i], &before[i], err));
    *took = 1;
    return add_step(b, f, node, value, before, err);
}

static ph_rc take_sources(ph_builder *b, fused *f, const int *x, int n_x, ph_err *err) {
    void *place;
    if (n_x > SOURCES_MAX) return PH_FAIL(err, PH_ELIMIT, "rows of %d arrays", n_x);
    PH_TRY(ph_build_carve(b, &place, (size_t)n_x, sizeof(source), err));
    f->source = place;
    f->n_sources = n_x;
    for (int i = 0; i < n_x; i++) {
        f->source[i].value = x[i];
        PH_TRY(ph_build_buffer(b, x[i], &f->source[i].x, err));
    }
    f->x = f->source[0].x;
    f->x_value = x[0];
    return PH_OK;
}

/* Rows [first, first + rows) of w as a storage of its own. */
static ph_rc view_of(ph_builder *b, const ph_storage *w, size_t first, const ph_storage **out, ph_err *err) {
    void *place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(ph_storage), err));
    ph_storage *s = place;
    *s = *w;
    if (s->form)
        s->first += first;
    else
        s->plane[PH_PLANE_DATA].bytes =
            (const unsigned char *)s->plane[PH_PLANE_DATA].bytes + first * s->plane[PH_PLANE_DATA].row_stride;
    *out = s;
    return PH_OK;
}

ph_rc ph_linear_gathered(ph_builder *b, int node, const int *x, int n_x, const ph_slice *slice, int n_slices,
                         ph_err *err) {
    void *place;
    int   value[GROUP_MAX], before[GROUP_MAX] = {0};
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(fused), err));
    fused *f = place;
    PH_TRY(ph_build_carve(b, &place, GROUP_MAX, sizeof(part), err));
    f->part = place;
    f->planes = b->p->base.engine->env.is_rows8 ? 1 : 2;
    f->k = (size_t)b->g->value[slice[0].w].shape.dim[1].mul;
    PH_TRY(take_sources(b, f, x, n_x, err));
    for (f->n_parts = 0; f->n_parts < n_slices; f->n_parts++) {
        const ph_slice   *s = &slice[f->n_parts];
        part             *t = &f->part[f->n_parts];
        const ph_storage *w;
        PH_TRY(view_of(b, &b->g->value[s->w].storage, s->first, &w, err));
        PH_TRY(take_weight(b, t, w, s->rows, f->k, err));
        if (t->dot) f->block = ph_dot_block(w->dtype, f->k);
        f->n_dots += t->dot != NULL;
        if (s->bias >= 0) {
            PH_TRY(ph_build_floats(b, s->bias, &t->bias, err));
            t->bias += s->first;
        }
        value[f->n_parts] = s->out;
    }
    return add_step(b, f, node, value, before, err);
}

/* ---- sizes ---- */

static size_t at_most(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Fewer rows never make a larger block: memory is planned for the most. */
static size_t row_block_of(const fused *f, size_t rows) {
    size_t block = ROWS_MAX;
    if (!f->n_dots && f->k * ROWS_MAX < FLOATS_NEAR)
        block = at_most(FLOATS_NEAR / (f->k ? f->k : 1), ROWS_FLOATS);
    while (block > 4 && block * COLS_MIN * f->k > 8 * PH_UNIT_MACS) block /= 2;
    block = at_most(block, rows);
    return block ? block : 1;
}

/* Floats of one block of results; of few rows it is wide. */
static size_t temp_floats(const fused *f, size_t rows) {
    size_t block = f->n_dots ? ROWS_MAX : row_block_of(f, rows);
    return TEMP_COLS * (block > WIDE_ROWS ? block : WIDE_ROWS);
}

/* A worker's memory: normalised or gathered rows | the rows as integers | the kernel's scratch | one block of
 * results. */
static size_t normed_bytes(const fused *f, size_t rows) {
    /* With integers alone a row is normalised, turned and forgotten. */
    size_t kept = f->n_dots == f->n_parts && !f->n_sources ? 1 : row_block_of(f, rows);
    return f->norm.kind == PH_NORM_NONE && !f->n_sources ? 0 : (kept * f->k * sizeof(float) + 63) / 64 * 64;
}

static size_t qrows_bytes(const fused *f, size_t rows) {
    return f->n_dots ? ph_qrows_bytes(row_block_of(f, rows), f->k, f->planes, f->block) : 0;
}

static size_t kernel_bytes(const fused *f) {
    size_t floats = f->n_dots < f->n_parts ? PH_LINEAR_SCRATCH(f->k) * sizeof(float) : 0;
    size_t dots = f->n_dots ? PH_DOT_SCRATCH(f->k) : 0;
    return ((floats > dots ? floats : dots) + 63) / 64 * 64;
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const fused *f = s->data;
    size_t       rows = rows_of(p, f, size);
    (void)err;
    *out =
        normed_bytes(f, rows) + qrows_bytes(f, rows) + kernel_bytes(f) + temp_floats(f, rows) * sizeof(float);
    return PH_OK;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    fused *f = s->data;
    size_t cols = 0, hands = (size_t)p->n_hands;
    (void)err;
    f->rows = rows_of(p, f, p->size);
    f->turn = 0;
    for (int i = 0; i < f->n_sources; i++)
        f->turn += f->source[i].rows = (size_t)ph_native_dim(p, p->size, f->source[i].value, 1);
    /* A last block of a few rows would read all weights for little. */
    f->row_block = ph_native_share(f->rows, row_block_of(f, f->rows));
    for (int i = 0; i < f->n_parts; i++) cols += f->part[i].cols;
    size_t row_blocks = (f->rows + f->row_block - 1) / f->row_block;
    size_t grain = f->n_dots ? COLS16_MIN : COLS_MIN;
    size_t few = f->n_dots ? 4 : 1, many = f->n_dots ? 48 : 16;
    size_t macs = (f->row_block < MANY_ROWS ? few : many) * (size_t)PH_UNIT_MACS;
    size_t block = macs / (f->row_block * f->k);
    /* Enough units that nobody waits long for the last one, unless the whole is hardly worth a barrier. */
    if (hands > 1 && f->rows * cols * f->k > PH_UNIT_MACS / 32)
        block = at_most(block, cols * row_blocks / (4 * hands));
    block = at_most(block, temp_floats(f, f->rows) / f->row_block) / grain * grain;
    f->col_block = block ? block : grain;
    f->col_blocks = 0;
    for (int i = 0; i < f->n_parts; i++) {
        part  *t = &f->part[i];
        size_t own = (t->cols + f->col_block - 1) / f->col_block;
        t->blocks = f->col_blocks;
        if (!t->is_up) f->col_blocks += own;
        for (size_t r = 0; t->post.kind && r < row_blocks; r++) atomic_init(&t->left[r], (unsigned)own);
    }
    s->units = row_blocks * f->col_blocks;
    return PH_OK;
}

/* ---- work ---- */

/* A worker's memory, taken apart, and the rows that it is at. */
typedef struct desk {
    float       *normed;
    ph_qrows     q;
    void        *kernel; /* scratch of the products */
    float       *temp;   /* [temp_floats] */
    const float *x;      /* the rows as floats, normalised; only for parts by floats */
} desk;

static desk desk_of(const fused *f, ph_hand *hand) {
    unsigned char *at = hand->memory;
    desk           d = {.normed = (float *)(void *)at};
    at += normed_bytes(f, f->rows);
    if (f->n_dots) d.q = ph_qrows_in(at, f->row_block, f->k, f->planes, f->block);
    at += qrows_bytes(f, f->rows);
    d.kernel = at;
    d.temp = (float *)(void *)(at + kernel_bytes(f));
    return d;
}

/* Rows as integers, each normalised first where that is ours to do. */
static void turn_rows(const ph_kernels *k, const fused *f, const desk *d, const float *x, size_t rows) {
    if (f->norm.kind == PH_NORM_NONE || f->n_dots < f->n_parts) {
        k->qrows_of(&d->q, x, f->k, rows);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        const ph_qrows one = ph_qrows_from(&d->q, r);
        ph_norm_rows(k, &f->norm, d->normed, x + r * f->k, 1);
        k->qrows_of(&one, d->normed, f->k, 1);
    }
}

/* Rows [r0, r0 + rows) out of their arrays. */
static void gather_rows(const ph_native *p, const fused *f, float *to, size_t r0, size_t rows) {
    for (size_t r = r0; r < r0 + rows; r++, to += f->k) {
        size_t        at = r % f->turn;
        const source *s = f->source;
        while (at >= s->rows) at -= (s++)->rows;
        memcpy(to, (const float *)ph_native_at(p, s->x) + (r / f->turn * s->rows + at) * f->k,
               f->k * sizeof *to);
    }
}

/* Where the rows of a block stand, before the norm; those of several arrays are brought together once. */
static const float *rows_at(const ph_native *p, const fused *f, const desk *d, size_t r0, size_t rows,
                            int is_new) {
    if (!f->n_sources) return (const float *)ph_native_at(p, f->x) + r0 * f->k;
    if (is_new) gather_rows(p, f, d->normed, r0, rows);
    return d->normed;
}

/* The rows of a block made ready, once a worker. */
static void ready_rows(const ph_kernels *k, const fused *f, desk *d, const float *x, size_t rows,
                       int is_new) {
    int wants_floats = f->n_dots < f->n_parts, has_norm = f->norm.kind != PH_NORM_NONE;
    d->x = has_norm && wants_floats ? d->normed : x;
    if (!is_new) return;
    if (has_norm && wants_floats) ph_norm_rows(k, &f->norm, d->normed, x, rows);
    if (f->n_dots) turn_rows(k, f, d, d->x, rows);
}

/* A row of a unit that is met SOON rows later: short runs, far apart, which nobody else calls for. */
static void call_row(const float *row, size_t n) {
    for (size_t i = 0; i < n; i += 16) __builtin_prefetch(&row[i]);
    __builtin_prefetch(&row[n - 1]);
}

static void product(const ph_kernels *k, const fused *f, const part *t, float *y, size_t y_stride,
                    const desk *d, size_t c, size_t rows, size_t cols) {
    const unsigned char *w = t->stored ? t->w : (const unsigned char *)t->w + c * t->w_stride;
    if (t->stored)
        ph_linear_run_stored(k, t->stored, c, y, y_stride, d->x, f->k, rows, cols, f->k, d->kernel);
    else if (t->dot)
        t->dot(y, y_stride, &d->q, w, t->w_stride, rows, cols, d->kernel);
    else
        ph_linear_run(k, t->linear, y, y_stride, d->x, f->k, w, t->w_stride, rows, cols, f->k, d->kernel);
    for (size_t r = 0; (t->col_scale || t->bias || t->act) && r < rows; r++, y += y_stride) {
        if (r + SOON < rows && y_stride > cols) call_row(&y[SOON * y_stride], cols);
        if (t->col_scale) k->mul(y, y, &t->col_scale[c], cols);
        if (t->bias) k->add(y, y, &t->bias[c], cols);
        if (t->act) t->act(y, y, cols);
    }
}

static void scale(ph_native *p, const part *t, float *y, size_t y_stride, size_t r0, size_t rows,
                  size_t cols) {
    for (int i = 0; i < t->n_scales; i++) {
        const float *each = t->row_scale[i] < 0 ? NULL : (const float *)ph_native_at(p, t->row_scale[i]) + r0;
        for (size_t r = 0; r < rows; r++)
            ph_native_kernels(p)->scale(&y[r * y_stride], &y[r * y_stride], each ? each[r] : t->scale[i],
                                        cols);
    }
}

/* Rows [r0, r0 + rows) and columns [c, c + cols) of one part. */
static void unit(ph_native *p, const fused *f, const part *t, const desk *d, size_t r0, size_t rows, size_t c,
                 size_t cols) {
    const ph_kernels *k = ph_native_kernels(p);
    float            *y = (float *)ph_native_at(p, t->out) + r0 * t->cols + c, *temp = d->temp;
    if (t->residual < 0 || t->post.kind) {
        product(k, f, t, y, t->cols, d, c, rows, cols);
        if (t->up >= 0) product(k, f, &f->part[t->up], temp, cols, d, c, rows, cols);
        for (size_t r = 0; t->up >= 0 && r < rows; r++)
            k->mul(&y[r * t->cols], &y[r * t->cols], &temp[r * cols], cols);
        scale(p, t, y, t->cols, r0, rows, cols);
        return;
    }
    /* The residual may stand where the result goes, so the result waits in temp. */
    const float *add = (const float *)ph_native_at(p, t->residual) + r0 * t->cols + c;
    product(k, f, t, temp, cols, d, c, rows, cols);
    scale(p, t, temp, cols, r0, rows, cols);
    for (size_t r = 0; r < rows; r++) {
        if (r + SOON < rows) call_row(&add[(r + SOON) * t->cols], cols);
        k->add(&y[r * t->cols], &add[r * t->cols], &temp[r * cols], cols);
    }
}

/* All columns of these rows are there. */
static void finish(ph_native *p, const part *t, size_t r0, size_t rows) {
    const float *out = ph_native_at(p, t->out), *add = ph_native_at(p, t->residual);
    float       *y = (float *)ph_native_at(p, t->final) + r0 * t->cols;
    ph_norm_rows(ph_native_kernels(p), &t->post, y, out + r0 * t->cols, rows);
    ph_native_kernels(p)->add(y, add + r0 * t->cols, y, rows * t->cols);
}

static const part *part_at(const fused *f, size_t block) {
    int i = f->n_parts - 1;
    while (f->part[i].is_up || f->part[i].blocks > block) i--;
    return &f->part[i];
}

/* Workers claim pieces in turn.  Of one block of rows, numbers that follow each other lie in ranges far
 * apart, one for each worker, who most often goes through its own, weights in their order. */
static size_t spread(size_t piece, size_t units, size_t hands) {
    size_t range = piece % hands, more = units % hands;
    return range * (units / hands) + at_most(range, more) + piece / hands;
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const fused *f = s->data;
    desk         d = desk_of(f, hand);
    for (size_t i = begin; i < end; i++) {
        size_t      u = s->units == f->col_blocks ? spread(i, s->units, (size_t)p->n_hands)
                                                  : ph_native_dealt(p, hand, s->units, f->col_blocks);
        size_t      block = u / f->col_blocks, r0 = block * f->row_block;
        size_t      rows = at_most(f->row_block, f->rows - r0);
        const part *t = part_at(f, u % f->col_blocks);
        size_t      c = (u % f->col_blocks - t->blocks) * f->col_block;
        ready_rows(ph_native_kernels(p), f, &d, rows_at(p, f, &d, r0, rows, hand->held != block), rows,
                   hand->held != block);
        hand->held = block;
        unit(p, f, t, &d, r0, rows, c, at_most(f->col_block, t->cols - c));
        if (t->post.kind && atomic_fetch_sub_explicit(&t->left[block], 1, memory_order_acq_rel) == 1)
            finish(p, t, r0, rows);
    }
}

static const ph_step_kind kind = {.name = "linear", .scratch = scratch, .prepare = prepare, .work = work};

const ph_lowering ph_lowering_linear = {.name = "linear", .lower = lower, .can = ph_linear_can};
