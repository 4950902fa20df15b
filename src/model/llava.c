/* llava.c - LLaVA-1.5: a tower of CLIP or SigLIP, a two-layer MLP, any text family of ours.
 *
 * Features are the hidden states of the layer that the config chooses (-2 by
 * default), or of several side by side, the CLS token left out; each becomes one visual token.  A picture
 * stands in the prompt as one run of them, with no marks around.
 * Source: arXiv:2310.03744; reference: transformers modeling_llava.py.
 */
#include "model/export.h"

#include <string.h>

/* Hidden state `layer` counts from the embeddings (0) to the last layer (n_layers); negative from the end. */
static ph_rc resolve(const ph_keys *top, const ph_tower *t, int64_t layer, int *out, ph_err *err) {
    int64_t used = layer < 0 ? t->n_layers + 1 + layer : layer; /* no overflow: of the two, one is small */
    if (used < 0 || used > t->n_layers)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s %lld, but the tower has %d layers", top->where,
                       top->gguf ? "clip.vision.feature_layer" : "vision_feature_layer", (long long)layer,
                       t->n_layers);
    *out = (int)used;
    return PH_OK;
}

static int is_list(const ph_keys *k, const char *name) {
    if (k->gguf) return 0;
    ph_json v = ph_json_get(&k->object, name);
    return ph_json_kind_of(&v) == PH_JSON_ARRAY;
}

/* One number, or several whose features stand side by side.  GGUF towers were cut after the last of them. */
static ph_rc choose_layers(const ph_keys *top, ph_tower *t, ph_err *err) {
    int64_t layer[PH_FEATURES_MAX] = {-2};
    size_t  n = 1;
    if (top->gguf && !ph_keys_has(top, "vision_feature_layer")) return PH_OK;
    if (top->gguf || is_list(top, "vision_feature_layer")) {
        PH_TRY(ph_keys_ints_or(top, "vision_feature_layer", layer, PH_FEATURES_MAX, &n, err));
        if (!n) return PH_FAIL(err, PH_EFORMAT, "%s: vision_feature_layer lists no layer", top->where);
    } else {
        int one;
        PH_TRY(ph_keys_int_or(top, "vision_feature_layer", -PH_LAYERS_MAX, PH_LAYERS_MAX, -2, &one, err));
        layer[0] = one;
    }
    t->n_used = 0;
    for (size_t i = 0; i < n; i++) {
        PH_TRY(resolve(top, t, layer[i], &t->feature[i], err));
        if (t->feature[i] > t->n_used) t->n_used = t->feature[i];
    }
    t->n_features = n > 1 ? (int)n : 0;
    return PH_OK;
}

/* Which rows: with the class token, or without; a tower of SigLIP's line has none, and `default` would leave
 * out its first patch. */
static ph_rc choose_rows(const ph_keys *top, ph_tower *t, ph_err *err) {
    const char *strategy;
    PH_TRY(ph_keys_text_or(top, "vision_feature_select_strategy", "default", &strategy, err));
    if (strcmp(strategy, "default") && strcmp(strategy, "full"))
        return PH_FAIL(err, PH_EUNSUP, "%s: vision_feature_select_strategy '%s'; default and full are known",
                       top->where, strategy);
    t->drop_class = !strcmp(strategy, "default");
    return PH_OK;
}

/* SigLIP's tower has no class token: all rows are patches.  GGUF: the tensors say which it is. */
static ph_rc has_no_class(const ph_source *s, const ph_keys *vision, int *out, ph_err *err) {
    const char *type = vision->gguf ? NULL : ph_keys_type(vision);
    ph_names    names;
    *out = type && !strcmp(type, "siglip_vision_model");
    if (!vision->gguf) return PH_OK;
    PH_TRY(ph_names_vision(s, &names, err));
    *out = !ph_names_find(&names, "embeddings.class_embedding");
    return PH_OK;
}

static ph_rc read_tower(const ph_source *s, const ph_keys *top, ph_tower *t, ph_err *err) {
    ph_keys vision = ph_keys_vision(s);
    int     is_siglip;
    PH_TRY(ph_tower_read(&vision, t, err));
    PH_TRY(has_no_class(s, &vision, &is_siglip, err));
    t->has_class = t->has_pre_norm = !is_siglip;
    t->has_patch_bias = is_siglip;
    PH_TRY(choose_layers(top, t, err));
    PH_TRY(choose_rows(top, t, err));
    if (vision.gguf && is_siglip && !ph_keys_has(top, "vision_feature_select_strategy"))
        t->drop_class = 0; /* files that say no strategy leave out what is none */
    return PH_OK;
}

/* GGUF: the tensors say it. */
static ph_rc has_projector_bias(const ph_source *s, const ph_keys *top, int *out, ph_err *err) {
    ph_names names;
    if (!s->is_gguf) return ph_keys_bool_or(top, "multimodal_projector_bias", 1, out, err);
    PH_TRY(ph_names_bridge(s, &names, err));
    *out = ph_names_find(&names, "linear_1.bias") || ph_names_find(&names, "linear_2.bias");
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys   top = ph_keys_top(s);
    ph_tower *t = &out->tower;
    PH_TRY(read_tower(s, &top, t, err));
    PH_TRY(ph_keys_act_or(&top, "projector_hidden_act", PH_ACT_GELU, &out->bridge.act, err));
    PH_TRY(has_projector_bias(s, &top, &out->bridge.has_bias, err));
    PH_TRY(ph_keys_image_token(&top, &out->image_token, err));
    out->bridge.shuffle = 1;
    out->bridge.d_in = t->d * (t->n_features ? t->n_features : 1);
    out->bridge.d_hidden = out->text.d_model;
    out->bridge.d_out = out->text.d_model;
    out->bridge.tokens_per_tile = ph_tower_patches(t) + t->has_class - t->drop_class;
    out->image_marker = "<image>";
    out->image_after = "\n";
    return PH_OK;
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_bridge_spec *b = &spec->bridge;
    ph_names              names;
    int                   x = ph_build_bridge_input(g, s, &names, b->tokens_per_tile, b->d_in);
    if (x < 0) return;
    ph_graph_output(g, ph_build_projector(g, b, &names, x), "visual");
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    return ph_pieces_run(out, spec->bridge.tokens_per_tile * tiles->n_tiles, err);
}

/* Our own: the field's files leave out the class token, where there is one. */
static const ph_key_row keys[] = {
    {"", "vision_feature_select_strategy", "%.feature_select_strategy"},
};

static void export_keys(ph_gguf_meta *to, const ph_model *m) {
    const ph_tower *t = &m->spec.tower;
    if (t->drop_class != t->has_class)
        ph_export_put_word(to, "clip.vision.feature_select_strategy", t->drop_class ? "default" : "full");
}

static const char *const hf_prefix[] = {"language_model.model.", "language_model.",
                                        "vision_tower.vision_model.", "multi_modal_projector."};
static const char *const types[] = {"llava", NULL};

const ph_family ph_family_llava = {
    .name = "llava",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "mlp",
    .spec = spec,
    .vision = ph_tower_vision,
    .bridge = bridge,
    .image = image,
    .hf_class = "LlavaForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .hf_vision = "clip_vision_model",
    .hf_vision_plain = "siglip_vision_model",
    .names = ph_projector_names,
    .n_names = PH_N_PROJECTOR_NAMES,
    .is_llava_projector = 1,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .export_keys = export_keys,
    .template_ = "vicuna",
    .source = "arXiv:2310.03744; transformers modeling_llava.py",
};
