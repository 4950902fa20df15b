/* model_parts.c - the vision part of a model's case on two engines: every value that is seen inside it,
 * within a bound of its largest number. */
#include "measure/case_model.h"

#include <math.h>
#include <string.h>

static const double bound = 1e-4;

ph_rc ph_model_parts_open(ph_model_desk *d, ph_err *err) {
    ph_verify_options native = *d->r->how;
    native.engine_vision = native.engine_language = native.engine_embed = "native";
    return ph_probe_open(&d->other, d->model, &native, 1, err);
}

/* Values of the graphs that pictures go through. */
static int is_of_vision(const ph_probe *p, const char *value) {
    const ph_graph *g[] = {p->model->vision, p->model->bridge};
    for (size_t i = 0; i < sizeof g / sizeof *g; i++)
        for (size_t k = 0; g[i] && k < p->n_seen; k++)
            if (!strcmp(p->tap[k].graph, g[i]->name) && !strcmp(p->tap[k].value, value)) return 1;
    return 0;
}

static ph_rc compare(ph_model_case *c, const ph_seen *ours, const ph_seen *want, ph_err *err) {
    double worst = 0, scale = 0;
    if (ours->n != want->n)
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu numbers on one engine, %zu on the other", ours->value,
                       ours->n, want->n);
    for (size_t i = 0; i < want->n; i++) {
        double off = fabs((double)ours->at[i] - (double)want->at[i]);
        worst = off <= worst ? worst : off; /* NaN is the worst */
        scale = fmax(scale, fabs((double)want->at[i]));
    }
    ph_figure(c->r, worst, bound * scale, "%s: %s against native", ours->value, c->r->how->engine_vision);
    c->n_outputs++;
    return PH_OK;
}

ph_rc ph_model_case_parts(ph_model_case *c, const ph_question *q, ph_err *err) {
    const ph_row_logits none = {0};
    if (!c->n_pictures) {
        ph_case_skip(c->r, "there is no picture: the vision part does not run");
        return PH_OK;
    }
    PH_TRY(ph_probe_look(c->probe, q, &none, err));
    PH_TRY(ph_probe_look(&c->desk->other, q, &none, err));
    for (size_t i = 0; i < c->probe->n_seen; i++) {
        const ph_seen *s = &c->probe->seen[i], *want = ph_probe_seen(&c->desk->other, s->value);
        if (s->n && want && is_of_vision(c->probe, s->value)) PH_TRY(compare(c, s, want, err));
    }
    if (c->n_outputs) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "nothing was seen of the vision part");
}
