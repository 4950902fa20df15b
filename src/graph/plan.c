/* plan.c - sums and peaks of a plan, and the pages that weights touch. */
#include "graph/plan.h"

#include <stdlib.h>

enum { PAGE = 4096 };

const char *const ph_phase_name[PH_N_PHASES] = {"load", "see", "prefill", "step"};

void ph_memory_sum(ph_memory *m) {
    m->total = m->input + m->activations + m->weights + m->engine + m->reserve + m->pools + m->kv +
               m->tokenizer + m->base;
}

void ph_plan_finish(ph_plan *p) {
    p->peak_phase = PH_PHASE_LOAD;
    for (int i = 0; i < PH_N_PHASES; i++) {
        ph_memory_sum(&p->phase[i]);
        if (p->phase[i].total > p->phase[p->peak_phase].total) p->peak_phase = (ph_phase)i;
    }
    p->peak = p->phase[p->peak_phase];
}

static int by_begin(const void *a, const void *b) {
    const ph_range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

size_t ph_pages_touched(ph_range *r, size_t n) {
    size_t    pages = 0;
    uintptr_t next = 0; /* the first page number not counted yet */
    if (n) qsort(r, n, sizeof *r, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (r[i].end <= r[i].begin) continue;
        uintptr_t first = r[i].begin / PAGE, last = (r[i].end - 1) / PAGE;
        if (first < next) first = next;
        if (last < first) continue;
        pages += last - first + 1;
        next = last + 1;
    }
    return pages;
}
