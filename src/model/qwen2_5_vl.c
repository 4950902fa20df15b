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
    int        window;
    PH_TRY(ph_packed_read(s, out, err));
    p->is_gated = 1;
    PH_TRY(ph_keys_act_or(&vision, "hidden_act", PH_ACT_SILU, &out->tower.act, err));
    PH_TRY(ph_keys_int_or(&vision, "window_size", 1, 1 << 16, 112, &window, err));
    PH_TRY(ph_keys_int_or(&vision, "tokens_per_second", 1, 1 << 10, 4, &p->tokens_per_second, err));
    p->window = window / p->merge / out->tower.patch;
    if (p->window) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: window_size %d is less than a visual token of %d patches of %d pixels", vision.where,
                   window, p->merge, out->tower.patch);
}

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
    .template_ = "chatml",
    .source = "arXiv:2502.13923; transformers modeling_qwen2_5_vl.py",
};
