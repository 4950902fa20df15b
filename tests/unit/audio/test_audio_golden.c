/* test_audio_golden.c - decoding, resampling and features against the reference libraries (cases.txt). */
#include "tests/unit/audio/audio_help.h"
#include "tests/unit/unit.h"

#include "audio/mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef int run_case(const char *line, ph_arena *arena);

/* Every line of the kind, in an arena of its own. */
static void each(const char *kind, run_case *run, int least) {
    size_t   n;
    uint8_t *table = ut_slurp("cases.txt", &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        ph_arena arena = {0};
        if (strncmp(line, kind, strlen(kind)) || line[strlen(kind)] != ' ') continue;
        CHECK(!ph_arena_open_growing(&arena, 1 << 20, NULL));
        CHECK_SAY(run(line + strlen(kind) + 1, &arena), "%s", line);
        ph_arena_close(&arena);
        count++;
    }
    CHECK(count >= least);
    free(table);
    ut_golden_close();
}

static int decode_case(const char *line, ph_arena *arena) {
    char     name[80];
    int      rate;
    size_t   n, first;
    ph_sound s;
    if (sscanf(line, "%79s %d %zu %zu", name, &rate, &n, &first) != 4 || !ut_sound(&s, name, arena)) return 0;
    double d = ut_golden_differs(name, s.samples, s.n, first);
    CHECK_SAY(d >= 0 && d < 1e-7, "%s differs by %g", name, d);
    return s.rate == rate && s.n == n;
}

void test_audio_decode(void) {
    each("decode", decode_case, 14);
}

static int resample_case(const char *line, ph_arena *arena) {
    char     name[80], key[100];
    int      rate;
    size_t   n, first;
    ph_sound s, r;
    if (sscanf(line, "%79s %d %zu %zu", name, &rate, &n, &first) != 4 || !ut_sound(&s, name, arena)) return 0;
    if (ph_audio_resample(&r, &s, rate, arena, NULL) || r.n != n || r.rate != rate) return 0;
    snprintf(key, sizeof key, "%s@%d", name, rate);
    double d = ut_golden_differs(key, r.samples, r.n, first);
    CHECK_SAY(d >= 0 && d < 2e-6, "%s differs by %g", key, d); /* 20 bits, and another build of the library */
    return 1;
}

void test_audio_resample(void) {
    each("resample", resample_case, 10);
}

/* In a fixed arena of exactly the bytes that were announced. */
static int features_of(const char *line, const char *prefix, double bound, ph_arena *arena) {
    char            name[80], config[80], key[200];
    int             chunks, mels, frames;
    size_t          first, n, need;
    ph_sound        s;
    ph_audio_recipe r;
    ph_mels         out = {0};
    ph_arena        fixed = {0};
    if (sscanf(line, "%79s %79s %d %d %d %zu", name, config, &chunks, &mels, &frames, &first) != 6) return 0;
    uint8_t *text = ut_slurp(config, &n);
    ph_rc    rc = text ? ut_recipe(&r, (char *)text, n, NULL) : PH_EIO;
    free(text);
    if (rc || !ut_sound(&s, name, arena) || ph_audio_recipe_bytes(&need, &r, s.n, s.rate, NULL)) return 0;
    if (ph_arena_open(&fixed, need, NULL)) return 0;
    rc = ph_audio_recipe_run(&out, &r, &s, &fixed, NULL);
    CHECK(!rc && fixed.used == need);
    if (*prefix)
        snprintf(key, sizeof key, "%s%.*s", prefix, (int)strcspn(name, "."), name);
    else
        snprintf(key, sizeof key, "%s+%s", name, config);
    int same =
        !rc && out.layout.n_chunks == chunks && out.layout.n_mels == mels && out.layout.n_frames == frames;
    double d =
        same ? ut_golden_differs(key, out.features, (size_t)chunks * (size_t)mels * (size_t)frames, first)
             : -1;
    CHECK_SAY(d >= 0 && d < bound, "%s differs by %g", key, d);
    ph_arena_close(&fixed);
    return same;
}

static int features_case(const char *line, ph_arena *arena) {
    int is_resampled = !strncmp(line, "s16", 3); /* a resampler's last bits, then a logarithm */
    return features_of(line, "", is_resampled ? 2e-4 : 1e-6, arena);
}
/* torch transforms in single precision: its own distance from numpy's path is 2.3e-5 here. */
static int torch_case(const char *line, ph_arena *arena) {
    return features_of(line, "torch.", 3e-5, arena);
}

void test_audio_features(void) {
    each("features", features_case, 10);
    each("torch", torch_case, 2);
}

/* The reference fixture at the field's own setting, its mel filters too. */
void test_audio_thirty_seconds(void) {
    static const char config[] = "{\"processor_class\": \"WhisperProcessor\", \"mel_filters\": [[0.0]]}";
    ph_arena          arena = {0};
    ph_audio_recipe   r;
    ph_sound          s;
    ph_mels           out;
    ph_mel            mel;
    size_t            n, n_index;
    double            most = 0, filters = 0;
    CHECK(!ph_arena_open_growing(&arena, 1 << 20, NULL));
    CHECK(!ut_recipe(&r, config, sizeof config - 1, NULL) && r.n_frames == 3000 && r.n_mels == 80);
    if (!ut_sound(&s, "noise_tones.wav", &arena)) return;
    CHECK(!ph_audio_recipe_run(&out, &r, &s, &arena, NULL) && out.layout.n_chunks == 1);
    const char *index = ut_golden("logmel30.index", &n_index), *want = ut_golden("logmel30.sample", &n);
    CHECK(n == n_index && n > 2000);
    for (size_t i = 0; index && want && i < n; i++) {
        int32_t at;
        float   w;
        memcpy(&at, index + 4 * i, 4), memcpy(&w, want + 4 * i, 4);
        most = fmax(most, fabs((double)out.features[at] - (double)w));
    }
    CHECK_SAY(most < 1e-5, "features differ by %g", most);
    CHECK(!ph_mel_init(&mel, 400, 160, 80, 16000, 8000, &arena, NULL));
    want = ut_golden("mel_filters", &n);
    CHECK(n == 201 * 80);
    for (size_t i = 0; want && i < n; i++) {
        float w;
        memcpy(&w, want + 4 * i, 4);
        filters = fmax(filters, fabs(ph_mel_weight(&mel, (int)(i % 80), (int)(i / 80)) - (double)w));
    }
    CHECK_SAY(filters < 1e-8, "filters differ by %g", filters);
    ph_arena_close(&arena);
    ut_golden_close();
}
