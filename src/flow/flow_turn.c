/* flow_turn.c - a turn's memory, its beginning and its end.
 *
 * All that a turn needs is reserved when it is opened, for the longest context,
 * and becomes memory where it is touched; so a token costs no malloc.
 */
#include "flow/session.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Room for the text of an answer: a token's piece is seldom longer than this on average. */
enum { BYTES_A_TOKEN = 64 };

typedef struct room {
    size_t         used;
    unsigned char *at; /* NULL: only count */
} room;

static void *carve(room *r, size_t bytes) {
    void *p = r->at ? r->at + r->used : NULL;
    r->used += ph_round_up(bytes, PH_ALIGN);
    return p;
}

/* The same code counts and places. */
static size_t lay_out(ph_turn *t, unsigned char *at) {
    const ph_session *s = t->session;
    size_t            n = (size_t)s->how.context + 1, vocab = (size_t)s->model->spec.text.vocab;
    room              r = {.at = at};
    t->id = carve(&r, n * sizeof *t->id);
    t->feature = carve(&r, n * sizeof *t->feature);
    t->position = carve(&r, n * sizeof *t->position);
    t->span = carve(&r, n * sizeof *t->span);
    t->back = carve(&r, n * sizeof *t->back);
    t->key = carve(&r, n * sizeof *t->key);
    t->answer = carve(&r, n * sizeof *t->answer);
    t->text_max = n * BYTES_A_TOKEN;
    t->text = carve(&r, t->text_max + 1);
    t->sampler_scratch = carve(&r, ph_sampler_bytes(vocab));
    t->features = s->model->vision ? carve(&r, ph_session_features_bytes(s)) : NULL;
    t->sight = s->model->cross ? carve(&r, n * sizeof *t->sight) : NULL;
    return r.used;
}

static ph_rc take_sequence(ph_turn *t, ph_err *err) {
    ph_session *s = t->session;
    int         beside = -1;
    PH_TRY(ph_kv_begin(s->kv, &t->sequence, err));
    if (s->cross) PH_TRY(ph_kv_begin(s->cross, &beside, err));
    if (s->cross && beside != t->sequence)
        return PH_FAIL(err, PH_EBUG, "sequence %d of one cache is %d of the other", t->sequence, beside);
    return PH_OK;
}

static ph_rc reserve(ph_turn *t, ph_err *err) {
    PH_TRY(ph_region_open(&t->memory, lay_out(t, NULL), err));
    lay_out(t, t->memory.at);
    PH_TRY(ph_arena_open_growing(&t->picture_arena, 64 << 10, err));
    return ph_arena_open_growing(&t->text_arena, 64 << 10, err);
}

static ph_rc open_turn(ph_turn **out, ph_session *s, int has_sequence, ph_err *err) {
    ph_turn *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return PH_FAIL(err, PH_ENOMEM, "a turn's tables");
    t->session = s;
    t->sequence = -1;
    t->stage = PH_STAGE_done;
    ph_rc rc = has_sequence ? take_sequence(t, err) : PH_OK;
    if (!rc) rc = reserve(t, err);
    if (rc) {
        ph_turn_close(t);
        return rc;
    }
    s->n_turns++;
    *out = t;
    return PH_OK;
}

ph_rc ph_turn_open(ph_turn **out, ph_session *s, ph_err *err) {
    return open_turn(out, s, 1, err);
}
ph_rc ph_turn_open_beside(ph_turn **out, ph_session *s, ph_err *err) {
    return open_turn(out, s, 0, err);
}

void ph_turn_lend(ph_turn *t, float *at, size_t first, ph_turn *const *peer, size_t n, size_t own) {
    t->features = at;
    t->features_first = first;
    t->peer = peer;
    t->n_peers = n < PH_PEERS_MAX ? n : PH_PEERS_MAX;
    t->own = own;
}

void ph_turn_succeed(ph_turn *t, ph_turn *before) {
    ph_turn_lend(t, before->features, before->features_first, before->peer, before->n_peers, before->own);
    t->features_rows = before->features_rows;
    memcpy(t->old, before->view, before->n_views * sizeof *t->old);
    t->n_old = before->n_views;
    ph_turn_lend(before, NULL, 0, NULL, 0, 0);
    before->n_views = before->n_old = 0;
}

uint64_t ph_turn_borrows(const ph_turn *t) {
    return t->borrows;
}

#define SWAP(type, x)                                                                                        \
    do {                                                                                                     \
        type swapped = a->x;                                                                                 \
        a->x = b->x;                                                                                         \
        b->x = swapped;                                                                                      \
    } while (0)

void ph_turn_swap_cache(ph_turn *a, ph_turn *b) {
    SWAP(int, sequence);
    SWAP(int32_t *, id);
    SWAP(int32_t *, feature);
    SWAP(int32_t *, span);
    SWAP(int32_t *, back);
    SWAP(uint64_t *, key);
    SWAP(ph_sight *, sight);
    SWAP(size_t, n_kept);
    SWAP(size_t, cross_most);
    SWAP(uint64_t, cross_key);
    int32_t(*position)[3] = a->position;
    a->position = b->position;
    b->position = position;
}

void ph_turn_close(ph_turn *t) {
    if (!t) return;
    if (t->sequence >= 0) ph_kv_end(t->session->kv, t->sequence);
    if (t->sequence >= 0 && t->session->cross) ph_kv_end(t->session->cross, t->sequence);
    ph_speaker_close(t->speaker);
    ph_arena_close(&t->picture_arena);
    ph_arena_close(&t->text_arena);
    ph_region_close(&t->memory);
    free(t);
}

static int frames_of(const ph_picture *p) {
    return p->n_frames > 1 ? p->n_frames : 1;
}

static ph_rc check_pictures(const ph_question *q, ph_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < q->n_pictures && n <= PH_PICTURES_MAX;
         i += (size_t)frames_of(&q->pictures[i]), n++)
        if ((size_t)frames_of(&q->pictures[i]) > q->n_pictures - i)
            return PH_FAIL(err, PH_EUSAGE, "a video of %d frames, but only %zu pictures follow",
                           q->pictures[i].n_frames, q->n_pictures - i);
    if (n <= PH_PICTURES_MAX) return PH_OK;
    return PH_FAIL(err, PH_ELIMIT, "more than %d pictures in one prompt", PH_PICTURES_MAX);
}

static void take_pictures(ph_turn *t, const ph_question *q) {
    t->n_views = 0;
    for (size_t i = 0; i < q->n_pictures; i += (size_t)frames_of(&q->pictures[i]))
        t->view[t->n_views++] = (ph_view){
            .file = q->pictures[i], .frame = &q->pictures[i], .n_frames = frames_of(&q->pictures[i])};
    t->n_stretches = 0;
    if (q->sound)
        t->view[t->n_views++] =
            (ph_view){.file = {.bytes = q->sound->bytes, .n = q->sound->n, .name = q->sound->name},
                      .is_sound = 1,
                      .stretch = q->sound->stretch};
}

static ph_rc check(const ph_turn *t, const ph_question *q, ph_err *err) {
    PH_TRY(check_pictures(q, err));
    if (q->sound && q->n_pictures)
        return PH_FAIL(err, PH_EUSAGE, "a question about a sound and pictures: no model here takes both");
    if (q->answer_max < 0) return PH_FAIL(err, PH_EUSAGE, "an answer of %d tokens", q->answer_max);
    if (!q->ids && !q->raw && !q->n_messages)
        return PH_FAIL(err, PH_EUSAGE, "an empty conversation: there is nothing to answer");
    if (t->session->model->spec.embed.d && !q->is_embedding)
        return PH_FAIL(err, PH_EUNSUP,
                       "%s places texts and pictures side by side; it does not answer: use pinhole embed",
                       t->session->model->source.path);
    return ph_sampling_check(&q->sampling, err);
}

ph_rc ph_turn_begin(ph_turn *t, const ph_question *q, ph_err *err) {
    PH_TRY(check(t, q, err));
    ph_speaker_close(t->speaker);
    t->speaker = NULL;
    PH_TRY(ph_speaker_open(&t->speaker, t->session->model->tokenizer, 1, q->stop, q->n_stop, ph_turn_hear, t,
                           err));
    ph_speaker_begin(t->speaker);
    ph_sampler_init(&t->sampler, &q->sampling, t->sampler_scratch,
                    (size_t)t->session->model->spec.text.vocab);
    memcpy(t->old, t->view, t->n_views * sizeof *t->view);
    t->n_old = t->n_views;
    t->borrows = 0;
    t->is_placed = 0;
    take_pictures(t, q);
    t->question = q;
    t->stop = PH_STOP_NONE;
    t->n_answer = t->n_text = 0;
    t->text[0] = 0;
    t->n_image_tokens = 0;
    t->logits = NULL;
    memset(t->stage_ms, 0, sizeof t->stage_ms);
    memset(&t->done, 0, sizeof t->done);
    ph_arena_reset(&t->picture_arena);
    ph_arena_reset(&t->text_arena);
    t->stage = PH_STAGE_decode;
    return PH_OK;
}

void ph_turn_abandon(ph_turn *t) {
    t->stage = PH_STAGE_done;
    t->stop = PH_STOP_CANCEL;
    /* Pictures half seen are not taken for seen; the cache is as long as what ran to its end. */
    for (size_t i = 0; i < t->n_views; i++) t->view[i].tiles = (ph_tiles){0};
    if (t->sequence >= 0 && ph_kv_length(t->session->kv, t->sequence) > (int)t->n_kept)
        t->n_kept = (size_t)ph_kv_truncate(t->session->kv, t->sequence, (int)t->n_kept);
    ph_arena_reset(&t->picture_arena);
    ph_arena_reset(&t->text_arena);
}

ph_stage ph_turn_stage(const ph_turn *t) {
    return t->stage;
}

const int32_t *ph_turn_prompt_ids(const ph_turn *t, size_t *n) {
    *n = t->n_prompt;
    return t->id;
}

const int32_t (*ph_turn_positions(const ph_turn *t))[3] {
    return (const int32_t(*)[3])t->position;
}

int32_t ph_turn_next_position(const ph_turn *t) {
    return t->next_position;
}

const float *ph_turn_logits(const ph_turn *t) {
    return t->logits;
}

static size_t different_ids(const ph_turn *t) { /* an upper bound: each row may be another */
    size_t vocab = (size_t)t->session->model->spec.text.vocab;
    return t->at < vocab ? t->at : vocab;
}

#define MOST(x)                                                                                              \
    if (most->x < d->x) most->x = d->x

/* Where turns are beside each other, what is held is that of all of them: the most so far of what they take
 * in turn, and the features of each. */
static void so_far(const ph_turn *t, ph_done *d) {
    ph_done *most = &t->session->most;
    d->visual = d->turns = 0;
    for (size_t i = 0; i < t->n_peers; i++) {
        if (i == t->own) t->session->held[i] = t->features_rows + 1;
        if (!t->session->held[i]) continue;
        d->visual += t->session->held[i] - 1;
        d->turns++;
    }
    MOST(chunk);
    MOST(logits);
    MOST(tiles);
    MOST(patches);
    MOST(tokens);
    MOST(pages);
    MOST(sequences);
    MOST(staged);
    MOST(visual);
    MOST(beside);
    MOST(different);
    MOST(turns);
    MOST(gathered);
    MOST(files);
    MOST(decode);
    MOST(prepare);
    *d = *most;
}

enum { PAGE = 4096 };

static size_t greater(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Behind an answer its weights, scratch and cache stand while the next question's pictures are decoded and
 * seen: that may be more than the next answer itself takes. */
static void behind(const ph_turn *t, const ph_plan *plan, ph_memory *peak) {
    ph_memory *stands = &t->session->stands, step = plan->phase[PH_PHASE_STEP], then = *stands;
    size_t     files = ph_round_up(t->done.files, PAGE);
    if (then.total && t->done.prepare) {
        then.input += files + greater(t->done.decode, t->done.prepare);
        then.activations = greater(then.activations, plan->phase[PH_PHASE_SEE].activations);
        ph_memory_sum(&then);
        if (then.total > peak->total) *peak = then;
    }
    step.input -= files;
    ph_memory_sum(&step);
    if (step.total > stands->total) *stands = step;
}

static void predict(const ph_turn *t, ph_memory *out) {
    ph_plan plan;
    ph_done d = t->done;
    d.tokens = t->at;
    d.sequences = 1;
    d.pages = (t->at + PH_KV_PAGE - 1) / PH_KV_PAGE;
    d.visual = t->features_rows;
    d.beside = t->cross_most;
    d.different = different_ids(t);
    if (t->session->how.beside || t->session->how.ahead) so_far(t, &d);
    *out = (ph_memory){0};
    if (ph_session_predict(t->session, &d, &plan, NULL)) return;
    *out = plan.peak;
    if (!t->session->how.beside && !t->session->how.ahead) behind(t, &plan, out);
}

void ph_turn_answer(const ph_turn *t, ph_answer *out) {
    ph_mem mem;
    *out = (ph_answer){.text = t->text,
                       .n_text = t->n_text,
                       .ids = t->answer,
                       .n_ids = t->n_answer,
                       .prompt_tokens = (int)t->n_prompt,
                       .image_tokens = t->n_image_tokens,
                       .cached_tokens = (int)t->n_cached,
                       .stop = t->stop,
                       .stretches = t->n_stretches,
                       .picture_bytes = t->n_views ? t->done.files + t->done.prepare : 0};
    memcpy(out->stage_ms, t->stage_ms, sizeof out->stage_ms);
    predict(t, &out->predicted);
    if (ph_mem_read(&mem)) {
        out->measured_peak = mem.rss_peak;
        out->measured_anon = mem.rss_anon;
        out->measured_locked = mem.locked;
    }
}
