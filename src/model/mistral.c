/* mistral.c - Mistral: Llama's decoder with a sliding window.  GGUF files call it "llama".
 *
 * Source: arXiv:2310.06825; reference: transformers modeling_mistral.py.
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys k = ph_keys_text(s);
    PH_TRY(ph_decoder_read(&k, s, &out->text, err));
    return ph_keys_int_or(&k, "sliding_window", 0, 1 << 28, 0, &out->text.kind[0].window, err);
}

static const ph_decoder_defaults defaults = {"mistral", 32, 4096, 32, 8, 0, 14336, 32000, 131072};

static const char *const types[] = {"mistral", NULL};

const ph_family ph_family_mistral = {
    .name = "mistral",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "llama",
    .gguf_pairs = 1,
    .hf_class = "MistralForCausalLM",
    .defaults = &defaults,
    .template_ = "llama2",
    .source = "arXiv:2310.06825; transformers modeling_mistral.py",
};
