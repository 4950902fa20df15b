/* tokbuild.c - gathers what a reader finds and freezes it into an open tokenizer's arena.
 *
 *     put pieces ─ index ─ added tokens, merges ─ freeze: count with a ruler, carve, copy, hash
 *
 * All growing memory is here and is gone when the tokenizer is open.  Everything read is hostile:
 * ids may not leave more holes than four times the pieces listed, pieces are bounded, offsets are 32 bit and
 * checked.
 */
#include "text/tokenizer_tables.h"

#include "base/mem.h"
#include "text/tokhash.h"

#include <stdlib.h>
#include <string.h>

const char ph_gpt2_split[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

ph_rc ph_build_open(ph_tok_build *b, const char *where, ph_err *err) {
    *b = (ph_tok_build){.where = where};
    b->t = calloc(1, sizeof *b->t);
    if (!b->t) return PH_FAIL(err, PH_ENOMEM, "%s: %zu bytes", where, sizeof *b->t);
    ph_tokenizer *t = b->t;
    t->unk_id = t->bos = t->eos = t->unk = t->pad = -1;
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    for (int i = 0; i < 512; i++) t->glyph_id[i] = -1;
    t->word_chars_max = 100;
    size_t n = strlen(where) < sizeof t->name ? strlen(where) : sizeof t->name - 1;
    memcpy(t->name, where, n);
    ph_rc rc = ph_bytes_push(&b->blob, "", 1, err); /* so that the blob is never NULL */
    if (rc) ph_build_close(b);
    return rc;
}

void ph_build_close(ph_tok_build *b) {
    ph_tokenizer_close(b->t);
    ph_bytes_close(&b->blob);
    free(b->piece);
    free(b->merge);
    free(b->slots);
    *b = (ph_tok_build){0};
}

void ph_tokenizer_close(ph_tokenizer *t) {
    if (!t) return;
    for (int i = 0; i < PH_TOK_OPS_MAX; i++) {
        ph_pattern_close(&t->norm_op[i].pattern);
        ph_pattern_close(&t->split_op[i].pattern);
        ph_pattern_close(&t->decode_op[i].pattern);
    }
    ph_arena_close(&t->arena);
    free(t);
}

ph_rc ph_build_text(ph_tok_build *b, const void *text, size_t n, ph_span_of *out, ph_err *err) {
    if (b->blob.n + n > UINT32_MAX / 2)
        return PH_FAIL(err, PH_ELIMIT, "%s: more than %u bytes of pieces", b->where, UINT32_MAX / 2);
    *out = (ph_span_of){(uint32_t)b->blob.n, (uint32_t)n};
    return ph_bytes_push(&b->blob, text, n, err);
}

static int same_text(const ph_tok_build *b, ph_span_of s, const void *text, size_t n) {
    return s.n == n && (!n || !memcmp(b->blob.at + s.at, text, n));
}

ph_rc ph_build_piece_put(ph_tok_build *b, int64_t id, const void *piece, size_t n, double score,
                         unsigned flags, ph_err *err) {
    int64_t limit = (int64_t)(b->n_expected < PH_TOK_IDS_MAX / 4 ? b->n_expected * 4 + 4096 : PH_TOK_IDS_MAX);
    int     shown = n < 40 ? (int)n : 40;
    if (id < 0 || id >= limit)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: piece \"%.*s\" has id %lld; the file lists %zu pieces, so ids below %lld are read", b->where,
            shown, (const char *)piece, (long long)id, b->n_expected, (long long)limit);
    if (n > PH_TOK_PIECE_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: the piece of id %lld has %zu bytes (limit %d)", b->where,
                       (long long)id, n, PH_TOK_PIECE_MAX);
    if ((size_t)id >= b->n_piece) {
        void  *at = b->piece;
        size_t more = (size_t)id + 1 - b->n_piece;
        PH_TRY(ph_room_grow(&at, &b->piece_cap, b->n_piece, more, sizeof *b->piece, err));
        b->piece = at;
        memset(b->piece + b->n_piece, 0, more * sizeof *b->piece);
        b->n_piece = (size_t)id + 1;
    }
    ph_build_piece *p = &b->piece[id];
    if (p->flags & PH_TOK_PRESENT) {
        if (!same_text(b, p->text, piece, n))
            return PH_FAIL(err, PH_EFORMAT, "%s: id %lld is given to \"%.*s\" and to \"%.*s\"", b->where,
                           (long long)id, p->text.n < 40 ? (int)p->text.n : 40,
                           (const char *)b->blob.at + p->text.at, shown, (const char *)piece);
        if (flags & PH_TOK_ADDED)
            p->flags &= (uint16_t) ~(PH_TOK_CONTROL | PH_TOK_NORMALIZED | PH_TOK_LSTRIP | PH_TOK_RSTRIP |
                                     PH_TOK_SINGLE);
        p->flags |= (uint16_t)flags;
        return PH_OK;
    }
    PH_TRY(ph_build_text(b, piece, n, &p->text, err));
    p->score = score;
    p->flags = (uint16_t)(flags | PH_TOK_PRESENT);
    return PH_OK;
}

static uint32_t slots_for(size_t n) {
    uint32_t slots = 16;
    while (slots / 2 < n) slots *= 2;
    return slots;
}

ph_rc ph_build_index(ph_tok_build *b, ph_err *err) {
    free(b->slots);
    b->n_slots = slots_for(b->n_piece);
    b->slots = calloc(b->n_slots, sizeof *b->slots);
    if (!b->slots) return PH_FAIL(err, PH_ENOMEM, "%s: an index of %zu pieces", b->where, b->n_piece);
    uint32_t mask = b->n_slots - 1;
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        if (!(p->flags & PH_TOK_MODEL)) continue;
        uint32_t i = ph_hash_bytes(b->blob.at + p->text.at, p->text.n) & mask;
        while (b->slots[i] && !same_text(b, p->text, b->blob.at + b->piece[b->slots[i] - 1].text.at,
                                         b->piece[b->slots[i] - 1].text.n))
            i = (i + 1) & mask;
        b->slots[i] = (uint32_t)id + 1; /* of two ids with one piece the last is found, as in a map */
    }
    return PH_OK;
}

int32_t ph_build_find(const ph_tok_build *b, const void *piece, size_t n) {
    if (!b->n_slots) return -1;
    uint32_t mask = b->n_slots - 1;
    for (uint32_t i = ph_hash_bytes(piece, n) & mask; b->slots[i]; i = (i + 1) & mask)
        if (same_text(b, b->piece[b->slots[i] - 1].text, piece, n)) return (int32_t)b->slots[i] - 1;
    return -1;
}

int32_t ph_build_find_any(const ph_tok_build *b, const void *piece, size_t n) {
    for (size_t id = 0; id < b->n_piece; id++)
        if ((b->piece[id].flags & PH_TOK_ADDED) && same_text(b, b->piece[id].text, piece, n))
            return (int32_t)id;
    return ph_build_find(b, piece, n);
}

ph_rc ph_build_added(ph_tok_build *b, int64_t id, const void *piece, size_t n, unsigned flags, ph_err *err) {
    int32_t known = ph_build_find(b, piece, n);
    if (!n) return PH_OK; /* Hugging Face ignores an empty added token */
    if (known >= 0) id = known;
    if (id < 0) id = (int64_t)b->n_piece;
    if (b->n_expected < b->n_piece) b->n_expected = b->n_piece;
    return ph_build_piece_put(b, id, piece, n, 0, flags | PH_TOK_ADDED, err);
}

ph_rc ph_build_merge(ph_tok_build *b, const char *left, size_t n_left, const char *right, size_t n_right,
                     ph_err *err) {
    uint8_t  joined[2 * 512], *text = joined;
    size_t   skip = b->t->inner_prefix.n, n = n_left + n_right;
    ph_bytes large = {0};
    ph_rc    rc = PH_OK;
    int32_t  l = ph_build_find(b, left, n_left), r = ph_build_find(b, right, n_right), id;
    if (l < 0 || r < 0)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: merge %zu joins \"%.*s\" and \"%.*s\", and \"%.*s\" is not in the vocabulary",
                       b->where, b->n_merge, n_left < 40 ? (int)n_left : 40, left,
                       n_right < 40 ? (int)n_right : 40, right,
                       l < 0 ? (n_left < 40 ? (int)n_left : 40) : (n_right < 40 ? (int)n_right : 40),
                       l < 0 ? left : right);
    if (skip > n_right) skip = 0;
    if (n > sizeof joined) {
        void *at = NULL;
        PH_TRY(ph_room_grow(&at, &large.cap, 0, n, 1, err));
        text = large.at = at;
    }
    memcpy(text, left, n_left);
    memcpy(text + n_left, right + skip, n_right - skip);
    n -= skip;
    id = ph_build_find(b, text, n);
    if (id < 0)
        rc = PH_FAIL(err, PH_EFORMAT, "%s: merge %zu makes \"%.*s\", which is not in the vocabulary",
                     b->where, b->n_merge, n < 80 ? (int)n : 80, (const char *)text);
    if (!rc) {
        void *at = b->merge;
        rc = ph_room_grow(&at, &b->merge_cap, b->n_merge, 1, sizeof *b->merge, err);
        b->merge = at;
    }
    if (!rc) b->merge[b->n_merge++] = (ph_merge){l, r, id};
    ph_bytes_close(&large);
    return rc;
}

ph_rc ph_build_op(ph_tok_build *b, ph_text_op *list, int *n_list, ph_text_op **out, ph_err *err) {
    *out = NULL;
    if (*n_list == PH_TOK_OPS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: more than %d steps in one sequence", b->where, PH_TOK_OPS_MAX);
    *out = &list[(*n_list)++];
    return PH_OK;
}

ph_rc ph_build_split(ph_tok_build *b, const char *regex, ph_behavior behavior, int invert, ph_err *err) {
    ph_text_op *op = NULL;
    PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
    op->kind = PH_OP_SPLIT;
    op->behavior = behavior;
    op->invert = invert;
    PH_TRY(ph_build_text(b, regex, strlen(regex), &op->b, err));
    return ph_pattern_open(&op->pattern, regex, strlen(regex), b->where, err);
}

ph_rc ph_build_bytelevel(ph_tok_build *b, int use_regex, ph_err *err) {
    ph_text_op *op = NULL;
    if (use_regex) PH_TRY(ph_build_split(b, ph_gpt2_split, PH_SPLIT_ISOLATED, 0, err));
    PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
    op->kind = PH_OP_BYTES;
    return PH_OK;
}

ph_rc ph_build_replace(ph_tok_build *b, ph_text_op *list, int *n_list, const char *from, const char *to,
                       ph_err *err) {
    ph_text_op *op = NULL;
    PH_TRY(ph_build_op(b, list, n_list, &op, err));
    op->kind = PH_OP_REPLACE;
    PH_TRY(ph_build_text(b, from, strlen(from), &op->a, err));
    PH_TRY(ph_build_text(b, to, strlen(to), &op->b, err));
    return ph_pattern_open_literal(&op->pattern, from, strlen(from), b->where, err);
}

/* --- freezing --- */

static int by_text(const uint8_t *blob, ph_span_of a, ph_span_of b) {
    uint32_t least = a.n < b.n ? a.n : b.n;
    int      order = least ? memcmp(blob + a.at, blob + b.at, least) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* qsort has no argument for the blob, so ids are sorted here: heap sort, in place, n log n on any input. */
typedef int order_fn(const ph_tok_build *b, const void *x, const void *y);
static void sift(const ph_tok_build *b, uint8_t *at, size_t size, size_t i, size_t n, order_fn *order) {
    uint8_t tmp[32];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && order(b, at + child * size, at + (child + 1) * size) < 0) child++;
        if (order(b, at + i * size, at + child * size) >= 0) return;
        memcpy(tmp, at + i * size, size);
        memcpy(at + i * size, at + child * size, size);
        memcpy(at + child * size, tmp, size);
    }
}
static void sort(const ph_tok_build *b, void *items, size_t n, size_t size, order_fn *order) {
    uint8_t *at = items, tmp[32];
    for (size_t i = n / 2; i-- > 0;) sift(b, at, size, i, n, order);
    for (size_t end = n; end-- > 1;) {
        memcpy(tmp, at, size);
        memcpy(at, at + end * size, size);
        memcpy(at + end * size, tmp, size);
        sift(b, at, size, 0, end, order);
    }
}
static int order_rows(const ph_tok_build *b, const void *x, const void *y) {
    const ph_added_row *p = x, *q = y;
    int                 order = by_text(b->blob.at, p->text, q->text);
    return order ? order : (p->id > q->id) - (p->id < q->id);
}
static int order_ids(const ph_tok_build *b, const void *x, const void *y) {
    const uint32_t *p = x, *q = y;
    return by_text(b->blob.at, b->piece[*p].text, b->piece[*q].text);
}
static int order_scores(const ph_tok_build *b, const void *x, const void *y) {
    double p = b->piece[*(const uint32_t *)x].score, q = b->piece[*(const uint32_t *)y].score;
    return (p < q) - (p > q); /* best first */
}

typedef struct tables { /* the same pointers as in ph_tokenizer, writable */
    uint8_t      *blob;
    ph_span_of   *piece;
    uint16_t     *flags;
    double       *score;
    uint32_t     *slots, *merge_slots, *sorted, *rank;
    ph_added_row *raw, *norm;
    ph_merge     *merges;
} tables;

#define CARVE(field, count)                                                                                  \
    do {                                                                                                     \
        void *at_;                                                                                           \
        PH_TRY(ph_arena_carve(arena, &at_, (count), sizeof *x->field, err));                                 \
        x->field = at_;                                                                                      \
    } while (0)

static ph_rc carve(const ph_tok_build *b, tables *x, ph_arena *arena, ph_err *err) {
    const ph_tokenizer *t = b->t;
    CARVE(blob, b->blob.n);
    CARVE(piece, b->n_piece);
    CARVE(flags, b->n_piece);
    if (b->need_score) CARVE(score, b->n_piece);
    CARVE(slots, t->n_slots);
    CARVE(raw, t->n_raw);
    CARVE(norm, t->n_norm);
    CARVE(merges, t->n_merges);
    CARVE(merge_slots, t->n_merge_slots);
    if (b->need_sorted) CARVE(sorted, t->n_model);
    if (b->by_score) CARVE(rank, b->n_piece);
    return PH_OK;
}

/* Added tokens of one kind, as rows; normalized ones get their normalized text into the blob. */
static ph_rc rows_of(ph_tok_build *b, ph_added_row **rows, uint32_t *n_rows, unsigned normalized,
                     ph_err *err) {
    ph_bytes text = {0}, spare = {0};
    size_t   cap = 0;
    void    *at = NULL;
    ph_rc    rc = PH_OK;
    for (size_t id = 0; id < b->n_piece && !rc; id++) {
        ph_build_piece *p = &b->piece[id];
        ph_span_of      match = p->text;
        int             lost = 0;
        if (!(p->flags & PH_TOK_ADDED) || !p->text.n || (p->flags & PH_TOK_NORMALIZED) != normalized)
            continue;
        if (normalized && !b->t->user_in_model) {
            text.n = 0;
            b->t->blob = b->blob.at;
            rc = ph_bytes_push(&text, b->blob.at + p->text.at, p->text.n, err);
            if (!rc) rc = ph_normalize(b->t, &text, &spare, &lost, err);
            if (!rc && !same_text(b, match, text.at, text.n))
                rc = ph_build_text(b, text.at, text.n, &match, err);
        }
        if (!rc) rc = ph_room_grow(&at, &cap, *n_rows, 1, sizeof **rows, err);
        if (!rc) ((ph_added_row *)at)[(*n_rows)++] = (ph_added_row){match, (int32_t)id};
    }
    *rows = at;
    if (!rc) sort(b, *rows, *n_rows, sizeof **rows, order_rows);
    ph_bytes_close(&text);
    ph_bytes_close(&spare);
    return rc;
}

static void fill_hashes(const ph_tok_build *b, tables *x) {
    const ph_tokenizer *t = b->t;
    memset(x->slots, 0, t->n_slots * sizeof *x->slots);
    memset(x->merge_slots, 0, t->n_merge_slots * sizeof *x->merge_slots);
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        if (!(p->flags & PH_TOK_MODEL)) continue;
        uint32_t mask = t->n_slots - 1, i = ph_hash_bytes(b->blob.at + p->text.at, p->text.n) & mask;
        while (x->slots[i] && !same_text(b, p->text, b->blob.at + b->piece[x->slots[i] - 1].text.at,
                                         b->piece[x->slots[i] - 1].text.n))
            i = (i + 1) & mask;
        x->slots[i] = (uint32_t)id + 1;
    }
    for (uint32_t k = 0; k < t->n_merges; k++) {
        const ph_merge *m = &x->merges[k];
        uint32_t        mask = t->n_merge_slots - 1, i = ph_hash_pair(m->left, m->right) & mask;
        while (x->merge_slots[i]) {
            const ph_merge *o = &x->merges[x->merge_slots[i] - 1];
            if (o->left == m->left && o->right == m->right)
                break; /* a pair listed twice: the last rank counts */
            i = (i + 1) & mask;
        }
        x->merge_slots[i] = k + 1;
    }
}

static ph_rc fill_orders(const ph_tok_build *b, tables *x, ph_err *err) {
    if (x->sorted) {
        size_t n = 0;
        for (size_t id = 0; id < b->n_piece; id++)
            if (b->piece[id].flags & PH_TOK_MODEL) x->sorted[n++] = (uint32_t)id;
        sort(b, x->sorted, n, sizeof *x->sorted, order_ids);
    }
    if (!x->rank) return PH_OK;
    uint32_t *order = malloc(b->n_piece * sizeof *order);
    if (!order) return PH_FAIL(err, PH_ENOMEM, "%s: the order of %zu scores", b->where, b->n_piece);
    for (size_t i = 0; i < b->n_piece; i++) order[i] = (uint32_t)i;
    sort(b, order, b->n_piece, sizeof *order, order_scores);
    for (size_t i = 0, r = 0; i < b->n_piece; i++) {
        if (i && order_scores(b, &order[i - 1], &order[i]) != 0) r = i; /* equal scores share a rank */
        x->rank[order[i]] = (uint32_t)r;
    }
    free(order);
    return PH_OK;
}

static void fill_shortcuts(ph_tokenizer *t) {
    for (unsigned i = 0; i < 256; i++) {
        static const char hex[] = "0123456789ABCDEF";
        char              name[6] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
        t->byte_id[i] = ph_tok_find(t, (const uint8_t *)name, sizeof name);
    }
    for (uint32_t c = 0; c < 512; c++) {
        uint8_t out[4];
        size_t  n = c < 0x80 ? 1 : 2;
        out[0] = (uint8_t)(c < 0x80 ? c : 0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        t->glyph_id[c] = ph_tok_find(t, out, n);
    }
}

static ph_rc freeze(ph_tok_build *b, ph_added_row **raw, ph_added_row **norm, ph_err *err) {
    ph_tokenizer *t = b->t;
    tables        x = {0};
    ph_arena      ruler = ph_arena_ruler();
    PH_TRY(rows_of(b, raw, &t->n_raw, 0, err));
    PH_TRY(rows_of(b, norm, &t->n_norm, PH_TOK_NORMALIZED, err));
    t->blob = NULL;
    t->n_ids = (uint32_t)b->n_piece;
    if (t->unk < 0) t->unk = t->unk_id;
    t->n_model = 0;
    for (size_t id = 0; id < b->n_piece; id++) t->n_model += (b->piece[id].flags & PH_TOK_MODEL) != 0;
    t->n_slots = slots_for(t->n_model);
    t->n_merges = (uint32_t)b->n_merge;
    t->n_merge_slots = b->n_merge ? slots_for(b->n_merge) : 0;
    PH_TRY(carve(b, &x, &ruler, err));
    PH_TRY(ph_arena_open(&t->arena, ruler.used, err));
    PH_TRY(carve(b, &x, &t->arena, err));
    if (b->blob.n) memcpy(x.blob, b->blob.at, b->blob.n);
    for (size_t id = 0; id < b->n_piece; id++) {
        x.piece[id] = b->piece[id].text;
        x.flags[id] = b->piece[id].flags;
        if (x.score) x.score[id] = b->piece[id].score;
    }
    if (t->n_raw) memcpy(x.raw, *raw, t->n_raw * sizeof *x.raw);
    if (t->n_norm) memcpy(x.norm, *norm, t->n_norm * sizeof *x.norm);
    if (b->n_merge) memcpy(x.merges, b->merge, b->n_merge * sizeof *x.merges);
    fill_hashes(b, &x);
    PH_TRY(fill_orders(b, &x, err));
    t->blob = x.blob, t->piece = x.piece, t->flags = x.flags, t->score = x.score, t->slots = x.slots;
    t->raw = x.raw, t->norm = x.norm, t->merges = x.merges, t->merge_slots = x.merge_slots;
    t->sorted = x.sorted, t->rank = x.rank;
    fill_shortcuts(t);
    for (int i = 0; i < PH_TOK_OPS_MAX; i++)
        t->pattern_bytes +=
            t->norm_op[i].pattern.bytes + t->split_op[i].pattern.bytes + t->decode_op[i].pattern.bytes;
    return PH_OK;
}

ph_rc ph_tok_freeze(ph_tok_build *b, ph_tokenizer **out, ph_err *err) {
    ph_added_row *raw = NULL, *norm = NULL;
    ph_rc         rc = PH_OK;
    if (!b->n_piece) rc = PH_FAIL(err, PH_EFORMAT, "%s: the vocabulary is empty", b->where);
    if (!rc) rc = freeze(b, &raw, &norm, err);
    free(raw);
    free(norm);
    if (rc) return rc;
    *out = b->t;
    b->t = NULL;
    return PH_OK;
}
