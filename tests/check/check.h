/* check.h - what a kernel check may use.  One check_<family>.c per family of kernels.
 *
 * A check_<kernel> runs `opt` beside `ref` on random shapes, tails and edge values, and
 * says 1 when every output is within the bound that kernels.h states and when the same
 * work done in random pieces gives the same bits.  A bench_<kernel> runs the kernel once
 * on a shape from real models.
 */
#ifndef PH_TESTS_CHECK_H
#define PH_TESTS_CHECK_H

#include "kernels/kernels.h"

/* Deterministic: the seed is printed on failure and given back with --seed. */
float    ck_normal(void);      /* mean 0, deviation 1 */
unsigned ck_below(unsigned n); /* 0 .. n-1 */
float    ck_any(void);         /* any float by its bits: NaN, infinite, subnormal, huge */
void     ck_normals(float *x, size_t n, float size);

/* Bytes between two unreadable pages, flush against one of them (most often the one behind),
 * aligned to 1, 2 or 4 as the size allows.  ck_free_all gives all of them back. */
void *ck_buffer(size_t bytes);
void  ck_free_all(void);

/* 1, or 0 after saying why.  Infinities and NaN must be met as such; else |got - want| <= bound,
 * plus the rounding of want itself, plus FLT_MIN. */
int ck_close(float got, float want, double bound, const char *what, size_t at);
int ck_same(const void *got, const void *want, size_t bytes, const char *what); /* bit for bit */
int ck_same_floats(const float *got, const float *want, size_t n,
                   const char *what); /* the same, any NaN for NaN */
int ck_fail(const char *what, size_t at);

/* What a bench has done; bytes 0: there is no such shape.  `many`: one row (decode), or many. */
typedef struct ck_work {
    double bytes, flops;
} ck_work;
float *ck_bench_floats(size_t n); /* n small normals, made once for each n and call order; never freed */

#define PH_KERNEL(name, args)                                                                                \
    int     check_##name(const ph_kernels *ref, const ph_kernels *opt);                                      \
    ck_work bench_##name(const ph_kernels *k, int many);
#include "kernels/kernels.def"
#undef PH_KERNEL

#endif
