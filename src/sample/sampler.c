/* sampler.c - the chain of filters, and the draw at its end.
 *
 * The generator is xoshiro256** (Blackman and Vigna, arXiv:1805.01407), seeded by
 * splitmix64, so that a seed gives the same answer on every machine.
 */
#include "sample/sampler.h"

#include "sample/draw.h"

#include <math.h>
#include <stdlib.h>

#define PH_SAMPLER(name) extern const ph_sampler ph_sampler_##name;
#include "sample/sampler.def"
#undef PH_SAMPLER

static const ph_sampler *const chain[] = {
#define PH_SAMPLER(name) &ph_sampler_##name,
#include "sample/sampler.def"
#undef PH_SAMPLER
};

ph_rc ph_sampling_check(const ph_sampling *s, ph_err *err) {
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return PH_FAIL(err, PH_EUSAGE, "temperature is %g; it must be from 0 (greedy) to 100",
                       s->temperature);
    if (s->top_k < 0) return PH_FAIL(err, PH_EUSAGE, "top-k is %d; it must be 0 (off) or more", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return PH_FAIL(err, PH_EUSAGE, "top-p is %g; it must be from 0 to 1", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return PH_FAIL(err, PH_EUSAGE, "min-p is %g; it must be from 0 to 1", s->min_p);
    if (!(s->repeat_penalty >= 0 && s->repeat_penalty <= 10))
        return PH_FAIL(err, PH_EUSAGE, "the repetition penalty is %g; it must be from 0 to 10 (1: off)",
                       s->repeat_penalty);
    if (s->repeat_last < 0)
        return PH_FAIL(err, PH_EUSAGE, "repeat-last is %d; it must be 0 (all) or more", s->repeat_last);
    return PH_OK;
}

size_t ph_sampler_bytes(size_t vocab) {
    return vocab * sizeof(ph_candidate);
}

static uint64_t splitmix(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

static double uniform(ph_sampler_state *s) { /* [0, 1), 53 bits */
    uint64_t *r = s->random, out = rotl(r[1] * 5, 7) * 9, t = r[1] << 17;
    r[2] ^= r[0];
    r[3] ^= r[1];
    r[1] ^= r[2];
    r[0] ^= r[3];
    r[2] ^= t;
    r[3] = rotl(r[3], 45);
    return (double)(out >> 11) * 0x1.0p-53;
}

void ph_sampler_init(ph_sampler_state *s, const ph_sampling *how, void *scratch, size_t vocab) {
    uint64_t seed = how->seed;
    *s = (ph_sampler_state){.how = *how, .scratch = scratch, .vocab = vocab};
    for (int i = 0; i < 4; i++) s->random[i] = splitmix(&seed);
}

/* Larger logits first; ties by id, so that the order is one order. */
static int before(const void *a, const void *b) {
    const ph_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* A heap sort in place: qsort may allocate. */
static void sift(ph_candidate *c, size_t root, size_t n) {
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(&c[child], &c[child + 1]) < 0) child++;
        if (before(&c[root], &c[child]) >= 0) return;
        ph_candidate t = c[root];
        c[root] = c[child];
        c[child] = t;
    }
}

void ph_draw_sort(ph_draw *d) {
    if (d->is_sorted) return;
    for (size_t i = d->n / 2; i-- > 0;) sift(d->at, i, d->n);
    for (size_t n = d->n; n > 1; n--) {
        ph_candidate t = d->at[0];
        d->at[0] = d->at[n - 1];
        d->at[n - 1] = t;
        sift(d->at, 0, n - 1);
    }
    d->is_sorted = 1;
}

void ph_draw_probabilities(ph_draw *d) {
    double sum = 0;
    float  most = -INFINITY;
    for (size_t i = 0; i < d->n; i++)
        if (d->at[i].logit > most) most = d->at[i].logit;
    for (size_t i = 0; i < d->n; i++) {
        /* A lone +inf would give inf - inf; it is certain. */
        d->at[i].p = d->at[i].logit == most ? 1.0F : expf(d->at[i].logit - most);
        sum += (double)d->at[i].p;
    }
    for (size_t i = 0; i < d->n; i++) d->at[i].p = (float)((double)d->at[i].p / sum);
}

static int32_t largest(const ph_draw *d) {
    size_t best = 0;
    for (size_t i = 1; i < d->n; i++)
        if (before(&d->at[i], &d->at[best]) < 0) best = i;
    return d->at[best].id;
}

static int32_t pick(ph_sampler_state *s, ph_draw *d) {
    double at = uniform(s), sum = 0;
    ph_draw_probabilities(d);
    for (size_t i = 0; i < d->n; i++) {
        sum += (double)d->at[i].p;
        if (at < sum) return d->at[i].id;
    }
    return largest(d); /* rounding left the sum a hair below 1 */
}

int32_t ph_sampler_next(ph_sampler_state *s, const float *logits, const int32_t *history, size_t n_history) {
    ph_draw d = {.at = s->scratch, .history = history, .n_history = n_history, .how = &s->how};
    for (size_t i = 0; i < s->vocab; i++)
        if (!isnan(logits[i])) d.at[d.n++] = (ph_candidate){.id = (int32_t)i, .logit = logits[i]};
    if (!d.n) return -1;
    for (size_t i = 0; i < sizeof chain / sizeof *chain; i++) chain[i]->filter(&d);
    return s->how.temperature > 0 ? pick(s, &d) : largest(&d);
}
