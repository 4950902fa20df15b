/* spm.c - SentencePiece's BPE: any two neighbours that together spell a piece may merge, best score first.
 *
 * It differs from bpe.c in that there is no list of merges: the vocabulary and its scores are the list.  A
 * symbol that is no piece in the end becomes bytes, or unk.  Pieces marked unused are steps only: what
 * they were merged from comes out instead.
 * Source: SentencePiece (Kudo & Richardson, arXiv:1808.06226), bpe_model; llama.cpp reads GGUF so too.
 */
#include "text/tokenizer_tables.h"

#include "text/bpe_heap.h"
#include "text/utf8.h"

typedef struct split { /* an unused piece and where it was joined, to undo it */
    uint32_t at, n, left;
} split;

typedef struct work {
    const ph_tokenizer *t;
    const uint8_t      *word;
    ph_bpe              w;
    int                 is_guarded;
} work;

static int32_t piece_of(const work *k, size_t at, size_t n) {
    int32_t id = ph_tok_find(k->t, k->word + at, n);
    if (id >= 0 && (k->t->flags[id] & (PH_TOK_CONTROL | PH_TOK_BYTE)))
        return -1; /* never from text, trusted or not */
    return id;
}

static ph_rc offer(work *k, int32_t left, ph_err *err) {
    if (left < 0 || k->w.symbol[left].next < 0) return PH_OK;
    const ph_bpe_symbol *l = &k->w.symbol[left], *r = &k->w.symbol[l->next];
    int32_t              id = piece_of(k, l->at, (size_t)l->n + r->n);
    if (id < 0) return PH_OK;
    return ph_bpe_offer(&k->w, (ph_bpe_candidate){k->t->rank[id], left, id}, err);
}

/* Emit bytes [at, at + n) as the pieces of which they were merged, unused ones undone; splits in scratch 2, a
 * stack of ranges in scratch 3. */
static ph_rc emit(work *k, ph_model_scratch *s, size_t n_splits, uint32_t at, uint32_t n, ph_ids *out,
                  ph_err *err) {
    const ph_tokenizer *t = k->t;
    size_t              depth = 0;
    PH_TRY(ph_room_grow(&s->at[3], &s->cap[3], 0, 2, sizeof(split), err));
    ((split *)s->at[3])[depth++] = (split){at, n, 0};
    while (depth) {
        split        top = ((split *)s->at[3])[--depth];
        int32_t      id = piece_of(k, top.at, top.n);
        const split *found = NULL;
        if (id >= 0 && (t->flags[id] & PH_TOK_UNUSED))
            for (size_t i = n_splits; i-- > 0 && !found;) {
                const split *c = &((const split *)s->at[2])[i];
                if (c->at == top.at && c->n == top.n) found = c;
            }
        if (found) {
            uint32_t left = found->left;
            PH_TRY(ph_room_grow(&s->at[3], &s->cap[3], depth, 2, sizeof(split), err));
            ((split *)s->at[3])[depth++] = (split){top.at + left, top.n - left, 0};
            ((split *)s->at[3])[depth++] = (split){top.at, left, 0};
        } else if (id >= 0) {
            PH_TRY(ph_ids_push(out, id, err));
        } else if (t->byte_fallback) {
            for (uint32_t i = 0; i < top.n; i++) {
                int32_t byte = t->byte_id[k->word[top.at + i]];
                if (byte < 0) byte = t->unk_id;
                if (byte >= 0) PH_TRY(ph_ids_push(out, byte, err));
            }
        } else if (t->unk_id >= 0) {
            PH_TRY(ph_ids_push(out, t->unk_id, err));
        }
    }
    return PH_OK;
}

static ph_rc encode(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, ph_model_scratch *s,
                    ph_ids *out, ph_err *err) {
    work             k = {.t = t, .word = word, .is_guarded = is_guarded};
    ph_bpe_candidate top;
    size_t           n_splits = 0;
    int              was_unknown = 0;
    ph_bpe_begin(&k.w, s);
    for (size_t i = 0, step; i < n; i += step) {
        step = ph_utf8_length(word[i]);
        PH_TRY(ph_bpe_push(&k.w, 0, i, step, err));
    }
    ph_bpe_link(&k.w);
    for (size_t i = 0; i + 1 < k.w.n; i++) PH_TRY(offer(&k, (int32_t)i, err));
    while (ph_bpe_take(&k.w, &top)) {
        const ph_bpe_symbol *l = &k.w.symbol[top.at];
        if (!l->n || l->next < 0) continue;
        const ph_bpe_symbol *r = &k.w.symbol[l->next];
        if ((size_t)l->n + r->n != t->piece[top.id].n) continue; /* stale: one of them has grown */
        if (t->flags[top.id] & PH_TOK_UNUSED) {
            PH_TRY(ph_room_grow(&s->at[2], &s->cap[2], n_splits, 1, sizeof(split), err));
            ((split *)s->at[2])[n_splits++] = (split){l->at, l->n + r->n, l->n};
        }
        ph_bpe_join(&k.w, top.at, top.id);
        PH_TRY(offer(&k, k.w.symbol[top.at].prev, err));
        PH_TRY(offer(&k, top.at, err));
    }
    for (size_t i = 0; i < k.w.n; i++) {
        const ph_bpe_symbol *c = &k.w.symbol[i];
        size_t               before = out->n;
        if (!c->n) continue;
        PH_TRY(emit(&k, s, n_splits, c->at, c->n, out, err));
        int is_unknown = out->n == before + 1 && out->at[before] == t->unk_id;
        if (is_unknown && was_unknown) out->n--; /* SentencePiece fuses neighbours that it does not know */
        was_unknown = is_unknown;
    }
    return PH_OK;
}

const ph_text_model ph_text_model_spm = {.name = "SentencePiece BPE", .encode = encode, .needs_scores = 1};
