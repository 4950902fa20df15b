/* video_test.c - frames of small videos against the formula that they were made by, and ffmpeg's own
 * conversion. Built without ffmpeg's libraries, or run where they are not: only that this is said. */
#include "base/file.h"
#include "tests/unit/unit.h"
#include "video/video.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/video/tests.def"
#undef PH_TEST

#define VIDEOS "tests/golden/video/"

enum { W = 10, H = 6, N = 13 };

/* Every step-th frame from first on, and the last once more. */
typedef struct choice {
    int first, step;
} choice;

static ph_rc choose(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err) {
    choice *c = arg;
    (void)err;
    *n = 0;
    for (int i = c->first; i < info->n_frames; i += c->step) index[(*n)++] = i;
    index[(*n)++] = info->n_frames - 1;
    return PH_OK;
}

static ph_rc read_file(ph_video *v, const char *name, choice *c, uint64_t pixels_max, ph_err *err) {
    const ph_video_how how = {.choose = choose, .arg = c, .pixels_max = pixels_max};
    ph_file            f;
    ph_rc              rc = ph_file_open(&f, name, err);
    CHECK_SAY(!rc, "%s: %s", name, err->msg);
    if (rc) return rc;
    rc = ph_video_read(v, f.bytes, f.n, &how, err);
    ph_file_close(&f);
    return rc;
}

/* Is there anything to test here? */
static int can_read(void) {
    ph_video v;
    ph_err   err = {0};
    choice   c = {.step = 1};
    ph_rc    rc = read_file(&v, VIDEOS "plain.mov", &c, 0, &err);
    if (!rc) ph_video_close(&v);
    if (rc != PH_EMACHINE) return 1;
    CHECK_SAY(strstr(err.msg, "ffmpeg's libraries"), "%s", err.msg);
    return 0;
}

static void formula(uint8_t out[3], int k, int x, int y) {
    out[0] = (uint8_t)(7 * k + 3 * x + 5 * y);
    out[1] = (uint8_t)(11 * k + x);
    out[2] = (uint8_t)(13 * k + 9 * y);
}

/* Frame i of v is frame k of the formula, turned clockwise. */
static void same(const ph_video *v, int i, int k, int degrees, const char *name) {
    int wrong = 0, w = degrees % 180 ? H : W, h = degrees % 180 ? W : H;
    CHECK_SAY(v->info.width == w && v->info.height == h, "%s: %d x %d", name, v->info.width, v->info.height);
    if (v->info.width != w || v->info.height != h) return;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            uint8_t want[3];
            int     from_x = degrees == 90 ? y : degrees == 180 ? W - 1 - x : degrees == 270 ? W - 1 - y : x;
            int     from_y = degrees == 90 ? H - 1 - x : degrees == 180 ? H - 1 - y : degrees == 270 ? x : y;
            formula(want, k, from_x, from_y);
            wrong +=
                memcmp(v->frame[i] + PH_VIDEO_BMP_HEADER + (size_t)y * ph_video_stride(w) + 3 * (size_t)x,
                       want, 3) != 0;
        }
    CHECK_SAY(!wrong, "%s, frame %d: %d pixels differ", name, k, wrong);
}

static void frames_of(const char *name, int n, int first, int step) {
    ph_video v;
    ph_err   err = {0};
    choice   c = {.first = first, .step = step};
    ph_rc    rc = read_file(&v, name, &c, 0, &err);
    CHECK_SAY(!rc, "%s: %s", name, err.msg);
    if (rc) return;
    CHECK_SAY(v.info.n_frames == n, "%s: %d frames", name, v.info.n_frames);
    CHECK(v.n_frames == (n - first + step - 1) / step + 1 && v.info.fps > 9.9 && v.info.fps < 10.1);
    for (int i = 0; i < v.n_frames; i++) same(&v, i, i == v.n_frames - 1 ? n - 1 : first + i * step, 0, name);
    ph_video_close(&v);
}

void test_video_frames(void) {
    if (!can_read()) return;
    frames_of(VIDEOS "plain.mov", N, 0, 1);
    frames_of(VIDEOS "plain.mov", N, 3, 4);
    frames_of(VIDEOS "plain.mov", N, 12, 1);  /* the last twice */
    frames_of(VIDEOS "counted.mkv", N, 0, 5); /* does not say how many it holds */
    frames_of(VIDEOS "one.mkv", 1, 0, 1);
}

void test_video_turned(void) {
    static const int degrees[] = {90, 180, 270};
    if (!can_read()) return;
    for (int i = 0; i < 3; i++) {
        char     name[64];
        ph_video v;
        ph_err   err = {0};
        choice   c = {.step = 1};
        snprintf(name, sizeof name, VIDEOS "turned%d.mov", degrees[i]);
        ph_rc rc = read_file(&v, name, &c, 0, &err);
        CHECK_SAY(!rc, "%s: %s", name, err.msg);
        if (rc) continue;
        same(&v, 0, 0, degrees[i], name);
        same(&v, 1, 1, degrees[i], name);
        ph_video_close(&v);
    }
}

/* Sub-sampled colours, both ranges and matrices, as the tool of the same libraries shows them. */
static void colors_of(const char *folder, const char *how) {
    char     command[600], name[200];
    ph_video v;
    ph_err   err = {0};
    choice   c = {.step = 3};
    snprintf(command, sizeof command,
             "ffmpeg -v error -y -f lavfi -i testsrc2=size=66x50:rate=5:duration=2 %s %s/a.mp4 && "
             "ffmpeg -v error -y -i %s/a.mp4 -f rawvideo -pix_fmt bgr24 %s/a.raw",
             how, folder, folder, folder);
    CHECK_SAY(!system(command), "%s", command);
    snprintf(name, sizeof name, "%s/a.mp4", folder);
    ph_rc rc = read_file(&v, name, &c, 0, &err);
    CHECK_SAY(!rc && v.info.n_frames == 10, "%s: %s", how, err.msg);
    snprintf(name, sizeof name, "%s/a.raw", folder);
    FILE *f = rc ? NULL : fopen(name, "rb");
    for (int i = 0; f && i < v.n_frames; i++) {
        uint8_t want[66 * 50 * 3];
        int     k = i == v.n_frames - 1 ? 9 : 3 * i, wrong = 0;
        CHECK(!fseek(f, (long)sizeof want * k, SEEK_SET) && fread(want, sizeof want, 1, f) == 1);
        for (size_t y = 0; y < 50; y++)
            for (size_t x = 0; x < 198; x++) {
                int d = want[198 * y + x] - v.frame[i][PH_VIDEO_BMP_HEADER + ph_video_stride(66) * y + x];
                wrong += d < -1 || d > 1;
            }
        CHECK_SAY(!wrong, "%s, frame %d: %d numbers differ by more than 1", how, k, wrong);
    }
    if (f) fclose(f);
    if (!rc) ph_video_close(&v);
}

void test_video_colors(void) {
    char folder[] = "/tmp/pinhole-video-XXXXXX", command[80];
    if (system("ffmpeg -version > /dev/null 2>&1") || !can_read()) return; /* golden videos need no tool */
    CHECK(mkdtemp(folder) != NULL);
    colors_of(folder, "-c:v mpeg4 -q:v 3");
    colors_of(folder, "-c:v mpeg4 -q:v 3 -bf 2"); /* frames that are stored in another order */
    colors_of(folder, "-c:v mjpeg -q:v 3 -pix_fmt yuvj420p");
    colors_of(folder, "-c:v mpeg4 -q:v 3 -colorspace bt709");
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(!system(command));
}

static void refused(const char *name, uint64_t pixels_max, ph_rc want, const char *words) {
    ph_video v;
    ph_err   err = {0};
    choice   c = {.step = 1};
    ph_rc    rc = read_file(&v, name, &c, pixels_max, &err);
    CHECK_SAY(rc == want && strstr(err.msg, words), "%s: %s %s", name, ph_rc_name(rc), err.msg);
    if (!rc) ph_video_close(&v);
}

void test_video_refused(void) {
    ph_video           v;
    ph_err             err = {0};
    choice             c = {.step = 1};
    const ph_video_how how = {.choose = choose, .arg = &c};
    if (!can_read()) return;
    CHECK(ph_video_read(&v, (const uint8_t *)"", 0, &how, &err) == PH_EFORMAT && strstr(err.msg, "0 bytes"));
    static const char list[] =
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n";
    CHECK(ph_video_read(&v, (const uint8_t *)list, sizeof list - 1, &how, &err) && !v.n_frames);
    refused("tests/golden/video/make_video.py", 0, PH_EFORMAT, "opening the video failed");
    refused(VIDEOS "plain.mov", W * H - 1, PH_EUNSUP, "video"); /* the decoder itself refuses such frames */
    refused("tests/golden/images/tiny.png", 0, PH_EUNSUP, "opening the video failed");
}

/* Cut anywhere: frames, or a clean refusal. */
void test_video_cut(void) {
    static const char *const names[] = {VIDEOS "counted.mkv", VIDEOS "turned90.mov"};
    if (!can_read()) return;
    for (int i = 0; i < 2; i++) {
        ph_file f;
        ph_err  err = {0};
        CHECK(!ph_file_open(&f, names[i], &err));
        for (size_t cut = 1; cut < f.n; cut += 97) {
            ph_video           v;
            choice             c = {.step = 1};
            const ph_video_how how = {.choose = choose, .arg = &c};
            uint8_t           *copy = malloc(cut);
            if (!copy) break;
            memcpy(copy, f.bytes, cut);
            ph_rc rc = ph_video_read(&v, copy, cut, &how, &err);
            CHECK_SAY(rc ? err.msg[0] && !v.n_frames : v.n_frames > 0, "%s cut at %zu", names[i], cut);
            if (!rc) ph_video_close(&v);
            free(copy);
        }
        ph_file_close(&f);
    }
}
