/* sampler.h - logits in, the next id out.
 *
 *     logits ─ repetition ─ top-k ─ temperature ─ top-p ─ min-p ─ draw ─► id
 *
 * Each filter is one file with one const ph_sampler and one line in sampler.def;
 * the order of the lines is the order of the chain.  Temperature 0 is greedy: the
 * first largest logit, whatever the other settings but repetition.
 */
#ifndef PH_SAMPLE_SAMPLER_H
#define PH_SAMPLE_SAMPLER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_sampling {
    double   temperature;    /* 0: greedy */
    int      top_k;          /* 0: off */
    double   top_p;          /* 1 (or 0): off */
    double   min_p;          /* 0: off; keep p >= min_p * max p */
    double   repeat_penalty; /* 1 (or 0): off; arXiv:1909.05858 §4.1 */
    int      repeat_last;    /* tokens looked back on; 0: all of prompt and answer */
    uint64_t seed;
} ph_sampling;

/* Errors: PH_EUSAGE a setting out of range, with the range. */
ph_rc ph_sampling_check(const ph_sampling *s, ph_err *err);

typedef struct ph_candidate {
    int32_t id;
    float   logit;
    float   p;
} ph_candidate;

/* What a filter works on: candidates, and what has been said. */
typedef struct ph_draw {
    ph_candidate      *at; /* [n] */
    size_t             n;
    int                is_sorted; /* by logit, largest first, ties by id */
    const int32_t     *history;   /* [n_history], oldest first */
    size_t             n_history;
    const ph_sampling *how;
} ph_draw;

typedef struct ph_sampler {
    const char *name;
    void (*filter)(ph_draw *d); /* may drop candidates (never all) and change logits */
    const char *source;
} ph_sampler;

typedef struct ph_sampler_state {
    ph_sampling   how;
    uint64_t      random[4]; /* xoshiro256**, seeded by splitmix64 */
    ph_candidate *scratch;   /* [vocab], borrowed */
    size_t        vocab;
} ph_sampler_state;

size_t ph_sampler_bytes(size_t vocab); /* of scratch */
void   ph_sampler_init(ph_sampler_state *s, const ph_sampling *how, void *scratch, size_t vocab);
/* logits [vocab] (not changed).  NaN logits are never chosen; -1 if there are no others.  Allocates nothing.
 */
int32_t ph_sampler_next(ph_sampler_state *s, const float *logits, const int32_t *history, size_t n_history);

#endif
