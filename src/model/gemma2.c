/* gemma2.c - Gemma 2: every other layer sees a window, attention and logits are softly capped.
 *
 * Source: arXiv:2408.00118; reference: transformers modeling_gemma2.py; GGUF architecture "gemma2".
 */
#include "model/family.h"

/* A cap that the config leaves out is its class's own; one that it sets to null is none. */
static int is_left_out(const ph_keys *k, const char *name) {
    ph_json value = ph_json_get(&k->object, name);
    return k->gguf ? !ph_keys_has(k, name) : ph_json_kind_of(&value) == PH_JSON_ABSENT;
}

static ph_rc spec(const ph_source *s, ph_spec *out, ph_err *err) {
    ph_keys     k = ph_keys_text(s);
    ph_decoder *d = &out->text;
    PH_TRY(ph_gemma_read(s, d, err));
    if (is_left_out(&k, "attn_logit_softcapping")) d->attn_softcap = 50;
    if (is_left_out(&k, "final_logit_softcapping")) d->logit_softcap = 30;
    d->n_kinds = 2;
    d->kind[1] = d->kind[0];
    PH_TRY(ph_keys_int_or(&k, "sliding_window", 1, 1 << 28, 4096, &d->kind[1].window, err));
    for (int i = 0; i < d->n_layers; i++) d->layer_kind[i] = i % 2 == 0;
    return ph_layer_types_read(&k, d, err);
}

static const char *const types[] = {"gemma2", NULL};

const ph_family ph_family_gemma2 = {
    .name = "gemma2",
    .kind = PH_FAMILY_TEXT,
    .types = types,
    .spec = spec,
    .gguf = "gemma2",
    .gguf_act = PH_ACT_GELU_TANH,
    .keys = ph_gemma_keys,
    .n_keys = PH_N_GEMMA_KEYS,
    .hf_class = "Gemma2ForCausalLM",
    .template_ = "gemma",
    .source = "arXiv:2408.00118; transformers modeling_gemma2.py",
};
