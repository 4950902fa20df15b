/* spm.c - SentencePiece's BPE: any two neighbours that together spell a piece may merge, best score first.
 *
 * It differs from bpe.c in that there is no list of merges: the vocabulary and its scores are the list.  A
 * symbol that is no piece in the end becomes bytes, or unk.  Pieces marked unused are steps only: what
 * they were merged from comes out instead.  Whether two neighbours spell a piece costs the same however long
 * they are: the word's beginnings are hashed once, and only what is found is compared.
 * Source: SentencePiece (Kudo & Richardson, arXiv:1808.06226), bpe_model; llama.cpp reads GGUF so too.
 */
#include "text/tokenizer_tables.h"

#include "text/bpe_heap.h"
#include "text/tokhash.h"
#include "text/utf8.h"

typedef struct split { /* an unused piece and how it was joined, to undo it */
    uint32_t at, n, left;
    int32_t  before, before_right; /* the last split of its left part, of its right part; -1 */
} split;

typedef struct work {
    const ph_tokenizer *t;
    const uint8_t      *word;
    const uint64_t     *sums; /* [n + 1] hashes of the word's beginnings */
    ph_bpe              w;
    int                 is_guarded;
    uint64_t            look_ups;
} work;

static int32_t piece_of(work *k, size_t at, size_t n) {
    int32_t id = ph_tok_find_hashed(k->t, ph_hash_part(k->sums, at, n), k->word + at, n);
    k->look_ups++;
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
 * stack of ranges (before: where their splits begin) in scratch 3. */
static ph_rc emit(work *k, ph_model_scratch *s, int32_t last, uint32_t at, uint32_t n, ph_ids *out,
                  ph_err *err) {
    const ph_tokenizer *t = k->t;
    size_t              depth = 0;
    PH_TRY(ph_room_grow(&s->at[3], &s->cap[3], 0, 2, sizeof(split), err));
    ((split *)s->at[3])[depth++] = (split){.at = at, .n = n, .before = last};
    while (depth) {
        split        top = ((split *)s->at[3])[--depth];
        int32_t      id = piece_of(k, top.at, top.n), i = top.before;
        const split *all = s->at[2];
        int          found = id >= 0 && (t->flags[id] & PH_TOK_UNUSED);
        while (found && i >= 0 && all[i].n > top.n) i = all[i].before;
        found = found && i >= 0 && all[i].n == top.n;
        if (found) {
            split c = all[i];
            PH_TRY(ph_room_grow(&s->at[3], &s->cap[3], depth, 2, sizeof(split), err));
            ((split *)s->at[3])[depth++] =
                (split){.at = c.at + c.left, .n = c.n - c.left, .before = c.before_right};
            ((split *)s->at[3])[depth++] = (split){.at = c.at, .n = c.left, .before = c.before};
        } else if (id >= 0) {
            PH_TRY(ph_ids_push(out, id, err));
        } else if (t->byte_fallback) {
            for (uint32_t c = 0; c < top.n; c++) {
                int32_t byte = t->byte_id[k->word[top.at + c]];
                if (byte < 0) byte = t->unk_id;
                if (byte >= 0) PH_TRY(ph_ids_push(out, byte, err));
            }
        } else if (t->unk_id >= 0) {
            PH_TRY(ph_ids_push(out, t->unk_id, err));
        }
    }
    return PH_OK;
}

static ph_rc hash_beginnings(work *k, size_t n, ph_model_scratch *s, ph_err *err) {
    PH_TRY(ph_room_grow(&s->at[4], &s->cap[4], 0, n + 1, sizeof(uint64_t), err));
    uint64_t *sums = s->at[4];
    sums[0] = 0;
    for (size_t i = 0; i < n; i++) sums[i + 1] = ph_hash_add(sums[i], k->word[i]);
    k->sums = sums;
    return PH_OK;
}

static ph_rc encode(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, ph_model_scratch *s,
                    ph_ids *out, ph_err *err) {
    work             k = {.t = t, .word = word, .is_guarded = is_guarded};
    ph_bpe_candidate top;
    size_t           n_splits = 0;
    int              was_unknown = 0;
    PH_TRY(hash_beginnings(&k, n, s, err));
    ph_bpe_begin(&k.w, s);
    for (size_t i = 0, step; i < n; i += step) {
        step = ph_utf8_length(word[i]);
        PH_TRY(ph_bpe_push(&k.w, -1, i, step, err));
    }
    ph_bpe_link(&k.w);
    for (size_t i = 0; i + 1 < k.w.n; i++) PH_TRY(offer(&k, (int32_t)i, err));
    while (ph_bpe_take(&k.w, &top)) {
        const ph_bpe_symbol *l = &k.w.symbol[top.at];
        if (!l->n || l->next < 0) continue;
        const ph_bpe_symbol *r = &k.w.symbol[l->next];
        if ((size_t)l->n + r->n != t->piece[top.id].n) continue; /* stale: one of them has grown */
        int32_t last = l->id;                                    /* of a symbol: its newest split */
        if (t->flags[top.id] & PH_TOK_UNUSED) {
            PH_TRY(ph_room_grow(&s->at[2], &s->cap[2], n_splits, 1, sizeof(split), err));
            last = (int32_t)n_splits;
            ((split *)s->at[2])[n_splits++] = (split){l->at, l->n + r->n, l->n, l->id, r->id};
        }
        ph_bpe_join(&k.w, top.at, last);
        PH_TRY(offer(&k, k.w.symbol[top.at].prev, err));
        PH_TRY(offer(&k, top.at, err));
    }
    for (size_t i = 0; i < k.w.n; i++) {
        const ph_bpe_symbol *c = &k.w.symbol[i];
        size_t               before = out->n;
        if (!c->n) continue;
        PH_TRY(emit(&k, s, c->id, c->at, c->n, out, err));
        int is_unknown = out->n == before + 1 && out->at[before] == t->unk_id;
        if (is_unknown && was_unknown) out->n--; /* SentencePiece fuses neighbours that it does not know */
        was_unknown = is_unknown;
    }
    s->work += n + k.look_ups;
    return PH_OK;
}

const ph_text_model ph_text_model_spm = {.name = "SentencePiece BPE", .encode = encode, .needs_scores = 1};
