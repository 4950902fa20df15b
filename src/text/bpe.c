/* bpe.c - byte-pair encoding by ranked merges.
 *
 * A word is split into characters, each an id; the pair with the lowest rank (leftmost of equals) is merged
 * until no pair is left.  Candidates wait in a heap; symbols form a linked list in an array, so a word of n
 * characters costs n log n.  A candidate is stale when its pair no longer makes the same id.
 *
 * Source: Sennrich et al., arXiv:1508.07909; the order and the handling of unknown characters and byte
 * fallback are those of Hugging Face tokenizers (models/bpe).  Dropout is for training and is not done.
 */
#include "text/tokenizer_tables.h"

#include "text/bpe_heap.h"
#include "text/utf8.h"

#include <string.h>

/* The id of one character with the decorations its place asks for, or -1; `spelled` is how they make it. */
static ph_rc char_id(const ph_tokenizer *t, const uint8_t *at, size_t n, int is_first, int is_last,
                     ph_bytes *spelled, int32_t *id, ph_err *err) {
    spelled->n = 0;
    if ((is_first || !t->inner_prefix.n) && (!is_last || !t->end_suffix.n)) {
        uint32_t c = n == 1 ? at[0] : n == 2 ? (at[0] & 0x1Fu) << 6 | (at[1] & 0x3Fu) : 512;
        *id = c < 512 ? t->glyph_id[c] : ph_tok_find(t, at, n);
        return ph_bytes_push(spelled, at, n, err);
    }
    if (!is_first) PH_TRY(ph_bytes_push(spelled, ph_tok_text(t, t->inner_prefix), t->inner_prefix.n, err));
    PH_TRY(ph_bytes_push(spelled, at, n, err));
    if (is_last) PH_TRY(ph_bytes_push(spelled, ph_tok_text(t, t->end_suffix), t->end_suffix.n, err));
    *id = ph_tok_find(t, spelled->at, spelled->n);
    return PH_OK;
}

static int may_come_out(const ph_tokenizer *t, int32_t id, int is_guarded) {
    return id >= 0 && !(is_guarded && (t->flags[id] & PH_TOK_CONTROL));
}
static int has_all_bytes(const ph_tokenizer *t, const ph_bytes *s) {
    for (size_t i = 0; i < s->n; i++)
        if (t->byte_id[s->at[i]] < 0) return 0;
    return 1;
}

/* Characters to symbols.  An unknown character becomes unk, neighbours fused into one if the model says so.
 */
static ph_rc spell(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, ph_bpe *w,
                   ph_bytes *spelled, ph_err *err) {
    int unknown = 0;
    for (size_t i = 0; i < n;) {
        size_t  step = ph_utf8_length(word[i]);
        int32_t id;
        PH_TRY(char_id(t, word + i, step, i == 0, i + step >= n, spelled, &id, err));
        i += step;
        if (may_come_out(t, id, is_guarded)) {
            if (unknown) PH_TRY(ph_bpe_push(w, t->unk_id, 0, 1, err));
            unknown = 0;
            PH_TRY(ph_bpe_push(w, id, 0, 1, err));
        } else if (t->byte_fallback && has_all_bytes(t, spelled)) {
            for (size_t k = 0; k < spelled->n; k++)
                PH_TRY(ph_bpe_push(w, t->byte_id[spelled->at[k]], 0, 1, err));
        } else if (t->unk_id >= 0) {
            if (unknown && !t->fuse_unk) PH_TRY(ph_bpe_push(w, t->unk_id, 0, 1, err));
            unknown = 1;
        }
    }
    return unknown ? ph_bpe_push(w, t->unk_id, 0, 1, err) : PH_OK;
}

static ph_rc offer(const ph_tokenizer *t, ph_bpe *w, int32_t left, int is_guarded, ph_err *err) {
    uint32_t rank;
    if (left < 0 || w->symbol[left].next < 0) return PH_OK;
    int32_t id = ph_tok_merge(t, w->symbol[left].id, w->symbol[w->symbol[left].next].id, &rank);
    if (!may_come_out(t, id, is_guarded)) return PH_OK;
    return ph_bpe_offer(w, (ph_bpe_candidate){rank, left, id}, err);
}

static ph_rc encode(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded,
                    ph_model_scratch *scratch, ph_ids *out, ph_err *err) {
    if (t->ignore_merges) {
        int32_t id = ph_tok_find(t, word, n);
        if (may_come_out(t, id, is_guarded)) return ph_ids_push(out, id, err);
    }
    ph_bpe w;
    ph_bpe_begin(&w, scratch);
    PH_TRY(spell(t, word, n, is_guarded, &w, &scratch->text, err));
    ph_bpe_link(&w);
    for (size_t i = 0; i + 1 < w.n; i++) PH_TRY(offer(t, &w, (int32_t)i, is_guarded, err));
    ph_bpe_candidate top;
    while (ph_bpe_take(&w, &top)) {
        uint32_t       rank;
        ph_bpe_symbol *s = &w.symbol[top.at];
        if (!s->n || s->next < 0) continue;
        if (ph_tok_merge(t, s->id, w.symbol[s->next].id, &rank) != top.id) continue;
        ph_bpe_join(&w, top.at, top.id);
        PH_TRY(offer(t, &w, w.symbol[top.at].prev, is_guarded, err));
        PH_TRY(offer(t, &w, top.at, is_guarded, err));
    }
    for (size_t i = 0; i < w.n; i++)
        if (w.symbol[i].n) PH_TRY(ph_ids_push(out, w.symbol[i].id, err));
    return PH_OK;
}

const ph_text_model ph_text_model_bpe = {.name = "BPE", .encode = encode, .needs_merges = 1};
