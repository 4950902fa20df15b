/* temperature.c - logits are divided by the temperature: below 1 surer, above 1 freer.
 *
 * The largest becomes 0 first, which the softmax does not notice: divided by a temperature near 0 the large
 * ones would all be infinite, and tie.
 */
#include "sample/draw.h"

#include <math.h>

static void filter(ph_draw *d) {
    float most = -INFINITY;
    if (d->how->temperature <= 0) return; /* greedy: the order is what counts */
    for (size_t i = 0; i < d->n; i++)
        if (d->at[i].logit > most) most = d->at[i].logit;
    for (size_t i = 0; i < d->n; i++) {
        double below = (double)d->at[i].logit - (double)most;
        /* The largest itself: infinity less infinity is none. */
        d->at[i].logit = d->at[i].logit == most ? 0 : (float)(below / d->how->temperature);
    }
}

const ph_sampler ph_sampler_temperature = {
    .name = "temperature", .filter = filter, .source = "arXiv:1503.02531 §2"};
