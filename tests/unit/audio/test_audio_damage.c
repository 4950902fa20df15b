/* test_audio_damage.c - every kind of refusal, cut files, flipped bits, limits. */
#include "tests/unit/audio/audio_help.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const char *const good[] = {"s16_stereo_44k.wav", "s24_8k.wav",  "f64_16k.wav",
                                   "wavex_4ch.wav",      "ulaw_8k.wav", "s16_stereo_48k.flac",
                                   "s8_16k.flac",        "s24_32k.flac"};
enum { N_GOOD = sizeof good / sizeof *good };

/* Decode an exact-size copy, so that a sanitizer sees a read past the end. */
static ph_rc try_bytes(const uint8_t *bytes, size_t n, ph_err *err) {
    ph_sound sound;
    ph_arena ruler = ph_arena_ruler(), arena = {0};
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) return PH_ENOMEM;
    if (n) memcpy(copy, bytes, n);
    ph_rc rc = ph_audio_decode(&sound, copy, n, NULL, &ruler, err);
    if (!rc && ruler.used < 1 << 24 && !(rc = ph_arena_open(&arena, ruler.used, err)))
        rc = ph_audio_decode(&sound, copy, n, NULL, &arena, err);
    CHECK(!rc || (!sound.n && !sound.samples));
    ph_arena_close(&arena);
    free(copy);
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
        ph_rc    rc = bytes ? try_bytes(bytes, size, &err) : PH_EIO;
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
        ph_err   err = {0};
        if (!bytes) continue;
        CHECK_SAY(!try_bytes(bytes, n, &err), "%s: %s", good[i], err.msg);
        for (size_t cut = 0; cut < n; cut += 1 + (cut > 120 && cut + 40 < n ? 97 : 0)) {
            ph_rc rc = try_bytes(bytes, cut, &err);
            CHECK_SAY(rc == PH_EFORMAT || (rc == PH_EUNSUP && cut < 12), "%s cut at %zu of %zu: %s", good[i],
                      cut, n, ph_rc_name(rc));
        }
        free(bytes);
    }
}

/* A flipped bit may still leave a recording; it never leaves anything but that or a clean error. */
void test_audio_flip(void) {
    for (int i = 0; i < N_GOOD; i++) {
        size_t   n;
        uint8_t *bytes = ut_slurp(good[i], &n);
        unsigned seed = (unsigned)i;
        if (!bytes) continue;
        for (int trial = 0; trial < 400; trial++) {
            seed = seed * 1664525u + 1013904223u;
            size_t  at = (trial < 200 ? (size_t)trial : seed >> 8) % n;
            uint8_t bit = (uint8_t)(1u << (seed >> 4 & 7));
            ph_err  err = {0};
            bytes[at] ^= bit;
            ph_rc rc = try_bytes(bytes, n, &err);
            CHECK_SAY(!rc || rc == PH_EFORMAT || rc == PH_EUNSUP || rc == PH_ELIMIT, "%s byte %zu: %s %s",
                      good[i], at, ph_rc_name(rc), err.msg);
            CHECK(!rc || err.msg[0]);
            bytes[at] ^= bit;
        }
        free(bytes);
    }
}
