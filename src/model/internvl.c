/* internvl.c - InternVL: an InternViT tower with layer scale, a pixel shuffle, a two-layer MLP, any text
 * family.
 *
 *     features [I, s*s, d] ─ shuffle by r ─ [I, (s/r)^2, r*r*d] ─ LayerNorm ─ Linear act Linear ─ visual
 *
 * A picture stands in the prompt as one run of all its tiles, the grid first, between <img> and </img>.
 *
 * Source: arXiv:2404.16821, arXiv:2504.10479; reference: transformers modeling_internvl.py,
 * processing_internvl.py; the GGUF names are those of the field's converter.
 */
#include "model/family.h"

#include <math.h>
#include <string.h>

static const ph_tower_words words = {
    .patch = "embeddings.patch_embeddings.projection",
    .class_token = "embeddings.cls_token",
    .position = "embeddings.position_embeddings",
    .layer = "encoder.layer",
    .norm1 = "layernorm_before",
    .norm2 = "layernorm_after",
    .q = "attention.q_proj",
    .k = "attention.k_proj",
    .v = "attention.v_proj",
    .out = "attention.projection_layer",
    .scale1 = "lambda_1",
    .scale2 = "lambda_2",
    .post_norm = "layernorm",
};

static ph_rc read_norms(const ph_source *s, const ph_keys *k, ph_tower *t, ph_err *err) {
    const char *kind;
    ph_names    names;
    int         has_bias, has_position, is_mean;
    PH_TRY(ph_names_vision(s, &names, err));
    PH_TRY(ph_keys_text_or(k, "norm_type", "layer_norm", &kind, err));
    PH_TRY(ph_keys_bool_or(k, "use_qk_norm", 0, &t->has_qk_norm, err));
    PH_TRY(ph_keys_bool_or(k, "attention_bias", 1, &has_bias, err));
    PH_TRY(ph_keys_bool_or(k, "use_absolute_position_embeddings", 1, &has_position, err));
    PH_TRY(ph_keys_bool_or(k, "use_mean_pooling", 1, &is_mean, err));
    t->is_rms = !strcmp(kind, "rms_norm");
    if (!t->is_rms && strcmp(kind, "layer_norm"))
        return PH_FAIL(err, PH_EUNSUP, "%s: norm_type '%.40s' is not supported; layer_norm and rms_norm are",
                       k->where, kind);
    if (s->is_gguf) { /* no such keys there: the tensors say it */
        t->is_rms = !ph_names_find(&names, "encoder.layers.0.layer_norm1.bias");
        has_bias = ph_names_find(&names, "encoder.layers.0.self_attn.q_proj.bias") != NULL;
        if (ph_names_find(&names, "encoder.layers.0.attn_q_norm.weight"))
            return PH_FAIL(err, PH_EUNSUP, "%s: norms of q and k in a GGUF vision tower", k->where);
    }
    t->has_no_qkv_bias = !has_bias;
    t->has_no_position = !has_position;
    t->has_post_norm = s->is_gguf ? ph_names_find(&names, "post_layernorm.weight") != NULL : !is_mean;
    return PH_OK;
}

/* Hidden state `layer` counts from the embeddings (0) to the last layer; -1 is what the tower gives, behind
 * its last norm. */
static ph_rc choose_layer(const ph_keys *top, ph_tower *t, ph_err *err) {
    const char *strategy;
    int         layer;
    PH_TRY(ph_keys_int_or(top, "vision_feature_layer", -1024, 1024, -1, &layer, err));
    PH_TRY(ph_keys_text_or(top, "vision_feature_select_strategy", "default", &strategy, err));
    int used = layer < 0 ? t->n_layers + 1 + layer : layer;
    if (used < 0 || used > t->n_layers)
        return PH_FAIL(err, PH_EFORMAT, "%s: vision_feature_layer %d, but the tower has %d layers",
                       top->where, layer, t->n_layers);
    if (strcmp(strategy, "default"))
        return PH_FAIL(err, PH_EUNSUP, "%s: vision_feature_select_strategy '%s': its tokens make no square",
                       top->where, strategy);
    t->n_used = used;
    if (layer != -1) t->has_post_norm = 0;
    t->drop_class = 1;
    return PH_OK;
}

/* "downsample_ratio" is one over the side of a cell. */
static ph_rc read_cell(const ph_source *s, const ph_tower *t, int *out, ph_err *err) {
    ph_keys top = ph_keys_top(s);
    double  ratio = 0.5;
    int     side = t->image / t->patch;
    if (s->is_gguf)
        PH_TRY(ph_keys_int_or(&top, "scale_factor", 1, 64, 2, out, err));
    else
        PH_TRY(ph_keys_float_or(&top, "downsample_ratio", 0.5, &ratio, err));
    if (!(ratio > 1.0 / 64 && ratio <= 1))
        return PH_FAIL(err, PH_EFORMAT, "%s: downsample_ratio is %g", top.where, ratio);
    if (!s->is_gguf) *out = (int)lround(1 / ratio);
    if (fabs(*out * ratio - 1) > 1e-6 && !s->is_gguf)
        return PH_FAIL(err, PH_EUNSUP, "%s: downsample_ratio %g is not one over a whole number", top.where,
                       ratio);
    if (side % *out)
        return PH_FAIL(err, PH_EFORMAT, "%s: cells of %d patches do not divide the %d patches of a side",
                       top.where, *out, side);
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys         vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower       *t = &out->tower;
    ph_bridge_spec *b = &out->bridge;
    int             token;
    PH_TRY(ph_tower_read(&vision, t, err));
    t->words = &words;
    t->has_class = t->has_scale = t->has_patch_bias = 1;
    PH_TRY(read_norms(s, &vision, t, err));
    PH_TRY(choose_layer(&top, t, err));
    PH_TRY(read_cell(s, t, &b->shuffle, err));
    PH_TRY(ph_keys_act_or(&top, "projector_hidden_act", PH_ACT_GELU, &b->act, err));
    PH_TRY(ph_keys_int_or(&top, "image_token_id", -1, 1 << 24, -1, &token, err));
    int cells = t->image / t->patch / b->shuffle;
    b->d_in = t->d;
    b->d_hidden = t->d * b->shuffle * b->shuffle;
    b->d_out = out->text.d_model;
    b->has_bias = 1;
    b->tokens_per_tile = cells * cells;
    out->image_token = token;
    out->image_marker = "<IMG_CONTEXT>";
    out->image_after = "\n";
    return PH_OK;
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    static const double   eps = 1e-5; /* PyTorch's own: no key says it */
    const ph_bridge_spec *b = &spec->bridge;
    const ph_tower       *t = &spec->tower;
    ph_names              names;
    int                   x = ph_build_bridge_input(g, s, &names, ph_tower_patches(t), t->d);
    if (x < 0) return;
    x = ph_build_shuffle(g, x, t->image / t->patch, b->shuffle, t->d);
    x = ph_build_norm(g, &names, x, b->d_hidden, eps, "layer_norm", "bridge.norm");
    x = ph_build_linear(g, &names, x, b->d_hidden, b->d_out, 1, "linear_1");
    x = ph_build_act(g, x, b->act, "bridge.act");
    x = ph_build_linear(g, &names, x, b->d_out, b->d_out, 1, "linear_2");
    ph_graph_output(g, x, "visual");
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    PH_TRY(ph_pieces_text(out, err, "<img>"));
    PH_TRY(ph_pieces_run(out, spec->bridge.tokens_per_tile * tiles->n_tiles, err));
    return ph_pieces_text(out, err, "</img>");
}

static const ph_name_row tower_names[] = {
    {PH_NAMES_VISION, PH_NAME_BARE | PH_NAME_WIDE, "embeddings.cls_token", "embeddings.class_embedding"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_WIDE, "embeddings.patch_embeddings.projection",
     "embeddings.patch_embedding"},
    {PH_NAMES_VISION, PH_NAME_BARE | PH_NAME_WIDE, "embeddings.position_embeddings",
     "embeddings.position_embedding.weight"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.layernorm_before",
     "encoder.layers.#.layer_norm1"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.attention.q_proj",
     "encoder.layers.#.self_attn.q_proj"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.attention.k_proj",
     "encoder.layers.#.self_attn.k_proj"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.attention.v_proj",
     "encoder.layers.#.self_attn.v_proj"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.attention.projection_layer",
     "encoder.layers.#.self_attn.out_proj"},
    {PH_NAMES_VISION, PH_NAME_BARE, "encoder.layer.#.lambda_1", "encoder.layers.#.layer_scale1.weight"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.layernorm_after",
     "encoder.layers.#.layer_norm2"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.mlp.fc1", "encoder.layers.#.mlp.fc1"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layer.#.mlp.fc2", "encoder.layers.#.mlp.fc2"},
    {PH_NAMES_VISION, PH_NAME_BARE, "encoder.layer.#.lambda_2", "encoder.layers.#.layer_scale2.weight"},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "layernorm", "post_layernorm"},
};

static const ph_name_row names_of[] = {
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "layer_norm", "mm.model.mlp.0"},
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "linear_1", "mm.model.mlp.1"},
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "linear_2", "mm.model.mlp.3"},
};

static const char *const       hf_prefix[] = {"language_model.model.", "language_model.", "vision_tower.",
                                              "multi_modal_projector."};
static const ph_tower_defaults tower_defaults[] = {
    {"internvl_vision", PH_ACT_GELU, 1e-6, 24, 1024, 16, 4096, 448, 14},
    {.type = NULL},
};

static const char *const types[] = {"internvl", NULL};

const ph_family ph_family_internvl = {
    .name = "internvl",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "internvl",
    .spec = spec,
    .vision = ph_tower_vision,
    .bridge = bridge,
    .image = image,
    .hf_class = "InternVLForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .tower_names = tower_names,
    .n_tower_names = sizeof tower_names / sizeof *tower_names,
    .names = names_of,
    .n_names = sizeof names_of / sizeof *names_of,
    .hf_vision = "internvl_vision",
    .tower_defaults = tower_defaults,
    .template_ = "chatml",
    .source = "arXiv:2404.16821; transformers modeling_internvl.py",
};
