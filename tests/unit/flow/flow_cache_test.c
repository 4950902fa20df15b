/* flow_cache_test.c - what the sequence's cache already holds is not run again, and is never another's. */
#include "tests/unit/flow/flow_help.h"

#include "base/mem.h"
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

static const char *const scene[] = {"scene.png", NULL}, *const second[] = {"second.png", NULL};

typedef struct bench {
    ph_model   *m;
    ph_session *s;
    ph_turn    *t;
    ph_dtype    kv;
    int         n_vision; /* runs of the vision graph */
} bench;

static const ph_dtype caches[] = {PH_F32, PH_Q8_0, PH_Q4_1};
enum { N_CACHES = sizeof caches / sizeof *caches };

/* Of `rows` that could be kept, those that must be: by channel, whole pages. */
static int kept(const bench *b, int rows) {
    return b->kv == PH_Q4_1 ? rows / PH_KV_PAGE * PH_KV_PAGE : rows;
}

static void saw(void *arg, const char *value, const float *data, const ph_shape *shape, const ph_syms *syms) {
    bench *b = arg;
    (void)value, (void)data, (void)shape, (void)syms;
    b->n_vision++;
}

static int open_bench(bench *b, ph_session_tap *tap, const char *path, ph_dtype kv, int has_vision) {
    *b = (bench){.m = fh_model(path), .kv = kv};
    *tap = (ph_session_tap){.graph = "vision", .value = "vision.hidden.0", .see = saw, .arg = b};
    b->s = fh_session(
        b->m, &(ph_session_options){
                  .threads = 2, .chunk = 64, .kv_dtype = kv, .tap = tap, .n_taps = (size_t)has_vision});
    b->t = fh_turn(b->s);
    return b->t != NULL;
}

static void close_bench(bench *b) {
    ph_turn_close(b->t);
    ph_session_close(b->s);
    ph_model_close(b->m);
}

static void drive(ph_turn *t, const fh_talk *talk, fh_answer *out) {
    ph_err e = {0};
    if (fh_drive(t, talk, out, &e)) fh_say(&e);
}

/* In a sequence that holds nothing. */
static void drive_fresh(const bench *b, const fh_talk *talk, fh_answer *out) {
    ph_session *s = fh_session(b->m, &(ph_session_options){.threads = 1, .kv_dtype = b->kv});
    ph_turn    *t = fh_turn(s);
    if (t) drive(t, talk, out);
    CHECK(!out->cached);
    ph_turn_close(t);
    ph_session_close(s);
}

/* The same in the used sequence and in a fresh one. */
static int held_to_fresh(bench *b, const fh_talk *talk, const char *what) {
    fh_answer got, want;
    drive(b->t, talk, &got);
    drive_fresh(b, talk, &want);
    fh_same(&got, &want, what);
    int cached = got.cached;
    CHECK_SAY(cached < got.prompt, "%s: %d of %d rows are cached: none is left for the logits", what, cached,
              got.prompt);
    fh_forget(&got);
    fh_forget(&want);
    return cached;
}

static void second_turn(ph_dtype kv) {
    ph_session_tap tap;
    bench          b;
    fh_talk        talk;
    fh_answer      first;
    if (open_bench(&b, &tap, FH_SMOLLM2, kv, 0)) {
        fh_ask(&talk, NULL, "How many windows does the house have?");
        drive(b.t, &talk, &first);
        int rows = first.prompt;
        fh_add(&talk, "assistant", "There are two of them.");
        fh_add(&talk, "user", "And is there a red kite above the hill?");
        int cached = held_to_fresh(&b, &talk, "second turn");
        CHECK_SAY(cached >= kept(&b, rows - 6) && (cached > 0 || rows < 70),
                  "%d rows cached of a first prompt of %d", cached, rows);
        /* The same once more: all but the last row. */
        cached = held_to_fresh(&b, &talk, "asked again");
        CHECK_SAY(cached > kept(&b, rows), "%d rows cached", cached);
        /* A prompt that is a beginning of the last one, then an unlike one. */
        talk.q.n_messages = 1;
        CHECK(held_to_fresh(&b, &talk, "a beginning") >= kept(&b, 1));
        fh_forget(&first);
        fh_ask(&talk, NULL, "Nothing");
        held_to_fresh(&b, &talk, "unlike");
    }
    close_bench(&b);
}

void test_cache_second_turn(void) {
    for (int i = 0; i < N_CACHES; i++) second_turn(caches[i]);
}

static void pictures_in(const char *path, ph_dtype kv) {
    ph_session_tap tap;
    bench          b;
    fh_talk        one, other;
    fh_answer      a;
    fh_ask(&one, scene, "What is in the image?");
    fh_ask(&other, second, "What is in the image?");
    if (open_bench(&b, &tap, path, kv, 1)) {
        drive(b.t, &one, &a);
        int seen = b.n_vision, prompt = a.prompt, image = a.image;
        CHECK(seen > 0 && image > 0);
        fh_forget(&a);
        int cached = held_to_fresh(&b, &one, "the same picture again");
        CHECK_SAY(cached <= prompt - 1 && cached >= kept(&b, prompt - 1), "%d of %d rows cached", cached,
                  prompt);
        CHECK_SAY(b.n_vision == seen, "the same picture was seen again: %d runs", b.n_vision - seen);
        cached = held_to_fresh(&b, &other, "another picture");
        CHECK_SAY(cached < prompt - image, "%d rows cached, though the picture is another", cached);
        CHECK(b.n_vision > seen);
        held_to_fresh(&b, &one, "the first picture after another");
        /* A second turn about the same picture sees nothing. */
        seen = b.n_vision;
        fh_add(&one, "assistant", "A house.");
        fh_add(&one, "user", "How many windows does it have?");
        cached = held_to_fresh(&b, &one, "second turn about a picture");
        CHECK_SAY(cached >= kept(&b, image), "%d rows cached of %d of the picture", cached, image);
        CHECK(b.n_vision == seen);
    }
    fh_close(&one);
    fh_close(&other);
    close_bench(&b);
}

static void pictures(const char *path) {
    for (int i = 0; i < N_CACHES; i++) pictures_in(path, caches[i]);
}

void test_cache_pictures_llava(void) {
    pictures(FH_LLAVA);
}
void test_cache_pictures_idefics3(void) {
    pictures(FH_IDEFICS3);
}

void test_cache_pictures_qwen25vl(void) {
    pictures(FH_QWEN25VL);
}

static void put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (8 * i));
}

/* The same pixels as a BMP file. */
static uint8_t *as_bmp(const ph_pixels *p, size_t *n) {
    size_t   row = ph_round_up(3 * (size_t)p->width, 4);
    uint8_t *out = calloc(1, *n = 54 + row * (size_t)p->height);
    if (!out) return NULL;
    memcpy(out, "BM", 2);
    put32(out + 2, (uint32_t)*n);
    put32(out + 10, 54);
    put32(out + 14, 40);
    put32(out + 18, (uint32_t)p->width);
    put32(out + 22, (uint32_t)p->height);
    out[26] = 1;
    out[28] = 24;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            for (int c = 0; c < 3; c++)
                out[54 + (size_t)(p->height - 1 - y) * row + 3 * (size_t)x + (size_t)c] =
                    p->rgb[3 * ((size_t)y * (size_t)p->width + (size_t)x) + (size_t)(2 - c)];
    return out;
}

/* What counts is the prepared picture, not the bytes of its file. */
void test_cache_other_file_same_pixels(void) {
    ph_session_tap   tap;
    bench            b;
    fh_talk          one;
    fh_answer        a;
    ph_err           e = {0};
    ph_arena         arena;
    ph_pixels        px;
    ph_image_options o = {0};
    size_t           n;
    fh_ask(&one, scene, "What is in the image?");
    if (ph_arena_open_growing(&arena, 4096, &e) ||
        ph_image_decode(&px, one.picture[0].bytes, one.picture[0].n, &o, &arena, &e))
        fh_say(&e);
    uint8_t *bmp = as_bmp(&px, &n);
    if (bmp && open_bench(&b, &tap, FH_LLAVA, PH_F32, 1)) {
        drive(b.t, &one, &a);
        int seen = b.n_vision, prompt = a.prompt;
        fh_forget(&a);
        one.picture[0] = (ph_picture){.bytes = bmp, .n = n, .name = "scene.bmp"};
        int cached = held_to_fresh(&b, &one, "the same pixels in another file");
        CHECK_SAY(cached == prompt - 1 && b.n_vision == seen, "%d of %d rows cached", cached, prompt);
        close_bench(&b);
    }
    free(bmp);
    ph_arena_close(&arena);
    fh_close(&one);
}
