/* encoder.c - text encoders of the CLIP / SigLIP line, as graphs over rows.
 *
 *     ids [R] ─ Gather ─ + positions ─┬─ norm ─ q, k, v ─ CachedAttention ─ out ─ Add
 *                          per layer  └─ norm ─ fc1 act fc2 ─ Add
 *     ─ Gather(out_rows) ─ norm ─ hidden.norm [S, d]
 *
 * Rows say what they see, as in a decoder: only what came before (CLIP), or the whole text (SigLIP).  So
 * texts of any length are rows of one run, and no padding is computed that the trainer did not pad with.
 * Source: arXiv:2103.00020 (CLIP), arXiv:2303.15343 (SigLIP).
 */
#include "graph/kv.h"
#include "model/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a config leaves out is its class's default. */
static const struct {
    const char *type;
    int         layers, d, heads, d_ff, vocab, context;
    ph_act      act;
    double      eps;
} defaults[] = {
    {"clip_text_model", 12, 512, 8, 2048, 49408, 77, PH_ACT_GELU_QUICK, 1e-5},
    {"siglip_text_model", 12, 768, 12, 3072, 32000, 64, PH_ACT_GELU_TANH, 1e-6},
};

ph_rc ph_encoder_read(const ph_keys *k, ph_spec *spec, ph_err *err) {
    ph_decoder *d = &spec->text;
    const char *type = ph_keys_type(k);
    double      eps;
    size_t      i = 0;
    while (i + 1 < sizeof defaults / sizeof *defaults && (!type || strcmp(type, defaults[i].type))) i++;
    *d = (ph_decoder){.n_kinds = 1};
    PH_TRY(ph_keys_int_or(k, "num_hidden_layers", 1, PH_LAYERS_MAX, defaults[i].layers, &d->n_layers, err));
    PH_TRY(ph_keys_int_or(k, "hidden_size", 1, 1 << 16, defaults[i].d, &d->d_model, err));
    PH_TRY(ph_keys_int_or(k, "num_attention_heads", 1, 1 << 10, defaults[i].heads, &d->n_heads, err));
    PH_TRY(ph_keys_int_or(k, "intermediate_size", 1, 1 << 18, defaults[i].d_ff, &d->d_ff, err));
    PH_TRY(ph_keys_int_or(k, "vocab_size", 1, 1 << 24, defaults[i].vocab, &d->vocab, err));
    PH_TRY(ph_keys_int_or(k, "max_position_embeddings", 1, 1 << 20, defaults[i].context, &d->context, err));
    PH_TRY(ph_keys_act_or(k, "hidden_act", defaults[i].act, &d->act, err));
    PH_TRY(ph_keys_eps_or(k, "layer_norm_eps", defaults[i].eps, &eps, err));
    if (d->d_model % d->n_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: hidden_size %d is no multiple of num_attention_heads %d",
                       k->where, d->d_model, d->n_heads);
    d->norm_eps = (float)eps;
    d->n_kv_heads = d->n_heads;
    d->d_head = d->d_model / d->n_heads;
    return PH_OK;
}

typedef struct deck {
    ph_graph         *g;
    const ph_decoder *d;
    const ph_names   *names;
    int               rows, kv;
} deck;

static int embed(const deck *b) {
    ph_graph *g = b->g;
    int       d = b->d->d_model;
    int       ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    int       at = ph_graph_input(g, "positions", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    int       table = ph_names_weight(b->names, g, ph_shape_of(2, ph_dim_of(b->d->vocab), ph_dim_of(d)),
                                      "embeddings.token_embedding.weight");
    int       places = ph_names_weight(b->names, g, ph_shape_of(2, ph_dim_of(b->d->context), ph_dim_of(d)),
                                       "embeddings.position_embedding.weight");
    int       x = ph_graph_node(g, "Gather", PH_IN(table, ids), PH_ATTRS(PH_INT("axis", 0)), "embedded");
    int       p = ph_graph_node(g, "Gather", PH_IN(places, at), PH_ATTRS(PH_INT("axis", 0)), "placed");
    return ph_graph_node(g, "Add", PH_IN(x, p), PH_NO_ATTRS, "hidden.0");
}

static int norm(const deck *b, int x, int i, int which) {
    char name[96], as[64];
    snprintf(name, sizeof name, "encoder.layers.%d.layer_norm%d", i, which);
    snprintf(as, sizeof as, "layers.%d.norm%d", i, which);
    return ph_build_norm(b->g, b->names, x, b->d->d_model, (double)b->d->norm_eps, name, as);
}

static int attention(const deck *b, int x, int i) {
    static const char part[3] = {'q', 'k', 'v'};
    int               d = b->d->d_model, p[3];
    for (int j = 0; j < 3; j++)
        p[j] = ph_build_linear(b->g, b->names, x, d, d, 1, "encoder.layers.%d.self_attn.%c_proj", i, part[j]);
    int a = ph_graph_node(b->g, "CachedAttention", PH_IN(p[0], p[1], p[2], b->rows, b->kv),
                          PH_ATTRS(PH_INT("layer", i), PH_INT("num_heads", b->d->n_heads),
                                   PH_INT("kv_num_heads", b->d->n_heads)),
                          "layers.%d.attention", i);
    return ph_build_linear(b->g, b->names, a, d, d, 1, "encoder.layers.%d.self_attn.out_proj", i);
}

static int layer(const deck *b, int x, int i) {
    char as[64];
    int  a = attention(b, norm(b, x, i, 1), i);
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "layers.%d.mid", i);
    int h = ph_build_linear(b->g, b->names, norm(b, x, i, 2), b->d->d_model, b->d->d_ff, 1,
                            "encoder.layers.%d.mlp.fc1", i);
    snprintf(as, sizeof as, "layers.%d.act", i);
    h = ph_build_act(b->g, h, b->d->act, as);
    h = ph_build_linear(b->g, b->names, h, b->d->d_ff, b->d->d_model, 1, "encoder.layers.%d.mlp.fc2", i);
    return ph_graph_node(b->g, "Add", PH_IN(x, h), PH_NO_ATTRS, "hidden.%d", i + 1);
}

int ph_encoder_build(ph_graph *g, const ph_spec *spec, const ph_names *names) {
    deck b = {.g = g, .d = &spec->text, .names = names};
    int  x = embed(&b);
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    int out_rows = ph_graph_input(g, "out_rows", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_S)));
    b.kv = ph_graph_state(g, "kv");
    for (int i = 0; i < b.d->n_layers && !g->rc; i++) x = layer(&b, x, i);
    x = ph_graph_node(g, "Gather", PH_IN(x, out_rows), PH_ATTRS(PH_INT("axis", 0)), "last");
    return ph_build_norm(g, names, x, b.d->d_model, (double)b.d->norm_eps, "final_layer_norm", "hidden.norm");
}

/* x / sqrt(mean of squares) / sqrt(d) is x by its length. */
void ph_encoder_unit(ph_graph *g, int x, int d, const char *name) {
    float w[4096];
    if (d < 1 || d > (int)(sizeof w / sizeof *w)) {
        ph_graph_fail(g, PH_ELIMIT, "vectors of %d numbers; at most %zu", d, sizeof w / sizeof *w);
        return;
    }
    for (int i = 0; i < d; i++) w[i] = (float)(1 / sqrt(d));
    int c = ph_graph_constant(g, "unit", PH_F32, ph_shape_of(1, ph_dim_of(d)), w);
    x = ph_graph_node(g, "RMSNormalization", PH_IN(x, c), PH_ATTRS(PH_FLOAT("epsilon", 0)), "unit.normed");
    ph_graph_output(g, x, name);
}

ph_rc ph_encoder_number(const ph_source *s, const char *name, double *out, ph_err *err) {
    const ph_weight *w = ph_weights_find(ph_source_weights(s), name);
    float            x;
    size_t           bytes;
    if (!w) return PH_FAIL(err, PH_EMISMATCH, "tensor %s is missing from the weights", name);
    if (w->rank > 1 || (w->rank == 1 && w->dim[0] != 1))
        return PH_FAIL(err, PH_EMISMATCH, "tensor %s is no single number", name);
    if (!ph_dtype_get(w->dtype)->unpack)
        return PH_FAIL(err, PH_EUNSUP, "tensor %s is stored as %s", name, ph_dtype_name(w->dtype));
    PH_TRY(ph_dtype_row_bytes(w->dtype, 1, &bytes, err));
    ph_storage storage = ph_storage_of(w->dtype, w->bytes, w->n_bytes, bytes);
    ph_storage_row(&storage, 0, 1, &x);
    *out = (double)x;
    return PH_OK;
}
