/* stage_splice.c - template, text and visual tokens become one sequence.
 *
 *     messages ─ template ─► spans ─┬─ cut at the image marks of trusted text ─► text | run of visual tokens
 *     raw prompt ───────────────────┘                                              │
 *                                    ids, features, keys [n_prompt]  ◄─ tokenizer ─┘
 *
 * Only what the template wrote can hold a control token or an image mark; what a
 * user typed is text.  Rows that the cache already holds (equal keys from the
 * start on) are not run again.
 */
#include "flow/session.h"

#include <stdlib.h>
#include <string.h>

/* A run of visual tokens, standing in the prompt as one slot. */
typedef struct visual_run {
    const ph_view *view;
    int            first, n; /* of the view's tokens */
} visual_run;

typedef struct splicing {
    ph_turn      *t;
    ph_text_span *span; /* [n_spans] */
    size_t        n_spans, spans_max;
    visual_run   *run; /* [n_runs], numbered as the slots are */
    size_t        n_runs, runs_max;
    size_t        n_marks; /* image marks met so far: the next picture */
    ph_arena     *arena;
} splicing;

static ph_rc grow(splicing *s, void **at, size_t *max, size_t n, size_t item, ph_err *err) {
    void *more;
    if (n < *max) return PH_OK;
    PH_TRY(ph_arena_carve(s->arena, &more, 2 * *max + 16, item, err));
    if (n) memcpy(more, *at, n * item);
    *at = more;
    *max = 2 * *max + 16;
    return PH_OK;
}

static ph_rc add_text(splicing *s, const char *bytes, size_t n, int is_trusted, ph_err *err) {
    void *at = s->span;
    if (!n) return PH_OK;
    PH_TRY(grow(s, &at, &s->spans_max, s->n_spans, sizeof *s->span, err));
    s->span = at;
    s->span[s->n_spans++] =
        (ph_text_span){.kind = PH_SPAN_TEXT, .bytes = bytes, .n = n, .is_trusted = is_trusted};
    return PH_OK;
}

static ph_rc add_run(splicing *s, const ph_view *view, int first, int n, ph_err *err) {
    void *at = s->span, *run = s->run;
    PH_TRY(grow(s, &at, &s->spans_max, s->n_spans, sizeof *s->span, err));
    s->span = at;
    PH_TRY(grow(s, &run, &s->runs_max, s->n_runs, sizeof *s->run, err));
    s->run = run;
    s->span[s->n_spans++] = (ph_text_span){.kind = PH_SPAN_SLOT, .slot = (int)s->n_runs};
    s->run[s->n_runs++] = (visual_run){.view = view, .first = first, .n = n};
    return PH_OK;
}

/* Marks, or ids, of pictures and videos are not the same. */
static ph_rc check_kind(const ph_view *v, int is_video, ph_err *err) {
    if (v->layout.is_video == is_video) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "the prompt has a place for a %s where %s is a %s",
                   is_video ? "video" : "picture", v->file.name ? v->file.name : "what was given",
                   is_video ? "picture" : "video");
}

/* What the family puts in the prompt for the next picture. */
static ph_rc add_picture(splicing *s, int is_video, ph_err *err) {
    enum { PIECES_MAX = 4096 };
    const ph_model *m = s->t->session->model;
    void           *at;
    int             first = 0;
    if (s->n_marks >= s->t->n_views)
        return PH_FAIL(err, PH_EMISMATCH, "the prompt has more image marks (%s) than pictures (%zu)",
                       m->spec.image_marker, s->t->n_views);
    const ph_view *v = &s->t->view[s->n_marks++];
    if (m->spec.images_lead) return PH_OK; /* it stands already */
    PH_TRY(check_kind(v, is_video, err));
    PH_TRY(ph_arena_carve(s->arena, &at, PIECES_MAX, sizeof(ph_piece), err));
    ph_pieces pieces = {.at = at, .max = PIECES_MAX};
    PH_TRY(m->family->image(&m->spec, &v->layout, &pieces, err));
    for (size_t i = 0; i < pieces.n; i++) {
        const ph_piece *p = &pieces.at[i];
        if (!p->n_visual) {
            PH_TRY(add_text(s, p->text, strlen(p->text), 1, err));
            continue;
        }
        PH_TRY(add_run(s, v, first, p->n_visual, err));
        first += p->n_visual;
    }
    if (first == v->n_visual || (m->cross && !first)) return PH_OK;
    return PH_FAIL(err, PH_EBUG, "family %s: %d visual tokens in the prompt, %d made", m->family->name, first,
                   v->n_visual);
}

static const char *find(const char *bytes, size_t n, const char *mark) {
    return mark && *mark ? memmem(bytes, n, mark, strlen(mark)) : NULL;
}

/* A raw prompt, trusted as a whole: each mark is the next picture's or video's place. */
static ph_rc add_trusted(splicing *s, const char *bytes, size_t n, ph_err *err) {
    const ph_spec *spec = &s->t->session->model->spec;
    for (;;) {
        const char *image = find(bytes, n, spec->image_marker), *video = find(bytes, n, spec->video_marker);
        int         is_video = video && (!image || video < image);
        const char *found = is_video ? video : image;
        if (!found) break;
        size_t n_mark = strlen(is_video ? spec->video_marker : spec->image_marker);
        PH_TRY(add_text(s, bytes, (size_t)(found - bytes), 1, err));
        PH_TRY(add_picture(s, is_video, err));
        n -= (size_t)(found - bytes) + n_mark;
        bytes = found + n_mark;
    }
    return add_text(s, bytes, n, 1, err);
}

static ph_rc add_messages(splicing *s, const ph_question *q, ph_err *err) {
    ph_chat_text text;
    PH_TRY(ph_model_render(s->t->session->model, q->messages, q->n_messages, s->arena, &text, err));
    for (size_t i = 0; i < text.n_spans; i++) {
        const ph_chat_span *c = &text.spans[i];
        if (c->image >= 0)
            PH_TRY(add_picture(s, s->n_marks < s->t->n_views && s->t->view[s->n_marks].layout.is_video, err));
        else
            PH_TRY(add_text(s, c->bytes, c->n, c->is_trusted, err));
    }
    return PH_OK;
}

/* ---- rows ---- */

typedef struct rows {
    ph_turn *t;
    size_t   n, n_cached;
    int      is_same;  /* so far every row is what the cache holds */
    int32_t  position; /* of the next row of text */
} rows;

static uint64_t picture_key(const ph_view *v, int token) {
    uint64_t k = (v->key[0] + (uint64_t)token * 0x9e3779b97f4a7c15u) ^ v->key[1];
    k = (k ^ (k >> 31)) * 0xd6e8feb86659fd93u;
    return k | (uint64_t)1 << 63; /* never a text row's */
}

/* What a row is, beside its id. */
typedef struct row_place {
    int32_t  feature; /* -1: text */
    int32_t  position[3];
    int32_t  back, ahead; /* rows of its bidirectional span before and after it */
    uint64_t key;
} row_place;

/* Rows beyond the context are counted, not kept: the message says how many there would be. */
static void add_row(rows *r, int32_t id, const row_place *p) {
    ph_turn *t = r->t;
    size_t   i = r->n++;
    if (i >= (size_t)t->session->how.context) return;
    uint64_t key = p->key;
    ph_sight sight = {0};
    if (t->sight) {
        sight = ph_cross_look_from(t, id);
        key = ph_turn_sight_key(key, &sight);
    }
    key = ph_turn_inject_key(t, key);
    r->is_same = r->is_same && i < t->n_kept && t->key[i] == key;
    r->n_cached += (size_t)r->is_same;
    t->id[i] = id;
    t->feature[i] = p->feature;
    t->key[i] = key;
    if (t->sight) t->sight[i] = sight;
    t->back[i] = p->back;
    t->span[i] = (int32_t)i + 1 + p->ahead;
    memcpy(t->position[i], p->position, sizeof p->position);
}

static int32_t visual_id(const ph_model *m, const ph_view *v) {
    int32_t id = v->layout.is_video ? m->spec.video_token : m->spec.image_token;
    return id < 0 ? 0 : id;
}

static void add_visual_rows(rows *r, const visual_run *run) {
    const ph_model  *m = r->t->session->model;
    const ph_family *f = m->family;
    int32_t          id = visual_id(m, run->view), from = r->position;
    int              sees = m->spec.image_sees_itself;
    /* A picture's positions count from its first run; a later run of it goes on from there. */
    if (run->first) from = r->t->view_position;
    r->t->view_position = from;
    for (int k = 0; k < run->n; k++) {
        int       token = run->first + k;
        row_place p = {.feature = (int32_t)run->view->row + token, .key = picture_key(run->view, token)};
        p.back = sees ? k : 0;
        p.ahead = sees ? run->n - 1 - k : 0;
        if (f->place) {
            r->position = f->place(&m->spec, &run->view->layout, from, token, p.position);
        } else {
            p.position[0] = p.position[1] = p.position[2] = r->position++;
        }
        add_row(r, id, &p);
    }
}

static ph_rc add_id(rows *r, int32_t id, ph_err *err) {
    int vocab = ph_decoder_ids(&r->t->session->model->spec.text);
    if (id < 0 || id >= vocab)
        return PH_FAIL(err, PH_EMISMATCH,
                       "the tokenizer gave id %d, but the model's embedding table has %d rows: tokenizer and "
                       "weights are not of one model",
                       id, vocab);
    row_place p = {.feature = -1, .key = ph_turn_text_key(id)};
    p.position[0] = p.position[1] = p.position[2] = r->position++;
    add_row(r, id, &p);
    return PH_OK;
}

static ph_rc add_all(rows *r, const splicing *s, const ph_ids *ids, const ph_slot_at *slots, size_t n_slots,
                     ph_err *err) {
    size_t next = 0;
    for (size_t i = 0; i <= ids->n; i++) {
        for (; next < n_slots && slots[next].at == i; next++) add_visual_rows(r, &s->run[slots[next].slot]);
        if (i < ids->n) PH_TRY(add_id(r, ids->at[i], err));
    }
    return PH_OK;
}

static ph_rc encode(rows *r, splicing *s, unsigned how, ph_err *err) {
    ph_ids ids = {0};
    void  *slots;
    size_t n_slots = 0;
    PH_TRY(ph_arena_carve(s->arena, &slots, s->n_runs + 1, sizeof(ph_slot_at), err));
    ph_rc rc = ph_tokenizer_encode_spans(s->t->session->model->tokenizer, s->span, s->n_spans, how, &ids,
                                         slots, &n_slots, err);
    if (!rc) rc = add_all(r, s, &ids, slots, n_slots, err);
    ph_ids_close(&ids);
    return rc;
}

static int is_visual(const ph_model *m, int32_t id) {
    return id >= 0 && (id == m->spec.image_token || id == m->spec.video_token);
}

/* Ids as given: visual rows wherever the image or video token stands, pictures in order; neighbours are one
 * run. */
static ph_rc take_ids(rows *r, const ph_question *q, ph_err *err) {
    ph_turn        *t = r->t;
    const ph_model *m = t->session->model;
    size_t          view = 0;
    int             token = 0;
    for (size_t i = 0; i < q->n_ids; i++) {
        int32_t id = q->ids[i];
        if (!t->n_views || m->cross || !is_visual(m, id)) {
            PH_TRY(add_id(r, id, err));
            continue;
        }
        if (view < t->n_views && token == t->view[view].n_visual) view++, token = 0;
        if (view == t->n_views)
            return PH_FAIL(err, PH_EMISMATCH, "the ids hold more image tokens than the %zu pictures make",
                           t->n_views);
        PH_TRY(check_kind(&t->view[view], id == m->spec.video_token, err));
        int n = 1;
        while (i + 1 < q->n_ids && q->ids[i + 1] == id && token + n < t->view[view].n_visual) n++, i++;
        add_visual_rows(r, &(visual_run){.view = &t->view[view], .first = token, .n = n});
        token += n;
    }
    return PH_OK;
}

static ph_rc check_context(const ph_turn *t, size_t n, ph_err *err) {
    int context = t->session->how.context;
    if (!n) return PH_FAIL(err, PH_EUSAGE, "the prompt is empty: there is nothing to answer");
    if (n <= (size_t)context) return PH_OK;
    return PH_FAIL(err, PH_ECONTEXT,
                   "the prompt takes %zu tokens (%d of them for pictures), but the context holds %d: shorten "
                   "it, use fewer or smaller pictures, or give a larger -c",
                   n, t->session->model->cross ? 0 : t->n_image_tokens, context);
}

/* Pictures before everything; marks in the prompt then stand for nothing. */
static void lead(rows *r) {
    ph_turn *t = r->t;
    for (size_t i = 0; i < t->n_views; i++)
        add_visual_rows(r, &(visual_run){.view = &t->view[i], .n = t->view[i].n_visual});
}

static ph_rc fill(rows *r, splicing *s, ph_err *err) {
    const ph_question *q = r->t->question;
    if (q->ids) return take_ids(r, q, err);
    if (r->t->session->model->spec.images_lead) lead(r);
    const char *bos = r->t->session->model->bos_text;
    int         writes_bos = q->raw && q->add_special && bos && r->t->session->model->spec.bos_is_text;
    if (writes_bos) PH_TRY(add_text(s, bos, strlen(bos), 1, err));
    if (q->raw)
        PH_TRY(add_trusted(s, q->raw, strlen(q->raw), err));
    else
        PH_TRY(add_messages(s, q, err));
    if (s->n_marks < r->t->n_views && !r->t->session->model->spec.images_lead &&
        !r->t->session->model->spec.cross.sees_always)
        return PH_FAIL(err, PH_EMISMATCH, "the prompt has %zu image marks (%s) for %zu pictures", s->n_marks,
                       r->t->session->model->spec.image_marker, r->t->n_views);
    return encode(r, s,
                  !q->raw                         ? PH_ENCODE_BEFORE
                  : q->add_special && !writes_bos ? PH_ENCODE_SPECIAL
                                                  : PH_ENCODE_PLAIN,
                  err);
}

/* All rows of a text see each other; what came before them is of no use then. */
static void see_all(rows *r) {
    for (size_t i = 0; i < r->n; i++) {
        r->t->back[i] = (int32_t)i;
        r->t->span[i] = (int32_t)r->n;
    }
    r->n_cached = 0;
}

static ph_rc splice_turn(ph_turn *t, ph_err *err) {
    splicing s = {.t = t, .arena = &t->text_arena};
    rows     r = {.t = t, .is_same = 1};
    if (t->sight) ph_cross_begin(t);
    ph_inject_begin(t);
    ph_rc rc = fill(&r, &s, err);
    if (!rc) rc = check_context(t, r.n, err);
    if (rc) {
        /* The keys behind were overwritten. */
        t->n_kept = (size_t)ph_kv_truncate(t->session->kv, t->sequence, (int)r.n_cached);
        return rc;
    }
    if (t->session->model->spec.embed.is_both_ways) see_all(&r);
    t->n_prompt = r.n;
    t->next_position = r.position;
    t->n_cached = t->session->how.all_logits ? 0
                  : r.n_cached < r.n         ? r.n_cached
                                             : r.n - 1; /* the last row gives the logits */
    t->n_cached = (size_t)ph_kv_truncate(t->session->kv, t->sequence, (int)t->n_cached);
    t->at = t->n_kept = t->n_cached;
    ph_arena_reset(&t->text_arena);
    t->stage = PH_STAGE_prefill;
    return PH_OK;
}

ph_rc ph_splice(ph_turn *const *turns, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++) PH_TRY(splice_turn(turns[i], err));
    return PH_OK;
}
