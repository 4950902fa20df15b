/* tokconfig.c - tokenizer_config.json, special_tokens_map.json and added_tokens.json.
 *
 * They name bos, eos, unk and pad, add tokens that the model's file lacks or describes otherwise, and some
 * tokenizer classes build their post-processor from them instead of tokenizer.json's.
 * Source: transformers 4.57, tokenization_utils_fast.py and the classes named below.
 */
#include "text/tokenizer_tables.h"

#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                    "sep_token", "cls_token", "mask_token"};
enum { N_ROLES = sizeof roles / sizeof *roles, N_KEPT = 4 };

static ph_rc parse(ph_json_doc *doc, ph_blob blob, const char *name, ph_err *err) {
    *doc = (ph_json_doc){0};
    return blob.bytes ? ph_json_parse(doc, blob.bytes, blob.n, name, err) : PH_OK;
}

/* "text" or {"content": "text", ...}; *out NULL: absent or null. */
static ph_rc content(const ph_json *j, const char **out, size_t *n, ph_err *err) {
    ph_json inner = *j;
    int     is_there;
    *out = NULL, *n = 0;
    if (ph_json_kind_of(j) == PH_JSON_OBJECT) inner = ph_json_get(j, "content");
    PH_TRY(ph_json_want(&inner, PH_JSON_TEXT, &is_there, err));
    return is_there ? ph_json_to_text(&inner, out, n, err) : PH_OK;
}

static ph_rc flags_of(const ph_json *j, unsigned *flags, ph_err *err) {
    static const struct {
        const char *key;
        unsigned    flag;
    } keys[] = {{"special", PH_TOK_CONTROL},
                {"lstrip", PH_TOK_LSTRIP},
                {"rstrip", PH_TOK_RSTRIP},
                {"single_word", PH_TOK_SINGLE}};
    int on, special = 0;
    *flags = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        PH_TRY(ph_json_bool_or(j, keys[i].key, 0, &on, err));
        if (on) *flags |= keys[i].flag;
        if (!i) special = on;
    }
    PH_TRY(ph_json_bool_or(j, "normalized", !special, &on, err));
    if (on) *flags |= PH_TOK_NORMALIZED;
    return PH_OK;
}

static ph_rc tri(const ph_json *root, const char *key, int *out, ph_err *err) {
    int on = 0;
    *out = -1;
    if (!ph_json_has(root, key)) return PH_OK;
    PH_TRY(ph_json_bool(root, key, &on, err));
    *out = on;
    return PH_OK;
}

static ph_rc take_roles(ph_tok_config *c, const ph_json *root, ph_err *err) {
    for (int i = 0; i < N_KEPT; i++) {
        ph_json     j = ph_json_get(root, roles[i]);
        const char *text;
        size_t      n;
        PH_TRY(content(&j, &text, &n, err));
        if (text && !c->token[i][0] && n < sizeof c->token[i]) memcpy(c->token[i], text, n);
    }
    return PH_OK;
}

ph_rc ph_tokconfig_read(ph_tok_config *c, const ph_tokenizer_files *f, ph_err *err) {
    ph_json_doc doc;
    const char *name = "";
    *c = (ph_tok_config){.add_bos = -1, .add_eos = -1, .add_prefix_space = -1, .legacy = -1};
    PH_TRY(parse(&doc, f->config, "tokenizer_config.json", err));
    ph_json root = ph_json_root(&doc);
    ph_rc   rc = take_roles(c, &root, err);
    if (!rc) rc = ph_json_text_or(&root, "tokenizer_class", "", &name, err);
    if (!rc) {
        size_t n = strlen(name);
        if (n > 4 && !strcmp(name + n - 4, "Fast")) n -= 4;
        snprintf(c->class_name, sizeof c->class_name, "%.*s", (int)(n < 47 ? n : 47), name);
        rc = tri(&root, "add_bos_token", &c->add_bos, err);
    }
    if (!rc) rc = tri(&root, "add_eos_token", &c->add_eos, err);
    if (!rc) rc = tri(&root, "add_prefix_space", &c->add_prefix_space, err);
    if (!rc) rc = tri(&root, "legacy", &c->legacy, err);
    ph_json_close(&doc);
    if (rc) return rc;
    PH_TRY(parse(&doc, f->special_tokens_map, "special_tokens_map.json", err));
    root = ph_json_root(&doc);
    rc = take_roles(c, &root, err);
    ph_json_close(&doc);
    return rc;
}

static int order_id(const void *x, const void *y) {
    const int64_t *p = x, *q = y;
    return (*p > *q) - (*p < *q);
}

/* added_tokens_decoder: {"id": {content, flags}}, in order of id. */
static ph_rc decoder_tokens(ph_tok_build *b, const ph_json *object, ph_err *err) {
    size_t   n = ph_json_count(object), k = 0;
    int64_t *ids = malloc((n + 1) * sizeof *ids);
    ph_rc    rc = PH_OK;
    ph_json  value;
    if (!ids) return PH_FAIL(err, PH_ENOMEM, "tokenizer_config.json: %zu added tokens", n);
    const char *key;
    for (ph_json_iter it = ph_json_members(object); !rc && k < n && ph_json_next(&it, &key, &value); k++) {
        char *end;
        ids[k] = strtoll(key, &end, 10);
        if (*end || end == key || ids[k] < 0 || ids[k] >= PH_TOK_IDS_MAX)
            rc = PH_FAIL(err, PH_EFORMAT, "tokenizer_config.json: added_tokens_decoder: \"%.40s\" is no id",
                         key);
    }
    if (!rc) qsort(ids, k, sizeof *ids, order_id);
    for (size_t i = 0; i < k && !rc; i++) {
        char        name[24];
        const char *text;
        size_t      n_text;
        unsigned    flags = 0;
        snprintf(name, sizeof name, "%lld", (long long)ids[i]);
        value = ph_json_get(object, name);
        rc = content(&value, &text, &n_text, err);
        if (!rc) rc = flags_of(&value, &flags, err);
        if (!rc && text) rc = ph_build_added(b, &ids[i], text, n_text, flags, err);
    }
    free(ids);
    return rc;
}

/* A special token that is named but not among the added ones becomes one. */
static ph_rc named_token(ph_tok_build *b, const ph_json *j, ph_err *err) {
    const char *text;
    size_t      n;
    PH_TRY(content(j, &text, &n, err));
    if (!text || !n) return PH_OK;
    int32_t  id = ph_build_find_any(b, text, n);
    unsigned flags = PH_TOK_CONTROL;
    if (id >= 0 && (b->piece[id].flags & PH_TOK_ADDED)) return PH_OK;
    if (ph_json_kind_of(j) == PH_JSON_OBJECT) PH_TRY(flags_of(j, &flags, err));
    return ph_build_added(b, NULL, text, n, flags | PH_TOK_CONTROL, err);
}

static ph_rc named_tokens(ph_tok_build *b, const ph_json *root, ph_err *err) {
    for (int i = 0; i < N_ROLES; i++) {
        ph_json j = ph_json_get(root, roles[i]);
        PH_TRY(named_token(b, &j, err));
    }
    ph_json list = ph_json_get(root, "additional_special_tokens");
    int     is_there;
    PH_TRY(ph_json_want(&list, PH_JSON_ARRAY, &is_there, err));
    for (size_t i = 0; i < ph_json_count(&list); i++) {
        ph_json j = ph_json_at(&list, i);
        PH_TRY(named_token(b, &j, err));
    }
    return PH_OK;
}

/* added_tokens.json: {"piece": id}, from before tokenizer.json had flags: special when a role names it. */
static ph_rc old_added_tokens(ph_tok_build *b, const ph_json *root, ph_err *err) {
    ph_json     value;
    const char *key;
    for (ph_json_iter it = ph_json_members(root); ph_json_next(&it, &key, &value);) {
        int64_t id;
        int32_t known = ph_build_find_any(b, key, strlen(key));
        PH_TRY(ph_json_to_int(&value, &id, err));
        if (known >= 0 && (b->piece[known].flags & PH_TOK_ADDED)) continue;
        PH_TRY(ph_build_added(b, &id, key, strlen(key), PH_TOK_NORMALIZED, err));
    }
    return PH_OK;
}

ph_rc ph_build_wrap(ph_tok_build *b, int32_t before, int32_t after, ph_err *err) {
    ph_tokenizer *t = b->t;
    if (before >= 0) {
        if (t->n_before == PH_TOK_WRAP_MAX)
            return PH_FAIL(err, PH_ELIMIT, "%s: more than %d tokens in front of a text", b->where,
                           PH_TOK_WRAP_MAX);
        memmove(t->before + 1, t->before, (size_t)t->n_before * sizeof *t->before);
        t->before[0] = before;
        t->n_before++;
    }
    if (after >= 0) {
        if (t->n_after == PH_TOK_WRAP_MAX)
            return PH_FAIL(err, PH_ELIMIT, "%s: more than %d tokens behind a text", b->where,
                           PH_TOK_WRAP_MAX);
        t->after[t->n_after++] = after;
    }
    return PH_OK;
}

/* Classes whose post-processor is always [bos] text [eos], as their two flags say. */
static ph_rc class_wrap(ph_tok_build *b, const ph_tok_config *c, ph_err *err) {
    static const struct {
        const char *name;
        int         add_bos;
    } classes[] = {{"LlamaTokenizer", 1},
                   {"CodeLlamaTokenizer", 1},
                   {"GemmaTokenizer", 1},
                   {"CohereTokenizer", 1},
                   {"GPTNeoXTokenizer", 0}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i].name, c->class_name)) continue;
        int bos = c->add_bos < 0 ? classes[i].add_bos : c->add_bos, eos = c->add_eos == 1;
        b->t->n_before = b->t->n_after = 0;
        return ph_build_wrap(b, bos ? b->t->bos : -1, eos ? b->t->eos : -1, err);
    }
    return PH_OK;
}

static ph_rc apply(ph_tok_build *b, const ph_tok_config *c, const ph_json *config, const ph_json *map,
                   const ph_json *old, ph_err *err) {
    ph_json more = ph_json_get(config, "added_tokens_decoder");
    PH_TRY(decoder_tokens(b, &more, err));
    PH_TRY(named_tokens(b, config, err));
    PH_TRY(named_tokens(b, map, err));
    PH_TRY(old_added_tokens(b, old, err));
    PH_TRY(ph_json_bool_or(config, "clean_up_tokenization_spaces", 0, &b->t->clean_up, err));
    int32_t *id[N_KEPT] = {&b->t->bos, &b->t->eos, &b->t->unk, &b->t->pad};
    for (int i = 0; i < N_KEPT; i++)
        if (c->token[i][0]) *id[i] = ph_build_find_any(b, c->token[i], strlen(c->token[i]));
    return class_wrap(b, c, err);
}

ph_rc ph_tokconfig_apply(ph_tok_build *b, const ph_tok_config *c, const ph_tokenizer_files *f, ph_err *err) {
    ph_json_doc config = {0}, map = {0}, old = {0};
    ph_rc       rc = parse(&config, f->config, "tokenizer_config.json", err);
    if (!rc) rc = parse(&map, f->special_tokens_map, "special_tokens_map.json", err);
    if (!rc) rc = parse(&old, f->added_tokens, "added_tokens.json", err);
    if (!rc) {
        ph_json a = ph_json_root(&config), m = ph_json_root(&map), o = ph_json_root(&old);
        rc = apply(b, c, &a, &m, &o, err);
    }
    ph_json_close(&config);
    ph_json_close(&map);
    ph_json_close(&old);
    return rc;
}
