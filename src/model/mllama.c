/* mllama.c - Llama 3.2 Vision: a tower over all tiles of a picture at once, read by cross-attention layers.
 *
 *     pixels [I, 3, s, s] ─ Conv ─ + tile form ─ CLS ─ + positions ─ norm ─ rows of zeros up to P = 8k
 *       ─ [I/T, T*P, d] layers ─ norm ─ + tile form ─ gated global layers ─ [I, N, d] ─┐
 *                          └─ outputs of some of them, element by element ─────────────┴─ features
 *     features [I, N, (1+k) d] ─ Linear ─ visual [I, N, d_model]: the decoder's cross layers attend to them
 *                                                                 (cross.c)
 *
 * T tiles make a picture, blank ones among them; they see each other.  Only blank places (tiles and the rows
 * of zeros) do not see blank places, as in the reference.  A tile's learned forms depend on the grid it is in
 * and on its place there: tables looked up by tile_ids, form * T + tile.
 *
 * Source: arXiv:2407.21783 §7; reference: transformers modeling_mllama.py, processing_mllama.py.
 */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

enum { TILES_MAX = 64, KEPT_MAX = 64 };

/* What the config says of the tower beyond ph_tower. */
typedef struct eye {
    int     n_forms; /* grids, and the first: none */
    int     n_global;
    int64_t kept[KEPT_MAX]; /* layers whose outputs go into the features too */
    size_t  n_kept;
} eye;

/* Grids of h x w tiles are numbered from 1, heights first. */
static int form_of(int tiles, int rows, int cols) {
    int form = 0;
    for (int h = 1; h <= tiles; h++)
        for (int w = 1; h * w <= tiles; w++) {
            form++;
            if (h == rows && w == cols) return form;
        }
    return cols ? 0 : form; /* rows, cols 0: how many there are */
}

/* The tables of forms have a row for each grid that the config lists, and one in front. */
static ph_rc count_forms(const ph_keys *k, const ph_tower *t, int *out, ph_err *err) {
    ph_json list = ph_json_get(&k->object, "supported_aspect_ratios");
    int     grids = form_of(t->tiles, 0, 0);
    size_t  n = ph_json_kind_of(&list) == PH_JSON_ARRAY ? ph_json_count(&list) : (size_t)grids;
    if (n < (size_t)grids || n > 1 << 16)
        return PH_FAIL(err, PH_EFORMAT, "%s: supported_aspect_ratios lists %zu grids; %d tiles make %d",
                       k->where, n, t->tiles, grids);
    *out = (int)n + 1;
    return PH_OK;
}

static ph_rc read_eye(const ph_source *s, const ph_tower *t, eye *e, ph_err *err) {
    ph_keys k = ph_keys_vision(s);
    *e = (eye){0};
    PH_TRY(count_forms(&k, t, &e->n_forms, err));
    PH_TRY(ph_keys_int_or(&k, "num_global_layers", 0, 1024, 8, &e->n_global, err));
    PH_TRY(ph_keys_ints_or(&k, "intermediate_layers_indices", e->kept, KEPT_MAX, &e->n_kept, err));
    for (size_t i = 0; i < e->n_kept; i++)
        if (e->kept[i] < 0 || e->kept[i] >= t->n_layers)
            return PH_FAIL(err, PH_EFORMAT, "%s: intermediate_layers_indices holds %lld; there are %d layers",
                           k.where, (long long)e->kept[i], t->n_layers);
    return PH_OK;
}

static ph_rc read_tower(const ph_keys *k, ph_tower *t, ph_err *err) {
    double eps;
    int    channels;
    *t = (ph_tower){.has_class = 1};
    PH_TRY(ph_keys_int(k, "num_hidden_layers", 1, 1024, &t->n_layers, err));
    PH_TRY(ph_keys_int(k, "hidden_size", 1, 1 << 16, &t->d, err));
    PH_TRY(ph_keys_int(k, "attention_heads", 1, 1 << 10, &t->n_heads, err));
    PH_TRY(ph_keys_int(k, "intermediate_size", 1, 1 << 18, &t->d_ff, err));
    PH_TRY(ph_keys_int(k, "image_size", 1, 1 << 14, &t->image, err));
    PH_TRY(ph_keys_int(k, "patch_size", 1, 1 << 12, &t->patch, err));
    PH_TRY(ph_keys_int_or(k, "max_num_tiles", 1, TILES_MAX, 4, &t->tiles, err));
    PH_TRY(ph_keys_act_or(k, "hidden_act", PH_ACT_GELU, &t->act, err));
    PH_TRY(ph_keys_eps_or(k, "norm_eps", 1e-5, &eps, err));
    t->norm_eps = (float)eps;
    PH_TRY(ph_keys_int_or(k, "num_channels", 1, 1 << 10, 3, &channels, err));
    if (channels != 3)
        return PH_FAIL(err, PH_EUNSUP, "%s: num_channels %d is not supported; 3 is", k->where, channels);
    t->n_used = t->n_layers;
    if (t->image < t->patch || t->d % t->n_heads)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: image_size %d, patch_size %d, hidden_size %d, attention_heads %d do not fit",
                       k->where, t->image, t->patch, t->d, t->n_heads);
    return PH_OK;
}

static ph_rc read_cross(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys     k = ph_keys_text(s);
    ph_decoder *d = &out->text;
    int64_t     at[PH_LAYERS_MAX];
    size_t      n;
    PH_TRY(ph_keys_ints_or(&k, "cross_attention_layers", at, PH_LAYERS_MAX, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (at[i] < 0 || at[i] >= d->n_layers || d->cross_at[at[i]])
            return PH_FAIL(err, PH_EFORMAT, "%s: cross_attention_layers holds %lld; there are %d layers",
                           k.where, (long long)at[i], d->n_layers);
        d->cross_at[at[i]] = PH_CROSS_INSTEAD;
    }
    if (!n || n == (size_t)d->n_layers)
        return PH_FAIL(err, PH_EFORMAT, "%s: %zu of %d layers are cross_attention_layers", k.where, n,
                       d->n_layers);
    out->cross = (ph_cross_spec){.n_layers = (int)n,
                                 .d_in = d->d_model,
                                 .n_kv_heads = d->n_kv_heads,
                                 .sees_run = 1,
                                 .blind_sees_all = 1,
                                 .gates_ff = 1,
                                 .tokens_max = out->tower.tiles * out->bridge.tokens_per_tile,
                                 .block = "layers",
                                 .q_norm = "cross_attn.q_norm",
                                 .k_norm = "cross_attn.k_norm",
                                 .attn_gate = "cross_attn_attn_gate",
                                 .ff_gate = "cross_attn_mlp_gate"};
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys   vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower *t = &out->tower;
    eye       e;
    int       width;
    PH_TRY(read_tower(&vision, t, err));
    PH_TRY(read_eye(s, t, &e, err));
    PH_TRY(ph_keys_int_or(&vision, "vision_output_dim", 1, 1 << 22, 7680, &width, err));
    if (width != t->d * (1 + (int)e.n_kept))
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: vision_output_dim is %d, but hidden_size %d and %zu intermediate layers make %d",
                       vision.where, width, t->d, e.n_kept, t->d * (1 + (int)e.n_kept));
    PH_TRY(ph_keys_image_token(&top, &out->image_token, err));
    out->bridge = (ph_bridge_spec){
        .shuffle = 1, .d_in = width, .d_out = out->text.d_model, .tokens_per_tile = ph_tower_patches(t) + 1};
    out->text.n_embed = out->text.vocab + 8; /* the head does not name the image token */
    out->image_marker = "<|image|>";
    return read_cross(s, out, err);
}

/* ---- the tower ---- */

typedef struct deck {
    ph_graph       *g;
    const ph_tower *t;
    ph_names        names;
    eye             e;
    int             ids;    /* tile_ids [I] */
    int             n, pad; /* rows of a tile with CLS; rows of zeros behind them */
    int             mask;   /* [I/T, 1, T*P, T*P] */
} deck;

static int scalar(deck *b, const char *name, float x) {
    return ph_graph_constant(b->g, name, PH_F32, ph_shape_of(1, ph_dim_of(1)), &x);
}

static int two(deck *b, const char *op, int x, int y, const char *name) {
    return ph_graph_node(b->g, op, PH_IN(x, y), PH_NO_ATTRS, "%s", name);
}

static int norm(deck *b, int x, const char *name) {
    ph_shape d = ph_shape_of(1, ph_dim_of(b->t->d));
    int      w = ph_names_weight(&b->names, b->g, d, "%s.weight", name);
    int      bias = ph_names_weight(&b->names, b->g, d, "%s.bias", name);
    return ph_graph_node(b->g, "LayerNormalization", PH_IN(x, w, bias),
                         PH_ATTRS(PH_INT("axis", -1), PH_FLOAT("epsilon", b->t->norm_eps)), "%s.out", name);
}

/* The tile's own row of a learned table: [I, rows, d] from [forms, T * rows * d]. */
static int form(deck *b, const char *name, int rows, const char *as) {
    const ph_tower *t = b->t;
    int64_t         n = (int64_t)rows * t->d, ids = (int64_t)b->e.n_forms * t->tiles;
    int             table =
        ph_names_weight_as(&b->names, b->g, ph_shape_of(2, ph_dim_of(b->e.n_forms), ph_dim_of(t->tiles * n)),
                           ph_shape_of(2, ph_dim_of(ids), ph_dim_of(n)), name);
    int x = ph_graph_node(b->g, "Gather", PH_IN(table, b->ids), PH_ATTRS(PH_INT("axis", 0)), "%s.row", as);
    return ph_build_reshape(b->g, x, (const int64_t[]){0, rows, t->d}, 3, "%s", as);
}

static int add_form(deck *b, int x, const char *part) {
    char name[96], gate[96], as[96];
    snprintf(name, sizeof name, "%s.embedding.weight", part);
    snprintf(gate, sizeof gate, "%s.gate", part);
    int f = form(b, name, 1, part);
    snprintf(as, sizeof as, "%s.gated", part);
    f = two(b, "Mul", f, ph_names_weight_tanh(&b->names, b->g, gate), as);
    snprintf(as, sizeof as, "%s.added", part);
    return two(b, "Add", x, f, as);
}

/* Rows first .. first + n - 1 of every tile. */
static int rows_of(deck *b, int x, int64_t first, int64_t n, const char *name) {
    const int64_t            from[1] = {first}, end[1] = {first + n}, axis[1] = {1};
    ph_shape                 v1 = ph_shape_of(1, ph_dim_of(1));
    char                     as[3][96];
    static const char *const part[3] = {"from", "to", "axis"};
    for (int i = 0; i < 3; i++) snprintf(as[i], sizeof as[i], "%s.%s", name, part[i]);
    int f = ph_graph_constant(b->g, as[0], PH_I64, v1, from);
    int e = ph_graph_constant(b->g, as[1], PH_I64, v1, end);
    int a = ph_graph_constant(b->g, as[2], PH_I64, v1, axis);
    return ph_graph_node(b->g, "Slice", PH_IN(x, f, e, a), PH_NO_ATTRS, "%s", name);
}

/* A zero row a tile, made from the tiles so that it has their count: [I, 1, d]. */
static int blank_row(deck *b, int x, const char *name) {
    char as[96];
    snprintf(as, sizeof as, "%s.first", name);
    int row = rows_of(b, x, 0, 1, as);
    snprintf(as, sizeof as, "%s.zero", name);
    return two(b, "Mul", row, scalar(b, as, 0), name);
}

static int add_positions(deck *b, int x) {
    const ph_tower *t = b->t;
    int             gate = ph_names_weight_tanh(&b->names, b->g, "gated_positional_embedding.gate");
    int             rest = two(b, "Sub", scalar(b, "one", 1), gate, "positions.rest");
    int             table = ph_names_weight(&b->names, b->g, ph_shape_of(2, ph_dim_of(b->n), ph_dim_of(t->d)),
                                            "gated_positional_embedding.embedding");
    x = two(b, "Add", x, two(b, "Mul", table, rest, "positions.gated"), "positions.added");
    int f = form(b, "gated_positional_embedding.tile_embedding.weight", b->n, "positions.tile");
    return two(b, "Add", x, two(b, "Mul", f, gate, "positions.tile.gated"), "embedded");
}

static int pad_rows(deck *b, int x) {
    ph_arena *a = &b->g->arena;
    void     *zeros;
    ph_err    err;
    size_t    n = (size_t)b->pad * (size_t)b->t->d;
    if (!b->pad || b->g->rc) return x;
    if (ph_arena_zero(a, &zeros, n, sizeof(float), &err)) {
        ph_graph_fail(b->g, err.code, "%s", err.msg);
        return -1;
    }
    int none = ph_graph_constant(b->g, "pad.none", PH_F32,
                                 ph_shape_of(3, ph_dim_of(1), ph_dim_of(b->pad), ph_dim_of(b->t->d)), zeros);
    int rows = two(b, "Add", blank_row(b, x, "pad.row"), none, "pad.rows");
    return ph_graph_node(b->g, "Concat", PH_IN(x, rows), PH_ATTRS(PH_INT("axis", 1)), "padded");
}

static int embed(deck *b) {
    const ph_tower      *t = b->t;
    ph_graph            *g = b->g;
    int64_t              patch = t->patch, kernel[2] = {patch, patch}, n = ph_tower_patches(t);
    static const int64_t swap[3] = {0, 2, 1};
    ph_shape             tile =
        ph_shape_of(4, ph_dim_sym(PH_SYM_I), ph_dim_of(3), ph_dim_of(t->image), ph_dim_of(t->image));
    ph_shape d3 = ph_shape_of(3, ph_dim_of(1), ph_dim_of(1), ph_dim_of(t->d));
    int      pixels = ph_graph_input(g, "pixels", PH_F32, tile);
    int      w = ph_names_weight(&b->names, g,
                                 ph_shape_of(4, ph_dim_of(t->d), ph_dim_of(3), ph_dim_of(patch), ph_dim_of(patch)),
                                 "patch_embedding.weight");
    int      x = ph_graph_node(g, "Conv", PH_IN(pixels, w),
                               PH_ATTRS(PH_INTS("strides", kernel, 2), PH_INTS("kernel_shape", kernel, 2)),
                               "patches.conv");
    x = ph_build_reshape(g, x, (const int64_t[]){0, t->d, n}, 3, "patches.flat");
    x = ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", swap, 3)), "patches");
    x = add_form(b, x, "pre_tile_positional_embedding");
    int mark = ph_names_weight(&b->names, g, d3, "class_embedding");
    int first = two(b, "Add", blank_row(b, x, "class.blank"), mark, "class.rows");
    x = ph_graph_node(g, "Concat", PH_IN(first, x), PH_ATTRS(PH_INT("axis", 1)), "patches.class");
    return pad_rows(b, norm(b, add_positions(b, x), "layernorm_pre"));
}

/* 1 where a place shows something: a tile of the grid and a row that is no padding; [I, P]. */
static int shown(deck *b) {
    const ph_tower *t = b->t;
    ph_graph       *g = b->g;
    int64_t         n_ids = (int64_t)b->e.n_forms * t->tiles, places = b->n + b->pad;
    void           *at;
    ph_err          err;
    if (ph_arena_zero(&g->arena, &at, (size_t)(n_ids + places), sizeof(float), &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return -1;
    }
    float *tile = at, *place = tile + n_ids;
    int    id = t->tiles;
    tile[0] = 1; /* no grid: the reference shows the first tile */
    for (int h = 1; h <= t->tiles; h++)
        for (int w = 1; h * w <= t->tiles; w++, id += t->tiles)
            for (int i = 0; i < h * w; i++) tile[id + i] = 1;
    for (int i = 0; i < b->n; i++) place[i] = 1;
    int tiles =
        ph_graph_constant(g, "shown.tiles", PH_F32, ph_shape_of(2, ph_dim_of(n_ids), ph_dim_of(1)), tile);
    int row =
        ph_graph_constant(g, "shown.places", PH_F32, ph_shape_of(2, ph_dim_of(1), ph_dim_of(places)), place);
    int x = ph_graph_node(g, "Gather", PH_IN(tiles, b->ids), PH_ATTRS(PH_INT("axis", 0)), "shown.tile");
    return two(b, "Mul", x, row, "shown");
}

/* Everything is seen, but by blank places blank ones are not: [I/T, 1, T*P, T*P]. */
static int make_mask(deck *b) {
    enum { ONNX_BOOL = 9 };
    ph_graph *g = b->g;
    int64_t   all = (int64_t)b->t->tiles * (b->n + b->pad);
    int       one = scalar(b, "mask.one", 1);
    int       blank = two(b, "Sub", one, shown(b), "blank");
    int       column = ph_build_reshape(g, blank, (const int64_t[]){-1, 1, all, 1}, 4, "blank.queries");
    int       row = ph_build_reshape(g, blank, (const int64_t[]){-1, 1, 1, all}, 4, "blank.keys");
    int       seen = two(b, "Sub", one, two(b, "Mul", column, row, "blank.pairs"), "seen");
    return ph_graph_node(g, "Cast", PH_IN(seen), PH_ATTRS(PH_INT("to", ONNX_BOOL)), "mask");
}

static int gate(deck *b, int x, int is_gated, const char *name) {
    char as[128];
    if (!is_gated) return x;
    snprintf(as, sizeof as, "%s.gated", name);
    return two(b, "Mul", x, ph_names_weight_tanh(&b->names, b->g, name), as);
}

static int attention(deck *b, int x, const char *layer) {
    const ph_tower          *t = b->t;
    int                      qkv[3];
    static const char *const part[3] = {"q", "k", "v"};
    for (int j = 0; j < 3; j++)
        qkv[j] = ph_build_linear(b->g, &b->names, x, t->d, t->d, 0, "%s.self_attn.%s_proj", layer, part[j]);
    int a = ph_graph_node(b->g, "Attention", PH_IN(qkv[0], qkv[1], qkv[2], b->mask),
                          PH_ATTRS(PH_INT("q_num_heads", t->n_heads), PH_INT("kv_num_heads", t->n_heads)),
                          "%s.attention", layer);
    return ph_build_linear(b->g, &b->names, a, t->d, t->d, 0, "%s.self_attn.o_proj", layer);
}

/* "transformer" or, gated, "global_transformer"; the output is called `as`. */
static int layer(deck *b, int x, const char *stack, int i, int is_gated, const char *as) {
    char name[64], part[112];
    snprintf(name, sizeof name, "%s.layers.%d", stack, i);
    snprintf(part, sizeof part, "%s.input_layernorm", name);
    int a = attention(b, norm(b, x, part), name);
    snprintf(part, sizeof part, "%s.gate_attn", name);
    a = gate(b, a, is_gated, part);
    snprintf(part, sizeof part, "%s.mid", name);
    x = two(b, "Add", x, a, part);
    snprintf(part, sizeof part, "%s.post_attention_layernorm", name);
    int f = ph_build_linear(b->g, &b->names, norm(b, x, part), b->t->d, b->t->d_ff, 1, "%s.mlp.fc1", name);
    snprintf(part, sizeof part, "%s.act", name);
    f = ph_build_act(b->g, f, b->t->act, part);
    f = ph_build_linear(b->g, &b->names, f, b->t->d_ff, b->t->d, 1, "%s.mlp.fc2", name);
    snprintf(part, sizeof part, "%s.gate_ffn", name);
    return two(b, "Add", x, gate(b, f, is_gated, part), as);
}

/* [I/T, T*P, d] to the places of each tile that are no padding: [I, N, d]. */
static int tiles_of(deck *b, int x, const char *name) {
    char as[96];
    snprintf(as, sizeof as, "%s.tiles", name);
    x = ph_build_reshape(b->g, x, (const int64_t[]){-1, b->n + b->pad, b->t->d}, 3, "%s", as);
    return b->pad ? rows_of(b, x, 0, b->n, name) : x;
}

static int together(deck *b, int x, const char *name) {
    return ph_build_reshape(b->g, x, (const int64_t[]){-1, (int64_t)b->t->tiles * (b->n + b->pad), b->t->d},
                            3, "%s", name);
}

/* The kept layers' outputs beside each other, element by element: k numbers for each of d. */
static int weave(deck *b, const int *kept) {
    int  column[KEPT_MAX], n = (int)b->e.n_kept;
    char name[64];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "kept.%d", i);
        column[i] = tiles_of(b, kept[i], name);
        column[i] =
            ph_build_reshape(b->g, column[i], (const int64_t[]){0, 0, b->t->d, 1}, 4, "%s.column", name);
    }
    int x = ph_graph_node(b->g, "Concat", column, n, PH_ATTRS(PH_INT("axis", 3)), "kept.woven");
    return ph_build_reshape(b->g, x, (const int64_t[]){0, 0, (int64_t)n * b->t->d}, 3, "kept");
}

static void build_tower(deck *b) {
    const ph_tower *t = b->t;
    int             kept[KEPT_MAX];
    char            as[64];
    b->n = ph_tower_patches(t) + 1;
    b->pad = (8 - b->n % 8) % 8;
    b->ids = ph_graph_input(b->g, "tile_ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_I)));
    int x = together(b, embed(b), "vision.hidden.0");
    b->mask = make_mask(b);
    for (int i = 0; i < t->n_layers && !b->g->rc; i++) {
        snprintf(as, sizeof as, "vision.hidden.%d", i + 1);
        x = layer(b, x, "transformer", i, 0, as);
        for (size_t k = 0; k < b->e.n_kept; k++)
            if (b->e.kept[k] == i) kept[k] = x;
    }
    x = norm(b, x, "layernorm_post");
    x = ph_build_reshape(b->g, x, (const int64_t[]){-1, b->n + b->pad, t->d}, 3, "global.apart");
    x = together(b, add_form(b, x, "post_tile_positional_embedding"), "global.hidden.0");
    for (int i = 0; i < b->e.n_global && !b->g->rc; i++) {
        snprintf(as, sizeof as, "global.hidden.%d", i + 1);
        x = layer(b, x, "global_transformer", i, 1, as);
    }
    x = tiles_of(b, x, "global");
    if (b->e.n_kept && !b->g->rc)
        x = ph_graph_node(b->g, "Concat", PH_IN(x, weave(b, kept)), PH_ATTRS(PH_INT("axis", 2)), "all");
    ph_graph_output(b->g, x, "features");
}

/* The prefix under which `probe` stands. */
static int find_names(ph_graph *g, const ph_source *s, const char *const *prefixes, size_t n,
                      const char *probe, ph_names *out) {
    for (size_t i = 0; i < n; i++) {
        *out = (ph_names){.weights = ph_source_weights(s), .prefix = prefixes[i], .head_prefix = ""};
        if (ph_names_find(out, probe)) return 1;
    }
    ph_graph_fail(g, PH_EMISMATCH, "the weights of %s hold no %s%s: the vision part is missing", s->path,
                  prefixes[0], probe);
    return 0;
}

static void vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    static const char *const prefixes[] = {"vision_model.", "model.vision_model."};
    deck                     b = {.g = g, .t = &spec->tower};
    ph_err                   err = {0};
    g->modality = PH_MOD_VISION;
    if (!find_names(g, s, prefixes, 2, "patch_embedding.weight", &b.names)) return;
    if (read_eye(s, b.t, &b.e, &err))
        ph_graph_fail(g, err.code, "%s", err.msg);
    else
        build_tower(&b);
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    static const char *const prefixes[] = {"", "model."};
    const ph_bridge_spec    *b = &spec->bridge;
    ph_names                 names;
    if (!find_names(g, s, prefixes, 2, "multi_modal_projector.weight", &names)) return;
    int x = ph_graph_input(
        g, "features", PH_F32,
        ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(b->tokens_per_tile), ph_dim_of(b->d_in)));
    x = ph_build_linear(g, &names, x, b->d_in, b->d_out, 1, "multi_modal_projector");
    ph_graph_output(g, x, "visual");
}

/* ---- the prompt ---- */

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    (void)tiles;
    return ph_pieces_text(out, err, "%s", spec->image_marker);
}

static int32_t tile_id(const ph_spec *spec, const ph_tile_layout *l, int tile) {
    return form_of(spec->tower.tiles, l->rows, l->cols) * spec->tower.tiles + tile;
}

static const char *const types[] = {"mllama", NULL};

const ph_family ph_family_mllama = {
    .name = "mllama",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .spec = spec,
    .vision = vision,
    .bridge = bridge,
    .image = image,
    .tile_id = tile_id,
    .text = "llama",
    .template_ = "llama3",
    .source = "arXiv:2407.21783; transformers modeling_mllama.py",
};
