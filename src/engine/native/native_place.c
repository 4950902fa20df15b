/* native_place.c - sizes, what a program needs, and where its buffers stand.
 *
 *     [ inputs | temporaries, by lifetime | a piece per worker ]
 *
 * need() and bind() run the same code on the same tables, so what the plan was
 * told is what a run touches.  A serial step that runs an operator's own eval
 * uses the workers' pieces as one.
 */
#include "base/mem.h"
#include "engine/native/native.h"

#include <stdlib.h>
#include <string.h>

size_t ph_native_count(const ph_native *p, const int64_t *size, int value, int from, int to) {
    size_t n = 1;
    for (int k = from; k < to; k++) n *= (size_t)ph_native_dim(p, size, value, k);
    return n;
}

size_t ph_native_items(const ph_native *p, const int64_t *size, int value) {
    return ph_native_count(p, size, value, 0, ph_native_graph(p)->value[value].shape.rank);
}

ph_rc ph_native_sizes(const ph_native *p, const ph_syms *syms, int64_t *size, ph_err *err) {
    for (size_t i = 0; i < p->n_dims; i++) PH_TRY(ph_dim_eval(p->dim[i], syms, &size[i], err));
    return PH_OK;
}

ph_rc ph_native_bytes(const ph_native *p, const int64_t *size, int value, size_t *out, ph_err *err) {
    const ph_value *v = &ph_native_graph(p)->value[value];
    size_t          n = ph_dtype_bytes(v->dtype);
    for (int k = 0; k < v->shape.rank; k++) {
        int64_t d = ph_native_dim(p, size, value, k);
        if (d < 0 || ph_mul_over(n, (size_t)d, &n) || n > SIZE_MAX / 4)
            return PH_FAIL(err, PH_ELIMIT, "value '%s': dimension %d is %lld: too large", v->name, k,
                           (long long)d);
    }
    *out = n;
    return PH_OK;
}

ph_rc ph_native_buffer_bytes(const ph_native *p, const int64_t *size, const ph_buffer *f, size_t *out,
                             ph_err *err) {
    *out = f->fixed;
    return f->value < 0 ? PH_OK : ph_native_bytes(p, size, f->value, out, err);
}

/* life, order: [n_buffers]; life.bytes is 0 for those that are not temporaries of their own. */
static ph_rc place_buffers(const ph_native *p, const int64_t *size, ph_life *life, size_t *order,
                           ph_places *out, ph_err *err) {
    for (size_t i = 0; i < p->n_buffers; i++) {
        const ph_buffer *f = &p->buffer[i];
        size_t           bytes = 0;
        life[i] = (ph_life){.first = f->first < 0 ? 0 : f->first, .last = f->last < 0 ? 0 : f->last};
        if (f->home == PH_HOME_STATE || f->home == PH_HOME_CONSTANT || f->is_lent) continue;
        PH_TRY(ph_native_buffer_bytes(p, size, f, &bytes, err));
        if (f->home == PH_HOME_INPUT) {
            if (ph_add_over(out->input, ph_round_up(bytes, PH_ALIGN), &out->input))
                return PH_FAIL(err, PH_ELIMIT, "graph '%s': its inputs are too large",
                               ph_native_graph(p)->name);
        } else if (f->same == (int)i) {
            life[i].bytes = bytes;
        }
    }
    return ph_layout(life, p->n_buffers, order, &out->temps, err);
}

static ph_rc place_scratch(const ph_native *p, const int64_t *size, ph_places *out, ph_err *err) {
    size_t alone = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        const ph_step *s = &p->step[i];
        size_t         bytes = 0;
        if (!s->kind->scratch) continue;
        PH_TRY(s->kind->scratch(p, s, size, &bytes, err));
        if (bytes > SIZE_MAX / 4)
            return PH_FAIL(err, PH_ELIMIT, "step %s: %zu bytes of scratch", s->kind->name, bytes);
        bytes = ph_round_up(bytes, PH_ALIGN);
        if (s->kind->alone && bytes > alone) alone = bytes;
        if (!s->kind->alone && bytes > out->hand) out->hand = bytes;
    }
    if (ph_mul_over(out->hand, (size_t)p->n_hands, &out->scratch))
        return PH_FAIL(err, PH_ELIMIT, "%d workers with %zu bytes each", p->n_hands, out->hand);
    if (alone > out->scratch) out->scratch = alone;
    return PH_OK;
}

static ph_rc place_all(const ph_native *p, const int64_t *size, ph_life *life, size_t *order, ph_places *out,
                       ph_err *err) {
    *out = (ph_places){0};
    PH_TRY(place_buffers(p, size, life, order, out, err));
    PH_TRY(place_scratch(p, size, out, err));
    out->temps = ph_round_up(out->temps, PH_ALIGN);
    if (ph_add_over(out->input, out->temps, &out->total) ||
        ph_add_over(out->total, out->scratch, &out->total))
        return PH_FAIL(err, PH_ELIMIT, "graph '%s': more memory than an address can name",
                       ph_native_graph(p)->name);
    return PH_OK;
}

ph_rc ph_native_need(const ph_program *program, const ph_syms *syms, ph_need *out, size_t *scratch,
                     ph_err *err) {
    const ph_native *p = (const ph_native *)program;
    ph_places        at;
    int64_t         *size = malloc((p->n_dims + 1) * sizeof *size);
    ph_life         *life = malloc((p->n_buffers + 1) * sizeof *life);
    size_t          *order = malloc((p->n_buffers + 1) * sizeof *order);
    ph_rc            rc = PH_OK;
    if (!size || !life || !order) rc = PH_FAIL(err, PH_ENOMEM, "a plan of %zu buffers", p->n_buffers);
    if (!rc) rc = ph_engine_within(p->base.graph, syms, &p->base.max, "compiled", err);
    if (!rc) rc = ph_native_sizes(p, syms, size, err);
    if (!rc) rc = place_all(p, size, life, order, &at, err);
    free(size);
    free(life);
    free(order);
    if (rc) return rc;
    *out = (ph_need){.input = at.input,
                     .activations = at.temps,
                     .engine = at.scratch + p->arena.size + sizeof *p,
                     .weights = p->weights,
                     .table = p->table,
                     .table_row = p->table_row};
    *scratch = at.total;
    return PH_OK;
}

/* Offsets for these sizes; nothing to do when they are those of the last time, as in a row of single steps.
 */
static ph_rc place_for(ph_native *p, const ph_syms *syms, ph_err *err) {
    if (p->is_placed && !memcmp(&p->bound, syms, sizeof *syms)) return PH_OK;
    p->is_placed = 0;
    PH_TRY(ph_engine_within(p->base.graph, syms, &p->base.max, "compiled", err));
    PH_TRY(ph_native_sizes(p, syms, p->size, err));
    PH_TRY(place_all(p, p->size, p->life, p->order, &p->places, err));
    for (size_t i = 0; i < p->n_buffers; i++) {
        ph_buffer *f = &p->buffer[i];
        f->bytes = 0;
        if (f->home == PH_HOME_INPUT || f->home == PH_HOME_TEMP)
            PH_TRY(ph_native_buffer_bytes(p, p->size, f, &f->bytes, err));
    }
    p->bound = *syms;
    p->is_placed = 1;
    return PH_OK;
}

/* Pointers from offsets. */
static void settle(ph_native *p, unsigned char *memory) {
    unsigned char *temps = memory + p->places.input, *input = memory;
    p->scratch = temps + p->places.temps;
    p->scratch_bytes = p->places.scratch;
    for (int i = 0; i < p->n_hands; i++)
        p->hand[i] = (ph_hand){.memory = p->scratch + (size_t)i * p->places.hand, .held = SIZE_MAX};
    for (size_t i = 0; i < p->n_buffers; i++) {
        ph_buffer *f = &p->buffer[i];
        if (f->is_lent) {
            f->own = f->at = NULL;
        } else if (f->home == PH_HOME_INPUT) {
            f->own = f->at = input;
            input += ph_round_up(f->bytes, PH_ALIGN);
        } else if (f->home == PH_HOME_TEMP && f->same == (int)i) {
            f->own = f->at = temps + p->life[i].offset;
        }
    }
    for (size_t i = 0; i < p->n_buffers; i++) {
        int r = (int)i;
        while (p->buffer[r].same != r) r = p->buffer[r].same;
        if (p->buffer[i].home == PH_HOME_TEMP) p->buffer[i].own = p->buffer[i].at = p->buffer[r].at;
    }
}

ph_kv *ph_native_kv(const ph_native *p, int value) {
    return strcmp(ph_native_graph(p)->value[value].name, PH_STATE_CROSS) ? p->kv : p->cross;
}

static ph_rc check_states(const ph_native *p, ph_err *err) {
    const ph_graph *g = ph_native_graph(p);
    for (size_t i = 0; i < g->n_values; i++)
        if (g->value[i].cls == PH_VALUE_STATE && p->home[i] >= 0 && !ph_native_kv(p, (int)i))
            return PH_FAIL(err, PH_EUSAGE, "graph '%s' has the state %s, and no KV cache was given for it",
                           g->name, g->value[i].name);
    return PH_OK;
}

ph_rc ph_native_bind(ph_program *program, const ph_syms *syms, const ph_bind *b, ph_err *err) {
    ph_native *p = (ph_native *)program;
    p->is_bound = 0;
    ph_native_reset(program);
    PH_TRY(place_for(p, syms, err));
    if (b->bytes < p->places.total)
        return PH_FAIL(err, PH_ELIMIT, "graph '%s' wants %zu bytes for these sizes, %zu given",
                       ph_native_graph(p)->name, p->places.total, b->bytes);
    if ((uintptr_t)b->memory % PH_ALIGN)
        return PH_FAIL(err, PH_EUSAGE, "graph '%s': memory must be %d-byte aligned", ph_native_graph(p)->name,
                       PH_ALIGN);
    p->kv = b->kv;
    p->cross = b->cross;
    PH_TRY(check_states(p, err));
    settle(p, b->memory);
    p->is_bound = 1;
    return PH_OK;
}
