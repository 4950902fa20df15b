/* temperature.c - logits are divided by the temperature: below 1 surer, above 1 freer. */
#include "sample/draw.h"

static void filter(ph_draw *d) {
    if (d->how->temperature <= 0) return; /* greedy: the order is what counts */
    for (size_t i = 0; i < d->n; i++) d->at[i].logit = (float)((double)d->at[i].logit / d->how->temperature);
}

const ph_sampler ph_sampler_temperature = {
    .name = "temperature", .filter = filter, .source = "arXiv:1503.02531 §2"};
