/* audio_recipe.c - the config's numbers, checked at the door; the stretches; their features.
 *
 *   init    class, keys, and whether their products stay small
 *   layout  samples at the recipe's rate, stretches, frames
 *   run     resample; for each stretch log-mel, its maximum, the cut, the scale
 *
 * One class is known.  A second one makes a table of kinds, as image/recipe.h has it.
 */
#include "audio/audio_recipe.h"
#include "audio/mel.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK_SAMPLES_MAX = 1 << 26,
    /* Complex products of one stretch; 30 s of the field's own take a fiftieth of this. */
    WORK_MAX = 1 << 30,
};
#define HZ_MAX 8000.0 /* of the mel scale: the reference's, whatever the rate */

static const char class_name[] = "WhisperFeatureExtractor";

const char *ph_audio_recipe_processor(void) {
    return class_name;
}

/* ---- reading ---- */

/* Early checkpoints name only the processor that holds the extractor. */
static ph_rc find_class(ph_audio_recipe *r, const ph_json *config, ph_err *err) {
    const char *name, *holder;
    PH_TRY(ph_json_text_or(config, "feature_extractor_type", "", &name, err));
    PH_TRY(ph_json_text_or(config, "processor_class", "", &holder, err));
    if (strcmp(name, class_name) && (*name || strcmp(holder, "WhisperProcessor")))
        return PH_FAIL(err, PH_EUNSUP, "%s: feature extractor \"%.60s\" is not known; known is %s",
                       config->where, name, class_name);
    r->processor = class_name;
    return PH_OK;
}

static ph_rc read_numbers(ph_audio_recipe *r, const ph_json *config, int *seconds, ph_err *err) {
    double dither, padding;
    PH_TRY(ph_json_size_or(config, "feature_size", 1, PH_AUDIO_MELS_MAX, 80, &r->n_mels, err));
    PH_TRY(
        ph_json_size_or(config, "sampling_rate", PH_AUDIO_RATE_MIN, PH_AUDIO_RATE_MAX, 16000, &r->rate, err));
    PH_TRY(ph_json_size_or(config, "hop_length", 1, CHUNK_SAMPLES_MAX, 160, &r->hop, err));
    PH_TRY(ph_json_size_or(config, "n_fft", 2, PH_DFT_SIZE_MAX, 400, &r->n_fft, err));
    PH_TRY(ph_json_size_or(config, "chunk_length", 1, CHUNK_SAMPLES_MAX, 30, seconds, err));
    PH_TRY(ph_json_real_or(config, "dither", 0, &dither, err));
    PH_TRY(ph_json_real_or(config, "padding_value", 0, &padding, err));
    if (!(fabs(dither) <= 0))
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: dither %g adds noise, which has no place in an answer: set it to 0",
                       config->where, dither);
    if (!(fabs(padding) <= 1e9))
        return PH_FAIL(err, PH_EFORMAT, "%s: padding_value %g is no sample", config->where, padding);
    r->padding_value = (float)padding;
    return PH_OK;
}

/* Frames as the reference counts them: windows that fit, mirrored ends included, less the last. */
static ph_rc check_sizes(ph_audio_recipe *r, int seconds, const char *where, ph_err *err) {
    size_t samples = (size_t)seconds * (size_t)r->rate;
    int    cost = ph_dft_cost(r->n_fft), half = r->n_fft / 2;
    if (samples > CHUNK_SAMPLES_MAX)
        return PH_FAIL(err, PH_ELIMIT,
                       "%s: chunk_length %d at %d samples a second is %zu samples: the limit is %d", where,
                       seconds, r->rate, samples, CHUNK_SAMPLES_MAX);
    if (samples <= (size_t)half)
        return PH_FAIL(err, PH_EFORMAT, "%s: n_fft %d is longer than the %zu samples of chunk_length", where,
                       r->n_fft, samples);
    if (!cost)
        return PH_FAIL(err, PH_EUNSUP, "%s: n_fft %d has a prime factor above %d", where, r->n_fft,
                       PH_DFT_PRIME_MAX);
    r->chunk_samples = (int)samples;
    r->n_frames = (r->chunk_samples + 2 * half - r->n_fft) / r->hop;
    if (r->n_frames < 1)
        return PH_FAIL(err, PH_EFORMAT, "%s: hop_length %d leaves no frame of %zu samples", where, r->hop,
                       samples);
    if ((int64_t)r->n_frames * r->n_fft * cost > WORK_MAX ||
        (int64_t)r->n_frames * r->n_mels > PH_AUDIO_FEATURES_MAX)
        return PH_FAIL(
            err, PH_ELIMIT,
            "%s: %d frames of n_fft %d and %d features are too much for one stretch: hop_length is %d", where,
            r->n_frames, r->n_fft, r->n_mels, r->hop);
    return PH_OK;
}

ph_rc ph_audio_recipe_init(ph_audio_recipe *out, const ph_json *preprocessor, const ph_json *processor,
                           ph_err *err) {
    ph_audio_recipe r = {0};
    ph_json         config = *preprocessor;
    int             seconds;
    *out = r;
    if (ph_json_kind_of(&config) == PH_JSON_ABSENT) config = ph_json_get(processor, "feature_extractor");
    if (ph_json_kind_of(&config) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT,
                       "the model says not how to prepare sound: it needs a preprocessor_config.json, or "
                       "feature_extractor in processor_config.json");
    PH_TRY(find_class(&r, &config, err));
    PH_TRY(read_numbers(&r, &config, &seconds, err));
    PH_TRY(check_sizes(&r, seconds, config.where, err));
    *out = r;
    return PH_OK;
}

/* ---- sizes ---- */

ph_rc ph_audio_recipe_layout(ph_mel_layout *out, const ph_audio_recipe *r, size_t n, int rate, ph_err *err) {
    *out = (ph_mel_layout){0};
    if (!n) return PH_FAIL(err, PH_EFORMAT, "the audio holds no samples");
    if (rate < PH_AUDIO_RATE_MIN || rate > PH_AUDIO_RATE_MAX)
        return PH_FAIL(err, PH_ELIMIT, "the audio has %d samples a second: %d .. %d are read", rate,
                       PH_AUDIO_RATE_MIN, PH_AUDIO_RATE_MAX);
    size_t chunk = (size_t)r->chunk_samples, floats = (size_t)r->n_mels * (size_t)r->n_frames;
    size_t most = PH_AUDIO_FEATURES_MAX / floats; /* stretches; at least 1 (check_sizes) */
    size_t samples =
        n > SIZE_MAX / (PH_AUDIO_RATE_MAX + 1) ? SIZE_MAX - chunk : ph_audio_resampled(n, rate, r->rate);
    size_t chunks = (samples + chunk - 1) / chunk;
    if (chunks > most)
        return PH_FAIL(err, PH_ELIMIT,
                       "the audio is %zu stretches of %d s: the limit is %zu; give it in parts", chunks,
                       r->chunk_samples / r->rate, most);
    *out = (ph_mel_layout){samples, (int)chunks, r->n_mels, r->n_frames};
    return PH_OK;
}

/* ---- running ---- */

/* Cut 8 decades below the largest, then to the range that the model was trained on. */
static void scale(float *x, size_t n) {
    float most = x[0];
    for (size_t i = 1; i < n; i++)
        if (x[i] > most) most = x[i];
    for (size_t i = 0; i < n; i++) {
        float v = x[i] > most - 8.0f ? x[i] : most - 8.0f;
        x[i] = (v + 4.0f) / 4.0f;
    }
}

ph_rc ph_audio_recipe_run(ph_mels *out, const ph_audio_recipe *r, const ph_sound *in, ph_arena *arena,
                          ph_err *err) {
    ph_mel_layout l;
    ph_sound      sound;
    ph_mel        mel;
    void         *features;
    *out = (ph_mels){0};
    PH_TRY(ph_audio_recipe_layout(&l, r, in->n, in->rate, err));
    size_t chunk = (size_t)r->chunk_samples, floats = (size_t)r->n_mels * (size_t)r->n_frames;
    PH_TRY(ph_arena_carve(arena, &features, (size_t)l.n_chunks * floats, sizeof(float), err));
    PH_TRY(ph_audio_resample(&sound, in, r->rate, arena, err));
    PH_TRY(ph_mel_init(&mel, r->n_fft, r->hop, r->n_mels, r->rate, HZ_MAX, arena, err));
    if (features && sound.samples)
        for (size_t c = 0; c < (size_t)l.n_chunks; c++) {
            size_t     left = sound.n - c * chunk;
            ph_stretch s = {sound.samples + c * chunk, left < chunk ? left : chunk, chunk, r->padding_value};
            float     *to = (float *)features + c * floats;
            ph_mel_log(&mel, to, r->n_frames, &s);
            scale(to, floats);
        }
    *out = (ph_mels){l, features};
    return PH_OK;
}

ph_rc ph_audio_recipe_bytes(size_t *out, const ph_audio_recipe *r, size_t n, int rate, ph_err *err) {
    ph_arena ruler = ph_arena_ruler();
    ph_mels  mels;
    ph_sound in = {.n = n, .rate = rate};
    *out = 0;
    PH_TRY(ph_audio_recipe_run(&mels, r, &in, &ruler, err));
    *out = ruler.used;
    return PH_OK;
}
