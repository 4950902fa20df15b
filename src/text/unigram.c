/* unigram.c - the segmentation of highest probability under a unigram model (Viterbi).
 *
 * best[i] is the best way to spell the first i bytes: over every piece that ends there (an automaton knows
 * them, however long the pieces are).  A character that no piece covers costs unk_score.  Neighbouring
 * unknowns are fused into one. Source: Kudo, arXiv:1804.10959; ties and fusing as in Hugging Face tokenizers
 * (models/unigram).
 */
#include "text/tokenizer_tables.h"

#include "text/utf8.h"

typedef struct node {
    double   score;
    uint32_t from; /* where the last piece begins; UINT32_MAX: not reached */
    int32_t  id;   /* -1: unknown character */
} node;

static void reach(node *best, size_t from, size_t to, int32_t id, double score) {
    if (best[to].from != UINT32_MAX && !(score > best[to].score)) return;
    best[to] = (node){score, (uint32_t)from, id};
}

/* Every piece that ends at `end`, longest first; then the character itself, unless it is a piece. */
static void arrive(const ph_tokenizer *t, node *best, size_t end, size_t step, uint32_t hit, int is_guarded,
                   uint64_t *work) {
    int has_single = 0;
    for (uint32_t k = hit; k; k = t->pieces.shorter[k - 1], ++*work) {
        uint32_t id = k - 1, n = t->piece[id].n;
        size_t   from = end - n;
        if (best[from].from == UINT32_MAX || (is_guarded && (t->flags[id] & PH_TOK_CONTROL))) continue;
        reach(best, from, end, (int32_t)id, best[from].score + t->score[id]);
        if (n == step) has_single = 1;
    }
    if (!has_single) reach(best, end - step, end, -1, best[end - step].score + t->unk_score);
}

static ph_rc push_text(const ph_tokenizer *t, const uint8_t *at, size_t n, int is_guarded, ph_ids *out,
                       ph_err *err) {
    int32_t id = ph_tok_find(t, at, n);
    if (id >= 0 && !(is_guarded && (t->flags[id] & PH_TOK_CONTROL))) return ph_ids_push(out, id, err);
    int all = t->byte_fallback;
    for (size_t i = 0; i < n && all; i++) all = t->byte_id[at[i]] >= 0;
    if (!all) return t->unk_id >= 0 ? ph_ids_push(out, t->unk_id, err) : PH_OK;
    for (size_t i = 0; i < n; i++) PH_TRY(ph_ids_push(out, t->byte_id[at[i]], err));
    return PH_OK;
}

static ph_rc encode(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded, ph_model_scratch *s,
                    ph_ids *out, ph_err *err) {
    if (n >= UINT32_MAX) return PH_FAIL(err, PH_ELIMIT, "text: a word of %zu bytes", n);
    PH_TRY(ph_room_grow(&s->at[0], &s->cap[0], 0, n + 1, sizeof(node), err));
    node *best = s->at[0];
    for (size_t i = 0; i <= n; i++) best[i] = (node){0, UINT32_MAX, -1};
    best[0].from = 0;
    uint32_t at = 0;
    for (size_t i = 0, step; i < n; i += step) {
        step = ph_utf8_length(word[i]);
        for (size_t k = 0; t->pieces.root && k < step; k++)
            at = ph_automaton_step(&t->pieces, at, word[i + k], &s->work);
        arrive(t, best, i + step, step, t->pieces.root ? t->pieces.hit[at] : 0, is_guarded, &s->work);
    }
    /* Walk back, turning each node into "the piece that begins here ends there". */
    PH_TRY(ph_room_grow(&s->at[1], &s->cap[1], 0, n + 1, sizeof(uint32_t), err));
    uint32_t *ends = s->at[1];
    for (size_t end = n; end > 0; end = best[end].from) ends[best[end].from] = (uint32_t)end;
    for (size_t i = 0; i < n;) {
        size_t end = ends[i];
        if (best[end].id < 0 || best[end].id == t->unk_id)
            while (end < n && (best[ends[end]].id < 0 || best[ends[end]].id == t->unk_id)) end = ends[end];
        PH_TRY(push_text(t, word + i, end - i, is_guarded, out, err));
        i = end;
    }
    return PH_OK;
}

const ph_text_model ph_text_model_unigram = {
    .name = "Unigram", .encode = encode, .needs_scores = 1, .needs_pieces = 1};
