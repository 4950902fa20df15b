/* decoder.c - the language graph of the Llama line, and the config keys that shape it.
 *
 *     ids [R] ─ Gather ─ x [R, d] ─ (ScatterND visual) ─┬─ norm ─ q, k, v ─ rope ─ CachedAttention ─ o ─┐
 *                                                       └──────────────────── Add ◄──────────────────────┘
 *                                   per layer, then     ┬─ norm ─ act(gate) * up ─ down ─┐
 *                                                       └──────────── Add ◄──────────────┘
 *     x [S, d] = Gather(x, out_rows) ─ norm ─ head ─ logits [S, vocab]
 *
 * Source: arXiv:2302.13971 (Llama); GQA arXiv:2305.13245; reference: transformers modeling_llama.py.
 */
#include "graph/kv.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

static ph_rc read_rope(const ph_keys *k, const ph_source *s, ph_rope_spec *r, ph_err *err) {
    ph_keys     scaling = ph_keys_under(k, "rope_scaling");
    const char *kind = "none";
    if (ph_keys_empty(&scaling)) scaling = ph_keys_under(k, "rope_parameters"); /* transformers 5 */
    PH_TRY(ph_keys_float_or(k, "rope_theta", 10000.0, &r->theta, err));
    PH_TRY(ph_keys_float_or(&scaling, "rope_theta", r->theta, &r->theta, err));
    r->kind = "none";
    r->factor = 1;
    r->is_interleaved = s->is_gguf;
    if (r->theta < 1)
        return PH_FAIL(err, PH_EFORMAT, "%s: rope_theta is %g; it must be at least 1", k->where, r->theta);
    if (ph_keys_empty(&scaling)) return PH_OK;
    PH_TRY(ph_keys_text_or(&scaling, "type", "none", &kind, err));
    PH_TRY(ph_keys_text_or(&scaling, "rope_type", kind, &kind, err));
    if (!strcmp(kind, "default") || !strcmp(kind, "none")) return PH_OK;
    if (!strcmp(kind, "linear"))
        r->kind = "linear";
    else if (!strcmp(kind, "llama3"))
        r->kind = "llama3";
    else if (!strcmp(kind, "yarn"))
        r->kind = "yarn";
    else
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: rope scaling '%s' is not supported; none, linear, llama3 and yarn are", k->where,
                       kind);
    PH_TRY(ph_keys_float_or(&scaling, "factor", 1.0, &r->factor, err));
    PH_TRY(ph_keys_float_or(&scaling, "low_freq_factor", 1.0, &r->low_freq_factor, err));
    PH_TRY(ph_keys_float_or(&scaling, "high_freq_factor", 4.0, &r->high_freq_factor, err));
    PH_TRY(ph_keys_float_or(&scaling, "beta_fast", 32.0, &r->beta_fast, err));
    PH_TRY(ph_keys_float_or(&scaling, "beta_slow", 1.0, &r->beta_slow, err));
    PH_TRY(ph_keys_float_or(&scaling, "attention_factor", 0.0, &r->attention_factor, err));
    PH_TRY(ph_keys_float_or(&scaling, "original_max_position_embeddings", 0.0, &r->original_context, err));
    if (!(r->factor > 0))
        return PH_FAIL(err, PH_EFORMAT, "%s: rope_scaling factor is %g", k->where, r->factor);
    return PH_OK;
}

/* Biases and tying: the config says so, or (GGUF, which has no such keys) the tensors themselves do. */
static ph_rc read_extras(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    ph_names names;
    int      attention_bias;
    PH_TRY(ph_names_text(s, &names, err));
    PH_TRY(ph_keys_bool_or(k, "attention_bias",
                           ph_names_find(&names, "layers.0.self_attn.q_proj.bias") != NULL, &attention_bias,
                           err));
    d->has_qkv_bias = attention_bias;
    d->has_o_bias = attention_bias && ph_names_find(&names, "layers.0.self_attn.o_proj.bias") != NULL;
    PH_TRY(ph_keys_bool_or(k, "mlp_bias", ph_names_find(&names, "layers.0.mlp.up_proj.bias") != NULL,
                           &d->has_mlp_bias, err));
    PH_TRY(ph_keys_bool_or(k, "tie_word_embeddings", 0, &d->is_tied, err));
    if (!ph_names_find(&names, "lm_head.weight")) d->is_tied = 1;
    return PH_OK;
}

ph_rc ph_decoder_read(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    double eps;
    *d = (ph_decoder){0};
    PH_TRY(ph_keys_int(k, "num_hidden_layers", 1, 1024, &d->n_layers, err));
    PH_TRY(ph_keys_int(k, "hidden_size", 1, 1 << 17, &d->d_model, err));
    PH_TRY(ph_keys_int(k, "num_attention_heads", 1, 1 << 12, &d->n_heads, err));
    PH_TRY(ph_keys_int_or(k, "num_key_value_heads", 1, 1 << 12, d->n_heads, &d->n_kv_heads, err));
    PH_TRY(ph_keys_int(k, "intermediate_size", 1, 1 << 20, &d->d_ff, err));
    PH_TRY(ph_keys_int(k, "vocab_size", 1, 1 << 24, &d->vocab, err));
    if (!ph_keys_has(k, "head_dim") && d->d_model % d->n_heads)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: hidden_size %d is no multiple of num_attention_heads %d, and head_dim is not given",
            k->where, d->d_model, d->n_heads);
    PH_TRY(ph_keys_int_or(k, "head_dim", 2, 1 << 12, d->d_model / d->n_heads, &d->d_head, err));
    PH_TRY(ph_keys_int_or(k, "max_position_embeddings", 1, 1 << 28, 2048, &d->context, err));
    PH_TRY(ph_keys_act_or(k, "hidden_act", PH_ACT_SILU, &d->act, err));
    PH_TRY(ph_keys_float_or(k, "rms_norm_eps", 1e-6, &eps, err));
    d->norm_eps = (float)eps;
    if (d->n_heads % d->n_kv_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: num_attention_heads %d is no multiple of num_key_value_heads %d",
                       k->where, d->n_heads, d->n_kv_heads);
    PH_TRY(ph_keys_int_or(k, "rope_dim", 2, 1 << 12, d->d_head, &d->rope.dim, err));
    if (d->d_head % 2 || d->rope.dim % 2 || d->rope.dim > d->d_head)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: head_dim %d and rotary dimension %d must be even, the second no larger", k->where,
                       d->d_head, d->rope.dim);
    PH_TRY(read_rope(k, s, &d->rope, err));
    if (d->rope.original_context <= 0) d->rope.original_context = d->context;
    return read_extras(k, s, d, err);
}

/* What a layer's builder needs beside its number. */
typedef struct deck {
    ph_graph         *g;
    const ph_decoder *d;
    const ph_names   *names;
    int               rows, kv, cos, sin;
} deck;

static int norm(const deck *b, int x, const char *name, const char *as) {
    int w = ph_names_weight(b->names, b->g, ph_shape_of(1, ph_dim_of(b->d->d_model)), "%s.weight", name);
    return ph_graph_node(b->g, "RMSNormalization", PH_IN(x, w), PH_ATTRS(PH_FLOAT("epsilon", b->d->norm_eps)),
                         "%s", as);
}

static int rotate(const deck *b, int x, int heads, const char *name, int layer) {
    const ph_rope_spec *r = &b->d->rope;
    return ph_graph_node(b->g, "RotaryEmbedding", PH_IN(x, b->cos, b->sin),
                         PH_ATTRS(PH_INT("num_heads", heads), PH_INT("rotary_embedding_dim", r->dim),
                                  PH_INT("interleaved", r->is_interleaved)),
                         "layers.%d.%s.rotated", layer, name);
}

static int attention(const deck *b, int x, int i) {
    const ph_decoder *d = b->d;
    int               nq = d->n_heads * d->d_head, nkv = d->n_kv_heads * d->d_head;
    int               q =
        ph_build_linear(b->g, b->names, x, d->d_model, nq, d->has_qkv_bias, "layers.%d.self_attn.q_proj", i);
    int k =
        ph_build_linear(b->g, b->names, x, d->d_model, nkv, d->has_qkv_bias, "layers.%d.self_attn.k_proj", i);
    int v =
        ph_build_linear(b->g, b->names, x, d->d_model, nkv, d->has_qkv_bias, "layers.%d.self_attn.v_proj", i);
    q = rotate(b, q, d->n_heads, "q", i);
    k = rotate(b, k, d->n_kv_heads, "k", i);
    int a = ph_graph_node(b->g, "CachedAttention", PH_IN(q, k, v, b->rows, b->kv),
                          PH_ATTRS(PH_INT("layer", i), PH_INT("num_heads", d->n_heads),
                                   PH_INT("kv_num_heads", d->n_kv_heads), PH_INT("window", d->window)),
                          "layers.%d.attention", i);
    return ph_build_linear(b->g, b->names, a, nq, d->d_model, d->has_o_bias, "layers.%d.self_attn.o_proj", i);
}

static int feed_forward(const deck *b, int x, int i) {
    const ph_decoder *d = b->d;
    char              name[64];
    int               gate = ph_build_linear(b->g, b->names, x, d->d_model, d->d_ff, d->has_mlp_bias,
                                             "layers.%d.mlp.gate_proj", i);
    int               up =
        ph_build_linear(b->g, b->names, x, d->d_model, d->d_ff, d->has_mlp_bias, "layers.%d.mlp.up_proj", i);
    snprintf(name, sizeof name, "layers.%d.act", i);
    gate = ph_build_act(b->g, gate, d->act, name);
    int h = ph_graph_node(b->g, "Mul", PH_IN(gate, up), PH_NO_ATTRS, "layers.%d.gated", i);
    return ph_build_linear(b->g, b->names, h, d->d_ff, d->d_model, d->has_mlp_bias, "layers.%d.mlp.down_proj",
                           i);
}

static int layer(const deck *b, int x, int i) {
    char name[96], as[96];
    snprintf(name, sizeof name, "layers.%d.input_layernorm", i);
    snprintf(as, sizeof as, "layers.%d.norm1", i);
    int a = attention(b, norm(b, x, name, as), i);
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "layers.%d.mid", i);
    snprintf(name, sizeof name, "layers.%d.post_attention_layernorm", i);
    snprintf(as, sizeof as, "layers.%d.norm2", i);
    int f = feed_forward(b, norm(b, x, name, as), i);
    return ph_graph_node(b->g, "Add", PH_IN(x, f), PH_NO_ATTRS, "hidden.%d", i + 1);
}

/* llama3 scaling in GGUF is a table of divisors, one a frequency: a few hundred numbers, read now. */
static size_t rope_factors(const deck *b, double *out, size_t max) {
    const ph_weight *w = b->names->is_gguf ? ph_weights_find(b->names->weights, "rope_freqs.weight") : NULL;
    size_t           n = (size_t)b->d->rope.dim / 2;
    float            x;
    if (!w) return 0;
    if (w->dtype != PH_F32 || w->rank != 1 || w->dim[0] != b->d->rope.dim / 2 || n > max) {
        ph_graph_fail(b->g, PH_EMISMATCH, "tensor rope_freqs.weight must be [%zu] F32", n);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&x, w->bytes + i * sizeof x, sizeof x);
        out[i] = (double)x;
    }
    return n;
}

static void angles(deck *b) {
    enum { FACTORS_MAX = 2048 };
    const ph_rope_spec *r = &b->d->rope;
    double              factors[FACTORS_MAX];
    size_t              n = rope_factors(b, factors, FACTORS_MAX);
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
              {.name = "freq_factors", .type = PH_ATTR_FLOATS, .floats = factors, .n = n},
    };
    int n_attr = (int)(sizeof attr / sizeof *attr) - (n ? 0 : 1);
    b->cos = ph_graph_node(b->g, "RopeAngles", PH_IN(b->rows), attr, n_attr, "rope");
    b->sin = ph_graph_output_of(b->g, b->cos, 1);
}

static int embed(deck *b, const ph_spec *spec, int *table) {
    const ph_decoder *d = b->d;
    ph_graph         *g = b->g;
    int               ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    *table = ph_names_weight(b->names, g, ph_shape_of(2, ph_dim_of(d->vocab), ph_dim_of(d->d_model)),
                             "embed_tokens.weight");
    if (!spec->has_vision)
        return ph_graph_node(g, "Gather", PH_IN(*table, ids), PH_ATTRS(PH_INT("axis", 0)), "hidden.0");
    int at = ph_graph_input(g, "visual_rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(1)));
    int visual =
        ph_graph_input(g, "visual", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(d->d_model)));
    int x = ph_graph_node(g, "Gather", PH_IN(*table, ids), PH_ATTRS(PH_INT("axis", 0)), "embedded");
    return ph_graph_node(g, "ScatterND", PH_IN(x, at, visual), PH_NO_ATTRS, "hidden.0");
}

void ph_decoder_build(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_decoder *d = &spec->text;
    ph_names          names;
    ph_err            err = {0};
    int               table;
    if (ph_names_text(s, &names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    deck b = {.g = g, .d = d, .names = &names};
    int  x = embed(&b, spec, &table);
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    int out_rows = ph_graph_input(g, "out_rows", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_S)));
    b.kv = ph_graph_state(g, "kv");
    angles(&b);
    for (int i = 0; i < d->n_layers && !g->rc; i++) x = layer(&b, x, i);
    x = ph_graph_node(g, "Gather", PH_IN(x, out_rows), PH_ATTRS(PH_INT("axis", 0)), "last");
    x = norm(&b, x, "norm", "hidden.norm");
    int head = d->is_tied
                   ? table
                   : ph_names_weight(&names, g, ph_shape_of(2, ph_dim_of(d->vocab), ph_dim_of(d->d_model)),
                                     "lm_head.weight");
    int logits = ph_graph_node(g, "Linear", PH_IN(x, head), PH_NO_ATTRS, "head");
    ph_graph_output(g, logits, "logits");
}
