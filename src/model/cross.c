/* cross.c - layers that attend to pictures: the Flamingo line's bridge between vision and language.
 *
 *     cross graph, once a picture      visual [R, d_in] ─┬─ k (norm) ─┬─ CachedAttention: append only
 *                                        per cross layer └─ v ────────┘
 *     language graph, every row        x ─ norm ─ q (norm) ─ CachedAttention: attend only ─ o
 *                                        ─ * tanh(gate) ─ Add ─ norm ─ feed-forward ─ (* cross_seen)
 *                                        ─ * tanh(gate) ─ Add
 *
 * The keys and values of pictures stand in a cache of their own (PH_STATE_CROSS), filled when a picture is
 * new to the sequence; a step reads them and adds none.  A row that sees nothing gets zero from attention,
 * exactly, so text alone runs through the same graph.
 *
 * Source: arXiv:2204.14198 (Flamingo) §3.1.2; reference: transformers modeling_idefics.py,
 * modeling_mllama.py.
 */
#include "graph/kv.h"
#include "model/decoder.h"

#include <stdio.h>

/* "layers.3" or "gated_cross_attn_layers.1" of the block at layer i, number `block` of its kind. */
static void block_name(const ph_cross_spec *c, int i, int block, char *out, size_t size) {
    snprintf(out, size, "%s.%d", c->block, c->is_block_number ? block : i);
}

static int heads(ph_deck *b, int x, int n, const char *block, const char *part, const char *norm) {
    char name[96], as[96];
    if (!norm) return x;
    snprintf(name, sizeof name, "%s.%s", block, norm);
    snprintf(as, sizeof as, "%s.%s", block, part);
    return ph_deck_head_norm(b, x, n, name, as);
}

static int gated(ph_deck *b, int x, int add, const char *block, const char *gate, const char *as) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", block, gate);
    int g = ph_names_weight_tanh(&b->names, b->g, name);
    add = ph_graph_node(b->g, "Mul", PH_IN(add, g), PH_NO_ATTRS, "%s.gated", name);
    return ph_graph_node(b->g, "Add", PH_IN(x, add), PH_NO_ATTRS, "%s", as);
}

static int norm(ph_deck *b, int x, const char *block, const char *name, const char *as) {
    char full[96], named[96];
    snprintf(full, sizeof full, "%s.%s", block, name);
    snprintf(named, sizeof named, "%s.%s", block, as);
    return ph_deck_norm(b, x, b->d->d_model, full, named);
}

static int attention(ph_deck *b, int x, const char *block) {
    const ph_decoder    *d = b->d;
    const ph_cross_spec *c = &b->spec->cross;
    int                  wide = d->n_heads * d->d_head;
    int q = ph_build_linear(b->g, &b->names, x, d->d_model, wide, 0, "%s.cross_attn.q_proj", block);
    q = heads(b, q, d->n_heads, block, "q", c->q_norm);
    int a = ph_graph_node(b->g, "CachedAttention", PH_IN(q, -1, -1, b->rows, b->cross),
                          PH_ATTRS(PH_INT("layer", b->n_cross++), PH_INT("num_heads", d->n_heads),
                                   PH_INT("kv_num_heads", c->n_kv_heads)),
                          "%s.attention", block);
    return ph_build_linear(b->g, &b->names, a, wide, d->d_model, 0, "%s.cross_attn.o_proj", block);
}

int ph_cross_layer(ph_deck *b, int x, int i, const char *as) {
    const ph_cross_spec *c = &b->spec->cross;
    char                 block[64], mid[96];
    block_name(c, i, b->n_cross, block, sizeof block);
    snprintf(mid, sizeof mid, "%s.mid", block);
    int a = attention(b, norm(b, x, block, "input_layernorm", "norm1"), block);
    x = gated(b, x, a, block, c->attn_gate, mid);
    int f = ph_deck_feed_forward(b, norm(b, x, block, "post_attention_layernorm", "norm2"), block);
    if (b->seen >= 0) f = ph_graph_node(b->g, "Mul", PH_IN(f, b->seen), PH_NO_ATTRS, "%s.seen", block);
    return gated(b, x, f, block, c->ff_gate, as);
}

static void fill(ph_deck *b, int visual, int i) {
    const ph_decoder    *d = b->d;
    const ph_cross_spec *c = &b->spec->cross;
    int                  narrow = c->n_kv_heads * d->d_head;
    char                 block[64];
    block_name(c, i, b->n_cross, block, sizeof block);
    int k = ph_build_linear(b->g, &b->names, visual, c->d_in, narrow, 0, "%s.cross_attn.k_proj", block);
    int v = ph_build_linear(b->g, &b->names, visual, c->d_in, narrow, 0, "%s.cross_attn.v_proj", block);
    k = heads(b, k, c->n_kv_heads, block, "k", c->k_norm);
    ph_graph_node(b->g, "CachedAttention", PH_IN(-1, k, v, b->rows, b->cross),
                  PH_ATTRS(PH_INT("layer", b->n_cross++), PH_INT("num_heads", d->n_heads),
                           PH_INT("kv_num_heads", c->n_kv_heads)),
                  "%s.fill", block);
}

void ph_cross_build(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_decoder *d = &spec->text;
    ph_deck           b = {.g = g, .spec = spec, .d = d, .seen = -1};
    ph_err            err = {0};
    if (ph_names_text(s, &b.names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    ph_shape wide = ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(spec->cross.d_in));
    int      visual = ph_graph_input(g, "visual", PH_F32, wide);
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    b.cross = ph_graph_state(g, PH_STATE_CROSS);
    for (int i = 0; i < d->n_layers && !g->rc; i++)
        if (d->cross_at[i]) fill(&b, visual, i);
}
