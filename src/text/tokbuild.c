/* tokbuild.c - gathers what a reader finds.
 *
 *     put pieces ─ index ─ added tokens, merges ─► freeze (tokfreeze.c)
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

int ph_build_is_text(const ph_tok_build *b, ph_span_of s, const void *text, size_t n) {
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
        if (!ph_build_is_text(b, p->text, piece, n))
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

ph_rc ph_build_index(ph_tok_build *b, ph_err *err) {
    free(b->slots);
    b->n_slots = ph_hash_slots(b->n_piece);
    b->slots = calloc(b->n_slots, sizeof *b->slots);
    if (!b->slots) return PH_FAIL(err, PH_ENOMEM, "%s: an index of %zu pieces", b->where, b->n_piece);
    uint32_t mask = b->n_slots - 1;
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        if (!(p->flags & PH_TOK_MODEL)) continue;
        uint32_t i = ph_hash_bytes(b->blob.at + p->text.at, p->text.n) & mask;
        while (b->slots[i] && !ph_build_is_text(b, p->text, b->blob.at + b->piece[b->slots[i] - 1].text.at,
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
        if (ph_build_is_text(b, b->piece[b->slots[i] - 1].text, piece, n)) return (int32_t)b->slots[i] - 1;
    return -1;
}

int32_t ph_build_find_any(const ph_tok_build *b, const void *piece, size_t n) {
    for (size_t id = 0; id < b->n_piece; id++)
        if ((b->piece[id].flags & PH_TOK_ADDED) && ph_build_is_text(b, b->piece[id].text, piece, n))
            return (int32_t)id;
    return ph_build_find(b, piece, n);
}

ph_rc ph_build_added(ph_tok_build *b, const int64_t *given, const void *piece, size_t n, unsigned flags,
                     ph_err *err) {
    int32_t known = ph_build_find(b, piece, n);
    int64_t id = given ? *given : (int64_t)b->n_piece;
    if (id < 0)
        return PH_FAIL(err, PH_EFORMAT, "%s: the added token \"%.*s\" has id %lld: ids begin at 0", b->where,
                       n < 40 ? (int)n : 40, (const char *)piece, (long long)id);
    if (!n) return PH_OK; /* Hugging Face ignores an empty added token */
    if (known >= 0) id = known;
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

ph_rc ph_build_pattern(ph_tok_build *b, ph_text_op *op, ph_span_of source, int is_literal, ph_err *err) {
    const char *text = (const char *)b->blob.at + source.at;
    op->source = source;
    op->is_literal = is_literal;
    return is_literal ? ph_pattern_open_literal(&op->pattern, text, source.n, b->where, err)
                      : ph_pattern_open(&op->pattern, text, source.n, b->where, err);
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
    return ph_build_pattern(b, op, op->b, 0, err);
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
    return ph_build_pattern(b, op, op->a, 1, err);
}
