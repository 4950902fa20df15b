/* toktables.c - the lookups of an open tokenizer: piece to id, pair to merge.
 *
 * Hash tables use open addressing with linear probing over powers of two, at most half full.  WordPiece's
 * pieces are sorted by their bytes: matching a text narrows a range of rows byte by byte, so a match costs
 * its own length times a logarithm, however many pieces begin alike.
 */
#include "text/tokenizer_tables.h"

#include "text/tokhash.h"

#include <string.h>

int32_t ph_tok_find(const ph_tokenizer *t, const uint8_t *piece, size_t n) {
    return ph_tok_find_hashed(t, ph_hash_bytes(piece, n), piece, n);
}

int32_t ph_tok_find_hashed(const ph_tokenizer *t, uint32_t hash, const uint8_t *piece, size_t n) {
    if (!t->n_slots) return -1;
    uint32_t mask = t->n_slots - 1;
    for (uint32_t i = hash & mask; t->slots[i]; i = (i + 1) & mask) {
        uint32_t id = t->slots[i] - 1;
        if (t->piece[id].n == n && !memcmp(ph_tok_text(t, t->piece[id]), piece, n)) return (int32_t)id;
    }
    return -1;
}

int32_t ph_tok_merge(const ph_tokenizer *t, int32_t left, int32_t right, uint32_t *rank) {
    if (!t->n_merge_slots) return -1;
    uint32_t mask = t->n_merge_slots - 1;
    for (uint32_t i = ph_hash_pair(left, right) & mask; t->merge_slots[i]; i = (i + 1) & mask) {
        uint32_t        k = t->merge_slots[i] - 1;
        const ph_merge *m = &t->merges[k];
        if (m->left == left && m->right == right) {
            *rank = k;
            return m->id;
        }
    }
    return -1;
}

static int piece_byte(const ph_tokenizer *t, uint32_t i, size_t depth) {
    ph_span_of s = t->piece[t->sorted[i]];
    return depth < s.n ? t->blob[s.at + depth] : -1;
}

void ph_tok_narrow(const ph_tokenizer *t, uint32_t *lo, uint32_t *hi, size_t depth, uint8_t c) {
    uint32_t a = *lo, b = *hi;
    while (a < b) {
        uint32_t mid = a + (b - a) / 2;
        if (piece_byte(t, mid, depth) < c)
            a = mid + 1;
        else
            b = mid;
    }
    *lo = a;
    b = *hi;
    while (a < b) {
        uint32_t mid = a + (b - a) / 2;
        if (piece_byte(t, mid, depth) <= c)
            a = mid + 1;
        else
            b = mid;
    }
    *hi = a;
}

static const ph_text_model *const models[] = {
#define PH_TEXT_MODEL(n) &ph_text_model_##n,
#include "text/model.def"
#undef PH_TEXT_MODEL
};
enum { N_MODELS = sizeof models / sizeof *models };

const ph_text_model *ph_text_model_find(const char *name) {
    for (size_t i = 0; i < N_MODELS; i++)
        if (!strcmp(models[i]->name, name)) return models[i];
    return NULL;
}

const char *ph_tokenizer_model_name(size_t i) {
    return i < N_MODELS ? models[i]->name : NULL;
}

int32_t ph_tokenizer_count(const ph_tokenizer *t) {
    return (int32_t)t->n_ids;
}

const char *ph_tokenizer_piece(const ph_tokenizer *t, int32_t id, size_t *n) {
    *n = 0;
    if (id < 0 || (uint32_t)id >= t->n_ids || !(t->flags[id] & PH_TOK_PRESENT)) return "";
    *n = t->piece[id].n;
    return (const char *)ph_tok_text(t, t->piece[id]);
}

int32_t ph_tokenizer_id(const ph_tokenizer *t, const char *piece, size_t n) {
    for (uint32_t lo = 0, hi = t->raw.n;
         lo < hi;) { /* added tokens are sorted by piece when not normalized */
        uint32_t   mid = lo + (hi - lo) / 2;
        ph_span_of s = t->raw.row[mid].text;
        size_t     least = s.n < n ? s.n : n;
        int        order = least ? memcmp(ph_tok_text(t, s), piece, least) : 0;
        if (!order && s.n == n) return t->raw.row[mid].id;
        if (order < 0 || (!order && s.n < n))
            lo = mid + 1;
        else
            hi = mid;
    }
    for (uint32_t i = 0; i < t->norm.n; i++) {
        ph_span_of s = t->piece[t->norm.row[i].id];
        if (s.n == n && !memcmp(ph_tok_text(t, s), piece, n)) return t->norm.row[i].id;
    }
    return ph_tok_find(t, (const uint8_t *)piece, n);
}

int ph_tokenizer_is_control(const ph_tokenizer *t, int32_t id) {
    return id >= 0 && (uint32_t)id < t->n_ids && (t->flags[id] & PH_TOK_CONTROL) != 0;
}
int32_t ph_tokenizer_bos(const ph_tokenizer *t) {
    return t->bos;
}
int32_t ph_tokenizer_eos(const ph_tokenizer *t) {
    return t->eos;
}
int32_t ph_tokenizer_pad(const ph_tokenizer *t) {
    return t->pad;
}

size_t ph_tokenizer_eos_set(const ph_tokenizer *t, const int64_t *more, size_t n_more, int32_t *out,
                            size_t out_max) {
    size_t n = 0;
    for (size_t i = 0; i <= n_more && n < out_max; i++) {
        int64_t id = i ? more[i - 1] : t->eos;
        int     is_new = id >= 0 && id < (int64_t)t->n_ids;
        for (size_t k = 0; k < n; k++)
            if (out[k] == id) is_new = 0;
        if (is_new) out[n++] = (int32_t)id;
    }
    return n;
}

size_t ph_tokenizer_bytes(const ph_tokenizer *t) {
    return sizeof *t + t->arena.size + t->pattern_bytes;
}

size_t ph_tokenizer_mapped(const ph_tokenizer *t) {
    return t->mapped;
}
