/* audio_resample.c - one rate to another, by libsoxr.
 *
 * Quality HQ in single precision, as librosa's default (soxr_hq) asks for it, so that a recording reaches the
 * model as it would have from a trainer's loader.  The library is fed in blocks: it queues what it is given,
 * and its heap then does not grow with the recording.  The last samples, which the filter's tail may leave
 * out, are silence, as librosa's fix_length has it.
 */
#include "audio/audio.h"
#include "base/mem.h"

#include <string.h>

#include <soxr.h>

enum { FEED = 16384 /* samples given or got at a time */, RESAMPLER_BASE = 1 << 20 };

size_t ph_audio_resampled(size_t n, int from, int to) {
    return (n * (size_t)to + (size_t)from - 1) / (size_t)from;
}

/* Queues of a block before and after, and a filter whose length follows the ratio (768: 3.2 MB measured). */
size_t ph_audio_resample_bytes(int from, int to) {
    if (from == to) return 0;
    return RESAMPLER_BASE + (size_t)(from > to ? from / to : to / from) * 4096;
}

/* A block is as long on the longer side. */
static size_t feed_of(int from, int to) {
    size_t n = (size_t)((int64_t)FEED * from / to);
    return n > FEED ? FEED : n;
}

static ph_rc check_rate(int rate, ph_err *err) {
    if (rate >= PH_AUDIO_RATE_MIN && rate <= PH_AUDIO_RATE_MAX) return PH_OK;
    return PH_FAIL(err, PH_ELIMIT, "a rate of %d samples a second: %d .. %d can be resampled", rate,
                   PH_AUDIO_RATE_MIN, PH_AUDIO_RATE_MAX);
}

static ph_rc convert(float *to, size_t n_to, const ph_sound *in, int rate, ph_err *err) {
    soxr_error_t        why = NULL;
    soxr_io_spec_t      io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    soxr_runtime_spec_t one = soxr_runtime_spec(1);
    soxr_t              soxr = soxr_create(in->rate, rate, 1, &why, &io, &quality, &one);
    size_t              read = 0, made = 0, most = feed_of(in->rate, rate);
    if (!soxr || why) {
        soxr_delete(soxr);
        return PH_FAIL(err, PH_ENOMEM, "libsoxr cannot resample %d to %d: %.100s", in->rate, rate,
                       why ? why : "no memory");
    }
    while (made < n_to) {
        size_t       feed = in->n - read < most ? in->n - read : most, took = 0, gave = 0;
        const float *from = read < in->n ? in->samples + read : NULL; /* NULL: there will be no more */
        why = soxr_process(soxr, from, feed, &took, to + made, n_to - made, &gave);
        if (why) break;
        read += took, made += gave;
        if (!from && !gave) break;
    }
    soxr_delete(soxr);
    if (why) return PH_FAIL(err, PH_ENOMEM, "libsoxr failed while resampling: %.100s", why);
    memset(to + made, 0, (n_to - made) * sizeof *to);
    return PH_OK;
}

ph_rc ph_audio_resample(ph_sound *out, const ph_sound *in, int rate, ph_arena *arena, ph_err *err) {
    size_t total;
    void  *samples;
    *out = (ph_sound){0};
    PH_TRY(check_rate(in->rate, err));
    PH_TRY(check_rate(rate, err));
    if (in->rate == rate) return *out = *in, PH_OK;
    if (ph_mul_over(in->n, PH_AUDIO_RATE_MAX + 1, &total))
        return PH_FAIL(err, PH_ELIMIT, "%zu samples are too many to resample", in->n);
    size_t n = ph_audio_resampled(in->n, in->rate, rate);
    PH_TRY(ph_arena_carve(arena, &samples, n, sizeof(float), err));
    if (samples && in->samples) PH_TRY(convert(samples, n, in, rate, err));
    *out = (ph_sound){n, rate, samples};
    return PH_OK;
}
