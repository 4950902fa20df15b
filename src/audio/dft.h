/* dft.h - the discrete Fourier transform of any length with small prime factors, in double.
 *
 *     X[k] = sum over j of x[j] e^(-2 pi i j k / n)
 *
 * Speech features use windows of 400 samples, which is no power of two, and a logarithm over eight decades
 * of power follows: single precision would show.  Error: a few n-independent roundings a factor,
 * about 1e-15 of the largest |X|.
 */
#ifndef PH_AUDIO_DFT_H
#define PH_AUDIO_DFT_H

#include "base/arena.h"
#include "base/err.h"

enum {
    PH_DFT_SIZE_MAX = 16384,
    PH_DFT_PRIME_MAX = 61, /* largest prime factor of a length */
    PH_DFT_FACTORS_MAX = 14,
};

typedef struct ph_dft {
    int     n;
    int     n_factors, factor[PH_DFT_FACTORS_MAX];
    double *cos_, *sin_; /* [n] of -2 pi k / n; NULL on a ruler */
    double *work;        /* [4, n] two complex vectors, planes of re and im */
} ph_dft;

/* Sum of the factors of n: a transform takes about n times as many complex products.  0: n cannot be
 * transformed (below 1, too long, or with a prime factor above PH_DFT_PRIME_MAX). */
int ph_dft_cost(int n);

/* Tables from arena, as long as it lives.  Errors: PH_EUNSUP a length of which ph_dft_cost is 0; PH_ENOMEM.
 */
ph_rc ph_dft_init(ph_dft *d, int n, ph_arena *arena, ph_err *err);

/* Transform the complex vector at d->work, re [n] then im [n].  The answer is in the same form at *out,
 * within d->work, until the next call. */
void ph_dft_run(const ph_dft *d, const double **out);

#endif
