/* qwen2.c - Qwen2 and Qwen2.5: q, k and v have biases, which the config does not mention, and o has none.
 *
 * Source: arXiv:2407.10671; reference: transformers modeling_qwen2.py; GGUF architecture "qwen2".
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys k = ph_keys_text(s);
    PH_TRY(ph_decoder_read(&k, s, &out->text, err));
    out->text.has_qkv_bias = 1;
    return ph_window_read(&k, &out->text, err);
}

static const ph_decoder_defaults defaults = {"qwen2", 32, 4096, 32, 0, 0, 22016, 151936, 32768};

/* Vision-language checkpoints name their decoder so, or (older ones) keep its keys beside their own. */
static const char *const types[] = {"qwen2",           "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text",
                                    "qwen2_5_vl_text", "qwen2vl",  "qwen25vl",   NULL};

const ph_family ph_family_qwen2 = {
    .name = "qwen2",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "qwen2",
    .gguf_mrope = "qwen2vl",
    .hf_class = "Qwen2ForCausalLM",
    .defaults = &defaults,
    .template_ = "chatml",
    .source = "arXiv:2407.10671; transformers modeling_qwen2.py",
};
