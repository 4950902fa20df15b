/* phi3.c - Phi-3: q, k, v in one product, gate and up in another, perhaps only a part of a head rotates.
 *
 * The long-context variants divide frequencies by lists: longrope.c.
 * Source: arXiv:2404.14219; reference: transformers modeling_phi3.py; GGUF architecture "phi3".
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys     k = ph_keys_text(s);
    ph_decoder *d = &out->text;
    PH_TRY(ph_decoder_read(&k, s, d, err));
    d->is_fused = 1;
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
