/* top_k.c - only the k most likely candidates stay.  Source: arXiv:1805.04833. */
#include "sample/draw.h"

static void filter(ph_draw *d) {
    size_t k = (size_t)d->how->top_k;
    if (!k || k >= d->n || d->how->temperature <= 0) return;
    ph_draw_sort(d);
    d->n = k;
}

const ph_sampler ph_sampler_top_k = {.name = "top_k", .filter = filter, .source = "arXiv:1805.04833"};
