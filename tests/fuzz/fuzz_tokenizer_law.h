/* fuzz_tokenizer_law.h - what holds for every tokenizer that opens: ids in range, typed text makes no control
 * token, the stream is the whole and never half a character. */
#ifndef PH_TESTS_FUZZ_TOKENIZER_LAW_H
#define PH_TESTS_FUZZ_TOKENIZER_LAW_H

#include "text/speak.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* The text that a target takes out of its input: enough for every kind of edge, and cheap, since each byte
 * goes through a dozen instrumented stages. */
enum { FUZZ_TEXT_MAX = 256 };

static inline int fuzz_gather(void *arg, const char *piece, size_t n) {
    if (!ph_utf8_is_valid((const uint8_t *)piece, n)) abort();
    if (ph_bytes_push((ph_bytes *)arg, piece, n, NULL)) abort();
    return 0;
}

static inline int fuzz_same(const ph_bytes *a, const ph_bytes *b) {
    return a->n == b->n && (!a->n || !memcmp(a->at, b->at, a->n));
}

/* Ids as text at once and id by id; out, if not NULL, is the text.  What a stage may keep back is bounded
 * while streaming (HOLD_MAX of speak.c), so only texts below that must be the same. */
static inline void fuzz_decode_law(const ph_tokenizer *t, const ph_ids *ids, ph_bytes *out) {
    ph_bytes    whole = {0}, streamed = {0};
    ph_speaker *s;
    int         over;
    if (ph_tokenizer_decode(t, ids->at, ids->n, 0, &whole, NULL)) abort();
    if (ph_speaker_open(&s, t, 0, NULL, 0, fuzz_gather, &streamed, NULL)) abort();
    for (size_t i = 0; i < ids->n; i++)
        if (ph_speaker_push(s, ids->at[i], &over, NULL)) abort();
    if (ph_speaker_end(s, &over, NULL)) abort();
    if (!ph_utf8_is_valid(whole.at, whole.n)) abort();
    if (whole.n < 4096 && !fuzz_same(&whole, &streamed)) abort();
    ph_speaker_close(s);
    ph_bytes_close(&streamed);
    if (out)
        *out = whole;
    else
        ph_bytes_close(&whole);
}

/* Encode; 0 when the tokenizer's own pattern or replacements give up on the text, else *ids. */
static inline int fuzz_encode_law(const ph_tokenizer *t, const uint8_t *text, size_t n, unsigned how,
                                  ph_ids *ids) {
    ph_err err = {0};
    ph_rc  rc = ph_tokenizer_encode(t, (const char *)text, n, how, ids, &err);
    if (rc && (rc != PH_ELIMIT || !err.msg[0])) abort();
    for (size_t i = 0; i < ids->n; i++) {
        int32_t id = ids->at[i];
        if (id < 0 || id >= ph_tokenizer_count(t)) abort();
        if (how == PH_ENCODE_PLAIN && ph_tokenizer_is_control(t, id) && id != t->unk_id) abort();
    }
    return !rc;
}

static inline void fuzz_tokenizer_law(const ph_tokenizer *t, const uint8_t *text, size_t n) {
    ph_ids typed = {0}, trusted = {0};
    if (n > FUZZ_TEXT_MAX) text += n - FUZZ_TEXT_MAX, n = FUZZ_TEXT_MAX;
    if (fuzz_encode_law(t, text, n, PH_ENCODE_PLAIN, &typed)) fuzz_decode_law(t, &typed, NULL);
    if (fuzz_encode_law(t, text, n, PH_ENCODE_SPECIAL | PH_ENCODE_CONTROL, &trusted))
        fuzz_decode_law(t, &trusted, NULL);
    ph_ids_close(&typed);
    ph_ids_close(&trusted);
}

#endif
