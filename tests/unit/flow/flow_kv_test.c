/* flow_kv_test.c - what a type of the cache costs in accuracy: logits against those over a cache of F32.
 *
 * The bounds are those that docs/reference/cache.md states: `random` for weights that were drawn and never
 * trained (their attention is nearly flat, the hardest case), `trained` for the built-in model.  Prompts are
 * longer than two pages, so that pages by channel are settled; of an answer, steps count while its ids are
 * the same.
 */
#include "tests/unit/flow/flow_help.h"

#include <math.h>
#include <string.h>

#define LONG                                                                                                 \
    "How many windows does the house have, and is there a red kite above the hill? Name every shape and "    \
    "every colour that you see, from the left to the right, and say which of them are larger than the "      \
    "door of the house. Then tell what the weather is like, how many trees stand behind the fence, and "     \
    "whether the bird on the roof looks at the kite or at the boat on the lake."

static const char *const scene[] = {"scene.png", NULL}, *const two[] = {"scene.png", "second.png", NULL};

static const struct {
    const char        *path;
    const char *const *pictures;
} cases[] = {{FH_SMOLLM2, NULL}, {FH_LLAVA, two},  {FH_IDEFICS3, scene}, {FH_QWEN25VL, two},
             {FH_GEMMA3, scene}, {FH_MLLAMA, two}, {FH_PANEL, scene}};

/* Least cosine and largest error, as a share of the largest logit. */
typedef struct distance {
    double cosine, error;
} distance;

static const struct {
    ph_dtype dtype;
    distance random, trained;
} types[] = {{PH_F16, {1 - 1e-5, 0.005}, {1 - 1e-6, 0.005}},
             {PH_BF16, {1 - 1e-3, 0.05}, {1 - 1e-5, 0.02}},
             {PH_Q8_0, {1 - 1e-3, 0.08}, {1 - 1e-5, 0.05}},
             {PH_Q4_1, {0.85, 0.6}, {1 - 2e-4, 0.15}}};
enum { N_TYPES = sizeof types / sizeof *types };

static void answer(const ph_model *m, ph_dtype kv, const fh_talk *talk, fh_answer *out) {
    ph_err      e = {0};
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 2, .kv_dtype = kv});
    ph_turn    *t = fh_turn(s);
    if (t && fh_drive(t, talk, out, &e)) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
}

static void compare(const float *a, const float *b, size_t n, distance *worst) {
    double aa = 0, bb = 0, ab = 0, off = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i];
        aa += x * x, bb += y * y, ab += x * y;
        off = fmax(off, fabs(x - y)), most = fmax(most, fabs(x));
    }
    worst->cosine = fmin(worst->cosine, ab / sqrt(aa * bb));
    worst->error = fmax(worst->error, off / most);
}

/* The vocabulary's size divides the logits of an answer; the id behind a step is the next one's row. */
static void against(const ph_model *m, const char *name, const fh_talk *talk) {
    fh_answer base = {0};
    size_t    vocab = (size_t)m->spec.text.vocab;
    int       is_trained = !strcmp(name, FH_PANEL);
    answer(m, PH_F32, talk, &base);
    CHECK_SAY(base.prompt >= 130 || is_trained, "%s: a prompt of %d tokens", name, base.prompt);
    for (int i = 0; i < N_TYPES; i++) {
        fh_answer other = {0};
        distance  worst = {1, 0}, bound = is_trained ? types[i].trained : types[i].random;
        size_t    same = 0;
        answer(m, types[i].dtype, talk, &other);
        for (size_t at = 0; (at + 1) * vocab <= base.n_logits && (at + 1) * vocab <= other.n_logits; at++) {
            compare(&base.logits[at * vocab], &other.logits[at * vocab], vocab, &worst);
            same++;
            if (at >= base.n || at >= other.n || base.id[at] != other.id[at]) break;
        }
        printf("  %-46s %-5s %2zu steps, cosine %.7f, error %.5f\n", name, ph_dtype_name(types[i].dtype),
               same, worst.cosine, worst.error);
        CHECK_SAY(same && worst.cosine >= bound.cosine && worst.error <= bound.error,
                  "%s over %s: cosine %g, error %g", name, ph_dtype_name(types[i].dtype), worst.cosine,
                  worst.error);
        fh_forget(&other);
    }
    fh_forget(&base);
}

void test_kv_accuracy(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ph_model *m = fh_model(cases[i].path);
        fh_talk   talk;
        fh_ask(&talk, cases[i].pictures, LONG);
        talk.q.answer_max = 12;
        if (m) against(m, cases[i].path, &talk);
        fh_close(&talk);
        ph_model_close(m);
    }
}
