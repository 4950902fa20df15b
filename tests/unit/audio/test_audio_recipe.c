/* test_audio_recipe.c - transforms of every length, quiet sound, configs that are refused, sizes. */
#include "tests/unit/audio/audio_help.h"
#include "tests/unit/unit.h"

#include "audio/mel.h"

#include <math.h>
#include <string.h>

/* Against the definition, in long double. */
static double dft_error(int n) {
    static double x[2048];
    ph_arena      arena = {0};
    ph_dft        d;
    const double *y;
    double        most = 0;
    unsigned      seed = (unsigned)n;
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL) && !ph_dft_init(&d, n, &arena, NULL));
    for (int i = 0; i < 2 * n; i++) {
        seed = seed * 1664525u + 1013904223u;
        d.work[i] = x[i] = (double)(seed >> 8) / (1 << 23) - 1;
    }
    ph_dft_run(&d, &y);
    for (int k = 0; k < n; k++) {
        long double re = 0, im = 0;
        for (int j = 0; j < n; j++) {
            long double a = -2 * 3.14159265358979323846264338327950288L * (j * k % n) / n;
            re += x[j] * cosl(a) - x[n + j] * sinl(a);
            im += x[j] * sinl(a) + x[n + j] * cosl(a);
        }
        most = fmax(most, fmax(fabs((double)(y[k] - re)), fabs((double)(y[n + k] - im))));
    }
    ph_arena_close(&arena);
    return most / sqrt(n);
}

void test_dft_lengths(void) {
    static const int bad[] = {0, -4, 67, 134, 4489, PH_DFT_SIZE_MAX + 1};
    for (int n = 1; n < 130; n++)
        if (ph_dft_cost(n)) CHECK_SAY(dft_error(n) < 1e-14, "length %d: %g", n, dft_error(n));
    CHECK(dft_error(400) < 1e-14 && dft_error(512) < 1e-14 && dft_error(61 * 8) < 1e-14);
    CHECK(ph_dft_cost(400) == 4 + 4 + 5 + 5 && ph_dft_cost(1) == 1 && ph_dft_cost(PH_DFT_SIZE_MAX) == 28);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph_arena ruler = ph_arena_ruler();
        ph_dft   d;
        CHECK(!ph_dft_cost(bad[i]) && ph_dft_init(&d, bad[i], &ruler, NULL) == PH_EUNSUP);
    }
}

/* Silence lies on the floor; a loud window leaves its quiet neighbour, of the same transform, alone. */
void test_mel_quiet(void) {
    static float x[4000], loud[4000], out[2][2 * 20], zero[2 * 20];
    ph_arena     arena = {0};
    ph_mel       m;
    ph_stretch   s = {x, 4000, 4000, 0};
    for (int i = 0; i < 2000; i++) loud[i] = x[i] = 0;
    for (int i = 0; i < 4000; i++)
        x[i] = 1e-4f * (float)(i % 7 - 3), loud[i] = x[i] * (i < 1000 ? 10000.0f : 1.0f);
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL) &&
          !ph_mel_init(&m, 400, 2000, 20, 16000, 8000, &arena, NULL));
    ph_mel_log(&m, out[0], 2, &s);
    s.x = loud;
    ph_mel_log(&m, out[1], 2, &s);
    s.have = 0;
    ph_mel_log(&m, zero, 2, &s);
    for (int i = 0; i < 20; i++) {
        CHECK_SAY(fabsf(out[0][2 * i + 1] - out[1][2 * i + 1]) < 1e-6f, "mel %d", i);
        CHECK(fabsf(out[1][2 * i] - out[0][2 * i] - 8) < 1e-4f);
        CHECK(fabsf(zero[2 * i] + 10) < 1e-6f && fabsf(zero[2 * i + 1] + 10) < 1e-6f);
    }
    ph_arena_close(&arena);
}

#define TYPE "\"feature_extractor_type\": \"WhisperFeatureExtractor\", "

void test_recipe_refused(void) {
    static const struct {
        ph_rc       rc;
        const char *config, *words;
    } bad[] = {
        {PH_EUNSUP, "{}", "known is WhisperFeatureExtractor"},
        {PH_EUNSUP, "{\"feature_extractor_type\": \"Wav2Vec2FeatureExtractor\"}", "Wav2Vec2FeatureExtractor"},
        {PH_EUNSUP, "{\"processor_class\": \"ClapProcessor\"}", "not known"},
        {PH_EFORMAT, "[]", "preprocessor_config.json"},
        {PH_EFORMAT, "{" TYPE "\"feature_size\": 0}", "feature_size"},
        {PH_EFORMAT, "{" TYPE "\"feature_size\": 2000}", "1024"},
        {PH_EFORMAT, "{" TYPE "\"feature_size\": \"80\"}", "feature_size"},
        {PH_EFORMAT, "{" TYPE "\"sampling_rate\": 1}", "sampling_rate"},
        {PH_EFORMAT, "{" TYPE "\"hop_length\": 0}", "hop_length"},
        {PH_EFORMAT, "{" TYPE "\"hop_length\": 480001}", "leaves no frame of 480000 samples"},
        {PH_EFORMAT, "{" TYPE "\"n_fft\": 1}", "n_fft"},
        {PH_EFORMAT, "{" TYPE "\"n_fft\": 100000}", "16384"},
        {PH_EUNSUP, "{" TYPE "\"n_fft\": 402}", "n_fft 402 has a prime factor above 61"},
        {PH_EFORMAT, "{" TYPE "\"n_fft\": 4096, \"chunk_length\": 1, \"sampling_rate\": 2000}",
         "2000 samples"},
        {PH_EFORMAT, "{" TYPE "\"chunk_length\": 0}", "chunk_length"},
        {PH_ELIMIT, "{" TYPE "\"chunk_length\": 5000}", "80000000 samples: the limit is 67108864"},
        {PH_ELIMIT, "{" TYPE "\"hop_length\": 1}", "too much for one stretch"},
        {PH_ELIMIT, "{" TYPE "\"hop_length\": 4, \"feature_size\": 1024, \"n_fft\": 2}", "too much"},
        {PH_EUNSUP, "{" TYPE "\"dither\": 0.1}", "dither 0.1"},
        {PH_EUNSUP, "{" TYPE "\"dither\": NaN}", "dither"},
        {PH_EFORMAT, "{" TYPE "\"padding_value\": Infinity}", "padding_value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph_audio_recipe r;
        ph_err          err = {0};
        ph_rc           rc = ut_recipe(&r, bad[i].config, strlen(bad[i].config), &err);
        CHECK_SAY(rc == bad[i].rc && strstr(err.msg, bad[i].words), "%s: %s \"%s\"", bad[i].config,
                  ph_rc_name(rc), err.msg);
        CHECK(!r.processor);
    }
}

void test_recipe_sizes(void) {
    ph_audio_recipe r;
    ph_mel_layout   l;
    size_t          bytes, more;
    CHECK(!ut_recipe(&r, "{" TYPE "\"dither\": 0.0}", strlen("{" TYPE "\"dither\": 0.0}"), NULL));
    CHECK(!ph_audio_recipe_layout(&l, &r, 1, 16000, NULL) && l.n_chunks == 1 && l.n_frames == 3000 &&
          l.n_mels == 80);
    CHECK(!ph_audio_recipe_layout(&l, &r, 480000, 16000, NULL) && l.n_chunks == 1 && l.n_samples == 480000);
    CHECK(!ph_audio_recipe_layout(&l, &r, 480001, 16000, NULL) && l.n_chunks == 2);
    CHECK(!ph_audio_recipe_layout(&l, &r, 30 * 44100, 44100, NULL) && l.n_chunks == 1 &&
          l.n_samples == 480000);
    CHECK(!ph_audio_recipe_layout(&l, &r, 30 * 44100 + 1, 44100, NULL) && l.n_chunks == 2);
    CHECK(ph_audio_recipe_layout(&l, &r, 0, 16000, NULL) == PH_EFORMAT);
    CHECK(ph_audio_recipe_layout(&l, &r, 100, 999, NULL) == PH_ELIMIT);
    CHECK(ph_audio_recipe_layout(&l, &r, SIZE_MAX, 1000, NULL) == PH_ELIMIT && !l.n_chunks);
    CHECK(ph_audio_recipe_layout(&l, &r, (size_t)1 << 40, 16000, NULL) == PH_ELIMIT);
    CHECK(!ph_audio_recipe_bytes(&bytes, &r, 1, 16000, NULL) &&
          !ph_audio_recipe_bytes(&more, &r, 1000, 48000, NULL));
    CHECK(bytes >= 4 * 80 * 3000 && bytes < 4 * 80 * 3000 + 60000 && more == bytes + 1344);
    CHECK(ph_audio_resample_bytes(16000, 16000) == 0 && ph_audio_resample_bytes(48000, 16000) > 0);
    CHECK(ph_audio_resampled(1, 48000, 16000) == 1 && ph_audio_resampled(441, 44100, 16000) == 160);
}

/* A processor's config holds the extractor's; with both, the preprocessor's is read. */
void test_recipe_documents(void) {
    static const char outer[] = "{\"feature_extractor\": {" TYPE "\"feature_size\": 128}}";
    static const char inner[] = "{" TYPE "\"feature_size\": 64}";
    ph_json_doc       processor = {0}, preprocessor = {0};
    ph_audio_recipe   r;
    ph_err            err = {0};
    ph_json           none = {0};
    CHECK(!ph_json_parse(&processor, outer, sizeof outer - 1, "processor_config.json", NULL));
    CHECK(!ph_json_parse(&preprocessor, inner, sizeof inner - 1, "preprocessor_config.json", NULL));
    ph_json a = ph_json_root(&processor), b = ph_json_root(&preprocessor);
    CHECK(!ph_audio_recipe_init(&r, &none, &a, NULL) && r.n_mels == 128);
    CHECK(!ph_audio_recipe_init(&r, &b, &a, NULL) && r.n_mels == 64);
    CHECK(ph_audio_recipe_init(&r, &none, &none, &err) == PH_EFORMAT &&
          strstr(err.msg, "processor_config.json"));
    ph_json_close(&processor);
    ph_json_close(&preprocessor);
}
