/* tower.c - the vision graph of the CLIP / SigLIP line, and the config keys that shape it.
 *
 *     pixels [I, 3, h, w] ─ Conv patch ─ [I, N, d] ─ (CLS) ─ + position ─ (norm) ─┬─ norm ─ attention ─ Add
 *                                                                   per layer     └─ norm ─ fc1 act fc2 ─ Add
 *     ─ (norm) ─ (without CLS) ─ features [I, N, d]; of several layers, side by side: [I, N, n_features * d]
 *
 * What towers of this line do otherwise, and what they call it, is data in ph_tower.
 * Only the layers up to the chosen feature layer are built: those above it are neither read nor counted.
 * Source: arXiv:2103.00020 (CLIP), arXiv:2303.15343 (SigLIP); reference: transformers modeling_clip.py,
 * modeling_siglip.py.
 */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

int ph_tower_patches(const ph_tower *t) {
    int side = t->image / t->patch;
    return side * side;
}

/* Towers that several families have. */
static const ph_tower_defaults shared[] = {
    {"clip_vision_model", PH_ACT_GELU_QUICK, 1e-5, 12, 768, 12, 3072, 224, 32},
    {"siglip_vision_model", PH_ACT_GELU_TANH, 1e-6, 12, 768, 12, 3072, 224, 16},
    {NULL, PH_ACT_GELU, 1e-5, 0, 0, 0, 0, 0, 0},
};

/* The row of this type in the list, or its end. */
static const ph_tower_defaults *find_defaults(const ph_tower_defaults *d, const char *type) {
    while (d->type && (!type || strcmp(type, d->type))) d++;
    return d;
}

static const ph_tower_defaults *defaults_of(const ph_keys *k) {
    const char              *type = k->gguf ? NULL : ph_keys_type(k);
    const ph_tower_defaults *own = k->family ? k->family->tower_defaults : NULL;
    if (own) own = find_defaults(own, type);
    return own && own->type ? own : find_defaults(shared, type);
}

static ph_rc read_count(const ph_keys *k, const char *name, int most, int otherwise, int *out, ph_err *err) {
    if (!otherwise) return ph_keys_int(k, name, 1, most, out, err);
    return ph_keys_int_or(k, name, 1, most, otherwise, out, err);
}

/* A number of pixels, or height and width, which must be equal. */
static ph_rc read_side(const ph_keys *k, const char *name, int most, int otherwise, int *out, ph_err *err) {
    ph_json node = k->gguf ? (ph_json){0} : ph_json_get(&k->object, name);
    int64_t pair[2];
    size_t  n;
    if (ph_json_kind_of(&node) != PH_JSON_ARRAY) return read_count(k, name, most, otherwise, out, err);
    PH_TRY(ph_json_ints(&k->object, name, pair, 2, &n, err));
    if (n != 2 || pair[0] != pair[1] || pair[0] < 1 || pair[0] > most)
        return PH_FAIL(err, PH_EUNSUP, "%s: %s must be two equal numbers of 1 .. %d", k->where, name, most);
    *out = (int)pair[0];
    return PH_OK;
}

ph_rc ph_tower_read(const ph_keys *k, ph_tower *t, ph_err *err) {
    const ph_tower_defaults *c = defaults_of(k);
    double                   eps;
    int                      channels;
    *t = (ph_tower){0};
    PH_TRY(read_count(k, "num_hidden_layers", 1024, c->layers, &t->n_layers, err));
    PH_TRY(read_count(k, ph_keys_has(k, "hidden_size") ? "hidden_size" : "embed_dim", 1 << 16, c->d, &t->d,
                      err));
    PH_TRY(read_count(k, "num_attention_heads", 1 << 10, c->heads, &t->n_heads, err));
    PH_TRY(read_count(k, "intermediate_size", 1 << 18, c->d_ff, &t->d_ff, err));
    PH_TRY(read_side(k, "image_size", 1 << 14, c->image, &t->image, err));
    PH_TRY(read_side(k, "patch_size", 1 << 12, c->patch, &t->patch, err));
    PH_TRY(ph_keys_act_or(k, "hidden_act", c->act, &t->act, err));
    PH_TRY(ph_keys_eps_or(k, "layer_norm_eps", c->eps, &eps, err));
    t->norm_eps = (float)eps;
    PH_TRY(ph_keys_int_or(k, "num_channels", 1, 1 << 10, 3, &channels, err));
    if (channels != 3)
        return PH_FAIL(err, PH_EUNSUP, "%s: num_channels %d is not supported; 3 is", k->where, channels);
    t->n_used = t->n_layers;
    if (t->image < t->patch)
        return PH_FAIL(err, PH_EFORMAT, "%s: image_size %d is below patch_size %d", k->where, t->image,
                       t->patch);
    if (t->d % t->n_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: hidden_size %d is no multiple of num_attention_heads %d",
                       k->where, t->d, t->n_heads);
    return PH_OK;
}

static const ph_tower_words clip_words = {
    .patch = "embeddings.patch_embedding",
    .class_token = "embeddings.class_embedding",
    .position = "embeddings.position_embedding.weight",
    .layer = "encoder.layers",
    .norm1 = "layer_norm1",
    .norm2 = "layer_norm2",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .out = "self_attn.out_proj",
    .qkv = "self_attn.qkv",
    .scale1 = "layer_scale1.weight",
    .scale2 = "layer_scale2.weight",
    .post_norm = "post_layernorm",
};

typedef struct deck {
    ph_graph       *g;
    const ph_tower *t;
    const ph_names *names;
    ph_tower_words  w;
    int             is_swapped; /* old GGUF vision files call fc1 ffn_down and fc2 ffn_up */
} deck;

static const char *word(const char *own, const char *clip) {
    return own ? own : clip;
}

/* GGUF files call all towers' parts by the same names. */
static ph_tower_words words_of(const ph_tower *t, const ph_names *n) {
    static const ph_tower_words none = {0};
    const ph_tower_words       *own = t->words && !n->is_gguf ? t->words : &none, *c = &clip_words;
    return (ph_tower_words){.patch = word(own->patch, c->patch),
                            .class_token = word(own->class_token, c->class_token),
                            .position = word(own->position, c->position),
                            .layer = word(own->layer, c->layer),
                            .norm1 = word(own->norm1, c->norm1),
                            .norm2 = word(own->norm2, c->norm2),
                            .q = word(own->q, c->q),
                            .k = word(own->k, c->k),
                            .v = word(own->v, c->v),
                            .out = word(own->out, c->out),
                            .qkv = word(own->qkv, c->qkv),
                            .scale1 = word(own->scale1, c->scale1),
                            .scale2 = word(own->scale2, c->scale2),
                            .post_norm = word(own->post_norm, c->post_norm)};
}

static int norm(const deck *b, int x, const char *name, const char *as) {
    ph_shape d = ph_shape_of(1, ph_dim_of(b->t->d));
    int      w = ph_names_weight(b->names, b->g, d, "%s.weight", name);
    int      bias = ph_names_weight(b->names, b->g, d, "%s.bias", name);
    return ph_graph_node(b->g, "LayerNormalization", PH_IN(x, w, bias),
                         PH_ATTRS(PH_INT("axis", -1), PH_FLOAT("epsilon", b->t->norm_eps)), "%s", as);
}

static int rms_norm(const deck *b, int x, const char *name, double eps, const char *as) {
    int w = ph_names_weight(b->names, b->g, ph_shape_of(1, ph_dim_of(b->t->d)), "%s.weight", name);
    return ph_graph_node(b->g, "RMSNormalization", PH_IN(x, w), PH_ATTRS(PH_FLOAT("epsilon", eps)), "%s", as);
}

static int layer_norm(const deck *b, int x, int i, int which) {
    char name[96], as[96];
    snprintf(name, sizeof name, "%s.%d.%s", b->w.layer, i, which == 1 ? b->w.norm1 : b->w.norm2);
    snprintf(as, sizeof as, "vision.layers.%d.norm%d", i, which);
    return b->t->is_rms ? rms_norm(b, x, name, (double)b->t->norm_eps, as) : norm(b, x, name, as);
}

static int shaped(ph_graph *g, int x, const int64_t *dims, int n, const char *name) {
    char as[64];
    snprintf(as, sizeof as, "%s.shape", name);
    int shape = ph_graph_constant(g, as, PH_I64, ph_shape_of(1, ph_dim_of(n)), dims);
    return ph_graph_node(g, "Reshape", PH_IN(x, shape), PH_NO_ATTRS, "%s", name);
}

/* The CLS vector once a tile: [1, 1, d] to [I, 1, d]. A tile's worth of zeros from the patches gives it the
 * tile dimension, since Expand's target would have to be a symbol. */
static int class_rows(const deck *b, int patches) {
    const ph_tower      *t = b->t;
    static const int64_t zero[1] = {0}, one[1] = {1}, axis[1] = {1};
    static const float   none[1] = {0};
    ph_shape             v1 = ph_shape_of(1, ph_dim_of(1));
    int w = ph_names_weight(b->names, b->g, ph_shape_of(3, ph_dim_of(1), ph_dim_of(1), ph_dim_of(t->d)), "%s",
                            b->w.class_token);
    int from = ph_graph_constant(b->g, "class.from", PH_I64, v1, zero);
    int to = ph_graph_constant(b->g, "class.to", PH_I64, v1, one);
    int axes = ph_graph_constant(b->g, "class.axis", PH_I64, v1, axis);
    int null = ph_graph_constant(b->g, "class.zero", PH_F32, v1, none);
    int row = ph_graph_node(b->g, "Slice", PH_IN(patches, from, to, axes), PH_NO_ATTRS, "class.row");
    int blank = ph_graph_node(b->g, "Mul", PH_IN(row, null), PH_NO_ATTRS, "class.blank");
    return ph_graph_node(b->g, "Add", PH_IN(blank, w), PH_NO_ATTRS, "class.rows");
}

static int embed(const deck *b) {
    const ph_tower      *t = b->t;
    ph_graph            *g = b->g;
    int64_t              patch = t->patch, n = ph_tower_patches(t), rows = n + t->has_class;
    int64_t              kernel[2] = {patch, patch};
    ph_attr              attrs[2] = {{.name = "strides", .type = PH_ATTR_INTS, .ints = kernel, .n = 2},
                                     {.name = "kernel_shape", .type = PH_ATTR_INTS, .ints = kernel, .n = 2}};
    static const int64_t swap[3] = {0, 2, 1};
    ph_attr              perm = {.name = "perm", .type = PH_ATTR_INTS, .ints = swap, .n = 3};
    int                  pixels = ph_graph_input(
                         g, "pixels", PH_F32,
                         ph_shape_of(4, ph_dim_sym(PH_SYM_I), ph_dim_of(3), ph_dim_of(t->image), ph_dim_of(t->image)));
    int w = ph_names_weight(b->names, g,
                            ph_shape_of(4, ph_dim_of(t->d), ph_dim_of(3), ph_dim_of(patch), ph_dim_of(patch)),
                            "%s.weight", b->w.patch);
    int bias = ph_names_weight_if(b->names, g, t->has_patch_bias, ph_shape_of(1, ph_dim_of(t->d)), "%s.bias",
                                  b->w.patch);
    int x = ph_graph_node(g, "Conv", PH_IN(pixels, w, bias), attrs, 2, "patches.conv");
    x = shaped(g, x, (const int64_t[]){0, t->d, n}, 3, "patches.flat");
    x = ph_graph_node(g, "Transpose", PH_IN(x), &perm, 1, "patches.rows");
    if (t->has_class)
        x = ph_graph_node(g, "Concat", PH_IN(class_rows(b, x), x), PH_ATTRS(PH_INT("axis", 1)),
                          "patches.class");
    if (t->has_no_position) return ph_graph_node(g, "Identity", PH_IN(x), PH_NO_ATTRS, "vision.hidden.0");
    int pos =
        ph_names_weight(b->names, g, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(t->d)), "%s", b->w.position);
    if (!t->has_pre_norm) return ph_graph_node(g, "Add", PH_IN(x, pos), PH_NO_ATTRS, "vision.hidden.0");
    x = ph_graph_node(g, "Add", PH_IN(x, pos), PH_NO_ATTRS, "embedded");
    return norm(b, x, "pre_layrnorm", "vision.hidden.0");
}

/* Part j of q, k, v, from a weight of its own or from its rows of the fused one. */
static int product(const deck *b, int x, int i, int j) {
    const ph_tower   *t = b->t;
    const char *const part[3] = {b->w.q, b->w.k, b->w.v};
    char              name[96];
    if (!t->is_fused)
        return ph_build_linear(b->g, b->names, x, t->d, t->d, !t->has_no_qkv_bias, "%s.%d.%s", b->w.layer, i,
                               part[j]);
    snprintf(name, sizeof name, "%s.%d.%s.weight", b->w.layer, i, b->w.qkv);
    int w = ph_names_weight_rows(b->names, b->g, 3 * t->d, t->d, j * t->d, t->d, name), bias = -1;
    snprintf(name, sizeof name, "%s.%d.%s.bias", b->w.layer, i, b->w.qkv);
    if (!t->has_no_qkv_bias) bias = ph_names_vector_rows(b->names, b->g, 3 * t->d, j * t->d, t->d, name);
    return ph_graph_node(b->g, "Linear", PH_IN(x, w, bias), PH_NO_ATTRS, "vision.layers.%d.%c", i, "qkv"[j]);
}

static int qk_norm(const deck *b, int x, int i, char part) {
    char name[96], as[96];
    snprintf(name, sizeof name, "%s.%d.attention.%c_norm", b->w.layer, i, part);
    snprintf(as, sizeof as, "vision.layers.%d.%c.normed", i, part);
    return rms_norm(b, x, name, 1e-6, as); /* the reference's own epsilon */
}

static int attention(const deck *b, int x, int i) {
    const ph_tower *t = b->t;
    int             p[3];
    for (int j = 0; j < 3; j++) p[j] = product(b, x, i, j);
    if (t->has_qk_norm) p[0] = qk_norm(b, p[0], i, 'q'), p[1] = qk_norm(b, p[1], i, 'k');
    int a = ph_graph_node(b->g, "Attention", PH_IN(p[0], p[1], p[2]),
                          PH_ATTRS(PH_INT("q_num_heads", t->n_heads), PH_INT("kv_num_heads", t->n_heads)),
                          "vision.layers.%d.attention", i);
    return ph_build_linear(b->g, b->names, a, t->d, t->d, 1, "%s.%d.%s", b->w.layer, i, b->w.out);
}

static int feed_forward(const deck *b, int x, int i) {
    const ph_tower *t = b->t;
    char            as[96];
    snprintf(as, sizeof as, "vision.layers.%d.act", i);
    x = ph_build_linear(b->g, b->names, x, t->d, t->d_ff, 1, "%s.%d.mlp.fc%d", b->w.layer, i,
                        b->is_swapped ? 2 : 1);
    x = ph_build_act(b->g, x, t->act, as);
    return ph_build_linear(b->g, b->names, x, t->d_ff, t->d, 1, "%s.%d.mlp.fc%d", b->w.layer, i,
                           b->is_swapped ? 1 : 2);
}

static int scaled(const deck *b, int x, int i, int which) {
    if (!b->t->has_scale) return x;
    int w = ph_names_weight(b->names, b->g, ph_shape_of(1, ph_dim_of(b->t->d)), "%s.%d.%s", b->w.layer, i,
                            which == 1 ? b->w.scale1 : b->w.scale2);
    return ph_graph_node(b->g, "Mul", PH_IN(x, w), PH_NO_ATTRS, "vision.layers.%d.scaled%d", i, which);
}

static int layer(const deck *b, int x, int i) {
    int a = scaled(b, attention(b, layer_norm(b, x, i, 1), i), i, 1);
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "vision.layers.%d.mid", i);
    int f = scaled(b, feed_forward(b, layer_norm(b, x, i, 2), i), i, 2);
    return ph_graph_node(b->g, "Add", PH_IN(x, f), PH_NO_ATTRS, "vision.hidden.%d", i + 1);
}

static int without_class(const deck *b, int x) {
    static const int64_t one[1] = {1}, end[1] = {INT64_MAX};
    ph_shape             v1 = ph_shape_of(1, ph_dim_of(1));
    int                  from = ph_graph_constant(b->g, "features.from", PH_I64, v1, one);
    int                  to = ph_graph_constant(b->g, "features.to", PH_I64, v1, end);
    int                  axes = ph_graph_constant(b->g, "features.axis", PH_I64, v1, one);
    return ph_graph_node(b->g, "Slice", PH_IN(x, from, to, axes), PH_NO_ATTRS, "features.rows");
}

/* The hidden states that were chosen, side by side.  hidden: [n_used + 1] */
static int side_by_side(const deck *b, const int *hidden) {
    int in[PH_FEATURES_MAX], n = b->t->n_features;
    for (int i = 0; i < n; i++) in[i] = hidden[b->t->feature[i]];
    return ph_graph_node(b->g, "Concat", in, n, PH_ATTRS(PH_INT("axis", 2)), "features.layers");
}

void ph_tower_build(ph_graph *g, const ph_tower *t, const ph_names *n) {
    const ph_weight *fc1 = ph_names_find(n, "encoder.layers.0.mlp.fc1.weight");
    deck             b = {.g = g, .t = t, .names = n, .w = words_of(t, n)};
    int              hidden[PH_LAYERS_MAX + 1];
    b.is_swapped = n->is_gguf && fc1 && fc1->rank == 2 && fc1->dim[0] == t->d && fc1->dim[1] == t->d_ff &&
                   t->d != t->d_ff;
    g->modality = PH_MOD_VISION;
    int x = hidden[0] = embed(&b);
    for (int i = 0; i < t->n_used && !g->rc; i++) x = hidden[i + 1] = layer(&b, x, i);
    if (t->n_features && !g->rc) x = side_by_side(&b, hidden);
    if (t->has_post_norm) x = norm(&b, x, b.w.post_norm, "vision.normed");
    if (t->drop_class) x = without_class(&b, x);
    ph_graph_output(g, x, "features");
}

void ph_tower_vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_names names;
    ph_err   err = {0};
    if (ph_names_vision(s, &names, &err))
        ph_graph_fail(g, err.code, "%s", err.msg);
    else
        ph_tower_build(g, &spec->tower, &names);
}
