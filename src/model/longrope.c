/* longrope.c - LongRoPE: a divisor for each frequency, one list for short texts and one for long ones.
 *
 * The reference takes the short list while a text fits the context that the model was first trained for, and
 * the long one beyond; keys that stand in the cache by then were turned by the other list.  Here a sequence
 * is turned by one list from its begin to its end: the short one, so the model is made for
 * original_max_position_embeddings tokens. cos and sin are multiplied with sqrt(1 + ln s / ln original), s
 * the whole context over the original. Source: arXiv:2402.13753; reference: transformers
 * modeling_rope_utils.py, _compute_longrope_parameters.
 */
#include "model/family.h"

#include <math.h>
#include <string.h>

static ph_rc check_count(const ph_keys *k, const ph_decoder *d, const char *name, size_t n, ph_err *err) {
    if (n == (size_t)d->kind[0].rope.dim / 2) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "%s: %s has %zu divisors for %d frequencies", k->where, name, n,
                   d->kind[0].rope.dim / 2);
}

static ph_rc read_list(const ph_keys *k, const ph_keys *scaling, ph_decoder *d, ph_err *err) {
    size_t n;
    PH_TRY(ph_json_reals(&scaling->object, "short_factor", d->rope_divisors, PH_DIVISORS_MAX, &n, err));
    return check_count(k, d, "rope_scaling.short_factor", n, err);
}

static ph_rc read_table(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    const ph_weight *w = ph_weights_find(ph_source_weights(s), "rope_factors_short.weight");
    if (!w || w->dtype != PH_F32 || w->rank != 1 || w->dim[0] > PH_DIVISORS_MAX)
        return PH_FAIL(err, PH_EMISMATCH, "%s: tensor rope_factors_short.weight must be one row of F32",
                       k->where);
    memcpy(d->rope_divisors, w->bytes, (size_t)w->dim[0] * sizeof(float));
    return check_count(k, d, "tensor rope_factors_short.weight", (size_t)w->dim[0], err);
}

static double magnitude(double whole, double original) {
    return whole <= original || original <= 1 ? 1 : sqrt(1 + log(whole / original) / log(original));
}

ph_rc ph_longrope_read(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    ph_rope_spec *r = &d->kind[0].rope;
    ph_keys       scaling = ph_keys_under(k, "rope_scaling");
    int           original;
    if (ph_keys_empty(&scaling)) scaling = ph_keys_under(k, "rope_parameters");
    PH_TRY(s->is_gguf ? read_table(k, s, d, err) : read_list(k, &scaling, d, err));
    for (int i = 0; i < r->dim / 2; i++)
        if (!(d->rope_divisors[i] > 0 && isfinite(d->rope_divisors[i])))
            return PH_FAIL(err, PH_EFORMAT, "%s: divisor %d of the rotation is %g", k->where, i,
                           (double)d->rope_divisors[i]);
    PH_TRY(ph_keys_int_or(k, "original_max_position_embeddings", 1, 1 << 28,
                          r->original_context > 0 ? (int)r->original_context : d->context, &original, err));
    if (!(r->attention_factor > 0)) r->attention_factor = magnitude(d->context, original);
    r->kind = "factors";
    r->original_context = original;
    d->has_divisors = 1;
    if (original < d->context) d->context = original;
    return PH_OK;
}
