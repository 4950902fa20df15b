/* llava.c - LLaVA-1.5: a CLIP tower, a two-layer MLP, any text family of ours.
 *
 * Features are the hidden states of the layer that the config chooses (-2 by
 * default), the CLS token left out; each becomes one visual token.  A picture
 * stands in the prompt as one run of them, with no marks around.
 * Source: arXiv:2310.03744; reference: transformers modeling_llava.py.
 */
#include "model/family.h"

#include <string.h>

/* Hidden state `layer` counts from the embeddings (0) to the last layer (n_layers); negative from the end. */
static ph_rc choose_layer(const ph_source *s, ph_spec *spec, ph_err *err) {
    ph_keys     top = ph_keys_top(s);
    ph_tower   *t = &spec->tower;
    const char *strategy;
    int         layer;
    PH_TRY(ph_keys_int_or(&top, "vision_feature_layer", -1024, 1024, -2, &layer, err));
    PH_TRY(ph_keys_text_or(&top, "vision_feature_select_strategy", "default", &strategy, err));
    int used = layer < 0 ? t->n_layers + 1 + layer : layer;
    if (used < 0 || used > t->n_layers)
        return PH_FAIL(err, PH_EFORMAT, "%s: vision_feature_layer %d, but the tower has %d layers", top.where,
                       layer, t->n_layers);
    /* GGUF towers were cut after the chosen layer when they were written. */
    t->n_used = s->is_gguf && !ph_keys_has(&top, "vision_feature_layer") ? t->n_layers : used;
    if (strcmp(strategy, "default") && strcmp(strategy, "full"))
        return PH_FAIL(err, PH_EUNSUP, "%s: vision_feature_select_strategy '%s'; default and full are known",
                       top.where, strategy);
    t->drop_class = !strcmp(strategy, "default");
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys   vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower *t = &out->tower;
    if (s->is_gguf && ph_gguf_find(&s->mmproj, "clip.vision.image_grid_pinpoints"))
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: tiles by grid pinpoints (LLaVA-NeXT) are not read from GGUF files: give the "
                       "Hugging Face directory",
                       s->mmproj.name);
    PH_TRY(ph_tower_read(&vision, t, err));
    t->has_class = 1;
    t->has_pre_norm = 1;
    PH_TRY(choose_layer(s, out, err));
    PH_TRY(ph_keys_act_or(&top, "projector_hidden_act", PH_ACT_GELU, &out->bridge.act, err));
    PH_TRY(ph_keys_bool_or(&top, "multimodal_projector_bias", 1, &out->bridge.has_bias, err));
    PH_TRY(ph_keys_image_token(&top, &out->image_token, err));
    out->bridge.shuffle = 1;
    out->bridge.d_in = t->d;
    out->bridge.d_hidden = out->text.d_model;
    out->bridge.d_out = out->text.d_model;
    out->bridge.tokens_per_tile = ph_tower_patches(t) + (t->drop_class ? 0 : 1);
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
    .template_ = "vicuna",
    .source = "arXiv:2310.03744; transformers modeling_llava.py",
};
