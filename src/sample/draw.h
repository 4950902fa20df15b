/* draw.h - what filters share. */
#ifndef PH_SAMPLE_DRAW_H
#define PH_SAMPLE_DRAW_H

#include "sample/sampler.h"

void ph_draw_sort(ph_draw *d);          /* by logit, largest first; nothing when sorted already */
void ph_draw_probabilities(ph_draw *d); /* p = softmax(logit) over the candidates left */

#endif
