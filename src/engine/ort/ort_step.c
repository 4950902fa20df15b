/* ort_step.c - a program's run: the session over the plan's memory, in one step.
 *
 * ORT stops at no border of ours: a deadline that passes on the way is met at the end.  A flag that is set
 * ends the run at ORT's next node; nothing of it is kept, and the next call begins anew.
 */
#include "engine/ort/ort_engine.h"

#include <stdatomic.h>
#include <string.h>

/* Tell the session of a port's memory and dimensions, where they are not what it knows. */
static ph_rc set_port(ph_ort_program *p, ph_port *port, const ph_syms *syms, ph_err *err) {
    ph_ort_array a = {.rank = p->guest.base.graph->value[port->value].shape.rank};
    int64_t      dim[PH_RANK_MAX];
    int          is_new;
    PH_TRY(ph_guest_shape(&p->guest, port, syms, dim, &a.bytes, &is_new, err));
    if (!is_new) return PH_OK;
    a.data = port->data;
    memcpy(a.dim, dim, sizeof dim);
    if (port->is_input)
        PH_TRY(ph_ort_bind_input(p->session, port->at, &a, err));
    else
        PH_TRY(ph_ort_bind_output(p->session, port->at, &a, err));
    ph_guest_told(port, dim);
    return PH_OK;
}

/* The first run of a shape says what ORT holds in it; of what the run before it left as results, nothing. */
static ph_rc measured(ph_ort_program *p, const ph_syms *syms, const atomic_int *cancel, ph_err *err) {
    int is_measured = !ph_guest_times_seen(&p->guest, syms);
    ph_guest_work_begin(is_measured);
    if (is_measured) ph_ort_memory_mark();
    size_t        before = ph_ort_memory_read().now;
    ph_rc         rc = ph_ort_run(p->session, cancel, err);
    ph_ort_memory after = ph_ort_memory_read();
    if (is_measured && !rc) ph_guest_saw(&p->guest, syms, after.peak > before ? after.peak - before : 0, 0);
    ph_guest_work_end();
    return rc;
}

ph_rc ph_ort_step(ph_program *program, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                  ph_err *err) {
    ph_ort_program *p = (ph_ort_program *)program;
    ph_trace       *trace = program->engine->env.trace;
    *state = PH_RUN_AGAIN;
    PH_TRY(ph_guest_ready(&p->guest, syms, err));
    for (size_t i = 0; i < p->guest.n_ports; i++) PH_TRY(set_port(p, &p->guest.port[i], syms, err));
    uint64_t begin = ph_trace_begin(trace);
    ph_rc    rc = measured(p, syms, until ? until->cancel : NULL, err);
    ph_trace_end(trace, "ort", begin, 0);
    if (rc == PH_ECANCEL) return PH_OK;
    if (rc) return ph_note(err, rc, "while running graph '%s' on engine ort", program->graph->name);
    ph_guest_show_taps(&p->guest, syms);
    *state = PH_RUN_DONE;
    return PH_OK;
}
