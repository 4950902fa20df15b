/* tokexport_gguf.c - an open tokenizer as tokenizer.ggml.*: tokgguf.c the other way.
 *
 *     byte-level BPE                  "gpt2": tokens, types, merges, the pre-tokenizer's name
 *     BPE over U+2581 with fallback   "llama": tokens, types, scores
 *
 * A "llama" reader merges by score, not by rank: a piece gets minus the rank of
 * its first merge, or of its own score, which orders pieces alike.
 */
#include "text/pretok.h"
#include "text/tokenizer_tables.h"
#include "text/tokexport.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

static int has_op(const ph_text_op *op, int n, ph_op_kind kind) {
    for (int i = 0; i < n; i++)
        if (op[i].kind == kind) return 1;
    return 0;
}

static int is_bytelevel(const ph_tokenizer *t) {
    return t->model == &ph_text_model_bpe && has_op(t->split_op, t->n_split_op, PH_OP_BYTES);
}

/* SentencePiece's own BPE, or its copy as merges: a space becomes U+2581, rare characters bytes. */
static int is_sentencepiece(const ph_tokenizer *t) {
    int marks = has_op(t->norm_op, t->n_norm_op, PH_OP_REPLACE) ||
                has_op(t->split_op, t->n_split_op, PH_OP_METASPACE);
    return t->model == &ph_text_model_spm || (t->model == &ph_text_model_bpe && t->byte_fallback && marks);
}

/* ---- pieces ---- */

static int64_t type_of(const ph_tokenizer *t, uint32_t id) {
    unsigned f = t->flags[id];
    if ((int32_t)id == t->unk && !(f & PH_TOK_BYTE)) return 2;
    if (f & PH_TOK_CONTROL) return 3;
    if (f & PH_TOK_BYTE) return 6;
    if (t->byte_fallback || t->model == &ph_text_model_spm)
        for (int b = 0; b < 256; b++)
            if (t->byte_id[b] == (int32_t)id) return 6;
    if (f & PH_TOK_ADDED) return 4;
    return f & PH_TOK_UNUSED || !(f & PH_TOK_PRESENT) ? 5 : 1;
}

static void pieces(const ph_tokenizer *t, ph_gguf_meta *to) {
    ph_gguf_put_array(to, KEY("tokens"), PH_GGUF_TEXT, t->n_ids);
    for (uint32_t id = 0; id < t->n_ids; id++) {
        char        hole[32];
        size_t      n;
        const char *piece = ph_tokenizer_piece(t, (int32_t)id, &n);
        int         is_hole = !(t->flags[id] & PH_TOK_PRESENT);
        if (is_hole) n = (size_t)snprintf(hole, sizeof hole, "[PAD%u]", id); /* as the field fills holes */
        ph_gguf_add_text(to, is_hole ? hole : piece, n);
    }
    ph_gguf_put_array(to, KEY("token_type"), PH_GGUF_I32, t->n_ids);
    for (uint32_t id = 0; id < t->n_ids; id++) ph_gguf_add_int(to, type_of(t, id));
}

static ph_rc scores(const ph_tokenizer *t, ph_gguf_meta *to, ph_err *err) {
    double *score = calloc(t->n_ids ? t->n_ids : 1, sizeof *score);
    if (!score) return PH_FAIL(err, PH_ENOMEM, "scores of %u tokens", t->n_ids);
    for (uint32_t id = 0; t->rank && id < t->n_ids; id++) score[id] = -(double)t->rank[id];
    for (uint32_t k = t->n_merges; k-- > 0;) score[t->merges[k].id] = -(double)k - 1; /* the first stays */
    ph_gguf_put_array(to, KEY("scores"), PH_GGUF_F32, t->n_ids);
    for (uint32_t id = 0; id < t->n_ids; id++) ph_gguf_add_real(to, score[id]);
    free(score);
    return PH_OK;
}

static ph_rc merges(const ph_tokenizer *t, ph_gguf_meta *to, ph_err *err) {
    ph_bytes line = {0};
    ph_rc    rc = PH_OK;
    ph_gguf_put_array(to, KEY("merges"), PH_GGUF_TEXT, t->n_merges);
    for (uint32_t k = 0; k < t->n_merges && !rc; k++) {
        ph_span_of l = t->piece[t->merges[k].left], r = t->piece[t->merges[k].right];
        line.n = 0;
        rc = ph_bytes_push(&line, ph_tok_text(t, l), l.n, err);
        if (!rc) rc = ph_bytes_push(&line, " ", 1, err);
        if (!rc) rc = ph_bytes_push(&line, ph_tok_text(t, r), r.n, err);
        if (!rc) ph_gguf_add_text(to, (const char *)line.at, line.n);
    }
    ph_bytes_close(&line);
    return rc;
}

/* ---- the two kinds ---- */

/* The name of the splits, or NULL. */
static ph_rc pre_name(const ph_tokenizer *t, const char **out, ph_err *err) {
    char       *split[PH_TOK_OPS_MAX] = {0};
    const char *list[PH_TOK_OPS_MAX] = {0};
    unsigned    flags = t->ignore_merges ? PH_PRETOK_IGNORE_MERGES : 0;
    int         n = 0, is_plain = 1;
    ph_rc       rc = PH_OK;
    for (int i = 0; i < t->n_norm_op; i++) {
        if (t->norm_op[i].kind == PH_OP_NFC)
            flags |= PH_PRETOK_NFC;
        else
            is_plain = 0;
    }
    for (int i = 0; i < t->n_split_op && !rc; i++) {
        const ph_text_op *op = &t->split_op[i];
        if (op->kind == PH_OP_BYTES) continue;
        if (op->kind != PH_OP_SPLIT || op->behavior != PH_SPLIT_ISOLATED || op->invert || !op->b.n) {
            is_plain = 0;
            continue;
        }
        split[n] = strndup((const char *)ph_tok_text(t, op->b), op->b.n);
        if (!split[n]) rc = PH_FAIL(err, PH_ENOMEM, "the splits of a tokenizer");
        list[n] = split[n];
        n++;
    }
    const ph_pretok *p = rc || !is_plain ? NULL : ph_pretok_match(list, n, flags);
    *out = p ? p->name : NULL;
    for (int i = 0; i < n; i++) free(split[i]);
    return rc;
}

static ph_rc put_gpt2(const ph_tokenizer *t, ph_gguf_meta *to, int *pre_known, ph_err *err) {
    const char *pre = NULL;
    PH_TRY(pre_name(t, &pre, err));
    *pre_known = pre != NULL;
    if (!pre) pre = "default";
    ph_gguf_put_text(to, KEY("model"), "gpt2", 4);
    ph_gguf_put_text(to, KEY("pre"), pre, strlen(pre));
    pieces(t, to);
    return merges(t, to, err);
}

static ph_rc put_llama(const ph_tokenizer *t, ph_gguf_meta *to, ph_err *err) {
    int prefix = has_op(t->norm_op, t->n_norm_op, PH_OP_PREPEND);
    for (int i = 0; i < t->n_split_op; i++)
        prefix |= t->split_op[i].kind == PH_OP_METASPACE && t->split_op[i].flag;
    ph_gguf_put_text(to, KEY("model"), "llama", 5);
    ph_gguf_put_text(to, KEY("pre"), "default", 7);
    pieces(t, to);
    ph_gguf_put_int(to, KEY("add_space_prefix"), PH_GGUF_BOOL, prefix);
    return scores(t, to, err);
}

static void special(ph_gguf_meta *to, const char *key, int32_t id) {
    if (id >= 0) ph_gguf_put_int(to, key, PH_GGUF_U32, id);
}

static int stands_in(const int32_t *list, int n, int32_t id) {
    for (int i = 0; i < n; i++)
        if (list[i] == id && id >= 0) return 1;
    return 0;
}

ph_rc ph_tokenizer_to_gguf(const ph_tokenizer *t, ph_gguf_meta *to, int *pre_known, ph_err *err) {
    *pre_known = 1;
    if (is_bytelevel(t))
        PH_TRY(put_gpt2(t, to, pre_known, err));
    else if (is_sentencepiece(t))
        PH_TRY(put_llama(t, to, err));
    else
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: a %s tokenizer of this form has no place in GGUF files (byte-level and "
                       "SentencePiece BPE have)",
                       t->name, t->model->name);
    special(to, KEY("bos_token_id"), t->bos);
    special(to, KEY("eos_token_id"), t->eos);
    special(to, KEY("unknown_token_id"), t->unk);
    special(to, KEY("padding_token_id"), t->pad);
    ph_gguf_put_int(to, KEY("add_bos_token"), PH_GGUF_BOOL, stands_in(t->before, t->n_before, t->bos));
    ph_gguf_put_int(to, KEY("add_eos_token"), PH_GGUF_BOOL, stands_in(t->after, t->n_after, t->eos));
    return PH_OK;
}
