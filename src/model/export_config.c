/* export_config.c - a spec as config.json, under the keys that keys.c reads.
 *
 * All keys of the Llama line are written for every family; those that mean
 * nothing to a family are not read by it.  Numbers are printed as the shortest
 * text that gives the same float.
 */
#include "model/export.h"

#include "base/locale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ph_export_set_int(json_t *o, const char *name, int64_t v) {
    json_object_set_new(o, name, json_integer(v));
}

static void set_bool(json_t *o, const char *name, int v) {
    json_object_set_new(o, name, json_boolean(v));
}

void ph_export_set_text(json_t *o, const char *name, const char *v) {
    if (v) json_object_set_new(o, name, json_string(v));
}

/* A float as the shortest decimal that is still this float. */
static json_t *real(double v) {
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        ph_plain_print(text, sizeof text, "%.*g", digits, v);
        if (!(fabsf(ph_plain_float(text, NULL) - (float)v) > 0)) break;
    }
    return json_real(ph_plain_double(text, NULL));
}

void ph_export_set_real(json_t *o, const char *name, double v) {
    json_object_set_new(o, name, real(v));
}

const char *ph_export_act_name(ph_act act) {
    static const char *const names[] = {"silu", "gelu", "gelu_pytorch_tanh", "quick_gelu", "relu"};
    return names[act];
}

void ph_export_set_mark(json_t *o, const ph_model *m, const char *name, const char *text) {
    int32_t id = ph_tokenizer_id(m->tokenizer, text, strlen(text));
    if (id >= 0) ph_export_set_int(o, name, id);
}

/* ---- rotation ---- */

static double wave_length(const ph_rope_spec *r, size_t i) {
    return 2 * 3.14159265358979323846 * pow(r->theta, 2.0 * (double)i / r->dim);
}

/* A table of divisors is Llama 3's when they are 1, then rise, then stay: the three parameters follow up to a
 * common factor of the two frequency bounds, for which low_freq_factor 1 is taken. */
static ph_rc llama3_of_table(json_t *o, const ph_rope_spec *r, const ph_weight *w, ph_err *err) {
    size_t n = (size_t)r->dim / 2, first = n, last = n, ones = 0;
    double factor = 1, f[2] = {0}, smooth[2];
    float  x;
    for (size_t i = 0; i < n; i++) {
        memcpy(&x, w->bytes + i * sizeof x, sizeof x);
        if ((double)x > factor) factor = (double)x;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&x, w->bytes + i * sizeof x, sizeof x);
        int is_one = (double)x<1 + 1e-6, is_full = (double)x> factor * (1 - 1e-6);
        if (!(x > 0) || (double)x < 1 - 1e-6 || (is_one && ones != i))
            return PH_FAIL(err, PH_EUNSUP, "tensor rope_freqs.weight: no config.json says these divisors");
        ones += (size_t)is_one;
        if (is_one || is_full) continue;
        if (first == n) first = i, f[0] = (double)x;
        last = i, f[1] = (double)x;
    }
    double low = 1, high = 4, context = 0;
    for (int k = 0; k < 2 && first < n; k++) smooth[k] = (1 / f[k] - 1 / factor) / (1 - 1 / factor);
    if (first < last) { /* smooth = a / wave + b, with a = context / (high - low), b = -low / (high - low) */
        double u = 1 / wave_length(r, first), v = 1 / wave_length(r, last);
        double a = (smooth[0] - smooth[1]) / (u - v), b = smooth[0] - a * u;
        high = 1 - 1 / b;
        context = -a / b;
    } else if (first < n) {
        context = wave_length(r, first) * (smooth[0] * (high - low) + low);
    } else { /* a jump: the bounds lie anywhere between two frequencies */
        context = ones ? sqrt(wave_length(r, ones - 1) * wave_length(r, ones < n ? ones : n - 1)) : 1;
        high = 1 + 1e-6;
    }
    if (fabs(high - round(high)) < 1e-2) high = round(high);
    if (fabs(context - round(context)) < 1e-2 * context) context = round(context);
    json_t *s = json_pack("{ss}", "rope_type", "llama3");
    ph_export_set_real(s, "factor", factor);
    ph_export_set_real(s, "low_freq_factor", low);
    ph_export_set_real(s, "high_freq_factor", high);
    ph_export_set_int(s, "original_max_position_embeddings", (int64_t)context);
    json_object_set_new(o, "rope_scaling", s);
    return PH_OK;
}

/* Three members are what the reference takes; a factor of its own besides. */
static ph_rc longrope(json_t *o, const ph_model *m, ph_err *err) {
    const ph_decoder   *d = &m->spec.text;
    const ph_rope_spec *r = &d->kind[0].rope;
    float               list[PH_DIVISORS_MAX];
    json_t             *s = json_pack("{ss}", "type", "longrope");
    json_object_set_new(o, "rope_scaling", s);
    ph_export_set_int(o, "original_max_position_embeddings", (int64_t)r->original_context);
    for (int is_long = 0; is_long < 2; is_long++) {
        json_t *a = json_array();
        json_object_set_new(s, is_long ? "long_factor" : "short_factor", a);
        PH_TRY(ph_longrope_list(&m->source, d, is_long, list, err));
        for (int i = 0; i < r->dim / 2; i++) json_array_append_new(a, real((double)list[i]));
    }
    if (fabs(r->attention_factor - ph_longrope_magnitude(d)) > 1e-6 * r->attention_factor)
        ph_export_set_real(s, "attention_factor", r->attention_factor);
    return PH_OK;
}

static ph_rc rope(json_t *o, const ph_model *m, ph_err *err) {
    const ph_rope_spec *r = &m->spec.text.kind[0].rope;
    const ph_weight    *table =
        m->source.is_gguf ? ph_weights_find(ph_source_weights(&m->source), "rope_freqs.weight") : NULL;
    ph_export_set_real(o, "rope_theta", r->theta);
    if (table) return llama3_of_table(o, r, table, err);
    if (ph_decoder_is_divided(&m->spec.text)) return longrope(o, m, err);
    int is_none = !strcmp(r->kind, "none");
    if (is_none && !r->mrope[0]) {
        json_object_set_new(o, "rope_scaling", json_null());
        return PH_OK;
    }
    json_t *s = json_pack("{ss}", "rope_type", is_none ? "default" : r->kind);
    json_object_set_new(o, "rope_scaling", s);
    if (r->mrope[0]) {
        ph_export_set_text(s, "type", is_none ? "default" : r->kind);
        json_object_set_new(
            s, "mrope_section",
            json_pack("[III]", (json_int_t)r->mrope[0], (json_int_t)r->mrope[1], (json_int_t)r->mrope[2]));
    }
    if (is_none) return PH_OK;
    ph_export_set_real(s, "factor", r->factor);
    ph_export_set_int(s, "original_max_position_embeddings", (int64_t)r->original_context);
    if (!strcmp(r->kind, "yarn")) {
        ph_export_set_real(s, "beta_fast", r->beta_fast);
        ph_export_set_real(s, "beta_slow", r->beta_slow);
        if (r->attention_factor > 0) ph_export_set_real(s, "attention_factor", r->attention_factor);
    }
    if (!strcmp(r->kind, "llama3")) {
        ph_export_set_real(s, "low_freq_factor", r->low_freq_factor);
        ph_export_set_real(s, "high_freq_factor", r->high_freq_factor);
    }
    return PH_OK;
}

/* ---- language ---- */

static void windows(json_t *o, const ph_decoder *d) {
    int     window = d->kind[d->n_kinds - 1].window;
    json_t *types = json_array();
    json_object_set_new(o, "sliding_window", window > 0 ? json_integer(window) : json_null());
    set_bool(o, "use_sliding_window", window > 0);
    if (d->n_kinds > 1) {
        ph_export_set_real(o, "rope_local_base_freq", d->kind[1].rope.theta);
        ph_export_set_int(o, "max_window_layers", 0);
    }
    for (int i = 0; i < d->n_layers; i++)
        json_array_append_new(types, json_string(d->kind[d->layer_kind[i]].window > 0 ? "sliding_attention"
                                                                                      : "full_attention"));
    json_object_set_new(o, "layer_types", types);
}

/* The family under whose name config.json says all of the decoder. */
static const ph_family *text_family(const ph_model *m) {
    const ph_decoder *d = &m->spec.text;
    const ph_family  *f = m->text_family->hf_windowed && d->kind[d->n_kinds - 1].window > 0
                              ? ph_family_find(m->text_family->hf_windowed, PH_FAMILY_TEXT)
                              : NULL;
    return f ? f : m->text_family;
}

static ph_rc text_config(json_t *o, const ph_model *m, ph_err *err) {
    const ph_decoder *d = &m->spec.text;
    ph_export_set_text(o, "model_type", text_family(m)->types[0]);
    ph_export_set_int(o, "vocab_size", d->vocab);
    ph_export_set_int(o, "hidden_size", d->d_model);
    ph_export_set_int(o, "intermediate_size", d->d_ff);
    ph_export_set_int(o, "num_hidden_layers", d->n_layers);
    ph_export_set_int(o, "num_attention_heads", d->n_heads);
    ph_export_set_int(o, "num_key_value_heads", d->n_kv_heads);
    ph_export_set_int(o, "head_dim", d->d_head);
    ph_export_set_text(o, "hidden_act", ph_export_act_name(d->act));
    ph_export_set_text(o, "hidden_activation", ph_export_act_name(d->act));
    ph_export_set_int(o, "max_position_embeddings", d->context_whole ? d->context_whole : d->context);
    ph_export_set_real(o, "rms_norm_eps", (double)d->norm_eps);
    set_bool(o, "tie_word_embeddings", d->is_tied);
    set_bool(o, "attention_bias", d->has_qkv_bias);
    set_bool(o, "mlp_bias", d->has_mlp_bias);
    if (d->kind[0].rope.dim != d->d_head)
        ph_export_set_real(o, "partial_rotary_factor", (double)d->kind[0].rope.dim / d->d_head);
    if (d->attn_scale > 0) {
        double scalar = 1 / ((double)d->attn_scale * (double)d->attn_scale);
        if (fabs(scalar - round(scalar)) < 1e-4 * scalar)
            ph_export_set_int(o, "query_pre_attn_scalar", (int64_t)round(scalar));
        else
            ph_export_set_real(o, "query_pre_attn_scalar", scalar);
    }
    json_object_set_new(o, "attn_logit_softcapping",
                        d->attn_softcap > 0 ? real((double)d->attn_softcap) : json_null());
    json_object_set_new(o, "final_logit_softcapping",
                        d->logit_softcap > 0 ? real((double)d->logit_softcap) : json_null());
    windows(o, d);
    return rope(o, m, err);
}

/* Ids of the tokenizer's marks, as configs have them; none: null. */
static void ids(json_t *o, const ph_model *m) {
    int32_t bos = ph_tokenizer_bos(m->tokenizer), eos = ph_tokenizer_eos(m->tokenizer),
            pad = ph_tokenizer_pad(m->tokenizer);
    json_object_set_new(o, "bos_token_id", bos >= 0 ? json_integer(bos) : json_null());
    json_object_set_new(o, "eos_token_id", eos >= 0 ? json_integer(eos) : json_null());
    json_object_set_new(o, "pad_token_id", pad >= 0 ? json_integer(pad) : json_null());
}

/* ---- vision ---- */

static json_t *vision_config(const ph_model *m) {
    const ph_tower *t = &m->spec.tower;
    json_t         *o = json_object();
    int             is_plain = m->family->hf_vision_plain && !t->has_class;
    ph_export_set_text(o, "model_type", is_plain ? m->family->hf_vision_plain : m->family->hf_vision);
    ph_export_set_int(o, "hidden_size", t->d);
    ph_export_set_int(o, "intermediate_size", t->d_ff);
    ph_export_set_int(o, "num_hidden_layers", t->n_layers);
    ph_export_set_int(o, "num_attention_heads", t->n_heads);
    ph_export_set_int(o, "num_channels", 3);
    ph_export_set_int(o, "image_size", t->image);
    ph_export_set_int(o, "patch_size", t->patch);
    ph_export_set_text(o, "hidden_act", ph_export_act_name(t->act));
    ph_export_set_real(o, "layer_norm_eps", (double)t->norm_eps);
    ph_export_set_text(o, "norm_type", t->is_rms ? "rms_norm" : "layer_norm");
    set_bool(o, "attention_bias", !t->has_no_qkv_bias);
    set_bool(o, "use_mean_pooling", !t->has_post_norm);
    set_bool(o, "use_absolute_position_embeddings", !t->has_no_position);
    return o;
}

static void set_feature_layers(json_t *o, const ph_tower *t) {
    json_t *list = json_array();
    for (int i = 0; i < t->n_features; i++)
        json_array_append_new(list, json_integer(t->feature[i] - t->n_layers - 1));
    if (t->n_features)
        json_object_set(o, "vision_feature_layer", list);
    else
        ph_export_set_int(o, "vision_feature_layer", t->n_used - t->n_layers - 1);
    json_decref(list);
}

static json_t *pinpoints(const ph_recipe *r) {
    json_t *a = json_array();
    for (int i = 0; i < r->n_pinpoints; i++)
        json_array_append_new(a, json_pack("[ii]", r->pinpoint[i][0], r->pinpoint[i][1]));
    return a;
}

static void picture_keys(json_t *o, const ph_model *m) {
    const ph_tower *t = &m->spec.tower;
    json_t         *vision = vision_config(m);
    if (m->spec.image_token >= 0) {
        ph_export_set_int(o, "image_token_id", m->spec.image_token);
        ph_export_set_int(o, "image_token_index", m->spec.image_token);
    }
    set_feature_layers(o, t);
    ph_export_set_text(o, "vision_feature_select_strategy", t->drop_class ? "default" : "full");
    ph_export_set_text(o, "projector_hidden_act", ph_export_act_name(m->spec.bridge.act));
    set_bool(o, "multimodal_projector_bias", m->spec.bridge.has_bias);
    ph_export_set_int(o, "scale_factor", m->spec.bridge.shuffle);
    ph_export_set_real(o, "downsample_ratio", 1.0 / m->spec.bridge.shuffle);
    ph_export_set_int(o, "mm_tokens_per_image", m->spec.bridge.tokens_per_tile);
    ph_export_set_int(o, "image_seq_length", m->spec.bridge.tokens_per_tile);
    if (m->spec.video_token >= 0) ph_export_set_int(o, "video_token_id", m->spec.video_token);
    if (m->family->export_config) m->family->export_config(o, vision, m);
    if (m->recipe.n_pinpoints) json_object_set_new(o, "image_grid_pinpoints", pinpoints(&m->recipe));
    json_object_set_new(o, "vision_config", vision);
}

ph_rc ph_export_config(json_t **out, const ph_model *m, const char *dtype, ph_err *err) {
    const char *class = m->spec.has_vision ? m->family->hf_class : text_family(m)->hf_class;
    json_t *o = json_pack("{s[s]}", "architectures", class ? class : "");
    ph_rc   rc = o ? PH_OK : PH_FAIL(err, PH_ENOMEM, "config.json");
    *out = NULL;
    if (!rc && !m->spec.has_vision) rc = text_config(o, m, err);
    if (!rc && m->spec.has_vision) {
        json_t *text = json_object();
        rc = text_config(text, m, err);
        ph_export_set_text(o, "model_type", m->family->types[0]);
        set_bool(o, "tie_word_embeddings", m->spec.text.is_tied);
        if (m->family->hf_text) ph_export_set_text(text, "model_type", m->family->hf_text);
        json_object_set_new(o, "text_config", text);
        picture_keys(o, m);
    }
    ids(o, m);
    ph_export_set_text(o, "dtype", dtype);
    ph_export_set_text(o, "torch_dtype", dtype); /* its name in configs before 2025 */
    if (rc)
        json_decref(o);
    else
        *out = o;
    return rc;
}

/* ---- pictures ---- */

static json_t *size_of(const ph_recipe_size *s) {
    json_t *o = json_object();
    if (s->shortest_edge) ph_export_set_int(o, "shortest_edge", s->shortest_edge);
    if (s->longest_edge) ph_export_set_int(o, "longest_edge", s->longest_edge);
    if (s->height) ph_export_set_int(o, "height", s->height);
    if (s->width) ph_export_set_int(o, "width", s->width);
    return o;
}

static json_t *three(const double v[3]) {
    json_t *a = json_array();
    for (int i = 0; i < 3; i++) json_array_append_new(a, real(v[i]));
    return a;
}

static void packed_recipe(json_t *o, const ph_recipe *r) {
    ph_export_set_int(o, "min_pixels", r->size.shortest_edge);
    ph_export_set_int(o, "max_pixels", r->size.longest_edge);
    ph_export_set_int(o, "patch_size", r->pack_patch);
    ph_export_set_int(o, "merge_size", r->pack_merge);
    ph_export_set_int(o, "temporal_patch_size", r->pack_temporal);
}

static json_t *preprocessor(const ph_recipe *r, const char *kind) {
    json_t *o = json_pack("{ss}", kind, r->processor);
    set_bool(o, "do_convert_rgb", 1);
    set_bool(o, "do_resize", r->do_resize);
    json_object_set_new(o, "size", size_of(&r->size));
    ph_export_set_int(o, "resample", r->filter);
    set_bool(o, "do_center_crop", r->do_center_crop);
    if (r->do_center_crop)
        json_object_set_new(o, "crop_size",
                            json_pack("{sisi}", "height", r->crop_height, "width", r->crop_width));
    set_bool(o, "do_pad", r->do_pad);
    if (r->tile) {
        set_bool(o, "do_image_splitting", r->do_split);
        json_object_set_new(o, "max_image_size", json_pack("{si}", "longest_edge", r->tile));
    }
    if (r->tiles_max) {
        set_bool(o, "crop_to_patches", r->do_split);
        ph_export_set_int(o, "min_patches", r->tiles_min);
        ph_export_set_int(o, "max_patches", r->tiles_max);
    }
    if (r->n_pinpoints) json_object_set_new(o, "image_grid_pinpoints", pinpoints(r));
    if (r->pack_merge) packed_recipe(o, r);
    set_bool(o, "do_rescale", r->do_rescale);
    json_object_set_new(o, "rescale_factor", json_real(r->rescale_factor)); /* a double: 1 / 255 is its own */
    set_bool(o, "do_normalize", r->do_normalize);
    json_object_set_new(o, "image_mean", three(r->mean));
    json_object_set_new(o, "image_std", three(r->std));
    return o;
}

json_t *ph_export_preprocessor(const ph_model *m) {
    return m->spec.has_vision ? preprocessor(&m->recipe, "image_processor_type") : NULL;
}

json_t *ph_export_video_preprocessor(const ph_model *m) {
    const ph_recipe *v = &m->video_recipe;
    if (!v->kind || !strcmp(v->processor, m->recipe.processor)) return NULL;
    json_t *o = preprocessor(v, "video_processor_type");
    ph_export_set_int(o, "min_frames", v->frames_min);
    ph_export_set_int(o, "max_frames", v->frames_max);
    ph_export_set_real(o, "fps", v->video_fps);
    return o;
}
