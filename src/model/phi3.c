/* phi3.c - Phi-3: q, k, v in one product, gate and up in another, perhaps only a part of a head rotates.
 *
 * The long-context variants (rope type longrope) scale each frequency by tables for short and for long
 * prompts; they are refused by name. Source: arXiv:2404.14219; reference: transformers modeling_phi3.py; GGUF
 * architecture "phi3".
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys     k = ph_keys_text(s);
    ph_decoder *d = &out->text;
    double      part;
    PH_TRY(ph_decoder_read(&k, s, d, err));
    if (s->is_gguf && ph_weights_find(ph_source_weights(s), "rope_factors_long.weight"))
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: tensor rope_factors_long.weight: rope scaling 'longrope' is not supported",
                       k.where);
    d->is_fused = 1;
    PH_TRY(ph_keys_float_or(&k, "partial_rotary_factor", 1.0, &part, err));
    if (!(part > 0 && part <= 1))
        return PH_FAIL(err, PH_EFORMAT, "%s: partial_rotary_factor is %g", k.where, part);
    if (part < 1) d->kind[0].rope.dim = (int)(part * d->d_head);
    if (d->kind[0].rope.dim % 2)
        return PH_FAIL(err, PH_EFORMAT, "%s: %d rotating elements a head", k.where, d->kind[0].rope.dim);
    return ph_keys_int_or(&k, "sliding_window", 0, 1 << 28, 0, &d->kind[0].window, err);
}

static const char *const types[] = {"phi3", NULL};

const ph_family ph_family_phi3 = {
    .name = "phi3",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "phi3",
    .hf_class = "Phi3ForCausalLM",
    .template_ = "phi3",
    .source = "arXiv:2404.14219; transformers modeling_phi3.py",
};
