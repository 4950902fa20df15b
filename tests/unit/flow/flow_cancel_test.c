/* flow_cancel_test.c - an answer may be given up at any step of the engine; the turn stays usable and its
 * next answer is right. */
#include "tests/unit/flow/flow_help.h"

#include <stdatomic.h>
#include <string.h>

static const char *const scene[] = {"scene.png", NULL}, *const two[] = {"scene.png", "second.png", NULL};

/* Sets the flag when a value is seen for the `after`th time. */
typedef struct trap {
    atomic_int cancel;
    int        after, n;
} trap;

static void spring(void *arg, const char *value, const float *data, const ph_shape *shape,
                   const ph_syms *syms) {
    trap *p = arg;
    (void)value, (void)data, (void)shape, (void)syms;
    if (++p->n == p->after) atomic_store(&p->cancel, 1);
}

static void fresh(const ph_model *m, ph_dtype kv, const fh_talk *talk, fh_answer *out) {
    ph_err      e = {0};
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 1, .kv_dtype = kv});
    ph_turn    *t = fh_turn(s);
    if (t && fh_drive(t, talk, out, &e)) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
}

/* Cancelled while `value` is made for the `after`th time; then asked again. */
static void cut(const ph_model *m, ph_dtype kv, const char *const *pictures, const char *graph,
                const char *value, int after) {
    ph_err         e = {0};
    trap           p = {.after = after};
    ph_session_tap tap = {.graph = graph, .value = value, .see = spring, .arg = &p};
    ph_session    *s =
        fh_session(m, &(ph_session_options){
                          .threads = 2, .chunk = 16, .tiles = 2, .kv_dtype = kv, .tap = &tap, .n_taps = 1});
    ph_turn  *t = fh_turn(s);
    fh_talk   talk;
    ph_answer a;
    fh_answer got = {0}, want = {0};
    char      what[128];
    snprintf(what, sizeof what, "%s, after cancelling at %s %d", ph_dtype_name(kv), value, after);
    fh_ask(&talk, pictures, "Describe the colours and the shapes.");
    talk.q.cancel = &p.cancel;
    if (t) {
        if (ph_ask(t, &talk.q, &a, &e)) fh_say(&e);
        CHECK_SAY(p.n >= after && a.stop == PH_STOP_CANCEL, "%s: stopped by %s", what, ph_stop_name[a.stop]);
        CHECK_SAY(a.n_ids < 12, "%s: %zu ids", what, a.n_ids);
        atomic_store(&p.cancel, 0);
        if (fh_drive(t, &talk, &got, &e)) fh_say(&e);
        talk.q.cancel = NULL;
        fresh(m, kv, &talk, &want);
        fh_same(&got, &want, what);
    }
    fh_forget(&got);
    fh_forget(&want);
    fh_close(&talk);
    ph_turn_close(t);
    ph_session_close(s);
}

static void cut_all(const char *path, const char *const *pictures) {
    static const ph_dtype caches[] = {PH_F32, PH_Q8_0, PH_Q4_1};
    ph_model             *m = fh_model(path);
    for (int i = 0; m && i < 3; i++) {
        ph_dtype kv = caches[i];
        cut(m, kv, pictures, "language", "hidden.1", 1); /* first chunk of the prompt */
        cut(m, kv, pictures, "language", "hidden.1", 2);
        cut(m, kv, pictures, "language", "hidden.2", 6); /* a later one, or a step */
        if (m->vision) {
            cut(m, kv, pictures, "vision", "vision.hidden.1", 1);
            cut(m, kv, pictures, "bridge", "visual", 1);
        }
    }
    ph_model_close(m);
}

void test_cancel_text(void) {
    cut_all(FH_SMOLLM2, NULL);
}
void test_cancel_llava(void) {
    cut_all(FH_LLAVA, two);
}
void test_cancel_idefics3(void) {
    cut_all(FH_IDEFICS3, scene);
}

void test_cancel_qwen25vl(void) {
    cut_all(FH_QWEN25VL, two);
}

static int enough(void *arg, const char *bytes, size_t n) {
    size_t *left = arg;
    (void)bytes, (void)n;
    return --*left == 0;
}

/* The listener ends the answer: what was said stands, and the turn goes on. */
void test_cancel_by_listener(void) {
    ph_err      e = {0};
    ph_model   *m = fh_model(FH_SMOLLM2);
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 1});
    ph_turn    *t = fh_turn(s);
    size_t      left = 3;
    fh_talk     talk;
    fh_answer   got, want;
    fh_ask(&talk, NULL, "How many windows does the house have?");
    fresh(m, PH_F32, &talk, &want);
    talk.q.piece = enough;
    talk.q.arg = &left;
    if (t && fh_drive(t, &talk, &got, &e)) fh_say(&e);
    CHECK(got.stop == PH_STOP_CANCEL && got.n < want.n && got.n >= 3 &&
          !memcmp(got.id, want.id, got.n * sizeof *got.id));
    CHECK(!strncmp(got.text, want.text, strlen(got.text)));
    fh_forget(&got);
    talk.q.piece = NULL;
    if (t && fh_drive(t, &talk, &got, &e)) fh_say(&e);
    fh_same(&got, &want, "after the listener had left");
    fh_forget(&got);
    fh_forget(&want);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
}
