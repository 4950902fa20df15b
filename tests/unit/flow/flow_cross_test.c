/* flow_cross_test.c - models whose decoder looks at pictures or hears sound beside the rows: the second cache
 * is filled once, never another's, and a row is not taken from the first when it would see something else. */
#include "tests/unit/flow/flow_help.h"

#include <string.h>

static const char *const scene[] = {"scene.png", NULL}, *const second[] = {"second.png", NULL},
                         *const both[] = {"scene.png", "second.png", NULL};

typedef struct bench {
    ph_model   *m;
    ph_session *s;
    ph_turn    *t;
    int         n_seen, n_filled; /* runs of the vision graph, and of the one that fills the cross cache */
} bench;

static void count(void *arg, const char *value, const float *data, const ph_shape *shape,
                  const ph_syms *syms) {
    (void)value, (void)data, (void)shape, (void)syms;
    ++*(int *)arg;
}

static const char *filled_value(const ph_model *m) {
    for (size_t i = 0; m && m->cross && i < m->cross->n_values; i++)
        if (m->cross->value[i].cls == PH_VALUE_TEMP) return m->cross->value[i].name;
    return "none";
}

static int open_bench(bench *b, ph_session_tap tap[2], const char *path) {
    *b = (bench){.m = fh_model(path)};
    tap[0] = (ph_session_tap){.graph = "vision", .value = "features", .see = count, .arg = &b->n_seen};
    tap[1] =
        (ph_session_tap){.graph = "cross", .value = filled_value(b->m), .see = count, .arg = &b->n_filled};
    b->s = fh_session(b->m, &(ph_session_options){.threads = 2, .chunk = 64, .tap = tap, .n_taps = 2});
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

/* The same in the used sequence and in a fresh one; returns the rows that were cached. */
static int held_to_fresh(const bench *b, const fh_talk *talk, const char *what) {
    ph_session *s = fh_session(b->m, &(ph_session_options){.threads = 1, .chunk = 7, .tiles = 1});
    ph_turn    *t = fh_turn(s);
    fh_answer   got = {0}, want = {0};
    drive(b->t, talk, &got);
    if (t) drive(t, talk, &want);
    CHECK_SAY(got.n == want.n && !memcmp(got.id, want.id, got.n * sizeof *got.id), "%s: other ids", what);
    fh_same(&got, &want, what);
    int cached = got.cached;
    fh_forget(&got);
    fh_forget(&want);
    ph_turn_close(t);
    ph_session_close(s);
    return cached;
}

static void pictures_beside(const char *path) {
    ph_session_tap tap[2];
    bench          b;
    fh_talk        one, other, more, none;
    fh_ask(&one, scene, "What is in the image?");
    fh_ask(&other, second, "What is in the image?");
    fh_ask(&more, both, "What is in the image?");
    fh_ask(&none, NULL, "What is in the image?");
    if (open_bench(&b, tap, path)) {
        held_to_fresh(&b, &one, "a picture");
        int seen = b.n_seen, filled = b.n_filled;
        CHECK(seen > 0 && filled > 0);
        CHECK_SAY(held_to_fresh(&b, &one, "again") > 5, "nothing was cached of the same question");
        CHECK_SAY(b.n_seen == seen && b.n_filled == filled, "the same picture: %d and %d runs more",
                  b.n_seen - seen, b.n_filled - filled);
        held_to_fresh(&b, &other, "another picture in the same place");
        CHECK(b.n_seen > seen && b.n_filled > filled);
        held_to_fresh(&b, &none, "no picture");
        held_to_fresh(&b, &more, "two pictures");
        held_to_fresh(&b, &one, "one again");
        fh_add(&one, "assistant", "A house.");
        fh_add(&one, "user", "How many windows does it have?");
        seen = b.n_seen;
        CHECK(held_to_fresh(&b, &one, "second turn about it") > 5);
        CHECK(b.n_seen == seen);
    }
    fh_close(&one);
    fh_close(&other);
    fh_close(&more);
    fh_close(&none);
    close_bench(&b);
}

void test_cross_mllama(void) {
    pictures_beside(FH_MLLAMA);
}
void test_cross_idefics(void) {
    pictures_beside(FH_IDEFICS);
}

/* More pictures than the session has room for are refused before one is decoded. */
void test_cross_room(void) {
    ph_session_tap tap[2];
    bench          b;
    fh_talk        talk;
    ph_picture     many[40];
    ph_answer      a;
    ph_err         e = {0};
    fh_ask(&talk, scene, "What?");
    if (open_bench(&b, tap, FH_MLLAMA)) {
        for (size_t i = 0; i < 40; i++) many[i] = talk.picture[0];
        CHECK(ph_ask(b.t, &(ph_question){.raw = "<|image|>", .pictures = many, .n_pictures = 40}, &a, &e) ==
              PH_ELIMIT);
        CHECK_SAY(strstr(e.msg, "2720 visual tokens") != NULL, "%s", e.msg);
        held_to_fresh(&b, &talk, "after a refusal");
    }
    fh_close(&talk);
    close_bench(&b);
}

/* ---- sound ---- */

static void transcribe(ph_turn *t, const ph_recording *sound, const ph_model *m, ph_answer *a) {
    ph_err            e = {0};
    const ph_question q = {
        .ids = m->start, .n_ids = m->n_start, .sound = sound, .answer_max = 16, .ignore_stop = 1};
    if (ph_ask(t, &q, a, &e)) fh_say(&e);
}

/* The same recording is heard once; stretches that it does not have are refused. */
void test_cross_sound(void) {
    ph_session_tap tap[2];
    bench          b;
    ph_file        f = {0};
    ph_err         e = {0};
    ph_answer      a;
    int32_t        first[16];
    if (ph_file_open(&f, FH_WHISPER "/golden/chirp.wav", &e)) fh_say(&e);
    if (open_bench(&b, tap, FH_WHISPER) && f.n) {
        ph_recording sound = {.bytes = f.bytes, .n = f.n, .name = "chirp.wav"};
        transcribe(b.t, &sound, b.m, &a);
        CHECK(a.n_ids == 16 && a.stretches == 1 && a.prompt_tokens == (int)b.m->n_start);
        memcpy(first, a.ids, sizeof first);
        transcribe(b.t, &sound, b.m, &a);
        CHECK(b.n_seen == 1 && b.n_filled > 0 && a.cached_tokens == (int)b.m->n_start - 1);
        CHECK(!memcmp(first, a.ids, sizeof first));
        sound.stretch = 1;
        CHECK(ph_ask(b.t, &(ph_question){.ids = b.m->start, .n_ids = b.m->n_start, .sound = &sound}, &a,
                     &e) == PH_EUSAGE);
        sound = (ph_recording){.bytes = f.bytes, .n = 20, .name = "cut.wav"};
        CHECK(ph_ask(b.t, &(ph_question){.ids = b.m->start, .n_ids = b.m->n_start, .sound = &sound}, &a, &e));
    }
    ph_file_close(&f);
    close_bench(&b);
}

/* A picture for a model that hears, a sound for one that sees. */
void test_cross_wrong_sense(void) {
    ph_session_tap tap[2];
    bench          b;
    ph_file        f = {0};
    ph_answer      a;
    ph_err         e = {0};
    fh_talk        talk;
    fh_ask(&talk, scene, "What?");
    if (open_bench(&b, tap, FH_WHISPER))
        CHECK(ph_ask(b.t, &talk.q, &a, &e) == PH_EUNSUP && strstr(e.msg, "takes sound"));
    close_bench(&b);
    if (ph_file_open(&f, FH_WHISPER "/golden/chirp.wav", &e)) fh_say(&e);
    const ph_recording sound = {.bytes = f.bytes, .n = f.n, .name = "chirp.wav"};
    if (open_bench(&b, tap, FH_MLLAMA))
        CHECK(ph_ask(b.t, &(ph_question){.raw = "What?", .sound = &sound}, &a, &e) == PH_EUNSUP &&
              strstr(e.msg, "no sound"));
    close_bench(&b);
    fh_close(&talk);
    ph_file_close(&f);
}
