/* gemma.c - what the Gemma families share: norms by 1 + w before and after, scaled embeddings, GeGLU. */
#include "model/family.h"

#include <math.h>

const ph_key_row ph_gemma_keys[PH_N_GEMMA_KEYS] = {
    {"", "attn_logit_softcapping", "%.attn_logit_softcapping"},
    {"", "final_logit_softcapping", "%.final_logit_softcapping"},
    {"", "rope_local_base_freq", "%.rope.freq_base_swa"},
    {"", "query_pre_attn_scalar", "%.attention.query_pre_attn_scalar"}, /* our own: no other key says it */
};

/* Gemma 1 wrote "gelu" and meant the tanh form; later configs say hidden_activation. */
static ph_rc read_act(const ph_keys *k, ph_decoder *d, ph_err *err) {
    return ph_keys_act_or(k, "hidden_activation", PH_ACT_GELU_TANH, &d->act, err);
}

ph_rc ph_gemma_read(const ph_source *s, ph_decoder *d, ph_err *err) {
    ph_keys k = ph_keys_text(s);
    double  scalar, attn_cap, logit_cap;
    PH_TRY(ph_decoder_read(&k, s, d, err));
    PH_TRY(read_act(&k, d, err));
    PH_TRY(ph_keys_float_in(&k, "query_pre_attn_scalar", 1e-6, 1e6, d->d_head, &scalar, err));
    PH_TRY(ph_keys_float_in(&k, "attn_logit_softcapping", 0, 1e6, 0, &attn_cap, err));
    PH_TRY(ph_keys_float_in(&k, "final_logit_softcapping", 0, 1e6, 0, &logit_cap, err));
    d->attn_scale = (float)(1 / sqrt(scalar));
    d->attn_softcap = (float)attn_cap;
    d->logit_softcap = (float)logit_cap;
    d->embed_scale = (float)sqrt(d->d_model);
    d->has_post_norms = 1;
    d->norm_adds_one = 1;
    return PH_OK;
}
