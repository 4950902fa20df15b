/* test_decode.c - good pictures against a reference decoder's pixels, and what they cost. */
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* JPEG: IDCT and chroma upsampling may differ between decoders by so much. */
static int is_near(const ph_pixels *px, const char *name) {
    char     raw[80];
    size_t   n, want_n = 3 * (size_t)px->width * (size_t)px->height;
    unsigned sum = 0, worst = 0;
    snprintf(raw, sizeof raw, "%s.rgb", name);
    uint8_t *want = ut_slurp(IMAGES, raw, &n);
    for (size_t i = 0; want && n == want_n && i < n; i++) {
        unsigned d = (unsigned)abs(want[i] - px->rgb[i]);
        sum += d;
        if (d > worst) worst = d;
    }
    int ok = want && n == want_n && worst <= 3 && sum * 10 < n * 6;
    if (!ok) printf("  %s: worst %u, sum %u over %zu values\n", name, worst, sum, n);
    free(want);
    return ok;
}

static void one_picture(const char *name, ph_alpha alpha, int w, int h, unsigned crc, int is_lossy) {
    size_t           n;
    uint8_t         *bytes = ut_slurp(IMAGES, name, &n);
    ph_image_options options = {.alpha = alpha};
    ph_image_info    info;
    ph_pixels        px = {0};
    ph_err           err = {0};
    ph_arena         arena = {0}, ruler = ph_arena_ruler();
    if (!bytes) return;
    CHECK_SAY(!ph_image_measure(&info, bytes, n, &options, &err), "%s: %s", name, err.msg);
    CHECK_SAY(info.width == w && info.height == h, "%s: %d x %d", name, info.width, info.height);
    CHECK(!ph_image_decode(&px, bytes, n, &options, &ruler, &err) && !px.rgb && px.width == w &&
          px.height == h);
    CHECK(!ph_arena_open(&arena, ruler.used, &err));
    CHECK_SAY(!ph_image_decode(&px, bytes, n, &options, &arena, &err), "%s: %s", name, err.msg);
    if (px.rgb) {
        CHECK(arena.used == ruler.used);
        unsigned got = ut_crc32(px.rgb, 3 * (size_t)px.width * (size_t)px.height);
        CHECK_SAY(is_lossy ? is_near(&px, name) : got == crc, "%s: %08x, expected %08x", name, got, crc);
    }
    ph_arena_close(&arena);
    free(bytes);
}

void test_decode_pixels(void) {
    size_t   n;
    uint8_t *table = ut_slurp(IMAGES, "pixels.txt", &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        char     alpha[16], how[8], name[80];
        int      w, h;
        unsigned crc;
        if (sscanf(line, "%15s %d %d %x %7s %79s", alpha, &w, &h, &crc, how, name) != 6) {
            CHECK_SAY(0, "%s", line);
            continue;
        }
        int is_lossy = !strcmp(how, "near");
        if (strcmp(alpha, "drop")) one_picture(name, PH_ALPHA_COMPOSITE, w, h, crc, is_lossy);
        if (strcmp(alpha, "composite")) one_picture(name, PH_ALPHA_DROP, w, h, crc, is_lossy);
        count++;
    }
    CHECK(count > 50);
    free(table);
}

/* Heap growth while name is decoded, in a child whose heap never shrinks; 0 where malloc cannot be asked. */
static size_t heap_growth(const uint8_t *bytes, size_t n, size_t pixel_bytes) {
    int    link[2];
    size_t growth = 0;
    if (pipe(link)) return 0;
    pid_t child = fork();
    if (child == 0) {
        ph_arena  arena;
        ph_pixels px;
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
        malloc_trim(0);
        if (ph_arena_open(&arena, pixel_bytes, NULL)) _exit(1);
        struct mallinfo2 before = mallinfo2();
        if (ph_image_decode(&px, bytes, n, NULL, &arena, NULL)) _exit(1);
        struct mallinfo2 after = mallinfo2();
        /* Nothing is given back, so the heap's growth is the most that was held at once, but for the free
         * pieces that were there before. */
        growth = after.arena - before.arena + before.fordblks;
        if (!before.arena) growth = 0;
        if (write(link[1], &growth, sizeof growth) != sizeof growth) _exit(1);
        _exit(0);
    }
    close(link[1]);
    if (read(link[0], &growth, sizeof growth) != sizeof growth) growth = 0;
    close(link[0]);
    waitpid(child, NULL, 0);
    return growth;
}

/* The stated upper estimate holds; what was free before counts as used, so it is compared with room for it.
 */
void test_decode_heap(void) {
    static const char *const names[] = {
        "scene.png", "rgba16.png", "rgb8_interlaced.png", "progressive.jpg",  "restart_420.jpg",
        "cmyk.jpg",  "lossy.webp", "lossless_alpha.webp", "lossy_alpha.webp", "palette8.bmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t        n;
        ph_image_info info;
        uint8_t      *bytes = ut_slurp(IMAGES, names[i], &n);
        if (!bytes) continue;
        CHECK(!ph_image_measure(&info, bytes, n, NULL, NULL));
        size_t most = ph_image_decode_bytes(&info);
        size_t growth = heap_growth(bytes, n, 3 * (size_t)info.width * (size_t)info.height);
        CHECK_SAY(growth <= most + (256 << 10), "%s: %zu bytes, estimated %zu", names[i], growth, most);
        free(bytes);
    }
}

void test_decode_limit(void) {
    size_t           n;
    uint8_t         *bytes = ut_slurp(IMAGES, "scene.png", &n);
    ph_image_options options = {.pixels_max = 160 * 120 - 1};
    ph_image_info    info;
    ph_err           err = {0};
    if (!bytes) return;
    CHECK(ph_image_measure(&info, bytes, n, &options, &err) == PH_ELIMIT);
    CHECK_SAY(strstr(err.msg, "160 x 120 = 19200 pixels, the limit is 19199") &&
                  strstr(err.msg, "--max-pixels"),
              "%s", err.msg);
    options.pixels_max++;
    CHECK(!ph_image_measure(&info, bytes, n, &options, &err));
    CHECK(!strcmp(ph_image_format_name(info.format), "PNG") &&
          !strcmp(ph_image_format_mime(info.format), "image/png"));
    free(bytes);
}
