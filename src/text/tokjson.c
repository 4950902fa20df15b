/* tokjson.c - reads tokenizer.json.
 *
 *     normalizer, pre_tokenizer, decoder   trees of steps  ─► flat lists of operations (tokjson_ops.c)
 *     model                                vocabulary, merges, parameters
 *     added_tokens, post_processor         matched tokens, ids around a text
 *
 * Source: Hugging Face tokenizers 0.22; older files too (merges as "a b" strings, models without a type).
 */
#include "text/tokjson.h"

#include <stdio.h>
#include <string.h>

static ph_rc vocab_object(ph_tok_build *b, const ph_json *vocab, ph_err *err) {
    ph_json     value;
    const char *key;
    b->n_expected = ph_json_count(vocab);
    for (ph_json_iter it = ph_json_members(vocab); ph_json_next(&it, &key, &value);) {
        int64_t id;
        PH_TRY(ph_json_to_int(&value, &id, err));
        PH_TRY(ph_build_piece_put(b, id, key, strlen(key), 0, PH_TOK_MODEL, err));
    }
    return PH_OK;
}

/* Unigram: [[piece, log probability], ...], the index is the id. */
static ph_rc vocab_list(ph_tok_build *b, const ph_json *vocab, ph_err *err) {
    double least = 0;
    b->n_expected = ph_json_count(vocab);
    for (size_t i = 0; i < b->n_expected; i++) {
        ph_json     row = ph_json_at(vocab, i), first = ph_json_at(&row, 0), second = ph_json_at(&row, 1);
        const char *piece;
        size_t      n;
        double      score;
        PH_TRY(ph_json_to_text(&first, &piece, &n, err));
        PH_TRY(ph_json_to_real(&second, &score, err));
        if (!i || score < least) least = score;
        PH_TRY(ph_build_piece_put(b, (int64_t)i, piece, n, score, PH_TOK_MODEL, err));
    }
    b->t->unk_score = least - 10;
    return PH_OK;
}

static ph_rc merges(ph_tok_build *b, const ph_json *list, ph_err *err) {
    if (ph_json_kind_of(list) != PH_JSON_ARRAY)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: model.merges is missing or no list: without merges no word can be encoded",
                       b->where);
    for (size_t i = 0; i < ph_json_count(list); i++) {
        ph_json     row = ph_json_at(list, i);
        const char *left, *right;
        size_t      n, n_right;
        if (ph_json_kind_of(&row) == PH_JSON_ARRAY) {
            ph_json l = ph_json_at(&row, 0), r = ph_json_at(&row, 1);
            PH_TRY(ph_json_to_text(&l, &left, &n, err));
            PH_TRY(ph_json_to_text(&r, &right, &n_right, err));
        } else {
            PH_TRY(ph_json_to_text(&row, &left, &n, err));
            if (!strncmp(left, "#version", 8)) continue;
            right = memchr(left, ' ', n);
            if (!right)
                return PH_FAIL(err, PH_EFORMAT, "%s: model.merges[%zu]: \"%.60s\" is no pair", b->where, i,
                               left);
            n_right = n - (size_t)(right - left) - 1;
            n = (size_t)(right - left);
            right++;
        }
        PH_TRY(ph_build_merge(b, left, n, right, n_right, err));
    }
    return PH_OK;
}

/* What every character of a word is spelled with: "##", "</w>". */
static ph_rc piece_param(ph_tok_build *b, const ph_json *model, const char *key, ph_span_of *out,
                         ph_err *err) {
    const char *text;
    PH_TRY(ph_json_text_or(model, key, "", &text, err));
    if (strlen(text) > PH_TOK_AFFIX_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: model.%s has %zu bytes (limit %d)", b->where, key, strlen(text),
                       PH_TOK_AFFIX_MAX);
    return ph_build_text(b, text, strlen(text), out, err);
}

static const char *guess_type(const ph_json *model) {
    ph_json vocab = ph_json_get(model, "vocab");
    if (ph_json_kind_of(&vocab) == PH_JSON_ARRAY) return "Unigram";
    return ph_json_has(model, "max_input_chars_per_word") ? "WordPiece" : "BPE";
}

static ph_rc read_model(ph_tok_build *b, const ph_json *model, const ph_tokjson_lists *lists, ph_err *err) {
    ph_tokenizer *t = b->t;
    const char   *type, *unk;
    int64_t       n;
    if (ph_json_kind_of(model) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT, "%s: there is no \"model\"", b->where);
    PH_TRY(ph_json_text_or(model, "type", guess_type(model), &type, err));
    t->model = ph_text_model_find(type);
    if (!t->model || t->model == &ph_text_model_spm) /* the latter is SentencePiece's own files' */
        return PH_FAIL(err, PH_EUNSUP, "%s: model.type \"%.40s\" is not known (BPE, Unigram, WordPiece are)",
                       b->where, type);
    PH_TRY(piece_param(b, model, "continuing_subword_prefix", &t->inner_prefix, err));
    PH_TRY(piece_param(b, model, "end_of_word_suffix", &t->end_suffix, err));
    ph_json vocab = ph_json_get(model, "vocab");
    int     is_list = ph_json_kind_of(&vocab) == PH_JSON_ARRAY;
    if (is_list != t->model->needs_scores || (!is_list && ph_json_kind_of(&vocab) != PH_JSON_OBJECT))
        return PH_FAIL(err, PH_EFORMAT, "%s: model.vocab is missing or of the wrong type for %s", b->where,
                       type);
    PH_TRY(is_list                   ? vocab_list(b, &vocab, err)
           : lists->vocab.text.bytes ? ph_tokjson_vocab(b, &lists->vocab, err)
                                     : vocab_object(b, &vocab, err));
    b->need_score = t->model->needs_scores;
    b->need_sorted = t->model->needs_sorted;
    b->need_pieces = t->model->needs_pieces;
    if (!lists->vocab.text.bytes) PH_TRY(ph_build_index(b, err));
    PH_TRY(ph_json_bool_or(model, "fuse_unk", 0, &t->fuse_unk, err));
    PH_TRY(ph_json_bool_or(model, "byte_fallback", 0, &t->byte_fallback, err));
    PH_TRY(ph_json_bool_or(model, "ignore_merges", 0, &t->ignore_merges, err));
    PH_TRY(ph_json_int_or(model, "max_input_chars_per_word", 100, &n, err));
    t->word_chars_max = n < 0 ? 0 : n > 100000 ? 100000 : (uint32_t)n;
    PH_TRY(ph_json_text_or(model, "unk_token", "", &unk, err));
    if (*unk) t->unk_id = ph_build_find(b, unk, strlen(unk));
    PH_TRY(ph_json_int_or(model, "unk_id", -1, &n, err));
    if (n >= (int64_t)b->n_piece)
        return PH_FAIL(err, PH_EFORMAT, "%s: model.unk_id %lld, but there are %zu pieces", b->where,
                       (long long)n, b->n_piece);
    if (n >= 0) t->unk_id = (int32_t)n;
    if (!t->model->needs_merges) return PH_OK;
    if (lists->merges.text.bytes) return ph_tokjson_merges(b, &lists->merges, err);
    ph_json list = ph_json_get(model, "merges");
    return merges(b, &list, err);
}

static ph_rc added_tokens(ph_tok_build *b, const ph_json *list, ph_err *err) {
    int is_there;
    PH_TRY(ph_json_want(list, PH_JSON_ARRAY, &is_there, err));
    for (size_t i = 0; i < ph_json_count(list); i++) {
        static const struct {
            const char *key;
            unsigned    flag;
        } keys[] = {{"special", PH_TOK_CONTROL},
                    {"lstrip", PH_TOK_LSTRIP},
                    {"rstrip", PH_TOK_RSTRIP},
                    {"single_word", PH_TOK_SINGLE},
                    {"normalized", PH_TOK_NORMALIZED}};
        ph_json     j = ph_json_at(list, i), text = ph_json_get(&j, "content");
        const char *piece;
        size_t      n;
        int64_t     id;
        unsigned    flags = 0;
        PH_TRY(ph_json_to_text(&text, &piece, &n, err));
        PH_TRY(ph_json_int(&j, "id", &id, err));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            int on, fallback = keys[k].flag == PH_TOK_NORMALIZED && !(flags & PH_TOK_CONTROL);
            PH_TRY(ph_json_bool_or(&j, keys[k].key, fallback, &on, err));
            if (on) flags |= keys[k].flag;
        }
        PH_TRY(ph_build_added(b, &id, piece, n, flags, err));
    }
    return PH_OK;
}

/* ["<s>", 1] of BertProcessing and RobertaProcessing. */
static ph_rc pair_id(ph_tok_build *b, const ph_json *post, const char *key, int32_t *out, ph_err *err) {
    ph_json pair = ph_json_get(post, key), second = ph_json_at(&pair, 1);
    int64_t id;
    PH_TRY(ph_json_to_int(&second, &id, err));
    if (id < 0 || id >= (int64_t)b->n_piece)
        return PH_FAIL(err, PH_EFORMAT, "%s: post_processor.%s: there is no id %lld", b->where, key,
                       (long long)id);
    *out = (int32_t)id;
    return PH_OK;
}

/* TemplateProcessing's "single": special tokens, the text (A), special tokens. */
static ph_rc template(ph_tok_build *b, const ph_json *post, ph_err *err) {
    ph_json single = ph_json_get(post, "single"), special = ph_json_get(post, "special_tokens");
    int32_t before[PH_TOK_WRAP_MAX];
    int     n_before = 0, seen = 0, is_there;
    PH_TRY(ph_json_want(&single, PH_JSON_ARRAY, &is_there, err));
    for (size_t i = 0; i < ph_json_count(&single); i++) {
        ph_json     row = ph_json_at(&single, i), token = ph_json_get(&row, "SpecialToken");
        const char *name;
        if (ph_json_kind_of(&token) != PH_JSON_OBJECT) {
            if (seen++)
                return PH_FAIL(err, PH_EUNSUP, "%s: post_processor.single holds the text twice", b->where);
            continue;
        }
        PH_TRY(ph_json_text(&token, "id", &name, err));
        ph_json entry = ph_json_get(&special, name), ids = ph_json_get(&entry, "ids");
        for (size_t k = 0; k < ph_json_count(&ids); k++) {
            ph_json j = ph_json_at(&ids, k);
            int64_t id;
            PH_TRY(ph_json_to_int(&j, &id, err));
            if (id < 0 || id >= (int64_t)b->n_piece)
                return PH_FAIL(err, PH_EFORMAT,
                               "%s: post_processor: \"%.40s\" has id %lld, which no piece has", b->where,
                               name, (long long)id);
            if (!seen && n_before == PH_TOK_WRAP_MAX)
                return PH_FAIL(err, PH_ELIMIT, "%s: more than %d tokens in front of a text", b->where,
                               PH_TOK_WRAP_MAX);
            if (!seen)
                before[n_before++] = (int32_t)id;
            else
                PH_TRY(ph_build_wrap(b, -1, (int32_t)id, err));
        }
    }
    while (n_before) PH_TRY(ph_build_wrap(b, before[--n_before], -1, err));
    return PH_OK;
}

static ph_rc post(ph_tok_build *b, const ph_json *j, int depth, ph_err *err) {
    const char *type;
    int32_t     cls, sep;
    int         is_there;
    PH_TRY(ph_json_want(j, PH_JSON_OBJECT, &is_there, err));
    if (!is_there) return PH_OK;
    PH_TRY(ph_json_text(j, "type", &type, err));
    if (!strcmp(type, "ByteLevel")) return PH_OK; /* offsets only */
    if (!strcmp(type, "TemplateProcessing")) return template(b, j, err);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) {
        PH_TRY(pair_id(b, j, "cls", &cls, err));
        PH_TRY(pair_id(b, j, "sep", &sep, err));
        return ph_build_wrap(b, cls, sep, err);
    }
    if (strcmp(type, "Sequence") || depth == PH_TOKJSON_DEPTH_MAX)
        return PH_FAIL(err, PH_EUNSUP, "%s: post_processor \"%.40s\" is not known", b->where, type);
    ph_json list = ph_json_get(j, "processors");
    PH_TRY(ph_json_want(&list, PH_JSON_ARRAY, &is_there, err));
    for (size_t i = 0; i < ph_json_count(&list); i++) {
        ph_json inner = ph_json_at(&list, i);
        PH_TRY(post(b, &inner, depth + 1, err));
    }
    return PH_OK;
}

/* An empty list of merges is honest only where every piece is one character. */
static ph_rc check_merges(const ph_tok_build *b, ph_err *err) {
    if (!b->t->model->needs_merges || b->n_merge || b->t->ignore_merges) return PH_OK;
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        size_t                n_chars = 0;
        if (!(p->flags & PH_TOK_MODEL) || (p->flags & PH_TOK_ADDED)) continue;
        for (uint32_t i = 0; i < p->text.n; i++) n_chars += (b->blob.at[p->text.at + i] & 0xC0) != 0x80;
        if (n_chars > 1 && !(p->text.n == 6 && !memcmp(b->blob.at + p->text.at, "<0x", 3)) &&
            !b->t->end_suffix.n)
            return PH_FAIL(err, PH_EFORMAT,
                           "%s: model.merges is empty, but \"%.*s\" can only come from a merge", b->where,
                           p->text.n < 40 ? (int)p->text.n : 40, (const char *)b->blob.at + p->text.at);
    }
    return PH_OK;
}

static ph_rc read_root(ph_tok_build *b, const ph_json *root, const ph_tokjson_lists *lists,
                       const ph_tokenizer_files *f, ph_err *err) {
    ph_tok_config c;
    ph_json       model = ph_json_get(root, "model"), added = ph_json_get(root, "added_tokens");
    PH_TRY(ph_tokconfig_read(&c, f, err));
    PH_TRY(read_model(b, &model, lists, err));
    PH_TRY(added_tokens(b, &added, err));
    PH_TRY(check_merges(b, err));
    ph_json norm = ph_json_get(root, "normalizer"), pre = ph_json_get(root, "pre_tokenizer");
    ph_json dec = ph_json_get(root, "decoder"), after = ph_json_get(root, "post_processor");
    PH_TRY(ph_tokjson_normalizer(b, &norm, 0, err));
    /* transformers gives a top-level step its own add_prefix_space, false unless its configuration says so */
    PH_TRY(ph_tokjson_pretokenizer(b, &pre, f->config.bytes ? c.add_prefix_space == 1 : -1, 0, err));
    PH_TRY(ph_tokjson_decoder(b, &dec, 0, err));
    PH_TRY(post(b, &after, 0, err));
    PH_TRY(ph_tokconfig_apply(b, &c, f, err));
    int is_clip = b->t->end_suffix.n && b->t->n_decode_op == 1 && b->t->decode_op[0].kind == PH_OP_BYTES;
    return is_clip ? ph_tokjson_end_of_word(b, err) : PH_OK;
}

/* Without the long lists; a file that is no JSON is read whole, for the place where it is wrong. */
static ph_rc parse(ph_json_doc *doc, ph_tokjson_lists *lists, ph_blob file, const char *where, ph_err *err) {
    ph_err quiet = {0};
    PH_TRY(ph_tokjson_take(lists, file, err));
    if (lists->rest.n && !ph_json_parse(doc, lists->rest.at, lists->rest.n, where, &quiet)) return PH_OK;
    ph_tokjson_lists_close(lists);
    return ph_json_parse(doc, file.bytes, file.n, where, err);
}

ph_rc ph_tokjson_read(ph_tok_build *b, const ph_tokenizer_files *f, ph_err *err) {
    ph_json_doc      doc = {0};
    ph_tokjson_lists lists = {0};
    ph_rc            rc = parse(&doc, &lists, f->tokenizer_json, b->where, err);
    if (!rc) {
        ph_json root = ph_json_root(&doc);
        rc = read_root(b, &root, &lists, f, err);
    }
    ph_json_close(&doc);
    ph_tokjson_lists_close(&lists);
    return rc;
}
