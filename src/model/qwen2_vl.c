/* qwen2_vl.c - Qwen2-VL: a tower over packed patches, a patch merger, a Qwen2 decoder with M-RoPE.
 *
 * Pictures keep their ratio; 2 x 2 patches become one visual token.  The template
 * writes <|vision_start|> and <|vision_end|> around the picture's mark.
 * Source: arXiv:2409.12191; reference: transformers modeling_qwen2_vl.py, processing_qwen2_vl.py.
 */
#include "model/export.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys vision = ph_keys_vision(s);
    PH_TRY(ph_packed_read(s, out, err));
    return ph_keys_act_or(&vision, "hidden_act", PH_ACT_GELU_QUICK, &out->tower.act, err);
}

/* hidden_size is the language model's there. */
static void export_config(json_t *config, json_t *vision, const ph_model *m) {
    const ph_tower *t = &m->spec.tower;
    ph_packed_export_config(config, vision, m);
    ph_export_set_int(vision, "embed_dim", t->d);
    ph_export_set_int(vision, "hidden_size", m->spec.bridge.d_out);
    ph_export_set_real(vision, "mlp_ratio", (double)t->d_ff / t->d);
}

static const char *const hf_prefix[] = {"model.", "", "visual.", "visual."};
static const char *const types[] = {"qwen2_vl", NULL};

const ph_family ph_family_qwen2_vl = {
    .name = "qwen2_vl",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "qwen2vl_merger",
    .spec = spec,
    .vision = ph_packed_vision,
    .bridge = ph_packed_bridge,
    .image = ph_packed_image,
    .place = ph_packed_place,
    .hf_class = "Qwen2VLForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .hf_vision = "qwen2_vl",
    .hf_text = "qwen2_vl_text",
    .tower_names = ph_packed_names,
    .n_tower_names = PH_N_PACKED_NAMES,
    .names = ph_packed_bridge_names,
    .n_names = PH_N_PACKED_BRIDGE_NAMES,
    .export_keys = ph_packed_export_keys,
    .export_config = export_config,
    .template_ = "chatml",
    .source = "arXiv:2409.12191; transformers modeling_qwen2_vl.py",
};
