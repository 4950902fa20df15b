/* blip2.c - BLIP-2: a ViT whose q, k, v are one product, a Q-Former, one projection, a decoder of ours.
 *
 *     queries [I, Q, d] ─ norm ─┬─ self attention ─ Add, norm
 *                               ├─ every n-th: attention to the features ─ Add, norm
 *                    per layer  └─ fc act fc ─ Add, norm
 *     ─ bridge.queries ─ Linear ─ visual [I, Q, d_model]
 *
 * Norms stand behind the sums, as in BERT.  A picture is one run of Q tokens before everything else, BOS
 * included.  OPT, with which the first checkpoints came, and T5 are no text families here.
 *
 * Source: arXiv:2301.12597; reference: transformers modeling_blip_2.py, processing_blip_2.py.
 */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

static const ph_tower_words words = {
    .position = "embeddings.position_embedding",
    .out = "self_attn.projection",
};

static ph_rc read_queries(const ph_keys *top, ph_query_spec *q, ph_err *err) {
    ph_keys     k = ph_keys_under(top, "qformer_config");
    const char *position;
    double      eps;
    int         has_text;
    PH_TRY(ph_keys_int_or(top, "num_query_tokens", 1, 1 << 14, 32, &q->n_queries, err));
    PH_TRY(ph_keys_int_or(&k, "num_hidden_layers", 1, 1024, 12, &q->n_layers, err));
    PH_TRY(ph_keys_int_or(&k, "hidden_size", 1, 1 << 16, 768, &q->d, err));
    PH_TRY(ph_keys_int_or(&k, "num_attention_heads", 1, 1 << 10, 12, &q->n_heads, err));
    PH_TRY(ph_keys_int_or(&k, "intermediate_size", 1, 1 << 18, 3072, &q->d_ff, err));
    PH_TRY(ph_keys_int_or(&k, "encoder_hidden_size", 1, 1 << 16, 1408, &q->d_features, err));
    PH_TRY(ph_keys_int_or(&k, "cross_attention_frequency", 1, 1024, 2, &q->every, err));
    PH_TRY(ph_keys_act_or(&k, "hidden_act", PH_ACT_GELU, &q->act, err));
    PH_TRY(ph_keys_eps_or(&k, "layer_norm_eps", 1e-12, &eps, err));
    PH_TRY(ph_keys_text_or(&k, "position_embedding_type", "absolute", &position, err));
    PH_TRY(ph_keys_bool_or(&k, "use_qformer_text_input", 0, &has_text, err));
    q->norm_eps = (float)eps;
    if (q->d % q->n_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: qformer_config: hidden_size %d is no multiple of %d heads",
                       top->where, q->d, q->n_heads);
    if (has_text || strcmp(position, "absolute"))
        return PH_FAIL(err, PH_EUNSUP, "%s: a Q-Former that reads text, or with positions of kind '%s'",
                       top->where, position);
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys   vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower *t = &out->tower;
    int       has_bias;
    PH_TRY(ph_tower_read(&vision, t, err));
    PH_TRY(ph_keys_bool_or(&vision, "qkv_bias", 1, &has_bias, err));
    t->words = &words;
    t->has_class = t->has_post_norm = t->has_patch_bias = t->is_fused = 1;
    t->has_no_qkv_bias = !has_bias;
    PH_TRY(read_queries(&top, &out->query, err));
    if (out->query.d_features != t->d)
        return PH_FAIL(err, PH_EMISMATCH,
                       "%s: the Q-Former's encoder_hidden_size is %d, the tower's width %d", top.where,
                       out->query.d_features, t->d);
    PH_TRY(ph_keys_image_token(&top, &out->image_token, err));
    out->bridge.d_in = t->d;
    out->bridge.d_hidden = out->query.d;
    out->bridge.d_out = out->text.d_model;
    out->bridge.tokens_per_tile = out->query.n_queries;
    out->image_marker = "<image>";
    out->images_lead = 1;
    return PH_OK;
}

typedef struct deck {
    ph_graph            *g;
    const ph_query_spec *q;
    ph_names             names;
    int                  features;
} deck;

/* dense, the sum, the norm: how every part of a layer ends.  `part` is its name in the files. */
static int end(const deck *b, int x, int residual, int n_in, int i, const char *part) {
    char name[96], as[96];
    x = ph_build_linear(b->g, &b->names, x, n_in, b->q->d, 1, "qformer.encoder.layer.%d.%s.dense", i, part);
    x = ph_graph_node(b->g, "Add", PH_IN(x, residual), PH_NO_ATTRS, "queries.%d.%s.sum", i, part);
    snprintf(name, sizeof name, "qformer.encoder.layer.%d.%s.LayerNorm", i, part);
    snprintf(as, sizeof as, "queries.%d.%s.norm", i, part);
    return ph_build_norm(b->g, &b->names, x, b->q->d, (double)b->q->norm_eps, name, as);
}

/* Queries attend to themselves, or to the tile's features. */
static int attend(const deck *b, int x, int to, int d_to, int i, const char *part) {
    const ph_query_spec *q = b->q;
    char                 output[64];
    int                  query = ph_build_linear(b->g, &b->names, x, q->d, q->d, 1,
                                                 "qformer.encoder.layer.%d.%s.attention.query", i, part);
    int key = ph_build_linear(b->g, &b->names, to, d_to, q->d, 1, "qformer.encoder.layer.%d.%s.attention.key",
                              i, part);
    int value = ph_build_linear(b->g, &b->names, to, d_to, q->d, 1,
                                "qformer.encoder.layer.%d.%s.attention.value", i, part);
    int a = ph_graph_node(b->g, "Attention", PH_IN(query, key, value),
                          PH_ATTRS(PH_INT("q_num_heads", q->n_heads), PH_INT("kv_num_heads", q->n_heads)),
                          "queries.%d.%s", i, part);
    snprintf(output, sizeof output, "%s.output", part);
    return end(b, a, x, q->d, i, output);
}

static int layer(const deck *b, int x, int i) {
    const ph_query_spec *q = b->q;
    char                 as[64];
    x = attend(b, x, x, q->d, i, "attention");
    if (i % q->every == 0) x = attend(b, x, b->features, q->d_features, i, "crossattention");
    int h = ph_build_linear(b->g, &b->names, x, q->d, q->d_ff, 1,
                            "qformer.encoder.layer.%d.intermediate_query.dense", i);
    snprintf(as, sizeof as, "queries.%d.act", i);
    h = ph_build_act(b->g, h, q->act, as);
    return end(b, h, x, q->d_ff, i, "output_query");
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_query_spec *q = &spec->query;
    deck                 b = {.g = g, .q = q};
    b.features = ph_build_bridge_input(g, s, &b.names, ph_tower_patches(&spec->tower) + 1, q->d_features);
    if (b.features < 0) return;
    int w = ph_names_weight(
        &b.names, g, ph_shape_of(3, ph_dim_of(1), ph_dim_of(q->n_queries), ph_dim_of(q->d)), "query_tokens");
    int x = ph_build_repeat(g, b.features, w, "queries");
    x = ph_build_norm(g, &b.names, x, q->d, (double)q->norm_eps, "qformer.layernorm", "queries.norm");
    for (int i = 0; i < q->n_layers && !g->rc; i++) x = layer(&b, x, i);
    x = ph_graph_node(g, "Identity", PH_IN(x), PH_NO_ATTRS, "bridge.queries");
    x = ph_build_linear(g, &b.names, x, q->d, spec->bridge.d_out, 1, "language_projection");
    ph_graph_output(g, x, "visual");
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    return ph_pieces_run(out, spec->bridge.tokens_per_tile * tiles->n_tiles, err);
}

static const char *const hf_prefix[] = {"language_model.model.", "language_model.", "vision_model.", ""};
static const ph_tower_defaults tower_defaults[] = {
    {"blip_2_vision_model", PH_ACT_GELU, 1e-6, 39, 1408, 16, 6144, 224, 14},
    {.type = NULL},
};

static const char *const types[] = {"blip-2", NULL};

const ph_family ph_family_blip2 = {
    .name = "blip2",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .spec = spec,
    .vision = ph_tower_vision,
    .bridge = bridge,
    .image = image,
    .hf_class = "Blip2ForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .hf_vision = "blip_2_vision_model",
    .tower_defaults = tower_defaults,
    .template_ = "blip2",
    .source = "arXiv:2301.12597; transformers modeling_blip_2.py",
};
