/* tokexport_json.c - a tokenizer from GGUF lists as tokenizer.json: tokgguf.c read backwards.
 *
 * A SentencePiece vocabulary merges by score, a tokenizer.json by rank: every way
 * to put a piece together from two others becomes a merge, in order of the
 * piece's score, as Hugging Face's own converter does it.
 * Source: tokenizers 0.22, format of tokenizer.json; transformers convert_slow_tokenizer.py.
 */
#include "text/pretok.h"
#include "text/tokenizer_tables.h"
#include "text/tokexport.h"

#include <stdlib.h>
#include <string.h>

static json_t *piece_json(const ph_tokenizer *t, int32_t id) {
    size_t      n;
    const char *piece = ph_tokenizer_piece(t, id, &n);
    return json_stringn(piece, n);
}

static ph_rc bad_piece(const ph_tokenizer *t, uint32_t id, ph_err *err) {
    return PH_FAIL(err, PH_EFORMAT, "%s: token %u is no UTF-8, which tokenizer.json cannot hold", t->name,
                   id);
}

static ph_rc vocab(const ph_tokenizer *t, json_t *to, ph_err *err) {
    for (uint32_t id = 0; id < t->n_ids; id++) {
        size_t      n;
        const char *piece = ph_tokenizer_piece(t, (int32_t)id, &n);
        if (!n) continue; /* a hole; special tokens stand here too, or readers would give them other ids */
        if (json_object_setn_new(to, piece, n, json_integer(id))) return bad_piece(t, id, err);
    }
    return PH_OK;
}

static ph_rc added(const ph_tokenizer *t, json_t *to, ph_err *err) {
    for (uint32_t id = 0; id < t->n_ids; id++) {
        unsigned f = t->flags[id];
        if (!(f & PH_TOK_ADDED)) continue;
        json_t *piece = piece_json(t, (int32_t)id);
        if (!piece) return bad_piece(t, id, err);
        json_array_append_new(to,
                              json_pack("{sisosbsbsbsbsb}", "id", (int)id, "content", piece, "single_word",
                                        (f & PH_TOK_SINGLE) != 0, "lstrip", (f & PH_TOK_LSTRIP) != 0,
                                        "rstrip", (f & PH_TOK_RSTRIP) != 0, "normalized",
                                        (f & PH_TOK_NORMALIZED) != 0, "special", (f & PH_TOK_CONTROL) != 0));
    }
    return PH_OK;
}

/* ---- merges ---- */

typedef struct way {
    double  score;
    int32_t whole, left, right;
} way;

static int by_score(const void *a, const void *b) {
    const way *x = a, *y = b;
    if (x->score < y->score || x->score > y->score) return x->score > y->score ? -1 : 1;
    if (x->whole != y->whole) return x->whole < y->whole ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

/* All pairs of pieces that make up another one. */
static ph_rc find_ways(const ph_tokenizer *t, way **out, size_t *n, ph_err *err) {
    size_t cap = 0;
    void  *at = NULL;
    ph_rc  rc = PH_OK;
    *n = 0;
    for (uint32_t id = 0; id < t->n_ids && !rc; id++) {
        const uint8_t *text = ph_tok_text(t, t->piece[id]);
        uint32_t       length = t->piece[id].n;
        if (!(t->flags[id] & PH_TOK_MODEL) || t->flags[id] & PH_TOK_BYTE) continue;
        for (uint32_t cut = 1; cut < length && !rc; cut++) {
            if ((text[cut] & 0xC0) == 0x80) continue; /* within a character */
            int32_t l = ph_tok_find(t, text, cut), r = ph_tok_find(t, text + cut, length - cut);
            if (l < 0 || r < 0) continue;
            rc = ph_room_grow(&at, &cap, *n, 1, sizeof **out, err);
            if (!rc) ((way *)at)[(*n)++] = (way){-(double)t->rank[id], (int32_t)id, l, r};
        }
    }
    *out = at;
    if (!rc && *n) qsort(at, *n, sizeof **out, by_score);
    return rc;
}

static void add_merge(const ph_tokenizer *t, json_t *to, int32_t left, int32_t right) {
    json_array_append_new(to, json_pack("[oo]", piece_json(t, left), piece_json(t, right)));
}

static ph_rc merges(const ph_tokenizer *t, json_t *to, ph_err *err) {
    way   *ways = NULL;
    size_t n = 0;
    for (uint32_t k = 0; k < t->n_merges; k++) add_merge(t, to, t->merges[k].left, t->merges[k].right);
    if (!t->rank || t->n_merges) return PH_OK;
    ph_rc rc = find_ways(t, &ways, &n, err);
    for (size_t k = 0; k < n && !rc; k++) add_merge(t, to, ways[k].left, ways[k].right);
    free(ways);
    return rc;
}

/* ---- the pipeline ---- */

static json_t *sequence(const char *key, json_t *list) {
    return json_pack("{ssso}", "type", "Sequence", key, list);
}

static json_t *bytelevel(int use_regex) {
    return json_pack("{sssbsbsb}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     use_regex);
}

static void set_gpt2(const ph_tokenizer *t, json_t *root) {
    json_t *splits = json_array();
    int     is_nfc = 0;
    for (int i = 0; i < t->n_norm_op; i++) is_nfc |= t->norm_op[i].kind == PH_OP_NFC;
    for (int i = 0; i < t->n_split_op; i++) {
        const ph_text_op *op = &t->split_op[i];
        if (op->kind != PH_OP_SPLIT) continue;
        json_t *regex = json_stringn((const char *)ph_tok_text(t, op->b), op->b.n);
        json_array_append_new(splits, json_pack("{sss{so}sssb}", "type", "Split", "pattern", "Regex", regex,
                                                "behavior", "Isolated", "invert", 0));
    }
    json_array_append_new(splits, bytelevel(0));
    json_object_set_new(root, "normalizer", is_nfc ? json_pack("{ss}", "type", "NFC") : json_null());
    json_object_set_new(root, "pre_tokenizer", sequence("pretokenizers", splits));
    json_object_set_new(root, "decoder", bytelevel(1));
}

static void set_llama(const ph_tokenizer *t, json_t *root) {
    static const char mark[] = "\xE2\x96\x81";
    json_t           *norm = json_array(), *dec = json_array();
    int               prefix = 0;
    for (int i = 0; i < t->n_norm_op; i++) prefix |= t->norm_op[i].kind == PH_OP_PREPEND;
    for (int i = 0; i < t->n_split_op; i++)
        prefix |= t->split_op[i].kind == PH_OP_METASPACE && t->split_op[i].flag;
    if (prefix) json_array_append_new(norm, json_pack("{ssss}", "type", "Prepend", "prepend", mark));
    json_array_append_new(
        norm, json_pack("{sss{ss}ss}", "type", "Replace", "pattern", "String", " ", "content", mark));
    json_array_append_new(
        dec, json_pack("{sss{ss}ss}", "type", "Replace", "pattern", "String", mark, "content", " "));
    json_array_append_new(dec, json_pack("{ss}", "type", "ByteFallback"));
    json_array_append_new(dec, json_pack("{ss}", "type", "Fuse"));
    if (prefix)
        json_array_append_new(
            dec, json_pack("{sssssisi}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    json_object_set_new(root, "normalizer", sequence("normalizers", norm));
    json_object_set_new(root, "pre_tokenizer", json_null());
    json_object_set_new(root, "decoder", sequence("decoders", dec));
}

static void special_row(const ph_tokenizer *t, json_t *list, json_t *table, int32_t id) {
    size_t      n;
    const char *piece = ph_tokenizer_piece(t, id, &n);
    json_array_append_new(list,
                          json_pack("{s{sosi}}", "SpecialToken", "id", json_stringn(piece, n), "type_id", 0));
    json_object_setn_new(table, piece, n,
                         json_pack("{sos[i]s[o]}", "id", json_stringn(piece, n), "ids", (int)id, "tokens",
                                   json_stringn(piece, n)));
}

/* The ids around a text, as a template; null when there are none. */
static json_t *post(const ph_tokenizer *t) {
    json_t *single = json_array(), *table = json_object();
    for (int i = 0; i < t->n_before; i++) special_row(t, single, table, t->before[i]);
    json_array_append_new(single, json_pack("{s{sssi}}", "Sequence", "id", "A", "type_id", 0));
    for (int i = 0; i < t->n_after; i++) special_row(t, single, table, t->after[i]);
    json_t *pair = json_deep_copy(single);
    json_array_append_new(pair, json_pack("{s{sssi}}", "Sequence", "id", "B", "type_id", 1));
    return json_pack("{sssososo}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", table);
}

static json_t *model_json(const ph_tokenizer *t, int is_spm, json_t *words, json_t *pairs) {
    json_t *unk = is_spm && t->unk_id >= 0 ? piece_json(t, t->unk_id) : json_null();
    return json_pack("{sssnsosnsnsbsbsbsoso}", "type", "BPE", "dropout", "unk_token", unk,
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", is_spm, "byte_fallback",
                     is_spm, "ignore_merges", t->ignore_merges, "vocab", words, "merges", pairs);
}

ph_rc ph_tokenizer_to_json(const ph_tokenizer *t, json_t **out, ph_err *err) {
    int     is_spm = t->model != &ph_text_model_bpe;
    json_t *root = json_pack("{sssnsn}", "version", "1.0", "truncation", "padding");
    json_t *tokens = json_array(), *words = json_object(), *pairs = json_array();
    *out = NULL;
    ph_rc rc = root && tokens && words && pairs ? PH_OK : PH_FAIL(err, PH_ENOMEM, "tokenizer.json");
    if (!rc) rc = added(t, tokens, err);
    if (!rc) rc = vocab(t, words, err);
    if (!rc) rc = merges(t, pairs, err);
    if (rc) {
        json_decref(root);
        json_decref(tokens);
        json_decref(words);
        json_decref(pairs);
        return rc;
    }
    json_object_set_new(root, "added_tokens", tokens);
    if (is_spm)
        set_llama(t, root);
    else
        set_gpt2(t, root);
    json_object_set_new(root, "post_processor", post(t));
    json_object_set_new(root, "model", model_json(t, is_spm, words, pairs));
    *out = root;
    return PH_OK;
}

static void set_token(json_t *o, const char *name, const ph_tokenizer *t, int32_t id) {
    json_object_set_new(o, name, id >= 0 ? piece_json(t, id) : json_null());
}

ph_rc ph_tokenizer_config_to_json(const ph_tokenizer *t, int64_t context, json_t **out, ph_err *err) {
    json_t *o = json_pack("{sssI}", "tokenizer_class", "PreTrainedTokenizerFast", "model_max_length",
                          (json_int_t)context);
    if (!o) return PH_FAIL(err, PH_ENOMEM, "tokenizer_config.json");
    set_token(o, "bos_token", t, t->bos);
    set_token(o, "eos_token", t, t->eos);
    set_token(o, "unk_token", t, t->unk);
    set_token(o, "pad_token", t, t->pad);
    json_object_set_new(o, "clean_up_tokenization_spaces", json_false());
    *out = o;
    return PH_OK;
}
