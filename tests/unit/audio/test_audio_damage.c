/* test_audio_damage.c - every kind of refusal, cut files, flipped bits, limits. */
#include "tests/unit/audio/audio_help.h"
#include "tests/unit/damage.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const char *const good[] = {"s16_stereo_44k.wav", "s24_8k.wav",  "f64_16k.wav",
                                   "wavex_4ch.wav",      "ulaw_8k.wav", "s16_stereo_48k.flac",
                                   "s8_16k.flac",        "s24_32k.flac"};
enum { N_GOOD = sizeof good / sizeof *good };

static ph_rc decode(const uint8_t *bytes, size_t n, ph_err *err) {
    ph_sound sound;
    ph_arena ruler = ph_arena_ruler(), arena = {0};
    ph_rc    rc = ph_audio_decode(&sound, bytes, n, NULL, &ruler, err);
    if (!rc && ruler.used < 1 << 24 && !(rc = ph_arena_open(&arena, ruler.used, err)))
        rc = ph_audio_decode(&sound, bytes, n, NULL, &arena, err);
    CHECK(!rc || (!sound.n && !sound.samples));
    ph_arena_close(&arena);
    return rc;
}

void test_audio_refused(void) {
    size_t   n;
    uint8_t *table = ut_slurp("bad.txt", &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        char   verdict[16], name[80];
        int    words = 0;
        size_t size;
        ph_err err = {0};
        if (sscanf(line, "%15s %79s %n", verdict, name, &words) != 2) {
            CHECK_SAY(0, "%s", line);
            continue;
        }
        uint8_t *bytes = ut_slurp(name, &size);
        ph_rc    rc = bytes ? ut_decode_copy(decode, bytes, size, &err) : PH_EIO;
        CHECK_SAY(!strcmp(ph_rc_name(rc), verdict), "%s: %s (%s)", name, ph_rc_name(rc), err.msg);
        CHECK_SAY(strstr(err.msg, line + words), "%s: \"%s\" lacks \"%s\"", name, err.msg, line + words);
        free(bytes);
        count++;
    }
    CHECK(count > 25);
    free(table);
}

/* The limit counts the samples of all channels, and is met exactly. */
void test_audio_limit(void) {
    ph_audio_info    info;
    ph_err           err = {0};
    size_t           n;
    uint8_t         *bytes = ut_slurp("wavex_4ch.wav", &n);
    ph_audio_options options = {.samples_max = 3200};
    if (!bytes) return;
    CHECK_SAY(!ph_audio_measure(&info, bytes, n, &options, &err), "%s", err.msg);
    CHECK(info.channels == 4 && info.frames == 800 && info.rate == 16000 && info.heap_bytes);
    CHECK(!strcmp(info.format, "WAV") && !strcmp(info.coding, "16-bit PCM"));
    options.samples_max = 3199;
    CHECK(ph_audio_measure(&info, bytes, n, &options, &err) == PH_ELIMIT && !info.frames);
    CHECK(strstr(err.msg, "800") && strstr(err.msg, "3199"));
    free(bytes);
}

/* No shorter file is the recording: cut anywhere, it is refused. */
void test_audio_cut(void) {
    for (int i = 0; i < N_GOOD; i++) {
        size_t   n;
        uint8_t *bytes = ut_slurp(good[i], &n);
        if (bytes) ut_damage_cut(decode, good[i], bytes, n, 12, 120, 98);
        free(bytes);
    }
}

/* A flipped bit may still leave a recording; it never leaves anything but that or a clean error. */
void test_audio_flip(void) {
    for (int i = 0; i < N_GOOD; i++) {
        size_t   n;
        uint8_t *bytes = ut_slurp(good[i], &n);
        if (bytes) ut_damage_flip(decode, good[i], bytes, n, (unsigned)i);
        free(bytes);
    }
}
