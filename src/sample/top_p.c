/* top_p.c - the smallest set of candidates whose probabilities reach p stays: nucleus sampling. */
#include "sample/draw.h"

static void filter(ph_draw *d) {
    double p = d->how->top_p, sum = 0;
    if (p <= 0 || p >= 1 || d->how->temperature <= 0) return;
    ph_draw_sort(d);
    ph_draw_probabilities(d);
    for (size_t i = 0; i < d->n; i++) {
        sum += (double)d->at[i].p;
        if (sum >= p) {
            d->n = i + 1;
            return;
        }
    }
}

const ph_sampler ph_sampler_top_p = {.name = "top_p", .filter = filter, .source = "arXiv:1904.09751"};
