/* stream.c - makes rows of the tensors to be written, on all workers.
 *
 * A row whose type does not change is copied.  Any other is widened to floats,
 * changed, and packed.  Where rows of heads are reordered the source row is
 * another one, and of a vector the elements are.  Tensors that the other container
 * has in parts are cut and put together row by row in the same way.
 *
 * Of int8 the levels and the scales are two tensors made of one, each from the rows as they are stored.
 *
 * What is packed is looked at again: a number that is none would become a plausible one in a block, and one
 * that the type cannot hold would become infinite.  Both are refused; copies are never looked at.
 */
#include "convert/stream.h"

#include "base/mem.h"
#include "tensor/int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ph_rc ph_stream_open(ph_stream *s, const ph_convert *c, ph_convert_report *report, size_t max,
                     ph_arena *arena, ph_err *err) {
    void *to, *item;
    *s = (ph_stream){.c = c, .report = report, .max = max};
    PH_TRY(ph_arena_zero(arena, &to, max + 1, sizeof *s->to, err));
    PH_TRY(ph_arena_zero(arena, &item, max + 1, sizeof *s->item, err));
    s->to = to;
    s->item = item;
    return PH_OK;
}

void ph_stream_close(ph_stream *s) {
    ph_threads_close(s->threads);
    free(s->scratch);
    free(s->fault);
    *s = (ph_stream){0};
}

static int64_t row_of(const ph_weight *w) {
    return w->rank ? w->dim[w->rank - 1] : 1;
}

static ph_rc settle(ph_stream *s, ph_weight *w, ph_err *err) {
    ph_rc rc = ph_weight_bytes(w->dtype, w->rank, w->dim, &w->n_bytes, err);
    if (rc) return ph_note(err, rc, "in tensor %.120s", w->name);
    if ((size_t)row_of(w) > s->row) s->row = (size_t)row_of(w);
    s->report->tensors++;
    s->report->bytes_out += w->n_bytes;
    s->n++;
    return PH_OK;
}

static ph_rc check(const ph_stream *s, const char *name, ph_dtype type, const ph_weight *from, ph_err *err) {
    if (s->n == s->max) return PH_FAIL(err, PH_EBUG, "more than %zu tensors to write", s->max);
    if (type != from->dtype && (!ph_dtype_get(from->dtype)->unpack || !ph_dtype_get(type)->pack))
        return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: %s cannot become %s", name, ph_dtype_name(from->dtype),
                       ph_dtype_name(type));
    return PH_OK;
}

ph_rc ph_stream_add_parts(ph_stream *s, const char *name, ph_dtype type, const ph_weight *from,
                          const ph_export_parts *p, ph_err *err) {
    int is_vector = p->rank < 2;
    for (int i = 0; i < (p->is_joined ? p->n : 1); i++) {
        const ph_weight *one = p->is_joined ? p->at[i] : from;
        PH_TRY(check(s, name, type, one, err));
        if (is_vector && ph_dtype_block(one->dtype) != 1)
            return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: blocks of %s in a vector are not cut", name,
                           ph_dtype_name(one->dtype));
        s->report->bytes_in += one->n_bytes / (size_t)(p->is_joined ? 1 : p->n);
    }
    ph_weight *w = &s->to[s->n];
    *w = (ph_weight){.name = name, .dtype = type, .rank = p->rank};
    memcpy(w->dim, p->dim, sizeof w->dim);
    s->item[s->n] = (ph_stream_item){.from = from, .parts = p};
    return settle(s, w, err);
}

ph_rc ph_stream_add(ph_stream *s, const char *name, ph_dtype type, const ph_weight *from, int heads,
                    float add_, ph_err *err) {
    PH_TRY(check(s, name, type, from, err));
    int64_t turned = from->rank > 1 ? from->dim[0] : row_of(from), pair = 2 * (int64_t)abs(heads);
    if (heads && (from->rank > 2 || turned % pair))
        return PH_FAIL(err, PH_EMISMATCH, "tensor %.160s: %lld rows are not %d heads of pairs", name,
                       (long long)turned, abs(heads));
    ph_weight *w = &s->to[s->n];
    *w = *from;
    w->name = name;
    w->dtype = type;
    w->bytes = NULL;
    s->item[s->n] = (ph_stream_item){.from = from, .heads = heads, .add = add_};
    s->report->bytes_in += from->n_bytes;
    return settle(s, w, err);
}

ph_rc ph_stream_add_made(ph_stream *s, const char *name, const float *numbers, int64_t n, ph_err *err) {
    if (s->n == s->max) return PH_FAIL(err, PH_EBUG, "more than %zu tensors to write", s->max);
    ph_weight *w = &s->to[s->n];
    *w = (ph_weight){.name = name, .dtype = PH_F32, .rank = 1, .dim = {n}};
    s->item[s->n] = (ph_stream_item){.made = numbers};
    return settle(s, w, err);
}

ph_rc ph_stream_add_int8(ph_stream *s, const char *name, const ph_weight *from, ph_stream_part part,
                         ph_err *err) {
    int is_levels = part == PH_STREAM_LEVELS;
    if (s->n == s->max) return PH_FAIL(err, PH_EBUG, "more than %zu tensors to write", s->max);
    if (from->rank != 2 || !ph_dtype_get(from->dtype)->unpack)
        return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: only matrices of numbers become int8", from->name);
    ph_weight *w = &s->to[s->n];
    *w = (ph_weight){.name = name,
                     .dtype = is_levels ? PH_I8 : PH_F32,
                     .rank = 2,
                     .dim = {from->dim[0], is_levels ? from->dim[1] : 1}};
    s->item[s->n] = (ph_stream_item){.part = part, .from = from};
    if (is_levels) s->report->bytes_in += from->n_bytes;
    if ((size_t)row_of(from) > s->row) s->row = (size_t)row_of(from);
    return settle(s, w, err);
}

/* ---- making ---- */

typedef struct piece {
    const ph_stream *s;
    size_t           i, first;
    uint8_t         *out;
    size_t           out_row, in_row; /* bytes */
} piece;

/* Where element or row r of the written order stands in the source. */
static size_t source_of(size_t r, size_t n, int heads) {
    if (!heads) return r;
    size_t d = n / (size_t)abs(heads), head = r / d, at = r % d, half = d / 2;
    return head * d + (heads > 0 ? at % 2 * half + at / 2 : at % half * 2 + at / half);
}

/* The tensor that row r comes from, and its row there. */
static const ph_weight *part_of(const ph_export_parts *p, const ph_weight *from, size_t r, size_t *row) {
    size_t n = (size_t)p->n, chunk = (size_t)p->chunk, turn = r / chunk;
    if (!p->is_joined) {
        *row = (turn * n + (size_t)p->part) * chunk + r % chunk;
        return from;
    }
    *row = turn / n * chunk + r % chunk;
    return p->at[turn % n];
}

/* Where a row of `from` stands, and where in the piece it goes. */
typedef struct place {
    const ph_weight *from;
    size_t           row, at, made;
} place;

enum { CLAMPED = 2048 }; /* numbers above it are no weights' and tell a scale that met its end */

/* The first element that is no number; n: all are. */
static size_t first_wild(const float *x, size_t n) {
    size_t e = 0;
    while (e < n && isfinite(x[e])) e++;
    return e;
}

/* The first element that `packed` has no number near; n: all are right.  y: [n] to spoil. */
static size_t first_lost(ph_dtype type, const float *x, const void *packed, size_t n, float *y) {
    float  most = 0, left = 0;
    size_t at = n;
    ph_dtype_get(type)->unpack(y, packed, n);
    for (size_t e = 0; e < n; e++) {
        if (isfinite(x[e]) && !isfinite(y[e])) return e;
        if (fabsf(x[e]) > most) most = fabsf(x[at = e]);
        if (fabsf(y[e]) > left) left = fabsf(y[e]);
    }
    return most > CLAMPED && most > 2 * left ? at : n;
}

/* Element e of x, the first of its row that was lost. */
static void note_fault(const piece *p, int worker, const place *where, const float *x, size_t e) {
    ph_stream_fault *f = &p->s->fault[worker];
    if (!f->from || where->made < f->made)
        *f = (ph_stream_fault){where->from, where->made, where->row, where->at + e, x[e]};
}

/* n floats into a row, or a run of one; scratch behind x is free. */
static void pack_row(const piece *p, int worker, const place *where, void *out, ph_dtype type, const float *x,
                     size_t n) {
    size_t e = ph_dtype_block(type) > 1 ? first_wild(x, n) : n;
    if (e == n) {
        ph_dtype_get(type)->pack(out, x, n);
        if (type != PH_F32)
            e = first_lost(type, x, out, n, p->s->scratch + (2 * (size_t)worker + 1) * p->s->row);
    }
    if (e < n) note_fault(p, worker, where, x, e);
}

/* Rows of levels, or their scales. */
static void make_int8(void *arg, size_t begin, size_t end, int worker) {
    const piece          *p = arg;
    const ph_stream_item *item = &p->s->item[p->i];
    const ph_weight      *from = item->from;
    size_t                n = (size_t)row_of(from);
    float                *x = p->s->scratch + 2 * (size_t)worker * p->s->row, scale;
    for (size_t k = begin; k < end; k++) {
        size_t   r = p->first + k;
        uint8_t *out = p->out + k * p->out_row;
        ph_dtype_get(from->dtype)->unpack(x, from->bytes + r * p->in_row, n);
        size_t e = first_wild(x, n);
        if (e < n) {
            note_fault(p, worker, &(place){from, r, 0, k}, x, e);
        } else if (item->part == PH_STREAM_LEVELS) {
            ph_int8_symmetric((int8_t *)out, &scale, x, n, PH_INT8_TOP);
        } else {
            scale = ph_int8_scale(x, n, PH_INT8_TOP);
            memcpy(out, &scale, sizeof scale);
        }
    }
}

/* Rows of parts; of a vector the runs of elements. */
static void make_parts(void *arg, size_t begin, size_t end, int worker) {
    const piece           *p = arg;
    const ph_weight       *to = &p->s->to[p->i];
    const ph_export_parts *parts = p->s->item[p->i].parts;
    int                    is_vector = to->rank < 2;
    size_t                 row, n = is_vector ? (size_t)parts->chunk : (size_t)row_of(to);
    size_t                 runs = is_vector ? (size_t)to->dim[0] / n : 1;
    float                 *x = p->s->scratch + 2 * (size_t)worker * p->s->row;
    for (size_t k = begin; k < end; k++) {
        uint8_t *out = p->out + k * p->out_row;
        for (size_t run = 0; run < runs; run++) {
            size_t           r = is_vector ? run * n : p->first + k;
            const ph_weight *from = part_of(parts, p->s->item[p->i].from, r, &row);
            size_t           at = is_vector ? row : row * n;
            size_t           bytes = n / ph_dtype_block(from->dtype) * ph_dtype_bytes(from->dtype);
            const uint8_t *in = from->bytes + at / ph_dtype_block(from->dtype) * ph_dtype_bytes(from->dtype);
            uint8_t       *into = out + run * n * ph_dtype_bytes(to->dtype) * (size_t)is_vector;
            const place    where = {from, is_vector ? 0 : row, is_vector ? row : 0, k};
            if (to->dtype == from->dtype) {
                memcpy(into, in, bytes);
                continue;
            }
            ph_dtype_get(from->dtype)->unpack(x, in, n);
            pack_row(p, worker, &where, into, to->dtype, x, n);
        }
    }
}

static void turn_vector(float *x, float *spare, size_t n, int heads) {
    memcpy(spare, x, n * sizeof *x);
    for (size_t r = 0; r < n; r++) x[r] = spare[source_of(r, n, heads)];
}

static void make_rows(void *arg, size_t begin, size_t end, int worker) {
    const piece          *p = arg;
    const ph_weight      *to = &p->s->to[p->i];
    const ph_stream_item *item = &p->s->item[p->i];
    const ph_weight      *from = item->from;
    size_t                n = (size_t)row_of(to), rows = to->rank > 1 ? (size_t)to->dim[0] : 1;
    float                *x = p->s->scratch + 2 * (size_t)worker * p->s->row;
    int is_vector = to->rank < 2, is_copy = from->dtype == to->dtype && !(item->add > 0 || item->add < 0);
    for (size_t k = begin; k < end; k++) {
        size_t         r = p->first + k, at = is_vector ? r : source_of(r, rows, item->heads);
        const uint8_t *in = from->bytes + at * p->in_row;
        uint8_t       *out = p->out + k * p->out_row;
        if (is_copy && !(is_vector && item->heads)) {
            memcpy(out, in, p->out_row);
            continue;
        }
        ph_dtype_get(from->dtype)->unpack(x, in, n);
        if (is_vector && item->heads) turn_vector(x, x + p->s->row, n, item->heads);
        for (size_t e = 0; e < n && (item->add > 0 || item->add < 0); e++) x[e] += item->add;
        pack_row(p, worker, &(place){from, at, 0, k}, out, to->dtype, x, n);
    }
}

/* The first number that was lost, whoever met it. */
static ph_rc check_piece(const ph_stream *s, size_t item, ph_err *err) {
    const char            *type = s->item[item].part ? "INT8" : ph_dtype_name(s->to[item].dtype);
    const ph_stream_fault *f = NULL;
    for (int i = 0; i < ph_threads_count(s->threads); i++)
        if (s->fault[i].from && (!f || s->fault[i].made < f->made)) f = &s->fault[i];
    if (!f) return PH_OK;
    if (!isfinite(f->value))
        return PH_FAIL(
            err, PH_EFORMAT,
            "tensor %.160s: element [%zu, %zu] is %g, which %s cannot hold: the checkpoint is damaged; "
            "fetch it again",
            f->from->name, f->row, f->at, (double)f->value, type);
    return PH_FAIL(
        err, PH_EUNSUP,
        "tensor %.160s: element [%zu, %zu] is %g, too large for %s: take bf16 or f32, or leave that tensor "
        "as it is",
        f->from->name, f->row, f->at, (double)f->value, type);
}

static ph_rc make(void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err) {
    ph_stream       *s = arg;
    const ph_weight *to = &s->to[i], *from = s->item[i].from;
    piece            p = {.s = s, .i = i, .first = first, .out = out};
    if (!from) {
        memcpy(out, s->item[i].made, to->n_bytes);
    } else {
        PH_TRY(ph_dtype_row_bytes(to->dtype, row_of(to), &p.out_row, err));
        PH_TRY(ph_dtype_row_bytes(from->dtype, row_of(from), &p.in_row, err));
        memset(s->fault, 0, (size_t)ph_threads_count(s->threads) * sizeof *s->fault);
        ph_threads_run(s->threads,
                       s->item[i].part    ? make_int8
                       : s->item[i].parts ? make_parts
                                          : make_rows,
                       &p, 0, n, 1 + n / 64, NULL);
        PH_TRY(check_piece(s, i, err));
    }
    if (s->c->say && first + n >= (to->rank > 1 ? to->n_bytes / (p.out_row ? p.out_row : 1) : 1))
        s->c->say(s->c->say_arg, ++s->done, s->n, to->name);
    return PH_OK;
}

int ph_convert_is_wanted(const ph_convert *c, const char *name) {
    const ph_recipe_types *t = c->types;
    if (!t || !t->n || !t->met) return 1;
    for (size_t i = 0; i < t->n; i++)
        if (ph_recipe_matches(t->rule[i].pattern, name)) return 1;
    return 0;
}

ph_rc ph_convert_no_rule(const ph_convert *c, const char *name, ph_err *err) {
    const ph_recipe_types *t = c->types;
    return PH_FAIL(err, PH_EFORMAT,
                   "none of the recipe's %zu rule%s matches a tensor: the first is '%.80s', and a tensor is "
                   "called '%.120s'",
                   t->n, t->n == 1 ? "" : "s", t->rule[0].pattern, name);
}

/* Of two files the names of both were looked at before the first was begun. */
static ph_rc check_recipe(const ph_stream *s, ph_err *err) {
    const ph_recipe_types *t = s->c->types;
    if (!t || !t->n || !t->met || s->report->mmproj_out[0]) return PH_OK;
    for (size_t i = 0; i < t->n; i++)
        if (t->met[i]) return PH_OK;
    return ph_convert_no_rule(s->c, s->n ? s->to[0].name : "", err);
}

ph_rc ph_stream_ready(ph_stream *s, ph_producer *out, ph_err *err) {
    int    n = s->c->threads > 0 ? s->c->threads : 1;
    size_t floats;
    PH_TRY(check_recipe(s, err));
    if (!s->threads) PH_TRY(ph_threads_open(&s->threads, n, err));
    if (ph_mul_over(2 * (size_t)n, s->row + 16, &floats))
        return PH_FAIL(err, PH_ELIMIT, "rows of %zu elements", s->row);
    free(s->scratch);
    free(s->fault);
    s->scratch = calloc(floats, sizeof *s->scratch);
    s->fault = calloc((size_t)n, sizeof *s->fault);
    if (!s->scratch || !s->fault) return PH_FAIL(err, PH_ENOMEM, "%zu floats", floats);
    *out = (ph_producer){make, s};
    return PH_OK;
}
