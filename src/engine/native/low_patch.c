/* low_patch.c - a Conv whose kernel is its stride: the patch embedding of a vision tower.
 *
 *     pixels [I, C, h, w] --patches--> [I * N, C p q] --W [D, C p q]--> [I, N, D] or [I, D, N]
 *
 * Each worker collects the pixels of a block of patches in its own memory and
 * multiplies them as rows.  When Reshape and Transpose behind the Conv make
 * [I, N, D] of its result, it is written so at once and both disappear.
 */
#include "engine/native/native.h"

#include <string.h>

enum { ROWS_MAX = 32, COLS_MIN = 8, TEMP_FLOATS = 4096 };

typedef struct patch {
    int          x, y, x_value, y_value; /* y_value: of the Conv, [I, D, gh, gw] */
    ph_linear    linear;
    const void  *w;
    size_t       w_stride;
    const float *bias;
    int          is_last; /* D is y's last dimension */
    size_t       c, p, q, k, d;
    size_t       h, width, gw, n, rows, row_block, col_block, col_blocks; /* of this run */
} patch;

static int all_are(const ph_node *n, const char *name, int64_t want, int64_t also) {
    size_t         count;
    const int64_t *v = ph_node_ints(n, name, &count);
    for (size_t i = 0; i < count; i++)
        if (v[i] != (i % 2 ? also : want)) return 0;
    return 1;
}

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    size_t         count;
    if (strcmp(n->op->name, "Conv") || n->in[0] < 0 || n->in[1] < 0) return 0;
    const ph_value *x = &g->value[n->in[0]], *w = &g->value[n->in[1]];
    if (x->cls == PH_VALUE_CONSTANT || x->shape.rank != 4 || w->shape.rank != 4 ||
        !ph_build_is_floats(g, n->in[1]))
        return 0;
    int64_t p = w->shape.dim[2].mul, q = w->shape.dim[3].mul;
    size_t  item = ph_dtype_bytes(w->storage.dtype);
    if (ph_dtype_block(w->storage.dtype) != 1 ||
        w->storage.plane[PH_PLANE_DATA].row_stride != (size_t)q * item)
        return 0;
    if (!ph_node_ints(n, "strides", &count) && (p != 1 || q != 1)) return 0;
    if (!all_are(n, "strides", p, q) || !all_are(n, "pads", 0, 0) || !all_are(n, "dilations", 1, 1) ||
        ph_node_int(n, "group", 1) != 1 || strcmp(ph_node_text(n, "auto_pad", "NOTSET"), "NOTSET"))
        return 0;
    return ph_dim_same(x->shape.dim[1], w->shape.dim[1]) &&
           (n->n_in < 3 || n->in[2] < 0 || ph_build_is_floats(g, n->in[2]));
}

/* Reshape to [I, D, N] and Transpose to [I, N, D], both unseen by others: the value behind them; else -1. */
static int behind_transpose(ph_builder *b, int value) {
    const ph_graph *g = b->g;
    size_t          count;
    ph_dim          d = g->value[value].shape.dim[1], i = g->value[value].shape.dim[0];
    if (!ph_build_is_alone(b, value)) return -1;
    int reshape = ph_build_use(b, value, 0);
    if (!ph_build_is(b, reshape, "Reshape") || g->node[reshape].in[0] != value) return -1;
    int             flat = g->node[reshape].out[0];
    const ph_shape *s = &g->value[flat].shape;
    if (s->rank != 3 || !ph_dim_same(s->dim[0], i) || !ph_dim_same(s->dim[1], d) ||
        !ph_build_is_alone(b, flat))
        return -1;
    int transpose = ph_build_use(b, flat, 0);
    if (!ph_build_is(b, transpose, "Transpose")) return -1;
    const int64_t *perm = ph_node_ints(&g->node[transpose], "perm", &count);
    if (!perm || count != 3 || perm[0] != 0 || perm[1] != 2 || perm[2] != 1) return -1;
    b->is_done[reshape] = b->is_done[transpose] = 1;
    return g->node[transpose].out[0];
}

static size_t at_most(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t row_block_of(const patch *f) {
    size_t block = ROWS_MAX;
    while (block > 4 && block * COLS_MIN * f->k > 2 * PH_UNIT_MACS) block /= 2;
    return block;
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const patch *f = s->data;
    (void)p, (void)size, (void)err;
    *out = ((row_block_of(f) * f->k + 15) / 16 * 16 + PH_LINEAR_SCRATCH(f->k) + TEMP_FLOATS) * sizeof(float);
    return PH_OK;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    patch *f = s->data;
    (void)err;
    f->h = (size_t)ph_native_dim(p, p->size, f->x_value, 2);
    f->width = (size_t)ph_native_dim(p, p->size, f->x_value, 3);
    f->gw = (size_t)ph_native_dim(p, p->size, f->y_value, 3);
    f->n = (size_t)ph_native_dim(p, p->size, f->y_value, 2) * f->gw;
    f->rows = (size_t)ph_native_dim(p, p->size, f->x_value, 0) * f->n;
    f->row_block = row_block_of(f);
    size_t block = at_most(PH_UNIT_MACS / (f->row_block * f->k), TEMP_FLOATS / f->row_block);
    block = at_most(block, (f->d + COLS_MIN - 1) / COLS_MIN * COLS_MIN) / COLS_MIN * COLS_MIN;
    f->col_block = block ? block : COLS_MIN;
    f->col_blocks = (f->d + f->col_block - 1) / f->col_block;
    s->units = (f->rows + f->row_block - 1) / f->row_block * f->col_blocks;
    return PH_OK;
}

/* The pixels of patch `row`, in the order of the weight: channel, line, column. */
static void collect(const patch *f, const float *x, size_t row, float *out) {
    size_t image = row / f->n, gy = row % f->n / f->gw, gx = row % f->n % f->gw;
    for (size_t c = 0; c < f->c; c++)
        for (size_t i = 0; i < f->p; i++, out += f->q)
            memcpy(out, &x[((image * f->c + c) * f->h + gy * f->p + i) * f->width + gx * f->q],
                   f->q * sizeof *out);
}

static void unit(ph_native *p, const patch *f, const float *rows_x, size_t r0, size_t rows, size_t c,
                 size_t cols, float *linear_scratch, float *temp) {
    const ph_kernels    *k = ph_native_kernels(p);
    const unsigned char *w = (const unsigned char *)f->w + c * f->w_stride;
    float               *y = ph_native_at(p, f->y);
    ph_linear_run(k, f->linear, temp, cols, rows_x, f->k, w, f->w_stride, rows, cols, f->k, linear_scratch);
    for (size_t r = 0; r < rows; r++) {
        float *t = &temp[r * cols];
        size_t row = r0 + r;
        if (f->bias) k->add(t, t, &f->bias[c], cols);
        if (f->is_last)
            memcpy(&y[row * f->d + c], t, cols * sizeof *t);
        else
            for (size_t i = 0; i < cols; i++) y[(row / f->n * f->d + c + i) * f->n + row % f->n] = t[i];
    }
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const patch *f = s->data;
    float       *pixels = (float *)(void *)hand->memory;
    float       *linear_scratch = pixels + (row_block_of(f) * f->k + 15) / 16 * 16;
    float       *temp = linear_scratch + PH_LINEAR_SCRATCH(f->k);
    for (size_t i = begin; i < end; i++) {
        size_t u = ph_native_dealt(p, hand, s->units, f->col_blocks);
        size_t block = u / f->col_blocks, c = u % f->col_blocks * f->col_block, r0 = block * f->row_block;
        size_t rows = at_most(f->row_block, f->rows - r0);
        if (hand->held != block)
            for (size_t r = 0; r < rows; r++) collect(f, ph_native_at(p, f->x), r0 + r, &pixels[r * f->k]);
        hand->held = block;
        unit(p, f, pixels, r0, rows, c, at_most(f->col_block, f->d - c), linear_scratch, temp);
    }
}

static const ph_step_kind kind = {.name = "patch", .scratch = scratch, .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    const ph_value *w = &b->g->value[n->in[1]];
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(patch), err));
    patch *f = place;
    f->x_value = n->in[0];
    f->y_value = n->out[0];
    f->d = (size_t)w->shape.dim[0].mul;
    f->c = (size_t)w->shape.dim[1].mul;
    f->p = (size_t)w->shape.dim[2].mul;
    f->q = (size_t)w->shape.dim[3].mul;
    f->k = f->c * f->p * f->q;
    f->linear = ph_linear_of(ph_native_kernels(b->p), w->storage.dtype);
    f->w = w->storage.plane[PH_PLANE_DATA].bytes;
    f->w_stride = f->k * ph_dtype_bytes(w->storage.dtype);
    if ((uintptr_t)f->w % ph_dtype_bytes(w->storage.dtype)) f->linear.fn = NULL;
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_build_floats(b, n->in[2], &f->bias, err));
    int behind = behind_transpose(b, n->out[0]);
    f->is_last = behind >= 0;
    PH_TRY(ph_build_buffer(b, f->x_value, &f->x, err));
    PH_TRY(ph_build_buffer(b, behind >= 0 ? behind : n->out[0], &f->y, err));
    return ph_build_step(b, &kind, node, f, &f->x, 1, &f->y, 1, -1, err);
}

const ph_lowering ph_lowering_patch = {.name = "patch", .lower = lower, .can = can};
