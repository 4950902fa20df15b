/* seeds: tests/golden/audio */
/* fuzz_audio.c - any bytes: as many samples as announced, or a clean refusal; and as a config of the
 * features, a recipe that prepares sound in exactly the bytes that were announced, or a clean refusal. */
#include "audio/audio_recipe.h"

#include <assert.h>
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void decode(const uint8_t *bytes, size_t n) {
    const ph_audio_options options = {.samples_max = 1 << 16};
    ph_audio_info          info;
    ph_sound               sound;
    ph_err                 err = {0};
    ph_arena               ruler = ph_arena_ruler(), arena = {0};
    if (ph_audio_measure(&info, bytes, n, &options, &err)) {
        assert(err.msg[0] && ph_audio_decode(&sound, bytes, n, &options, &ruler, NULL));
        return;
    }
    assert(info.frames && info.frames * (size_t)info.channels <= options.samples_max);
    assert(!ph_audio_decode(&sound, bytes, n, &options, &ruler, &err) && !sound.samples);
    if (ph_arena_open(&arena, ruler.used, &err)) return;
    if (ph_audio_decode(&sound, bytes, n, &options, &arena, &err)) {
        assert(err.msg[0] && !sound.n);
    } else {
        assert(sound.n == info.frames && arena.used == ruler.used);
        for (size_t i = 0; i < sound.n; i++) assert(isfinite(sound.samples[i]));
    }
    ph_arena_close(&arena);
}

static void prepare(const ph_audio_recipe *r, size_t n, int rate) {
    static float x[1000];
    ph_sound     in = {n, rate, x};
    ph_mels      mels;
    ph_arena     arena = {0};
    size_t       need;
    for (size_t i = 0; i < n; i++) x[i] = (float)(i * i % 17) / 17 - 0.5f;
    if ((size_t)r->n_frames * (size_t)(r->n_mels + r->n_fft) > 1 << 18) return; /* slow, and nothing else */
    if (ph_audio_recipe_bytes(&need, r, n, rate, NULL) || need > 32 << 20) return;
    if (ph_arena_open(&arena, need, NULL)) return;
    assert(!ph_audio_recipe_run(&mels, r, &in, &arena, NULL) && arena.used == need);
    size_t floats = (size_t)mels.layout.n_chunks * (size_t)mels.layout.n_mels * (size_t)mels.layout.n_frames;
    for (size_t i = 0; i < floats; i++) assert(isfinite(mels.features[i]));
    ph_arena_close(&arena);
}

static void configure(const uint8_t *bytes, size_t n) {
    ph_json_doc     doc = {0};
    ph_json         none = {0};
    ph_audio_recipe r;
    ph_err          err = {0};
    if (ph_json_parse(&doc, bytes, n, "preprocessor_config.json", NULL)) return;
    ph_json root = ph_json_root(&doc);
    if (ph_audio_recipe_init(&r, &root, &none, &err))
        assert(err.msg[0] && !r.processor);
    else
        prepare(&r, 1, 16000), prepare(&r, 1000, 16000), prepare(&r, 999, 1111);
    ph_json_close(&doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n && bytes[0] == '{')
        configure(bytes, n);
    else
        decode(bytes, n);
    return 0;
}
