/* tokfreeze.c - what a reader found becomes an open tokenizer: all its tables in one arena of known size.
 *
 *     rows and automata ─ count with a ruler ─ carve, copy ─ hash, sort
 *
 * Tables whose size is not known before they are made are made on the heap first, and copied.
 */
#include "text/tokenizer_tables.h"

#include "base/mem.h"
#include "text/tokhash.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

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
    int                 order = ph_tok_order(b->blob.at, p->text, q->text);
    return order ? order : (p->id > q->id) - (p->id < q->id);
}
static int order_ids(const ph_tok_build *b, const void *x, const void *y) {
    const uint32_t *p = x, *q = y;
    return ph_tok_order(b->blob.at, b->piece[*p].text, b->piece[*q].text);
}
static int order_scores(const ph_tok_build *b, const void *x, const void *y) {
    double p = b->piece[*(const uint32_t *)x].score, q = b->piece[*(const uint32_t *)y].score;
    return (p < q) - (p > q); /* best first */
}

typedef struct tables { /* the same pointers as in ph_tokenizer, writable */
    uint8_t     *blob;
    ph_span_of  *piece;
    uint16_t    *flags;
    double      *score;
    uint32_t    *slots, *merge_slots, *sorted, *rank;
    ph_added_set raw, norm, spelled;
    ph_automaton pieces;
    ph_merge    *merges;
} tables;

#define CARVE(field, count)                                                                                  \
    do {                                                                                                     \
        void *at_;                                                                                           \
        PH_TRY(ph_arena_carve(arena, &at_, (count), sizeof *x->field, err));                                 \
        x->field = at_;                                                                                      \
    } while (0)

static ph_rc carve(const ph_tok_build *b, const tables *found, tables *x, ph_arena *arena, ph_err *err) {
    const ph_tokenizer *t = b->t;
    CARVE(blob, b->blob.n);
    CARVE(piece, b->n_piece);
    CARVE(flags, b->n_piece);
    if (b->need_score) CARVE(score, b->n_piece);
    CARVE(slots, t->n_slots);
    PH_TRY(ph_added_carve(&x->raw, &found->raw, arena, err));
    PH_TRY(ph_added_carve(&x->norm, &found->norm, arena, err));
    PH_TRY(ph_added_carve(&x->spelled, &found->spelled, arena, err));
    PH_TRY(ph_automaton_copy(&x->pieces, &found->pieces, arena, err));
    CARVE(merges, t->n_merges);
    CARVE(merge_slots, t->n_merge_slots);
    if (b->need_sorted) CARVE(sorted, t->n_model);
    if (b->by_score) CARVE(rank, b->n_piece);
    return PH_OK;
}

static ph_rc push_row(const ph_tok_build *b, ph_added_set *set, size_t *cap, ph_span_of text, size_t id,
                      ph_err *err) {
    void *at = set->row;
    PH_TRY(ph_room_grow(&at, cap, set->n, 1, sizeof *set->row, err));
    set->row = at;
    set->row[set->n++] = (ph_added_row){text, (int32_t)id, !(b->piece[id].flags & PH_TOK_CONTROL)};
    return PH_OK;
}

/* Added tokens of one kind, as rows; normalized ones get their normalized text into the blob. */
static ph_rc rows_of(ph_tok_build *b, ph_added_set *set, unsigned normalized, ph_err *err) {
    ph_bytes text = {0}, spare = {0};
    size_t   cap = 0;
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
            if (!rc && !ph_build_is_text(b, match, text.at, text.n))
                rc = ph_build_text(b, text.at, text.n, &match, err);
        }
        if (!rc) rc = push_row(b, set, &cap, match, id, err);
    }
    if (!rc) sort(b, set->row, set->n, sizeof *set->row, order_rows);
    if (!rc) rc = ph_added_link(set, b->blob.at, b->where, err);
    ph_bytes_close(&text);
    ph_bytes_close(&spare);
    return rc;
}

static ph_rc rows_by_spelling(ph_tok_build *b, ph_added_set *set, const ph_added_set *norm, ph_err *err) {
    size_t cap = 0;
    for (uint32_t i = 0; i < norm->n; i++) {
        const ph_build_piece *p = &b->piece[norm->row[i].id];
        if (p->flags & PH_TOK_CONTROL) PH_TRY(push_row(b, set, &cap, p->text, (size_t)norm->row[i].id, err));
    }
    sort(b, set->row, set->n, sizeof *set->row, order_rows);
    return ph_added_link(set, b->blob.at, b->where, err);
}

/* What the model is to find of piece p; nothing: it is not to be found. */
static ph_span_of spelling(const ph_tok_build *b, const ph_build_piece *p) {
    ph_span_of     s = p->text, prefix = b->t->inner_prefix;
    const uint8_t *blob = b->blob.at;
    if (!(p->flags & PH_TOK_MODEL) || (p->flags & PH_TOK_BYTE)) return (ph_span_of){0, 0};
    if (b->need_pieces == 1) return s;
    if (s.n < prefix.n || memcmp(blob + s.at, blob + prefix.at, prefix.n)) return (ph_span_of){0, 0};
    s.at += prefix.n, s.n -= prefix.n;
    return ph_utf8_is_valid(blob + s.at, s.n) ? s : (ph_span_of){0, 0};
}

/* Of two ids with one piece the last is found, as in a map. */
static ph_rc find_pieces(const ph_tok_build *b, ph_automaton *pieces, ph_err *err) {
    ph_span_of *text = calloc(b->n_piece, sizeof *text);
    if (!text) return PH_FAIL(err, PH_ENOMEM, "%s: an automaton of %zu pieces", b->where, b->n_piece);
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        int32_t               last = ph_build_find(b, b->blob.at + p->text.at, p->text.n);
        if (last < 0 || last == (int32_t)id) text[id] = spelling(b, p);
    }
    ph_rc rc = ph_automaton_open(pieces, b->blob.at, text, (uint32_t)b->n_piece, b->need_pieces == 2, err);
    free(text);
    return rc;
}

/* Everything whose size is not known before it is made. */
static ph_rc find_tables(ph_tok_build *b, tables *found, ph_err *err) {
    PH_TRY(rows_of(b, &found->raw, 0, err));
    PH_TRY(rows_of(b, &found->norm, PH_TOK_NORMALIZED, err));
    PH_TRY(rows_by_spelling(b, &found->spelled, &found->norm, err));
    return b->need_pieces ? find_pieces(b, &found->pieces, err) : PH_OK;
}

static void close_tables(tables *found) {
    ph_added_set *set[] = {&found->raw, &found->norm, &found->spelled};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) ph_added_close(set[i]);
    ph_automaton_close(&found->pieces);
}

static void fill_hashes(const ph_tok_build *b, tables *x) {
    const ph_tokenizer *t = b->t;
    memset(x->slots, 0, t->n_slots * sizeof *x->slots);
    memset(x->merge_slots, 0, t->n_merge_slots * sizeof *x->merge_slots);
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        if (!(p->flags & PH_TOK_MODEL)) continue;
        uint32_t mask = t->n_slots - 1, i = ph_hash_bytes(b->blob.at + p->text.at, p->text.n) & mask;
        while (x->slots[i] && !ph_build_is_text(b, p->text, b->blob.at + b->piece[x->slots[i] - 1].text.at,
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
        if (ph_tokenizer_is_control(t, t->byte_id[i])) t->byte_id[i] = -1; /* typed text becomes bytes */
    }
    for (uint32_t c = 0; c < 512; c++) {
        uint8_t out[4];
        size_t  n = c < 0x80 ? 1 : 2;
        out[0] = (uint8_t)(c < 0x80 ? c : 0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        t->glyph_id[c] = ph_tok_find(t, out, n);
    }
}

static ph_rc freeze(ph_tok_build *b, tables *found, ph_err *err) {
    ph_tokenizer *t = b->t;
    tables        x = {0};
    ph_arena      ruler = ph_arena_ruler();
    PH_TRY(find_tables(b, found, err));
    t->blob = NULL;
    t->n_ids = (uint32_t)b->n_piece;
    if (t->unk < 0) t->unk = t->unk_id;
    t->n_model = 0;
    for (size_t id = 0; id < b->n_piece; id++) t->n_model += (b->piece[id].flags & PH_TOK_MODEL) != 0;
    t->n_slots = ph_hash_slots(t->n_model);
    t->n_merges = (uint32_t)b->n_merge;
    t->n_merge_slots = b->n_merge ? ph_hash_slots(b->n_merge) : 0;
    PH_TRY(carve(b, found, &x, &ruler, err));
    PH_TRY(ph_arena_open(&t->arena, ruler.used, err));
    PH_TRY(carve(b, found, &x, &t->arena, err));
    if (b->blob.n) memcpy(x.blob, b->blob.at, b->blob.n);
    for (size_t id = 0; id < b->n_piece; id++) {
        x.piece[id] = b->piece[id].text;
        x.flags[id] = b->piece[id].flags;
        if (x.score) x.score[id] = b->piece[id].score;
    }
    if (b->n_merge) memcpy(x.merges, b->merge, b->n_merge * sizeof *x.merges);
    fill_hashes(b, &x);
    PH_TRY(fill_orders(b, &x, err));
    t->n_blob = (uint32_t)b->blob.n;
    t->blob = x.blob, t->piece = x.piece, t->flags = x.flags, t->score = x.score, t->slots = x.slots;
    t->raw = x.raw, t->norm = x.norm, t->spelled = x.spelled, t->pieces = x.pieces;
    t->merges = x.merges, t->merge_slots = x.merge_slots, t->sorted = x.sorted, t->rank = x.rank;
    fill_shortcuts(t);
    for (int i = 0; i < PH_TOK_OPS_MAX; i++)
        t->pattern_bytes +=
            t->norm_op[i].pattern.bytes + t->split_op[i].pattern.bytes + t->decode_op[i].pattern.bytes;
    return PH_OK;
}

ph_rc ph_tok_freeze(ph_tok_build *b, ph_tokenizer **out, ph_err *err) {
    tables found = {0};
    ph_rc  rc = PH_OK;
    if (!b->n_piece) rc = PH_FAIL(err, PH_EFORMAT, "%s: the vocabulary is empty", b->where);
    if (!rc) rc = freeze(b, &found, err);
    close_tables(&found);
    if (rc) return rc;
    *out = b->t;
    b->t = NULL;
    return PH_OK;
}
