/* test_damage.c - every kind of refusal, every length of a cut file, thousands of flipped bits. */
#include "tests/unit/damage.h"
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include "image/exif.h"

#include <stdlib.h>
#include <string.h>

static const char *const good[] = {
    "tiny.png",   "rgb8_interlaced.png", "palette4_trns.png", "gray16_trns.png",
    "turn6.jpg",  "progressive.jpg",     "cmyk.jpg",          "restart_420.jpg",
    "lossy.webp", "lossy_alpha.webp",    "turn3.webp",        "palette8.bmp",
    "rgb24.bmp",  "laced.gif",           "small_frame.gif",   "beyond.gif",
    "runs8.bmp"};
enum { N_GOOD = sizeof good / sizeof *good };

static ph_rc decode(const uint8_t *bytes, size_t n, ph_err *err) {
    static ph_image_options options = {.pixels_max = 1 << 16};
    ph_image_info           info;
    ph_pixels               px;
    ph_arena                arena = {0};
    ph_rc                   rc = ph_image_measure(&info, bytes, n, &options, err);
    if (!rc) rc = ph_arena_open(&arena, 3 * (size_t)info.width * (size_t)info.height, err);
    if (!rc) rc = ph_image_decode(&px, bytes, n, &options, &arena, err);
    ph_arena_close(&arena);
    return rc;
}

void test_damage_table(void) {
    size_t   n;
    uint8_t *table = ut_slurp(IMAGES, "bad.txt", &n);
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
        uint8_t  *bytes = ut_slurp(IMAGES, name, &size);
        ph_arena  arena = ph_arena_ruler(), real = {0};
        ph_pixels px;
        ph_rc     rc = bytes ? ph_image_decode(&px, bytes, size, NULL, &arena, &err) : PH_EIO;
        if (!rc && !(rc = ph_arena_open(&real, arena.used, &err)))
            rc = ph_image_decode(&px, bytes, size, NULL, &real, &err);
        CHECK_SAY(!strcmp(ph_rc_name(rc), verdict), "%s: %s (%s)", name, ph_rc_name(rc), err.msg);
        CHECK_SAY(strstr(err.msg, line + words), "%s: \"%s\" lacks \"%s\"", name, err.msg, line + words);
        ph_arena_close(&real);
        free(bytes);
        count++;
    }
    CHECK(count > 20);
    free(table);
}

/* No shorter file is a picture: cut anywhere, it is refused. */
void test_damage_cut(void) {
    for (int i = 0; i < N_GOOD; i++) {
        size_t   n;
        uint8_t *bytes = ut_slurp(IMAGES, good[i], &n);
        if (bytes) ut_damage_cut(decode, good[i], bytes, n, 14, 600, 14);
        free(bytes);
    }
}

/* A flipped bit may still leave a picture; it never leaves anything but a picture or a clean error. */
void test_damage_flip(void) {
    for (int i = 0; i < N_GOOD; i++) {
        size_t   n;
        uint8_t *bytes = ut_slurp(IMAGES, good[i], &n);
        if (bytes) ut_damage_flip(decode, good[i], bytes, n, (unsigned)i);
        free(bytes);
    }
}

static int turn(const char *bytes, size_t n) {
    uint8_t *copy = malloc(n ? n : 1); /* exact size, for the sanitizer */
    if (!copy) return 0;
    memcpy(copy, bytes, n);
    int o = ph_exif_orientation(copy, n);
    free(copy);
    return o;
}

void test_exif(void) {
    static const char little[] =
        "II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x04\0\0\0abc\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
    static const char big[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
    static const char as_long[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\0\0\x05";
    static const char out_of_range[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0";
    static const char two_values[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x02\0\x03\0\x03";
    static const char far_away[] = "MM\0*\xff\xff\xff\xfe\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
    static const char many[] = "MM\0*\0\0\0\x08\xff\xff\x01\x12\0\x03\0\0\0\x01\0\x07\0\0";
    CHECK(turn(little, sizeof little - 1) == 6);
    CHECK(turn(big, sizeof big - 1) == 8);
    CHECK(turn(as_long, sizeof as_long - 1) == 5);
    CHECK(turn(out_of_range, sizeof out_of_range - 1) == 1);
    CHECK(turn(two_values, sizeof two_values - 1) == 1);
    CHECK(turn(far_away, sizeof far_away - 1) == 1);
    CHECK(turn(many, sizeof many - 1) == 7); /* a count that lies: the entries that are there count */
    for (size_t n = 0; n < sizeof big - 1; n++) CHECK(turn(big, n) == 1);
    CHECK(turn("", 0) == 1 && turn("MMMMMMMM", 8) == 1 && turn("IM*\0\x08\0\0\0\0\0", 10) == 1);
}
