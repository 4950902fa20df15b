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
#include "model/decoder.h"
#include "graph/kv.h"

#include <stdio.h>
#include <string.h>

int ph_deck_norm(ph_deck *b, int x, int n, const char *name, const char *as) {
    int w = b->d->norm_adds_one && !b->names.is_gguf
                ? ph_names_weight_plus(&b->names, b->g, n, 1.0F, name)
                : ph_names_weight(&b->names, b->g, ph_shape_of(1, ph_dim_of(n)), "%s.weight", name);
    return ph_graph_node(b->g, "RMSNormalization", PH_IN(x, w), PH_ATTRS(PH_FLOAT("epsilon", b->d->norm_eps)),
                         "%s", as);
}

static int norm(ph_deck *b, int x, int layer, const char *name, const char *as) {
    char full[96], named[96];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    snprintf(named, sizeof named, "layers.%d.%s", layer, as);
    return ph_deck_norm(b, x, b->d->d_model, full, named);
}

int ph_deck_head_norm(ph_deck *b, int x, int heads, const char *name, const char *as) {
    const int64_t split[3] = {0, heads, b->d->d_head}, flat[2] = {0, (int64_t)heads * b->d->d_head};
    char          normed[128];
    snprintf(normed, sizeof normed, "%s.normed", as);
    x = ph_build_reshape(b->g, x, split, 3, "%s.heads", as);
    x = ph_deck_norm(b, x, b->d->d_head, name, normed);
    return ph_build_reshape(b->g, x, flat, 2, "%s.flat", as);
}

static int head_norm(ph_deck *b, int x, int heads, int layer, const char *part) {
    char name[96], as[96];
    snprintf(name, sizeof name, "layers.%d.self_attn.%s_norm", layer, part);
    snprintf(as, sizeof as, "layers.%d.%s", layer, part);
    return ph_deck_head_norm(b, x, heads, name, as);
}

static int rotate(ph_deck *b, int x, int heads, const char *name, int layer) {
    int                 kind = b->d->layer_kind[layer];
    const ph_rope_spec *r = &b->d->kind[kind].rope;
    return ph_graph_node(b->g, "RotaryEmbedding", PH_IN(x, b->cos[kind], b->sin[kind]),
                         PH_ATTRS(PH_INT("num_heads", heads), PH_INT("rotary_embedding_dim", r->dim),
                                  PH_INT("interleaved", r->is_interleaved)),
                         "layers.%d.%s.rotated", layer, name);
}

/* q, k and v, each by its own product; of a fused weight each has its rows. */
static void products(ph_deck *b, int x, int i, int out[3]) {
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

static int attention(ph_deck *b, int x, int i) {
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
    attr[n_attr++] = PH_INT("layer", b->n_self++);
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

int ph_deck_feed_forward(ph_deck *b, int x, const char *block) {
    const ph_decoder *d = b->d;
    char              name[96];
    int               gate, up;
    if (d->is_fused) {
        gate = ph_build_linear_rows(b->g, &b->names, x, d->d_model, 2 * d->d_ff, 0, d->d_ff,
                                    "%s.mlp.gate_up_proj", block);
        up = ph_build_linear_rows(b->g, &b->names, x, d->d_model, 2 * d->d_ff, d->d_ff, d->d_ff,
                                  "%s.mlp.gate_up_proj", block);
    } else {
        gate = ph_build_linear(b->g, &b->names, x, d->d_model, d->d_ff, d->has_mlp_bias, "%s.mlp.gate_proj",
                               block);
        up = ph_build_linear(b->g, &b->names, x, d->d_model, d->d_ff, d->has_mlp_bias, "%s.mlp.up_proj",
                             block);
    }
    snprintf(name, sizeof name, "%s.act", block);
    gate = ph_build_act(b->g, gate, d->act, name);
    int h = ph_graph_node(b->g, "Mul", PH_IN(gate, up), PH_NO_ATTRS, "%s.gated", block);
    return ph_build_linear(b->g, &b->names, h, d->d_ff, d->d_model, d->has_mlp_bias, "%s.mlp.down_proj",
                           block);
}

static int layer(ph_deck *b, int x, int i) {
    int  posts = b->d->has_post_norms;
    char as[64];
    if (b->d->cross_at[i] == PH_CROSS_INSTEAD) {
        snprintf(as, sizeof as, "hidden.%d", i + 1);
        return ph_cross_layer(b, x, i, as);
    }
    snprintf(as, sizeof as, i ? "layers.%d.crossed" : "hidden.%d", i); /* what the layer itself reads */
    if (b->d->cross_at[i] == PH_CROSS_BEFORE) x = ph_cross_layer(b, x, i, as);
    snprintf(as, sizeof as, "layers.%d", i);
    int a = attention(b, norm(b, x, i, "input_layernorm", "norm1"), i);
    if (posts) a = norm(b, a, i, "post_attention_layernorm", "norm1.post");
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "layers.%d.mid", i);
    int f = norm(b, x, i, posts ? "pre_feedforward_layernorm" : "post_attention_layernorm", "norm2");
    f = ph_deck_feed_forward(b, f, as);
    if (posts) f = norm(b, f, i, "post_feedforward_layernorm", "norm2.post");
    return ph_graph_node(b->g, "Add", PH_IN(x, f), PH_NO_ATTRS, "hidden.%d", i + 1);
}

/* LongRoPE, and llama3 scaling in GGUF, is a table of divisors, one a frequency: a few hundred numbers, read
 * now. */
static size_t rope_factors(const ph_deck *b, const ph_rope_spec *r, double *out, size_t max) {
    size_t n = (size_t)r->dim / 2;
    float  x;
    if (!strcmp(r->kind, "factors")) {
        if (n > max) {
            ph_graph_fail(b->g, PH_ELIMIT, "rope_scaling gives %zu factors, the limit is %zu", n, max);
            return 0;
        }
        for (size_t i = 0; i < n; i++) out[i] = (double)b->d->rope_divisors[i];
        return n;
    }
    const ph_weight *w = b->names.is_gguf ? ph_weights_find(b->names.weights, "rope_freqs.weight") : NULL;
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

static void angles(ph_deck *b, int kind) {
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

static int gather(ph_deck *b, int table, int ids, const char *name) {
    return ph_graph_node(b->g, "Gather", PH_IN(table, ids), PH_ATTRS(PH_INT("axis", 0)), "%s", name);
}

static int whole(ph_graph *g, int x, const char *name) {
    enum { ONNX_INT32 = 6 };
    return ph_graph_node(g, "Cast", PH_IN(x), PH_ATTRS(PH_INT("to", ONNX_INT32)), "%s", name);
}

/* Ids of the added vocabulary have a small table of their own behind the large one:
 *     over = max(id - last, 0) with `last` the large table's last id: 0 for its ids, 1, 2 .. beyond
 *     x    = over ? added[over - 1] : table[id - over]
 * so that both look-ups stay in bounds, and the tables where they are.  Ids are exact as floats. */
static int embed_added(ph_deck *b, int table, int ids, int n, const char *name) {
    enum { ONNX_FLOAT = 1, ONNX_BOOL = 9 };
    ph_graph   *g = b->g;
    ph_shape    one = ph_shape_of(1, ph_dim_of(1));
    const float last[1] = {(float)(b->d->vocab - n - 1)}, unit[1] = {1};
    int         from = ph_graph_constant(g, "added.from", PH_F32, one, last);
    int         step = ph_graph_constant(g, "added.step", PH_F32, one, unit);
    b->added = ph_names_weight(&b->names, g, ph_shape_of(2, ph_dim_of(n), ph_dim_of(b->d->d_model)),
                               "embed_tokens.additional_embedding.weight");
    int id = ph_graph_node(g, "Cast", PH_IN(ids), PH_ATTRS(PH_INT("to", ONNX_FLOAT)), "added.id");
    int over = ph_graph_node(g, "Sub", PH_IN(id, from), PH_NO_ATTRS, "added.beyond");
    over = ph_graph_node(g, "Relu", PH_IN(over), PH_NO_ATTRS, "added.over");
    int index = ph_graph_node(g, "Sub", PH_IN(over, step), PH_NO_ATTRS, "added.below");
    index = ph_graph_node(g, "Relu", PH_IN(index), PH_NO_ATTRS, "added.index.real");
    int base = ph_graph_node(g, "Sub", PH_IN(id, over), PH_NO_ATTRS, "added.base.real");
    int own = gather(b, b->added, whole(g, index, "added.index"), "added.rows");
    int large = gather(b, table, whole(g, base, "added.base"), "added.large");
    over = ph_build_reshape(g, over, (const int64_t[]){-1, 1}, 2, "added.column");
    over = ph_graph_node(g, "Cast", PH_IN(over), PH_ATTRS(PH_INT("to", ONNX_BOOL)), "added.is");
    return ph_graph_node(g, "Where", PH_IN(over, own, large), PH_NO_ATTRS, "%s", name);
}

static int embed(ph_deck *b, int *table) {
    const ph_decoder *d = b->d;
    ph_graph         *g = b->g;
    int         is_mixed = b->spec->has_vision && !b->spec->cross.n_layers; /* pictures among the rows */
    int         rows = d->n_embed ? d->n_embed : d->vocab - d->n_added;
    const char *name =
        is_mixed || d->embed_scale > 0 || d->cross_at[0] == PH_CROSS_BEFORE ? "embedded" : "hidden.0";
    int ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    *table = ph_names_weight(&b->names, g, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(d->d_model)),
                             "embed_tokens.weight");
    int x = d->n_added ? embed_added(b, *table, ids, d->n_added, name) : gather(b, *table, ids, name);
    if (d->embed_scale > 0)
        x = scaled(g, x, d->embed_scale,
                   is_mixed || d->cross_at[0] == PH_CROSS_BEFORE ? "embedded.scaled" : "hidden.0");
    if (!is_mixed) return x;
    int at = ph_graph_input(g, "visual_rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(1)));
    int visual =
        ph_graph_input(g, "visual", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(d->d_model)));
    return ph_graph_node(g, "ScatterND", PH_IN(x, at, visual), PH_NO_ATTRS, "hidden.0");
}

static int head(ph_deck *b, int x, int table) {
    const ph_decoder *d = b->d;
    int               large = d->vocab - d->n_added;
    int               w = d->is_tied
                              ? table
                              : ph_names_weight(&b->names, b->g, ph_shape_of(2, ph_dim_of(large), ph_dim_of(d->d_model)),
                                                "lm_head.weight");
    int               logits = ph_graph_node(b->g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "head");
    if (d->n_added) {
        int more = d->is_tied ? ph_graph_node(b->g, "Linear", PH_IN(x, b->added), PH_NO_ATTRS, "head.added")
                              : ph_build_linear(b->g, &b->names, x, d->d_model, d->n_added, 0,
                                                "lm_head.additional_fc");
        logits = ph_graph_node(b->g, "Concat", PH_IN(logits, more), PH_ATTRS(PH_INT("axis", 1)), "head.all");
    }
    if (d->logit_softcap <= 0) return logits;
    logits = scaled(b->g, logits, 1 / d->logit_softcap, "head.scaled");
    logits = ph_graph_node(b->g, "Tanh", PH_IN(logits), PH_NO_ATTRS, "head.tanh");
    return scaled(b->g, logits, d->logit_softcap, "head.capped");
}

void ph_decoder_build(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_decoder *d = &spec->text;
    ph_deck           b = {.g = g, .spec = spec, .d = d, .cross = -1, .seen = -1};
    ph_err            err = {0};
    int               table;
    if (ph_names_text(s, &b.names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    b.names.has_post_norms = d->has_post_norms;
    int x = embed(&b, &table);
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    int out_rows = ph_graph_input(g, "out_rows", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_S)));
    b.kv = ph_graph_state(g, PH_STATE_OWN);
    if (spec->cross.n_layers) b.cross = ph_graph_state(g, PH_STATE_CROSS);
    if (spec->cross.gates_ff)
        b.seen = ph_graph_input(g, "cross_seen", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(1)));
    for (int kind = 0; kind < d->n_kinds; kind++) angles(&b, kind);
    for (int i = 0; i < d->n_layers && !g->rc; i++) x = layer(&b, x, i);
    x = ph_graph_node(g, "Gather", PH_IN(x, out_rows), PH_ATTRS(PH_INT("axis", 0)), "last");
    x = ph_deck_norm(&b, x, d->d_model, "norm", "hidden.norm");
    ph_graph_output(g, head(&b, x, table), "logits");
}
