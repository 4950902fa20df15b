/* cut.c - stages to slots, see cut.h. */
#include "sched/cut.h"

typedef struct slot {
    size_t first;
    double drawn, seconds;
} slot;

static double sum_of(const slot *s, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += s[i].drawn;
    return sum;
}

/* The first of the neighbours that take the least time together. */
static size_t least(const slot *s, size_t n) {
    size_t at = 0;
    for (size_t i = 1; i + 1 < n; i++)
        if (s[i].seconds + s[i + 1].seconds < s[at].seconds + s[at + 1].seconds) at = i;
    return at;
}

static void join(slot *s, size_t *n, size_t at) {
    s[at].seconds += s[at + 1].seconds;
    if (s[at + 1].drawn > s[at].drawn) s[at].drawn = s[at + 1].drawn;
    for (size_t i = at + 1; i + 1 < *n; i++) s[i] = s[i + 1];
    --*n;
}

void ph_cut_stages(ph_cut *out, const ph_cut_stage *stage, size_t n, double bytes_a_second, size_t most) {
    slot   s[PH_CUT_STAGES_MAX] = {{0}};
    size_t n_stages = n;
    for (size_t i = 0; i < n; i++) {
        double t = stage[i].seconds > 0 ? stage[i].seconds : 0;
        s[i] = (slot){.first = i, .drawn = t > 0 ? stage[i].bytes / t : 0, .seconds = t};
    }
    if (!most) most = n;
    while (n > 1 && (n > most || (bytes_a_second > 0 && sum_of(s, n) > bytes_a_second)))
        join(s, &n, least(s, n));
    *out = (ph_cut){.n = n, .drawn = sum_of(s, n)};
    for (size_t i = 0; i < n; i++) {
        out->begin[i] = s[i].first;
        if (s[i].seconds > out->pace) out->pace = s[i].seconds;
    }
    out->begin[n] = n_stages;
}
