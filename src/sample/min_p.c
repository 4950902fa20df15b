/* min_p.c - candidates below a share of the most likely one's probability go. */
#include "sample/draw.h"

static void filter(ph_draw *d) {
    double min = d->how->min_p;
    size_t n = 0;
    float  most = 0;
    if (min <= 0 || d->how->temperature <= 0) return;
    ph_draw_probabilities(d);
    for (size_t i = 0; i < d->n; i++)
        if (d->at[i].p > most) most = d->at[i].p;
    for (size_t i = 0; i < d->n; i++)
        if ((double)d->at[i].p >= min * (double)most) d->at[n++] = d->at[i];
    d->n = n;
}

const ph_sampler ph_sampler_min_p = {.name = "min_p", .filter = filter, .source = "arXiv:2407.01082"};
