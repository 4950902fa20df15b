/* flow_embed.c - vectors of dual encoders, through the corridor's own stages.
 *
 *     picture  decode ► prepare ► see ► drop ► bridge            the bridge's one token is the vector
 *     text     decode ► prepare ► see ► splice ► prefill         the pooled row's output is the vector
 *
 * A text is cut behind the row that is pooled where rows see only what came before: what follows cannot
 * change it.  There is no second pipeline: the same programs, scratch and cache serve as for answers.
 */
#include "flow/session.h"

#include "text/canonical.h"

#include <math.h>
#include <string.h>

int ph_session_embedding(const ph_session *s) {
    return s->model->spec.embed.d;
}

static ph_rc walk(ph_turn *t, const ph_question *q, ph_stage until, ph_err *err) {
    if (!t->session->model->spec.embed.d)
        return PH_FAIL(err, PH_EUNSUP, "%s answers; it places no texts and pictures side by side",
                       t->session->model->source.path);
    PH_TRY(ph_turn_begin(t, q, err));
    while (t->stage != until && t->stage != PH_STAGE_done) PH_TRY(ph_turn_walk(&t, 1, err));
    return PH_OK;
}

static void end(ph_turn *t) {
    ph_turn_abandon(t);
    t->question = NULL;
}

/* The vector of d numbers, if they are numbers. */
static ph_rc give(float *out, const float *from, size_t d, ph_err *err) {
    for (size_t i = 0; i < d; i++)
        if (!isfinite(from[i]))
            return PH_FAIL(
                err, PH_EFORMAT,
                "the vector's element %zu is %g: the model's files are damaged, or its numbers too "
                "large; fetch them again",
                i, (double)from[i]);
    memcpy(out, from, d * sizeof *out);
    return PH_OK;
}

ph_rc ph_embed_picture(ph_turn *t, const ph_picture *picture, float *out, ph_err *err) {
    const ph_question q = {.pictures = picture, .n_pictures = 1, .raw = "", .is_embedding = 1};
    size_t            d = t->session->d_visual;
    ph_rc             rc = walk(t, &q, PH_STAGE_splice, err);
    if (!rc) rc = give(out, t->features + t->view[0].row * d, d, err);
    end(t);
    return rc;
}

/* ---- texts ---- */

static ph_rc encode(const ph_model *m, const char *text, size_t n, ph_ids *ids, ph_err *err) {
    ph_bytes clean = {0};
    if (!m->spec.embed.is_canonical)
        return ph_tokenizer_encode(m->tokenizer, text, n, PH_ENCODE_SPECIAL, ids, err);
    ph_rc rc = ph_text_canonical(text, n, &clean, err);
    if (!rc)
        rc = ph_tokenizer_encode(m->tokenizer, (const char *)clean.at, clean.n, PH_ENCODE_SPECIAL, ids, err);
    ph_bytes_close(&clean);
    return rc;
}

ph_rc ph_embed_tokenize(const ph_model *m, const char *text, size_t n, ph_ids *ids, ph_err *err) {
    const ph_embed_spec *e = &m->spec.embed;
    size_t               first = ids->n;
    PH_TRY(encode(m, text, n, ids, err));
    if (e->pad < 0) return PH_OK;
    if (ids->n == first || ids->at[ids->n - 1] != e->pad) /* the end of a text is a pad as well */
        PH_TRY(ph_ids_push(ids, e->pad, err));
    while (ids->n - first < (size_t)m->spec.text.context) PH_TRY(ph_ids_push(ids, e->pad, err));
    return PH_OK;
}

/* Rows that are run: up to the one that is pooled. */
static size_t pooled(const ph_embed_spec *e, const int32_t *ids, size_t n) {
    size_t at = 0;
    if (e->pool == PH_POOL_LAST) return n;
    if (e->pool == PH_POOL_LARGEST) {
        for (size_t i = 0; i < n; i++)
            if (ids[i] > ids[at]) at = i;
        return n ? at + 1 : 0;
    }
    while (at < n && ids[at] != e->pool) at++;
    return at < n ? at + 1 : 1; /* the reference takes the first row where there is none */
}

ph_rc ph_embed_ids(ph_turn *t, const int32_t *ids, size_t n, float *out, ph_err *err) {
    const ph_embed_spec *e = &t->session->model->spec.embed;
    const ph_question    q = {.ids = ids, .n_ids = pooled(e, ids, n), .is_embedding = 1};
    ph_rc                rc = walk(t, &q, PH_STAGE_sample, err);
    if (!rc) rc = give(out, t->logits, t->session->n_out, err);
    end(t);
    return rc;
}

ph_rc ph_embed_text(ph_turn *t, const char *text, size_t n, float *out, ph_err *err) {
    ph_ids ids = {0};
    ph_rc  rc = ph_embed_tokenize(t->session->model, text, n, &ids, err);
    if (!rc) rc = ph_embed_ids(t, ids.at, ids.n, out, err);
    ph_ids_close(&ids);
    return rc;
}

/* ---- what vectors say ---- */

double ph_embed_cosine(const float *a, const float *b, int n) {
    double dot = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : 0;
}

void ph_embed_scores(const ph_model *m, const double *cosine, size_t n_texts, double *score) {
    const ph_embed_spec *e = &m->spec.embed;
    double               most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n_texts; i++) {
        score[i] = cosine[i] * e->scale + e->bias;
        if (score[i] > most) most = score[i];
    }
    for (size_t i = 0; i < n_texts; i++) {
        score[i] = e->is_sigmoid ? 1 / (1 + exp(-score[i])) : exp(score[i] - most);
        sum += score[i];
    }
    for (size_t i = 0; i < n_texts && !e->is_sigmoid; i++) score[i] /= sum;
}
