/* lanes_unpack.h - sums and transposition of four vectors' lanes in each 128 bits, for sets that interleave
 * there.
 *
 * Included by a set's .c file after v_add and
 *
 *   low_ones(a, b)  high_ones    a0 b0 a1 b1 of each 128 bits; a2 b2 a3 b3
 *   low_twos(a, b)  high_twos    a0 a1 b0 b1; a2 a3 b2 b3
 */
#ifndef PH_KERNELS_LANES_LANES_UNPACK_H
#define PH_KERNELS_LANES_LANES_UNPACK_H

#include "kernels/inline.h"

/* Two vectors' neighbours added: [a0+a2 b0+b2 a1+a3 b1+b3] in each 128 bits. */
static inline vf add_pairs(vf a, vf b) {
    return v_add(low_ones(a, b), high_ones(a, b));
}
static inline vf add_twos(vf a, vf b) {
    return v_add(low_twos(a, b), high_twos(a, b));
}

/* u[4 i + c]: in 128 bits l, element 4 l + c of a[4 i] .. a[4 i + 3]. */
INLINE void transpose_fours(vf u[W], const vf a[W]) {
    vf t[W];
    UNROLL
    for (int i = 0; i < W; i += 2) t[i] = low_ones(a[i], a[i + 1]), t[i + 1] = high_ones(a[i], a[i + 1]);
    UNROLL
    for (int i = 0; i < W; i += 4) {
        u[i] = low_twos(t[i], t[i + 2]), u[i + 1] = high_twos(t[i], t[i + 2]);
        u[i + 2] = low_twos(t[i + 1], t[i + 3]), u[i + 3] = high_twos(t[i + 1], t[i + 3]);
    }
}

#endif
