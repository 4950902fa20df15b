/* mel.c - log-mel spectra, two windows a transform.
 *
 * A window is real, so two of them make one complex transform, as its real and its imaginary part, and
 * come apart by symmetry: A[k] = (Z[k] + Z*[n-k]) / 2, B[k] = (Z[k] - Z*[n-k]) / 2i.  What one leaks into the
 * other is 1e-16 of it, far below the floor of 1e-10.  Triangles are kept as runs of weights: nearly all of
 * the filter matrix is zero.
 *
 * Spectra are rounded to single precision before they are squared, as the reference stores them.
 */
#include "audio/mel.h"

#include <math.h>
#include <string.h>

#define MEL_FLOOR 1e-10

/* Slaney's scale: 15 mels a kHz up to 1 kHz, then 27 a factor of 6.4. */
static double mel_of(double hz) {
    return hz < 1000 ? 3 * hz / 200 : 15 + log(hz / 1000) * (27 / log(6.4));
}
static double hz_of(double mel) {
    return mel < 15 ? 200 * mel / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15));
}

/* Weight of a frequency in the triangle lo, mid, hi. */
static double triangle(double hz, double lo, double mid, double hi) {
    double up = (hz - lo) / (mid - lo), down = (hi - hz) / (hi - mid);
    double w = up < down ? up : down;
    return w > 0 ? w * 2 / (hi - lo) : 0;
}

/* A bin lies in two triangles at most, so 2 * n_bins weights hold all. */
static void fill_triangles(ph_mel *m, int rate, double hz_max) {
    double step = mel_of(hz_max) / (m->n_mels + 1);
    int    count = 0;
    for (int i = 0; i < m->n_mels; i++) {
        double lo = hz_of(step * i), mid = hz_of(step * (i + 1)), hi = hz_of(step * (i + 2));
        m->first[i] = count, m->bin[i] = 0;
        for (int k = 0; k < m->n_bins; k++) {
            double w = triangle((double)(rate / 2) * k / (m->n_bins - 1), lo, mid, hi);
            if (!(w > 0)) continue;
            if (count == m->first[i]) m->bin[i] = k;
            if (count < 2 * m->n_bins) m->weight[count++] = w;
        }
    }
    m->first[m->n_mels] = count;
}

ph_rc ph_mel_init(ph_mel *m, int n_fft, int hop, int n_mels, int rate, double hz_max, ph_arena *arena,
                  ph_err *err) {
    void *window, *first, *bin, *weight, *power;
    *m = (ph_mel){.n_fft = n_fft, .hop = hop, .n_mels = n_mels, .n_bins = 1 + n_fft / 2};
    size_t bins = (size_t)m->n_bins, mels = (size_t)n_mels;
    PH_TRY(ph_dft_init(&m->dft, n_fft, arena, err));
    PH_TRY(ph_arena_carve(arena, &window, (size_t)n_fft, sizeof(double), err));
    PH_TRY(ph_arena_carve(arena, &first, mels + 1, sizeof(int), err));
    PH_TRY(ph_arena_carve(arena, &bin, mels, sizeof(int), err));
    PH_TRY(ph_arena_carve(arena, &weight, 2 * bins, sizeof(double), err));
    PH_TRY(ph_arena_carve(arena, &power, 2 * bins, sizeof(double), err));
    if (!m->dft.work || !power) return PH_OK;
    m->window = window, m->first = first, m->bin = bin, m->weight = weight, m->power = power;
    for (int i = 0; i < n_fft; i++) m->window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / n_fft);
    fill_triangles(m, rate, hz_max);
    return PH_OK;
}

double ph_mel_weight(const ph_mel *m, int mel, int bin) {
    int at = bin - m->bin[mel], n = m->first[mel + 1] - m->first[mel];
    return at >= 0 && at < n ? m->weight[m->first[mel] + at] : 0;
}

/* to[i] = window[i] * sample(start + i), mirrored at 0 and n - 1. */
static void fill_window(const ph_mel *m, double *to, const ph_stretch *s, ptrdiff_t start) {
    ptrdiff_t n = (ptrdiff_t)s->n, have = (ptrdiff_t)s->have;
    if (start >= 0 && start + m->n_fft <= have) {
        for (int i = 0; i < m->n_fft; i++) to[i] = m->window[i] * (double)s->x[start + i];
        return;
    }
    for (int i = 0; i < m->n_fft; i++) {
        ptrdiff_t j = start + i;
        if (j < 0) j = -j;
        if (j >= n) j = 2 * (n - 1) - j;
        to[i] = m->window[i] * (double)(j < have ? s->x[j] : s->pad);
    }
}

static double square(double re, double im) {
    float r = (float)re, i = (float)im;
    return (double)r * (double)r + (double)i * (double)i;
}

/* Two power spectra of what stands in the transform's two planes. */
static void split_powers(const ph_mel *m) {
    const double *re, *im;
    ph_dft_run(&m->dft, &re);
    im = re + m->n_fft;
    for (int k = 0; k < m->n_bins; k++) {
        int back = k ? m->n_fft - k : 0;
        m->power[k] = square((re[k] + re[back]) / 2, (im[k] - im[back]) / 2);
        m->power[k + m->n_bins] = square((im[k] + im[back]) / 2, (re[back] - re[k]) / 2);
    }
}

static float log_mel(const ph_mel *m, int mel, const double *power) {
    const double *w = m->weight + m->first[mel];
    double        sum = 0;
    power += m->bin[mel];
    for (int k = 0, n = m->first[mel + 1] - m->first[mel]; k < n; k++) sum += w[k] * power[k];
    return (float)log10(sum > MEL_FLOOR ? sum : MEL_FLOOR);
}

void ph_mel_log(const ph_mel *m, float *out, int n_frames, const ph_stretch *s) {
    double *plane = m->dft.work;
    for (int f = 0; f < n_frames; f += 2) {
        ptrdiff_t start = (ptrdiff_t)f * m->hop - m->n_fft / 2;
        int       two = f + 1 < n_frames;
        fill_window(m, plane, s, start);
        if (two)
            fill_window(m, plane + m->n_fft, s, start + m->hop);
        else
            memset(plane + m->n_fft, 0, (size_t)m->n_fft * sizeof *plane);
        split_powers(m);
        for (int mel = 0; mel < m->n_mels; mel++) {
            float *to = out + (size_t)mel * (size_t)n_frames + f;
            to[0] = log_mel(m, mel, m->power);
            if (two) to[1] = log_mel(m, mel, m->power + m->n_bins);
        }
    }
}
