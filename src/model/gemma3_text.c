/* gemma3_text.c - Gemma 3's decoder: five layers with a window to one without, each kind with its own rope.
 *
 * Layers with a window rotate by rope_local_base_freq, unscaled; the others by rope_theta with rope_scaling.
 * Source: arXiv:2503.19786; reference: transformers modeling_gemma3.py; GGUF architecture "gemma3".
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys     k = ph_keys_text(s);
    ph_decoder *d = &out->text;
    double      local;
    int         every, is_both_ways;
    PH_TRY(ph_keys_bool_or(&k, "use_bidirectional_attention", 0, &is_both_ways, err));
    if (is_both_ways)
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: use_bidirectional_attention: an encoder for embeddings is not supported",
                       k.where);
    PH_TRY(ph_gemma_read(s, d, err));
    d->has_qk_norm = 1;
    d->n_kinds = 2;
    PH_TRY(ph_keys_float_in(&k, "rope_local_base_freq", 1, PH_THETA_MAX, 10000.0, &local, err));
    PH_TRY(ph_keys_int_or(&k, "sliding_window", 1, 1 << 28, 4096, &d->kind[1].window, err));
    PH_TRY(ph_keys_int_or(&k, "sliding_window_pattern", 1, 1024, 6, &every, err));
    d->kind[1].rope = (ph_rope_spec){.dim = d->kind[0].rope.dim,
                                     .theta = local,
                                     .kind = "none",
                                     .factor = 1,
                                     .original_context = d->context};
    if (!ph_keys_has(&k, "rope_theta")) d->kind[0].rope.theta = 1000000.0;
    for (int i = 0; i < d->n_layers; i++) d->layer_kind[i] = (i + 1) % every != 0;
    return ph_layer_types_read(&k, d, err);
}

static const ph_decoder_defaults defaults = {"gemma3_text", 26, 2304, 8, 4, 256, 9216, 262208, 131072};

static const char *const types[] = {"gemma3_text", "gemma3", NULL};

const ph_family ph_family_gemma3_text = {
    .name = "gemma3_text",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "gemma3",
    .gguf_act = PH_ACT_GELU_TANH,
    .keys = ph_gemma_keys,
    .n_keys = PH_N_GEMMA_KEYS,
    .hf_class = "Gemma3ForCausalLM",
    .defaults = &defaults,
    .template_ = "gemma",
    .source = "arXiv:2503.19786; transformers modeling_gemma3.py",
};
