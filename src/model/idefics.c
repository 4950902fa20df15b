/* idefics.c - Idefics: a CLIP tower, a Perceiver resampler, gated cross attention before every k-th layer.
 *
 *     features [I, N, d] ─┬─ norm ─────────────┐
 *     latents  [I, n, d] ─┴─ norm ─┬─ q (norm) │
 *                                  └─ Concat ◄─┘ ─ k (norm), v ─ Attention ─ output ─ Add
 *                                                           ─ norm ─ fc, Relu, c_proj ─ Add      per block
 *     visual [I, n, d] = norm(latents)
 *
 * Each picture becomes n visual tokens beside the rows; a row sees the last picture before it (cross.c).  The
 * vocabulary that was added for pictures has tables of its own (decoder.c).
 *
 * Source: arXiv:2306.16527, arXiv:2204.14198 (Flamingo); reference: transformers modeling_idefics.py,
 * perceiver.py, processing_idefics.py.
 */
#include "model/family.h"

#include <stdio.h>

/* The resampler, as the config says. */
typedef struct resampler {
    int is_used, depth, n_heads, d_head, n_latents, has_qk_norm;
} resampler;

static ph_rc read_resampler(const ph_source *s, resampler *r, ph_err *err) {
    ph_keys top = ph_keys_top(s), k = ph_keys_under(&top, "perceiver_config");
    PH_TRY(ph_keys_bool_or(&top, "use_resampler", 0, &r->is_used, err));
    PH_TRY(ph_keys_int_or(&k, "resampler_depth", 1, 1024, 6, &r->depth, err));
    PH_TRY(ph_keys_int_or(&k, "resampler_n_heads", 1, 1 << 10, 16, &r->n_heads, err));
    PH_TRY(ph_keys_int_or(&k, "resampler_head_dim", 1, 1 << 12, 96, &r->d_head, err));
    PH_TRY(ph_keys_int_or(&k, "resampler_n_latents", 1, 1 << 12, 64, &r->n_latents, err));
    return ph_keys_bool_or(&k, "qk_layer_norms_perceiver", 0, &r->has_qk_norm, err);
}

static ph_rc read_cross(const ph_keys *k, ph_spec *out, ph_err *err) {
    ph_decoder *d = &out->text;
    int         every, has_norms;
    PH_TRY(ph_keys_int_or(k, "cross_layer_interval", 1, PH_LAYERS_MAX, 1, &every, err));
    PH_TRY(ph_keys_bool_or(k, "qk_layer_norms", 0, &has_norms, err));
    if (d->n_layers % every)
        return PH_FAIL(err, PH_EFORMAT, "%s: cross_layer_interval %d does not divide the %d layers", k->where,
                       every, d->n_layers);
    for (int i = 0; i < d->n_layers; i += every) d->cross_at[i] = PH_CROSS_BEFORE;
    out->cross = (ph_cross_spec){.n_layers = d->n_layers / every,
                                 .d_in = out->tower.d,
                                 .n_kv_heads = d->n_heads,
                                 .hides_after_eos = 1,
                                 .tokens_max = out->bridge.tokens_per_tile,
                                 .block = "gated_cross_attn_layers",
                                 .is_block_number = 1,
                                 .q_norm = has_norms ? "cross_attn.q_layer_norm" : NULL,
                                 .k_norm = has_norms ? "cross_attn.k_layer_norm" : NULL,
                                 .attn_gate = "alpha_cross_attn",
                                 .ff_gate = "alpha_dense"};
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys     vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower   *t = &out->tower;
    ph_decoder *d = &out->text;
    resampler   r;
    PH_TRY(ph_tower_read(&vision, t, err));
    t->has_class = 1;
    t->has_pre_norm = 1;
    PH_TRY(read_resampler(s, &r, err));
    PH_TRY(ph_keys_int_or(&top, "additional_vocab_size", 0, 1 << 20, 0, &d->n_added, err));
    d->vocab += d->n_added;
    out->bridge = (ph_bridge_spec){.shuffle = 1,
                                   .d_in = t->d,
                                   .d_out = t->d,
                                   .tokens_per_tile = r.is_used ? r.n_latents : ph_tower_patches(t) + 1};
    out->image_token = -1; /* the config does not say; the tokenizer knows the marker */
    out->image_marker = "<image>";
    out->bos_is_text = 1;
    return read_cross(&top, out, err);
}

/* ---- the resampler ---- */

typedef struct deck {
    ph_graph *g;
    ph_names  names;
    resampler r;
    int       d; /* of a feature, and of a latent */
} deck;

enum { FF_FACTOR = 4 };
static const double eps = 1e-5; /* PyTorch's default, which no key changes */

static int norm(deck *b, int x, int n, int block, const char *name) {
    char full[96], as[112];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    snprintf(as, sizeof as, "%s.out", full);
    return ph_build_norm(b->g, &b->names, x, n, eps, full, as);
}

static int heads(deck *b, int x, int block, const char *part) {
    const int64_t split[4] = {0, 0, b->r.n_heads, b->r.d_head};
    const int64_t flat[3] = {0, 0, (int64_t)b->r.n_heads * b->r.d_head};
    char          name[64];
    if (!b->r.has_qk_norm) return x;
    snprintf(name, sizeof name, "0.%s_layer_norm", part);
    x = ph_build_reshape(b->g, x, split, 4, "blocks.%d.%s.heads", block, part);
    x = norm(b, x, b->r.d_head, block, name);
    return ph_build_reshape(b->g, x, flat, 3, "blocks.%d.%s.flat", block, part);
}

static int attention(deck *b, int context, int latents, int i) {
    int wide = b->r.n_heads * b->r.d_head;
    int c = norm(b, context, b->d, i, "0.context_layer_norm");
    int l = norm(b, latents, b->d, i, "0.latents_layer_norm");
    int both = ph_graph_node(b->g, "Concat", PH_IN(c, l), PH_ATTRS(PH_INT("axis", 1)), "blocks.%d.both", i);
    int q = ph_build_linear(b->g, &b->names, l, b->d, wide, 0, "blocks.%d.0.q_proj", i);
    int k = ph_build_linear(b->g, &b->names, both, b->d, wide, 0, "blocks.%d.0.k_proj", i);
    int v = ph_build_linear(b->g, &b->names, both, b->d, wide, 0, "blocks.%d.0.v_proj", i);
    q = heads(b, q, i, "q");
    k = heads(b, k, i, "k");
    int a = ph_graph_node(b->g, "Attention", PH_IN(q, k, v),
                          PH_ATTRS(PH_INT("q_num_heads", b->r.n_heads), PH_INT("kv_num_heads", b->r.n_heads)),
                          "blocks.%d.attention", i);
    return ph_build_linear(b->g, &b->names, a, wide, b->d, 0, "blocks.%d.0.output_proj", i);
}

static int block(deck *b, int context, int latents, int i) {
    char name[64];
    int  a = attention(b, context, latents, i);
    int  x = ph_graph_node(b->g, "Add", PH_IN(latents, a), PH_NO_ATTRS, "blocks.%d.mid", i);
    int  f = ph_build_linear(b->g, &b->names, norm(b, x, b->d, i, "1.ln"), b->d, FF_FACTOR * b->d, 0,
                             "blocks.%d.1.fc", i);
    snprintf(name, sizeof name, "blocks.%d.act", i);
    f = ph_build_act(b->g, f, PH_ACT_RELU, name);
    f = ph_build_linear(b->g, &b->names, f, FF_FACTOR * b->d, b->d, 0, "blocks.%d.1.c_proj", i);
    return ph_graph_node(b->g, "Add", PH_IN(x, f), PH_NO_ATTRS, "bridge.hidden.%d", i + 1);
}

static int resample(deck *b, int context) {
    ph_shape shape = ph_shape_of(2, ph_dim_of(b->r.n_latents), ph_dim_of(b->d));
    int      x =
        ph_build_repeat(b->g, context, ph_names_weight(&b->names, b->g, shape, "latents"), "bridge.hidden.0");
    for (int i = 0; i < b->r.depth && !b->g->rc; i++) x = block(b, context, x, i);
    return ph_build_norm(b->g, &b->names, x, b->d, eps, "layer_norm", "bridge.normed");
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    deck   b = {.g = g, .d = spec->tower.d};
    ph_err err = {0};
    int    n = ph_tower_patches(&spec->tower) + 1;
    b.names = (ph_names){
        .weights = ph_source_weights(s), .prefix = "model.perceiver_resampler.", .head_prefix = ""};
    if (read_resampler(s, &b.r, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    int x = ph_graph_input(g, "features", PH_F32,
                           ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(n), ph_dim_of(b.d)));
    x = b.r.is_used ? resample(&b, x) : ph_graph_node(g, "Identity", PH_IN(x), PH_NO_ATTRS, "as.seen");
    ph_graph_output(g, x, "visual");
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    (void)tiles;
    return ph_pieces_text(out, err, "%s", spec->image_marker);
}

static const char *const types[] = {"idefics", NULL};

const ph_family ph_family_idefics = {
    .name = "idefics",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .spec = spec,
    .vision = ph_tower_vision,
    .bridge = bridge,
    .image = image,
    .text = "llama",
    .template_ = "idefics",
    .source = "arXiv:2306.16527; transformers modeling_idefics.py",
};
