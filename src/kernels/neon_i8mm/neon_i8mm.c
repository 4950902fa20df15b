/* neon_i8mm.c - products by integers with SMMLA (Armv8.6 int8 matrix multiply): 2 x 2 sums of eight an
 * instruction.
 *
 * The two rows of the left side are the two planes of one row of x, so one row is enough to fill it.
 * One exported symbol: ph_install_neon_i8mm.  The kernels themselves stand in neon/neon_dots.h.
 */
#include "kernels/isa.h"

#include <arm_neon.h>

/* out[2 t], out[2 t + 1]: bytes 8 t .. 8 t + 7 of the first two columns, of the other two. */
static inline void arrange(int8x16_t out[8], const int8x16_t q[4][2]) {
    for (int t = 0; t < 4; t++)
        for (int pair = 0; pair < 2; pair++) {
            int64x2_t a = vreinterpretq_s64_s8(q[2 * pair][t / 2]);
            int64x2_t b = vreinterpretq_s64_s8(q[2 * pair + 1][t / 2]);
            out[2 * t + pair] = vreinterpretq_s8_s64(t % 2 ? vtrn2q_s64(a, b) : vtrn1q_s64(a, b));
        }
}

/* Eight bytes of both planes by four columns: {high 0, high 1, low 0, low 1} and the same of columns 2 and 3.
 */
static inline void eight(int32x4_t sum[2], const int8x16_t w[2], const int8_t *hi, const int8_t *lo) {
    int8x16_t x = vcombine_s8(vld1_s8(hi), lo ? vld1_s8(lo) : vdup_n_s8(0));
    sum[0] = vmmlaq_s32(sum[0], x, w[0]);
    sum[1] = vmmlaq_s32(sum[1], x, w[1]);
}

static inline int32x4_t whole(const int32x4_t sum[2], int has_low) {
    int64x2_t a = vreinterpretq_s64_s32(sum[0]), b = vreinterpretq_s64_s32(sum[1]);
    int32x4_t high = vreinterpretq_s32_s64(vtrn1q_s64(a, b)), low = vreinterpretq_s32_s64(vtrn2q_s64(a, b));
    return has_low ? vaddq_s32(vshlq_n_s32(high, 8), low) : high;
}

static inline void sums(int32x4_t out[2], const int8x16_t w[8], const int8_t *hi, const int8_t *lo,
                        int is_halved) {
    int32x4_t sum[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    eight(sum, &w[0], hi, lo);
    eight(sum, &w[2], hi + 8, lo ? lo + 8 : NULL);
    if (is_halved) {
        out[0] = whole(sum, lo != NULL);
        sum[0] = sum[1] = vdupq_n_s32(0);
    }
    eight(sum, &w[4], hi + 16, lo ? lo + 16 : NULL);
    eight(sum, &w[6], hi + 24, lo ? lo + 24 : NULL);
    out[is_halved] = whole(sum, lo != NULL);
}

#include "kernels/neon/neon_dots.h"

void ph_install_neon_i8mm(ph_kernels *k) {
    install(k);
}
