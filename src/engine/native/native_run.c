/* native_run.c - the loop: one step after the other, until done or told to stop.
 *
 * The state of a half-done run is (step, first unit not done).  Units below it
 * are done, none above it was begun, and a unit's result depends on nothing but
 * its inputs; so a resumed run has the bits of an uninterrupted one.
 *
 * Nothing here allocates, looks up a name or infers a shape.
 */
#include "engine/native/native.h"

typedef struct job {
    ph_native     *p;
    const ph_step *s;
} job;

static void work(void *arg, size_t begin, size_t end, int worker) {
    const job *j = arg;
    j->s->kind->work(j->p, j->s, begin, end, &j->p->hand[worker]);
}

static void show_taps(ph_native *p, int step) {
    for (size_t i = 0; i < p->n_taps; i++) {
        const ph_tap *t = &p->tap[i];
        if (p->tap_step[i] == step)
            t->see(t->arg, t->value, ph_native_at(p, p->home[t->value]),
                   &ph_native_graph(p)->value[t->value].shape, &p->running);
    }
}

/* Sizes of this run; they must fit the places that bind made. */
static ph_rc begin(ph_native *p, const ph_syms *syms, ph_err *err) {
    if (!p->is_bound)
        return PH_FAIL(err, PH_EUSAGE, "graph '%s' is run before it is bound", ph_native_graph(p)->name);
    for (int i = 0; i < PH_N_SYMS; i++)
        if (syms->at[i] < 0 || syms->at[i] > p->bound.at[i])
            return PH_FAIL(err, PH_ELIMIT, "graph '%s': %c = %lld, bound for at most %lld",
                           ph_native_graph(p)->name, ph_sym_letters[i], (long long)syms->at[i],
                           (long long)p->bound.at[i]);
    PH_TRY(ph_native_sizes(p, syms, p->size, err));
    for (size_t i = 0; i < p->n_buffers; i++) {
        size_t           bytes;
        const ph_buffer *f = &p->buffer[i];
        if ((f->home != PH_HOME_INPUT && f->home != PH_HOME_TEMP) || f->value < 0) continue;
        PH_TRY(ph_native_bytes(p, p->size, f->value, &bytes, err));
        if (bytes && !f->at)
            return PH_FAIL(err, PH_EUSAGE, "input '%s' was to be lent and is not",
                           ph_native_graph(p)->value[f->value].name);
        if (bytes > f->bytes)
            return PH_FAIL(err, PH_ELIMIT, "value '%s': %zu bytes, bound for %zu",
                           ph_native_graph(p)->value[f->value].name, bytes, f->bytes);
    }
    p->running = *syms;
    p->at_step = p->at_unit = 0;
    p->is_half_done = 1;
    show_taps(p, -1);
    return PH_OK;
}

/* What a step wants for this size is planned for the largest.  Were it not so it would write into others'
 * memory. */
static ph_rc scratch_fits(const ph_native *p, const ph_step *s, ph_err *err) {
    size_t bytes = 0;
    if (!s->kind->scratch) return PH_OK;
    PH_TRY(s->kind->scratch(p, s, p->size, &bytes, err));
    if (bytes <= p->places.hand) return PH_OK;
    return PH_FAIL(err, PH_EBUG, "step %s: %zu bytes of scratch, planned are %zu", s->kind->name, bytes,
                   p->places.hand);
}

/* One step, from at_unit on.  *is_done: all its units are done. */
static ph_rc run_step(ph_native *p, ph_step *s, const ph_until *until, int *is_done, ph_err *err) {
    *is_done = 1;
    if (s->kind->alone) return s->kind->alone(p, s, p->scratch, p->scratch_bytes, err);
    if (!p->at_unit) {
        s->piece = 1;
        PH_TRY(scratch_fits(p, s, err));
        PH_TRY(s->kind->prepare(p, s, err));
    }
    for (int i = 0; i < p->n_hands; i++) {
        p->hand[i].held = SIZE_MAX;
        if (!p->at_unit) atomic_store_explicit(&p->hand[i].taken, 0, memory_order_relaxed);
    }
    job    j = {p, s};
    size_t from = p->at_unit;
    p->at_unit = ph_threads_run(p->base.engine->env.threads, work, &j, from, s->units, s->piece, until);
    if (p->at_unit == from &&
        from < s->units) { /* an expired deadline still gets a piece done: no caller can hang */
        size_t end = s->units - from < s->piece ? s->units : from + s->piece;
        work(&j, from, end, 0);
        p->at_unit = end;
    }
    *is_done = p->at_unit >= s->units;
    return PH_OK;
}

ph_rc ph_native_run(ph_program *program, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                    ph_err *err) {
    ph_native *p = (ph_native *)program;
    ph_trace  *trace = program->engine->env.trace;
    *state = PH_RUN_AGAIN;
    if (!p->is_half_done) PH_TRY(begin(p, syms, err));
    while (p->at_step < p->n_steps) {
        ph_step *s = &p->step[p->at_step];
        uint64_t t = trace ? ph_trace_begin(trace) : 0;
        int      is_done;
        ph_rc    rc = run_step(p, s, until, &is_done, err);
        if (trace) ph_trace_end(trace, s->kind->name, t, s->units);
        if (rc) {
            ph_native_reset(program);
            return ph_note(err, rc, "while running node '%s'", ph_native_graph(p)->node[s->node].name);
        }
        if (!is_done) return PH_OK;
        show_taps(p, (int)p->at_step);
        p->at_step++;
        p->at_unit = 0;
        if (p->at_step < p->n_steps && ph_until_reached(until)) return PH_OK;
    }
    p->is_half_done = 0;
    *state = PH_RUN_DONE;
    return PH_OK;
}

void ph_native_reset(ph_program *program) {
    ph_native *p = (ph_native *)program;
    p->is_half_done = 0;
    p->at_step = p->at_unit = 0;
}
