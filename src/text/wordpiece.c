/* wordpiece.c - longest piece first, pieces inside a word carry a prefix ("##").
 *
 * A word that cannot be spelled, or is longer than word_chars_max, is unk as a whole.  The word's first piece
 * is found by narrowing the sorted pieces byte by byte; for the others one walk from the word's end says
 * which piece, the longest, begins at each byte. Source: Devlin et al., arXiv:1810.04805; Hugging Face
 * tokenizers (models/wordpiece).
 */
#include "text/tokenizer_tables.h"

#include "text/utf8.h"

/* Of the pieces in [lo, hi) of t->sorted that have n bytes, the last that may come out; -1: none. */
static int32_t ends_here(const ph_tokenizer *t, uint32_t lo, uint32_t hi, size_t n, int is_guarded) {
    int32_t best = -1;
    for (; lo < hi && t->piece[t->sorted[lo]].n == n; lo++) {
        int32_t id = (int32_t)t->sorted[lo];
        if (!(is_guarded && (t->flags[id] & PH_TOK_CONTROL)) && id > best) best = id;
    }
    return best;
}

/* The longest piece that the word begins with; *end is where it ends.  -1: none. */
static int32_t first_piece(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, size_t *end,
                           uint64_t *work) {
    uint32_t lo = 0, hi = t->n_model;
    int32_t  best = -1;
    for (size_t i = 0; i < n && lo < hi;) {
        ph_tok_narrow(t, &lo, &hi, i, word[i]);
        ++*work;
        if (++i < n && (word[i] & 0xC0) == 0x80) continue; /* pieces end with a character */
        int32_t id = ends_here(t, lo, hi, i, is_guarded);
        if (id >= 0) best = id, *end = i;
    }
    return best;
}

/* hit[i], for word[from .. n): id + 1 of the longest inner piece that begins there; 0: none. */
static ph_rc inner_pieces(const ph_tokenizer *t, const uint8_t *word, size_t from, size_t n, int is_guarded,
                          ph_model_scratch *s, ph_err *err) {
    PH_TRY(ph_room_grow(&s->at[0], &s->cap[0], 0, n, sizeof(uint32_t), err));
    uint32_t *hit = s->at[0], node = 0;
    for (size_t i = n; i-- > from;) {
        hit[i] = 0;
        if (!t->pieces.root) continue;
        node = ph_automaton_step(&t->pieces, node, word[i], &s->work);
        hit[i] = t->pieces.hit[node];
        while (hit[i] && is_guarded && (t->flags[hit[i] - 1] & PH_TOK_CONTROL))
            hit[i] = t->pieces.shorter[hit[i] - 1];
    }
    return PH_OK;
}

static ph_rc encode(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, ph_model_scratch *s,
                    ph_ids *out, ph_err *err) {
    size_t n_chars = 0, begin = out->n, at = 0;
    for (size_t i = 0; i < n; i += ph_utf8_length(word[i])) n_chars++;
    int32_t id = n_chars <= t->word_chars_max ? first_piece(t, word, n, is_guarded, &at, &s->work) : -1;
    if (id >= 0 && at < n) PH_TRY(inner_pieces(t, word, at, n, is_guarded, s, err));
    const uint32_t *hit = s->at[0];
    while (id >= 0) {
        PH_TRY(ph_ids_push(out, id, err));
        if (at == n) return PH_OK;
        id = (int32_t)hit[at] - 1;
        if (id >= 0) at += t->piece[id].n - t->inner_prefix.n;
    }
    out->n = begin;
    return t->unk_id >= 0 ? ph_ids_push(out, t->unk_id, err) : PH_OK;
}

const ph_text_model ph_text_model_wordpiece = {
    .name = "WordPiece", .encode = encode, .needs_sorted = 1, .needs_pieces = 2};
