/* decoder_read.c - the config keys that shape a decoder of the Llama line.  See decoder.c for its graph. */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* How many frequencies turn by time, height and width; GGUF files add a fourth count, which is 0. */
static ph_rc read_sections(const ph_keys *scaling, ph_rope_spec *r, ph_err *err) {
    int64_t section[4] = {0};
    size_t  n;
    PH_TRY(ph_keys_ints_or(scaling, "mrope_section", section, 4, &n, err));
    if (n && (n < 3 || section[3]))
        return PH_FAIL(err, PH_EFORMAT, "%s: mrope_section must be three numbers", scaling->where);
    for (int i = 0; i < 3; i++) r->mrope[i] = section[i];
    return PH_OK;
}

#define ROPE_MAX 1e6 /* of every factor */

ph_rc ph_rope_read(const ph_keys *k, ph_rope_spec *r, ph_err *err) {
    ph_keys     scaling = ph_keys_under(k, "rope_scaling");
    const char *kind = "none";
    if (ph_keys_empty(&scaling)) scaling = ph_keys_under(k, "rope_parameters"); /* transformers 5 */
    PH_TRY(ph_keys_float_in(k, "rope_theta", 1, PH_THETA_MAX, 10000.0, &r->theta, err));
    PH_TRY(ph_keys_float_in(&scaling, "rope_theta", 1, PH_THETA_MAX, r->theta, &r->theta, err));
    r->kind = "none";
    r->factor = 1;
    if (ph_keys_empty(&scaling)) return PH_OK;
    PH_TRY(read_sections(&scaling, r, err));
    PH_TRY(ph_keys_text_or(&scaling, "type", "none", &kind, err));
    PH_TRY(ph_keys_text_or(&scaling, "rope_type", kind, &kind, err));
    if (!strcmp(kind, "default") || !strcmp(kind, "none") || !strcmp(kind, "mrope")) return PH_OK;
    if (!strcmp(kind, "linear"))
        r->kind = "linear";
    else if (!strcmp(kind, "llama3"))
        r->kind = "llama3";
    else if (!strcmp(kind, "yarn"))
        r->kind = "yarn";
    else if (!strcmp(kind, "longrope") || !strcmp(kind, "su"))
        r->kind = "factors";
    else
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: rope scaling '%s' is not supported; none, linear, llama3, yarn and longrope are",
                       k->where, kind);
    PH_TRY(ph_keys_float_in(&scaling, "factor", 1e-6, ROPE_MAX, 1.0, &r->factor, err));
    PH_TRY(ph_keys_float_in(&scaling, "low_freq_factor", 0, ROPE_MAX, 1.0, &r->low_freq_factor, err));
    PH_TRY(ph_keys_float_in(&scaling, "high_freq_factor", 0, ROPE_MAX, 4.0, &r->high_freq_factor, err));
    PH_TRY(ph_keys_float_in(&scaling, "beta_fast", 0, ROPE_MAX, 32.0, &r->beta_fast, err));
    PH_TRY(ph_keys_float_in(&scaling, "beta_slow", 0, ROPE_MAX, 1.0, &r->beta_slow, err));
    PH_TRY(ph_keys_float_in(&scaling, "attention_factor", 0, ROPE_MAX, 0.0, &r->attention_factor, err));
    PH_TRY(ph_keys_float_in(&scaling, "original_max_position_embeddings", 0, 1 << 28, 0.0,
                            &r->original_context, err));
    return PH_OK;
}

/* Biases and tying: the config says so, or (GGUF, which has no such keys) the tensors themselves do. */
static ph_rc read_extras(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    ph_names names;
    int      attention_bias;
    PH_TRY(ph_names_text(s, &names, err));
    PH_TRY(ph_keys_bool_or(k, "attention_bias",
                           ph_names_find(&names, "layers.0.self_attn.q_proj.bias") != NULL, &attention_bias,
                           err));
    d->has_qkv_bias = attention_bias;
    d->has_o_bias = attention_bias && ph_names_find(&names, "layers.0.self_attn.o_proj.bias") != NULL;
    PH_TRY(ph_keys_bool_or(k, "mlp_bias", ph_names_find(&names, "layers.0.mlp.up_proj.bias") != NULL,
                           &d->has_mlp_bias, err));
    PH_TRY(ph_keys_bool_or(k, "tie_word_embeddings", 0, &d->is_tied, err));
    if (!ph_names_find(&names, "lm_head.weight")) d->is_tied = 1;
    return PH_OK;
}

static ph_rc read_size(const ph_keys *k, const char *name, int most, int otherwise, int *out, ph_err *err) {
    if (!otherwise) return ph_keys_int(k, name, 1, most, out, err);
    return ph_keys_int_or(k, name, 1, most, otherwise, out, err);
}

/* The text_config of a composite model may leave out what is its class's default; a model of text alone says
 * everything. */
static const ph_decoder_defaults *defaults_of(const ph_keys *k, const ph_source *s) {
    static const ph_decoder_defaults none = {.context = 2048};
    ph_json                          root = s->is_gguf ? (ph_json){0} : ph_json_root(&s->hf.config);
    const ph_decoder_defaults       *own = s->text_family ? s->text_family->defaults : NULL;
    const char *type = s->is_gguf || !ph_json_has(&root, "text_config") ? NULL : ph_keys_type(k);
    return own && type && !strcmp(type, own->type) ? own : &none;
}

/* GGUF files give values a length of their own. */
static ph_rc check_values(const ph_keys *k, const ph_decoder *d, ph_err *err) {
    int length;
    if (!k->gguf) return PH_OK;
    PH_TRY(ph_keys_int_or(k, "value_dim", 1, 1 << 16, d->d_head, &length, err));
    if (length == d->d_head) return PH_OK;
    return PH_FAIL(
        err, PH_EUNSUP,
        "%s: attention.value_length %d is not the length of keys, %d: such heads are not supported", k->where,
        length, d->d_head);
}

ph_rc ph_decoder_read(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    const ph_decoder_defaults *c = defaults_of(k, s);
    double                     eps, part;
    *d = (ph_decoder){0};
    PH_TRY(read_size(k, "num_hidden_layers", PH_LAYERS_MAX, c->layers, &d->n_layers, err));
    d->n_kinds = 1;
    PH_TRY(read_size(k, "hidden_size", 1 << 17, c->d, &d->d_model, err));
    PH_TRY(read_size(k, "num_attention_heads", 1 << 12, c->heads, &d->n_heads, err));
    PH_TRY(ph_keys_int_or(k, "num_key_value_heads", 1, 1 << 12, c->kv_heads ? c->kv_heads : d->n_heads,
                          &d->n_kv_heads, err));
    PH_TRY(read_size(k, "intermediate_size", 1 << 20, c->d_ff, &d->d_ff, err));
    PH_TRY(read_size(k, "vocab_size", 1 << 24, c->vocab, &d->vocab, err));
    if (!ph_keys_has(k, "head_dim") && !c->d_head && d->d_model % d->n_heads)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: hidden_size %d is no multiple of num_attention_heads %d, and head_dim is not given",
            k->where, d->d_model, d->n_heads);
    PH_TRY(ph_keys_int_or(k, "head_dim", 2, 1 << 12, c->d_head ? c->d_head : d->d_model / d->n_heads,
                          &d->d_head, err));
    PH_TRY(check_values(k, d, err));
    PH_TRY(ph_keys_int_or(k, "max_position_embeddings", 1, 1 << 28, c->context, &d->context, err));
    PH_TRY(ph_keys_act_or(k, "hidden_act", PH_ACT_SILU, &d->act, err));
    PH_TRY(ph_keys_eps_or(k, "rms_norm_eps", 1e-6, &eps, err));
    d->norm_eps = (float)eps;
    if (d->n_heads % d->n_kv_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: num_attention_heads %d is no multiple of num_key_value_heads %d",
                       k->where, d->n_heads, d->n_kv_heads);
    PH_TRY(ph_keys_int_or(k, "rope_dim", 2, 1 << 12, d->d_head, &d->kind[0].rope.dim, err));
    PH_TRY(ph_keys_float_or(k, "partial_rotary_factor", 1.0, &part, err));
    if (!(part > 0 && part <= 1))
        return PH_FAIL(err, PH_EFORMAT, "%s: partial_rotary_factor is %g", k->where, part);
    if (part < 1) d->kind[0].rope.dim = (int)(part * d->d_head);
    if (d->d_head % 2 || d->kind[0].rope.dim % 2 || d->kind[0].rope.dim > d->d_head)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: head_dim %d and rotary dimension %d must be even, the second no larger", k->where,
                       d->d_head, d->kind[0].rope.dim);
    PH_TRY(ph_rope_read(k, &d->kind[0].rope, err));
    if (ph_decoder_is_divided(d) ||
        (s->is_gguf && ph_weights_find(ph_source_weights(s), "rope_factors_short.weight")))
        PH_TRY(ph_longrope_read(k, s, d, err));
    if (d->kind[0].rope.original_context <= 0) d->kind[0].rope.original_context = d->context;
    return read_extras(k, s, d, err);
}

/* The same of GGUF files: sliding_window_pattern, one flag a layer.  (A single number is a period, which the
 * families that have one know.) */
static ph_rc pattern_read(const ph_keys *k, ph_decoder *d, ph_err *err) {
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", k->prefix);
    const ph_gguf_kv *kv = ph_gguf_find(k->gguf, key);
    if (!kv || !kv->is_array) return PH_OK;
    if (kv->count != (size_t)d->n_layers)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s has %zu entries for %d layers", k->where, key, kv->count,
                       d->n_layers);
    for (int i = 0; i < d->n_layers; i++) {
        int64_t flag;
        if (!ph_gguf_item_int(kv, (size_t)i, &flag))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s must be an array of flags", k->where, key);
        d->layer_kind[i] = flag != 0;
    }
    return PH_OK;
}

/* "layer_types": an array of one word a layer, where the config has it. */
ph_rc ph_layer_types_read(const ph_keys *k, ph_decoder *d, ph_err *err) {
    const char *word;
    if (k->gguf) return pattern_read(k, d, err);
    ph_json types = ph_json_get(&k->object, "layer_types");
    if (ph_json_kind_of(&types) != PH_JSON_ARRAY) return PH_OK;
    if (ph_json_count(&types) != (size_t)d->n_layers)
        return PH_FAIL(err, PH_EFORMAT, "%s: layer_types has %zu entries for %d layers", k->where,
                       ph_json_count(&types), d->n_layers);
    for (int i = 0; i < d->n_layers; i++) {
        ph_json one = ph_json_at(&types, (size_t)i);
        PH_TRY(ph_json_to_text(&one, &word, NULL, err));
        if (!strcmp(word, "sliding_attention"))
            d->layer_kind[i] = 1;
        else if (!strcmp(word, "full_attention"))
            d->layer_kind[i] = 0;
        else
            return PH_FAIL(err, PH_EUNSUP,
                           "%s: layer type '%s'; full_attention and sliding_attention are known", k->where,
                           word);
    }
    return PH_OK;
}

/* Qwen's switch: use_sliding_window, from layer max_window_layers on, or as layer_types says. */
ph_rc ph_window_read(const ph_keys *k, ph_decoder *d, ph_err *err) {
    int is_used, first;
    /* GGUF has no such switch: the window's size is there when it is used. */
    PH_TRY(
        ph_keys_bool_or(k, "use_sliding_window", k->gguf && ph_keys_has(k, "sliding_window"), &is_used, err));
    if (!is_used) return PH_OK;
    d->n_kinds = 2;
    d->kind[1] = d->kind[0];
    PH_TRY(ph_keys_int_or(k, "sliding_window", 1, 1 << 28, 4096, &d->kind[1].window, err));
    PH_TRY(ph_keys_int_or(k, "max_window_layers", 0, 1 << 20, 28, &first, err));
    for (int i = 0; i < d->n_layers; i++) d->layer_kind[i] = i >= first;
    return ph_layer_types_read(k, d, err);
}
