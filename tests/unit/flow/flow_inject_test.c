/* flow_inject_test.c - pooled features at a layer of the decoder: what is injected is the mean of what the
 * bridge made; a text without pictures is answered as without; and an answer depends on the question alone,
 * however it is run, and whatever was asked before. */
#include "tests/unit/flow/flow_help.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const scene[] = {"scene.png", NULL}, *const second[] = {"second.png", NULL},
                         *const both[] = {"scene.png", "second.png", NULL};

enum { LAYER = 1 };
#define ALPHA 0.6

static ph_model *injected(const char *path) {
    const ph_model_options o = {.injects = 1, .inject_layer = LAYER, .inject_alpha = ALPHA};
    ph_err                 e = {0};
    ph_model              *m;
    if (ph_model_open(&m, path, &o, &e)) fh_say(&e);
    return m;
}

static void answer(const ph_model *m, ph_session_options o, const fh_talk *talk, fh_answer *out) {
    ph_err      e = {0};
    ph_session *s = fh_session(m, &o);
    ph_turn    *t = fh_turn(s);
    if (t && fh_drive(t, talk, out, &e)) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
}

/* ---- what is injected ---- */

enum { ROWS = 512, WIDTH = 256 };
typedef struct seen {
    float   at[ROWS * WIDTH];
    int64_t n, d;
} seen;

/* All of a prompt: chunks and tiles one after the other. */
static void see(void *arg, const char *value, const float *data, const ph_shape *shape, const ph_syms *syms) {
    seen   *s = arg;
    int64_t n = 1, k;
    (void)value;
    for (int i = 0; i < shape->rank; i++) {
        CHECK(!ph_dim_eval(shape->dim[i], syms, &k, NULL));
        n *= k;
        s->d = k;
    }
    if (s->n + n > ROWS * WIDTH) return;
    memcpy(s->at + s->n, data, (size_t)n * sizeof *data);
    s->n += n;
}

/* y = LayerNorm(h + alpha * mean of v), in doubles. */
static double worst_of(const seen *h, const seen *y, const double *mean) {
    double  worst = 0;
    int64_t d = h->d;
    for (int64_t r = 0; r < h->n / d; r++) {
        double mu = 0, var = 0;
        for (int64_t e = 0; e < d; e++) mu += ((double)h->at[r * d + e] + ALPHA * mean[e]) / (double)d;
        for (int64_t e = 0; e < d; e++) {
            double x = (double)h->at[r * d + e] + ALPHA * mean[e] - mu;
            var += x * x / (double)d;
        }
        for (int64_t e = 0; e < d; e++) {
            double x = ((double)h->at[r * d + e] + ALPHA * mean[e] - mu) / sqrt(var + 1e-5);
            worst = fmax(worst, fabs(x - (double)y->at[r * d + e]));
        }
    }
    return worst;
}

static void holds(const char *path, const char *const *pictures, int has_bridge_order) {
    static seen    h, y, v;
    double         mean[WIDTH] = {0};
    ph_model      *m = injected(path);
    fh_talk        talk;
    fh_answer      a = {0};
    ph_session_tap tap[3] = {{"language", "hidden.1", see, &h},
                             {"language", "hidden.1.injected", see, &y},
                             {"bridge", "visual", see, &v}};
    h.n = y.n = v.n = 0;
    fh_ask(&talk, pictures, "What is in the image?");
    talk.q.answer_max = 3;
    if (m)
        answer(m, (ph_session_options){.threads = 2, .chunk = 33, .tiles = 2, .tap = tap, .n_taps = 3}, &talk,
               &a);
    CHECK_SAY(h.n && h.n == y.n && h.d == y.d && v.d == h.d && v.n, "%s: %lld, %lld and %lld numbers", path,
              (long long)h.n, (long long)y.n, (long long)v.n);
    if (has_bridge_order && v.d)
        CHECK_SAY(v.n / v.d == a.image, "%s: %lld rows, %d tokens", path, (long long)(v.n / v.d), a.image);
    for (int64_t i = 0; v.d && i < v.n; i++) mean[i % v.d] += (double)v.at[i] / (double)(v.n / v.d);
    double worst = worst_of(&h, &y, mean);
    CHECK_SAY(worst < 1e-4, "%s: %g apart", path, worst);
    fh_forget(&a);
    fh_close(&talk);
    ph_model_close(m);
}

void test_inject_is_the_mean(void) {
    holds(FH_LLAVA, scene, 1);
    holds(FH_LLAVA, both, 1);
    holds(FH_IDEFICS3, scene, 1);
    holds(FH_QWEN25VL, both, 1);
    holds(FH_QWEN2VL, scene, 1);
    holds(FH_GEMMA3, scene, 1);
    holds(FH_PANEL, scene, 1);
}

/* ---- a text alone, and bad layers ---- */

static void text_alone(const char *path) {
    ph_model *plain = fh_model(path), *with = injected(path);
    fh_talk   words, picture;
    fh_answer a = {0}, b = {0};
    fh_ask(&words, NULL, "How many windows does the house have?");
    fh_ask(&picture, scene, "How many windows does the house have?");
    if (plain && with) {
        const ph_session_options o = {.threads = 2, .chunk = 19};
        answer(plain, o, &words, &a);
        answer(with, o, &words, &b);
        fh_same(&a, &b, path);
        fh_forget(&a);
        fh_forget(&b);
        answer(plain, o, &picture, &a);
        answer(with, o, &picture, &b);
        CHECK_SAY(a.n_logits && b.n_logits && memcmp(a.logits, b.logits, 16 * sizeof(float)),
                  "%s: nothing was injected", path);
        fh_forget(&a);
        fh_forget(&b);
    }
    fh_close(&words);
    fh_close(&picture);
    ph_model_close(plain);
    ph_model_close(with);
}

void test_inject_text_alone(void) {
    text_alone(FH_LLAVA);
    text_alone(FH_IDEFICS3);
    text_alone(FH_QWEN25VL);
    text_alone(FH_MLLAMA);
    text_alone(FH_PANEL);
}

static void refused(const char *path, int layer, double alpha, const char *why) {
    const ph_model_options o = {.injects = 1, .inject_layer = layer, .inject_alpha = alpha};
    ph_err                 e = {0};
    ph_model              *m;
    CHECK_SAY(ph_model_open(&m, path, &o, &e) == PH_EUSAGE && !m && strstr(e.msg, why), "%s", e.msg);
}

void test_inject_refused(void) {
    refused(FH_PANEL, 4, 0.3, "no layer 4 to inject at: the language part has layers 0 to 3");
    refused(FH_PANEL, -1, 0.3, "layers 0 to 3");
    refused(FH_PANEL, 0, NAN, "alpha");
    refused(FH_PANEL, 0, 10001, "takes an alpha from -10000 to 10000, not 10001");
    refused(FH_SMOLLM2, 0, 0.3, "nothing about pictures");
}

/* ---- however it is run ---- */

static void whatever(const char *path) {
    static const int threads[] = {1, 4, 2}, chunk[] = {512, 7, 16};
    ph_model        *m = injected(path);
    fh_talk          talk[3], *all[3];
    fh_answer        alone[3] = {{.n = 0}}, other[3] = {{.n = 0}};
    ph_turn         *t[3] = {NULL};
    ph_err           e = {0};
    fh_ask(&talk[0], both, "Describe the colours and the shapes.");
    fh_ask(&talk[1], NULL, "Is there a red kite above the hill?");
    fh_ask(&talk[2], second, "What is in the image?");
    for (int i = 0; i < 3; i++) {
        talk[i].q.answer_max = 5 + 4 * i;
        all[i] = &talk[i];
        if (m) answer(m, (ph_session_options){.threads = 1}, &talk[i], &alone[i]);
        if (m) answer(m, (ph_session_options){.threads = threads[i], .chunk = chunk[i]}, &talk[0], &other[0]);
        if (m) fh_same(&alone[0], &other[0], "threads and chunks");
        fh_forget(&other[0]);
    }
    for (int apart = 0; m && apart < 10; apart += 9) {
        ph_session_options o = {.threads = 2, .sequences = 3, .chunk = 23};
        ph_session        *s = fh_session(m, &o);
        for (int i = 0; i < 3; i++) t[i] = fh_turn(s);
        if (t[2] && fh_drive_many(t, all, other, 3, apart, &e)) fh_say(&e);
        for (int i = 0; i < 3; i++) {
            fh_same(&alone[i], &other[i], "beside others");
            fh_forget(&other[i]);
            ph_turn_close(t[i]);
        }
        ph_session_close(s);
    }
    for (int i = 0; i < 3; i++) fh_close(&talk[i]), fh_forget(&alone[i]);
    ph_model_close(m);
}

void test_inject_whatever(void) {
    whatever(FH_LLAVA);
    whatever(FH_QWEN25VL);
}

/* One conversation after the other in one sequence: nothing of the cache is taken that took other features.
 */
static void after_others(const char *path) {
    ph_model *m = injected(path);
    fh_talk   talk[5];
    fh_ask(&talk[0], scene, "What is in the image?");
    fh_ask(&talk[1], scene, "What is in the image?");
    fh_ask(&talk[2], second, "What is in the image?");
    fh_ask(&talk[3], both, "What is in the image?");
    fh_ask(&talk[4], NULL, "What is in the image?");
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 2});
    ph_turn    *t = fh_turn(s);
    for (int i = 0; t && i < 10; i++) {
        static const int order[10] = {0, 1, 2, 3, 4, 3, 2, 0, 3, 4};
        fh_answer        got = {0}, want = {0};
        ph_err           e = {0};
        if (fh_drive(t, &talk[order[i]], &got, &e)) fh_say(&e);
        answer(m, (ph_session_options){.threads = 1, .chunk = 11}, &talk[order[i]], &want);
        fh_same(&want, &got, "after others");
        if (i == 1) CHECK_SAY(got.cached > 5, "of the same question %d rows were cached", got.cached);
        fh_forget(&got);
        fh_forget(&want);
    }
    ph_turn_close(t);
    ph_session_close(s);
    for (int i = 0; i < 5; i++) fh_close(&talk[i]);
    ph_model_close(m);
}

void test_inject_after_others(void) {
    after_others(FH_LLAVA);
    after_others(FH_QWEN2VL);
}
