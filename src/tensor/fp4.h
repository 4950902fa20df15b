/* fp4.h - the sixteen numbers of E2M1 (sign, two bits of exponent, one of fraction), as MXFP4 and NVFP4 use
 * them.
 *
 * They are kept twice as large, so that all are whole: 0 1 2 3 4 6 8 12.
 */
#ifndef PH_TENSOR_FP4_H
#define PH_TENSOR_FP4_H

#include <stdint.h>

enum { PH_FP4_LEVELS = 16 };

extern const int8_t ph_fp4_level[PH_FP4_LEVELS];

/* The level nearest to x under the scale d, the first among equals; 0 for NaN. */
unsigned ph_fp4_nearest(float x, float d);

#endif
