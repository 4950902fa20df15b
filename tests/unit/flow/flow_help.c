/* flow_help.c - models, pictures, and driving turns stage by stage; see flow_help.h. */
#include "tests/unit/flow/flow_help.h"

#include "flow/session.h"

#include <stdlib.h>
#include <string.h>

void fh_say(const ph_err *e) {
    ut_failed++;
    printf("%s: %s\n", ph_rc_name(e->code), e->msg);
    for (int i = 0; i < e->n_notes; i++) printf("  %s\n", e->note[i]);
}

ph_model *fh_model(const char *path) {
    ph_err    e = {0};
    ph_model *m;
    if (ph_model_open(&m, path, NULL, &e)) fh_say(&e);
    return m;
}

ph_session *fh_session(const ph_model *m, const ph_session_options *o) {
    ph_err      e = {0};
    ph_session *s = NULL;
    if (m && ph_session_open(&s, m, o, &e)) fh_say(&e);
    return s;
}

ph_turn *fh_turn(ph_session *s) {
    ph_err   e = {0};
    ph_turn *t = NULL;
    if (s && ph_turn_open(&t, s, &e)) fh_say(&e);
    return t;
}

void fh_ask(fh_talk *t, const char *const *pictures, const char *text) {
    ph_err e = {0};
    size_t n = 0;
    memset(t, 0, sizeof *t);
    for (; pictures && pictures[n]; n++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", strchr(pictures[n], '/') ? "" : FH_IMAGES, pictures[n]);
        if (ph_file_open(&t->file[n], path, &e)) fh_say(&e);
        t->picture[n] = (ph_picture){.bytes = t->file[n].bytes, .n = t->file[n].n, .name = pictures[n]};
        t->part[0][n] = (ph_chat_part){0};
    }
    t->part[0][n] = (ph_chat_part){.text = text, .n = strlen(text)};
    t->message[0] = (ph_chat_message){.role = "user", .parts = t->part[0], .n_parts = n + 1};
    t->q = (ph_question){.messages = t->message,
                         .n_messages = 1,
                         .pictures = t->picture,
                         .n_pictures = n,
                         .answer_max = 12,
                         .ignore_stop = 1};
}

void fh_add(fh_talk *t, const char *role, const char *text) {
    size_t i = t->q.n_messages++;
    t->part[i][0] = (ph_chat_part){.text = text, .n = strlen(text)};
    t->message[i] = (ph_chat_message){.role = role, .parts = t->part[i], .n_parts = 1};
}

void fh_close(fh_talk *t) {
    for (size_t i = 0; i < FH_PICTURES; i++) ph_file_close(&t->file[i]);
}

void fh_forget(fh_answer *a) {
    free(a->logits);
    memset(a, 0, sizeof *a);
}

static void keep_logits(fh_answer *a, const ph_turn *t) {
    size_t vocab = (size_t)t->session->model->spec.text.vocab;
    float *more = realloc(a->logits, (a->n_logits + vocab) * sizeof *more);
    if (!more) abort();
    memcpy(more + a->n_logits, ph_turn_logits(t), vocab * sizeof *more);
    a->logits = more;
    a->n_logits += vocab;
}

static void keep_answer(fh_answer *a, const ph_turn *t) {
    ph_answer got;
    ph_turn_answer(t, &got);
    a->n = got.n_ids < FH_IDS ? got.n_ids : FH_IDS;
    memcpy(a->id, got.ids, a->n * sizeof *a->id);
    a->n_text = got.n_text < sizeof a->text ? got.n_text : sizeof a->text - 1;
    memcpy(a->text, got.text, a->n_text);
    a->text[a->n_text] = 0;
    a->prompt = got.prompt_tokens;
    a->image = got.image_tokens;
    a->cached = got.cached_tokens;
    a->stop = got.stop;
}

ph_rc fh_drive(ph_turn *t, const fh_talk *talk, fh_answer *out, ph_err *err) {
    ph_rc rc = ph_turn_begin(t, &talk->q, err);
    memset(out, 0, sizeof *out);
    while (!rc && ph_turn_stage(t) != PH_STAGE_done) {
        if (ph_turn_stage(t) == PH_STAGE_sample) keep_logits(out, t);
        rc = ph_turn_walk(&t, 1, err);
    }
    if (!rc) keep_answer(out, t);
    return rc;
}

/* What stands in the session's scratch must be taken before another run: features and logits first. */
static ph_stage pick(ph_turn *const *t, size_t n, size_t round) {
    static const ph_stage first[] = {PH_STAGE_drop, PH_STAGE_bridge, PH_STAGE_sample, PH_STAGE_speak};
    for (size_t k = 0; k < sizeof first / sizeof *first; k++)
        for (size_t i = 0; i < n; i++)
            if (ph_turn_stage(t[i]) == first[k]) return first[k];
    for (size_t i = 0; i < n; i++) { /* else each in its turn */
        ph_stage s = ph_turn_stage(t[(i + round) % n]);
        if (s != PH_STAGE_done) return s;
    }
    return PH_STAGE_done;
}

ph_rc fh_drive_many(ph_turn *const *t, fh_talk *const *talk, fh_answer *out, size_t n, int apart,
                    ph_err *err) {
    size_t   begun = 0, round = 0;
    ph_turn *group[8];
    for (size_t i = 0; i < n; i++) memset(&out[i], 0, sizeof out[i]);
    for (;; round++) {
        while (begun < n && round >= begun * (size_t)apart) {
            PH_TRY(ph_turn_begin(t[begun], &talk[begun]->q, err));
            begun++;
        }
        ph_stage s = pick(t, begun, round);
        size_t   together = 0;
        if (s == PH_STAGE_done && begun == n) break;
        for (size_t i = 0; i < begun && together < 8; i++)
            if (s != PH_STAGE_done && ph_turn_stage(t[i]) == s) {
                if (s == PH_STAGE_sample) keep_logits(&out[i], t[i]);
                group[together++] = t[i];
            }
        if (together) PH_TRY(ph_turn_walk(group, together, err));
    }
    for (size_t i = 0; i < n; i++) keep_answer(&out[i], t[i]);
    return PH_OK;
}

int fh_same(const fh_answer *a, const fh_answer *b, const char *what) {
    int same = a->n == b->n && !memcmp(a->id, b->id, a->n * sizeof *a->id);
    CHECK_SAY(same, "%s: other ids", what);
    CHECK_SAY(a->stop == b->stop, "%s: stopped by %s and %s", what, ph_stop_name[a->stop],
              ph_stop_name[b->stop]);
    CHECK_SAY(a->n_text == b->n_text && !memcmp(a->text, b->text, a->n_text), "%s: '%s' and '%s'", what,
              a->text, b->text);
    CHECK_SAY(a->n_logits == b->n_logits && a->n_logits, "%s: %zu and %zu logits", what, a->n_logits,
              b->n_logits);
    if (a->n_logits != b->n_logits) return 0;
    for (size_t i = 0; i < a->n_logits; i++)
        if (memcmp(&a->logits[i], &b->logits[i], sizeof *a->logits)) {
            CHECK_SAY(0, "%s: logit %zu of %zu is %.9g and %.9g", what, i, a->n_logits, (double)a->logits[i],
                      (double)b->logits[i]);
            return 0;
        }
    return same;
}
