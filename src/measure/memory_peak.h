/* memory_peak.h - the six kinds of memory of a plan, the phase in which each is largest, and both as a
 * picture.
 *
 * Beside the six stand the cache, the tokenizer's tables and the process itself: they are in the totals, in
 * pictures as what they are, and in a list of their own.
 */
#ifndef PH_MEASURE_MEMORY_PEAK_H
#define PH_MEASURE_MEMORY_PEAK_H

#include "graph/plan.h"

enum {
#define PH_MEMORY_PEAK(kind, what) PH_MEMORY_##kind,
#include "measure/memory_peak.def"
#undef PH_MEMORY_PEAK
    PH_N_MEMORY_PEAKS
};

typedef struct ph_memory_peak {
    const char *kind, *what; /* static */
    size_t      bytes;       /* of this kind, in the phase where it is largest */
    ph_phase    phase;       /* the first such */
} ph_memory_peak;

void ph_memory_peaks(const ph_plan *p, ph_memory_peak out[PH_N_MEMORY_PEAKS]);

/* The rest in the same way: kv, tokenizer, base, and the total of all. */
enum { PH_N_MEMORY_BESIDE = 4 };
void ph_memory_beside(const ph_plan *p, ph_memory_peak out[PH_N_MEMORY_BESIDE]);

/* The phases in order, each with its kinds; peaks are bold, the largest phase is drawn thick. */
void ph_memory_dot(const ph_plan *p, ph_write_fn *write, void *arg);
/* A bar a phase, stacked of the kinds, to one scale, with a legend. */
void ph_memory_svg(const ph_plan *p, ph_write_fn *write, void *arg);
/* Into a file, as its name ends: ".dot" or ".svg".  Errors: PH_EUSAGE another ending; PH_EPATH, PH_EIO. */
ph_rc ph_memory_draw(const ph_plan *p, const char *path, ph_err *err);
/* Does the name end so?  Errors: PH_EUSAGE it does not. */
ph_rc ph_memory_may_draw(const char *path, ph_err *err);

#endif
