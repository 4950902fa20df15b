/* qwen2_5_vl.c - Qwen2.5-VL: Qwen2-VL with RMSNorm and gated MLPs in its tower, windows, and seconds.
 *
 * Most layers of the tower see windows of window_size pixels; those that
 * fullatt_block_indexes names see the whole frame.  A video's time axis counts seconds.
 * Source: arXiv:2502.13923; reference: transformers modeling_qwen2_5_vl.py.
 */
#include "model/export.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys    vision = ph_keys_vision(s);
    ph_packed *p = &out->packed;
    PH_TRY(ph_packed_read(s, out, err));
    p->is_gated = 1;
    PH_TRY(ph_keys_act_or(&vision, "hidden_act", PH_ACT_SILU, &out->tower.act, err));
    PH_TRY(ph_keys_int_or(&vision, "tokens_per_second", 1, 1 << 10, 4, &p->tokens_per_second, err));
    return ph_packed_read_windows(s, out, err);
}

static const ph_key_row keys[] = {
    {"", "window_size", "%.window_size"},
    {"", "fullatt_block_indexes", "%.wa_layer_indexes"},
    {"", "tokens_per_second", "%.tokens_per_second"}, /* our own: videos are ours */
};

/* Which layers see the whole frame: by the rule that the field's files have, or one by one. */
static void export_full_layers(ph_gguf_meta *to, const ph_spec *spec) {
    int period = ph_packed_period(spec), n = 0;
    if (period) {
        ph_export_put_int(to, "clip.vision.n_wa_pattern", period);
        return;
    }
    for (int i = 0; i < spec->tower.n_layers; i++) n += spec->packed.is_full[i];
    ph_gguf_put_array(to, "clip.vision.wa_layer_indexes", PH_GGUF_I32, (size_t)n);
    for (int i = 0; i < spec->tower.n_layers; i++)
        if (spec->packed.is_full[i]) ph_gguf_add_int(to, i);
}

/* window_size is in pixels. */
static int64_t window_size(const ph_spec *spec) {
    return (int64_t)spec->packed.window * spec->packed.merge * spec->tower.patch;
}

static void export_keys(ph_gguf_meta *to, const ph_model *m) {
    ph_packed_export_keys(to, m);
    ph_export_put_int(to, "clip.vision.window_size", window_size(&m->spec));
    export_full_layers(to, &m->spec);
    ph_export_put_int(to, "clip.vision.tokens_per_second", m->spec.packed.tokens_per_second);
}

static void export_config(json_t *config, json_t *vision, const ph_model *m) {
    const ph_packed *p = &m->spec.packed;
    json_t          *full = json_array();
    ph_packed_export_config(config, vision, m);
    ph_export_set_int(vision, "out_hidden_size", m->spec.bridge.d_out);
    ph_export_set_int(vision, "tokens_per_second", p->tokens_per_second);
    ph_export_set_int(vision, "window_size", window_size(&m->spec));
    for (int i = 0; i < m->spec.tower.n_layers; i++)
        if (p->is_full[i]) json_array_append_new(full, json_integer(i));
    json_object_set_new(vision, "fullatt_block_indexes", full);
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
    .tower_names = ph_packed_names,
    .n_tower_names = PH_N_PACKED_NAMES,
    .names = ph_packed_bridge_names,
    .n_names = PH_N_PACKED_BRIDGE_NAMES,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .export_keys = export_keys,
    .export_config = export_config,
    .template_ = "chatml",
    .source = "arXiv:2502.13923; transformers modeling_qwen2_5_vl.py",
};
