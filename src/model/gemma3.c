/* gemma3.c - Gemma 3 with pictures: a SigLIP tower, average pooling, one projection, Gemma 3's decoder.
 *
 *     features [I, s*s, d] ─ mean of k x k cells ─ [I, (s/k)^2, d] ─ RMSNorm (1 + w) ─ MatMul ─ visual
 *
 * A picture stands in the prompt between its marks, with empty lines around; its tokens see each other both
 * ways.  With pan and scan the crops follow the whole picture, each as a picture of its own, in a sentence
 * that says so.  The decoder is gemma3_text.c.
 *
 * Source: arXiv:2503.19786; reference: transformers modeling_gemma3.py, processing_gemma3.py.
 */
#include "model/family.h"

#include <math.h>

#define BEGIN "\n\n<start_of_image>"
#define END   "<end_of_image>\n\n"

/* Patches of a side of the cells that are averaged: the files of the two containers say it differently. */
static ph_rc read_cell(const ph_source *s, const ph_tower *t, int *out, ph_err *err) {
    ph_keys top = ph_keys_top(s);
    int     side = t->image / t->patch, tokens;
    if (s->is_gguf) {
        PH_TRY(ph_keys_int_or(&top, "scale_factor", 1, 64, 4, out, err));
    } else {
        PH_TRY(ph_keys_int_or(&top, "mm_tokens_per_image", 1, 1 << 16, 256, &tokens, err));
        int per_side = (int)sqrt(tokens);
        *out = per_side * per_side == tokens && side % per_side == 0 ? side / per_side : 0;
        if (!*out)
            return PH_FAIL(err, PH_EFORMAT, "%s: mm_tokens_per_image %d of %d x %d patches", top.where,
                           tokens, side, side);
    }
    if (side % *out)
        return PH_FAIL(err, PH_EFORMAT, "%s: cells of %d patches do not divide the %d patches of a side",
                       top.where, *out, side);
    return PH_OK;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys         vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower       *t = &out->tower;
    ph_bridge_spec *b = &out->bridge;
    PH_TRY(ph_tower_read(&vision, t, err));
    t->has_post_norm = 1;
    t->has_patch_bias = 1;
    PH_TRY(read_cell(s, t, &b->shuffle, err));
    PH_TRY(ph_keys_image_token(&top, &out->image_token, err));
    int cells = t->image / t->patch / b->shuffle;
    b->d_in = b->d_hidden = t->d;
    b->d_out = out->text.d_model;
    b->tokens_per_tile = cells * cells;
    out->image_marker = "<start_of_image>";
    out->image_sees_itself = 1;
    return PH_OK;
}

static int pool(ph_graph *g, int x, int64_t side, int64_t cell, int64_t d) {
    static const int64_t axes[2] = {2, 4};
    int64_t              cells = side / cell;
    x = ph_build_reshape(g, x, (const int64_t[]){0, cells, cell, cells, cell, d}, 6, "pool.cells");
    int a = ph_graph_constant(g, "pool.axes", PH_I64, ph_shape_of(1, ph_dim_of(2)), axes);
    x = ph_graph_node(g, "ReduceMean", PH_IN(x, a), PH_ATTRS(PH_INT("keepdims", 0)), "pool.mean");
    return ph_build_reshape(g, x, (const int64_t[]){0, cells * cells, d}, 3, "pooled");
}

/* The projection is stored [in, out], so it is a MatMul and no Linear. */
static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_bridge_spec *b = &spec->bridge;
    const ph_tower       *t = &spec->tower;
    ph_names              names;
    int                   x = ph_build_bridge_input(g, s, &names, ph_tower_patches(t), t->d);
    if (x < 0) return;
    x = pool(g, x, t->image / t->patch, b->shuffle, t->d);
    int w = s->is_gguf
                ? ph_names_weight(&names, g, ph_shape_of(1, ph_dim_of(t->d)), "mm_soft_emb_norm.weight")
                : ph_names_weight_plus(&names, g, t->d, 1.0F, "mm_soft_emb_norm");
    x = ph_graph_node(g, "RMSNormalization", PH_IN(x, w), PH_ATTRS(PH_FLOAT("epsilon", (double)t->norm_eps)),
                      "bridge.norm");
    int p = ph_names_weight(&names, g, ph_shape_of(2, ph_dim_of(b->d_in), ph_dim_of(b->d_out)),
                            "mm_input_projection_weight");
    ph_graph_output(g, ph_graph_node(g, "MatMul", PH_IN(x, p), PH_NO_ATTRS, "bridge.projected"), "visual");
}

static ph_rc one(ph_pieces *out, int n, const char *before, ph_err *err) {
    PH_TRY(ph_pieces_text(out, err, "%s" BEGIN, before));
    PH_TRY(ph_pieces_run(out, n, err));
    return ph_pieces_text(out, err, END);
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    int n = spec->bridge.tokens_per_tile, crops = tiles->n_tiles - 1;
    if (!crops) return one(out, n, "", err);
    PH_TRY(one(out, n, "Here is the original image ", err));
    for (int i = 0; i < crops; i++)
        PH_TRY(one(out, n, i ? " " : " and here are some crops to help you see better ", err));
    return PH_OK;
}

static const ph_name_row names_of[] = {
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_NORM, "mm_soft_emb_norm", "mm.soft_emb_norm"},
    {PH_NAMES_BRIDGE, PH_NAME_BARE, "mm_input_projection_weight", "mm.input_projection.weight"},
};

static const char *const hf_prefix[] = {"language_model.model.", "language_model.",
                                        "vision_tower.vision_model.", "multi_modal_projector."};
static const char *const types[] = {"gemma3", NULL};

const ph_family ph_family_gemma3 = {
    .name = "gemma3",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "gemma3",
    .spec = spec,
    .vision = ph_tower_vision,
    .bridge = bridge,
    .image = image,
    .hf_class = "Gemma3ForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .names = names_of,
    .n_names = sizeof names_of / sizeof *names_of,
    .hf_vision = "siglip_vision_model",
    .text = "gemma3_text",
    .template_ = "gemma",
    .source = "arXiv:2503.19786; transformers modeling_gemma3.py",
};
