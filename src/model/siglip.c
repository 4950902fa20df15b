/* siglip.c - SigLIP: a text and a picture to vectors of one space, scored each by itself.
 *
 *     text     ids, padded ─ encoder, both ways ─ last row ─ Linear ─ unit length
 *     picture  tower ─ norm ─ one learned query attends to all rows ─ Add(norm ─ fc1 act fc2) ─ unit length
 *
 * Texts are lower-cased, lose their punctuation and are padded to the full length, as in training: the last
 * row is a pad that has seen everything.
 *
 * Source: arXiv:2303.15343; reference: transformers modeling_siglip.py, tokenization_siglip.py.
 */
#include "model/family.h"

#include <math.h>
#include <string.h>

/* SigLIP 2 brings Gemma's tokenizer, which cleans texts itself and has a pad of its own. */
static ph_rc read_text(const ph_source *s, const ph_keys *text, ph_embed_spec *e, ph_err *err) {
    ph_json     config = ph_json_root(&s->hf.tokenizer_config);
    const char *class_ = "";
    int         pad;
    PH_TRY(ph_json_text_or(&config, "tokenizer_class", "", &class_, err));
    int is_gemma = !strncmp(class_, "Gemma", 5);
    PH_TRY(ph_keys_int_or(text, "pad_token_id", 0, 1 << 24, is_gemma ? 0 : 1, &pad, err));
    e->pad = pad;
    e->is_canonical = !is_gemma;
    e->is_both_ways = 1;
    e->pool = PH_POOL_LAST;
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys        text = ph_keys_text(s), vision = ph_keys_vision(s);
    ph_embed_spec *e = &out->embed;
    ph_tower      *t = &out->tower;
    double         scale;
    PH_TRY(ph_encoder_read(&text, out, err));
    PH_TRY(ph_tower_read(&vision, t, err));
    PH_TRY(ph_keys_int_or(&text, "projection_size", 1, 1 << 12, out->text.d_model, &e->d, err));
    if (e->d != t->d)
        return PH_FAIL(err, PH_EMISMATCH, "%s: texts give %d numbers, pictures %d", text.where, e->d, t->d);
    PH_TRY(read_text(s, &text, e, err));
    PH_TRY(ph_encoder_number(s, "logit_scale", &scale, err));
    PH_TRY(ph_encoder_number(s, "logit_bias", &e->bias, err));
    e->scale = exp(scale);
    e->is_sigmoid = 1;
    t->has_patch_bias = t->has_post_norm = 1;
    out->bridge.d_in = out->bridge.d_out = t->d;
    out->bridge.tokens_per_tile = 1;
    return PH_OK;
}

static ph_names names_of(const ph_source *s, const char *prefix) {
    return (ph_names){.weights = ph_source_weights(s), .prefix = prefix, .head_prefix = ""};
}

static void language(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_names names = names_of(s, "text_model.");
    int      x = ph_encoder_build(g, spec, &names);
    x = ph_build_linear(g, &names, x, spec->text.d_model, spec->embed.d, 1, "head");
    x = ph_graph_node(g, "Identity", PH_IN(x), PH_NO_ATTRS, "pooled");
    ph_encoder_unit(g, x, spec->embed.d, "embedding");
}

static void vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_names names = names_of(s, "vision_model.");
    ph_tower_build(g, &spec->tower, &names);
}

/* Part j of q, k, v of PyTorch's fused attention. */
static int product(ph_graph *g, const ph_names *n, int x, int d, int j) {
    int w = ph_names_weight_rows(n, g, 3 * d, d, j * d, d, "head.attention.in_proj_weight");
    int b = ph_names_vector_rows(n, g, 3 * d, j * d, d, "head.attention.in_proj_bias");
    return ph_graph_node(g, "Linear", PH_IN(x, w, b), PH_NO_ATTRS, "head.%c", "qkv"[j]);
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_tower *t = &spec->tower;
    ph_names        names = names_of(s, "vision_model.");
    int             features =
        ph_graph_input(g, "features", PH_F32,
                       ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(ph_tower_patches(t)), ph_dim_of(t->d)));
    int probe =
        ph_names_weight(&names, g, ph_shape_of(3, ph_dim_of(1), ph_dim_of(1), ph_dim_of(t->d)), "head.probe");
    int q = product(g, &names, ph_build_repeat(g, features, probe, "probe"), t->d, 0);
    int k = product(g, &names, features, t->d, 1), v = product(g, &names, features, t->d, 2);
    int a = ph_graph_node(g, "Attention", PH_IN(q, k, v),
                          PH_ATTRS(PH_INT("q_num_heads", t->n_heads), PH_INT("kv_num_heads", t->n_heads)),
                          "head.attention");
    a = ph_build_linear(g, &names, a, t->d, t->d, 1, "head.attention.out_proj");
    int h = ph_build_norm(g, &names, a, t->d, (double)t->norm_eps, "head.layernorm", "head.norm");
    h = ph_build_linear(g, &names, h, t->d, t->d_ff, 1, "head.mlp.fc1");
    h = ph_build_act(g, h, t->act, "head.act");
    h = ph_build_linear(g, &names, h, t->d_ff, t->d, 1, "head.mlp.fc2");
    int x = ph_graph_node(g, "Add", PH_IN(a, h), PH_NO_ATTRS, "pooled");
    ph_encoder_unit(g, x, t->d, "visual");
}

static const char *const types[] = {"siglip", NULL};

const ph_family ph_family_siglip = {
    .name = "siglip",
    .kind = PH_FAMILY_DUAL,
    .types = types,
    .spec = spec,
    .language = language,
    .vision = vision,
    .bridge = bridge,
    .source = "arXiv:2303.15343; transformers modeling_siglip.py",
};
