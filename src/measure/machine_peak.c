/* machine_peak.c - loops that keep one core's multipliers busy, one an instruction set.
 *
 * Twelve sums that do not depend on each other hide the latency of a multiply-add (four or five cycles, two a
 * cycle); nothing is loaded or stored inside.  The functions carry their instruction set as an attribute, so
 * the file needs no flags of its own; a row is only called when the processor has what it needs.
 *
 * The int8 rows do what a dot-product instruction does: four products of bytes into each 32-bit sum.
 * Matrix units (AMX, i8mm) have no row: where kernels use them, the kernel's own figure is the limit.
 */
#include "measure/machine.h"

enum { SUMS = 12 };

/* One loop.  The empty asm keeps the compiler from knowing a value, and from dropping sums that nobody reads.
 */
#define PEAK(fname, attr, vec, start, more, constraint, ops)                                                 \
    attr static double fname(size_t rounds) {                                                                \
        vec a = start, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;                                     \
        __asm__ volatile("" : "+" constraint(a));                                                            \
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = s10 = s11 = a;                                     \
        for (size_t r = 0; r < rounds; r++) {                                                                \
            s0 = more(s0, a), s1 = more(s1, a), s2 = more(s2, a), s3 = more(s3, a);                          \
            s4 = more(s4, a), s5 = more(s5, a), s6 = more(s6, a), s7 = more(s7, a);                          \
            s8 = more(s8, a), s9 = more(s9, a), s10 = more(s10, a), s11 = more(s11, a);                      \
            __asm__ volatile(""                                                                              \
                             : "+" constraint(s0), "+" constraint(s1), "+" constraint(s2),                   \
                               "+" constraint(s3), "+" constraint(s4), "+" constraint(s5),                   \
                               "+" constraint(s6), "+" constraint(s7), "+" constraint(s8),                   \
                               "+" constraint(s9), "+" constraint(s10), "+" constraint(s11));                \
        }                                                                                                    \
        return 2.0 * (ops)*SUMS * (double)rounds;                                                            \
    }

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET(set) __attribute__((target(set)))
/* Values stay where they are: s a + a with a small a. */
#define SMALL        1e-9F
#define FMA256(s, a) _mm256_fmadd_ps(s, a, a)
#define FMA512(s, a) _mm512_fmadd_ps(s, a, a)
#define BYTES256(s, a)                                                                                       \
    _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(s, a), _mm256_set1_epi16(1)))
#define BYTES512(s, a)                                                                                       \
    _mm512_add_epi32(s, _mm512_madd_epi16(_mm512_maddubs_epi16(s, a), _mm512_set1_epi16(1)))
#define DOT512(s, a) _mm512_dpbusd_epi32(s, a, a)

PEAK(f32_avx2, TARGET("avx2,fma"), __m256, _mm256_set1_ps(SMALL), FMA256, "x", 8)
PEAK(f32_avx512, TARGET("avx512f"), __m512, _mm512_set1_ps(SMALL), FMA512, "v", 16)
PEAK(int8_avx2, TARGET("avx2"), __m256i, _mm256_set1_epi8(1), BYTES256, "x", 32)
PEAK(int8_avx512, TARGET("avx512f,avx512bw"), __m512i, _mm512_set1_epi8(1), BYTES512, "v", 64)
PEAK(int8_vnni, TARGET("avx512f,avx512bw,avx512vnni"), __m512i, _mm512_set1_epi8(1), DOT512, "v", 64)

static const ph_peak f32_rows[] = {
    {PH_CPU_AVX2 | PH_CPU_FMA, "registers: AVX2 multiply-adds", f32_avx2},
    {PH_CPU_AVX512F, "registers: AVX-512 multiply-adds", f32_avx512},
};
static const ph_peak int8_rows[] = {
    {PH_CPU_AVX2, "registers: AVX2 maddubs, madd, add", int8_avx2},
    {PH_CPU_AVX512F | PH_CPU_AVX512BW, "registers: AVX-512 maddubs, madd, add", int8_avx512},
    {PH_CPU_AVX512F | PH_CPU_AVX512BW | PH_CPU_AVX512VNNI, "registers: AVX-512 VNNI dpbusd", int8_vnni},
};
#define N_F32  (sizeof f32_rows / sizeof *f32_rows)
#define N_INT8 (sizeof int8_rows / sizeof *int8_rows)

#elif defined(__aarch64__)
#include <arm_neon.h>

#define FMA128(s, a) vfmaq_f32(a, s, a)
PEAK(f32_neon, , float32x4_t, vdupq_n_f32(1e-9F), FMA128, "w", 4)
static const ph_peak f32_rows[] = {{PH_CPU_NEON, "registers: NEON multiply-adds", f32_neon}};
#define N_F32        1

#if defined(__GNUC__) && !defined(__clang__)
#define DOT128(s, a) vdotq_s32(s, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a))
PEAK(int8_dotprod, __attribute__((target("arch=armv8.2-a+dotprod"))), int32x4_t, vdupq_n_s32(0x01010101),
     DOT128, "w", 16)
static const ph_peak int8_rows[] = {{PH_CPU_DOTPROD, "registers: NEON sdot", int8_dotprod}};
#define N_INT8       1
#endif
#endif

static const ph_peak *best(const ph_peak *rows, size_t n, unsigned features) {
    const ph_peak *found = NULL;
    for (size_t i = 0; i < n; i++)
        if ((rows[i].needs & features) == rows[i].needs) found = &rows[i];
    return found;
}

const ph_peak *ph_peak_f32(unsigned features) {
#ifdef N_F32
    return best(f32_rows, N_F32, features);
#else
    return best(NULL, 0, features);
#endif
}

const ph_peak *ph_peak_int8(unsigned features) {
#ifdef N_INT8
    return best(int8_rows, N_INT8, features);
#else
    return best(NULL, 0, features);
#endif
}
