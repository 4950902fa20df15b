/* repetition.c - what has been said lately is made less likely.
 *
 * A token of the last `repeat_last` tokens (0: of all) has its logit divided by the
 * penalty when positive, multiplied when negative; once, however often it occurred.
 */
#include "sample/draw.h"

static void filter(ph_draw *d) {
    float  penalty = (float)d->how->repeat_penalty;
    size_t back = d->how->repeat_last > 0 ? (size_t)d->how->repeat_last : d->n_history;
    if (penalty <= 0 || penalty == 1.0F) return;
    if (back > d->n_history) back = d->n_history;
    for (size_t i = d->n_history - back; i < d->n_history; i++) {
        int32_t id = d->history[i];
        int     is_first = 1;
        for (size_t j = d->n_history - back; j < i && is_first; j++) is_first = d->history[j] != id;
        if (!is_first) continue;
        /* Candidates stand in order of id, so this is where it is, unless NaN logits in front were left out.
         */
        size_t at = id >= 0 && (size_t)id < d->n ? (size_t)id : d->n;
        while (at > 0 && (at == d->n || d->at[at].id > id)) at--;
        if (at < d->n && d->at[at].id == id)
            d->at[at].logit = d->at[at].logit > 0 ? d->at[at].logit / penalty : d->at[at].logit * penalty;
    }
}

const ph_sampler ph_sampler_repetition = {
    .name = "repetition", .filter = filter, .source = "arXiv:1909.05858 §4.1"};
