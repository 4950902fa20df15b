/* idefics3.c - Idefics3 and SmolVLM: a SigLIP tower, a pixel shuffle, one projection, a Llama decoder.
 *
 *     features [I, s*s, d] ─ shuffle by r ─ [I, (s/r)^2, r*r*d] ─ Linear ─ visual [I, (s/r)^2, d_model]
 *
 * A split picture stands in the prompt as its grid of tiles, row by row, each with
 * its place, then the whole picture once more:
 *
 *     <fake_token_around_image><row_1_col_1> run ... \n
 *     ...
 *     \n<fake_token_around_image><global-img> run <fake_token_around_image>
 *
 * Source: arXiv:2408.12637, arXiv:2504.05299; reference: transformers modeling_idefics3.py,
 * processing_idefics3.py.
 */
#include "model/family.h"

#define AROUND "<fake_token_around_image>"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys         vision = ph_keys_vision(s), top = ph_keys_top(s);
    ph_tower       *t = &out->tower;
    ph_bridge_spec *b = &out->bridge;
    int             token;
    PH_TRY(ph_tower_read(&vision, t, err));
    t->has_post_norm = 1;
    t->has_patch_bias = 1;
    PH_TRY(ph_keys_int_or(&top, "scale_factor", 1, 64, 2, &b->shuffle, err));
    PH_TRY(ph_keys_int_or(&top, "image_token_id", -1, 1 << 24, -1, &token, err));
    int side = t->image / t->patch;
    if (side % b->shuffle)
        return PH_FAIL(err, PH_EFORMAT, "%s: scale_factor %d does not divide the %d patches of a side",
                       top.where, b->shuffle, side);
    b->d_in = t->d;
    b->d_hidden = t->d * b->shuffle * b->shuffle;
    b->d_out = out->text.d_model;
    b->tokens_per_tile = side / b->shuffle * (side / b->shuffle);
    out->image_token = token;
    out->image_marker = "<image>";
    return PH_OK;
}

static void bridge(ph_graph *g, const ph_spec *spec, const ph_source *s) {
    const ph_bridge_spec *b = &spec->bridge;
    const ph_tower       *t = &spec->tower;
    ph_names              names;
    int                   x = ph_build_bridge_input(g, s, &names, ph_tower_patches(t), t->d);
    if (x < 0) return;
    x = ph_build_shuffle(g, x, t->image / t->patch, b->shuffle, t->d);
    x = ph_build_linear(g, &names, x, b->d_hidden, b->d_out, b->has_bias, "modality_projection.proj");
    ph_graph_output(g, x, "visual");
}

static ph_rc image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    int run = spec->bridge.tokens_per_tile;
    for (int row = 0; row < tiles->rows; row++) {
        for (int col = 0; col < tiles->cols; col++) {
            PH_TRY(ph_pieces_text(out, err, AROUND "<row_%d_col_%d>", row + 1, col + 1));
            PH_TRY(ph_pieces_run(out, run, err));
        }
        PH_TRY(ph_pieces_text(out, err, "\n"));
    }
    PH_TRY(ph_pieces_text(out, err, "%s" AROUND "<global-img>", tiles->rows ? "\n" : ""));
    PH_TRY(ph_pieces_run(out, run, err));
    return ph_pieces_text(out, err, AROUND);
}

static const ph_name_row names_of[] = {
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "modality_projection.proj", "mm.model.fc"},
};

static const char *const hf_prefix[] = {"model.text_model.", "", "model.vision_model.", "model.connector."};
static const ph_tower_defaults tower_defaults[] = {
    {"idefics3_vision", PH_ACT_GELU_TANH, 1e-6, 12, 1152, 16, 3072, 224, 32},
    {"smolvlm_vision", PH_ACT_GELU_TANH, 1e-6, 12, 1152, 16, 3072, 224, 32},
    {.type = NULL},
};

static const char *const types[] = {"idefics3", "smolvlm", NULL};

const ph_family ph_family_idefics3 = {
    .name = "idefics3",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "idefics3",
    .spec = spec,
    .vision = ph_tower_vision,
    .bridge = bridge,
    .image = image,
    .hf_class = "Idefics3ForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .names = names_of,
    .n_names = sizeof names_of / sizeof *names_of,
    .hf_vision = "idefics3_vision",
    .tower_defaults = tower_defaults,
    .template_ = "chatml",
    .source = "arXiv:2408.12637; transformers modeling_idefics3.py",
};
