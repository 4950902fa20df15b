/* qwen2_vl.c - Qwen2-VL: a tower over packed patches, a patch merger, a Qwen2 decoder with M-RoPE.
 *
 * Pictures keep their ratio; 2 x 2 patches become one visual token.  The template
 * writes <|vision_start|> and <|vision_end|> around the picture's mark.
 * Source: arXiv:2409.12191; reference: transformers modeling_qwen2_vl.py, processing_qwen2_vl.py.
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys vision = ph_keys_vision(s);
    PH_TRY(ph_packed_read(s, out, err));
    return ph_keys_act_or(&vision, "hidden_act", PH_ACT_GELU_QUICK, &out->tower.act, err);
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
    .names = ph_packed_names,
    .n_names = PH_N_PACKED_NAMES,
    .template_ = "chatml",
    .source = "arXiv:2409.12191; transformers modeling_qwen2_vl.py",
};
