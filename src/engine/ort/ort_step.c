/* ort_step.c - a program's run: the session over the plan's memory, in one step.
 *
 * ORT stops at no border of ours: a deadline that passes on the way is met at the end.  A flag that is set
 * ends the run at ORT's next node; nothing of it is kept, and the next call begins anew.
 */
#include "engine/ort/ort_engine.h"

#include <stdatomic.h>
#include <string.h>

/* Tell the session of a port's memory and dimensions, where they are not what it knows. */
static ph_rc set_port(ph_ort_program *p, ph_ort_port *port, const ph_syms *syms, ph_err *err) {
    const ph_value *v = &p->base.graph->value[port->value];
    ph_ort_array    a = {.rank = v->shape.rank, .data = port->data};
    int64_t         n = 1;
    for (int i = 0; i < v->shape.rank; i++) {
        PH_TRY(ph_dim_eval(v->shape.dim[i], syms, &a.dim[i], err));
        n *= a.dim[i]; /* bind counted the largest */
    }
    a.bytes = (size_t)n * ph_dtype_bytes(v->dtype);
    if (n && !port->data) return PH_FAIL(err, PH_EUSAGE, "input '%s' was to be lent and is not", v->name);
    if (a.bytes > port->bytes)
        return PH_FAIL(err, PH_ELIMIT, "value '%s': %zu bytes, bound for %zu", v->name, a.bytes, port->bytes);
    if (port->set && port->set == port->data && !memcmp(port->set_dim, a.dim, sizeof a.dim)) return PH_OK;
    port->set = NULL;
    if (port->is_input)
        PH_TRY(ph_ort_bind_input(p->session, port->at, &a, err));
    else
        PH_TRY(ph_ort_bind_output(p->session, port->at, &a, err));
    port->set = port->data;
    memcpy(port->set_dim, a.dim, sizeof a.dim);
    return PH_OK;
}

static void show_taps(const ph_ort_program *p, const ph_syms *syms) {
    for (size_t t = 0; t < p->n_taps; t++)
        for (size_t i = 0; i < p->n_ports; i++)
            if (p->port[i].value == p->tap[t].value)
                p->tap[t].see(p->tap[t].arg, p->tap[t].value, p->port[i].data,
                              &p->base.graph->value[p->tap[t].value].shape, syms);
}

/* The first run of a shape says what ORT holds in it. */
static ph_rc measured(ph_ort_program *p, const ph_syms *syms, const atomic_int *cancel, ph_err *err) {
    size_t known;
    int    is_new;
    PH_TRY(ph_ort_scratch(p, syms, &known, &is_new, err));
    size_t before = ph_ort_memory_read().now;
    if (is_new) ph_ort_memory_mark();
    PH_TRY(ph_ort_run(p->session, cancel, err));
    if (is_new) ph_ort_saw(p, syms, ph_ort_memory_read().peak - before);
    return PH_OK;
}

ph_rc ph_ort_step(ph_program *program, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                  ph_err *err) {
    ph_ort_program *p = (ph_ort_program *)program;
    ph_trace       *trace = program->engine->env.trace;
    *state = PH_RUN_AGAIN;
    if (!p->is_bound)
        return PH_FAIL(err, PH_EUSAGE, "graph '%s' is run before it is bound", program->graph->name);
    PH_TRY(ph_engine_within(program->graph, syms, &p->bound, "bound", err));
    for (size_t i = 0; i < p->n_ports; i++) PH_TRY(set_port(p, &p->port[i], syms, err));
    uint64_t begin = ph_trace_begin(trace);
    ph_rc    rc = measured(p, syms, until ? until->cancel : NULL, err);
    ph_trace_end(trace, "ort", begin, 0);
    if (rc == PH_ECANCEL) return PH_OK;
    if (rc) return ph_note(err, rc, "while running graph '%s' on engine ort", program->graph->name);
    show_taps(p, syms);
    *state = PH_RUN_DONE;
    return PH_OK;
}
