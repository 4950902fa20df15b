/* whisper.c - Whisper: an encoder over log-mel frames, a decoder whose every layer attends to it.
 *
 *     mels [I, m, 2T] ─ turn ─ three frames side by side ─ Linear ─ gelu         (a convolution of width 3)
 *                            ─ the same, every other frame ─ Linear ─ gelu ─ + positions ─ [I, T, d]
 *       ─ layers ─ norm ─ features [I, T, d] = visual
 *     ids [R] ─ Gather + Gather(positions)
 *       ─ norm ─ attention ─ Add ─ norm ─ cross attention ─ Add ─ norm ─ fc ─ Add                  (a layer)
 *       ─ norm ─ head, the embedding table ─ logits
 *
 * Every row sees the whole sound.  Layer norms have PyTorch's epsilon, which no key changes.
 *
 * Source: arXiv:2212.04356; reference: transformers modeling_whisper.py.
 */
#include "graph/kv.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

static const double eps = 1e-5;

static ph_rc read_tower(const ph_keys *k, ph_tower *t, int *frames, ph_err *err) {
    *t = (ph_tower){.norm_eps = (float)eps, .has_post_norm = 1};
    PH_TRY(ph_keys_int(k, "encoder_layers", 1, 1024, &t->n_layers, err));
    PH_TRY(ph_keys_int(k, "d_model", 1, 1 << 16, &t->d, err));
    PH_TRY(ph_keys_int(k, "encoder_attention_heads", 1, 1 << 10, &t->n_heads, err));
    PH_TRY(ph_keys_int(k, "encoder_ffn_dim", 1, 1 << 18, &t->d_ff, err));
    PH_TRY(ph_keys_int_or(k, "max_source_positions", 1, 1 << 20, 1500, frames, err));
    PH_TRY(ph_keys_act_or(k, "activation_function", PH_ACT_GELU, &t->act, err));
    t->n_used = t->n_layers;
    if (!(t->d % t->n_heads)) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s: d_model %d is no multiple of encoder_attention_heads %d", k->where,
                   t->d, t->n_heads);
}

static ph_rc read_decoder(const ph_keys *k, ph_decoder *d, ph_err *err) {
    *d = (ph_decoder){.n_kinds = 1, .is_tied = 1, .norm_eps = (float)eps};
    PH_TRY(ph_keys_int(k, "decoder_layers", 1, PH_LAYERS_MAX, &d->n_layers, err));
    PH_TRY(ph_keys_int(k, "d_model", 1, 1 << 16, &d->d_model, err));
    PH_TRY(ph_keys_int(k, "decoder_attention_heads", 1, 1 << 10, &d->n_heads, err));
    PH_TRY(ph_keys_int(k, "decoder_ffn_dim", 1, 1 << 18, &d->d_ff, err));
    PH_TRY(ph_keys_int(k, "vocab_size", 1, 1 << 24, &d->vocab, err));
    PH_TRY(ph_keys_int_or(k, "max_target_positions", 1, 1 << 20, 448, &d->context, err));
    PH_TRY(ph_keys_act_or(k, "activation_function", PH_ACT_GELU, &d->act, err));
    if (d->d_model % d->n_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: d_model %d is no multiple of decoder_attention_heads %d",
                       k->where, d->d_model, d->n_heads);
    d->n_kv_heads = d->n_heads;
    d->d_head = d->d_model / d->n_heads;
    for (int i = 0; i < d->n_layers; i++) d->cross_at[i] = PH_CROSS_BEFORE;
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys top = ph_keys_top(s);
    int     frames;
    PH_TRY(read_decoder(&top, &out->text, err));
    PH_TRY(read_tower(&top, &out->tower, &frames, err));
    PH_TRY(ph_keys_int_or(&top, "num_mel_bins", 1, 1 << 10, 80, &out->n_mels, err));
    out->bridge = (ph_bridge_spec){
        .shuffle = 1, .d_in = out->tower.d, .d_out = out->tower.d, .tokens_per_tile = frames};
    out->cross = (ph_cross_spec){.n_layers = out->text.n_layers,
                                 .d_in = out->tower.d,
                                 .n_kv_heads = out->text.n_heads,
                                 .sees_always = 1,
                                 .tokens_max = frames};
    return PH_OK;
}

/* ---- what both halves are made of ---- */

typedef struct deck {
    ph_graph      *g;
    const ph_spec *spec;
    ph_names       names;
    int            d;
    int            rows, kv, cross; /* the decoder's */
} deck;

static int open_deck(deck *b, ph_graph *g, const ph_spec *spec, const ph_source *s) {
    static const char *const prefixes[] = {"model.", ""};
    *b = (deck){.g = g, .spec = spec, .d = spec->text.d_model};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        b->names = (ph_names){.weights = ph_source_weights(s), .prefix = prefixes[i], .head_prefix = ""};
        if (ph_names_find(&b->names, "decoder.embed_tokens.weight")) return 1;
    }
    ph_graph_fail(g, PH_EMISMATCH, "the weights of %s hold no model.decoder.embed_tokens.weight", s->path);
    return 0;
}

static int norm(deck *b, int x, const char *at, const char *name, const char *as) {
    char full[96], named[112];
    snprintf(full, sizeof full, "%s.%s", at, name);
    snprintf(named, sizeof named, "%s.out", full);
    return ph_build_norm(b->g, &b->names, x, b->d, eps, full, as ? as : named);
}

static int linear(deck *b, int x, int has_bias, const char *at, const char *name) {
    return ph_build_linear(b->g, &b->names, x, b->d, b->d, has_bias, "%s.%s", at, name);
}

static int add(deck *b, int x, int y, const char *at, const char *as) {
    return ph_graph_node(b->g, "Add", PH_IN(x, y), PH_NO_ATTRS, "%s.%s", at, as);
}

static int feed_forward(deck *b, int x, int d_ff, ph_act act, const char *at, const char *as) {
    char name[96];
    int  f = norm(b, x, at, "final_layer_norm", NULL);
    f = ph_build_linear(b->g, &b->names, f, b->d, d_ff, 1, "%s.fc1", at);
    snprintf(name, sizeof name, "%s.act", at);
    f = ph_build_act(b->g, f, act, name);
    f = ph_build_linear(b->g, &b->names, f, d_ff, b->d, 1, "%s.fc2", at);
    return ph_graph_node(b->g, "Add", PH_IN(x, f), PH_NO_ATTRS, "%s", as);
}

/* ---- the encoder ---- */

static int ints(deck *b, const char *name, const char *part, int64_t x) {
    char as[96];
    snprintf(as, sizeof as, "%s.%s", name, part);
    return ph_graph_constant(b->g, as, PH_I64, ph_shape_of(1, ph_dim_of(1)), &x);
}

/* Frames first, first + step, .. of x [I, F, c], n of them, as a column: [I, n, c, 1]. */
static int frames(deck *b, int x, int64_t first, int64_t step, int64_t n, int64_t c, const char *name) {
    char as[96];
    snprintf(as, sizeof as, "%s.%d", name, (int)first);
    int from = ints(b, as, "from", first), to = ints(b, as, "to", first + step * (n - 1) + 1);
    int axis = ints(b, as, "axis", 1), by = ints(b, as, "by", step);
    int f = ph_graph_node(b->g, "Slice", PH_IN(x, from, to, axis, by), PH_NO_ATTRS, "%s", as);
    return ph_build_reshape(b->g, f, (const int64_t[]){0, n, c, 1}, 4, "%s.column", as);
}

/* A convolution of width 3 over frames, zeros on both sides: x [I, F, c] to [I, F / step, d].  Three frames
 * side by side, element by element, stand in the order of the stored kernel [d, c, 3]. */
static int convolve(deck *b, int x, int64_t n_frames, int64_t c, int64_t step, const char *name) {
    const float zero[1] = {0};
    char        as[3][96], full[96];
    int64_t     n = n_frames / step;
    snprintf(full, sizeof full, "encoder.%s.weight", name);
    snprintf(as[0], sizeof as[0], "%s.first", name);
    snprintf(as[1], sizeof as[1], "%s.zero", name);
    int none = ph_graph_constant(b->g, as[1], PH_F32, ph_shape_of(1, ph_dim_of(1)), zero);
    int edge = ph_build_rows(b->g, x, 0, 1, as[0]);
    edge = ph_graph_node(b->g, "Mul", PH_IN(edge, none), PH_NO_ATTRS, "%s.edge", name);
    x = ph_graph_node(b->g, "Concat", PH_IN(edge, x, edge), PH_ATTRS(PH_INT("axis", 1)), "%s.wide", name);
    int column[3];
    for (int i = 0; i < 3; i++) column[i] = frames(b, x, i, step, n, c, name);
    x = ph_graph_node(b->g, "Concat", column, 3, PH_ATTRS(PH_INT("axis", 3)), "%s.woven", name);
    x = ph_build_reshape(b->g, x, (const int64_t[]){0, n, 3 * c}, 3, "%s.beside", name);
    int w = ph_names_weight_as(&b->names, b->g, ph_shape_of(3, ph_dim_of(b->d), ph_dim_of(c), ph_dim_of(3)),
                               ph_shape_of(2, ph_dim_of(b->d), ph_dim_of(3 * c)), full);
    int bias = ph_names_weight(&b->names, b->g, ph_shape_of(1, ph_dim_of(b->d)), "encoder.%s.bias", name);
    x = ph_graph_node(b->g, "Linear", PH_IN(x, w, bias), PH_NO_ATTRS, "%s.out", name);
    snprintf(as[2], sizeof as[2], "%s.act", name);
    return ph_build_act(b->g, x, PH_ACT_GELU, as[2]);
}

static int encoder_layer(deck *b, int x, int i) {
    const ph_tower *t = &b->spec->tower;
    char            at[64], self[96], as[64];
    snprintf(at, sizeof at, "encoder.layers.%d", i);
    snprintf(self, sizeof self, "%s.self_attn", at);
    int h = norm(b, x, at, "self_attn_layer_norm", NULL);
    int q = linear(b, h, 1, self, "q_proj"), k = linear(b, h, 0, self, "k_proj");
    int v = linear(b, h, 1, self, "v_proj");
    int a = ph_graph_node(b->g, "Attention", PH_IN(q, k, v),
                          PH_ATTRS(PH_INT("q_num_heads", t->n_heads), PH_INT("kv_num_heads", t->n_heads)),
                          "%s.attention", at);
    x = add(b, x, linear(b, a, 1, self, "out_proj"), at, "mid");
    snprintf(as, sizeof as, "vision.hidden.%d", i + 1);
    return feed_forward(b, x, t->d_ff, t->act, at, as);
}

static void vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    static const int64_t turn[3] = {0, 2, 1};
    deck                 b;
    int                  n = spec->bridge.tokens_per_tile;
    g->modality = PH_MOD_AUDIO;
    if (!open_deck(&b, g, spec, s)) return;
    int x = ph_graph_input(g, "mels", PH_F32,
                           ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(spec->n_mels), ph_dim_of(2 * n)));
    x = ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", turn, 3)), "frames");
    x = convolve(&b, x, 2 * n, spec->n_mels, 1, "conv1");
    x = convolve(&b, x, 2 * n, b.d, 2, "conv2");
    int at = ph_names_weight(&b.names, g, ph_shape_of(2, ph_dim_of(n), ph_dim_of(b.d)),
                             "encoder.embed_positions.weight");
    x = ph_graph_node(g, "Add", PH_IN(x, at), PH_NO_ATTRS, "vision.hidden.0");
    for (int i = 0; i < spec->tower.n_layers && !g->rc; i++) x = encoder_layer(&b, x, i);
    ph_graph_output(g, norm(&b, x, "encoder", "layer_norm", "encoded"), "features");
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_shape shape = ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(spec->bridge.tokens_per_tile),
                                 ph_dim_of(spec->bridge.d_in));
    (void)s;
    int x = ph_graph_input(g, "features", PH_F32, shape);
    ph_graph_output(g, ph_graph_node(g, "Identity", PH_IN(x), PH_NO_ATTRS, "as.heard"), "visual");
}

/* ---- the decoder ---- */

/* Attention of the part "self_attn" or "encoder_attn" of layer i; k, v -1: over what stands in the cache. */
static int attend(deck *b, int q, int k, int v, int state, int i, const char *at) {
    int heads = b->spec->text.n_heads;
    int a =
        ph_graph_node(b->g, "CachedAttention", PH_IN(q, k, v, b->rows, state),
                      PH_ATTRS(PH_INT("layer", i), PH_INT("num_heads", heads), PH_INT("kv_num_heads", heads)),
                      "%s.attention", at);
    return q < 0 ? a : linear(b, a, 1, at, "out_proj");
}

static int decoder_layer(deck *b, int x, int i) {
    const ph_decoder *d = &b->spec->text;
    char              at[64], self[96], cross[96], as[64];
    snprintf(at, sizeof at, "decoder.layers.%d", i);
    snprintf(self, sizeof self, "%s.self_attn", at);
    snprintf(cross, sizeof cross, "%s.encoder_attn", at);
    int h = norm(b, x, at, "self_attn_layer_norm", NULL);
    int q = linear(b, h, 1, self, "q_proj"), k = linear(b, h, 0, self, "k_proj");
    int v = linear(b, h, 1, self, "v_proj");
    x = add(b, x, attend(b, q, k, v, b->kv, i, self), at, "heard.self");
    h = norm(b, x, at, "encoder_attn_layer_norm", NULL);
    q = linear(b, h, 1, cross, "q_proj");
    x = add(b, x, attend(b, q, -1, -1, b->cross, i, cross), at, "heard");
    snprintf(as, sizeof as, "hidden.%d", i + 1);
    return feed_forward(b, x, d->d_ff, d->act, at, as);
}

static void language(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_decoder *d = &spec->text;
    ph_shape          rows = ph_shape_of(1, ph_dim_sym(PH_SYM_R));
    deck              b;
    if (!open_deck(&b, g, spec, s)) return;
    int ids = ph_graph_input(g, "ids", PH_I32, rows),
        positions = ph_graph_input(g, "positions", PH_I32, rows);
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    int out_rows = ph_graph_input(g, "out_rows", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_S)));
    b.kv = ph_graph_state(g, PH_STATE_OWN);
    b.cross = ph_graph_state(g, PH_STATE_CROSS);
    int table = ph_names_weight(&b.names, g, ph_shape_of(2, ph_dim_of(d->vocab), ph_dim_of(b.d)),
                                "decoder.embed_tokens.weight");
    int places = ph_names_weight(&b.names, g, ph_shape_of(2, ph_dim_of(d->context), ph_dim_of(b.d)),
                                 "decoder.embed_positions.weight");
    int x = ph_graph_node(g, "Gather", PH_IN(table, ids), PH_ATTRS(PH_INT("axis", 0)), "embedded");
    int p = ph_graph_node(g, "Gather", PH_IN(places, positions), PH_ATTRS(PH_INT("axis", 0)), "placed");
    x = ph_graph_node(g, "Add", PH_IN(x, p), PH_NO_ATTRS, "hidden.0");
    for (int i = 0; i < d->n_layers && !g->rc; i++) x = decoder_layer(&b, x, i);
    x = ph_graph_node(g, "Gather", PH_IN(x, out_rows), PH_ATTRS(PH_INT("axis", 0)), "last");
    x = norm(&b, x, "decoder", "layer_norm", "hidden.norm");
    ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, table), PH_NO_ATTRS, "head"), "logits");
}

static void cross(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    deck b;
    if (!open_deck(&b, g, spec, s)) return;
    int x = ph_graph_input(g, "visual", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(b.d)));
    b.rows =
        ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    b.cross = ph_graph_state(g, PH_STATE_CROSS);
    for (int i = 0; i < spec->text.n_layers && !g->rc; i++) {
        char at[96];
        snprintf(at, sizeof at, "decoder.layers.%d.encoder_attn", i);
        int k = linear(&b, x, 0, at, "k_proj"), v = linear(&b, x, 1, at, "v_proj");
        attend(&b, -1, k, v, b.cross, i, at);
    }
}

/* Sound stands nowhere in the prompt. */
static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    (void)spec, (void)tiles, (void)out, (void)err;
    return PH_OK;
}

/* What opens a transcript, where the vocabulary has it: English-only models lack the middle two. */
static const char *const start[] = {"<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>",
                                    NULL};
static const char *const types[] = {"whisper", NULL};

const ph_family ph_family_whisper = {
    .name = "whisper",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .spec = spec,
    .language = language,
    .vision = vision,
    .bridge = bridge,
    .cross = cross,
    .image = image,
    .start = start,
    .template_ = "whisper",
    .source = "arXiv:2212.04356; transformers modeling_whisper.py",
};
