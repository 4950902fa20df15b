/* test_resample.c - resizing against Pillow's bytes; windows and canvases against whole pictures. */
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include "image/resample.h"

#include <stdlib.h>
#include <string.h>

void test_resize_golden(void) {
    size_t   n;
    uint8_t *table = ut_slurp(PREPROCESS, "resize.txt", &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        int       w, h, filter;
        unsigned  crc;
        char      source[80];
        ph_pixels in, out;
        ph_err    err = {0};
        ph_arena  arena = {0}, ruler = ph_arena_ruler();
        if (sscanf(line, "%d %d %d %x %79s", &w, &h, &filter, &crc, source) != 5 ||
            !ut_picture(&in, source)) {
            CHECK_SAY(0, "%s", line);
            continue;
        }
        CHECK(!ph_pixels_resize(&out, &in, w, h, (ph_filter)filter, &ruler, &err) && !out.rgb);
        CHECK(!ph_arena_open(&arena, ruler.used, &err));
        CHECK(!ph_pixels_resize(&out, &in, w, h, (ph_filter)filter, &arena, &err) &&
              arena.used == ruler.used);
        CHECK_SAY(out.rgb && ut_crc32(out.rgb, 3 * (size_t)w * (size_t)h) == crc, "%s", line);
        ph_arena_close(&arena);
        free(in.rgb);
        count++;
    }
    CHECK(count > 60);
    free(table);
}

/* The window of a resize equals that part of the whole, for every filter and both orders of passes. */
static void one_window(const char *source, int w, int h, const ph_window *win, ph_filter filter) {
    ph_pixels in, whole = {0};
    ph_err    err = {0};
    ph_arena  arena = {0}, scratch = {0};
    size_t    peak = 0, line = 3 * (size_t)win->width;
    uint8_t  *part = malloc(line * (size_t)win->height);
    if (!ut_picture(&in, source) || !part) return;
    ph_canvas canvas = ph_canvas_of(&in);
    CHECK(!ph_arena_open(&arena, 8 << 20, &err) && !ph_arena_open(&scratch, 8 << 20, &err));
    CHECK(!ph_pixels_resize(&whole, &in, w, h, filter, &arena, &err));
    CHECK(!ph_resample(part, line, &canvas, w, h, win, filter, &scratch, &peak, &err));
    CHECK(scratch.used == 0 && peak > 0);
    for (int y = 0; whole.rgb && y < win->height; y++)
        CHECK_SAY(!memcmp(part + (size_t)y * line,
                          whole.rgb + 3 * ((size_t)(win->y + y) * (size_t)w + (size_t)win->x), line),
                  "%s %d x %d %s row %d", source, w, h, ph_filter_name(filter), y);
    ph_arena_close(&arena);
    ph_arena_close(&scratch);
    free(part);
    free(in.rgb);
}

void test_resize_window(void) {
    for (int f = 0; f < PH_N_FILTERS; f++) {
        one_window("noise:40x30:1", 70, 50, &(ph_window){11, 7, 20, 31}, (ph_filter)f);
        one_window("noise:40x90:2", 33, 20, &(ph_window){5, 3, 9, 8}, (ph_filter)f); /* down first */
        one_window("noise:40x30:3", 40, 17, &(ph_window){39, 16, 1, 1}, (ph_filter)f);
        one_window("noise:40x30:4", 21, 30, &(ph_window){0, 29, 21, 1}, (ph_filter)f);
        one_window("noise:9x9:5", 9, 9, &(ph_window){2, 3, 4, 5}, (ph_filter)f);
    }
}

/* A picture on a canvas is resized as if the canvas were stored. */
void test_resize_canvas(void) {
    ph_pixels in, stored = {60, 60, malloc(60 * 60 * 3)};
    ph_err    err = {0};
    size_t    peak = 0;
    ph_arena  scratch = {0};
    uint8_t   a[24 * 31 * 3], b[24 * 31 * 3];
    ph_window all = {0, 0, 24, 31};
    if (!ut_picture(&in, "noise:60x13:9") || !stored.rgb) return;
    ph_canvas padded = {.picture = in, .width = 60, .height = 60, .y = 23, .fill = {9, 80, 200}};
    ph_canvas plain = ph_canvas_of(&stored);
    for (int i = 0; i < 60 * 60; i++) memcpy(stored.rgb + 3 * i, padded.fill, 3);
    memcpy(stored.rgb + 23 * 180, in.rgb, 13 * 180);
    CHECK(!ph_arena_open(&scratch, 1 << 20, &err));
    for (int f = 0; f < PH_N_FILTERS; f++) {
        CHECK(!ph_resample(a, 72, &padded, 24, 31, &all, (ph_filter)f, &scratch, &peak, &err));
        CHECK(!ph_resample(b, 72, &plain, 24, 31, &all, (ph_filter)f, &scratch, &peak, &err));
        CHECK_SAY(!memcmp(a, b, sizeof a), "%s", ph_filter_name((ph_filter)f));
    }
    ph_arena_close(&scratch);
    free(stored.rgb);
    free(in.rgb);
}
