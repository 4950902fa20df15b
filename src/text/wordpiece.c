/* wordpiece.c - longest piece first, pieces inside a word carry a prefix ("##").
 *
 * A word that cannot be spelled, or is longer than word_chars_max, is unk as a whole.
 * Source: Devlin et al., arXiv:1810.04805; Hugging Face tokenizers (models/wordpiece).
 */
#include "text/tokenizer_tables.h"

#include "text/utf8.h"

/* The longest piece that word[at .. n) begins with; *end is where it ends.  -1: none. */
static ph_rc longest(const ph_tokenizer *t, const uint8_t *word, size_t n, size_t at, int is_guarded,
                     ph_bytes *spelled, size_t *end, int32_t *id, ph_err *err) {
    for (*end = n; *end > at; *end = ph_utf8_before(word, *end)) {
        spelled->n = 0;
        if (at) PH_TRY(ph_bytes_push(spelled, ph_tok_text(t, t->inner_prefix), t->inner_prefix.n, err));
        PH_TRY(ph_bytes_push(spelled, word + at, *end - at, err));
        *id = ph_tok_find(t, spelled->at, spelled->n);
        if (*id >= 0 && !(is_guarded && (t->flags[*id] & PH_TOK_CONTROL))) return PH_OK;
    }
    *id = -1;
    return PH_OK;
}

static ph_rc encode(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, ph_model_scratch *s,
                    ph_ids *out, ph_err *err) {
    size_t n_chars = 0, begin = out->n;
    for (size_t i = 0; i < n; i += ph_utf8_length(word[i])) n_chars++;
    for (size_t at = 0, end; at < n && n_chars <= t->word_chars_max; at = end) {
        int32_t id;
        PH_TRY(longest(t, word, n, at, is_guarded, &s->text, &end, &id, err));
        if (id < 0) {
            out->n = begin;
            break;
        }
        PH_TRY(ph_ids_push(out, id, err));
    }
    if (out->n == begin && t->unk_id >= 0) return ph_ids_push(out, t->unk_id, err);
    return PH_OK;
}

const ph_text_model ph_text_model_wordpiece = {.name = "WordPiece", .encode = encode};
