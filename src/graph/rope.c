/* rope.c - rotary frequencies and angles.  See rope.h.
 *
 * Scalars (correction ranges, mscale) are double, as Python's are; per-frequency
 * lists are float, as the reference's tensors are.  cos and sin are computed in
 * double from the float angle and rounded once.
 */
#include "graph/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

const char *const ph_rope_kind_name[PH_N_ROPE_KINDS] = {"none", "linear", "llama3", "yarn", "factors"};

static ph_rc kind_of(ph_rope *r, const char *name, ph_err *err) {
    char   known[64];
    size_t at = 0;
    for (int k = 0; k < PH_N_ROPE_KINDS; k++) {
        r->kind = (ph_rope_kind)k;
        if (!strcmp(name, ph_rope_kind_name[k])) return PH_OK;
        if (at < sizeof known)
            at += (size_t)snprintf(known + at, sizeof known - at, " %s", ph_rope_kind_name[k]);
    }
    return PH_FAIL(err, PH_EUNSUP, "RopeAngles: scaling \"%.32s\" is not known; known are%s", name, known);
}

static int is_positive(double x) {
    return isfinite(x) && x > 0;
}

static ph_rc check_scaling(const ph_rope *r, const ph_node *n, ph_err *err) {
    size_t count = 0;
    switch (r->kind) {
    case PH_ROPE_LINEAR:
        if (!is_positive(r->factor)) break;
        return PH_OK;
    case PH_ROPE_LLAMA3:
        if (!is_positive(r->factor) || !is_positive(r->low_freq_factor) || r->original_context <= 0 ||
            !isfinite(r->high_freq_factor) || r->high_freq_factor <= r->low_freq_factor)
            break;
        return PH_OK;
    case PH_ROPE_YARN:
        if (!is_positive(r->factor) || !is_positive(r->beta_fast) || !is_positive(r->beta_slow) ||
            r->original_context <= 0 || r->theta <= 1 || !isfinite(r->mscale) || !isfinite(r->mscale_all_dim))
            break;
        return PH_OK;
    case PH_ROPE_FACTORS:
        ph_node_floats(n, "freq_factors", &count);
        if (count != (size_t)r->dim / 2)
            return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: %zu freq_factors for %d frequencies", count,
                           r->dim / 2);
        return PH_OK;
    case PH_ROPE_NONE:
    case PH_N_ROPE_KINDS:
        return PH_OK;
    }
    return PH_FAIL(
        err, PH_EMISMATCH,
        "RopeAngles: %s scaling with factor %g, low %g, high %g, beta %g to %g, original context %lld",
        ph_rope_kind_name[r->kind], r->factor, r->low_freq_factor, r->high_freq_factor, r->beta_fast,
        r->beta_slow, (long long)r->original_context);
}

static ph_rc sections_of(ph_rope *r, const ph_node *n, ph_err *err) {
    size_t         count;
    const int64_t *s = ph_node_ints(n, "mrope", &count);
    int64_t        sum = 0;
    if (!count) return PH_OK;
    if (count != 3) return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: %zu mrope sections, 3 wanted", count);
    for (int i = 0; i < 3; i++) {
        if (s[i] < 0 || s[i] > r->dim) return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: mrope section %d", i);
        r->section[i] = (int)s[i];
        sum += s[i];
    }
    if (sum != r->dim / 2)
        return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: mrope sections sum to %lld, not %d", (long long)sum,
                       r->dim / 2);
    return PH_OK;
}

ph_rc ph_rope_of_node(ph_rope *rope, const ph_node *n, ph_err *err) {
    int64_t dim = ph_node_int(n, "dim", 0);
    size_t  count;
    ph_rope r = {.theta = ph_node_float(n, "theta", 10000.0)};
    if (dim <= 0 || dim % 2 || dim > 1 << 20)
        return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: dim %lld is not an even number of 2 to 2^20",
                       (long long)dim);
    if (!is_positive(r.theta)) return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: theta %g", r.theta);
    r.dim = (int)dim;
    r.factor = ph_node_float(n, "factor", 1.0);
    r.low_freq_factor = ph_node_float(n, "low_freq_factor", 1.0);
    r.high_freq_factor = ph_node_float(n, "high_freq_factor", 4.0);
    r.beta_fast = ph_node_float(n, "beta_fast", 32.0);
    r.beta_slow = ph_node_float(n, "beta_slow", 1.0);
    r.mscale = ph_node_float(n, "mscale", 0.0);
    r.mscale_all_dim = ph_node_float(n, "mscale_all_dim", 0.0);
    r.attention_factor = ph_node_float(n, "attention_factor", 0.0);
    r.original_context = ph_node_int(n, "original_context", 0);
    r.is_truncated = ph_node_int(n, "truncate", 1) != 0;
    r.freq_factors = ph_node_floats(n, "freq_factors", &count);
    r.is_restarted = ph_node_int(n, "restart", 0) != 0;
    if (!isfinite(r.attention_factor) || r.attention_factor < 0)
        return PH_FAIL(err, PH_EMISMATCH, "RopeAngles: attention_factor %g", r.attention_factor);
    PH_TRY(kind_of(&r, ph_node_text(n, "scaling", "none"), err));
    PH_TRY(check_scaling(&r, n, err));
    PH_TRY(sections_of(&r, n, err));
    if (r.is_restarted && r.kind != PH_ROPE_NONE)
        return PH_FAIL(err, PH_EUNSUP, "RopeAngles: sections that restart take no %s scaling",
                       ph_rope_kind_name[r.kind]);
    *rope = r;
    return PH_OK;
}

/* Long waves are stretched by the factor, short ones stay, those between are blended. */
static float llama3_frequency(const ph_rope *r, float inv) {
    float old = (float)r->original_context, factor = (float)r->factor;
    float low = (float)((double)r->original_context / r->low_freq_factor);
    float high = (float)((double)r->original_context / r->high_freq_factor);
    float wave = 1.0f / inv * (float)(2 * pi); /* torch divides a number by a tensor so */
    if (wave > low) return inv / factor;
    if (wave < high) return inv;
    float smooth =
        (1.0f / wave * old - (float)r->low_freq_factor) / (float)(r->high_freq_factor - r->low_freq_factor);
    return (1.0f - smooth) * inv / factor + smooth * inv;
}

/* The frequency that turns `rotations` times over the original context. */
static double correction(const ph_rope *r, double rotations) {
    return ((double)r->dim * log((double)r->original_context / (rotations * 2 * pi))) / (2 * log(r->theta));
}

static void yarn_range(const ph_rope *r, double *low, double *high) {
    *low = correction(r, r->beta_fast);
    *high = correction(r, r->beta_slow);
    if (r->is_truncated) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0);
    *high = fmin(*high, (double)r->dim - 1);
    if (fabs(*high - *low) <= 0) *high += 0.001;
}

static float yarn_frequency(const ph_rope *r, float wave, int i, double low, double high) {
    float ramp = ((float)i - (float)low) / (float)(high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    float keep = 1.0f - ramp;
    return 1.0f / ((float)r->factor * wave) * (1.0f - keep) + 1.0f / wave * keep;
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static float attention_factor(const ph_rope *r) {
    if (r->attention_factor > 0) return (float)r->attention_factor;
    if (r->kind != PH_ROPE_YARN) return 1;
    if (fabs(r->mscale) > 0 && fabs(r->mscale_all_dim) > 0)
        return (float)(yarn_mscale(r->factor, r->mscale) / yarn_mscale(r->factor, r->mscale_all_dim));
    return (float)yarn_mscale(r->factor, 1.0);
}

/* Each section as if it were alone: theta^(-j / its length). */
static void restarted(const ph_rope *r, float *inv_freq) {
    for (int s = 0; s < 3; s++)
        for (int j = 0; j < r->section[s]; j++)
            *inv_freq++ = 1.0f / powf((float)r->theta, (float)(2 * j) / (float)(2 * r->section[s]));
}

float ph_rope_frequencies(const ph_rope *r, float *inv_freq) {
    double low = 0, high = 1;
    if (r->is_restarted && r->section[0] + r->section[1] + r->section[2]) {
        restarted(r, inv_freq);
        return attention_factor(r);
    }
    if (r->kind == PH_ROPE_YARN) yarn_range(r, &low, &high);
    for (int i = 0; i < r->dim / 2; i++) {
        float wave = powf((float)r->theta, (float)(2 * i) / (float)r->dim);
        float inv = 1.0f / wave;
        if (r->kind == PH_ROPE_LINEAR) inv /= (float)r->factor;
        if (r->kind == PH_ROPE_LLAMA3) inv = llama3_frequency(r, inv);
        if (r->kind == PH_ROPE_YARN) inv = yarn_frequency(r, wave, i, low, high);
        if (r->kind == PH_ROPE_FACTORS) inv = 1.0f / ((float)r->freq_factors[i] * wave);
        inv_freq[i] = inv;
    }
    return attention_factor(r);
}

void ph_rope_row(const ph_rope *r, const float *inv_freq, float factor, const int32_t *row, float *cos_out,
                 float *sin_out) {
    int end_t = r->section[0], end_h = end_t + r->section[1];
    int is_sections = end_h + r->section[2] > 0;
    for (int i = 0; i < r->dim / 2; i++) {
        int   field = !is_sections || i < end_t ? PH_ROW_POS_T : i < end_h ? PH_ROW_POS_H : PH_ROW_POS_W;
        float angle = (float)row[field] * inv_freq[i];
        cos_out[i] = (float)cos((double)angle) * factor;
        sin_out[i] = (float)sin((double)angle) * factor;
    }
}
