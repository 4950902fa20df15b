/* qwen3.c - Qwen3: no biases, and q and k are normalised a head at a time before they are rotated.
 *
 * Source: arXiv:2505.09388; reference: transformers modeling_qwen3.py; GGUF architecture "qwen3".
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys k = ph_keys_text(s);
    PH_TRY(ph_decoder_read(&k, s, &out->text, err));
    out->text.has_qk_norm = 1;
    return ph_window_read(&k, &out->text, err);
}

static const char *const types[] = {"qwen3", NULL};

const ph_family ph_family_qwen3 = {
    .name = "qwen3",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .template_ = "chatml",
    .source = "arXiv:2505.09388; transformers modeling_qwen3.py",
};
