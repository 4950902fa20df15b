/* dft.c - Stockham's form of the mixed-radix transform: one pass a factor, no reordering pass.
 *
 * A pass with radix r works on `s` interleaved transforms of length m r.  It takes the r values that lie m
 * apart, transforms them directly, turns the j-th by w^(p j), and stores them side by side; then s grows by
 * r and m shrinks.  Radix 4 is written out; others, 2, 3 and 5 mostly, are r x r sums.  The inner loop runs
 * over the interleaved transforms, contiguous in both planes.
 *
 * Plain double in a fixed order: the same bits on every machine whose libm gives the same sines.
 * Source: C. Van Loan, Computational Frameworks for the Fast Fourier Transform (1992), §1.7, §2.3.
 */
#include "audio/dft.h"

#include <math.h>
#include <string.h>

/* Smallest factors first, fours before twos; the number of factors, 0 when there is one too large. */
static int factorize(int n, int *factor) {
    int count = 0;
    if (n < 1 || n > PH_DFT_SIZE_MAX) return 0;
    for (; n % 4 == 0; n /= 4) factor[count++] = 4;
    for (int p = 2; p <= PH_DFT_PRIME_MAX; p++)
        for (; n % p == 0; n /= p) factor[count++] = p;
    if (!count && n == 1) factor[count++] = 1;
    return n == 1 ? count : 0;
}

int ph_dft_cost(int n) {
    int factor[PH_DFT_FACTORS_MAX], sum = 0;
    for (int i = factorize(n, factor); i-- > 0;) sum += factor[i];
    return sum;
}

ph_rc ph_dft_init(ph_dft *d, int n, ph_arena *arena, ph_err *err) {
    void *table, *work;
    *d = (ph_dft){.n = n};
    d->n_factors = factorize(n, d->factor);
    if (!d->n_factors)
        return PH_FAIL(
            err, PH_EUNSUP,
            "a Fourier transform of length %d: up to %d, with no prime factor above %d, are computed", n,
            PH_DFT_SIZE_MAX, PH_DFT_PRIME_MAX);
    PH_TRY(ph_arena_carve(arena, &table, 2 * (size_t)n, sizeof(double), err));
    PH_TRY(ph_arena_carve(arena, &work, 4 * (size_t)n, sizeof(double), err));
    if (!table || !work) return PH_OK;
    d->cos_ = table, d->sin_ = d->cos_ + n, d->work = work;
    for (int k = 0; k < n; k++) {
        double angle = -2 * M_PI * k / n;
        d->cos_[k] = cos(angle), d->sin_[k] = sin(angle);
    }
    return PH_OK;
}

/* Planes of a complex vector. */
typedef struct planes {
    double *re, *im;
} planes;

/* The r x r sums of one pass for the s transforms at p. */
static void pass_any(const ph_dft *d, planes y, planes x, int r, int s, int m, int p) {
    int n = d->n, unit = n / r;
    for (int j = 0; j < r; j++) {
        double *yr = y.re + (size_t)s * (r * p + j), *yi = y.im + (size_t)s * (r * p + j);
        double  tr = d->cos_[p * j * s % n], ti = d->sin_[p * j * s % n];
        memset(yr, 0, (size_t)s * sizeof *yr);
        memset(yi, 0, (size_t)s * sizeof *yi);
        for (int k = 0; k < r; k++) {
            const double *xr = x.re + (size_t)s * (p + m * k), *xi = x.im + (size_t)s * (p + m * k);
            double        wr = d->cos_[j * k % r * unit], wi = d->sin_[j * k % r * unit];
            for (int q = 0; q < s; q++) {
                yr[q] += wr * xr[q] - wi * xi[q];
                yi[q] += wr * xi[q] + wi * xr[q];
            }
        }
        for (int q = 0; q < s; q++) {
            double re = yr[q], im = yi[q];
            yr[q] = tr * re - ti * im;
            yi[q] = tr * im + ti * re;
        }
    }
}

static void pass_4(const ph_dft *d, planes y, planes x, int s, int m, int p) {
    size_t  n = (size_t)s, from = n * (size_t)p, step = n * (size_t)m, to = 4 * n * (size_t)p;
    double  c1 = d->cos_[p * s], s1 = d->sin_[p * s], c2 = d->cos_[2 * p * s], s2 = d->sin_[2 * p * s];
    double  c3 = d->cos_[3 * p * s], s3 = d->sin_[3 * p * s];
    double *yr = y.re + to, *yi = y.im + to;
    for (size_t q = 0; q < n; q++) {
        const double *a = x.re + from + q, *b = x.im + from + q;
        double        pr = a[0] + a[2 * step], pi = b[0] + b[2 * step];
        double        mr = a[0] - a[2 * step], mi = b[0] - b[2 * step];
        double        qr = a[step] + a[3 * step], qi = b[step] + b[3 * step];
        double        nr = a[step] - a[3 * step], ni = b[step] - b[3 * step];
        double        r1 = mr + ni, i1 = mi - nr, r2 = pr - qr, i2 = pi - qi, r3 = mr - ni, i3 = mi + nr;
        yr[q] = pr + qr, yi[q] = pi + qi;
        yr[q + n] = c1 * r1 - s1 * i1, yi[q + n] = c1 * i1 + s1 * r1;
        yr[q + 2 * n] = c2 * r2 - s2 * i2, yi[q + 2 * n] = c2 * i2 + s2 * r2;
        yr[q + 3 * n] = c3 * r3 - s3 * i3, yi[q + 3 * n] = c3 * i3 + s3 * r3;
    }
}

void ph_dft_run(const ph_dft *d, const double **out) {
    planes x = {d->work, d->work + d->n}, y = {d->work + 2 * d->n, d->work + 3 * d->n};
    int    s = 1, left = d->n;
    for (int i = 0; i < d->n_factors; i++) {
        int r = d->factor[i], m = left / r;
        for (int p = 0; p < m; p++)
            if (r == 4)
                pass_4(d, y, x, s, m, p);
            else
                pass_any(d, y, x, r, s, m, p);
        planes swap = x;
        x = y, y = swap;
        left = m, s *= r;
    }
    *out = x.re; /* im stands n behind it in both */
}
