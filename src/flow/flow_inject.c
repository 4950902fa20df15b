/* flow_inject.c - models that take pooled features at a layer of the decoder (graph/inject.h): which features
 * each row takes, and where they stand.
 *
 *     features of all turns   [ .. | turn 0: picture, picture | .. | turn 1: picture | .. ]
 *     a row of turn 0              [begin                  end)
 *
 * All rows of a prompt and its answer take all visual tokens of its pictures, where the bridge has made them;
 * rows of a prompt without pictures take nothing and stay as they are.  What a row takes is part of its key:
 * it is not taken from the cache when it would be another's.
 *
 * One array of features is read in a run.  Turns whose features stand in one buffer (a turn alone, turns of a
 * pipeline) are read there; of turns with memory of their own they are gathered first.
 */
#include "flow/session.h"

#include <string.h>

static int injects(const ph_session *s) {
    return s->inject_in >= 0;
}

ph_rc ph_inject_check(const ph_session *s, ph_err *err) {
    if (!injects(s)) return PH_OK;
    int64_t d = s->language->value[s->inject_in].shape.dim[1].mul;
    if ((size_t)d == s->d_visual) return PH_OK;
    return PH_FAIL(
        err, PH_EUNSUP,
        "features of %zu numbers cannot be injected into rows of %lld: the decoder attends to them "
        "before they have its width",
        s->d_visual, (long long)d);
}

size_t ph_inject_rows(const ph_session *s) {
    size_t turns = (size_t)s->how.sequences, beside = (size_t)s->how.beside;
    return ph_session_features_rows(s) * (turns > beside ? turns : beside);
}

size_t ph_inject_gathered_bytes(const ph_session *s) {
    return injects(s) && s->how.sequences > 1 ? (size_t)s->how.sequences * ph_session_features_bytes(s) : 0;
}

int ph_inject_is_piece(const ph_turn *t) {
    if (!injects(t->session)) return 1;
    for (size_t i = 1; i < t->n_views; i++)
        if (t->view[i].row != t->view[i - 1].row + (size_t)t->view[i - 1].n_visual) return 0;
    return 1;
}

void ph_inject_begin(ph_turn *t) {
    uint64_t key = 0x510e527fade682d1u;
    t->inject = (ph_injected){0};
    if (!injects(t->session) || !t->n_views) return;
    const ph_view *last = &t->view[t->n_views - 1];
    for (size_t i = 0; i < t->n_views; i++)
        for (int k = 0; k < 2; k++) {
            key = (key ^ t->view[i].key[k]) * 0x9e3779b97f4a7c15u;
            key ^= key >> 29;
        }
    t->inject =
        (ph_injected){.begin = t->view[0].row, .end = last->row + (size_t)last->n_visual, .key = key | 1};
}

/* Do all turns that take features have them in the memory of the first of these? */
static const ph_turn *one_memory(ph_turn *const *turns, size_t n, int *is_one) {
    const ph_turn *first = NULL;
    *is_one = 1;
    for (size_t i = 0; i < n; i++) {
        if (turns[i]->inject.begin == turns[i]->inject.end) continue;
        if (!first) first = turns[i];
        *is_one &= turns[i]->features == first->features;
    }
    return first;
}

static size_t gather(ph_session *s, ph_turn *const *turns, size_t n) {
    size_t at = 0, d = s->d_visual;
    float *to = s->gathered.at;
    for (size_t i = 0; i < n; i++) {
        ph_injected *x = &turns[i]->inject;
        size_t       rows = x->end - x->begin;
        x->at = at;
        if (rows) memcpy(to + at * d, turns[i]->features + x->begin * d, rows * d * sizeof *to);
        ph_trace_add(s->trace, "border bytes copied", rows * d * sizeof *to);
        at += rows;
    }
    for (size_t i = 0; i < n; i++)
        if (at > turns[i]->done.gathered) turns[i]->done.gathered = at;
    return at;
}

ph_rc ph_inject_lend(ph_session *s, ph_turn *const *turns, size_t n, ph_syms *syms, ph_err *err) {
    const ph_ready *r = &s->part[PH_PART_LANGUAGE];
    int             is_one;
    size_t          rows = 0;
    if (!injects(s)) return PH_OK;
    const ph_turn *first = one_memory(turns, n, &is_one);
    float         *at = first ? first->features : turns[0]->features;
    if (is_one) {
        for (size_t i = 0; i < n; i++) {
            turns[i]->inject.at = turns[i]->inject.begin;
            if (turns[i]->inject.end > rows) rows = turns[i]->inject.end;
        }
    } else {
        rows = gather(s, turns, n);
        at = s->gathered.at;
    }
    syms->at[PH_SYM_N] = (int64_t)rows;
    return r->engine->def->lend(r->program, s->inject_in, at, err);
}
