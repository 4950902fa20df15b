/* keys.c - config keys under their Hugging Face names, whatever holds them.
 *
 * A JSON object is asked directly.  A GGUF file is asked through the family's own
 * rows and the dictionary below, where "%" stands for the part's prefix (the
 * architecture, clip.vision); a key without a row is absent there.
 */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* Source: the GGUF specification (ggml docs/gguf.md) and the mtmd tool's vision keys. */
static const ph_key_row dictionary[] = {
    {"", "num_hidden_layers", "%.block_count"},
    {"", "hidden_size", "%.embedding_length"},
    {"", "num_attention_heads", "%.attention.head_count"},
    {"", "num_key_value_heads", "%.attention.head_count_kv"},
    {"", "intermediate_size", "%.feed_forward_length"},
    {"", "vocab_size", "%.vocab_size"},
    {"", "head_dim", "%.attention.key_length"},
    {"", "value_dim", "%.attention.value_length"},
    {"", "rope_dim", "%.rope.dimension_count"},
    {"", "max_position_embeddings", "%.context_length"},
    {"", "rms_norm_eps", "%.attention.layer_norm_rms_epsilon"},
    {"", "layer_norm_eps", "%.attention.layer_norm_epsilon"},
    {"", "rope_theta", "%.rope.freq_base"},
    {"", "sliding_window", "%.attention.sliding_window"},
    {"", "image_size", "%.image_size"},
    {"", "patch_size", "%.patch_size"},
    {"", "projection_dim", "%.projection_dim"},
    {"", "scale_factor", "%.projector.scale_factor"},
    {"", "vision_feature_layer", "%.feature_layer"},
    {"", "image_token_id", "%.image_token_id"}, /* our own, as the next: others look for the piece */
    {"", "video_token_id", "%.video_token_id"},
    {"", "projector_hidden_act", "%.projector_hidden_act"}, /* our own: the field's files mean gelu */
    {"rope_scaling", "beta_fast", "%.rope.scaling.yarn_beta_fast"},
    {"rope_scaling", "beta_slow", "%.rope.scaling.yarn_beta_slow"},
    {"rope_scaling", "rope_type", "%.rope.scaling.type"},
    {"rope_scaling", "factor", "%.rope.scaling.factor"},
    {"rope_scaling", "attention_factor", "%.rope.scaling.attn_factor"},
    {"rope_scaling", "original_max_position_embeddings", "%.rope.scaling.original_context_length"},
    {"rope_scaling", "mrope_section", "%.rope.dimension_sections"},
    {"", "depth", "%.block_count"},
    {"", "embed_dim", "%.embedding_length"},
    {"", "num_heads", "%.attention.head_count"},
    {"", "spatial_merge_size", "%.spatial_merge_size"},
};

/* The family's rows, then the dictionary's; NULL: past the last. */
static const ph_key_row *row_at(const ph_keys *k, size_t i) {
    size_t own = k->family ? k->family->n_keys : 0;
    if (i < own) return &k->family->keys[i];
    return i - own < sizeof dictionary / sizeof *dictionary ? &dictionary[i - own] : NULL;
}

/* The GGUF key for name, or 0 when there is none. */
static int translate(const ph_keys *k, const char *name, char *out, size_t size) {
    const ph_key_row *row;
    for (size_t i = 0; (row = row_at(k, i)); i++) {
        if (strcmp(row->group, k->group) || strcmp(row->name, name)) continue;
        int n = snprintf(out, size, "%s%s", k->prefix, row->key + 1);
        return n > 0 && (size_t)n < size;
    }
    return 0;
}

static const ph_gguf_kv *kv_of(const ph_keys *k, const char *name) {
    char key[128];
    return translate(k, name, key, sizeof key) ? ph_gguf_find(k->gguf, key) : NULL;
}

static ph_keys keys_json(ph_json object, const char *where, const ph_family *family) {
    return (ph_keys){.object = object, .where = where, .family = family};
}

ph_keys ph_keys_top(const ph_source *s) {
    if (!s->is_gguf) return keys_json(ph_json_root(&s->hf.config), "config.json", s->family);
    const ph_gguf *g = s->has_mmproj ? &s->mmproj : &s->gguf;
    return (ph_keys){
        .gguf = g, .prefix = s->has_mmproj ? "clip.vision" : s->type, .where = g->name, .family = s->family};
}

ph_keys ph_keys_text(const ph_source *s) {
    if (s->is_gguf)
        return (ph_keys){
            .gguf = &s->gguf, .prefix = s->type, .where = s->gguf.name, .family = s->text_family};
    ph_json root = ph_json_root(&s->hf.config);
    ph_json part = ph_json_get(&root, "text_config");
    return keys_json(ph_json_kind_of(&part) == PH_JSON_OBJECT ? part : root, "config.json", s->text_family);
}

ph_keys ph_keys_vision(const ph_source *s) {
    if (s->is_gguf)
        return (ph_keys){
            .gguf = &s->mmproj, .prefix = "clip.vision", .where = s->mmproj.name, .family = s->family};
    ph_json root = ph_json_root(&s->hf.config);
    return keys_json(ph_json_get(&root, "vision_config"), "config.json vision_config", s->family);
}

ph_keys ph_keys_under(const ph_keys *k, const char *name) {
    ph_keys under = *k;
    if (k->gguf)
        snprintf(under.group, sizeof under.group, "%s", name);
    else
        under.object = ph_json_get(&k->object, name);
    return under;
}

int ph_keys_empty(const ph_keys *k) {
    if (!k->gguf) return ph_json_count(&k->object) == 0;
    const ph_key_row *row;
    for (size_t i = 0; (row = row_at(k, i)); i++)
        if (!strcmp(row->group, k->group) && kv_of(k, row->name)) return 0;
    return 1;
}

const char *ph_keys_type(const ph_keys *k) {
    const char *type = NULL;
    if (k->gguf) return k->prefix;
    if (ph_json_text_or(&k->object, "model_type", NULL, &type, NULL)) return NULL;
    return type;
}

int ph_keys_has(const ph_keys *k, const char *name) {
    return k->gguf ? kv_of(k, name) != NULL : ph_json_has(&k->object, name);
}

ph_rc ph_keys_int(const ph_keys *k, const char *name, int least, int most, int *out, ph_err *err) {
    char key[128];
    if (!k->gguf) return ph_json_size(&k->object, name, least, most, out, err);
    if (!translate(k, name, key, sizeof key))
        return PH_FAIL(err, PH_EFORMAT, "%s: no key stands for %s in GGUF files", k->where, name);
    const ph_gguf_kv *tokens = ph_gguf_find(k->gguf, "tokenizer.ggml.tokens");
    if (!strcmp(name, "vocab_size") && tokens && !ph_gguf_find(k->gguf, key) &&
        tokens->count <= (size_t)most) { /* many files leave it to the list of tokens */
        *out = (int)tokens->count;
        return PH_OK;
    }
    return ph_gguf_size(k->gguf, key, least, most, out, err);
}

ph_rc ph_keys_int_or(const ph_keys *k, const char *name, int least, int most, int otherwise, int *out,
                     ph_err *err) {
    char key[128];
    if (!k->gguf) return ph_json_size_or(&k->object, name, least, most, otherwise, out, err);
    *out = otherwise;
    const ph_gguf_kv *kv = translate(k, name, key, sizeof key) ? ph_gguf_find(k->gguf, key) : NULL;
    int64_t           first;
    if (!kv) return PH_OK;
    /* Per-layer arrays are read as their first item; a family that needs them all reads them itself. */
    if (!kv->count || !ph_gguf_item_int(kv, 0, &first) || first < least || first > most)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s must be an integer from %d to %d", k->where, key, least,
                       most);
    *out = (int)first;
    return PH_OK;
}

ph_rc ph_keys_float_or(const ph_keys *k, const char *name, double otherwise, double *out, ph_err *err) {
    char key[128];
    if (!k->gguf) return ph_json_real_or(&k->object, name, otherwise, out, err);
    *out = otherwise;
    return translate(k, name, key, sizeof key) ? ph_gguf_real_or(k->gguf, key, otherwise, out, err) : PH_OK;
}

ph_rc ph_keys_float_in(const ph_keys *k, const char *name, double least, double most, double otherwise,
                       double *out, ph_err *err) {
    char key[128];
    PH_TRY(ph_keys_float_or(k, name, otherwise, out, err));
    if (!ph_keys_has(k, name) || (*out >= least && *out <= most)) return PH_OK;
    int is_known = k->gguf && translate(k, name, key, sizeof key);
    return PH_FAIL(err, PH_EFORMAT, "%s: %s is %g, expected a number from %g to %g",
                   k->gguf ? k->where : k->object.where, is_known ? key : name, *out, least, most);
}

ph_rc ph_keys_eps_or(const ph_keys *k, const char *name, double otherwise, double *out, ph_err *err) {
    return ph_keys_float_in(k, name, 0, 1, otherwise, out, err);
}

ph_rc ph_keys_bool_or(const ph_keys *k, const char *name, int otherwise, int *out, ph_err *err) {
    char key[128];
    if (!k->gguf) return ph_json_bool_or(&k->object, name, otherwise, out, err);
    *out = otherwise;
    return translate(k, name, key, sizeof key) ? ph_gguf_bool_or(k->gguf, key, otherwise, out, err) : PH_OK;
}

/* GGUF texts are not terminated; the few that are read as words come from this list. */
static const char *known_word(ph_gguf_text t) {
    static const char *const words[] = {
        "none",    "linear", "yarn", "llama3", "longrope",          "su",
        "default", "full",   "silu", "gelu",   "gelu_pytorch_tanh", "quick_gelu",
        "relu"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ph_gguf_text_is(t, words[i])) return words[i];
    return "unknown";
}

ph_rc ph_keys_text_or(const ph_keys *k, const char *name, const char *otherwise, const char **out,
                      ph_err *err) {
    char         key[128];
    ph_gguf_text text;
    if (!k->gguf) return ph_json_text_or(&k->object, name, otherwise, out, err);
    *out = otherwise;
    if (!translate(k, name, key, sizeof key) || !ph_gguf_find(k->gguf, key)) return PH_OK;
    PH_TRY(ph_gguf_text_of(k->gguf, key, &text, err));
    *out = known_word(text);
    return PH_OK;
}

ph_rc ph_keys_ints_or(const ph_keys *k, const char *name, int64_t *out, size_t max, size_t *n, ph_err *err) {
    *n = 0;
    if (!ph_keys_has(k, name)) return PH_OK;
    if (!k->gguf) return ph_json_ints(&k->object, name, out, max, n, err);
    const ph_gguf_kv *kv = kv_of(k, name);
    if (kv->count > max)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s has %zu numbers, at most %zu", k->where, name,
                       (size_t)kv->count, max);
    for (size_t i = 0; i < kv->count; i++)
        if (!ph_gguf_item_int(kv, i, &out[i]))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s holds no whole numbers", k->where, name);
    *n = (size_t)kv->count;
    return PH_OK;
}

/* GGUF says which activation with two flags of the vision part. */
static ph_rc act_gguf(const ph_keys *k, ph_act otherwise, ph_act *out, ph_err *err) {
    int          use_gelu, use_silu, is_exact = 0, is_relu = 0;
    ph_gguf_text word;
    *out = otherwise;
    if (strcmp(k->prefix, "clip.vision")) return PH_OK;
    if (ph_gguf_find(k->gguf, "clip.vision.hidden_act")) { /* our own: what the flags do not know */
        PH_TRY(ph_gguf_text_of(k->gguf, "clip.vision.hidden_act", &word, err));
        is_exact = ph_gguf_text_is(word, "gelu");
        is_relu = ph_gguf_text_is(word, "relu");
    }
    PH_TRY(ph_gguf_bool_or(k->gguf, "clip.use_gelu", 0, &use_gelu, err));
    PH_TRY(ph_gguf_bool_or(k->gguf, "clip.use_silu", 0, &use_silu, err));
    *out = is_relu    ? PH_ACT_RELU
           : is_exact ? PH_ACT_GELU
           : use_gelu ? PH_ACT_GELU_TANH
           : use_silu ? PH_ACT_SILU
                      : PH_ACT_GELU_QUICK;
    return PH_OK;
}

ph_rc ph_keys_image_token(const ph_keys *top, int32_t *out, ph_err *err) {
    int id;
    PH_TRY(ph_keys_int_or(top, "image_token_index", -1, 1 << 24, -1, &id, err));
    PH_TRY(ph_keys_int_or(top, "image_token_id", -1, 1 << 24, id, &id, err));
    *out = id;
    return PH_OK;
}

ph_rc ph_keys_act_or(const ph_keys *k, const char *name, ph_act otherwise, ph_act *out, ph_err *err) {
    static const struct {
        const char *name;
        ph_act      act;
    } acts[] = {{"silu", PH_ACT_SILU},
                {"swish", PH_ACT_SILU},
                {"gelu", PH_ACT_GELU},
                {"gelu_pytorch_tanh", PH_ACT_GELU_TANH},
                {"gelu_new", PH_ACT_GELU_TANH},
                {"gelu_tanh", PH_ACT_GELU_TANH},
                {"quick_gelu", PH_ACT_GELU_QUICK},
                {"relu", PH_ACT_RELU}};
    const char *text;
    if (k->gguf && !strcmp(name, "hidden_act")) return act_gguf(k, otherwise, out, err);
    PH_TRY(ph_keys_text_or(k, name, NULL, &text, err));
    *out = otherwise;
    if (!text) return PH_OK;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(text, acts[i].name)) {
            *out = acts[i].act;
            return PH_OK;
        }
    return PH_FAIL(err, PH_EUNSUP,
                   "%s: %s '%s' is not supported; silu, gelu, gelu_pytorch_tanh, quick_gelu and relu are",
                   k->where, name, text);
}
