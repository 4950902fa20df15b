/* clock.h - one monotonic clock, in nanoseconds. */
#ifndef PH_BASE_CLOCK_H
#define PH_BASE_CLOCK_H

#include <stdint.h>

uint64_t ph_clock_ns(void);

#endif
