/* flow_gguf_test.c - a vision-language model as the field's two GGUF files: the same prompt, the same answer,
 * the same logits but for the rounding of weights, as the directory that it was made from. */
#include "tests/unit/flow/flow_help.h"

#include <math.h>
#include <string.h>

static const char *const scene[] = {"scene.png", NULL}, *const two[] = {"second.png", "gray8.png", NULL};

static void answer_of(const ph_model *m, const fh_talk *talk, fh_answer *out, int32_t *prompt, size_t *n) {
    ph_err         e = {0};
    ph_session    *s = fh_session(m, &(ph_session_options){.threads = 2});
    ph_turn       *t = fh_turn(s);
    const int32_t *ids;
    *n = 0;
    if (t && fh_drive(t, talk, out, &e)) fh_say(&e);
    if (t) {
        ids = ph_turn_prompt_ids(t, n);
        memcpy(prompt, ids, *n * sizeof *ids);
    }
    ph_turn_close(t);
    ph_session_close(s);
}

/* The largest difference of the logits after the prompt, against the largest of them. */
static double gap(const fh_answer *a, const fh_answer *b, size_t vocab) {
    double diff = 0, size = 0;
    for (size_t i = 0; i < vocab; i++) {
        diff = fmax(diff, fabs((double)a->logits[i] - (double)b->logits[i]));
        size = fmax(size, fabs((double)a->logits[i]));
    }
    return diff / size;
}

static void held_to_directory(const char *name, const char *const *pictures, double bound) {
    static int32_t prompt[2][4096];
    char           dir[128], file[128], vision[128];
    size_t         n[2];
    ph_err         e = {0};
    ph_model      *m, *g;
    fh_talk        talk;
    fh_answer      want = {0}, got = {0};
    snprintf(dir, sizeof dir, "tests/golden/set/models/%s", name);
    snprintf(file, sizeof file, "tests/golden/gguf/%s.gguf", name);
    snprintf(vision, sizeof vision, "tests/golden/gguf/%s.mmproj.gguf", name);
    const ph_model_options o = {.mmproj = vision};
    m = fh_model(dir);
    if (ph_model_open(&g, file, &o, &e)) fh_say(&e);
    fh_ask(&talk, pictures, "Describe  the colours,\nand 12 shapes of it; na\xc3\xafve?");
    if (m && g) {
        answer_of(m, &talk, &want, prompt[0], &n[0]);
        answer_of(g, &talk, &got, prompt[1], &n[1]);
        int same = n[0] == n[1];
        for (size_t i = 0; same && i < n[0]; i++) same = prompt[0][i] == prompt[1][i];
        CHECK_SAY(same, "%s: another prompt, %zu and %zu ids", name, n[0], n[1]);
        CHECK(got.image == want.image && got.image > 0);
        size_t vocab = (size_t)m->spec.text.vocab;
        if (want.n_logits >= vocab && got.n_logits >= vocab) {
            double off = gap(&want, &got, vocab);
            CHECK_SAY(off <= bound, "%s: logits differ by %g of the largest", name, off);
        }
        CHECK(got.n == want.n && got.id[0] == want.id[0]);
    }
    fh_forget(&want);
    fh_forget(&got);
    fh_close(&talk);
    ph_model_close(m);
    ph_model_close(g);
}

void test_gguf_llava(void) {
    held_to_directory("vlm_llava15", scene, 2e-5); /* stored f16 in both */
    held_to_directory("vlm_llava15", two, 2e-5);
}
void test_gguf_idefics3(void) {
    held_to_directory("vlm_idefics3", scene, 2e-3); /* bf16, rounded to f16 where it is tiny */
    held_to_directory("vlm_idefics3", two, 2e-3);
}
void test_gguf_qwen25vl(void) {
    held_to_directory("vlm_qwen25vl", scene, 2e-3);
    held_to_directory("vlm_qwen25vl", two, 2e-3);
}
