/* clip.c - CLIP: a text and a picture to vectors of one space.
 *
 *     text     ids ─ causal encoder ─ row of the end token ─ Linear ─ unit length
 *     picture  tower ─ CLS row ─ norm ─ Linear ─ unit length
 *
 * Source: arXiv:2103.00020; reference: transformers modeling_clip.py.
 */
#include "model/family.h"

#include <math.h>

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys        text = ph_keys_text(s), vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_embed_spec *e = &out->embed;
    ph_tower      *t = &out->tower;
    int            end;
    double         scale;
    PH_TRY(ph_encoder_read(&text, out, err));
    PH_TRY(ph_tower_read(&vision, t, err));
    PH_TRY(ph_keys_int_or(&top, "projection_dim", 1, 1 << 12, 512, &e->d, err));
    /* Configs that say 2 were written before the end token was read from them: it was the largest id. */
    PH_TRY(ph_keys_int_or(&text, "eos_token_id", 0, 1 << 24, 49407, &end, err));
    PH_TRY(ph_encoder_number(s, "logit_scale", &scale, err));
    e->pool = end == 2 ? PH_POOL_LARGEST : end;
    e->pad = -1;
    e->scale = exp(scale);
    t->has_class = t->has_pre_norm = 1;
    out->bridge.d_in = t->d;
    out->bridge.d_out = e->d;
    out->bridge.tokens_per_tile = 1;
    return PH_OK;
}

static ph_names names_of(const ph_source *s, const char *prefix) {
    return (ph_names){.weights = ph_source_weights(s), .prefix = prefix, .head_prefix = ""};
}

static void language(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_names text = names_of(s, "text_model."), top = names_of(s, "");
    int      x = ph_encoder_build(g, spec, &text);
    x = ph_build_linear(g, &top, x, spec->text.d_model, spec->embed.d, 0, "text_projection");
    ph_encoder_unit(g, x, spec->embed.d, "embedding");
}

static void vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_names names = names_of(s, "vision_model.");
    ph_tower_build(g, &spec->tower, &names);
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_tower *t = &spec->tower;
    ph_names        tower = names_of(s, "vision_model."), top = names_of(s, "");
    int             x = ph_graph_input(
                    g, "features", PH_F32,
                    ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(ph_tower_patches(t) + 1), ph_dim_of(t->d)));
    x = ph_build_rows(g, x, 0, 1, "class.row");
    x = ph_build_norm(g, &tower, x, t->d, (double)t->norm_eps, "post_layernorm", "pooled");
    x = ph_build_linear(g, &top, x, t->d, spec->embed.d, 0, "visual_projection");
    ph_encoder_unit(g, x, spec->embed.d, "visual");
}

static const char *const types[] = {"clip", NULL};

const ph_family ph_family_clip = {
    .name = "clip",
    .kind = PH_FAMILY_DUAL,
    .types = types,
    .spec = spec,
    .language = language,
    .vision = vision,
    .bridge = bridge,
    .source = "arXiv:2103.00020; transformers modeling_clip.py",
};
