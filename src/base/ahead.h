/* ahead.h - pages of a mapped file asked for before they are used.
 *
 * A thread of its own goes through ranges in the order of their use and asks the kernel for them, a piece at
 * a time.  Nothing is touched: pages come into the kernel's cache, not into this process, so what it holds
 * stays what the plan says, and where memory is short the kernel drops them again.
 */
#ifndef PH_BASE_AHEAD_H
#define PH_BASE_AHEAD_H

#include "base/err.h"

#include <stddef.h>

typedef struct ph_ahead ph_ahead;

typedef struct ph_ahead_range {
    const void *at; /* in a mapping that stands until ph_ahead_close */
    size_t      n;
} ph_ahead_range;

/* Ask for ranges [0, first) at once and for the others in a thread; `most` bytes in all, what is beyond is
 * left.  The ranges are copied.  Errors: PH_ENOMEM no thread, no memory. */
ph_rc ph_ahead_open(ph_ahead **a, const ph_ahead_range *range, size_t n, size_t first, size_t most,
                    ph_err *err);
void  ph_ahead_close(ph_ahead *a); /* stops after the piece under way and joins; accepts NULL */

size_t ph_ahead_asked(const ph_ahead *a);   /* bytes so far; any thread */
int    ph_ahead_is_over(const ph_ahead *a); /* 1: nothing is left to ask for; any thread */

#endif
