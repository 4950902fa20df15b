/* probe.c - questions through the corridor, and the taps' memory. */
#include "measure/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- taps ---- */

static ph_rc row_width(const ph_shape *shape, const ph_syms *syms, size_t *n, size_t *width) {
    int64_t count, last;
    PH_TRY(ph_shape_count(shape, syms, &count, NULL));
    PH_TRY(ph_dim_eval(shape->dim[shape->rank - 1], syms, &last, NULL));
    *n = (size_t)count;
    *width = (size_t)last;
    return PH_OK;
}

static void keep(void *arg, const char *value, const float *data, const ph_shape *shape,
                 const ph_syms *syms) {
    ph_seen *s = arg;
    size_t   n;
    (void)value;
    if (!*s->is_on || s->rc) return;
    s->rc = row_width(shape, syms, &n, &s->width);
    if (s->rc || !n) return;
    if (s->is_last_row) {
        data += n - s->width;
        n = s->width;
        s->n = 0;
    }
    void *at = s->at;
    s->rc = ph_room_grow(&at, &s->cap, s->n, n, sizeof *s->at, NULL);
    s->at = at;
    if (s->rc) return;
    memcpy(s->at + s->n, data, n * sizeof *data);
    s->n += n;
}

static double log_sum_exp(const float *x, size_t n, float most) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)most);
    return (double)most + log(sum);
}

static void weigh(ph_row_logits *w, const float *x, size_t vocab) {
    size_t row = w->n++;
    float  most = x[0];
    if (row >= w->n_ref) return;
    for (size_t i = 1; i < vocab; i++) most = x[i] > most ? x[i] : most;
    w->lse[row] = log_sum_exp(x, vocab, most);
    int64_t argmax = w->argmax_ref ? w->argmax_ref[row] : -1, next = w->next ? w->next[row] : -1;
    w->gap[row] = argmax >= 0 && (size_t)argmax < vocab ? (double)most - (double)x[argmax] : (double)NAN;
    w->nll[row] = next >= 0 && (size_t)next < vocab ? w->lse[row] - (double)x[next] : (double)NAN;
}

static void keep_logits(void *arg, const char *value, const float *data, const ph_shape *shape,
                        const ph_syms *syms) {
    ph_probe *p = arg;
    size_t    n, vocab;
    (void)value;
    if (!p->is_recording || row_width(shape, syms, &n, &vocab) || !vocab) return;
    for (size_t i = 0; i < n; i += vocab) weigh(&p->rows, data + i, vocab);
}

/* Language taps keep all rows when a reference has them; so do those of pictures. */
static void add_tap(ph_probe *p, const ph_graph *g, const char *value) {
    if (!g || ph_graph_find(g, value) < 0) return;
    ph_seen *s = &p->seen[p->n_seen];
    *s = (ph_seen){.value = value, .is_on = &p->is_recording};
    p->tap[p->n_seen++] = (ph_session_tap){.graph = g->name, .value = value, .see = keep, .arg = s};
}

static ph_rc numbered(ph_probe *p, const ph_graph *g, const char *stem, int n, ph_err *err) {
    for (int i = 0; i <= n; i++) {
        char name[64], *copy;
        int  length = snprintf(name, sizeof name, "%s%d", stem, i);
        PH_TRY(ph_arena_copy_text(&p->arena, &copy, name, (size_t)length, err));
        add_tap(p, g, copy);
    }
    return PH_OK;
}

static ph_rc set_taps(ph_probe *p, ph_err *err) {
    const ph_model *m = p->model;
    size_t          most = (size_t)m->spec.text.n_layers + (size_t)m->spec.tower.n_layers + 8;
    void           *seen, *tap;
    PH_TRY(ph_arena_zero(&p->arena, &seen, most, sizeof *p->seen, err));
    PH_TRY(ph_arena_zero(&p->arena, &tap, most, sizeof *p->tap, err));
    p->seen = seen;
    p->tap = tap;
    PH_TRY(numbered(p, m->language, "hidden.", m->spec.text.n_layers, err));
    add_tap(p, m->language, "hidden.norm");
    PH_TRY(numbered(p, m->vision, "vision.hidden.", m->vision ? m->spec.tower.n_layers : -1, err));
    add_tap(p, m->vision, "vision.normed");
    add_tap(p, m->vision, "features");
    add_tap(p, m->bridge, "bridge.queries");
    add_tap(p, m->bridge, "visual");
    p->tap[p->n_seen] =
        (ph_session_tap){.graph = m->language->name, .value = "logits", .see = keep_logits, .arg = p};
    return PH_OK;
}

const ph_seen *ph_probe_seen(const ph_probe *p, const char *value) {
    for (size_t i = 0; i < p->n_seen; i++)
        if (!strcmp(p->seen[i].value, value)) return &p->seen[i];
    return NULL;
}

/* ---- sessions ---- */

ph_session_options ph_verify_session(const ph_verify_options *how) {
    return (ph_session_options){.threads = how->threads,
                                .chunk = how->chunk,
                                .kv_dtype = how->kv,
                                .isa = how->isa,
                                .engine_vision = how->engine_vision,
                                .engine_language = how->engine_language,
                                .engine_embed = how->engine_embed,
                                .is_engine_strict = 1,
                                .is_exact = !how->is_fast && !how->is_rows8,
                                .is_rows8 = how->is_rows8,
                                .unfused = how->unfused};
}

ph_rc ph_probe_open(ph_probe *p, const ph_model *m, const ph_verify_options *how, int with_taps,
                    ph_err *err) {
    *p = (ph_probe){.model = m};
    ph_session_options o = ph_verify_session(how);
    o.alpha = PH_ALPHA_DROP;
    ph_rc rc = ph_arena_open_growing(&p->arena, 16 << 10, err);
    if (!rc) rc = ph_arena_open_growing(&p->answer_arena, 64 << 10, err);
    if (!rc) rc = ph_session_open(&p->plain, m, &o, err);
    if (!rc && with_taps) {
        rc = set_taps(p, err);
        o.all_logits = 1;
        o.tap = p->tap;
        o.n_taps = p->n_seen + 1;
        if (!rc) rc = ph_session_open(&p->tapped, m, &o, err);
    }
    if (rc) ph_probe_close(p);
    return rc;
}

void ph_probe_close(ph_probe *p) {
    ph_session_close(p->plain);
    ph_session_close(p->tapped);
    for (size_t i = 0; i < p->n_seen; i++) free(p->seen[i].at);
    ph_arena_close(&p->arena);
    ph_arena_close(&p->answer_arena);
    *p = (ph_probe){0};
}

/* ---- questions ---- */

static ph_rc copy(ph_probe *p, const void *from, size_t n, size_t item, void **to, ph_err *err) {
    PH_TRY(ph_arena_carve(&p->answer_arena, to, n + 1, item, err));
    if (n) memcpy(*to, from, n * item);
    return PH_OK;
}

static ph_rc copy_logits(ph_probe *p, const ph_turn *t, const float **to, ph_err *err) {
    void *at;
    PH_TRY(copy(p, ph_turn_logits(t), (size_t)p->model->spec.text.vocab, sizeof(float), &at, err));
    *to = at;
    return PH_OK;
}

static ph_rc copy_prompt(ph_probe *p, const ph_turn *t, ph_err *err) {
    void          *at;
    const int32_t *ids = ph_turn_prompt_ids(t, &p->n_prompt);
    PH_TRY(copy(p, ids, p->n_prompt, sizeof *ids, &at, err));
    p->prompt = at;
    PH_TRY(copy(p, ph_turn_positions(t), p->n_prompt, sizeof *ph_turn_positions(t), &at, err));
    p->positions = at;
    p->next_position = ph_turn_next_position(t);
    return PH_OK;
}

static ph_rc copy_answer(ph_probe *p, const ph_turn *t, ph_err *err) {
    ph_answer a;
    void     *ids, *text;
    ph_turn_answer(t, &a);
    PH_TRY(copy(p, a.ids, a.n_ids, sizeof *a.ids, &ids, err));
    PH_TRY(copy(p, a.text, a.n_text, 1, &text, err));
    p->ids = ids;
    p->n_ids = a.n_ids;
    p->text = text;
    p->n_text = a.n_text;
    return PH_OK;
}

static ph_rc walk_to(ph_turn *t, ph_stage stage, ph_err *err) {
    while (ph_turn_stage(t) != stage && ph_turn_stage(t) != PH_STAGE_done) {
        ph_stage at = ph_turn_stage(t);
        ph_rc    rc = ph_turn_walk(&t, 1, err);
        if (rc) return ph_note(err, rc, "while at the stage %s", ph_stage_name[at]);
    }
    return PH_OK;
}

static ph_rc ask(ph_probe *p, ph_turn *t, const ph_question *q, ph_err *err) {
    PH_TRY(ph_turn_begin(t, q, err));
    PH_TRY(walk_to(t, PH_STAGE_sample, err));
    PH_TRY(copy_prompt(p, t, err));
    PH_TRY(copy_logits(p, t, &p->logits, err));
    PH_TRY(walk_to(t, PH_STAGE_done, err));
    PH_TRY(copy_logits(p, t, &p->final_logits, err));
    return copy_answer(p, t, err);
}

ph_rc ph_probe_ask(ph_probe *p, const ph_question *q, ph_err *err) {
    ph_turn *t;
    ph_arena_reset(&p->answer_arena);
    PH_TRY(ph_turn_open(&t, p->plain, err));
    ph_rc rc = ask(p, t, q, err);
    ph_turn_close(t);
    return rc;
}

static ph_rc room_for_rows(ph_probe *p, ph_err *err) {
    double **const to[] = {&p->rows.lse, &p->rows.gap, &p->rows.nll};
    for (int i = 0; i < 3; i++) {
        void *at;
        PH_TRY(ph_arena_carve(&p->answer_arena, &at, p->rows.n_ref + 1, sizeof(double), err));
        *to[i] = at;
    }
    return PH_OK;
}

ph_rc ph_probe_look(ph_probe *p, const ph_question *q, const ph_row_logits *rows, ph_err *err) {
    ph_turn *t;
    p->rows = *rows;
    p->rows.n = 0;
    PH_TRY(room_for_rows(p, err));
    for (size_t i = 0; i < p->n_seen; i++) p->seen[i].n = 0;
    PH_TRY(ph_turn_open(&t, p->tapped, err));
    p->is_recording = 1;
    ph_rc rc = ph_turn_begin(t, q, err);
    if (!rc) rc = walk_to(t, PH_STAGE_sample, err);
    p->is_recording = 0;
    for (size_t i = 0; i < p->n_seen && !rc; i++)
        if (p->seen[i].rc)
            rc = PH_FAIL(err, p->seen[i].rc, "the tap on %s ran out of room", p->seen[i].value);
    ph_turn_close(t);
    return rc;
}

/* ---- figures ---- */

void ph_probe_figure_ids(ph_report *r, const ph_probe *p, const int32_t *ref, size_t n) {
    ph_figure_ids(r, p->prompt, p->n_prompt, ref, n, "input_ids");
}

ph_rc ph_probe_figure_logits(ph_report *r, const float *ours, size_t vocab, const ph_weight *ref, double atol,
                             const char *what, ph_err *err) {
    PH_TRY(ph_same_count(vocab, ref, err));
    ph_figure(r, ph_gap_floats(ours, vocab, ref, 0).diff, atol, "%s", what);
    return PH_OK;
}

void ph_probe_figure_greedy(ph_report *r, const ph_probe *p, const int32_t *ref, size_t n, size_t stable,
                            int *is_same) {
    size_t same = 0;
    while (same < n && same < p->n_ids && p->ids[same] == ref[same]) same++;
    *is_same = same == n;
    if (stable > n) stable = n;
    if (same < stable)
        ph_case_fail(r, "greedy_ids: the answer parts from the reference at step %zu; %zu steps are stable",
                     same, stable);
    else if (!*is_same)
        ph_case_note(r, "greedy_ids part at step %zu, past the %zu stable ones", same, stable);
    ph_figure(r, (double)(same < stable ? stable - same : 0), 0, "greedy_ids: steps missing of %zu stable",
              stable);
}
