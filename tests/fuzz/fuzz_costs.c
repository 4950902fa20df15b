/* seeds: tests/golden/costs */
/* fuzz_costs.c - whatever a file of measured times says: an error, or times that a placement can be made of,
 * each once, and a key that is the same as itself. */
#include "engine/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(const ph_costs *c, size_t i) {
    const ph_cost *x = &c->at[i];
    if (!(isfinite(x->us) && x->least > 0 && x->least <= x->us && x->us <= x->most)) abort();
    if (strlen(x->engine) >= sizeof x->engine || strlen(x->release) >= sizeof x->release) abort();
    if (x->stage < 0 || x->stage >= PH_N_COST_STAGES) abort();
    for (int k = 0; k < PH_N_SYMS; k++)
        if (x->sizes.at[k] < 0) abort();
    for (size_t k = 0; k < i; k++)
        if (c->at[k].stage == x->stage && !strcmp(c->at[k].engine, x->engine)) abort();
}

static void check_kind(const ph_cost_kind *k) {
    if (!(isfinite(k->us) && k->us >= 0 && isfinite(k->runs) && k->runs >= 0)) abort();
    if (strlen(k->engine) >= sizeof k->engine || strlen(k->kind) >= sizeof k->kind) abort();
    if (k->stage < 0 || k->stage >= PH_N_COST_STAGES) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ph_costs c;
    char            why[300];
    if (ph_costs_read(&c, bytes, n, "fuzz", NULL)) return 0;
    if (c.n > PH_COSTS_MAX || c.n_kinds > PH_COST_KINDS_MAX) abort();
    for (size_t i = 0; i < c.n; i++) check(&c, i);
    for (size_t i = 0; i < c.n_kinds; i++) check_kind(&c.kind[i]);
    if (!ph_cost_key_same(&c.key, &c.key, why, sizeof why)) abort();
    return 0;
}
