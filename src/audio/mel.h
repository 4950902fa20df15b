/* mel.h - power spectra of windows of sound, weighed by triangles on the mel scale.
 *
 *     sound --window, DFT, |.|^2--> power [bins] --triangles--> mel [n_mels] --log10--> features
 *
 * Slaney's scale (linear below 1 kHz, logarithmic above) and normalisation (each
 * triangle has the area of one).  Source: transformers 4.57 audio_utils.py
 * (mel_filter_bank, spectrogram), feature_extraction_whisper.py (numpy path).
 */
#ifndef PH_AUDIO_MEL_H
#define PH_AUDIO_MEL_H

#include "audio/dft.h"

typedef struct ph_mel {
    int     n_fft, hop, n_mels, n_bins; /* n_bins = 1 + n_fft / 2 */
    ph_dft  dft;
    double *window; /* [n_fft] Hann, periodic */
    int    *first;  /* [n_mels + 1] where a triangle's weights begin in weight */
    int    *bin;    /* [n_mels] and at which bin they do */
    double *weight; /* [2 * n_bins] of all triangles, their bins being contiguous */
    double *power;  /* [2, n_bins] of two windows */
} ph_mel;

/* Tables and scratch from arena; NULL on a ruler.
 *   rate      samples a second; the triangles end at hz_max
 * Errors: those of ph_dft_init; PH_ENOMEM. */
ph_rc ph_mel_init(ph_mel *m, int n_fft, int hop, int n_mels, int rate, double hz_max, ph_arena *arena,
                  ph_err *err);

/* Stretch of sound that is transformed: have samples at x, then silence of value pad up to n; mirrored at
 * both ends by n_fft / 2, which must be below n. */
typedef struct ph_stretch {
    const float *x; /* [have] */
    size_t       have, n;
    float        pad;
} ph_stretch;

/* out[mel * n_frames + f] = log10(max(mel power, 1e-10)) of the window centred on sample f * hop.
 * n_frames * hop <= n + n_fft / 2. */
void ph_mel_log(const ph_mel *m, float *out, int n_frames, const ph_stretch *s);

/* The weight of a bin in a triangle, for tests: 0 outside. */
double ph_mel_weight(const ph_mel *m, int mel, int bin);

#endif
