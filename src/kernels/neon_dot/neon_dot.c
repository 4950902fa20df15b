/* neon_dot.c - products by integers with SDOT (Armv8.2 dot product): four bytes of four columns an
 * instruction.
 *
 * One exported symbol: ph_install_neon_dot.  The kernels themselves stand in neon/neon_dots.h.
 */
#include "kernels/isa.h"

#include <arm_neon.h>

/* out[t]: bytes 4 t .. 4 t + 3 of each column, a column a lane. */
static inline void arrange(int8x16_t out[8], const int8x16_t q[4][2]) {
    for (int i = 0; i < 2; i++) {
        int32x4_t a = vreinterpretq_s32_s8(q[0][i]), b = vreinterpretq_s32_s8(q[1][i]);
        int32x4_t c = vreinterpretq_s32_s8(q[2][i]), d = vreinterpretq_s32_s8(q[3][i]);
        int64x2_t ab0 = vreinterpretq_s64_s32(vtrn1q_s32(a, b)),
                  ab1 = vreinterpretq_s64_s32(vtrn2q_s32(a, b));
        int64x2_t cd0 = vreinterpretq_s64_s32(vtrn1q_s32(c, d)),
                  cd1 = vreinterpretq_s64_s32(vtrn2q_s32(c, d));
        out[4 * i] = vreinterpretq_s8_s64(vtrn1q_s64(ab0, cd0));
        out[4 * i + 1] = vreinterpretq_s8_s64(vtrn1q_s64(ab1, cd1));
        out[4 * i + 2] = vreinterpretq_s8_s64(vtrn2q_s64(ab0, cd0));
        out[4 * i + 3] = vreinterpretq_s8_s64(vtrn2q_s64(ab1, cd1));
    }
}

/* Four vectors of weights by the sixteen bytes of a plane. */
static inline int32x4_t four(int32x4_t sum, const int8x16_t w[4], int8x16_t x) {
    sum = vdotq_laneq_s32(sum, w[0], x, 0);
    sum = vdotq_laneq_s32(sum, w[1], x, 1);
    sum = vdotq_laneq_s32(sum, w[2], x, 2);
    return vdotq_laneq_s32(sum, w[3], x, 3);
}

static inline void sums(int32x4_t out[2], const int8x16_t w[8], const int8_t *hi, const int8_t *lo,
                        int is_halved) {
    const int32x4_t none = vdupq_n_s32(0);
    int32x4_t       high = four(none, &w[0], vld1q_s8(hi)), low = lo ? four(none, &w[0], vld1q_s8(lo)) : none;
    if (is_halved) {
        out[0] = lo ? vaddq_s32(vshlq_n_s32(high, 8), low) : high;
        high = low = none;
    }
    high = four(high, &w[4], vld1q_s8(hi + 16));
    if (lo) low = four(low, &w[4], vld1q_s8(lo + 16));
    out[is_halved] = lo ? vaddq_s32(vshlq_n_s32(high, 8), low) : high;
}

#include "kernels/neon/neon_dots.h"

void ph_install_neon_dot(ph_kernels *k) {
    install(k);
}
