/* encode.c - the way from text to ids: spans, added tokens, normalizers, splits, model, post-processor.
 *
 *     spans ─► sections between slots ─► gaps between added tokens ─► words ─► ids
 *
 * Trust travels as a list of runs over a section's bytes.  An added token that is special is taken
 * only where all its bytes are trusted, and a model that meets untrusted bytes is told to make
 * no control token of them.  A special token refused for trust does not use up the text: what else matches
 * there still may.  Which added token stands at each byte is found in one walk from the end to the front
 * (tokmatch.c); the way forward then takes one place after the other.
 * Source of the order and of the flags' meaning: Hugging Face tokenizers 0.22, added_vocabulary.rs.
 */
#include "text/tokenizer_tables.h"

#include "base/mem.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct encoder {
    const ph_tokenizer *t;
    ph_bytes            section; /* valid UTF-8 */
    ph_trust_run       *runs;    /* over the section; [n_runs] */
    size_t              n_runs, runs_cap;
    ph_tok_places       in_section, in_mixed, in_gap; /* added tokens of each, while it is walked */
    ph_bytes            gap, spare;
    ph_cuts             cuts, cuts_spare;
    ph_model_scratch    scratch;
    ph_ids             *out;
    int                 is_start; /* the section begins the whole text */
    ph_err             *err;
} encoder;

/* Append one span's bytes to the section, ill-formed parts as U+FFFD. */
static ph_rc add_text(encoder *e, const char *bytes, size_t n, int is_trusted) {
    const uint8_t *in = (const uint8_t *)bytes;
    size_t         good = 0;
    for (size_t i = 0; i < n;) {
        ph_utf8_step s = ph_utf8_read(in + i, n - i);
        i += (size_t)s.n;
        if (s.is_valid) continue;
        PH_TRY(ph_bytes_push(&e->section, in + good, i - (size_t)s.n - good, e->err));
        PH_TRY(ph_bytes_push(&e->section, "\xEF\xBF\xBD", 3, e->err));
        good = i;
    }
    PH_TRY(ph_bytes_push(&e->section, in + good, n - good, e->err));
    if (e->n_runs && e->runs[e->n_runs - 1].is_trusted == is_trusted) {
        e->runs[e->n_runs - 1].end = e->section.n;
        return PH_OK;
    }
    void *at = e->runs;
    PH_TRY(ph_room_grow(&at, &e->runs_cap, e->n_runs, 1, sizeof *e->runs, e->err));
    e->runs = at;
    e->runs[e->n_runs++] = (ph_trust_run){e->section.n, is_trusted};
    return PH_OK;
}

static int is_trusted(const encoder *e, size_t begin, size_t end) {
    size_t lo = 0, hi = e->n_runs; /* the run that holds `begin`: the first that ends behind it */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (e->runs[mid].end <= begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    return begin == end || (lo < e->n_runs && e->runs[lo].is_trusted && e->runs[lo].end >= end);
}

/* --- added tokens in a text --- */

typedef struct matcher {
    const ph_tokenizer *t;
    const ph_added_set *set;
    ph_tok_places      *places;
    const uint8_t      *text;
    size_t              n, at;
    size_t space, space_end; /* the last white space that was walked: all of [space, space_end) */
} matcher;

static int is_word_before(const uint8_t *text, size_t at) {
    if (!at) return 0;
    size_t b = ph_utf8_before(text, at);
    return ph_char_is_word(ph_utf8_read(text + b, at - b).code_point);
}
static int is_word_at(const uint8_t *text, size_t n, size_t at) {
    return at < n && ph_char_is_word(ph_utf8_read(text + at, n - at).code_point);
}

/* Where the white space that begins at `at` ends.  Tokens may all ask about the same: it is walked once. */
static size_t space_behind(matcher *m, size_t at) {
    if (at >= m->space && at < m->space_end) return m->space_end;
    m->space = at;
    while (at < m->n) {
        ph_utf8_step s = ph_utf8_read(m->text + at, m->n - at);
        if (!ph_char_is_space(s.code_point)) break;
        at += (size_t)s.n;
    }
    return m->space_end = at;
}

/* The next added token at or behind m->at: its id, and [*begin, *end) with the white space it takes.  -1:
 * none. */
static int32_t next_added(matcher *m, size_t floor, size_t *begin, size_t *end) {
    ph_tok_place p;
    while (ph_tok_next_place(m->places, m->at, &p)) {
        size_t   b = p.at, stop = p.at + m->set->row[p.row].text.n;
        int32_t  id = m->set->row[p.row].id;
        unsigned flags = m->t->flags[id];
        m->at = stop;
        if ((flags & PH_TOK_SINGLE) && (is_word_before(m->text, b) || is_word_at(m->text, m->n, stop)))
            continue; /* go on behind it, as the trainer does */
        while ((flags & PH_TOK_LSTRIP) && b > floor) {
            size_t c = ph_utf8_before(m->text, b);
            if (!ph_char_is_space(ph_utf8_read(m->text + c, b - c).code_point)) break;
            b = c;
        }
        if (flags & PH_TOK_RSTRIP) stop = space_behind(m, stop);
        /* White space that the token before has taken already: nothing is left for this one. */
        if ((flags & PH_TOK_LSTRIP) && b < floor) b = floor < stop ? floor : stop;
        *begin = b, *end = stop;
        return id;
    }
    return -1;
}

/* --- from a normalized text without added tokens to ids --- */

static ph_rc words(encoder *e, const uint8_t *text, size_t n, int is_first, int is_guarded) {
    ph_cuts *c = &e->cuts;
    if (!n) return PH_OK;
    c->text.n = c->n = 0;
    PH_TRY(ph_bytes_push(&c->text, text, n, e->err));
    void *at = c->at;
    PH_TRY(ph_room_grow(&at, &c->cap, 0, 1, sizeof *c->at, e->err));
    c->at = at;
    c->at[c->n++] = (ph_cut){0, n, is_first};
    PH_TRY(ph_pretokenize(e->t, c, &e->cuts_spare, e->err));
    for (size_t i = 0; i < c->n; i++) {
        const ph_cut *cut = &c->at[i];
        if (cut->n)
            PH_TRY(e->t->model->encode(e->t, c->text.at + cut->begin, cut->n, is_guarded, &e->scratch, e->out,
                                       e->err));
    }
    return PH_OK;
}

/* A gap of the section between added tokens: normalize, look for normalized added tokens, then words. */
static ph_rc gap(encoder *e, size_t begin, size_t end) {
    int     lost = 0, trusted = is_trusted(e, begin, end), is_first = e->is_start && begin == 0;
    size_t  from = 0, b, stop;
    int32_t id;
    if (begin == end) return PH_OK;
    e->gap.n = 0;
    PH_TRY(ph_bytes_push(&e->gap, e->section.at + begin, end - begin, e->err));
    PH_TRY(ph_normalize(e->t, &e->gap, &e->spare, &lost, e->err));
    ph_trust_run one = {e->gap.n, trusted};
    matcher      m = {.t = e->t, .set = &e->t->norm, .places = &e->in_gap, .text = e->gap.at, .n = e->gap.n};
    PH_TRY(ph_tok_find_added(m.set, m.text, 0, m.n, &one, 1, m.places, e->err));
    while ((id = next_added(&m, from, &b, &stop)) >= 0) {
        if (from < b) PH_TRY(words(e, e->gap.at + from, b - from, is_first && !from && !lost, !trusted));
        if (b < stop) PH_TRY(ph_ids_push(e->out, id, e->err));
        from = stop;
    }
    if (from >= e->gap.n) return PH_OK;
    /* A leading strip matters only to a part that was sliced off (Hugging Face's original offsets). */
    return words(e, e->gap.at + from, e->gap.n - from, is_first && !from, !trusted);
}

/* A special token that is matched in normalized text has no bytes of known trust there.  Where a gap mixes
 * trusted and untrusted bytes it is therefore looked for in the section itself. */
static ph_rc mixed_gap(encoder *e, size_t begin, size_t end) {
    const ph_added_set *set = &e->t->spelled;
    ph_tok_place        p;
    size_t              from = begin;
    if (!set->n || is_trusted(e, begin, end)) return gap(e, begin, end);
    PH_TRY(ph_tok_find_added(set, e->section.at, begin, end, e->runs, e->n_runs, &e->in_mixed, e->err));
    while (ph_tok_next_place(&e->in_mixed, from, &p)) {
        PH_TRY(gap(e, from, p.at));
        PH_TRY(ph_ids_push(e->out, set->row[p.row].id, e->err));
        from = p.at + set->row[p.row].text.n;
    }
    return gap(e, from, end);
}

/* All text gathered so far, which a slot or the end now closes. */
static ph_rc section(encoder *e) {
    matcher m = {.t = e->t, .set = &e->t->raw, .places = &e->in_section};
    size_t  from = 0, begin, end;
    int32_t id;
    m.text = e->section.at, m.n = e->section.n;
    PH_TRY(ph_tok_find_added(m.set, m.text, 0, m.n, e->runs, e->n_runs, m.places, e->err));
    while ((id = next_added(&m, from, &begin, &end)) >= 0) {
        if (from < begin) PH_TRY(mixed_gap(e, from, begin));
        if (begin < end) PH_TRY(ph_ids_push(e->out, id, e->err));
        from = end;
    }
    if (from < e->section.n) PH_TRY(mixed_gap(e, from, e->section.n));
    e->section.n = e->n_runs = 0;
    e->is_start = 0;
    return PH_OK;
}

/* --- the post-processor --- */

/* How many of want[n] the ids already begin (or end) with, as a whole or not at all. */
static int is_there(const int32_t *have, size_t n_have, const int32_t *want, size_t n) {
    return n && n_have >= n && !memcmp(have, want, n * sizeof *want);
}

static ph_rc wrap(const ph_tokenizer *t, unsigned how, size_t base, ph_ids *ids, size_t *n_put, ph_err *err) {
    size_t n = ids->n - base, n_before = (size_t)t->n_before, n_after = (size_t)t->n_after;
    *n_put = 0;
    if (how & PH_ENCODE_AFTER) {
        const int32_t *tail = n >= n_after && n ? ids->at + ids->n - n_after : NULL;
        if (!((how & PH_ENCODE_ONCE) && tail && is_there(tail, n_after, t->after, n_after)))
            for (size_t i = 0; i < n_after; i++) PH_TRY(ph_ids_push(ids, t->after[i], err));
    }
    if (!(how & PH_ENCODE_BEFORE) || !n_before) return PH_OK;
    if ((how & PH_ENCODE_ONCE) && n && is_there(ids->at + base, n, t->before, n_before)) return PH_OK;
    for (size_t i = 0; i < n_before; i++) PH_TRY(ph_ids_push(ids, 0, err));
    memmove(ids->at + base + n_before, ids->at + base, (ids->n - n_before - base) * sizeof *ids->at);
    memcpy(ids->at + base, t->before, n_before * sizeof *ids->at);
    *n_put = n_before;
    return PH_OK;
}

static void close(encoder *e) {
    ph_bytes_close(&e->section);
    ph_bytes_close(&e->gap);
    ph_bytes_close(&e->spare);
    ph_cuts_close(&e->cuts);
    ph_cuts_close(&e->cuts_spare);
    ph_model_scratch_close(&e->scratch);
    ph_tok_places_close(&e->in_section);
    ph_tok_places_close(&e->in_mixed);
    ph_tok_places_close(&e->in_gap);
    free(e->runs);
}

ph_rc ph_tokenizer_encode_spans(const ph_tokenizer *t, const ph_text_span *spans, size_t n_spans,
                                unsigned how, ph_ids *ids, ph_slot_at *slots, size_t *n_slots, ph_err *err) {
    encoder e = {.t = t, .out = ids, .is_start = 1, .err = err};
    size_t  base = ids->n, n_put = 0, n = 0;
    ph_rc   rc = PH_OK;
    for (size_t i = 0; i < n_spans && !rc; i++) {
        const ph_text_span *s = &spans[i];
        if (s->kind == PH_SPAN_TEXT) {
            if (s->n) rc = add_text(&e, s->bytes, s->n, s->is_trusted);
            continue;
        }
        rc = section(&e);
        slots[n++] = (ph_slot_at){s->slot, ids->n};
    }
    if (!rc) rc = section(&e);
    if (!rc) {
        /* A slot in front of all text: what the text begins with is not what the prompt begins with. */
        int      begins_with_slot = n && slots[0].at == base;
        unsigned once = how | PH_ENCODE_ONCE;
        if (begins_with_slot) once &= ~(unsigned)PH_ENCODE_ONCE;
        rc = wrap(t, once, base, ids, &n_put, err);
    }
    for (size_t i = 0; i < n; i++) slots[i].at += n_put;
    if (n_slots) *n_slots = n;
    if (rc) ids->n = base;
    close(&e);
    return rc;
}

ph_rc ph_tokenizer_encode(const ph_tokenizer *t, const char *text, size_t n, unsigned how, ph_ids *ids,
                          ph_err *err) {
    encoder e = {.t = t, .out = ids, .is_start = 1, .err = err};
    size_t  base = ids->n, n_put;
    ph_rc   rc = n ? add_text(&e, text, n, (how & PH_ENCODE_CONTROL) != 0) : PH_OK;
    if (!rc) rc = section(&e);
    if (!rc) rc = wrap(t, how, base, ids, &n_put, err);
    if (rc) ids->n = base;
    close(&e);
    return rc;
}
