/* llava_next.c - LLaVA-NeXT: LLaVA's tower and MLP over the whole picture and over tiles of a larger one.
 *
 *     features [I, n, d] ─ Linear act Linear ─ [I, n, d_model] ─ Concat newline ─ visual [I, n + 1, d_model]
 *
 * The newline vector rides along as one row more of each tile; anyres.c says which rows become tokens, in
 * which order.  A picture stands in the prompt as one run of them.
 *
 * Source: arXiv:2310.03744 and the LLaVA-NeXT report (2024-01-30); reference: transformers
 * modeling_llava_next.py, processing_llava_next.py.
 */
#include "model/export.h"

/* GGUF: how the tiles' tokens are put together. */
static const char merge_key[] = "clip.vision.mm_patch_merge_type", merge_word[] = "spatial_unpad";

static ph_rc check_merge(const ph_source *s, ph_err *err) {
    const char  *key = merge_key;
    ph_gguf_text word;
    if (!s->is_gguf || !ph_gguf_find(&s->mmproj, key)) return PH_OK;
    PH_TRY(ph_gguf_text_of(&s->mmproj, key, &word, err));
    if (ph_gguf_text_is(word, merge_word)) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP, "%s: %s '%.*s' is not supported; %s is", s->mmproj.name, key,
                   (int)(word.n < 40 ? word.n : 40), word.at, merge_word);
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys   top = ph_keys_top(s);
    ph_tower *t = &out->tower;
    PH_TRY(ph_family_llava.spec(s, out, err));
    PH_TRY(check_merge(s, err));
    if (!t->has_class) { /* all rows are patches */
        t->drop_class = 0;
    } else if (!t->drop_class) {
        return PH_FAIL(
            err, PH_EUNSUP,
            "%s: vision_feature_select_strategy 'full' leaves a class token in each tile, and tiles "
            "would no longer be squares",
            top.where);
    }
    out->bridge.tokens_per_tile = ph_tower_patches(t);
    out->bridge.has_newline = 1;
    return PH_OK;
}

static int newline(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_names names;
    ph_names_loose(s, &names);
    return ph_names_weight(&names, g, ph_shape_of(1, ph_dim_of(spec->bridge.d_out)), "image_newline");
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_bridge_spec *b = &spec->bridge;
    ph_names              names;
    int                   features = ph_build_bridge_input(g, s, &names, b->tokens_per_tile, b->d_in);
    if (features < 0) return;
    int x = ph_build_projector(g, b, &names, features);
    int line = ph_build_repeat(g, features, newline(g, spec, s), "newline");
    x = ph_graph_node(g, "Concat", PH_IN(x, line), PH_ATTRS(PH_INT("axis", 1)), "bridge.rows");
    ph_graph_output(g, x, "visual");
}

static void vision(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    ph_family_llava.vision(g, spec, s);
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    return ph_pieces_run(out, ph_anyres_tokens(spec, tiles), err);
}

/* The canvases to choose from, width before height. */
static void export_keys(ph_gguf_meta *to, const ph_model *m) {
    const ph_recipe *r = &m->recipe;
    ph_export_put_word(to, merge_key, merge_word);
    ph_gguf_put_array(to, "clip.vision.image_grid_pinpoints", PH_GGUF_I32, 2 * (size_t)r->n_pinpoints);
    for (int i = 0; i < r->n_pinpoints; i++) {
        ph_gguf_add_int(to, r->pinpoint[i][1]);
        ph_gguf_add_int(to, r->pinpoint[i][0]);
    }
}

static const char *const hf_prefix[] = {"language_model.model.", "language_model.",
                                        "vision_tower.vision_model.", "multi_modal_projector."};
static const char *const types[] = {"llava_next", NULL};

const ph_family ph_family_llava_next = {
    .name = "llava_next",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "mlp",
    .projector_key = "clip.vision.image_grid_pinpoints",
    .spec = spec,
    .vision = vision,
    .bridge = bridge,
    .image = image,
    .hf_class = "LlavaNextForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .hf_vision = "clip_vision_model",
    .hf_vision_plain = "siglip_vision_model",
    .names = ph_projector_names,
    .n_names = PH_N_PROJECTOR_NAMES,
    .is_llava_projector = 1,
    .export_keys = export_keys,
    .template_ = "llama2",
    .source = "LLaVA-NeXT, 2024-01-30; transformers modeling_llava_next.py",
};
