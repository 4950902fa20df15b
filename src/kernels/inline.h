/* inline.h - INLINE and UNROLL, for kernels whose speed is made of constants.
 *
 * Inlining makes constants of the tile shapes and types.  Under a sanitizer every load carries a test, the
 * unrolled bodies grow past what compilers handle in a minute, and speed is not the point.
 */
#ifndef PH_KERNELS_INLINE_H
#define PH_KERNELS_INLINE_H

#if defined(__SANITIZE_ADDRESS__)
#define INLINE static inline
#define UNROLL
#define UNROLL_ROWS
#elif defined(__clang__)
#define INLINE      static inline __attribute__((always_inline))
#define UNROLL      _Pragma("clang loop unroll(full)")
#define UNROLL_ROWS UNROLL
#else
#define INLINE      static inline __attribute__((always_inline))
#define UNROLL      _Pragma("GCC unroll 8")
#define UNROLL_ROWS _Pragma("GCC unroll 16") /* of tall tiles, whose sums must be in registers */
#endif

#endif
