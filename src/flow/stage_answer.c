/* stage_answer.c - sample and speak: logits become an id, the id becomes whole characters for the caller. */
#include "flow/session.h"

#include <string.h>

static ph_rc sample_one(ph_turn *t, ph_err *err) {
    const ph_session *s = t->session;
    if (t->question->cancel && atomic_load(t->question->cancel)) {
        t->stop = PH_STOP_CANCEL;
        return PH_OK;
    }
    /* What has been said is the whole sequence, prompt and answer: it stands in id[0 .. at). */
    t->next = ph_sampler_next(&t->sampler, t->logits, t->id, t->at);
    if (t->next < 0)
        return PH_FAIL(err, PH_EFORMAT,
                       "no logit behind token %zu is a number: the model's files are damaged, or its numbers "
                       "too large; fetch them again",
                       t->at);
    if (!t->question->ignore_stop && ph_model_is_stop(s->model, t->next))
        t->stop = PH_STOP_TOKEN;
    else
        t->answer[t->n_answer++] = t->next;
    return PH_OK;
}

ph_rc ph_sample(ph_turn *const *turns, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++) {
        PH_TRY(sample_one(turns[i], err));
        turns[i]->stage = PH_STAGE_speak;
    }
    return PH_OK;
}

/* The listener of the turn's speaker: keep the text, hand it on.  Models whose template ends in a word
 * ("ASSISTANT:") begin with a space; a conversation's answer begins with its first character.  A raw prompt's
 * goes on as it is. */
int ph_turn_hear(void *arg, const char *piece, size_t n) {
    ph_turn *t = arg;
    while (n && !t->n_text && t->question->n_messages && !t->question->raw &&
           (*piece == ' ' || *piece == '\n'))
        piece++, n--;
    if (!n) return 0;
    size_t room = t->text_max - t->n_text;
    memcpy(t->text + t->n_text, piece, n < room ? n : room);
    t->n_text += n < room ? n : room;
    t->text[t->n_text] = 0;
    return t->question->piece ? t->question->piece(t->question->arg, piece, n) : 0;
}

/* Why the answer ends after the id that was just said; NONE: it goes on. */
static ph_stop reason(const ph_turn *t, int is_over) {
    if (t->stop) return t->stop;
    if (is_over) return ph_speaker_stopped_by(t->speaker) ? PH_STOP_WORD : PH_STOP_CANCEL;
    if (t->question->answer_max > 0 && t->n_answer >= (size_t)t->question->answer_max) return PH_STOP_LENGTH;
    if (t->at >= (size_t)t->session->how.context) return PH_STOP_CONTEXT;
    return PH_STOP_NONE;
}

ph_rc ph_speak(ph_turn *const *turns, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        int      is_over = 0;
        if (!t->stop) PH_TRY(ph_speaker_push(t->speaker, t->next, &is_over, err));
        t->stop = reason(t, is_over);
        t->stage = PH_STAGE_step;
        if (!t->stop) continue;
        /* What was kept back may yet hold a stop word. */
        if (!is_over) PH_TRY(ph_speaker_end(t->speaker, &is_over, err));
        if (ph_speaker_stopped_by(t->speaker)) t->stop = PH_STOP_WORD;
        t->stage = PH_STAGE_done;
    }
    return PH_OK;
}
