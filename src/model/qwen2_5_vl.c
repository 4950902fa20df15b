/* qwen2_5_vl.c - Qwen2.5-VL: Qwen2-VL with RMSNorm and gated MLPs in its tower, windows, and seconds.
 *
 * Most layers of the tower see windows of window_size pixels; those that
 * fullatt_block_indexes names see the whole frame.  A video's time axis counts seconds.
 * Source: arXiv:2502.13923; reference: transformers modeling_qwen2_5_vl.py.
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys    vision = ph_keys_vision(s);
    ph_packed *p = &out->packed;
    PH_TRY(ph_packed_read(s, out, err));
    p->is_gated = 1;
    PH_TRY(ph_keys_act_or(&vision, "hidden_act", PH_ACT_SILU, &out->tower.act, err));
    PH_TRY(ph_keys_int_or(&vision, "tokens_per_second", 1, 1 << 10, 4, &p->tokens_per_second, err));
    return ph_packed_read_windows(s, out, err);
}

static const char *const hf_prefix[] = {"model.", "", "visual.", "visual."};
static const char *const types[] = {"qwen2_5_vl", NULL};

const ph_family ph_family_qwen2_5_vl = {
    .name = "qwen2_5_vl",
    .kind = PH_FAMILY_VISION_LANGUAGE,
    .types = types,
    .projector = "qwen2.5vl_merger",
    .spec = spec,
    .vision = ph_packed_vision,
    .bridge = ph_packed_bridge,
    .image = ph_packed_image,
    .place = ph_packed_place,
    .hf_class = "Qwen2_5_VLForConditionalGeneration",
    .hf_prefix = hf_prefix,
    .hf_vision = "qwen2_5_vl",
    .hf_text = "qwen2_5_vl_text",
    .names = ph_packed_names,
    .n_names = PH_N_PACKED_NAMES,
    .template_ = "chatml",
    .source = "arXiv:2502.13923; transformers modeling_qwen2_5_vl.py",
};
