/* stage_run.c - prefill and step: rows of all turns through the language graph.
 *
 * A run takes rows [R, d]: chunks of prompts and single tokens alike, from any
 * number of turns, without padding.  Each row says which sequence it belongs to,
 * where its key goes and what it sees; a row's result does not depend on its
 * neighbours, so chunking and batching never change an answer.
 */
#include "flow/session.h"

#include <string.h>

/* The inputs of one run, being filled. */
typedef struct batch {
    ph_session *s;
    int32_t    *ids, *rows, *out_rows, *visual_rows; /* the program's own buffers */
    float      *visual;
    float      *cross_seen; /* [R], or NULL; so below */
    int32_t    *positions;
    int32_t    *inject; /* [R, 2], or NULL */
    ph_syms     syms;
    const float
        *first_visual; /* of a run of features that stand one after the other; NULL: they are gathered */
    int  is_scattered;
} batch;

static ph_rc begin(batch *b, ph_session *s, int64_t rows, int64_t wanted, int64_t visual, ph_err *err) {
    ph_ready *r = &s->part[PH_PART_LANGUAGE];
    ph_syms   most = {{0}};
    most.at[PH_SYM_R] = rows;
    most.at[PH_SYM_S] = wanted;
    most.at[PH_SYM_V] = s->visual_in >= 0 ? visual : 0;
    if (s->inject_in >= 0) most.at[PH_SYM_N] = (int64_t)ph_inject_rows(s);
    PH_TRY(ph_part_ready(s, PH_PART_LANGUAGE, &most, err));
    const struct ph_engine_def *def = r->engine->def;
    const ph_ready             *e = &s->part[s->embed ? PH_PART_EMBED : PH_PART_LANGUAGE];
    if (s->embed) PH_TRY(ph_part_ready(s, PH_PART_EMBED, &most, err));
    *b = (batch){.s = s,
                 .ids = e->engine->def->buffer(e->program, s->ids),
                 .rows = def->buffer(r->program, s->rows),
                 .out_rows = def->buffer(r->program, s->out_rows)};
    if (s->cross_seen >= 0) b->cross_seen = def->buffer(r->program, s->cross_seen);
    if (s->positions >= 0) b->positions = def->buffer(r->program, s->positions);
    if (s->inject_rows >= 0) b->inject = def->buffer(r->program, s->inject_rows);
    if (s->visual_in < 0) return PH_OK;
    PH_TRY(def->lend(r->program, s->visual_in, NULL, err));
    b->visual_rows = def->buffer(r->program, s->visual_rows);
    b->visual = def->buffer(r->program, s->visual_in);
    return PH_OK;
}

static void add_visual(batch *b, ph_turn *t, int32_t feature, int32_t row) {
    size_t       d = (size_t)b->s->model->spec.text.d_model, v = (size_t)b->syms.at[PH_SYM_V]++;
    const float *x = t->features + (size_t)feature * d;
    b->visual_rows[v] = row;
    if (!v) b->first_visual = x;
    if (!b->is_scattered && x == b->first_visual + v * d) return;
    size_t so_far = b->is_scattered ? 0 : v * d * sizeof *x; /* those were in one piece */
    if (so_far) memcpy(b->visual, b->first_visual, so_far);
    b->is_scattered = 1;
    memcpy(b->visual + v * d, x, d * sizeof *x);
    ph_trace_add(b->s->trace, "border bytes copied", so_far + d * sizeof *x);
}

/* Row `index` of the turn's sequence, as it was spliced or said. */
static void add_row(batch *b, ph_turn *t, size_t index, int is_wanted) {
    int32_t  r = (int32_t)b->syms.at[PH_SYM_R]++;
    int32_t *row = b->rows + (size_t)r * PH_ROW_FIELDS;
    memset(row, 0, PH_ROW_FIELDS * sizeof *row);
    b->ids[r] = t->id[index];
    row[PH_ROW_SEQUENCE] = t->sequence;
    row[PH_ROW_INDEX] = (int32_t)index;
    row[PH_ROW_POS_T] = t->position[index][0];
    row[PH_ROW_POS_H] = t->position[index][1];
    row[PH_ROW_POS_W] = t->position[index][2];
    row[PH_ROW_SPAN] = t->span[index];
    row[PH_ROW_BACK] = t->back[index];
    row[PH_ROW_KIND] = t->feature[index] >= 0;
    if (t->sight) {
        row[PH_ROW_CROSS_BEGIN] = t->sight[index].begin;
        row[PH_ROW_CROSS_END] = t->sight[index].end;
    }
    if (b->cross_seen) b->cross_seen[r] = t->sight && t->sight[index].sees ? 1.0F : 0.0F;
    if (b->positions) b->positions[r] = t->position[index][0];
    if (b->inject) {
        b->inject[2 * r] = (int32_t)t->inject.at;
        b->inject[2 * r + 1] = (int32_t)(t->inject.at + t->inject.end - t->inject.begin);
    }
    if (t->feature[index] >= 0) add_visual(b, t, t->feature[index], r);
    if (is_wanted) b->out_rows[b->syms.at[PH_SYM_S]++] = r;
}

/* Rows of ids by a part of its own: the language part reads them where they are made. */
static ph_rc embed(const batch *b, const atomic_int *cancel, ph_err *err) {
    ph_session *s = b->s;
    ph_ready   *e = &s->part[PH_PART_EMBED], *r = &s->part[PH_PART_LANGUAGE];
    ph_syms     syms = {{0}};
    syms.at[PH_SYM_R] = b->syms.at[PH_SYM_R];
    PH_TRY(ph_part_run(s, PH_PART_EMBED, &syms, cancel, err));
    return r->engine->def->lend(r->program, s->embedded_in, e->engine->def->buffer(e->program, s->embedded),
                                err);
}

static ph_rc run(batch *b, const atomic_int *cancel, const float **logits, ph_err *err) {
    ph_ready *r = &b->s->part[PH_PART_LANGUAGE];
    if (b->s->embed) PH_TRY(embed(b, cancel, err));
    if (b->syms.at[PH_SYM_V] && !b->is_scattered)
        PH_TRY(r->engine->def->lend(r->program, b->s->visual_in, (void *)(uintptr_t)b->first_visual, err));
    PH_TRY(ph_part_run(b->s, PH_PART_LANGUAGE, &b->syms, cancel, err));
    *logits = r->engine->def->buffer(r->program, b->s->logits);
    return PH_OK;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A span that sees itself both ways is never cut: all its keys must stand before any of its rows attends. */
static size_t whole_spans(const ph_turn *t, size_t n) {
    while (n && t->at + n < t->n_prompt && t->back[t->at + n] > 0) n--;
    return n;
}

/* A turn's part of a chunk. */
static ph_rc add_prompt(batch *b, ph_turn *t, size_t n, ph_err *err) {
    PH_TRY(ph_kv_extend(b->s->kv, t->sequence, (int)(t->at + n), err));
    for (size_t i = t->at; i < t->at + n; i++) add_row(b, t, i, b->s->how.all_logits || i + 1 == t->n_prompt);
    return PH_OK;
}

static void done(ph_turn *t, const batch *b, size_t from) {
    ph_done *d = &t->done;
    size_t   first = from / PH_KV_PAGE, last = (t->at - 1) / PH_KV_PAGE;
    if (t->at > from && last > first + 1 && last - first - 1 > d->staged) d->staged = last - first - 1;
    if (b->syms.at[PH_SYM_R] > d->chunk) d->chunk = (int)b->syms.at[PH_SYM_R];
    if (b->syms.at[PH_SYM_S] > d->logits) d->logits = (int)b->syms.at[PH_SYM_S];
}

ph_rc ph_prefill(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session  *s = turns[0]->session;
    size_t       width = s->n_out, rows = 0, chunk = (size_t)s->how.chunk, wanted = 0;
    const float *logits;
    batch        b;
    for (size_t i = 0; i < n; i++) PH_TRY(ph_cross_fill(turns[i], err));
    for (size_t i = 0; i < n; i++) rows += turns[i]->n_prompt - turns[i]->at;
    rows = smaller(rows, chunk);
    PH_TRY(begin(&b, s, (int64_t)rows, (int64_t)(s->how.all_logits ? rows : smaller(n, rows)), (int64_t)rows,
                 err));
    PH_TRY(ph_inject_lend(s, turns, n, &b.syms, err));
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        t->take = whole_spans(t, smaller(t->n_prompt - t->at, rows - (size_t)b.syms.at[PH_SYM_R]));
        if (t->take) PH_TRY(add_prompt(&b, t, t->take, err));
    }
    if (!b.syms.at[PH_SYM_R])
        return PH_FAIL(err, PH_ELIMIT,
                       "a picture of this model takes more tokens that must be run together than a chunk "
                       "holds (%zu): give a larger --chunk",
                       chunk);
    PH_TRY(run(&b, turns[0]->question->cancel, &logits, err));
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        int      is_over = t->take && t->at + t->take == t->n_prompt;
        if (s->how.all_logits)
            wanted += t->take;
        else
            wanted += (size_t)is_over;
        t->at += t->take;
        t->n_kept = t->at;
        done(t, &b, t->at - t->take);
        if (!is_over) continue;
        t->logits = logits + (wanted - 1) * width;
        t->stage = PH_STAGE_sample;
    }
    return PH_OK;
}

/* The id that was said is the next row. */
static void set_said(ph_turn *t) {
    size_t i = t->at;
    t->id[i] = t->next;
    t->feature[i] = -1;
    t->key[i] = ph_turn_text_key(t->next);
    if (t->sight) { /* the reference shows what the last row of the prompt saw */
        t->sight[i] = t->sight[i - 1];
        t->key[i] = ph_turn_sight_key(t->key[i], &t->sight[i]);
    }
    t->key[i] = ph_turn_inject_key(t, t->key[i]);
    t->back[i] = 0;
    t->span[i] = (int32_t)i + 1;
    t->position[i][0] = t->position[i][1] = t->position[i][2] = t->next_position;
}

ph_rc ph_step(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session  *s = turns[0]->session;
    const float *logits;
    batch        b;
    PH_TRY(begin(&b, s, (int64_t)n, (int64_t)n, 0, err));
    PH_TRY(ph_inject_lend(s, turns, n, &b.syms, err));
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        PH_TRY(ph_kv_extend(s->kv, t->sequence, (int)(t->at + 1), err));
        set_said(t);
        add_row(&b, t, t->at, 1);
    }
    PH_TRY(run(&b, turns[0]->question->cancel, &logits, err));
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        t->next_position++;
        t->n_kept = ++t->at;
        t->logits = logits + i * s->n_out;
        t->stage = PH_STAGE_sample;
        done(t, &b, t->at - 1);
    }
    return PH_OK;
}
