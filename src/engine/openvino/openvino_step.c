/* openvino_step.c - a program's run: the model over the plan's memory, in one step.
 *
 * Inputs are read where the plan has them.  Outputs stay where OpenVINO has them: of models whose sizes vary
 * it copies what is to lie elsewhere.
 *
 * OpenVINO stops at no border of ours: a deadline that passes on the way is met at the end.  A flag that is
 * set ends the run at its next node; nothing of it is kept, and the next call begins anew.
 */
#include "engine/openvino/openvino_engine.h"

#include <malloc.h>
#include <string.h>

/* Tell the model of an input's memory and dimensions, where they are not what it knows. */
static ph_rc set_input(ph_openvino_program *p, ph_port *port, const ph_syms *syms, ph_err *err) {
    ph_openvino_array a = {.rank = p->guest.base.graph->value[port->value].shape.rank};
    int64_t           dim[PH_RANK_MAX];
    int               is_new;
    PH_TRY(ph_guest_shape(&p->guest, port, syms, dim, &a.bytes, &is_new, err));
    if (!is_new) return PH_OK;
    a.data = port->data;
    memcpy(a.dim, dim, sizeof dim);
    PH_TRY(ph_openvino_bind_input(p->model, port->at, &a, err));
    ph_guest_told(port, dim);
    return PH_OK;
}

static ph_rc set_inputs(ph_openvino_program *p, const ph_syms *syms, ph_err *err) {
    for (size_t i = 0; i < p->guest.n_ports; i++)
        if (p->guest.port[i].is_input) PH_TRY(set_input(p, &p->guest.port[i], syms, err));
    return PH_OK;
}

/* The rows and columns that were reckoned: what reads an output counts on them. */
static ph_rc check_output(const ph_value *v, const ph_openvino_array *a, const ph_syms *syms, ph_err *err) {
    int64_t n = 1, dim = 0;
    for (int i = 0; i < v->shape.rank; i++) {
        PH_TRY(ph_dim_eval(v->shape.dim[i], syms, &dim, err));
        if (i < a->rank && a->dim[i] != dim)
            return PH_FAIL(err, PH_EMISMATCH,
                           "output '%s' has %lld in dimension %d, and %lld are to be there", v->name,
                           (long long)a->dim[i], i, (long long)dim);
        n *= dim;
    }
    if (a->rank == v->shape.rank && a->bytes == (size_t)n * ph_dtype_bytes(v->dtype)) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "output '%s' is of rank %d and %zu bytes, and to be of rank %d and %zu",
                   v->name, a->rank, a->bytes, v->shape.rank, (size_t)n * ph_dtype_bytes(v->dtype));
}

/* Where outputs lie now. */
static ph_rc find_outputs(ph_openvino_program *p, const ph_syms *syms, ph_err *err) {
    for (size_t i = 0; i < p->guest.n_ports; i++) {
        ph_port          *port = &p->guest.port[i];
        ph_openvino_array a;
        if (port->is_input) continue;
        PH_TRY(ph_openvino_result(p->model, port->at, &a, err));
        PH_TRY(check_output(&p->guest.base.graph->value[port->value], &a, syms, err));
        port->data = a.data;
    }
    return PH_OK;
}

/* ---- what a run holds ---- */

/* Pages of files that a model's first run touched: its code.  There may be others' weights among them, so no
 * more than were found with release 2026.4 on x86-64. */
static void count_code(const ph_footing *before, const ph_footing *after) {
    enum { RUN_CODE_MAX = 12 << 20 };
    size_t was = before->mem.rss_file, now = after->mem.rss_file, grown = now > was ? now - was : 0;
    ph_openvino_note_code(grown < RUN_CODE_MAX ? grown : RUN_CODE_MAX);
}

/* What a run worked in it keeps for the next one, and outputs twice, in turn: after a few runs of a shape
 * nothing is added, and nothing more is read of the process.  What it gave back stands in free lists, which
 * sizes that differ from picture to picture would let grow without end. */
static ph_rc measured(ph_openvino_program *p, const ph_syms *syms, const atomic_int *cancel, ph_err *err) {
    enum { SMALL = 64 << 10, SETTLED = 3 };
    ph_guest  *g = &p->guest;
    size_t     times = ph_guest_times_seen(g, syms);
    int        is_measured = times < SETTLED;
    ph_footing before = {0}, after;
    ph_guest_work_begin(is_measured);
    if (is_measured) before = ph_guest_footing();
    ph_rc rc = ph_openvino_run(p->model, cancel, err);
    if (is_measured && !rc) {
        after = ph_guest_footing();
        size_t run = ph_guest_touched(&before, &after), left = ph_guest_kept(&before, &after);
        if (!p->has_run) count_code(&before, &after);
        p->has_run = 1;
        ph_guest_saw(g, syms, times ? left : run, left);
        if (run >= SMALL) malloc_trim(0);
    }
    ph_guest_work_end();
    return rc;
}

ph_rc ph_openvino_step(ph_program *program, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                       ph_err *err) {
    ph_openvino_program *p = (ph_openvino_program *)program;
    ph_trace            *trace = program->engine->env.trace;
    *state = PH_RUN_AGAIN;
    PH_TRY(ph_guest_ready(&p->guest, syms, err));
    PH_TRY(set_inputs(p, syms, err));
    uint64_t begin = ph_trace_begin(trace);
    ph_rc    rc = measured(p, syms, until ? until->cancel : NULL, err);
    ph_trace_end(trace, "openvino", begin, 0);
    if (rc == PH_ECANCEL) return PH_OK;
    if (!rc) rc = find_outputs(p, syms, err);
    if (rc) return ph_note(err, rc, "while running graph '%s' on engine openvino", program->graph->name);
    ph_guest_show_taps(&p->guest, syms);
    *state = PH_RUN_DONE;
    return PH_OK;
}
