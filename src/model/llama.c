/* llama.c - the Llama line of text models: Llama 1 to 3, SmolLM, SmolLM2, TinyLlama, Vicuna.
 *
 * The config keys and the graph are the decoder's own; this family adds nothing.
 * Source: arXiv:2302.13971; reference: transformers modeling_llama.py; GGUF architecture "llama".
 */
#include "model/family.h"

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys k = ph_keys_text(s);
    PH_TRY(ph_decoder_read(&k, s, &out->text, err));
    out->text.kind[0].rope.is_interleaved = s->is_gguf; /* its converter reorders q and k into pairs */
    if (!s->is_gguf) return PH_OK;
    /* GGUF files of this architecture may hold a Mistral, which has a window. */
    return ph_keys_int_or(&k, "sliding_window", 0, 1 << 28, 0, &out->text.kind[0].window, err);
}

static const ph_decoder_defaults defaults = {"llama", 32, 4096, 32, 0, 0, 11008, 32000, 2048};

static const char *const types[] = {"llama", NULL};

const ph_family ph_family_llama = {
    .name = "llama",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "llama",
    .gguf_pairs = 1,
    .hf_class = "LlamaForCausalLM",
    .hf_windowed = "mistral",
    .defaults = &defaults,
    .template_ = "chatml",
    .source = "arXiv:2302.13971; transformers modeling_llama.py",
};
