/* flow_video_test.c - frames that a question groups into a video: the reference's answer, positions in time,
 * and groups that are refused. */
#include "tests/unit/flow/flow_help.h"

#include "base/mem.h"
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMES = 4, HEADER = 54 };

static const char prompt[] =
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    "<|vision_start|><|video_pad|><|vision_end|>How many windows does the house have?"
    "<|im_end|>\n<|im_start|>assistant\n";

typedef struct reel {
    ph_arena       arena;
    ph_safetensors file;
    ph_picture     frame[FRAMES + 1];
    fh_talk        talk;
} reel;

static void put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (8 * i));
}

/* RGB rows as a BMP file: bottom row first, blue before red. */
static ph_picture as_bmp(ph_arena *a, const uint8_t *rgb, size_t w, size_t h) {
    size_t row = ph_round_up(3 * w, 4), n = HEADER + row * h;
    void  *at;
    CHECK(!ph_arena_zero(a, &at, n, 1, NULL));
    uint8_t *b = at;
    memcpy(b, "BM", 2);
    put32(b + 2, (uint32_t)n);
    put32(b + 10, HEADER);
    put32(b + 14, 40);
    put32(b + 18, (uint32_t)w);
    put32(b + 22, (uint32_t)h);
    put32(b + 26, 1 | 24u << 16);
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < 3 * w; x++)
            b[HEADER + (h - 1 - y) * row + x] = rgb[3 * (y * w + x / 3) + 2 - x % 3];
    return (ph_picture){.bytes = b, .n = n, .name = "frame"};
}

/* The reference's four frames, as one video. */
static int open_reel(reel *r, int n_frames) {
    ph_err e = {0};
    memset(r, 0, sizeof *r);
    ph_rc rc = ph_arena_open_growing(&r->arena, 1 << 16, &e);
    if (!rc) rc = ph_safetensors_open(&r->file, FH_QWEN2VL "/golden/video4.safetensors", &r->arena, &e);
    const ph_weight *w = rc ? NULL : ph_weights_find(&r->file.weights, "video_frames_u8");
    if (rc) fh_say(&e);
    CHECK(w && w->rank == 4 && w->dim[0] == FRAMES && w->dim[3] == 3);
    if (!w) return 0;
    for (size_t i = 0; i < FRAMES; i++)
        r->frame[i] =
            as_bmp(&r->arena, w->bytes + i * (w->n_bytes / FRAMES), (size_t)w->dim[2], (size_t)w->dim[1]);
    r->frame[0].n_frames = n_frames;
    r->frame[0].is_video = 1;
    r->talk.q = (ph_question){.raw = prompt,
                              .pictures = r->frame,
                              .n_pictures = (size_t)n_frames,
                              .answer_max = 24,
                              .ignore_stop = 1};
    return 1;
}

static void close_reel(reel *r) {
    ph_safetensors_close(&r->file);
    ph_arena_close(&r->arena);
}

void test_video_like_reference(void) {
    reel r;
    if (!open_reel(&r, FRAMES)) return;
    ph_err           e = {0};
    ph_model        *m = fh_model(FH_QWEN2VL);
    ph_session      *s = fh_session(m, &(ph_session_options){.threads = 2, .chunk = 19});
    ph_turn         *t = fh_turn(s);
    fh_answer        got = {0};
    const ph_weight *ids = ph_weights_find(&r.file.weights, "greedy_ids");
    if (t && fh_drive(t, &r.talk, &got, &e)) fh_say(&e);
    CHECK(ids && got.n == 24 && !memcmp(ids->bytes, got.id, 24 * sizeof *got.id));
    CHECK(got.image == 12);
    fh_forget(&got);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    close_reel(&r);
}

/* Three axes of a prompt's first visual row in each step of time, and of the row behind the video. */
static void positions_of(const char *path, int n_frames, double fps, const int32_t want[3]) {
    reel r;
    if (!open_reel(&r, n_frames)) return;
    ph_err      e = {0};
    ph_model   *m = fh_model(path);
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 1});
    ph_turn    *t = fh_turn(s);
    fh_answer   got = {0};
    r.frame[0].fps = fps;
    if (t && fh_drive(t, &r.talk, &got, &e)) fh_say(&e);
    size_t n = 0, first = 0;
    if (t) {
        const int32_t *id = ph_turn_prompt_ids(t, &n);
        const int32_t(*p)[3] = ph_turn_positions(t);
        while (first < n && id[first] != m->spec.video_token) first++;
        size_t grid = 6, last = first + (size_t)got.image;
        CHECK(first < n && p[first][0] == (int32_t)first && p[first][2] == (int32_t)first);
        CHECK_SAY(p[first + grid * (size_t)(want[0] - 1)][0] - p[first][0] == want[1], "%s at %g: %d", path,
                  fps, p[first + grid * (size_t)(want[0] - 1)][0] - p[first][0]);
        CHECK_SAY(p[last][0] - p[first][0] == want[2] && p[last][1] == p[last][0], "%s at %g: then %d", path,
                  fps, p[last][0] - p[first][0]);
        CHECK((size_t)got.image == grid * (size_t)want[0]);
    }
    fh_forget(&got);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    close_reel(&r);
}

void test_video_positions(void) {
    /* steps of time; the last one's position and that of what follows, from the first row's */
    positions_of(FH_QWEN2VL, 4, 0, (const int32_t[]){2, 1, 3});
    positions_of(FH_QWEN2VL, 3, 8, (const int32_t[]){2, 1, 3}); /* the third frame stands twice */
    positions_of(FH_QWEN25VL, 4, 0, (const int32_t[]){2, 2, 3});
    positions_of(FH_QWEN25VL, 4, 0.5, (const int32_t[]){2, 8, 9}); /* two frames are 4 seconds, of 2 steps */
    positions_of(FH_QWEN25VL, 4, 8, (const int32_t[]){2, 0, 3});   /* a quarter of a second is cut to none */
    positions_of(FH_QWEN25VL, 1, 0, (const int32_t[]){1, 0, 3});
}

static void refused(const char *path, const ph_question *q, ph_rc want, const char *words) {
    ph_err      e = {0};
    ph_model   *m = fh_model(path);
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 1});
    ph_turn    *t = fh_turn(s);
    ph_answer   a;
    if (t) {
        ph_rc rc = ph_ask(t, q, &a, &e);
        CHECK_SAY(rc == want && strstr(e.msg, words), "%s: %s", ph_rc_name(rc), e.msg);
    }
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
}

void test_video_refused(void) {
    reel r;
    if (!open_reel(&r, FRAMES)) return;
    ph_question q = r.talk.q;
    uint8_t     dot[3] = {1, 2, 3};
    ph_picture  frame = r.frame[2];
    r.frame[2] = as_bmp(&r.arena, dot, 1, 1);
    refused(FH_QWEN2VL, &q, PH_EFORMAT, "frame 3 of a video is of 1 x 1 pixels, the first of 80 x 60");
    r.frame[2] = frame;
    q.n_pictures = 3;
    refused(FH_QWEN2VL, &q, PH_EUSAGE, "a video of 4 frames, but only 3 pictures follow");
    q.n_pictures = 4;
    q.raw = "a picture: <|image_pad|>";
    refused(FH_QWEN2VL, &q, PH_EMISMATCH, "a place for a picture where frame is a video");
    q.raw = prompt;
    r.frame[0].n_frames = r.frame[0].is_video = 0;
    q.n_pictures = 1;
    refused(FH_QWEN2VL, &q, PH_EMISMATCH, "a place for a video where frame is a picture");
    r.frame[0].is_video = 1;
    refused(FH_LLAVA, &q, PH_EUNSUP, "this model takes no videos");
    close_reel(&r);
}
