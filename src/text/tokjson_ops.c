/* tokjson_ops.c - the steps of tokenizer.json as flat operations.
 *
 * Many pre-tokenizers are one operation, a split at a pattern; the table of their patterns is here.
 */
#include "text/tokjson.h"

#include <stdio.h>
#include <string.h>

typedef ph_rc reader(ph_tok_build *b, const ph_json *j, int depth, ph_err *err);

/* Run `read` over the members of a Sequence. */
static ph_rc sequence(ph_tok_build *b, const ph_json *j, const char *key, int depth, reader *read,
                      ph_err *err) {
    ph_json list = ph_json_get(j, key);
    int     is_there;
    if (depth == PH_TOKJSON_DEPTH_MAX)
        return PH_FAIL(err, PH_EUNSUP, "%s: sequences nested deeper than %d", b->where, depth);
    PH_TRY(ph_json_want(&list, PH_JSON_ARRAY, &is_there, err));
    for (size_t i = 0; i < ph_json_count(&list); i++) {
        ph_json inner = ph_json_at(&list, i);
        PH_TRY(read(b, &inner, depth + 1, err));
    }
    return PH_OK;
}

static ph_rc text_param(ph_tok_build *b, const ph_json *j, const char *key, const char *fallback,
                        ph_span_of *out, ph_err *err) {
    ph_json     value = ph_json_get(j, key);
    const char *text = fallback;
    size_t      n = strlen(fallback);
    if (ph_json_kind_of(&value) != PH_JSON_ABSENT && ph_json_kind_of(&value) != PH_JSON_NULL)
        PH_TRY(ph_json_to_text(&value, &text, &n, err));
    return ph_build_text(b, text, n, out, err);
}

/* "pattern": {"String": s} or {"Regex": r}. */
static ph_rc pattern_of(ph_tok_build *b, const ph_json *j, ph_text_op *op, ph_err *err) {
    ph_json p = ph_json_get(j, "pattern"), fixed = ph_json_get(&p, "String"),
            regex = ph_json_get(&p, "Regex");
    const char *text;
    size_t      n;
    if (ph_json_kind_of(&fixed) == PH_JSON_TEXT) {
        PH_TRY(ph_json_to_text(&fixed, &text, &n, err));
        PH_TRY(ph_build_text(b, text, n, &op->a, err));
        return ph_build_pattern(b, op, op->a, 1, err);
    }
    PH_TRY(ph_json_to_text(&regex, &text, &n, err));
    ph_span_of source = op->b; /* a split's expression stands there already */
    if (op->kind != PH_OP_SPLIT) PH_TRY(ph_build_text(b, text, n, &source, err));
    return ph_build_pattern(b, op, source, 0, err);
}

/* --- normalizers --- */

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static ph_rc charsmap(ph_tok_build *b, const ph_json *j, ph_text_op *op, ph_err *err) {
    ph_json     value = ph_json_get(j, "precompiled_charsmap");
    const char *text = "";
    size_t      n = 0;
    unsigned    bits = 0, n_bits = 0;
    int         is_there;
    PH_TRY(ph_json_want(&value, PH_JSON_TEXT, &is_there, err));
    if (is_there) PH_TRY(ph_json_to_text(&value, &text, &n, err));
    op->a = (ph_span_of){(uint32_t)b->blob.n, 0};
    for (size_t i = 0; i < n && text[i] != '='; i++) {
        int d = base64_digit(text[i]);
        if (d < 0)
            return PH_FAIL(err, PH_EFORMAT, "%s: normalizer: precompiled_charsmap, byte %zu, is not base64",
                           b->where, i);
        bits = bits << 6 | (unsigned)d;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        uint8_t    byte = (uint8_t)(bits >> n_bits);
        ph_span_of one;
        PH_TRY(ph_build_text(b, &byte, 1, &one, err));
        op->a.n++;
    }
    return op->a.n ? ph_precompiled_check(b->blob.at + op->a.at, op->a.n, b->where, err) : PH_OK;
}

/* BertNormalizer is cleaning, then accents, then case. */
static ph_rc bert(ph_tok_build *b, const ph_json *j, ph_text_op *op, ph_err *err) {
    int           clean, cjk, lower, accents;
    ph_tokenizer *t = b->t;
    PH_TRY(ph_json_bool_or(j, "clean_text", 1, &clean, err));
    PH_TRY(ph_json_bool_or(j, "handle_chinese_chars", 1, &cjk, err));
    PH_TRY(ph_json_bool_or(j, "lowercase", 1, &lower, err));
    PH_TRY(ph_json_bool_or(j, "strip_accents", lower, &accents, err));
    op->kind = PH_OP_BERT;
    op->flag = clean | cjk << 1;
    if (accents) {
        PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
        op->kind = PH_OP_NFD;
        PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
        op->kind = PH_OP_STRIP_ACCENTS;
        op->flag = 1; /* only Mn */
    }
    if (lower) {
        PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
        op->kind = PH_OP_LOWER;
    }
    return PH_OK;
}

ph_rc ph_tokjson_normalizer(ph_tok_build *b, const ph_json *j, int depth, ph_err *err) {
    static const struct {
        const char *type;
        ph_op_kind  kind;
    } plain[] = {{"NFC", PH_OP_NFC},         {"NFD", PH_OP_NFD},
                 {"NFKC", PH_OP_NFKC},       {"NFKD", PH_OP_NFKD},
                 {"Lowercase", PH_OP_LOWER}, {"Nmt", PH_OP_NMT},
                 {"ByteLevel", PH_OP_BYTES}, {"StripAccents", PH_OP_STRIP_ACCENTS}};
    ph_tokenizer *t = b->t;
    ph_text_op   *op;
    const char   *type;
    int           is_there;
    PH_TRY(ph_json_want(j, PH_JSON_OBJECT, &is_there, err));
    if (!is_there) return PH_OK;
    PH_TRY(ph_json_text(j, "type", &type, err));
    if (!strcmp(type, "Sequence")) return sequence(b, j, "normalizers", depth, ph_tokjson_normalizer, err);
    PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i].type, type)) {
            op->kind = plain[i].kind;
            return PH_OK;
        }
    if (!strcmp(type, "Prepend")) {
        op->kind = PH_OP_PREPEND;
        return text_param(b, j, "prepend", "", &op->a, err);
    }
    if (!strcmp(type, "Replace")) {
        op->kind = PH_OP_REPLACE;
        PH_TRY(text_param(b, j, "content", "", &op->b, err));
        return pattern_of(b, j, op, err);
    }
    if (!strcmp(type, "Strip")) {
        int left, right;
        op->kind = PH_OP_STRIP;
        PH_TRY(ph_json_bool_or(j, "strip_left", 1, &left, err));
        PH_TRY(ph_json_bool_or(j, "strip_right", 1, &right, err));
        op->start = (uint32_t)left, op->stop = (uint32_t)right;
        return PH_OK;
    }
    if (!strcmp(type, "Precompiled")) {
        op->kind = PH_OP_CHARSMAP;
        return charsmap(b, j, op, err);
    }
    if (!strcmp(type, "BertNormalizer")) return bert(b, j, op, err);
    return PH_FAIL(err, PH_EUNSUP, "%s: normalizer \"%.40s\" is not known", b->where, type);
}

/* --- pre-tokenizers --- */

static ph_rc behavior_of(ph_tok_build *b, const ph_json *j, const char *fallback, ph_behavior *out,
                         ph_err *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const char              *name;
    PH_TRY(ph_json_text_or(j, "behavior", fallback, &name, err));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) {
            *out = (ph_behavior)i;
            return PH_OK;
        }
    return PH_FAIL(err, PH_EUNSUP, "%s: pre_tokenizer: behavior \"%.40s\" is not known", b->where, name);
}

/* Where a Metaspace puts its first mark. */
static ph_rc scheme_of(ph_tok_build *b, const ph_json *j, int prefix, const char **out, ph_err *err) {
    PH_TRY(ph_json_text_or(j, "prepend_scheme", prefix ? "always" : "never", out, err));
    if (!strcmp(*out, "always") || !strcmp(*out, "first") || !strcmp(*out, "never")) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP, "%s: prepend_scheme \"%.40s\" is not known; always, first and never are",
                   b->where, *out);
}

static ph_rc metaspace(ph_tok_build *b, const ph_json *j, int prefix_space, ph_err *err) {
    ph_text_op *op;
    const char *scheme;
    int         splits, prefix;
    PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
    op->kind = PH_OP_METASPACE;
    PH_TRY(text_param(b, j, "replacement", "\xE2\x96\x81", &op->a, err));
    PH_TRY(ph_json_bool_or(j, "add_prefix_space", 1, &prefix, err));
    if (ph_json_has(j, "add_prefix_space") && prefix_space >= 0) prefix = prefix_space;
    PH_TRY(scheme_of(b, j, prefix, &scheme, err));
    op->flag = !strcmp(scheme, "always") ? 2 : !strcmp(scheme, "first");
    PH_TRY(ph_json_bool_or(j, "split", 1, &splits, err));
    if (!splits) return PH_OK;
    ph_span_of mark = op->a;
    PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
    op->kind = PH_OP_SPLIT;
    op->behavior = PH_SPLIT_NEXT;
    return ph_build_pattern(b, op, mark, 1, err);
}

static ph_rc byte_level(ph_tok_build *b, const ph_json *j, int prefix_space, ph_err *err) {
    int prefix, use_regex;
    PH_TRY(ph_json_bool_or(j, "add_prefix_space", 1, &prefix, err));
    PH_TRY(ph_json_bool_or(j, "use_regex", 1, &use_regex, err));
    if (prefix_space >= 0) prefix = prefix_space;
    if (prefix) {
        ph_text_op *op;
        PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
        op->kind = PH_OP_PREFIX_SPACE;
        PH_TRY(ph_build_text(b, " ", 1, &op->a, err));
    }
    return ph_build_bytelevel(b, use_regex, err);
}

static ph_rc split(ph_tok_build *b, const ph_json *j, ph_err *err) {
    ph_text_op *op;
    PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
    op->kind = PH_OP_SPLIT;
    PH_TRY(behavior_of(b, j, "Isolated", &op->behavior, err));
    PH_TRY(ph_json_bool_or(j, "invert", 0, &op->invert, err));
    ph_json     pattern = ph_json_get(j, "pattern"), regex = ph_json_get(&pattern, "Regex");
    const char *text;
    size_t      n;
    if (ph_json_kind_of(&regex) == PH_JSON_TEXT) {
        PH_TRY(ph_json_to_text(&regex, &text, &n, err));
        PH_TRY(ph_build_text(b, text, n, &op->b, err));
    }
    return pattern_of(b, j, op, err);
}

/* Rust's \w (Whitespace uses Rust's regex): Oniguruma's has all numbers, Rust's only decimals, and the
 * joiners. */
#define RUST_WORD                                                                                            \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"            \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define PUNCTUATION "[!-/:-@\\[-`{-~\\p{P}]"

static ph_rc inner_pretokenizer(ph_tok_build *b, const ph_json *j, int depth, ph_err *err) {
    return ph_tokjson_pretokenizer(b, j, -1, depth, err);
}

ph_rc ph_tokjson_pretokenizer(ph_tok_build *b, const ph_json *j, int prefix_space, int depth, ph_err *err) {
    const char *type;
    ph_behavior behavior;
    int         is_there;
    PH_TRY(ph_json_want(j, PH_JSON_OBJECT, &is_there, err));
    if (!is_there) return PH_OK;
    PH_TRY(ph_json_text(j, "type", &type, err));
    if (!strcmp(type, "Sequence")) return sequence(b, j, "pretokenizers", depth, inner_pretokenizer, err);
    if (!strcmp(type, "ByteLevel")) return byte_level(b, j, prefix_space, err);
    if (!strcmp(type, "Metaspace")) return metaspace(b, j, prefix_space, err);
    if (!strcmp(type, "Split")) return split(b, j, err);
    if (!strcmp(type, "Digits")) {
        int single;
        PH_TRY(ph_json_bool_or(j, "individual_digits", 0, &single, err));
        return ph_build_split(b, "\\p{N}", single ? PH_SPLIT_ISOLATED : PH_SPLIT_CONTIGUOUS, 0, err);
    }
    if (!strcmp(type, "Punctuation")) {
        PH_TRY(behavior_of(b, j, "Isolated", &behavior, err));
        return ph_build_split(b, PUNCTUATION, behavior, 0, err);
    }
    if (!strcmp(type, "Whitespace"))
        return ph_build_split(b, "[" RUST_WORD "]+|[^\\s" RUST_WORD "]+", PH_SPLIT_REMOVED, 1, err);
    if (!strcmp(type, "WhitespaceSplit")) return ph_build_split(b, "\\s", PH_SPLIT_REMOVED, 0, err);
    if (!strcmp(type, "BertPreTokenizer")) {
        PH_TRY(ph_build_split(b, "\\s", PH_SPLIT_REMOVED, 0, err));
        return ph_build_split(b, PUNCTUATION, PH_SPLIT_ISOLATED, 0, err);
    }
    if (!strcmp(type, "CharDelimiterSplit")) {
        ph_text_op *op;
        PH_TRY(ph_build_op(b, b->t->split_op, &b->t->n_split_op, &op, err));
        op->kind = PH_OP_SPLIT;
        PH_TRY(text_param(b, j, "delimiter", " ", &op->a, err));
        return ph_build_pattern(b, op, op->a, 1, err);
    }
    return PH_FAIL(err, PH_EUNSUP, "%s: pre_tokenizer \"%.40s\" is not known", b->where, type);
}

/* --- decoders --- */

static int is_joined(const ph_tokenizer *t) {
    for (int i = 0; i < t->n_decode_op; i++)
        if (t->decode_op[i].kind == PH_OP_FUSE || t->decode_op[i].kind == PH_OP_BYTES) return 1;
    return 0;
}

static ph_rc decoder_params(ph_tok_build *b, const ph_json *j, ph_text_op *op, ph_err *err) {
    int64_t start, stop;
    switch (op->kind) {
    case PH_OP_REPLACE: {
        ph_json p = ph_json_get(j, "pattern"), fixed = ph_json_get(&p, "String");
        PH_TRY(text_param(b, j, "content", "", &op->b, err));
        PH_TRY(text_param(b, &p, "String", "", &op->a, err));
        if (ph_json_kind_of(&fixed) != PH_JSON_TEXT || !op->a.n)
            return PH_FAIL(err, PH_EUNSUP,
                           "%s: decoder Replace: only a fixed, non-empty String pattern is supported",
                           b->where);
        return PH_OK;
    }
    case PH_OP_STRIP:
        PH_TRY(ph_json_int_or(j, "start", 0, &start, err));
        PH_TRY(ph_json_int_or(j, "stop", 0, &stop, err));
        if (start < 0 || stop < 0 || start > 1000 || stop > 1000)
            return PH_FAIL(err, PH_EFORMAT, "%s: decoder Strip: start and stop must be 0 .. 1000", b->where);
        op->start = (uint32_t)start, op->stop = (uint32_t)stop;
        PH_TRY(text_param(b, j, "content", " ", &op->a, err));
        return op->a.n ? PH_OK : PH_FAIL(err, PH_EFORMAT, "%s: decoder Strip: content is empty", b->where);
    case PH_OP_METASPACE: {
        const char *scheme;
        int         prefix;
        PH_TRY(text_param(b, j, "replacement", "\xE2\x96\x81", &op->a, err));
        PH_TRY(ph_json_bool_or(j, "add_prefix_space", 1, &prefix, err));
        PH_TRY(scheme_of(b, j, prefix, &scheme, err));
        op->flag = strcmp(scheme, "never") != 0;
        return PH_OK;
    }
    case PH_OP_WORDPIECE:
        PH_TRY(text_param(b, j, "prefix", "##", &op->a, err));
        return ph_json_bool_or(j, "cleanup", 1, &op->flag, err);
    case PH_OP_BPE_SUFFIX:
        return text_param(b, j, "suffix", "</w>", &op->a, err);
    default:
        return PH_OK;
    }
}

ph_rc ph_tokjson_decoder(ph_tok_build *b, const ph_json *j, int depth, ph_err *err) {
    static const struct {
        const char *type;
        ph_op_kind  kind;
        int         after_join; /* may stand behind Fuse or ByteLevel */
    } kinds[] = {{"ByteLevel", PH_OP_BYTES, 0},     {"ByteFallback", PH_OP_BYTE_FALLBACK, 0},
                 {"Fuse", PH_OP_FUSE, 1},           {"Strip", PH_OP_STRIP, 1},
                 {"Replace", PH_OP_REPLACE, 1},     {"Metaspace", PH_OP_METASPACE, 0},
                 {"WordPiece", PH_OP_WORDPIECE, 0}, {"BPEDecoder", PH_OP_BPE_SUFFIX, 0}};
    const char *type;
    int         is_there;
    PH_TRY(ph_json_want(j, PH_JSON_OBJECT, &is_there, err));
    if (!is_there) return PH_OK;
    b->t->has_decoder = 1;
    PH_TRY(ph_json_text(j, "type", &type, err));
    if (!strcmp(type, "Sequence")) return sequence(b, j, "decoders", depth, ph_tokjson_decoder, err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ph_text_op *op;
        if (strcmp(kinds[i].type, type)) continue;
        if (!kinds[i].after_join && is_joined(b->t))
            return PH_FAIL(err, PH_EUNSUP, "%s: decoder %s behind one that joins the tokens", b->where, type);
        PH_TRY(ph_build_op(b, b->t->decode_op, &b->t->n_decode_op, &op, err));
        op->kind = kinds[i].kind;
        return decoder_params(b, j, op, err);
    }
    return PH_FAIL(err, PH_EUNSUP, "%s: decoder \"%.40s\" is not known", b->where, type);
}

ph_rc ph_tokjson_end_of_word(ph_tok_build *b, ph_err *err) {
    ph_text_op *op;
    PH_TRY(ph_build_op(b, b->t->decode_op, &b->t->n_decode_op, &op, err));
    op->kind = PH_OP_REPLACE;
    op->a = b->t->end_suffix;
    PH_TRY(ph_build_text(b, " ", 1, &op->b, err));
    PH_TRY(ph_build_op(b, b->t->decode_op, &b->t->n_decode_op, &op, err));
    op->kind = PH_OP_TRIM;
    return PH_OK;
}
