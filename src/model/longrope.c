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

const char *const ph_longrope_tensor[2] = {"rope_factors_short.weight", "rope_factors_long.weight"};

static ph_rc check_count(const ph_keys *k, const ph_decoder *d, const char *of, const char *name, size_t n,
                         ph_err *err) {
    if (n == (size_t)d->kind[0].rope.dim / 2) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "%s: %s%s has %zu divisors for %d frequencies", k->where, of, name, n,
                   d->kind[0].rope.dim / 2);
}

/* transformers 5 calls the object otherwise. */
static ph_keys scaling_of(const ph_keys *k) {
    ph_keys scaling = ph_keys_under(k, "rope_scaling");
    return ph_keys_empty(&scaling) ? ph_keys_under(k, "rope_parameters") : scaling;
}

static ph_rc read_list(const ph_keys *k, const ph_decoder *d, int is_long, float *out, ph_err *err) {
    const char *name = is_long ? "long_factor" : "short_factor";
    ph_keys     scaling = scaling_of(k);
    size_t      n;
    PH_TRY(ph_json_reals(&scaling.object, name, out, PH_DIVISORS_MAX, &n, err));
    return check_count(k, d, "rope_scaling.", name, n, err);
}

static ph_rc read_table(const ph_keys *k, const ph_source *s, const ph_decoder *d, int is_long, float *out,
                        ph_err *err) {
    const char      *name = ph_longrope_tensor[is_long];
    const ph_weight *w = ph_weights_find(ph_source_weights(s), name);
    if (!w || w->dtype != PH_F32 || w->rank != 1 || w->dim[0] > PH_DIVISORS_MAX)
        return PH_FAIL(err, PH_EMISMATCH, "%s: tensor %s must be one row of F32", k->where, name);
    memcpy(out, w->bytes, (size_t)w->dim[0] * sizeof(float));
    return check_count(k, d, "tensor ", name, (size_t)w->dim[0], err);
}

static ph_rc read_divisors(const ph_keys *k, const ph_source *s, const ph_decoder *d, int is_long, float *out,
                           ph_err *err) {
    PH_TRY(s->is_gguf ? read_table(k, s, d, is_long, out, err) : read_list(k, d, is_long, out, err));
    for (int i = 0; i < d->kind[0].rope.dim / 2; i++)
        if (!(out[i] > 0 && isfinite(out[i])))
            return PH_FAIL(err, PH_EFORMAT, "%s: divisor %d of the rotation is %g", k->where, i,
                           (double)out[i]);
    return PH_OK;
}

ph_rc ph_longrope_list(const ph_source *s, const ph_decoder *d, int is_long, float *out, ph_err *err) {
    float   list[PH_DIVISORS_MAX];
    ph_keys k = ph_keys_text(s);
    PH_TRY(read_divisors(&k, s, d, is_long, list, err));
    memcpy(out, list, (size_t)d->kind[0].rope.dim / 2 * sizeof *out);
    return PH_OK;
}

double ph_longrope_magnitude(const ph_decoder *d) {
    double whole = d->context_whole, original = d->kind[0].rope.original_context;
    return whole <= original || original <= 1 ? 1 : sqrt(1 + log(whole / original) / log(original));
}

/* Files that name no kind of scaling have these keys nevertheless. */
static ph_rc read_original(const ph_keys *k, ph_decoder *d, ph_err *err) {
    ph_rope_spec *r = &d->kind[0].rope;
    ph_keys       scaling = scaling_of(k);
    int           original;
    PH_TRY(ph_keys_float_or(&scaling, "attention_factor", 0, &r->attention_factor, err));
    PH_TRY(ph_keys_float_or(&scaling, "original_max_position_embeddings", 0, &r->original_context, err));
    if (!(r->original_context >= 0 && r->original_context < 1 << 28))
        return PH_FAIL(err, PH_EFORMAT, "%s: original_max_position_embeddings is %g", k->where,
                       r->original_context);
    PH_TRY(ph_keys_int_or(k, "original_max_position_embeddings", 1, 1 << 28,
                          r->original_context >= 1 ? (int)r->original_context : d->context, &original, err));
    r->original_context = original;
    return PH_OK;
}

ph_rc ph_longrope_read(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err) {
    ph_rope_spec *r = &d->kind[0].rope;
    PH_TRY(read_divisors(k, s, d, 0, d->rope_divisors, err));
    PH_TRY(read_original(k, d, err));
    d->context_whole = d->context;
    r->kind = "factors";
    if (!(r->attention_factor > 0)) r->attention_factor = ph_longrope_magnitude(d);
    if (r->original_context < d->context) d->context = (int)r->original_context;
    return PH_OK;
}
