/* fuzz_tokenizer_law.h - what holds for every tokenizer that opens: ids in range, the stream is the whole. */
#ifndef PH_TESTS_FUZZ_TOKENIZER_LAW_H
#define PH_TESTS_FUZZ_TOKENIZER_LAW_H

#include "text/speak.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static inline int fuzz_gather(void *arg, const char *piece, size_t n) {
    if (ph_bytes_push((ph_bytes *)arg, piece, n, NULL)) abort();
    return 0;
}

static inline void fuzz_tokenizer_law(const ph_tokenizer *t, const uint8_t *text, size_t n) {
    ph_ids      ids = {0};
    ph_bytes    whole = {0}, streamed = {0};
    ph_speaker *s;
    int         over;
    if (ph_tokenizer_encode(t, (const char *)text, n, PH_ENCODE_SPECIAL | PH_ENCODE_CONTROL, &ids, NULL))
        goto out;
    for (size_t i = 0; i < ids.n; i++)
        if (ids.at[i] < 0 || ids.at[i] >= ph_tokenizer_count(t)) abort();
    if (ph_tokenizer_decode(t, ids.at, ids.n, 0, &whole, NULL)) abort();
    if (ph_speaker_open(&s, t, 0, NULL, 0, fuzz_gather, &streamed, NULL)) abort();
    for (size_t i = 0; i < ids.n; i++)
        if (ph_speaker_push(s, ids.at[i], &over, NULL)) abort();
    if (ph_speaker_end(s, &over, NULL)) abort();
    if (whole.n < 4096 && (whole.n != streamed.n || (whole.n && memcmp(whole.at, streamed.at, whole.n))))
        abort();
    ph_speaker_close(s);
out:
    ph_ids_close(&ids);
    ph_bytes_close(&whole);
    ph_bytes_close(&streamed);
}

#endif
