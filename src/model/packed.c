/* packed.c - towers over packed patches: pictures of any size, one after the other, without padding.
 *
 *     patches [N, k] ─ Linear ─ x [N, d] ─┬─ norm ─ q, k, v ─ 2-D rope ─ SegmentAttention ─ proj ─ Add
 *                             per layer   └─ norm ─ fc1 act fc2  or  act(gate) * up, down ─ Add
 *     bridge: features [N, d] ─ norm ─ [N / m^2, m^2 d] ─ Linear ─ GELU ─ Linear ─ (Gather order) ─ visual
 *
 * A row sees its own frame, or its own window of it.  With windows the squares of a
 * picture stand window by window, so that each window is one segment; the bridge
 * brings the visual tokens back into reading order.  packed_place.c says where rows
 * and tokens stand.
 *
 * Source: arXiv:2409.12191 (Qwen2-VL), arXiv:2502.13923 (Qwen2.5-VL); reference: transformers
 * modeling_qwen2_vl.py, modeling_qwen2_5_vl.py.
 */
#include "graph/kv.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

static const double norm_eps = 1e-6; /* the reference's own: no key says it */
enum { IMAGE = 560 };                /* pixels a side: what the field writes where the config has none */

/* ---- keys ---- */

/* GGUF: every n-th layer; 0: all. */
static ph_rc read_pattern(const ph_source *s, ph_packed *p, ph_err *err) {
    int layers;
    PH_TRY(ph_gguf_size(&s->mmproj, "clip.vision.n_wa_pattern", 0, PH_LAYERS_MAX + 1, &layers, err));
    for (int i = 0; i < PH_LAYERS_MAX; i++) p->is_full[i] = !layers || (i + 1) % layers == 0;
    return PH_OK;
}

static ph_rc read_full_layers(const ph_keys *k, const ph_source *s, ph_spec *spec, ph_err *err) {
    int64_t    layer[PH_LAYERS_MAX];
    size_t     n;
    ph_packed *p = &spec->packed;
    int        is_listed = ph_keys_has(k, "fullatt_block_indexes");
    if (s->is_gguf && !is_listed) return read_pattern(s, p, err);
    for (int i = 7; i < 32 && !is_listed; i += 8) p->is_full[i] = 1;
    PH_TRY(ph_keys_ints_or(k, "fullatt_block_indexes", layer, PH_LAYERS_MAX, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (layer[i] < 0 || layer[i] >= spec->tower.n_layers)
            return PH_FAIL(err, PH_EFORMAT, "%s: %s names layer %lld of %d", k->where,
                           s->is_gguf ? "clip.vision.wa_layer_indexes" : "fullatt_block_indexes",
                           (long long)layer[i], spec->tower.n_layers);
        p->is_full[layer[i]] = 1;
    }
    return PH_OK;
}

ph_rc ph_packed_read_windows(const ph_source *s, ph_spec *spec, ph_err *err) {
    ph_keys    vision = ph_keys_vision(s);
    ph_packed *p = &spec->packed;
    int        window;
    PH_TRY(ph_keys_int_or(&vision, "window_size", 1, 1 << 16, 112, &window, err));
    PH_TRY(read_full_layers(&vision, s, spec, err));
    p->window = window / p->merge / spec->tower.patch;
    if (p->window) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: window_size %d is less than a visual token of %d patches of %d pixels", vision.where,
                   window, p->merge, spec->tower.patch);
}

/* GGUF: the key for the feed-forward's width holds another number in files of Qwen2-VL; the weight knows. */
static ph_rc read_width(const ph_source *s, ph_tower *t, ph_err *err) {
    ph_names names;
    PH_TRY(ph_names_vision(s, &names, err));
    const ph_weight *up = ph_names_find(&names, "blocks.0.mlp.fc1.weight");
    if (!up || up->rank != 2)
        return PH_FAIL(err, PH_EMISMATCH, "%s: tensor v.blk.0.ffn_up.weight is missing", s->mmproj.name);
    t->d_ff = (int)(up->dim[1] == t->d ? up->dim[0] : up->dim[1]);
    return PH_OK;
}

/* Positions of pictures have three axes: without their shares the rows would turn as a text's. */
static ph_rc check_axes(const ph_source *s, const ph_rope_spec *r, ph_err *err) {
    ph_keys text = ph_keys_text(s);
    if (r->mrope[0] > 0) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s: %s%s is missing: the shares of time, height and width in a rotation",
                   text.where, s->is_gguf ? s->type : "rope_scaling's mrope_section",
                   s->is_gguf ? ".rope.dimension_sections" : "");
}

static ph_rc read_sizes(const ph_keys *k, ph_tower *t, ph_err *err) {
    double ratio;
    int    channels;
    /* hidden_size is the width of the language model where embed_dim stands beside it. */
    const char *width = ph_keys_has(k, "embed_dim") ? "embed_dim" : "hidden_size";
    PH_TRY(ph_keys_int(k, "depth", 1, PH_LAYERS_MAX, &t->n_layers, err));
    PH_TRY(ph_keys_int(k, width, 1, 1 << 16, &t->d, err));
    PH_TRY(ph_keys_int(k, "num_heads", 1, 1 << 10, &t->n_heads, err));
    PH_TRY(ph_keys_int(k, "patch_size", 1, 256, &t->patch, err));
    PH_TRY(ph_keys_int_or(k, "in_channels", 1, 1 << 10, 3, &channels, err));
    PH_TRY(ph_keys_int_or(k, "in_chans", 1, 1 << 10, channels, &channels, err));
    if (channels != 3)
        return PH_FAIL(err, PH_EUNSUP, "%s: in_channels %d is not supported; 3 is", k->where, channels);
    PH_TRY(ph_keys_float_or(k, "mlp_ratio", 4.0, &ratio, err));
    if (!(ratio > 0 && ratio * t->d < 1 << 20))
        return PH_FAIL(err, PH_EFORMAT, "%s: mlp_ratio %g of %d", k->where, ratio, t->d);
    PH_TRY(ph_keys_int_or(k, "intermediate_size", 1, 1 << 20, (int)(t->d * ratio), &t->d_ff, err));
    t->n_used = t->n_layers;
    t->norm_eps = (float)norm_eps;
    if (t->d % t->n_heads == 0 && t->d / t->n_heads % 4 == 0) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s: a width of %d in %d heads; each must be a multiple of 4", k->where,
                   t->d, t->n_heads);
}

ph_rc ph_packed_read(const ph_source *s, ph_spec *spec, ph_err *err) {
    ph_keys         vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_packed      *p = &spec->packed;
    ph_bridge_spec *b = &spec->bridge;
    int             image = -1, video = -1;
    *p = (ph_packed){0};
    PH_TRY(check_axes(s, &spec->text.kind[0].rope, err));
    PH_TRY(read_sizes(&vision, &spec->tower, err));
    PH_TRY(ph_keys_int_or(&vision, "image_size", 1, 1 << 14, IMAGE, &spec->tower.image, err));
    if (s->is_gguf) PH_TRY(read_width(s, &spec->tower, err));
    PH_TRY(ph_keys_int_or(&vision, "spatial_merge_size", 1, 16, 2, &p->merge, err));
    PH_TRY(ph_keys_int_or(&vision, "temporal_patch_size", 1, 16, 2, &p->temporal, err));
    PH_TRY(ph_keys_int_or(&top, "image_token_id", -1, 1 << 24, -1, &image, err));
    PH_TRY(ph_keys_int_or(&top, "video_token_id", -1, 1 << 24, -1, &video, err));
    b->shuffle = p->merge;
    b->d_in = spec->tower.d;
    b->d_hidden = spec->tower.d * p->merge * p->merge;
    b->d_out = spec->text.d_model;
    b->act = PH_ACT_GELU;
    b->has_bias = 1;
    spec->image_token = image;
    spec->video_token = video;
    spec->image_marker = "<|image_pad|>";
    spec->video_marker = "<|video_pad|>";
    return PH_OK;
}

/* ---- the tower ---- */

typedef struct deck {
    ph_graph       *g;
    const ph_spec  *spec;
    const ph_tower *t;
    ph_names        names;
    int             cos, sin, frames, windows; /* segments of both kinds */
    int             is_fused;                  /* q, k, v are one weight */
    int             is_swapped;                /* old GGUF vision files call fc1 ffn_down and fc2 ffn_up */
} deck;

/* LayerNorm, or RMSNorm where the MLP is gated. */
static int norm(const deck *b, int x, const char *name, const char *as) {
    ph_shape d = ph_shape_of(1, ph_dim_of(b->t->d));
    int      w = ph_names_weight(&b->names, b->g, d, "%s.weight", name);
    if (b->spec->packed.is_gated)
        return ph_graph_node(b->g, "RMSNormalization", PH_IN(x, w), PH_ATTRS(PH_FLOAT("epsilon", norm_eps)),
                             "%s", as);
    int bias = ph_names_weight(&b->names, b->g, d, "%s.bias", name);
    return ph_graph_node(b->g, "LayerNormalization", PH_IN(x, w, bias),
                         PH_ATTRS(PH_INT("axis", -1), PH_FLOAT("epsilon", norm_eps)), "%s", as);
}

static int layer_norm(const deck *b, int x, int i, int which) {
    char name[64], as[64];
    snprintf(name, sizeof name, "blocks.%d.norm%d", i, which);
    snprintf(as, sizeof as, "vision.layers.%d.norm%d", i, which);
    return norm(b, x, name, as);
}

/* Part 0, 1 or 2 of q, k, v: rows of one weight, or (GGUF) a weight of its own. */
static int product(const deck *b, int x, int i, int part) {
    char        weight[64], bias[64];
    const char *of = "qkv";
    int         d = b->t->d;
    if (!b->is_fused) return ph_build_linear(b->g, &b->names, x, d, d, 1, "blocks.%d.attn.%c", i, of[part]);
    snprintf(weight, sizeof weight, "blocks.%d.attn.qkv.weight", i);
    snprintf(bias, sizeof bias, "blocks.%d.attn.qkv.bias", i);
    int w = ph_names_weight_rows(&b->names, b->g, 3 * d, d, part * d, d, weight);
    int v = ph_names_vector_rows(&b->names, b->g, 3 * d, part * d, d, bias);
    return ph_graph_node(b->g, "Linear", PH_IN(x, w, v), PH_NO_ATTRS, "blocks.%d.attn.%c.out", i, of[part]);
}

static int rotate(const deck *b, int x, int i, char part) {
    return ph_graph_node(
        b->g, "RotaryEmbedding", PH_IN(x, b->cos, b->sin),
        PH_ATTRS(PH_INT("num_heads", b->t->n_heads), PH_INT("rotary_embedding_dim", b->t->d / b->t->n_heads)),
        "vision.layers.%d.%c.rotated", i, part);
}

static int attention(const deck *b, int x, int i) {
    const ph_packed *p = &b->spec->packed;
    int              q = rotate(b, product(b, x, i, 0), i, 'q'), k = rotate(b, product(b, x, i, 1), i, 'k');
    int              v = product(b, x, i, 2), segments = p->window && !p->is_full[i] ? b->windows : b->frames;
    int              a = ph_graph_node(b->g, "SegmentAttention", PH_IN(q, k, v, segments),
                                       PH_ATTRS(PH_INT("num_heads", b->t->n_heads)), "vision.layers.%d.attention", i);
    return ph_build_linear(b->g, &b->names, a, b->t->d, b->t->d, 1, "blocks.%d.attn.proj", i);
}

static int feed_forward(const deck *b, int x, int i) {
    const ph_tower *t = b->t;
    char            act[64];
    snprintf(act, sizeof act, "vision.layers.%d.act", i);
    if (!b->spec->packed.is_gated) {
        int h = ph_build_linear(b->g, &b->names, x, t->d, t->d_ff, 1, "blocks.%d.mlp.fc%d", i,
                                b->is_swapped ? 2 : 1);
        h = ph_build_act(b->g, h, t->act, act);
        return ph_build_linear(b->g, &b->names, h, t->d_ff, t->d, 1, "blocks.%d.mlp.fc%d", i,
                               b->is_swapped ? 1 : 2);
    }
    int gate = ph_build_linear(b->g, &b->names, x, t->d, t->d_ff, 1, "blocks.%d.mlp.gate_proj", i);
    int up = ph_build_linear(b->g, &b->names, x, t->d, t->d_ff, 1, "blocks.%d.mlp.up_proj", i);
    gate = ph_build_act(b->g, gate, t->act, act);
    int h = ph_graph_node(b->g, "Mul", PH_IN(gate, up), PH_NO_ATTRS, "vision.layers.%d.gated", i);
    return ph_build_linear(b->g, &b->names, h, t->d_ff, t->d, 1, "blocks.%d.mlp.down_proj", i);
}

static int layer(const deck *b, int x, int i) {
    int a = attention(b, layer_norm(b, x, i, 1), i);
    x = ph_graph_node(b->g, "Add", PH_IN(x, a), PH_NO_ATTRS, "vision.layers.%d.mid", i);
    int h = feed_forward(b, layer_norm(b, x, i, 2), i);
    return ph_graph_node(b->g, "Add", PH_IN(x, h), PH_NO_ATTRS, "vision.hidden.%d", i + 1);
}

/* A quarter of a head's elements by height, a quarter by width, paired with the other half. */
static void angles(deck *b) {
    int           dim = b->t->d / b->t->n_heads;
    const int64_t section[3] = {0, dim / 4, dim / 4};
    int           rows =
        ph_graph_input(b->g, "rows", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(PH_ROW_FIELDS)));
    b->cos = ph_graph_node(b->g, "RopeAngles", PH_IN(rows),
                           PH_ATTRS(PH_INT("dim", dim), PH_FLOAT("theta", 10000.0),
                                    PH_INTS("mrope", section, 3), PH_INT("restart", 1)),
                           "vision.rope");
    b->sin = ph_graph_output_of(b->g, b->cos, 1);
}

/* GGUF files hold a weight of each frame, [d, 3, patch, patch]; a still picture's frames are the same, a
 * video's are not: frame f of a patch is columns of its own. */
static int embed_by_frames(const deck *b, int patches) {
    const ph_packed *p = &b->spec->packed;
    int64_t          area = (int64_t)b->t->patch * b->t->patch;
    int              sum = -1;
    int x = ph_build_reshape(b->g, patches, (const int64_t[]){0, 3, p->temporal, area}, 4, "patches.frames");
    for (int32_t f = 0; f < p->temporal; f++) {
        char name[64] = "patch_embed.proj.weight", index[32];
        if (f) snprintf(name, sizeof name, "patch_embed.proj.weight.%d", (int)f);
        snprintf(index, sizeof index, "patches.index.%d", (int)f);
        int at = ph_graph_constant(b->g, index, PH_I32, ph_shape_of(1, ph_dim_of(1)), &f);
        int one =
            ph_graph_node(b->g, "Gather", PH_IN(x, at), PH_ATTRS(PH_INT("axis", 2)), "patches.frame.%d", f);
        one = ph_build_reshape(b->g, one, (const int64_t[]){0, 3 * area}, 2, "patches.rows.%d", (int)f);
        int w = ph_names_weight_flat(&b->names, b->g, b->t->d, (int)(3 * area), name);
        int y = ph_graph_node(b->g, "Linear", PH_IN(one, w), PH_NO_ATTRS, "patches.embedded.%d", (int)f);
        sum = f ? ph_graph_node(b->g, "Add", PH_IN(sum, y), PH_NO_ATTRS, "patches.sum.%d", (int)f) : y;
    }
    return sum;
}

static int embed(const deck *b) {
    const ph_packed *p = &b->spec->packed;
    int              k = 3 * p->temporal * b->t->patch * b->t->patch;
    int patches = ph_graph_input(b->g, "patches", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(k)));
    if (b->names.is_gguf) return embed_by_frames(b, patches);
    int w = ph_names_weight_flat(&b->names, b->g, b->t->d, k, "patch_embed.proj.weight");
    return ph_graph_node(b->g, "Linear", PH_IN(patches, w), PH_NO_ATTRS, "vision.hidden.0");
}

static int pairs(ph_graph *g, const char *name) {
    return ph_graph_input(g, name, PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(2)));
}

void ph_packed_vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    deck   b = {.g = g, .spec = spec, .t = &spec->tower};
    ph_err err = {0};
    if (ph_names_vision(s, &b.names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    const ph_weight *fc1 = ph_names_find(&b.names, "blocks.0.mlp.fc1.weight");
    b.is_swapped = b.names.is_gguf && fc1 && fc1->dim[0] == b.t->d && fc1->dim[1] != b.t->d;
    b.is_fused = ph_names_find(&b.names, "blocks.0.attn.qkv.weight") != NULL;
    int x = embed(&b);
    angles(&b);
    b.frames = pairs(g, "segments");
    if (spec->packed.window) b.windows = pairs(g, "windows");
    for (int i = 0; i < spec->tower.n_layers && !g->rc; i++) x = layer(&b, x, i);
    ph_graph_output(g, x, "features");
}

void ph_packed_bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_bridge_spec *p = &spec->bridge;
    deck                  b = {.g = g, .spec = spec, .t = &spec->tower};
    ph_dim                tokens;
    ph_err                err = {0};
    if (ph_names_bridge(s, &b.names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return;
    }
    int x = ph_graph_input(g, "features", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(p->d_in)));
    x = norm(&b, x, "merger.ln_q", "bridge.normed");
    x = ph_build_reshape(g, x, (const int64_t[]){-1, p->d_hidden}, 2, "bridge.squares");
    x = ph_build_linear(g, &b.names, x, p->d_hidden, p->d_hidden, 1, "merger.mlp.0");
    x = ph_build_act(g, x, p->act, "bridge.act");
    x = ph_build_linear(g, &b.names, x, p->d_hidden, p->d_out, 1, "merger.mlp.2");
    if (spec->packed.window) {
        if (!ph_dim_div(ph_dim_sym(PH_SYM_N), ph_dim_of((int64_t)p->shuffle * p->shuffle), &tokens))
            ph_graph_fail(g, PH_EBUG, "N / %d is no dimension", p->shuffle * p->shuffle);
        int order = ph_graph_input(g, "order", PH_I32, ph_shape_of(1, tokens));
        x = ph_graph_node(g, "Gather", PH_IN(x, order), PH_ATTRS(PH_INT("axis", 0)), "bridge.ordered");
    }
    ph_graph_output(g, x, "visual");
}
