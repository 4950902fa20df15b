/* tokgguf.c - a tokenizer from GGUF metadata.
 *
 *     tokenizer.ggml.model   "gpt2": byte-level BPE, .merges, .pre names the splits (pretok.def)
 *                            "llama": SentencePiece BPE, .scores
 *     .tokens .token_type    pieces and their kinds: control tokens come only from trusted text,
 *                            user-defined ones are matched in any text
 *
 * Source: ggml docs/gguf.md; llama.cpp's defaults where the file is silent.  A dummy space goes in front of
 * every stretch of text of a "llama" model, as llama.cpp and the older Hugging Face tokenizers have it.
 */
#include "text/tokenizer_tables.h"

#include "text/pretok.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

static unsigned flags_of(int64_t type, int is_spm) {
    switch (type) {
    case 2:
    case 3:
        return PH_TOK_ADDED | PH_TOK_CONTROL;
    case 4:
        return PH_TOK_ADDED | PH_TOK_MODEL | (is_spm ? PH_TOK_NORMALIZED : 0);
    case 5:
        return PH_TOK_MODEL | PH_TOK_UNUSED;
    case 6:
        return PH_TOK_MODEL | PH_TOK_BYTE;
    default:
        return PH_TOK_MODEL;
    }
}

/* The array under key: n items (0: any number), of texts or of numbers. */
static ph_rc need(const ph_tok_build *b, const ph_gguf *g, const char *key, size_t n, int is_texts,
                  const ph_gguf_kv **out, ph_err *err) {
    *out = ph_gguf_find(g, key);
    if (!*out)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s is missing: this file has no tokenizer of its kind", b->where,
                       key);
    if (!(*out)->is_array || ((*out)->type == PH_GGUF_TEXT) != is_texts)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s must be an array of %s", b->where, key,
                       is_texts ? "texts" : "numbers");
    if (n && (*out)->count != n)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s has %zu items for %zu tokens", b->where, key, (*out)->count,
                       n);
    return PH_OK;
}

static ph_rc pieces(ph_tok_build *b, const ph_gguf *g, int is_spm, ph_err *err) {
    const ph_gguf_kv *tokens, *scores = NULL, *types = ph_gguf_find(g, KEY("token_type"));
    ph_gguf_text      text;
    PH_TRY(need(b, g, KEY("tokens"), 0, 1, &tokens, err));
    if (is_spm) PH_TRY(need(b, g, KEY("scores"), tokens->count, 0, &scores, err));
    if (types) PH_TRY(need(b, g, KEY("token_type"), tokens->count, 0, &types, err));
    b->n_expected = tokens->count;
    ph_gguf_texts it = ph_gguf_texts_of(tokens);
    for (size_t i = 0; ph_gguf_next(&it, &text); i++) {
        double  score = 0;
        int64_t type = 1;
        if (scores && !ph_gguf_item_real(scores, i, &score))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s[%zu] is no number", b->where, scores->key, i);
        if (types && !ph_gguf_item_int(types, i, &type))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s[%zu] is no integer", b->where, types->key, i);
        if (score != score)
            return PH_FAIL(err, PH_EFORMAT, "%s: %s[%zu] is not a number", b->where, KEY("scores"), i);
        PH_TRY(ph_build_piece_put(b, (int64_t)i, text.at, text.n, score, flags_of(type, is_spm), err));
    }
    return ph_build_index(b, err);
}

static ph_rc merges(ph_tok_build *b, const ph_gguf *g, ph_err *err) {
    const ph_gguf_kv *kv;
    ph_gguf_text      text;
    PH_TRY(need(b, g, KEY("merges"), 0, 1, &kv, err));
    if (!kv->count)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s is empty: without merges no word can be encoded", b->where,
                       KEY("merges"));
    ph_gguf_texts it = ph_gguf_texts_of(kv);
    for (size_t i = 0; ph_gguf_next(&it, &text); i++) {
        const char *space = text.n > 1 ? memchr(text.at + 1, ' ', text.n - 1) : NULL;
        if (!space)
            return PH_FAIL(err, PH_EFORMAT, "%s: %s[%zu] is no pair of pieces", b->where, KEY("merges"), i);
        size_t left = (size_t)(space - text.at);
        PH_TRY(ph_build_merge(b, text.at, left, space + 1, text.n - left - 1, err));
    }
    return PH_OK;
}

static ph_rc op(ph_tok_build *b, ph_text_op *list, int *n, ph_op_kind kind, ph_err *err) {
    ph_text_op *o;
    PH_TRY(ph_build_op(b, list, n, &o, err));
    o->kind = kind;
    return PH_OK;
}

static ph_rc read_gpt2(ph_tok_build *b, const ph_gguf *g, int *add_bos, ph_err *err) {
    ph_tokenizer    *t = b->t;
    ph_gguf_text     name = {"default", 7};
    char             known[400];
    const ph_pretok *p;
    if (ph_gguf_find(g, KEY("pre"))) PH_TRY(ph_gguf_text_of(g, KEY("pre"), &name, err));
    p = ph_pretok_find(name.at, name.n);
    if (!p) {
        ph_pretok_list(known, sizeof known);
        return PH_FAIL(err, PH_EUNSUP, "%s: %s \"%.*s\" is not known; known: %.200s ...", b->where,
                       KEY("pre"), name.n < 40 ? (int)name.n : 40, name.at, known);
    }
    PH_TRY(pieces(b, g, 0, err));
    PH_TRY(merges(b, g, err));
    t->model = &ph_text_model_bpe;
    t->ignore_merges = (p->flags & PH_PRETOK_IGNORE_MERGES) != 0;
    *add_bos = (p->flags & PH_PRETOK_BOS) != 0;
    if (p->flags & PH_PRETOK_NFC) PH_TRY(op(b, t->norm_op, &t->n_norm_op, PH_OP_NFC, err));
    for (int i = 0; p->splits[i]; i++) PH_TRY(ph_build_split(b, p->splits[i], PH_SPLIT_ISOLATED, 0, err));
    PH_TRY(ph_build_bytelevel(b, 0, err));
    t->has_decoder = 1;
    return op(b, t->decode_op, &t->n_decode_op, PH_OP_BYTES, err);
}

static ph_rc read_llama(ph_tok_build *b, const ph_gguf *g, int *add_bos, ph_err *err) {
    int prefix;
    PH_TRY(pieces(b, g, 1, err));
    PH_TRY(ph_gguf_bool_or(g, KEY("add_space_prefix"), 1, &prefix, err));
    *add_bos = 1;
    return ph_build_sentencepiece(b, prefix, 0, err);
}

static ph_rc special_id(ph_tok_build *b, const ph_gguf *g, const char *key, int32_t *out, ph_err *err) {
    int64_t id;
    PH_TRY(ph_gguf_int_or(g, key, -1, &id, err));
    if (id >= (int64_t)b->n_piece)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s is %lld, but there are %zu tokens", b->where, key,
                       (long long)id, b->n_piece);
    if (id >= 0) *out = (int32_t)id;
    return PH_OK;
}

static ph_rc read(ph_tok_build *b, const ph_gguf *g, ph_err *err) {
    ph_tokenizer *t = b->t;
    ph_gguf_text  model;
    int           add_bos = 0, add_eos = 0;
    PH_TRY(ph_gguf_text_of(g, KEY("model"), &model, err));
    if (ph_gguf_text_is(model, "gpt2"))
        PH_TRY(read_gpt2(b, g, &add_bos, err));
    else if (ph_gguf_text_is(model, "llama"))
        PH_TRY(read_llama(b, g, &add_bos, err));
    else
        return PH_FAIL(err, PH_EUNSUP, "%s: %s \"%.*s\" is not known (gpt2 and llama are)", b->where,
                       KEY("model"), model.n < 40 ? (int)model.n : 40, model.at);
    PH_TRY(special_id(b, g, KEY("bos_token_id"), &t->bos, err));
    PH_TRY(special_id(b, g, KEY("eos_token_id"), &t->eos, err));
    PH_TRY(special_id(b, g, KEY("unknown_token_id"), &t->unk, err));
    PH_TRY(special_id(b, g, KEY("padding_token_id"), &t->pad, err));
    PH_TRY(ph_gguf_bool_or(g, KEY("add_bos_token"), add_bos, &add_bos, err));
    PH_TRY(ph_gguf_bool_or(g, KEY("add_eos_token"), add_eos, &add_eos, err));
    if (t->model != &ph_text_model_bpe) {
        for (size_t id = 0; t->unk < 0 && id < b->n_piece;
             id++) /* llama.cpp's default is the token that says so */
            if (b->piece[id].text.n == 5 && !memcmp(b->blob.at + b->piece[id].text.at, "<unk>", 5))
                t->unk = (int32_t)id;
        t->unk_id = t->unk;
    }
    return ph_build_wrap(b, add_bos ? t->bos : -1, add_eos ? t->eos : -1, err);
}

/* A file may carry the trainer's own tokenizer.json, which says more than the lists: then that is read. */
static ph_rc blob_of(const ph_gguf *g, const char *key, ph_blob *out, ph_err *err) {
    ph_gguf_text text;
    if (!ph_gguf_find(g, key)) return PH_OK;
    PH_TRY(ph_gguf_text_of(g, key, &text, err));
    *out = (ph_blob){text.at, text.n};
    return PH_OK;
}

ph_rc ph_tokenizer_open_gguf(ph_tokenizer **out, const ph_gguf *gguf, ph_err *err) {
    ph_tok_build       b;
    ph_tokenizer_files files = {0};
    *out = NULL;
    PH_TRY(blob_of(gguf, "tokenizer.huggingface.json", &files.tokenizer_json, err));
    PH_TRY(blob_of(gguf, PH_ORIGINAL_KEY "tokenizer_config.json", &files.config, err));
    if (files.tokenizer_json.n) {
        ph_rc rc = ph_tokenizer_open_files(out, &files, err);
        return rc ? ph_note(err, rc, "while reading tokenizer.huggingface.json of %.80s", gguf->name) : PH_OK;
    }
    PH_TRY(ph_build_open(&b, gguf->name, err));
    ph_rc rc = read(&b, gguf, err);
    if (!rc) rc = ph_tok_freeze(&b, out, err);
    ph_build_close(&b);
    return rc;
}
