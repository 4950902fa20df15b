/* decoder.c - the language graph of the Llama line.  decoder_read.c reads the keys that shape it.
 *
 *     ids [R] ─ Gather ─ x [R, d] ─ (ScatterND visual) ─┬─ norm ─ q, k, v ─ rope ─ CachedAttention ─ o ─┐
 *                                                       └──────────────────── Add ◄──────────────────────┘
 *                                   per layer, then     ┬─ norm ─ act(gate) * up ─ down ─┐
 *                                                       └──────────── Add ◄──────────────┘
 *     x [S, d] = Gather(x, out_rows) ─ norm ─ head ─ logits [S, vocab]
 *
 * What families of this line do otherwise (norms of q and k, norms before the sums, fused products, soft
 * caps, layers of two kinds) is data in ph_decoder.
 *
 * Source: arXiv:2302.13971 (Llama); GQA arXiv:2305.13245; reference: transformers modeling_llama.py.
 */
#include "graph/kv.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* What a layer's builder needs beside its number. */
typedef struct deck {
    ph_graph         *g;
    const ph_decoder *d;
    ph_names          names;
    int               rows, kv;
    int               cos[PH_LAYER_KINDS_MAX], sin[PH_LAYER_KINDS_MAX];
} deck;

static int norm_of(deck *b, int x, int n, const char *name, const char *as) {
    int w = b->d->norm_adds_one && !b->names.is_gguf
                ? ph_names_weight_plus(&b->names, b->g, n, 1.0F, name)
                : ph_names_weight(&b->names, b->g, ph_shape_of(1, ph_dim_of(n)), "%s.weight", name);
    return ph_graph_node(b->g, "RMSNormalization", PH_IN(x, w), PH_ATTRS(PH_FLOAT("epsilon", b->d->norm_eps)),
                         "%s", as);
}

static int norm(deck *b, int x, int layer, const char *name, const char *as) {
    char full[96], named[96];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    snprintf(named, sizeof named, "layers.%d.%s", layer, as);
    return norm_of(b, x, b->d->d_model, full, named);
}

/* Each head by itself: [R, heads * d] seen as [R, heads, d]. */
static int head_norm(deck *b, int x, int heads, int layer, const char *part) {
    char          name[96], as[96];
    const int64_t split[3] = {0, heads, b->d->d_head}, flat[2] = {0, (int64_t)heads * b->d->d_head};
    snprintf(name, sizeof name, "layers.%d.self_attn.%s_norm", layer, part);
    snprintf(as, sizeof as, "layers.%d.%s.normed", layer, part);
    x = ph_build_reshape(b->g, x, split, 3, "layers.%d.%s.heads", layer, part);
    x = norm_of(b, x, b->d->d_head, name, as);
    return ph_build_reshape(b->g, x, flat, 2, "layers.%d.%s.flat", layer, part);
}

static int rotate(deck *b, int x, int heads, const char *name, int layer) {
    int                 kind = b->d->layer_kind[layer];
    const ph_rope_spec *r = &b->d->kind[kind].rope;
    return ph_graph_node(b->g, "RotaryEmbedding", PH_IN(x, b->cos[kind], b->sin[kind]),
                         PH_ATTRS(PH_INT("num_heads", heads), PH_INT("rotary_embedding_dim", r->dim),
                                  PH_INT("interleaved", r->is_interleaved)),
                         "layers.%d.%s.rotated", layer, name);
}

/* q, k and v, each by its own product; of a fused weight each has its rows. */
static void products(deck *b, int x, int i, int out[3]) {
    static const char *const part[3] = {"q", "k", "v"};
    const ph_decoder        *d = b->d;
    int n[3] = {d->n_heads * d->d_head, d->n_kv_heads * d->d_head, d->n_kv_heads * d->d_head}, from = 0;
    for (int j = 0; j < 3; j++) {
        out[j] = d->is_fused ? ph_build_linear_rows(b->g, &b->names, x, d->d_model, n[0] + n[1] + n[2], from,
                                                    n[j], "layers.%d.self_attn.qkv_proj", i)
                             : ph_build_linear(b->g, &b->names, x, d->d_model, n[j], d->has_qkv_bias,
                                               "layers.%d.self_attn.%s_proj", i, part[j]);
        from += n[j];
    }
}

static int attention(deck *b, int x, int i) {
    const ph_decoder *d = b->d;
    int               p[3], n_attr = 0;
    ph_attr           attr[6];
    products(b, x, i, p);
    if (d->has_qk_norm) {
        p[0] = head_norm(b, p[0], d->n_heads, i, "q");
        p[1] = head_norm(b, p[1], d->n_kv_heads, i, "k");
    }
    p[0] = rotate(b, p[0], d->n_heads, "q", i);
    p[1] = rotate(b, p[1], d->n_kv_heads, "k", i);
    attr[n_attr++] = PH_INT("layer", i);
    attr[n_attr++] = PH_INT("num_heads", d->n_heads);
    attr[n_attr++] = PH_INT("kv_num_heads", d->n_kv_heads);
    attr[n_attr++] = PH_INT("window", d->kind[d->layer_kind[i]].window);
    attr[n_attr++] = PH_FLOAT("softcap", (double)d->attn_softcap);
    if (d->attn_scale > 0) attr[n_attr++] = PH_FLOAT("scale", (double)d->attn_scale);
    int a = ph_graph_node(b->g, "CachedAttention", PH_IN(p[0], p[1], p[2], b->rows, b->kv), attr, n_attr,
                          "layers.%d.attention", i);
    return ph_build_linear(b->g, &b->names, a, d->n_heads * d->d_head, d->d_model, d->has_o_bias,
                           "layers.%d.self_attn.o_proj", i);
}

static int feed_forward(deck *b, int x, int i) {
    const ph_decoder *d = b->d;
    char              name[64];
    int               gate, up;
    if (d->is_fused) {
        gate = ph_build_linear_rows(b->g, &b->names, x, d->d_model, 2 * d->d_ff, 0, d->d_ff,
                                    "layers.%d.mlp.gate_up_proj", i);
        up = ph_build_linear_rows(b->g, &b->names, x, d->d_model, 2 * d->d_ff, d->d_ff, d->d_ff,
                                  "layers.%d.mlp.gate_up_proj", i);
    } else {
        gate = ph_build_linear(b->g, &b->names, x, d->d_model, d->d_ff, d->has_mlp_bias,
                               "layers.%d.mlp.gate_proj", i);
        up = ph_build_linear(b->g, &b->names, x, d->d_model, d->d_ff, d->has_mlp_bias,
                             "layers.%d.mlp.up_proj", i);
    }
    snprintf(name, sizeof name, "layers.%d.act", i);
    gate = ph_build_act(b->g, gate, d->act, name);
    int h = ph_graph_node(b->g, "Mul", PH_IN(gate, up), PH_NO_ATTRS, "layers.%d.gated", i);
    return ph_build_linear(b->g, &b->names, h, d->d_ff, d->d_model, d->has_mlp_bias,
                           "layers.%d.mlp.down_proj", i);
}

static int layer(deck *b, int x, int i) {
    int posts = b->d->has_post_norms;
    int a = attention(b, norm(b, x, i, "input_layernorm", "norm1"), i);
    if (posts) a = norm(b, a, i, "post_attention_layernorm", "norm1.post");
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "layers.%d.mid", i);
    int f = feed_forward(
        b, norm(b, x, i, posts ? "pre_feedforward_layernorm" : "post_attention_layernorm", "norm2"), i);
    if (posts) f = norm(b, f, i, "post_feedforward_layernorm", "norm2.post");
    return ph_graph_node(b->g, "Add", PH_IN(x, f), PH_NO_ATTRS, "hidden.%d", i + 1);
}

/* llama3 and longrope scaling in GGUF is a table of divisors, one a frequency: a few hundred numbers, read
 * now. */
static size_t rope_factors(const deck *b, const ph_rope_spec *r, double *out, size_t max) {
    const ph_weight *w = b->names.is_gguf ? ph_weights_find(b->names.weights, "rope_freqs.weight") : NULL;
    size_t           n = (size_t)r->dim / 2;
    float            x;
    if (!w) return 0;
    if (w->dtype != PH_F32 || w->rank != 1 || w->dim[0] != r->dim / 2 || n > max) {
        ph_graph_fail(b->g, PH_EMISMATCH, "tensor rope_freqs.weight must be [%zu] F32", n);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&x, w->bytes + i * sizeof x, sizeof x);
        out[i] = (double)x;
    }
    return n;
}

static void angles(deck *b, int kind) {
    enum { FACTORS_MAX = 2048 };
    const ph_rope_spec *r = &b->d->kind[kind].rope;
    double              factors[FACTORS_MAX];
    size_t              n = rope_factors(b, r, factors, FACTORS_MAX);
    const ph_attr       attr[] = {
              PH_INT("dim", r->dim),
              PH_FLOAT("theta", r->theta),
              PH_TEXT("scaling", n ? "factors" : r->kind),
              PH_FLOAT("factor", r->factor),
              PH_FLOAT("low_freq_factor", r->low_freq_factor),
              PH_FLOAT("high_freq_factor", r->high_freq_factor),
              PH_INT("original_context", (int64_t)r->original_context),
              PH_FLOAT("beta_fast", r->beta_fast),
              PH_FLOAT("beta_slow", r->beta_slow),
              PH_FLOAT("attention_factor", r->attention_factor),
              {.name = "mrope", .type = PH_ATTR_INTS, .ints = r->mrope, .n = r->mrope[0] ? 3 : 0},
              {.name = "freq_factors", .type = PH_ATTR_FLOATS, .floats = factors, .n = n},
    };
    int n_attr = (int)(sizeof attr / sizeof *attr) - (n ? 0 : 1);
    b->cos[kind] =
        ph_graph_node(b->g, "RopeAngles", PH_IN(b->rows), attr, n_attr, "%s", kind ? "rope.local" : "rope");
    b->sin[kind] = ph_graph_output_of(b->g, b->cos[kind], 1);
}

static int scaled(ph_graph *g, int x, float by, const char *name) {
    char as[64];
    snprintf(as, sizeof as, "%s.by", name);
    int c = ph_graph_constant(g, as, PH_F32, ph_shape_of(1, ph_dim_of(1)), &by);
    return ph_graph_node(g, "Mul", PH_IN(x, c), PH_NO_ATTRS, "%s", name);
}

static int embed(deck *b, const ph_spec *spec, int *table) {
    const ph_decoder *d = b->d;
    ph_graph         *g = b->g;
    const char       *name = spec->has_vision || d->embed_scale > 0 ? "embedded" : "hidden.0";
    int               ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    *table = ph_names_weight(&b->names, g, ph_shape_of(2, ph_dim_of(d->vocab), ph_dim_of(d->d_model)),
                             "embed_tokens.weight");
    int x = ph_graph_node(g, "Gather", PH_IN(*table, ids), PH_ATTRS(PH_INT("axis", 0)), "%s", name);
    if (d->embed_scale > 0)
        x = scaled(g, x, d->embed_scale, spec->has_vision ? "embedded.scaled" : "hidden.0");
    if (!spec->has_vision) return x;
    int at = ph_graph_input(g, "visual_rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(1)));
    int visual =
        ph_graph_input(g, "visual", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(d->d_model)));
    return ph_graph_node(g, "ScatterND", PH_IN(x, at, visual), PH_NO_ATTRS, "hidden.0");
}

static int head(deck *b, int x, int table) {
    const ph_decoder *d = b->d;
    int               w = d->is_tied
                              ? table
                              : ph_names_weight(&b->names, b->g, ph_shape_of(2, ph_dim_of(d->vocab), ph_dim_of(d->d_model)),
                                                "lm_head.weight");
    int               logits = ph_graph_node(b->g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "head");
    if (d->logit_softcap <= 0) return logits;
    logits = scaled(b->g, logits, 1 / d->logit_softcap, "head.scaled");
    logits = ph_graph_node(b->g, "Tanh", PH_IN(logits), PH_NO_ATTRS, "head.tanh");
    return scaled(b->g, logits, d->logit_softcap, "head.capped");
}

void ph_decoder_build(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_decoder *d = &spec->text;
    deck              b = {.g = g, .d = d};
    ph_err            err = {0};
    int               table;
    if (ph_names_text(s, &b.names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    b.names.has_post_norms = d->has_post_norms;
    int x = embed(&b, spec, &table);
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    int out_rows = ph_graph_input(g, "out_rows", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_S)));
    b.kv = ph_graph_state(g, "kv");
    for (int kind = 0; kind < d->n_kinds; kind++) angles(&b, kind);
    for (int i = 0; i < d->n_layers && !g->rc; i++) x = layer(&b, x, i);
    x = ph_graph_node(g, "Gather", PH_IN(x, out_rows), PH_ATTRS(PH_INT("axis", 0)), "last");
    x = norm_of(&b, x, d->d_model, "norm", "hidden.norm");
    ph_graph_output(g, head(&b, x, table), "logits");
}
