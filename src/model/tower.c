/* tower.c - the vision graph of the CLIP / SigLIP line, and the config keys that shape it.
 *
 *     pixels [I, 3, h, w] ─ Conv patch ─ [I, N, d] ─ (CLS) ─ + position ─ (norm) ─┬─ norm ─ attention ─ Add
 *                                                                   per layer     └─ norm ─ fc1 act fc2 ─ Add
 *     ─ (norm) ─ (without CLS) ─ features [I, N, d]
 *
 * Only the layers up to the chosen feature layer are built: those above it are neither read nor counted.
 * Source: arXiv:2103.00020 (CLIP), arXiv:2303.15343 (SigLIP); reference: transformers modeling_clip.py,
 * modeling_siglip.py.
 */
#include "model/family.h"

#include <stdio.h>

int ph_tower_patches(const ph_tower *t) {
    int side = t->image / t->patch;
    return side * side;
}

ph_rc ph_tower_read(const ph_keys *k, ph_tower *t, ph_err *err) {
    double eps;
    *t = (ph_tower){0};
    PH_TRY(ph_keys_int(k, "num_hidden_layers", 1, 1024, &t->n_layers, err));
    PH_TRY(ph_keys_int(k, "hidden_size", 1, 1 << 16, &t->d, err));
    PH_TRY(ph_keys_int(k, "num_attention_heads", 1, 1 << 10, &t->n_heads, err));
    PH_TRY(ph_keys_int(k, "intermediate_size", 1, 1 << 18, &t->d_ff, err));
    PH_TRY(ph_keys_int(k, "image_size", 1, 1 << 14, &t->image, err));
    PH_TRY(ph_keys_int(k, "patch_size", 1, 1 << 12, &t->patch, err));
    PH_TRY(ph_keys_act_or(k, "hidden_act", PH_ACT_GELU, &t->act, err));
    PH_TRY(ph_keys_float_or(k, "layer_norm_eps", 1e-5, &eps, err));
    t->norm_eps = (float)eps;
    t->n_used = t->n_layers;
    if (t->image < t->patch)
        return PH_FAIL(err, PH_EFORMAT, "%s: image_size %d is below patch_size %d", k->where, t->image,
                       t->patch);
    if (t->d % t->n_heads)
        return PH_FAIL(err, PH_EFORMAT, "%s: hidden_size %d is no multiple of num_attention_heads %d",
                       k->where, t->d, t->n_heads);
    return PH_OK;
}

typedef struct deck {
    ph_graph       *g;
    const ph_tower *t;
    const ph_names *names;
    int             is_swapped; /* old GGUF vision files call fc1 ffn_down and fc2 ffn_up */
} deck;

static int norm(const deck *b, int x, const char *name, const char *as) {
    ph_shape d = ph_shape_of(1, ph_dim_of(b->t->d));
    int      w = ph_names_weight(b->names, b->g, d, "%s.weight", name);
    int      bias = ph_names_weight(b->names, b->g, d, "%s.bias", name);
    return ph_graph_node(b->g, "LayerNormalization", PH_IN(x, w, bias),
                         PH_ATTRS(PH_INT("axis", -1), PH_FLOAT("epsilon", b->t->norm_eps)), "%s", as);
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
    int w = ph_names_weight(b->names, b->g, ph_shape_of(3, ph_dim_of(1), ph_dim_of(1), ph_dim_of(t->d)),
                            "embeddings.class_embedding");
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
                            "embeddings.patch_embedding.weight");
    int bias = ph_names_weight_if(b->names, g, t->has_patch_bias, ph_shape_of(1, ph_dim_of(t->d)),
                                  "embeddings.patch_embedding.bias");
    int x = ph_graph_node(g, "Conv", PH_IN(pixels, w, bias), attrs, 2, "patches.conv");
    x = shaped(g, x, (const int64_t[]){0, t->d, n}, 3, "patches.flat");
    x = ph_graph_node(g, "Transpose", PH_IN(x), &perm, 1, "patches");
    if (t->has_class)
        x = ph_graph_node(g, "Concat", PH_IN(class_rows(b, x), x), PH_ATTRS(PH_INT("axis", 1)),
                          "patches.class");
    int pos = ph_names_weight(b->names, g, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(t->d)),
                              "embeddings.position_embedding.weight");
    if (!t->has_pre_norm) return ph_graph_node(g, "Add", PH_IN(x, pos), PH_NO_ATTRS, "vision.hidden.0");
    x = ph_graph_node(g, "Add", PH_IN(x, pos), PH_NO_ATTRS, "embedded");
    return norm(b, x, "pre_layrnorm", "vision.hidden.0");
}

static int attention(const deck *b, int x, int i) {
    const ph_tower          *t = b->t;
    int                      qkv[3];
    static const char *const part[3] = {"q", "k", "v"};
    for (int j = 0; j < 3; j++)
        qkv[j] = ph_build_linear(b->g, b->names, x, t->d, t->d, 1, "encoder.layers.%d.self_attn.%s_proj", i,
                                 part[j]);
    int a = ph_graph_node(b->g, "Attention", PH_IN(qkv[0], qkv[1], qkv[2]),
                          PH_ATTRS(PH_INT("q_num_heads", t->n_heads), PH_INT("kv_num_heads", t->n_heads)),
                          "vision.layers.%d.attention", i);
    return ph_build_linear(b->g, b->names, a, t->d, t->d, 1, "encoder.layers.%d.self_attn.out_proj", i);
}

static int layer(const deck *b, int x, int i) {
    const ph_tower *t = b->t;
    char            name[96], as[96];
    snprintf(name, sizeof name, "encoder.layers.%d.layer_norm1", i);
    snprintf(as, sizeof as, "vision.layers.%d.norm1", i);
    int a = attention(b, norm(b, x, name, as), i);
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "vision.layers.%d.mid", i);
    snprintf(name, sizeof name, "encoder.layers.%d.layer_norm2", i);
    snprintf(as, sizeof as, "vision.layers.%d.norm2", i);
    int h = norm(b, x, name, as);
    h = ph_build_linear(b->g, b->names, h, t->d, t->d_ff, 1, "encoder.layers.%d.mlp.fc%d", i,
                        b->is_swapped ? 2 : 1);
    snprintf(as, sizeof as, "vision.layers.%d.act", i);
    h = ph_build_act(b->g, h, t->act, as);
    h = ph_build_linear(b->g, b->names, h, t->d_ff, t->d, 1, "encoder.layers.%d.mlp.fc%d", i,
                        b->is_swapped ? 1 : 2);
    return ph_graph_node(b->g, "Add", PH_IN(x, h), PH_NO_ATTRS, "vision.hidden.%d", i + 1);
}

static int without_class(const deck *b, int x) {
    static const int64_t one[1] = {1}, end[1] = {INT64_MAX};
    ph_shape             v1 = ph_shape_of(1, ph_dim_of(1));
    int                  from = ph_graph_constant(b->g, "features.from", PH_I64, v1, one);
    int                  to = ph_graph_constant(b->g, "features.to", PH_I64, v1, end);
    int                  axes = ph_graph_constant(b->g, "features.axis", PH_I64, v1, one);
    return ph_graph_node(b->g, "Slice", PH_IN(x, from, to, axes), PH_NO_ATTRS, "features.rows");
}

void ph_tower_build(ph_graph *g, const ph_tower *t, const ph_names *n) {
    const ph_weight *fc1 = ph_names_find(n, "encoder.layers.0.mlp.fc1.weight");
    deck             b = {.g = g, .t = t, .names = n};
    b.is_swapped = n->is_gguf && fc1 && fc1->rank == 2 && fc1->dim[0] == t->d && fc1->dim[1] == t->d_ff &&
                   t->d != t->d_ff;
    g->modality = PH_MOD_VISION;
    int x = embed(&b);
    for (int i = 0; i < t->n_used && !g->rc; i++) x = layer(&b, x, i);
    if (t->has_post_norm) x = norm(&b, x, "post_layernorm", "vision.normed");
    if (t->drop_class) x = without_class(&b, x);
    ph_graph_output(g, x, "features");
}
