/* export_keys.c - what a spec says, as GGUF keys: dictionary of keys.c in the other direction.
 *
 * Keys are written with their settled values, so a default that a config left
 * out is there in the file.  Source: ggml docs/gguf.md; llama.cpp's key names.
 */
#include "model/export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "prefix.name" */
typedef struct key {
    char text[128];
} key;

static key under(const char *prefix, const char *name) {
    key k;
    snprintf(k.text, sizeof k.text, "%s.%s", prefix, name);
    return k;
}

void ph_export_put_int(ph_gguf_meta *to, const char *name, int64_t value) {
    ph_gguf_put_int(to, name, PH_GGUF_U32, value);
}

void ph_export_put_real(ph_gguf_meta *to, const char *name, double value) {
    ph_gguf_put_real(to, name, PH_GGUF_F32, value);
}

static void put_int(ph_gguf_meta *to, const char *prefix, const char *name, int64_t value) {
    ph_export_put_int(to, under(prefix, name).text, value);
}

static void put_real(ph_gguf_meta *to, const char *prefix, const char *name, double value) {
    ph_export_put_real(to, under(prefix, name).text, value);
}

void ph_export_put_word(ph_gguf_meta *to, const char *name, const char *word) {
    ph_gguf_put_text(to, name, word, strlen(word));
}

/* ---- language ---- */

static void rope_keys(ph_gguf_meta *to, const char *arch, const ph_decoder *d) {
    const ph_rope_spec *r = &d->kind[0].rope;
    put_int(to, arch, "rope.dimension_count", r->dim);
    put_real(to, arch, "rope.freq_base", r->theta);
    if (r->mrope[0]) { /* the field's files have room for a fourth axis */
        ph_gguf_put_array(to, under(arch, "rope.dimension_sections").text, PH_GGUF_I32, 4);
        for (int i = 0; i < 4; i++) ph_gguf_add_int(to, i < 3 ? r->mrope[i] : 0);
    }
    if (d->n_kinds > 1 && fabs(d->kind[1].rope.theta - r->theta) > 0)
        put_real(to, arch, "rope.freq_base_swa", d->kind[1].rope.theta);
    int is_linear = !strcmp(r->kind, "linear"), is_yarn = !strcmp(r->kind, "yarn");
    if (ph_decoder_is_divided(d)) {
        ph_export_put_word(to, under(arch, "rope.scaling.type").text, "longrope");
        put_int(to, arch, "rope.scaling.original_context_length", (int64_t)r->original_context);
        put_real(to, arch, "rope.scaling.attn_factor", r->attention_factor);
    }
    if (!is_linear && !is_yarn) return; /* llama3 is a table: ph_export_rope_freqs */
    ph_export_put_word(to, under(arch, "rope.scaling.type").text, r->kind);
    put_real(to, arch, "rope.scaling.factor", r->factor);
    if (!is_yarn) return;
    put_int(to, arch, "rope.scaling.original_context_length", (int64_t)r->original_context);
    put_real(to, arch, "rope.scaling.yarn_beta_fast", r->beta_fast);
    put_real(to, arch, "rope.scaling.yarn_beta_slow", r->beta_slow);
    if (r->attention_factor > 0) put_real(to, arch, "rope.scaling.attn_factor", r->attention_factor);
}

static void window_keys(ph_gguf_meta *to, const char *arch, const ph_decoder *d) {
    int window = d->kind[d->n_kinds - 1].window;
    if (window > 0) put_int(to, arch, "attention.sliding_window", window);
    if (d->n_kinds < 2) return;
    ph_gguf_put_array(to, under(arch, "attention.sliding_window_pattern").text, PH_GGUF_BOOL,
                      (size_t)d->n_layers);
    for (int i = 0; i < d->n_layers; i++) ph_gguf_add_int(to, d->layer_kind[i]);
}

void ph_export_text_keys(ph_gguf_meta *to, const ph_model *m) {
    const ph_decoder *d = &m->spec.text;
    const char       *arch = ph_family_gguf(m->text_family, &m->spec);
    ph_export_put_word(to, "general.architecture", arch);
    ph_export_put_word(to, "general.type", "model");
    put_int(to, arch, "context_length", d->context_whole ? d->context_whole : d->context);
    put_int(to, arch, "embedding_length", d->d_model);
    put_int(to, arch, "block_count", d->n_layers);
    put_int(to, arch, "feed_forward_length", d->d_ff);
    put_int(to, arch, "attention.head_count", d->n_heads);
    put_int(to, arch, "attention.head_count_kv", d->n_kv_heads);
    put_int(to, arch, "attention.key_length", d->d_head);
    put_int(to, arch, "attention.value_length", d->d_head);
    put_real(to, arch, "attention.layer_norm_rms_epsilon", (double)d->norm_eps);
    put_int(to, arch, "vocab_size", d->vocab);
    rope_keys(to, arch, d);
    window_keys(to, arch, d);
    if (d->attn_softcap > 0) put_real(to, arch, "attn_logit_softcapping", (double)d->attn_softcap);
    if (d->logit_softcap > 0) put_real(to, arch, "final_logit_softcapping", (double)d->logit_softcap);
    ph_gguf_put_array(to, PH_STOP_KEY, PH_GGUF_I32, (size_t)m->spec.n_eos);
    for (int i = 0; i < m->spec.n_eos; i++) ph_gguf_add_int(to, m->spec.eos[i]);
    double scalar = d->attn_scale > 0 ? 1 / ((double)d->attn_scale * (double)d->attn_scale) : d->d_head;
    if (fabs(scalar - d->d_head) > 1e-3 * scalar) /* the field's families derive it from key_length */
        put_real(to, arch, "attention.query_pre_attn_scalar", scalar);
    if (m->text_family->export_keys) m->text_family->export_keys(to, m);
}

/* Source of the formula: transformers modeling_rope_utils.py, _compute_llama3_parameters. */
size_t ph_export_rope_freqs(const ph_model *m, float *out, size_t max) {
    const ph_rope_spec *r = &m->spec.text.kind[0].rope;
    size_t              n = (size_t)r->dim / 2;
    if (m->source.is_gguf || strcmp(r->kind, "llama3") || n > max) return 0;
    double longest = r->original_context / r->low_freq_factor,
           shortest = r->original_context / r->high_freq_factor;
    for (size_t i = 0; i < n; i++) {
        double wave = 2 * 3.14159265358979323846 * pow(r->theta, 2.0 * (double)i / r->dim), divide = 1;
        double smooth =
            (r->original_context / wave - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
        if (wave > longest)
            divide = r->factor;
        else if (wave > shortest)
            divide = 1 / ((1 - smooth) / r->factor + smooth);
        out[i] = (float)divide;
    }
    return n;
}

/* ---- vision ---- */

static void three(ph_gguf_meta *to, const char *name, const double v[3]) {
    ph_gguf_put_array(to, name, PH_GGUF_F32, 3);
    for (int i = 0; i < 3; i++) ph_gguf_add_real(to, v[i]);
}

/* Our own keys: the field's files know no videos. */
static void video_keys(ph_gguf_meta *to, const char *part, const ph_model *m) {
    const ph_recipe *v = &m->video_recipe;
    if (!v->kind) return;
    put_int(to, part, "video_token_id", m->spec.video_token);
    if (!strcmp(v->processor, m->recipe.processor)) return; /* as pictures */
    put_int(to, part, "video_min_pixels", v->size.shortest_edge);
    put_int(to, part, "video_max_pixels", v->size.longest_edge);
    put_int(to, part, "video_min_frames", v->frames_min);
    put_int(to, part, "video_max_frames", v->frames_max);
    put_real(to, part, "video_fps", v->video_fps);
}

/* Tiles of a picture: how large, how many. */
static void tile_keys(ph_gguf_meta *to, const char *part, const ph_model *m) {
    const ph_recipe *r = &m->recipe;
    if (r->do_split && r->size.longest_edge > 0)
        put_int(to, part, "preproc_image_size", r->size.longest_edge);
    if (r->tiles_max) {
        put_int(to, part, "preproc_min_tiles", r->do_split && r->tiles_min > 1 ? r->tiles_min : 1);
        put_int(to, part, "preproc_max_tiles", r->do_split ? r->tiles_max : 1);
    }
}

/* A recipe as the reader of these keys will make it. */
static int is_said(const ph_model *m, const ph_recipe *r, int is_video) {
    ph_recipe        q;
    ph_err           err;
    ph_recipe_params p = {.projector = m->family->projector,
                          .image_size = m->spec.tower.image,
                          .patch_size = m->spec.tower.patch,
                          .merge = m->spec.packed.merge,
                          .is_video = is_video,
                          .tiles_min = r->do_split && r->tiles_min > 1 ? r->tiles_min : 1,
                          .tiles_max = r->do_split ? r->tiles_max : 1,
                          .n_pinpoints = r->n_pinpoints,
                          .frames_min = r->frames_min,
                          .frames_max = r->frames_max,
                          .fps = r->video_fps};
    if (r->do_split) p.longest_edge = r->size.longest_edge;
    if (r->pack_merge) p.min_pixels = r->size.shortest_edge, p.max_pixels = r->size.longest_edge;
    for (int i = 0; i < r->n_pinpoints; i++)
        p.pinpoint[i][0] = r->pinpoint[i][1], p.pinpoint[i][1] = r->pinpoint[i][0];
    memcpy(p.mean, r->mean, sizeof p.mean);
    memcpy(p.std, r->std, sizeof p.std);
    return !ph_recipe_init_from_params(&q, &p, &err) && ph_recipe_same(&q, r);
}

int ph_export_recipe_is_said(const ph_model *m) {
    const ph_recipe *v = &m->video_recipe;
    if (!m->spec.has_vision) return 1;
    if (!is_said(m, &m->recipe, 0)) return 0;
    if (!v->kind || ph_recipe_same(v, &m->recipe)) return 1;
    return strcmp(v->processor, m->recipe.processor) && is_said(m, v, 1);
}

void ph_export_vision_keys(ph_gguf_meta *to, const ph_model *m) {
    static const char part[] = "clip.vision";
    const ph_tower   *t = &m->spec.tower;
    ph_export_put_word(to, "general.architecture", "clip");
    ph_export_put_word(to, "general.type", "mmproj");
    ph_gguf_put_int(to, "clip.has_vision_encoder", PH_GGUF_BOOL, 1);
    ph_gguf_put_int(to, "clip.has_llava_projector", PH_GGUF_BOOL, m->family->is_llava_projector);
    ph_export_put_word(to, "clip.projector_type", m->family->projector);
    put_int(to, part, "image_size", t->image);
    put_int(to, part, "patch_size", t->patch);
    put_int(to, part, "embedding_length", t->d);
    put_int(to, part, "feed_forward_length", t->d_ff);
    put_int(to, part, "projection_dim", m->spec.bridge.d_out);
    put_int(to, part, "block_count", t->n_layers);
    put_int(to, part, "attention.head_count", t->n_heads);
    put_real(to, part, "attention.layer_norm_epsilon", (double)t->norm_eps);
    three(to, "clip.vision.image_mean", m->recipe.mean);
    three(to, "clip.vision.image_std", m->recipe.std);
    ph_gguf_put_int(to, "clip.use_gelu", PH_GGUF_BOOL, t->act == PH_ACT_GELU || t->act == PH_ACT_GELU_TANH);
    if (t->act == PH_ACT_GELU || t->act == PH_ACT_RELU)
        ph_export_put_word(to, "clip.vision.hidden_act", ph_export_act_name(t->act));
    ph_gguf_put_int(to, "clip.use_silu", PH_GGUF_BOOL, t->act == PH_ACT_SILU);
    if (m->spec.bridge.shuffle > 1 && !m->spec.packed.merge)
        put_int(to, part, "projector.scale_factor", m->spec.bridge.shuffle);
    if (m->spec.image_token >= 0) put_int(to, part, "image_token_id", m->spec.image_token);
    tile_keys(to, part, m);
    if (m->family->export_keys) m->family->export_keys(to, m);
    video_keys(to, part, m);
    if (m->spec.bridge.act != PH_ACT_GELU) /* our own: see keys.c */
        ph_export_put_word(to, "clip.vision.projector_hidden_act", ph_export_act_name(m->spec.bridge.act));
    if (t->n_used == t->n_layers && !t->n_features) return;
    ph_gguf_put_array(to, "clip.vision.feature_layer", PH_GGUF_I32,
                      t->n_features ? (size_t)t->n_features : 1);
    if (!t->n_features) ph_gguf_add_int(to, t->n_used);
    for (int i = 0; i < t->n_features; i++) ph_gguf_add_int(to, t->feature[i]);
}
